/* The plans of a session, and the order of its requests. */
#include "daemon/server/request.h"
#include "daemon/server/session.h"

#include <stdlib.h>

/* ---- plans ---- */

static struct session_plan **bucket(const struct session *x, uint32_t id)
{
    union { /* the chain may change, the session's facts do not */
        struct session_plan *const *in;
        struct session_plan **out;
    } at = {.in = &x->plans[id % EO_COUNT_OF(x->plans)]};
    return at.out;
}

struct session_plan *session_find_plan(const struct session *x, uint32_t id)
{
    struct session_plan *p = *bucket(x, id);
    while (p && p->id != id) {
        p = p->next;
    }
    return p;
}

int session_put_plan(struct session *x, struct session_plan *p, struct eo_error *err)
{
    int code = EO_OK;
    if (session_find_plan(x, p->id)) {
        code = EO_RAISE(err, EO_E_BAD_HANDLE, "plan %lu exists already: free it first", (unsigned long)p->id);
    } else if (x->n_plans >= x->server->config->session_plans) {
        code = EO_RAISE(err, EO_E_QUOTA, "the session has %lu plans, no more may be made", (unsigned long)x->n_plans);
    }
    if (code != EO_OK) {
        session_plan_unref(p);
        return code;
    }
    struct session_plan **at = bucket(x, p->id);
    p->session = x;
    p->next = *at;
    *at = p;
    x->n_plans++;
    return EO_OK;
}

void session_drop_plan(struct session *x, struct session_plan *p)
{
    for (struct session_plan **at = bucket(x, p->id); *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    p->next = NULL;
    p->session = NULL;
    x->n_plans--;
    session_plan_unref(p);
}

struct session_plan *session_plan_ref(struct session_plan *p)
{
    p->n_refs++;
    return p;
}

/* The worker forgets it as well. A lost worker has forgotten everything. */
static void free_in_worker(const struct session_plan *p)
{
    struct device_task *t = NULL;
    if (p->state != PLAN_READY || p->device_epoch != p->device->epoch || p->device->state != DEVICE_READY ||
        device_task_new(p->device, EO_MSG_TASK_FREE, NULL, NULL, 0, NULL, 0, &t, NULL) != EO_OK) {
        return;
    }
    eo_pack_kv_u64(&t->body, "plan", p->worker_id);
    t->n_keys = 1;
    device_submit(t);
}

void session_plan_unref(struct session_plan *p)
{
    if (--p->n_refs > 0) {
        return;
    }
    free_in_worker(p);
    poison_unref(p->poison);
    free(p->ports);
    free(p);
}

void session_plan_settle(struct session_plan *p, const struct eo_error *err)
{
    p->state = err ? PLAN_FAILED : PLAN_READY;
    p->poison = err ? poison_new(err) : NULL;
    session_plan_ref(p);
    waiters_fire(&p->waiters);
    session_plan_unref(p);
}

int session_plan_check(struct session_plan *p, struct eo_error *err)
{
    if (p->state == PLAN_FAILED) {
        if (err && p->poison) {
            *err = p->poison->error;
            eo_error_push(err, "creating plan %lu", (unsigned long)p->id);
            return err->code;
        }
        return EO_RAISE(err, EO_E_POISONED, "plan %lu could not be created", (unsigned long)p->id);
    }
    if (p->state == PLAN_READY && p->device_epoch != p->device->epoch) {
        EO_RAISE(err, EO_E_WORKER_LOST, "plan %lu was lost with its worker: %s", (unsigned long)p->id,
                 p->device->why.message);
        eo_error_hint(err, "Create the plan again; tensors that were complete are still there.");
        return EO_E_WORKER_LOST;
    }
    return EO_OK;
}

/* ---- order ---- */

bool session_inbox_busy(const struct session *x)
{
    return x->inbox != NULL;
}

void session_wait_inbox(struct session *x, struct tensor_waiter *w)
{
    waiters_add(&x->idle_waiters, w);
}

/* Runs the handler; false: it waits and is to be run again. */
static bool run_request(struct session *x, struct request *r)
{
    struct eo_error err = {0};
    if (x->closed) {
        EO_RAISE(&err, EO_E_NO_SESSION, "the session was closed");
        request_fail(r, &err);
        return true;
    }
    return dispatch_run(r);
}

static void run_inbox(void *ctx)
{
    struct session *x = ctx;
    struct server *s = x->server;
    x->inbox_waits = false;
    session_ref(x);
    server_cork(s);
    while (x->inbox && !x->inbox_waits) {
        struct request *r = request_ref(x->inbox);
        bool ended = run_request(x, r);
        if (ended && x->inbox == r) { /* closing the session empties the inbox */
            x->inbox = r->private_->next_inbox;
            if (!x->inbox) {
                x->inbox_last = &x->inbox;
            }
            request_unref(r);
        }
        request_unref(r);
    }
    if (!x->inbox) {
        waiters_fire(&x->idle_waiters);
    }
    server_uncork(s);
    session_unref(x);
    session_unref(x); /* session_waiter's */
}

void session_submit(struct session *x, struct request *r)
{
    if (!x->inbox && run_request(x, r)) {
        return;
    }
    r->private_->next_inbox = NULL;
    *x->inbox_last = request_ref(r);
    x->inbox_last = &r->private_->next_inbox;
}

struct tensor_waiter *session_waiter(void *session)
{
    struct session *x = session;
    session_ref(x); /* the waiter stands in somebody's list, also when the session closes */
    x->inbox_waits = true;
    x->inbox_waiter = (struct tensor_waiter){.fn = run_inbox, .ctx = x};
    return &x->inbox_waiter;
}
