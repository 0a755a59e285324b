#include "daemon/engine/lower.h"

typedef void (*lower_fn)(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);

#define LOWERED(name) static void lower_##name(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);
#define PRIMITIVE(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...) lower(name)
#include "proto/tables/ops.def"
#undef LOWERED
#undef PRIMITIVE

/* x @ weight + bias */
static void lower_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value product = eo_build_matmul(b, node->inputs[0], node->inputs[1], false, false);

    out[0] = eo_build_binary(b, EO_OP_ADD, product, node->inputs[2]);
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
