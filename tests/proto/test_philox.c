#include "proto/philox.h"
#include "tests/support/suite.h"

#include <float.h>
#include <inttypes.h>

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
START_TEST(test_known_answers)
{
    struct {
        struct eo_philox counter;
        uint32_t key[2];
        struct eo_philox wanted;
    } cases[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {0xffffffff, 0xffffffff},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        struct eo_philox got = eo_philox_4x32_10(cases[i].counter, cases[i].key[0], cases[i].key[1]);

        for (int k = 0; k < 4; k++) {
            ck_assert_uint_eq(got.v[k], cases[i].wanted.v[k]);
        }
    }
}
END_TEST

/* Key and counter words as philox.h lays them out. */
START_TEST(test_layout)
{
    int64_t seed = INT64_C(0x1122334455667788), step = INT64_C(0xabcd00000005);
    struct eo_philox counter = {{0x89abcdef, 0xabcd4567, 5, 9}}, wanted, got;

    wanted = eo_philox_4x32_10(counter, 0x55667788, 0x11223344);
    got = eo_rng_block(seed, step, 9, UINT64_C(0x456789abcdef));
    ck_assert_mem_eq(&got, &wanted, sizeof(got));
    got = eo_rng_block(-1, 0, 0, 0);
    wanted = eo_philox_4x32_10((struct eo_philox){{0, 0, 0, 0}}, UINT32_MAX, UINT32_MAX);
    ck_assert_mem_eq(&got, &wanted, sizeof(got));
    ck_assert_uint_eq(eo_rng_word(seed, step, 9, 4 * UINT64_C(0x456789abcdef) + 2),
                      eo_rng_block(seed, step, 9, UINT64_C(0x456789abcdef)).v[2]);
}
END_TEST

/* Frozen values: checkpoints and peers rely on them. A change here is a change of the format. */
START_TEST(test_frozen)
{
    ck_assert_uint_eq(eo_rng_word(42, 7, 3, 0), 0x083a76c7U);
    ck_assert_double_eq(eo_rng_uniform(42, 7, 3, 5, EO_FLOAT32, 0, 1), 0x1.bf652p-1);
    ck_assert_double_eq(eo_rng_uniform(42, 7, 3, 5, EO_FLOAT64, 0, 1), 0x1.ab4f74dd56fbfp-1);
    ck_assert_uint_eq(eo_rng_key(42, 7, 3, 0), UINT64_C(0x083a76c7d43b842c));
    ck_assert_uint_eq(eo_rng_key(42, 7, 3, 3), UINT64_C(0xcc702072b19d1e9b));
    ck_assert_double_eq(eo_rng_normal(42, 7, 3, 4, 0, 1), 0x1.45c58edc354fep-2);
    ck_assert_double_eq(eo_rng_normal(42, 7, 3, 5, 0, 1), -0x1.150c8fba0ffbcp-1);
}
END_TEST

START_TEST(test_unit_range)
{
    ck_assert_double_eq(eo_rng_unit(0, 24), 0);
    ck_assert_double_eq(eo_rng_unit(UINT32_MAX, 24), 1 - 0x1p-24);
    ck_assert_double_eq(eo_rng_unit(UINT32_MAX, 11), 1 - 0x1p-11);
    ck_assert_double_eq(eo_rng_unit(UINT32_MAX, 8), 1 - 0x1p-8);
    ck_assert_double_eq(eo_rng_unit53(0, 0), 0);
    ck_assert_double_eq(eo_rng_unit53(UINT32_MAX, UINT32_MAX), 1 - 0x1p-53);
    ck_assert_double_eq(eo_rng_unit53(0x80000000, 0), 0.5);
    ck_assert_double_eq(eo_rng_unit53(0, UINT32_MAX), (double)0x1fffff * 0x1p-53);
    /* the units of the narrow dtypes are exact in them, so [0, 1) stays half open */
    for (uint64_t i = 0; i < 5000; i++) {
        double half = eo_rng_uniform(1, 2, 3, i, EO_FLOAT16, 0, 1),
               bfloat = eo_rng_uniform(1, 2, 3, i, EO_BFLOAT16, 0, 1),
               single = eo_rng_uniform(1, 2, 3, i, EO_FLOAT32, 0, 1),
               wide = eo_rng_uniform(1, 2, 3, i, EO_FLOAT64, 0, 1);

        ck_assert((double)eo_half_to_float(eo_half_from_double(half)) == half && half < 1 &&
                  (double)eo_bfloat_to_float(eo_bfloat_from_double(bfloat)) == bfloat && bfloat < 1 &&
                  (double)(float)single == single && single < 1 && wide >= 0 && wide < 1);
    }
    ck_assert_double_eq(eo_rng_uniform(1, 2, 3, 4, EO_FLOAT32, 5, 5), 5);
}
END_TEST

/* Chi-square over 256 bins and 2^16 draws: 255 degrees of freedom, mean 255, standard deviation sqrt(510) = 22.6. The
 * draws are fixed, so this either always holds or never; 5 deviations would be a broken generator. */
START_TEST(test_uniform_is_even)
{
    enum { N = 1 << 16, BINS = 256 };
    unsigned bins[BINS] = {0};
    double chi = 0, expected = (double)N / BINS;

    for (uint64_t i = 0; i < N; i++) {
        bins[(int)(eo_rng_uniform(123, 0, 1, i, EO_FLOAT32, 0, 1) * BINS)]++;
    }
    for (int b = 0; b < BINS; b++) {
        chi += ((double)bins[b] - expected) * ((double)bins[b] - expected) / expected;
    }
    ck_assert_double_lt(fabs(chi - 255), 5 * 22.6);
}
END_TEST

START_TEST(test_normal_moments)
{
    enum { N = 200000 };
    double sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0, previous = 0, largest = 0;

    for (uint64_t i = 0; i < N; i++) {
        double z = eo_rng_normal(7, 11, 13, i, 0, 1);

        largest = fabs(z) <= largest ? largest : fabs(z); /* a NaN becomes the largest */
        sum += z;
        squares += z * z;
        cubes += z * z * z;
        fourths += z * z * z * z;
        products += z * previous; /* neighbours, which share a block, are independent */
        previous = z;
    }
    ck_assert_double_lt(largest, 8.7);
    ck_assert_double_lt(fabs(sum / N), 5 / sqrt(N)); /* five standard errors each */
    ck_assert_double_lt(fabs(squares / N - 1), 5 * sqrt(2.0 / N));
    ck_assert_double_lt(fabs(cubes / N), 5 * sqrt(15.0 / N));
    ck_assert_double_lt(fabs(fourths / N - 3), 5 * sqrt(96.0 / N));
    ck_assert_double_lt(fabs(products / N), 5 / sqrt(N));
    ck_assert_double_eq(eo_rng_normal(7, 11, 13, 4, 2, 0), 2);
}
END_TEST

/* The extreme words: u = 0 gives radius 0, u next to 1 the largest one. */
START_TEST(test_normal_edges)
{
    ck_assert_double_eq(eo_rng_log(1), 0);
    ck_assert_double_eq_tol(sqrt(-2 * eo_rng_log(0x1p-53)), 8.5717, 1e-3);
}
END_TEST

/* Within 2 units in the last place of libm, which works the oracle out in long double. */
START_TEST(test_own_functions_are_accurate)
{
    const long double turn = 6.283185307179586476925286766559005768L;

    for (uint32_t i = 1; i < 100000; i++) {
        double x = eo_rng_unit53(i * 2654435761U, i * 40503U), c, s;

        eo_rng_circle(x, &c, &s);
        if (fabs(c - (double)cosl(turn * (long double)x)) > 2 * DBL_EPSILON ||
            fabs(s - (double)sinl(turn * (long double)x)) > 2 * DBL_EPSILON) {
            ck_abort_msg("cosine or sine of %a turns: %a, %a", x, c, s);
        }
        if (x > 0 && fabs(eo_rng_log(x) - (double)logl((long double)x)) > 2 * DBL_EPSILON * fabs(log(x))) {
            ck_abort_msg("log of %a: %a", x, eo_rng_log(x));
        }
    }
}
END_TEST

START_TEST(test_circle_is_exact_at_quarters)
{
    double c, s;

    eo_rng_circle(0, &c, &s);
    ck_assert(c == 1 && s == 0);
    eo_rng_circle(0.25, &c, &s);
    ck_assert(c == 0 && s == 1);
    eo_rng_circle(0.5, &c, &s);
    ck_assert(c == -1 && s == 0);
    eo_rng_circle(0.75, &c, &s);
    ck_assert(c == 0 && s == -1);
}
END_TEST

START_TEST(test_dropout)
{
    enum { N = 100000 };
    double p[] = {0, 0.2, 0.5, 0.9, 1 - 0x1p-33};
    uint32_t threshold;

    for (size_t k = 0; k < EO_COUNT_OF(p); k++) {
        int dropped = 0;

        threshold = eo_rng_drop_threshold(p[k]);
        for (uint64_t i = 0; i < N; i++) {
            dropped += eo_rng_keep(5, 6, 7, i, threshold) ? 0 : 1;
        }
        ck_assert_double_le(fabs((double)dropped / N - p[k]), 5 * sqrt(p[k] * (1 - p[k]) / N) + 1e-9);
    }
    ck_assert_uint_eq(eo_rng_bernoulli_threshold(0), 0);
    ck_assert_uint_eq(eo_rng_bernoulli_threshold(0.5), UINT64_C(1) << 31);
    ck_assert_uint_eq(eo_rng_bernoulli_threshold(1), UINT64_C(1) << 32); /* above every word */
    ck_assert_uint_eq(eo_rng_drop_threshold(0), 0);
    ck_assert_uint_eq(eo_rng_drop_threshold(0.5), 0x80000000);
}
END_TEST

/* Four ranks with 8, 0, 3 and 5 rows of 6 elements draw what one process draws for 16 rows. */
START_TEST(test_independent_of_world_size)
{
    int64_t rows[] = {8, 0, 3, 5}, offset = 0, row_elements = 6;

    for (size_t rank = 0; rank < EO_COUNT_OF(rows); rank++) {
        uint64_t first = eo_rng_first_index(offset, row_elements);

        ck_assert_uint_eq(first, (uint64_t)(offset * row_elements));
        for (int64_t i = 0; i < rows[rank] * row_elements; i++) {
            uint64_t global = (uint64_t)(offset * row_elements + i);

            ck_assert_uint_eq(eo_rng_word(1, 2, 3, first + (uint64_t)i), eo_rng_word(1, 2, 3, global));
        }
        offset += rows[rank];
    }
}
END_TEST

START_TEST(test_streams_steps_and_seeds_differ)
{
    uint32_t base = eo_rng_word(1, 1, 1, 0);

    ck_assert_uint_ne(base, eo_rng_word(2, 1, 1, 0));
    ck_assert_uint_ne(base, eo_rng_word(1, 2, 1, 0));
    ck_assert_uint_ne(base, eo_rng_word(1, 1, 2, 0));
    ck_assert_uint_ne(base, eo_rng_word(1, 1, 1, 1));
    ck_assert_uint_ne(base, eo_rng_word(1, 1 + (INT64_C(1) << 32), 1, 0));
    ck_assert_uint_ne(base, eo_rng_word(1 + (INT64_C(1) << 32), 1, 1, 0));
    ck_assert_uint_ne(base, eo_rng_word(1, 1, 1, UINT64_C(4) << 32));
}
END_TEST

EO_SUITE("philox", test_known_answers, test_layout, test_frozen, test_unit_range, test_uniform_is_even,
         test_normal_moments, test_normal_edges, test_own_functions_are_accurate, test_circle_is_exact_at_quarters,
         test_dropout, test_independent_of_world_size, test_streams_steps_and_seeds_differ)
