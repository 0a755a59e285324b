/* What lowerings share: their declarations, made from ops.def, and short spellings for what they emit.
 *
 * A lowering reads node->inputs, node->attrs and the builder's descriptors, emits primitives (or other composite rows)
 * and stores one value per output. Descriptors are copied (lower_desc), never pointed to: adding a node may move the
 * graph's tables. Errors stick in the builder. */
#ifndef EO_DAEMON_ENGINE_LOWER_RULES_H
#define EO_DAEMON_ENGINE_LOWER_RULES_H

#include "proto/graph_build.h"

#define LOWERED(name) void lower_##name(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);
#define PRIMITIVE(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...) lower(name)
#include "proto/tables/ops.def"
#undef LOWERED
#undef PRIMITIVE

static inline struct eo_tensor_desc lower_desc(const struct eo_builder *b, eo_value v)
{
    return *eo_build_desc(b, v);
}

static inline int64_t lower_int(const struct eo_graph_node *node, const char *name)
{
    return eo_attr_int(node->op, node->attrs, name);
}

static inline double lower_float(const struct eo_graph_node *node, const char *name)
{
    return eo_attr_float(node->op, node->attrs, name);
}

static inline const int64_t *lower_ints(const struct eo_graph_node *node, const char *name, int *out_n)
{
    return eo_attr_ints(node->op, node->attrs, name, out_n);
}

/* Optional operand i: the value, or EO_NO_VALUE where it is not given (a hole has shape [0]). */
static inline eo_value lower_optional(const struct eo_builder *b, const struct eo_graph_node *node, uint32_t i)
{
    const struct eo_tensor_desc *d = i < node->n_inputs ? eo_build_desc(b, node->inputs[i]) : NULL;

    return d == NULL || (d->n_dims == 1 && d->shape[0] == 0) ? EO_NO_VALUE : node->inputs[i];
}

/* A row with the integer attribute `name` (also BOOL, DTYPE), the others as they are by default. */
eo_value lower_with_int(struct eo_builder *b, enum eo_op op, const eo_value *in, int n_in, const char *name, int64_t v);

/* x limited to [-bound, bound]. */
eo_value lower_clip(struct eo_builder *b, eo_value x, double bound);
/* x cut along an axis into n parts of these sizes. */
void lower_parts(struct eo_builder *b, eo_value x, int axis, const int64_t *sizes, int n, eo_value *out);

/* float16 and bfloat16 as float32, for lowerings whose intermediate results need it; others as they are. */
eo_value lower_widen(struct eo_builder *b, eo_value v);
/* v in the dtype of `like`: the end of a lowering that began with lower_widen. */
eo_value lower_narrow(struct eo_builder *b, eo_value v, eo_value like);

/* ---- rows with attributes; errors stick in the builder ---- */

/* A tensor of one value, which its dtype holds. */
eo_value lower_full(struct eo_builder *b, enum eo_dtype dtype, const int64_t *shape, int n_dims, double value);
/* starts, stops and steps (NULL: all 1) of a slice or slice_scatter. */
void lower_set_slice(struct eo_builder *b, const struct eo_op_schema *op, struct eo_attrs *attrs, const int64_t *starts,
                     const int64_t *stops, const int64_t *steps, int n);
eo_value lower_slice(struct eo_builder *b, eo_value x, const int64_t *starts, const int64_t *stops,
                     const int64_t *steps, int n);
/* 0, 1, ... n - 1 as int64. */
eo_value lower_iota(struct eo_builder *b, int64_t n);

/* Shapes and permutations written as numbers: LOWER_RESHAPE(b, v, rows, 4), LOWER_TRANSPOSE(b, v, 1, 0). */
#define LOWER_NUMBERS(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define LOWER_RESHAPE(b, v, ...) eo_build_reshape(b, v, LOWER_NUMBERS(__VA_ARGS__))
#define LOWER_TRANSPOSE(b, v, ...) eo_build_transpose(b, v, LOWER_NUMBERS(__VA_ARGS__))

#endif
