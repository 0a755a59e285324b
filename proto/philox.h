/* Counter-based random numbers: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2,
 * 3", SC'11). A random number is a pure function of (seed, step, stream, index), so results depend neither on the
 * schedule nor on the number of ranks. Everything here is integer arithmetic and IEEE double + - * / sqrt in a fixed
 * order, without libm's transcendentals and without fused multiply-add (-ffp-contract=off; nvcc -fmad=false): equal
 * bits on every backend.
 *
 * The rng operand of an op is int64 [3]: seed, step, row offset. Layout of key and counter, words of 32 bits:
 *   key[0], key[1]  seed, low and high half
 *   counter[0]      block, low half
 *   counter[1]      block bits 32..47 in the low 16 bits, step bits 32..47 in the high 16 bits
 *   counter[2]      step, low half
 *   counter[3]      stream (attribute of the node: every random node of a graph has its own)
 * so 2^48 blocks, 2^48 steps, 2^32 streams; higher bits of block and step are dropped.
 *
 * Elements are numbered by their index in the global batch: index = row offset * (elements of one row) + local index,
 * where a row is one entry of dimension 0 (a 0-dim tensor is one row). So N ranks, each with its row offset, draw what
 * one process draws. Which block and words belong to element `index`:
 *   dropout, bernoulli, and uniform of float32, float16, bfloat16: word index % 4 of block index / 4
 *   uniform of float64: words 2 (index % 2), + 1 of block index / 2
 *   permutation: likewise; the element is its own index, the row offset is not used: all ranks draw the same order
 *   normal of every dtype: all words of block index / 2; index % 2 picks cosine or sine
 */
#ifndef EO_PROTO_PHILOX_H
#define EO_PROTO_PHILOX_H

#include "proto/dtype.h"

#include <math.h>
#include <string.h>

enum { EO_RNG_SEED, EO_RNG_STEP, EO_RNG_ROW_OFFSET, EO_RNG_WORDS };

struct eo_philox {
    uint32_t v[4];
};

static inline struct eo_philox eo_philox_4x32_10(struct eo_philox counter, uint32_t key0, uint32_t key1)
{
    uint32_t c0 = counter.v[0], c1 = counter.v[1], c2 = counter.v[2], c3 = counter.v[3];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0, p1 = (uint64_t)0xCD9E8D57U * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        key0 += 0x9E3779B9U; /* golden ratio */
        key1 += 0xBB67AE85U; /* sqrt(3) - 1 */
    }
    return (struct eo_philox){{c0, c1, c2, c3}};
}

/* One block for an rng operand; the layout is above. */
static inline struct eo_philox eo_rng_block(int64_t seed, int64_t step, uint32_t stream, uint64_t block)
{
    struct eo_philox counter = {{(uint32_t)block,
                                 (uint32_t)((block >> 32) & 0xFFFFU) | (uint32_t)(((uint64_t)step >> 32) << 16),
                                 (uint32_t)step, stream}};

    return eo_philox_4x32_10(counter, (uint32_t)seed, (uint32_t)((uint64_t)seed >> 32));
}

/* Global index of local element 0. row_elements: elements of one entry of dimension 0 (1 for a 0-dim tensor). */
static inline uint64_t eo_rng_first_index(int64_t row_offset, int64_t row_elements)
{
    return (uint64_t)row_offset * (uint64_t)row_elements;
}

static inline uint32_t eo_rng_word(int64_t seed, int64_t step, uint32_t stream, uint64_t index)
{
    return eo_rng_block(seed, step, stream, index / 4).v[index % 4];
}

/* ---- uniform ---- */

/* [0, 1) with the bits that the dtype holds exactly: 24 for float32, 11 for float16, 8 for bfloat16. */
static inline double eo_rng_unit(uint32_t word, int bits)
{
    return (double)(word >> (32 - bits)) * (1.0 / (double)((uint32_t)1 << bits));
}

/* [0, 1) with 53 bits. */
static inline double eo_rng_unit53(uint32_t high, uint32_t low)
{
    return (double)((uint64_t)high << 21 | low >> 11) * 0x1p-53;
}

/* The value that the `uniform` op gives to element index, before it is rounded to the dtype (once, to nearest even).
 * Rounding can give `high` itself when low and high are not 0 and 1. */
static inline double eo_rng_uniform(int64_t seed, int64_t step, uint32_t stream, uint64_t index, enum eo_dtype dtype,
                                    double low, double high)
{
    double unit;

    if (dtype == EO_FLOAT64) {
        struct eo_philox r = eo_rng_block(seed, step, stream, index / 2);

        unit = index % 2 == 0 ? eo_rng_unit53(r.v[0], r.v[1]) : eo_rng_unit53(r.v[2], r.v[3]);
    } else {
        unit = eo_rng_unit(eo_rng_word(seed, step, stream, index), dtype == EO_FLOAT16    ? 11
                                                                   : dtype == EO_BFLOAT16 ? 8
                                                                                          : 24);
    }
    return low + (high - low) * unit;
}

/* ---- dropout ---- */

/* An element is kept when its word is at least this; p in [0, 1). p * 2^32 is exact, so p = 0 keeps everything. */
static inline uint32_t eo_rng_drop_threshold(double p)
{
    return (uint32_t)(p * 0x1p32);
}

static inline bool eo_rng_keep(int64_t seed, int64_t step, uint32_t stream, uint64_t index, uint32_t threshold)
{
    return eo_rng_word(seed, step, stream, index) >= threshold;
}

/* ---- bernoulli ---- */

/* An element is 1 when its word is below this; p in [0, 1], 1 makes all of them 1. */
static inline uint64_t eo_rng_bernoulli_threshold(double p)
{
    return (uint64_t)(p * 0x1p32);
}

/* ---- permutation ---- */

/* Elements are ordered by this key, equal keys by their number. */
static inline uint64_t eo_rng_key(int64_t seed, int64_t step, uint32_t stream, uint64_t index)
{
    struct eo_philox r = eo_rng_block(seed, step, stream, index / 2);

    return index % 2 == 0 ? (uint64_t)r.v[0] << 32 | r.v[1] : (uint64_t)r.v[2] << 32 | r.v[3];
}

/* ---- normal ---- */

/* log x for normal, positive x: x = m 2^e with m in [1/sqrt 2, sqrt 2), log m = 2 artanh s, s = (m - 1) / (m + 1),
 * as the series s + s^3/3 + s^5/5 + ... (|s| < 0.1716, the first term left out is below 2^-58 of the sum). */
static inline double eo_rng_log(double x)
{
    double m, s, z, sum = 0;
    uint64_t bits;
    int e;

    memcpy(&bits, &x, sizeof(bits));
    e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFU) | (uint64_t)1023 << 52;
    memcpy(&m, &bits, sizeof(m));
    if (m >= 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    s = (m - 1) / (m + 1);
    z = s * s;
    for (int k = 23; k >= 3; k -= 2) {
        sum = (sum + 1.0 / k) * z;
    }
    return 0x1.62e42fefa39efp-1 * e + 2 * (s + s * sum);
}

/* cos and sin of 2 pi u for u in [0, 1): the nearest quarter turn is taken off exactly, the rest (|t| <= pi/4) goes
 * through the Taylor series up to t^17, whose error is below 2^-62. */
static inline void eo_rng_circle(double u, double *out_cos, double *out_sin)
{
    int quarter = (int)(u * 4 + 0.5);
    double t = (u - quarter * 0.25) * 0x1.921fb54442d18p+2, z = t * t;
    double c = 1, s = 1;

    for (int k = 16; k >= 2; k -= 2) { /* Horner: 1 - z/(1*2) (1 - z/(3*4) (...)), 1 - z/(2*3) (1 - z/(4*5) (...)) */
        c = 1 - c * z * (1.0 / ((k - 1) * k));
        s = 1 - s * z * (1.0 / (k * (k + 1)));
    }
    s *= t;
    switch (quarter & 3) {
    case 0:
        *out_cos = c;
        *out_sin = s;
        break;
    case 1:
        *out_cos = -s;
        *out_sin = c;
        break;
    case 2:
        *out_cos = -c;
        *out_sin = -s;
        break;
    default:
        *out_cos = s;
        *out_sin = -c;
        break;
    }
}

/* Elements 2 b and 2 b + 1 of a standard normal: Box and Muller, radius from words 0 and 1 (1 - u is in (0, 1], so the
 * logarithm is finite; |z| < 8.6), angle from words 2 and 3. */
static inline void eo_rng_normal_pair(int64_t seed, int64_t step, uint32_t stream, uint64_t block, double out[2])
{
    struct eo_philox r = eo_rng_block(seed, step, stream, block);
    double radius = sqrt(-2 * eo_rng_log(1 - eo_rng_unit53(r.v[0], r.v[1]))), c, s;

    eo_rng_circle(eo_rng_unit53(r.v[2], r.v[3]), &c, &s);
    out[0] = radius * c;
    out[1] = radius * s;
}

/* The value that the `normal` op gives to element index, before it is rounded to the dtype (once, to nearest even). */
static inline double eo_rng_normal(int64_t seed, int64_t step, uint32_t stream, uint64_t index, double mean, double std)
{
    double z[2];

    eo_rng_normal_pair(seed, step, stream, index / 2, z);
    return mean + std * z[index % 2];
}

#endif
