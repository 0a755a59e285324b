/* softmax, log_softmax and cross_entropy: exponentials of x minus the largest of its row. Sums run in float64.
 * x is seen as (outer, axis, inner). With inner == 1 rows are contiguous: long ones go through one by one, short ones
 * are turned into columns; otherwise tiles of columns run along the axis together. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 1024, /* elements of a block of rows, a chunk of a long row */
    TILE = 256,   /* columns */
    /* Rows up to this long are turned into columns, as many as a transposed tile has: alone they leave the vectors half
     * empty. */
    TURNED_AXIS = 64,
    TURNED_ROWS = 64
};

struct softmax {
    struct cpu_node node;
    enum eo_op op;
    enum eo_dtype dtype;
    int64_t size, outer, axis, inner;
    const struct vector_reduce *vec;
    const struct vector_block *block;
    vector_map_fn exp, subtract, divide;
};

struct job {
    const struct softmax *s;
    const struct eo_launch *l;
};

static double as_double(const struct softmax *s, const void *value)
{
    return s->dtype == EO_FLOAT64 ? *(const double *)value : (double)*(const float *)value;
}

static void exp_block(const struct softmax *s, int64_t n, void *out, const void *x)
{
    s->exp(n, out, (const void *const[]){x}, 0, NULL);
}

/* exp(x - largest) of part of a row. */
static void exp_row(const struct softmax *s, int64_t n, void *out, const void *x, double largest)
{
    if (s->block->exp_row[s->dtype]) {
        s->block->exp_row[s->dtype](n, out, x, largest);
        return;
    }
    s->vec->shift(n, out, x, largest);
    exp_block(s, n, out, out);
}

/* exp(x - largest) where each column has a largest of its own. */
static void exp_columns(const struct softmax *s, int64_t n, void *out, const void *x, const void *largest)
{
    if (s->block->exp_columns[s->dtype]) {
        s->block->exp_columns[s->dtype](n, out, x, largest);
        return;
    }
    s->subtract(n, out, (const void *const[]){x, largest}, 0, NULL);
    exp_block(s, n, out, out);
}

/* Sum of exp(x - largest) over one row of any length; exponentials go to out, or nowhere when out is NULL. */
static double row_sum(const struct softmax *s, char *out, const char *x, double largest)
{
    double buffer[BLOCK], total = 0;
    for (int64_t first = 0; first < s->axis; first += BLOCK) {
        int64_t n = EO_MIN(s->axis - first, BLOCK);
        char *to = out ? out + first * s->size : (char *)buffer;
        exp_row(s, n, to, x + first * s->size, largest);
        total += s->vec->sum(n, to);
    }
    return total;
}

static double row_largest(const struct softmax *s, const char *x)
{
    double cell = 0;
    s->vec->max(s->axis, x, &cell);
    return as_double(s, &cell);
}

/* Loss of row `row` from its logits: log of the sum minus the target's share. */
static void put_loss(const struct job *j, int64_t row, const char *x, double largest, double total)
{
    const struct softmax *s = j->s;
    int64_t target = ((const int64_t *)j->l->in[1])[row];
    double loss = log(total) - (as_double(s, x + target * s->size) - largest);
    if (s->dtype == EO_FLOAT64)
        ((double *)j->l->out[0])[row] = loss;
    else
        ((float *)j->l->out[0])[row] = (float)loss;
}

static void finish_row(const struct job *j, int64_t row, char *out, const char *x, double largest, double total)
{
    const struct softmax *s = j->s;
    if (s->op == EO_OP_SOFTMAX)
        s->vec->scale(s->axis, out, out, total);
    else if (s->op == EO_OP_LOG_SOFTMAX)
        s->vec->shift(s->axis, out, x, largest + log(total));
    else
        put_loss(j, row, x, largest, total);
}

/* Long rows: one by one. */
static void long_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct softmax *s = j->s;
    for (int64_t row = begin; row < end; row++) {
        const char *x = (const char *)j->l->in[0] + row * s->axis * s->size;
        char *out = s->op == EO_OP_CROSS_ENTROPY ? NULL : (char *)j->l->out[0] + row * s->axis * s->size;
        double largest = row_largest(s, x);
        double total = row_sum(s, s->op == EO_OP_SOFTMAX ? out : NULL, x, largest);
        finish_row(j, row, out, x, largest, total);
    }
}

/* Sums in float64 to the dtype of the result. */
static void narrow(const struct softmax *s, int64_t n, void *out, const double *x)
{
    if (s->dtype == EO_FLOAT64)
        memcpy(out, x, (size_t)n * sizeof *x);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] = (float)x[i];
}

/* n columns, one element per `step` bytes along the axis: the largest of each, exponentials, sums, results. out is not
 * written for cross_entropy; largest and total have room for n. */
static void column_tile(const struct softmax *s, int64_t n, int64_t step, char *out, const char *x, double *largest,
                        double *total)
{
    double e[TILE], share[TILE];
    memset(total, 0, (size_t)n * sizeof *total);
    memcpy(largest, x, (size_t)(n * s->size));
    for (int64_t a = 1; a < s->axis; a++)
        s->vec->max_columns(n, largest, x + a * step);
    for (int64_t a = 0; a < s->axis; a++) {
        void *to = s->op == EO_OP_SOFTMAX ? (void *)(out + a * step) : e;
        exp_columns(s, n, to, x + a * step, largest);
        s->vec->sum_columns(n, total, to);
    }
    if (s->op == EO_OP_CROSS_ENTROPY)
        return;
    for (int64_t c = 0; s->op == EO_OP_LOG_SOFTMAX && c < n; c++)
        total[c] = log(total[c]);
    narrow(s, n, share, total);
    for (int64_t a = 0; a < s->axis; a++) {
        char *to = out + a * step;
        if (s->op == EO_OP_SOFTMAX) {
            s->divide(n, to, (const void *const[]){to, share}, 0, NULL);
        } else {
            s->subtract(n, to, (const void *const[]){x + a * step, largest}, 0, NULL);
            s->subtract(n, to, (const void *const[]){to, share}, 0, NULL);
        }
    }
}

static void column_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct softmax *s = j->s;
    double largest[TILE], total[TILE];
    int64_t tiles = (s->inner + TILE - 1) / TILE;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % tiles * TILE, offset = (i / tiles * s->axis * s->inner + first) * s->size;
        column_tile(s, EO_MIN(s->inner - first, TILE), s->inner * s->size, (char *)j->l->out[0] + offset,
                    (const char *)j->l->in[0] + offset, largest, total);
    }
}

/* Rows row..row+n-1 (n <= TURNED_ROWS), turned into columns and back. */
static void turned_block(const struct job *j, int64_t row, int64_t n)
{
    const struct softmax *s = j->s;
    double turned[TURNED_AXIS * TURNED_ROWS], largest[TURNED_ROWS], total[TURNED_ROWS];
    int64_t row_bytes = s->axis * s->size;
    const char *x = (const char *)j->l->in[0] + row * row_bytes;
    int kind = s->size == 4 ? 2 : 3;
    s->block->tile[kind](s->axis, n, turned, n, x, s->axis, false);
    column_tile(s, n, n * s->size, (char *)turned, (const char *)turned, largest, total);
    if (s->op != EO_OP_CROSS_ENTROPY) {
        s->block->tile[kind](n, s->axis, (char *)j->l->out[0] + row * row_bytes, s->axis, turned, n, false);
        return;
    }
    for (int64_t r = 0; r < n; r++)
        put_loss(j, row + r, x + r * row_bytes, as_double(s, (const char *)largest + r * s->size), total[r]);
}

static void turned_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    for (int64_t row = begin; row < end; row += TURNED_ROWS)
        turned_block(j, row, EO_MIN(end - row, TURNED_ROWS));
}

static int check_targets(const struct softmax *s, const int64_t *targets, struct eo_error *err)
{
    for (int64_t n = 0; n < s->outer; n++) {
        if (targets[n] < 0 || targets[n] >= s->axis)
            return EO_RAISE(err, EO_E_BAD_VALUE, "target %lld of row %lld is outside 0..%lld", (long long)targets[n],
                            (long long)n, (long long)s->axis - 1);
    }
    return EO_OK;
}

static int softmax_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct softmax *s = l->state;
    struct job j = {s, l};
    int threads = dev->base.info.threads, rc = EO_OK;
    if (s->op == EO_OP_CROSS_ENTROPY)
        rc = check_targets(s, l->in[1], err);
    if (rc != EO_OK || s->outer * s->axis * s->inner == 0)
        return rc;
    enum { COST = 16 }; /* units of parallel.h per element */
    if (s->inner > 1)
        parallel_for(threads, s->outer * ((s->inner + TILE - 1) / TILE),
                     parallel_grain(COST * s->axis * EO_MIN(s->inner, TILE)), column_tiles, &j);
    else
        parallel_for(threads, s->outer, parallel_grain(COST * s->axis),
                     s->axis <= TURNED_AXIS ? turned_rows : long_rows, &j);
    return EO_OK;
}

static int look_along_axis(struct softmax *s, const struct eo_node_view *node, struct eo_error *err)
{
    const struct eo_tensor_desc *x = node->in[0];
    int axis = 1;
    if (s->op != EO_OP_CROSS_ENTROPY) {
        int rc = eo_normalize_axis(eo_attr_int(node->op, node->attrs, "axis"), x->n_dims, &axis, node->op->name, err);
        if (rc != EO_OK)
            return rc;
    }
    s->outer = s->inner = 1;
    s->axis = x->shape[axis];
    for (int d = 0; d < x->n_dims; d++) {
        if (d < axis)
            s->outer *= x->shape[d];
        else if (d > axis)
            s->inner *= x->shape[d];
    }
    return EO_OK;
}

int softmax_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                   struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_dtype dtype = node->in[0]->dtype;
    struct softmax *s = NULL;
    if (!(*dev->vec->math)[EO_OP_EXP][dtype])
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name(dtype));
    int rc = cpu_node_new(sizeof *s, &s, err);
    if (rc != EO_OK)
        return rc;
    s->op = node->op->op;
    s->dtype = dtype;
    s->size = (int64_t)eo_dtype_size(dtype);
    s->vec = &(*dev->vec->reduce)[dtype];
    s->block = dev->vec->block;
    s->exp = (*dev->vec->math)[EO_OP_EXP][dtype];
    s->subtract = (*dev->vec->elementwise)[EO_OP_SUBTRACT][dtype];
    s->divide = (*dev->vec->elementwise)[EO_OP_DIVIDE][dtype];
    rc = look_along_axis(s, node, err);
    if (rc != EO_OK) {
        free(s);
        return rc;
    }
    cpu_node_finish(&s->node, softmax_run, out, "%s.%s.%s.%s", node->op->name, eo_dtype_name(dtype),
                    s->inner > 1 ? "columns" : "rows", dev->vec->name);
    /* No element of x is read again once its result is written. */
    out->in_place = s->op == EO_OP_CROSS_ENTROPY ? 0 : 1;
    return EO_OK;
}
