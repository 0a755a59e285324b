/* Rows that work by integer indices: gather, scatter_add, one_hot. Every index is checked before anything is written.
 */
#include "backends/cpu/index.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"

#include <stdlib.h>
#include <string.h>

/* x seen as (outer, axis, inner) around the axis that the n indices count. */
struct index_node {
    struct cpu_node node;
    int64_t outer, axis, inner, n;
    size_t size;
    uint64_t bytes;    /* of x */
    vector_map_fn add; /* scatter_add */
    uint64_t one;      /* one_hot: the bytes of 1 */
};

int index_raise(int64_t index, int64_t position, int64_t low, int64_t limit, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_BAD_VALUE, "index %lld at position %lld is outside %lld..%lld", (long long)index,
                    (long long)position, (long long)low, (long long)limit - 1);
}

int index_check(const int64_t *indices, int64_t n, int64_t low, int64_t limit, struct eo_error *err)
{
    uint64_t span = (uint64_t)limit - (uint64_t)low;
    bool outside = false;
    /* No exit from the loop: the compiler makes vectors of it. */
    for (int64_t i = 0; i < n; i++)
        outside |= (uint64_t)indices[i] - (uint64_t)low >= span;
    for (int64_t i = 0; i < n && outside; i++) {
        if (indices[i] < low || indices[i] >= limit)
            return index_raise(indices[i], i, low, limit, err);
    }
    return EO_OK;
}

static void gather_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct index_node *p = l->state;
    const int64_t *indices = l->in[1];
    size_t line = (size_t)p->inner * p->size;
    for (int64_t i = begin; i < end; i++) { /* i = o * n + position */
        int64_t at = indices[i % p->n];
        at += at < 0 ? p->axis : 0;
        memcpy((char *)l->out[0] + i * (int64_t)line,
               (const char *)l->in[0] + (i / p->n * p->axis + at) * (int64_t)line, line);
    }
}

static int gather_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct index_node *p = l->state;
    int rc = index_check(l->in[1], p->n, -p->axis, p->axis, err);
    if (rc == EO_OK && p->inner > 0) {
        struct eo_launch copy = *l;
        parallel_for(dev->base.info.threads, p->outer * p->n, parallel_grain(p->inner + 16), gather_range, &copy);
    }
    return rc;
}

/* Columns begin..end-1 of the inner dimension: threads share rows, never elements, so that additions to one element
 * happen in index order. */
static void scatter_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct index_node *p = l->state;
    const int64_t *indices = l->in[1];
    int64_t size = (int64_t)p->size;
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->n; i++) {
            int64_t at = indices[i] < 0 ? indices[i] + p->axis : indices[i];
            char *to = (char *)l->out[0] + ((o * p->axis + at) * p->inner + begin) * size;
            const char *from = (const char *)l->in[2] + ((o * p->n + i) * p->inner + begin) * size;
            p->add(end - begin, to, (const void *const[]){to, from}, 0, NULL);
        }
}

static int scatter_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct index_node *p = l->state;
    int rc = index_check(l->in[1], p->n, -p->axis, p->axis, err);
    if (rc != EO_OK)
        return rc;
    if (p->bytes > 0 && l->out[0] != l->in[0])
        memcpy(l->out[0], l->in[0], p->bytes);
    struct eo_launch copy = *l;
    int64_t grain = parallel_grain(p->outer * p->n);
    parallel_for(dev->base.info.threads, p->inner, grain < 16 ? 16 : grain, scatter_range, &copy);
    return rc;
}

static int one_hot_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)dev;
    const struct index_node *p = l->state;
    const int64_t *indices = l->in[0];
    int rc = index_check(indices, p->n, 0, p->axis, err);
    if (rc != EO_OK || p->bytes == 0)
        return rc;
    memset(l->out[0], 0, p->bytes);
    for (int64_t i = 0; i < p->n; i++)
        memcpy((char *)l->out[0] + (i * p->axis + indices[i]) * (int64_t)p->size, &p->one, p->size);
    return rc;
}

/* The bytes of 1 in a dtype, little-endian as all memory is. */
static uint64_t bytes_of_one(enum eo_dtype dtype)
{
    uint64_t bytes = 1;
    float f = 1;
    double d = 1;
    uint16_t h = dtype == EO_FLOAT16 ? eo_half_from_float(1) : eo_bfloat_from_float(1);
    if (dtype == EO_FLOAT32)
        memcpy(&bytes, &f, sizeof f);
    else if (dtype == EO_FLOAT64)
        memcpy(&bytes, &d, sizeof d);
    else if (dtype == EO_FLOAT16 || dtype == EO_BFLOAT16)
        bytes = h;
    return bytes;
}

static void look_around_axis(struct index_node *p, const struct eo_node_view *node)
{
    const struct eo_tensor_desc *x = node->in[0];
    int64_t axis = eo_attr_int(node->op, node->attrs, "axis");
    axis += axis < 0 ? x->n_dims : 0;
    p->outer = p->inner = 1;
    for (int d = 0; d < x->n_dims; d++) {
        if (d < axis)
            p->outer *= x->shape[d];
        else if (d > axis)
            p->inner *= x->shape[d];
    }
    p->axis = x->shape[axis];
    p->n = eo_tensor_desc_count(node->in[1]);
}

int index_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                 struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_dtype dtype = node->out[0]->dtype;
    enum eo_op op = node->op->op;
    vector_map_fn add = (*dev->vec->elementwise)[EO_OP_ADD][dtype];
    if (!add)
        add = (*dev->vec->integer)[EO_OP_ADD][dtype];
    struct index_node *p = NULL;
    if (op == EO_OP_SCATTER_ADD && !add)
        return cpu_decline(why, "scatter_add", "has no loop for %s", eo_dtype_name(dtype));
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    p->size = eo_dtype_size(dtype);
    p->bytes = eo_tensor_desc_bytes(node->out[0]);
    p->add = add;
    p->one = bytes_of_one(dtype);
    if (op == EO_OP_ONE_HOT) {
        p->n = eo_tensor_desc_count(node->in[0]);
        p->axis = eo_attr_int(node->op, node->attrs, "depth");
    } else {
        look_around_axis(p, node);
    }
    cpu_run_fn run = op == EO_OP_GATHER ? gather_run : op == EO_OP_SCATTER_ADD ? scatter_run : one_hot_run;
    cpu_node_finish(&p->node, run, out, "%s.%s", node->op->name, eo_dtype_name(dtype));
    out->in_place = op == EO_OP_SCATTER_ADD ? 1 : 0;
    return EO_OK;
}
