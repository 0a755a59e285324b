/* Element-wise loops that are exact: arithmetic, comparisons, selection, copies. */
#include "backends/cpu/vector/vector.h"

#include <string.h>

#define MAP_PARAMETERS int64_t n, void *out, const void *const *in, unsigned scalars, const struct vector_args *args
#define UNUSED_PARAMETERS ((void)args, (void)scalars)

/* One operand: r[i] = expression of x. */
#define UNARY(op, suffix, T, R, expression)                                                                            \
    static void op##_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        R *r = out;                                                                                                    \
        const T *px = in[0];                                                                                           \
        UNUSED_PARAMETERS;                                                                                             \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T x = px[i];                                                                                         \
            r[i] = (R)(expression);                                                                                    \
        }                                                                                                              \
    }

/* Two operands, either of which can be a scalar. */
#define BINARY(op, suffix, T, R, expression)                                                                           \
    static void op##_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        R *r = out;                                                                                                    \
        const T *pa = in[0], *pb = in[1];                                                                              \
        UNUSED_PARAMETERS;                                                                                             \
        if (scalars == 1) {                                                                                            \
            const T a = pa[0];                                                                                         \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T b = pb[i];                                                                                     \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        } else if (scalars == 2) {                                                                                     \
            const T b = pb[0];                                                                                         \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T a = pa[i];                                                                                     \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        } else {                                                                                                       \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T a = pa[i], b = pb[i];                                                                          \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Floats. relu, maximum and minimum hand NaN on; sign of NaN is NaN; x - x is 0 for finite x only. */
#define FLOAT_ROWS(suffix, T, fabs_fn, sqrt_fn)                                                                        \
    UNARY(negative, suffix, T, T, -x)                                                                                  \
    UNARY(sqrt, suffix, T, T, sqrt_fn(x))                                                                              \
    UNARY(reciprocal, suffix, T, T, (T)1 / x)                                                                          \
    UNARY(relu, suffix, T, T, x <= 0 ? 0 : x)                                                                          \
    UNARY(abs, suffix, T, T, fabs_fn(x))                                                                               \
    UNARY(sign, suffix, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)                                        \
    UNARY(isfinite, suffix, T, uint8_t, x - x == 0)                                                                    \
    BINARY(add, suffix, T, T, a + b)                                                                                   \
    BINARY(subtract, suffix, T, T, a - b)                                                                              \
    BINARY(multiply, suffix, T, T, a *b)                                                                               \
    BINARY(divide, suffix, T, T, a / b)                                                                                \
    BINARY(maximum, suffix, T, T, a >= b || a != a ? a : b)                                                            \
    BINARY(minimum, suffix, T, T, a <= b || a != a ? a : b)

FLOAT_ROWS(f32, float, __builtin_fabsf, __builtin_sqrtf)
FLOAT_ROWS(f64, double, __builtin_fabs, __builtin_sqrt)

/* Integers wrap: arithmetic is done in the unsigned type U. */
#define INTEGER_ROWS(suffix, T, U)                                                                                     \
    UNARY(negative, suffix, T, T, (U)0 - (U)x)                                                                         \
    UNARY(abs, suffix, T, T, x < 0 ? (U)0 - (U)x : (U)x)                                                               \
    UNARY(sign, suffix, T, T, (x > 0) - (x < 0))                                                                       \
    BINARY(add, suffix, T, T, (U)a + (U)b)                                                                             \
    BINARY(subtract, suffix, T, T, (U)a - (U)b)                                                                        \
    BINARY(multiply, suffix, T, T, (U)a *(U)b)                                                                         \
    BINARY(maximum, suffix, T, T, a >= b ? a : b)                                                                      \
    BINARY(minimum, suffix, T, T, a <= b ? a : b)

INTEGER_ROWS(i32, int32_t, uint32_t)
INTEGER_ROWS(i64, int64_t, uint64_t)

#define COMPARISON_ROWS(suffix, T)                                                                                     \
    BINARY(equal, suffix, T, uint8_t, a == b)                                                                          \
    BINARY(not_equal, suffix, T, uint8_t, a != b)                                                                      \
    BINARY(less, suffix, T, uint8_t, a < b)                                                                            \
    BINARY(less_equal, suffix, T, uint8_t, a <= b)                                                                     \
    BINARY(greater, suffix, T, uint8_t, a > b)                                                                         \
    BINARY(greater_equal, suffix, T, uint8_t, a >= b)

COMPARISON_ROWS(f32, float)
COMPARISON_ROWS(f64, double)
COMPARISON_ROWS(i32, int32_t)
COMPARISON_ROWS(i64, int64_t)
COMPARISON_ROWS(u8, uint8_t)

/* Bool operands come from outside as bytes: any non-zero one is true. */
UNARY(logical_not, bool, uint8_t, uint8_t, x == 0)
BINARY(logical_and, bool, uint8_t, uint8_t, a != 0 && b != 0)
BINARY(logical_or, bool, uint8_t, uint8_t, a != 0 || b != 0)
BINARY(equal, bool, uint8_t, uint8_t, (a != 0) == (b != 0))
BINARY(not_equal, bool, uint8_t, uint8_t, (a != 0) != (b != 0))

/* NaN is neither below low nor above high. */
#define CLIP(suffix, T, field)                                                                                         \
    static void clip_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        T *r = out;                                                                                                    \
        const T *px = in[0];                                                                                           \
        const T low = (T)args->low.field, high = (T)args->high.field;                                                  \
        (void)scalars;                                                                                                 \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            T x = px[i];                                                                                               \
            x = x < low ? low : x;                                                                                     \
            r[i] = x > high ? high : x;                                                                                \
        }                                                                                                              \
    }

CLIP(f32, float, f)
CLIP(f64, double, f)
CLIP(i32, int32_t, i)
CLIP(i64, int64_t, i)

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

#define FOR_NUMBERS(op)                                                                                                \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64, [EO_INT32] = op##_i32, [EO_INT64] = op##_i64                 \
    }
#define FOR_FLOATS(op)                                                                                                 \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64                                                               \
    }
#define FOR_ORDERED(op)                                                                                                \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64, [EO_INT32] = op##_i32, [EO_INT64] = op##_i64,                \
        [EO_UINT8] = op##_u8                                                                                           \
    }
#define FOR_EQUALITY(op)                                                                                               \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64, [EO_INT32] = op##_i32, [EO_INT64] = op##_i64,                \
        [EO_UINT8] = op##_u8, [EO_BOOL] = op##_bool                                                                    \
    }
#define FOR_BITS(op)                                                                                                   \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_b32, [EO_FLOAT64] = op##_b64, [EO_FLOAT16] = op##_b16, [EO_BFLOAT16] = op##_b16,           \
        [EO_INT8] = op##_b8, [EO_INT16] = op##_b16, [EO_INT32] = op##_b32, [EO_INT64] = op##_b64,                      \
        [EO_UINT8] = op##_b8, [EO_UINT16] = op##_b16, [EO_UINT32] = op##_b32, [EO_UINT64] = op##_b64,                  \
        [EO_BOOL] = op##_b8                                                                                            \
    }

const vector_map_table VECTOR_ISA(vector_elementwise) = {
    [EO_OP_NEGATIVE] = FOR_NUMBERS(negative),
    [EO_OP_SQRT] = FOR_FLOATS(sqrt),
    [EO_OP_RECIPROCAL] = FOR_FLOATS(reciprocal),
    [EO_OP_RELU] = FOR_FLOATS(relu),
    [EO_OP_ABS] = FOR_NUMBERS(abs),
    [EO_OP_SIGN] = FOR_NUMBERS(sign),
    [EO_OP_LOGICAL_NOT] = {[EO_BOOL] = logical_not_bool},
    [EO_OP_ISFINITE] = FOR_FLOATS(isfinite),
    [EO_OP_CLIP] = FOR_NUMBERS(clip),
    [EO_OP_ADD] = FOR_NUMBERS(add),
    [EO_OP_SUBTRACT] = FOR_NUMBERS(subtract),
    [EO_OP_MULTIPLY] = FOR_NUMBERS(multiply),
    [EO_OP_DIVIDE] = FOR_FLOATS(divide),
    [EO_OP_MAXIMUM] = FOR_NUMBERS(maximum),
    [EO_OP_MINIMUM] = FOR_NUMBERS(minimum),
    [EO_OP_EQUAL] = FOR_EQUALITY(equal),
    [EO_OP_NOT_EQUAL] = FOR_EQUALITY(not_equal),
    [EO_OP_LESS] = FOR_ORDERED(less),
    [EO_OP_LESS_EQUAL] = FOR_ORDERED(less_equal),
    [EO_OP_GREATER] = FOR_ORDERED(greater),
    [EO_OP_GREATER_EQUAL] = FOR_ORDERED(greater_equal),
    [EO_OP_LOGICAL_AND] = {[EO_BOOL] = logical_and_bool},
    [EO_OP_LOGICAL_OR] = {[EO_BOOL] = logical_or_bool},
    [EO_OP_WHERE] = FOR_BITS(where),
    [EO_OP_EXPAND] = FOR_BITS(copy),
};
