#include "backends/cpu/reduce.h"

#include "backends/cpu/space.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reduce_push(struct reduce_cascade *c, double value)
{
    int level = 0;
    for (uint64_t n = c->n++; n & 1; n >>= 1)
        value = c->level[level++] + value;
    c->level[level] = value;
}

double reduce_total(const struct reduce_cascade *c)
{
    double total = 0;
    bool some = false;
    for (int level = 0; level < 48; level++) {
        if (!(c->n >> level & 1))
            continue;
        total = some ? c->level[level] + total : c->level[level];
        some = true;
    }
    return total;
}

int64_t reduce_offset(const struct reduce_dims *d, int64_t index)
{
    int64_t offset = 0;
    for (int i = d->n - 1; i > 0; i--) {
        offset += index % d->shape[i] * d->stride[i];
        index /= d->shape[i];
    }
    return d->n > 0 ? offset + index * d->stride[0] : 0;
}

void reduce_better(const struct reduce *r, void *best, const void *other)
{
    if (r->kind == REDUCE_MAX)
        r->vec->max_columns(1, best, other);
    else
        r->vec->min_columns(1, best, other);
}

void reduce_join(const struct reduce *r, union reduce_cell *total, const union reduce_cell *part)
{
    if (reduce_is_extreme(r))
        reduce_better(r, total, part);
    else if (r->kind == REDUCE_PROD && r->is_float)
        total->f *= part->f;
    else if (r->kind == REDUCE_PROD)
        total->i = (int64_t)((uint64_t)total->i * (uint64_t)part->i);
    else
        total->i = (int64_t)((uint64_t)total->i + (uint64_t)part->i);
}

void reduce_finish(const struct reduce *r, void *out, int64_t o, union reduce_cell cell)
{
    char *to = (char *)out + o * r->size;
    if (r->dtype == EO_BOOL) {
        *to = cell.bytes[0] != 0;
        return;
    }
    if (reduce_is_extreme(r) || !r->is_float) { /* little-endian: the low bytes of an integer come first */
        memcpy(to, cell.bytes, (size_t)r->size);
        return;
    }
    double value = cell.f;
    if (r->op == EO_OP_MEAN)
        value /= (double)r->n_folded;
    else if (r->op == EO_OP_VARIANCE)
        value /= r->divisor;
    else if (r->op == EO_OP_L2_NORM)
        value = sqrt(value);
    if (r->dtype == EO_FLOAT64)
        memcpy(to, &value, sizeof value);
    else
        *(float *)(void *)to = (float)value;
}

/* Which dimensions of x fold. Rows with `axis` fold one. */
static int folded_dims(const struct eo_node_view *node, bool out[EO_MAX_DIMS], struct eo_error *err)
{
    const struct eo_tensor_desc *x = node->in[0];
    int axes[EO_MAX_DIMS] = {0}, n = 1, rc = EO_OK;
    if (eo_attr_index(node->op, "axes") >= 0) {
        int n_wanted = 0;
        const int64_t *wanted = eo_attr_ints(node->op, node->attrs, "axes", &n_wanted);
        rc = eo_normalize_axes(wanted, n_wanted, x->n_dims, axes, &n, node->op->name, err);
    } else {
        rc = eo_normalize_axis(eo_attr_int(node->op, node->attrs, "axis"), x->n_dims, axes, node->op->name, err);
    }
    for (int i = 0; rc == EO_OK && i < n; i++)
        out[axes[i]] = true;
    return rc;
}

static void push_dim(struct reduce_dims *d, int64_t shape, int64_t stride)
{
    d->shape[d->n] = shape;
    d->stride[d->n++] = stride;
    d->count *= shape;
}

/* Merges neighbours of one kind and splits them into the two sides and the inner dimension. */
static void lay_out(struct reduce *r, const struct eo_tensor_desc *x, const bool folded[EO_MAX_DIMS])
{
    int64_t shape[EO_MAX_DIMS], stride[EO_MAX_DIMS], dense[EO_MAX_DIMS];
    bool kind[EO_MAX_DIMS];
    int n = 0;
    space_dense_strides(x, dense);
    r->kept.count = r->folded.count = r->n_out = r->n_folded = r->inner = 1;
    for (int d = 0; d < x->n_dims; d++) {
        *(folded[d] ? &r->n_folded : &r->n_out) *= x->shape[d];
        if (x->shape[d] == 1)
            continue;
        if (n > 0 && kind[n - 1] == folded[d]) {
            shape[n - 1] *= x->shape[d];
            stride[n - 1] = dense[d];
            continue;
        }
        kind[n] = folded[d];
        shape[n] = x->shape[d];
        stride[n++] = dense[d];
    }
    for (int d = 0; d < n - 1; d++)
        push_dim(kind[d] ? &r->folded : &r->kept, shape[d], stride[d]);
    if (n > 0) {
        r->inner = shape[n - 1];
        r->inner_folded = kind[n - 1];
    }
}

static bool is_mean(enum eo_op op)
{
    return op == EO_OP_MEAN || op == EO_OP_VARIANCE;
}

/* Results of folding nothing: 0, NaN where a mean is involved, 1 for products and "all". */
static int run_empty(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)dev;
    (void)err;
    const struct reduce *r = l->state;
    union reduce_cell cell = {.i = r->kind == REDUCE_PROD || r->op == EO_OP_ALL ? 1 : 0};
    if (r->is_float)
        cell.f = is_mean(r->op) ? (double)NAN : (double)cell.i;
    for (int64_t o = 0; o < r->n_out; o++)
        reduce_finish(r, l->out[0], o, cell);
    return EO_OK;
}

static enum reduce_kind kind_of(enum eo_op op)
{
    switch (op) {
    case EO_OP_PROD:
        return REDUCE_PROD;
    case EO_OP_SUM_SQUARE:
    case EO_OP_L2_NORM:
        return REDUCE_SQUARES;
    case EO_OP_MAX:
    case EO_OP_ANY:
        return REDUCE_MAX;
    case EO_OP_MIN:
    case EO_OP_ALL:
        return REDUCE_MIN;
    case EO_OP_ARG_MAX:
    case EO_OP_ARG_MIN:
        return REDUCE_ARG;
    default:
        return REDUCE_SUM;
    }
}

/* NULL, or why there is no kernel. */
static const char *why_not(const struct vector_reduce *v, enum eo_op op, enum eo_dtype dtype)
{
    if (op == EO_OP_L2_NORM && dtype == EO_FLOAT64)
        return "leaves float64, whose squares overflow, to the lowering";
    if (kind_of(op) == REDUCE_SQUARES)
        return v->sum_squares ? NULL : "takes floats";
    return v->max ? NULL : "has no loop for this dtype";
}

static int prepare(struct reduce *r, const struct cpu_device *dev, const struct eo_node_view *node,
                   struct eo_kernel *out, struct eo_error *err)
{
    bool folded[EO_MAX_DIMS] = {false};
    int rc = folded_dims(node, folded, err);
    if (rc != EO_OK)
        return rc;
    r->op = node->op->op;
    r->kind = kind_of(r->op);
    r->last = r->kind == REDUCE_ARG && eo_attr_int(node->op, node->attrs, "last") != 0;
    r->dtype = node->in[0]->dtype;
    r->size = (int64_t)eo_dtype_size(r->dtype);
    r->is_float = eo_dtype_kind(r->dtype) == EO_KIND_FLOAT;
    r->vec = &(*dev->vec->reduce)[r->dtype];
    lay_out(r, node->in[0], folded);
    if (r->op == EO_OP_VARIANCE) {
        int64_t correction = eo_attr_int(node->op, node->attrs, "correction");
        r->divisor = r->n_folded > correction ? (double)(r->n_folded - correction) : 0;
    }
    bool empty = r->n_folded == 0 || r->n_out == 0;
    if (!empty && r->inner_folded)
        reduce_plan_rows(r, &out->workspace_bytes);
    else if (!empty)
        reduce_plan_columns(r, &out->workspace_bytes);
    cpu_node_finish(&r->node,
                    empty             ? run_empty
                    : r->inner_folded ? reduce_run_rows
                                      : reduce_run_columns,
                    out, "%s.%s.%s.%s", node->op->name, eo_dtype_name(r->dtype), r->inner_folded ? "rows" : "columns",
                    dev->vec->name);
    return EO_OK;
}

int reduce_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    struct reduce *r = NULL;
    enum eo_dtype dtype = (enum eo_dtype)node->in[0]->dtype;
    const char *no = why_not(&(*dev->vec->reduce)[dtype], node->op->op, dtype);
    if (no)
        return cpu_decline(why, node->op->name, "%s", no);
    int rc = cpu_node_new(sizeof *r, &r, err);
    if (rc == EO_OK)
        rc = prepare(r, dev, node, out, err);
    if (rc != EO_OK)
        free(r);
    return rc;
}
