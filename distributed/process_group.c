#include "distributed/process_group.h"

#include "proto/base/compiler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process_group {
    const struct collective_engine *engine;
    struct collective_comm *comm;
    struct collective_config config;
    int64_t *gathered; /* world_size * GATHER_WORDS, so that votes and comparisons allocate nothing */
};

enum {
    VOTE_SUMS = EO_COUNT_OF(((struct group_vote *)0)->sums),
    VOTE_OK = 0,
    VOTE_STOP = 1,
    VOTE_SUM_0 = 2,
    GATHER_WORDS = VOTE_SUM_0 + VOTE_SUMS,
    DIGEST_WORDS = 4
};

/* ---- gathering a few words of every rank ---- */

/* An integer all-reduce of zeros everywhere but in one's own place: bits arrive as they were sent. */
static int gather(struct process_group *g, const int64_t *mine, int words, struct eo_error *err)
{
    size_t n = (size_t)g->config.world_size * (size_t)words;

    memset(g->gathered, 0, n * sizeof(*g->gathered));
    memcpy(g->gathered + (size_t)g->config.rank * (size_t)words, mine, (size_t)words * sizeof(*mine));
    return g->engine->all_reduce(g->comm, g->gathered, n, EO_INT64, COLLECTIVE_SUM, err);
}

int process_group_vote(struct process_group *g, struct group_vote *vote, struct eo_error *err)
{
    int64_t mine[GATHER_WORDS] = {[VOTE_OK] = vote->ok, [VOTE_STOP] = vote->stop};
    int n_sums = vote->n_sums;
    int code;

    if (n_sums < 0 || n_sums > VOTE_SUMS) {
        return EO_BUG(err, "a vote with %d sums", n_sums);
    }
    memcpy(mine + VOTE_SUM_0, vote->sums, (size_t)n_sums * sizeof(vote->sums[0]));
    code = gather(g, mine, VOTE_SUM_0 + n_sums, err);
    if (code != EO_OK) {
        eo_error_push(err, "in the vote on a step");
        return code;
    }
    memset(vote->sums, 0, sizeof(vote->sums));
    vote->ok = true;
    for (int r = 0; r < g->config.world_size; r++) {
        const int64_t *theirs = g->gathered + (size_t)r * (size_t)(VOTE_SUM_0 + n_sums);

        vote->ok &= theirs[VOTE_OK] != 0;
        vote->stop = r == 0 ? (int)theirs[VOTE_STOP] : EO_MAX(vote->stop, (int)theirs[VOTE_STOP]);
        for (int i = 0; i < n_sums; i++) {
            double sum;

            memcpy(&sum, theirs + VOTE_SUM_0 + i, sizeof(sum));
            vote->sums[i] = r == 0 ? sum : vote->sums[i] + sum;
        }
    }
    return EO_OK;
}

/* "rank 1 (b:17743), rank 3 (d:17743)"; returns how many. */
static int list_different(const struct process_group *g, char *out, size_t size, int *out_first)
{
    const int64_t *reference = g->gathered;
    int n = 0;

    out[0] = '\0';
    for (int r = 1; r < g->config.world_size; r++) {
        size_t used = strlen(out);

        if (memcmp(reference, g->gathered + (size_t)r * DIGEST_WORDS, DIGEST_WORDS * sizeof(*reference)) != 0) {
            snprintf(out + used, size - used, "%srank %d (%s)", n == 0 ? "" : ", ", r, g->config.hosts[r]);
            *out_first = n == 0 ? r : *out_first;
            n++;
        }
    }
    return n;
}

int process_group_expect_equal(struct process_group *g, const uint8_t digest[32], const char *what,
                               struct eo_error *err)
{
    int64_t mine[DIGEST_WORDS];
    char ranks[320];
    int first = 0, n, code;

    memcpy(mine, digest, sizeof(mine));
    code = gather(g, mine, DIGEST_WORDS, err);
    if (code != EO_OK) {
        eo_error_push(err, "when comparing the %s", what);
        return code;
    }
    n = list_different(g, ranks, sizeof(ranks), &first);
    if (n == 0) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_DIVERGED, "%s: %s %s from rank 0 (%s)", what, ranks, n == 1 ? "differs" : "differ",
             g->config.hosts[0]);
    eo_error_at_host(err, g->config.hosts[first], first);
    return EO_E_DIVERGED;
}

/* ---- the known answer ---- */

/* Integers, so that every sum of up to 64 ranks is exact in float32 in any order. */
static float known_input(uint64_t i, int rank)
{
    return (float)((int)((i * 7 + (uint64_t)rank * 13) % 251) - 125);
}

static int check_known_answer(struct process_group *g, float *data, uint64_t count, struct eo_error *err)
{
    int code;

    for (uint64_t i = 0; i < count; i++) {
        data[i] = known_input(i, g->config.rank);
    }
    code = g->engine->all_reduce(g->comm, data, count, EO_FLOAT32, COLLECTIVE_SUM, err);
    for (uint64_t i = 0; i < count && code == EO_OK; i++) {
        float expected = 0;

        for (int r = 0; r < g->config.world_size; r++) {
            expected += known_input(i, r);
        }
        if (data[i] != expected) {
            code = EO_RAISE(err, EO_E_DIVERGED,
                            "the known-answer all_reduce of %" PRIu64 " float32 gave %g at %" PRIu64 " instead of %g",
                            count, (double)data[i], i, (double)expected);
            eo_error_hint(err, "Run `everyo doctor` on every host: memory or network corrupts data.");
        }
    }
    return code;
}

/* One size for each algorithm: 1 KB and 1 MB. */
static int verify(struct process_group *g, struct eo_error *err)
{
    static const uint64_t counts[] = {(1 << 10) / sizeof(float), (1 << 20) / sizeof(float)};
    float *data = malloc((size_t)counts[EO_COUNT_OF(counts) - 1] * sizeof(float));
    int code = EO_OK;

    if (data == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the known-answer check");
    }
    for (size_t i = 0; i < EO_COUNT_OF(counts) && code == EO_OK; i++) {
        code = check_known_answer(g, data, counts[i], err);
    }
    free(data);
    return code;
}

/* ---- life ---- */

static void close_all(const struct collective_config *config, const int *fds)
{
    for (int r = 0; r < EO_MIN(config->world_size, (int)COLLECTIVE_MAX_RANKS); r++) {
        if (r != config->rank && fds[r] >= 0) {
            close(fds[r]);
        }
    }
}

static int open_engine(const char *name, const struct collective_config *config, const int *fds,
                       struct process_group *g, struct eo_error *err)
{
    int code;

    g->engine = collective_engine_find(name);
    if (g->engine == NULL) {
        code = EO_RAISE(err, EO_E_UNSUPPORTED, "there is no collective engine \"%s\"", name);
    } else {
        code = g->engine->open(config, fds, &g->comm, err);
    }
    if (code != EO_OK) {
        close_all(config, fds);
        return code;
    }
    g->config = *config;
    g->gathered = calloc((size_t)config->world_size * GATHER_WORDS, sizeof(*g->gathered));
    return g->gathered != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the votes of a process group");
}

int process_group_open(const char *engine, const struct collective_config *config, const int *fds,
                       const uint8_t layout_hash[32], struct process_group **out, struct eo_error *err)
{
    struct eo_error raised;
    struct process_group *g = calloc(1, sizeof(*g));
    int code;

    if (g == NULL) {
        close_all(config, fds);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a process group");
    }
    code = open_engine(engine, config, fds, g, &raised);
    if (code == EO_OK) {
        code = process_group_expect_equal(g, layout_hash, "layout", &raised);
    }
    if (code == EO_OK) {
        code = verify(g, &raised);
    }
    if (code != EO_OK) {
        if (g->comm != NULL) {
            process_group_abort(g, &raised);
        }
        process_group_close(g);
        if (err != NULL) {
            *err = raised;
        }
        return code;
    }
    *out = g;
    return EO_OK;
}

void process_group_close(struct process_group *g)
{
    if (g == NULL) {
        return;
    }
    if (g->comm != NULL) {
        g->engine->close(g->comm);
    }
    free(g->gathered);
    free(g);
}

int process_group_rank(const struct process_group *g)
{
    return g->config.rank;
}

int process_group_size(const struct process_group *g)
{
    return g->config.world_size;
}

const struct collective_config *process_group_config(const struct process_group *g)
{
    return &g->config;
}

int process_group_all_reduce(struct process_group *g, void *data, uint64_t count, enum eo_dtype dtype,
                             struct eo_error *err)
{
    return g->engine->all_reduce(g->comm, data, count, dtype, COLLECTIVE_SUM, err);
}

int process_group_broadcast(struct process_group *g, void *data, uint64_t bytes, int root, struct eo_error *err)
{
    return g->engine->broadcast(g->comm, data, bytes, root, err);
}

void process_group_abort(struct process_group *g, const struct eo_error *cause)
{
    struct eo_error named = *cause;

    /* Others hear of it through several hands: whose it is goes with it. */
    if (named.host[0] == '\0') {
        eo_error_at_host(&named, g->config.hosts[g->config.rank], g->config.rank);
    }
    g->engine->abort(g->comm, &named);
}

uint64_t process_group_progress(const struct process_group *g)
{
    return g->engine->progress_bytes(g->comm);
}
