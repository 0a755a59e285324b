#include "daemon/server/device.h"

#include "daemon/server/facts.h"
#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"
#include "proto/op_schema.h"

#include <stdlib.h>
#include <string.h>

enum { TRIM_AFTER_MS = 500, KEEP_MAX_BYTES = 256 << 20 };

static const char *const backend_names[] = {
#define EO_BACKEND(name, ...) name,
#include "backends/backends.def"
};

static void pump(struct device *d);

/* ---- table ---- */

int devices_init(struct server *s, struct eo_error *err)
{
    s->devices = calloc(1, sizeof(*s->devices));
    if (!s->devices) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for devices");
    }
    s->devices->server = s;
    eo_bytes_init(&s->devices->facts, EO_ENVELOPE_MAX);
    return EO_OK;
}

void devices_fini(struct server *s)
{
    for (int i = 0; s->devices && i < s->devices->n; i++) {
        struct device *d = s->devices->devices[i];
        loop_timer_free(d->trim);
        waiters_fire(&d->waiters);
        pool_fini(&d->pool);
        free(d);
    }
    if (s->devices) {
        waiters_fire(&s->devices->waiters);
        eo_bytes_fini(&s->devices->facts);
    }
    free(s->devices);
    s->devices = NULL;
}

uint64_t devices_used_bytes(const struct server *s)
{
    uint64_t n = 0;
    for (int i = 0; i < s->devices->n; i++) {
        n += s->devices->devices[i]->pool.used_bytes;
    }
    return n;
}

static void on_trim(void *ctx)
{
    struct device *d = ctx;
    uint64_t keep = EO_MIN(d->pool.shm.size / 8, (uint64_t)KEEP_MAX_BYTES);
    pool_trim(&d->pool, d->pool.used_bytes == 0 ? 0 : keep);
}

void device_memory_freed(struct device *d)
{
    if (d->trim && !loop_timer_active(d->trim)) {
        loop_timer_start(d->trim, TRIM_AFTER_MS, 0);
    }
}

/* A backend's name, with an index of one digit where it has several devices ("cuda:1"). There are fewer such names than
 * places in the table, so that names nobody has cannot use it up. */
static bool known_name(const char *name)
{
    size_t n = strcspn(name, ":");
    const char *index = name + n;
    if (*index == ':' && (index[1] < '0' || index[1] > '0' + DEVICE_MAX_INDEX || index[2] != '\0')) {
        return false;
    }
    for (size_t i = 0; i < EO_COUNT_OF(backend_names); i++) {
        if (strlen(backend_names[i]) == n && memcmp(backend_names[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

_Static_assert(EO_COUNT_OF(backend_names) * (DEVICE_MAX_INDEX + 2) <= DEVICE_MAX, "every name has a place");

static const char *backend_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return backend_names[i];
}

static int no_device(const char *name, struct eo_error *err)
{
    char quoted[100];
    EO_RAISE(err, EO_E_NO_DEVICE, "there is no device %s", eo_quote(name, strlen(name), quoted, sizeof(quoted)));
    const char *nearest = eo_nearest(name, backend_at, NULL, EO_COUNT_OF(backend_names));
    if (nearest) {
        eo_error_hint(err, "Did you mean %s? `everyo info` lists the devices.", nearest);
    } else {
        eo_error_hint(err, "`everyo info` lists the devices.");
    }
    return EO_E_NO_DEVICE;
}

int device_find(struct server *s, const char *name, struct device **out, struct eo_error *err)
{
    struct device_table *t = s->devices;
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->devices[i]->name, name) == 0) {
            *out = t->devices[i];
            return EO_OK;
        }
    }
    if (!known_name(name) || t->n == DEVICE_MAX) {
        return no_device(name, err);
    }
    struct device *d = calloc(1, sizeof(*d));
    if (!d || !eo_copy_text(d->name, sizeof(d->name), name)) {
        free(d);
        return no_device(name, err);
    }
    d->server = s;
    d->system.last = &d->system.first;
    d->round_last = &d->round;
    d->epoch = 1;
    d->trim = loop_timer_new(s->loop, on_trim, d);
    int code = d->trim ? pool_init(&d->pool, s->memory_limit_bytes, err)
                       : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for device %s", name);
    if (code != EO_OK) {
        loop_timer_free(d->trim);
        free(d);
        return code;
    }
    d->index = t->n;
    t->devices[t->n++] = d;
    *out = d;
    return EO_OK;
}

/* ---- the worker ---- */

static void take_ready(struct device *d, const struct eo_item *params)
{
    const struct eo_item *error = eo_item_get(params, "error");
    if (eo_item_kind(error) == EO_ITEM_MAP) {
        eo_error_unpack(error, &d->why); /* its exit follows */
        return;
    }
    const struct eo_item *device = eo_item_get(params, "device");
    uint64_t threads = 0;
    (void)eo_get_str(device, "description", "", d->description, sizeof(d->description), NULL);
    (void)eo_get_u64(params, "threads", 0, 4096, &threads, NULL);
    d->n_threads = (int)threads;
    d->state = DEVICE_READY;
    eo_log(EO_LOG_INFO, "device", "%s is ready: %s", d->name, d->description);
    waiters_fire(&d->waiters);
    pump(d);
}

static void on_report(void *ctx, enum eo_message m, const struct eo_item *params)
{
    struct device *d = ctx;
    if (m == EO_MSG_REPORT_READY && d->state == DEVICE_STARTING) {
        take_ready(d, params);
    }
}

static void fail_queue(struct device *d, const struct eo_error *err);

static void on_exited(void *ctx, const struct eo_error *why)
{
    struct device *d = ctx;
    d->worker = NULL;
    d->epoch++;
    d->n_in_flight = 0;
    if (d->state == DEVICE_STARTING) {
        d->state = DEVICE_FAILED;
        d->failed_ns = eo_now_ns();
        if (d->why.code == EO_OK) {
            d->why = *why;
        }
        eo_log_error("device", &d->why);
    } else {
        d->state = DEVICE_OFF;
        d->why = *why;
    }
    const struct eo_error cause = d->why; /* starting again below would clear it */
    fail_queue(d, &cause);                /* what waited for this worker fails with it; the next use starts another */
    waiters_fire(&d->waiters);
    pump(d);
}

static void start(struct device *d)
{
    const char *args[] = {"--device", d->name};
    const struct worker_callbacks callbacks = {.ctx = d, .report = on_report, .exited = on_exited};
    struct eo_error err = {0};
    eo_error_clear(&d->why);
    d->state = DEVICE_STARTING;
    if (worker_process_spawn(d->server, args, 2, d->pool.shm.fd, &callbacks, &d->worker, &err) != EO_OK) {
        d->worker = NULL;
        d->state = DEVICE_FAILED;
        d->failed_ns = eo_now_ns();
        d->why = err;
        eo_log_error("device", &err);
        fail_queue(d, &err);
        waiters_fire(&d->waiters);
    }
}

/* True when a failure is too fresh to try again. */
static bool resting(const struct device *d)
{
    return d->state == DEVICE_FAILED && eo_now_ns() - d->failed_ns < (uint64_t)DEVICE_RETRY_MS * 1000000;
}

/* ---- the default device ---- */

static void try_candidate(struct device_table *t, size_t candidate);

struct resolve {
    struct tensor_waiter waiter;
    struct device_table *table;
    struct device *device;
    size_t candidate;
};

static void facts_kept(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    EO_UNUSED(ctx);
    EO_UNUSED(err);
    EO_UNUSED(result); /* facts.c has kept it */
}

static void end_resolve(struct device_table *t, struct device *d, const struct eo_error *err)
{
    t->resolving = false;
    t->fallback = d;
    eo_error_clear(&t->resolve_error);
    if (!d) {
        t->resolve_error = *err;
        t->resolve_failed_ns = eo_now_ns();
    } else { /* so that info has something to show while the worker computes */
        (void)facts_ask(t->server, false, facts_kept, NULL, NULL);
    }
    waiters_fire(&t->waiters);
}

static void on_candidate(void *ctx)
{
    struct resolve *r = ctx;
    struct device *d = r->device;
    struct device_table *t = r->table;
    size_t candidate = r->candidate;
    if (d->state == DEVICE_STARTING) {
        waiters_add(&d->waiters, &r->waiter);
        return;
    }
    free(r);
    if (d->state == DEVICE_READY) {
        end_resolve(t, d, NULL);
    } else if (d->why.code == EO_E_NO_DEVICE && candidate + 1 < EO_COUNT_OF(backend_names)) {
        eo_log(EO_LOG_WARN, "device", "%s cannot be used, trying %s", d->name, backend_names[candidate + 1]);
        try_candidate(t, candidate + 1);
    } else {
        end_resolve(t, NULL, &d->why);
    }
}

static void try_candidate(struct device_table *t, size_t candidate)
{
    struct eo_error err = {0};
    struct device *d = NULL;
    struct resolve *r = calloc(1, sizeof(*r));
    if (!r || device_find(t->server, backend_names[candidate], &d, &err) != EO_OK) {
        if (err.code == EO_OK) {
            EO_RAISE(&err, EO_E_NO_MEMORY, "no memory to choose a device");
        }
        free(r);
        end_resolve(t, NULL, &err);
        return;
    }
    if (d->state == DEVICE_OFF || (d->state == DEVICE_FAILED && !resting(d))) {
        start(d);
    }
    *r = (struct resolve){.table = t, .device = d, .candidate = candidate};
    r->waiter = (struct tensor_waiter){.fn = on_candidate, .ctx = r};
    on_candidate(r);
}

int device_default(struct server *s, struct device **out, waiter_fn waiter, void *owner, struct eo_error *err)
{
    struct device_table *t = s->devices;
    *out = t->fallback;
    if (*out) {
        return EO_OK;
    }
    bool fresh =
        t->resolve_error.code != EO_OK && eo_now_ns() - t->resolve_failed_ns < (uint64_t)DEVICE_RETRY_MS * 1000000;
    if (!t->resolving && !fresh) {
        t->resolving = true;
        try_candidate(t, 0);
    }
    if (t->resolving) {
        waiters_add(&t->waiters, waiter(owner));
        return EO_OK;
    }
    *out = t->fallback;
    if (!*out) {
        if (err) {
            *err = t->resolve_error;
        }
        return t->resolve_error.code;
    }
    return EO_OK;
}

int device_choose(struct server *s, const char *name, struct device **out, waiter_fn waiter, void *owner,
                  struct eo_error *err)
{
    if (name[0] == '\0' || strcmp(name, "auto") == 0) {
        return device_default(s, out, waiter, owner, err);
    }
    return device_find(s, name, out, err);
}

/* ---- tasks ---- */

static void unuse_all(struct tensor **list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        tensor_unuse(list[i]);
        tensor_unref(list[i]);
    }
}

static struct tensor **use_all(struct tensor *const *list, uint32_t n)
{
    struct tensor **out = malloc(EO_MAX(n, 1u) * sizeof(struct tensor *));
    for (uint32_t i = 0; out && i < n; i++) {
        out[i] = tensor_ref(list[i]);
        tensor_use(list[i]);
    }
    return out;
}

static void free_task(struct device_task *t)
{
    if (t->request) {
        request_unref(t->request);
    }
    if (t->session) {
        session_unref(t->session);
    }
    if (t->plan) {
        session_plan_unref(t->plan);
    }
    free(t->in);
    free(t->out);
    eo_bytes_fini(&t->body);
    free(t);
}

int device_task_new(struct device *d, enum eo_message m, struct request *r, struct tensor *const *in, uint32_t n_in,
                    struct tensor *const *out, uint32_t n_out, struct device_task **out_task, struct eo_error *err)
{
    struct device_task *t = calloc(1, sizeof(*t));
    struct tensor **ins = use_all(in, n_in);
    struct tensor **outs = use_all(out, n_out);
    if (!t || !ins || !outs) {
        unuse_all(ins, ins ? n_in : 0);
        unuse_all(outs, outs ? n_out : 0);
        free(ins);
        free(outs);
        free(t);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a command");
    }
    *t = (struct device_task){.device = d, .message = m, .in = ins, .n_in = n_in, .out = outs, .n_out = n_out};
    if (r) {
        t->request = request_ref(r);
        t->session = r->session ? session_ref(r->session) : NULL;
    }
    eo_bytes_init(&t->body, EO_ENVELOPE_MAX);
    *out_task = t;
    return EO_OK;
}

/* The first input whose producer failed. */
static struct poison *poisoned_input(const struct device_task *t, struct eo_error *err)
{
    for (uint32_t i = 0; i < t->n_in; i++) {
        struct poison *p = t->in[i]->poison;
        if (t->in[i]->state == TENSOR_POISONED && p) {
            EO_RAISE(err, EO_E_POISONED, "input %lu was to be produced by a call that failed: %s", (unsigned long)i,
                     p->error.message);
            eo_error_cause(err, "call", p->error.code, p->error.message);
            eo_error_hint(err, "%s", p->error.hint);
            return p;
        }
    }
    return NULL;
}

static void finish(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    struct eo_error why = {0};
    struct poison *cause = poison_ref(poisoned_input(t, &why));
    if (cause && !err) {
        err = &why; /* an input failed while this was under way: the result means nothing */
    }
    if (err && !cause) {
        cause = poison_new(err);
    }
    for (uint32_t i = 0; i < t->n_out; i++) {
        if (err) {
            tensor_settle(t->out[i], cause);
        } else {
            tensor_settle(t->out[i], NULL);
        }
    }
    if (t->done) {
        t->done(t, err, err ? NULL : result);
    }
    unuse_all(t->in, t->n_in);
    unuse_all(t->out, t->n_out);
    poison_unref(cause);
    free_task(t);
}

static void settle_ranges(struct device_task *t, bool kept)
{
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        if (kept) {
            pool_kept(&t->device->pool, t->ranges[i].offset, t->ranges[i].bytes);
        } else {
            pool_broken(&t->device->pool, t->ranges[i].offset, t->ranges[i].bytes);
        }
    }
}

/* Decides how many are in flight, never what they compute. */
static void note_time(struct device *d)
{
    const uint64_t now = eo_now_ns();
    d->task_ns = (d->task_ns * 7 + (now - d->task_since_ns)) / 8;
    d->task_since_ns = now;
}

static uint32_t in_flight_limit(const struct device *d)
{
    return d->task_ns > DEVICE_LONG_NS ? DEVICE_IN_FLIGHT_LONG : DEVICE_IN_FLIGHT;
}

static void on_reply(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct device_task *t = ctx;
    struct device *d = t->device;
    d->n_in_flight--;
    note_time(d);
    settle_ranges(t, err == NULL);
    finish(t, err, result);
    pump(d);
}

static void add_range(void *ctx, uint64_t offset, uint64_t bytes)
{
    struct device_task *t = ctx;
    if (t->n_ranges == DEVICE_MAX_RANGES) { /* many pieces: here, although it costs the loop time */
        (void)pool_commit(&t->device->pool, offset, bytes, NULL);
        return;
    }
    t->ranges[t->n_ranges].offset = offset;
    t->ranges[t->n_ranges].bytes = bytes;
    t->n_ranges++;
}

static int send_task(struct device_task *t, struct eo_error *err)
{
    struct device *d = t->device;
    t->n_ranges = 0;
    for (uint32_t i = 0; i < t->n_out; i++) {
        pool_promise(&d->pool, t->out[i]->offset, t->out[i]->bytes, add_range, t);
    }
    struct eo_bytes *b = worker_process_task(d->worker, t->message);
    eo_pack_map(b, t->n_keys + (t->n_ranges ? 1u : 0u));
    if (t->n_ranges) {
        eo_pack_str(b, "commit");
        eo_pack_array(b, t->n_ranges);
        for (uint32_t i = 0; i < t->n_ranges; i++) {
            eo_pack_array(b, 2);
            eo_pack_u64(b, t->ranges[i].offset);
            eo_pack_u64(b, t->ranges[i].bytes);
        }
    }
    eo_bytes_append(b, t->body.data, t->body.size);
    b->failed |= t->body.failed;
    int code = worker_process_send(d->worker, on_reply, t, err);
    if (code != EO_OK) {
        settle_ranges(t, false);
    }
    return code;
}

/* ---- turns ---- */

static void join_round(struct device *d, struct task_queue *q)
{
    if (!q->link) {
        q->next = NULL;
        q->link = d->round_last;
        *d->round_last = q;
        d->round_last = &q->next;
    }
}

static void leave_round(struct device *d, struct task_queue *q)
{
    if (q->link) {
        *q->link = q->next;
        if (q->next) {
            q->next->link = q->link;
        } else {
            d->round_last = q->link;
        }
        q->link = NULL;
        q->next = NULL;
    }
}

/* The next task by turns: one of each session. */
static struct device_task *take_next(struct device *d)
{
    struct task_queue *q = d->round;
    if (!q) {
        return NULL;
    }
    struct device_task *t = q->first;
    q->first = t->next;
    leave_round(d, q);
    if (q->first) {
        join_round(d, q);
    } else {
        q->last = &q->first;
    }
    d->n_queued--;
    return t;
}

static void fail_queue(struct device *d, const struct eo_error *err)
{
    for (struct device_task *t = take_next(d); t; t = take_next(d)) {
        finish(t, err, NULL);
    }
}

static void run_task(struct device_task *t)
{
    struct eo_error err = {0};
    int code = EO_OK;
    if (poisoned_input(t, &err)) {
        code = err.code;
    } else if (t->plan) {
        code = session_plan_check(t->plan, &err);
    }
    if (code == EO_OK) {
        if (t->device->n_in_flight++ == 0) {
            t->device->task_since_ns = eo_now_ns();
        }
        code = send_task(t, &err);
        t->device->n_in_flight -= code == EO_OK ? 0 : 1;
    }
    if (code != EO_OK) {
        finish(t, &err, NULL);
    }
}

/* Brings queued tasks on their way: starts the worker, keeps a few in flight. */
static void pump(struct device *d)
{
    if (!d->round) {
        return;
    }
    if (d->state == DEVICE_OFF || (d->state == DEVICE_FAILED && !resting(d))) {
        start(d);
    } else if (d->state == DEVICE_FAILED) {
        struct eo_error why = d->why;
        fail_queue(d, &why);
    }
    while (d->state == DEVICE_READY && !worker_process_gone(d->worker) && d->n_in_flight < in_flight_limit(d)) {
        struct device_task *t = take_next(d);
        if (!t) {
            return;
        }
        run_task(t);
    }
}

void device_submit(struct device_task *t)
{
    struct device *d = t->device;
    struct task_queue *q = t->session ? &t->session->queues[d->index] : &d->system;
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
    d->n_queued++;
    join_round(d, q);
    pump(d);
}

void device_forget(struct session *x)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_NO_SESSION, "the session was closed");
    for (int i = 0; i < x->server->devices->n; i++) {
        struct device *d = x->server->devices->devices[i];
        struct task_queue *q = &x->queues[i];
        leave_round(d, q);
        while (q->first) {
            struct device_task *t = q->first;
            q->first = t->next;
            d->n_queued--;
            finish(t, &err, NULL);
        }
        q->last = &q->first;
    }
}

static void pack_place(struct eo_bytes *b, const struct tensor *t)
{
    eo_pack_array(b, 2);
    eo_pack_u64(b, t->offset);
    eo_pack_u64(b, t->bytes);
}

void device_task_places(struct device_task *t, const char *key, struct tensor *const *tensors, uint32_t n)
{
    eo_pack_str(&t->body, key);
    eo_pack_array(&t->body, n);
    for (uint32_t i = 0; i < n; i++) {
        if (tensors[i]) {
            pack_place(&t->body, tensors[i]);
        } else {
            eo_pack_nil(&t->body);
        }
    }
    t->n_keys++;
}

void device_task_op(struct device_task *t, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const char *fallback)
{
    struct eo_bytes *b = &t->body;
    eo_pack_kv_str(b, "op", op->name);
    eo_pack_str(b, "attrs");
    eo_attrs_pack(b, op, attrs);
    eo_pack_str(b, "in");
    eo_pack_array(b, t->n_in);
    for (uint32_t i = 0; i < t->n_in; i++) {
        const struct eo_tensor_desc *d = &t->in[i]->desc;
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "dtype", eo_dtype_name((enum eo_dtype)d->dtype));
        eo_pack_str(b, "shape");
        eo_pack_i64_array(b, d->shape, d->n_dims);
        eo_pack_str(b, "at");
        pack_place(b, t->in[i]);
    }
    eo_pack_kv_str(b, "fallback", fallback);
    t->n_keys += 4;
    device_task_places(t, "out", t->out, t->n_out);
}
