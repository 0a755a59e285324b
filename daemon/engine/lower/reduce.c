/* Lowerings of reductions. Half types are widened: their squares, exponentials and sums leave their range. */
#include "daemon/engine/lower/rules.h"

#include <math.h>

static eo_value reduce(struct eo_builder *b, const struct eo_graph_node *node, enum eo_op op, eo_value x, bool keepdims)
{
    int n;
    const int64_t *axes = lower_ints(node, "axes", &n);

    return eo_build_reduce(b, op, x, axes, n, keepdims);
}

/* The reduction as the node asks for it. */
static eo_value reduce_like(struct eo_builder *b, const struct eo_graph_node *node, enum eo_op op, eo_value x)
{
    return reduce(b, node, op, x, lower_int(node, "keepdims") != 0);
}

/* A result of reduce(.., keepdims = true) in the shape that the node asks for. */
static eo_value shaped(struct eo_builder *b, const struct eo_graph_node *node, eo_value v)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    const struct eo_tensor_desc *in[1] = {&x};
    struct eo_tensor_desc y;

    if (b->status == EO_OK) {
        b->status = eo_op_infer(node->op, in, 1, node->attrs, &y, b->err);
    }
    return b->status != EO_OK ? EO_NO_VALUE : eo_build_reshape(b, v, y.shape, y.n_dims);
}

static bool is_empty(const struct eo_builder *b, eo_value v)
{
    struct eo_tensor_desc d = lower_desc(b, v);

    return eo_tensor_desc_count(&d) == 0;
}

/* sqrt(variance). The root is taken of 1 where the variance is 0, so that its gradient there is 0 and not 0 times
 * infinity. */
void lower_std(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_VARIANCE);
    eo_value x = lower_widen(b, node->inputs[0]), v, flat, root;
    struct eo_attrs attrs = *node->attrs; /* the rows have the same ones, in the same order */

    v = eo_build_op(b, op->op, &x, 1, &attrs);
    flat = eo_build_binary(b, EO_OP_EQUAL, v, eo_build_scalar_like(b, v, 0));
    root = eo_build_unary(b, EO_OP_SQRT, eo_build_where(b, flat, eo_build_scalar_like(b, v, 1), v));
    root = eo_build_where(b, flat, eo_build_scalar_like(b, v, 0), root);
    out[0] = lower_narrow(b, root, node->inputs[0]);
}

void lower_l1_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    enum eo_dtype_kind kind = eo_dtype_kind((enum eo_dtype)lower_desc(b, x).dtype);

    x = kind == EO_KIND_UNSIGNED ? x : eo_build_unary(b, EO_OP_ABS, x);
    out[0] = lower_narrow(b, reduce_like(b, node, EO_OP_SUM, x), node->inputs[0]);
}

void lower_sum_square(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]);
    eo_value sum = reduce_like(b, node, EO_OP_SUM, eo_build_binary(b, EO_OP_MULTIPLY, x, x));

    out[0] = lower_narrow(b, sum, node->inputs[0]);
}

/* m sqrt(sum((x / m)^2)) with the largest magnitude m, which is 1 where it is 0 or infinite: no square overflows, and
 * none that counts is lost. The division is safe for subnormal m too. */
void lower_l2_norm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), m, usable, root;

    if (is_empty(b, x)) { /* max has no value there */
        out[0] = lower_narrow(b, reduce_like(b, node, EO_OP_SUM, x), node->inputs[0]);
        return;
    }
    m = reduce(b, node, EO_OP_MAX, eo_build_unary(b, EO_OP_ABS, x), true);
    usable = eo_build_binary(b, EO_OP_GREATER, m, eo_build_scalar_like(b, m, 0));
    usable = eo_build_binary(b, EO_OP_LOGICAL_AND, usable,
                             eo_build_binary(b, EO_OP_LESS, m, eo_build_scalar_like(b, m, INFINITY)));
    m = eo_build_where(b, usable, m, eo_build_scalar_like(b, m, 1));
    x = eo_build_binary(b, EO_OP_DIVIDE, x, m);
    root = eo_build_unary(b, EO_OP_SQRT, reduce(b, node, EO_OP_SUM, eo_build_binary(b, EO_OP_MULTIPLY, x, x), true));
    out[0] = lower_narrow(b, shaped(b, node, eo_build_binary(b, EO_OP_MULTIPLY, root, m)), node->inputs[0]);
}

/* log(sum(exp(x - m))) + m with the largest element m, which is 0 where it is infinite or NaN: the sum is then 0,
 * infinite or NaN, and so is its logarithm. */
void lower_log_sum_exp(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value x = lower_widen(b, node->inputs[0]), m, sum;

    if (is_empty(b, x)) {
        out[0] = eo_build_unary(b, EO_OP_LOG, reduce_like(b, node, EO_OP_SUM, x)); /* of nothing */
        out[0] = lower_narrow(b, out[0], node->inputs[0]);
        return;
    }
    m = reduce(b, node, EO_OP_MAX, x, true);
    m = eo_build_where(b, eo_build_unary(b, EO_OP_ISFINITE, m), m, eo_build_scalar_like(b, m, 0));
    sum = reduce(b, node, EO_OP_SUM, eo_build_unary(b, EO_OP_EXP, eo_build_binary(b, EO_OP_SUBTRACT, x, m)), true);
    sum = eo_build_binary(b, EO_OP_ADD, eo_build_unary(b, EO_OP_LOG, sum), m);
    out[0] = lower_narrow(b, shaped(b, node, sum), node->inputs[0]);
}

void lower_log_sum(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value sum = reduce_like(b, node, EO_OP_SUM, lower_widen(b, node->inputs[0]));

    out[0] = lower_narrow(b, eo_build_unary(b, EO_OP_LOG, sum), node->inputs[0]);
}
