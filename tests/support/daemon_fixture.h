/* A private everyod for a test: temporary folder, port chosen by the kernel or a unix socket, stopped by its pid. The
 * test program is the only thing that must know where everyod lies: EO_BIN_DIR, set by ctest. */
#ifndef EO_TESTS_SUPPORT_DAEMON_FIXTURE_H
#define EO_TESTS_SUPPORT_DAEMON_FIXTURE_H

#include "proto/endpoint.h"

#include <sys/types.h>

/* Whether this build is slowed down and inflated by a sanitizer: then times and sizes are not asserted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DAEMON_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DAEMON_INSTRUMENTED 1
#endif
#endif
#ifndef DAEMON_INSTRUMENTED
#define DAEMON_INSTRUMENTED 0
#endif

enum { DAEMON_WAIT_MS = 30000 /* sanitizers and a busy machine included */, DAEMON_MAX_WORKERS = 32 };

struct daemon_fixture {
    char dir[128];       /* everything of this daemon; removed by daemon_remove */
    char state_dir[160]; /* dir/state */
    char socket[160];    /* dir/socket */
    char log[160];       /* dir/log: its stderr */
    pid_t pid;           /* -1 while it does not run */
    int pidfd;
    uint64_t ready_ns; /* from exec to the port file */
    struct eo_endpoint endpoint;
};

/* Makes the folder. */
int daemon_init(struct daemon_fixture *d, struct eo_error *err);
/* Starts it and waits until it is ready. args (NULL-terminated, may be NULL) come after the fixture's own; with a
 * --listen among them the fixture adds none, and endpoint is the last one given. "$DIR" at the start of an argument's
 * value becomes the folder. */
int daemon_start(struct daemon_fixture *d, const char *const *args, struct eo_error *err);
/* Starts it with exactly these arguments and waits for its end; *out_status as of waitpid. Its stderr and stdout are in
 * log. */
int daemon_run(struct daemon_fixture *d, const char *const *args, int *out_status, struct eo_error *err);
/* SIGTERM, then waits. Fails unless it exits with 0, and when a worker of it is still there then. */
int daemon_stop(struct daemon_fixture *d, struct eo_error *err);
int daemon_signal(struct daemon_fixture *d, int signum, struct eo_error *err);
int daemon_wait_exit(struct daemon_fixture *d, uint64_t timeout_ms, int *out_status, struct eo_error *err);
/* Stops it if need be (SIGKILL) and removes the folder. */
void daemon_remove(struct daemon_fixture *d);

int daemon_descriptors(const struct daemon_fixture *d); /* open ones; -1 = not running */
uint64_t daemon_rss_bytes(const struct daemon_fixture *d);
int daemon_workers(const struct daemon_fixture *d, pid_t *out, int max); /* its children */
/* Waits until it has exactly n workers. */
int daemon_wait_workers(const struct daemon_fixture *d, int n, struct eo_error *err);
/* Whether text stands in the log; for messages that have no other trace. */
bool daemon_logged(const struct daemon_fixture *d, const char *text);
/* Whether the command line of a process holds text. */
bool process_has_argument(pid_t pid, const char *text);

#endif
