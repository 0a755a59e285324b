#include "daemon/engine/lower.h"

#include "daemon/engine/lower/rules.h"

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
