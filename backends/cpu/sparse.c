/* nonzero and compress, whose results' shapes depend on data: counted first, then written where they belong. */
#include "backends/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

struct sparse {
    struct cpu_node node;
    size_t size; /* of an element of x */
    bool is_float;
    int axis;
    int64_t outer, n, x_axis, inner; /* compress: n entries of condition */
};

/* Element i of x is not 0: any bit, but for the sign of a float. */
static inline bool is_set(const void *x, int64_t i, size_t size, bool is_float)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)x + i * (int64_t)size, size);
    return (is_float ? bits << (65 - 8 * size) : bits) != 0;
}

static int64_t count_set(const void *x, int64_t n, size_t size, bool is_float)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += is_set(x, i, size, is_float);
    return count;
}

static void next_index(const struct eo_tensor_desc *x, int64_t index[EO_MAX_DIMS])
{
    for (int d = x->n_dims - 1; d >= 0; d--) {
        if (++index[d] < x->shape[d])
            return;
        index[d] = 0;
    }
}

static int nonzero_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)dev;
    (void)err;
    const struct sparse *p = l->state;
    const struct eo_tensor_desc *x = l->node->in[0];
    int64_t n = eo_tensor_desc_count(x), count = count_set(l->in[0], n, p->size, p->is_float);
    int64_t index[EO_MAX_DIMS] = {0}, *out = l->out[0];
    for (int64_t i = 0, at = 0; i < n; i++, next_index(x, index)) {
        if (!is_set(l->in[0], i, p->size, p->is_float))
            continue;
        for (int d = 0; d < x->n_dims; d++)
            out[d * count + at] = index[d];
        at++;
    }
    *l->actual = (struct eo_tensor_desc){.dtype = EO_INT64, .n_dims = 2, .shape = {x->n_dims, count}};
    return EO_OK;
}

static int compress_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)dev;
    (void)err;
    const struct sparse *p = l->state;
    const uint8_t *condition = l->in[1];
    const int64_t line = p->inner * (int64_t)p->size;
    char *out = l->out[0];
    for (int64_t o = 0; o < p->outer && line > 0; o++)
        for (int64_t i = 0; i < p->n; i++) {
            if (!condition[i])
                continue;
            memcpy(out, (const char *)l->in[0] + (o * p->x_axis + i) * line, (size_t)line);
            out += line;
        }
    *l->actual = *l->node->out[0];
    l->actual->shape[p->axis] = count_set(condition, p->n, 1, false);
    return EO_OK;
}

int sparse_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    (void)dev;
    (void)why;
    const struct eo_tensor_desc *x = node->in[0];
    struct sparse *p = NULL;
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    p->size = eo_dtype_size(x->dtype);
    p->is_float = eo_dtype_kind(x->dtype) == EO_KIND_FLOAT;
    if (node->op->op == EO_OP_COMPRESS) {
        int64_t axis = eo_attr_int(node->op, node->attrs, "axis");
        p->axis = (int)(axis < 0 ? axis + x->n_dims : axis);
        p->outer = p->inner = 1;
        for (int d = 0; d < x->n_dims; d++) {
            p->outer *= d < p->axis ? x->shape[d] : 1;
            p->inner *= d > p->axis ? x->shape[d] : 1;
        }
        p->x_axis = x->shape[p->axis];
        p->n = node->in[1]->shape[0];
    }
    cpu_node_finish(&p->node, node->op->op == EO_OP_COMPRESS ? compress_run : nonzero_run, out, "%s.%s", node->op->name,
                    eo_dtype_name(x->dtype));
    return EO_OK;
}
