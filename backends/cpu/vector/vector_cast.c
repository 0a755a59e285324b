/* Casts, by the rule of ops.def: float to integer truncates, clamps and turns NaN into 0; integer to integer wraps; to
 * bool is x != 0; floats are rounded once. */
#include "backends/cpu/vector/vector.h"

#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* Storage types of the dtypes whose values are not those of their C type. */
typedef struct {
    uint16_t bits;
} f16;
typedef struct {
    uint16_t bits;
} bf16;
typedef struct {
    uint8_t byte;
} b1;

static inline float load_bf16(bf16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Round to nearest even on the bits; NaN stays NaN (its quiet bit is set). */
static inline bf16 store_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40U;
    return (bf16){(uint16_t)(f != f ? quiet : rounded)};
}

/* Clamping to the range [-2^(bits-1), 2^(bits-1)) of a signed or [0, 2^bits) of an unsigned type; the bounds are exact
 * in float32 and float64. */
#define CLAMPED(x, low, high, bottom, top, T)                                                                          \
    ((x) != (x) ? (T)0 : (x) >= (high) ? (top) : (x) <= (low) ? (bottom) : (T)(x))
#define TO_i8(x) CLAMPED(x, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX, i8)
#define TO_i16(x) CLAMPED(x, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX, i16)
#define TO_i32(x) CLAMPED(x, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX, i32)
#define TO_i64(x) CLAMPED(x, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX, i64)
#define TO_u8(x) CLAMPED(x, 0.0f, 0x1p8f, 0, UINT8_MAX, u8)
#define TO_u16(x) CLAMPED(x, 0.0f, 0x1p16f, 0, UINT16_MAX, u16)
#define TO_u32(x) CLAMPED(x, 0.0f, 0x1p32f, 0, UINT32_MAX, u32)
#define TO_u64(x) CLAMPED(x, 0.0f, 0x1p64f, 0, UINT64_MAX, u64)

#define CAST(from, to, load, convert)                                                                                  \
    static void from##_to_##to(int64_t n, void *out, const void *const *in, unsigned scalars,                          \
                               const struct vector_args *args)                                                         \
    {                                                                                                                  \
        to *r = out;                                                                                                   \
        const from *p = in[0];                                                                                         \
        (void)scalars;                                                                                                 \
        (void)args;                                                                                                    \
        VECTOR_FOR(i, n) r[i] = convert(load(p[i]));                                                                   \
    }

#define AS_IS(x) (x)
#define LOAD_f16(x) eo_half_to_float((x).bits)
#define LOAD_bf16(x) load_bf16(x)
#define LOAD_b1(x) ((u8)((x).byte != 0))

#define STORE_f32(x) ((f32)(x))
#define STORE_f64(x) ((f64)(x))
#define STORE_i8(x) ((i8)(x))
#define STORE_i16(x) ((i16)(x))
#define STORE_i32(x) ((i32)(x))
#define STORE_i64(x) ((i64)(x))
#define STORE_u8(x) ((u8)(x))
#define STORE_u16(x) ((u16)(x))
#define STORE_u32(x) ((u32)(x))
#define STORE_u64(x) ((u64)(x))
#define STORE_b1(x) ((b1){(x) != 0})
#define STORE_f16(x) ((f16){eo_half_from_float((float)(x))})
#define STORE_f16_once(x) ((f16){eo_half_from_double(x)})
#define STORE_bf16(x) store_bf16((float)(x))
#define STORE_bf16_once(x) ((bf16){eo_bfloat_from_double(x)})

#define FROM_FLOAT(from, load)                                                                                         \
    CAST(from, f64, load, STORE_f64)                                                                                   \
    CAST(from, i8, load, TO_i8)                                                                                        \
    CAST(from, i16, load, TO_i16)                                                                                      \
    CAST(from, i32, load, TO_i32)                                                                                      \
    CAST(from, i64, load, TO_i64)                                                                                      \
    CAST(from, u8, load, TO_u8)                                                                                        \
    CAST(from, u16, load, TO_u16)                                                                                      \
    CAST(from, u32, load, TO_u32)                                                                                      \
    CAST(from, u64, load, TO_u64)                                                                                      \
    CAST(from, b1, load, STORE_b1)
#define FROM_INTEGER(from, load)                                                                                       \
    CAST(from, f32, load, STORE_f32)                                                                                   \
    CAST(from, f64, load, STORE_f64)                                                                                   \
    CAST(from, f16, load, STORE_f16)                                                                                   \
    CAST(from, bf16, load, STORE_bf16)                                                                                 \
    CAST(from, i8, load, STORE_i8)                                                                                     \
    CAST(from, i16, load, STORE_i16)                                                                                   \
    CAST(from, i32, load, STORE_i32)                                                                                   \
    CAST(from, i64, load, STORE_i64)                                                                                   \
    CAST(from, u8, load, STORE_u8)                                                                                     \
    CAST(from, u16, load, STORE_u16)                                                                                   \
    CAST(from, u32, load, STORE_u32)                                                                                   \
    CAST(from, u64, load, STORE_u64)                                                                                   \
    CAST(from, b1, load, STORE_b1)

/* float16 to float32 and back has instructions, eight at a time; their rounding is the same. */
#if defined(__F16C__)
static void f16_to_f32(int64_t n, void *out, const void *const *in, unsigned scalars, const struct vector_args *args)
{
    float *r = out;
    const f16 *x = in[0];
    int64_t i = 0;
    (void)scalars;
    (void)args;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(r + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    for (; i < n; i++)
        r[i] = LOAD_f16(x[i]);
}
static void f32_to_f16(int64_t n, void *out, const void *const *in, unsigned scalars, const struct vector_args *args)
{
    f16 *r = out;
    const float *x = in[0];
    int64_t i = 0;
    (void)scalars;
    (void)args;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(r + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        r[i] = STORE_f16(x[i]);
}
#else
CAST(f16, f32, LOAD_f16, STORE_f32)
CAST(f32, f16, AS_IS, STORE_f16)
#endif

FROM_FLOAT(f32, AS_IS)
CAST(f32, f32, AS_IS, STORE_f32)
CAST(f32, bf16, AS_IS, STORE_bf16)
FROM_FLOAT(f64, AS_IS)
CAST(f64, f32, AS_IS, STORE_f32)
CAST(f64, f16, AS_IS, STORE_f16_once)
CAST(f64, bf16, AS_IS, STORE_bf16_once)
FROM_FLOAT(f16, LOAD_f16)
CAST(f16, bf16, LOAD_f16, STORE_bf16)
FROM_FLOAT(bf16, LOAD_bf16)
CAST(bf16, f32, LOAD_bf16, STORE_f32)
CAST(bf16, f16, LOAD_bf16, STORE_f16)
FROM_INTEGER(i8, AS_IS)
FROM_INTEGER(i16, AS_IS)
FROM_INTEGER(i32, AS_IS)
FROM_INTEGER(i64, AS_IS)
FROM_INTEGER(u8, AS_IS)
FROM_INTEGER(u16, AS_IS)
FROM_INTEGER(u32, AS_IS)
FROM_INTEGER(u64, AS_IS)
FROM_INTEGER(b1, LOAD_b1)

#define COMMON(from)                                                                                                   \
    [EO_FLOAT32] = from##_to_f32, [EO_FLOAT64] = from##_to_f64, [EO_INT8] = from##_to_i8, [EO_INT16] = from##_to_i16,  \
    [EO_INT32] = from##_to_i32, [EO_INT64] = from##_to_i64, [EO_UINT8] = from##_to_u8, [EO_UINT16] = from##_to_u16,    \
    [EO_UINT32] = from##_to_u32, [EO_UINT64] = from##_to_u64, [EO_BOOL] = from##_to_b1
#define ALL(from)                                                                                                      \
    {                                                                                                                  \
        COMMON(from), [EO_FLOAT16] = from##_to_f16, [EO_BFLOAT16] = from##_to_bf16                                     \
    }

/* A half to itself is a copy, which casts are not asked for. */
const vector_cast_table VECTOR_ISA(vector_cast) = {
    [EO_FLOAT32] = ALL(f32),
    [EO_FLOAT64] = ALL(f64),
    [EO_FLOAT16] = {COMMON(f16), [EO_BFLOAT16] = f16_to_bf16},
    [EO_BFLOAT16] = {COMMON(bf16), [EO_FLOAT16] = bf16_to_f16},
    [EO_INT8] = ALL(i8),
    [EO_INT16] = ALL(i16),
    [EO_INT32] = ALL(i32),
    [EO_INT64] = ALL(i64),
    [EO_UINT8] = ALL(u8),
    [EO_UINT16] = ALL(u16),
    [EO_UINT32] = ALL(u32),
    [EO_UINT64] = ALL(u64),
    [EO_BOOL] = ALL(b1),
};
