#include "distributed/engines/rank_reduce.h"

#include <string.h>

/* Loops are written so that compilers vectorise them: no branches, no calls, accumulators that cannot alias anything.
 */

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* x86 returns the payload of the first NaN operand, and compilers may swap the operands of an addition: only the
 * canonical NaN is the same everywhere. */
static inline float canonical_float(float f)
{
    return f == f ? f : float_of_bits(0x7FC00000U);
}

static inline double canonical_double(double d)
{
    return d == d ? d : (double)float_of_bits(0x7FC00000U);
}

/* float16: exponents are shifted by adding, subnormals renormalised by an exact subtraction. */
static inline float float_of_half(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7FFFU) << 13;
    uint32_t normal = magnitude + (112U << 23);
    uint32_t special = magnitude + (224U << 23);
    uint32_t subnormal = bits_of_float(float_of_bits(magnitude + (113U << 23)) - 0x1p-14F);
    uint32_t bits = magnitude >= (31U << 23) ? special : (magnitude < (1U << 23) ? subnormal : normal);

    return float_of_bits(bits | (uint32_t)(h & 0x8000U) << 16);
}

/* Round to nearest even. Below 2^-14 the float addition of 0.5 does the rounding at the right bit. */
static inline uint16_t half_of_float(float f)
{
    uint32_t bits = bits_of_float(f);
    uint32_t magnitude = bits & 0x7FFFFFFFU;
    uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5F) - 0x3F000000U;
    uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
    uint32_t limited = magnitude >= 0x47800000U ? 0x7C00U : finite;
    uint32_t half = limited | (bits & 0x80000000U) >> 16;

    return (uint16_t)(magnitude > 0x7F800000U ? 0x7E00U : half);
}

static inline float float_of_bfloat(uint16_t b)
{
    return float_of_bits((uint32_t)b << 16);
}

static inline uint16_t bfloat_of_float(float f)
{
    uint32_t bits = bits_of_float(f);
    uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;

    return (uint16_t)((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC0U : rounded);
}

#define SAME(x) (x)
#define UNSIGNED32(x) ((uint32_t)(x))
#define UNSIGNED64(x) ((uint64_t)(x))
#define SIGNED32(x) ((int32_t)(x))
#define SIGNED64(x) ((int64_t)(x))

#define ADD(a, x) ((a) + (x))
#define FLOAT_MIN(a, x) ((x) < (a) || (x) != (x) ? (x) : (a))
#define FLOAT_MAX(a, x) ((x) > (a) || (x) != (x) ? (x) : (a))
#define INT_MIN_OF(a, x) ((x) < (a) ? (x) : (a))
#define INT_MAX_OF(a, x) ((x) > (a) ? (x) : (a))

/* 4 or 8 KiB of accumulators stay in the first-level cache. */
enum { BLOCK = 1024 };

/* function, element type, accumulator type, element to accumulator, accumulator to element, operation */
#define KERNELS(ROW)                                                                                                   \
    ROW(sum_float32, float, float, SAME, canonical_float, ADD)                                                         \
    ROW(min_float32, float, float, SAME, canonical_float, FLOAT_MIN)                                                   \
    ROW(max_float32, float, float, SAME, canonical_float, FLOAT_MAX)                                                   \
    ROW(sum_float64, double, double, SAME, canonical_double, ADD)                                                      \
    ROW(min_float64, double, double, SAME, canonical_double, FLOAT_MIN)                                                \
    ROW(max_float64, double, double, SAME, canonical_double, FLOAT_MAX)                                                \
    ROW(sum_float16, uint16_t, float, float_of_half, half_of_float, ADD)                                               \
    ROW(min_float16, uint16_t, float, float_of_half, half_of_float, FLOAT_MIN)                                         \
    ROW(max_float16, uint16_t, float, float_of_half, half_of_float, FLOAT_MAX)                                         \
    ROW(sum_bfloat16, uint16_t, float, float_of_bfloat, bfloat_of_float, ADD)                                          \
    ROW(min_bfloat16, uint16_t, float, float_of_bfloat, bfloat_of_float, FLOAT_MIN)                                    \
    ROW(max_bfloat16, uint16_t, float, float_of_bfloat, bfloat_of_float, FLOAT_MAX)                                    \
    ROW(sum_int32, int32_t, uint32_t, UNSIGNED32, SIGNED32, ADD)                                                       \
    ROW(min_int32, int32_t, int32_t, SAME, SAME, INT_MIN_OF)                                                           \
    ROW(max_int32, int32_t, int32_t, SAME, SAME, INT_MAX_OF)                                                           \
    ROW(sum_int64, int64_t, uint64_t, UNSIGNED64, SIGNED64, ADD)                                                       \
    ROW(min_int64, int64_t, int64_t, SAME, SAME, INT_MIN_OF)                                                           \
    ROW(max_int64, int64_t, int64_t, SAME, SAME, INT_MAX_OF)

#define DEFINE_KERNEL(name, element, accumulator, LOAD, STORE, OP)                                                     \
    static void name(void *out, const void *const *in, int n, size_t count)                                            \
    {                                                                                                                  \
        accumulator acc[BLOCK];                                                                                        \
                                                                                                                       \
        for (size_t base = 0; base < count; base += BLOCK) {                                                           \
            size_t m = count - base < BLOCK ? count - base : BLOCK;                                                    \
            const element *a = (const element *)in[0] + base;                                                          \
            const element *b = (const element *)in[1] + base;                                                          \
            element *o = (element *)out + base;                                                                        \
                                                                                                                       \
            for (size_t i = 0; i < m; i++) {                                                                           \
                accumulator left = LOAD(a[i]), right = LOAD(b[i]);                                                     \
                acc[i] = OP(left, right);                                                                              \
            }                                                                                                          \
            for (int r = 2; r < n; r++) {                                                                              \
                const element *x = (const element *)in[r] + base;                                                      \
                                                                                                                       \
                for (size_t i = 0; i < m; i++) {                                                                       \
                    accumulator right = LOAD(x[i]);                                                                    \
                    acc[i] = OP(acc[i], right);                                                                        \
                }                                                                                                      \
            }                                                                                                          \
            for (size_t i = 0; i < m; i++) {                                                                           \
                o[i] = STORE(acc[i]);                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
KERNELS(DEFINE_KERNEL)

#define ROW_OF(dtype)                                                                                                  \
    {                                                                                                                  \
        sum_##dtype, min_##dtype, max_##dtype                                                                          \
    }
static const struct {
    enum eo_dtype dtype;
    rank_reduce_fn of[COLLECTIVE_MAX + 1]; /* by enum collective_reduce */
} table[] = {
    {EO_FLOAT32, ROW_OF(float32)},   {EO_FLOAT64, ROW_OF(float64)}, {EO_FLOAT16, ROW_OF(float16)},
    {EO_BFLOAT16, ROW_OF(bfloat16)}, {EO_INT32, ROW_OF(int32)},     {EO_INT64, ROW_OF(int64)},
};

rank_reduce_fn rank_reduce_find(enum eo_dtype dtype, enum collective_reduce reduce)
{
    if ((unsigned)reduce > COLLECTIVE_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < EO_COUNT_OF(table); i++) {
        if (table[i].dtype == dtype) {
            return table[i].of[reduce];
        }
    }
    return NULL;
}
