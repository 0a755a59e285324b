#include "proto/base/arena.h"

#include "tests/support/suite.h"

#include <stdint.h>
#include <string.h>

START_TEST(alloc_is_zeroed_aligned_and_disjoint)
{
    struct eo_arena a;
    unsigned char *blocks[200];

    eo_arena_init(&a, 1 << 20);
    for (size_t i = 0; i < EO_COUNT_OF(blocks); i++) {
        size_t size = i * 7 % 97;

        blocks[i] = eo_arena_alloc(&a, size);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
        for (size_t k = 0; k < size; k++) {
            ck_assert_uint_eq(blocks[i][k], 0);
        }
        memset(blocks[i], (int)i + 1, size);
    }
    for (size_t i = 0; i < EO_COUNT_OF(blocks); i++) {
        for (size_t k = 0; k < i * 7 % 97; k++) {
            ck_assert_uint_eq(blocks[i][k], (unsigned char)(i + 1));
        }
    }
    eo_arena_fini(&a);
    ck_assert_uint_eq(a.used, 0);
}
END_TEST

START_TEST(empty_allocations_are_distinct)
{
    struct eo_arena a;
    void *first, *second;

    eo_arena_init(&a, 1024);
    first = eo_arena_alloc(&a, 0);
    second = eo_arena_alloc(&a, 0);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_ne(first, second);
    eo_arena_fini(&a);
}
END_TEST

START_TEST(limit_is_exact)
{
    struct eo_arena a;

    eo_arena_init(&a, 160);
    for (int i = 0; i < 10; i++) {
        ck_assert_ptr_nonnull(eo_arena_alloc(&a, 16));
    }
    ck_assert_uint_eq(a.used, 160);
    ck_assert_ptr_null(eo_arena_alloc(&a, 0));
    ck_assert_ptr_null(eo_arena_alloc(&a, 1));
    eo_arena_fini(&a);

    eo_arena_init(&a, 0);
    ck_assert_ptr_null(eo_arena_alloc(&a, 1));
    eo_arena_fini(&a);
}
END_TEST

START_TEST(huge_sizes_fail_and_leave_the_arena_usable)
{
    struct eo_arena a;

    eo_arena_init(&a, SIZE_MAX);
    ck_assert_ptr_null(eo_arena_alloc(&a, SIZE_MAX));
    ck_assert_ptr_null(eo_arena_alloc(&a, SIZE_MAX - 15));
    ck_assert_ptr_null(eo_arena_alloc(&a, SIZE_MAX - 40));
    ck_assert_ptr_null(eo_arena_alloc_n(&a, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(eo_arena_strndup(&a, "", SIZE_MAX));
    ck_assert_ptr_nonnull(eo_arena_alloc(&a, 1));
    ck_assert_ptr_nonnull(eo_arena_alloc_n(&a, 0, SIZE_MAX));
    eo_arena_fini(&a);
}
END_TEST

START_TEST(large_blocks_have_their_own_memory)
{
    struct eo_arena a;
    unsigned char *small, *large;

    eo_arena_init(&a, SIZE_MAX);
    small = eo_arena_alloc(&a, 8);
    large = eo_arena_alloc(&a, 3 << 20);
    ck_assert_ptr_nonnull(small);
    ck_assert_ptr_nonnull(large);
    memset(large, 1, 3 << 20);
    ck_assert_uint_eq(small[0], 0);
    eo_arena_fini(&a);
}
END_TEST

START_TEST(strndup_terminates_and_keeps_nul_bytes)
{
    struct eo_arena a;
    char *copy;

    eo_arena_init(&a, 1024);
    copy = eo_arena_strndup(&a, "hello world", 5);
    ck_assert_str_eq(copy, "hello");
    copy = eo_arena_strndup(&a, "a\0b", 3);
    ck_assert_mem_eq(copy, "a\0b", 4);
    copy = eo_arena_strndup(&a, NULL, 0);
    ck_assert_str_eq(copy, "");
    eo_arena_fini(&a);
}
END_TEST

EO_SUITE("arena", alloc_is_zeroed_aligned_and_disjoint, empty_allocations_are_distinct, limit_is_exact,
         huge_sizes_fail_and_leave_the_arena_usable, large_blocks_have_their_own_memory,
         strndup_terminates_and_keeps_nul_bytes)
