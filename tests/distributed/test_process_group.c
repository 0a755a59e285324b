#include "distributed/process_group.h"

#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static struct eo_error err;

static const uint8_t layout[32] = "the layout that all ranks share";

/* ---- groups on threads: every function opens its own rank's group ---- */

static int with_group(struct rank *r, const uint8_t *layout_hash,
                      int (*fn)(struct process_group *, struct rank *, struct eo_error *), struct eo_error *e)
{
    struct process_group *g = NULL;
    int code = process_group_open("tcp", &r->config, r->fds, layout_hash, &g, e);

    if (code == EO_OK) {
        code = fn == NULL ? EO_OK : fn(g, r, e);
        process_group_close(g);
    }
    return code;
}

static int facts(struct process_group *g, struct rank *r, struct eo_error *e)
{
    uint64_t moved = process_group_progress(g);
    bool right = process_group_rank(g) == r->rank && process_group_size(g) == r->world_size &&
                 strcmp(process_group_config(g)->hosts[0], "node-0:17743") == 0 && (moved > 0) == (r->world_size > 1);

    return right ? EO_OK : EO_RAISE(e, EO_E_BAD_VALUE, "rank, size, hosts or progress is wrong");
}

static int sums_and_broadcasts(struct process_group *g, struct rank *r, struct eo_error *e)
{
    double x[3] = {r->rank, 1, -r->rank};
    char text[16] = "rank 0 says so";
    int n = r->world_size;
    int code = process_group_all_reduce(g, x, 3, EO_FLOAT64, e);

    if (r->rank != 0) {
        memset(text, '?', sizeof(text));
    }
    code = code == EO_OK ? process_group_broadcast(g, text, sizeof(text), 0, e) : code;
    if (code == EO_OK &&
        (x[0] != n * (n - 1) / 2 || x[1] != n || x[2] != -x[0] || strcmp(text, "rank 0 says so") != 0)) {
        code = EO_RAISE(e, EO_E_BAD_VALUE, "%g %g %g", x[0], x[1], x[2]);
    }
    return code;
}

static int opened(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, facts, e);
}

static int summed(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, sums_and_broadcasts, e);
}

static void all_ok(const struct ranks *g)
{
    for (int r = 0; r < g->n; r++) {
        ck_assert_msg(g->rank[r].code == EO_OK, "rank %d of %d: %s", r, g->n, g->rank[r].err.message);
    }
}

START_TEST(opens_sums_and_broadcasts)
{
    for (int n = 1; n <= 5; n++) {
        struct ranks *g = ranks_connect(n, RANKS_TCP, 20000);

        ranks_run(g, opened, NULL);
        all_ok(g);
        free(g);
        g = ranks_connect(n, RANKS_UNIX, 20000);
        ranks_run(g, summed, NULL);
        all_ok(g);
        free(g);
    }
}
END_TEST

/* ---- what must be equal ---- */

static int other_layout(struct rank *r, struct eo_error *e)
{
    uint8_t mine[32];

    memcpy(mine, layout, sizeof(mine));
    mine[31] = (uint8_t)(r->rank == 1 || r->rank == 3);
    return with_group(r, mine, NULL, e);
}

START_TEST(another_layout_is_named)
{
    struct ranks *g = ranks_connect(4, RANKS_TCP, 20000);

    ranks_run(g, other_layout, NULL);
    for (int r = 0; r < g->n; r++) {
        ck_assert_int_eq(g->rank[r].code, EO_E_DIVERGED);
        ck_assert_str_eq(g->rank[r].err.message,
                         "layout: rank 1 (node-1:17743), rank 3 (node-3:17743) differ from rank 0 (node-0:17743)");
        ck_assert_str_eq(g->rank[r].err.host, "node-1:17743");
        ck_assert_int_eq(g->rank[r].err.rank, 1);
    }
    free(g);
}
END_TEST

static int compare_digests(struct process_group *g, struct rank *r, struct eo_error *e)
{
    uint8_t digest[32];
    int code;

    memset(digest, 0x80, sizeof(digest));
    code = process_group_expect_equal(g, digest, "parameters", e);
    digest[0] ^= r->rank == 2;
    return code == EO_OK ? process_group_expect_equal(g, digest, "parameters", e) : code;
}

static int digests(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, compare_digests, e);
}

START_TEST(other_parameters_are_named)
{
    struct ranks *g = ranks_connect(3, RANKS_UNIX, 20000);

    ranks_run(g, digests, NULL);
    for (int r = 0; r < g->n; r++) {
        ck_assert_int_eq(g->rank[r].code, EO_E_DIVERGED);
        ck_assert_str_eq(g->rank[r].err.message,
                         "parameters: rank 2 (node-2:17743) differs from rank 0 (node-0:17743)");
        ck_assert_int_eq(g->rank[r].err.rank, 2);
    }
    free(g);
}
END_TEST

/* ---- the known answer ---- */

/* Rank 1 is no process group but plays one by hand: it answers the layout comparison and then sends wrong numbers. */
static int liar(struct rank *r, struct eo_error *e)
{
    int64_t words[8] = {0};
    static float wrong[256];
    int code;

    if (r->rank == 0) {
        return with_group(r, layout, NULL, e);
    }
    memcpy(words + 4, layout, sizeof(layout));
    code = ranks_engine->open(&r->config, r->fds, &r->comm, e);
    code = code == EO_OK ? ranks_engine->all_reduce(r->comm, words, 8, EO_INT64, COLLECTIVE_SUM, e) : code;
    code = code == EO_OK ? ranks_engine->all_reduce(r->comm, wrong, 256, EO_FLOAT32, COLLECTIVE_SUM, e) : code;
    /* Its next call learns what rank 0 thinks of it. */
    return code == EO_OK ? ranks_engine->barrier(r->comm, e) : code;
}

START_TEST(a_wrong_sum_is_found_before_work_begins)
{
    struct ranks *g = ranks_connect(2, RANKS_TCP, 20000);

    ranks_run(g, liar, NULL);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(g->rank[r].code, EO_E_DIVERGED);
        ASSERT_CONTAINS(g->rank[r].err.message,
                        "the known-answer all_reduce of 256 float32 gave -125 at 0 instead of -237");
    }
    ranks_close(g);
}
END_TEST

/* ---- votes ---- */

struct ballot {
    bool ok[3];
    int stop[3];
    double sums[3][2];
    bool expect_ok;
    int expect_stop;
};

static const struct ballot ballots[] = {
    {{true, true, true}, {0, 0, 0}, {{1, 0.5}, {2, 0.25}, {4, 0.125}}, true, 0},
    {{true, false, true}, {0, 0, 0}, {{1, 1}, {1, 1}, {1, 1}}, false, 0},
    {{true, true, true}, {0, 2, 1}, {{1e300, -0.0}, {1e-300, -0.0}, {-1e300, -0.0}}, true, 2},
    {{true, true, true}, {0, 0, 0}, {{INFINITY, 1}, {-INFINITY, NAN}, {0, 1}}, true, 0},
};

static int cast_votes(struct process_group *g, struct rank *r, struct eo_error *e)
{
    for (size_t i = 0; i < EO_COUNT_OF(ballots); i++) {
        const struct ballot *b = &ballots[i];
        struct group_vote vote = {.ok = b->ok[r->rank], .stop = b->stop[r->rank], .n_sums = 2};
        int code;

        memcpy(vote.sums, b->sums[r->rank], sizeof(b->sums[0]));
        code = process_group_vote(g, &vote, e);
        if (code != EO_OK) {
            return code;
        }
        for (int s = 0; s < 2; s++) {
            double expected = b->sums[0][s] + b->sums[1][s] + b->sums[2][s];

            if (isnan(expected) ? !isnan(vote.sums[s]) : vote.sums[s] != expected) {
                return EO_RAISE(e, EO_E_BAD_VALUE, "ballot %zu sum %d is %g", i, s, vote.sums[s]);
            }
        }
        if (vote.ok != b->expect_ok || vote.stop != b->expect_stop || vote.sums[2] != 0) {
            return EO_RAISE(e, EO_E_BAD_VALUE, "ballot %zu: ok %d stop %d", i, vote.ok, vote.stop);
        }
    }
    return EO_OK;
}

static int votes(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, cast_votes, e);
}

static int uneven_vote(struct process_group *g, struct rank *r, struct eo_error *e)
{
    struct group_vote vote = {.ok = true, .n_sums = r->rank == 2 ? 3 : 2};

    return process_group_vote(g, &vote, e);
}

static int uneven_votes(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, uneven_vote, e);
}

START_TEST(votes_count_everybody)
{
    struct ranks *g = ranks_connect(3, RANKS_TCP, 20000);

    ranks_run(g, votes, NULL);
    all_ok(g);
    free(g);
    g = ranks_connect(3, RANKS_TCP, 20000);
    ranks_run(g, uneven_votes, NULL);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_eq(g->rank[r].code, EO_E_COLLECTIVE_MISMATCH);
        ck_assert_str_eq(g->rank[r].err.contexts[g->rank[r].err.n_contexts - 1], "in the vote on a step");
    }
    free(g);
}
END_TEST

static int too_many_sums(struct process_group *g, struct rank *r, struct eo_error *e)
{
    struct group_vote vote = {.ok = true, .n_sums = 17};

    EO_UNUSED(r);
    return process_group_vote(g, &vote, e);
}

static int abort_then_vote(struct process_group *g, struct rank *r, struct eo_error *e)
{
    struct group_vote vote = {.ok = true};
    struct eo_error cause;

    if (r->rank == 1) {
        EO_RAISE(&cause, EO_E_NON_FINITE, "the loss of step 3 is NaN");
        process_group_abort(g, &cause);
    }
    return process_group_vote(g, &vote, e);
}

static int aborts(struct rank *r, struct eo_error *e)
{
    return with_group(r, layout, r->arg == NULL ? abort_then_vote : too_many_sums, e);
}

START_TEST(an_abort_ends_the_vote_of_all)
{
    struct ranks *g = ranks_connect(3, RANKS_TCP, 20000);

    ranks_run(g, aborts, NULL);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_eq(g->rank[r].code, EO_E_NON_FINITE);
        ck_assert_str_eq(g->rank[r].err.message, "the loss of step 3 is NaN");
    }
    free(g);
    g = ranks_connect(1, RANKS_TCP, 20000);
    ranks_run(g, aborts, "17 sums");
    ck_assert_int_eq(g->rank[0].code, EO_E_INTERNAL);
    free(g);
}
END_TEST

/* ---- refusals close what they were given ---- */

START_TEST(an_unknown_engine_is_refused)
{
    struct ranks *g = ranks_connect(2, RANKS_UNIX, 20000);
    struct process_group *group = NULL;
    char byte;

    ASSERT_CODE(process_group_open("carrier-pigeon", &g->rank[0].config, g->rank[0].fds, layout, &group, &err),
                EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "carrier-pigeon");
    ck_assert_ptr_null(group);
    ck_assert_int_eq(read(g->rank[1].fds[0], &byte, 1), 0); /* the end of the stream */
    close(g->rank[1].fds[0]);
    process_group_close(NULL);
    free(g);
}
END_TEST

EO_SUITE("process_group", opens_sums_and_broadcasts, another_layout_is_named, other_parameters_are_named,
         a_wrong_sum_is_found_before_work_begins, votes_count_everybody, an_abort_ends_the_vote_of_all,
         an_unknown_engine_is_refused)
