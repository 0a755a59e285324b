/* Convolution, pooling and normalization. PyTorch's layout has the channels first. */
#include "tests/engine/opinfo/sample.h"

#include <string.h>

/* Attribute text of a list of integers, one number for all n axes; empty when it is not given. */
static const char *per_axis(const json_t *j, int n, char *text, size_t size)
{
    int64_t list[EO_MAX_DIMS];

    return sample_list(list, j == NULL ? 0 : sample_ints(j, n, list), text, size);
}

/* padding of each axis, at its begin and its end. */
static const char *both_sides(const json_t *j, int n, char *text, size_t size)
{
    int64_t list[2 * EO_MAX_DIMS];

    if (!json_is_integer(j) && !json_is_array(j)) {
        text[0] = '\0';
        return text;
    }
    (void)sample_ints(j, n, list);
    memcpy(list + n, list, (size_t)n * sizeof(*list));
    return sample_list(list, 2 * n, text, size);
}

/* x with a first dimension of 1 when it is one sample only. */
static eo_value batched(struct sample *s, eo_value x, int rank)
{
    struct eo_tensor_desc d = sample_desc(s, x);

    if (d.n_dims == rank) {
        return x;
    }
    memmove(d.shape + 1, d.shape, (size_t)d.n_dims * sizeof(d.shape[0]));
    d.shape[0] = 1;
    return eo_build_reshape(&s->b, x, d.shape, d.n_dims + 1);
}

static eo_value emit_conv(struct sample *s, enum eo_op op)
{
    eo_value weight = sample_arg_tensor(s, 0), bias = sample_arg_tensor(s, 1);
    int rank = sample_desc(s, weight).n_dims, n = rank - 2;
    eo_value in[3] = {batched(s, sample_input(s), rank), weight, bias};
    const char *padding = sample_kwarg_text(s, "padding", "explicit");
    char strides[64], dilations[64], pads[96], extra[96] = "", text[64];

    if (op == EO_OP_CONV_TRANSPOSE) {
        (void)snprintf(extra, sizeof(extra), "output_padding=%s",
                       per_axis(sample_kwarg(s, "output_padding"), n, text, sizeof(text)));
    }
    in[0] = sample_row(
        s, op, in, bias == EO_NO_VALUE ? 2 : 3, "layout=nchw groups=%d strides=%s dilations=%s pads=%s padding=%s %s",
        (int)sample_kwarg_number(s, "groups", 1), per_axis(sample_kwarg(s, "stride"), n, strides, sizeof(strides)),
        per_axis(sample_kwarg(s, "dilation"), n, dilations, sizeof(dilations)),
        both_sides(sample_kwarg(s, "padding"), n, pads, sizeof(pads)), padding, extra);
    return sample_like_result(s, in[0]);
}

/* Arguments of pools stand at positions or have names. */
static eo_value pool(struct sample *s, enum eo_op op, const json_t *strides, const json_t *padding, bool ceil_mode,
                     const char *more)
{
    eo_value x = sample_input(s);
    int n = sample_desc(s, x).n_dims - 2;
    const json_t *kernel = sample_either(s, 0, "kernel_size");
    char text[4][64];

    strides = strides == NULL || (json_is_array(strides) && json_array_size(strides) == 0) ? kernel : strides;
    return sample_row(s, op, &x, 1, "layout=nchw kernel=%s strides=%s dilations=%s pads=%s ceil_mode=%d %s",
                      per_axis(kernel, n, text[0], sizeof(text[0])), per_axis(strides, n, text[1], sizeof(text[1])),
                      per_axis(sample_kwarg(s, "dilation"), n, text[2], sizeof(text[2])),
                      both_sides(padding, n, text[3], sizeof(text[3])), ceil_mode, more);
}

static eo_value emit_max_pool(struct sample *s, enum eo_op op)
{
    eo_value y = pool(s, op, sample_kwarg(s, "stride"), sample_kwarg(s, "padding"),
                      json_is_true(sample_kwarg(s, "ceil_mode")), "");

    if (json_is_true(sample_kwarg(s, "return_indices"))) {
        sample_also(s, y + 1);
    }
    return y;
}

static eo_value emit_average_pool1d(struct sample *s, enum eo_op op)
{
    const json_t *count = sample_kwarg(s, "count_include_pad");

    return pool(s, op, sample_kwarg(s, "stride"), sample_kwarg(s, "padding"),
                json_is_true(sample_kwarg(s, "ceil_mode")),
                count == NULL || json_is_true(count) ? "count_include_pad=1" : "count_include_pad=0");
}

/* With the divisor given: the mean over whole windows times their cells, divided by it. */
static eo_value emit_average_pool2d(struct sample *s, enum eo_op op)
{
    eo_value mean =
        pool(s, op, sample_arg(s, 1), sample_arg(s, 2), json_is_true(sample_arg(s, 3)), "count_include_pad=1");
    int64_t kernel[2];

    (void)sample_ints(sample_arg(s, 0), 2, kernel);
    return sample_two(s, EO_OP_MULTIPLY, mean,
                      sample_scalar(s, (double)(kernel[0] * kernel[1]) / sample_number(sample_arg(s, 5))));
}

/* Mean over the rows floor(o H / O) to ceil((o + 1) H / O) of each of O results: a product with a constant matrix. The
 * columns stay as they are. */
static eo_value emit_adaptive(struct sample *s, enum eo_op op)
{
    static struct eo_error err;
    struct eo_tensor_desc d = sample_desc(s, sample_input(s)), m = {.dtype = EO_FLOAT64, .n_dims = 2};
    int64_t rows = d.shape[d.n_dims - 2], results = json_integer_value(json_array_get(sample_arg(s, 0), 0));
    double means[64] = {0};
    eo_value matrix;

    ck_assert(results * rows <= 64 && json_is_null(json_array_get(sample_arg(s, 0), 1)));
    m.shape[0] = results;
    m.shape[1] = rows;
    for (int64_t o = 0; o < results; o++) {
        int64_t first = o * rows / results, end = ((o + 1) * rows + results - 1) / results;

        for (int64_t h = first; h < end; h++) {
            means[o * rows + h] = 1.0 / (double)(end - first);
        }
    }
    ASSERT_OK(eo_graph_constant(s->g, &m, means, &matrix, &err));
    return sample_two(s, op, matrix, sample_input(s));
}

/* ---- normalization ---- */

/* The operand, or a vector of n times `fill`. */
static eo_value or_filled(struct sample *s, const json_t *j, int64_t n, double fill)
{
    eo_value v = sample_tensor(s, j);

    return v != EO_NO_VALUE ? v : eo_build_expand(&s->b, sample_scalar(s, fill), &n, 1);
}

/* scale and bias per channel, behind x. */
static void with_affine(struct sample *s, const json_t *weight, const json_t *bias, eo_value *in)
{
    int64_t channels = sample_desc(s, sample_input(s)).shape[1];

    in[0] = sample_input(s);
    in[1] = or_filled(s, weight, channels, 1);
    in[2] = or_filled(s, bias, channels, 0);
}

static eo_value emit_instance_norm(struct sample *s, enum eo_op op)
{
    eo_value in[3];

    with_affine(s, sample_kwarg(s, "weight"), sample_kwarg(s, "bias"), in);
    return sample_row(s, op, in, 3, "layout=nchw eps=%.17g", sample_kwarg_number(s, "eps", 1e-5));
}

static eo_value emit_group_norm(struct sample *s, enum eo_op op)
{
    eo_value in[3];

    if (sample_kwarg_number(s, "eps", 1e-5) < 0) {
        return sample_leave_out(s, "eps below 0 is refused");
    }
    with_affine(s, sample_kwarg(s, "weight"), sample_kwarg(s, "bias"), in);
    return sample_row(s, op, in, 3, "layout=nchw groups=%d eps=%.17g", (int)sample_arg_int(s, 0),
                      sample_kwarg_number(s, "eps", 1e-5));
}

/* The axes are as many as the shape given has. */
static eo_value emit_layer_norm(struct sample *s, enum eo_op op)
{
    int axis = -(int)json_array_size(sample_arg(s, 0));
    eo_value in[3] = {sample_input(s), sample_arg_tensor(s, 1), sample_arg_tensor(s, 2)};

    if (sample_kwarg_number(s, "eps", 1e-5) < 0) {
        return sample_leave_out(s, "eps below 0 is refused");
    }
    if (in[1] == EO_NO_VALUE) {
        int64_t shape[EO_MAX_DIMS];

        in[1] = eo_build_expand(&s->b, sample_scalar(s, 1), shape, sample_ints(sample_arg(s, 0), 1, shape));
    }
    return sample_row(s, op, in, in[2] == EO_NO_VALUE ? 2 : 3, "axis=%d eps=%.17g", axis,
                      sample_kwarg_number(s, "eps", 1e-5));
}

/* Arguments: running mean, running variance, weight, bias. */
static eo_value emit_batch_norm(struct sample *s, enum eo_op op)
{
    eo_value in[5];
    double eps = sample_kwarg_number(s, "eps", 1e-5);

    if (sample_desc(s, sample_input(s)).n_dims < 2) {
        return sample_leave_out(s, "a tensor of rank 1 has no channels");
    }
    with_affine(s, sample_arg(s, 2), sample_arg(s, 3), in);
    if (json_is_true(sample_kwarg(s, "training"))) {
        return sample_row(s, EO_OP_BATCH_NORM_TRAIN, in, 3, "layout=nchw eps=%.17g", eps);
    }
    in[3] = sample_arg_tensor(s, 0);
    in[4] = sample_arg_tensor(s, 1);
    return sample_row(s, op, in, 5, "layout=nchw eps=%.17g", eps);
}

const struct function opinfo_window[] = {
    {"nn.functional.conv1d", NULL, emit_conv, EO_OP_CONV},
    {"nn.functional.conv2d", NULL, emit_conv, EO_OP_CONV},
    {"nn.functional.conv_transpose1d", NULL, emit_conv, EO_OP_CONV_TRANSPOSE},
    {"nn.functional.conv_transpose2d", NULL, emit_conv, EO_OP_CONV_TRANSPOSE},
    {"nn.functional.adaptive_avg_pool2d", NULL, emit_adaptive, EO_OP_MATMUL},
    {"nn.functional.max_pool1d", NULL, emit_max_pool, EO_OP_MAX_POOL},
    {"nn.functional.max_pool2d", NULL, emit_max_pool, EO_OP_MAX_POOL},
    {"nn.functional.avg_pool1d", NULL, emit_average_pool1d, EO_OP_AVERAGE_POOL},
    {"nn.functional.avg_pool2d", NULL, emit_average_pool2d, EO_OP_AVERAGE_POOL},
    {"nn.functional.batch_norm", NULL, emit_batch_norm, EO_OP_BATCH_NORM},
    {"nn.functional.layer_norm", NULL, emit_layer_norm, EO_OP_LAYER_NORM},
    {"nn.functional.instance_norm", NULL, emit_instance_norm, EO_OP_INSTANCE_NORM},
    {"nn.functional.group_norm", NULL, emit_group_norm, EO_OP_GROUP_NORM},
    {NULL, NULL, NULL, EO_OP_NONE},
};
