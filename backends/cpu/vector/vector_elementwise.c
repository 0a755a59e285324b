/* Element-wise loops that are exact: arithmetic and comparisons of floats, logic, selection, copies of every dtype. */
#include "backends/cpu/vector/loops.h"

#include <string.h>

/* NumPy's floor_divide and remainder, in float64 for both float dtypes: rounded once, whatever the instruction set. */
static double floor_quotient(double a, double b)
{
    const double r = __builtin_fmod(a, b);
    if (b == 0)
        return a / b;
    double q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0))
        q -= 1;
    if (q == 0)
        return __builtin_copysign(0, a / b);
    const double down = __builtin_floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

static double remainder_like_divisor(double a, double b)
{
    const double r = __builtin_fmod(a, b);
    if (r == 0)
        return __builtin_copysign(0, b);
    return (b < 0) != (r < 0) ? r + b : r;
}

/* Floats. relu, maximum and minimum hand NaN on; sign of NaN is NaN; x - x is 0 for finite x only. */
#define FLOAT_ROWS(suffix, T, fn)                                                                                      \
    UNARY(negative, suffix, T, T, -x)                                                                                  \
    UNARY(sqrt, suffix, T, T, fn(sqrt)(x))                                                                             \
    UNARY(reciprocal, suffix, T, T, (T)1 / x)                                                                          \
    UNARY(relu, suffix, T, T, x <= 0 ? 0 : x)                                                                          \
    UNARY(abs, suffix, T, T, fn(fabs)(x))                                                                              \
    UNARY(sign, suffix, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)                                        \
    UNARY(floor, suffix, T, T, fn(floor)(x))                                                                           \
    UNARY(ceil, suffix, T, T, fn(ceil)(x))                                                                             \
    UNARY(round, suffix, T, T, fn(rint)(x))                                                                            \
    UNARY(trunc, suffix, T, T, fn(trunc)(x))                                                                           \
    UNARY(isfinite, suffix, T, uint8_t, x - x == 0)                                                                    \
    UNARY(isnan, suffix, T, uint8_t, x != x)                                                                           \
    UNARY(isinf, suffix, T, uint8_t, ((double)x == args->low.f) | ((double)x == args->high.f))                         \
    BINARY(add, suffix, T, T, a + b)                                                                                   \
    BINARY(subtract, suffix, T, T, a - b)                                                                              \
    BINARY(multiply, suffix, T, T, a *b)                                                                               \
    BINARY(divide, suffix, T, T, a / b)                                                                                \
    BINARY(maximum, suffix, T, T, a >= b || a != a ? a : b)                                                            \
    BINARY(minimum, suffix, T, T, a <= b || a != a ? a : b)                                                            \
    BINARY_PLAIN(floor_divide, suffix, T, T, floor_quotient(a, b))                                                     \
    BINARY_PLAIN(remainder, suffix, T, T, remainder_like_divisor(a, b))                                                \
    BINARY_PLAIN(fmod, suffix, T, T, fn(fmod)(a, b))

#define BUILTIN_FLOAT(name) __builtin_##name##f
#define BUILTIN_DOUBLE(name) __builtin_##name
FLOAT_ROWS(f32, float, BUILTIN_FLOAT)
FLOAT_ROWS(f64, double, BUILTIN_DOUBLE)

#define COMPARISON_ROWS(suffix, T)                                                                                     \
    BINARY(equal, suffix, T, uint8_t, a == b)                                                                          \
    BINARY(not_equal, suffix, T, uint8_t, a != b)                                                                      \
    BINARY(less, suffix, T, uint8_t, a < b)                                                                            \
    BINARY(less_equal, suffix, T, uint8_t, a <= b)                                                                     \
    BINARY(greater, suffix, T, uint8_t, a > b)                                                                         \
    BINARY(greater_equal, suffix, T, uint8_t, a >= b)

COMPARISON_ROWS(f32, float)
COMPARISON_ROWS(f64, double)

/* Bool operands come from outside as bytes: any non-zero one is true. */
UNARY(logical_not, bool, uint8_t, uint8_t, x == 0)
BINARY(logical_and, bool, uint8_t, uint8_t, a != 0 && b != 0)
BINARY(logical_or, bool, uint8_t, uint8_t, a != 0 || b != 0)
BINARY(logical_xor, bool, uint8_t, uint8_t, (a != 0) != (b != 0))
BINARY(equal, bool, uint8_t, uint8_t, (a != 0) == (b != 0))
BINARY(less, bool, uint8_t, uint8_t, a == 0 && b != 0)
BINARY(less_equal, bool, uint8_t, uint8_t, a == 0 || b != 0)
BINARY(greater, bool, uint8_t, uint8_t, a != 0 && b == 0)
BINARY(greater_equal, bool, uint8_t, uint8_t, a != 0 || b == 0)

CLIP(f32, float, f)
CLIP(f64, double, f)

/* where and copy move bits, so they work by element size. */
#define BITS_ROWS(suffix, T)                                                                                           \
    static void where_varied_##suffix(int64_t n, T *r, const uint8_t *c, const T *a, bool one_a, const T *b,           \
                                      bool one_b)                                                                      \
    {                                                                                                                  \
        if (one_a && one_b) {                                                                                          \
            const T a0 = a[0], b0 = b[0];                                                                              \
            VECTOR_FOR(i, n) r[i] = c[i] ? a0 : b0;                                                                    \
        } else if (one_a) {                                                                                            \
            const T a0 = a[0];                                                                                         \
            VECTOR_FOR(i, n) r[i] = c[i] ? a0 : b[i];                                                                  \
        } else if (one_b) {                                                                                            \
            const T b0 = b[0];                                                                                         \
            VECTOR_FOR(i, n) r[i] = c[i] ? a[i] : b0;                                                                  \
        } else {                                                                                                       \
            VECTOR_FOR(i, n) r[i] = c[i] ? a[i] : b[i];                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void copy_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        T *r = out;                                                                                                    \
        (void)args;                                                                                                    \
        if (scalars & 1) {                                                                                             \
            const T x = *(const T *)in[0];                                                                             \
            VECTOR_FOR(i, n) r[i] = x;                                                                                 \
        } else if (out != in[0]) {                                                                                     \
            memcpy(out, in[0], (size_t)n * sizeof(T));                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void where_##suffix(MAP_PARAMETERS)                                                                         \
    {                                                                                                                  \
        const uint8_t *c = in[0];                                                                                      \
        if (scalars & 1) {                                                                                             \
            int chosen = c[0] ? 1 : 2;                                                                                 \
            copy_##suffix(n, out, in + chosen, scalars >> chosen, args);                                               \
            return;                                                                                                    \
        }                                                                                                              \
        where_varied_##suffix(n, out, c, in[1], (scalars & 2) != 0, in[2], (scalars & 4) != 0);                        \
    }

BITS_ROWS(b8, uint8_t)
BITS_ROWS(b16, uint16_t)
BITS_ROWS(b32, uint32_t)
BITS_ROWS(b64, uint64_t)

#define FOR_COMPARED(op)                                                                                               \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64, [EO_BOOL] = op##_bool                                        \
    }
#define FOR_BITS(op)                                                                                                   \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_b32, [EO_FLOAT64] = op##_b64, [EO_FLOAT16] = op##_b16, [EO_BFLOAT16] = op##_b16,           \
        [EO_INT8] = op##_b8, [EO_INT16] = op##_b16, [EO_INT32] = op##_b32, [EO_INT64] = op##_b64,                      \
        [EO_UINT8] = op##_b8, [EO_UINT16] = op##_b16, [EO_UINT32] = op##_b32, [EO_UINT64] = op##_b64,                  \
        [EO_BOOL] = op##_b8                                                                                            \
    }

const vector_map_table VECTOR_ISA(vector_elementwise) = {
    [EO_OP_NEGATIVE] = FOR_FLOATS(negative),
    [EO_OP_SQRT] = FOR_FLOATS(sqrt),
    [EO_OP_RECIPROCAL] = FOR_FLOATS(reciprocal),
    [EO_OP_RELU] = FOR_FLOATS(relu),
    [EO_OP_ABS] = FOR_FLOATS(abs),
    [EO_OP_SIGN] = FOR_FLOATS(sign),
    [EO_OP_LOGICAL_NOT] = {[EO_BOOL] = logical_not_bool},
    [EO_OP_ISFINITE] = FOR_FLOATS(isfinite),
    [EO_OP_FLOOR] = FOR_FLOATS(floor),
    [EO_OP_CEIL] = FOR_FLOATS(ceil),
    [EO_OP_ROUND] = FOR_FLOATS(round),
    [EO_OP_TRUNC] = FOR_FLOATS(trunc),
    [EO_OP_ISNAN] = FOR_FLOATS(isnan),
    [EO_OP_ISINF] = FOR_FLOATS(isinf),
    [EO_OP_CLIP] = FOR_FLOATS(clip),
    [EO_OP_ADD] = FOR_FLOATS(add),
    [EO_OP_SUBTRACT] = FOR_FLOATS(subtract),
    [EO_OP_MULTIPLY] = FOR_FLOATS(multiply),
    [EO_OP_DIVIDE] = FOR_FLOATS(divide),
    [EO_OP_FLOOR_DIVIDE] = FOR_FLOATS(floor_divide),
    [EO_OP_REMAINDER] = FOR_FLOATS(remainder),
    [EO_OP_FMOD] = FOR_FLOATS(fmod),
    [EO_OP_MAXIMUM] = FOR_FLOATS(maximum),
    [EO_OP_MINIMUM] = FOR_FLOATS(minimum),
    [EO_OP_EQUAL] = FOR_COMPARED(equal),
    [EO_OP_NOT_EQUAL] = {[EO_FLOAT32] = not_equal_f32, [EO_FLOAT64] = not_equal_f64, [EO_BOOL] = logical_xor_bool},
    [EO_OP_LESS] = FOR_COMPARED(less),
    [EO_OP_LESS_EQUAL] = FOR_COMPARED(less_equal),
    [EO_OP_GREATER] = FOR_COMPARED(greater),
    [EO_OP_GREATER_EQUAL] = FOR_COMPARED(greater_equal),
    [EO_OP_LOGICAL_AND] = {[EO_BOOL] = logical_and_bool},
    [EO_OP_LOGICAL_OR] = {[EO_BOOL] = logical_or_bool},
    [EO_OP_LOGICAL_XOR] = {[EO_BOOL] = logical_xor_bool},
    [EO_OP_WHERE] = FOR_BITS(where),
    [EO_OP_EXPAND] = FOR_BITS(copy),
};
