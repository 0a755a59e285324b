/* Lowerings of convolutions: the cells of all windows as the rows of a matrix, times the weight as a matrix. Everything
 * happens with channels last; layout nchw transposes around it.
 *
 * Below: N images, O windows and K cells per window, G groups; the cells have C channels, the results M. */
#include "daemon/engine/lower/rules.h"
#include "daemon/engine/windows.h"

/* (N, sizes..., channels), of the cells or of the windows' results. */
static eo_value to_image(struct eo_builder *b, const struct eo_window_shape *w, eo_value v, bool cells)
{
    int64_t shape[EO_MAX_DIMS] = {w->batch};

    for (int d = 0; d < w->n_axes; d++) {
        shape[1 + d] = cells ? w->axis[d].size : w->axis[d].count;
    }
    shape[1 + w->n_axes] = cells ? w->channels : w->out_channels;
    return eo_build_reshape(b, v, shape, 2 + w->n_axes);
}

/* ---- matrices ---- */

/* Each window is one cell and each cell one window: nothing to unfold. */
static bool is_pointwise(const struct eo_window_shape *w)
{
    bool all = true;

    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];

        all = all && a->kernel == 1 && a->stride == 1 && a->pad_begin == 0 && a->count == a->size;
    }
    return all;
}

/* One channel in, one channel out: products of few terms, which elementwise rows do better than matrices. */
static bool is_depthwise(const struct eo_window_shape *w)
{
    return w->groups > 1 && w->groups == w->channels && w->groups == w->out_channels;
}

static int64_t rows_of(const struct eo_window_shape *w)
{
    return w->batch * eo_window_count(w);
}

/* The cells of all windows, (N*O, K, C). */
static eo_value cells_of(struct eo_builder *b, const struct eo_window_shape *w, eo_value x)
{
    eo_value v = windows_channels_last(b, w, x);

    v = is_pointwise(w) ? v : windows_emit(b, EO_OP_UNFOLD, w, &v, 1);
    return LOWER_RESHAPE(b, v, rows_of(w), eo_window_cells(w), w->channels);
}

/* (N*O, K, C) to (N*O, K*C), by groups to (G, N*O, K*C/G). */
static eo_value cells_as_matrix(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t k = eo_window_cells(w), inner = w->channels / w->groups;

    if (w->groups == 1) {
        return LOWER_RESHAPE(b, v, rows_of(w), k * w->channels);
    }
    v = LOWER_TRANSPOSE(b, LOWER_RESHAPE(b, v, rows_of(w), k, w->groups, inner), 2, 0, 1, 3);
    return LOWER_RESHAPE(b, v, w->groups, rows_of(w), k * inner);
}

/* And back, to (N*O, K, C). */
static eo_value matrix_as_cells(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t k = eo_window_cells(w);

    if (w->groups > 1) {
        v = LOWER_TRANSPOSE(b, LOWER_RESHAPE(b, v, w->groups, rows_of(w), k, w->channels / w->groups), 1, 2, 0, 3);
    }
    return LOWER_RESHAPE(b, v, rows_of(w), k, w->channels);
}

/* (rows, M) to (G, rows, M/G). */
static eo_value split_groups(struct eo_builder *b, const struct eo_window_shape *w, eo_value v, int64_t rows)
{
    v = LOWER_RESHAPE(b, v, rows, w->groups, w->out_channels / w->groups);
    return LOWER_TRANSPOSE(b, v, 1, 0, 2);
}

/* (G, rows, M/G) to (rows, M). */
static eo_value join_groups(struct eo_builder *b, const struct eo_window_shape *w, eo_value v, int64_t rows)
{
    return w->groups == 1 ? v : LOWER_RESHAPE(b, LOWER_TRANSPOSE(b, v, 1, 0, 2), rows, w->out_channels);
}

/* What looks like the result, (N, O..., M) or (N, M, O...): (N*O, M), by groups (G, N*O, M/G). */
static eo_value results_as_matrix(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    v = LOWER_RESHAPE(b, windows_channels_last(b, w, v), rows_of(w), w->out_channels);
    return w->groups == 1 ? v : split_groups(b, w, v, rows_of(w));
}

/* (K..., C/G, M). */
static eo_value weight_to_last(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t perm[EO_MAX_DIMS];

    if (!w->channels_first) {
        return v;
    }
    for (int d = 0; d < w->n_axes; d++) {
        perm[d] = 2 + d;
    }
    perm[w->n_axes] = 1;
    perm[w->n_axes + 1] = 0;
    return eo_build_transpose(b, v, perm, 2 + w->n_axes);
}

static int64_t weight_rows(const struct eo_window_shape *w)
{
    return eo_window_cells(w) * (w->channels / w->groups);
}

/* (K*C/G, M), by groups (G, K*C/G, M/G). */
static eo_value weight_as_matrix(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    v = LOWER_RESHAPE(b, weight_to_last(b, w, v), weight_rows(w), w->out_channels);
    return w->groups == 1 ? v : split_groups(b, w, v, weight_rows(w));
}

/* (K*C/G, M) to the weight's shape. */
static eo_value to_weight(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t shape[EO_MAX_DIMS], perm[EO_MAX_DIMS] = {w->n_axes + 1, w->n_axes};

    for (int d = 0; d < w->n_axes; d++) {
        shape[d] = w->axis[d].kernel;
        perm[2 + d] = d;
    }
    shape[w->n_axes] = w->channels / w->groups;
    shape[w->n_axes + 1] = w->out_channels;
    v = eo_build_reshape(b, v, shape, 2 + w->n_axes);
    return w->channels_first ? eo_build_transpose(b, v, perm, 2 + w->n_axes) : v;
}

static eo_value multiply(struct eo_builder *b, eo_value x, eo_value y)
{
    return eo_build_binary(b, EO_OP_MULTIPLY, x, y);
}

static eo_value add_bias(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    eo_value bias = lower_optional(b, node, 2);

    return bias == EO_NO_VALUE ? v : eo_build_binary(b, EO_OP_ADD, v, lower_narrow(b, bias, v));
}

/* ---- rows ---- */

void lower_conv(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value x = node->inputs[0], weight = node->inputs[1];
    struct eo_window_shape w = windows_of(b, node);
    eo_value v;

    if (b->status != EO_OK) {
        return;
    }
    v = cells_of(b, &w, x);
    if (is_depthwise(&w)) {
        eo_value kernel = LOWER_RESHAPE(b, weight_to_last(b, &w, weight), eo_window_cells(&w), w.channels);

        v = multiply(b, lower_widen(b, v), lower_widen(b, kernel));
        v = eo_build_reduce(b, EO_OP_SUM, v, (int64_t[]){1}, 1, false);
    } else {
        v = eo_build_matmul(b, cells_as_matrix(b, &w, v), weight_as_matrix(b, &w, weight), false, false);
        v = join_groups(b, &w, v, rows_of(&w));
    }
    v = lower_narrow(b, add_bias(b, node, v), x);
    out[0] = windows_channels_first(b, &w, to_image(b, &w, v, false));
}

void lower_conv_transpose(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value x = node->inputs[0], weight = node->inputs[1];
    struct eo_window_shape w = windows_of(b, node);
    eo_value v;

    if (b->status != EO_OK) {
        return;
    }
    if (is_depthwise(&w)) {
        eo_value kernel = LOWER_RESHAPE(b, weight_to_last(b, &w, weight), 1, eo_window_cells(&w), w.channels);

        v = LOWER_RESHAPE(b, windows_channels_last(b, &w, x), rows_of(&w), 1, w.channels);
        v = multiply(b, v, kernel);
    } else {
        v = eo_build_matmul(b, results_as_matrix(b, &w, x), weight_as_matrix(b, &w, weight), false, true);
        v = matrix_as_cells(b, &w, v);
    }
    if (!is_pointwise(&w)) {
        int64_t shape[EO_MAX_DIMS] = {w.batch};

        for (int d = 0; d < w.n_axes; d++) {
            shape[1 + d] = w.axis[d].count;
            shape[1 + w.n_axes + d] = w.axis[d].kernel;
        }
        shape[1 + 2 * w.n_axes] = w.channels;
        v = eo_build_reshape(b, v, shape, 2 + 2 * w.n_axes);
        v = windows_emit(b, EO_OP_FOLD, &w, &v, 1);
    }
    v = add_bias(b, node, to_image(b, &w, v, true));
    out[0] = windows_channels_first(b, &w, v);
}

void lower_conv_weight(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value x = node->inputs[0], g = node->inputs[1];
    struct eo_window_shape w = windows_of(b, node);
    eo_value v;

    if (b->status != EO_OK) {
        return;
    }
    v = cells_of(b, &w, x);
    if (is_depthwise(&w)) {
        eo_value results = LOWER_RESHAPE(b, windows_channels_last(b, &w, g), rows_of(&w), 1, w.channels);

        v = multiply(b, lower_widen(b, v), lower_widen(b, results));
        v = lower_narrow(b, eo_build_reduce(b, EO_OP_SUM, v, (int64_t[]){0}, 1, false), x);
    } else {
        v = eo_build_matmul(b, cells_as_matrix(b, &w, v), results_as_matrix(b, &w, g), true, false);
        v = join_groups(b, &w, v, weight_rows(&w));
    }
    out[0] = to_weight(b, &w, v);
}
