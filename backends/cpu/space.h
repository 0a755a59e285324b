/* The iteration space of operands that broadcast to one shape: dimensions of size 1 are dropped and neighbours merged
 * as far as the strides of every operand allow, so that most operations become one or two loops. */
#ifndef EO_BACKENDS_CPU_SPACE_H
#define EO_BACKENDS_CPU_SPACE_H

#include "proto/tensor_desc.h"

enum { SPACE_OPERANDS = 8 };

struct space {
    int n_dims;
    int64_t shape[EO_MAX_DIMS];
    int n_operands;
    int64_t stride[SPACE_OPERANDS][EO_MAX_DIMS]; /* in elements; 0 along broadcast dimensions */
};

void space_init(struct space *s, const int64_t *shape, int n_dims);
void space_add_broadcast(struct space *s, const struct eo_tensor_desc *desc); /* dense, broadcasts to the shape */
void space_add_strided(struct space *s, const int64_t *stride);
/* After all operands are added. An empty space gets one dimension of size 0. */
void space_merge(struct space *s);
int64_t space_count(const struct space *s);
/* Offset of operand o at element index of the first n dimensions, counted in C order. */
int64_t space_offset(const struct space *s, int o, int n, int64_t index);

void space_dense_strides(const struct eo_tensor_desc *desc, int64_t out[EO_MAX_DIMS]);

#endif
