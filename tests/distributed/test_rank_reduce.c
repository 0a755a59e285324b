#include "distributed/engines/rank_reduce.h"

#include "tests/distributed/oracle.h"
#include "tests/support/suite.h"

#include <string.h>

static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64, EO_FLOAT16, EO_BFLOAT16, EO_INT32, EO_INT64};
/* Around the width of every vector, its unrolled forms and the kernels' own block of 1024. */
static const uint64_t counts[] = {0, 1, 2, 3, 7, 15, 16, 17, 63, 65, 1023, 1024, 1025, 4099};

enum { COUNT_MAX = 4099, RANKS = 8 };

static union {
    double align;
    uint8_t bytes[COUNT_MAX * 8];
} inputs[RANKS], got, expected, scratch;

/* out is a fresh array, or one of the inputs as in a real all-reduce. */
static void check(enum eo_dtype dtype, enum collective_reduce reduce, enum oracle_input input, int n, uint64_t count,
                  int alias)
{
    size_t bytes = (size_t)count * eo_dtype_size(dtype);
    const void *in[RANKS];
    void *out = alias < 0 ? got.bytes : inputs[alias].bytes;

    for (int r = 0; r < n; r++) {
        oracle_fill(inputs[r].bytes, count, dtype, input, count, r);
        in[r] = inputs[r].bytes;
    }
    oracle_combine(expected.bytes, scratch.bytes, count, dtype, reduce, input, count, n);
    memset(got.bytes, 0xA5, sizeof(got.bytes));
    rank_reduce_find(dtype, reduce)(out, in, n, count);
    ck_assert_msg(memcmp(out, expected.bytes, bytes) == 0, "%s reduction %d input %d of %d ranks, count %d, alias %d",
                  eo_dtype_name(dtype), reduce, input, n, (int)count, alias);
    if (alias < 0 && bytes < sizeof(got.bytes)) {
        ck_assert_int_eq(got.bytes[bytes], 0xA5);
    }
}

START_TEST(equals_the_serial_rank_order_loop)
{
    for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++) {
        for (int reduce = COLLECTIVE_SUM; reduce <= COLLECTIVE_MAX; reduce++) {
            for (size_t i = 0; i < EO_COUNT_OF(counts); i++) {
                for (int input = ORACLE_EXACT; input <= ORACLE_SPECIAL; input++) {
                    check(dtypes[d], (enum collective_reduce)reduce, (enum oracle_input)input, 2, counts[i], -1);
                    check(dtypes[d], (enum collective_reduce)reduce, (enum oracle_input)input, 2, counts[i], 1);
                    check(dtypes[d], (enum collective_reduce)reduce, (enum oracle_input)input, 5, counts[i], 2);
                    check(dtypes[d], (enum collective_reduce)reduce, (enum oracle_input)input, 8, counts[i], 7);
                }
            }
        }
    }
}
END_TEST

/* Every 16-bit pattern goes in and comes out: x + -0 is x. */
static void all_patterns(enum eo_dtype dtype, float (*load)(uint16_t), uint16_t canonical_nan)
{
    static uint16_t x[1 << 16], zero[1 << 16], out[1 << 16];
    const void *in[] = {x, zero};

    for (uint32_t i = 0; i < EO_COUNT_OF(x); i++) {
        x[i] = (uint16_t)i;
        zero[i] = 0x8000;
    }
    rank_reduce_find(dtype, COLLECTIVE_SUM)(out, in, 2, EO_COUNT_OF(x));
    for (uint32_t i = 0; i < EO_COUNT_OF(x); i++) {
        float f = load(x[i]);

        if (out[i] != (f == f ? i : canonical_nan)) {
            ck_abort_msg("%s %04x became %04x", eo_dtype_name(dtype), i, out[i]);
        }
    }
}

START_TEST(sixteen_bit_patterns_survive)
{
    all_patterns(EO_FLOAT16, eo_half_to_float, 0x7E00);
    all_patterns(EO_BFLOAT16, eo_bfloat_to_float, 0x7FC0);
}
END_TEST

/* Every first operand with a spread of second ones: rounding, overflow and underflow of the sum. */
START_TEST(sixteen_bit_sums_round_to_nearest_even)
{
    static const uint16_t second[] = {0x0001, 0x03FF, 0x0400, 0x1400, 0x2E66, 0x3C00, 0x3C01, 0x7BFF, 0xBC00, 0xFBFF};
    static uint16_t a[1 << 16], b[1 << 16], half[1 << 16], bfloat[1 << 16];
    const void *in[] = {a, b};

    for (size_t s = 0; s < EO_COUNT_OF(second); s++) {
        for (uint32_t i = 0; i < EO_COUNT_OF(a); i++) {
            a[i] = (uint16_t)i;
            b[i] = second[s];
        }
        rank_reduce_find(EO_FLOAT16, COLLECTIVE_SUM)(half, in, 2, EO_COUNT_OF(a));
        rank_reduce_find(EO_BFLOAT16, COLLECTIVE_SUM)(bfloat, in, 2, EO_COUNT_OF(a));
        for (uint32_t i = 0; i < EO_COUNT_OF(a); i++) {
            float h = eo_half_to_float(a[i]) + eo_half_to_float(b[i]);
            float f = eo_bfloat_to_float(a[i]) + eo_bfloat_to_float(b[i]);

            if (half[i] != (h == h ? eo_half_from_float(h) : 0x7E00)) {
                ck_abort_msg("float16 %04x + %04x became %04x", a[i], b[i], half[i]);
            }
            if (bfloat[i] != (f == f ? eo_bfloat_from_float(f) : 0x7FC0)) {
                ck_abort_msg("bfloat16 %04x + %04x became %04x", a[i], b[i], bfloat[i]);
            }
        }
    }
}
END_TEST

START_TEST(other_dtypes_have_no_kernel)
{
    for (int dtype = EO_DTYPE_NONE; dtype < EO_DTYPE_LIMIT; dtype++) {
        bool listed = false;

        for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++) {
            listed |= dtypes[d] == (enum eo_dtype)dtype;
        }
        ck_assert_int_eq(rank_reduce_find((enum eo_dtype)dtype, COLLECTIVE_SUM) != NULL, listed);
    }
    ck_assert(rank_reduce_find(EO_FLOAT32, (enum collective_reduce)3) == NULL);
}
END_TEST

EO_SUITE("rank_reduce", equals_the_serial_rank_order_loop, sixteen_bit_patterns_survive,
         sixteen_bit_sums_round_to_nearest_even, other_dtypes_have_no_kernel)
