/* Element-wise loops over transcendental functions. SLEEF computes them where the build has it (at most 1 unit in the
 * last place, erfc 1.5), the C library otherwise. This is the only file that knows SLEEF.
 *
 * A value does not depend on its place: the last, partial vector is padded and goes through the same code as the
 * others. */
#include "backends/cpu/vector/loops.h"

#include <math.h>
#include <string.h>

/* VF, VD: vectors of LF floats and LD doubles; SLEEF_F, SLEEF_D: functions of them, by name and error bound (u10: 1.0
 * units in the last place). */
#if defined(EO_HAVE_SLEEF) && defined(__x86_64__)
#include <sleef.h>
#if defined(__AVX512F__)
enum { LF = 16, LD = 8 };
typedef __m512 VF;
typedef __m512d VD;
#define SLEEF_F(name, digits) Sleef_##name##f16_##digits##avx512f
#define SLEEF_D(name, digits) Sleef_##name##d8_##digits##avx512f
#elif defined(__AVX2__)
enum { LF = 8, LD = 4 };
typedef __m256 VF;
typedef __m256d VD;
#define SLEEF_F(name, digits) Sleef_##name##f8_##digits##avx2
#define SLEEF_D(name, digits) Sleef_##name##d4_##digits##avx2
#else
enum { LF = 4, LD = 2 };
typedef __m128 VF;
typedef __m128d VD;
#define SLEEF_F(name, digits) Sleef_##name##f4_##digits##sse2
#define SLEEF_D(name, digits) Sleef_##name##d2_##digits##sse2
#endif
#else
enum { LF = 1, LD = 1 };
typedef float VF;
typedef double VD;
#define SLEEF_F(name, digits) name##f
#define SLEEF_D(name, digits) name
#endif

/* array_<name>: r[i] = name(x[i]). */
#define ARRAY(name, suffix, T, V, L, call)                                                                             \
    static void array_##name##_##suffix(int64_t n, T *r, const T *x)                                                   \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        V v;                                                                                                           \
        for (; i + L <= n; i += L) {                                                                                   \
            memcpy(&v, x + i, sizeof v);                                                                               \
            v = call(v);                                                                                               \
            memcpy(r + i, &v, sizeof v);                                                                               \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            T pad[L] = {0};                                                                                            \
            memcpy(pad, x + i, (size_t)(n - i) * sizeof(T));                                                           \
            memcpy(&v, pad, sizeof v);                                                                                 \
            v = call(v);                                                                                               \
            memcpy(pad, &v, sizeof v);                                                                                 \
            memcpy(r + i, pad, (size_t)(n - i) * sizeof(T));                                                           \
        }                                                                                                              \
    }
#define ARRAYS(name, digits)                                                                                           \
    ARRAY(name, f32, float, VF, LF, SLEEF_F(name, digits))                                                             \
    ARRAY(name, f64, double, VD, LD, SLEEF_D(name, digits))

ARRAYS(exp, u10)
ARRAYS(exp2, u10)
ARRAYS(log, u10)
ARRAYS(log2, u10)
ARRAYS(log10, u10)
ARRAYS(log1p, u10)
ARRAYS(expm1, u10)
ARRAYS(cbrt, u10)
ARRAYS(erf, u10)
ARRAYS(erfc, u15)
ARRAYS(sin, u10)
ARRAYS(cos, u10)
ARRAYS(tan, u10)
ARRAYS(asin, u10)
ARRAYS(acos, u10)
ARRAYS(atan, u10)
ARRAYS(sinh, u10)
ARRAYS(cosh, u10)
ARRAYS(tanh, u10)
ARRAYS(asinh, u10)
ARRAYS(acosh, u10)
ARRAYS(atanh, u10)

#define ARRAY_OF_TWO(name, suffix, T, V, L, call)                                                                      \
    static void array_##name##_##suffix(int64_t n, T *r, const T *a, const T *b)                                       \
    {                                                                                                                  \
        V va, vb;                                                                                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + L <= n; i += L) {                                                                                   \
            memcpy(&va, a + i, sizeof va);                                                                             \
            memcpy(&vb, b + i, sizeof vb);                                                                             \
            va = call(va, vb);                                                                                         \
            memcpy(r + i, &va, sizeof va);                                                                             \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            T pad_a[L] = {0}, pad_b[L] = {0};                                                                          \
            memcpy(pad_a, a + i, (size_t)(n - i) * sizeof(T));                                                         \
            memcpy(pad_b, b + i, (size_t)(n - i) * sizeof(T));                                                         \
            memcpy(&va, pad_a, sizeof va);                                                                             \
            memcpy(&vb, pad_b, sizeof vb);                                                                             \
            va = call(va, vb);                                                                                         \
            memcpy(pad_a, &va, sizeof va);                                                                             \
            memcpy(r + i, pad_a, (size_t)(n - i) * sizeof(T));                                                         \
        }                                                                                                              \
    }

ARRAY_OF_TWO(pow, f32, float, VF, LF, SLEEF_F(pow, u10))
ARRAY_OF_TWO(pow, f64, double, VD, LD, SLEEF_D(pow, u10))
ARRAY_OF_TWO(atan2, f32, float, VF, LF, SLEEF_F(atan2, u10))
ARRAY_OF_TWO(atan2, f64, double, VD, LD, SLEEF_D(atan2, u10))

#define DIRECT(name, suffix)                                                                                           \
    static void name##_##suffix(MAP_PARAMETERS)                                                                        \
    {                                                                                                                  \
        UNUSED_PARAMETERS;                                                                                             \
        array_##name##_##suffix(n, out, in[0]);                                                                        \
    }

/* Elements that stay in the first-level cache between the passes of a function. */
enum { BLOCK = 256 };

/* Where a function of SLEEF is not what it should be, the C library computes instead: near the top of their range some
 * give infinity too early, and how sin, cos and tan reduce large arguments depends on the other elements of the vector,
 * whereas a value must depend on its own operand only. Elements `outside` are 0 in the vectors. */
#define PATCHED(name, suffix, T, outside, fallback)                                                                    \
    static void name##_##suffix(MAP_PARAMETERS)                                                                        \
    {                                                                                                                  \
        UNUSED_PARAMETERS;                                                                                             \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            const int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                   \
            T *r = (T *)out + first, all[BLOCK], inside[BLOCK];                                                        \
            int any = 0;                                                                                               \
            memcpy(all, (const T *)in[0] + first, (size_t)m * sizeof(T));                                              \
            for (int64_t i = 0; i < m; i++) {                                                                          \
                const T x = all[i];                                                                                    \
                any |= (outside);                                                                                      \
                inside[i] = (outside) ? 0 : x;                                                                         \
            }                                                                                                          \
            array_##name##_##suffix(m, r, inside);                                                                     \
            for (int64_t i = 0; any && i < m; i++) {                                                                   \
                const T x = all[i];                                                                                    \
                r[i] = (outside) ? fallback(x) : r[i];                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Two operands, either of which can be a scalar. */
#define OF_TWO(name, suffix, T)                                                                                        \
    static void name##_##suffix(MAP_PARAMETERS)                                                                        \
    {                                                                                                                  \
        const T *a = in[0], *b = in[1];                                                                                \
        T *r = out, spread[BLOCK];                                                                                     \
        (void)args;                                                                                                    \
        if (scalars == 0) {                                                                                            \
            array_##name##_##suffix(n, r, a, b);                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        const T one = scalars & 1 ? a[0] : b[0];                                                                       \
        VECTOR_FOR(i, BLOCK) spread[i] = one;                                                                          \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            const int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                   \
            array_##name##_##suffix(m, r + first, scalars & 1 ? spread : a + first, scalars & 1 ? b + first : spread); \
        }                                                                                                              \
    }

#define COMPOSED(T, suffix, fabs_fn)                                                                                   \
    DIRECT(exp2, suffix)                                                                                               \
    DIRECT(log, suffix)                                                                                                \
    DIRECT(log2, suffix)                                                                                               \
    DIRECT(log10, suffix)                                                                                              \
    DIRECT(expm1, suffix)                                                                                              \
    DIRECT(cbrt, suffix)                                                                                               \
    DIRECT(erf, suffix)                                                                                                \
    DIRECT(erfc, suffix)                                                                                               \
    DIRECT(asin, suffix)                                                                                               \
    DIRECT(acos, suffix)                                                                                               \
    DIRECT(atan, suffix)                                                                                               \
    DIRECT(tanh, suffix)                                                                                               \
    DIRECT(atanh, suffix)                                                                                              \
    OF_TWO(atan2, suffix, T)                                                                                           \
    OF_TWO(pow, suffix, T)                                                                                             \
    /* e = exp(-|x|) never overflows; 1 / (1 + e) for x >= 0, e / (1 + e) below keep all digits on both sides. */      \
    static void sigmoid_##suffix(MAP_PARAMETERS)                                                                       \
    {                                                                                                                  \
        UNUSED_PARAMETERS;                                                                                             \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                         \
            const T *x = (const T *)in[0] + first;                                                                     \
            T *r = (T *)out + first, e[BLOCK];                                                                         \
            VECTOR_FOR(i, m) e[i] = -fabs_fn(x[i]);                                                                    \
            array_exp_##suffix(m, e, e);                                                                               \
            VECTOR_FOR(i, m) r[i] = (x[i] >= 0 ? 1 : e[i]) / (1 + e[i]);                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void softplus_##suffix(MAP_PARAMETERS)                                                                      \
    {                                                                                                                  \
        UNUSED_PARAMETERS;                                                                                             \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                         \
            const T *x = (const T *)in[0] + first;                                                                     \
            T *r = (T *)out + first, e[BLOCK];                                                                         \
            VECTOR_FOR(i, m) e[i] = -fabs_fn(x[i]);                                                                    \
            array_exp_##suffix(m, e, e);                                                                               \
            array_log1p_##suffix(m, e, e);                                                                             \
            VECTOR_FOR(i, m) r[i] = (x[i] <= 0 ? 0 : x[i]) + e[i];                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    /* A square is a product: exact to half a unit, as pow demands, and many times faster. */                          \
    static void power_##suffix(MAP_PARAMETERS)                                                                         \
    {                                                                                                                  \
        const T *a = in[0];                                                                                            \
        T *r = out;                                                                                                    \
        if (scalars != 2 || ((const T *)in[1])[0] != 2) {                                                              \
            pow_##suffix(n, out, in, scalars, args);                                                                   \
            return;                                                                                                    \
        }                                                                                                              \
        VECTOR_FOR(i, n) r[i] = a[i] * a[i];                                                                           \
    }

/* Limits of the fast reduction in SLEEF 3.5 (TRIGRANGEMAX2), NaN and infinities outside; limits of the others where
 * they lose digits or overflow. */
#define TRIGONOMETRIC(name)                                                                                            \
    PATCHED(name, f32, float, !(x >= -125 && x <= 125), name##f)                                                       \
    PATCHED(name, f64, double, !(x >= -15 && x <= 15), name)
#define HYPERBOLIC(name)                                                                                               \
    PATCHED(name, f32, float, !(x >= -88 && x <= 88), name##f)                                                         \
    PATCHED(name, f64, double, !(x >= -709 && x <= 709), name)
#define INVERSE_HYPERBOLIC(name)                                                                                       \
    PATCHED(name, f32, float, !(x >= -1e18F && x <= 1e18F), name##f)                                                   \
    PATCHED(name, f64, double, !(x >= -1e150 && x <= 1e150), name)

TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)
TRIGONOMETRIC(tan)
HYPERBOLIC(sinh)
HYPERBOLIC(cosh)
INVERSE_HYPERBOLIC(asinh)
INVERSE_HYPERBOLIC(acosh)
DIRECT(exp, f32)
PATCHED(exp, f64, double, x > 709.78, exp)
PATCHED(log1p, f32, float, x > 1e30F, log1pf)
PATCHED(log1p, f64, double, x > 1e300, log1p)
COMPOSED(float, f32, __builtin_fabsf)
COMPOSED(double, f64, __builtin_fabs)

const vector_map_table VECTOR_ISA(vector_math) = {
    [EO_OP_EXP] = FOR_FLOATS(exp),     [EO_OP_EXP2] = FOR_FLOATS(exp2),       [EO_OP_LOG] = FOR_FLOATS(log),
    [EO_OP_LOG2] = FOR_FLOATS(log2),   [EO_OP_LOG10] = FOR_FLOATS(log10),     [EO_OP_LOG1P] = FOR_FLOATS(log1p),
    [EO_OP_EXPM1] = FOR_FLOATS(expm1), [EO_OP_CBRT] = FOR_FLOATS(cbrt),       [EO_OP_ERF] = FOR_FLOATS(erf),
    [EO_OP_ERFC] = FOR_FLOATS(erfc),   [EO_OP_SIN] = FOR_FLOATS(sin),         [EO_OP_COS] = FOR_FLOATS(cos),
    [EO_OP_TAN] = FOR_FLOATS(tan),     [EO_OP_ASIN] = FOR_FLOATS(asin),       [EO_OP_ACOS] = FOR_FLOATS(acos),
    [EO_OP_ATAN] = FOR_FLOATS(atan),   [EO_OP_SINH] = FOR_FLOATS(sinh),       [EO_OP_COSH] = FOR_FLOATS(cosh),
    [EO_OP_TANH] = FOR_FLOATS(tanh),   [EO_OP_ASINH] = FOR_FLOATS(asinh),     [EO_OP_ACOSH] = FOR_FLOATS(acosh),
    [EO_OP_ATANH] = FOR_FLOATS(atanh), [EO_OP_SIGMOID] = FOR_FLOATS(sigmoid), [EO_OP_SOFTPLUS] = FOR_FLOATS(softplus),
    [EO_OP_POWER] = FOR_FLOATS(power), [EO_OP_ATAN2] = FOR_FLOATS(atan2),
};
