/* everyod as a process: options, exit codes, readiness, port file, sockets, signals, systemd. */
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/raw_client.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct daemon_fixture d;
static struct eo_error err;

static void setup(void)
{
    memset(&err, 0, sizeof(err));
    ASSERT_OK(daemon_init(&d, &err));
}

static void finish(void)
{
    daemon_remove(&d);
}

/* Runs everyod to its end; the log holds stdout and stderr. */
static void expect_exit(int wanted, const char *text, const char *const *args)
{
    int status = 0;
    ASSERT_OK(daemon_run(&d, args, &status, &err));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "status %#x, not exit %d", (unsigned)status,
                  wanted);
    ck_assert_msg(daemon_logged(&d, text), "\"%s\" was not printed", text);
}
#define ARGS(...)                                                                                                      \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

START_TEST(options)
{
    setup();
    expect_exit(0, "Usage: everyod", ARGS("--help"));
    expect_exit(0, "protocol 1 to 1", ARGS("--version"));
    expect_exit(64, "--listen", ARGS("--lissten"));
    expect_exit(64, "needs a value", ARGS("--listen"));
    expect_exit(78, "--insecure", ARGS("--listen", "0.0.0.0:0"));
    expect_exit(78, "cannot be read", ARGS("--config", "/nonexistent"));
    expect_exit(0, "valid", ARGS("--check-config"));
    finish();
}
END_TEST

START_TEST(configuration_file)
{
    char path[200];
    setup();
    snprintf(path, sizeof(path), "%s/conf", d.dir);
    ASSERT_OK(eo_file_write_atomic(path, "threads = 1\nlissten = 1\n", 24, 0600, &err));
    expect_exit(78, "conf:2", ARGS("--check-config", "--config", path));
    ASSERT_OK(eo_file_write_atomic(path, "threads = 1\n", 12, 0600, &err));
    expect_exit(0, "valid", ARGS("--check-config", "--config", path));
    finish();
}
END_TEST

START_TEST(state_directory)
{
    char path[200];
    setup();
    snprintf(path, sizeof(path), "%s/file", d.dir);
    ASSERT_OK(eo_file_write_atomic(path, "x", 1, 0600, &err));
    expect_exit(73, "EO-6003", ARGS("--listen", "127.0.0.1:0", "--state-dir", path));
    expect_exit(73, "EO-6003", ARGS("--listen", "127.0.0.1:0", "--state-dir", "/proc/nonexistent/state"));
    ASSERT_OK(daemon_start(&d, NULL, &err));
    pid_t first = d.pid;
    struct daemon_fixture second = d; /* another daemon, the same state */
    int status = 0;
    char text[100];
    ASSERT_OK(daemon_run(&second, ARGS("--listen", "127.0.0.1:0", "--state-dir", "$DIR/state"), &status, &err));
    ck_assert_int_eq(WEXITSTATUS(status), 73);
    snprintf(text, sizeof(text), "process %d", (int)first);
    ck_assert(daemon_logged(&d, text));
    ASSERT_OK(daemon_stop(&d, &err));
    /* The identity stays. */
    struct eo_bytes before, after;
    snprintf(path, sizeof(path), "%s/node", d.state_dir);
    ASSERT_OK(eo_file_read(path, 100, &before, &err));
    ASSERT_OK(daemon_start(&d, NULL, &err));
    ASSERT_OK(eo_file_read(path, 100, &after, &err));
    ck_assert_uint_eq(before.size, 33);
    ck_assert_int_eq(memcmp(before.data, after.data, 33), 0);
    eo_bytes_fini(&before);
    eo_bytes_fini(&after);
    struct stat st;
    ck_assert_int_eq(stat(d.state_dir, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    ASSERT_OK(daemon_stop(&d, &err));
    ASSERT_OK(eo_file_write_atomic(path, "not an identity", 15, 0600, &err));
    expect_exit(73, "identity", ARGS("--listen", "127.0.0.1:0", "--state-dir", "$DIR/state"));
    finish();
}
END_TEST

START_TEST(address_in_use)
{
    char listen[64];
    setup();
    ASSERT_OK(daemon_start(&d, NULL, &err));
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", d.endpoint.port);
    struct daemon_fixture second = d;
    int status = 0;
    ASSERT_OK(daemon_run(&second, ARGS("--listen", listen, "--state-dir", "$DIR/other"), &status, &err));
    ck_assert_int_eq(WEXITSTATUS(status), 69);
    ck_assert(daemon_logged(&d, "EO-6002"));
    ASSERT_OK(daemon_stop(&d, &err));
    finish();
}
END_TEST

/* Ready within 100 ms of exec and below 32 MiB. A busy machine may delay a start, so the best of a few counts. */
START_TEST(quick_and_small)
{
    uint64_t best_ns = UINT64_MAX, rss = 0;
    setup();
    for (int i = 0; i < 5 && best_ns >= 100 * 1000000; i++) {
        struct raw_client c;
        ASSERT_OK(daemon_start(&d, NULL, &err));
        best_ns = EO_MIN(best_ns, d.ready_ns);
        ASSERT_OK(raw_open(&c, &d.endpoint, &err));
        ASSERT_OK(raw_ping(&c, &err));
        rss = daemon_rss_bytes(&d);
        raw_close(&c);
        ASSERT_OK(daemon_stop(&d, &err));
    }
    printf("everyod: ready after %.1f ms, %.1f MiB resident\n", (double)best_ns / 1e6, (double)rss / 1048576);
    if (!DAEMON_INSTRUMENTED) {
        ck_assert_uint_lt(best_ns, 100 * 1000000);
        ck_assert_uint_lt(rss, 32 << 20);
    }
    finish();
}
END_TEST

/* Neither needed nor opened later: nothing numeric is ever mapped into everyod, also while a worker computes. */
START_TEST(no_numeric_library)
{
    setup();
    ASSERT_OK(daemon_start(&d, NULL, &err));
    struct raw_client c;
    const float x[4] = {1, 2, 3, 4};
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){2, 2}, 2, x, &err));
    raw_pack_op(&c, "matmul", (uint32_t[]){0, 0}, 2, 1, 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    char path[64], line[1024];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)d.pid);
    FILE *maps = fopen(path, "re");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps)) {
        const char *numeric[] = {"blas", "libgomp", "libomp", "sleef", "lapack", "dnnl", "cuda"};
        for (size_t i = 0; i < EO_COUNT_OF(numeric); i++) {
            ck_assert_msg(strstr(line, numeric[i]) == NULL, "everyod has mapped %s", line);
        }
    }
    fclose(maps);
    raw_close(&c);
    ASSERT_OK(daemon_stop(&d, &err));
    finish();
}
END_TEST

START_TEST(unix_socket)
{
    struct raw_client c;
    struct stat st;
    setup();
    ASSERT_OK(daemon_start(&d, ARGS("--listen", "unix:$DIR/socket"), &err));
    ck_assert(d.endpoint.is_unix);
    ck_assert_int_eq(stat(d.socket, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
    ASSERT_OK(daemon_stop(&d, &err));
    ck_assert_int_ne(stat(d.socket, &st), 0); /* removed */
    finish();
}
END_TEST

START_TEST(several_listeners)
{
    struct raw_client c;
    struct eo_endpoint other;
    setup();
    int code = daemon_start(&d, ARGS("--listen", "unix:$DIR/socket", "--listen", "[::1]:0"), &err);
    if (code != EO_OK && daemon_logged(&d, "Cannot assign requested address")) {
        printf("skipped: this machine has no IPv6 loopback\n");
        finish();
        return;
    }
    ASSERT_OK(code);
    ck_assert_int_gt(d.endpoint.port, 0);
    ck_assert_str_eq(d.endpoint.host, "::1");
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    raw_close(&c);
    char text[200];
    snprintf(text, sizeof(text), "unix:%s", d.socket);
    ASSERT_OK(eo_endpoint_parse(text, &other, &err));
    ASSERT_OK(raw_open(&c, &other, &err));
    raw_close(&c);
    ASSERT_OK(daemon_stop(&d, &err));
    finish();
}
END_TEST

START_TEST(sigint_ends_like_sigterm)
{
    int status = 0;
    setup();
    ASSERT_OK(daemon_start(&d, NULL, &err));
    ASSERT_OK(daemon_signal(&d, SIGINT, &err));
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    finish();
}
END_TEST

/* Requests that wait when the daemon ends are told so. */
START_TEST(ending_answers_what_waits)
{
    struct raw_client c;
    struct raw_reply reply;
    setup();
    ASSERT_OK(daemon_start(&d, NULL, &err));
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    const int64_t shape[2] = {1500, 1500};
    for (uint32_t i = 0; i < 2; i++) {
        struct eo_bytes *b = raw_request(&c, "tensor.create");
        eo_pack_map(b, 5);
        eo_pack_str(b, "handle");
        raw_pack_handle(b, i, 1);
        eo_pack_kv_str(b, "dtype", "float64");
        eo_pack_str(b, "shape");
        eo_pack_i64_array(b, shape, 2);
        eo_pack_kv_str(b, "device", "reference");
        eo_pack_kv_f64(b, "fill", 1);
        ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    }
    raw_pack_op(&c, "matmul", (uint32_t[]){0, 1}, 2, 2, 1); /* seconds of plain loops */
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    eo_pack_map(raw_request(&c, "ping"), 0); /* the answer shows that matmul was taken */
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ASSERT_OK(daemon_signal(&d, SIGTERM, &err));
    ASSERT_OK(raw_receive(&c, &reply, RAW_TIMEOUT_MS, &err));
    ck_assert_int_eq(reply.error.code, EO_E_SHUTTING_DOWN);
    raw_reply_fini(&reply);
    ck_assert(raw_is_closed(&c, RAW_TIMEOUT_MS));
    int status = 0;
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    raw_close(&c);
    finish();
}
END_TEST

START_TEST(reload)
{
    char path[200];
    struct raw_client c;
    setup();
    snprintf(path, sizeof(path), "%s/conf", d.dir);
    const char *one = "session-handles = 4\n", *two = "session-handles = 8\n", *bad = "session-handles = x\n";
    ASSERT_OK(eo_file_write_atomic(path, one, strlen(one), 0600, &err));
    ASSERT_OK(daemon_start(&d, ARGS("--config", path), &err));
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_CODE(raw_create(&c, 6, 1, NULL, 0, (const float[]){1}, &err), EO_E_BAD_HANDLE);
    ASSERT_OK(eo_file_write_atomic(path, bad, strlen(bad), 0600, &err));
    ASSERT_OK(daemon_signal(&d, SIGHUP, &err));
    for (int i = 0; i < 2000 && !daemon_logged(&d, "stays"); i++) {
        ASSERT_OK(raw_ping(&c, &err)); /* each round trip lets the loop turn */
    }
    ASSERT_CODE(raw_create(&c, 6, 1, NULL, 0, (const float[]){1}, &err), EO_E_BAD_HANDLE);
    ASSERT_OK(eo_file_write_atomic(path, two, strlen(two), 0600, &err));
    ASSERT_OK(daemon_signal(&d, SIGHUP, &err));
    for (int i = 0; i < 2000 && !daemon_logged(&d, "read again"); i++) {
        ASSERT_OK(raw_ping(&c, &err));
    }
    ASSERT_OK(raw_create(&c, 6, 1, NULL, 0, (const float[]){1}, &err));
    raw_close(&c);
    ASSERT_OK(daemon_stop(&d, &err));
    finish();
}
END_TEST

/* A socket that plays systemd. */
static int notify_socket(char *out_path, size_t size)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(out_path, size, "%.80s/notify", d.dir);
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", out_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

static void expect_notice(int fd, const char *wanted)
{
    char text[1024];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&p, 1, DAEMON_WAIT_MS) == 1, "no %s", wanted);
        ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
        ck_assert_int_gt(n, 0);
        text[n] = '\0';
        if (strstr(text, wanted)) {
            return;
        }
    }
}

START_TEST(systemd_is_told)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    setup();
    int fd = notify_socket(path, sizeof(path));
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "40000", 1);
    ASSERT_OK(daemon_start(&d, NULL, &err));
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    expect_notice(fd, "READY=1");
    expect_notice(fd, "WATCHDOG=1");
    expect_notice(fd, "WATCHDOG=1");
    ASSERT_OK(daemon_signal(&d, SIGTERM, &err));
    expect_notice(fd, "STOPPING=1");
    int status = 0;
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    ck_assert_int_eq(status, 0);
    close(fd);
    finish();
}
END_TEST

/* --lifeline-fd: the daemon ends with the program that started it, however that ends. */
START_TEST(lifeline)
{
    int pipes[2], status = 0;
    char number[12];
    setup();
    ck_assert_int_eq(pipe(pipes), 0);
    snprintf(number, sizeof(number), "%d", pipes[0]);
    ASSERT_OK(daemon_start(&d, ARGS("--listen", "unix:$DIR/socket", "--lifeline-fd", number), &err));
    struct raw_client c;
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_ping(&c, &err));
    close(pipes[0]);
    close(pipes[1]); /* the daemon has inherited the write end as well: a program that means it closes it there */
    raw_close(&c);
    ASSERT_OK(daemon_signal(&d, SIGTERM, &err));
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(pipes[0], F_SETFD, 0), 0);
    snprintf(number, sizeof(number), "%d", pipes[0]);
    ASSERT_OK(daemon_start(&d, ARGS("--listen", "unix:$DIR/socket", "--lifeline-fd", number), &err));
    close(pipes[0]);
    close(pipes[1]);
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    ck_assert_int_eq(status, 0);
    expect_exit(64, "lifeline", ARGS("--listen", "unix:$DIR/socket", "--state-dir", "$DIR/s", "--lifeline-fd", "1000"));
    finish();
}
END_TEST

EO_SUITE("start", options, configuration_file, state_directory, address_in_use, quick_and_small, no_numeric_library,
         unix_socket, several_listeners, sigint_ends_like_sigterm, ending_answers_what_waits, reload, systemd_is_told,
         lifeline)
