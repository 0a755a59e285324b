/* Listening and connecting: what can be in the way, and what is said about it. */
#include "proto/base/clock.h"
#include "proto/channel.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct eo_error err;
static struct eo_channel channel;

static uint64_t in_ms(uint64_t ms)
{
    return eo_now_ns() + ms * 1000000u;
}

static struct eo_endpoint endpoint(const char *text)
{
    struct eo_endpoint ep = {.port = 0};

    ASSERT_OK(eo_endpoint_parse(text, &ep, &err));
    return ep;
}

static struct eo_endpoint unix_endpoint(void)
{
    char text[64];

    snprintf(text, sizeof(text), "unix:/tmp/eo-test-listen-%ld.sock", (long)getpid());
    return endpoint(text);
}

START_TEST(tcp_gets_a_port_from_the_kernel)
{
    struct eo_endpoint ep = endpoint("127.0.0.1:0");
    uint16_t port = 0, again = 0;
    int fd = -1, second = -1, accepted;

    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    ck_assert_uint_gt(port, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);

    ep.port = port;
    ASSERT_CODE(eo_listen(&ep, &second, &again, &err), EO_E_ADDRESS_IN_USE);
    ASSERT_CONTAINS(err.message, "127.0.0.1:0");
    ASSERT_CONTAINS(err.hint, "--listen");
    ck_assert_int_eq(second, -1);

    ASSERT_OK(eo_channel_connect(&channel, &ep, in_ms(5000), &err));
    accepted = accept(fd, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    close(accepted);
    eo_channel_close(&channel);
    close(fd);
    /* The port of a connection in TIME_WAIT may be listened on again at once. */
    ASSERT_OK(eo_listen(&ep, &fd, &again, &err));
    ck_assert_uint_eq(again, port);
    close(fd);
}
END_TEST

START_TEST(tcp_addresses_that_cannot_be)
{
    struct eo_endpoint elsewhere = endpoint("192.0.2.1:0"); /* TEST-NET-1: no interface has it */
    struct eo_endpoint nowhere = endpoint("no-such-host.invalid:1");
    uint16_t port = 0;
    int fd = -1;

    ASSERT_CODE(eo_listen(&elsewhere, &fd, &port, &err), EO_E_CANNOT_CREATE);
    ASSERT_CONTAINS(err.hint, "no interface");
    ASSERT_CODE(eo_listen(&nowhere, &fd, &port, &err), EO_E_UNREACHABLE);
    ck_assert_str_eq(err.causes[0].source, "resolver");
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(connecting_to_nobody)
{
    struct eo_endpoint ep = endpoint("127.0.0.1:0");
    char expected[64];
    uint16_t port = 0;
    int fd = -1;

    ASSERT_CODE(eo_channel_connect(&channel, &ep, in_ms(5000), &err), EO_E_BAD_ENDPOINT);
    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    close(fd);
    ep.port = port;
    ASSERT_CODE(eo_channel_connect(&channel, &ep, in_ms(5000), &err), EO_E_UNREACHABLE);
    ck_assert_int_eq(channel.fd, -1);
    ASSERT_CONTAINS(err.message, "Connection refused");
    ASSERT_CONTAINS(err.hint, "Nothing listens there");
    ck_assert_str_eq(err.host, "127.0.0.1:0"); /* as typed */
    ck_assert_int_eq(err.causes[0].code, ECONNREFUSED);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u: Connection refused", (unsigned)port);
    ck_assert_str_eq(err.causes[0].text, expected);
    ck_assert_int_eq(eo_code_exit(err.code), 69);

    ep = endpoint("no-such-host.invalid:1");
    ASSERT_CODE(eo_channel_connect(&channel, &ep, in_ms(5000), &err), EO_E_UNREACHABLE);
    ASSERT_CONTAINS(err.message, "no-such-host.invalid:1");
}
END_TEST

START_TEST(names_try_all_their_addresses)
{
    struct eo_endpoint only_v4 = endpoint("127.0.0.1:0");
    struct eo_endpoint name = endpoint("localhost:1");
    uint16_t port = 0;
    int fd = -1;

    /* Where localhost is ::1 first, that attempt is refused and the next one wins. */
    ASSERT_OK(eo_listen(&only_v4, &fd, &port, &err));
    name.port = port;
    ASSERT_OK(eo_channel_connect(&channel, &name, in_ms(5000), &err));
    ck_assert_str_eq(channel.peer, "localhost:1");
    eo_channel_close(&channel);
    close(fd);
    ASSERT_CODE(eo_channel_connect(&channel, &name, in_ms(5000), &err), EO_E_UNREACHABLE);
}
END_TEST

/* A listener whose queue is full answers nothing, like a host behind a silent firewall. */
START_TEST(connecting_to_a_silent_host_ends_at_the_deadline)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct eo_endpoint ep = endpoint("127.0.0.1:1");
    socklen_t length = sizeof(any);
    struct eo_channel waiting[8];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = 0;
    int code = EO_OK;
    uint64_t start = 0;

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&any, &length), 0);
    ep.port = ntohs(any.sin_port);
    while (code == EO_OK && n < 8) {
        start = eo_now_ns();
        code = eo_channel_connect(&waiting[n], &ep, in_ms(60), &err);
        n += code == EO_OK ? 1 : 0;
    }
    ck_assert_int_eq(code, EO_E_TIMED_OUT);
    ck_assert_uint_ge(eo_now_ns() - start, 60000000u);
    ck_assert_uint_lt(eo_now_ns() - start, 10000000000u);
    ASSERT_CONTAINS(err.message, "connecting to 127.0.0.1:1");
    ASSERT_CONTAINS(err.hint, "firewall");
    while (n > 0) {
        eo_channel_close(&waiting[--n]);
    }
    close(fd);
}
END_TEST

START_TEST(unix_socket_is_private)
{
    struct eo_endpoint ep = unix_endpoint();
    struct stat st;
    uint16_t port = 77;
    int fd = -1, second = -1;

    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    ck_assert_uint_eq(port, 0);
    ck_assert_int_eq(stat(ep.host, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ASSERT_CODE(eo_listen(&ep, &second, &port, &err), EO_E_ADDRESS_IN_USE);
    ck_assert_int_eq(access(ep.host, F_OK), 0); /* the live one keeps its socket */
    ASSERT_OK(eo_channel_connect(&channel, &ep, in_ms(5000), &err));
    eo_channel_close(&channel);
    close(fd);
    unlink(ep.host);
}
END_TEST

START_TEST(stale_unix_socket_is_replaced)
{
    struct eo_endpoint ep = unix_endpoint();
    uint16_t port;
    int fd = -1;

    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    close(fd); /* ends without unlink, as a killed process does */
    ASSERT_CODE(eo_channel_connect(&channel, &ep, in_ms(5000), &err), EO_E_UNREACHABLE);
    ASSERT_OK(eo_listen(&ep, &fd, &port, &err));
    ASSERT_OK(eo_channel_connect(&channel, &ep, in_ms(5000), &err));
    eo_channel_close(&channel);
    close(fd);
    unlink(ep.host);
}
END_TEST

START_TEST(other_files_are_not_replaced)
{
    struct eo_endpoint ep = unix_endpoint();
    struct eo_endpoint deep = endpoint("unix:/nonexistent/dir/sock");
    uint16_t port;
    struct stat st;
    int fd = open(ep.host, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    close(fd);
    fd = -1;
    ASSERT_CODE(eo_listen(&ep, &fd, &port, &err), EO_E_ADDRESS_IN_USE);
    ck_assert_int_eq(stat(ep.host, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    unlink(ep.host);
    ASSERT_CODE(eo_listen(&deep, &fd, &port, &err), EO_E_CANNOT_CREATE);
    ASSERT_CODE(eo_channel_connect(&channel, &deep, in_ms(5000), &err), EO_E_UNREACHABLE);
    ASSERT_CONTAINS(err.hint, "no such socket");
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(a_full_unix_queue_ends_at_the_deadline)
{
    struct eo_endpoint ep = unix_endpoint();
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct eo_channel waiting[8];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = 0, code = EO_OK;

    snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", ep.host);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    while (code == EO_OK && n < 8) {
        code = eo_channel_connect(&waiting[n], &ep, in_ms(60), &err);
        n += code == EO_OK ? 1 : 0;
    }
    ck_assert_int_eq(code, EO_E_TIMED_OUT);
    while (n > 0) {
        eo_channel_close(&waiting[--n]);
    }
    close(fd);
    unlink(ep.host);
}
END_TEST

EO_SUITE("listen", tcp_gets_a_port_from_the_kernel, tcp_addresses_that_cannot_be, connecting_to_nobody,
         names_try_all_their_addresses, connecting_to_a_silent_host_ends_at_the_deadline, unix_socket_is_private,
         stale_unix_socket_is_replaced, other_files_are_not_replaced, a_full_unix_queue_ends_at_the_deadline)
