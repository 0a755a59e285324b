#include "tests/support/daemon_fixture.h"

#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ARGS = 40, ARG_SIZE = 320 };

struct arguments {
    char text[MAX_ARGS][ARG_SIZE];
    char *argv[MAX_ARGS + 1];
    int n;
    bool listens;
};

int daemon_init(struct daemon_fixture *d, struct eo_error *err)
{
    memset(d, 0, sizeof(*d));
    d->pid = -1;
    d->pidfd = -1;
    snprintf(d->dir, sizeof(d->dir), "/tmp/everyo-test-XXXXXX");
    if (!mkdtemp(d->dir)) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "no folder for a test daemon");
    }
    snprintf(d->state_dir, sizeof(d->state_dir), "%s/state", d->dir);
    snprintf(d->socket, sizeof(d->socket), "%s/socket", d->dir);
    snprintf(d->log, sizeof(d->log), "%s/log", d->dir);
    return EO_OK;
}

/* ---- starting ---- */

static void add(struct arguments *a, const struct daemon_fixture *d, const char *text)
{
    const char *at = strstr(text, "$DIR");
    if (at) {
        snprintf(a->text[a->n], ARG_SIZE, "%.*s%s%s", (int)(at - text), text, d->dir, at + 4);
    } else {
        snprintf(a->text[a->n], ARG_SIZE, "%s", text);
    }
    a->argv[a->n] = a->text[a->n];
    a->n++;
    a->argv[a->n] = NULL;
}

static void add_all(struct arguments *a, const struct daemon_fixture *d, const char *const *args)
{
    for (; args && *args && a->n < MAX_ARGS; args++) {
        a->listens |= strcmp(*args, "--listen") == 0;
        add(a, d, *args);
    }
}

static int spawn(struct daemon_fixture *d, struct arguments *a, struct eo_error *err)
{
    char program[600];
    const char *bin = getenv("EO_BIN_DIR");
    posix_spawn_file_actions_t actions;
    snprintf(program, sizeof(program), "%s/everyod", bin ? bin : ".");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int errnum = posix_spawn(&d->pid, program, &actions, NULL, a->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errnum != 0) {
        d->pid = -1;
        return EO_RAISE_ERRNO(err, EO_E_NO_FILE, errnum, "%s cannot be started (is EO_BIN_DIR set?)", program);
    }
    d->pidfd = (int)syscall(SYS_pidfd_open, d->pid, 0);
    return EO_OK;
}

static void show_log(const struct daemon_fixture *d)
{
    struct eo_bytes text;
    if (eo_file_read(d->log, 1 << 20, &text, NULL) == EO_OK) {
        fprintf(stderr, "--- %s\n%s---\n", d->log, eo_bytes_text(&text));
        eo_bytes_fini(&text);
    }
}

/* Waits for the port file's rename, or for the daemon's end. */
static int wait_port_file(struct daemon_fixture *d, const char *path, int notify, struct eo_error *err)
{
    const uint64_t deadline = eo_now_ns() + (uint64_t)DAEMON_WAIT_MS * 1000000;
    while (access(path, R_OK) != 0) {
        struct pollfd fds[2] = {{.fd = notify, .events = POLLIN}, {.fd = d->pidfd, .events = POLLIN}};
        int64_t left = (int64_t)(deadline - eo_now_ns()) / 1000000;
        if (left <= 0 || poll(fds, 2, (int)left) == 0) {
            show_log(d);
            return EO_RAISE(err, EO_E_TIMED_OUT, "the test daemon was not ready within %d ms", DAEMON_WAIT_MS);
        }
        if ((fds[1].revents & POLLIN) && access(path, R_OK) != 0) {
            show_log(d);
            return EO_RAISE(err, EO_E_UNREACHABLE, "the test daemon ended while it started");
        }
        char events[4096];
        if (fds[0].revents & POLLIN) {
            (void)!read(notify, events, sizeof(events));
        }
    }
    return EO_OK;
}

static int read_port(struct daemon_fixture *d, const char *path, const struct arguments *a, struct eo_error *err)
{
    struct eo_bytes text;
    char endpoint[330];
    int64_t port = 0;
    int code = eo_file_read(path, 64, &text, err);
    if (code != EO_OK) {
        return code;
    }
    char copy[64];
    eo_copy_text(copy, sizeof(copy), eo_bytes_text(&text));
    copy[strcspn(copy, "\n")] = '\0';
    eo_bytes_fini(&text);
    if (!eo_parse_i64(copy, &port)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "the port file holds no number");
    }
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%lld", (long long)port);
    for (int i = 0; i + 1 < a->n; i++) {
        if (strcmp(a->argv[i], "--listen") == 0 && strncmp(a->argv[i + 1], "unix:", 5) == 0) {
            snprintf(endpoint, sizeof(endpoint), "%s", a->argv[i + 1]);
        } else if (strcmp(a->argv[i], "--listen") == 0 && a->argv[i + 1][0] == '[') {
            snprintf(endpoint, sizeof(endpoint), "[::1]:%lld", (long long)port);
        }
    }
    return eo_endpoint_parse(endpoint, &d->endpoint, err);
}

int daemon_start(struct daemon_fixture *d, const char *const *args, struct eo_error *err)
{
    struct arguments a = {.n = 0};
    char path[160];
    snprintf(path, sizeof(path), "%s/port", d->dir);
    (void)unlink(path);
    add(&a, d, "everyod");
    add(&a, d, "--state-dir");
    add(&a, d, d->state_dir);
    add(&a, d, "--port-file");
    add(&a, d, path);
    add_all(&a, d, args);
    if (!a.listens) {
        add(&a, d, "--listen");
        add(&a, d, "127.0.0.1:0");
    }
    int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    inotify_add_watch(notify, d->dir, IN_MOVED_TO | IN_CREATE);
    const uint64_t start = eo_now_ns();
    int code = spawn(d, &a, err);
    if (code == EO_OK) {
        code = wait_port_file(d, path, notify, err);
    }
    d->ready_ns = eo_now_ns() - start;
    close(notify);
    return code == EO_OK ? read_port(d, path, &a, err) : code;
}

int daemon_run(struct daemon_fixture *d, const char *const *args, int *out_status, struct eo_error *err)
{
    struct arguments a = {.n = 0};
    (void)unlink(d->log);
    add(&a, d, "everyod");
    add_all(&a, d, args);
    int code = spawn(d, &a, err);
    return code == EO_OK ? daemon_wait_exit(d, DAEMON_WAIT_MS, out_status, err) : code;
}

/* ---- ending ---- */

static void reaped(struct daemon_fixture *d)
{
    d->pid = -1;
    if (d->pidfd >= 0) {
        close(d->pidfd);
        d->pidfd = -1;
    }
}

int daemon_signal(struct daemon_fixture *d, int signum, struct eo_error *err)
{
    if (d->pid <= 0 || kill(d->pid, signum) != 0) {
        return EO_RAISE(err, EO_E_UNREACHABLE, "the test daemon does not run");
    }
    return EO_OK;
}

int daemon_wait_exit(struct daemon_fixture *d, uint64_t timeout_ms, int *out_status, struct eo_error *err)
{
    struct pollfd fd = {.fd = d->pidfd, .events = POLLIN};
    if (poll(&fd, 1, (int)timeout_ms) <= 0) {
        show_log(d);
        return EO_RAISE(err, EO_E_TIMED_OUT, "the test daemon did not end within %llu ms",
                        (unsigned long long)timeout_ms);
    }
    waitpid(d->pid, out_status, 0);
    reaped(d);
    return EO_OK;
}

static bool alive(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

int daemon_stop(struct daemon_fixture *d, struct eo_error *err)
{
    pid_t workers[DAEMON_MAX_WORKERS];
    int status = 0;
    const int n = daemon_workers(d, workers, DAEMON_MAX_WORKERS);
    int code = daemon_signal(d, SIGTERM, err);
    if (code == EO_OK) {
        code = daemon_wait_exit(d, DAEMON_WAIT_MS, &status, err);
    }
    if (code != EO_OK) {
        return code;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        show_log(d);
        return EO_RAISE(err, EO_E_INTERNAL, "the test daemon ended with wait status %#x", (unsigned)status);
    }
    for (int i = 0; i < n; i++) {
        if (alive(workers[i])) {
            return EO_RAISE(err, EO_E_INTERNAL, "worker %d outlived its daemon", (int)workers[i]);
        }
    }
    return EO_OK;
}

void daemon_remove(struct daemon_fixture *d)
{
    if (d->pid > 0) {
        int status;
        kill(d->pid, SIGKILL);
        waitpid(d->pid, &status, 0);
        reaped(d);
    }
    if (d->dir[0]) {
        eo_dir_remove(d->dir, NULL);
        d->dir[0] = '\0';
    }
}

/* ---- looking ---- */

int daemon_descriptors(const struct daemon_fixture *d)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)d->pid);
    DIR *dir = opendir(path);
    if (!dir) {
        return -1;
    }
    int n = -2; /* "." and ".." */
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

static bool read_proc(pid_t pid, const char *file, char *out, size_t size, size_t *out_size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    *out_size = n > 0 ? (size_t)n : 0;
    return n > 0;
}

uint64_t daemon_rss_bytes(const struct daemon_fixture *d)
{
    char text[256];
    size_t n;
    int64_t pages = 0;
    if (!read_proc(d->pid, "statm", text, sizeof(text), &n)) {
        return 0;
    }
    char *second = strchr(text, ' ');
    if (!second) {
        return 0;
    }
    second++;
    second[strcspn(second, " ")] = '\0';
    return eo_parse_i64(second, &pages) ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static pid_t parent_of(pid_t pid)
{
    char text[512];
    size_t n;
    if (!read_proc(pid, "stat", text, sizeof(text), &n)) {
        return -1;
    }
    char *after = strrchr(text, ')'); /* the name may hold anything */
    int parent = -1;
    char state;
    return after && sscanf(after + 1, " %c %d", &state, &parent) == 2 && state != 'Z' ? parent : -1;
}

int daemon_workers(const struct daemon_fixture *d, pid_t *out, int max)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && n < max; e = readdir(dir)) {
        int64_t pid;
        if (eo_parse_i64(e->d_name, &pid) && parent_of((pid_t)pid) == d->pid) {
            out[n++] = (pid_t)pid;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

int daemon_wait_workers(const struct daemon_fixture *d, int n, struct eo_error *err)
{
    const uint64_t deadline = eo_now_ns() + (uint64_t)DAEMON_WAIT_MS * 1000000;
    pid_t workers[DAEMON_MAX_WORKERS];
    int seen = -1;
    while (eo_now_ns() < deadline) {
        seen = daemon_workers(d, workers, DAEMON_MAX_WORKERS);
        if (seen == n) {
            return EO_OK;
        }
        poll(NULL, 0, 2); /* processes of others announce nothing */
    }
    return EO_RAISE(err, EO_E_TIMED_OUT, "the test daemon has %d workers, not %d", seen, n);
}

bool daemon_logged(const struct daemon_fixture *d, const char *text)
{
    struct eo_bytes log;
    if (eo_file_read(d->log, 64 << 20, &log, NULL) != EO_OK) {
        return false;
    }
    bool found = strstr(eo_bytes_text(&log), text) != NULL;
    eo_bytes_fini(&log);
    return found;
}

bool process_has_argument(pid_t pid, const char *text)
{
    char line[4096];
    size_t n;
    if (!read_proc(pid, "cmdline", line, sizeof(line), &n)) {
        return false;
    }
    for (size_t i = 0; i < n; i += strlen(line + i) + 1) {
        if (strcmp(line + i, text) == 0) {
            return true;
        }
    }
    return false;
}
