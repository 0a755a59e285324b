#include "daemon/server/loop.h"

#include "proto/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { SPIN_MAX_NS = 50000, SPIN_MIN_NS = 2000, SPIN_EXPLORE = 64, MAX_THREADS = 64 };

struct spin {
    struct loop_spinner spinner;
    bool allowed, active;
    uint64_t until_ns, budget_ns;
    uint32_t n_vain; /* since the last full look */
};

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_idle_t idle; /* active while spinning: keeps the loop from sleeping */
    pthread_mutex_t lock;
    struct loop_call *first, **last; /* under lock */
    uint32_t n_work;                 /* work under way, loop thread only */
    uint32_t n_threads;              /* of LOOP_BLOCKING */
    struct spin spin;
    bool stopped;
};

/* ---- calls from other threads ---- */

static void run_posted(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct loop_call *call = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);
    while (call) {
        struct loop_call *next = call->next; /* fn may free the call */
        call->fn(call->ctx);
        call = next;
    }
}

static void on_wake(uv_async_t *handle)
{
    run_posted(handle->data);
}

void loop_post(struct loop *l, struct loop_call *call)
{
    call->next = NULL;
    pthread_mutex_lock(&l->lock);
    *l->last = call;
    l->last = &call->next;
    pthread_mutex_unlock(&l->lock);
    uv_async_send(&l->wake);
}

/* ---- life ---- */

int loop_new(struct loop **out, struct eo_error *err)
{
    struct loop *l = calloc(1, sizeof(*l));
    if (!l) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the event loop");
    }
    l->last = &l->first;
    int rc = uv_loop_init(&l->uv);
    if (rc != 0) {
        free(l);
        return EO_RAISE(err, EO_E_INTERNAL, "no event loop: %s", uv_strerror(rc));
    }
    pthread_mutex_init(&l->lock, NULL);
    rc = uv_async_init(&l->uv, &l->wake, on_wake);
    if (rc == 0) {
        rc = uv_idle_init(&l->uv, &l->idle);
    }
    l->wake.data = l;
    l->idle.data = l;
    if (rc != 0) {
        loop_free(l);
        return EO_RAISE(err, EO_E_INTERNAL, "no event loop: %s", uv_strerror(rc));
    }
    *out = l;
    return EO_OK;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_left(uv_handle_t *handle, void *ctx)
{
    EO_UNUSED(ctx);
    if (!uv_is_closing(handle)) {
        bool ours = handle->type == UV_SIGNAL || handle->type == UV_PROCESS;
        uv_close(handle, ours ? free_handle : NULL);
    }
}

void loop_settle(struct loop *l)
{
    uv_idle_stop(&l->idle);
    while (l->n_work > 0) {
        uv_run(&l->uv, UV_RUN_ONCE);
    }
    run_posted(l);
}

void loop_free(struct loop *l)
{
    if (!l) {
        return;
    }
    loop_settle(l);
    /* Handles of timers, watches and processes are freed by their owners or by their close callbacks; signals are ours.
     */
    uv_walk(&l->uv, close_left, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void loop_run(struct loop *l)
{
    l->stopped = false;
    while (!l->stopped) {
        uv_run(&l->uv, UV_RUN_DEFAULT);
    }
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
    uv_stop(&l->uv);
}

const char *loop_library(void)
{
    return uv_version_string();
}

/* ---- timers ---- */

struct loop_timer {
    uv_timer_t uv;
    loop_fn fn;
    void *ctx;
};

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = handle->data;
    t->fn(t->ctx);
}

struct loop_timer *loop_timer_new(struct loop *l, loop_fn fn, void *ctx)
{
    struct loop_timer *t = calloc(1, sizeof(*t));
    if (t) {
        uv_timer_init(&l->uv, &t->uv);
        t->uv.data = t;
        t->fn = fn;
        t->ctx = ctx;
    }
    return t;
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
    uv_update_time(t->uv.loop);
    uv_timer_start(&t->uv, on_timer, after_ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->uv);
}

bool loop_timer_active(const struct loop_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->uv) != 0;
}

void loop_timer_free(struct loop_timer *t)
{
    if (t) {
        uv_timer_stop(&t->uv);
        uv_close((uv_handle_t *)&t->uv, free_handle);
    }
}

/* ---- descriptors ---- */

struct loop_watch {
    uv_poll_t uv;
    loop_watch_fn fn;
    void *ctx;
    int events;
};

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct loop_watch *w = handle->data;
    int seen = 0;
    if (status < 0) {
        seen = LOOP_READ | LOOP_WRITE;
    }
    seen |= (events & UV_READABLE) ? LOOP_READ : 0;
    seen |= (events & UV_WRITABLE) ? LOOP_WRITE : 0;
    w->fn(w->ctx, seen);
}

struct loop_watch *loop_watch_new(struct loop *l, int fd, loop_watch_fn fn, void *ctx)
{
    struct loop_watch *w = calloc(1, sizeof(*w));
    if (!w) {
        return NULL;
    }
    if (uv_poll_init(&l->uv, &w->uv, fd) != 0) {
        free(w);
        return NULL;
    }
    w->uv.data = w;
    w->fn = fn;
    w->ctx = ctx;
    return w;
}

void loop_watch_set(struct loop_watch *w, int events)
{
    if (w->events == events) {
        return;
    }
    w->events = events;
    if (events == 0) {
        uv_poll_stop(&w->uv);
        return;
    }
    int wanted = 0;
    wanted |= (events & LOOP_READ) ? UV_READABLE : 0;
    wanted |= (events & LOOP_WRITE) ? UV_WRITABLE : 0;
    uv_poll_start(&w->uv, wanted, on_poll);
}

void loop_watch_free(struct loop_watch *w)
{
    if (w) {
        uv_poll_stop(&w->uv);
        uv_close((uv_handle_t *)&w->uv, free_handle);
    }
}

/* ---- work ---- */

struct work {
    uv_work_t uv;          /* LOOP_FILES */
    struct loop_call call; /* LOOP_BLOCKING */
    struct loop *loop;
    loop_fn work, done;
    void *ctx;
};

static void work_done(void *ctx)
{
    struct work *w = ctx;
    w->loop->n_work--;
    loop_fn done = w->done;
    void *user = w->ctx;
    free(w);
    done(user);
}

static void pool_work(uv_work_t *uv)
{
    struct work *w = uv->data;
    w->work(w->ctx);
}

static void pool_done(uv_work_t *uv, int status)
{
    EO_UNUSED(status);
    work_done(uv->data);
}

static void thread_done(void *ctx)
{
    struct work *w = ctx;
    w->loop->n_threads--;
    work_done(w);
}

static void *thread_work(void *ctx)
{
    struct work *w = ctx;
    w->work(w->ctx);
    w->call = (struct loop_call){.fn = thread_done, .ctx = w};
    loop_post(w->loop, &w->call);
    return NULL;
}

static int start_thread(struct loop *l, struct work *w, struct eo_error *err)
{
    if (l->n_threads >= MAX_THREADS) {
        return EO_RAISE(err, EO_E_BUSY, "%d connection attempts are under way", MAX_THREADS);
    }
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* Signals belong to the loop's thread. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int rc = pthread_create(&thread, &attr, thread_work, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, rc, "no thread could be started");
    }
    l->n_threads++;
    return EO_OK;
}

int loop_work(struct loop *l, enum loop_lane lane, loop_fn work, loop_fn done, void *ctx, struct eo_error *err)
{
    struct work *w = calloc(1, sizeof(*w));
    if (!w) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for background work");
    }
    *w = (struct work){.loop = l, .work = work, .done = done, .ctx = ctx};
    w->uv.data = w;
    int code = EO_OK;
    if (lane == LOOP_BLOCKING) {
        code = start_thread(l, w, err);
    } else {
        int rc = uv_queue_work(&l->uv, &w->uv, pool_work, pool_done);
        if (rc != 0) {
            code = EO_RAISE(err, EO_E_INTERNAL, "no background work: %s", uv_strerror(rc));
        }
    }
    if (code != EO_OK) {
        free(w);
        return code;
    }
    l->n_work++;
    return EO_OK;
}

/* ---- signals and processes ---- */

struct signal_handle {
    uv_signal_t uv;
    loop_signal_fn fn;
    void *ctx;
};

static void on_signal(uv_signal_t *handle, int signum)
{
    struct signal_handle *s = handle->data;
    s->fn(s->ctx, signum);
}

int loop_signal(struct loop *l, int signum, loop_signal_fn fn, void *ctx, struct eo_error *err)
{
    struct signal_handle *s = calloc(1, sizeof(*s));
    if (!s) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a signal handler");
    }
    s->fn = fn;
    s->ctx = ctx;
    uv_signal_init(&l->uv, &s->uv);
    s->uv.data = s;
    int rc = uv_signal_start(&s->uv, on_signal, signum);
    if (rc != 0) {
        uv_close((uv_handle_t *)&s->uv, free_handle);
        return EO_RAISE(err, EO_E_INTERNAL, "signal %d cannot be watched: %s", signum, uv_strerror(rc));
    }
    return EO_OK;
}

struct child {
    uv_process_t uv;
    loop_exit_fn fn;
    void *ctx;
};

static void on_exit_child(uv_process_t *handle, int64_t status, int signum)
{
    struct child *c = handle->data;
    loop_exit_fn fn = c->fn;
    void *ctx = c->ctx;
    uv_close((uv_handle_t *)handle, free_handle);
    fn(ctx, (int)status, signum);
}

int loop_spawn(struct loop *l, const char *path, char *const *argv, int control_fd, loop_exit_fn on_exit, void *ctx,
               pid_t *out_pid, struct eo_error *err)
{
    struct child *c = calloc(1, sizeof(*c));
    char **args = NULL;
    size_t n_args = 0;
    while (argv[n_args]) {
        n_args++;
    }
    args = calloc(n_args + 1, sizeof(*args));
    if (!c || !args) {
        free(c);
        free(args);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to start a process");
    }
    memcpy(args, argv, n_args * sizeof(*args));
    c->fn = on_exit;
    c->ctx = ctx;
    uv_stdio_container_t stdio[4] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
        {.flags = UV_INHERIT_FD, .data.fd = control_fd},
    };
    uv_process_options_t options = {
        .file = path, .args = args, .exit_cb = on_exit_child, .stdio = stdio, .stdio_count = 4};
    c->uv.data = c;
    int rc = uv_spawn(&l->uv, &c->uv, &options);
    free(args);
    if (rc != 0) {
        c->uv.data = c;
        uv_close((uv_handle_t *)&c->uv, free_handle);
        return EO_RAISE_ERRNO(err, EO_E_INTERNAL, -rc, "%s cannot be started", path);
    }
    *out_pid = c->uv.pid;
    return EO_OK;
}

/* ---- spinning ---- */

static void spin_stop(struct loop *l, bool found)
{
    struct spin *s = &l->spin;
    s->active = false;
    uv_idle_stop(&l->idle);
    if (s->spinner.end && s->spinner.end(s->spinner.ctx)) {
        found = true;
    }
    if (found) {
        s->budget_ns = SPIN_MAX_NS;
        s->n_vain = 0;
        return;
    }
    s->budget_ns = EO_MAX(s->budget_ns / 2, (uint64_t)SPIN_MIN_NS);
    if (++s->n_vain >= SPIN_EXPLORE) {
        s->n_vain = 0;
        s->budget_ns = SPIN_MAX_NS;
    }
}

static void on_idle(uv_idle_t *handle)
{
    struct loop *l = handle->data;
    struct spin *s = &l->spin;
    if (s->spinner.poll && s->spinner.poll(s->spinner.ctx)) {
        s->until_ns = eo_now_ns() + SPIN_MAX_NS;
        s->budget_ns = SPIN_MAX_NS;
        s->n_vain = 0;
        return;
    }
    if (eo_now_ns() >= s->until_ns) {
        spin_stop(l, false);
    } else {
        sched_yield(); /* whoever is ready to run, the client above all, comes first */
    }
}

void loop_set_spinner(struct loop *l, const struct loop_spinner *spinner, int n_cpus)
{
    l->spin.spinner = *spinner;
    l->spin.allowed = n_cpus > 1;
    l->spin.budget_ns = SPIN_MAX_NS;
}

void loop_expect(struct loop *l)
{
    struct spin *s = &l->spin;
    if (!s->allowed) {
        return;
    }
    if (s->active) {
        s->budget_ns = SPIN_MAX_NS; /* the last expectation was met */
    }
    s->until_ns = eo_now_ns() + s->budget_ns;
    if (!s->active) {
        s->active = true;
        if (s->spinner.begin) {
            s->spinner.begin(s->spinner.ctx);
        }
        uv_idle_start(&l->idle, on_idle);
    }
}
