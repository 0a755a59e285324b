#include "client/lib/local_daemon.h"

#include "proto/base/clock.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { READY_TIMEOUT_MS = 10000, STOP_TIMEOUT_MS = 5000, LIFELINE_FD = 3 };

struct eo_local_daemon {
    char dir[256];
    pid_t owner; /* a fork's child must not stop its parent's daemon */
    pid_t pid;
    int lifeline; /* write end of a pipe: the daemon ends when it closes, however this process ends */
};

static bool executable_at(const char *dir, char *out, size_t size)
{
    return eo_path_join(out, size, dir, "everyod") && access(out, X_OK) == 0;
}

/* Beside the running program first, so that a build tree and an installation each use their own daemon. */
static int find_daemon(char *out, size_t size, struct eo_error *err)
{
    char self[1024];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL) {
            *slash = '\0';
            if (executable_at(self, out, size)) {
                return EO_OK;
            }
        }
    }
    if (executable_at(EO_BINDIR, out, size)) {
        return EO_OK;
    }
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        char dir[1024];
        if (length > 0 && length < sizeof dir && path[0] == '/') {
            memcpy(dir, path, length);
            dir[length] = '\0';
            if (executable_at(dir, out, size)) {
                return EO_OK;
            }
        }
        path += length + (path[length] == ':');
    }
    EO_RAISE(err, EO_E_UNREACHABLE, "everyod was not found beside this program, in %s or in PATH", EO_BINDIR);
    eo_error_hint(err, "Install EveryO, or name a running daemon with -H HOST.");
    return EO_E_UNREACHABLE;
}

/* Its own process group: Ctrl-C on the terminal is for the command, which then cancels in good order. What this process
 * does about signals is not the daemon's way. Standard output belongs to the command's results. */
static int spawn_with(pid_t *out_pid, const char *program, char *const *argv, int lifeline_fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t handled;
    sigemptyset(&none);
    sigemptyset(&handled);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGPIPE);
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum != 0) {
        return errnum;
    }
    errnum = posix_spawnattr_init(&attr);
    if (errnum == 0) {
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, lifeline_fd, LIFELINE_FD);
        posix_spawnattr_setpgroup(&attr, 0);
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setsigdefault(&attr, &handled);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        errnum = posix_spawn(out_pid, program, &actions, &attr, argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

static int spawn_daemon(struct eo_local_daemon *d, const char *program, const char *socket_arg, const char *port_file,
                        struct eo_error *err)
{
    int lifeline[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "no pipe for the private daemon");
    }
    char state[300];
    char fd_text[12];
    snprintf(state, sizeof state, "%s/state", d->dir);
    snprintf(fd_text, sizeof fd_text, "%d", LIFELINE_FD);
    const char *argv[] = {program,   "--listen",      socket_arg, "--state-dir", state,  "--port-file",
                          port_file, "--lifeline-fd", fd_text,    "--log-level", "warn", NULL};
    union {
        const char **in;
        char *const *out;
    } args = {.in = argv}; /* posix_spawn does not write to its arguments, POSIX says */
    /* Beyond the descriptors that the child's set-up writes over. */
    const int read_end = fcntl(lifeline[0], F_DUPFD_CLOEXEC, LIFELINE_FD + 1);
    const int errnum = read_end < 0 ? errno : spawn_with(&d->pid, program, args.out, read_end);
    if (read_end >= 0) {
        close(read_end);
    }
    close(lifeline[0]);
    d->lifeline = lifeline[1];
    if (errnum != 0) {
        d->pid = -1;
        return EO_RAISE_ERRNO(err, EO_E_UNREACHABLE, errnum, "%s could not be started", program);
    }
    return EO_OK;
}

/* A descriptor that becomes readable when the child ends; -1 on kernels without pidfd_open. */
static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int wait_ready(const struct eo_local_daemon *d, const char *port_file, struct eo_error *err)
{
    const uint64_t deadline = eo_now_ns() + (uint64_t)READY_TIMEOUT_MS * 1000000;
    int pidfd = open_pidfd(d->pid);
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    int rc = EO_OK;
    while (access(port_file, F_OK) != 0) {
        if (poll(&pfd, 1, 2) > 0) {
            rc = EO_RAISE(err, EO_E_UNREACHABLE, "the private daemon ended while it started; its messages are above");
            break;
        }
        if (eo_now_ns() > deadline) {
            rc = EO_RAISE(err, EO_E_UNREACHABLE, "the private daemon was not ready within %d s",
                          READY_TIMEOUT_MS / 1000);
            break;
        }
    }
    if (pidfd >= 0) {
        close(pidfd);
    }
    return rc;
}

static int make_dir(struct eo_local_daemon *d, struct eo_error *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    /* A unix socket's path is at most 107 bytes, so a long base is passed over. */
    if (base == NULL || strlen(base) > 60 || stat(base, &st) != 0 || access(base, W_OK) != 0) {
        base = getenv("TMPDIR");
    }
    if (base == NULL || base[0] != '/' || strlen(base) > 60) {
        base = "/tmp";
    }
    snprintf(d->dir, sizeof d->dir, "%s/everyo-XXXXXX", base);
    if (mkdtemp(d->dir) == NULL) {
        int errnum = errno;
        d->dir[0] = '\0';
        return EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "no private directory could be made in %s", base);
    }
    return EO_OK;
}

int eo_local_daemon_start(struct eo_local_daemon **out, struct eo_endpoint *out_endpoint, struct eo_error *err)
{
    struct eo_local_daemon *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the private daemon");
    }
    d->owner = getpid();
    d->pid = -1;
    d->lifeline = -1;
    char program[1100];
    char socket_arg[300];
    char port_file[300];
    int rc = find_daemon(program, sizeof program, err);
    if (rc == EO_OK) {
        rc = make_dir(d, err);
    }
    if (rc == EO_OK) {
        snprintf(socket_arg, sizeof socket_arg, "unix:%s/socket", d->dir);
        snprintf(port_file, sizeof port_file, "%s/ready", d->dir);
        rc = spawn_daemon(d, program, socket_arg, port_file, err);
    }
    if (rc == EO_OK) {
        rc = wait_ready(d, port_file, err);
    }
    if (rc == EO_OK) {
        rc = eo_endpoint_parse(socket_arg, out_endpoint, err);
    }
    if (rc != EO_OK) {
        eo_local_daemon_stop(d);
        return rc;
    }
    *out = d;
    return EO_OK;
}

void eo_local_daemon_stop(struct eo_local_daemon *d)
{
    if (d == NULL) {
        return;
    }
    const bool owned = d->owner == getpid();
    if (owned && d->pid > 0) {
        kill(d->pid, SIGTERM);
        int pidfd = open_pidfd(d->pid);
        struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
        if (pidfd < 0 || poll(&pfd, 1, STOP_TIMEOUT_MS) <= 0) {
            kill(d->pid, SIGKILL);
        }
        if (pidfd >= 0) {
            close(pidfd);
        }
        while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (d->lifeline >= 0) {
        close(d->lifeline);
    }
    if (owned && d->dir[0] != '\0') {
        eo_dir_remove(d->dir, NULL);
    }
    free(d);
}

int eo_local_daemon_pid(const struct eo_local_daemon *d)
{
    return (int)d->pid;
}
