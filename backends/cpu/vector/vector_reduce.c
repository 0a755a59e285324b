/* Reductions. Every sum has LANES partial sums: element i goes to lane i % LANES, and the lanes are added up in one
 * fixed tree. The result is therefore the same on every instruction set. Long rows are cut into chunks by the caller.
 */
#include "backends/cpu/vector/vector.h"

#include <math.h>
#include <string.h>

/* Extremes of long rows take MANY lanes: comparing one lane waits for the element before. */
enum { LANES = 16, MANY = 64, BLOCK = 64 };

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

#define FLOAT_SUM(suffix, T)                                                                                           \
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
    }

FLOAT_SUM(f32, float)

/* Sums of short rows that lie next to each other, eight at a time: one row alone waits for each of its additions. */
static void sum_short_f32(int64_t rows, int64_t n, const void *data, double *out)
{
    enum { TOGETHER = 8 };
    const float *x = data;
    int64_t row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER) {
        double acc[TOGETHER] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int l = 0; l < TOGETHER; l++)
                acc[l] += (double)x[(row + l) * n + i];
        memcpy(out + row, acc, sizeof acc);
    }
    for (; row < rows; row++)
        out[row] = sum_f32(n, x + row * n);
}

/* Four rows, `stride` elements apart, into the accumulators, which are read and written once. */
static void sum_columns_four_f32(int64_t n, double *acc, const void *data, int64_t stride)
{
    const float *a = data, *b = a + stride, *c = b + stride, *d = c + stride;
    VECTOR_FOR(i, n) acc[i] += ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
}

/* acc += part with the rounding error added to lost (D. Knuth's two-sum). */
static inline void add_exactly(double *acc, double *lost, double part)
{
    double before = *acc, sum = before + part, rest = sum - before;
    *lost += (before - (sum - rest)) + (part - rest);
    *acc = sum;
}

/* GROUP terms are added up plainly, then exactly: a chunk of equal terms is within an ulp or two. */
static double sum_f64(int64_t n, const void *data)
{
    enum { GROUP = 8 };
    const double *x = data;
    double acc[LANES] = {0}, lost[LANES] = {0}, part[LANES];
    int64_t first = 0;
    for (; first + (int64_t)GROUP * LANES <= n; first += (int64_t)GROUP * LANES) {
        memcpy(part, x + first, sizeof part);
        for (int i = 1; i < GROUP; i++)
            for (int l = 0; l < LANES; l++)
                part[l] += x[first + i * LANES + l];
        for (int l = 0; l < LANES; l++)
            add_exactly(&acc[l], &lost[l], part[l]);
    }
    for (int l = 0; first < n; first++, l = (l + 1) % LANES)
        add_exactly(&acc[l], &lost[l], x[first]);
    double total = fold_lanes(acc), rest = fold_lanes(lost);
    /* Behind an infinity the errors are NaN. */
    return isfinite(total) ? total + rest : total;
}

static void sum_columns_exact_f64(int64_t n, double *wide, double *lost, const void *data)
{
    const double *x = data;
    VECTOR_FOR(i, n) add_exactly(&wide[i], &lost[i], x[i]);
}

#define FLOAT_SUMS(suffix, T)                                                                                          \
    static double prod_##suffix(int64_t n, const void *data)                                                           \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        double acc[LANES];                                                                                             \
        for (int l = 0; l < LANES; l++)                                                                                \
            acc[l] = 1;                                                                                                \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int l = 0; l < LANES; l++)                                                                            \
                acc[l] *= (double)x[i + l];                                                                            \
        for (int l = 0; i < n; i++, l++)                                                                               \
            acc[l] *= (double)x[i];                                                                                    \
        for (int width = LANES / 2; width > 0; width /= 2)                                                             \
            for (int l = 0; l < width; l++)                                                                            \
                acc[l] *= acc[l + width];                                                                              \
        return acc[0];                                                                                                 \
    }                                                                                                                  \
    static void prod_columns_##suffix(int64_t n, void *wide, const void *data)                                         \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        double *acc = wide;                                                                                            \
        VECTOR_FOR(i, n) acc[i] *= (double)x[i];                                                                       \
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

/* Loops of one operation over integers, in 64 bits. */
#define INTEGER_FOLDS(name, suffix, T, first, OP)                                                                      \
    static int64_t name##_##suffix(int64_t n, const void *data)                                                        \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        uint64_t total = first;                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            total = total OP(uint64_t) x[i];                                                                           \
        return (int64_t)total;                                                                                         \
    }                                                                                                                  \
    static void name##_columns_##suffix(int64_t n, void *wide, const void *data)                                       \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        uint64_t *acc = wide;                                                                                          \
        VECTOR_FOR(i, n) acc[i] = acc[i] OP(uint64_t) x[i];                                                            \
    }

/* clang-format off */
#define FOR_EACH_INTEGER(X)                                                                                            \
    X(i8, int8_t) X(i16, int16_t) X(i32, int32_t) X(i64, int64_t)                                                      \
    X(u8, uint8_t) X(u16, uint16_t) X(u32, uint32_t) X(u64, uint64_t)
/* clang-format on */
#define BOTH_FOLDS(suffix, T)                                                                                          \
    INTEGER_FOLDS(sum, suffix, T, 0, +)                                                                                \
    INTEGER_FOLDS(prod, suffix, T, 1, *)

FOR_EACH_INTEGER(BOTH_FOLDS)

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
            if (n >= (int64_t)2 * MANY) {                                                                              \
                T many[MANY];                                                                                          \
                memcpy(many, x, sizeof many);                                                                          \
                for (i = MANY; i + MANY <= n; i += MANY)                                                               \
                    for (int l = 0; l < MANY; l++)                                                                     \
                        many[l] = BEST(many[l], x[i + l]);                                                             \
                for (int l = LANES; l < MANY; l++)                                                                     \
                    many[l % LANES] = BEST(many[l % LANES], many[l]);                                                  \
                memcpy(acc, many, sizeof acc);                                                                         \
            } else {                                                                                                   \
                memcpy(acc, x, sizeof acc);                                                                            \
                i = LANES;                                                                                             \
            }                                                                                                          \
            for (; i + LANES <= n; i += LANES)                                                                         \
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
    static int64_t arg_##name##_##suffix(int64_t n, const void *data, bool last)                                       \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T best;                                                                                                        \
        name##_##suffix(n, data, &best);                                                                               \
        const int nan = best != best;                                                                                  \
        int64_t i = 0;                                                                                                 \
        if (last) {                                                                                                    \
            i = n - 1;                                                                                                 \
            while (nan ? x[i] == x[i] : x[i] != best)                                                                  \
                i--;                                                                                                   \
            return i;                                                                                                  \
        }                                                                                                              \
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
    static void arg_##name##_columns_##suffix(int64_t n, void *best, int64_t *at, const void *data, int64_t row,       \
                                              bool last)                                                               \
    {                                                                                                                  \
        const T *x = data;                                                                                             \
        T *acc = best;                                                                                                 \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T a = acc[i], b = BEST(a, x[i]);                                                                     \
            /* Equal elements replace when the last one is asked for; a NaN replaces what is none. */                  \
            const int keep = a == b || a != a, tie = a == x[i] || (a != a && x[i] != x[i]);                            \
            acc[i] = b;                                                                                                \
            at[i] = keep && !(last && tie) ? at[i] : row;                                                              \
        }                                                                                                              \
    }

#define ALL_EXTREMES(suffix, T)                                                                                        \
    EXTREMES(max, suffix, T, LARGER)                                                                                   \
    EXTREMES(min, suffix, T, SMALLER)

ALL_EXTREMES(f32, float)
ALL_EXTREMES(f64, double)
FOR_EACH_INTEGER(ALL_EXTREMES)

#define ORDER(suffix)                                                                                                  \
    .max = max_##suffix, .min = min_##suffix, .arg_max = arg_max_##suffix, .arg_min = arg_min_##suffix,                \
    .sum_columns = sum_columns_##suffix, .prod_columns = prod_columns_##suffix, .max_columns = max_columns_##suffix,   \
    .min_columns = min_columns_##suffix, .arg_max_columns = arg_max_columns_##suffix,                                  \
    .arg_min_columns = arg_min_columns_##suffix
#define FLOATS(suffix, ...)                                                                                            \
    {                                                                                                                  \
        ORDER(suffix), .sum = sum_##suffix, .prod = prod_##suffix, .sum_squares = sum_squares_##suffix,                \
                       .sum_squares_columns = sum_squares_columns_##suffix, .shift = shift_##suffix,                   \
                       .scale = scale_##suffix, __VA_ARGS__                                                            \
    }
#define INTEGERS(suffix)                                                                                               \
    {                                                                                                                  \
        ORDER(suffix), .sum_integer = sum_##suffix, .prod_integer = prod_##suffix                                      \
    }

const vector_reduce_table VECTOR_ISA(vector_reduce) = {
    [EO_FLOAT32] = FLOATS(f32, .sum_short = sum_short_f32, .sum_columns_four = sum_columns_four_f32),
    [EO_FLOAT64] = FLOATS(f64, .sum_columns_exact = sum_columns_exact_f64),
    [EO_INT8] = INTEGERS(i8),
    [EO_INT16] = INTEGERS(i16),
    [EO_INT32] = INTEGERS(i32),
    [EO_INT64] = INTEGERS(i64),
    [EO_UINT8] = INTEGERS(u8),
    [EO_UINT16] = INTEGERS(u16),
    [EO_UINT32] = INTEGERS(u32),
    [EO_UINT64] = INTEGERS(u64),
    [EO_BOOL] = {.max = max_u8, .min = min_u8, .max_columns = max_columns_u8, .min_columns = min_columns_u8},
};
