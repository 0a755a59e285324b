/* Rows that move elements: reshape, transpose, expand, concatenate, slice, slice_scatter. Every dtype, by element size.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/strided.h"
#include "proto/shape_rules.h"

#include <stdlib.h>
#include <string.h>

struct movement {
    struct cpu_node node;
    uint64_t base_bytes; /* of input 0, copied to the result first (slice_scatter, reshape) */
    int first;           /* number of the first input that is copied by its view */
    int n;
    struct strided views[]; /* one per copied input */
};

static int movement_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct movement *m = l->state;
    if (m->base_bytes > 0 && l->out[0] != l->in[0])
        memcpy(l->out[0], l->in[0], m->base_bytes);
    for (int i = 0; i < m->n; i++)
        strided_run(dev, &m->views[i], l->out[0], l->in[m->first + i]);
    return EO_OK;
}

static void view_transpose(struct strided *v, const struct eo_node_view *node, size_t size)
{
    const struct eo_tensor_desc *x = node->in[0], *y = node->out[0];
    int n_perm = 0;
    const int64_t *perm = eo_attr_ints(node->op, node->attrs, "perm", &n_perm);
    int64_t from[EO_MAX_DIMS], to[EO_MAX_DIMS], src[EO_MAX_DIMS];
    space_dense_strides(x, from);
    space_dense_strides(y, to);
    for (int d = 0; d < x->n_dims; d++)
        src[d] = from[n_perm > 0 ? perm[d] : x->n_dims - 1 - d];
    strided_init(v, y->shape, y->n_dims, src, 0, to, 0, size);
}

static void view_expand(struct strided *v, const struct eo_node_view *node, size_t size)
{
    const struct eo_tensor_desc *x = node->in[0], *y = node->out[0];
    struct space s;
    int64_t to[EO_MAX_DIMS];
    space_init(&s, y->shape, y->n_dims);
    space_add_broadcast(&s, x);
    space_dense_strides(y, to);
    strided_init(v, y->shape, y->n_dims, s.stride[0], 0, to, 0, size);
}

static void view_concatenate(struct strided *views, const struct eo_node_view *node, size_t size)
{
    const struct eo_tensor_desc *y = node->out[0];
    int64_t to[EO_MAX_DIMS], from[EO_MAX_DIMS], before = 0, axis = eo_attr_int(node->op, node->attrs, "axis");
    if (axis < 0)
        axis += y->n_dims;
    space_dense_strides(y, to);
    for (int i = 0; i < node->n_in; i++) {
        const struct eo_tensor_desc *x = node->in[i];
        space_dense_strides(x, from);
        strided_init(&views[i], x->shape, x->n_dims, from, 0, to, before * to[axis], size);
        before += x->shape[axis];
    }
}

/* slice copies the slice of x out; slice_scatter copies updates into it. */
static int view_slice(struct strided *v, const struct eo_node_view *node, size_t size, bool scatter,
                      struct eo_error *err)
{
    const struct eo_tensor_desc *x = node->in[0], *part = scatter ? node->in[1] : node->out[0];
    struct eo_slice_dim dims[EO_MAX_DIMS];
    int rc = eo_slice_dims(node->op, node->attrs, x, dims, err);
    if (rc != EO_OK)
        return rc;
    int64_t whole[EO_MAX_DIMS], dense[EO_MAX_DIMS], inside[EO_MAX_DIMS], first = 0;
    space_dense_strides(x, whole);
    space_dense_strides(part, dense);
    for (int d = 0; d < x->n_dims; d++) {
        /* The step of a slice of one element can be any number; it is never taken. */
        inside[d] = dims[d].count > 1 ? dims[d].step * whole[d] : 0;
        first += dims[d].count > 0 ? dims[d].first * whole[d] : 0;
    }
    if (scatter)
        strided_init(v, part->shape, part->n_dims, dense, 0, inside, first, size);
    else
        strided_init(v, part->shape, part->n_dims, inside, first, dense, 0, size);
    return EO_OK;
}

static int fill_views(struct movement *m, const struct eo_node_view *node, size_t size, struct eo_error *err)
{
    switch (node->op->op) {
    case EO_OP_TRANSPOSE:
        view_transpose(m->views, node, size);
        return EO_OK;
    case EO_OP_EXPAND:
        view_expand(m->views, node, size);
        return EO_OK;
    case EO_OP_CONCATENATE:
        view_concatenate(m->views, node, size);
        return EO_OK;
    case EO_OP_SLICE:
        return view_slice(m->views, node, size, false, err);
    case EO_OP_SLICE_SCATTER:
        m->base_bytes = eo_tensor_desc_bytes(node->in[0]);
        m->first = 1;
        return view_slice(m->views, node, size, true, err);
    default: /* reshape */
        m->base_bytes = eo_tensor_desc_bytes(node->in[0]);
        m->n = 0;
        return EO_OK;
    }
}

int movement_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err)
{
    (void)dev;
    (void)why;
    struct movement *m = NULL;
    int n = node->op->op == EO_OP_CONCATENATE ? node->n_in : 1;
    int rc = cpu_node_new(sizeof *m + (size_t)n * sizeof m->views[0], &m, err);
    if (rc != EO_OK)
        return rc;
    m->n = n;
    rc = fill_views(m, node, eo_dtype_size(node->out[0]->dtype), err);
    if (rc != EO_OK) {
        free(m);
        return rc;
    }
    cpu_node_finish(&m->node, movement_run, out, "%s.%zu-byte", node->op->name, eo_dtype_size(node->out[0]->dtype));
    out->in_place = m->base_bytes > 0 ? 1 : 0;
    return EO_OK;
}
