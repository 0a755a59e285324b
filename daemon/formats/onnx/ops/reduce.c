/* Reductions, extremes, running sums, the softmax family. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

void map_reduce(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    int64_t axes[EO_MAX_INTS];
    int n = site_ints_or_operand(s, "axes", 1, axes, EO_MAX_INTS);
    eo_value x = site_in(s, 0);

    row_int(&r, "keepdims", site_int(s, "keepdims", 1) != 0);
    if (site_int(s, "noop_with_empty_axes", 0) != 0 && n <= 0) {
        s->out[0] = x;
        return;
    }
    row_ints(&r, "axes", axes, n > 0 ? n : 0);
    s->out[0] = row_make(&r, &x, 1);
}

void map_arg_extreme(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value x = site_in(s, 0);

    row_int(&r, "axis", site_int(s, "axis", 0));
    row_int(&r, "keepdims", site_int(s, "keepdims", 1) != 0);
    if (site_int(s, "select_last_index", 0) != 0) {
        row_int(&r, "last", 1);
    }
    s->out[0] = row_make(&r, &x, 1);
}

void map_cum_sum(struct onnx_site *s)
{
    struct row r = row_of(s, "cumulative_sum");
    eo_value x = site_in(s, 0);

    row_int(&r, "axis", site_number(s, 1));
    row_int(&r, "exclusive", site_int(s, "exclusive", 0) != 0);
    row_int(&r, "reverse", site_int(s, "reverse", 0) != 0);
    s->out[0] = row_make(&r, &x, 1);
}

/* k is an attribute before opset 10; largest and sorted came with 11. */
void map_top_k(struct onnx_site *s)
{
    struct row r = row_of(s, "top_k");
    eo_value out[EO_MAX_OUTPUTS], x = site_in(s, 0);

    row_int(&r, "k", s->version < 10 ? site_need_int(s, "k") : site_number(s, 1));
    row_int(&r, "axis", site_int(s, "axis", -1));
    row_int(&r, "largest", site_int(s, "largest", 1) != 0);
    row_int(&r, "sorted", site_int(s, "sorted", 1) != 0);
    row_make_all(&r, &x, 1, out);
    for (int o = 0; o < s->n_out && o < 2; o++) {
        s->out[o] = out[o];
    }
}

/* Softmax, LogSoftmax, Hardmax. Before opset 13 the input was seen as a matrix, split at axis, whose rows sum to 1. */
void map_softmax(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value x = site_in(s, 0);
    struct eo_tensor_desc desc = *site_desc(s, x);
    int64_t matrix[2] = {1, 1};
    int axis;

    if (s->version >= 13) {
        row_int(&r, "axis", site_int(s, "axis", -1));
        s->out[0] = row_make(&r, &x, 1);
        return;
    }
    axis = (int)site_int(s, "axis", 1);
    if (axis != desc.n_dims) {
        axis = site_axis(s, axis, desc.n_dims);
    }
    for (int d = 0; d < desc.n_dims; d++) {
        matrix[d < axis ? 0 : 1] *= desc.shape[d];
    }
    x = site_reshape(s, x, matrix, 2);
    row_int(&r, "axis", 1);
    s->out[0] = site_reshape(s, row_make(&r, &x, 1), desc.shape, desc.n_dims);
}
