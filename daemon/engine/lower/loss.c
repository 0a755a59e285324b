/* Lowerings of losses. All compute in float32 or float64 and hand half types a result that is rounded once.
 *
 * Formulas are PyTorch's. Where a target or probability makes a term vanish, its other factor is made finite first, so
 * that neither the value nor the gradient is 0 * inf. */
#include "daemon/engine/lower/rules.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <string.h>

static eo_value binary(struct eo_builder *b, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(b, op, x, y);
}

static eo_value scalar(struct eo_builder *b, eo_value like, double v)
{
    return eo_build_scalar_like(b, like, v);
}

/* The elements' losses after reduction. total: what a mean divides by, EO_NO_VALUE = their number. */
static eo_value finish(struct eo_builder *b, const struct eo_graph_node *node, eo_value losses, eo_value total)
{
    int64_t rows = lower_desc(b, losses).shape[0];
    eo_value y = losses;

    switch ((enum eo_reduction)lower_int(node, "reduction")) {
    case EO_REDUCTION_NONE:
        break;
    case EO_REDUCTION_MEAN:
        y = eo_build_reduce(b, total == EO_NO_VALUE ? EO_OP_MEAN : EO_OP_SUM, losses, NULL, 0, false);
        y = total == EO_NO_VALUE ? y : binary(b, EO_OP_DIVIDE, y, total);
        break;
    case EO_REDUCTION_SUM:
        y = eo_build_reduce(b, EO_OP_SUM, losses, NULL, 0, false);
        break;
    case EO_REDUCTION_BATCHMEAN:
        y = eo_build_reduce(b, EO_OP_SUM, losses, NULL, 0, false);
        y = binary(b, EO_OP_DIVIDE, y, scalar(b, y, (double)rows));
        break;
    }
    return lower_narrow(b, y, node->inputs[0]);
}

/* ---- two tensors of one shape ---- */

static eo_value difference(struct eo_builder *b, const struct eo_graph_node *node)
{
    return binary(b, EO_OP_SUBTRACT, lower_widen(b, node->inputs[0]), lower_widen(b, node->inputs[1]));
}

void lower_mse_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value d = difference(b, node);

    out[0] = finish(b, node, binary(b, EO_OP_MULTIPLY, d, d), EO_NO_VALUE);
}

void lower_mae_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = finish(b, node, eo_build_unary(b, EO_OP_ABS, difference(b, node)), EO_NO_VALUE);
}

/* With c = d limited to [-delta, delta]: c (d - c / 2) is the square inside and the line outside. */
static eo_value huber(struct eo_builder *b, eo_value d, double delta, double divisor)
{
    eo_value c = lower_clip(b, d, delta);
    eo_value rest = binary(b, EO_OP_SUBTRACT, d, binary(b, EO_OP_MULTIPLY, c, scalar(b, c, 0.5)));

    c = divisor == 1 ? c : binary(b, EO_OP_DIVIDE, c, scalar(b, c, divisor));
    return binary(b, EO_OP_MULTIPLY, c, rest);
}

void lower_huber_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    out[0] = finish(b, node, huber(b, difference(b, node), lower_float(node, "delta"), 1), EO_NO_VALUE);
}

void lower_smooth_l1_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    double beta = lower_float(node, "beta");
    eo_value d = difference(b, node);
    bool vanishes = lower_desc(b, d).dtype == EO_FLOAT64 ? beta == 0 : (float)beta == 0;

    out[0] = finish(b, node, vanishes ? eo_build_unary(b, EO_OP_ABS, d) : huber(b, d, beta, beta), EO_NO_VALUE);
}

void lower_hinge_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value xt = binary(b, EO_OP_MULTIPLY, lower_widen(b, node->inputs[0]), lower_widen(b, node->inputs[1]));
    eo_value lack = binary(b, EO_OP_SUBTRACT, scalar(b, xt, lower_float(node, "margin")), xt);

    out[0] = finish(b, node, eo_build_unary(b, EO_OP_RELU, lack), EO_NO_VALUE);
}

/* ---- probabilities ---- */

/* max(log p, -100). Where the bound holds, the logarithm is that of 1, so that its slope is finite; NaN below 0. */
static eo_value bounded_log(struct eo_builder *b, eo_value p)
{
    eo_value small = binary(b, EO_OP_LOGICAL_AND, binary(b, EO_OP_GREATER_EQUAL, p, scalar(b, p, 0)),
                            binary(b, EO_OP_LESS, p, scalar(b, p, exp(-100))));
    eo_value safe = eo_build_where(b, small, scalar(b, p, 1), p);

    return eo_build_where(b, small, scalar(b, p, -100), eo_build_unary(b, EO_OP_LOG, safe));
}

/* max(log(1 - p), -100): below 1 the logarithm is never that small. */
static eo_value bounded_log_rest(struct eo_builder *b, eo_value p)
{
    eo_value one = binary(b, EO_OP_EQUAL, p, scalar(b, p, 1));
    eo_value safe = eo_build_where(b, one, scalar(b, p, 0), p);
    eo_value log = eo_build_unary(b, EO_OP_LOG1P, eo_build_unary(b, EO_OP_NEGATIVE, safe));

    return eo_build_where(b, one, scalar(b, p, -100), log);
}

static eo_value weighted(struct eo_builder *b, const struct eo_graph_node *node, eo_value losses)
{
    eo_value weight = lower_optional(b, node, 2);

    return weight == EO_NO_VALUE ? losses : binary(b, EO_OP_MULTIPLY, losses, lower_widen(b, weight));
}

void lower_bce_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value p = lower_widen(b, node->inputs[0]), t = lower_widen(b, node->inputs[1]);
    eo_value rest = binary(b, EO_OP_SUBTRACT, scalar(b, t, 1), t);
    eo_value sum = binary(b, EO_OP_ADD, binary(b, EO_OP_MULTIPLY, t, bounded_log(b, p)),
                          binary(b, EO_OP_MULTIPLY, rest, bounded_log_rest(b, p)));

    out[0] = finish(b, node, weighted(b, node, eo_build_unary(b, EO_OP_NEGATIVE, sum)), EO_NO_VALUE);
}

/* -t log s(x) - (1 - t) log(1 - s(x)) with s the sigmoid is softplus(x) - t x, which neither overflows nor takes the
 * log of 0; its gradient is s(x) - t exactly. With a weight q of the positive part it is
 * q t softplus(-x) + (1 - t) softplus(x). */
void lower_bce_with_logits_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), t = lower_widen(b, node->inputs[1]);
    eo_value positive = lower_optional(b, node, 3), off = eo_build_unary(b, EO_OP_SOFTPLUS, x), losses;

    if (positive == EO_NO_VALUE) {
        losses = binary(b, EO_OP_SUBTRACT, off, binary(b, EO_OP_MULTIPLY, t, x));
    } else {
        eo_value on = eo_build_unary(b, EO_OP_SOFTPLUS, eo_build_unary(b, EO_OP_NEGATIVE, x));
        eo_value share = binary(b, EO_OP_MULTIPLY, lower_widen(b, positive), t);

        losses = binary(b, EO_OP_ADD, binary(b, EO_OP_MULTIPLY, share, on),
                        binary(b, EO_OP_MULTIPLY, binary(b, EO_OP_SUBTRACT, scalar(b, t, 1), t), off));
    }
    out[0] = finish(b, node, weighted(b, node, losses), EO_NO_VALUE);
}

/* t (log t - x) where t > 0; where it is 0 (log t is -inf) the term is 0, whatever x is. */
void lower_kl_div_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), t = lower_widen(b, node->inputs[1]);
    bool is_log = lower_int(node, "log_target") != 0;
    eo_value gone = binary(b, EO_OP_EQUAL, t, scalar(b, t, is_log ? -(double)INFINITY : 0));
    eo_value safe = eo_build_where(b, gone, scalar(b, t, is_log ? 0 : 1), t);
    eo_value p = is_log ? eo_build_unary(b, EO_OP_EXP, safe) : safe;
    eo_value log = is_log ? safe : eo_build_unary(b, EO_OP_LOG, safe);
    eo_value term = binary(b, EO_OP_MULTIPLY, p, binary(b, EO_OP_SUBTRACT, log, x));

    out[0] = finish(b, node, eo_build_where(b, gone, scalar(b, t, 0), term), EO_NO_VALUE);
}

/* ---- classes ---- */

/* One call with classes along an axis. */
struct classes {
    struct eo_builder *b;
    const struct eo_graph_node *node;
    eo_value x;       /* widened */
    eo_value targets; /* class 0 where ignored */
    eo_value kept;    /* bool like targets: not ignored; EO_NO_VALUE = all */
    eo_value weight;  /* of each target, 0 where ignored; EO_NO_VALUE = all 1 */
    int64_t axis, n_classes;
    int rank; /* of x */
};

static eo_value int64_scalar(struct eo_builder *b, int64_t v)
{
    struct eo_tensor_desc desc = {.dtype = EO_INT64};
    eo_value out = EO_NO_VALUE;

    if (b->status == EO_OK) {
        b->status = eo_graph_constant(b->graph, &desc, &v, &out, b->err);
    }
    return out;
}

static eo_value where_kept(const struct classes *c, eo_value v, eo_value other)
{
    return c->kept == EO_NO_VALUE ? v : eo_build_where(c->b, c->kept, v, other);
}

static struct classes open_classes(struct eo_builder *b, const struct eo_graph_node *node)
{
    struct classes c = {b, node, lower_widen(b, node->inputs[0]), node->inputs[1], EO_NO_VALUE, EO_NO_VALUE, 0, 0, 0};
    struct eo_tensor_desc x = lower_desc(b, c.x);
    int64_t ignored = INT64_MIN;
    eo_value weight = lower_optional(b, node, 2);

    if (eo_attr_index(node->op, "ignore_index") >= 0) {
        ignored = lower_int(node, "ignore_index");
    }
    c.rank = x.n_dims;
    c.axis = lower_int(node, "axis");
    c.axis += c.axis < 0 ? c.rank : 0;
    c.n_classes = x.shape[c.axis];
    if (ignored != INT64_MIN) {
        c.kept = binary(b, EO_OP_NOT_EQUAL, c.targets, int64_scalar(b, ignored));
        c.targets = where_kept(&c, c.targets, int64_scalar(b, 0));
    }
    if (weight != EO_NO_VALUE) {
        eo_value in[2] = {lower_widen(b, weight), c.targets};

        c.weight = eo_build_op(b, EO_OP_GATHER, in, 2, NULL);
        c.weight = where_kept(&c, c.weight, scalar(b, c.weight, 0));
    }
    return c;
}

/* What a mean divides by: the weights of the targets that count; EO_NO_VALUE = the number of targets. */
static eo_value total_weight(const struct classes *c)
{
    eo_value counts = c->weight;

    if (counts == EO_NO_VALUE && c->kept != EO_NO_VALUE) {
        counts = eo_build_cast(c->b, c->kept, (enum eo_dtype)lower_desc(c->b, c->x).dtype);
    }
    return counts == EO_NO_VALUE ? counts : eo_build_reduce(c->b, EO_OP_SUM, counts, NULL, 0, false);
}

/* v of the targets' shape with size 1 at the classes' axis. */
static eo_value beside_classes(const struct classes *c, eo_value v)
{
    struct eo_tensor_desc x = lower_desc(c->b, c->x);

    x.shape[c->axis] = 1;
    return eo_build_reshape(c->b, v, x.shape, x.n_dims);
}

/* Of x's shape: true at the class of each target. Refuses targets out of range when it runs, by value. */
static eo_value at_targets(const struct classes *c)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_ONE_HOT);
    int64_t perm[EO_MAX_DIMS];
    struct eo_attrs attrs;
    eo_value hot;

    eo_attrs_default(op, &attrs);
    if (c->b->status == EO_OK) {
        c->b->status = eo_attrs_set_int(op, &attrs, "depth", EO_MAX(c->n_classes, 1), c->b->err);
    }
    if (c->b->status == EO_OK) {
        c->b->status = eo_attrs_set_int(op, &attrs, "dtype", EO_BOOL, c->b->err);
    }
    hot = eo_build_op(c->b, EO_OP_ONE_HOT, &c->targets, 1, &attrs);
    for (int d = 0; d < c->rank; d++) { /* the classes come last */
        perm[d] = d == c->axis ? c->rank - 1 : d < c->axis ? d : d - 1;
    }
    return c->axis == c->rank - 1 ? hot : eo_build_transpose(c->b, hot, perm, c->rank);
}

static eo_value over_classes(const struct classes *c, eo_value v)
{
    return eo_build_reduce(c->b, EO_OP_SUM, v, &c->axis, 1, false);
}

/* -v[target] of each target that counts, 0 of the others. */
static eo_value picked(const struct classes *c, eo_value v)
{
    eo_value hit = at_targets(c);

    if (c->kept != EO_NO_VALUE) {
        hit = binary(c->b, EO_OP_LOGICAL_AND, hit, beside_classes(c, c->kept));
    }
    return eo_build_unary(c->b, EO_OP_NEGATIVE, over_classes(c, eo_build_where(c->b, hit, v, scalar(c->b, v, 0))));
}

static eo_value times_weight(const struct classes *c, eo_value losses)
{
    return c->weight == EO_NO_VALUE ? losses : binary(c->b, EO_OP_MULTIPLY, losses, c->weight);
}

/* No classes: then there are no targets either, and no losses. */
static eo_value without_losses(const struct classes *c)
{
    struct eo_tensor_desc targets = lower_desc(c->b, c->targets);

    return eo_build_expand(c->b, scalar(c->b, c->x, 0), targets.shape, targets.n_dims);
}

void lower_nll_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct classes c = open_classes(b, node);
    eo_value losses = c.n_classes == 0 ? without_losses(&c) : times_weight(&c, picked(&c, c.x));

    out[0] = finish(b, node, losses, total_weight(&c));
}

/* By the fused row, which takes rows of logits. */
static eo_value fused_cross_entropy(const struct classes *c)
{
    struct eo_tensor_desc x = lower_desc(c->b, c->x), targets = lower_desc(c->b, c->targets);
    int64_t perm[EO_MAX_DIMS], n_rows = eo_tensor_desc_count(&targets);
    eo_value rows = c->x, losses;

    for (int d = 0; d < x.n_dims; d++) {
        perm[d] = d == x.n_dims - 1 ? c->axis : d < c->axis ? d : d + 1;
    }
    if (c->axis != x.n_dims - 1) {
        rows = eo_build_transpose(c->b, rows, perm, x.n_dims);
    }
    rows = eo_build_reshape(c->b, rows, (int64_t[]){n_rows, c->n_classes}, 2);
    losses = binary(c->b, EO_OP_CROSS_ENTROPY, rows, eo_build_reshape(c->b, c->targets, &n_rows, 1));
    losses = eo_build_reshape(c->b, losses, targets.shape, targets.n_dims);
    return where_kept(c, losses, scalar(c->b, losses, 0));
}

/* -sum over classes of weight[class] p[class], 0 where the target is ignored. */
static eo_value spread(const struct classes *c, eo_value p)
{
    eo_value weight = lower_optional(c->b, c->node, 2), sum;
    int64_t shape[EO_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};

    if (weight != EO_NO_VALUE) {
        shape[c->axis] = c->n_classes;
        weight = eo_build_reshape(c->b, lower_widen(c->b, weight), shape, c->rank);
        p = binary(c->b, EO_OP_MULTIPLY, p, weight);
    }
    sum = over_classes(c, p);
    return where_kept(c, eo_build_unary(c->b, EO_OP_NEGATIVE, sum), scalar(c->b, sum, 0));
}

/* Smoothing s of K classes: the target counts 1 - s and each class s / K, each by its class's weight. */
void lower_cross_entropy_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct classes c = open_classes(b, node);
    double smoothing = lower_float(node, "smoothing");
    eo_value p = lower_with_int(b, EO_OP_LOG_SOFTMAX, &c.x, 1, "axis", c.axis), losses;

    if (smoothing == 0 || c.n_classes == 0) {
        losses = times_weight(&c, fused_cross_entropy(&c));
    } else {
        double share = smoothing / (double)c.n_classes;
        eo_value target = times_weight(&c, picked(&c, p)), all = spread(&c, p);

        losses = binary(b, EO_OP_ADD, binary(b, EO_OP_MULTIPLY, target, scalar(b, target, 1 - smoothing)),
                        binary(b, EO_OP_MULTIPLY, all, scalar(b, all, share)));
    }
    out[0] = finish(b, node, losses, total_weight(&c));
    out[1] = lower_narrow(b, p, node->inputs[0]);
}

/* The margin at the target itself does not count. */
void lower_multi_margin_loss(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct classes c = open_classes(b, node);
    eo_value margin = scalar(b, c.x, lower_float(node, "margin")), zero = scalar(b, c.x, 0), losses;

    if (c.n_classes == 0) {
        losses = without_losses(&c);
    } else {
        eo_value hit = at_targets(&c);
        eo_value lead = beside_classes(&c, over_classes(&c, eo_build_where(b, hit, c.x, zero)));
        eo_value lack = binary(b, EO_OP_ADD, binary(b, EO_OP_SUBTRACT, margin, lead), c.x);

        lack = eo_build_where(b, hit, zero, eo_build_unary(b, EO_OP_RELU, lack));
        lack = lower_int(node, "p") == 2 ? binary(b, EO_OP_MULTIPLY, lack, lack) : lack;
        losses = times_weight(&c, eo_build_reduce(b, EO_OP_MEAN, lack, &c.axis, 1, false));
    }
    out[0] = finish(b, node, losses, EO_NO_VALUE);
}
