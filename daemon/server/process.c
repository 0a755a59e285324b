#include "daemon/server/process.h"

#include "daemon/server/server.h"
#include "daemon/worker/control.h"
#include "daemon/worker/ring.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLOSE_GRACE_MS = 5000, UNSENT_MAX_BYTES = 8 << 20 };

struct outstanding {
    struct outstanding *next;
    uint32_t id;
    worker_reply_fn reply;
    void *ctx;
};

/* A command that did not fit into the ring. */
struct unsent {
    struct unsent *next;
    size_t size;
    uint8_t data[];
};

struct worker_process {
    struct worker_process *next, **link; /* of the server's list */
    struct server *server;
    struct worker_callbacks callbacks;
    char label[160]; /* "everyod-worker --device cpu (pid 4711)" */
    pid_t pid;
    int control;
    struct loop_watch *control_watch, *wake_watch;
    struct loop_timer *grace;
    struct ring_pair ring;
    struct eo_bytes out, in;
    enum eo_message opened; /* task being packed */
    uint32_t next_id, n_outstanding;
    struct outstanding *first, **last;
    struct unsent *unsent, **unsent_last;
    size_t unsent_bytes;
    bool asked_to_end, in_drain, gone;
    int status, signum;
};

/* ---- receiving ---- */

static struct outstanding *take_outstanding(struct worker_process *w, uint32_t id)
{
    for (struct outstanding **at = &w->first; *at; at = &(*at)->next) {
        struct outstanding *o = *at;
        if (o->id == id) {
            *at = o->next;
            if (w->last == &o->next) {
                w->last = at;
            }
            w->n_outstanding--;
            return o;
        }
    }
    return NULL;
}

static void deliver_response(struct worker_process *w, const struct eo_envelope *e)
{
    struct outstanding *o = take_outstanding(w, e->id);
    if (!o) {
        eo_log(EO_LOG_WARN, "worker", "%s answered a command that is not known", w->label);
        return;
    }
    if (e->error) {
        struct eo_error error = {0};
        eo_error_unpack(e->error, &error);
        o->reply(o->ctx, &error, NULL);
    } else {
        o->reply(o->ctx, NULL, e->result);
    }
    free(o);
}

static void deliver(struct worker_process *w)
{
    struct eo_doc doc;
    struct eo_envelope e;
    struct eo_error why = {0};
    if (eo_envelope_parse(&doc, &e, w->in.data, w->in.size, &why) != EO_OK) {
        eo_error_push(&why, "%s", w->label);
        eo_log_error("worker", &why);
        worker_process_kill(w);
        return;
    }
    if (e.type == 1) {
        deliver_response(w, &e);
    } else if (e.type == 2) {
        const struct eo_message_schema *m = eo_message_by_method(e.method);
        if (m && m->from == EO_FROM_REPORT && w->callbacks.report) {
            w->callbacks.report(w->callbacks.ctx, m->message, e.params);
        }
    }
    eo_doc_fini(&doc);
}

static void send_unsent(struct worker_process *w)
{
    while (w->unsent) {
        struct unsent *u = w->unsent;
        if (ring_send(&w->ring, u->data, u->size, NULL) != EO_OK) {
            return;
        }
        w->unsent = u->next;
        if (!w->unsent) {
            w->unsent_last = &w->unsent;
        }
        w->unsent_bytes -= u->size;
        free(u);
    }
}

/* Everything that has arrived. Callbacks may send, kill and close; they never free the process. */
static bool drain(struct worker_process *w)
{
    bool any = false;
    if (w->in_drain) {
        return false; /* called from a callback of the drain below */
    }
    w->in_drain = true;
    for (;;) {
        bool got = false;
        struct eo_error why = {0};
        if (ring_receive(&w->ring, &w->in, &got, &why) != EO_OK) {
            eo_error_push(&why, "%s", w->label);
            eo_log_error("worker", &why);
            worker_process_kill(w);
            break;
        }
        if (!got) {
            break;
        }
        any = true;
        deliver(w);
    }
    send_unsent(w);
    w->in_drain = false;
    return any;
}

static void on_wake(void *ctx, int events)
{
    struct worker_process *w = ctx;
    EO_UNUSED(events);
    ring_woken(&w->ring);
    server_cork(w->server);
    drain(w);
    while (!ring_prepare_sleep(&w->ring) && drain(w)) {
    }
    server_uncork(w->server);
}

/* ---- the loop's spinner: all workers at once ---- */

static void spin_begin(void *ctx)
{
    struct server *s = ctx;
    for (struct worker_process *w = s->workers; w; w = w->next) {
        ring_awake(&w->ring);
    }
}

static bool spin_poll(void *ctx)
{
    struct server *s = ctx;
    bool any = false;
    for (struct worker_process *w = s->workers; w; w = w->next) {
        if (ring_readable(&w->ring)) {
            server_cork(s);
            any |= drain(w);
            server_uncork(s);
        }
    }
    return any;
}

static bool spin_end(void *ctx)
{
    struct server *s = ctx;
    bool any = false;
    server_cork(s);
    for (struct worker_process *w = s->workers; w; w = w->next) {
        while (!ring_prepare_sleep(&w->ring) && drain(w)) { /* a broken ring drains nothing: it is being killed */
            any = true;
        }
    }
    server_uncork(s);
    return any;
}

void worker_process_spinner(struct server *s, struct loop_spinner *out)
{
    *out = (struct loop_spinner){.ctx = s, .begin = spin_begin, .poll = spin_poll, .end = spin_end};
}

/* ---- the end ---- */

static void close_control(struct worker_process *w)
{
    loop_watch_free(w->control_watch);
    w->control_watch = NULL;
    if (w->control >= 0) {
        close(w->control);
        w->control = -1;
    }
}

static void release(struct worker_process *w)
{
    close_control(w);
    loop_watch_free(w->wake_watch);
    loop_timer_free(w->grace);
    ring_pair_close(&w->ring);
    while (w->unsent) {
        struct unsent *u = w->unsent;
        w->unsent = u->next;
        free(u);
    }
    eo_bytes_fini(&w->out);
    eo_bytes_fini(&w->in);
    if (w->link) {
        *w->link = w->next;
        if (w->next) {
            w->next->link = w->link;
        }
    }
    free(w);
}

static void describe_end(const struct worker_process *w, struct eo_error *err)
{
    if (w->signum != 0) {
        EO_RAISE(err, EO_E_WORKER_LOST, "%s was ended by signal %d (%s)", w->label, w->signum, strsignal(w->signum));
        if (w->signum == SIGKILL && !w->asked_to_end) {
            eo_error_hint(err, "Somebody killed it, or the kernel did because memory ran out (see dmesg). The next "
                               "use starts a new one.");
        } else {
            eo_error_hint(err, "The next use starts a new one. If it happens again, please report it with the log.");
        }
    } else if (w->asked_to_end) {
        EO_RAISE(err, EO_E_WORKER_LOST, "%s ended as asked", w->label);
    } else {
        EO_RAISE(err, EO_E_WORKER_LOST, "%s ended by itself with status %d", w->label, w->status);
        eo_error_hint(err, "Its last log lines say why. The next use starts a new one.");
    }
}

static void on_exit_worker(void *ctx, int status, int signum)
{
    struct worker_process *w = ctx;
    w->gone = true;
    w->status = status;
    w->signum = signum;
    server_cork(w->server);
    drain(w); /* what it finished before counts */
    struct eo_error why = {0};
    describe_end(w, &why);
    eo_log(w->asked_to_end ? EO_LOG_DEBUG : EO_LOG_WARN, "worker", "%s", why.message);
    while (w->first) {
        struct outstanding *o = take_outstanding(w, w->first->id);
        o->reply(o->ctx, &why, NULL);
        free(o);
    }
    if (w->callbacks.exited) {
        w->callbacks.exited(w->callbacks.ctx, &why);
    }
    struct server *s = w->server;
    release(w);
    server_uncork(s);
    server_worker_gone(s);
}

static void on_control(void *ctx, int events)
{
    struct worker_process *w = ctx;
    EO_UNUSED(events);
    /* A worker sends nothing here: readable means that it is ending. SIGCHLD tells how. */
    struct control_message m;
    bool eof = false;
    if (control_receive(w->control, &m, &eof, NULL) == EO_OK) {
        for (int i = 0; i < m.n_fds; i++) {
            close(m.fds[i]);
        }
    } else if (eof) {
        worker_process_close(w);
    }
}

static void on_grace(void *ctx)
{
    worker_process_kill(ctx);
}

void worker_process_close(struct worker_process *w)
{
    if (w->gone) {
        return;
    }
    close_control(w);
    if (!loop_timer_active(w->grace)) {
        loop_timer_start(w->grace, CLOSE_GRACE_MS, 0);
    }
}

void worker_process_end(struct worker_process *w)
{
    w->asked_to_end = true;
    worker_process_close(w);
}

void worker_process_kill(struct worker_process *w)
{
    if (!w->gone && w->pid > 0) {
        kill(w->pid, SIGKILL);
    }
}

/* ---- the beginning ---- */

static int send_start(struct worker_process *w, int pool_fd, struct eo_error *err)
{
    struct control_message m = {.kind = CONTROL_START,
                                .fds = {w->ring.shm.fd, w->ring.wake_peer, w->ring.wake_me, pool_fd},
                                .n_fds = pool_fd >= 0 ? 4 : 3};
    return control_send(w->control, &m, err);
}

static int start_process(struct worker_process *w, const char *const *args, int n_args, struct eo_error *err)
{
    char *argv[WORKER_MAX_ARGS + 8] = {NULL};
    char threads[16], memory[24], rest[100] = "";
    int n = 0, pair[2];
    snprintf(threads, sizeof(threads), "%d", w->server->n_threads);
    snprintf(memory, sizeof(memory), "%llu", (unsigned long long)w->server->memory_limit_bytes);
    /* exec does not write to its arguments, POSIX says; the type is history. */
    union {
        const char *in;
        char *out;
    } text;
    const char *fixed[] = {"everyod-worker", "--state-dir", w->server->state_dir, "--threads", threads,
                           "--memory-limit", memory};
    for (size_t i = 0; i < EO_COUNT_OF(fixed); i++) {
        text.in = fixed[i];
        argv[n++] = text.out;
    }
    for (int i = 0; i < n_args && i < WORKER_MAX_ARGS; i++) {
        text.in = args[i];
        argv[n++] = text.out;
        size_t used = strlen(rest);
        snprintf(rest + used, sizeof(rest) - used, " %s", args[i]);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "no control socket for a worker");
    }
    w->control = pair[0];
    int code = loop_spawn(w->server->loop, w->server->worker_path, argv, pair[1], on_exit_worker, w, &w->pid, err);
    close(pair[1]);
    snprintf(w->label, sizeof(w->label), "everyod-worker%s (pid %d)", rest, (int)w->pid);
    return code;
}

static int prepare(struct worker_process *w, struct eo_error *err)
{
    int code = ring_pair_create(&w->ring, err);
    if (code != EO_OK) {
        return code;
    }
    w->wake_watch = loop_watch_new(w->server->loop, w->ring.wake_me, on_wake, w);
    w->grace = loop_timer_new(w->server->loop, on_grace, w);
    if (!w->wake_watch || !w->grace) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a worker");
    }
    return EO_OK;
}

int worker_process_spawn(struct server *s, const char *const *args, int n_args, int pool_fd,
                         const struct worker_callbacks *callbacks, struct worker_process **out, struct eo_error *err)
{
    struct worker_process *w = calloc(1, sizeof(*w));
    if (!w) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a worker");
    }
    w->server = s;
    w->callbacks = *callbacks;
    w->control = -1;
    w->last = &w->first;
    w->unsent_last = &w->unsent;
    w->ring.shm.fd = w->ring.wake_me = w->ring.wake_peer = -1;
    eo_bytes_init(&w->out, RING_RECORD_MAX);
    eo_bytes_init(&w->in, RING_RECORD_MAX);
    int code = prepare(w, err);
    if (code == EO_OK) {
        code = start_process(w, args, n_args, err);
    }
    if (code != EO_OK) {
        release(w);
        return code;
    }
    w->next = s->workers;
    w->link = &s->workers;
    if (w->next) {
        w->next->link = &w->next;
    }
    s->workers = w;
    loop_watch_set(w->wake_watch, LOOP_READ);
    /* From here on its end is reported through exited, also when what follows fails. */
    w->control_watch = loop_watch_new(s->loop, w->control, on_control, w);
    struct eo_error why = {0};
    if (!w->control_watch || send_start(w, pool_fd, &why) != EO_OK) {
        worker_process_kill(w);
    } else {
        loop_watch_set(w->control_watch, LOOP_READ);
    }
    eo_log(EO_LOG_DEBUG, "worker", "%s started", w->label);
    *out = w;
    return EO_OK;
}

/* ---- sending ---- */

struct eo_bytes *worker_process_task(struct worker_process *w, enum eo_message m)
{
    w->opened = m;
    if (++w->next_id == 0) {
        w->next_id = 1;
    }
    eo_bytes_clear(&w->out);
    eo_pack_request(&w->out, w->next_id, eo_message_schema(m)->method);
    return &w->out;
}

static int queue_unsent(struct worker_process *w, struct eo_error *err)
{
    if (w->unsent_bytes + w->out.size > UNSENT_MAX_BYTES) {
        return EO_RAISE(err, EO_E_BUSY, "%s is behind by %zu bytes of commands", w->label, w->unsent_bytes);
    }
    struct unsent *u = malloc(sizeof(*u) + w->out.size);
    if (!u) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a command");
    }
    u->next = NULL;
    u->size = w->out.size;
    memcpy(u->data, w->out.data, w->out.size);
    *w->unsent_last = u;
    w->unsent_last = &u->next;
    w->unsent_bytes += u->size;
    return EO_OK;
}

int worker_process_send(struct worker_process *w, worker_reply_fn reply, void *ctx, struct eo_error *err)
{
    if (w->out.failed) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s of more than %d bytes", eo_message_schema(w->opened)->method,
                        RING_RECORD_MAX);
    }
    if (w->gone) {
        return EO_RAISE(err, EO_E_WORKER_LOST, "%s has ended", w->label);
    }
    struct outstanding *o = calloc(1, sizeof(*o));
    if (!o) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a command");
    }
    int code = w->unsent ? EO_E_BUSY : ring_send(&w->ring, w->out.data, w->out.size, err);
    if (code == EO_E_BUSY) {
        code = queue_unsent(w, err);
    }
    if (code != EO_OK) {
        free(o);
        return code;
    }
    *o = (struct outstanding){.id = w->next_id, .reply = reply, .ctx = ctx};
    *w->last = o;
    w->last = &o->next;
    w->n_outstanding++;
    loop_expect(w->server->loop);
    return EO_OK;
}

int worker_process_send_params(struct worker_process *w, enum eo_message m, const struct eo_bytes *params,
                               worker_reply_fn reply, void *ctx, struct eo_error *err)
{
    struct eo_bytes *b = worker_process_task(w, m);
    if (params->failed) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s of more than %zu bytes", eo_message_schema(m)->method, params->limit);
    }
    eo_bytes_append(b, params->data, params->size);
    return worker_process_send(w, reply, ctx, err);
}

int worker_process_send_fd(struct worker_process *w, int fd, const void *tag, size_t size, struct eo_error *err)
{
    if (w->control < 0) {
        return EO_RAISE(err, EO_E_WORKER_LOST, "%s is ending", w->label);
    }
    if (size > CONTROL_TAG_MAX) {
        return EO_BUG(err, "descriptor tag of %zu bytes", size);
    }
    struct control_message m = {.kind = CONTROL_FDS, .tag_size = size, .fds = {fd}, .n_fds = 1};
    memcpy(m.tag, tag, size);
    return control_send(w->control, &m, err);
}

pid_t worker_process_pid(const struct worker_process *w)
{
    return w->pid;
}

const char *worker_process_label(const struct worker_process *w)
{
    return w->label;
}

uint32_t worker_process_in_flight(const struct worker_process *w)
{
    return w->n_outstanding;
}

bool worker_process_gone(const struct worker_process *w)
{
    return w->gone;
}

struct worker_process *worker_process_next(const struct worker_process *w)
{
    return w->next;
}
