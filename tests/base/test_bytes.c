#include "proto/base/bytes.h"

#include "tests/support/suite.h"

#include <string.h>

START_TEST(append_grows)
{
    struct eo_bytes b;

    eo_bytes_init(&b, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        eo_bytes_append(&b, "0123456789", 10);
    }
    ck_assert(!b.failed);
    ck_assert_uint_eq(b.size, 10000);
    ck_assert_mem_eq(b.data + 9990, "0123456789", 10);
    eo_bytes_fini(&b);
    ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(limit_is_exact_and_failure_sticks)
{
    struct eo_bytes b;

    eo_bytes_init(&b, 8);
    eo_bytes_append(&b, "12345678", 8);
    ck_assert(!b.failed);
    ck_assert_str_eq(eo_bytes_text(&b), "12345678");
    eo_bytes_append(&b, "9", 1);
    ck_assert(b.failed);
    ck_assert_uint_eq(b.size, 8);
    ck_assert_str_eq(eo_bytes_text(&b), "");
    ck_assert_ptr_null(eo_bytes_extend(&b, 0));
    eo_bytes_clear(&b);
    ck_assert(!b.failed);
    eo_bytes_append(&b, "again", 5);
    ck_assert_str_eq(eo_bytes_text(&b), "again");
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(huge_sizes_fail_without_allocating)
{
    struct eo_bytes b;

    eo_bytes_init(&b, SIZE_MAX);
    ck_assert_ptr_null(eo_bytes_extend(&b, SIZE_MAX));
    ck_assert(b.failed);
    ck_assert_uint_eq(b.capacity, 0);
    eo_bytes_clear(&b);
    eo_bytes_append(&b, "x", 1);
    ck_assert_ptr_null(eo_bytes_extend(&b, SIZE_MAX - 1));
    ck_assert_uint_eq(b.size, 1);
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(printf_formats_and_respects_the_limit)
{
    struct eo_bytes b;

    eo_bytes_init(&b, 16);
    eo_bytes_printf(&b, "%d-%s", 42, "abc");
    eo_bytes_printf(&b, "%s", "");
    ck_assert_str_eq(eo_bytes_text(&b), "42-abc");
    ck_assert_uint_eq(b.size, 6);
    eo_bytes_printf(&b, "%010d", 7);
    ck_assert_str_eq(eo_bytes_text(&b), "42-abc0000000007");
    eo_bytes_printf(&b, "!");
    ck_assert(b.failed);
    ck_assert_uint_eq(b.size, 16);
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(text_of_nothing_is_empty)
{
    struct eo_bytes b;

    eo_bytes_init(&b, 4);
    ck_assert_str_eq(eo_bytes_text(&b), "");
    eo_bytes_append(&b, NULL, 0);
    ck_assert_str_eq(eo_bytes_text(&b), "");
    ck_assert(!b.failed);
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(take_hands_over_terminated_memory)
{
    struct eo_bytes b;
    size_t size = 99;
    uint8_t *data;

    eo_bytes_init(&b, 32);
    eo_bytes_append(&b, "payload", 7);
    data = eo_bytes_take(&b, &size);
    ck_assert_uint_eq(size, 7);
    ck_assert_str_eq((char *)data, "payload");
    free(data);
    ck_assert_ptr_null(b.data);
    ck_assert_uint_eq(b.limit, 32);

    data = eo_bytes_take(&b, &size);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(size, 0);
    free(data);

    eo_bytes_append(&b, "0123456789012345678901234567890123", 34);
    ck_assert_ptr_null(eo_bytes_take(&b, &size));
    ck_assert_uint_eq(size, 0);
    ck_assert(!b.failed);
    eo_bytes_fini(&b);
}
END_TEST

EO_SUITE("bytes", append_grows, limit_is_exact_and_failure_sticks, huge_sizes_fail_without_allocating,
         printf_formats_and_respects_the_limit, text_of_nothing_is_empty, take_hands_over_terminated_memory)
