/* Rows that work by integer indices. Every index is checked before anything is written. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "proto/shape_rules.h"

/* x seen as (outer, axis, inner) around the axis that indices count. */
struct around {
    int64_t outer, axis, inner;
};

static int around_axis(const struct eo_launch *l, struct around *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0];
    int axis = 0;
    int rc =
        eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), x->n_dims, &axis, l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    *out = (struct around){1, x->shape[axis], 1};
    for (int d = 0; d < x->n_dims; d++) {
        if (d < axis)
            out->outer *= x->shape[d];
        else if (d > axis)
            out->inner *= x->shape[d];
    }
    return EO_OK;
}

static int check_indices(const int64_t *indices, int64_t n, int64_t low, int64_t limit, struct eo_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (indices[i] < low || indices[i] >= limit)
            return EO_RAISE(err, EO_E_BAD_VALUE, "index %lld at position %lld is outside %lld..%lld",
                            (long long)indices[i], (long long)i, (long long)low, (long long)limit - 1);
    }
    return EO_OK;
}

int reference_gather(const struct eo_launch *l, struct eo_error *err)
{
    struct around x;
    const int64_t *indices = l->in[1];
    int64_t n = eo_tensor_desc_count(l->node->in[1]);
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    int rc = around_axis(l, &x, err);
    if (rc == EO_OK)
        rc = check_indices(indices, n, -x.axis, x.axis, err);
    if (rc != EO_OK)
        return rc;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = indices[i] < 0 ? indices[i] + x.axis : indices[i];
            for (int64_t k = 0; k < x.inner; k++)
                element_move(l->out[0], (o * n + i) * x.inner + k, l->in[0], (o * x.axis + at) * x.inner + k, size);
        }
    return EO_OK;
}

/* Additions to one element happen in index order; floats add up in float64 and are rounded once. The sums are found by
 * looking through all indices for each element of the axis: slow, and plainly right. */
static void add_column(const struct eo_launch *l, struct around x, int64_t o, int64_t at, int64_t k)
{
    const int64_t *indices = l->in[1];
    int64_t n = eo_tensor_desc_count(l->node->in[1]);
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t place = (o * x.axis + at) * x.inner + k;
    struct element total = element_get(l->in[0], dtype, place);
    for (int64_t i = 0; i < n; i++) {
        if (indices[i] != at && indices[i] + x.axis != at)
            continue;
        struct element e = element_get(l->in[2], dtype, (o * n + i) * x.inner + k);
        if (e.kind == EO_KIND_FLOAT)
            total.v.f += e.v.f;
        else if (e.kind == EO_KIND_SIGNED)
            total.v.i = (int64_t)((uint64_t)total.v.i + (uint64_t)e.v.i);
        else
            total.v.u += e.v.u;
    }
    element_set(l->out[0], dtype, place, total);
}

int reference_scatter_add(const struct eo_launch *l, struct eo_error *err)
{
    struct around x;
    int rc = around_axis(l, &x, err);
    if (rc == EO_OK)
        rc = check_indices(l->in[1], eo_tensor_desc_count(l->node->in[1]), -x.axis, x.axis, err);
    if (rc != EO_OK)
        return rc;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t at = 0; at < x.axis; at++)
            for (int64_t k = 0; k < x.inner; k++)
                add_column(l, x, o, at, k);
    return EO_OK;
}

int reference_one_hot(const struct eo_launch *l, struct eo_error *err)
{
    const int64_t *indices = l->in[0];
    int64_t n = eo_tensor_desc_count(l->node->in[0]), depth = eo_attr_int(l->node->op, l->node->attrs, "depth");
    enum eo_dtype dtype = l->node->out[0]->dtype;
    struct element zero = element_from_double(0, dtype), one = element_from_double(1, dtype);
    int rc = check_indices(indices, n, 0, depth, err);
    if (rc != EO_OK)
        return rc;
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < depth; d++)
            element_set(l->out[0], dtype, i * depth + d, d == indices[i] ? one : zero);
    return EO_OK;
}
