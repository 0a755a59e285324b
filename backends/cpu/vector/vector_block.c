/* Loops over blocks that lie in the first-level cache: transposed tiles, stores around the caches, exponentials of rows
 * for softmax. */
#include "backends/cpu/vector/vector.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = 64, ROWS = VECTOR_TILE_ROWS, COLUMNS = VECTOR_TILE_COLUMNS };

/* ---- stores around the caches ---- */

#if defined(__x86_64__)
#if defined(__AVX__)
enum { WIDE = 32 };
#define STREAM_WIDE(dst, src)                                                                                          \
    _mm256_stream_si256((__m256i *)(void *)(dst), _mm256_loadu_si256((const __m256i *)(const void *)(src)))
#else
enum { WIDE = 16 };
#define STREAM_WIDE(dst, src)                                                                                          \
    _mm_stream_si128((__m128i *)(void *)(dst), _mm_loadu_si128((const __m128i *)(const void *)(src)))
#endif

/* Whole lines of the destination go to memory without being read first; the rest is copied. */
static void stream(int64_t bytes, void *dst, const void *src)
{
    char *d = dst;
    const char *s = src;
    int64_t head = (int64_t)(-(uintptr_t)d & (LINE - 1)), i;
    if (bytes < head + LINE) {
        memcpy(d, s, (size_t)bytes);
        return;
    }
    memcpy(d, s, (size_t)head);
    for (i = head; i + LINE <= bytes; i += LINE)
        for (int k = 0; k < LINE; k += WIDE)
            STREAM_WIDE(d + i + k, s + i + k);
    memcpy(d + i, s + i, (size_t)(bytes - i));
}

static void stream_end(void)
{
    _mm_sfence();
}
#else
static void stream(int64_t bytes, void *dst, const void *src)
{
    memcpy(dst, src, (size_t)bytes);
}

static void stream_end(void) {}
#endif

/* ---- transposed tiles ---- */

/* Eight rows and columns of 4-byte elements in registers: pairs, pairs of pairs, halves. */
typedef uint32_t eight __attribute__((vector_size(32), aligned(4), may_alias));
#define TWO(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define LOW_ONES(a, b) TWO(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_ONES(a, b) TWO(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(a, b) TWO(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_PAIRS(a, b) TWO(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_HALVES(a, b) TWO(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_HALVES(a, b) TWO(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

static inline __attribute__((always_inline)) void transpose_eight(uint32_t *d, int64_t d_row, const uint32_t *s,
                                                                  int64_t s_row)
{
    eight a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = *(const eight *)(s + i * s_row);
    for (int i = 0; i < 8; i += 2) {
        b[i] = LOW_ONES(a[i], a[i + 1]);
        b[i + 1] = HIGH_ONES(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = LOW_PAIRS(b[i], b[i + 2]);
        a[i + 1] = HIGH_PAIRS(b[i], b[i + 2]);
        a[i + 2] = LOW_PAIRS(b[i + 1], b[i + 3]);
        a[i + 3] = HIGH_PAIRS(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        *(eight *)(d + i * d_row) = LOW_HALVES(a[i], a[i + 4]);
        *(eight *)(d + (i + 4) * d_row) = HIGH_HALVES(a[i], a[i + 4]);
    }
}

/* Rows first..first+n-1 (n <= 8) of the tile, n_columns wide, from the gathered rows of the source. */
static void turn_u32(uint32_t *to, const uint32_t *from, int64_t first, int64_t n, int64_t n_columns)
{
    int64_t c = 0;
    for (; n == 8 && c + 8 <= n_columns; c += 8)
        transpose_eight(to + c, COLUMNS, from + c * ROWS + first, ROWS);
    for (; c < n_columns; c++)
        for (int64_t r = 0; r < n; r++)
            to[r * COLUMNS + c] = from[c * ROWS + first + r];
}

#define TURN(T)                                                                                                        \
    static void turn_##T(T *to, const T *from, int64_t first, int64_t n, int64_t n_columns)                            \
    {                                                                                                                  \
        for (int64_t r = 0; r < n; r++)                                                                                \
            for (int64_t c = 0; c < n_columns; c++)                                                                    \
                to[r * COLUMNS + c] = from[c * ROWS + first + r];                                                      \
    }
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
TURN(u8)
TURN(u16)
TURN(u64)

/* The same row of the next tile: hardware does not foresee these jumps. The place may be outside of the source. */
static inline __attribute__((always_inline)) void ahead(uintptr_t at, uintptr_t bytes)
{
    for (uintptr_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch((const void *)(at + i));
}

/* Rows of the source are gathered in a buffer first: at strides of a power of two their lines would push each other out
 * of the cache. Rows of the destination are put together in full before they are stored. */
#define TILE(T)                                                                                                        \
    static void tile_##T(int64_t rows, int64_t columns, void *dst, int64_t dst_row, const void *src, int64_t src_row,  \
                         bool around)                                                                                  \
    {                                                                                                                  \
        T from[COLUMNS * ROWS] __attribute__((aligned(64))), to[8 * COLUMNS] __attribute__((aligned(64)));             \
        const T *s = src;                                                                                              \
        for (int64_t c = 0; c < columns; c++) {                                                                        \
            memcpy(from + c * ROWS, s + c * src_row, (size_t)rows * sizeof(T));                                        \
            if (around)                                                                                                \
                ahead((uintptr_t)(s + c * src_row) + (uintptr_t)(columns * src_row) * sizeof(T),                       \
                      (uintptr_t)rows * sizeof(T));                                                                    \
        }                                                                                                              \
        for (int64_t first = 0; first < rows; first += 8) {                                                            \
            const int64_t n = rows - first < 8 ? rows - first : 8;                                                     \
            turn_##T(to, from, first, n, columns);                                                                     \
            for (int64_t r = 0; r < n; r++) {                                                                          \
                T *d = (T *)dst + (first + r) * dst_row;                                                               \
                if (around)                                                                                            \
                    stream(columns *(int64_t)sizeof(T), d, to + r * COLUMNS);                                          \
                else                                                                                                   \
                    memcpy(d, to + r * COLUMNS, (size_t)columns * sizeof(T));                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
TILE(u8)
TILE(u16)
TILE(u32)
TILE(u64)

/* ---- exponentials ---- */

/* exp(t) for t <= 0 and NaN, within 1 unit in the last place, from + - * alone and so with equal bits everywhere:
 * t = n ln 2 + r, exp(r) by a polynomial that was fitted to (exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2 at Chebyshev
 * nodes, times 2^n in two steps, so that subnormal results are rounded once. */
static inline __attribute__((always_inline)) float exp_of(float t)
{
    const float round = 12582912.0F /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */;
    t = t < -104.0F ? -104.0F : t; /* 0 from there on */
    const float n = t * 1.44269504F + round - round;
    const float r = t - n * 0.693359375F - n * -2.12194440e-4F; /* ln 2 in two parts: the first product is exact */
    float p = 0.00019899391918443143F;
    p = p * r + 0.0013933733571320772F;
    p = p * r + 0.0083332983776927F;
    p = p * r + 0.041666463017463684F;
    p = p * r + 0.1666666716337204F;
    p = p * r + 0.5F;
    p = p * r * r + r + 1;
    const int32_t whole = (int32_t)(n != n ? 0 : n), half = whole >> 1;
    const union {
        int32_t i;
        float f;
    } a = {.i = (half + 127) << 23}, b = {.i = (whole - half + 127) << 23};
    return p * a.f * b.f;
}

static void exp_row_f32(int64_t n, void *out, const void *data, double shift)
{
    const float *x = data, largest = (float)shift;
    float *r = out;
    VECTOR_FOR(i, n) r[i] = exp_of(x[i] - largest);
}

static void exp_columns_f32(int64_t n, void *out, const void *data, const void *shifts)
{
    const float *x = data, *largest = shifts;
    float *r = out;
    VECTOR_FOR(i, n) r[i] = exp_of(x[i] - largest[i]);
}

const struct vector_block VECTOR_ISA(vector_block) = {
    .stream = stream,
    .stream_end = stream_end,
    .tile = {tile_u8, tile_u16, tile_u32, tile_u64},
    .exp_row = {[EO_FLOAT32] = exp_row_f32},
    .exp_columns = {[EO_FLOAT32] = exp_columns_f32},
};
