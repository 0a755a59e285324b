/* plan.*: graphs compiled by the device's worker and run on pool memory. A graph is decoded and verified here, on a
 * file thread, before its bytes reach a worker. */
#include "daemon/server/handlers.h"
#include "daemon/server/handlers/operation.h"
#include "daemon/server/items.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "proto/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_MAX_PORTS = 4096, PLAN_MAX_GRADIENTS = 16 };

/* ---- create ---- */

struct creation {
    struct request *request;
    struct session_plan *plan;
    struct tensor *graph; /* the graph's bytes in the pool, until it is compiled */
    char fallback[8];
    /* the file thread's */
    int code;
    struct eo_error error;
};

static void end_creation(struct creation *c, const struct eo_error *err)
{
    session_plan_settle(c->plan, err);
    if (err && c->plan->session) {
        session_drop_plan(c->plan->session, c->plan); /* the number is free again */
    }
    if (err) {
        request_fail(c->request, err);
    }
    session_plan_unref(c->plan);
    tensor_unref(c->graph);
    request_unref(c->request);
    free(c);
}

static int take_ports(struct session_plan *p, const struct eo_item *list, uint32_t first, struct eo_error *err)
{
    int code = EO_OK;
    for (size_t i = 0; code == EO_OK && i < eo_item_count(list); i++) {
        struct session_port *port = &p->ports[first + i];
        code = eo_need_str(eo_item_at(list, i), "name", port->name, sizeof(port->name), err);
        if (code == EO_OK) {
            code = eo_tensor_desc_unpack(eo_item_at(list, i), &port->desc, err);
        }
    }
    return code;
}

static int take_plan(struct session_plan *p, const struct eo_item *result, struct eo_error *err)
{
    const struct eo_item *inputs = NULL, *outputs = NULL;
    int code = eo_need_array(result, "inputs", PLAN_MAX_PORTS, &inputs, err);
    if (code == EO_OK) {
        code = eo_need_array(result, "outputs", PLAN_MAX_PORTS, &outputs, err);
    }
    if (code != EO_OK) {
        return code;
    }
    p->n_inputs = (uint32_t)eo_item_count(inputs);
    p->n_outputs = (uint32_t)eo_item_count(outputs);
    p->ports = calloc((size_t)p->n_inputs + p->n_outputs + 1, sizeof(*p->ports));
    if (!p->ports) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a plan");
    }
    code = take_ports(p, inputs, 0, err);
    return code == EO_OK ? take_ports(p, outputs, p->n_inputs, err) : code;
}

static void compiled(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    struct creation *c = t->ctx;
    struct eo_error why = {0};
    if (!err && take_plan(c->plan, result, &why) != EO_OK) {
        eo_error_push(&why, "reading the worker's answer");
        err = &why;
    }
    c->plan->device_epoch = c->plan->device->epoch;
    if (!err) {
        item_pack(request_result(c->request), result);
        request_send(c->request);
    }
    end_creation(c, err);
}

static void verify_work(void *ctx)
{
    struct creation *c = ctx;
    const struct request *r = c->request;
    struct eo_graph *g = NULL;
    c->code = eo_graph_decode(r->payload, r->payload_size, &g, &c->error);
    eo_graph_free(g);
    if (c->code == EO_E_BAD_ENVELOPE) { /* the bytes are not even MessagePack; for the caller they are a graph */
        struct eo_error why = c->error;
        c->code = EO_RAISE(&c->error, EO_E_BAD_GRAPH, "the graph cannot be read: %s", why.message);
    }
    const struct pool *pool = &c->plan->device->pool;
    if (c->code == EO_OK) {
        c->code = shm_commit(&pool->shm, c->graph->offset, c->graph->bytes, &c->error);
    }
    if (c->code == EO_OK) {
        memcpy(pool->shm.data + c->graph->offset, r->payload, r->payload_size);
    }
}

static void pack_gradients(struct device_task *t, const struct request *r)
{
    const struct eo_item *gradients = eo_item_get(r->params, "gradients");
    if (gradients) {
        eo_pack_str(&t->body, "gradients");
        item_pack(&t->body, gradients);
        t->n_keys++;
    }
}

static void verified(void *ctx)
{
    struct creation *c = ctx;
    struct device *d = c->plan->device;
    struct device_task *t = NULL;
    if (c->code == EO_OK) {
        pool_kept(&d->pool, c->graph->offset, c->graph->bytes);
    } else {
        pool_broken(&d->pool, c->graph->offset, c->graph->bytes);
    }
    tensor_settle(c->graph, NULL);
    free(request_take_payload(c->request));
    if (c->code == EO_OK && c->request->session->closed) {
        c->code = EO_RAISE(&c->error, EO_E_NO_SESSION, "the session was closed");
    }
    if (c->code == EO_OK) {
        c->code = device_task_new(d, EO_MSG_TASK_PLAN, c->request, &c->graph, 1, NULL, 0, &t, &c->error);
    }
    if (c->code != EO_OK) {
        end_creation(c, &c->error);
        return;
    }
    eo_pack_kv_u64(&t->body, "plan", c->plan->worker_id);
    eo_pack_kv_u64(&t->body, "at", c->graph->offset);
    eo_pack_kv_u64(&t->body, "size", c->graph->bytes);
    eo_pack_kv_str(&t->body, "fallback", c->fallback);
    t->n_keys = 4;
    pack_gradients(t, c->request);
    t->done = compiled;
    t->ctx = c;
    device_submit(t);
}

static int check_names(const struct eo_item *list, size_t n, struct eo_error *err)
{
    if (eo_item_kind(list) != EO_ITEM_ARRAY || eo_item_count(list) != n) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "a gradient's wrt and as are not two arrays of the same length");
    }
    for (size_t i = 0; i < n; i++) {
        if (eo_item_kind(eo_item_at(list, i)) != EO_ITEM_STR) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "a gradient's wrt and as hold names");
        }
    }
    return EO_OK;
}

static int check_gradients(const struct request *r, struct eo_error *err)
{
    const struct eo_item *gradients = eo_item_get(r->params, "gradients");
    if (!gradients) {
        return EO_OK;
    }
    if (eo_item_kind(gradients) != EO_ITEM_ARRAY || eo_item_count(gradients) > PLAN_MAX_GRADIENTS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "gradients is no array of at most %d maps", PLAN_MAX_GRADIENTS);
    }
    int code = EO_OK;
    for (size_t i = 0; code == EO_OK && i < eo_item_count(gradients); i++) {
        const struct eo_item *g = eo_item_at(gradients, i);
        const struct eo_item *wrt = eo_item_get(g, "wrt");
        char of[96];
        code = eo_need_str(g, "of", of, sizeof(of), err);
        if (code == EO_OK) {
            code = check_names(wrt, eo_item_count(wrt), err);
        }
        if (code == EO_OK) {
            code = check_names(eo_item_get(g, "as"), eo_item_count(wrt), err);
        }
    }
    return code;
}

static void no_range(void *ctx, uint64_t offset, uint64_t bytes)
{
    EO_UNUSED(ctx);
    EO_UNUSED(offset);
    EO_UNUSED(bytes);
}

/* Memory for the graph's bytes; verify_work commits what is promised here. */
static int take_graph_memory(struct creation *c, struct eo_error *err)
{
    const int64_t size = (int64_t)c->request->payload_size;
    struct eo_tensor_desc desc;
    int code = eo_tensor_desc_init(&desc, EO_UINT8, &size, 1, err);
    if (code == EO_OK) {
        code = tensor_new(c->request->session, c->plan->device, &desc, TENSOR_PENDING, &c->graph, err);
    }
    if (code == EO_OK) {
        pool_promise(&c->plan->device->pool, c->graph->offset, c->graph->bytes, no_range, NULL);
    }
    return code;
}

static int begin_creation(struct request *r, uint32_t id, struct device *d, const char *fallback, struct eo_error *err)
{
    static uint64_t last_worker_id;
    struct creation *c = calloc(1, sizeof(*c));
    struct session_plan *p = calloc(1, sizeof(*p));
    if (!c || !p) {
        free(c);
        free(p);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a plan");
    }
    *p = (struct session_plan){.n_refs = 1, .id = id, .worker_id = ++last_worker_id, .device = d};
    c->plan = session_plan_ref(p);
    c->request = request_ref(r);
    snprintf(c->fallback, sizeof(c->fallback), "%s", fallback);
    int code = session_put_plan(r->session, p, err); /* on failure p is gone except for our reference */
    if (code == EO_OK) {
        code = take_graph_memory(c, err);
    }
    if (code == EO_OK) {
        code = loop_work(r->server->loop, LOOP_FILES, verify_work, verified, c, err);
    }
    if (code != EO_OK) {
        struct eo_error why = {0};
        why = err ? *err : why;
        end_creation(c, &why);
    }
    return code;
}

HANDLER(PLAN_CREATE)
{
    uint64_t id = 0;
    char device[16], fallback[8];
    struct device *d = NULL;
    int code = eo_need_u64(r->params, "plan", UINT32_MAX, &id, err);
    if (code == EO_OK && !r->payload) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "plan.create carries no graph");
    }
    if (code == EO_OK) {
        code = operation_fallback(r, fallback, err);
    }
    if (code == EO_OK) {
        code = check_gradients(r, err);
    }
    if (code == EO_OK) {
        code = eo_get_str(r->params, "device", "", device, sizeof(device), err);
    }
    if (code == EO_OK) {
        code = device_choose(r->server, device, &d, session_waiter, r->session, err);
    }
    if (code != EO_OK) {
        return code;
    }
    return d ? begin_creation(r, (uint32_t)id, d, fallback, err) : SESSION_AGAIN;
}

/* ---- run and free ---- */

/* EO_OK, SESSION_AGAIN while it is being created, or BAD_HANDLE. */
static int find_plan(struct request *r, struct session_plan **out, struct eo_error *err)
{
    uint64_t id = 0;
    int code = eo_need_u64(r->params, "plan", UINT32_MAX, &id, err);
    if (code != EO_OK) {
        return code;
    }
    *out = session_find_plan(r->session, (uint32_t)id);
    if (!*out) {
        EO_RAISE(err, EO_E_BAD_HANDLE, "there is no plan %llu", (unsigned long long)id);
        eo_error_hint(err, "It was freed, or creating it failed.");
        return EO_E_BAD_HANDLE;
    }
    if ((*out)->state == PLAN_CREATING) {
        waiters_add(&(*out)->waiters, session_waiter(r->session));
        return SESSION_AGAIN;
    }
    return EO_OK;
}

struct run {
    struct session_plan *plan;
    struct tensor **in;  /* by input */
    struct tensor **out; /* by output; NULL = not fetched */
    struct handle *handles;
    struct eo_tensor_desc *desc;
    struct tensor **fetched; /* the outputs that are, in the order of handles and desc */
    uint32_t n_fetched;
};

static const struct session_port *find_port(const struct session_port *ports, uint32_t n, const struct eo_item *name,
                                            uint32_t *out_index)
{
    const char *text = NULL;
    size_t length = 0;
    if (!eo_item_as_str(name, &text, &length)) {
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (strlen(ports[i].name) == length && memcmp(ports[i].name, text, length) == 0) {
            *out_index = i;
            return &ports[i];
        }
    }
    return NULL;
}

static int unknown_port(const struct eo_item *name, const char *what, struct eo_error *err)
{
    const char *text = "";
    size_t length = 0;
    char quoted[100];
    (void)eo_item_as_str(name, &text, &length);
    return EO_RAISE(err, EO_E_BAD_PARAMS, "the plan has no %s %s", what,
                    eo_quote(text, length, quoted, sizeof(quoted)));
}

static int take_feed(const struct request *r, struct run *run, const struct eo_item *name, const struct eo_item *value,
                     struct eo_error *err)
{
    const struct session_plan *p = run->plan;
    struct tensor *t = NULL;
    uint32_t index = 0;
    char what[128], is[96], wanted[96];
    const struct session_port *port = find_port(p->ports, p->n_inputs, name, &index);
    if (!port) {
        return unknown_port(name, "input", err);
    }
    snprintf(what, sizeof(what), "feed %s", port->name);
    int code = operation_input(r, value, what, &t, err);
    if (code != EO_OK) {
        return code;
    }
    if (t->device != p->device) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "feed %s lies on %s, the plan runs on %s", port->name, t->device->name,
                        p->device->name);
    }
    if (!eo_tensor_desc_equal(&t->desc, &port->desc)) {
        return EO_RAISE(err, t->desc.dtype == port->desc.dtype ? EO_E_SHAPE_MISMATCH : EO_E_DTYPE_MISMATCH,
                        "feed %s is %s, the plan wants %s", port->name, eo_tensor_desc_text(&t->desc, is, sizeof(is)),
                        eo_tensor_desc_text(&port->desc, wanted, sizeof(wanted)));
    }
    run->in[index] = t;
    return EO_OK;
}

static int take_fetch(const struct request *r, struct run *run, const struct eo_item *name, const struct eo_item *value,
                      uint32_t *order, struct eo_error *err)
{
    const struct session_plan *p = run->plan;
    uint32_t index = 0;
    const struct session_port *port = find_port(p->ports + p->n_inputs, p->n_outputs, name, &index);
    if (!port) {
        return unknown_port(name, "output", err);
    }
    struct handle *h = &run->handles[run->n_fetched];
    int code = handle_unpack(r->session, value, "fetch", h, err);
    if (code == EO_OK) {
        code = session_check_new(r->session, *h, err);
    }
    for (uint32_t i = 0; code == EO_OK && i < run->n_fetched; i++) {
        if (run->handles[i].slot == h->slot || order[i] == index) {
            code = EO_RAISE(err, EO_E_BAD_HANDLE, "fetch %s or its slot %lu is named twice", port->name,
                            (unsigned long)h->slot);
        }
    }
    if (code == EO_OK) {
        order[run->n_fetched] = index;
        run->desc[run->n_fetched++] = port->desc;
    }
    return code;
}

static int parse_run(const struct request *r, struct run *run, uint32_t *order, struct eo_error *err)
{
    const struct session_plan *p = run->plan;
    const struct eo_item *feeds = NULL, *fetches = NULL, *name = NULL, *value = NULL;
    int code = eo_need_map(r->params, "feeds", &feeds, err);
    if (code == EO_OK) {
        code = eo_need_map(r->params, "fetches", &fetches, err);
    }
    if (code == EO_OK && eo_item_count(fetches) > p->n_outputs) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "%zu fetches, the plan has %lu outputs", eo_item_count(fetches),
                        (unsigned long)p->n_outputs);
    }
    for (size_t i = 0; code == EO_OK && i < eo_item_count(feeds); i++) {
        eo_item_pair(feeds, i, &name, &value);
        code = take_feed(r, run, name, value, err);
    }
    for (uint32_t i = 0; code == EO_OK && i < p->n_inputs; i++) {
        if (!run->in[i]) {
            code = EO_RAISE(err, EO_E_BAD_PARAMS, "input %s of the plan is not fed", p->ports[i].name);
        }
    }
    for (size_t i = 0; code == EO_OK && i < eo_item_count(fetches); i++) {
        eo_item_pair(fetches, i, &name, &value);
        code = take_fetch(r, run, name, value, order, err);
    }
    return code;
}

static void run_done(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    char fallback[256];
    if (err) {
        request_fail(t->request, err);
        return;
    }
    (void)eo_get_str(result, "fallback", "", fallback, sizeof(fallback), NULL);
    struct eo_bytes *b = request_result(t->request);
    eo_pack_map(b, fallback[0] ? 1 : 0);
    if (fallback[0]) {
        eo_pack_kv_str(b, "fallback", fallback);
    }
    request_send(t->request);
}

static int submit_run(struct request *r, struct run *run, const uint32_t *order, struct eo_error *err)
{
    struct session_plan *p = run->plan;
    struct device_task *t = NULL;
    int code = operation_outputs(r->session, p->device, run->desc, run->handles, run->n_fetched, run->fetched, err);
    if (code == EO_OK) {
        code =
            operation_task(r, p->device, EO_MSG_TASK_RUN, run->in, p->n_inputs, run->fetched, run->n_fetched, &t, err);
    }
    if (code != EO_OK) {
        return code;
    }
    for (uint32_t i = 0; i < run->n_fetched; i++) {
        run->out[order[i]] = run->fetched[i];
    }
    t->plan = session_plan_ref(p);
    eo_pack_kv_u64(&t->body, "plan", p->worker_id);
    t->n_keys = 1;
    device_task_places(t, "in", run->in, p->n_inputs);
    device_task_places(t, "out", run->out, p->n_outputs);
    t->done = run_done;
    device_submit(t);
    return EO_OK;
}

HANDLER(PLAN_RUN)
{
    struct session_plan *p = NULL;
    int code = find_plan(r, &p, err);
    if (code == EO_OK) {
        code = session_plan_check(p, err);
    }
    if (code != EO_OK) {
        return code;
    }
    const size_t n_in = (size_t)p->n_inputs + 1, n_out = (size_t)p->n_outputs + 1;
    struct run run = {.plan = p,
                      .in = calloc(n_in, sizeof(struct tensor *)),
                      .out = calloc(n_out, sizeof(struct tensor *)),
                      .fetched = calloc(n_out, sizeof(struct tensor *)),
                      .handles = calloc(n_out, sizeof(struct handle)),
                      .desc = calloc(n_out, sizeof(struct eo_tensor_desc))};
    uint32_t *order = calloc(n_out, sizeof(*order));
    if (!run.in || !run.out || !run.fetched || !run.handles || !run.desc || !order) {
        code = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to run a plan");
    } else {
        code = parse_run(r, &run, order, err);
    }
    if (code == EO_OK) {
        code = submit_run(r, &run, order, err);
    }
    free(run.in);
    free(run.out);
    free(run.fetched);
    free(run.handles);
    free(run.desc);
    free(order);
    return code;
}

HANDLER(PLAN_FREE)
{
    struct session_plan *p = NULL;
    int code = find_plan(r, &p, err);
    if (code != EO_OK) {
        return code;
    }
    session_drop_plan(r->session, p);
    request_ok(r);
    return EO_OK;
}
