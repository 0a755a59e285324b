/* Peers that vanish, stall, abort or send rubbish: who is named, and how soon. */
#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

#include "proto/base/clock.h"
#include "proto/error_codec.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct eo_error err;

enum { SECOND_NS = 1000000000, LARGE = 1 << 20 };

static int sum_of(struct rank *r, uint64_t count, struct eo_error *e)
{
    float *data = calloc((size_t)count, sizeof(*data));
    int code = data == NULL ? EO_RAISE(e, EO_E_NO_MEMORY, "no memory")
                            : ranks_engine->all_reduce(r->comm, data, count, EO_FLOAT32, COLLECTIVE_SUM, e);

    free(data);
    return code;
}

/* ---- one that does not come ---- */

/* The last rank stays away; arg is the number of elements. */
static int all_but_last(struct rank *r, struct eo_error *e)
{
    return r->rank == r->world_size - 1 ? EO_OK : sum_of(r, *(const uint64_t *)r->arg, e);
}

static int last_closes(struct rank *r, struct eo_error *e)
{
    if (r->rank == r->world_size - 1) {
        ranks_close_rank(r);
        return EO_OK;
    }
    return sum_of(r, *(const uint64_t *)r->arg, e);
}

START_TEST(a_closed_connection_names_the_host)
{
    static const uint64_t counts[] = {0, 10, LARGE};

    for (int n = 2; n <= 4; n++) {
        for (size_t i = 0; i < EO_COUNT_OF(counts); i++) {
            struct ranks *g = ranks_open(n, i % 2 == 0 ? RANKS_TCP : RANKS_UNIX, 10000, NULL);
            char host[32];

            snprintf(host, sizeof(host), "node-%d:17743", n - 1);
            ranks_run(g, last_closes, &counts[i]);
            for (int r = 0; r < n - 1; r++) {
                ck_assert_msg(g->rank[r].code == EO_E_PEER_LOST, "rank %d: %s", r, g->rank[r].err.message);
                ck_assert_str_eq(g->rank[r].err.host, host);
                ck_assert_int_eq(g->rank[r].err.rank, n - 1);
                ASSERT_CONTAINS(g->rank[r].err.message, host);
                ck_assert_uint_lt(g->rank[r].elapsed_ns, SECOND_NS);
            }
            ranks_close(g);
        }
    }
}
END_TEST

START_TEST(one_that_stays_away_is_named_after_the_deadline)
{
    static const uint64_t counts[] = {0, 10, LARGE};

    for (int n = 2; n <= 4; n++) {
        for (size_t i = 0; i < EO_COUNT_OF(counts); i++) {
            struct ranks *g = ranks_open(n, RANKS_TCP, 300, NULL);
            char text[64];

            snprintf(text, sizeof(text), ": rank %d (node-%d:17743) has not entered it", n - 1, n - 1);
            ranks_run(g, all_but_last, &counts[i]);
            for (int r = 0; r < n - 1; r++) {
                const struct eo_error *e = &g->rank[r].err;

                ck_assert_msg(g->rank[r].code == EO_E_PEER_TIMEOUT, "rank %d: %s", r, e->message);
                ck_assert_msg(e->rank == n - 1, "rank %d: %s", r, e->message);
                ASSERT_CONTAINS(e->message, "no progress for 300 ms in all_reduce 1 of epoch 3");
                ck_assert_msg(strstr(e->message, text) != NULL && strstr(e->message, "took") == NULL &&
                                  strstr(e->message, "sent") == NULL,
                              "%s", e->message);
                ck_assert_uint_ge(g->rank[r].elapsed_ns, SECOND_NS / 4);
                ck_assert_uint_lt(g->rank[r].elapsed_ns, 2u * SECOND_NS);
            }
            ranks_close(g);
        }
    }
}
END_TEST

/* ---- the end of a run is no fault ---- */

static int last_sum_then_close(struct rank *r, struct eo_error *e)
{
    int code = sum_of(r, *(const uint64_t *)r->arg, e);

    ranks_close_rank(r);
    return code;
}

START_TEST(leaving_after_the_last_collective_hurts_nobody)
{
    for (int round = 0; round < 60; round++) {
        uint64_t count = (uint64_t)(round % 3) * 20000;
        struct ranks *g = ranks_open(2 + round % 3, round % 2 == 0 ? RANKS_TCP : RANKS_UNIX, 10000, NULL);

        ranks_run(g, last_sum_then_close, &count);
        for (int r = 0; r < g->n; r++) {
            ck_assert_msg(g->rank[r].code == EO_OK, "round %d rank %d: %s", round, r, g->rank[r].err.message);
        }
        ranks_close(g);
    }
}
END_TEST

/* ---- abort ---- */

struct abort_plan {
    uint64_t count;
    int victim; /* whose abort is called; the last rank never enters */
};

static int wait_or_abort(struct rank *r, struct eo_error *e)
{
    const struct abort_plan *plan = (const struct abort_plan *)r->arg;

    return r->rank == r->world_size - 1 ? EO_OK : sum_of(r, plan->count, e);
}

struct aborter {
    struct rank *victim;
    const struct eo_error *cause;
};

/* Aborts once its victim is in the collective: it has moved bytes, or holds the lock. */
static void *abort_later(void *arg)
{
    const struct aborter *a = (const struct aborter *)arg;

    while (pthread_mutex_trylock(&a->victim->comm->io) == 0) {
        pthread_mutex_unlock(&a->victim->comm->io);
        sched_yield();
    }
    ranks_engine->abort(a->victim->comm, a->cause);
    return NULL;
}

START_TEST(abort_wakes_all_waiters_with_its_cause)
{
    static const struct abort_plan plans[] = {{10, 0}, {10, 1}, {LARGE, 1}, {LARGE, 0}};

    EO_RAISE(&err, EO_E_CANCELLED, "cancelled by a test");
    for (size_t i = 0; i < EO_COUNT_OF(plans); i++) {
        struct ranks *g = ranks_open(4, RANKS_TCP, 20000, NULL);
        struct aborter aborter = {&g->rank[plans[i].victim], &err};
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, abort_later, &aborter), 0);
        ranks_run(g, wait_or_abort, &plans[i]);
        pthread_join(thread, NULL);
        for (int r = 0; r < 3; r++) {
            ck_assert_msg(g->rank[r].code == EO_E_CANCELLED, "rank %d: %s", r, g->rank[r].err.message);
            ck_assert_str_eq(g->rank[r].err.message, "cancelled by a test");
            ck_assert_uint_lt(g->rank[r].elapsed_ns, SECOND_NS);
            ck_assert_int_eq(g->rank[r].err.n_contexts, r == plans[i].victim ? 0 : 1);
        }
        /* The one that comes late learns it at once. */
        ASSERT_CODE(sum_of(&g->rank[3], plans[i].count, &err), EO_E_CANCELLED);
        ASSERT_CONTAINS(err.contexts[0], "reported by rank");
        EO_RAISE(&err, EO_E_CANCELLED, "cancelled by a test");
        ranks_close(g);
    }
}
END_TEST

START_TEST(abort_between_collectives_reaches_the_peers)
{
    struct ranks *g = ranks_open(3, RANKS_TCP, 20000, NULL);
    struct eo_error first, second;

    EO_RAISE(&first, EO_E_NON_FINITE, "the loss of step 7 is NaN");
    EO_RAISE(&second, EO_E_CANCELLED, "too late");
    ranks_engine->abort(g->rank[1].comm, &first);
    ranks_engine->abort(g->rank[1].comm, &second);
    for (int r = 0; r < 3; r++) {
        uint64_t begin_ns = eo_now_ns();

        ASSERT_CODE(sum_of(&g->rank[r], 100, &err), EO_E_NON_FINITE);
        ck_assert_str_eq(err.message, "the loss of step 7 is NaN");
        ck_assert_uint_lt(eo_now_ns() - begin_ns, SECOND_NS);
    }
    ranks_close(g);

    g = ranks_open(1, RANKS_TCP, 20000, NULL);
    ranks_engine->abort(g->rank[0].comm, NULL);
    ASSERT_CODE(ranks_engine->barrier(g->rank[0].comm, &err), EO_E_CANCELLED);
    ASSERT_CONTAINS(err.message, "rank 0");
    ck_assert_int_eq(ranks_engine->barrier(g->rank[0].comm, NULL), EO_E_CANCELLED);
    ranks_close(g);
}
END_TEST

/* ---- a peer made by hand: rank 1 of two, or the last of three ---- */

static void put(int fd, const void *data, size_t size)
{
    ck_assert_int_eq(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void put_chunk(int fd, uint8_t type, uint8_t phase, uint64_t offset, uint32_t length, uint64_t count,
                      uint64_t seq)
{
    struct tcp_chunk chunk = {
        .type = type,
        .phase = phase,
        .offset = offset,
        .length = length,
        .print = {.epoch = 3, .seq = seq, .count = count, .kind = COLLECTIVE_ALL_REDUCE, .dtype = EO_FLOAT32}};
    uint8_t header[TCP_CHUNK_HEADER];

    tcp_chunk_encode(&chunk, header);
    put(fd, header, sizeof(header));
}

/* Rank 0 of two sums 100 floats while the other end of its socket has sent what is there already. */
static int sum_against(struct ranks *g, struct eo_error *e)
{
    return sum_of(&g->rank[0], 100, e);
}

static struct ranks *open_against_hand(uint64_t deadline_ms)
{
    struct ranks *g = ranks_connect(2, RANKS_UNIX, deadline_ms);

    ASSERT_OK(ranks_engine->open(&g->rank[0].config, g->rank[0].fds, &g->rank[0].comm, &err));
    return g;
}

static void close_hand(struct ranks *g)
{
    close(g->rank[1].fds[0]);
    ranks_close(g);
}

START_TEST(rubbish_is_refused)
{
    static const struct {
        uint8_t type, phase;
        uint64_t offset;
        uint32_t length;
        const char *text;
    } bad[] = {
        {TCP_CHUNK_DATA, TCP_PHASE_INPUT, 4, 400, "400 bytes at 4 where 400 at 0 come next"},
        {TCP_CHUNK_DATA, TCP_PHASE_INPUT, 0, 399, "399 bytes at 0 where 400 at 0 come next"},
        {TCP_CHUNK_DATA, TCP_PHASE_INPUT, 0, 404, "404 bytes at 0 where 400 at 0 come next"},
        {TCP_CHUNK_DATA, TCP_PHASE_INPUT, UINT64_MAX, 400, "400 bytes at 18446744073709551615"},
        {TCP_CHUNK_DATA, TCP_PHASE_RESULT, 0, 400, "400 bytes at 0 where 0 at 0 come next"},
        {TCP_CHUNK_ABORT, TCP_PHASE_OPEN, 0, 0, "an abort that is no error map"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        struct ranks *g = open_against_hand(10000);

        put_chunk(g->rank[1].fds[0], bad[i].type, bad[i].phase, bad[i].offset, bad[i].length, 100, 1);
        ASSERT_CODE(sum_against(g, &err), EO_E_BAD_FRAME);
        ASSERT_CONTAINS(err.message, bad[i].text);
        ck_assert_str_eq(err.host, "node-1:17743");
        close_hand(g);
    }
}
END_TEST

START_TEST(a_stranger_is_refused)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n";
    struct ranks *g = open_against_hand(10000);

    put(g->rank[1].fds[0], request, strlen(request));
    ASSERT_CODE(sum_against(g, &err), EO_E_BAD_FRAME);
    ASSERT_CONTAINS(err.message, "rank 1 (node-1:17743) sent a bad chunk in all_reduce 1 of epoch 3");
    ASSERT_CONTAINS(err.message, "the magic is wrong");
    close_hand(g);
}
END_TEST

START_TEST(a_second_opening_is_refused)
{
    struct ranks *g = open_against_hand(10000);

    put_chunk(g->rank[1].fds[0], TCP_CHUNK_DATA, TCP_PHASE_OPEN, 0, 0, 100, 1);
    put_chunk(g->rank[1].fds[0], TCP_CHUNK_DATA, TCP_PHASE_OPEN, 0, 0, 100, 1);
    ASSERT_CODE(sum_against(g, &err), EO_E_BAD_FRAME);
    ASSERT_CONTAINS(err.message, "a second opening");
    close_hand(g);
}
END_TEST

START_TEST(a_truncated_header_is_a_lost_peer)
{
    for (int bytes = 0; bytes < TCP_CHUNK_HEADER; bytes += 47) {
        struct ranks *g = open_against_hand(10000);
        const struct tcp_chunk chunk = {.type = TCP_CHUNK_PING, .print = {.epoch = 3}};
        uint8_t header[TCP_CHUNK_HEADER];

        tcp_chunk_encode(&chunk, header);
        put(g->rank[1].fds[0], header, (size_t)bytes);
        shutdown(g->rank[1].fds[0], SHUT_WR);
        ASSERT_CODE(sum_against(g, &err), EO_E_PEER_LOST);
        ASSERT_CONTAINS(err.message, "rank 1 (node-1:17743) was lost in all_reduce 1 of epoch 3 (sum of 100 float32)");
        close_hand(g);
    }
}
END_TEST

START_TEST(a_stall_says_how_far_it_got)
{
    struct ranks *g = open_against_hand(300);
    uint64_t begin_ns = eo_now_ns();
    static const uint8_t some[130];

    put_chunk(g->rank[1].fds[0], TCP_CHUNK_DATA, TCP_PHASE_INPUT, 0, 400, 100, 1);
    put(g->rank[1].fds[0], some, sizeof(some));
    ASSERT_CODE(sum_against(g, &err), EO_E_PEER_TIMEOUT);
    ASSERT_CONTAINS(err.message, "rank 1 (node-1:17743) sent 130 of 400 bytes");
    ck_assert_uint_ge(eo_now_ns() - begin_ns, 3u * SECOND_NS / 10);
    close_hand(g);
}
END_TEST

/* Pings are no progress: a peer that only asks does not stop the clock. */
START_TEST(pings_do_not_extend_the_deadline)
{
    struct ranks *g = open_against_hand(200);
    struct tcp_chunk chunk;
    uint8_t header[TCP_CHUNK_HEADER];
    const char *why;
    bool ponged = false, pinged = false, aborted = false;

    for (int i = 0; i < 20; i++) {
        put_chunk(g->rank[1].fds[0], TCP_CHUNK_PING, TCP_PHASE_OPEN, 0, 0, 100, 1);
    }
    ASSERT_CODE(sum_against(g, &err), EO_E_PEER_TIMEOUT);
    while (!aborted && recv(g->rank[1].fds[0], header, sizeof(header), MSG_WAITALL) == sizeof(header)) {
        uint8_t body[TCP_CHUNK_MAX / 64];

        ck_assert(tcp_chunk_decode(header, &chunk, &why));
        ck_assert_uint_le(chunk.length, sizeof(body));
        ck_assert_int_eq(recv(g->rank[1].fds[0], body, chunk.length, MSG_WAITALL), chunk.length);
        ponged |= chunk.type == TCP_CHUNK_PONG;
        pinged |= chunk.type == TCP_CHUNK_PING;
        aborted = chunk.type == TCP_CHUNK_ABORT;
    }
    ck_assert(ponged && pinged && aborted);
    close_hand(g);
}
END_TEST

static void put_abort(int fd, const struct eo_error *cause)
{
    struct eo_bytes body;

    eo_bytes_init(&body, TCP_CHUNK_ABORT_MAX);
    eo_error_pack(&body, cause);
    ck_assert(!body.failed);
    put_chunk(fd, TCP_CHUNK_ABORT, TCP_PHASE_OPEN, 0, (uint32_t)body.size, 0, 1);
    put(fd, body.data, body.size);
    eo_bytes_fini(&body);
}

/* First cause wins: what the peer said before it left, not that it left. */
START_TEST(the_cause_is_read_before_the_end_of_the_stream)
{
    struct eo_error cause;

    EO_RAISE(&cause, EO_E_PEER_LOST, "rank 7 was lost");
    eo_error_at_host(&cause, "node-7:17743", 7);
    for (int reset = 0; reset < 2; reset++) {
        struct ranks *g = open_against_hand(10000);

        put_abort(g->rank[1].fds[0], &cause);
        if (reset) {
            close(g->rank[1].fds[0]); /* and my data meet a closed socket */
        } else {
            shutdown(g->rank[1].fds[0], SHUT_WR);
        }
        ASSERT_CODE(sum_against(g, &err), EO_E_PEER_LOST);
        ck_assert_str_eq(err.message, "rank 7 was lost");
        ck_assert_str_eq(err.host, "node-7:17743");
        ck_assert_int_eq(err.rank, 7);
        if (reset) {
            ranks_close(g);
        } else {
            close_hand(g);
        }
    }
}
END_TEST

/* Rank 0 has got everything for collective 1, goes on to collective 2 and aborts there, while rank 1 still waits for
 * rank 2 in collective 1: rank 1 must find the cause behind data that it will never use. */
static int goes_ahead(struct rank *r, struct eo_error *e)
{
    int code = r->rank == 2 ? EO_OK : sum_of(r, 100, e);

    return code == EO_OK && r->rank == 0 ? sum_of(r, 4000, e) : code;
}

static void *abort_in_second(void *arg)
{
    struct rank *r = (struct rank *)arg;
    const struct eo_error cause = {.code = EO_E_CANCELLED, .message = "ahead of the others", .rank = -1};

    /* Collective 1 moves 800 bytes of payload in and 800 out; more means that collective 2 is under way. */
    while (ranks_engine->progress_bytes(r->comm) <= 1600) {
        sched_yield();
    }
    ranks_engine->abort(r->comm, &cause);
    return NULL;
}

/* Three ranks, the last one by hand: it has sent its part of collective 1 to rank 0 only. */
static struct ranks *open_with_one_ahead(uint64_t deadline_ms)
{
    struct ranks *g = ranks_connect(3, RANKS_TCP, deadline_ms);
    static const uint8_t zeros[400];

    for (int r = 0; r < 2; r++) {
        ASSERT_OK(ranks_engine->open(&g->rank[r].config, g->rank[r].fds, &g->rank[r].comm, &err));
    }
    put_chunk(g->rank[2].fds[0], TCP_CHUNK_DATA, TCP_PHASE_INPUT, 0, 400, 100, 1);
    put(g->rank[2].fds[0], zeros, sizeof(zeros));
    return g;
}

static void close_with_one_ahead(struct ranks *g)
{
    close(g->rank[2].fds[0]);
    close(g->rank[2].fds[1]);
    ranks_close(g);
}

START_TEST(a_cause_behind_unread_data_is_found)
{
    struct ranks *g = open_with_one_ahead(10000);
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, abort_in_second, &g->rank[0]), 0);
    ranks_run(g, goes_ahead, NULL);
    pthread_join(thread, NULL);
    for (int r = 0; r < 2; r++) {
        ck_assert_msg(g->rank[r].code == EO_E_CANCELLED, "rank %d: %s", r, g->rank[r].err.message);
        ck_assert_str_eq(g->rank[r].err.message, "ahead of the others");
        ck_assert_uint_lt(g->rank[r].elapsed_ns, 2u * SECOND_NS);
    }
    close_with_one_ahead(g);
}
END_TEST

/* Both live ranks wait, each in another collective; neither blames the other. */
START_TEST(a_rank_that_waits_itself_is_not_blamed)
{
    for (int round = 0; round < 3; round++) {
        struct ranks *g = open_with_one_ahead(400);

        ranks_run(g, goes_ahead, NULL);
        for (int r = 0; r < 2; r++) {
            ck_assert_msg(g->rank[r].code == EO_E_PEER_TIMEOUT && g->rank[r].err.rank == 2 &&
                              strstr(g->rank[r].err.message, "rank 1") == NULL &&
                              strstr(g->rank[r].err.message, "rank 0") == NULL,
                          "rank %d: %s", r, g->rank[r].err.message);
        }
        close_with_one_ahead(g);
    }
}
END_TEST

/* ---- nothing is left ---- */

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

START_TEST(no_descriptor_leaks)
{
    int before = open_descriptors();
    uint64_t count = 10;

    for (int i = 0; i < 10; i++) {
        struct ranks *g = ranks_open(3, RANKS_TCP, 10000, NULL);

        ranks_run(g, i % 2 == 0 ? last_closes : last_sum_then_close, &count);
        ranks_close(g);
    }
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

START_TEST(open_refuses_and_keeps_nothing)
{
    struct ranks *g = ranks_connect(2, RANKS_UNIX, 0);
    struct collective_config config = g->rank[0].config;
    struct collective_comm *comm = NULL;
    int before = open_descriptors();
    int fds[2] = {-1, -1};

    ASSERT_CODE(ranks_engine->open(&config, fds, &comm, &err), EO_E_INTERNAL);
    ASSERT_CONTAINS(err.message, "no socket to rank 1");
    fds[1] = 1 << 20;
    ASSERT_CODE(ranks_engine->open(&config, fds, &comm, &err), EO_E_IO);
    config.rank = 2;
    ASSERT_CODE(ranks_engine->open(&config, g->rank[0].fds, &comm, &err), EO_E_INTERNAL);
    config.world_size = COLLECTIVE_MAX_RANKS + 1;
    ASSERT_CODE(ranks_engine->open(&config, g->rank[0].fds, &comm, &err), EO_E_INTERNAL);
    ck_assert_ptr_null(comm);
    ck_assert_int_eq(open_descriptors(), before);
    close(g->rank[0].fds[1]);
    close(g->rank[1].fds[0]);
    ranks_close(g);
}
END_TEST

START_TEST(the_table_of_engines)
{
    ck_assert_int_ge(collective_engine_count(), 1);
    for (int i = 0; i < collective_engine_count(); i++) {
        const struct collective_engine *e = collective_engine_at(i);

        ck_assert_uint_eq(e->abi, COLLECTIVE_ABI);
        ck_assert_uint_ge(e->version, 1);
        ck_assert_ptr_eq(collective_engine_find(e->name), e);
        ck_assert(e->summary[0] != '\0' && e->since[0] != '\0');
        ck_assert(strcmp(e->stability, "stable") == 0 || strcmp(e->stability, "experimental") == 0);
    }
    ck_assert_ptr_null(collective_engine_at(-1));
    ck_assert_ptr_null(collective_engine_at(collective_engine_count()));
    ck_assert_ptr_null(collective_engine_find("carrier-pigeon"));
}
END_TEST

EO_SUITE("tcp_faults", a_closed_connection_names_the_host, one_that_stays_away_is_named_after_the_deadline,
         leaving_after_the_last_collective_hurts_nobody, abort_wakes_all_waiters_with_its_cause,
         abort_between_collectives_reaches_the_peers, rubbish_is_refused, a_stranger_is_refused,
         a_second_opening_is_refused, a_truncated_header_is_a_lost_peer, a_stall_says_how_far_it_got,
         pings_do_not_extend_the_deadline, the_cause_is_read_before_the_end_of_the_stream,
         a_cause_behind_unread_data_is_found, a_rank_that_waits_itself_is_not_blamed, no_descriptor_leaks,
         open_refuses_and_keeps_nothing, the_table_of_engines)
