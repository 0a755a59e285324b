/* Tasks: made, queued per session, sent in turns, finished. */
#include "daemon/server/device.h"

#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/op_schema.h"

#include <stdlib.h>

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

/* What a task that succeeded says about results whose shape depends on data. */
static int take_shapes(struct device_task *t, const struct eo_item *result, struct eo_error *err)
{
    const struct eo_item *outputs = eo_item_get(result, "outputs");
    int code = EO_OK;
    for (uint32_t i = 0; code == EO_OK && i < t->n_out; i++) {
        struct eo_tensor_desc desc;
        if (!tensor_shape_is_open(t->out[i])) {
            continue;
        }
        code = eo_tensor_desc_unpack(i < eo_item_count(outputs) ? eo_item_at(outputs, i) : NULL, &desc, err);
        if (code == EO_OK) {
            code = tensor_shrink(t->out[i], &desc, err);
        }
    }
    return code;
}

static void finish(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    struct eo_error why = {0};
    struct poison *cause = poison_ref(poisoned_input(t, &why));
    if (cause && !err) {
        err = &why; /* an input failed while this was under way: the result means nothing */
    }
    if (!err && take_shapes(t, result, &why) != EO_OK) {
        err = &why;
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
    device_pump(d);
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

void device_fail_queue(struct device *d, const struct eo_error *err)
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
void device_pump(struct device *d)
{
    if (!d->round) {
        return;
    }
    if (d->state == DEVICE_OFF || (d->state == DEVICE_FAILED && !device_resting(d))) {
        device_start(d);
    } else if (d->state == DEVICE_FAILED) {
        struct eo_error why = d->why;
        device_fail_queue(d, &why);
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
    device_pump(d);
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
