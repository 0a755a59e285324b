/* Rows that move elements: one element at a time, through the geometry that proto/shape_rules.h works out. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"
#include "proto/shape_rules.h"

#include <string.h>

int reference_reshape(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    uint64_t bytes = eo_tensor_desc_bytes(l->node->out[0]);
    if (bytes > 0 && l->out[0] != l->in[0])
        memcpy(l->out[0], l->in[0], bytes);
    return EO_OK;
}

/* Fills the output from x, whose element for each output element the walk knows. */
static int move_all(const struct eo_launch *l, struct walk *w)
{
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    for (; walk_more(w); walk_next(w))
        element_move(l->out[0], w->linear, l->in[0], w->offset[0], size);
    return EO_OK;
}

int reference_transpose(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *x = l->node->in[0], *y = l->node->out[0];
    int n_perm = 0;
    const int64_t *perm = eo_attr_ints(l->node->op, l->node->attrs, "perm", &n_perm);
    int64_t dense[EO_MAX_DIMS], stride[EO_MAX_DIMS];
    walk_dense_strides(x, dense);
    for (int d = 0; d < x->n_dims; d++)
        stride[d] = dense[n_perm > 0 ? perm[d] : x->n_dims - 1 - d];
    struct walk w;
    walk_init(&w, y->shape, y->n_dims);
    walk_strided(&w, stride, 0);
    return move_all(l, &w);
}

int reference_expand(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    struct walk w;
    walk_init(&w, l->node->out[0]->shape, l->node->out[0]->n_dims);
    walk_broadcast(&w, l->node->in[0]);
    return move_all(l, &w);
}

int reference_concatenate(const struct eo_launch *l, struct eo_error *err)
{
    const struct eo_tensor_desc *y = l->node->out[0];
    int axis = 0;
    int rc =
        eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), y->n_dims, &axis, l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    int64_t stride[EO_MAX_DIMS], before = 0;
    size_t size = eo_dtype_size(y->dtype);
    walk_dense_strides(y, stride);
    for (int i = 0; i < l->node->n_in; i++) {
        struct walk w;
        walk_init(&w, l->node->in[i]->shape, l->node->in[i]->n_dims);
        walk_strided(&w, stride, before * stride[axis]);
        for (; walk_more(&w); walk_next(&w))
            element_move(l->out[0], w.offset[0], l->in[i], w.linear, size);
        before += l->node->in[i]->shape[axis];
    }
    return EO_OK;
}

/* A walk over the elements of the slice; operand 0 is their place in x. */
static int slice_walk(const struct eo_launch *l, struct walk *w, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0];
    struct eo_slice_dim dims[EO_MAX_DIMS];
    int rc = eo_slice_dims(l->node->op, l->node->attrs, x, dims, err);
    if (rc != EO_OK)
        return rc;
    int64_t dense[EO_MAX_DIMS], stride[EO_MAX_DIMS], shape[EO_MAX_DIMS], first = 0;
    walk_dense_strides(x, dense);
    for (int d = 0; d < x->n_dims; d++) {
        shape[d] = dims[d].count;
        /* The step of a slice of one element can be any number; it is never taken. */
        stride[d] = dims[d].count > 1 ? dims[d].step * dense[d] : 0;
        first += dims[d].count > 0 ? dims[d].first * dense[d] : 0;
    }
    walk_init(w, shape, x->n_dims);
    walk_strided(w, stride, first);
    return EO_OK;
}

int reference_slice(const struct eo_launch *l, struct eo_error *err)
{
    struct walk w;
    int rc = slice_walk(l, &w, err);
    return rc == EO_OK ? move_all(l, &w) : rc;
}

int reference_slice_scatter(const struct eo_launch *l, struct eo_error *err)
{
    struct walk w;
    int rc = slice_walk(l, &w, err);
    if (rc != EO_OK)
        return rc;
    rc = reference_reshape(l, err);
    size_t size = eo_dtype_size(l->node->out[0]->dtype);
    for (; rc == EO_OK && walk_more(&w); walk_next(&w))
        element_move(l->out[0], w.offset[0], l->in[1], w.linear, size);
    return rc;
}
