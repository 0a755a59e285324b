/* Rows that work by integer indices. Every index is checked before anything is written. */
#include "backends/reference/index.h"

#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <string.h>

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

static int check_index(const int64_t *indices, int64_t i, int64_t low, int64_t limit, struct eo_error *err)
{
    if (indices[i] >= low && indices[i] < limit)
        return EO_OK;
    return EO_RAISE(err, EO_E_BAD_VALUE, "index %lld at position %lld is outside %lld..%lld", (long long)indices[i],
                    (long long)i, (long long)low, (long long)limit - 1);
}

static int check_indices(const int64_t *indices, int64_t n, int64_t low, int64_t limit, struct eo_error *err)
{
    int rc = EO_OK;
    for (int64_t i = 0; i < n && rc == EO_OK; i++)
        rc = check_index(indices, i, low, limit, err);
    return rc;
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

/* ---- one index per element ---- */

/* A walk over indices; operand 0 is the place in x when coordinate `axis` is 0. */
struct lookup {
    struct walk walk;
    int64_t size, stride; /* of the axis of x */
};

static int lookup_init(struct lookup *t, const struct eo_launch *l, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0], *indices = l->node->in[1];
    int64_t stride[EO_MAX_DIMS];
    int axis = 0;
    int rc =
        eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), x->n_dims, &axis, l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    walk_dense_strides(x, stride);
    t->size = x->shape[axis];
    t->stride = stride[axis];
    stride[axis] = 0;
    walk_init(&t->walk, indices->shape, indices->n_dims);
    walk_strided(&t->walk, stride, 0);
    return check_indices(l->in[1], t->walk.count, -t->size, t->size, err);
}

/* Place in x of the element that index number walk.linear selects. */
static int64_t lookup_place(const struct lookup *t, const int64_t *indices)
{
    int64_t at = indices[t->walk.linear];
    return t->walk.offset[0] + (at < 0 ? at + t->size : at) * t->stride;
}

int reference_gather_elements(const struct eo_launch *l, struct eo_error *err)
{
    struct lookup t;
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    int rc = lookup_init(&t, l, err);
    for (; rc == EO_OK && walk_more(&t.walk); walk_next(&t.walk))
        element_move(l->out[0], t.walk.linear, l->in[0], lookup_place(&t, l->in[1]), size);
    return rc;
}

/* ---- scatters ---- */

/* A reduction other than replace widens x in the workspace, combines it with the updates in order, and rounds once. */
struct scatter {
    const struct eo_launch *l;
    int64_t reduction;
    enum eo_dtype dtype;
    struct element *wide;
};

uint64_t index_workspace(const struct eo_node_view *node)
{
    uint64_t count = (uint64_t)eo_tensor_desc_count(node->out[0]);
    return count > UINT64_MAX / sizeof(struct element) ? UINT64_MAX : count * sizeof(struct element);
}

static void scatter_begin(struct scatter *s, const struct eo_launch *l)
{
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    uint64_t bytes = eo_tensor_desc_bytes(l->node->out[0]);
    *s = (struct scatter){l, eo_attr_int(l->node->op, l->node->attrs, "reduction"),
                          (enum eo_dtype)l->node->out[0]->dtype, l->workspace};
    if (s->reduction == EO_SCATTER_REPLACE) {
        if (bytes > 0 && l->out[0] != l->in[0])
            memcpy(l->out[0], l->in[0], bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        s->wide[i] = element_get(l->in[0], s->dtype, i);
}

static void scatter_end(const struct scatter *s)
{
    int64_t n = s->reduction == EO_SCATTER_REPLACE ? 0 : eo_tensor_desc_count(s->l->node->out[0]);
    for (int64_t i = 0; i < n; i++)
        element_set(s->l->out[0], s->dtype, i, s->wide[i]);
}

/* Floats are combined in their own precision, half types in float32: the float64 result of two float32 values rounds to
 * their float32 result. */
static double combine_floats(double a, double b, int64_t reduction, enum eo_dtype dtype)
{
    double c = reduction == EO_SCATTER_ADD        ? a + b
               : reduction == EO_SCATTER_MULTIPLY ? a * b
               : reduction == EO_SCATTER_MAXIMUM  ? (a > b || isnan(a) ? a : b)
                                                  : (a < b || isnan(a) ? a : b);
    return dtype == EO_FLOAT64 ? c : (double)(float)c;
}

static struct element combine(struct element a, struct element b, int64_t reduction, enum eo_dtype dtype)
{
    if (a.kind == EO_KIND_FLOAT)
        return element_float(combine_floats(a.v.f, b.v.f, reduction, dtype));
    bool less = a.kind == EO_KIND_SIGNED ? a.v.i < b.v.i : a.v.u < b.v.u;
    uint64_t bits = reduction == EO_SCATTER_ADD        ? a.v.u + b.v.u
                    : reduction == EO_SCATTER_MULTIPLY ? a.v.u * b.v.u
                    : reduction == EO_SCATTER_MAXIMUM  ? (less ? b.v.u : a.v.u)
                                                       : (less ? a.v.u : b.v.u);
    return (struct element){a.kind, {.u = bits}};
}

/* Update number `from` meets the element at `to`. */
static void scatter_one(const struct scatter *s, int64_t to, int64_t from)
{
    if (s->reduction == EO_SCATTER_REPLACE)
        element_move(s->l->out[0], to, s->l->in[2], from, eo_dtype_size(s->dtype));
    else
        s->wide[to] = combine(s->wide[to], element_get(s->l->in[2], s->dtype, from), s->reduction, s->dtype);
}

int reference_scatter_elements(const struct eo_launch *l, struct eo_error *err)
{
    struct scatter s;
    struct lookup t;
    int rc = lookup_init(&t, l, err);
    if (rc != EO_OK)
        return rc;
    scatter_begin(&s, l);
    for (; walk_more(&t.walk); walk_next(&t.walk))
        scatter_one(&s, lookup_place(&t, l->in[1]), t.walk.linear);
    scatter_end(&s);
    return EO_OK;
}

/* ---- index tuples ---- */

static int check_tuples(const struct eo_nd_shape *nd, const int64_t *indices, struct eo_error *err)
{
    int64_t n = nd->batch * nd->tuples * nd->n_coords;
    int rc = EO_OK;
    for (int64_t i = 0; i < n && rc == EO_OK; i++)
        rc = check_index(indices, i, -nd->size[i % nd->n_coords], nd->size[i % nd->n_coords], err);
    return rc;
}

/* First element in x of the slice that a tuple (counted over all batches) selects. */
static int64_t tuple_place(const struct eo_nd_shape *nd, const int64_t *indices, int64_t tuple)
{
    int64_t place = tuple / nd->tuples * nd->x_batch;
    for (int c = 0; c < nd->n_coords; c++) {
        int64_t at = indices[tuple * nd->n_coords + c];
        place += (at < 0 ? at + nd->size[c] : at) * nd->stride[c];
    }
    return place;
}

int reference_gather_nd(const struct eo_launch *l, struct eo_error *err)
{
    struct eo_nd_shape nd = eo_nd_shape(l->node->op, l->node->attrs, l->node->in[0], l->node->in[1]);
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    int rc = check_tuples(&nd, l->in[1], err);
    for (int64_t t = 0; rc == EO_OK && t < nd.batch * nd.tuples; t++)
        for (int64_t k = 0; k < nd.slice; k++)
            element_move(l->out[0], t * nd.slice + k, l->in[0], tuple_place(&nd, l->in[1], t) + k, size);
    return rc;
}

int reference_scatter_nd(const struct eo_launch *l, struct eo_error *err)
{
    struct eo_nd_shape nd = eo_nd_shape(l->node->op, l->node->attrs, l->node->in[0], l->node->in[1]);
    struct scatter s;
    int rc = check_tuples(&nd, l->in[1], err);
    if (rc != EO_OK)
        return rc;
    scatter_begin(&s, l);
    for (int64_t t = 0; t < nd.batch * nd.tuples; t++)
        for (int64_t k = 0; k < nd.slice; k++)
            scatter_one(&s, tuple_place(&nd, l->in[1], t) + k, t * nd.slice + k);
    scatter_end(&s);
    return EO_OK;
}

/* ---- results whose shape depends on data ---- */

int reference_nonzero(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *x = l->node->in[0];
    int64_t n = eo_tensor_desc_count(x), count = 0, *out = l->out[0];
    struct walk w;
    for (int64_t i = 0; i < n; i++)
        count += element_cast(element_get(l->in[0], x->dtype, i), EO_BOOL).v.u != 0;
    walk_init(&w, x->shape, x->n_dims);
    for (int64_t at = 0; walk_more(&w); walk_next(&w)) {
        if (element_cast(element_get(l->in[0], x->dtype, w.linear), EO_BOOL).v.u == 0)
            continue;
        for (int d = 0; d < x->n_dims; d++)
            out[d * count + at] = w.index[d];
        at++;
    }
    *l->actual = (struct eo_tensor_desc){.dtype = EO_INT64, .n_dims = 2, .shape = {x->n_dims, count}};
    return EO_OK;
}

int reference_compress(const struct eo_launch *l, struct eo_error *err)
{
    struct around x;
    const uint8_t *condition = l->in[1];
    int64_t n = eo_tensor_desc_count(l->node->in[1]), count = 0, to = 0;
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    int axis = 0, rc = around_axis(l, &x, err);
    if (rc == EO_OK)
        rc = eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), l->node->in[0]->n_dims, &axis,
                               l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    for (int64_t i = 0; i < n; i++)
        count += condition[i] != 0;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < x.inner && condition[i] != 0; k++)
                element_move(l->out[0], to++, l->in[0], (o * x.axis + i) * x.inner + k, size);
    *l->actual = *l->node->out[0];
    l->actual->shape[axis] = count;
    return EO_OK;
}
