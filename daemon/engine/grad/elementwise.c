/* Gradients of the element-wise rows. At kinks the convention is PyTorch's: relu'(0) = 0, abs'(0) = 0, clip counts its
 * bounds as inside, maximum and minimum share a tie half and half. Formulas are the derivatives of the row's function;
 * those in y reuse the forward result. */
#include "daemon/engine/grad/rules.h"

void grad_negative(const struct grad_site *s)
{
    site_give(s, 0, emit_neg(s, site_g(s)));
}

void grad_exp(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), site_y(s)));
}

void grad_log(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), site_x(s, 0)));
}

void grad_log1p(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), emit_add(s, site_x(s, 0), emit_scalar(s, 1))));
}

void grad_expm1(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), emit_add(s, site_y(s), emit_scalar(s, 1))));
}

void grad_sqrt(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), emit_mul(s, site_y(s), emit_scalar(s, 2))));
}

void grad_reciprocal(const struct grad_site *s)
{
    eo_value y = site_y(s);

    site_give(s, 0, emit_mul(s, emit_neg(s, site_g(s)), emit_mul(s, y, y)));
}

void grad_sigmoid(const struct grad_site *s)
{
    eo_value y = site_y(s);

    site_give(s, 0, emit_mul(s, emit_mul(s, site_g(s), emit_sub(s, emit_scalar(s, 1), y)), y));
}

void grad_tanh(const struct grad_site *s)
{
    eo_value y = site_y(s);

    site_give(s, 0, emit_mul(s, site_g(s), emit_sub(s, emit_scalar(s, 1), emit_mul(s, y, y))));
}

/* y <= 0 exactly where x <= 0, so the input need not be kept; NaN lets g through, as PyTorch does. */
void grad_relu(const struct grad_site *s)
{
    eo_value zero = emit_scalar(s, 0);
    eo_value off = eo_build_binary(s->b, EO_OP_LESS_EQUAL, site_y(s), zero);

    site_give(s, 0, eo_build_where(s->b, off, zero, site_g(s)));
}

void grad_softplus(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), eo_build_unary(s->b, EO_OP_SIGMOID, site_x(s, 0))));
}

void grad_abs(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), eo_build_unary(s->b, EO_OP_SIGN, site_x(s, 0))));
}

void grad_clip(const struct grad_site *s)
{
    const struct eo_op_schema *op = s->node->op;
    eo_value low = emit_scalar(s, eo_attr_float(op, s->node->attrs, "low"));
    eo_value high = emit_scalar(s, eo_attr_float(op, s->node->attrs, "high"));
    eo_value x = site_x(s, 0);
    eo_value inside = eo_build_binary(s->b, EO_OP_LOGICAL_AND, eo_build_binary(s->b, EO_OP_GREATER_EQUAL, x, low),
                                      eo_build_binary(s->b, EO_OP_LESS_EQUAL, x, high));

    site_give(s, 0, eo_build_where(s->b, inside, site_g(s), emit_scalar(s, 0)));
}

void grad_cast(const struct grad_site *s)
{
    struct eo_tensor_desc x = site_desc(s, site_x(s, 0));

    site_give(s, 0, eo_build_cast(s->b, site_g(s), (enum eo_dtype)x.dtype));
}

void grad_add(const struct grad_site *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->needs[i]) {
            site_give(s, i, site_g(s));
        }
    }
}

void grad_subtract(const struct grad_site *s)
{
    if (s->needs[0]) {
        site_give(s, 0, site_g(s));
    }
    if (s->needs[1]) {
        site_give(s, 1, emit_neg(s, site_g(s)));
    }
}

void grad_multiply(const struct grad_site *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->needs[i]) {
            site_give(s, i, emit_mul(s, site_g(s), site_x(s, 1 - i)));
        }
    }
}

/* d/db (a/b) = -(a/b)/b: the quotient is there already and does not overflow where b*b would. */
void grad_divide(const struct grad_site *s)
{
    eo_value b = site_x(s, 1);

    if (s->needs[0]) {
        site_give(s, 0, emit_div(s, site_g(s), b));
    }
    if (s->needs[1]) {
        site_give(s, 1, emit_mul(s, emit_neg(s, site_g(s)), emit_div(s, site_y(s), b)));
    }
}

/* d/da a^b = b a^(b-1), 0 where b = 0. The exponent is replaced by 1 there before it is used, so that a = 0 makes no
 * infinity that a second derivative would multiply by 0. */
static eo_value power_by_base(const struct grad_site *s, eo_value zero, eo_value one)
{
    eo_value a = site_x(s, 0), b = site_x(s, 1);
    eo_value flat = eo_build_binary(s->b, EO_OP_EQUAL, b, zero);
    eo_value exponent = emit_sub(s, eo_build_where(s->b, flat, one, b), one);
    eo_value slope = emit_mul(s, b, eo_build_binary(s->b, EO_OP_POWER, a, exponent));

    return eo_build_where(s->b, flat, zero, emit_mul(s, site_g(s), slope));
}

/* d/db a^b = a^b ln a, 0 where a = 0 and b >= 0 (the limit of a^b ln a); again the logarithm's operand is made safe. */
static eo_value power_by_exponent(const struct grad_site *s, eo_value zero, eo_value one)
{
    eo_value a = site_x(s, 0), b = site_x(s, 1);
    eo_value flat = eo_build_binary(s->b, EO_OP_LOGICAL_AND, eo_build_binary(s->b, EO_OP_EQUAL, a, zero),
                                    eo_build_binary(s->b, EO_OP_GREATER_EQUAL, b, zero));
    eo_value ln = eo_build_unary(s->b, EO_OP_LOG, eo_build_where(s->b, flat, one, a));

    return emit_mul(s, site_g(s), emit_mul(s, site_y(s), ln));
}

void grad_power(const struct grad_site *s)
{
    eo_value zero = emit_scalar(s, 0), one = emit_scalar(s, 1);

    if (s->needs[0]) {
        site_give(s, 0, power_by_base(s, zero, one));
    }
    if (s->needs[1]) {
        site_give(s, 1, power_by_exponent(s, zero, one));
    }
}

/* The operand that lost gets nothing, a tie halves; a_lost and b_lost are the comparisons of a with b that say so. NaN
 * compares false everywhere, so both operands get g there, as in PyTorch. */
static void share_extreme(const struct grad_site *s, enum eo_op a_lost, enum eo_op b_lost)
{
    const enum eo_op lost[2] = {a_lost, b_lost};
    eo_value a = site_x(s, 0), b = site_x(s, 1), g = site_g(s);
    eo_value tie = eo_build_binary(s->b, EO_OP_EQUAL, a, b);
    eo_value shared = eo_build_where(s->b, tie, emit_mul(s, g, emit_scalar(s, 0.5)), g);

    for (int i = 0; i < 2; i++) {
        if (s->needs[i]) {
            eo_value nothing = eo_build_binary(s->b, lost[i], a, b);

            site_give(s, i, eo_build_where(s->b, nothing, emit_scalar(s, 0), shared));
        }
    }
}

void grad_maximum(const struct grad_site *s)
{
    share_extreme(s, EO_OP_LESS, EO_OP_GREATER);
}

void grad_minimum(const struct grad_site *s)
{
    share_extreme(s, EO_OP_GREATER, EO_OP_LESS);
}

void grad_where(const struct grad_site *s)
{
    eo_value condition = site_x(s, 0), zero = emit_scalar(s, 0);

    if (s->needs[1]) {
        site_give(s, 1, eo_build_where(s->b, condition, site_g(s), zero));
    }
    if (s->needs[2]) {
        site_give(s, 2, eo_build_where(s->b, condition, zero, site_g(s)));
    }
}
