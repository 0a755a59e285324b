#include "backends/cpu/parallel.h"

#include "tests/support/suite.h"

#include <string.h>

enum { MOST = 1000 };

struct seen {
    unsigned char times[MOST];
    int64_t begin[8], end[8]; /* of each thread */
    int calls[8];
};

static void visit(void *context, int64_t begin, int64_t end, int thread)
{
    struct seen *s = context;
    s->begin[thread] = begin;
    s->end[thread] = end;
    s->calls[thread]++;
    for (int64_t i = begin; i < end; i++)
        s->times[i]++;
}

/* Every item exactly once, ranges in whole blocks, no thread beyond the number that was asked for. */
START_TEST(test_every_item_once)
{
    static const int64_t sizes[] = {0, 1, 2, 7, 64, 999, 1000}, grains[] = {1, 3, 64, 999, 1000, 5000};
    for (size_t n = 0; n < EO_COUNT_OF(sizes); n++)
        for (size_t g = 0; g < EO_COUNT_OF(grains); g++)
            for (int threads = 1; threads <= 4; threads++) {
                struct seen s;
                memset(&s, 0, sizeof s);
                parallel_for(threads, sizes[n], grains[g], visit, &s);
                for (int64_t i = 0; i < MOST; i++)
                    ck_assert_int_eq(s.times[i], i < sizes[n]);
                for (int t = 0; t < 8; t++) {
                    ck_assert_int_le(s.calls[t], t < threads ? 1 : 0);
                    if (s.calls[t] > 0)
                        ck_assert(s.begin[t] % grains[g] == 0 && (s.end[t] % grains[g] == 0 || s.end[t] == sizes[n]));
                }
            }
}
END_TEST

START_TEST(test_small_work_stays_on_one_thread)
{
    struct seen s;
    memset(&s, 0, sizeof s);
    parallel_for(4, 900, 1000, visit, &s);
    ck_assert_int_eq(s.calls[0], 1);
    ck_assert_int_eq(s.calls[1] + s.calls[2] + s.calls[3], 0);
}
END_TEST

START_TEST(test_work_is_shared)
{
    struct seen s;
    memset(&s, 0, sizeof s);
    parallel_for(2, 1000, 10, visit, &s);
    ck_assert_int_eq(s.calls[0] + s.calls[1], parallel_is_compiled() ? 2 : 1);
}
END_TEST

START_TEST(test_grain)
{
    ck_assert_int_eq(parallel_grain(1), PARALLEL_WORTH);
    ck_assert_int_eq(parallel_grain(0), PARALLEL_WORTH);
    ck_assert_int_eq(parallel_grain(PARALLEL_WORTH), 1);
    ck_assert_int_eq(parallel_grain(INT64_MAX), 1);
}
END_TEST

EO_SUITE("parallel", test_every_item_once, test_small_work_stays_on_one_thread, test_work_is_shared, test_grain)
