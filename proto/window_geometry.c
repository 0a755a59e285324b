#include "proto/shape_rules_window.h"

#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* A call while it is resolved: the row, its operands, its attributes as lists of one entry per axis. */
struct call {
    const struct eo_op_schema *op;
    const struct eo_tensor_desc *const *in;
    int n_in;
    const struct eo_attrs *attrs;
    struct eo_window_shape *w;
    struct eo_error *err;
    enum eo_padding padding;
    int64_t output_padding[EO_WINDOW_AXES];
    bool has_pads, has_size, ceil_mode;
};

static bool has_attr(const struct call *c, const char *name)
{
    return eo_attr_index(c->op, name) >= 0;
}

static int64_t int_or(const struct call *c, const char *name, int64_t fallback)
{
    return has_attr(c, name) ? eo_attr_int(c->op, c->attrs, name) : fallback;
}

/* A list of `wanted` entries; where the row has no such attribute or the list is empty, `fallback` for each. */
static int read_list(const struct call *c, const char *name, int wanted, int64_t fallback, int64_t *out,
                     bool *out_given)
{
    int n = 0, i = eo_attr_index(c->op, name);
    const int64_t *v = i >= 0 ? eo_attr_ints(c->op, c->attrs, name, &n) : NULL;
    bool needed = i >= 0 && c->op->attrs[i].required;

    if (n != wanted && (n != 0 || needed)) {
        return EO_RAISE(c->err, EO_E_BAD_ATTRIBUTE, "attribute %s has %d entries, must have %d for %d spatial ax%s",
                        name, n, wanted, c->w->n_axes, c->w->n_axes == 1 ? "is" : "es");
    }
    for (int d = 0; d < wanted; d++) {
        out[d] = n == 0 ? fallback : v[d];
    }
    *out_given = n != 0;
    return EO_OK;
}

/* ---- one axis ---- */

static int too_large(const struct call *c, int d, const char *what)
{
    return EO_RAISE(c->err, EO_E_TOO_LARGE, "%s of spatial axis %d does not fit in 64 bits", what, d);
}

/* Cells from the first to the last of a window. */
static bool extent_of(const struct eo_window_axis *a, int64_t *out)
{
    return eo_mul_i64(a->dilation, a->kernel - 1, out) && eo_add_i64(*out, 1, out);
}

static int64_t ceil_div(int64_t a, int64_t b) /* a >= 0, b > 0 */
{
    return a / b + (a % b != 0);
}

static int does_not_fit(const struct call *c, int d, int64_t extent)
{
    const struct eo_window_axis *a = &c->w->axis[d];
    int code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH,
                        "no window fits on spatial axis %d: size %" PRId64 " with pads %" PRId64 " and %" PRId64
                        ", kernel %" PRId64 " with dilation %" PRId64 " covers %" PRId64,
                        d, a->size, a->pad_begin, a->pad_end, a->kernel, a->dilation, extent);

    eo_error_hint(c->err, "Make the kernel or the dilation smaller, or pad.");
    eo_shape_mark(c->op, c->in, c->n_in, 0, -1, -1, -1, c->err);
    return code;
}

/* A pool that rounds up: one more window where the last one does not reach the end, unless it would start behind the
 * last position (PyTorch's and ONNX's rule). room may be negative: the one window that begins inside is kept. */
static int count_rounded_up(const struct call *c, int d, int64_t extent, int64_t room)
{
    struct eo_window_axis *a = &c->w->axis[d];
    int64_t end, asked;

    if (room < 0 && room <= -a->stride) {
        return does_not_fit(c, d, extent);
    }
    a->count = room < 0 ? 1 : ceil_div(room, a->stride) + 1;
    if (a->count > 1 && (!eo_mul_i64(a->count - 1, a->stride, &end) || end >= a->size + a->pad_begin)) {
        a->count--;
    }
    if (!eo_add_i64((a->count - 1) * a->stride, extent, &end)) {
        return too_large(c, d, "the last window");
    }
    asked = a->pad_end;
    a->pad_end = EO_MAX(end - (a->size + a->pad_begin), 0);
    a->beyond = EO_MAX(a->pad_end - asked, 0);
    return EO_OK;
}

/* count from size, with the pads that are set. */
static int count_windows(const struct call *c, int d)
{
    struct eo_window_axis *a = &c->w->axis[d];
    int64_t extent, padded;

    if (!extent_of(a, &extent)) {
        return too_large(c, d, "the extent of a window");
    }
    if (!eo_add_i64(a->size, a->pad_begin, &padded) || !eo_add_i64(padded, a->pad_end, &padded)) {
        return too_large(c, d, "the padded size");
    }
    if (c->ceil_mode) {
        return count_rounded_up(c, d, extent, padded - extent);
    }
    if (padded < extent) {
        return does_not_fit(c, d, extent);
    }
    a->count = (padded - extent) / a->stride + 1;
    return EO_OK;
}

static void share_padding(const struct call *c, struct eo_window_axis *a, int64_t total)
{
    int64_t small = total / 2, large = total - small;

    a->pad_begin = c->padding == EO_PADDING_SAME ? small : large;
    a->pad_end = c->padding == EO_PADDING_SAME ? large : small;
}

/* TensorFlow's rule: as many windows as strides fit, rounded up. */
static int pad_same(const struct call *c, int d)
{
    struct eo_window_axis *a = &c->w->axis[d];
    int64_t extent, end;

    if (!extent_of(a, &extent) || !eo_add_i64(extent, a->size, &end)) {
        return too_large(c, d, "the extent of a window");
    }
    if (a->size == 0) {
        return does_not_fit(c, d, extent);
    }
    /* (count - 1) * stride < size, so this is below `end`, which fits. */
    share_padding(c, a, EO_MAX((ceil_div(a->size, a->stride) - 1) * a->stride + extent - a->size, 0));
    return EO_OK;
}

static int resolve_forward(const struct call *c, int d)
{
    int rc = c->padding >= EO_PADDING_SAME ? pad_same(c, d) : EO_OK;

    return rc == EO_OK ? count_windows(c, d) : rc;
}

/* ---- one axis of conv_transpose: size from count ---- */

static int wrong_size(const struct call *c, int d, int64_t count)
{
    const struct eo_window_axis *a = &c->w->axis[d];
    int code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH,
                        "size %" PRId64 " of spatial axis %d has %" PRId64 " windows (kernel %" PRId64
                        ", stride %" PRId64 ", dilation %" PRId64 ", pads %" PRId64 " and %" PRId64 "), x has %" PRId64,
                        a->size, d, a->count, a->kernel, a->stride, a->dilation, a->pad_begin, a->pad_end, count);

    eo_shape_mark(c->op, c->in, c->n_in, 0, d + (c->w->channels_first ? 2 : 1), -1, -1, c->err);
    return code;
}

/* full: the size without any padding. */
static int choose_size(const struct call *c, int d, int64_t full)
{
    struct eo_window_axis *a = &c->w->axis[d];
    bool same = c->padding >= EO_PADDING_SAME;

    if (!c->has_size && same && !eo_mul_i64(a->count, a->stride, &a->size)) {
        return too_large(c, d, "the size");
    }
    if (same) {
        share_padding(c, a, EO_MAX(full - a->size, 0));
    } else if (!c->has_size) {
        int64_t pads;

        if (!eo_add_i64(a->pad_begin, a->pad_end, &pads)) {
            return too_large(c, d, "the padding");
        }
        a->size = full - pads;
    }
    if (a->size > 0) {
        return EO_OK;
    }
    return EO_RAISE(c->err, EO_E_SHAPE_MISMATCH,
                    "pads %" PRId64 " and %" PRId64 " of spatial axis %d leave nothing of a result of %" PRId64,
                    a->pad_begin, a->pad_end, d, full);
}

static int resolve_transposed(const struct call *c, int d)
{
    struct eo_window_axis *a = &c->w->axis[d];
    int64_t extent, full, wanted = a->count;
    int rc;

    if (c->output_padding[d] >= a->stride) {
        return EO_RAISE(c->err, EO_E_BAD_ATTRIBUTE,
                        "entry %d of attribute output_padding is %" PRId64 ", must be below the stride, %" PRId64, d,
                        c->output_padding[d], a->stride);
    }
    if (wanted == 0) {
        return EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "spatial axis %d of x is empty", d);
    }
    if (!extent_of(a, &extent) || !eo_mul_i64(wanted - 1, a->stride, &full) || !eo_add_i64(full, extent, &full) ||
        !eo_add_i64(full, c->output_padding[d], &full)) {
        return too_large(c, d, "the size");
    }
    rc = choose_size(c, d, full);
    if (rc == EO_OK) {
        rc = count_windows(c, d);
    }
    return rc == EO_OK && a->count != wanted ? wrong_size(c, d, wanted) : rc;
}

/* ---- attributes ---- */

static int read_padding(struct call *c)
{
    int64_t pads[2 * EO_WINDOW_AXES];
    int n = c->w->n_axes, rc = read_list(c, "pads", 2 * n, 0, pads, &c->has_pads);

    c->padding = (enum eo_padding)int_or(c, "padding", EO_PADDING_EXPLICIT);
    if (rc == EO_OK && c->has_pads && c->padding != EO_PADDING_EXPLICIT) {
        return EO_RAISE(c->err, EO_E_BAD_ATTRIBUTE, "attribute pads is given, and padding is not explicit");
    }
    for (int d = 0; d < n && rc == EO_OK; d++) {
        c->w->axis[d].pad_begin = pads[d];
        c->w->axis[d].pad_end = pads[n + d];
    }
    return rc;
}

/* Everything but sizes, counts and (where a weight has it) the kernel. */
static int read_attrs(struct call *c)
{
    int64_t stride[EO_WINDOW_AXES], dilation[EO_WINDOW_AXES], kernel[EO_WINDOW_AXES];
    struct eo_window_shape *w = c->w;
    bool given, has_kernel = has_attr(c, "kernel");
    int rc = read_list(c, "strides", w->n_axes, 1, stride, &given);

    if (rc == EO_OK) {
        rc = read_list(c, "dilations", w->n_axes, 1, dilation, &given);
    }
    if (rc == EO_OK) {
        rc = read_list(c, "kernel", w->n_axes, 0, kernel, &given);
    }
    if (rc == EO_OK) {
        rc = read_list(c, "output_padding", w->n_axes, 0, c->output_padding, &given);
    }
    for (int d = 0; d < w->n_axes && rc == EO_OK; d++) {
        w->axis[d].stride = stride[d];
        w->axis[d].dilation = dilation[d];
        w->axis[d].kernel = has_kernel ? kernel[d] : w->axis[d].kernel;
    }
    c->ceil_mode = int_or(c, "ceil_mode", 0) != 0;
    return rc == EO_OK ? read_padding(c) : rc;
}

static int read_size(struct call *c)
{
    int64_t size[EO_WINDOW_AXES];
    int rc = read_list(c, "size", c->w->n_axes, 0, size, &c->has_size);

    for (int d = 0; d < c->w->n_axes && rc == EO_OK; d++) {
        c->w->axis[d].size = size[d];
    }
    return rc;
}

/* ---- the tensors of a call ---- */

static int need_rank(const struct call *c, int i, int low, int high)
{
    int code;

    if (c->in[i]->n_dims >= low && c->in[i]->n_dims <= high) {
        return EO_OK;
    }
    code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "%s has rank %d, must have rank %d to %d: 1 to %d spatial axes",
                    c->op->input_names[i], c->in[i]->n_dims, low, high, EO_WINDOW_AXES);
    if (c->in[i]->n_dims == low - 1) {
        eo_error_hint(c->err, "A batch axis comes first, channels %s.", c->w->channels_first ? "second" : "last");
    }
    eo_shape_mark(c->op, c->in, c->n_in, i, -1, -1, -1, c->err);
    return code;
}

/* Dimension of spatial axis d, and of the channels, of a tensor (N, spatial..., C) or (N, C, spatial...). */
static int spatial_dim(const struct eo_window_shape *w, int d)
{
    return d + (w->channels_first ? 2 : 1);
}

static int channel_dim(const struct eo_window_shape *w)
{
    return w->channels_first ? 1 : w->n_axes + 1;
}

/* Operand 0: (N, spatial..., C), the cells. */
static int read_cells(struct call *c)
{
    const struct eo_tensor_desc *x = c->in[0];
    struct eo_window_shape *w = c->w;
    int rc;

    w->groups = int_or(c, "groups", 1);
    w->channels_first = int_or(c, "layout", 0) != 0;
    rc = need_rank(c, 0, 3, 2 + EO_WINDOW_AXES);
    if (rc != EO_OK) {
        return rc;
    }
    w->n_axes = x->n_dims - 2;
    w->batch = x->shape[0];
    w->channels = w->out_channels = x->shape[channel_dim(w)];
    for (int d = 0; d < w->n_axes; d++) {
        w->axis[d].size = x->shape[spatial_dim(w, d)];
    }
    return EO_OK;
}

static int forward_axes(struct call *c)
{
    int rc = read_attrs(c);

    for (int d = 0; d < c->w->n_axes && rc == EO_OK; d++) {
        rc = resolve_forward(c, d);
    }
    return rc;
}

/* Operand i has `wanted` in dimension dim; `what` says why. */
static int need_dim(const struct call *c, int i, int dim, int64_t wanted, const char *what)
{
    int code;

    if (c->in[i]->shape[dim] == wanted) {
        return EO_OK;
    }
    code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "dimension %d of %s is %" PRId64 ", must be %" PRId64 ": %s", dim,
                    c->op->input_names[i], c->in[i]->shape[dim], wanted, what);
    eo_shape_mark(c->op, c->in, c->n_in, i, dim, -1, -1, c->err);
    return code;
}

/* ---- weights: (kernel..., C/groups, O) or (O, C/groups, kernel...) ---- */

static int need_groups(const struct call *c, int64_t channels, const char *what)
{
    if (channels % c->w->groups == 0) {
        return EO_OK;
    }
    return EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "%" PRId64 " groups do not divide %" PRId64 " %s", c->w->groups,
                    channels, what);
}

/* Kernel sizes of operand 1; *out_inner is its C/groups, *out_outer its O. */
static int read_weight(struct call *c, int64_t *out_inner, int64_t *out_outer)
{
    const struct eo_tensor_desc *weight = c->in[1];
    struct eo_window_shape *w = c->w;
    int rc = need_rank(c, 1, w->n_axes + 2, w->n_axes + 2);

    for (int d = 0; d < w->n_axes && rc == EO_OK; d++) {
        int dim = w->channels_first ? d + 2 : d;

        w->axis[d].kernel = weight->shape[dim];
        if (w->axis[d].kernel == 0) {
            rc = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "the kernel has size 0 on spatial axis %d", d);
            eo_shape_mark(c->op, c->in, c->n_in, 1, dim, -1, -1, c->err);
        }
    }
    *out_inner = weight->shape[w->channels_first ? 1 : w->n_axes];
    *out_outer = weight->shape[w->channels_first ? 0 : w->n_axes + 1];
    return rc;
}

static int need_bias(const struct call *c, int64_t channels)
{
    int rc;

    if (!eo_input_given(c->in, c->n_in, 2)) {
        return EO_OK;
    }
    rc = eo_shape_need_rank(c->op, c->in, c->n_in, 2, 1, c->err);
    return rc == EO_OK ? need_dim(c, 2, 0, channels, "one per channel of the result") : rc;
}

/* The channels of x against those of the weight. */
static int channels_differ(const struct call *c, int64_t has, int64_t takes, int weight_dim)
{
    int code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH,
                        "x has %" PRId64 " channels, weight takes %" PRId64 " (%" PRId64 " group%s)", has, takes,
                        c->w->groups, c->w->groups == 1 ? "" : "s");

    if (c->in[0]->n_dims > 2 && c->in[0]->shape[c->w->channels_first ? c->w->n_axes + 1 : 1] == takes) {
        eo_error_hint(c->err, "Set layout to %s, or transpose: x seems to have its channels %s.",
                      c->w->channels_first ? "nhwc" : "nchw", c->w->channels_first ? "last" : "second");
    }
    eo_shape_mark(c->op, c->in, c->n_in, 0, channel_dim(c->w), 1, weight_dim, c->err);
    return code;
}

/* ---- rows ---- */

static int resolve_conv(struct call *c)
{
    struct eo_window_shape *w = c->w;
    int64_t inner = 0, takes;
    int rc = read_cells(c);

    if (rc == EO_OK) {
        rc = read_weight(c, &inner, &w->out_channels);
    }
    if (rc == EO_OK && (!eo_mul_i64(inner, w->groups, &takes) || takes != w->channels)) {
        rc = channels_differ(c, w->channels, takes, w->channels_first ? 1 : w->n_axes);
    }
    if (rc == EO_OK) {
        rc = need_groups(c, w->out_channels, "channels of the weight");
    }
    if (rc == EO_OK) {
        rc = need_bias(c, w->out_channels);
    }
    return rc == EO_OK ? forward_axes(c) : rc;
}

/* The adjoint of a conv whose result looks like x. */
static int resolve_conv_transpose(struct call *c)
{
    struct eo_window_shape *w = c->w;
    int64_t inner = 0, takes = 0;
    int rc = read_cells(c);

    if (rc == EO_OK) {
        rc = read_weight(c, &inner, &takes);
    }
    if (rc == EO_OK && takes != w->out_channels) {
        rc = channels_differ(c, w->out_channels, takes, w->channels_first ? 0 : w->n_axes + 1);
    }
    if (rc == EO_OK) {
        rc = need_groups(c, w->out_channels, "channels of x");
    }
    if (rc == EO_OK && !eo_mul_i64(inner, w->groups, &w->channels)) {
        rc = EO_RAISE(c->err, EO_E_TOO_LARGE, "the channels of the result do not fit in 64 bits");
    }
    if (rc == EO_OK) {
        rc = need_bias(c, w->channels);
    }
    if (rc == EO_OK) {
        rc = read_attrs(c);
    }
    for (int d = 0; d < w->n_axes; d++) {
        w->axis[d].count = w->axis[d].size; /* what read_cells found are windows here */
    }
    if (rc == EO_OK) {
        rc = read_size(c);
    }
    for (int d = 0; d < w->n_axes && rc == EO_OK; d++) {
        rc = resolve_transposed(c, d);
    }
    return rc;
}

static int resolve_conv_weight(struct call *c)
{
    struct eo_window_shape *w = c->w;
    int rc = read_cells(c);

    if (rc == EO_OK) {
        rc = forward_axes(c);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(c->op, c->in, c->n_in, 1, c->in[0]->n_dims, c->err);
    }
    if (rc == EO_OK) {
        rc = need_dim(c, 1, 0, w->batch, "the batch of x");
    }
    for (int d = 0; d < w->n_axes && rc == EO_OK; d++) {
        rc = need_dim(c, 1, spatial_dim(w, d), w->axis[d].count, "the windows of x");
    }
    if (rc == EO_OK) {
        w->out_channels = c->in[1]->shape[channel_dim(w)];
        rc = need_groups(c, w->channels, "channels of x");
    }
    return rc == EO_OK ? need_groups(c, w->out_channels, "channels of g") : rc;
}

/* patches (N, count..., kernel..., C). */
static int resolve_fold(struct call *c)
{
    const struct eo_tensor_desc *patches = c->in[0];
    struct eo_window_shape *w = c->w;
    int rc = EO_OK;

    w->groups = 1;
    w->n_axes = patches->n_dims / 2 - 1;
    if (patches->n_dims % 2 != 0 || w->n_axes < 1) {
        rc = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH,
                      "patches has rank %d, must have rank 4, 6 or 8: (N, windows..., "
                      "cells..., C)",
                      patches->n_dims);
        eo_shape_mark(c->op, c->in, c->n_in, 0, -1, -1, -1, c->err);
        return rc;
    }
    w->batch = patches->shape[0];
    w->channels = w->out_channels = patches->shape[patches->n_dims - 1];
    rc = read_size(c);
    if (rc == EO_OK) {
        rc = forward_axes(c);
    }
    for (int d = 0; d < w->n_axes && rc == EO_OK; d++) {
        rc = need_dim(c, 0, 1 + d, w->axis[d].count, "the windows of size");
        if (rc == EO_OK) {
            rc = need_dim(c, 0, 1 + w->n_axes + d, w->axis[d].kernel, "the kernel");
        }
    }
    return rc;
}

static int resolve_cells(struct call *c)
{
    int rc = read_cells(c);

    return rc == EO_OK ? forward_axes(c) : rc;
}

/* Padding beside a whole window would only make windows without a cell. */
static int resolve_pool(struct call *c)
{
    int rc = resolve_cells(c);

    for (int d = 0; d < c->w->n_axes && rc == EO_OK; d++) {
        const struct eo_window_axis *a = &c->w->axis[d];
        int64_t reach = a->dilation * (a->kernel - 1); /* count_windows has seen that it fits */

        if (a->pad_begin > reach || a->pad_end - a->beyond > reach) {
            rc = EO_RAISE(c->err, EO_E_BAD_ATTRIBUTE,
                          "pads %" PRId64 " and %" PRId64 " of spatial axis %d must be below %" PRId64
                          ", which one window covers",
                          a->pad_begin, a->pad_end - a->beyond, d, reach + 1);
        }
    }
    return rc;
}

static int64_t padded_size(const struct eo_window_axis *a)
{
    return a->size + a->pad_begin + a->pad_end;
}

/* Also of empty tensors all products of sizes fit in 64 bits: kernels and lowerings multiply without a check. */
static int check_products(const struct call *c)
{
    const struct eo_window_shape *w = c->w;
    int64_t windows = EO_MAX(w->batch, 1), cells, positions = windows;
    bool fits = true;

    for (int d = 0; d < w->n_axes; d++) {
        fits = fits && eo_mul_i64(windows, w->axis[d].count, &windows) &&
               eo_mul_i64(positions, EO_MAX(padded_size(&w->axis[d]), 1), &positions);
    }
    cells = windows;
    for (int d = 0; d < w->n_axes; d++) {
        fits = fits && eo_mul_i64(cells, w->axis[d].kernel, &cells);
    }
    fits = fits && eo_mul_i64(cells, EO_MAX(w->channels, 1), &cells) &&
           eo_mul_i64(windows, EO_MAX(w->out_channels, 1), &windows) &&
           eo_mul_i64(positions, EO_MAX(w->channels, 1), &positions) && cells <= INT64_MAX / 8;
    return fits ? EO_OK : EO_RAISE(c->err, EO_E_TOO_LARGE, "the cells of all windows do not fit in 64 bits");
}

static int resolve_row(struct call *c)
{
    switch (c->op->op) {
    case EO_OP_FOLD:
        return resolve_fold(c);
    case EO_OP_CONV:
        return resolve_conv(c);
    case EO_OP_CONV_TRANSPOSE:
        return resolve_conv_transpose(c);
    case EO_OP_CONV_WEIGHT:
        return resolve_conv_weight(c);
    case EO_OP_UNFOLD:
        return resolve_cells(c);
    default:
        return resolve_pool(c);
    }
}

int eo_window_resolve(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_window_shape *out, struct eo_error *err)
{
    struct call c = {.op = op, .in = in, .n_in = n_in, .attrs = attrs, .w = out, .err = err};
    int rc;

    memset(out, 0, sizeof(*out));
    rc = resolve_row(&c);
    return rc == EO_OK ? check_products(&c) : rc;
}

/* ---- for kernels and lowerings ---- */

void eo_window_inside(const struct eo_window_axis *a, int64_t window, int64_t *out_first, int64_t *out_end)
{
    int64_t start = eo_window_at(a, window, 0);

    *out_first = start >= 0 ? 0 : EO_MIN(ceil_div(-start, a->dilation), a->kernel);
    *out_end = start >= a->size ? 0 : EO_MIN((a->size - 1 - start) / a->dilation + 1, a->kernel);
    *out_end = EO_MAX(*out_end, *out_first);
}

bool eo_window_has_padding(const struct eo_window_shape *w)
{
    bool any = false;

    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];

        any |= a->pad_begin > 0 || eo_window_at(a, a->count - 1, a->kernel - 1) >= a->size;
    }
    return any;
}

static int64_t product(const struct eo_window_shape *w, size_t member)
{
    int64_t n = 1;

    for (int d = 0; d < w->n_axes; d++) {
        int64_t one;

        memcpy(&one, (const char *)&w->axis[d] + member, sizeof(one));
        n *= one;
    }
    return n;
}

int64_t eo_window_cells(const struct eo_window_shape *w)
{
    return product(w, offsetof(struct eo_window_axis, kernel));
}

int64_t eo_window_count(const struct eo_window_shape *w)
{
    return product(w, offsetof(struct eo_window_axis, count));
}

int64_t eo_window_positions(const struct eo_window_shape *w)
{
    return product(w, offsetof(struct eo_window_axis, size));
}
