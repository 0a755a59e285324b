/* Short spellings for building graphs in C: layers, losses and gradient rules all write through this builder.
 * The first error sticks: later calls return EO_NO_VALUE and do nothing, so that code checks once at the end. */
#ifndef EO_PROTO_GRAPH_BUILD_H
#define EO_PROTO_GRAPH_BUILD_H

#include "proto/graph.h"

struct eo_builder {
    struct eo_graph *graph;
    struct eo_error *err;
    int status; /* EO_OK or the first error's code */
};

void eo_build_init(struct eo_builder *b, struct eo_graph *g, struct eo_error *err);
eo_value eo_build_op(struct eo_builder *b, enum eo_op op, const eo_value *in, int n_in, const struct eo_attrs *attrs);
eo_value eo_build_unary(struct eo_builder *b, enum eo_op op, eo_value a);
eo_value eo_build_binary(struct eo_builder *b, enum eo_op op, eo_value x, eo_value y);
eo_value eo_build_where(struct eo_builder *b, eo_value condition, eo_value x, eo_value y);
eo_value eo_build_scalar(struct eo_builder *b, enum eo_dtype dtype, double v); /* 0-dim constant */
eo_value eo_build_scalar_like(struct eo_builder *b, eo_value like, double v);  /* 0-dim constant of like's dtype */
eo_value eo_build_full(struct eo_builder *b, enum eo_dtype dtype, const int64_t *shape, int n_dims, double v);
eo_value eo_build_full_like(struct eo_builder *b, eo_value like, double v);
eo_value eo_build_matmul(struct eo_builder *b, eo_value x, eo_value y, bool transpose_x, bool transpose_y);
eo_value eo_build_reduce(struct eo_builder *b, enum eo_op op, eo_value x, const int64_t *axes, int n_axes,
                         bool keepdims);
eo_value eo_build_reshape(struct eo_builder *b, eo_value x, const int64_t *shape, int n_dims);
eo_value eo_build_transpose(struct eo_builder *b, eo_value x, const int64_t *perm, int n_dims);
eo_value eo_build_expand(struct eo_builder *b, eo_value x, const int64_t *shape, int n_dims);
eo_value eo_build_cast(struct eo_builder *b, eo_value x, enum eo_dtype dtype);
eo_value eo_build_clip(struct eo_builder *b, eo_value x, double low, double high);
/* Sums g down to like's shape: leading axes removed, size-1 axes kept (the gradient of broadcasting). */
eo_value eo_build_sum_to(struct eo_builder *b, eo_value g, eo_value like);
const struct eo_tensor_desc *eo_build_desc(const struct eo_builder *b, eo_value v); /* an empty desc after an error */

#endif
