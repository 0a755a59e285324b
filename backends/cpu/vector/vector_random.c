/* Random words, many blocks at a time, and the rows made of them. Equal to proto/philox.h bit for bit. */
#include "backends/cpu/vector/vector.h"

#include "proto/philox.h"

/* Blocks that run through the ten rounds side by side; no instruction set changes it. */
enum { SIDE = 16, CHUNK = 4 * SIDE };

static void rounds(uint32_t c0[SIDE], uint32_t c1[SIDE], uint32_t c2[SIDE], uint32_t c3[SIDE], uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < SIDE; l++) {
            uint64_t p0 = (uint64_t)0xD2511F53U * c0[l], p1 = (uint64_t)0xCD9E8D57U * c2[l];
            c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ key0;
            c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ key1;
            c1[l] = (uint32_t)p1;
            c3[l] = (uint32_t)p0;
        }
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
}

/* Words of blocks block .. block + SIDE - 1, in order. */
static void block_words(const struct vector_rng *g, uint64_t block, uint32_t out[CHUNK])
{
    uint32_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
    const uint64_t step = (uint64_t)g->step;
    for (int l = 0; l < SIDE; l++) {
        const uint64_t b = block + (uint64_t)l;
        c0[l] = (uint32_t)b;
        c1[l] = (uint32_t)((b >> 32) & 0xFFFFU) | (uint32_t)((step >> 32) << 16);
        c2[l] = (uint32_t)step;
        c3[l] = g->stream;
    }
    rounds(c0, c1, c2, c3, (uint64_t)g->seed);
    for (int l = 0; l < SIDE; l++) {
        out[4 * l] = c0[l];
        out[4 * l + 1] = c1[l];
        out[4 * l + 2] = c2[l];
        out[4 * l + 3] = c3[l];
    }
}

/* Runs body for pieces of [0, n): w[j] is the word of element i + j, j < m. `per_block` elements share a block of four
 * words, whose words from `skip` on belong to the piece. */
#define FOR_WORDS(g, n, per_block, body)                                                                               \
    {                                                                                                                  \
        uint32_t words[CHUNK];                                                                                         \
        const int wide = 4 / (per_block);                                                                              \
        for (int64_t i = 0; i < (n);) {                                                                                \
            const uint64_t index = (g)->first + (uint64_t)i;                                                           \
            const int skip = (int)(index % (uint64_t)(per_block));                                                     \
            const int64_t left = (n)-i, room = SIDE * (per_block)-skip, m = left < room ? left : room;                 \
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

const struct vector_random VECTOR_ISA(vector_random) = {
    .dropout = {[EO_FLOAT32] = dropout_f32, [EO_FLOAT64] = dropout_f64},
    .uniform = {[EO_FLOAT32] = uniform_f32, [EO_FLOAT64] = uniform_f64},
};
