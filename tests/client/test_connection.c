/* A connection and a daemon that behaves. */
#include "client/lib/connection.h"

#include "proto/base/clock.h"
#include "proto/op_schema.h"
#include "proto/version.h"
#include "tests/client/fake_server.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20 };

static struct eo_error err;

static struct eo_connection *open_to(const struct fake_server *s)
{
    struct eo_connection *c = NULL;
    ASSERT_OK(eo_connection_open(fake_server_endpoint(s), NULL, &c, &err));
    return c;
}

/* Answers everything with an empty map until the client leaves. */
static void polite(struct fake_peer *p)
{
    if (fake_hello(p, 1024)) {
        while (fake_read(p, NULL)) {
            fake_ok(p, p->request.id);
        }
    }
}

/* ---- hello ---- */

static void check_hello(struct fake_peer *p)
{
    char role[16] = "";
    char build[64] = "";
    char hash[32] = "";
    char wanted[32];
    int64_t min = 0;
    int64_t max = 0;
    if (!fake_read(p, "hello")) {
        return;
    }
    const struct eo_item *params = p->request.params;
    const struct eo_item *versions = eo_item_get(params, "versions");
    struct eo_error fault = {0};
    if (eo_need_str(params, "role", role, sizeof role, &fault) || eo_need_str(params, "build", build, 64, &fault) ||
        eo_need_str(params, "ops_hash", hash, sizeof hash, &fault) || !eo_item_as_i64(eo_item_at(versions, 0), &min) ||
        !eo_item_as_i64(eo_item_at(versions, 1), &max)) {
        fake_complain(p, "hello: %s", fault.message);
    }
    snprintf(wanted, sizeof wanted, "%016llx", (unsigned long long)eo_op_table_hash());
    if (strcmp(role, "client") != 0 || strcmp(build, eo_build()) != 0 || strcmp(hash, wanted) != 0 || min != 1 ||
        max != 1 || eo_item_count(versions) != 2) {
        fake_complain(p, "hello says role %s, build %s, ops_hash %s, versions %lld to %lld", role, build, hash,
                      (long long)min, (long long)max);
    }
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 4);
    eo_pack_kv_u64(b, "version", 1);
    eo_pack_kv_str(b, "node", "abc");
    eo_pack_kv_str(b, "from_the_future", "is ignored");
    eo_pack_str(b, "limits");
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "handles", 7);
    fake_send(p, NULL, 0);
    fake_wait_closed(p);
}

START_TEST(hello_says_who_and_learns_the_limits)
{
    struct fake_server *s = fake_server_start(check_hello, NULL);
    struct eo_connection *c = open_to(s);
    const struct eo_server_facts *f = eo_connection_facts(c);
    ck_assert_int_eq(f->version, 1);
    ck_assert_str_eq(f->node, "abc");
    ck_assert_str_eq(f->build, "");
    ck_assert_uint_eq(f->handle_limit, 7);
    ck_assert_uint_eq(f->chunk_limit, EO_CHUNK_MAX); /* what is not said has a default */
    ck_assert_uint_eq(f->pending_limit, 64);
    ck_assert_str_eq(eo_connection_host(c), fake_server_endpoint(s)->text);
    ck_assert_int_ge(eo_connection_fd(c), 0);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* ---- replies ---- */

static void echo(struct fake_peer *p)
{
    if (!fake_hello(p, 1024)) {
        return;
    }
    while (fake_read(p, NULL)) {
        struct eo_bytes *b = fake_result(p, p->request.id);
        eo_pack_map(b, 2);
        eo_pack_kv_str(b, "method", p->request.method);
        eo_pack_str(b, "params");
        eo_pack_item(b, p->request.params);
        fake_send(p, p->payload.data, p->payload.size);
    }
}

START_TEST(a_reply_outlives_later_traffic)
{
    struct fake_server *s = fake_server_start(echo, NULL);
    struct eo_connection *c = open_to(s);
    struct eo_reply first = {0};
    struct eo_reply second = {0};
    struct eo_bytes params;
    int64_t n = 0;
    char method[16];
    eo_bytes_init(&params, 64);
    eo_pack_map(&params, 1);
    eo_pack_kv_i64(&params, "n", 42);
    ASSERT_OK(eo_connection_call(c, "first", &params, "abc", 3, &first, &err));
    ASSERT_OK(eo_connection_call(c, "second", NULL, NULL, 0, &second, &err));
    ASSERT_OK(eo_need_str(first.result, "method", method, sizeof method, &err));
    ck_assert_str_eq(method, "first");
    ck_assert(eo_item_as_i64(eo_item_get(eo_item_get(first.result, "params"), "n"), &n));
    ck_assert_int_eq(n, 42);
    ck_assert_uint_eq(first.payload_size, 3);
    ck_assert_mem_eq(first.payload.data, "abc", 3);
    ck_assert_uint_eq(eo_item_count(eo_item_get(second.result, "params")), 0);
    ck_assert_uint_eq(second.payload_size, 0);
    eo_bytes_fini(&params);
    eo_reply_fini(&first);
    eo_reply_fini(&second);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* Three requests at once, answered third, first, second. */
static void shuffles(struct fake_peer *p)
{
    uint32_t ids[3];
    static const int order[3] = {2, 0, 1};
    if (!fake_hello(p, 1024)) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!fake_read(p, "get")) {
            return;
        }
        ids[i] = p->request.id;
    }
    for (int i = 0; i < 3; i++) {
        uint8_t payload[64 << 10];
        memset(payload, 'a' + order[i], sizeof payload);
        eo_pack_map(fake_result(p, ids[order[i]]), 0);
        fake_send(p, payload, sizeof payload);
    }
    fake_wait_closed(p);
}

START_TEST(replies_come_in_any_order)
{
    struct fake_server *s = fake_server_start(shuffles, NULL);
    struct eo_connection *c = open_to(s);
    static uint8_t into[3][64 << 10];
    static uint8_t wanted[64 << 10];
    uint32_t ids[3];
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &ids[i], &err));
        for (int k = 0; k < i; k++) {
            ck_assert_uint_ne(ids[i], ids[k]);
        }
    }
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(eo_connection_wait(c, ids[i], into[i], sizeof into[i], NULL, &err));
        memset(wanted, 'a' + i, sizeof wanted);
        ck_assert_mem_eq(into[i], wanted, sizeof wanted);
    }
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(payload_goes_straight_into_the_callers_buffer)
{
    struct fake_server *s = fake_server_start(echo, NULL);
    struct eo_connection *c = open_to(s);
    uint8_t *sent = malloc(4 * MIB);
    uint8_t *got = calloc(1, 4 * MIB);
    struct eo_reply reply = {0};
    uint32_t id = 0;
    for (size_t i = 0; i < 4 * MIB; i++) {
        sent[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    ASSERT_OK(eo_connection_request(c, "echo", NULL, sent, 4 * MIB, &id, &err)); /* reads nothing once it is sent */
    ASSERT_OK(eo_connection_wait(c, id, got, 4 * MIB, &reply, &err));
    ck_assert_mem_eq(sent, got, 4 * MIB);
    ck_assert_uint_eq(reply.payload_size, 4 * MIB);
    ck_assert_ptr_null(reply.payload.data); /* no copy was made on the way */
    eo_reply_fini(&reply);
    /* A reply that nobody waited for yet ends in the same place. */
    memset(got, 0, 4 * MIB);
    ASSERT_OK(eo_connection_request(c, "echo", NULL, sent, 1000, &id, &err));
    while (!eo_connection_ready(c, id)) {
        ASSERT_OK(eo_connection_pump(c, eo_now_ns() + 5000000000u, &err));
    }
    ASSERT_OK(eo_connection_wait(c, id, got, 1000, NULL, &err));
    ck_assert_mem_eq(sent, got, 1000);
    /* An empty payload has a destination too. */
    ASSERT_OK(eo_connection_request(c, "echo", NULL, NULL, 0, &id, &err));
    ASSERT_OK(eo_connection_wait(c, id, got, 0, NULL, &err));
    free(sent);
    free(got);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* Takes three large payloads before it answers the first. */
static void answers_after_three(struct fake_peer *p)
{
    uint32_t ids[3];
    if (!fake_hello(p, 10)) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!fake_read(p, "put")) {
            return;
        }
        ids[i] = p->request.id;
    }
    for (int i = 0; i < 3; i++) {
        fake_ok(p, ids[i]);
    }
    fake_wait_closed(p);
}

START_TEST(large_payloads_are_pipelined_too)
{
    struct fake_server *s = fake_server_start(answers_after_three, NULL);
    struct eo_connection *c = open_to(s);
    uint8_t *block = calloc(4, MIB);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(eo_connection_request(c, "put", NULL, block, 4 * MIB, NULL, &err));
    }
    ASSERT_OK(eo_connection_drain(c, &err));
    free(block);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

static void fails_some(struct fake_peer *p)
{
    if (!fake_hello(p, 1024)) {
        return;
    }
    for (int i = 0; fake_read(p, NULL); i++) {
        if (strcmp(p->request.method, "bad") == 0) {
            char message[32];
            snprintf(message, sizeof message, "request number %d", i);
            fake_fail(p, p->request.id, EO_E_BAD_HANDLE, message);
        } else {
            fake_ok(p, p->request.id);
        }
    }
}

START_TEST(what_nobody_waits_for_fails_at_the_drain)
{
    struct fake_server *s = fake_server_start(fails_some, NULL);
    struct eo_connection *c = open_to(s);
    ASSERT_OK(eo_connection_drain(c, &err)); /* nothing is open */
    ASSERT_OK(eo_connection_request(c, "good", NULL, NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_request(c, "bad", NULL, NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_request(c, "bad", NULL, NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_call(c, "good", NULL, NULL, 0, NULL, &err)); /* its own answer is good */
    ASSERT_CODE(eo_connection_drain(c, &err), EO_E_BAD_HANDLE);
    ck_assert_str_eq(err.message, "request number 1"); /* the first cause, once */
    ASSERT_OK(eo_connection_drain(c, &err));
    /* A failure that somebody waits for is not deferred. */
    ASSERT_CODE(eo_connection_call(c, "bad", NULL, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    ASSERT_OK(eo_connection_drain(c, &err));
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* ---- how much is under way ---- */

enum { WINDOW = 4, WINDOW_REQUESTS = 23 };

/* No more than WINDOW requests may be here before the first of them is answered. */
static void counts_window(struct fake_peer *p)
{
    int done = 0;
    if (!fake_hello(p, WINDOW)) {
        return;
    }
    while (done < WINDOW_REQUESTS) {
        uint32_t ids[WINDOW];
        int n = 0;
        for (; n < WINDOW && done + n < WINDOW_REQUESTS; n++) {
            if (!fake_read(p, "work")) {
                return;
            }
            ids[n] = p->request.id;
        }
        struct pollfd more = {.fd = p->channel.fd, .events = POLLIN};
        if (poll(&more, 1, 20) != 0) {
            fake_complain(p, "a request came although %d were unanswered", n);
        }
        for (int i = 0; i < n; i++) {
            fake_ok(p, ids[i]);
        }
        done += n;
    }
    fake_wait_closed(p);
}

START_TEST(no_more_is_under_way_than_the_daemon_takes)
{
    struct fake_server *s = fake_server_start(counts_window, NULL);
    struct eo_connection *c = open_to(s);
    for (int i = 0; i < WINDOW_REQUESTS; i++) {
        ASSERT_OK(eo_connection_request(c, "work", NULL, NULL, 0, NULL, &err));
    }
    ASSERT_OK(eo_connection_drain(c, &err));
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* Sends more than any socket buffers before it reads a byte of the request that is on its way. */
static void floods(struct fake_peer *p)
{
    uint8_t *block = calloc(1, MIB);
    if (fake_hello(p, 1024) && fake_read(p, "go")) {
        fake_ok(p, p->request.id);
    }
    for (int i = 0; i < 24; i++) {
        struct eo_bytes *b = fake_event(p, "job.event");
        eo_pack_map(b, 1);
        eo_pack_kv_i64(b, "n", i);
        fake_send(p, block, MIB);
    }
    free(block);
    if (fake_read(p, "big")) {
        if (p->payload.size != 24 * MIB) {
            fake_complain(p, "%zu bytes came", p->payload.size);
        }
        fake_ok(p, p->request.id);
    }
    fake_wait_closed(p);
}

static void count_event(void *ctx, const struct eo_envelope *event, const uint8_t *payload, size_t size)
{
    int *count = ctx;
    int64_t n = -1;
    ck_assert_str_eq(event->method, "job.event");
    ck_assert(eo_item_as_i64(eo_item_get(event->params, "n"), &n));
    ck_assert_int_eq(n, *count);
    ck_assert_uint_eq(size, MIB);
    ck_assert_uint_eq(payload[MIB - 1], 0);
    *count += 1;
}

START_TEST(two_full_sides_do_not_wait_for_each_other)
{
    struct fake_server *s = fake_server_start(floods, NULL);
    struct eo_connection *c = open_to(s);
    uint8_t *big = calloc(24, MIB);
    int events = 0;
    eo_connection_on_event(c, count_event, &events);
    ASSERT_OK(eo_connection_call(c, "go", NULL, NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_call(c, "big", NULL, big, 24 * MIB, NULL, &err));
    ck_assert_int_eq(events, 24);
    free(big);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

enum { LONG_QUEUE = 700, QUEUED_BYTES = 60 << 10 };

/* Answers only when all have come, so that the client's queue is what takes them. */
static void answers_late(struct fake_peer *p)
{
    uint32_t ids[LONG_QUEUE];
    if (!fake_hello(p, 1024)) {
        return;
    }
    for (int i = 0; i < LONG_QUEUE; i++) {
        if (!fake_read(p, "put")) {
            return;
        }
        ids[i] = p->request.id;
        if (p->payload.size != QUEUED_BYTES || p->payload.data[0] != (uint8_t)i ||
            p->payload.data[QUEUED_BYTES - 1] != (uint8_t)(i + 1)) {
            fake_complain(p, "payload %d is wrong", i);
        }
    }
    for (int i = 0; i < LONG_QUEUE; i++) {
        fake_ok(p, ids[i]);
    }
    fake_wait_closed(p);
}

START_TEST(a_long_queue_stays_bounded_and_whole)
{
    struct fake_server *s = fake_server_start(answers_late, NULL);
    struct eo_connection *c = open_to(s);
    uint8_t *block = calloc(1, QUEUED_BYTES);
    for (int i = 0; i < LONG_QUEUE; i++) { /* 41 MiB, of which at most 8 wait here */
        block[0] = (uint8_t)i;
        block[QUEUED_BYTES - 1] = (uint8_t)(i + 1);
        ASSERT_OK(eo_connection_request(c, "put", NULL, block, QUEUED_BYTES, NULL, &err));
    }
    ASSERT_OK(eo_connection_drain(c, &err));
    free(block);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(an_untaken_reply_keeps_its_place)
{
    struct fake_server *s = fake_server_start(echo, NULL);
    struct eo_connection *c = open_to(s);
    struct eo_reply reply = {0};
    uint32_t old = 0;
    char method[16];
    ASSERT_OK(eo_connection_request(c, "old", NULL, NULL, 0, &old, &err));
    for (int i = 0; i < 2500; i++) { /* twice around the table */
        ASSERT_OK(eo_connection_call(c, "new", NULL, NULL, 0, NULL, &err));
    }
    ck_assert(eo_connection_ready(c, old));
    ASSERT_OK(eo_connection_wait(c, old, NULL, 0, &reply, &err));
    ASSERT_OK(eo_need_str(reply.result, "method", method, sizeof method, &err));
    ck_assert_str_eq(method, "old");
    eo_reply_fini(&reply);
    ASSERT_CODE(eo_connection_wait(c, old, NULL, 0, NULL, &err), EO_E_INTERNAL); /* it was taken */
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(replies_that_nobody_takes_are_bounded)
{
    struct fake_server *s = fake_server_start(polite, NULL);
    struct eo_connection *c = open_to(s);
    uint32_t ids[1024];
    uint32_t more = 0;
    for (size_t i = 0; i < EO_COUNT_OF(ids); i++) {
        ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &ids[i], &err));
    }
    ASSERT_CODE(eo_connection_request(c, "get", NULL, NULL, 0, &more, &err), EO_E_BUSY);
    ASSERT_OK(eo_connection_wait(c, ids[500], NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &more, &err));
    ASSERT_OK(eo_connection_wait(c, more, NULL, 0, NULL, &err));
    eo_connection_close(c); /* the rest goes with it */
    fake_server_stop(s);
}
END_TEST

START_TEST(parameters_over_the_limit_are_refused_here)
{
    struct fake_server *s = fake_server_start(polite, NULL);
    struct eo_connection *c = open_to(s);
    struct eo_bytes params;
    char *text = malloc(EO_ENVELOPE_MAX);
    memset(text, 'x', EO_ENVELOPE_MAX);
    eo_bytes_init(&params, 2 * EO_ENVELOPE_MAX);
    eo_pack_map(&params, 1);
    eo_pack_str(&params, "text");
    eo_pack_str_n(&params, text, EO_ENVELOPE_MAX);
    ASSERT_CODE(eo_connection_call(c, "put", &params, NULL, 0, NULL, &err), EO_E_FRAME_TOO_LARGE);
    ASSERT_OK(eo_connection_call(c, "put", NULL, NULL, 0, NULL, &err)); /* nothing of it was sent */
    eo_bytes_fini(&params);
    free(text);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

EO_SUITE("client connection", hello_says_who_and_learns_the_limits, a_reply_outlives_later_traffic,
         replies_come_in_any_order, payload_goes_straight_into_the_callers_buffer, large_payloads_are_pipelined_too,
         what_nobody_waits_for_fails_at_the_drain, no_more_is_under_way_than_the_daemon_takes,
         two_full_sides_do_not_wait_for_each_other, a_long_queue_stays_bounded_and_whole,
         an_untaken_reply_keeps_its_place, replies_that_nobody_takes_are_bounded,
         parameters_over_the_limit_are_refused_here)
