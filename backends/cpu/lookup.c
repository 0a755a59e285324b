/* gather_elements, scatter_elements, gather_nd, scatter_nd: lanes of elements that indices move. Every index is checked
 * before anything is written. Threads of a scatter share no destination, so that updates are combined in order whatever
 * their number. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/index.h"
#include "backends/cpu/lanes.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/space.h"
#include "proto/shape_rules.h"

#include <stdlib.h>
#include <string.h>

/* updates (and the result of a gather) as lines of `length` elements. Lines of one group may share destinations; lines
 * of different groups, and different columns, never do. */
struct lookup {
    struct cpu_node node;
    bool tuples, scatters, by_columns;
    lane_fn move;
    struct lane lane;
    int64_t lines, length, per_group;
    struct space space;    /* one index per element: lines to places in x, without the axis */
    struct eo_nd_shape nd; /* tuples: a line is a slice */
    size_t size;
    uint64_t bytes; /* of x */
};

/* First element in x of a line, and the indices of its elements (NULL for a tuple, which is in the place). */
static int64_t line_place(const struct lookup *p, const int64_t *indices, int64_t line, const int64_t **out_indices)
{
    if (!p->tuples) {
        *out_indices = indices + line * p->length;
        return space_offset(&p->space, 0, p->space.n_dims, line);
    }
    const int64_t *tuple = indices + line * p->nd.n_coords;
    int64_t place = line / p->nd.tuples * p->nd.x_batch;
    for (int c = 0; c < p->nd.n_coords; c++)
        place += (tuple[c] < 0 ? tuple[c] + p->nd.size[c] : tuple[c]) * p->nd.stride[c];
    *out_indices = NULL;
    return place;
}

/* Columns begin..end-1 of a line. */
static void move_line(const struct lookup *p, const struct eo_launch *l, int64_t line, int64_t begin, int64_t end)
{
    const int64_t *indices = NULL;
    int64_t place = line_place(p, l->in[1], line, &indices) + begin * p->lane.step;
    char *x = p->scatters ? l->out[0] : l->in[0], *y = p->scatters ? l->in[2] : l->out[0];
    p->move(&p->lane, end - begin, x + place * (int64_t)p->size, y + (line * p->length + begin) * (int64_t)p->size,
            indices ? indices + begin : NULL);
}

/* Elements begin..end-1 of the result. */
static void gather_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct lookup *p = l->state;
    while (begin < end) {
        int64_t line = begin / p->length, first = begin % p->length;
        int64_t n = end - begin < p->length - first ? end - begin : p->length - first;
        move_line(p, l, line, first, first + n);
        begin += n;
    }
}

static void scatter_groups(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct lookup *p = l->state;
    for (int64_t line = begin * p->per_group; line < end * p->per_group; line++)
        move_line(p, l, line, 0, p->length);
}

static void scatter_columns(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct lookup *p = l->state;
    for (int64_t line = 0; line < p->lines; line++)
        move_line(p, l, line, begin, end);
}

static int check(const struct lookup *p, const struct eo_launch *l, struct eo_error *err)
{
    const int64_t *indices = l->in[1];
    if (!p->tuples)
        return index_check(indices, p->lines * p->length, -p->lane.axis, p->lane.axis, err);
    int64_t n = p->lines * p->nd.n_coords;
    int rc = EO_OK;
    for (int64_t i = 0; i < n && rc == EO_OK; i++) {
        int64_t size = p->nd.size[i % p->nd.n_coords];
        if (indices[i] < -size || indices[i] >= size)
            rc = index_raise(indices[i], i, -size, size, err);
    }
    return rc;
}

static int lookup_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct lookup *p = l->state;
    struct eo_launch copy = *l;
    int threads = dev->base.info.threads;
    int rc = check(p, l, err);
    if (rc != EO_OK)
        return rc;
    if (p->scatters && p->bytes > 0 && l->out[0] != l->in[0])
        memcpy(l->out[0], l->in[0], p->bytes);
    if (p->lines == 0 || p->length == 0)
        return EO_OK;
    if (!p->scatters) {
        parallel_for(threads, p->lines * p->length, parallel_grain(16), gather_range, &copy);
    } else if (p->by_columns) {
        int64_t grain = parallel_grain(p->lines * 16);
        parallel_for(threads, p->length, grain < 16 ? 16 : grain, scatter_columns, &copy);
    } else {
        parallel_for(threads, p->lines / p->per_group, parallel_grain(p->per_group * (p->length * 16 + 32)),
                     scatter_groups, &copy);
    }
    return EO_OK;
}

/* One index per element: lines along the last dimension of indices. */
static void plan_elements(struct lookup *p, const struct eo_node_view *node)
{
    const struct eo_tensor_desc *x = node->in[0], *indices = node->in[1];
    int64_t stride[EO_MAX_DIMS], axis = eo_attr_int(node->op, node->attrs, "axis"), groups = 1;
    int last = x->n_dims - 1;
    axis += axis < 0 ? x->n_dims : 0;
    space_dense_strides(x, stride);
    p->lane = (struct lane){x->shape[axis], stride[axis], axis == last ? 0 : 1};
    stride[axis] = 0;
    space_init(&p->space, indices->shape, last);
    space_add_strided(&p->space, stride);
    p->length = indices->shape[last];
    p->lines = space_count(&p->space);
    for (int d = 0; d < axis; d++)
        groups *= indices->shape[d];
    p->per_group = groups > 0 ? p->lines / groups : 1;
    p->by_columns = axis != last && p->length > groups;
}

static void plan_tuples(struct lookup *p, const struct eo_node_view *node)
{
    p->nd = eo_nd_shape(node->op, node->attrs, node->in[0], node->in[1]);
    p->lane = (struct lane){1, 0, 1};
    p->length = p->nd.slice;
    p->lines = p->nd.batch * p->nd.tuples;
    p->per_group = p->nd.tuples;
    p->by_columns = p->length > p->nd.batch;
}

int lookup_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    (void)dev;
    enum eo_dtype dtype = (enum eo_dtype)node->out[0]->dtype;
    enum eo_op op = node->op->op;
    bool scatters = op == EO_OP_SCATTER_ELEMENTS || op == EO_OP_SCATTER_ND;
    lane_fn move = scatters ? lane_scatter(dtype, eo_attr_int(node->op, node->attrs, "reduction")) : lane_gather(dtype);
    struct lookup *p = NULL;
    if (!move)
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name(dtype));
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    p->move = move;
    p->scatters = scatters;
    p->tuples = op == EO_OP_GATHER_ND || op == EO_OP_SCATTER_ND;
    p->size = eo_dtype_size(dtype);
    p->bytes = eo_tensor_desc_bytes(node->in[0]);
    if (p->tuples)
        plan_tuples(p, node);
    else
        plan_elements(p, node);
    cpu_node_finish(&p->node, lookup_run, out, "%s.%s", node->op->name, eo_dtype_name(dtype));
    out->in_place = scatters ? 1 : 0;
    return EO_OK;
}
