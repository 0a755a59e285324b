/* Lowering of attention. */
#include "daemon/engine/lower/rules.h"

#include <math.h>

enum { Q, K, V, MASK, RNG };

/* true where query t may attend to key s, (T, S): s <= t. */
static eo_value causal_mask(struct eo_builder *b, int64_t queries, int64_t keys)
{
    eo_value t = lower_iota(b, queries), s = lower_iota(b, keys);

    return eo_build_binary(b, EO_OP_LESS_EQUAL, s, eo_build_reshape(b, t, (int64_t[]){queries, 1}, 2));
}

static eo_value mask_out(struct eo_builder *b, eo_value allowed, eo_value scores)
{
    return eo_build_where(b, allowed, scores, eo_build_scalar_like(b, scores, -(double)INFINITY));
}

static eo_value masked(struct eo_builder *b, const struct eo_graph_node *node, eo_value scores)
{
    eo_value mask = lower_optional(b, node, MASK);
    struct eo_tensor_desc d = lower_desc(b, scores);

    if (lower_int(node, "causal") != 0) {
        scores = mask_out(b, causal_mask(b, d.shape[d.n_dims - 2], d.shape[d.n_dims - 1]), scores);
    }
    if (mask == EO_NO_VALUE) {
        return scores;
    }
    return lower_desc(b, mask).dtype == EO_BOOL ? mask_out(b, mask, scores)
                                                : eo_build_binary(b, EO_OP_ADD, scores, lower_widen(b, mask));
}

/* Softmax along the last axis, 0 where all scores of a row are -inf. Such a row gets other scores before and other
 * weights after, so that its gradient is 0 and not NaN. */
static eo_value weights(struct eo_builder *b, eo_value scores, bool may_be_empty)
{
    struct eo_tensor_desc d = lower_desc(b, scores);
    int64_t last = d.n_dims - 1;
    eo_value zero = eo_build_scalar_like(b, scores, 0), empty;

    if (!may_be_empty || d.shape[last] == 0) {
        return eo_build_unary(b, EO_OP_SOFTMAX, scores);
    }
    empty = eo_build_reduce(b, EO_OP_MAX, scores, &last, 1, true);
    empty = eo_build_binary(b, EO_OP_EQUAL, empty, eo_build_scalar_like(b, scores, -(double)INFINITY));
    scores = eo_build_unary(b, EO_OP_SOFTMAX, eo_build_where(b, empty, zero, scores));
    return eo_build_where(b, empty, zero, scores);
}

static eo_value dropped(struct eo_builder *b, const struct eo_graph_node *node, eo_value w)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_DROPOUT);
    struct eo_attrs attrs;

    if (lower_float(node, "p") == 0) {
        return w;
    }
    eo_attrs_default(op, &attrs);
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_float(op, &attrs, "p", lower_float(node, "p"), b->err);
    }
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_int(op, &attrs, "stream", lower_int(node, "stream"), b->err);
    }
    return eo_build_op(b, EO_OP_DROPOUT, (eo_value[]){w, node->inputs[RNG]}, 2, &attrs);
}

/* softmax(scale q k^T + mask) v. The factor goes to q, which is smaller than the scores. */
void lower_attention(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value q = lower_widen(b, node->inputs[Q]), k = lower_widen(b, node->inputs[K]), w;
    struct eo_tensor_desc d = lower_desc(b, q);
    double scale = lower_float(node, "scale");

    if (scale == 0) {
        scale = 1 / sqrt((double)EO_MAX(d.shape[d.n_dims - 1], 1));
    }
    q = eo_build_binary(b, EO_OP_MULTIPLY, q, eo_build_scalar_like(b, q, scale));
    w = weights(b, masked(b, node, eo_build_matmul(b, q, k, false, true)),
                lower_optional(b, node, MASK) != EO_NO_VALUE);
    w = eo_build_matmul(b, dropped(b, node, w), lower_widen(b, node->inputs[V]), false, false);
    out[0] = lower_narrow(b, w, node->inputs[Q]);
}
