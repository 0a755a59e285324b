#include "daemon/worker/worker.h"

#include "daemon/engine/executor.h"
#include "daemon/worker/control.h"
#include "daemon/worker/plans.h"
#include "daemon/worker/worker_run.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/error_codec.h"

#include "backends/registry.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_MAX_NS = 50000, SPIN_MIN_NS = 2000, SPIN_EXPLORE = 64, MAX_EARLY_FDS = 256 };

struct worker_call_private {
    atomic_int n_refs; /* who executes it, and who answers it later */
    struct eo_doc doc;
    struct eo_bytes bytes; /* the envelope; doc points into it */
};

struct early_fd {
    int fd;
    size_t tag_size;
    uint8_t tag[CONTROL_TAG_MAX];
};

struct worker_private {
    struct ring_pair ring;
    pthread_mutex_t send_lock; /* guards ring.out and out; taken alone */
    struct eo_bytes out;
    struct eo_bytes result;  /* of the task being executed */
    pthread_mutex_t fd_lock; /* guards the three below; fn runs under it, so that descriptors keep their order */
    void (*on_fd)(void *ctx, int fd, const void *tag, size_t size);
    void *on_fd_ctx;
    struct early_fd *early;
    size_t n_early;
    bool may_spin;
    uint64_t spin_ns;
    uint32_t n_vain;
};

typedef int (*task_fn)(TASK_ARGUMENTS);

static const task_fn tasks[EO_MESSAGE_COUNT] = {
#define TASKED_CLIENT(NAME)
#define TASKED_PEER(NAME)
#define TASKED_EVENT(NAME)
#define TASKED_TASK(NAME) [EO_MSG_##NAME] = task_##NAME,
#define TASKED_REPORT(NAME)
#define EO_MESSAGE(method, NAME, from, ...) TASKED_##from(NAME)
#include "proto/tables/messages.def"
};

/* ---- sending ---- */

/* Under send_lock. Waits for room; when everyod is gone, the control thread ends the process. */
static void send_out(struct worker_private *p)
{
    struct eo_error err = {0};
    while (ring_send(&p->ring, p->out.data, p->out.size, &err) == EO_E_BUSY) {
        const struct timespec pause = {.tv_nsec = 200000};
        nanosleep(&pause, NULL);
    }
    if (err.code != EO_OK && err.code != EO_E_BUSY) {
        eo_log_error("worker", &err);
    }
}

static void pack_refusal(struct worker_private *p, uint32_t id, const struct eo_error *error)
{
    eo_bytes_clear(&p->out);
    eo_pack_failure(&p->out, id, error);
}

static void send_result(struct worker_private *p, uint32_t id, const struct eo_bytes *result)
{
    eo_bytes_clear(&p->out);
    eo_pack_result(&p->out, id);
    eo_bytes_append(&p->out, result->data, result->size);
    if (p->out.failed || result->failed) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_TOO_LARGE, "an answer exceeds %zu bytes", p->out.limit);
        pack_refusal(p, id, &err);
    }
    send_out(p);
}

static void release_call(struct worker_call *call)
{
    if (atomic_fetch_sub(&call->private_->n_refs, 1) > 1) {
        return;
    }
    eo_doc_fini(&call->private_->doc);
    eo_bytes_fini(&call->private_->bytes);
    free(call->private_);
    free(call);
}

void worker_answer(struct worker *w, struct worker_call *call, const struct eo_bytes *result)
{
    struct worker_private *p = w->private_;
    pthread_mutex_lock(&p->send_lock);
    send_result(p, call->id, result);
    pthread_mutex_unlock(&p->send_lock);
    release_call(call);
}

void worker_refuse(struct worker *w, struct worker_call *call, const struct eo_error *error)
{
    struct worker_private *p = w->private_;
    pthread_mutex_lock(&p->send_lock);
    pack_refusal(p, call->id, error);
    send_out(p);
    pthread_mutex_unlock(&p->send_lock);
    release_call(call);
}

void worker_report(struct worker *w, enum eo_message m, const struct eo_bytes *params)
{
    struct worker_private *p = w->private_;
    if (params->failed) {
        return;
    }
    pthread_mutex_lock(&p->send_lock);
    eo_bytes_clear(&p->out);
    eo_pack_notification(&p->out, eo_message_schema(m)->method);
    eo_bytes_append(&p->out, params->data, params->size);
    if (!p->out.failed) {
        send_out(p);
    }
    pthread_mutex_unlock(&p->send_lock);
}

/* ---- device ---- */

int worker_open_device(struct worker *w, const char *name, int n_threads, char *out_reason, size_t reason_size,
                       struct eo_error *err)
{
    const struct eo_device_config config = {.threads = n_threads};
    int code = registry_open(name, &config, &w->device, out_reason, reason_size, err);
    if (code != EO_OK) {
        return code;
    }
    code = executor_new(w->device, &w->executor, err);
    if (code != EO_OK) {
        registry_close(w->device);
        w->device = NULL;
    }
    return code;
}

void worker_pack_device(struct eo_bytes *b, const struct eo_device *dev)
{
    const struct eo_device_info *i = &dev->info;
    eo_pack_map(b, 5);
    eo_pack_kv_str(b, "name", i->name);
    eo_pack_kv_str(b, "description", i->description);
    eo_pack_kv_u64(b, "memory_total", i->memory_total);
    eo_pack_kv_u64(b, "memory_free", i->memory_free);
    eo_pack_kv_i64(b, "threads", i->threads);
}

/* Opens the device of a device worker and says so, or says why not; false: nothing to do here. */
static bool report_device(struct worker *w)
{
    struct eo_error err = {0};
    struct eo_bytes b;
    char reason[300] = "";
    eo_bytes_init(&b, 64 << 10);
    int code = worker_open_device(w, w->device_name, w->n_threads, reason, sizeof(reason), &err);
    if (code == EO_OK) {
        eo_pack_map(&b, 2);
        eo_pack_str(&b, "device");
        worker_pack_device(&b, w->device);
        eo_pack_kv_i64(&b, "threads", w->device->info.threads);
    } else {
        eo_pack_map(&b, 1);
        eo_pack_str(&b, "error");
        eo_error_pack(&b, &err);
    }
    worker_report(w, EO_MSG_REPORT_READY, &b);
    eo_bytes_fini(&b);
    return code == EO_OK;
}

/* ---- the control thread ---- */

static void take_fd(struct worker *w, const struct control_message *m)
{
    struct worker_private *p = w->private_;
    pthread_mutex_lock(&p->fd_lock);
    if (p->on_fd) {
        p->on_fd(p->on_fd_ctx, m->fds[0], m->tag, m->tag_size);
    } else if (p->n_early < MAX_EARLY_FDS) {
        struct early_fd *early = realloc(p->early, (p->n_early + 1) * sizeof(*early));
        if (early) {
            p->early = early;
            early += p->n_early++;
            early->fd = m->fds[0];
            early->tag_size = m->tag_size;
            memcpy(early->tag, m->tag, m->tag_size);
        } else {
            close(m->fds[0]);
        }
    } else {
        close(m->fds[0]);
    }
    pthread_mutex_unlock(&p->fd_lock);
}

void worker_on_fd(struct worker *w, void (*fn)(void *ctx, int fd, const void *tag, size_t size), void *ctx)
{
    struct worker_private *p = w->private_;
    pthread_mutex_lock(&p->fd_lock);
    p->on_fd = fn;
    p->on_fd_ctx = ctx;
    for (size_t i = 0; i < p->n_early; i++) {
        fn(ctx, p->early[i].fd, p->early[i].tag, p->early[i].tag_size);
    }
    free(p->early);
    p->early = NULL;
    p->n_early = 0;
    pthread_mutex_unlock(&p->fd_lock);
}

/* The end of the control socket is the end of the worker, whatever the other threads do: everyod has asked for it, or
 * is gone and nobody could use a result. Nothing here needs cleaning up; checkpoints are made whole by rename. */
static void *watch_control(void *ctx)
{
    struct worker *w = ctx;
    for (;;) {
        struct control_message m;
        struct eo_error err = {0};
        bool eof = false;
        if (control_receive(CONTROL_FD, &m, &eof, &err) != EO_OK) {
            if (eof) {
                _exit(0);
            }
            struct pollfd fd = {.fd = CONTROL_FD, .events = POLLIN};
            poll(&fd, 1, -1);
            continue;
        }
        if (m.kind == CONTROL_FDS && m.n_fds == 1) {
            take_fd(w, &m);
            continue;
        }
        for (int i = 0; i < m.n_fds; i++) {
            close(m.fds[i]);
        }
    }
    return NULL;
}

/* ---- executing ---- */

static struct worker_call *new_call(void)
{
    struct worker_call *call = calloc(1, sizeof(*call));
    struct worker_call_private *p = calloc(1, sizeof(*p));
    if (!call || !p) {
        free(call);
        free(p);
        return NULL;
    }
    eo_bytes_init(&p->bytes, RING_RECORD_MAX);
    call->private_ = p;
    return call;
}

/* Runs the call; true when it was answered and may be used again. */
static bool execute(struct worker *w, struct worker_call *call)
{
    struct worker_private *p = w->private_;
    struct eo_envelope e;
    struct eo_error err = {0};
    if (eo_envelope_parse(&call->private_->doc, &e, call->private_->bytes.data, call->private_->bytes.size, &err) !=
        EO_OK) {
        eo_log_error("worker", &err);
        return true;
    }
    const struct eo_message_schema *m = e.type == 0 ? eo_message_by_method(e.method) : NULL;
    int code;
    call->id = e.id;
    call->params = e.params;
    call->deferred = false;
    atomic_store(&call->private_->n_refs, 2);
    eo_bytes_clear(&p->result);
    if (m && tasks[m->message]) {
        call->message = m->message;
        code = tasks[m->message](w, call, &p->result, &err);
    } else {
        code = EO_RAISE(&err, EO_E_UNKNOWN_METHOD, "a worker does not know %s", e.method);
    }
    if (code == EO_OK && call->deferred) {
        release_call(call); /* which may have been answered already */
        return false;
    }
    pthread_mutex_lock(&p->send_lock);
    if (code == EO_OK) {
        send_result(p, call->id, &p->result);
    } else {
        pack_refusal(p, call->id, &err);
        send_out(p);
    }
    pthread_mutex_unlock(&p->send_lock);
    eo_doc_fini(&call->private_->doc);
    return true;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Looks for a while before sleeping, when looking has paid lately: the next command of a chatty client comes within
 * microseconds, and waking a sleeper takes fifty. */
static bool spin(struct worker_private *p)
{
    if (!p->may_spin) {
        return false;
    }
    const uint64_t until = eo_now_ns() + p->spin_ns;
    do {
        for (int i = 0; i < 32; i++) {
            if (ring_readable(&p->ring)) {
                p->spin_ns = SPIN_MAX_NS;
                p->n_vain = 0;
                return true;
            }
            pause_cpu();
        }
        sched_yield(); /* whoever is ready to run, the client above all, comes first */
    } while (eo_now_ns() < until);
    p->spin_ns = EO_MAX(p->spin_ns / 2, (uint64_t)SPIN_MIN_NS);
    if (++p->n_vain >= SPIN_EXPLORE) {
        p->n_vain = 0;
        p->spin_ns = SPIN_MAX_NS;
    }
    return false;
}

static void wait_for_command(struct worker_private *p)
{
    if (spin(p)) {
        return;
    }
    while (ring_prepare_sleep(&p->ring)) {
        struct pollfd fd = {.fd = p->ring.wake_me, .events = POLLIN};
        poll(&fd, 1, -1);
        ring_woken(&p->ring);
        if (ring_readable(&p->ring)) {
            return;
        }
    }
    ring_awake(&p->ring);
}

static int serve(struct worker *w)
{
    struct worker_private *p = w->private_;
    struct worker_call *call = NULL;
    for (;;) {
        struct eo_error err = {0};
        bool got = false;
        if (!call && !(call = new_call())) {
            EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for a command");
            eo_log_error("worker", &err);
            return eo_code_exit(err.code);
        }
        if (ring_receive(&p->ring, &call->private_->bytes, &got, &err) != EO_OK) {
            eo_log_error("worker", &err);
            return eo_code_exit(err.code);
        }
        if (!got) {
            wait_for_command(p);
        } else if (!execute(w, call)) {
            call = NULL; /* its task answers and frees it */
        }
    }
}

/* ---- life ---- */

static int attach(struct worker *w, struct eo_error *err)
{
    struct control_message m;
    bool eof = false;
    struct pollfd fd = {.fd = CONTROL_FD, .events = POLLIN};
    while (poll(&fd, 1, -1) < 0 && errno == EINTR) {
    }
    int code = control_receive(CONTROL_FD, &m, &eof, err);
    if (code != EO_OK) {
        return code;
    }
    if (m.kind != CONTROL_START || m.n_fds < 3) {
        return EO_RAISE(err, EO_E_INTERNAL, "the control socket begins with something else than the ring");
    }
    code = ring_pair_attach(&w->private_->ring, m.fds[0], m.fds[1], m.fds[2], err);
    if (code == EO_OK && m.n_fds == 4) {
        code = shm_attach(&w->pool, m.fds[3], 1, err);
    }
    return code;
}

static int init(struct worker *w, struct eo_error *err)
{
    w->pool.fd = -1;
    w->private_ = calloc(1, sizeof(*w->private_));
    if (!w->private_) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the worker");
    }
    struct worker_private *p = w->private_;
    p->ring.shm.fd = p->ring.wake_me = p->ring.wake_peer = -1;
    pthread_mutex_init(&p->send_lock, NULL);
    pthread_mutex_init(&p->fd_lock, NULL);
    eo_bytes_init(&p->out, RING_RECORD_MAX);
    eo_bytes_init(&p->result, RING_RECORD_MAX);
    cpu_set_t set;
    CPU_ZERO(&set);
    p->may_spin = sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
    p->spin_ns = SPIN_MAX_NS;
    int code = attach(w, err);
    return code == EO_OK ? plans_new(&w->plans, err) : code;
}

/* Only before the control thread runs: after that, the process ends without tidying up under its feet. */
static void fini(struct worker *w)
{
    struct worker_private *p = w->private_;
    plans_free(w->plans, w);
    shm_close(&w->pool);
    if (p) {
        ring_pair_close(&p->ring);
        eo_bytes_fini(&p->out);
        eo_bytes_fini(&p->result);
        free(p);
    }
}

static int serve_all(struct worker *w)
{
    struct eo_error err = {0};
    if (w->job && worker_job_init(w, &err) != EO_OK) {
        eo_log_error("worker", &err);
        return eo_code_exit(err.code);
    }
    return w->job || report_device(w) ? serve(w) : 0;
}

int worker_run(struct worker *w)
{
    struct eo_error err = {0};
    pthread_t thread;
    int code = init(w, &err);
    if (code == EO_OK) {
        int errnum = pthread_create(&thread, NULL, watch_control, w);
        if (errnum == 0) {
            pthread_detach(thread);
            _exit(serve_all(w));
        }
        code = EO_RAISE_ERRNO(&err, EO_E_NO_MEMORY, errnum, "no thread for the control socket");
    }
    eo_log_error("worker", &err);
    fini(w);
    return eo_code_exit(code);
}
