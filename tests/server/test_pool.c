#include "daemon/server/pool.h"
#include "tests/support/suite.h"

#include <string.h>

enum { POOL_BYTES = 1 << 20 };

static uint64_t xorshift(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

START_TEST(whole_pool_comes_back)
{
    struct eo_error err = {0};
    struct pool p;
    struct pool_extent *e;
    uint64_t at;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    ASSERT_OK(pool_alloc(&p, POOL_BYTES, &at, &e, &err));
    ck_assert_uint_eq(at, 0);
    ck_assert_uint_eq(p.used_bytes, POOL_BYTES);
    struct pool_extent *none;
    ASSERT_CODE(pool_alloc(&p, 1, &at, &none, &err), EO_E_DEVICE_MEMORY);
    ASSERT_CONTAINS(err.hint, "--memory-limit");
    pool_free(&p, e);
    ck_assert_uint_eq(p.used_bytes, 0);
    ASSERT_OK(pool_alloc(&p, POOL_BYTES, &at, &e, &err));
    pool_free(&p, e);
    pool_fini(&p);
}
END_TEST

START_TEST(odd_sizes)
{
    struct eo_error err = {0};
    struct pool p;
    struct pool_extent *e, *f;
    uint64_t at, at2;
    ASSERT_OK(pool_init(&p, 1, &err)); /* at least one granule */
    ck_assert_uint_eq(p.shm.size, POOL_GRANULE);
    ASSERT_OK(pool_alloc(&p, 0, &at, &e, &err));
    ck_assert_ptr_null(e);
    pool_free(&p, e);
    ASSERT_OK(pool_alloc(&p, 1, &at, &e, &err));
    ASSERT_OK(pool_alloc(&p, 65, &at2, &f, &err));
    ck_assert_uint_eq(at % POOL_ALIGN, 0);
    ck_assert_uint_eq(at2 % POOL_ALIGN, 0);
    ck_assert_uint_eq(p.used_bytes, 64 + 128);
    struct pool_extent *none;
    ASSERT_CODE(pool_alloc(&p, UINT64_MAX, &at, &none, &err), EO_E_DEVICE_MEMORY);
    ASSERT_CODE(pool_alloc(&p, UINT64_MAX - 64, &at, &none, &err), EO_E_DEVICE_MEMORY);
    pool_free(&p, e);
    pool_free(&p, f);
    pool_fini(&p);
}
END_TEST

struct held {
    struct pool_extent *extent;
    uint64_t at, bytes;
    uint8_t mark;
};

/* Random takes and frees: what is held never overlaps, and everything can be had again at the end. */
START_TEST(random_use)
{
    struct eo_error err = {0};
    struct pool p;
    static struct held held[512];
    uint64_t seed = 42, total = 0;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    memset(held, 0, sizeof(held));
    for (int turn = 0; turn < 20000; turn++) {
        struct held *h = &held[xorshift(&seed) % EO_COUNT_OF(held)];
        if (h->extent) {
            for (uint64_t i = 0; i < h->bytes; i += 61) {
                ck_assert_uint_eq(p.shm.data[h->at + i], h->mark);
            }
            pool_free(&p, h->extent);
            total -= (h->bytes + 63) / 64 * 64;
            h->extent = NULL;
            continue;
        }
        h->bytes = 1 + xorshift(&seed) % (xorshift(&seed) % 4 == 0 ? 40000 : 600);
        if (pool_alloc(&p, h->bytes, &h->at, &h->extent, NULL) != EO_OK) {
            h->extent = NULL;
            continue;
        }
        ck_assert_uint_le(h->at + h->bytes, POOL_BYTES);
        h->mark = (uint8_t)turn;
        memset(p.shm.data + h->at, h->mark, h->bytes);
        total += (h->bytes + 63) / 64 * 64;
        ck_assert_uint_eq(p.used_bytes, total);
    }
    for (size_t i = 0; i < EO_COUNT_OF(held); i++) {
        pool_free(&p, held[i].extent);
    }
    ck_assert_uint_eq(p.used_bytes, 0);
    struct pool_extent *all;
    uint64_t at;
    ASSERT_OK(pool_alloc(&p, POOL_BYTES, &at, &all, &err)); /* every piece was joined again */
    pool_free(&p, all);
    pool_fini(&p);
}
END_TEST

/* A free piece that fits is found although smaller ones of its size class lie before it. */
START_TEST(fit_behind_smaller_ones)
{
    struct eo_error err = {0};
    struct pool p;
    struct pool_extent *keep[64], *hole[64], *rest, *e;
    uint64_t at;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    for (int i = 0; i < 32; i++) { /* holes of 64 * 129 bytes, and one of 64 * 130: the same class of 128..143 units */
        ASSERT_OK(pool_alloc(&p, i == 5 ? 64 * 130 : 64 * 129, &at, &hole[i], &err));
        ASSERT_OK(pool_alloc(&p, 64, &at, &keep[i], &err));
    }
    ASSERT_OK(pool_alloc(&p, POOL_BYTES - p.used_bytes, &at, &rest, &err));
    for (int i = 0; i < 32; i++) {
        pool_free(&p, hole[(i + 5) % 32]); /* the large one first, so that it ends deepest in its list */
    }
    ASSERT_OK(pool_alloc(&p, 64 * 130, &at, &e, &err));
    struct pool_extent *none;
    ASSERT_CODE(pool_alloc(&p, 64 * 130, &at, &none, &err), EO_E_DEVICE_MEMORY);
    pool_fini(&p); /* frees bookkeeping of what is still held */
}
END_TEST

struct ranges {
    int n;
    uint64_t offset[16], bytes[16];
};

static void add_range(void *ctx, uint64_t offset, uint64_t bytes)
{
    struct ranges *r = ctx;
    r->offset[r->n] = offset;
    r->bytes[r->n++] = bytes;
}

START_TEST(promises)
{
    struct eo_error err = {0};
    struct pool p;
    struct ranges r = {.n = 0};
    const uint64_t g = POOL_GRANULE;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    ASSERT_OK(pool_commit(&p, g, 10, &err));
    ck_assert_uint_eq(p.committed_bytes, g);
    pool_promise(&p, 0, 3 * g, add_range, &r); /* around what is committed */
    ck_assert_int_eq(r.n, 2);
    ck_assert_uint_eq(r.offset[0], 0);
    ck_assert_uint_eq(r.bytes[0], g);
    ck_assert_uint_eq(r.offset[1], 2 * g);
    ck_assert_uint_eq(p.committed_bytes, 3 * g);
    pool_kept(&p, 0, g);
    pool_broken(&p, 2 * g, g);
    ck_assert_uint_eq(p.committed_bytes, 2 * g);
    r.n = 0;
    pool_promise(&p, 0, 3 * g, add_range, &r);
    ck_assert_int_eq(r.n, 1);
    ck_assert_uint_eq(r.offset[0], 2 * g);
    r.n = 0;
    pool_promise(&p, 2 * g, g, add_range, &r); /* a promise that is open is made again: the first may yet fail */
    ck_assert_int_eq(r.n, 1);
    r.n = 0;
    pool_promise(&p, 5 * g, 0, add_range, &r);
    ck_assert_int_eq(r.n, 0);
    pool_fini(&p);
}
END_TEST

START_TEST(trimming_gives_pages_back)
{
    struct eo_error err = {0};
    struct pool p;
    struct pool_extent *a, *b;
    uint64_t at, at_b;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    ASSERT_OK(pool_alloc(&p, POOL_BYTES / 2, &at, &a, &err));
    ASSERT_OK(pool_alloc(&p, POOL_BYTES / 4, &at_b, &b, &err));
    ASSERT_OK(pool_commit(&p, at, POOL_BYTES / 2, &err));
    ASSERT_OK(pool_commit(&p, at_b, POOL_BYTES / 4, &err));
    memset(p.shm.data + at, 1, POOL_BYTES / 2);
    memset(p.shm.data + at_b, 2, POOL_BYTES / 4);
    pool_free(&p, a);
    pool_trim(&p, POOL_BYTES); /* may keep that much: nothing happens */
    ck_assert_uint_eq(p.committed_bytes, POOL_BYTES / 4 * 3);
    pool_trim(&p, 0);
    ck_assert_uint_eq(p.committed_bytes, POOL_BYTES / 4);
    ck_assert_uint_eq(p.shm.data[at], 0); /* a hole reads as zero */
    ck_assert_uint_eq(p.shm.data[at_b], 2);
    pool_free(&p, b);
    pool_trim(&p, 0);
    ck_assert_uint_eq(p.committed_bytes, 0);
    pool_fini(&p);
}
END_TEST

/* What lies behind a smaller result can be taken again at once, and nothing is lost. */
START_TEST(shrinking)
{
    struct eo_error err = {0};
    struct pool p;
    struct pool_extent *e, *f, *g;
    uint64_t at, at2, at3;
    ASSERT_OK(pool_init(&p, POOL_BYTES, &err));
    ASSERT_OK(pool_alloc(&p, POOL_BYTES / 2, &at, &e, &err));
    ASSERT_OK(pool_alloc(&p, POOL_BYTES / 2, &at2, &f, &err));
    pool_shrink(&p, &e, 65);
    ck_assert_ptr_nonnull(e);
    ck_assert_uint_eq(p.used_bytes, 128 + POOL_BYTES / 2);
    pool_shrink(&p, &e, 100); /* nothing to give */
    ck_assert_uint_eq(p.used_bytes, 128 + POOL_BYTES / 2);
    ASSERT_OK(pool_alloc(&p, POOL_BYTES / 2 - 128, &at3, &g, &err));
    ck_assert_uint_eq(at3, at + 128);
    pool_shrink(&p, &f, 0);
    ck_assert_ptr_null(f);
    pool_shrink(&p, &f, 0);
    pool_free(&p, g);
    pool_free(&p, e);
    ck_assert_uint_eq(p.used_bytes, 0);
    ASSERT_OK(pool_alloc(&p, POOL_BYTES, &at, &e, &err));
    pool_free(&p, e);
    pool_fini(&p);
}
END_TEST

EO_SUITE("pool", whole_pool_comes_back, odd_sizes, random_use, fit_behind_smaller_ones, promises, shrinking,
         trimming_gives_pages_back)
