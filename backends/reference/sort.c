/* sort and top_k: each line along the axis is ordered by value, then by index. NaN is above all numbers. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <stdlib.h>

struct entry {
    struct element value;
    int64_t index;
};

static int compare_values(struct element a, struct element b)
{
    if (a.kind == EO_KIND_FLOAT) {
        if (isnan(a.v.f) || isnan(b.v.f))
            return (isnan(a.v.f) ? 1 : 0) - (isnan(b.v.f) ? 1 : 0);
        return (a.v.f > b.v.f) - (a.v.f < b.v.f);
    }
    if (a.kind == EO_KIND_SIGNED)
        return (a.v.i > b.v.i) - (a.v.i < b.v.i);
    return (a.v.u > b.v.u) - (a.v.u < b.v.u);
}

/* context: whether larger values come first. Equal ones stay in the order of their indices either way. */
static int compare_entries(const void *a, const void *b, void *context)
{
    const struct entry *x = a, *y = b;
    int order = compare_values(x->value, y->value);
    if (order != 0)
        return *(const bool *)context ? -order : order;
    return (x->index > y->index) - (x->index < y->index);
}

/* The first `take` entries of the line that starts at offset `first` of x, to offset `to` of both results. */
static void order_line(const struct eo_launch *l, struct entry *entries, int64_t n, int64_t stride, int64_t first,
                       int64_t take, int64_t to, bool descending)
{
    enum eo_dtype dtype = (enum eo_dtype)l->node->in[0]->dtype;
    for (int64_t i = 0; i < n; i++)
        entries[i] = (struct entry){element_get(l->in[0], dtype, first + i * stride), i};
    qsort_r(entries, (size_t)n, sizeof *entries, compare_entries, &descending);
    for (int64_t i = 0; i < take; i++) {
        element_move(l->out[0], to + i * stride, l->in[0], first + entries[i].index * stride, eo_dtype_size(dtype));
        ((int64_t *)l->out[1])[to + i * stride] = entries[i].index;
    }
}

static int order(const struct eo_launch *l, bool descending, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0], *y = l->node->out[0];
    int axis = 0;
    int rc =
        eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), x->n_dims, &axis, l->node->op->name, err);
    if (rc != EO_OK || eo_tensor_desc_count(y) == 0)
        return rc;
    int64_t n = x->shape[axis], take = y->shape[axis], inner = 1;
    for (int d = axis + 1; d < x->n_dims; d++)
        inner *= x->shape[d];
    struct entry *entries = malloc((size_t)n * sizeof *entries);
    if (!entries)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to order %lld elements", (long long)n);
    int64_t lines = eo_tensor_desc_count(x) / n;
    for (int64_t line = 0; line < lines; line++) {
        int64_t o = line / inner, i = line % inner;
        order_line(l, entries, n, inner, o * n * inner + i, take, o * take * inner + i, descending);
    }
    free(entries);
    return EO_OK;
}

int reference_sort(const struct eo_launch *l, struct eo_error *err)
{
    return order(l, eo_attr_int(l->node->op, l->node->attrs, "descending") != 0, err);
}

int reference_top_k(const struct eo_launch *l, struct eo_error *err)
{
    return order(l, eo_attr_int(l->node->op, l->node->attrs, "largest") != 0, err);
}
