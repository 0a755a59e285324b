/* Element-wise rows: the value of each row is one expression per kind of dtype. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"

#include <math.h>

typedef double (*float_unary_fn)(double x);
typedef struct element (*unary_fn)(struct element x);
typedef struct element (*binary_fn)(struct element a, struct element b);

static int map_unary(const struct eo_launch *l, unary_fn f)
{
    const struct eo_tensor_desc *x = l->node->in[0], *y = l->node->out[0];
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++)
        element_set(l->out[0], y->dtype, i, f(element_get(l->in[0], x->dtype, i)));
    return EO_OK;
}

static int map_float(const struct eo_launch *l, float_unary_fn f)
{
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    enum eo_dtype dtype = l->node->out[0]->dtype;
    for (int64_t i = 0; i < n; i++)
        element_set_float(l->out[0], dtype, i, f(element_get_float(l->in[0], dtype, i)));
    return EO_OK;
}

static int map_binary(const struct eo_launch *l, binary_fn f)
{
    const struct eo_tensor_desc *a = l->node->in[0], *b = l->node->in[1], *y = l->node->out[0];
    struct walk w;
    walk_init(&w, y->shape, y->n_dims);
    walk_broadcast(&w, a);
    walk_broadcast(&w, b);
    for (; walk_more(&w); walk_next(&w)) {
        struct element ea = element_get(l->in[0], a->dtype, w.offset[0]);
        struct element eb = element_get(l->in[1], b->dtype, w.offset[1]);
        element_set(l->out[0], y->dtype, w.linear, f(ea, eb));
    }
    return EO_OK;
}

/* Floats only, one operand. */
#define FLOAT_UNARY(name, expression)                                                                                  \
    static double name##_value(double x)                                                                               \
    {                                                                                                                  \
        return expression;                                                                                             \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return map_float(l, name##_value);                                                                             \
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
FLOAT_UNARY(relu, x <= 0 ? 0 : x)
FLOAT_UNARY(softplus, (x > 0 || isnan(x) ? x : 0) + log1p(exp(-fabs(x))))

/* One operand: an expression for floats (x), one for signed integers, whose wrapping is done in uint64 (u, and x as
 * int64). */
#define SIGNED_UNARY(name, float_expression, signed_expression)                                                        \
    static struct element name##_value(struct element e)                                                               \
    {                                                                                                                  \
        if (e.kind == EO_KIND_FLOAT) {                                                                                 \
            double x = e.v.f;                                                                                          \
            return element_float(float_expression);                                                                    \
        }                                                                                                              \
        int64_t x = e.v.i;                                                                                             \
        return element_signed((int64_t)(signed_expression));                                                           \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return map_unary(l, name##_value);                                                                             \
    }

SIGNED_UNARY(negative, -x, 0 - (uint64_t)x)
SIGNED_UNARY(abs, fabs(x), x < 0 ? 0 - (uint64_t)x : (uint64_t)x)
SIGNED_UNARY(sign, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x, (x > 0) - (x < 0))

static struct element logical_not_value(struct element e)
{
    return element_bool(e.v.u == 0);
}
int reference_logical_not(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return map_unary(l, logical_not_value);
}

static struct element isfinite_value(struct element e)
{
    return element_bool(isfinite(e.v.f));
}
int reference_isfinite(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return map_unary(l, isfinite_value);
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
        return map_binary(l, name##_value);                                                                            \
    }

ARITHMETIC(add, a + b, a + b)
ARITHMETIC(subtract, a - b, a - b)
ARITHMETIC(multiply, a *b, a *b)

#define FLOAT_BINARY(name, expression)                                                                                 \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        double a = ea.v.f, b = eb.v.f;                                                                                 \
        return element_float(expression);                                                                              \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return map_binary(l, name##_value);                                                                            \
    }

FLOAT_BINARY(divide, a / b)
FLOAT_BINARY(power, pow(a, b))

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
        return map_binary(l, name##_value);                                                                            \
    }

COMPARISON(equal, a == b)
COMPARISON(not_equal, a != b)
COMPARISON(less, a < b)
COMPARISON(less_equal, a <= b)
COMPARISON(greater, a > b)
COMPARISON(greater_equal, a >= b)
COMPARISON(logical_and, a != 0 && b != 0)
COMPARISON(logical_or, a != 0 || b != 0)

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
        return map_binary(l, name##_value);                                                                            \
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
