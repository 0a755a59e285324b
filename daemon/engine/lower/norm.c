/* Lowerings of normalization. Means and variances come from their own rows, which take two passes: no cancellation
 * where the mean is large. Half types are computed in float32. */
#include "daemon/engine/lower/rules.h"
#include "proto/shape_rules.h"

static eo_value add(struct eo_builder *b, eo_value x, eo_value y)
{
    return eo_build_binary(b, EO_OP_ADD, x, y);
}

static eo_value multiply(struct eo_builder *b, eo_value x, eo_value y)
{
    return eo_build_binary(b, EO_OP_MULTIPLY, x, y);
}

static eo_value subtract(struct eo_builder *b, eo_value x, eo_value y)
{
    return eo_build_binary(b, EO_OP_SUBTRACT, x, y);
}

/* 1 / sqrt(v + eps) */
static eo_value inverse_root(struct eo_builder *b, eo_value v, double eps)
{
    eo_value root = eo_build_unary(b, EO_OP_SQRT, add(b, v, eo_build_scalar_like(b, v, eps)));

    return eo_build_unary(b, EO_OP_RECIPROCAL, root);
}

struct moments {
    eo_value mean, variance, inverse; /* with the reduced axes as size 1; inverse of sqrt(variance + eps) */
};

static struct moments moments_of(struct eo_builder *b, eo_value x, const int64_t *axes, int n, double eps)
{
    struct moments m = {eo_build_reduce(b, EO_OP_MEAN, x, axes, n, true),
                        eo_build_reduce(b, EO_OP_VARIANCE, x, axes, n, true), EO_NO_VALUE};

    m.inverse = inverse_root(b, m.variance, eps);
    return m;
}

static eo_value normalize(struct eo_builder *b, eo_value x, const struct moments *m)
{
    return multiply(b, subtract(b, x, m->mean), m->inverse);
}

static bool channels_first(const struct eo_graph_node *node)
{
    return lower_int(node, "layout") != 0;
}

/* A value per channel, so that it broadcasts to x: (C), or (C, 1, ..., 1) beside (N, C, S...). Widened. */
static eo_value per_channel(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]), d = lower_desc(b, v);
    int64_t shape[EO_MAX_DIMS] = {d.shape[0], 1, 1, 1, 1, 1, 1, 1};

    v = lower_widen(b, v);
    return channels_first(node) && x.n_dims > 2 ? eo_build_reshape(b, v, shape, x.n_dims - 1) : v;
}

/* v * scale + bias per channel, in the dtype of x. */
static eo_value scale_channels(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    v = multiply(b, v, per_channel(b, node, node->inputs[1]));
    return lower_narrow(b, add(b, v, per_channel(b, node, node->inputs[2])), node->inputs[0]);
}

void lower_batch_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    struct moments m = {per_channel(b, node, node->inputs[3]), per_channel(b, node, node->inputs[4]), EO_NO_VALUE};

    m.inverse = inverse_root(b, m.variance, lower_float(node, "eps"));
    out[0] = scale_channels(b, node, normalize(b, x, &m));
}

void lower_batch_norm_train(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    struct eo_tensor_desc d = lower_desc(b, x), scale = lower_desc(b, node->inputs[1]);
    int64_t axes[EO_MAX_DIMS];
    int n = 0, channel = channels_first(node) ? 1 : d.n_dims - 1;
    struct moments m;

    for (int i = 0; i < d.n_dims; i++) {
        if (i != channel) {
            axes[n++] = i;
        }
    }
    m = moments_of(b, x, axes, n, lower_float(node, "eps"));
    out[0] = scale_channels(b, node, normalize(b, x, &m));
    out[1] = lower_narrow(b, eo_build_reshape(b, m.mean, scale.shape, 1), node->inputs[0]);
    out[2] = lower_narrow(b, eo_build_reshape(b, m.variance, scale.shape, 1), node->inputs[0]);
}

/* The axes from the attribute axis on. */
static int axes_from(const struct eo_graph_node *node, int n_dims, int64_t axes[EO_MAX_DIMS])
{
    int64_t axis = lower_int(node, "axis");
    int n = 0;

    for (axis += axis < 0 ? n_dims : 0; axis < n_dims; axis++) {
        axes[n++] = axis;
    }
    return n;
}

void lower_layer_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), scale = lower_widen(b, node->inputs[1]), y;
    eo_value bias = lower_optional(b, node, 2);
    int64_t axes[EO_MAX_DIMS];
    int n = axes_from(node, lower_desc(b, x).n_dims, axes);
    struct moments m = moments_of(b, x, axes, n, lower_float(node, "eps"));

    y = multiply(b, normalize(b, x, &m), scale);
    y = bias == EO_NO_VALUE ? y : add(b, y, lower_widen(b, bias));
    out[0] = lower_narrow(b, y, node->inputs[0]);
    out[1] = lower_narrow(b, m.mean, node->inputs[0]);
    out[2] = lower_narrow(b, m.inverse, node->inputs[0]);
}

void lower_rms_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), scale = lower_widen(b, node->inputs[1]), squares;
    int64_t axes[EO_MAX_DIMS];
    int n = axes_from(node, lower_desc(b, x).n_dims, axes);

    squares = eo_build_reduce(b, EO_OP_MEAN, multiply(b, x, x), axes, n, true);
    x = multiply(b, x, inverse_root(b, squares, lower_float(node, "eps")));
    out[0] = lower_narrow(b, multiply(b, x, scale), node->inputs[0]);
}

void lower_instance_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    int64_t axes[EO_MAX_DIMS];
    int n = lower_desc(b, x).n_dims - 2;
    struct moments m;

    for (int d = 0; d < n; d++) {
        axes[d] = d + (channels_first(node) ? 2 : 1);
    }
    m = moments_of(b, x, axes, n, lower_float(node, "eps"));
    out[0] = scale_channels(b, node, normalize(b, x, &m));
}

/* Channels become (groups, channels of a group); all but batch and groups is normalized. */
void lower_group_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    struct eo_tensor_desc d = lower_desc(b, x);
    int64_t shape[EO_MAX_DIMS], axes[EO_MAX_DIMS], groups = lower_int(node, "groups");
    int n = 0, at = 0, channel = channels_first(node) ? 1 : d.n_dims - 1;
    struct moments m;

    if (b->status != EO_OK) {
        return;
    }
    for (int i = 0; i < d.n_dims; i++) {
        if (i == channel) {
            shape[at++] = groups;
        }
        if (i > 0) {
            axes[n++] = at;
        }
        shape[at++] = i == channel ? d.shape[i] / groups : d.shape[i];
    }
    x = eo_build_reshape(b, x, shape, at);
    m = moments_of(b, x, axes, n, lower_float(node, "eps"));
    x = eo_build_reshape(b, normalize(b, x, &m), d.shape, d.n_dims);
    out[0] = scale_channels(b, node, x);
}

/* The channels as the axis of a window, what follows them as its channels: (N..., C, S). */
static eo_value sum_over_window(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    const struct eo_op_schema *unfold = eo_op_schema(EO_OP_UNFOLD);
    struct eo_tensor_desc d = lower_desc(b, v);
    int channel = channels_first(node) ? 1 : d.n_dims - 1;
    int64_t size = lower_int(node, "size"), shape[3] = {1, d.shape[channel], 1};
    /* As many neighbours as there can be: a larger size changes the factor alone. */
    int64_t pads[2] = {EO_MIN((size - 1) / 2, shape[1] - 1), EO_MIN(size / 2, shape[1] - 1)};
    int64_t kernel = pads[0] + 1 + pads[1];
    struct eo_attrs attrs;

    for (int i = 0; i < d.n_dims; i++) {
        if (i != channel) {
            shape[channels_first(node) && i > 1 ? 2 : 0] *= d.shape[i];
        }
    }
    eo_attrs_default(unfold, &attrs);
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_ints(unfold, &attrs, "kernel", &kernel, 1, b->err);
    }
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_ints(unfold, &attrs, "pads", pads, 2, b->err);
    }
    v = eo_build_reshape(b, v, shape, 3);
    v = eo_build_op(b, EO_OP_UNFOLD, &v, 1, &attrs);
    v = eo_build_reduce(b, EO_OP_SUM, v, (int64_t[]){2}, 1, false);
    return eo_build_reshape(b, v, d.shape, d.n_dims);
}

void lower_local_response_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), base, power;
    double factor = lower_float(node, "alpha") / (double)lower_int(node, "size");

    if (b->status != EO_OK) {
        return;
    }
    if (eo_tensor_desc_count(eo_build_desc(b, x)) == 0) {
        out[0] = eo_build_full_like(b, node->inputs[0], 0); /* no channel, no window */
        return;
    }
    base = multiply(b, sum_over_window(b, node, multiply(b, x, x)), eo_build_scalar_like(b, x, factor));
    base = add(b, base, eo_build_scalar_like(b, x, lower_float(node, "bias")));
    power = eo_build_binary(b, EO_OP_POWER, base, eo_build_scalar_like(b, x, -lower_float(node, "beta")));
    out[0] = lower_narrow(b, multiply(b, x, power), node->inputs[0]);
}

/* sqrt has no slope at 0: there the deviation is 0 by itself, so that gradients stay finite. */
void lower_mean_variance_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), variance, deviation, flat, one, centered;
    int n;
    const int64_t *axes = lower_ints(node, "axes", &n);

    centered = subtract(b, x, eo_build_reduce(b, EO_OP_MEAN, x, axes, n, true));
    variance = eo_build_reduce(b, EO_OP_VARIANCE, x, axes, n, true);
    flat = eo_build_binary(b, EO_OP_EQUAL, variance, eo_build_scalar_like(b, variance, 0));
    one = eo_build_scalar_like(b, variance, 1);
    deviation = eo_build_unary(b, EO_OP_SQRT, eo_build_where(b, flat, one, variance));
    deviation = eo_build_where(b, flat, eo_build_scalar_like(b, variance, 0), deviation);
    deviation = add(b, deviation, eo_build_scalar_like(b, variance, 1e-9));
    out[0] = lower_narrow(b, eo_build_binary(b, EO_OP_DIVIDE, centered, deviation), node->inputs[0]);
}

void lower_hardmax(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const eo_value x = node->inputs[0];
    struct eo_tensor_desc d = lower_desc(b, x);
    const struct eo_op_schema *one_hot = eo_op_schema(EO_OP_ONE_HOT);
    int64_t axis = lower_int(node, "axis"), perm[EO_MAX_DIMS];
    struct eo_attrs attrs;
    eo_value v;

    axis += axis < 0 ? d.n_dims : 0;
    if (b->status != EO_OK) {
        return;
    }
    if (d.shape[axis] == 0) {
        out[0] = eo_build_full_like(b, x, 0);
        return;
    }
    v = lower_with_int(b, EO_OP_ARG_MAX, &x, 1, "axis", axis);
    eo_attrs_default(one_hot, &attrs);
    attrs.v[eo_attr_index(one_hot, "depth")].i = d.shape[axis];
    attrs.v[eo_attr_index(one_hot, "dtype")].i = d.dtype;
    v = eo_build_op(b, EO_OP_ONE_HOT, &v, 1, &attrs);
    for (int i = 0; i < d.n_dims; i++) {
        perm[i] = i < axis ? i : i == axis ? d.n_dims - 1 : i - 1;
    }
    out[0] = eo_build_transpose(b, v, perm, d.n_dims);
}
