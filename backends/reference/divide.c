/* Division and its relatives, powers, bits: rows of two operands whose integers need care. Integers are worked out in
 * 64 bits; what element_set keeps of a result are its low bits, which is how narrower ones wrap. */
#include "backends/reference/each.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"

#include <math.h>

/* ---- floats ---- */

/* NumPy's (npy_divmod of numpy/core/src/npymath/npy_math_internal.h.src says what, Python's float.__divmod__ the same):
 * a = b floor_divide(a, b) + remainder(a, b) up to rounding, and the remainder has the sign of b. */
static double float_remainder(double a, double b)
{
    double r = fmod(a, b);
    if (r != 0)
        return (b < 0) != (r < 0) ? r + b : r;
    return copysign(0, b);
}

static double float_floor_divide(double a, double b)
{
    double r = fmod(a, b), q;
    if (b == 0)
        return a / b;
    q = (a - r) / b; /* an integer, up to its rounding */
    if (r != 0 && (b < 0) != (r < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    double down = floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

/* ---- integers ---- */

static int64_t signed_divide(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t signed_fmod(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t signed_floor_divide(int64_t a, int64_t b)
{
    int64_t r = signed_fmod(a, b);
    return signed_divide(a, b) - (r != 0 && (r < 0) != (b < 0));
}

static int64_t signed_remainder(int64_t a, int64_t b)
{
    int64_t r = signed_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static uint64_t unsigned_divide(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a / b;
}

static uint64_t unsigned_fmod(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a % b;
}

/* By squaring, modulo 2^64. */
static uint64_t unsigned_power(uint64_t a, uint64_t b)
{
    uint64_t r = 1;
    for (; b; b >>= 1, a *= a)
        r *= b & 1 ? a : 1;
    return r;
}

static int64_t signed_power(int64_t a, int64_t b)
{
    if (b >= 0)
        return (int64_t)unsigned_power((uint64_t)a, (uint64_t)b);
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
}

#define NUMBER_BINARY(name, float_expression, signed_expression, unsigned_expression)                                  \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        if (ea.kind == EO_KIND_FLOAT) {                                                                                \
            double a = ea.v.f, b = eb.v.f;                                                                             \
            return element_float(float_expression);                                                                    \
        }                                                                                                              \
        if (ea.kind == EO_KIND_SIGNED) {                                                                               \
            int64_t a = ea.v.i, b = eb.v.i;                                                                            \
            return element_signed(signed_expression);                                                                  \
        }                                                                                                              \
        uint64_t a = ea.v.u, b = eb.v.u;                                                                               \
        return element_unsigned(unsigned_expression);                                                                  \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_binary(l, name##_value);                                                                           \
    }

NUMBER_BINARY(divide, a / b, signed_divide(a, b), unsigned_divide(a, b))
NUMBER_BINARY(floor_divide, float_floor_divide(a, b), signed_floor_divide(a, b), unsigned_divide(a, b))
NUMBER_BINARY(remainder, float_remainder(a, b), signed_remainder(a, b), unsigned_fmod(a, b))
NUMBER_BINARY(fmod, fmod(a, b), signed_fmod(a, b), unsigned_fmod(a, b))
NUMBER_BINARY(power, pow(a, b), signed_power(a, b), unsigned_power(a, b))

static struct element atan2_value(struct element a, struct element b)
{
    return element_float(atan2(a.v.f, b.v.f));
}
int reference_atan2(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return each_binary(l, atan2_value);
}

/* ---- bits ---- */

#define BITS(name, expression)                                                                                         \
    static struct element name##_value(struct element ea, struct element eb)                                           \
    {                                                                                                                  \
        uint64_t a = ea.kind == EO_KIND_SIGNED ? (uint64_t)ea.v.i : ea.v.u;                                            \
        uint64_t b = eb.kind == EO_KIND_SIGNED ? (uint64_t)eb.v.i : eb.v.u;                                            \
        uint64_t r = expression;                                                                                       \
        return ea.kind == EO_KIND_SIGNED ? element_signed((int64_t)r) : element_unsigned(r);                           \
    }                                                                                                                  \
    int reference_##name(const struct eo_launch *l, struct eo_error *err)                                              \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return each_binary(l, name##_value);                                                                           \
    }

BITS(bitwise_and, a &b)
BITS(bitwise_or, a | b)
BITS(bitwise_xor, a ^ b)

/* Places to shift by; `width` for all that leave nothing: the width or more, and negative ones. */
static uint64_t places(struct element e, uint64_t width)
{
    uint64_t n = e.kind == EO_KIND_SIGNED ? (uint64_t)e.v.i : e.v.u;
    return n < width ? n : width;
}

static struct element shifted_left(struct element a, uint64_t n, uint64_t width)
{
    if (a.kind == EO_KIND_SIGNED)
        return element_signed(n < width ? (int64_t)((uint64_t)a.v.i << n) : 0);
    return element_unsigned(n < width ? a.v.u << n : 0);
}

static struct element shifted_right(struct element a, uint64_t n, uint64_t width)
{
    if (a.kind == EO_KIND_SIGNED)
        return element_signed(n < width ? a.v.i >> n : a.v.i < 0 ? -1 : 0);
    return element_unsigned(n < width ? a.v.u >> n : 0);
}

static int shift(const struct eo_launch *l, struct element (*f)(struct element a, uint64_t n, uint64_t width))
{
    const struct eo_tensor_desc *y = l->node->out[0];
    const uint64_t width = eo_dtype_size(y->dtype) * 8;
    struct walk w;
    walk_init(&w, y->shape, y->n_dims);
    walk_broadcast(&w, l->node->in[0]);
    walk_broadcast(&w, l->node->in[1]);
    for (; walk_more(&w); walk_next(&w)) {
        struct element a = element_get(l->in[0], y->dtype, w.offset[0]);
        struct element b = element_get(l->in[1], y->dtype, w.offset[1]);
        element_set(l->out[0], y->dtype, w.linear, f(a, places(b, width), width));
    }
    return EO_OK;
}

int reference_shift_left(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return shift(l, shifted_left);
}

int reference_shift_right(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return shift(l, shifted_right);
}
