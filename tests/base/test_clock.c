#include "proto/base/clock.h"

#include "tests/support/suite.h"

#include <string.h>
#include <time.h>

START_TEST(monotonic_does_not_go_back)
{
    uint64_t before = eo_now_ns();

    for (int i = 0; i < 1000; i++) {
        uint64_t now = eo_now_ns();

        ck_assert_uint_ge(now, before);
        before = now;
    }
    ck_assert_uint_gt(before, 0);
}
END_TEST

START_TEST(wall_clock_agrees_with_time)
{
    int64_t seconds = eo_wall_ms() / 1000;
    int64_t reference = (int64_t)time(NULL);

    ck_assert_int_le(seconds, reference + 2);
    ck_assert_int_ge(seconds, reference - 2);
}
END_TEST

START_TEST(rfc3339_of_known_moments)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000, "1969-12-31T23:59:59.000Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1796046340123, "2026-11-30T13:45:40.123Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
    };
    char out[32];

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ck_assert_ptr_eq(eo_rfc3339(rows[i].ms, out, sizeof(out)), out);
        ck_assert_str_eq(out, rows[i].text);
    }
}
END_TEST

START_TEST(rfc3339_stays_inside_its_buffer)
{
    char out[32];

    for (size_t size = 0; size <= 25; size++) {
        memset(out, '#', sizeof(out));
        eo_rfc3339(0, out, size);
        for (size_t k = size; k < sizeof(out); k++) {
            ck_assert_int_eq(out[k], '#');
        }
        if (size > 0) {
            ck_assert_uint_lt(strnlen(out, size), size);
        }
    }
    ck_assert_str_eq(eo_rfc3339(0, out, 25), "1970-01-01T00:00:00.000Z");
    eo_rfc3339(INT64_MAX, out, sizeof(out));
    eo_rfc3339(INT64_MIN, out, sizeof(out));
    ck_assert_uint_lt(strlen(out), sizeof(out));
}
END_TEST

EO_SUITE("clock", monotonic_does_not_go_back, wall_clock_agrees_with_time, rfc3339_of_known_moments,
         rfc3339_stays_inside_its_buffer)
