/* Reductions. Every sum has LANES partial sums: element i goes to lane i % LANES, and the lanes are added up in one
 * fixed tree. The result is therefore the same on every instruction set. Long rows are cut into chunks by the caller.
 */
#include "backends/cpu/vector/vector.h"

#include <string.h>

enum { LANES = 16, BLOCK = 64 };

static double fold_lanes(double acc[LANES])
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            acc[l] += acc[l + width];
    return acc[0];
}

#define SUM_LOOP(n, acc, term)                                                                                         \
    int64_t i = 0;                                                                                                     \
    for (; i + LANES <= (n); i += LANES)                                                                               \
        for (int l = 0; l < LANES; l++) {                                                                              \
            const int64_t at = i + l;                                                                                  \
            acc[l] += term;                                                                                            \
        }                                                                                                              \
    for (int l = 0; i < (n); i++, l++) {                                                                               \
        const int64_t at = i;                                                                                          \
        acc[l] += term;                                                                                                \
    }

#define FLOAT_SUMS(suffix, T)                                                                                          \
    static double sum_##suffix(int64_t n, const void *data)                                                            \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        double acc[LANES] = {0};                                                                                       \
        if (n < LANES) { /* the tree of lanes would cost more than the sum */                                          \
            for (int64_t i = 0; i < n; i++)                                                                            \
                acc[0] += (double)x[i];                                                                                \
            return acc[0];                                                                                             \
        }                                                                                                              \
        SUM_LOOP(n, acc, (double)x[at])                                                                                \
        return fold_lanes(acc);                                                                                        \
    }                                                                                                                  \
    static double sum_squares_##suffix(int64_t n, const void *data, double mean)                                       \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        double acc[LANES] = {0};                                                                                       \
        SUM_LOOP(n, acc, ((double)x[at] - mean) * ((double)x[at] - mean))                                              \
        return fold_lanes(acc);                                                                                        \
    }                                                                                                                  \
    static void sum_columns_##suffix(int64_t n, void *wide, const void *data)                                          \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        double *acc = wide;                                                                                            \
        VECTOR_FOR(i, n) acc[i] += (double)x[i];                                                                       \
    }                                                                                                                  \
    static void sum_squares_columns_##suffix(int64_t n, double *acc, const void *data, const double *mean)             \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            double d = (double)x[i] - mean[i];                                                                         \
            acc[i] += d * d;                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void shift_##suffix(int64_t n, void *out, const void *data, double shift)                                   \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T *r = out;                                                                                                    \
        VECTOR_FOR(i, n) r[i] = (T)((double)x[i] - shift);                                                             \
    }                                                                                                                  \
    static void scale_##suffix(int64_t n, void *out, const void *data, double divisor)                                 \
    {                                                                                                                  \
        const T *x = data, factor = (T)(1 / divisor);                                                                  \
        T *r = out;                                                                                                    \
        VECTOR_FOR(i, n) r[i] = x[i] * factor;                                                                         \
    }

FLOAT_SUMS(f32, float)
FLOAT_SUMS(f64, double)

#define INTEGER_SUMS(suffix, T)                                                                                        \
    static int64_t sum_##suffix(int64_t n, const void *data)                                                           \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        uint64_t total = 0;                                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                                \
            total += (uint64_t)x[i];                                                                                   \
        return (int64_t)total;                                                                                         \
    }                                                                                                                  \
    static void sum_columns_##suffix(int64_t n, void *wide, const void *data)                                          \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        uint64_t *acc = wide;                                                                                          \
        VECTOR_FOR(i, n) acc[i] += (uint64_t)x[i];                                                                     \
    }

INTEGER_SUMS(i32, int32_t)
INTEGER_SUMS(i64, int64_t)

/* a stays where it is at least as good as b or NaN; integers are never NaN and the compiler sees it. */
#define LARGER(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))

#define EXTREMES(name, suffix, T, BEST)                                                                                \
    static void name##_##suffix(int64_t n, const void *data, void *out)                                                \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T best = x[0];                                                                                                 \
        int64_t i = 0;                                                                                                 \
        if (n >= (int64_t)2 * LANES) {                                                                                 \
            T acc[LANES];                                                                                              \
            memcpy(acc, x, sizeof acc);                                                                                \
            for (i = LANES; i + LANES <= n; i += LANES)                                                                \
                for (int l = 0; l < LANES; l++)                                                                        \
                    acc[l] = BEST(acc[l], x[i + l]);                                                                   \
            for (int width = LANES / 2; width > 0; width /= 2)                                                         \
                for (int l = 0; l < width; l++)                                                                        \
                    acc[l] = BEST(acc[l], acc[l + width]);                                                             \
            best = acc[0];                                                                                             \
        }                                                                                                              \
        for (; i < n; i++)                                                                                             \
            best = BEST(best, x[i]);                                                                                   \
        memcpy(out, &best, sizeof best);                                                                               \
    }                                                                                                                  \
    static void name##_columns_##suffix(int64_t n, void *best, const void *data)                                       \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T *acc = best;                                                                                                 \
        VECTOR_FOR(i, n) acc[i] = BEST(acc[i], x[i]);                                                                  \
    }                                                                                                                  \
    /* The extreme itself is found with vectors; then the first element that equals it, or is NaN as it is. Blocks     \
     * without it are passed over. */                                                                                  \
    static int64_t arg_##name##_##suffix(int64_t n, const void *data)                                                  \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T best;                                                                                                        \
        name##_##suffix(n, data, &best);                                                                               \
        const int nan = best != best;                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + BLOCK <= n; i += BLOCK) {                                                                           \
            int found = 0;                                                                                             \
            for (int l = 0; l < BLOCK; l++)                                                                            \
                found |= (x[i + l] == best) | (x[i + l] != x[i + l]);                                                  \
            if (found)                                                                                                 \
                break;                                                                                                 \
        }                                                                                                              \
        while (nan ? x[i] == x[i] : x[i] != best)                                                                      \
            i++;                                                                                                       \
        return i;                                                                                                      \
    }                                                                                                                  \
    static void arg_##name##_columns_##suffix(int64_t n, void *best, int64_t *at, const void *data, int64_t row)       \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T *acc = best;                                                                                                 \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T a = acc[i], b = BEST(a, x[i]);                                                                     \
            /* Equal elements do not replace; a NaN replaces what is none. */                                          \
            const int keep = a == b || a != a;                                                                         \
            acc[i] = b;                                                                                                \
            at[i] = keep ? at[i] : row;                                                                                \
        }                                                                                                              \
    }

#define ALL_EXTREMES(suffix, T)                                                                                        \
    EXTREMES(max, suffix, T, LARGER)                                                                                   \
    EXTREMES(min, suffix, T, SMALLER)

ALL_EXTREMES(f32, float)
ALL_EXTREMES(f64, double)
ALL_EXTREMES(i32, int32_t)
ALL_EXTREMES(i64, int64_t)

#define ORDER(suffix)                                                                                                  \
    .max = max_##suffix, .min = min_##suffix, .arg_max = arg_max_##suffix, .arg_min = arg_min_##suffix,                \
    .sum_columns = sum_columns_##suffix, .max_columns = max_columns_##suffix, .min_columns = min_columns_##suffix,     \
    .arg_max_columns = arg_max_columns_##suffix, .arg_min_columns = arg_min_columns_##suffix
#define FLOATS(suffix)                                                                                                 \
    {                                                                                                                  \
        ORDER(suffix), .sum = sum_##suffix, .sum_squares = sum_squares_##suffix,                                       \
                       .sum_squares_columns = sum_squares_columns_##suffix, .shift = shift_##suffix,                   \
                       .scale = scale_##suffix                                                                         \
    }
#define INTEGERS(suffix)                                                                                               \
    {                                                                                                                  \
        ORDER(suffix), .sum_integer = sum_##suffix                                                                     \
    }

const vector_reduce_table VECTOR_ISA(vector_reduce) = {
    [EO_FLOAT32] = FLOATS(f32),
    [EO_FLOAT64] = FLOATS(f64),
    [EO_INT32] = INTEGERS(i32),
    [EO_INT64] = INTEGERS(i64),
};
