/* Matrix products as three plain loops. The operands are widened into the workspace first (floats to float64, integers
 * to 64 bits), so that the loops read one type. */
#include "backends/reference/matmul.h"
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"
#include "proto/shape_rules.h"

union wide {
    double f;
    uint64_t u;
};

uint64_t matmul_workspace(const struct eo_node_view *node)
{
    uint64_t n = 0;
    for (int i = 0; i < 2; i++)
        n += (uint64_t)eo_tensor_desc_count(node->in[i]);
    return n * sizeof(union wide);
}

static void widen(union wide *out, const void *data, const struct eo_tensor_desc *desc)
{
    int64_t n = eo_tensor_desc_count(desc);
    for (int64_t i = 0; i < n; i++) {
        struct element e = element_get(data, desc->dtype, i);
        if (e.kind == EO_KIND_FLOAT)
            out[i].f = e.v.f;
        else
            out[i].u = e.kind == EO_KIND_SIGNED ? (uint64_t)e.v.i : e.v.u;
    }
}

/* A (rows, cols) matrix inside an operand: strides of the last two dimensions after the transpose. */
struct side {
    const union wide *data;
    int64_t row, col;
};

static struct side side_of(const union wide *data, const struct eo_tensor_desc *desc, bool transposed, bool is_a)
{
    int n = desc->n_dims;
    if (n == 1) /* a is (1, k), b is (k, 1) */
        return is_a ? (struct side){data, 0, 1} : (struct side){data, 1, 0};
    int64_t width = desc->shape[n - 1];
    return transposed ? (struct side){data, 1, width} : (struct side){data, width, 1};
}

static struct element dot(struct side a, struct side b, int64_t k, enum eo_dtype_kind kind)
{
    if (kind == EO_KIND_FLOAT) {
        double total = 0;
        for (int64_t p = 0; p < k; p++)
            total += a.data[p * a.col].f * b.data[p * b.row].f;
        return element_float(total);
    }
    uint64_t total = 0;
    for (int64_t p = 0; p < k; p++)
        total += a.data[p * a.col].u * b.data[p * b.row].u;
    return element_signed((int64_t)total);
}

/* One (m,k) @ (k,n) product. */
static void product(const struct eo_matmul_shape *s, struct side a, struct side b, void *out, int64_t first,
                    enum eo_dtype dtype)
{
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            struct side row = {a.data + i * a.row, a.row, a.col}, col = {b.data + j * b.col, b.row, b.col};
            element_set(out, dtype, first + i * s->n + j, dot(row, col, s->k, eo_dtype_kind(dtype)));
        }
}

/* The batch dimensions of an operand as a descriptor whose elements are matrices. */
static struct eo_tensor_desc batch_of(const struct eo_tensor_desc *desc)
{
    struct eo_tensor_desc batch = *desc;
    batch.n_dims = (uint8_t)(desc->n_dims > 2 ? desc->n_dims - 2 : 0);
    return batch;
}

static int64_t matrix_size(const struct eo_tensor_desc *desc)
{
    int n = desc->n_dims;
    return n < 2 ? desc->shape[0] : desc->shape[n - 2] * desc->shape[n - 1];
}

static void all_products(const struct eo_launch *l, const struct eo_matmul_shape *s, bool transpose_a, bool transpose_b)
{
    const struct eo_tensor_desc *da = l->node->in[0], *db = l->node->in[1];
    struct eo_tensor_desc batch_a = batch_of(da), batch_b = batch_of(db);
    union wide nothing, *a = l->workspace ? l->workspace : &nothing; /* k can be 0 */
    union wide *b = a + eo_tensor_desc_count(da);
    widen(a, l->in[0], da);
    widen(b, l->in[1], db);
    struct walk w;
    walk_init(&w, s->batch, s->n_batch);
    walk_broadcast(&w, &batch_a);
    walk_broadcast(&w, &batch_b);
    for (; walk_more(&w); walk_next(&w)) {
        struct side side_a = side_of(a + w.offset[0] * matrix_size(da), da, transpose_a, true);
        struct side side_b = side_of(b + w.offset[1] * matrix_size(db), db, transpose_b, false);
        product(s, side_a, side_b, l->out[0], w.linear * s->m * s->n, da->dtype);
    }
}

int reference_matmul(const struct eo_launch *l, struct eo_error *err)
{
    bool transpose_a = eo_attr_int(l->node->op, l->node->attrs, "transpose_a") != 0;
    bool transpose_b = eo_attr_int(l->node->op, l->node->attrs, "transpose_b") != 0;
    struct eo_matmul_shape s;
    int rc = eo_matmul_shape(l->node->op, l->node->in[0], l->node->in[1], transpose_a, transpose_b, &s, err);
    if (rc == EO_OK)
        all_products(l, &s, transpose_a, transpose_b);
    return rc;
}
