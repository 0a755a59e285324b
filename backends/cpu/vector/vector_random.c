/* Random words, many blocks at a time, and the rows made of them. Equal to proto/philox.h bit for bit. */
#include "backends/cpu/vector/vector.h"

#include "proto/philox.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Blocks that run through the ten rounds side by side; no instruction set changes it. */
enum { SIDE = 16, CHUNK = 4 * SIDE };

/* Counters in lanes of 64 bits, of which the low 32 count: a product of two low halves fills a lane, and what is left
 * in the high halves is never looked at. MULTIPLY_LOW is that product. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#define MULTIPLY_LOW(a, b) (vec) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#define MULTIPLY_LOW(a, b) (vec) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#elif defined(__x86_64__)
enum { VECTOR_BYTES = 16 };
#define MULTIPLY_LOW(a, b) (vec) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#else
enum { VECTOR_BYTES = 16 };
#define MULTIPLY_LOW(a, b) (((a)&UINT32_MAX) * (b))
#endif
typedef uint64_t vec __attribute__((vector_size(VECTOR_BYTES)));
enum { WIDTH = VECTOR_BYTES / 8, VECTORS = SIDE / WIDTH };

static vec all(uint64_t x)
{
    return x - (vec){0};
}

static void rounds(vec c0[VECTORS], vec c1[VECTORS], vec c2[VECTORS], vec c3[VECTORS], uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    const vec m0 = all(0xD2511F53U), m1 = all(0xCD9E8D57U);
    for (int round = 0; round < 10; round++) {
        const vec k0 = all(key0), k1 = all(key1);
        for (int v = 0; v < VECTORS; v++) {
            vec p0 = MULTIPLY_LOW(c0[v], m0), p1 = MULTIPLY_LOW(c2[v], m1);
            c0[v] = (p1 >> 32) ^ c1[v] ^ k0;
            c2[v] = (p0 >> 32) ^ c3[v] ^ k1;
            c1[v] = p1;
            c3[v] = p0;
        }
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
}

/* Words of blocks block .. block + SIDE - 1, in order. */
static void block_words(const struct vector_rng *g, uint64_t block, uint32_t out[CHUNK])
{
    vec c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
    const uint64_t step = (uint64_t)g->step;
    for (int v = 0; v < VECTORS; v++)
        for (int l = 0; l < WIDTH; l++) {
            const uint64_t b = block + (uint64_t)(v * WIDTH + l);
            c0[v][l] = b;
            c1[v][l] = ((b >> 32) & 0xFFFFU) | (step >> 32) << 16;
            c2[v][l] = step;
            c3[v][l] = g->stream;
        }
    rounds(c0, c1, c2, c3, (uint64_t)g->seed);
    for (int v = 0; v < VECTORS; v++) {
        /* Pairs of words, the first one in the low half, as memory is little-endian. */
        vec first = (c0[v] & UINT32_MAX) | c1[v] << 32, second = (c2[v] & UINT32_MAX) | c3[v] << 32;
        for (int l = 0; l < WIDTH; l++) {
            const uint64_t pairs[2] = {first[l], second[l]};
            memcpy(out + (size_t)4 * (size_t)(v * WIDTH + l), pairs, sizeof pairs);
        }
    }
}

/* Runs body for pieces of [0, n): w[j] is the word of element i + j, j < m. `per_block` elements share a block of four
 * words, whose words from `skip` on belong to the piece. */
#define FOR_WORDS(g, n, per_block, body)                                                                               \
    {                                                                                                                  \
        uint32_t words[CHUNK];                                                                                         \
        const int64_t wide = 4 / (per_block);                                                                          \
        for (int64_t i = 0; i < (n);) {                                                                                \
            const uint64_t index = (g)->first + (uint64_t)i;                                                           \
            const int64_t skip = (int64_t)(index % (uint64_t)(per_block));                                             \
            const int64_t left = (n)-i, room = (int64_t)SIDE * (per_block)-skip, m = left < room ? left : room;        \
            const uint32_t *w = words + skip * wide;                                                                   \
            block_words(g, index / (uint64_t)(per_block), words);                                                      \
            body i += m;                                                                                               \
        }                                                                                                              \
    }

#define DROPOUT(suffix, T)                                                                                             \
    static void dropout_##suffix(int64_t n, void *out, const void *in, const struct vector_rng *g, uint32_t threshold, \
                                 double divisor)                                                                       \
    {                                                                                                                  \
        T *r = out;                                                                                                    \
        const T *x = in, d = (T)divisor;                                                                               \
        FOR_WORDS(g, n, 4, { VECTOR_FOR(j, m) r[i + j] = w[j] >= threshold ? x[i + j] / d : 0; })                      \
    }

DROPOUT(f32, float)
DROPOUT(f64, double)

static void uniform_f32(int64_t n, void *out, const struct vector_rng *g, double low, double high)
{
    float *r = out;
    const double span = high - low;
    /* 24 bits: the word's upper ones, which int32 holds, so that the conversion has a vector form everywhere. */
    FOR_WORDS(g, n, 4, { VECTOR_FOR(j, m) r[i + j] = (float)(low + span * ((double)(int32_t)(w[j] >> 8) * 0x1p-24)); })
}

static void uniform_f64(int64_t n, void *out, const struct vector_rng *g, double low, double high)
{
    double *r = out;
    const double span = high - low;
    FOR_WORDS(g, n, 2, {
        for (int64_t j = 0; j < m; j++)
            r[i + j] = low + span * eo_rng_unit53(w[2 * j], w[2 * j + 1]);
    })
}

static void random_words(int64_t n, uint32_t *out, const struct vector_rng *g)
{
    FOR_WORDS(g, n, 4, { memcpy(out + i, w, (size_t)m * sizeof *w); })
}

const struct vector_random VECTOR_ISA(vector_random) = {
    .words = random_words,
    .dropout = {[EO_FLOAT32] = dropout_f32, [EO_FLOAT64] = dropout_f64},
    .uniform = {[EO_FLOAT32] = uniform_f32, [EO_FLOAT64] = uniform_f64},
};
