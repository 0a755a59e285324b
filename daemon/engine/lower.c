#include "daemon/engine/lower.h"

#include "daemon/engine/lower/rules.h"

#include <string.h>

typedef void (*lower_fn)(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);

eo_value lower_widen(struct eo_builder *b, eo_value v)
{
    enum eo_dtype dtype = (enum eo_dtype)eo_build_desc(b, v)->dtype;

    return dtype == EO_FLOAT16 || dtype == EO_BFLOAT16 ? eo_build_cast(b, v, EO_FLOAT32) : v;
}

eo_value lower_narrow(struct eo_builder *b, eo_value v, eo_value like)
{
    enum eo_dtype dtype = (enum eo_dtype)eo_build_desc(b, like)->dtype;

    return eo_build_desc(b, v)->dtype != dtype ? eo_build_cast(b, v, dtype) : v;
}

eo_value lower_with_int(struct eo_builder *b, enum eo_op op, const eo_value *in, int n_in, const char *name, int64_t v)
{
    const struct eo_op_schema *row = eo_op_schema(op);
    struct eo_attrs attrs;

    eo_attrs_default(row, &attrs);
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_int(row, &attrs, name, v, b->err);
    }
    return eo_build_op(b, op, in, n_in, &attrs);
}

eo_value lower_clip(struct eo_builder *b, eo_value x, double bound)
{
    return eo_build_clip(b, x, -bound, bound);
}

static void stick(struct eo_builder *b, int rc)
{
    b->status = b->status != EO_OK ? b->status : rc;
}

eo_value lower_full(struct eo_builder *b, enum eo_dtype dtype, const int64_t *shape, int n_dims, double value)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_FULL);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    stick(b, eo_attrs_set_ints(op, &attrs, "shape", shape, n_dims, b->err));
    stick(b, eo_attrs_set_int(op, &attrs, "dtype", dtype, b->err));
    stick(b, eo_attrs_set_float(op, &attrs, "value", value, b->err));
    return eo_build_op(b, EO_OP_FULL, NULL, 0, &attrs);
}

void lower_set_slice(struct eo_builder *b, const struct eo_op_schema *op, struct eo_attrs *attrs, const int64_t *starts,
                     const int64_t *stops, const int64_t *steps, int n)
{
    eo_attrs_default(op, attrs);
    stick(b, eo_attrs_set_ints(op, attrs, "starts", starts, n, b->err));
    stick(b, eo_attrs_set_ints(op, attrs, "stops", stops, n, b->err));
    stick(b, eo_attrs_set_ints(op, attrs, "steps", steps, steps == NULL ? 0 : n, b->err));
}

eo_value lower_slice(struct eo_builder *b, eo_value x, const int64_t *starts, const int64_t *stops,
                     const int64_t *steps, int n)
{
    struct eo_attrs attrs;

    lower_set_slice(b, eo_op_schema(EO_OP_SLICE), &attrs, starts, stops, steps, n);
    return eo_build_op(b, EO_OP_SLICE, &x, 1, &attrs);
}

void lower_parts(struct eo_builder *b, eo_value x, int axis, const int64_t *sizes, int n, eo_value *out)
{
    struct eo_tensor_desc d = lower_desc(b, x);
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS];

    memcpy(stops, d.shape, sizeof(stops));
    stops[axis] = 0;
    for (int i = 0; i < n; i++) {
        starts[axis] = stops[axis];
        stops[axis] += sizes[i];
        out[i] = lower_slice(b, x, starts, stops, NULL, d.n_dims);
    }
}

eo_value lower_iota(struct eo_builder *b, int64_t n)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_ARANGE);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    stick(b, eo_attrs_set_int(op, &attrs, "count", n, b->err));
    stick(b, eo_attrs_set_int(op, &attrs, "dtype", EO_INT64, b->err));
    return eo_build_op(b, EO_OP_ARANGE, NULL, 0, &attrs);
}

static lower_fn lowering(enum eo_op op)
{
#define LOWERED(name) lower_##name
#define PRIMITIVE(name) NULL
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...)                    \
    [EO_OP_##NAME] = lower(name),
    static const lower_fn lowerings[EO_OP_COUNT] = {
#include "proto/tables/ops.def"
    };
#undef LOWERED
#undef PRIMITIVE

    return lowerings[op];
}

int lower_node(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    lower_fn lower = lowering(node->op->op);

    if (b->status != EO_OK) {
        return b->status;
    }
    if (lower == NULL) {
        b->status = EO_RAISE(b->err, EO_E_UNSUPPORTED, "%s is a primitive: it has no lowering", node->op->name);
        return b->status;
    }
    lower(b, node, out);
    return b->status;
}
