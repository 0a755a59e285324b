/* The event loop of everyod. Only loop.c touches libuv; everything else in the daemon sees these few calls.
 *
 * One thread, the loop's, calls everything here except loop_post, which any thread may call. Callbacks run on the
 * loop's thread. Nothing that runs on it may compute, hash, or touch files: that goes to loop_work. */
#ifndef EO_DAEMON_SERVER_LOOP_H
#define EO_DAEMON_SERVER_LOOP_H

#include "proto/base/error.h"

#include <sys/types.h>

struct loop;
typedef void (*loop_fn)(void *ctx);

int loop_new(struct loop **out, struct eo_error *err);
void loop_settle(struct loop *l); /* turns until no loop_work is under way */
void loop_free(struct loop *l);   /* settles, closes what is left and waits for work that has started; NULL is fine */
void loop_run(struct loop *l);    /* until loop_stop */
void loop_stop(struct loop *l);
const char *loop_library(void); /* version, "1.44.2" */

/* ---- timers ---- */
struct loop_timer;
struct loop_timer *loop_timer_new(struct loop *l, loop_fn fn, void *ctx);           /* NULL when memory is out */
void loop_timer_start(struct loop_timer *t, uint64_t after_ms, uint64_t repeat_ms); /* repeat 0 = once; restarts */
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_active(const struct loop_timer *t);
void loop_timer_free(struct loop_timer *t); /* NULL is fine; fn does not run any more */

/* ---- descriptors ---- */
enum { LOOP_READ = 1, LOOP_WRITE = 2 };
struct loop_watch;
typedef void (*loop_watch_fn)(void *ctx, int events); /* LOOP_READ and LOOP_WRITE bits; errors show up as both */
struct loop_watch *loop_watch_new(struct loop *l, int fd, loop_watch_fn fn, void *ctx); /* watches nothing yet */
void loop_watch_set(struct loop_watch *w, int events);                                  /* 0 = nothing */
void loop_watch_free(struct loop_watch *w); /* call before closing the descriptor; NULL is fine */

/* ---- other threads ---- */
/* Runs fn(ctx) on the loop's thread, in the order posted. The caller owns the call until fn has been entered; posting
 * cannot fail. Calls posted after loop_run has returned run in loop_free. */
struct loop_call {
    struct loop_call *next; /* the loop's */
    loop_fn fn;
    void *ctx;
};
void loop_post(struct loop *l, struct loop_call *call);

enum loop_lane {
    LOOP_FILES,   /* libuv's pool (4 threads): hash, read, write, parse */
    LOOP_BLOCKING /* a thread of its own: what may wait for the network, such as connecting */
};
/* Runs work(ctx) elsewhere, then done(ctx) on the loop. done runs exactly once when this returned 0, also at shutdown.
 */
int loop_work(struct loop *l, enum loop_lane lane, loop_fn work, loop_fn done, void *ctx, struct eo_error *err);

/* ---- signals and processes ---- */
typedef void (*loop_signal_fn)(void *ctx, int signum);
int loop_signal(struct loop *l, int signum, loop_signal_fn fn, void *ctx, struct eo_error *err); /* for good */
/* A child: exec of path with argv (NULL-terminated). Its stdin and stdout are /dev/null, stderr is ours, descriptor 3
 * is control_fd, nothing else is inherited. on_exit runs once; signum 0 = it exited with status. */
typedef void (*loop_exit_fn)(void *ctx, int status, int signum);
int loop_spawn(struct loop *l, const char *path, char *const *argv, int control_fd, loop_exit_fn on_exit, void *ctx,
               pid_t *out_pid, struct eo_error *err);

/* ---- low latency ---- */
/* While the other side answers within microseconds, sleeping costs more than looking. loop_expect says that something
 * is expected now: the loop then looks at descriptors and at the spinner without sleeping, for at most 50 us (less
 * after vain spins; never where only one CPU may be used). begin and end frame each such time; poll and end return
 * whether they found something. */
struct loop_spinner {
    void *ctx;
    void (*begin)(void *ctx);
    bool (*poll)(void *ctx);
    bool (*end)(void *ctx);
};
void loop_set_spinner(struct loop *l, const struct loop_spinner *spinner, int n_cpus);
void loop_expect(struct loop *l);

#endif
