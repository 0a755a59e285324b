#include "client/lib/handles.h"

#include "tests/support/suite.h"

#include <string.h>

static struct eo_error err;

static uint32_t slot_of(uint64_t id)
{
    return (uint32_t)id - 1;
}

static uint32_t generation_of(uint64_t id)
{
    return (uint32_t)(id >> 32);
}

START_TEST(counts_up_and_reuses_the_last_slot)
{
    struct eo_handles h;
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t again = 0;
    ASSERT_OK(eo_handles_init(&h, 10, &err));
    ASSERT_OK(eo_handles_take(&h, &a, &err));
    ASSERT_OK(eo_handles_take(&h, &b, &err));
    ck_assert_uint_eq(slot_of(a), 0);
    ck_assert_uint_eq(slot_of(b), 1);
    ck_assert_uint_eq(generation_of(a), 1);
    eo_handles_give(&h, a);
    ASSERT_OK(eo_handles_take(&h, &again, &err));
    ck_assert_uint_eq(slot_of(again), 0);
    ck_assert_uint_eq(generation_of(again), 2);
    eo_handles_fini(&h);
}
END_TEST

START_TEST(ignores_what_it_did_not_hand_out)
{
    struct eo_handles h;
    uint64_t a = 0;
    uint64_t b = 0;
    ASSERT_OK(eo_handles_init(&h, 10, &err));
    eo_handles_give(&h, 0);
    eo_handles_give(&h, ((uint64_t)1 << 32) | 7); /* never taken */
    ASSERT_OK(eo_handles_take(&h, &a, &err));
    eo_handles_give(&h, a);
    eo_handles_give(&h, a); /* twice: stale by now */
    ASSERT_OK(eo_handles_take(&h, &a, &err));
    ASSERT_OK(eo_handles_take(&h, &b, &err));
    ck_assert_uint_ne(slot_of(a), slot_of(b));
    eo_handles_fini(&h);
}
END_TEST

START_TEST(stops_at_the_limit)
{
    struct eo_handles h;
    uint64_t ids[130];
    uint64_t id = 0;
    ASSERT_OK(eo_handles_init(&h, 130, &err)); /* not a power of two times the first capacity */
    for (int i = 0; i < 130; i++) {
        ASSERT_OK(eo_handles_take(&h, &ids[i], &err));
        ck_assert_uint_eq(slot_of(ids[i]), (unsigned)i);
    }
    ASSERT_CODE(eo_handles_take(&h, &id, &err), EO_E_QUOTA);
    ck_assert(err.hint[0] != '\0');
    for (int i = 0; i < 130; i++) {
        eo_handles_give(&h, ids[i]);
    }
    for (int i = 0; i < 130; i++) {
        ASSERT_OK(eo_handles_take(&h, &id, &err));
    }
    eo_handles_fini(&h);
}
END_TEST

START_TEST(generations_pass_over_zero)
{
    struct eo_handles h;
    uint64_t id = 0;
    ASSERT_OK(eo_handles_init(&h, 1, &err));
    ASSERT_OK(eo_handles_take(&h, &id, &err));
    h.generation[0] = UINT32_MAX;
    eo_handles_give(&h, ((uint64_t)UINT32_MAX << 32) | 1);
    ASSERT_OK(eo_handles_take(&h, &id, &err));
    ck_assert_uint_eq(generation_of(id), 1); /* 0 would make the id of slot 0 look small, and is never a generation */
    eo_handles_fini(&h);
}
END_TEST

START_TEST(refuses_a_daemon_without_handles)
{
    struct eo_handles h;
    ASSERT_CODE(eo_handles_init(&h, 0, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_handles_init(&h, (uint64_t)1 << 40, &err), EO_E_BAD_PARAMS);
}
END_TEST

START_TEST(packs_slot_and_generation)
{
    struct eo_bytes b;
    eo_bytes_init(&b, 64);
    eo_handle_pack(&b, ((uint64_t)3 << 32) | 300);
    const uint8_t wanted[] = {0x92, 0xcd, 0x01, 0x2b, 0x03}; /* [299, 3] */
    ck_assert_uint_eq(b.size, sizeof wanted);
    ck_assert_mem_eq(b.data, wanted, sizeof wanted);
    eo_bytes_clear(&b);
    eo_handle_pack(&b, 0); /* no tensor: a slot that no daemon has */
    const uint8_t none[] = {0x92, 0xce, 0xff, 0xff, 0xff, 0xff, 0x00};
    ck_assert_uint_eq(b.size, sizeof none);
    ck_assert_mem_eq(b.data, none, sizeof none);
    eo_bytes_fini(&b);
}
END_TEST

EO_SUITE("client handles", counts_up_and_reuses_the_last_slot, ignores_what_it_did_not_hand_out, stops_at_the_limit,
         generations_pass_over_zero, refuses_a_daemon_without_handles, packs_slot_and_generation)
