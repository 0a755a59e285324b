#include "daemon/worker/control.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static void begin(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
}

static void end(void)
{
    close(pair[0]);
    close(pair[1]);
}

START_TEST(descriptors_travel_with_a_tag)
{
    struct eo_error err = {0};
    int pipes[2];
    bool eof = true;
    char byte = 0;
    struct control_message m = {.kind = CONTROL_FDS, .tag_size = 5, .n_fds = 1}, got;
    begin();
    ck_assert_int_eq(pipe(pipes), 0);
    memcpy(m.tag, "hello", 5);
    m.fds[0] = pipes[1];
    ASSERT_OK(control_send(pair[0], &m, &err));
    ASSERT_OK(control_receive(pair[1], &got, &eof, &err));
    ck_assert(!eof && got.kind == CONTROL_FDS && got.n_fds == 1 && got.tag_size == 5);
    ck_assert_int_eq(memcmp(got.tag, "hello", 5), 0);
    ck_assert_int_ne(fcntl(got.fds[0], F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(write(got.fds[0], "x", 1), 1);
    ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
    close(got.fds[0]);
    close(pipes[0]);
    close(pipes[1]);
    end();
}
END_TEST

START_TEST(end_and_emptiness_differ)
{
    struct eo_error err = {0};
    struct control_message got;
    bool eof = true;
    begin();
    ASSERT_CODE(control_receive(pair[1], &got, &eof, &err), EO_E_BUSY);
    ck_assert(!eof);
    close(pair[0]);
    ASSERT_CODE(control_receive(pair[1], &got, &eof, &err), EO_E_CONNECTION_LOST);
    ck_assert(eof);
    struct control_message m = {.kind = CONTROL_START};
    ASSERT_CODE(control_send(pair[1], &m, &err), EO_E_WORKER_LOST);
    close(pair[1]);
}
END_TEST

START_TEST(full_socket_says_busy)
{
    struct eo_error err = {0};
    struct control_message m = {.kind = CONTROL_FDS, .tag_size = CONTROL_TAG_MAX};
    int code = EO_OK;
    begin();
    for (int i = 0; i < 100000 && code == EO_OK; i++) {
        code = control_send(pair[0], &m, &err);
    }
    ck_assert_int_eq(code, EO_E_BUSY);
    m.tag_size = CONTROL_TAG_MAX + 1;
    ASSERT_CODE(control_send(pair[0], &m, &err), EO_E_INTERNAL);
    m.tag_size = 0;
    m.n_fds = CONTROL_MAX_FDS + 1;
    ASSERT_CODE(control_send(pair[0], &m, &err), EO_E_INTERNAL);
    end();
}
END_TEST

EO_SUITE("control", descriptors_travel_with_a_tag, end_and_emptiness_differ, full_socket_says_busy)
