/* Ranks as threads of one process. A "daemon" here is a thread that accepts, answers hello and hands the descriptor to
 * its rank, as everyod does with its worker. */
#include "daemon/worker/rank_sockets.h"
#include "proto/base/clock.h"
#include "proto/codec.h"
#include "proto/error_codec.h"
#include "proto/frame.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORLD = 4 };

struct fake_daemon {
    int listener;
    pthread_t thread;
    struct rank_sockets *sockets; /* where accepted descriptors go */
    int refuse;                   /* a code to refuse with, 0 = welcome */
    int n_accept;
    struct collective_config *config;
};

static struct collective_config configs[WORLD];
static struct fake_daemon daemons[WORLD];
static struct rank_sockets *sockets[WORLD];
static _Atomic int stop;

static void read_full(int fd, void *out, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        ck_assert_int_eq(poll(&p, 1, 20000), 1);
        ssize_t n = recv(fd, (char *)out + at, size - at, 0);
        ck_assert_int_gt(n, 0);
        at += (size_t)n;
    }
}

/* Reads a hello and checks what the rank says of itself. Returns its rank. */
static int read_hello(const struct fake_daemon *d, int fd)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    uint8_t body[4096];
    struct eo_frame_header h;
    struct eo_doc doc;
    struct eo_envelope e;
    struct eo_error err = {0};
    int64_t from = -1;
    int64_t to = -1;
    uint64_t epoch = 0;
    char text[40];
    const uint8_t *token = NULL;
    size_t token_size = 0;

    read_full(fd, header, sizeof(header));
    ASSERT_OK(eo_frame_decode(header, 0, &h, &err));
    ck_assert_uint_le(h.envelope_size, sizeof(body));
    read_full(fd, body, h.envelope_size);
    ASSERT_OK(eo_envelope_parse(&doc, &e, body, h.envelope_size, &err));
    ck_assert_str_eq(e.method, "hello");
    ASSERT_OK(eo_need_str(e.params, "role", text, sizeof(text), &err));
    ck_assert_str_eq(text, "data");
    ASSERT_OK(eo_need_str(e.params, "job", text, sizeof(text), &err));
    ck_assert_str_eq(text, "000102030405060708090a0b0c0d0e0f");
    ASSERT_OK(eo_need_u64(e.params, "epoch", UINT64_MAX, &epoch, &err));
    ck_assert(epoch == UINT64_MAX - 1);
    ASSERT_OK(eo_need_i64(e.params, "from_rank", 0, WORLD - 1, &from, &err));
    ASSERT_OK(eo_need_i64(e.params, "to_rank", 0, WORLD - 1, &to, &err));
    ck_assert_int_eq(to, d->config->rank);
    ck_assert_int_gt(from, to);
    ck_assert(eo_item_as_bin(eo_item_get(e.params, "token"), &token, &token_size));
    ck_assert_uint_eq(token_size, sizeof(d->config->token));
    ck_assert_mem_eq(token, d->config->token, token_size);
    eo_doc_fini(&doc);
    return (int)from;
}

static void answer(const struct fake_daemon *d, int fd)
{
    struct eo_bytes b;
    uint8_t header[EO_FRAME_HEADER_SIZE];

    eo_bytes_init(&b, 1 << 16);
    if (d->refuse != 0) {
        struct eo_error no = {0};

        EO_RAISE(&no, d->refuse, "STALE_EPOCH: another epoch runs here");
        eo_pack_failure(&b, 1, &no);
    } else {
        eo_pack_result(&b, 1);
        eo_pack_map(&b, 0);
    }
    const struct eo_frame_header h = {.envelope_size = (uint32_t)b.size};

    eo_frame_encode(&h, header);
    ck_assert_int_eq(send(fd, header, sizeof(header), MSG_NOSIGNAL), (ssize_t)sizeof(header));
    ck_assert_int_eq(send(fd, b.data, b.size, MSG_NOSIGNAL), (ssize_t)b.size);
    eo_bytes_fini(&b);
}

static void *serve(void *ctx)
{
    struct fake_daemon *d = ctx;

    for (int i = 0; i < d->n_accept; i++) {
        struct pollfd p = {.fd = d->listener, .events = POLLIN};

        ck_assert_int_eq(poll(&p, 1, 20000), 1);
        int fd = accept(d->listener, NULL, NULL);
        ck_assert_int_ge(fd, 0);
        const int from = read_hello(d, fd);
        answer(d, fd);
        if (d->refuse != 0) {
            close(fd);
        } else {
            rank_sockets_give(d->sockets, fd, from);
        }
    }
    return NULL;
}

static void set_up(void)
{
    struct eo_error err = {0};

    atomic_store(&stop, 0);
    memset(configs, 0, sizeof(configs));
    for (int r = 0; r < WORLD; r++) {
        struct collective_config *g = &configs[r];
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(at);

        ASSERT_OK(rank_sockets_new(&sockets[r], &err));
        daemons[r] = (struct fake_daemon){.sockets = sockets[r], .config = g, .n_accept = WORLD - 1 - r};
        daemons[r].listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(daemons[r].listener, (struct sockaddr *)&at, sizeof(at)), 0);
        ck_assert_int_eq(listen(daemons[r].listener, 8), 0);
        ck_assert_int_eq(getsockname(daemons[r].listener, (struct sockaddr *)&at, &size), 0);
        g->rank = r;
        g->world_size = WORLD;
        g->epoch = UINT64_MAX - 1;
        for (size_t i = 0; i < sizeof(g->job); i++) {
            g->job[i] = (uint8_t)i;
        }
        memset(g->token, 0x5a, sizeof(g->token));
        for (int k = 0; k < WORLD; k++) {
            snprintf(configs[k].hosts[r], sizeof(configs[k].hosts[r]), "127.0.0.1:%d", ntohs(at.sin_port));
        }
    }
}

static void tear_down(void)
{
    for (int r = 0; r < WORLD; r++) {
        rank_sockets_free(sockets[r]);
        close(daemons[r].listener);
    }
}

static void start_daemon(int r)
{
    ck_assert_int_eq(pthread_create(&daemons[r].thread, NULL, serve, &daemons[r]), 0);
}

static void join_daemon(int r)
{
    pthread_join(daemons[r].thread, NULL);
}

struct rank {
    int rank;
    pthread_t thread;
    int fds[COLLECTIVE_MAX_RANKS];
    int code;
    struct eo_error err;
};

static void *connect_rank(void *ctx)
{
    struct rank *r = ctx;

    r->code = rank_sockets_connect(sockets[r->rank], &configs[r->rank], &stop, r->fds, &r->err);
    return NULL;
}

static void start_rank(struct rank *r, int rank)
{
    memset(r, 0, sizeof(*r));
    r->rank = rank;
    ck_assert_int_eq(pthread_create(&r->thread, NULL, connect_rank, r), 0);
}

static void join_rank(struct rank *r)
{
    pthread_join(r->thread, NULL);
}

START_TEST(every_pair_is_connected)
{
    struct rank ranks[WORLD];

    set_up();
    for (int r = 0; r < WORLD; r++) {
        start_daemon(r);
    }
    for (int r = WORLD - 1; r >= 0; r--) { /* the highest first: descriptors come before anybody waits */
        start_rank(&ranks[r], r);
    }
    for (int r = 0; r < WORLD; r++) {
        join_rank(&ranks[r]);
        join_daemon(r);
        ck_assert_msg(ranks[r].code == EO_OK, "rank %d: %s", r, ranks[r].err.message);
        ck_assert_int_eq(ranks[r].fds[r], -1);
    }
    for (int a = 0; a < WORLD; a++) {
        for (int b = 0; b < WORLD; b++) {
            const uint8_t sent = (uint8_t)(16 * a + b);

            if (a != b) {
                ck_assert_int_eq(send(ranks[a].fds[b], &sent, 1, MSG_NOSIGNAL), 1);
            }
        }
    }
    for (int a = 0; a < WORLD; a++) {
        for (int b = 0; b < WORLD; b++) {
            uint8_t got = 0;

            if (a != b) {
                read_full(ranks[b].fds[a], &got, 1);
                ck_assert_int_eq(got, 16 * a + b);
                close(ranks[b].fds[a]);
            }
        }
    }
    tear_down();
}
END_TEST

START_TEST(a_refusal_is_passed_on)
{
    struct rank r;

    set_up();
    daemons[0].refuse = EO_E_PEER_REJECTED;
    daemons[0].n_accept = 1;
    start_daemon(0);
    start_rank(&r, 1);
    join_rank(&r);
    join_daemon(0);
    ck_assert_int_eq(r.code, EO_E_PEER_REJECTED);
    ASSERT_CONTAINS(r.err.message, "STALE_EPOCH");
    ck_assert_str_eq(r.err.host, configs[1].hosts[0]);
    ck_assert_int_eq(r.err.rank, 0);
    ck_assert_int_eq(r.fds[0], -1);
    tear_down();
}
END_TEST

START_TEST(nobody_listens)
{
    struct rank r;

    set_up();
    close(daemons[0].listener);
    daemons[0].listener = -1;
    start_rank(&r, 1);
    join_rank(&r);
    ck_assert_int_eq(r.code, EO_E_UNREACHABLE);
    ck_assert_str_eq(r.err.host, configs[1].hosts[0]);
    ck_assert(r.err.n_contexts > 0);
    tear_down();
}
END_TEST

START_TEST(an_abort_ends_the_wait)
{
    struct rank r;
    const uint64_t begin = eo_now_ns();

    set_up();
    start_rank(&r, 0); /* waits for three that do not come */
    rank_sockets_abort(sockets[0]);
    join_rank(&r);
    ck_assert_int_eq(r.code, EO_E_PEER_LOST);
    ck_assert(eo_now_ns() - begin < (uint64_t)5000000000);
    tear_down();
}
END_TEST

START_TEST(a_stop_ends_the_wait)
{
    struct rank r;
    const uint64_t begin = eo_now_ns();

    set_up();
    start_rank(&r, 0);
    atomic_store(&stop, 1);
    join_rank(&r);
    ck_assert_int_eq(r.code, EO_E_PEER_LOST);
    ck_assert(eo_now_ns() - begin < (uint64_t)5000000000);
    tear_down();
}
END_TEST

/* What came from others is closed when the rank itself fails. */
START_TEST(half_a_mesh_is_taken_down)
{
    struct rank r;
    int pair[2];
    uint8_t byte = 0;

    set_up();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    rank_sockets_give(sockets[1], pair[0], 2);
    daemons[0].n_accept = 1;
    start_daemon(0);
    start_rank(&r, 1); /* connects to 0, has 2, waits for 3 */
    join_daemon(0);
    rank_sockets_abort(sockets[1]);
    join_rank(&r);
    ck_assert_int_eq(r.code, EO_E_PEER_LOST);
    for (int i = 0; i < WORLD; i++) {
        ck_assert_int_eq(r.fds[i], -1);
    }
    tear_down();
    ck_assert_int_eq(recv(pair[1], &byte, 1, 0), 0); /* closed, at the latest by free */
    close(pair[1]);
}
END_TEST

START_TEST(descriptors_nobody_expects)
{
    uint8_t byte = 0;
    const int wrong[] = {-1, COLLECTIVE_MAX_RANKS, COLLECTIVE_MAX_RANKS + 7, 2 /* again */};
    int first[2];

    set_up();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
    rank_sockets_give(sockets[0], first[0], 2);
    for (size_t i = 0; i < EO_COUNT_OF(wrong); i++) {
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        rank_sockets_give(sockets[0], pair[0], wrong[i]);
        ck_assert_int_eq(recv(pair[1], &byte, 1, 0), 0);
        close(pair[1]);
    }
    ck_assert_int_eq(recv(first[1], &byte, 1, MSG_DONTWAIT), -1); /* the first one lives */
    tear_down();
    close(first[1]);
}
END_TEST

EO_SUITE("rank sockets", every_pair_is_connected, a_refusal_is_passed_on, nobody_listens, an_abort_ends_the_wait,
         a_stop_ends_the_wait, half_a_mesh_is_taken_down, descriptors_nobody_expects)
