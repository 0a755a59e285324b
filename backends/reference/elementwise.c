/* Element-wise rows: the value of each row is one expression per kind of dtype. */
#include "backends/reference/each.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"

#include <math.h>

/* Floats only, one operand. */
#define FLOAT_UNARY(name, expression)                                                                                  \
    static double name##_value(double x)                                                                               \
    {                                                                                                                  \
        return expression;                                                                                             \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_float(l, name##_value);                                                                            \
    }

/* exp(-|x|) never overflows; both branches are exact where the other would lose digits. */
static double sigmoid_of(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

FLOAT_UNARY(exp, exp(x))
FLOAT_UNARY(log, log(x))
FLOAT_UNARY(log1p, log1p(x))
FLOAT_UNARY(expm1, expm1(x))
FLOAT_UNARY(sqrt, sqrt(x))
FLOAT_UNARY(reciprocal, 1 / x)
FLOAT_UNARY(sigmoid, sigmoid_of(x))
FLOAT_UNARY(tanh, tanh(x))
FLOAT_UNARY(floor, floor(x))
FLOAT_UNARY(ceil, ceil(x))
FLOAT_UNARY(round, nearbyint(x)) /* to nearest, the mode that the process never changes */
FLOAT_UNARY(trunc, trunc(x))
FLOAT_UNARY(exp2, exp2(x))
FLOAT_UNARY(log2, log2(x))
FLOAT_UNARY(log10, log10(x))
FLOAT_UNARY(cbrt, cbrt(x))
FLOAT_UNARY(erf, erf(x))
FLOAT_UNARY(erfc, erfc(x))
FLOAT_UNARY(sin, sin(x))
FLOAT_UNARY(cos, cos(x))
FLOAT_UNARY(tan, tan(x))
FLOAT_UNARY(asin, asin(x))
FLOAT_UNARY(acos, acos(x))
FLOAT_UNARY(atan, atan(x))
FLOAT_UNARY(sinh, sinh(x))
FLOAT_UNARY(cosh, cosh(x))
FLOAT_UNARY(asinh, asinh(x))
FLOAT_UNARY(acosh, acosh(x))
FLOAT_UNARY(atanh, atanh(x))
FLOAT_UNARY(softplus, (x > 0 || isnan(x) ? x : 0) + log1p(exp(-fabs(x))))

/* One operand: an expression for floats (x), one for signed integers (x as int64; what wraps is done in uint64), one
 * for unsigned ones (x as uint64). */
#define NUMBER_UNARY(name, float_expression, signed_expression, unsigned_expression)                                   \
    static struct element name##_value(struct element e)                                                               \
    {                                                                                                                  \
        if (e.kind == EO_KIND_FLOAT) {                                                                                 \
            double x = e.v.f;                                                                                          \
            return element_float(float_expression);                                                                    \
        }                                                                                                              \
        if (e.kind == EO_KIND_SIGNED) {                                                                                \
            int64_t x = e.v.i;                                                                                         \
            return element_signed((int64_t)(signed_expression));                                                       \
        }                                                                                                              \
        uint64_t x = e.v.u;                                                                                            \
        return element_unsigned(unsigned_expression);                                                                  \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_unary(l, name##_value);                                                                            \
    }

NUMBER_UNARY(negative, -x, 0 - (uint64_t)x, 0 - x)
NUMBER_UNARY(abs, fabs(x), x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x)
NUMBER_UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x, (x > 0) - (x < 0), x > 0)
NUMBER_UNARY(relu, x <= 0 ? 0 : x, x < 0 ? 0 : x, x)
NUMBER_UNARY(bitwise_not, x, ~(uint64_t)x, ~x)

static struct element logical_not_value(struct element e)
{
    return element_bool(e.v.u == 0);
}
int reference_logical_not(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return each_unary(l, logical_not_value);
}

/* Questions about floats. */
#define PREDICATE(name, expression)                                                                                    \
    static struct element name##_value(struct element e)                                                               \
    {                                                                                                                  \
        double x = e.v.f;                                                                                              \
        return element_bool(expression);                                                                               \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_unary(l, name##_value);                                                                            \
    }

PREDICATE(isfinite, isfinite(x))
PREDICATE(isnan, isnan(x))

int reference_isinf(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    bool positive = eo_attr_int(l->node->op, l->node->attrs, "detect_positive") != 0;
    bool negative = eo_attr_int(l->node->op, l->node->attrs, "detect_negative") != 0;
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    for (int64_t i = 0; i < n; i++) {
        double x = element_get_float(l->in[0], l->node->in[0]->dtype, i);
        element_set(l->out[0], EO_BOOL, i, element_bool(isinf(x) && (x > 0 ? positive : negative)));
    }
    return EO_OK;
}

/* Arithmetic of two operands; integers in uint64, where wrapping is defined and the low bits are those of any width. */
#define ARITHMETIC(name, float_expression, integer_expression)                                                         \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        if (ea.kind == EO_KIND_FLOAT) {                                                                                \
            double a = ea.v.f, b = eb.v.f;                                                                             \
            return element_float(float_expression);                                                                    \
        }                                                                                                              \
        bool is_signed = ea.kind == EO_KIND_SIGNED;                                                                    \
        uint64_t a = is_signed ? (uint64_t)ea.v.i : ea.v.u, b = is_signed ? (uint64_t)eb.v.i : eb.v.u;                 \
        uint64_t r = integer_expression;                                                                               \
        return is_signed ? element_signed((int64_t)r) : element_unsigned(r);                                           \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_binary(l, name##_value);                                                                           \
    }

ARITHMETIC(add, a + b, a + b)
ARITHMETIC(subtract, a - b, a - b)
ARITHMETIC(multiply, a *b, a *b)

/* Rows that order or compare: the same expression of a and b for every kind. NaN compares false with everything. */
#define FOR_EACH_KIND(result, expression)                                                                              \
    switch (ea.kind) {                                                                                                 \
    case EO_KIND_FLOAT: {                                                                                              \
        double a = ea.v.f, b = eb.v.f;                                                                                 \
        result = (expression);                                                                                         \
        break;                                                                                                         \
    }                                                                                                                  \
    case EO_KIND_SIGNED: {                                                                                             \
        int64_t a = ea.v.i, b = eb.v.i;                                                                                \
        result = (expression);                                                                                         \
        break;                                                                                                         \
    }                                                                                                                  \
    case EO_KIND_UNSIGNED:                                                                                             \
    case EO_KIND_BOOL: {                                                                                               \
        uint64_t a = ea.v.u, b = eb.v.u;                                                                               \
        result = (expression);                                                                                         \
        break;                                                                                                         \
    }                                                                                                                  \
    }

#define COMPARISON(name, expression)                                                                                   \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        bool r = false;                                                                                                \
        FOR_EACH_KIND(r, expression)                                                                                   \
        return element_bool(r);                                                                                        \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_binary(l, name##_value);                                                                           \
    }

COMPARISON(equal, a == b)
COMPARISON(not_equal, a != b)
COMPARISON(less, a < b)
COMPARISON(less_equal, a <= b)
COMPARISON(greater, a > b)
COMPARISON(greater_equal, a >= b)
COMPARISON(logical_and, a != 0 && b != 0)
COMPARISON(logical_or, a != 0 || b != 0)
COMPARISON(logical_xor, (a != 0) != (b != 0))

/* The first operand stays where `keep_first` holds or where it is NaN, as in NumPy. */
#define EXTREME(name, keep_first)                                                                                      \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        bool first = false;                                                                                            \
        FOR_EACH_KIND(first, (keep_first) || a != a)                                                                   \
        return first ? ea : eb;                                                                                        \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_binary(l, name##_value);                                                                           \
    }

EXTREME(maximum, a >= b)
EXTREME(minimum, a <= b)

/* NaN is neither below low nor above high and stays. */
int reference_clip(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->out[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    struct element low = element_from_double(eo_attr_float(l->node->op, l->node->attrs, "low"), dtype);
    struct element high = element_from_double(eo_attr_float(l->node->op, l->node->attrs, "high"), dtype);
    for (int64_t i = 0; i < n; i++) {
        struct element x = element_get(l->in[0], dtype, i);
        if (less_value(x, low).v.u)
            x = low;
        if (less_value(high, x).v.u)
            x = high;
        element_set(l->out[0], dtype, i, x);
    }
    return EO_OK;
}

int reference_cast(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype from = l->node->in[0]->dtype, to = l->node->out[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    for (int64_t i = 0; i < n; i++)
        element_set(l->out[0], to, i, element_cast(element_get(l->in[0], from, i), to));
    return EO_OK;
}

int reference_where(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    size_t size = eo_dtype_size(y->dtype);
    struct walk w;
    walk_init(&w, y->shape, y->n_dims);
    for (int i = 0; i < 3; i++)
        walk_broadcast(&w, l->node->in[i]);
    for (; walk_more(&w); walk_next(&w)) {
        int chosen = element_get(l->in[0], EO_BOOL, w.offset[0]).v.u != 0 ? 1 : 2;
        element_move(l->out[0], w.linear, l->in[chosen], w.offset[chosen], size);
    }
    return EO_OK;
}
