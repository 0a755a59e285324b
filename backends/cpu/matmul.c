/* matmul and linear. Three kinds of kernel: register tiles (vector/product_tile.c) for small products and all that no
 * library does, oneDNN for most float32 products, OpenBLAS for the others. Which one runs depends on shapes, dtype and
 * the libraries of the build only; README.md has the rule and the measurement behind it. */
#include "backends/cpu/blas.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/space.h"
#include "proto/shape_rules.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Products up to m n k of this stay on tiles: packing and the call cost OpenBLAS more than it wins (bench/ops.c).
     */
    SMALL_PRODUCT = 64 * 64 * 64,
    /* The same beside oneDNN, whose calls cost less; a product with a vector reads one matrix once. */
    SMALL_BESIDE_ONEDNN = 32 * 64 * 64,
    SMALL_VECTOR = 64 * 64,
    /* oneDNN reads rows of B in place. Where they lie a multiple of 2 KiB apart and there are many of them, they push
     * each other out of the cache, and OpenBLAS, which copies them, is up to 1.5 times as fast. */
    CLASHING_ROWS = 512,
    MANY_ROWS = 256,
    /* Smaller products are not worth waking threads for: oneDNN would do it from a few microseconds on. */
    WORTH_THREADS = 1 << 20,
    VECTOR_WORTH_THREADS = 1 << 18,
    PRODUCT_OF_ONE_THREAD = 256 * 256 * 256, /* of a batch: up to here threads take whole products */
    ROW_PIECE = 48,                          /* rows and columns of a large product that one thread takes at a time */
    COLUMN_PIECE = 256
};

struct matmul {
    struct cpu_node node;
    enum eo_dtype dtype;
    int64_t size;
    bool transpose_a, transpose_b, has_bias;
    int64_t m, k, n;
    int64_t a_row, a_col, b_row, b_col; /* strides of the matrices, in elements */
    struct space batch;                 /* operands 0 and 1: offsets of the matrices of a and b, in elements */
    int64_t n_batch;
    vector_product_fn tile;
    int64_t pieces_m, pieces_n; /* of one product on tiles */
};

struct job {
    const struct matmul *p;
    const struct eo_launch *l;
    atomic_int code; /* of a product that failed in some thread */
};

/* Multiply-adds of one product. */
static double volume(const struct matmul *p)
{
    return (double)p->m * (double)p->n * (double)p->k;
}

static void batch_operands(const struct matmul *p, const struct eo_launch *l, int64_t batch, const char **a,
                           const char **b, char **c)
{
    *a = (const char *)l->in[0] + space_offset(&p->batch, 0, p->batch.n_dims, batch) * p->size;
    *b = (const char *)l->in[1] + space_offset(&p->batch, 1, p->batch.n_dims, batch) * p->size;
    *c = (char *)l->out[0] + batch * p->m * p->n * p->size;
}

/* linear starts from the bias: C rows = bias, then C += A B. */
static void put_bias(const struct matmul *p, const void *bias, char *c, int64_t first, int64_t rows, int64_t column,
                     int64_t columns)
{
    for (int64_t i = first; i < first + rows; i++)
        memcpy(c + (i * p->n + column) * p->size, (const char *)bias + column * p->size, (size_t)(columns * p->size));
}

/* Pieces begin..end-1 of all products of the batch. */
static void tile_pieces(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct matmul *p = j->p;
    int64_t pieces = p->pieces_m * p->pieces_n;
    for (int64_t i = begin; i < end; i++) {
        const char *a, *b;
        char *c;
        batch_operands(p, j->l, i / pieces, &a, &b, &c);
        int64_t pm = i % pieces / p->pieces_n, pn = i % p->pieces_n;
        int64_t row = p->m * pm / p->pieces_m, rows = p->m * (pm + 1) / p->pieces_m - row;
        int64_t column = EO_MIN(pn * COLUMN_PIECE, p->n);
        int64_t columns = pn + 1 == p->pieces_n ? p->n - column : COLUMN_PIECE;
        if (p->has_bias)
            put_bias(p, j->l->in[2], c, row, rows, column, columns);
        struct vector_product v = {.m = rows,
                                   .n = columns,
                                   .k = p->k,
                                   .a = a + row * p->a_row * p->size,
                                   .b = b + column * p->b_col * p->size,
                                   .a_row = p->a_row,
                                   .a_col = p->a_col,
                                   .b_row = p->b_row,
                                   .b_col = p->b_col,
                                   .c = c + (row * p->n + column) * p->size,
                                   .c_row = p->n,
                                   .accumulate = p->has_bias};
        p->tile(&v);
    }
}

/* Sums of nothing: zeros, or the bias. The operands have no elements to point at. */
static void run_without_depth(const struct matmul *p, const struct eo_launch *l)
{
    for (int64_t i = 0; i < p->n_batch; i++) {
        char *c = (char *)l->out[0] + i * p->m * p->n * p->size;
        if (p->has_bias)
            put_bias(p, l->in[2], c, 0, p->m, 0, p->n);
        else
            memset(c, 0, (size_t)(p->m * p->n * p->size));
    }
}

static int run_tiles(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct matmul *p = l->state;
    struct job j = {p, l, EO_OK};
    int64_t pieces = p->pieces_m * p->pieces_n;
    if (p->n_batch * p->m * p->n == 0)
        return EO_OK;
    if (p->k == 0) {
        run_without_depth(p, l);
        return EO_OK;
    }
    /* A multiply-add of a tile costs about a quarter of the unit of parallel.h. */
    int64_t cost = (p->m / p->pieces_m + 1) * (p->n / p->pieces_n + 1) * (p->k + 8) / 4;
    parallel_for(dev->base.info.threads, p->n_batch * pieces, parallel_grain(cost), tile_pieces, &j);
    return EO_OK;
}

static bool is_vector(const struct matmul *p)
{
    return p->m == 1 || p->n == 1;
}

static int multiply_onednn(const struct job *j, int64_t batch, struct eo_error *err)
{
    const struct matmul *p = j->p;
    struct onednn_product d = {.transpose_a = p->transpose_a,
                               .transpose_b = p->transpose_b,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .lda = p->transpose_a ? p->m : p->k,
                               .ldb = p->transpose_b ? p->k : p->n,
                               .ldc = p->n,
                               .accumulate = p->has_bias};
    const char *a, *b;
    char *c;
    batch_operands(p, j->l, batch, &a, &b, &c);
    if (p->has_bias)
        put_bias(p, j->l->in[2], c, 0, p->m, 0, p->n);
    d.a = a;
    d.b = b;
    d.c = c;
    return onednn_multiply(&d, err);
}

/* A batch with a whole product for each thread: inside of a parallel region the library stays on its thread. */
static void multiply_batch(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    struct job *j = context;
    struct eo_error err;
    int rc = EO_OK;
    for (int64_t i = begin; i < end && rc == EO_OK; i++)
        rc = multiply_onednn(j, i, &err);
    if (rc != EO_OK)
        atomic_store(&j->code, rc);
}

static int run_onednn(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct matmul *p = l->state;
    struct job j = {p, l, EO_OK};
    int threads = dev->base.info.threads, rc = EO_OK;
    parallel_set_threads(volume(p) < (is_vector(p) ? VECTOR_WORTH_THREADS : WORTH_THREADS) ? 1 : threads);
    if (p->n_batch >= threads && volume(p) <= PRODUCT_OF_ONE_THREAD) {
        parallel_for(threads, p->n_batch, parallel_grain((int64_t)volume(p) / 4), multiply_batch, &j);
        int code = atomic_load(&j.code);
        return code == EO_OK ? EO_OK : EO_RAISE(err, code, "a product of a batch failed in oneDNN");
    }
    for (int64_t i = 0; i < p->n_batch && rc == EO_OK; i++)
        rc = multiply_onednn(&j, i, err);
    return rc;
}

static int run_blas(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct matmul *p = l->state;
    parallel_set_threads(dev->base.info.threads); /* a small product of oneDNN may have left one */
    struct blas_product b = {.dtype = p->dtype,
                             .transpose_a = p->transpose_a,
                             .transpose_b = p->transpose_b,
                             .m = (int)p->m,
                             .n = (int)p->n,
                             .k = (int)p->k,
                             .lda = (int)(p->transpose_a ? p->m : p->k),
                             .ldb = (int)(p->transpose_b ? p->k : p->n),
                             .ldc = (int)p->n,
                             .accumulate = p->has_bias};
    for (int64_t i = 0; i < p->n_batch; i++) {
        const char *ma, *mb;
        char *mc;
        batch_operands(p, l, i, &ma, &mb, &mc);
        if (p->has_bias)
            put_bias(p, l->in[2], mc, 0, p->m, 0, p->n);
        b.a = ma;
        b.b = mb;
        b.c = mc;
        blas_multiply(&b);
    }
    return EO_OK;
}

/* Batch dimensions of an operand as a tensor of matrices: strides of whole matrices, 0 where it broadcasts. */
static void add_batch(struct space *s, const struct eo_tensor_desc *desc, int64_t matrix)
{
    struct eo_tensor_desc batch = *desc;
    batch.n_dims = (uint8_t)(desc->n_dims > 2 ? desc->n_dims - 2 : 0);
    space_add_broadcast(s, &batch);
    for (int d = 0; d < s->n_dims; d++)
        s->stride[s->n_operands - 1][d] *= matrix;
}

/* (batch, m, k) @ (k, n) with a dense: one product of batch * m rows. */
static void fold_batch_into_rows(struct matmul *p)
{
    const struct space *b = &p->batch;
    bool one_a = !p->transpose_a && b->n_dims == 1 && b->stride[0][0] == p->m * p->k && b->stride[1][0] == 0;
    if (!one_a)
        return;
    p->m *= b->shape[0];
    p->batch.n_dims = 0;
    p->n_batch = 1;
}

static int look_at_shapes(struct matmul *p, const struct eo_node_view *node, struct eo_error *err)
{
    const struct eo_tensor_desc *a = node->in[0], *b = node->in[1];
    struct eo_matmul_shape s;
    if (node->op->op == EO_OP_MATMUL) {
        /* On 1-D operands the flags mean nothing. */
        p->transpose_a = eo_attr_int(node->op, node->attrs, "transpose_a") != 0 && a->n_dims > 1;
        p->transpose_b = eo_attr_int(node->op, node->attrs, "transpose_b") != 0 && b->n_dims > 1;
    }
    p->has_bias = node->op->op == EO_OP_LINEAR;
    int rc = eo_matmul_shape(node->op, a, b, p->transpose_a, p->transpose_b, &s, err);
    if (rc != EO_OK)
        return rc;
    p->m = s.m;
    p->k = s.k;
    p->n = s.n;
    space_init(&p->batch, s.batch, s.n_batch);
    add_batch(&p->batch, a, s.m * s.k);
    add_batch(&p->batch, b, s.k * s.n);
    space_merge(&p->batch);
    p->n_batch = space_count(&p->batch);
    fold_batch_into_rows(p);
    p->a_row = p->transpose_a ? 1 : p->k;
    p->a_col = p->transpose_a ? p->m : 1;
    p->b_row = p->transpose_b ? 1 : p->n;
    p->b_col = p->transpose_b ? p->k : 1;
    return EO_OK;
}

/* NULL when oneDNN takes the product, else why not. */
static const char *why_not_onednn(const struct matmul *p, const struct cpu_device *dev)
{
    if (!dev->has_onednn)
        return onednn_is_compiled() ? "cannot be used" : "is not in this build";
    if (p->dtype != EO_FLOAT32)
        return "takes float32";
    if (volume(p) < (is_vector(p) ? SMALL_VECTOR : SMALL_BESIDE_ONEDNN))
        return "leaves small products to the tiles";
    if (dev->has_blas && !is_vector(p) && !p->transpose_b && p->n % CLASHING_ROWS == 0 && p->k >= MANY_ROWS)
        return "leaves products whose rows clash in the cache to OpenBLAS";
    return NULL;
}

/* NULL when BLAS takes the product, else why not. */
static const char *why_not_blas(const struct matmul *p, const struct cpu_device *dev)
{
    if (p->dtype != EO_FLOAT32 && p->dtype != EO_FLOAT64)
        return "takes float32 and float64";
    if (!dev->has_blas)
        return "is not in this build";
    if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX)
        return "counts in 32 bits";
    if (is_vector(p) || p->k == 0)
        return "leaves products with vectors to the tiles";
    if (volume(p) <= SMALL_PRODUCT)
        return "leaves small products to the tiles";
    return NULL;
}

static void finish_tiles(struct matmul *p, const struct eo_node_view *node, const struct cpu_device *dev,
                         struct eo_kernel *out)
{
    bool small = volume(p) <= SMALL_PRODUCT;
    p->pieces_m = small ? 1 : (p->m + ROW_PIECE - 1) / ROW_PIECE;
    p->pieces_n = small || p->n < COLUMN_PIECE ? 1 : p->n / COLUMN_PIECE;
    p->pieces_m = p->pieces_m < 1 ? 1 : p->pieces_m;
    cpu_node_finish(&p->node, run_tiles, out, "%s.%s.tiles.%s", node->op->name, eo_dtype_name(p->dtype),
                    dev->vec->name);
}

int matmul_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    struct matmul *p = NULL;
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    p->dtype = node->in[0]->dtype;
    p->size = (int64_t)eo_dtype_size(p->dtype);
    p->tile = dev->vec->product[p->dtype];
    rc = look_at_shapes(p, node, err);
    const char *no_blas = why_not_blas(p, dev), *no_onednn = why_not_onednn(p, dev);
    if (rc != EO_OK) {
        free(p);
    } else if (!no_onednn) {
        cpu_node_finish(&p->node, run_onednn, out, "%s.%s.onednn", node->op->name, eo_dtype_name(p->dtype));
    } else if (!no_blas) {
        cpu_node_finish(&p->node, run_blas, out, "%s.%s.openblas", node->op->name, eo_dtype_name(p->dtype));
    } else if (p->tile) {
        finish_tiles(p, node, dev, out);
    } else {
        free(p);
        (void)cpu_decline(why, "matmul.onednn", "%s", no_onednn);
        (void)cpu_decline(why, "matmul.openblas", "%s", no_blas);
        rc = cpu_decline(why, "matmul.tiles", "has no tile for %s", eo_dtype_name(node->in[0]->dtype));
    }
    return rc;
}
