/* Lowerings of pools. Everything happens with channels last: N images, O windows of K cells, C channels. */
#include "daemon/engine/lower/rules.h"
#include "daemon/engine/windows.h"

#include <math.h>

static eo_value arange(struct eo_builder *b, int64_t count, int64_t step)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_ARANGE);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    attrs.v[eo_attr_index(op, "count")].i = count;
    attrs.v[eo_attr_index(op, "step")].f = (double)step;
    attrs.v[eo_attr_index(op, "dtype")].i = EO_INT64;
    return eo_build_op(b, EO_OP_ARANGE, NULL, 0, &attrs);
}

static eo_value full(struct eo_builder *b, enum eo_dtype dtype, double value, const int64_t *shape, int n)
{
    return eo_build_expand(b, eo_build_scalar(b, dtype, value), shape, n);
}

/* The cells of all windows, (N, O, K, C); images is N, which is 1 for what is the same in every image. */
static eo_value cells_of(struct eo_builder *b, const struct eo_window_shape *w, eo_value x, double outside)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_UNFOLD);
    struct eo_tensor_desc d = lower_desc(b, x);
    struct eo_attrs attrs;

    windows_describe(b, EO_OP_UNFOLD, w, &attrs);
    attrs.v[eo_attr_index(op, "value")].f = outside;
    x = eo_build_op(b, EO_OP_UNFOLD, &x, 1, &attrs);
    return LOWER_RESHAPE(b, x, d.shape[0], eo_window_count(w), eo_window_cells(w), d.shape[d.n_dims - 1]);
}

/* (N, O, C) as the result of the node. */
static eo_value to_result(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t shape[EO_MAX_DIMS] = {w->batch};

    for (int d = 0; d < w->n_axes; d++) {
        shape[1 + d] = w->axis[d].count;
    }
    shape[1 + w->n_axes] = w->channels;
    return windows_channels_first(b, w, eo_build_reshape(b, v, shape, 2 + w->n_axes));
}

/* An image of one channel, (1, S..., 1), from its elements. */
static eo_value to_plane(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t shape[EO_MAX_DIMS] = {1};

    for (int d = 0; d < w->n_axes; d++) {
        shape[1 + d] = w->axis[d].size;
    }
    shape[1 + w->n_axes] = 1;
    return eo_build_reshape(b, v, shape, 2 + w->n_axes);
}

/* No image or no channel: then sizes may be anything, also too large for the planes that count positions and cells. */
static bool is_empty(const struct eo_window_shape *w)
{
    return w->batch == 0 || w->channels == 0;
}

/* ---- max_pool ---- */

/* What no value is below. */
static double lowest_of(enum eo_dtype dtype)
{
    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_FLOAT:
        return -INFINITY;
    case EO_KIND_SIGNED:
        return -ldexp(1, (int)eo_dtype_size(dtype) * 8 - 1);
    default:
        return 0;
    }
}

/* Whether a window may lie in the padding as a whole. Without dilation those would be the first or the last one. */
static bool may_be_empty(const struct eo_window_shape *w)
{
    bool any = false;

    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];
        int64_t first, end, first_last, end_last;

        eo_window_inside(a, 0, &first, &end);
        eo_window_inside(a, a->count - 1, &first_last, &end_last);
        any |= first == end || first_last == end_last || (a->dilation > 1 && eo_window_has_padding(w));
    }
    return any;
}

/* Flat positions: best (N, O, C) counts cells of a window; of padding (which wins only where every cell holds the
 * lowest value) the first cell that is none, and -1 where there is no such cell. */
static eo_value winners(struct eo_builder *b, const struct eo_window_shape *w, eo_value best)
{
    int64_t o = eo_window_count(w), k = eo_window_cells(w);
    eo_value at = cells_of(b, w, to_plane(b, w, arange(b, eo_window_positions(w), 1)), -1); /* (1, O, K, 1) */
    eo_value offsets = LOWER_RESHAPE(b, arange(b, o, k), 1, o, 1), flat = LOWER_RESHAPE(b, at, o * k), zero, real, v;

    v = eo_build_binary(b, EO_OP_ADD, best, offsets);
    v = lower_with_int(b, EO_OP_GATHER, (eo_value[]){flat, v}, 2, "axis", 0);
    if (!eo_window_has_padding(w)) {
        return v;
    }
    zero = eo_build_scalar(b, EO_INT64, 0);
    real = eo_build_cast(b, eo_build_binary(b, EO_OP_GREATER_EQUAL, LOWER_RESHAPE(b, at, o, k), zero), EO_UINT8);
    real = LOWER_RESHAPE(b, lower_with_int(b, EO_OP_ARG_MAX, &real, 1, "axis", 1), 1, o, 1);
    real = eo_build_binary(b, EO_OP_ADD, real, offsets);
    real = lower_with_int(b, EO_OP_GATHER, (eo_value[]){flat, real}, 2, "axis", 0);
    return eo_build_where(b, eo_build_binary(b, EO_OP_GREATER_EQUAL, v, zero), v, real);
}

/* The values at positions (N, O, C) of x (N, S..., C). */
static eo_value values_at(struct eo_builder *b, const struct eo_window_shape *w, eo_value x, eo_value at, double lowest)
{
    eo_value zero = eo_build_scalar(b, EO_INT64, 0), there, v;

    x = LOWER_RESHAPE(b, x, w->batch, eo_window_positions(w), w->channels);
    if (!may_be_empty(w)) {
        return lower_with_int(b, EO_OP_GATHER_ELEMENTS, (eo_value[]){x, at}, 2, "axis", 1);
    }
    there = eo_build_binary(b, EO_OP_GREATER_EQUAL, at, zero);
    at = eo_build_binary(b, EO_OP_MAXIMUM, at, zero);
    v = lower_with_int(b, EO_OP_GATHER_ELEMENTS, (eo_value[]){x, at}, 2, "axis", 1);
    return eo_build_where(b, there, v, eo_build_scalar_like(b, x, lowest));
}

void lower_max_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_window_shape w = windows_of(b, node);
    enum eo_dtype dtype = (enum eo_dtype)lower_desc(b, node->inputs[0]).dtype;
    double lowest = lowest_of(dtype);
    eo_value x = windows_channels_last(b, &w, node->inputs[0]), best, at;

    if (b->status != EO_OK) {
        return;
    }
    if (eo_window_positions(&w) == 0 || is_empty(&w)) { /* all is padding, or nothing is there */
        int64_t shape[3] = {w.batch, eo_window_count(&w), w.channels};

        out[0] = to_result(b, &w, full(b, dtype, lowest, shape, 3));
        out[1] = to_result(b, &w, full(b, EO_INT64, -1, shape, 3));
        return;
    }
    best = cells_of(b, &w, x, lowest);
    at = winners(b, &w, lower_with_int(b, EO_OP_ARG_MAX, &best, 1, "axis", 2));
    out[0] = to_result(b, &w, values_at(b, &w, x, at, lowest));
    out[1] = to_result(b, &w, at);
}

/* ---- means and norms ---- */

/* How many cells of each window count, (1, O, 1): those of x, or with_padding those that were asked for too. */
static eo_value count_cells(struct eo_builder *b, const struct eo_window_shape *w, enum eo_dtype dtype,
                            bool with_padding)
{
    struct eo_window_shape plane = *w;
    eo_value ones;

    for (int d = 0; d < w->n_axes && with_padding; d++) {
        struct eo_window_axis *a = &plane.axis[d];

        a->size += a->pad_begin + a->pad_end - a->beyond;
        a->pad_begin = 0;
        a->pad_end = a->beyond;
    }
    ones = full(b, dtype, 1, LOWER_NUMBERS(eo_window_positions(&plane)));
    ones = cells_of(b, &plane, to_plane(b, &plane, ones), 0);
    ones = eo_build_reduce(b, EO_OP_SUM, ones, (int64_t[]){2}, 1, false);
    return eo_build_binary(b, EO_OP_MAXIMUM, ones, eo_build_scalar(b, dtype, 1)); /* a window of padding alone: 0 */
}

static bool looks_beyond(const struct eo_window_shape *w)
{
    bool any = false;

    for (int d = 0; d < w->n_axes; d++) {
        any |= w->axis[d].beyond > 0;
    }
    return any;
}

void lower_average_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_window_shape w = windows_of(b, node);
    eo_value x = lower_widen(b, windows_channels_last(b, &w, node->inputs[0])), sums;
    bool with_padding = lower_int(node, "count_include_pad") != 0;
    bool all = is_empty(&w) || (with_padding ? !looks_beyond(&w) : !eo_window_has_padding(&w));

    if (b->status != EO_OK) {
        return;
    }
    sums = cells_of(b, &w, x, 0);
    sums = eo_build_reduce(b, all ? EO_OP_MEAN : EO_OP_SUM, sums, (int64_t[]){2}, 1, false);
    if (!all) {
        eo_value cells = count_cells(b, &w, (enum eo_dtype)lower_desc(b, x).dtype, with_padding);

        sums = eo_build_binary(b, EO_OP_DIVIDE, sums, cells);
    }
    out[0] = to_result(b, &w, lower_narrow(b, sums, node->inputs[0]));
}

static eo_value power(struct eo_builder *b, eo_value x, double exponent)
{
    return eo_build_binary(b, EO_OP_POWER, x, eo_build_scalar_like(b, x, exponent));
}

/* |x|^p */
static eo_value powers(struct eo_builder *b, eo_value x, int64_t p)
{
    if (p == 2) {
        return eo_build_binary(b, EO_OP_MULTIPLY, x, x);
    }
    x = eo_build_unary(b, EO_OP_ABS, x);
    return p == 1 ? x : power(b, x, (double)p);
}

/* x^(1/p); at 0, where the root has no slope, its gradient is 0. */
static eo_value root(struct eo_builder *b, eo_value x, int64_t p)
{
    eo_value zero, none, v;

    if (p == 1) {
        return x;
    }
    zero = eo_build_scalar_like(b, x, 0);
    none = eo_build_binary(b, EO_OP_EQUAL, x, zero);
    v = eo_build_where(b, none, eo_build_scalar_like(b, x, 1), x);
    v = p == 2 ? eo_build_unary(b, EO_OP_SQRT, v) : power(b, v, 1 / (double)p);
    return eo_build_where(b, none, zero, v);
}

void lower_lp_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_window_shape w = windows_of(b, node);
    eo_value x = lower_widen(b, windows_channels_last(b, &w, node->inputs[0])), sums;
    int64_t p = lower_int(node, "p");

    if (b->status != EO_OK) {
        return;
    }
    sums = cells_of(b, &w, powers(b, x, p), 0);
    sums = eo_build_reduce(b, EO_OP_SUM, sums, (int64_t[]){2}, 1, false);
    out[0] = to_result(b, &w, lower_narrow(b, root(b, sums, p), node->inputs[0]));
}

/* ---- global pools ---- */

static int spatial_axes(const struct eo_graph_node *node, int n_dims, int64_t axes[EO_MAX_DIMS])
{
    int n = n_dims - 2;

    for (int d = 0; d < n; d++) {
        axes[d] = d + (lower_int(node, "layout") != 0 ? 2 : 1);
    }
    return n;
}

/* The first largest one gets all of the gradient, as in max_pool: not so with the row max. */
void lower_global_max_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc d = lower_desc(b, node->inputs[0]);
    int64_t axes[EO_MAX_DIMS], flat[3] = {d.shape[0], 1, d.shape[d.n_dims - 1]};
    int n = spatial_axes(node, d.n_dims, axes), axis = 1;
    eo_value x, best;

    if (lower_int(node, "layout") != 0) {
        axis = 2;
        flat[1] = d.shape[1];
        flat[2] = 1;
    }
    for (int i = 0; i < n; i++) {
        flat[axis] *= d.shape[axes[i]];
        d.shape[axes[i]] = 1;
    }
    x = eo_build_reshape(b, node->inputs[0], flat, 3);
    best = lower_with_int(b, EO_OP_ARG_MAX, &x, 1, "axis", axis);
    flat[axis] = 1;
    best = eo_build_reshape(b, best, flat, 3);
    x = lower_with_int(b, EO_OP_GATHER_ELEMENTS, (eo_value[]){x, best}, 2, "axis", axis);
    out[0] = eo_build_reshape(b, x, d.shape, d.n_dims);
}

void lower_global_average_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    int64_t axes[EO_MAX_DIMS];
    int n = spatial_axes(node, lower_desc(b, node->inputs[0]).n_dims, axes);

    out[0] = eo_build_reduce(b, EO_OP_MEAN, node->inputs[0], axes, n, true);
}

void lower_global_lp_pool(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    int64_t axes[EO_MAX_DIMS], p = lower_int(node, "p");
    int n = spatial_axes(node, lower_desc(b, x).n_dims, axes);

    x = eo_build_reduce(b, EO_OP_SUM, powers(b, x, p), axes, n, true);
    out[0] = lower_narrow(b, root(b, x, p), node->inputs[0]);
}
