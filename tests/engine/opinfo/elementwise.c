/* Element-wise functions and activations. */
#include "tests/engine/opinfo/sample.h"

#include <math.h>

static eo_value emit_unary(struct sample *s, enum eo_op op)
{
    return sample_one(s, op, sample_input(s));
}

static eo_value emit_binary(struct sample *s, enum eo_op op)
{
    eo_value y = sample_arg_tensor(s, 0);
    double alpha = sample_kwarg_number(s, "alpha", 1);

    y = alpha == 1 ? y : sample_two(s, EO_OP_MULTIPLY, y, sample_scalar(s, alpha));
    return sample_two(s, op, sample_input(s), y);
}

static eo_value emit_square(struct sample *s, enum eo_op op)
{
    return sample_two(s, op, sample_input(s), sample_input(s));
}

static eo_value emit_rsqrt(struct sample *s, enum eo_op op)
{
    return sample_one(s, op, sample_one(s, EO_OP_SQRT, sample_input(s)));
}

static eo_value emit_softplus(struct sample *s, enum eo_op op)
{
    double beta = sample_kwarg_number(s, "beta", 1), threshold = sample_kwarg_number(s, "threshold", 20);
    eo_value scaled = sample_two(s, EO_OP_MULTIPLY, sample_input(s), sample_scalar(s, beta));
    eo_value curve = sample_two(s, EO_OP_DIVIDE, sample_one(s, op, scaled), sample_scalar(s, beta));
    eo_value linear = sample_two(s, EO_OP_GREATER, scaled, sample_scalar(s, threshold));

    return eo_build_where(&s->b, linear, sample_input(s), curve);
}

static eo_value emit_clamp(struct sample *s, enum eo_op op)
{
    return sample_two(s, op, sample_two(s, EO_OP_MAXIMUM, sample_input(s), sample_arg_tensor(s, 0)),
                      sample_arg_tensor(s, 1));
}

static eo_value emit_hardtanh(struct sample *s, enum eo_op op)
{
    double low = sample_kwarg_number(s, "min_val", -1), high = sample_kwarg_number(s, "max_val", 1);
    eo_value x = sample_input(s);

    if (low >= high) { /* clip refuses or includes these bounds */
        return sample_two(s, EO_OP_MINIMUM, sample_two(s, EO_OP_MAXIMUM, x, sample_scalar(s, low)),
                          sample_scalar(s, high));
    }
    return sample_row(s, op, &x, 1, "low=%.17g high=%.17g", low, high);
}

static eo_value emit_where(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return eo_build_where(&s->b, sample_arg_tensor(s, 0), sample_input(s), sample_arg_tensor(s, 1));
}

static eo_value emit_masked_fill(struct sample *s, enum eo_op op)
{
    eo_value fill = sample_arg_tensor(s, 1);

    EO_UNUSED(op);
    fill = fill == EO_NO_VALUE ? sample_scalar(s, sample_number(sample_arg(s, 1))) : fill;
    return eo_build_where(&s->b, sample_arg_tensor(s, 0), fill, sample_input(s));
}

/* a + weight (b - a) */
static eo_value emit_lerp(struct sample *s, enum eo_op op)
{
    eo_value a = sample_input(s), weight = sample_arg_tensor(s, 1);

    weight = weight == EO_NO_VALUE ? sample_scalar(s, sample_number(sample_arg(s, 1))) : weight;
    return sample_two(s, op, a,
                      sample_two(s, EO_OP_MULTIPLY, weight, sample_two(s, EO_OP_SUBTRACT, sample_arg_tensor(s, 0), a)));
}

/* max + log1p(exp(-|a - b|)) */
static eo_value emit_logaddexp(struct sample *s, enum eo_op op)
{
    eo_value a = sample_input(s), b = sample_arg_tensor(s, 0);
    eo_value apart = sample_one(s, EO_OP_ABS, sample_two(s, EO_OP_SUBTRACT, a, b));

    return sample_two(s, EO_OP_ADD, sample_two(s, EO_OP_MAXIMUM, a, b),
                      sample_one(s, op, sample_one(s, EO_OP_NEGATIVE, apart)));
}

/* x log y, where no x is 0 */
static eo_value emit_xlogy(struct sample *s, enum eo_op op)
{
    return sample_two(s, EO_OP_MULTIPLY, sample_input(s), sample_one(s, op, sample_arg_tensor(s, 0)));
}

/* Of the quotient towards zero; rounding_mode floor is the row floor_divide. */
static eo_value emit_div_trunc(struct sample *s, enum eo_op op)
{
    return sample_one(s, op, sample_two(s, EO_OP_DIVIDE, sample_input(s), sample_arg_tensor(s, 0)));
}

static eo_value emit_prelu(struct sample *s, enum eo_op op)
{
    eo_value slope = sample_tensor(s, sample_either(s, 0, "weight"));

    return sample_two(s, op, sample_input(s), slope);
}

/* PyTorch's constants; the row has ONNX's, which are floats. */
static eo_value emit_selu(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "alpha=%.17g gamma=%.17g", 1.67326324235437728482, 1.05070098735548049342);
}

/* PyTorch's backward pass multiplies by 1 / 6 in float32, its forward pass divides by 6. */
static eo_value emit_hard_sigmoid(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);
    const json_t *data = json_object_get(json_object_get(json_object_get(s->root, "input"), "tensor"), "data");

    for (size_t i = 0; i < json_array_size(data); i++) {
        if (fabs(sample_number(json_array_get(data, i))) < 3) {
            return sample_leave_out(s, "PyTorch's gradient of float64 has a slope in float32");
        }
    }
    return sample_row(s, op, &x, 1, "alpha=%.17g", 1.0 / 6);
}

static eo_value emit_gelu(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "approximate=%s", sample_kwarg_text(s, "approximate", "none"));
}

/* a sigmoid(b) of the halves of x */
static eo_value emit_glu(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s), halves;
    int dim = (int)sample_arg_int(s, 0), half = (int)(sample_desc(s, x).shape[dim] / 2);

    halves = sample_row(s, EO_OP_SPLIT, &x, 1, "axis=%d sizes=%d,%d", dim, half, half);
    return sample_two(s, EO_OP_MULTIPLY, halves, sample_one(s, op, halves + 1));
}

const struct function opinfo_elementwise[] = {
    {"abs", NULL, emit_unary, EO_OP_ABS},
    {"exp", NULL, emit_unary, EO_OP_EXP},
    {"log", NULL, emit_unary, EO_OP_LOG},
    {"log1p", NULL, emit_unary, EO_OP_LOG1P},
    {"expm1", NULL, emit_unary, EO_OP_EXPM1},
    {"sqrt", NULL, emit_unary, EO_OP_SQRT},
    {"reciprocal", NULL, emit_unary, EO_OP_RECIPROCAL},
    {"sigmoid", NULL, emit_unary, EO_OP_SIGMOID},
    {"tanh", NULL, emit_unary, EO_OP_TANH},
    {"neg", NULL, emit_unary, EO_OP_NEGATIVE},
    {"sign", NULL, emit_unary, EO_OP_SIGN},
    {"nn.functional.relu", NULL, emit_unary, EO_OP_RELU},
    {"square", NULL, emit_square, EO_OP_MULTIPLY},
    {"rsqrt", NULL, emit_rsqrt, EO_OP_RECIPROCAL},
    {"add", NULL, emit_binary, EO_OP_ADD},
    {"sub", NULL, emit_binary, EO_OP_SUBTRACT},
    {"mul", NULL, emit_binary, EO_OP_MULTIPLY},
    {"div", "no_rounding_mode", emit_binary, EO_OP_DIVIDE},
    {"true_divide", NULL, emit_binary, EO_OP_DIVIDE},
    {"pow", NULL, emit_binary, EO_OP_POWER},
    {"maximum", NULL, emit_binary, EO_OP_MAXIMUM},
    {"minimum", NULL, emit_binary, EO_OP_MINIMUM},
    {"lerp", NULL, emit_lerp, EO_OP_ADD},
    {"logaddexp", NULL, emit_logaddexp, EO_OP_SOFTPLUS},
    {"xlogy", NULL, emit_xlogy, EO_OP_LOG},
    {"clamp", NULL, emit_clamp, EO_OP_MINIMUM},
    {"where", NULL, emit_where, EO_OP_WHERE},
    {"masked_fill", NULL, emit_masked_fill, EO_OP_WHERE},
    {"nn.functional.softplus", NULL, emit_softplus, EO_OP_SOFTPLUS},
    {"nn.functional.hardtanh", NULL, emit_hardtanh, EO_OP_CLIP},
    {"ceil", NULL, emit_unary, EO_OP_CEIL},
    {"floor", NULL, emit_unary, EO_OP_FLOOR},
    {"sin", NULL, emit_unary, EO_OP_SIN},
    {"cos", NULL, emit_unary, EO_OP_COS},
    {"erf", NULL, emit_unary, EO_OP_ERF},
    {"atan2", NULL, emit_binary, EO_OP_ATAN2},
    {"div", "floor_rounding", emit_binary, EO_OP_FLOOR_DIVIDE},
    {"div", "trunc_rounding", emit_div_trunc, EO_OP_TRUNC},
    {"nn.functional.leaky_relu", NULL, emit_unary, EO_OP_LEAKY_RELU},
    {"nn.functional.elu", NULL, emit_unary, EO_OP_ELU},
    {"nn.functional.celu", NULL, emit_unary, EO_OP_CELU},
    {"nn.functional.selu", NULL, emit_selu, EO_OP_SELU},
    {"nn.functional.prelu", NULL, emit_prelu, EO_OP_PRELU},
    {"nn.functional.silu", NULL, emit_unary, EO_OP_SILU},
    {"nn.functional.mish", NULL, emit_unary, EO_OP_MISH},
    {"nn.functional.gelu", NULL, emit_gelu, EO_OP_GELU},
    {"nn.functional.softsign", NULL, emit_unary, EO_OP_SOFTSIGN},
    {"nn.functional.hardsigmoid", NULL, emit_hard_sigmoid, EO_OP_HARD_SIGMOID},
    {"nn.functional.glu", NULL, emit_glu, EO_OP_SIGMOID},
    {"nn.functional.hardswish", NULL, emit_unary, EO_OP_HARD_SWISH},
    {"nn.functional.logsigmoid", NULL, emit_unary, EO_OP_LOG_SIGMOID},
    {NULL, NULL, NULL, EO_OP_NONE},
};
