/* Gradients of softmax, losses and random layers. */
#include "daemon/engine/grad/rules.h"

static eo_value sum_along_axis(const struct grad_site *s, eo_value v)
{
    int64_t axis = eo_attr_int(s->node->op, s->node->attrs, "axis");

    return eo_build_reduce(s->b, EO_OP_SUM, v, &axis, 1, true);
}

/* y (g - sum(g y)) */
void grad_softmax(const struct grad_site *s)
{
    eo_value y = site_y(s), g = site_g(s);

    site_give(s, 0, emit_mul(s, y, emit_sub(s, g, sum_along_axis(s, emit_mul(s, g, y)))));
}

/* g - softmax(x) sum(g), where softmax(x) = exp(y) */
void grad_log_softmax(const struct grad_site *s)
{
    eo_value softmax = eo_build_unary(s->b, EO_OP_EXP, site_y(s)), g = site_g(s);

    site_give(s, 0, emit_sub(s, g, emit_mul(s, softmax, sum_along_axis(s, g))));
}

/* (softmax(logits) - one_hot(targets)) g, per row */
void grad_cross_entropy(const struct grad_site *s)
{
    const struct eo_op_schema *one_hot = eo_op_schema(EO_OP_ONE_HOT);
    struct eo_tensor_desc logits = site_desc(s, site_x(s, 0));
    int64_t column[2] = {logits.shape[0], 1};
    eo_value targets = site_x(s, 1);
    struct eo_attrs attrs;
    eo_value difference;

    eo_attrs_default(one_hot, &attrs);
    if (eo_attrs_set_int(one_hot, &attrs, "depth", logits.shape[1], s->b->err) != 0 ||
        eo_attrs_set_int(one_hot, &attrs, "dtype", logits.dtype, s->b->err) != 0) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    difference = emit_sub(s, eo_build_unary(s->b, EO_OP_SOFTMAX, site_x(s, 0)),
                          eo_build_op(s->b, EO_OP_ONE_HOT, &targets, 1, &attrs));
    site_give(s, 0, emit_mul(s, difference, eo_build_reshape(s->b, site_g(s), column, 2)));
}

/* The same mask and scale, applied to g: the counter-based generator gives them again. */
void grad_dropout(const struct grad_site *s)
{
    eo_value in[2] = {site_g(s), site_x(s, 1)};

    s->in_grads[0] = eo_build_op(s->b, EO_OP_DROPOUT, in, 2, s->node->attrs);
}
