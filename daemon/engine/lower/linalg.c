/* Lowerings of products. */
#include "daemon/engine/lower/rules.h"

/* x @ weight + bias, rounded once: in a half type the product alone may be infinite where the sum is not. */
void lower_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), weight = lower_widen(b, node->inputs[1]);
    eo_value product = eo_build_matmul(b, x, weight, false, false);
    eo_value sum = eo_build_binary(b, EO_OP_ADD, product, lower_widen(b, node->inputs[2]));

    out[0] = lower_narrow(b, sum, node->inputs[0]);
}

static eo_value scaled(struct eo_builder *b, eo_value v, double factor)
{
    return factor == 1 ? v : eo_build_binary(b, EO_OP_MULTIPLY, v, eo_build_scalar_like(b, v, factor));
}

/* alpha op(a) op(b) + beta c. As in BLAS, a c of factor 0 is not read. */
void lower_gemm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    double alpha = lower_float(node, "alpha"), beta = lower_float(node, "beta");
    eo_value c = beta != 0 ? lower_optional(b, node, 2) : EO_NO_VALUE;
    eo_value x = node->inputs[0], y = node->inputs[1], product;

    if (alpha != 1 || c != EO_NO_VALUE) {
        x = lower_widen(b, x);
        y = lower_widen(b, y);
    }
    product = scaled(
        b, eo_build_matmul(b, x, y, lower_int(node, "transpose_a") != 0, lower_int(node, "transpose_b") != 0), alpha);
    if (c != EO_NO_VALUE) {
        product = eo_build_binary(b, EO_OP_ADD, product, scaled(b, lower_widen(b, c), beta));
    }
    out[0] = lower_narrow(b, product, node->inputs[0]);
}

void lower_dot(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = eo_build_matmul(b, node->inputs[0], node->inputs[1], false, false);
}

void lower_outer(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value column = eo_build_reshape(b, node->inputs[0], (int64_t[]){lower_desc(b, node->inputs[0]).shape[0], 1}, 2);

    out[0] = eo_build_binary(b, EO_OP_MULTIPLY, column, node->inputs[1]);
}
