/* A private daemon: who may use it, and that nothing of it outlives its parent. */
#include "client/lib/local_daemon.h"

#include "client/include/everyo/everyo.h"
#include "client/lib/connection.h"
#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 };

static struct eo_error err;
static char runtime_dir[64];

/* A descriptor that becomes readable when the process ends. */
static int watch_process(pid_t pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void assert_ends(int pidfd)
{
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    ck_assert_int_eq(poll(&pfd, 1, PATIENCE_MS), 1);
    close(pidfd);
}

static void assert_answers(const struct eo_endpoint *ep)
{
    struct eo_connection *c = NULL;
    ASSERT_OK(eo_connection_open(ep, NULL, &c, &err));
    ASSERT_OK(eo_connection_call(c, "ping", NULL, NULL, 0, NULL, &err));
    eo_connection_close(c);
}

static void setup(void)
{
    snprintf(runtime_dir, sizeof runtime_dir, "/tmp/eo-local-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(runtime_dir));
    setenv("XDG_RUNTIME_DIR", runtime_dir, 1);
}

static void teardown(void)
{
    ASSERT_OK(eo_dir_remove(runtime_dir, &err));
}

START_TEST(it_is_private_and_leaves_nothing)
{
    struct eo_local_daemon *d = NULL;
    struct eo_endpoint ep;
    struct stat st;
    setup();
    ASSERT_OK(eo_local_daemon_start(&d, &ep, &err));
    ck_assert(ep.is_unix);
    ck_assert_int_eq(strncmp(ep.host, runtime_dir, strlen(runtime_dir)), 0);
    ck_assert_int_eq(stat(ep.host, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    assert_answers(&ep);
    const int daemon = watch_process(eo_local_daemon_pid(d));
    eo_local_daemon_stop(d);
    assert_ends(daemon);
    ck_assert_int_eq(rmdir(runtime_dir), 0); /* it is empty again */
    setup();
    teardown();
    eo_local_daemon_stop(NULL);
}
END_TEST

START_TEST(a_forked_child_does_not_stop_it)
{
    struct eo_local_daemon *d = NULL;
    struct eo_endpoint ep;
    int status = -1;
    setup();
    ASSERT_OK(eo_local_daemon_start(&d, &ep, &err));
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        eo_local_daemon_stop(d);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    assert_answers(&ep);
    eo_local_daemon_stop(d);
    teardown();
}
END_TEST

/* Starts a daemon, tells its pid, and waits to be killed. */
static void be_the_parent(int out)
{
    struct eo_local_daemon *d = NULL;
    struct eo_endpoint ep;
    struct eo_error e = {0};
    int pid = -1;
    if (eo_local_daemon_start(&d, &ep, &e) == EO_OK) {
        pid = eo_local_daemon_pid(d);
    }
    if (write(out, &pid, sizeof pid) == (ssize_t)sizeof pid) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

START_TEST(it_dies_with_its_parent)
{
    int ends[2];
    int pid = -1;
    int status = 0;
    setup();
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the orphan becomes ours */
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t parent = fork();
    ck_assert_int_ge(parent, 0);
    if (parent == 0) {
        close(ends[0]);
        be_the_parent(ends[1]);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &pid, sizeof pid), (int)sizeof pid);
    close(ends[0]);
    ck_assert_int_gt(pid, 0);
    const int daemon = watch_process(pid);
    ck_assert_int_eq(kill(parent, SIGKILL), 0); /* no chance to stop it in good order */
    assert_ends(daemon);
    while (waitpid(-1, &status, 0) > 0 || errno == EINTR) {
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    teardown();
}
END_TEST

/* Shapes that only the daemon knows, several outputs, and what becomes of failures, through the public interface. */
START_TEST(shapes_come_back)
{
    static const float x[6] = {0, 2, 0, 0, 3, 4};
    static const int64_t sizes[2] = {1, 2};
    everyo_client *c = NULL;
    everyo_error failure;
    everyo_tensor t, found, parts[2], bad[2];
    int64_t at[6];
    float part[2];
    setup();
    ck_assert_int_eq(everyo_connect("local:", 0, &c, &failure), 0);
    ck_assert_int_eq(everyo_tensor_create(c, EVERYO_FLOAT32, (int64_t[]){2, 3}, 2, x, NULL, &t, &failure), 0);
    ck_assert_int_eq(everyo_op(c, "nonzero", NULL, &t, 1, &found, 1, &failure), 0);
    ck_assert(found.n_dims == 2 && found.shape[0] == 2 && found.shape[1] == 3 && found.dtype == EVERYO_INT64);
    ck_assert_int_eq(everyo_tensor_read(c, &found, at, sizeof at, &failure), 0);
    ck_assert(at[0] == 0 && at[1] == 1 && at[2] == 1 && at[3] == 1 && at[4] == 1 && at[5] == 2);
    ck_assert_int_eq(everyo_op(c, "split", "sizes=[1,2], axis=1", &t, 1, parts, 2, &failure), 0);
    ck_assert_int_eq(parts[0].shape[1], sizes[0]);
    ck_assert_int_eq(parts[1].shape[1], sizes[1]);
    ck_assert_int_eq(everyo_tensor_read(c, &parts[0], part, sizeof part, &failure), 0);
    ck_assert(part[0] == x[0] && part[1] == x[3]);
    ck_assert_int_eq(everyo_op(c, "split", "sizes=[1,2], axis=1", &t, 1, bad, 1, &failure), EO_E_BAD_ARITY);
    /* A failure is told by the call itself, and the handle is free again. */
    const everyo_tensor nobody = {
        .id = found.id + (UINT64_C(1) << 40), .dtype = EVERYO_FLOAT32, .n_dims = 1, .shape = {3}};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(everyo_op(c, "nonzero", NULL, &nobody, 1, &found, 1, &failure), EO_E_BAD_HANDLE);
    }
    ck_assert_int_eq(everyo_sync(c, &failure), 0);
    everyo_close(c);
    teardown();
}
END_TEST

static bool has_daemon(void)
{
    char path[1024];
    const char *dir = getenv("EO_BIN_DIR");
    return dir != NULL && eo_path_join(path, sizeof path, dir, "everyod") && access(path, X_OK) == 0;
}

int main(void)
{
    const TTest *const tests[] = {it_is_private_and_leaves_nothing, a_forked_child_does_not_stop_it,
                                  it_dies_with_its_parent, shapes_come_back};
    if (!has_daemon()) {
        printf("everyod is not built\n");
        return 77;
    }
    return eo_suite_run("private daemon", tests, EO_COUNT_OF(tests));
}
