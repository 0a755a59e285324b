#include "daemon/server/server.h"

#include "daemon/server/blob_keeper.h"
#include "daemon/server/device.h"
#include "daemon/server/host.h"
#include "daemon/server/listener.h"
#include "daemon/server/models.h"
#include "daemon/server/notify.h"
#include "daemon/server/process.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "daemon/server/state_dir.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct server_private {
    struct config reloaded; /* what config points to, once SIGHUP was seen */
    int argc;
    char *const *argv;
    struct loop_timer *drain_timer, *watchdog;
    struct loop_watch *lifeline;
    bool ending; /* connections are closed, workers are ending */
};

/* ---- corking ---- */

void server_cork(struct server *s)
{
    stream_hub_cork(&s->hub);
}

void server_uncork(struct server *s)
{
    stream_hub_uncork(&s->hub);
}

/* ---- the end ---- */

static void end_if_done(struct server *s)
{
    if (s->private_->ending && !s->workers) {
        loop_stop(s->loop);
    }
}

void server_worker_gone(struct server *s)
{
    end_if_done(s);
}

static void stop_listening(struct server *s)
{
    for (int i = 0; i < s->n_listeners; i++) {
        listener_close(s->listeners[i]);
    }
    s->n_listeners = 0;
}

static void answer_shutting_down(struct server *s)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_SHUTTING_DOWN, "this daemon is shutting down");
    server_cork(s);
    for (struct connection *c = s->connections; c; c = c->next) {
        while (c->unanswered) {
            request_fail(c->unanswered, &err);
        }
    }
    server_uncork(s);
}

/* Nothing is waited for any more: ends connections, sessions, modules and workers. */
static void end(struct server *s)
{
    if (s->private_->ending) {
        return;
    }
    s->private_->ending = true;
    loop_timer_stop(s->private_->drain_timer);
    stop_listening(s);
    answer_shutting_down(s);
    connections_close_all(s);
    if (s->jobs) {
        jobs_module.stop(s->jobs);
        s->jobs = NULL;
    }
    sessions_fini(s);
    for (struct worker_process *w = s->workers; w; w = worker_process_next(w)) {
        worker_process_end(w);
    }
    end_if_done(s);
}

void server_drained(struct server *s)
{
    if (s->draining && (!s->jobs || jobs_module.idle(s->jobs))) {
        end(s);
    }
}

static void on_drain_timeout(void *ctx)
{
    struct server *s = ctx;
    eo_log(EO_LOG_WARN, "server", "jobs did not stop within %llu ms: ending without them",
           (unsigned long long)s->config->drain_timeout_ms);
    end(s);
}

static void drain(struct server *s)
{
    s->draining = true;
    notify_send("STOPPING=1\nSTATUS=draining");
    eo_log(EO_LOG_INFO, "server", "draining: nothing new is accepted, running jobs write their checkpoints");
    stop_listening(s);
    loop_timer_start(s->private_->drain_timer, s->config->drain_timeout_ms, 0);
    if (s->jobs) {
        jobs_module.drain(s->jobs);
    }
    server_drained(s);
}

static void on_stop_signal(void *ctx, int signum)
{
    struct server *s = ctx;
    if (!s->draining) {
        drain(s);
        return;
    }
    eo_log(EO_LOG_WARN, "server", "a second %s: ending at once", signum == SIGINT ? "SIGINT" : "SIGTERM");
    for (struct worker_process *w = s->workers; w; w = worker_process_next(w)) {
        worker_process_kill(w);
    }
    end(s);
}

static void on_lifeline(void *ctx, int events)
{
    struct server *s = ctx;
    char byte;
    EO_UNUSED(events);
    ssize_t n = read((int)s->config->lifeline_fd, &byte, 1);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        return;
    }
    loop_watch_free(s->private_->lifeline);
    s->private_->lifeline = NULL;
    if (!s->draining) {
        eo_log(EO_LOG_INFO, "server", "the program that started this daemon has ended");
        drain(s);
    }
}

/* ---- reload ---- */

void server_set_args(struct server *s, int argc, char *const *argv)
{
    s->private_->argc = argc;
    s->private_->argv = argv;
}

static void on_reload(void *ctx, int signum)
{
    struct server *s = ctx;
    struct config *next = malloc(sizeof(*next));
    struct eo_error err = {0};
    enum config_action action;
    EO_UNUSED(signum);
    if (!next) {
        return;
    }
    if (config_parse(s->private_->argc, s->private_->argv, next, &action, &err) != EO_OK) {
        eo_log_error("config", &err);
        eo_log(EO_LOG_WARN, "config", "the old configuration stays");
        free(next);
        return;
    }
    s->private_->reloaded = *s->config;
    int n_fixed = config_reload(&s->private_->reloaded, next);
    s->config = &s->private_->reloaded;
    free(next);
    eo_log_setup(s->config->log_level, s->config->log_format);
    eo_log(EO_LOG_INFO, "config", "read again");
    if (n_fixed > 0) {
        eo_log(EO_LOG_WARN, "config", "%d changed options take effect after a restart only", n_fixed);
    }
}

/* ---- the beginning ---- */

static int find_worker(struct server *s, struct eo_error *err)
{
    char self[900];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        *(slash ? slash : self) = '\0';
        if (eo_path_join(s->worker_path, sizeof(s->worker_path), self, "everyod-worker") &&
            access(s->worker_path, X_OK) == 0) {
            return EO_OK;
        }
    }
    if (eo_path_join(s->worker_path, sizeof(s->worker_path), EO_LIBEXECDIR, "everyod-worker") &&
        access(s->worker_path, X_OK) == 0) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_CONFIG, "everyod-worker was found neither in %s nor in %s", n > 0 ? self : "?", EO_LIBEXECDIR);
    eo_error_hint(err, "It computes for everyod and is installed with it; install EveryO again.");
    return EO_E_CONFIG;
}

static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

static void set_limits(struct server *s)
{
    struct host_limits l;
    host_limits(&l);
    s->n_threads = s->config->threads ? (int)s->config->threads : l.n_cpus;
    s->n_cpus = l.n_cpus;
    s->memory_limit_bytes =
        s->config->memory_limit_bytes ? s->config->memory_limit_bytes : host_default_memory_limit(&l);
    s->pool_bytes = s->memory_limit_bytes;
    if (l.memory_total > 0 && s->pool_bytes > l.memory_total) { /* doctor warns of it */
        s->pool_bytes = l.memory_total;
    }
}

static int start_timers(struct server *s, struct eo_error *err)
{
    s->private_->drain_timer = loop_timer_new(s->loop, on_drain_timeout, s);
    if (!s->private_->drain_timer) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a timer");
    }
    const int fd = (int)s->config->lifeline_fd;
    if (fd > 0) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0) {
            return EO_RAISE(err, EO_E_USAGE, "--lifeline-fd %d is not open", fd);
        }
        s->private_->lifeline = loop_watch_new(s->loop, fd, on_lifeline, s);
        if (!s->private_->lifeline) {
            return EO_RAISE(err, EO_E_USAGE, "--lifeline-fd %d cannot be watched: use a pipe or a socket", fd);
        }
        loop_watch_set(s->private_->lifeline, LOOP_READ);
    }
    return EO_OK;
}

static int start_parts(struct server *s, struct eo_error *err)
{
    int code = loop_new(&s->loop, err);
    if (code == EO_OK) {
        code = stream_hub_init(&s->hub, s->loop, err);
    }
    if (code == EO_OK) {
        code = sessions_init(s, err);
    }
    if (code == EO_OK) {
        code = devices_init(s, err);
    }
    if (code == EO_OK) {
        code = models_init(s, err);
    }
    if (code == EO_OK) {
        code = blob_keeper_init(s, err);
    }
    if (code == EO_OK) {
        code = start_timers(s, err);
    }
    if (code == EO_OK) {
        struct loop_spinner spinner;
        worker_process_spinner(s, &spinner);
        loop_set_spinner(s->loop, &spinner, s->n_cpus);
        code = loop_signal(s->loop, SIGTERM, on_stop_signal, s, err);
    }
    if (code == EO_OK) {
        code = loop_signal(s->loop, SIGINT, on_stop_signal, s, err);
    }
    if (code == EO_OK) {
        code = loop_signal(s->loop, SIGHUP, on_reload, s, err);
    }
    return code;
}

int server_init(struct server *s, const struct config *c, struct eo_error *err)
{
    memset(s, 0, sizeof(*s));
    s->config = c;
    s->lock_fd = -1;
    s->start_ns = eo_now_ns();
    eo_bytes_init(&s->scratch, EO_ENVELOPE_MAX);
    s->private_ = calloc(1, sizeof(*s->private_));
    if (!s->private_) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the daemon");
    }
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    set_limits(s);
    int code = find_worker(s, err);
    if (code == EO_OK) {
        code = state_dir_open(c->state_dir, s->state_dir, sizeof(s->state_dir), err);
    }
    if (code == EO_OK) {
        code = state_dir_lock(s->state_dir, &s->lock_fd, err);
    }
    if (code == EO_OK) {
        code = state_dir_node(s->state_dir, s->node, err);
    }
    if (code == EO_OK) {
        code = start_parts(s, err);
    }
    if (code == EO_OK) {
        code = jobs_module.start(s, &s->jobs, err);
    }
    return code;
}

/* ---- listening ---- */

static int write_port_file(const struct server *s, struct eo_error *err)
{
    if (!s->config->port_file[0]) {
        return EO_OK;
    }
    uint16_t port = 0;
    for (int i = 0; port == 0 && i < s->n_listeners; i++) {
        port = s->listeners[i]->port;
    }
    char text[16];
    int n = snprintf(text, sizeof(text), "%u\n", (unsigned)port);
    return eo_file_write_atomic(s->config->port_file, text, (size_t)n, 0644, err);
}

static void on_watchdog(void *ctx)
{
    EO_UNUSED(ctx);
    notify_send("WATCHDOG=1");
}

static void announce(struct server *s)
{
    char text[400];
    size_t used = (size_t)snprintf(text, sizeof(text), "READY=1\nSTATUS=listening on");
    for (int i = 0; i < s->n_listeners && used < sizeof(text); i++) {
        eo_log(EO_LOG_INFO, "server", "listening on %s", s->listeners[i]->text);
        if (!s->listeners[i]->loopback) {
            eo_log(EO_LOG_WARN, "server", "%s is open to everybody who reaches it (--insecure)", s->listeners[i]->text);
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", s->listeners[i]->text);
    }
    notify_send(text);
    if (notify_watchdog_ms() > 0) {
        s->private_->watchdog = loop_timer_new(s->loop, on_watchdog, s);
        if (s->private_->watchdog) {
            loop_timer_start(s->private_->watchdog, notify_watchdog_ms(), notify_watchdog_ms());
        }
    }
}

int server_listen(struct server *s, struct eo_error *err)
{
    if (s->config->port_file[0]) {
        (void)unlink(s->config->port_file); /* one that an earlier daemon left would announce us too early */
    }
    for (int i = 0; i < s->config->listen.n; i++) {
        int code = listener_open(s, &s->config->listen.items[i], &s->listeners[s->n_listeners], err);
        if (code != EO_OK) {
            return code;
        }
        s->n_listeners++;
    }
    for (int i = 0; i < s->n_listeners; i++) {
        listener_start(s->listeners[i]);
    }
    int code = write_port_file(s, err);
    if (code != EO_OK) {
        return code;
    }
    s->wrote_port_file = s->config->port_file[0] != '\0';
    announce(s);
    return EO_OK;
}

const char *server_listen_text(const struct server *s, int i)
{
    return s->listeners[i]->text;
}

const char *server_advertise(const struct server *s)
{
    if (s->config->advertise[0]) {
        return s->config->advertise;
    }
    for (int i = 0; i < s->n_listeners; i++) {
        if (!s->listeners[i]->loopback && !s->listeners[i]->wildcard) {
            return s->listeners[i]->text;
        }
    }
    return s->n_listeners > 0 ? s->listeners[0]->text : "";
}

int server_run(struct server *s)
{
    eo_log(EO_LOG_INFO, "server", "everyod %s, node %.8s, %d threads, state in %s", eo_build(), s->node, s->n_threads,
           s->state_dir);
    loop_run(s->loop);
    eo_log(EO_LOG_INFO, "server", "ended in good order");
    return s->exit_code;
}

void server_fini(struct server *s)
{
    if (!s->private_) {
        return;
    }
    stop_listening(s);
    if (s->wrote_port_file) {
        (void)unlink(s->config->port_file);
    }
    if (s->loop) {
        if (s->jobs) {
            jobs_module.stop(s->jobs);
        }
        loop_settle(s->loop); /* what file threads still have in hand refers to sessions and devices */
        models_fini(s);
        blob_keeper_fini(s);
        if (s->sessions) {
            sessions_fini(s);
        }
        loop_timer_free(s->private_->drain_timer);
        loop_timer_free(s->private_->watchdog);
        loop_watch_free(s->private_->lifeline);
        if (s->devices) {
            devices_fini(s);
        }
    }
    loop_free(s->loop);
    stream_hub_fini(&s->hub);
    eo_bytes_fini(&s->scratch);
    if (s->lock_fd >= 0) {
        close(s->lock_fd);
    }
    free(s->private_);
    s->private_ = NULL;
}
