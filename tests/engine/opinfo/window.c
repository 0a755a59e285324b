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

const struct function opinfo_window[] = {
    {"nn.functional.conv1d", NULL, emit_conv, EO_OP_CONV},
    {"nn.functional.conv2d", NULL, emit_conv, EO_OP_CONV},
    {"nn.functional.conv_transpose1d", NULL, emit_conv, EO_OP_CONV_TRANSPOSE},
    {"nn.functional.conv_transpose2d", NULL, emit_conv, EO_OP_CONV_TRANSPOSE},
    {"nn.functional.adaptive_avg_pool2d", NULL, emit_adaptive, EO_OP_MATMUL},
    {NULL, NULL, NULL, EO_OP_NONE},
};
