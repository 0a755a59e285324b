#include "backends/cpu/space.h"

#include <string.h>

void space_init(struct space *s, const int64_t *shape, int n_dims)
{
    memset(s, 0, sizeof *s);
    s->n_dims = n_dims;
    memcpy(s->shape, shape, (size_t)n_dims * sizeof *shape);
}

void space_dense_strides(const struct eo_tensor_desc *desc, int64_t out[EO_MAX_DIMS])
{
    int64_t stride = 1;
    for (int d = desc->n_dims - 1; d >= 0; d--) {
        out[d] = stride;
        stride *= desc->shape[d];
    }
}

void space_add_strided(struct space *s, const int64_t *stride)
{
    memcpy(s->stride[s->n_operands++], stride, (size_t)s->n_dims * sizeof *stride);
}

void space_add_broadcast(struct space *s, const struct eo_tensor_desc *desc)
{
    int64_t dense[EO_MAX_DIMS], stride[EO_MAX_DIMS] = {0};
    int lead = s->n_dims - desc->n_dims;
    space_dense_strides(desc, dense);
    for (int d = 0; d < desc->n_dims; d++)
        stride[lead + d] = desc->shape[d] == 1 ? 0 : dense[d];
    space_add_strided(s, stride);
}

static void drop_dim(struct space *s, int dim)
{
    size_t after = (size_t)(s->n_dims - dim - 1) * sizeof(int64_t);
    memmove(s->shape + dim, s->shape + dim + 1, after);
    for (int o = 0; o < s->n_operands; o++)
        memmove(s->stride[o] + dim, s->stride[o] + dim + 1, after);
    s->n_dims--;
}

/* One loop over dimensions d and d + 1 visits the same places as two, for every operand. */
static bool can_merge(const struct space *s, int d)
{
    for (int o = 0; o < s->n_operands; o++) {
        if (s->stride[o][d] != s->stride[o][d + 1] * s->shape[d + 1])
            return false;
    }
    return true;
}

void space_merge(struct space *s)
{
    if (space_count(s) == 0) {
        s->n_dims = 1;
        s->shape[0] = 0;
        return;
    }
    for (int d = s->n_dims - 1; d >= 0; d--) {
        if (s->shape[d] == 1)
            drop_dim(s, d);
    }
    for (int d = s->n_dims - 2; d >= 0; d--) {
        if (!can_merge(s, d))
            continue;
        s->shape[d + 1] *= s->shape[d];
        drop_dim(s, d);
    }
}

int64_t space_count(const struct space *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->n_dims; d++)
        n *= s->shape[d];
    return n;
}

int64_t space_offset(const struct space *s, int o, int n, int64_t index)
{
    int64_t offset = 0;
    for (int d = n - 1; d > 0; d--) {
        offset += index % s->shape[d] * s->stride[o][d];
        index /= s->shape[d];
    }
    return n > 0 ? offset + index * s->stride[o][0] : 0;
}
