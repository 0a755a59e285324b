/* Lowerings of quantization. Sums are int32 and exact; scaling happens in float32 (float64 where x is), each step
 * rounded once, so that every backend has the same bits. */
#include "daemon/engine/lower/rules.h"

static eo_value binary(struct eo_builder *b, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(b, op, x, y);
}

static bool is_one(const struct eo_tensor_desc *d)
{
    return eo_tensor_desc_count(d) == 1;
}

/* A scale or zero point, one element or a list for axis `axis` of rank n_dims, so that it broadcasts. */
static eo_value along(struct eo_builder *b, eo_value v, int n_dims, int axis)
{
    struct eo_tensor_desc d = lower_desc(b, v);
    int64_t shape[EO_MAX_DIMS];

    if (is_one(&d)) {
        return eo_build_reshape(b, v, NULL, 0);
    }
    for (int i = 0; i < n_dims; i++) {
        shape[i] = i == axis ? d.shape[0] : 1;
    }
    return eo_build_reshape(b, v, shape, n_dims);
}

static eo_value along_attribute(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    int n_dims = lower_desc(b, node->inputs[0]).n_dims;
    int64_t axis = lower_int(node, "axis");

    return along(b, v, n_dims, (int)(axis < 0 ? axis + n_dims : axis));
}

/* round(v) + zero in dtype, halves to even, saturated: a cast clamps to the range and turns NaN into 0. zero broadcasts
 * or is missing.
 */
static eo_value quantized(struct eo_builder *b, eo_value v, eo_value zero, enum eo_dtype dtype)
{
    v = eo_build_unary(b, EO_OP_ROUND, v);
    if (zero != EO_NO_VALUE) {
        v = binary(b, EO_OP_ADD, v, lower_narrow(b, zero, v));
    }
    return eo_build_cast(b, v, dtype);
}

void lower_quantize_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), scale = lower_widen(b, along_attribute(b, node, node->inputs[1]));
    eo_value zero = lower_optional(b, node, 2);
    enum eo_dtype dtype = (enum eo_dtype)lower_int(node, "dtype");

    if (zero != EO_NO_VALUE) {
        dtype = (enum eo_dtype)lower_desc(b, zero).dtype;
        zero = along_attribute(b, node, zero);
    }
    out[0] = quantized(b, binary(b, EO_OP_DIVIDE, x, scale), zero, dtype);
}

/* The difference is exact in int32 before it becomes a float. */
void lower_dequantize_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value scale = lower_widen(b, along_attribute(b, node, node->inputs[1])), zero = lower_optional(b, node, 2);
    eo_value x = eo_build_cast(b, node->inputs[0], EO_INT32);

    if (zero != EO_NO_VALUE) {
        x = binary(b, EO_OP_SUBTRACT, x, eo_build_cast(b, along_attribute(b, node, zero), EO_INT32));
    }
    out[0] = lower_narrow(b, binary(b, EO_OP_MULTIPLY, lower_narrow(b, x, scale), scale), node->inputs[1]);
}

/* scale = (max(0, max(x)) - min(0, min(x))) / 255, 1 where x is all zeros; zero point = -min(0, min(x)) / scale,
 * rounded and saturated. */
void lower_dynamic_quantize_linear(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = node->inputs[0], zero = eo_build_scalar_like(b, x, 0), low = zero, high = zero, flat, scale;
    struct eo_tensor_desc d = lower_desc(b, x);

    if (eo_tensor_desc_count(&d) > 0) {
        low = binary(b, EO_OP_MINIMUM, eo_build_reduce(b, EO_OP_MIN, x, NULL, 0, false), zero);
        high = binary(b, EO_OP_MAXIMUM, eo_build_reduce(b, EO_OP_MAX, x, NULL, 0, false), zero);
    }
    scale = binary(b, EO_OP_DIVIDE, binary(b, EO_OP_SUBTRACT, high, low), eo_build_scalar_like(b, x, 255));
    flat = binary(b, EO_OP_EQUAL, scale, zero);
    out[1] = eo_build_where(b, flat, eo_build_scalar_like(b, x, 1), scale);
    out[2] =
        quantized(b, binary(b, EO_OP_DIVIDE, eo_build_unary(b, EO_OP_NEGATIVE, low), out[1]), EO_NO_VALUE, EO_UINT8);
    out[0] = quantized(b, binary(b, EO_OP_DIVIDE, x, out[1]), out[2], EO_UINT8);
}

/* ---- products ---- */

/* v - zero in int32; zero broadcasts or is missing. */
static eo_value centred(struct eo_builder *b, eo_value v, eo_value zero)
{
    v = eo_build_cast(b, v, EO_INT32);
    return zero == EO_NO_VALUE ? v : binary(b, EO_OP_SUBTRACT, v, eo_build_cast(b, zero, EO_INT32));
}

/* A list with one entry per row, against (..., rows, columns); what broadcasts as it is stays. */
static eo_value per_row(struct eo_builder *b, eo_value v)
{
    return v == EO_NO_VALUE || lower_desc(b, v).n_dims > 1 ? v : along(b, v, 2, 0);
}

/* A list with one entry for each index of the last dimension broadcasts as it is. */
static eo_value per_column(struct eo_builder *b, eo_value v)
{
    return v == EO_NO_VALUE || lower_desc(b, v).n_dims > 1 ? v : along(b, v, 1, 0);
}

/* Against a vector, rows or columns are one: what belongs to them is one element. */
static eo_value integer_product(struct eo_builder *b, eo_value x, eo_value x_zero, eo_value y, eo_value y_zero)
{
    return eo_build_matmul(b, centred(b, x, per_row(b, x_zero)), centred(b, y, per_column(b, y_zero)), false, false);
}

void lower_matmul_integer(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] =
        integer_product(b, node->inputs[0], lower_optional(b, node, 2), node->inputs[1], lower_optional(b, node, 3));
}

/* The axis of the output channels in a weight, or in the result. */
static int channel_axis(struct eo_builder *b, const struct eo_graph_node *node, eo_value v, bool weight)
{
    return lower_int(node, "layout") == 0 ? lower_desc(b, v).n_dims - 1 : weight ? 0 : 1;
}

/* conv of int32; the rows here repeat conv's attributes in its order. */
static eo_value integer_convolution(struct eo_builder *b, const struct eo_graph_node *node, eo_value x, eo_value x_zero,
                                    eo_value weight, eo_value weight_zero, eo_value bias)
{
    int n_dims = lower_desc(b, weight).n_dims;
    eo_value in[3];

    x_zero = x_zero == EO_NO_VALUE ? x_zero : along(b, x_zero, 1, 0);
    weight_zero =
        weight_zero == EO_NO_VALUE ? weight_zero : along(b, weight_zero, n_dims, channel_axis(b, node, weight, true));
    in[0] = centred(b, x, x_zero);
    in[1] = centred(b, weight, weight_zero);
    in[2] = bias;
    return eo_build_op(b, EO_OP_CONV, in, bias == EO_NO_VALUE ? 2 : 3, node->attrs);
}

void lower_conv_integer(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = integer_convolution(b, node, node->inputs[0], lower_optional(b, node, 2), node->inputs[1],
                                 lower_optional(b, node, 3), EO_NO_VALUE);
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

/* sums (a_scale b_scale / y_scale), quantized as y_zero says. */
static eo_value requantized(struct eo_builder *b, const struct eo_graph_node *node, eo_value sums, eo_value a_scale,
                            eo_value b_scale)
{
    eo_value y_scale = along(b, node->inputs[Y_SCALE], 1, 0), zero = along(b, node->inputs[Y_ZERO], 1, 0);
    eo_value factor = binary(b, EO_OP_DIVIDE, binary(b, EO_OP_MULTIPLY, a_scale, b_scale), y_scale);
    eo_value scaled = binary(b, EO_OP_MULTIPLY, eo_build_cast(b, sums, EO_FLOAT32), factor);

    return quantized(b, scaled, zero, (enum eo_dtype)lower_desc(b, node->inputs[Y_ZERO]).dtype);
}

void lower_qlinear_matmul(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value *in = node->inputs;
    eo_value sums = integer_product(b, in[A], lower_optional(b, node, A_ZERO), in[B], lower_optional(b, node, B_ZERO));
    /* A product with a vector has no dimension of columns: its rows are the last one. */
    bool has_columns = lower_desc(b, in[B]).n_dims > 1;

    out[0] = requantized(b, node, sums, has_columns ? per_row(b, in[A_SCALE]) : per_column(b, in[A_SCALE]),
                         per_column(b, in[B_SCALE]));
}

void lower_qlinear_conv(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value *in = node->inputs;
    eo_value sums = integer_convolution(b, node, in[A], lower_optional(b, node, A_ZERO), in[B],
                                        lower_optional(b, node, B_ZERO), lower_optional(b, node, BIAS));
    int n_dims = lower_desc(b, sums).n_dims;

    out[0] = requantized(b, node, sums, along(b, in[A_SCALE], 1, 0),
                         along(b, in[B_SCALE], n_dims, channel_axis(b, node, sums, false)));
}
