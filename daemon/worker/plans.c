/* task.plan, task.run, task.free. */
#include "daemon/worker/plans.h"

#include "daemon/engine/autodiff.h"
#include "daemon/engine/executor.h"
#include "daemon/worker/places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_BUCKETS = 256, MAX_PORTS = PLAN_MAX_BUFFERS, MAX_WRT = 256 };

struct port {
    uint64_t bytes;
    void *unwanted; /* device memory for a result that a run does not fetch; taken when first needed */
};

struct entry {
    struct entry *next;
    uint64_t id;
    struct plan *plan;
    uint32_t n_in, n_out;
    struct port ports[]; /* inputs, then outputs: port i is buffer i of the plan */
};

struct worker_plans {
    struct entry *buckets[PLANS_BUCKETS];
    uint32_t n;
};

int plans_new(struct worker_plans **out, struct eo_error *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for plans");
}

static void free_entry(struct worker *w, struct entry *e)
{
    for (uint32_t i = 0; i < e->n_in + e->n_out; i++) {
        if (e->ports[i].unwanted) {
            w->device->backend->free(w->device, e->ports[i].unwanted, e->ports[i].bytes);
        }
    }
    plan_free(e->plan);
    free(e);
}

void plans_free(struct worker_plans *p, struct worker *w)
{
    for (size_t i = 0; p && i < PLANS_BUCKETS; i++) {
        while (p->buckets[i]) {
            struct entry *e = p->buckets[i];
            p->buckets[i] = e->next;
            free_entry(w, e);
        }
    }
    free(p);
}

static struct entry **find(struct worker_plans *p, uint64_t id)
{
    struct entry **at = &p->buckets[id % PLANS_BUCKETS];
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    return at;
}

/* ---- compiling ---- */

struct compilation {
    struct eo_graph *graph;
    uint32_t n_in, n_out;
    struct plan_place in[MAX_PORTS], out[MAX_PORTS];
    const char *in_names[MAX_PORTS], *out_names[MAX_PORTS];
};

static int name_value(const struct eo_graph *g, const struct eo_item *name, eo_value *out, struct eo_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    char copy[128], quoted[100];
    if (!eo_item_as_str(name, &text, &length) || length >= sizeof(copy)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "a gradient's names are texts");
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = eo_graph_find(g, copy);
    if (*out == EO_NO_VALUE) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "the graph has nothing named %s",
                        eo_quote(text, length, quoted, sizeof(quoted)));
    }
    return EO_OK;
}

/* Adds the outputs that {of, wrt, as} asks for. */
static int add_gradient(struct eo_graph *g, const struct eo_item *it, struct eo_error *err)
{
    const struct eo_item *wrt = NULL, *as = NULL;
    eo_value y = EO_NO_VALUE, x[MAX_WRT], dx[MAX_WRT];
    int code = eo_need_array(it, "wrt", MAX_WRT, &wrt, err);
    if (code == EO_OK) {
        code = eo_need_array(it, "as", MAX_WRT, &as, err);
    }
    if (code == EO_OK && eo_item_count(wrt) != eo_item_count(as)) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "wrt and as of a gradient differ in length");
    }
    if (code == EO_OK) {
        code = name_value(g, eo_item_get(it, "of"), &y, err);
    }
    const int n = (int)eo_item_count(wrt);
    for (int i = 0; code == EO_OK && i < n; i++) {
        code = name_value(g, eo_item_at(wrt, (size_t)i), &x[i], err);
    }
    if (code == EO_OK) {
        code = autodiff_gradients(g, y, EO_NO_VALUE, x, n, dx, err);
    }
    for (int i = 0; code == EO_OK && i < n; i++) {
        const char *text = NULL;
        size_t length = 0;
        char name[128];
        if (!eo_item_as_str(eo_item_at(as, (size_t)i), &text, &length) || length >= sizeof(name)) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "a gradient's names are texts of less than %zu bytes", sizeof(name));
        }
        memcpy(name, text, length);
        name[length] = '\0';
        code = eo_graph_output(g, name, dx[i], err);
    }
    return code;
}

static int load_graph(const struct worker *w, const struct eo_item *params, struct eo_graph **out, struct eo_error *err)
{
    uint64_t at = 0, size = 0;
    int code = eo_need_u64(params, "at", w->pool.size, &at, err);
    if (code == EO_OK) {
        code = eo_need_u64(params, "size", w->pool.size - at, &size, err);
    }
    if (code == EO_OK) {
        code = eo_graph_decode(w->pool.data + at, size, out, err);
    }
    const struct eo_item *gradients = eo_item_get(params, "gradients");
    for (size_t i = 0; code == EO_OK && i < eo_item_count(gradients); i++) {
        code = add_gradient(*out, eo_item_at(gradients, i), err);
    }
    return code;
}

static int too_many(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_TOO_LARGE, "the graph has more than %d inputs and outputs", MAX_PORTS);
}

/* Every input and state, then every output, gets a buffer of its own: runs give them any place. */
static int assign_buffers(struct compilation *c, struct eo_error *err)
{
    const struct eo_graph *g = c->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct eo_graph_node *n = &g->nodes[i];
        if (n->kind != EO_NODE_INPUT && n->kind != EO_NODE_STATE) {
            continue;
        }
        if (c->n_in == MAX_PORTS) {
            return too_many(err);
        }
        c->in_names[c->n_in] = n->name;
        c->in[c->n_in] = (struct plan_place){.value = n->first_output, .buffer = c->n_in};
        c->n_in++;
    }
    if (g->n_outputs == 0) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the graph has no outputs");
    }
    if (g->n_outputs > MAX_PORTS - c->n_in) {
        return too_many(err);
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        c->out_names[i] = g->outputs[i].name;
        c->out[i] = (struct plan_place){.value = g->outputs[i].value, .buffer = c->n_in + i};
    }
    c->n_out = g->n_outputs;
    return EO_OK;
}

static int check_memory(const struct worker *w, const struct plan *p, struct eo_error *err)
{
    const struct plan_stats *s = plan_stats(p);
    if (w->memory_limit_bytes == 0 ||
        (s->arena_bytes <= w->memory_limit_bytes && s->constant_bytes <= w->memory_limit_bytes - s->arena_bytes)) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_DEVICE_MEMORY, "the plan needs %" PRIu64 " bytes while it runs, the limit is %" PRIu64,
             s->arena_bytes + s->constant_bytes, w->memory_limit_bytes);
    eo_error_hint(err, "Use a smaller batch, or start everyod with a larger --memory-limit.");
    return EO_E_DEVICE_MEMORY;
}

static int compile(struct worker *w, const struct eo_item *params, struct compilation *c, struct plan **out,
                   struct eo_error *err)
{
    struct plan_spec spec = {.inputs = c->in, .outputs = c->out};
    int code = task_fallback(params, &spec.fallback, err);
    if (code == EO_OK) {
        code = load_graph(w, params, &c->graph, err);
    }
    if (code == EO_OK) {
        code = assign_buffers(c, err);
    }
    if (code != EO_OK) {
        return code;
    }
    spec.graph = c->graph;
    spec.n_inputs = c->n_in;
    spec.n_outputs = c->n_out;
    code = plan_compile(&spec, w->device, out, err);
    if (code == EO_OK) {
        code = check_memory(w, *out, err);
    }
    if (code == EO_OK) {
        code = executor_reserve(w->executor, *out, err);
    }
    return code;
}

static int keep(struct worker_plans *p, uint64_t id, const struct compilation *c, struct plan *plan,
                struct eo_error *err)
{
    const size_t n = (size_t)c->n_in + c->n_out;
    struct entry *e = calloc(1, sizeof(*e) + n * sizeof(e->ports[0]));
    if (!e) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a plan");
    }
    e->id = id;
    e->plan = plan;
    e->n_in = c->n_in;
    e->n_out = c->n_out;
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_place *at = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
        e->ports[i].bytes = eo_tensor_desc_bytes(eo_graph_desc(c->graph, at->value));
    }
    struct entry **bucket = find(p, id);
    *bucket = e;
    p->n++;
    return EO_OK;
}

static void pack_ports(struct eo_bytes *b, const char *key, const struct eo_graph *g, const struct plan_place *places,
                       const char *const *names, uint32_t n)
{
    eo_pack_str(b, key);
    eo_pack_array(b, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct eo_tensor_desc *d = eo_graph_desc(g, places[i].value);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "name", names[i]);
        eo_pack_kv_str(b, "dtype", eo_dtype_name((enum eo_dtype)d->dtype));
        eo_pack_str(b, "shape");
        eo_pack_i64_array(b, d->shape, d->n_dims);
    }
}

static void pack_plan(struct eo_bytes *b, const struct compilation *c, const struct plan *plan)
{
    const struct plan_stats *s = plan_stats(plan);
    eo_pack_map(b, s->fallback_ops[0] ? 5 : 4);
    pack_ports(b, "inputs", c->graph, c->in, c->in_names, c->n_in);
    pack_ports(b, "outputs", c->graph, c->out, c->out_names, c->n_out);
    eo_pack_kv_u64(b, "arena_bytes", s->arena_bytes);
    eo_pack_kv_u64(b, "steps", s->n_steps);
    if (s->fallback_ops[0]) {
        eo_pack_kv_str(b, "fallback", s->fallback_ops);
    }
}

TASK(PLAN)
{
    uint64_t id = 0;
    struct plan *plan = NULL;
    struct compilation *c = calloc(1, sizeof(*c));
    int code = c ? eo_need_u64(call->params, "plan", UINT64_MAX, &id, err)
                 : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a plan");
    if (code == EO_OK && (!w->executor || w->plans->n >= PLANS_MAX || *find(w->plans, id))) {
        code = EO_RAISE(err, EO_E_INTERNAL, "plan %" PRIu64 " cannot be made: %lu plans exist", id,
                        (unsigned long)w->plans->n);
    }
    if (code == EO_OK) {
        code = compile(w, call->params, c, &plan, err);
    }
    if (code == EO_OK) {
        code = keep(w->plans, id, c, plan, err);
    }
    if (code == EO_OK) {
        pack_plan(result, c, plan);
    } else {
        plan_free(plan);
    }
    if (c) {
        eo_graph_free(c->graph);
    }
    free(c);
    return code;
}

/* ---- running ---- */

static int find_plan(struct worker *w, const struct eo_item *params, struct entry ***out, struct eo_error *err)
{
    uint64_t id = 0;
    int code = eo_need_u64(params, "plan", UINT64_MAX, &id, err);
    if (code != EO_OK) {
        return code;
    }
    *out = find(w->plans, id);
    return **out ? EO_OK : EO_RAISE(err, EO_E_INTERNAL, "the worker has no plan %" PRIu64, id);
}

static int take_places(const struct worker *w, const struct entry *e, const struct eo_item *params, const char *key,
                       uint32_t first, uint32_t n, struct place *out, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int code = eo_need_array(params, key, MAX_PORTS, &list, err);
    if (code == EO_OK && eo_item_count(list) != n) {
        code = EO_RAISE(err, EO_E_INTERNAL, "%zu places in %s, the plan has %lu", eo_item_count(list), key,
                        (unsigned long)n);
    }
    for (uint32_t i = 0; code == EO_OK && i < n; i++) {
        const struct eo_item *it = eo_item_at(list, i);
        if (eo_item_kind(it) == EO_ITEM_NIL && first > 0) {
            out[i] = (struct place){.absent = true};
        } else {
            code = place_unpack(w, it, e->ports[first + i].bytes, &out[i], err);
        }
    }
    return code;
}

/* A result that nobody fetches is computed all the same and needs room. */
static int give_unwanted(struct worker *w, struct entry *e, struct place *out, struct eo_error *err)
{
    int code = EO_OK;
    for (uint32_t i = 0; code == EO_OK && i < e->n_out; i++) {
        struct port *port = &e->ports[e->n_in + i];
        if (out[i].absent && !port->unwanted) {
            code = w->device->backend->alloc(w->device, port->bytes, &port->unwanted, err);
        }
        if (out[i].absent) {
            out[i].data = port->unwanted;
        }
    }
    return code;
}

static int run(struct worker *w, struct entry *e, const struct eo_item *params, struct eo_error *err)
{
    struct place in[MAX_PORTS], out[MAX_PORTS];
    void *buffers[PLAN_MAX_BUFFERS];
    int code = take_places(w, e, params, "in", 0, e->n_in, in, err);
    if (code == EO_OK) {
        code = take_places(w, e, params, "out", e->n_in, e->n_out, out, err);
    }
    if (code == EO_OK) {
        code = places_check_apart(in, e->n_in, out, e->n_out, err);
    }
    if (code == EO_OK) {
        code = places_commit(w, params, err);
    }
    if (code == EO_OK) {
        code = give_unwanted(w, e, out, err);
    }
    if (code != EO_OK) {
        return code;
    }
    code = places_enter(w, in, e->n_in, out, e->n_out, err);
    for (uint32_t i = 0; i < e->n_in + e->n_out; i++) {
        buffers[i] = i < e->n_in ? in[i].data : out[i - e->n_in].data;
    }
    if (code == EO_OK) {
        code = executor_run(w->executor, e->plan, buffers, NULL, err);
    }
    int left = places_leave(w, in, e->n_in, out, e->n_out, code == EO_OK, err);
    return code == EO_OK ? left : code;
}

TASK(RUN)
{
    struct entry **at = NULL;
    int code = find_plan(w, call->params, &at, err);
    if (code == EO_OK) {
        code = run(w, *at, call->params, err);
    }
    if (code != EO_OK) {
        return code;
    }
    const struct plan_stats *s = plan_stats((*at)->plan);
    eo_pack_map(result, s->fallback_ops[0] ? 1 : 0);
    if (s->fallback_ops[0]) {
        eo_pack_kv_str(result, "fallback", s->fallback_ops);
    }
    return EO_OK;
}

TASK(FREE)
{
    struct entry **at = NULL;
    int code = find_plan(w, call->params, &at, err);
    if (code != EO_OK) {
        return code;
    }
    struct entry *e = *at;
    *at = e->next;
    w->plans->n--;
    free_entry(w, e);
    eo_pack_map(result, 0);
    return EO_OK;
}
