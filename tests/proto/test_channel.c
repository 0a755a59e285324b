#include "proto/channel.h"

#include "proto/base/clock.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct eo_error err;

static uint64_t in_ms(uint64_t ms)
{
    return eo_now_ns() + ms * 1000000u;
}

/* ---- one pair of connected channels per kind of socket: every test below runs on each ---- */

static const char *const kinds[] = {"socketpair", "tcp4", "tcp6", "unix"};

static void pair_by_listening(const char *kind, int fds[2])
{
    char text[128];
    struct eo_endpoint ep;
    struct eo_channel c;
    uint16_t port = 0;
    int listener = -1;

    snprintf(text, sizeof(text), "%s",
             strcmp(kind, "tcp4") == 0   ? "127.0.0.1:0"
             : strcmp(kind, "tcp6") == 0 ? "[::1]:0"
                                         : "unix:/tmp/eo-test-channel.sock");
    if (strcmp(kind, "unix") == 0) {
        snprintf(text, sizeof(text), "unix:/tmp/eo-test-channel-%ld.sock", (long)getpid());
    }
    ASSERT_OK(eo_endpoint_parse(text, &ep, &err));
    ASSERT_OK(eo_listen(&ep, &listener, &port, &err));
    ep.port = port;
    ASSERT_OK(eo_channel_connect(&c, &ep, in_ms(5000), &err));
    ck_assert_str_eq(c.peer, text); /* as typed, not as resolved */
    fds[0] = c.fd;
    fds[1] = accept(listener, NULL, NULL);
    ck_assert_int_ge(fds[1], 0);
    close(listener);
    if (ep.is_unix) {
        unlink(ep.host);
    }
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* False when this host cannot have such a pair. */
static bool open_pair(const char *kind, struct eo_channel *a, struct eo_channel *b)
{
    int fds[2];

    if (strcmp(kind, "tcp6") == 0 && !has_ipv6()) {
        printf("no IPv6 loopback here: tcp6 left out\n");
        return false;
    }
    if (strcmp(kind, "socketpair") == 0) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    } else {
        pair_by_listening(kind, fds);
    }
    ASSERT_OK(eo_channel_init(a, fds[0], &err));
    ASSERT_OK(eo_channel_init(b, fds[1], &err));
    return true;
}

static void close_pair(struct eo_channel *a, struct eo_channel *b)
{
    eo_channel_close(a);
    eo_channel_close(a); /* idempotent */
    eo_channel_close(b);
    ck_assert_int_eq(a->fd, -1);
}

/* Writes until it would block; returns the bytes the buffers took. */
static size_t fill(struct eo_channel *c)
{
    static char block[65536];
    struct iovec iov = {.iov_base = block, .iov_len = sizeof(block)};
    size_t total = 0, n;

    do {
        ASSERT_OK(eo_channel_writev(c, &iov, 1, &n, &err));
        total += n;
    } while (n > 0);
    ck_assert_int_eq(c->want, EO_WANT_WRITE);
    return total;
}

START_TEST(descriptors_are_prepared)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        int value = 0;
        socklen_t size = sizeof(value);

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        ck_assert_int_ne(fcntl(a.fd, F_GETFL) & O_NONBLOCK, 0);
        ck_assert_int_ne(fcntl(b.fd, F_GETFD) & FD_CLOEXEC, 0);
        ck_assert_str_eq(a.transport->name, "plain");
        if (strncmp(kinds[k], "tcp", 3) == 0) {
            ck_assert_int_eq(getsockopt(b.fd, IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
            ck_assert_int_ne(value, 0);
            ck_assert_int_eq(getsockopt(b.fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &size), 0);
            ck_assert_int_eq(value, 10);
            ck_assert_int_eq(getsockopt(b.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
            ck_assert_int_eq(value, 20000);
            ck_assert(strncmp(b.peer, strcmp(kinds[k], "tcp4") == 0 ? "127.0.0.1:" : "[::1]:", 6) == 0);
        } else {
            char expected[64];

            snprintf(expected, sizeof(expected), "unix:(pid %ld)", (long)getpid());
            ck_assert_str_eq(b.peer, expected);
        }
        close_pair(&a, &b);
    }
}
END_TEST

START_TEST(init_refuses_what_is_no_socket)
{
    struct eo_channel c;
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    ASSERT_CODE(eo_channel_init(&c, fds[0], &err), EO_E_IO);
    ck_assert_int_eq(c.fd, -1);
    ck_assert_int_eq(fcntl(fds[0], F_GETFD), -1); /* taken and closed */
    close(fds[1]);
    eo_channel_close(&c);
}
END_TEST

START_TEST(nothing_to_read_wants_read)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        char byte = 'x', got[4];
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        size_t n = 7;
        bool eof = true;

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        ASSERT_OK(eo_channel_read(&a, got, sizeof(got), &n, &eof, &err));
        ck_assert_uint_eq(n, 0);
        ck_assert(!eof);
        ck_assert_int_eq(a.want, EO_WANT_READ);
        ASSERT_OK(eo_channel_writev(&b, &iov, 1, &n, &err));
        ck_assert_uint_eq(n, 1);
        ck_assert_int_eq(b.want, 0);
        ASSERT_OK(eo_channel_read_full(&a, got, 1, in_ms(5000), &err));
        ck_assert_int_eq(got[0], 'x');
        ck_assert_int_eq(a.want, 0);
        ASSERT_OK(eo_channel_read(&a, got, 0, &n, &eof, &err)); /* of no bytes: no end of stream */
        ck_assert_uint_eq(n, 0);
        ck_assert(!eof);
        close_pair(&a, &b);
    }
}
END_TEST

START_TEST(short_reads_and_writes)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        size_t sent, received = 0, n;
        char got[1000];

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        sent = fill(&a);
        ck_assert_uint_gt(sent, 0);
        while (received < sent) {
            ASSERT_OK(eo_channel_read_full(&b, got, 1, in_ms(5000), &err));
            received++;
            ASSERT_OK(eo_channel_read(&b, got, EO_MIN(sizeof(got), sent - received), &n, NULL, &err));
            received += n;
        }
        ASSERT_OK(eo_channel_read(&b, got, 1, &n, NULL, &err));
        ck_assert_uint_eq(n, 0);
        close_pair(&a, &b);
    }
}
END_TEST

START_TEST(end_of_stream)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        struct iovec iov = {.iov_base = (char[]){"bye"}, .iov_len = 3};
        char got[8];
        size_t n;
        bool eof = false;

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        ASSERT_OK(eo_channel_writev(&a, &iov, 1, &n, &err));
        eo_channel_close(&a);
        ASSERT_CODE(eo_channel_read_full(&b, got, 5, in_ms(5000), &err), EO_E_CONNECTION_LOST);
        ASSERT_CONTAINS(err.contexts[0], "reading 5 bytes, 3 of them received");
        ASSERT_CONTAINS(err.message, b.peer);
        ck_assert_str_eq(err.host, b.peer);
        ASSERT_CODE(eo_channel_read(&b, got, 5, &n, &eof, &err), EO_E_CONNECTION_LOST);
        ck_assert(eof);
        ck_assert_uint_eq(n, 0);
        close_pair(&a, &b);
        ASSERT_CODE(eo_channel_read(&b, got, 5, &n, &eof, &err), EO_E_CONNECTION_LOST); /* closed on this side */
        ck_assert(!eof);
        ASSERT_CODE(eo_channel_writev(&b, &iov, 1, &n, &err), EO_E_CONNECTION_LOST);
    }
}
END_TEST

START_TEST(a_vanished_reader_is_an_error_and_no_signal)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        char byte = 'x';
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        int code = EO_OK;

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        eo_channel_close(&b);
        /* TCP needs a write that is answered by a reset before it fails. */
        for (uint64_t deadline = in_ms(5000); code == EO_OK && eo_now_ns() < deadline;) {
            code = eo_channel_write_full(&a, &iov, 1, deadline, &err);
        }
        ck_assert_int_eq(code, EO_E_CONNECTION_LOST);
        ck_assert_str_eq(err.causes[0].source, "errno");
        ASSERT_CONTAINS(err.contexts[0], "writing 1 bytes, 0 of them sent");
        close_pair(&a, &b);
    }
}
END_TEST

/* ---- blocking helpers ---- */

enum { N_PARTS = 40, PART = 50000 };

struct sender {
    struct eo_channel *c;
    uint8_t *data;
    struct eo_error err;
    int code;
};

/* More entries than one call takes, of odd sizes, with empty ones at both ends and between. */
static void *send_parts(void *arg)
{
    struct sender *s = arg;
    struct iovec iov[2 * N_PARTS + 20];
    int n = 0;
    size_t at = 0;

    for (int i = 0; i < 18; i++) {
        iov[n++] = (struct iovec){.iov_base = s->data, .iov_len = 0};
    }
    for (int i = 0; i < N_PARTS; i++) {
        size_t size = i + 1 < N_PARTS ? (size_t)(i * 977 % (2 * PART)) : (size_t)N_PARTS * PART - at;

        iov[n++] = (struct iovec){.iov_base = s->data + at, .iov_len = size};
        iov[n++] = (struct iovec){.iov_base = s->data, .iov_len = 0};
        at += size;
    }
    s->code = eo_channel_write_full(s->c, iov, n, in_ms(20000), &s->err);
    return NULL;
}

START_TEST(full_transfers)
{
    size_t size = (size_t)N_PARTS * PART;
    uint8_t *data = malloc(size), *got = malloc(size);

    ck_assert(data != NULL && got != NULL);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        struct sender s = {.c = &a, .data = data, .code = -1};
        pthread_t thread;

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        memset(got, 0, size);
        ck_assert_int_eq(pthread_create(&thread, NULL, send_parts, &s), 0);
        ASSERT_OK(eo_channel_read_full(&b, got, size, in_ms(20000), &err));
        pthread_join(thread, NULL);
        ck_assert_int_eq(s.code, EO_OK);
        ck_assert_int_eq(memcmp(data, got, size), 0);
        close_pair(&a, &b);
    }
    free(data);
    free(got);
}
END_TEST

START_TEST(deadlines)
{
    for (size_t k = 0; k < EO_COUNT_OF(kinds); k++) {
        struct eo_channel a, b;
        struct iovec iov = {.iov_base = (char[]){"abc"}, .iov_len = 3};
        char got[8];
        uint64_t start = eo_now_ns();

        if (!open_pair(kinds[k], &a, &b)) {
            continue;
        }
        ASSERT_OK(eo_channel_write_full(&b, &iov, 1, 0, &err));
        ASSERT_CODE(eo_channel_read_full(&a, got, 4, in_ms(30), &err), EO_E_TIMED_OUT);
        ASSERT_CONTAINS(err.message, "reading from");
        ASSERT_CONTAINS(err.message, "3 of 4 bytes");
        ck_assert_uint_ge(eo_now_ns() - start, 30000000u);
        ASSERT_CODE(eo_channel_read_full(&a, got, 4, 1, &err), EO_E_TIMED_OUT); /* long past: at once */
        (void)fill(&a);
        ASSERT_CODE(eo_channel_write_full(&a, &iov, 1, in_ms(30), &err), EO_E_TIMED_OUT);
        ASSERT_CONTAINS(err.message, "writing to");
        close_pair(&a, &b);
    }
}
END_TEST

START_TEST(nothing_to_transfer_is_done_at_once)
{
    struct eo_channel a, b;
    struct iovec none[2] = {{.iov_base = NULL, .iov_len = 0}, {.iov_base = NULL, .iov_len = 0}};

    ck_assert(open_pair("socketpair", &a, &b));
    ASSERT_OK(eo_channel_read_full(&a, NULL, 0, 1, &err));
    ASSERT_OK(eo_channel_write_full(&a, none, 2, 1, &err));
    ASSERT_OK(eo_channel_write_full(&a, NULL, 0, 1, &err));
    close_pair(&a, &b);
}
END_TEST

/* ---- another transport in the same place: one byte at a time, and reads that want to write first, as TLS may ---- */

struct scripted {
    int calls;
    int closed;
};

static ssize_t scripted_read(struct eo_channel *c, void *data, size_t size)
{
    struct scripted *s = c->state;

    if (s->calls++ % 2 == 0) {
        c->want = EO_WANT_WRITE;
        errno = EAGAIN;
        return -1;
    }
    return recv(c->fd, data, EO_MIN(size, (size_t)1), 0);
}

static ssize_t scripted_writev(struct eo_channel *c, const struct iovec *iov, int n)
{
    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len > 0) {
            return send(c->fd, iov[i].iov_base, 1, MSG_NOSIGNAL);
        }
    }
    return 0;
}

static void scripted_close(struct eo_channel *c)
{
    struct scripted *s = c->state;

    s->closed++;
    close(c->fd);
}

static const struct eo_transport scripted_transport = {"scripted", scripted_read, scripted_writev, scripted_close};

START_TEST(a_transport_plugs_in)
{
    struct scripted state = {0};
    struct eo_channel a, b;
    struct iovec iov[2] = {{.iov_base = (char[]){"hello "}, .iov_len = 6},
                           {.iov_base = (char[]){"there"}, .iov_len = 5}};
    char got[12] = "";

    ck_assert(open_pair("socketpair", &a, &b));
    a.transport = &scripted_transport;
    a.state = &state;
    ASSERT_OK(eo_channel_write_full(&a, iov, 2, in_ms(5000), &err));
    ASSERT_OK(eo_channel_read_full(&b, got, 11, in_ms(5000), &err));
    ck_assert_str_eq(got, "hello there");
    ASSERT_OK(eo_channel_write_full(&b, iov, 2, in_ms(5000), &err));
    memset(got, 0, sizeof(got));
    ASSERT_OK(eo_channel_read_full(&a, got, 11, in_ms(5000), &err));
    ck_assert_str_eq(got, "hello there");
    ck_assert_int_eq(state.calls, 22);
    close_pair(&a, &b);
    ck_assert_int_eq(state.closed, 1);
}
END_TEST

EO_SUITE("channel", descriptors_are_prepared, init_refuses_what_is_no_socket, nothing_to_read_wants_read,
         short_reads_and_writes, end_of_stream, a_vanished_reader_is_an_error_and_no_signal, full_transfers, deadlines,
         nothing_to_transfer_is_done_at_once, a_transport_plugs_in)
