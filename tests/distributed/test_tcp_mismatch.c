/* Ranks that start different collectives: everybody fails at once and sees both. */
#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

#include <string.h>

struct call {
    enum collective_kind kind;
    uint64_t count;
    enum eo_dtype dtype;
    enum collective_reduce reduce;
    int root;
};

/* What all ranks but the last do, and what the last one does. */
struct mismatch {
    struct call others, last;
    uint64_t skip;    /* collectives that the last rank believes to have done already */
    const char *text; /* of two ranks, or NULL */
};

static const struct mismatch grid[] = {
    {.others = {COLLECTIVE_ALL_REDUCE, 1000, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 1001, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .text = "rank 0 started all_reduce 1 of epoch 3 (sum of 1000 float32), but rank 1 started all_reduce 1 of epoch 3 "
             "(sum of 1001 float32)"},
    {.others = {COLLECTIVE_ALL_REDUCE, 1000, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 2000, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 8, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 0, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 0, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 8, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 1000, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 1000, EO_INT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 1000, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 1000, EO_FLOAT32, COLLECTIVE_MAX, 0}},
    /* large: slices against slices, slices against direct */
    {.others = {COLLECTIVE_ALL_REDUCE, 1 << 19, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, (1 << 19) + 1, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 1 << 19, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 16, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    /* other kinds */
    {.others = {COLLECTIVE_ALL_REDUCE, 64, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_BROADCAST, 64, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
     .text = "rank 0 started all_reduce 1 of epoch 3 (sum of 64 float32), but rank 1 started broadcast 1 of epoch 3 "
             "(64 bytes from rank 0)"},
    {.others = {COLLECTIVE_BROADCAST, 1 << 20, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_BARRIER, 0, EO_DTYPE_NONE, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_BROADCAST, 64, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_BROADCAST, 64, EO_DTYPE_NONE, COLLECTIVE_SUM, 1}},
    {.others = {COLLECTIVE_BROADCAST, 64, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_BROADCAST, 65, EO_DTYPE_NONE, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_BARRIER, 0, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 0, EO_FLOAT32, COLLECTIVE_SUM, 0}},
    {.others = {COLLECTIVE_ALL_REDUCE, 64, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .last = {COLLECTIVE_ALL_REDUCE, 64, EO_FLOAT32, COLLECTIVE_SUM, 0},
     .skip = 1,
     .text = "rank 0 started all_reduce 1 of epoch 3 (sum of 64 float32), but rank 1 started all_reduce 2 of epoch 3 "
             "(sum of 64 float32)"},
};

static int start(struct rank *r, struct eo_error *err)
{
    const struct mismatch *m = (const struct mismatch *)r->arg;
    const struct call *call = r->rank == r->world_size - 1 ? &m->last : &m->others;
    void *data = calloc(1, (size_t)call->count * 4 + 1);
    int code;

    r->comm->print.seq += r->rank == r->world_size - 1 ? m->skip : 0;
    if (data == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory");
    }
    switch (call->kind) {
    case COLLECTIVE_ALL_REDUCE:
        code = ranks_engine->all_reduce(r->comm, data, call->count, call->dtype, call->reduce, err);
        break;
    case COLLECTIVE_BROADCAST:
        code = ranks_engine->broadcast(r->comm, data, call->count, call->root, err);
        break;
    default:
        code = ranks_engine->barrier(r->comm, err);
        break;
    }
    free(data);
    return code;
}

static void all_see_it(struct ranks *g, size_t row)
{
    for (int i = 0; i < g->n; i++) {
        const struct rank *r = &g->rank[i];

        ck_assert_msg(r->code == EO_E_COLLECTIVE_MISMATCH, "row %zu, rank %d of %d: %d %s", row, i, g->n, r->code,
                      r->err.message);
        ck_assert_msg(r->elapsed_ns < 1000000000u, "row %zu, rank %d of %d took %d ms", row, i, g->n,
                      (int)(r->elapsed_ns / 1000000));
        ASSERT_CONTAINS(r->err.message, "but rank");
        ASSERT_CONTAINS(r->err.host, ":17743");
        ASSERT_CONTAINS(r->err.detail, "is node-");
    }
}

START_TEST(everybody_sees_both_fingerprints)
{
    for (int n = 2; n <= 4; n++) {
        for (size_t row = 0; row < EO_COUNT_OF(grid); row++) {
            struct ranks *g = ranks_open(n, row % 2 == 0 ? RANKS_TCP : RANKS_UNIX, 10000, NULL);

            ranks_run(g, start, &grid[row]);
            all_see_it(g, row);
            if (n == 2 && grid[row].text != NULL) {
                ck_assert_str_eq(g->rank[0].err.message, grid[row].text);
                ck_assert_str_eq(g->rank[1].err.message, grid[row].text);
                ck_assert_str_eq(g->rank[0].err.detail, "Rank 0 is node-0:17743, rank 1 is node-1:17743.");
                ck_assert_int_eq(g->rank[0].err.rank, 1);
                ck_assert_int_eq(g->rank[1].err.rank, 0);
            }
            /* Failed for good, and still saying why. */
            ranks_run(g, start, &grid[0]);
            all_see_it(g, row);
            ranks_close(g);
        }
    }
}
END_TEST

START_TEST(a_wrong_epoch_is_refused)
{
    struct ranks *g = ranks_open(3, RANKS_TCP, 10000, NULL);

    g->rank[2].comm->config.epoch = 4;
    ranks_run(g, start,
              &(const struct mismatch){.others = {COLLECTIVE_BARRIER, 0, EO_DTYPE_NONE, COLLECTIVE_SUM, 0},
                                       .last = {COLLECTIVE_BARRIER, 0, EO_DTYPE_NONE, COLLECTIVE_SUM, 0}});
    all_see_it(g, 0);
    ASSERT_CONTAINS(g->rank[0].err.message, "barrier 1 of epoch 3");
    ASSERT_CONTAINS(g->rank[0].err.message, "rank 2 started barrier 1 of epoch 4");
    ranks_close(g);
}
END_TEST

/* A call that is wrong in itself fails for all: nobody waits for a rank that will not come. */
static int wrong_on_the_last(struct rank *r, struct eo_error *err)
{
    uint64_t data[4] = {0};
    bool last = r->rank == r->world_size - 1;

    switch (*(const int *)r->arg) {
    case 0:
        return ranks_engine->all_reduce(r->comm, data, 4, last ? EO_BOOL : EO_FLOAT32, COLLECTIVE_SUM, err);
    case 1:
        return ranks_engine->all_reduce(r->comm, data, last ? UINT64_MAX : 4, EO_FLOAT32, COLLECTIVE_SUM, err);
    case 2:
        return ranks_engine->all_reduce(r->comm, (uint8_t *)data + last, 1, EO_FLOAT64, COLLECTIVE_SUM, err);
    default:
        return ranks_engine->broadcast(r->comm, data, 4, last ? 3 : 0, err);
    }
}

START_TEST(a_wrong_call_fails_for_all)
{
    static const int codes[] = {EO_E_DTYPE_MISMATCH, EO_E_TOO_LARGE, EO_E_INTERNAL, EO_E_INTERNAL};

    for (int kind = 0; kind < (int)EO_COUNT_OF(codes); kind++) {
        struct ranks *g = ranks_open(3, RANKS_TCP, 10000, NULL);

        ranks_run(g, wrong_on_the_last, &kind);
        for (int i = 0; i < g->n; i++) {
            ck_assert_msg(g->rank[i].code == codes[kind], "kind %d rank %d: %d %s", kind, i, g->rank[i].code,
                          g->rank[i].err.message);
            ck_assert_uint_lt(g->rank[i].elapsed_ns, 1000000000u);
        }
        /* By the last itself, or passed on by the other one. */
        ASSERT_CONTAINS(g->rank[0].err.contexts[0], "reported by rank ");
        ranks_close(g);
    }
}
END_TEST

EO_SUITE("tcp_mismatch", everybody_sees_both_fingerprints, a_wrong_epoch_is_refused, a_wrong_call_fails_for_all)
