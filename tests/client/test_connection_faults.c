/* A connection and everything that can go wrong at its other end. */
#include "client/lib/connection.h"

#include "proto/base/clock.h"
#include "tests/client/fake_server.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct eo_error err;

static struct eo_connection *open_to(const struct fake_server *s, uint64_t call_timeout_ms)
{
    const struct eo_connection_options options = {.call_timeout_ms = call_timeout_ms};
    struct eo_connection *c = NULL;
    ASSERT_OK(eo_connection_open(fake_server_endpoint(s), &options, &c, &err));
    return c;
}

static int try_open(fake_script script, void *ctx, uint64_t timeout_ms)
{
    const struct eo_connection_options options = {.timeout_ms = timeout_ms};
    struct eo_connection *c = NULL;
    struct fake_server *s = fake_server_start(script, ctx);
    memset(&err, 0, sizeof err);
    const int rc = eo_connection_open(fake_server_endpoint(s), &options, &c, &err);
    ck_assert_ptr_null(c);
    ck_assert_str_eq(err.host, fake_server_endpoint(s)->text);
    fake_server_stop(s);
    return rc;
}

/* ---- before hello is answered ---- */

START_TEST(nobody_listens)
{
    struct eo_endpoint ep;
    struct eo_connection *c = NULL;
    int fd = -1;
    uint16_t port = 0;
    char text[64];
    ASSERT_OK(eo_endpoint_parse("127.0.0.1:0", &ep, &err));
    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    close(fd); /* the port was free a moment ago, so nobody is there now */
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    ASSERT_OK(eo_endpoint_parse(text, &ep, &err));
    ASSERT_CODE(eo_connection_open(&ep, NULL, &c, &err), EO_E_UNREACHABLE);
    ck_assert_str_eq(err.host, text);
    ck_assert_int_ge(err.n_causes, 1);
    ASSERT_CONTAINS(err.causes[0].text, text); /* the address that refused */
    ck_assert(err.hint[0] != '\0');
}
END_TEST

START_TEST(a_listener_that_never_answers_hello)
{
    const uint64_t start = eo_now_ns();
    ASSERT_CODE(try_open(fake_wait_closed, NULL, 100), EO_E_UNREACHABLE);
    ck_assert_uint_ge(eo_now_ns() - start, 100000000u);
    ck_assert_int_eq(err.code, 1009);
    ASSERT_CONTAINS(err.message, "hello within 100 ms");
    ck_assert(err.hint[0] != '\0');
}
END_TEST

static void closes(struct fake_peer *p)
{
    fake_read(p, "hello");
}

START_TEST(closes_instead_of_answering)
{
    ASSERT_CODE(try_open(closes, NULL, 0), EO_E_CONNECTION_LOST);
    ASSERT_CONTAINS(err.hint, "log");
}
END_TEST

static void refuses(struct fake_peer *p)
{
    if (fake_read(p, "hello")) {
        fake_fail(p, p->request.id, EO_E_VERSION_MISMATCH, "this daemon speaks 7 to 9");
        fake_wait_closed(p);
    }
}

START_TEST(refuses_hello)
{
    ASSERT_CODE(try_open(refuses, NULL, 0), EO_E_VERSION_MISMATCH);
    ck_assert_str_eq(err.message, "this daemon speaks 7 to 9");
}
END_TEST

static void is_full(struct fake_peer *p)
{
    fake_fail(p, 0, EO_E_BUSY, "this daemon takes no more connections");
    fake_wait_closed(p);
}

START_TEST(refuses_the_connection)
{
    ASSERT_CODE(try_open(is_full, NULL, 0), EO_E_BUSY);
    ck_assert_str_eq(err.message, "this daemon takes no more connections");
}
END_TEST

struct bytes {
    const char *data;
    size_t size;
    int code;
    const char *says;
};

static void sends_bytes(struct fake_peer *p)
{
    const struct bytes *b = p->ctx;
    if (fake_read(p, "hello")) {
        fake_raw(p, b->data, b->size);
        fake_wait_closed(p);
    }
}

#define BYTES(text) .data = (text), .size = sizeof(text) - 1

START_TEST(something_else_answers)
{
    static const struct bytes cases[] = {
        {BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), EO_E_BAD_FRAME, "HTTP"},
        {BYTES("SSH-2.0-OpenSSH_9.2p1 Debian\r\n"), EO_E_BAD_FRAME, "SSH"},
        {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), EO_E_BAD_FRAME, "\\x00"},
        {BYTES("EO\x02\0\x01\0\0\0\0\0\0\0\0\0\0\0\xc0"), EO_E_BAD_FRAME, "version"},
        {BYTES("EO\x01\x80\x01\0\0\0\0\0\0\0\0\0\0\0\xc0"), EO_E_BAD_FRAME, "flags"},
        {BYTES("EO\x01\0\0\0\0\0\0\0\0\0\0\0\0\0"), EO_E_BAD_FRAME, "empty"},
        /* sizes that must not be believed */
        {BYTES("EO\x01\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0"), EO_E_FRAME_TOO_LARGE, "4294967295"},
        {BYTES("EO\x01\0\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), EO_E_FRAME_TOO_LARGE, "18446744073709551615"},
        {BYTES("EO\x01\0\x01\0\0\0\x01\0\x40\0\0\0\0\0"), EO_E_FRAME_TOO_LARGE, "4194305"},
        /* frames that hold no answer */
        {BYTES("EO\x01\0\x01\0\0\0\0\0\0\0\0\0\0\0\xc0"), EO_E_BAD_ENVELOPE, ""},
        {BYTES("EO\x01\0\x05\0\0\0\0\0\0\0\0\0\0\0\xdd\xff\xff\xff\xff"), EO_E_BAD_ENVELOPE, "array"},
        {BYTES("EO\x01\0\x08\0\0\0\0\0\0\0\0\0\0\0\x94\x00\x01\xa2hi\x80\x80"), EO_E_BAD_ENVELOPE, ""},
        {BYTES("EO\x01\0\x07\0\0\0\0\0\0\0\0\0\0\0\x94\x00\x01\xa2hi\x80"), EO_E_BAD_ENVELOPE, "request"},
        {BYTES("EO\x01\0\x05\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x63\xc0\x80"), EO_E_BAD_ENVELOPE, "request 99"},
        {BYTES("EO\x01\0\x05\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x01\x05\xc0"), EO_E_BAD_ENVELOPE, ""},
        /* hello answered without what is needed */
        {BYTES("EO\x01\0\x05\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x01\xc0\x80"), EO_E_BAD_PARAMS, "version"},
        {BYTES("EO\x01\0\x0e\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x01\xc0\x81\xa7version\x01"), EO_E_BAD_PARAMS, "limits"},
        {BYTES("EO\x01\0\x16\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x01\xc0\x82\xa7version\x63\xa6limits\x80"),
         EO_E_VERSION_MISMATCH, "99"},
        {BYTES("EO\x01\0\x1d\0\0\0\0\0\0\0\0\0\0\0\x94\x01\x01\xc0\x82\xa7version\x01\xa6limits\x81\xa5"
               "chunk\x00"),
         EO_E_BAD_PARAMS, "0 bytes"},
    };
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        struct bytes b = cases[i];
        const int rc = try_open(sends_bytes, &b, 0);
        ck_assert_msg(rc == cases[i].code, "case %zu gives EO-%d: %s", i, rc, err.message);
        ck_assert_int_eq(err.code, rc);
        ASSERT_CONTAINS(err.message, cases[i].says);
    }
}
END_TEST

/* ---- afterwards ---- */

/* A good reply of 8 bytes payload, of which the first n bytes are sent; then the end. */
static void cuts(struct fake_peer *p)
{
    const size_t n = *(const size_t *)p->ctx;
    static const char reply[] = "EO\x01\0\x05\0\0\0\x08\0\0\0\0\0\0\0\x94\x01\x02\xc0\x80"
                                "payload!";
    if (fake_hello(p, 10) && fake_read(p, "get")) {
        fake_raw(p, reply, EO_MIN(n, sizeof reply - 1));
    }
}

START_TEST(ends_in_the_middle_of_a_frame)
{
    uint8_t into[8];
    uint32_t id = 0;
    for (size_t n = 0; n < 29; n++) {
        struct fake_server *s = fake_server_start(cuts, &n);
        struct eo_connection *c = open_to(s, 0);
        ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &id, &err));
        ASSERT_CODE(eo_connection_wait(c, id, into, sizeof into, NULL, &err), EO_E_CONNECTION_LOST);
        ck_assert_str_eq(err.host, fake_server_endpoint(s)->text);
        /* From now on every call says so. */
        ASSERT_CODE(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err), EO_E_CONNECTION_LOST);
        ASSERT_CODE(eo_connection_pump(c, 0, &err), EO_E_CONNECTION_LOST);
        ASSERT_CODE(eo_connection_drain(c, &err), EO_E_CONNECTION_LOST);
        eo_connection_close(c);
        fake_server_stop(s);
    }
}
END_TEST

START_TEST(the_last_words_are_heard)
{
    const size_t all = 29;
    size_t n = all;
    uint8_t into[8];
    uint32_t id = 0;
    struct fake_server *s = fake_server_start(cuts, &n);
    struct eo_connection *c = open_to(s, 0);
    ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &id, &err));
    /* Reply and end of stream are both there before anybody looks. */
    int rc = EO_OK;
    while (rc == EO_OK && !eo_connection_ready(c, id)) {
        rc = eo_connection_pump(c, eo_now_ns() + 5000000000u, &err);
    }
    while (rc == EO_OK) {
        rc = eo_connection_pump(c, eo_now_ns() + 5000000000u, &err);
    }
    ck_assert_int_eq(rc, EO_E_CONNECTION_LOST);
    ASSERT_OK(eo_connection_wait(c, id, into, sizeof into, NULL, &err));
    ck_assert_mem_eq(into, "payload!", 8);
    ASSERT_CODE(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err), EO_E_CONNECTION_LOST);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

static void sends_8(struct fake_peer *p)
{
    if (fake_hello(p, 10)) {
        while (fake_read(p, NULL)) {
            eo_pack_map(fake_result(p, p->request.id), 0);
            fake_send(p, "12345678", 8);
        }
    }
}

START_TEST(another_size_than_asked_for)
{
    struct fake_server *s = fake_server_start(sends_8, NULL);
    struct eo_connection *c = open_to(s, 0);
    uint8_t into[9] = {0};
    uint32_t id = 0;
    for (size_t size = 7; size <= 9; size++) {
        ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &id, &err));
        if (size == 8) {
            ASSERT_OK(eo_connection_wait(c, id, into, size, NULL, &err));
        } else {
            ASSERT_CODE(eo_connection_wait(c, id, into, size, NULL, &err), EO_E_BAD_ENVELOPE);
            ASSERT_CONTAINS(err.message, "8 bytes");
        }
    }
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* Answers "slow" only when "quick" has come. */
static void dawdles(struct fake_peer *p)
{
    if (fake_hello(p, 10) && fake_read(p, "slow")) {
        const uint32_t slow = p->request.id;
        if (fake_read(p, "quick")) {
            const uint32_t quick = p->request.id;
            fake_fail(p, slow, EO_E_BUSY, "too late");
            fake_ok(p, quick);
            fake_wait_closed(p);
        }
    }
}

START_TEST(a_late_answer_is_dropped)
{
    struct fake_server *s = fake_server_start(dawdles, NULL);
    struct eo_connection *c = open_to(s, 50);
    ASSERT_CODE(eo_connection_call(c, "slow", NULL, NULL, 0, NULL, &err), EO_E_TIMED_OUT);
    ASSERT_CONTAINS(err.message, "slow");
    ck_assert_str_eq(err.host, fake_server_endpoint(s)->text);
    ASSERT_OK(eo_connection_call(c, "quick", NULL, NULL, 0, NULL, &err));
    ASSERT_OK(eo_connection_drain(c, &err)); /* nor is it a deferred failure */
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

/* Half a payload, then silence. */
static void stops_half_way(struct fake_peer *p)
{
    static const char half[] = "EO\x01\0\x05\0\0\0\x08\0\0\0\0\0\0\0\x94\x01\x02\xc0\x80"
                               "payl";
    if (fake_hello(p, 10) && fake_read(p, "get")) {
        fake_raw(p, half, sizeof half - 1);
        fake_wait_closed(p);
    }
}

START_TEST(half_a_payload_ends_the_connection)
{
    struct fake_server *s = fake_server_start(stops_half_way, NULL);
    struct eo_connection *c = open_to(s, 50);
    uint8_t *into = malloc(8);
    uint32_t id = 0;
    ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &id, &err));
    ASSERT_CODE(eo_connection_wait(c, id, into, 8, NULL, &err), EO_E_TIMED_OUT);
    free(into); /* which the connection must not write to any more */
    ASSERT_CODE(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err), EO_E_CONNECTION_LOST);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

static void answers_twice(struct fake_peer *p)
{
    if (fake_hello(p, 10) && fake_read(p, "get")) {
        fake_ok(p, p->request.id);
        fake_ok(p, p->request.id);
        fake_wait_closed(p);
    }
}

START_TEST(two_answers_to_one_request)
{
    struct fake_server *s = fake_server_start(answers_twice, NULL);
    struct eo_connection *c = open_to(s, 0);
    ASSERT_OK(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err));
    int rc = EO_OK;
    while (rc == EO_OK) {
        rc = eo_connection_pump(c, eo_now_ns() + 5000000000u, &err);
    }
    ck_assert_int_eq(rc, EO_E_BAD_ENVELOPE);
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

static void accepts_only(struct fake_peer *p)
{
    char done = 0;
    const int *pipe_end = p->ctx;
    fake_hello(p, 10);
    if (read(*pipe_end, &done, 1) != 1) { /* the test says when */
        fake_complain(p, "the test went away");
    }
}

START_TEST(a_large_payload_gives_up_in_time)
{
    enum { BIG = 60 << 20 };
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct fake_server *s = fake_server_start(accepts_only, &ends[0]);
    struct eo_connection *c = open_to(s, 50);
    uint8_t *big = calloc(1, BIG);
    ASSERT_CODE(eo_connection_call(c, "put", NULL, big, BIG, NULL, &err), EO_E_TIMED_OUT);
    free(big);
    /* Part of the frame is out: the stream cannot go on. */
    ASSERT_CODE(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err), EO_E_TIMED_OUT);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    eo_connection_close(c);
    fake_server_stop(s);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- fork ---- */

START_TEST(a_child_cannot_use_it)
{
    struct fake_server *s = fake_server_start(sends_8, NULL);
    struct eo_connection *c = open_to(s, 0);
    uint32_t id = 0;
    ASSERT_OK(eo_connection_request(c, "get", NULL, NULL, 0, &id, &err));
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct eo_error e = {0};
        int wrong = eo_connection_call(c, "get", NULL, NULL, 0, NULL, &e) != EO_E_CONNECTION_LOST;
        wrong |= eo_connection_wait(c, id, NULL, 0, NULL, &e) != EO_E_CONNECTION_LOST;
        wrong |= eo_connection_drain(c, &e) != EO_E_CONNECTION_LOST;
        wrong |= eo_connection_pump(c, 0, &e) != EO_E_CONNECTION_LOST;
        wrong |= strstr(e.message, "parent") == NULL;
        eo_connection_close(c);
        _exit(wrong);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ASSERT_OK(eo_connection_wait(c, id, NULL, 0, NULL, &err)); /* the parent's goes on */
    ASSERT_OK(eo_connection_call(c, "get", NULL, NULL, 0, NULL, &err));
    eo_connection_close(c);
    fake_server_stop(s);
}
END_TEST

EO_SUITE("client connection faults", nobody_listens, a_listener_that_never_answers_hello, closes_instead_of_answering,
         refuses_hello, refuses_the_connection, something_else_answers, ends_in_the_middle_of_a_frame,
         the_last_words_are_heard, another_size_than_asked_for, a_late_answer_is_dropped,
         half_a_payload_ends_the_connection, two_answers_to_one_request, a_large_payload_gives_up_in_time,
         a_child_cannot_use_it)
