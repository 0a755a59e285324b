/* Lowerings of products. */
#include "daemon/engine/lower/rules.h"

/* x @ weight + bias */
void lower_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value product = eo_build_matmul(b, node->inputs[0], node->inputs[1], false, false);

    out[0] = eo_build_binary(b, EO_OP_ADD, product, node->inputs[2]);
}
