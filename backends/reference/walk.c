#include "backends/reference/walk.h"

#include <string.h>

void walk_init(struct walk *w, const int64_t *shape, int n_dims)
{
    memset(w, 0, sizeof *w);
    w->n_dims = n_dims;
    w->count = 1;
    for (int d = 0; d < n_dims; d++) {
        w->shape[d] = shape[d];
        w->count *= shape[d];
    }
}

void walk_dense_strides(const struct eo_tensor_desc *desc, int64_t out[EO_MAX_DIMS])
{
    int64_t stride = 1;
    for (int d = desc->n_dims - 1; d >= 0; d--) {
        out[d] = stride;
        stride *= desc->shape[d];
    }
}

int walk_broadcast(struct walk *w, const struct eo_tensor_desc *desc)
{
    int64_t dense[EO_MAX_DIMS], stride[EO_MAX_DIMS] = {0};
    int lead = w->n_dims - desc->n_dims;
    walk_dense_strides(desc, dense);
    for (int d = 0; d < desc->n_dims; d++)
        stride[lead + d] = desc->shape[d] == 1 ? 0 : dense[d];
    return walk_strided(w, stride, 0);
}

int walk_strided(struct walk *w, const int64_t *stride, int64_t first)
{
    int operand = w->n_operands++;
    memcpy(w->stride[operand], stride, (size_t)w->n_dims * sizeof *stride);
    w->offset[operand] = first;
    return operand;
}

void walk_next(struct walk *w)
{
    w->linear++;
    for (int d = w->n_dims - 1; d >= 0; d--) {
        w->index[d]++;
        for (int o = 0; o < w->n_operands; o++)
            w->offset[o] += w->stride[o][d];
        if (w->index[d] < w->shape[d])
            return;
        for (int o = 0; o < w->n_operands; o++)
            w->offset[o] -= w->stride[o][d] * w->shape[d];
        w->index[d] = 0;
    }
}

void walk_rewind(struct walk *w)
{
    for (int d = 0; d < w->n_dims; d++) {
        for (int o = 0; o < w->n_operands; o++)
            w->offset[o] -= w->stride[o][d] * w->index[d];
        w->index[d] = 0;
    }
    w->linear = 0;
}
