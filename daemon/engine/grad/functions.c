/* Gradients of mathematical functions of one and two operands, and of what is flat between its steps. Formulas are in
 * x, or in the result y where that is shorter. Squares that overflow make a derivative 0, which is its limit. */
#include "daemon/engine/grad/rules.h"

#include <math.h>

static const double ln_2 = 0.693147180559945309417, ln_10 = 2.30258509299404568402;
static const double two_over_root_pi = 1.12837916709551257390;

static eo_value square(const struct grad_site *s, eo_value v)
{
    return emit_mul(s, v, v);
}

static eo_value scaled(const struct grad_site *s, eo_value v, double factor)
{
    return emit_mul(s, v, emit_scalar(s, factor));
}

/* 1 + v, 1 - v */
static eo_value one_plus(const struct grad_site *s, eo_value v)
{
    return emit_add(s, v, emit_scalar(s, 1));
}

static eo_value one_minus(const struct grad_site *s, eo_value v)
{
    return emit_sub(s, emit_scalar(s, 1), v);
}

static eo_value of_x(const struct grad_site *s, enum eo_op op)
{
    return eo_build_unary(s->b, op, site_x(s, 0));
}

/* g / sqrt(v) */
static eo_value over_root(const struct grad_site *s, eo_value v)
{
    return emit_div(s, site_g(s), eo_build_unary(s->b, EO_OP_SQRT, v));
}

/* 1 - x^2 as (1 - x)(1 + x), which keeps its digits near 1. */
static eo_value below_one(const struct grad_site *s)
{
    return emit_mul(s, one_minus(s, site_x(s, 0)), one_plus(s, site_x(s, 0)));
}

/* ---- exponentials and roots ---- */

void grad_exp2(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), scaled(s, site_y(s), ln_2)));
}

void grad_log2(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), scaled(s, site_x(s, 0), ln_2)));
}

void grad_log10(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), scaled(s, site_x(s, 0), ln_10)));
}

void grad_cbrt(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), scaled(s, square(s, site_y(s)), 3)));
}

/* g times 2 / sqrt(pi) exp(-x^2) */
static eo_value bell(const struct grad_site *s)
{
    eo_value e = eo_build_unary(s->b, EO_OP_EXP, emit_neg(s, square(s, site_x(s, 0))));

    return emit_mul(s, site_g(s), scaled(s, e, two_over_root_pi));
}

void grad_erf(const struct grad_site *s)
{
    site_give(s, 0, bell(s));
}

void grad_erfc(const struct grad_site *s)
{
    site_give(s, 0, emit_neg(s, bell(s)));
}

/* ---- angles ---- */

void grad_sin(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), of_x(s, EO_OP_COS)));
}

void grad_cos(const struct grad_site *s)
{
    site_give(s, 0, emit_neg(s, emit_mul(s, site_g(s), of_x(s, EO_OP_SIN))));
}

void grad_tan(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), one_plus(s, square(s, site_y(s)))));
}

void grad_asin(const struct grad_site *s)
{
    site_give(s, 0, over_root(s, below_one(s)));
}

void grad_acos(const struct grad_site *s)
{
    site_give(s, 0, emit_neg(s, over_root(s, below_one(s))));
}

void grad_atan(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), one_plus(s, square(s, site_x(s, 0)))));
}

/* y = atan2(a, b): dy/da = b / (a^2 + b^2), dy/db = -a / (a^2 + b^2) */
void grad_atan2(const struct grad_site *s)
{
    eo_value a = site_x(s, 0), b = site_x(s, 1);
    eo_value share = emit_div(s, site_g(s), emit_add(s, square(s, a), square(s, b)));

    if (s->needs[0]) {
        site_give(s, 0, emit_mul(s, share, b));
    }
    if (s->needs[1]) {
        site_give(s, 1, emit_neg(s, emit_mul(s, share, a)));
    }
}

/* ---- hyperbolic ---- */

void grad_sinh(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), of_x(s, EO_OP_COSH)));
}

void grad_cosh(const struct grad_site *s)
{
    site_give(s, 0, emit_mul(s, site_g(s), of_x(s, EO_OP_SINH)));
}

void grad_asinh(const struct grad_site *s)
{
    site_give(s, 0, over_root(s, one_plus(s, square(s, site_x(s, 0)))));
}

void grad_acosh(const struct grad_site *s)
{
    eo_value x = site_x(s, 0);

    site_give(s, 0, over_root(s, emit_mul(s, emit_sub(s, x, emit_scalar(s, 1)), one_plus(s, x))));
}

void grad_atanh(const struct grad_site *s)
{
    site_give(s, 0, emit_div(s, site_g(s), below_one(s)));
}

/* ---- steps: flat wherever they have a derivative ---- */

#define FLAT(name)                                                                                                     \
    void grad_##name(const struct grad_site *s)                                                                        \
    {                                                                                                                  \
        site_give(s, 0, eo_build_full_like(s->b, site_x(s, 0), 0));                                                    \
    }

FLAT(sign)
FLAT(floor)
FLAT(ceil)
FLAT(round)
FLAT(trunc)

void grad_floor_divide(const struct grad_site *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->needs[i]) {
            site_give(s, i, eo_build_full_like(s->b, site_x(s, i), 0));
        }
    }
}

/* y = a - b q with the whole number q, which is flat: dy/da = 1, dy/db = -q. */
static void left_over(const struct grad_site *s, eo_value (*quotient)(const struct grad_site *s))
{
    if (s->needs[0]) {
        site_give(s, 0, site_g(s));
    }
    if (s->needs[1]) {
        site_give(s, 1, emit_neg(s, emit_mul(s, site_g(s), quotient(s))));
    }
}

static eo_value floored(const struct grad_site *s)
{
    return eo_build_binary(s->b, EO_OP_FLOOR_DIVIDE, site_x(s, 0), site_x(s, 1));
}

static eo_value truncated(const struct grad_site *s)
{
    return eo_build_unary(s->b, EO_OP_TRUNC, emit_div(s, site_x(s, 0), site_x(s, 1)));
}

void grad_remainder(const struct grad_site *s)
{
    left_over(s, floored);
}

void grad_fmod(const struct grad_site *s)
{
    left_over(s, truncated);
}
