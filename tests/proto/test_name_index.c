#include "proto/name_index.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

START_TEST(test_few_names)
{
    static const char *const names[] = {"x", "xy", "xyz", "x.0.weight", "x.0.bias", "y", "", "\xc3\xa4", "X"};
    struct eo_name_node *root = NULL;
    struct eo_arena arena;
    uint32_t number = 99;

    eo_arena_init(&arena, 1 << 20);
    ck_assert(!eo_name_index_find(root, "x", &number));
    for (uint32_t i = 0; i < EO_COUNT_OF(names); i++) {
        ck_assert(eo_name_index_add(&root, &arena, names[i], i));
        ck_assert(!eo_name_index_add(&root, &arena, names[i], 1000));
        for (uint32_t k = 0; k < EO_COUNT_OF(names); k++) {
            ck_assert(eo_name_index_find(root, names[k], &number) == (k <= i));
            ck_assert(k > i || number == k);
        }
    }
    ck_assert(!eo_name_index_find(root, "xyzz", &number));
    ck_assert(!eo_name_index_find(root, "x.0.weigh", &number));
    eo_arena_fini(&arena);
}
END_TEST

/* The worst that a stranger can choose for a hash table or a plain tree: long shared prefixes, sorted. */
START_TEST(test_many_names)
{
    enum { N = 20000 };
    struct eo_name_node *root = NULL;
    struct eo_arena arena;
    char name[64];
    uint32_t number;

    eo_arena_init(&arena, 64 << 20);
    for (uint32_t i = 0; i < N; i++) {
        int length = snprintf(name, sizeof(name), "a.long.prefix.that.all.names.share.%08u", i);

        ck_assert(eo_name_index_add(&root, &arena, eo_arena_strndup(&arena, name, (size_t)length), i));
    }
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "a.long.prefix.that.all.names.share.%08u", i);
        ck_assert(eo_name_index_find(root, name, &number));
        ck_assert_uint_eq(number, i);
        ck_assert(!eo_name_index_add(&root, &arena, name, 0));
    }
    eo_arena_fini(&arena);
}
END_TEST

START_TEST(test_memory_runs_out)
{
    struct eo_name_node *root = NULL;
    struct eo_arena arena;
    uint32_t number;

    eo_arena_init(&arena, 2 * sizeof(struct eo_name_node)); /* the second name needs a leaf and an inner node */
    ck_assert(eo_name_index_add(&root, &arena, "a", 1));
    ck_assert(!eo_name_index_add(&root, &arena, "b", 2));
    ck_assert(eo_name_index_find(root, "a", &number));
    ck_assert(!eo_name_index_find(root, "b", &number));
    eo_arena_fini(&arena);
}
END_TEST

EO_SUITE("name_index", test_few_names, test_many_names, test_memory_runs_out)
