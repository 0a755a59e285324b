/* Lowerings of activations. Halves are widened, so that a result is rounded once. At kinks the gradient is PyTorch's:
 * that of the lower side where a function has a slope there, 0 where one side is flat. Both arms of a `where` are
 * evaluated, and the gradient of the arm that loses is 0 times its derivative: operands are made safe before anything
 * that may overflow. NaN fails every comparison, so the arm that a false comparison takes hands it on. */
#include "daemon/engine/lower/rules.h"

static eo_value binary(struct eo_builder *b, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(b, op, x, y);
}

static eo_value multiply(struct eo_builder *b, eo_value x, eo_value y)
{
    return binary(b, EO_OP_MULTIPLY, x, y);
}

static eo_value number(struct eo_builder *b, eo_value like, double v)
{
    return eo_build_scalar_like(b, like, v);
}

static eo_value times(struct eo_builder *b, eo_value x, double factor)
{
    return multiply(b, x, number(b, x, factor));
}

static eo_value plus(struct eo_builder *b, eo_value x, double term)
{
    return binary(b, EO_OP_ADD, x, number(b, x, term));
}

/* The widened operand; done() narrows again. */
static eo_value start(struct eo_builder *b, const struct eo_graph_node *node)
{
    return lower_widen(b, node->inputs[0]);
}

static void done(struct eo_builder *b, const struct eo_graph_node *node, eo_value y, eo_value *out)
{
    out[0] = lower_narrow(b, y, node->inputs[0]);
}

/* ---- two arms that meet at 0 ---- */

static eo_value is_positive(struct eo_builder *b, eo_value x)
{
    return binary(b, EO_OP_GREATER, x, number(b, x, 0));
}

/* x where it is not positive, 0 elsewhere: what the lower arm may work with. */
static eo_value lower_part(struct eo_builder *b, eo_value positive, eo_value x)
{
    return eo_build_where(b, positive, number(b, x, 0), x);
}

void lower_leaky_relu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), positive = is_positive(b, x);

    done(b, node, eo_build_where(b, positive, x, times(b, x, lower_float(node, "alpha"))), out);
}

/* slope is multiplied with the lower part only: its gradient gets nothing from positive elements, infinite ones too. */
void lower_prelu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), slope = lower_widen(b, node->inputs[1]), positive = is_positive(b, x);
    eo_value below = multiply(b, slope, lower_part(b, positive, x));

    done(b, node, eo_build_where(b, positive, x, below), out);
}

/* upper x where x > 0, else scale (exp(x / width) - 1) */
static void exponential(struct eo_builder *b, const struct eo_graph_node *node, double upper, double scale,
                        double width, eo_value *out)
{
    eo_value x = start(b, node), positive = is_positive(b, x), low = lower_part(b, positive, x);
    eo_value inner = width == 1 ? low : binary(b, EO_OP_DIVIDE, low, number(b, low, width));
    eo_value below = times(b, eo_build_unary(b, EO_OP_EXPM1, inner), scale);

    done(b, node, eo_build_where(b, positive, upper == 1 ? x : times(b, x, upper), below), out);
}

void lower_elu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    exponential(b, node, 1, lower_float(node, "alpha"), 1, out);
}

void lower_selu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    double gamma = lower_float(node, "gamma");

    exponential(b, node, gamma, gamma * lower_float(node, "alpha"), 1, out);
}

void lower_celu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    double alpha = lower_float(node, "alpha");

    exponential(b, node, 1, alpha, alpha, out);
}

/* ---- x times a gate between 0 and 1 ---- */

/* erfc(-x / sqrt(2)) / 2 is the share of the normal distribution below x, with all its digits for falling x too. */
static eo_value normal_share(struct eo_builder *b, eo_value x)
{
    return times(b, eo_build_unary(b, EO_OP_ERFC, times(b, x, -0.707106781186547524401)), 0.5);
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel; u = sqrt(2 / pi) (x + 0.044715 x^3) */
static eo_value tanh_share(struct eo_builder *b, eo_value x)
{
    eo_value inner = multiply(b, x, plus(b, times(b, multiply(b, x, x), 0.044715), 1));

    return eo_build_unary(b, EO_OP_SIGMOID, times(b, inner, 2 * 0.797884560802865355880));
}

void lower_gelu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node);

    done(b, node, multiply(b, x, lower_int(node, "approximate") == 0 ? normal_share(b, x) : tanh_share(b, x)), out);
}

void lower_silu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node);

    done(b, node, multiply(b, x, eo_build_unary(b, EO_OP_SIGMOID, x)), out);
}

void lower_mish(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), gate = eo_build_unary(b, EO_OP_TANH, eo_build_unary(b, EO_OP_SOFTPLUS, x));

    done(b, node, multiply(b, x, gate), out);
}

/* alpha x + beta in [0, 1]. The bounds belong to the flat sides, unlike those of clip. */
static eo_value hard_gate(struct eo_builder *b, eo_value x, double alpha, double beta)
{
    eo_value line = plus(b, times(b, x, alpha), beta), zero = number(b, line, 0), one = number(b, line, 1);
    eo_value capped = eo_build_where(b, binary(b, EO_OP_GREATER_EQUAL, line, one), one, line);

    return eo_build_where(b, binary(b, EO_OP_LESS_EQUAL, line, zero), zero, capped);
}

void lower_hard_sigmoid(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    done(b, node, hard_gate(b, start(b, node), lower_float(node, "alpha"), lower_float(node, "beta")), out);
}

void lower_hard_swish(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node);

    done(b, node, multiply(b, x, hard_gate(b, x, 1.0 / 6, 0.5)), out);
}

/* ---- the others ---- */

void lower_softsign(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node);

    done(b, node, binary(b, EO_OP_DIVIDE, x, plus(b, eo_build_unary(b, EO_OP_ABS, x), 1)), out);
}

void lower_thresholded_relu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), off = binary(b, EO_OP_LESS_EQUAL, x, number(b, x, lower_float(node, "alpha")));

    done(b, node, eo_build_where(b, off, number(b, x, 0), x), out);
}

/* The sign is flat, so that moving by bias leaves the slope 1. */
void lower_shrink(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), lambd = number(b, x, lower_float(node, "lambd"));
    eo_value off = binary(b, EO_OP_LESS_EQUAL, eo_build_unary(b, EO_OP_ABS, x), lambd);
    eo_value step = times(b, eo_build_unary(b, EO_OP_SIGN, x), lower_float(node, "bias"));

    done(b, node, eo_build_where(b, off, number(b, x, 0), binary(b, EO_OP_SUBTRACT, x, step)), out);
}

void lower_log_sigmoid(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = start(b, node), minus = eo_build_unary(b, EO_OP_NEGATIVE, x);

    done(b, node, eo_build_unary(b, EO_OP_NEGATIVE, eo_build_unary(b, EO_OP_SOFTPLUS, minus)), out);
}
