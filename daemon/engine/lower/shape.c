/* Lowerings of rows that move elements. Most are a few reshapes, transposes and slices; what only relabels elements
 * becomes a view when the graph is compiled. */
#include "daemon/engine/lower/rules.h"
#include "proto/shape_rules.h"

#include <string.h>

/* The shape that the row's infer function gives output `o`. */
static struct eo_tensor_desc result(struct eo_builder *b, const struct eo_graph_node *node, int o)
{
    struct eo_tensor_desc in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS] = {{0}};
    const struct eo_tensor_desc *at[EO_MAX_INPUTS];
    int rc;

    for (uint32_t i = 0; i < node->n_inputs; i++) {
        in[i] = lower_desc(b, node->inputs[i]);
        at[i] = &in[i];
    }
    rc = b->status == EO_OK ? eo_op_infer(node->op, at, (int)node->n_inputs, node->attrs, out, b->err) : b->status;
    b->status = rc;
    return out[o];
}

static eo_value reshaped(struct eo_builder *b, const struct eo_graph_node *node)
{
    struct eo_tensor_desc y = result(b, node, 0);

    return eo_build_reshape(b, node->inputs[0], y.shape, y.n_dims);
}

void lower_flatten(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = reshaped(b, node);
}

void lower_squeeze(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = reshaped(b, node);
}

void lower_unsqueeze(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = reshaped(b, node);
}

static int axis_of(const struct eo_graph_node *node, const char *name, int n_dims)
{
    int64_t axis = lower_int(node, name);

    return (int)(axis < 0 ? axis + n_dims : axis);
}

/* ---- spellings ---- */

/* Part of x along one axis: `count` entries from `start`, `step` apart. */
static eo_value slice_axis(struct eo_builder *b, eo_value x, int axis, int64_t start, int64_t count, int64_t step)
{
    struct eo_tensor_desc d = lower_desc(b, x);
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS], steps[EO_MAX_DIMS];
    int64_t end = count == 0 ? start : start + (count - 1) * step + (step < 0 ? -1 : 1);

    if (b->status == EO_OK && start == 0 && step == 1 && count == d.shape[axis]) {
        return x;
    }
    for (int i = 0; i < d.n_dims; i++) {
        stops[i] = d.shape[i];
        steps[i] = 1;
    }
    starts[axis] = start;
    stops[axis] = end < 0 ? INT64_MIN : end; /* -1 would mean the last entry */
    steps[axis] = step;
    return lower_slice(b, x, starts, stops, steps, d.n_dims);
}

static eo_value join(struct eo_builder *b, const eo_value *parts, int n, int axis)
{
    return n == 1 ? parts[0] : lower_with_int(b, EO_OP_CONCATENATE, parts, n, "axis", axis);
}

/* x with `repeat` copies behind each other along an axis: (A, 1, B) expanded to (A, repeat, B), B with the axis. */
static eo_value tile_axis(struct eo_builder *b, eo_value x, int axis, int64_t repeat)
{
    struct eo_tensor_desc d = lower_desc(b, x);
    int64_t three[3] = {1, 1, 1};

    if (repeat == 1) {
        return x;
    }
    for (int i = 0; i < d.n_dims; i++) {
        three[i < axis ? 0 : 2] *= d.shape[i];
    }
    x = eo_build_reshape(b, x, three, 3);
    three[1] = repeat;
    d.shape[axis] *= repeat; /* fits: it is the result's, or below it */
    return eo_build_reshape(b, eo_build_expand(b, x, three, 3), d.shape, d.n_dims);
}

/* ---- joining and parting ---- */

void lower_tile(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]), y = result(b, node, 0);
    int lead = y.n_dims - x.n_dims, n;
    const int64_t *repeats = lower_ints(node, "repeats", &n);
    int64_t shape[EO_MAX_DIMS];

    if (eo_tensor_desc_count(&y) == 0) { /* a repeat of 0 among large ones: no intermediate size need fit */
        out[0] = eo_build_reshape(
            b, slice_axis(b, eo_build_reshape(b, node->inputs[0], (int64_t[]){-1}, 1), 0, 0, 0, 1), y.shape, y.n_dims);
        return;
    }
    for (int d = 0; d < y.n_dims; d++) {
        shape[d] = d < lead ? 1 : x.shape[d - lead];
    }
    out[0] = eo_build_reshape(b, node->inputs[0], shape, y.n_dims);
    for (int d = y.n_dims - 1; d >= 0; d--) {
        int r = d - (y.n_dims - n);

        out[0] = tile_axis(b, out[0], d, r < 0 ? 1 : repeats[r]);
    }
}

void lower_stack(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc one = result(b, node, 0);
    int axis = axis_of(node, "axis", one.n_dims);
    eo_value parts[EO_MAX_INPUTS];

    one.shape[axis] = 1;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        parts[i] = eo_build_reshape(b, node->inputs[i], one.shape, one.n_dims);
    }
    out[0] = join(b, parts, (int)node->n_inputs, axis);
}

void lower_split(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    int n, axis = axis_of(node, "axis", lower_desc(b, node->inputs[0]).n_dims);
    const int64_t *sizes = lower_ints(node, "sizes", &n);

    lower_parts(b, node->inputs[0], axis, sizes, n, out);
}

/* ---- pad ---- */

static eo_value pad_constant(struct eo_builder *b, const struct eo_graph_node *node, eo_value x,
                             const struct eo_pad_dim *dims)
{
    struct eo_tensor_desc d = lower_desc(b, x), y = result(b, node, 0);
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SLICE_SCATTER);
    int64_t starts[EO_MAX_DIMS], stops[EO_MAX_DIMS];
    struct eo_attrs attrs;

    if (eo_tensor_desc_same_shape(&d, &y)) {
        return x;
    }
    for (int i = 0; i < d.n_dims; i++) {
        starts[i] = dims[i].begin;
        stops[i] = dims[i].begin + d.shape[i];
    }
    lower_set_slice(b, op, &attrs, starts, stops, NULL, d.n_dims);
    return eo_build_op(
        b, EO_OP_SLICE_SCATTER,
        (eo_value[]){lower_full(b, (enum eo_dtype)d.dtype, y.shape, y.n_dims, lower_float(node, "value")), x}, 2,
        &attrs);
}

/* One entry of the axis, `count` times. */
static eo_value repeated_entry(struct eo_builder *b, eo_value x, int axis, int64_t at, int64_t count)
{
    eo_value entry = slice_axis(b, x, axis, at, 1, 1);
    struct eo_tensor_desc d = lower_desc(b, entry);

    d.shape[axis] = count;
    return eo_build_expand(b, entry, d.shape, d.n_dims);
}

/* Around and around: enough copies, then the part that begins `begin` cells before one of them. */
static eo_value wrap_axis(struct eo_builder *b, eo_value x, int axis, const struct eo_pad_dim *p)
{
    int64_t n = lower_desc(b, x).shape[axis], first = (n - p->begin % n) % n;

    return slice_axis(b, tile_axis(b, x, axis, (first + p->size - 1) / n + 1), axis, first, p->size, 1);
}

static eo_value pad_axis(struct eo_builder *b, eo_value x, int axis, const struct eo_pad_dim *p, int64_t mode)
{
    int64_t n = lower_desc(b, x).shape[axis];
    eo_value parts[3];
    int k = 0;

    if (b->status != EO_OK || (p->begin == 0 && p->end == 0)) {
        return x;
    }
    if (mode == EO_PAD_WRAP) {
        return wrap_axis(b, x, axis, p);
    }
    if (p->begin > 0) {
        parts[k++] = mode == EO_PAD_EDGE ? repeated_entry(b, x, axis, 0, p->begin)
                                         : slice_axis(b, x, axis, p->begin, p->begin, -1);
    }
    parts[k++] = x;
    if (p->end > 0) {
        parts[k++] =
            mode == EO_PAD_EDGE ? repeated_entry(b, x, axis, n - 1, p->end) : slice_axis(b, x, axis, n - 2, p->end, -1);
    }
    return join(b, parts, k, axis);
}

void lower_pad(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    struct eo_pad_dim dims[EO_MAX_DIMS];
    int64_t mode = lower_int(node, "mode");

    if (b->status == EO_OK) {
        b->status = eo_pad_dims(node->op, node->attrs, &x, dims, b->err);
    }
    out[0] = node->inputs[0];
    for (int d = 0; b->status == EO_OK && d < x.n_dims; d++) {
        out[0] = slice_axis(b, out[0], d, dims[d].cut_begin, x.shape[d] - dims[d].cut_begin - dims[d].cut_end, 1);
    }
    if (b->status == EO_OK && mode == EO_PAD_CONSTANT) {
        out[0] = pad_constant(b, node, out[0], dims);
    }
    for (int d = 0; b->status == EO_OK && mode != EO_PAD_CONSTANT && d < x.n_dims; d++) {
        out[0] = pad_axis(b, out[0], d, &dims[d], mode);
    }
}

/* ---- other orders ---- */

void lower_reverse(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int axes[EO_MAX_DIMS], n_axes = 0, n;
    const int64_t *given = lower_ints(node, "axes", &n);

    if (b->status == EO_OK) {
        b->status = eo_normalize_axes(given, n, x.n_dims, axes, &n_axes, node->op->name, b->err);
    }
    out[0] = node->inputs[0];
    for (int i = 0; i < n_axes; i++) {
        out[0] = slice_axis(b, out[0], axes[i], x.shape[axes[i]] - 1, x.shape[axes[i]], -1);
    }
}

static eo_value roll_axis(struct eo_builder *b, eo_value x, int axis, int64_t shift)
{
    int64_t n = lower_desc(b, x).shape[axis];
    eo_value parts[2];

    if (b->status != EO_OK || n == 0 || shift % n == 0) {
        return x;
    }
    shift = shift % n + (shift % n < 0 ? n : 0);
    parts[0] = slice_axis(b, x, axis, n - shift, shift, 1);
    parts[1] = slice_axis(b, x, axis, 0, n - shift, 1);
    return join(b, parts, 2, axis);
}

void lower_roll(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int n_shifts, n_axes;
    const int64_t *shifts = lower_ints(node, "shifts", &n_shifts), *axes = lower_ints(node, "axes", &n_axes);

    out[0] = node->inputs[0];
    for (int i = 0; i < n_axes; i++) {
        out[0] = roll_axis(b, out[0], (int)(axes[i] < 0 ? axes[i] + x.n_dims : axes[i]), shifts[i]);
    }
    if (n_axes == 0) {
        out[0] = eo_build_reshape(b, out[0], (const int64_t[]){eo_tensor_desc_count(&x)}, 1);
        out[0] = eo_build_reshape(b, roll_axis(b, out[0], 0, shifts[0]), x.shape, x.n_dims);
    }
}

/* Reshape to six dimensions, transpose, reshape to the result. */
static eo_value regroup(struct eo_builder *b, const struct eo_graph_node *node, const int64_t six[6],
                        const int64_t perm[6])
{
    struct eo_tensor_desc y = result(b, node, 0);
    eo_value v = eo_build_transpose(b, eo_build_reshape(b, node->inputs[0], six, 6), perm, 6);

    return eo_build_reshape(b, v, y.shape, y.n_dims);
}

void lower_depth_to_space(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    /* The channels are (block, block, depth) in mode dcr, (depth, block, block) in mode crd. */
    static const int64_t perms[2][2][6] = {{{0, 1, 3, 2, 4, 5}, {0, 3, 4, 1, 5, 2}},
                                           {{0, 1, 4, 2, 5, 3}, {0, 1, 4, 2, 5, 3}}};
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]), y = result(b, node, 0);
    int64_t k = lower_int(node, "block"), mode = lower_int(node, "mode"), layout = lower_int(node, "layout");
    int64_t depth = y.shape[layout == EO_LAYOUT_LAST ? 3 : 1];
    const int64_t channels[2][3] = {{k, k, depth}, {depth, k, k}}, *c = channels[mode];
    const int64_t last[6] = {x.shape[0], x.shape[1], x.shape[2], c[0], c[1], c[2]};
    const int64_t first[6] = {x.shape[0], c[0], c[1], c[2], x.shape[2], x.shape[3]};

    out[0] = regroup(b, node, layout == EO_LAYOUT_LAST ? last : first, perms[mode][layout]);
}

void lower_space_to_depth(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    static const int64_t perms[2][6] = {{0, 1, 3, 2, 4, 5}, {0, 3, 5, 1, 2, 4}};
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int64_t k = lower_int(node, "block"), layout = lower_int(node, "layout");
    const int64_t last[6] = {x.shape[0], x.shape[1] / k, k, x.shape[2] / k, k, x.shape[3]};
    const int64_t first[6] = {x.shape[0], x.shape[1], x.shape[2] / k, k, x.shape[3] / k, k};

    out[0] = regroup(b, node, layout == EO_LAYOUT_LAST ? last : first, perms[layout]);
}

/* Rows and columns to the end, as one dimension: the diagonal is a slice of it. */
void lower_diagonal(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int rows = axis_of(node, "axis1", x.n_dims), columns = axis_of(node, "axis2", x.n_dims), n = 0;
    int64_t m = x.shape[rows], k = x.shape[columns], perm[EO_MAX_DIMS], shape[EO_MAX_DIMS];
    struct eo_diagonal at = eo_diagonal(m, k, lower_int(node, "offset"));

    for (int d = 0; d < x.n_dims; d++) {
        if (d != rows && d != columns) {
            shape[n] = x.shape[d];
            perm[n++] = d;
        }
    }
    perm[n] = rows;
    perm[n + 1] = columns;
    shape[n] = m * k;
    out[0] = eo_build_reshape(b, eo_build_transpose(b, node->inputs[0], perm, n + 2), shape, n + 1);
    out[0] = slice_axis(b, out[0], n, at.row * k + at.column, at.count, k + 1);
}
