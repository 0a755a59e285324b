/* Element-wise loops over transcendental functions. SLEEF computes them where the build has it (at most 1 unit in the
 * last place), the C library otherwise. This is the only file that knows SLEEF.
 *
 * A value does not depend on its place: the last, partial vector is padded and goes through the same code as the
 * others. */
#include "backends/cpu/vector/vector.h"

#include <math.h>
#include <string.h>

/* VF, VD: vectors of LF floats and LD doubles; SF, SD: SLEEF's names for them. */
#if defined(EO_HAVE_SLEEF) && defined(__x86_64__)
#include <sleef.h>
#if defined(__AVX512F__)
enum { LF = 16, LD = 8 };
typedef __m512 VF;
typedef __m512d VD;
#define SF(name) Sleef_##name##f16_u10avx512f
#define SD(name) Sleef_##name##d8_u10avx512f
#elif defined(__AVX2__)
enum { LF = 8, LD = 4 };
typedef __m256 VF;
typedef __m256d VD;
#define SF(name) Sleef_##name##f8_u10avx2
#define SD(name) Sleef_##name##d4_u10avx2
#else
enum { LF = 4, LD = 2 };
typedef __m128 VF;
typedef __m128d VD;
#define SF(name) Sleef_##name##f4_u10sse2
#define SD(name) Sleef_##name##d2_u10sse2
#endif
#else
enum { LF = 1, LD = 1 };
typedef float VF;
typedef double VD;
#define SF(name) name##f
#define SD(name) name
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
#define ARRAYS(name)                                                                                                   \
    ARRAY(name, f32, float, VF, LF, SF(name))                                                                          \
    ARRAY(name, f64, double, VD, LD, SD(name))

ARRAYS(exp)
ARRAYS(log)
ARRAYS(log1p)
ARRAYS(expm1)
ARRAYS(tanh)

#define ARRAY_POWER(suffix, T, V, L, call)                                                                             \
    static void array_power_##suffix(int64_t n, T *r, const T *a, const T *b)                                          \
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

ARRAY_POWER(f32, float, VF, LF, SF(pow))
ARRAY_POWER(f64, double, VD, LD, SD(pow))

#define MAP_PARAMETERS int64_t n, void *out, const void *const *in, unsigned scalars, const struct vector_args *args

#define DIRECT(name, suffix)                                                                                           \
    static void name##_##suffix(MAP_PARAMETERS)                                                                        \
    {                                                                                                                  \
        (void)scalars;                                                                                                 \
        (void)args;                                                                                                    \
        array_##name##_##suffix(n, out, in[0]);                                                                        \
    }

/* Elements that stay in the first-level cache between the passes of a function. */
enum { BLOCK = 256 };

/* Near the top of their range some of SLEEF's functions give infinity too early. Elements above `limit` are worked out
 * by the C library instead: they depend on their own value only, as all do. */
#define PATCHED(name, suffix, T, limit, fallback)                                                                      \
    static void name##_##suffix(MAP_PARAMETERS)                                                                        \
    {                                                                                                                  \
        (void)scalars;                                                                                                 \
        (void)args;                                                                                                    \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                         \
            T *r = (T *)out + first, x[BLOCK];                                                                         \
            int above = 0;                                                                                             \
            memcpy(x, (const T *)in[0] + first, (size_t)m * sizeof(T));                                                \
            for (int64_t i = 0; i < m; i++)                                                                            \
                above |= x[i] > (limit);                                                                               \
            array_##name##_##suffix(m, r, x);                                                                          \
            for (int64_t i = 0; above && i < m; i++)                                                                   \
                r[i] = x[i] > (limit) ? fallback(x[i]) : r[i];                                                         \
        }                                                                                                              \
    }

#define COMPOSED(T, suffix, fabs_fn)                                                                                   \
    DIRECT(log, suffix)                                                                                                \
    DIRECT(expm1, suffix)                                                                                              \
    DIRECT(tanh, suffix)                                                                                               \
    /* e = exp(-|x|) never overflows; 1 / (1 + e) for x >= 0, e / (1 + e) below keep all digits on both sides. */      \
    static void sigmoid_##suffix(MAP_PARAMETERS)                                                                       \
    {                                                                                                                  \
        (void)scalars;                                                                                                 \
        (void)args;                                                                                                    \
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
        (void)scalars;                                                                                                 \
        (void)args;                                                                                                    \
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
        (void)args;                                                                                                    \
        const T *a = in[0], *b = in[1];                                                                                \
        T *r = out, spread[BLOCK];                                                                                     \
        if (scalars == 0) {                                                                                            \
            array_power_##suffix(n, r, a, b);                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        const T one = scalars & 1 ? a[0] : b[0];                                                                       \
        if (!(scalars & 1) && one == 2) {                                                                              \
            VECTOR_FOR(i, n) r[i] = a[i] * a[i];                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        VECTOR_FOR(i, BLOCK) spread[i] = one;                                                                          \
        for (int64_t first = 0; first < n; first += BLOCK) {                                                           \
            int64_t m = n - first < BLOCK ? n - first : BLOCK;                                                         \
            array_power_##suffix(m, r + first, scalars & 1 ? spread : a + first, scalars & 1 ? b + first : spread);    \
        }                                                                                                              \
    }

DIRECT(exp, f32)
PATCHED(exp, f64, double, 709.78, exp)
PATCHED(log1p, f32, float, 1e30F, log1pf)
PATCHED(log1p, f64, double, 1e300, log1p)
COMPOSED(float, f32, __builtin_fabsf)
COMPOSED(double, f64, __builtin_fabs)

#define FOR_FLOATS(op)                                                                                                 \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64                                                               \
    }

const vector_map_table VECTOR_ISA(vector_math) = {
    [EO_OP_EXP] = FOR_FLOATS(exp),           [EO_OP_LOG] = FOR_FLOATS(log),         [EO_OP_LOG1P] = FOR_FLOATS(log1p),
    [EO_OP_EXPM1] = FOR_FLOATS(expm1),       [EO_OP_SIGMOID] = FOR_FLOATS(sigmoid), [EO_OP_TANH] = FOR_FLOATS(tanh),
    [EO_OP_SOFTPLUS] = FOR_FLOATS(softplus), [EO_OP_POWER] = FOR_FLOATS(power),
};
