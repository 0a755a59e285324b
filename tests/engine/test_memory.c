/* The arena planner: blocks that live at the same time never overlap, and space comes back. */
#include "daemon/engine/memory.h"
#include "tests/engine/harness.h"

#include <string.h>

static struct eo_error err;

enum { MAX_LIVE = 200 };

struct live {
    uint32_t block;
    uint64_t offset, size;
};

/* An assertion of libcheck costs a message each; this runs millions of times. */
static void check_apart(const struct memory *m, const struct live *live, int n)
{
    for (int i = 0; i < n; i++) {
        if (live[i].offset % MEMORY_ALIGN != 0 || live[i].offset + live[i].size > m->size) {
            ck_abort_msg("offset %llu, size %llu in an arena of %llu", (unsigned long long)live[i].offset,
                         (unsigned long long)live[i].size, (unsigned long long)m->size);
        }
        for (int j = 0; j < i; j++) {
            if (live[i].offset + live[i].size > live[j].offset && live[j].offset + live[j].size > live[i].offset) {
                ck_abort_msg("[%llu, +%llu) and [%llu, +%llu) overlap", (unsigned long long)live[i].offset,
                             (unsigned long long)live[i].size, (unsigned long long)live[j].offset,
                             (unsigned long long)live[j].size);
            }
        }
    }
}

/* Sizes from bytes to megabytes, evenly over the powers of two. */
static uint64_t some_size(uint64_t seed, uint64_t index)
{
    double exponent = harness_random(seed, index) * 20;

    return 1 + (uint64_t)((double)(1ULL << (int)exponent) * (1 + harness_random(seed + 1, index)));
}

static void play(uint64_t seed, int n_steps)
{
    struct live live[MAX_LIVE];
    struct memory m;
    uint32_t all;
    uint64_t peak;
    int n = 0;

    memory_init(&m);
    for (int step = 0; step < n_steps; step++) {
        uint64_t index = (uint64_t)step;

        if (n < MAX_LIVE && (n == 0 || harness_random(seed + 2, index) < 0.52)) {
            struct live *l = &live[n++];

            l->size = some_size(seed, index);
            if (memory_take(&m, l->size, &l->block, &err) != EO_OK) {
                ck_abort_msg("%s", err.message);
            }
            l->offset = memory_offset(&m, l->block);
        } else {
            int gone = (int)(harness_random(seed + 3, index) * n);

            memory_give(&m, live[gone].block);
            live[gone] = live[--n];
        }
        check_apart(&m, live, n);
    }
    while (n > 0) {
        memory_give(&m, live[--n].block);
    }
    /* All of it is one block again. */
    peak = m.size;
    ASSERT_OK(memory_take(&m, peak, &all, &err));
    ck_assert_uint_eq(memory_offset(&m, all), 0);
    ck_assert_uint_eq(m.size, peak);
    memory_fini(&m);
}

START_TEST(live_blocks_never_overlap)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        play(seed * 10, 600);
    }
}
END_TEST

START_TEST(best_hole_is_taken)
{
    uint32_t a, large, b, small, c, fresh;
    uint64_t size;
    struct memory m;

    memory_init(&m);
    ASSERT_OK(memory_take(&m, 64, &a, &err));
    ASSERT_OK(memory_take(&m, 640, &large, &err));
    ASSERT_OK(memory_take(&m, 64, &b, &err));
    ASSERT_OK(memory_take(&m, 576, &small, &err));
    ASSERT_OK(memory_take(&m, 64, &c, &err));
    size = m.size;
    memory_give(&m, large);
    memory_give(&m, small);
    ASSERT_OK(memory_take(&m, 570, &fresh, &err));
    ck_assert_uint_eq(memory_offset(&m, fresh), 64 + 640 + 64);
    ck_assert_uint_eq(m.size, size);
    memory_fini(&m);
}
END_TEST

START_TEST(free_end_is_extended)
{
    uint32_t a, b, c;
    struct memory m;

    memory_init(&m);
    ASSERT_OK(memory_take(&m, 64, &a, &err));
    ASSERT_OK(memory_take(&m, 64, &b, &err));
    memory_give(&m, b);
    ASSERT_OK(memory_take(&m, 6400, &c, &err));
    ck_assert_uint_eq(memory_offset(&m, c), 64);
    ck_assert_uint_eq(m.size, 64 + 6400);
    memory_fini(&m);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
    uint32_t a;
    struct memory m;

    memory_init(&m);
    ASSERT_CODE(memory_take(&m, UINT64_MAX, &a, &err), EO_E_TOO_LARGE);
    ASSERT_CODE(memory_take(&m, (uint64_t)INT64_MAX + 1, &a, &err), EO_E_TOO_LARGE);
    ASSERT_OK(memory_take(&m, (uint64_t)1 << 62, &a, &err));
    ASSERT_CODE(memory_take(&m, (uint64_t)1 << 62, &a, &err), EO_E_TOO_LARGE);
    memory_give(&m, a);
    ASSERT_OK(memory_take(&m, 1, &a, &err));
    ck_assert_uint_eq(m.size, (uint64_t)1 << 62);
    memory_fini(&m);
}
END_TEST

/* 100,000 blocks of one size, given back in the worst order, in well under a second: no quadratic search. */
START_TEST(many_blocks_cost_little)
{
    enum { MANY = 100000 };
    uint32_t *blocks = malloc(MANY * sizeof(*blocks)), again;
    struct memory m;

    ck_assert_ptr_nonnull(blocks);
    memory_init(&m);
    for (int i = 0; i < MANY; i++) {
        if (memory_take(&m, 100 + (uint64_t)(i % 50), &blocks[i], &err) != EO_OK) {
            ck_abort_msg("%s", err.message);
        }
    }
    for (int i = 0; i < MANY; i += 2) {
        memory_give(&m, blocks[i]);
    }
    for (int i = 0; i < MANY / 2; i++) {
        if (memory_take(&m, 100, &again, &err) != EO_OK) {
            ck_abort_msg("%s", err.message);
        }
    }
    ck_assert_uint_le(m.size, (uint64_t)MANY * 192);
    free(blocks);
    memory_fini(&m);
}
END_TEST

EO_SUITE("memory", live_blocks_never_overlap, best_hole_is_taken, free_end_is_extended, impossible_sizes_are_refused,
         many_blocks_cost_little)
