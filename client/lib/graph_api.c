/* everyo_graph and everyo_plan: graphs built locally, compiled and run on the daemon. */
#include "client/lib/attrs_text.h"
#include "client/lib/client_internal.h"
#include "proto/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GRADIENTS = 16, MAX_WRT = 256 };

struct gradient_request {
    const char *of;
    const char **wrt; /* n_wrt each */
    const char **as;
    int n_wrt;
};

struct everyo_graph {
    struct eo_graph *graph;
    struct gradient_request gradients[MAX_GRADIENTS];
    int n_gradients;
    struct eo_error first; /* sticks until everyo_plan_create */
};

struct plan_output {
    char name[EO_GRAPH_MAX_NAME + 1];
    struct eo_tensor_desc desc;
};

struct everyo_plan {
    everyo_client *client;
    uint32_t id;
    struct plan_output *outputs;
    size_t n_outputs;
};

everyo_graph *everyo_graph_new(void)
{
    everyo_graph *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return NULL;
    }
    g->graph = eo_graph_new();
    if (g->graph == NULL) {
        free(g);
        return NULL;
    }
    return g;
}

void everyo_graph_free(everyo_graph *g)
{
    if (g != NULL) {
        eo_graph_free(g->graph);
        free(g);
    }
}

everyo_value everyo_graph_input(everyo_graph *g, const char *name, int dtype, const int64_t *shape, int n_dims)
{
    struct eo_tensor_desc d;
    eo_value v = EO_NO_VALUE;
    if (g->first.code == 0 && eo_tensor_desc_init(&d, (enum eo_dtype)dtype, shape, n_dims, &g->first) == EO_OK) {
        eo_graph_input(g->graph, name, &d, &v, &g->first);
    }
    return v;
}

everyo_value everyo_graph_op(everyo_graph *g, const char *op, const char *attrs_text, const everyo_value *inputs,
                             int n_inputs)
{
    eo_value out[EO_MAX_OUTPUTS] = {EO_NO_VALUE};
    struct eo_attrs attrs;
    if (g->first.code != 0) {
        return EO_NO_VALUE;
    }
    const struct eo_op_schema *row = everyo_op_row(op, &g->first);
    if (row != NULL && eo_attrs_text_parse(attrs_text, row, &attrs, &g->first) == EO_OK) {
        eo_graph_add(g->graph, row->op, inputs, n_inputs, &attrs, out, &g->first);
    }
    return out[0];
}

void everyo_graph_output(everyo_graph *g, const char *name, everyo_value value)
{
    if (g->first.code == 0) {
        eo_graph_output(g->graph, name, value, &g->first);
    }
}

/* prefix and name as one name of the graph; NULL raises. */
static const char *keep(everyo_graph *g, const char *prefix, const char *name)
{
    char text[EO_GRAPH_MAX_NAME + 1];
    const int n = snprintf(text, sizeof text, "%s%s", prefix, name);
    if (n < 0 || n >= (int)sizeof text) {
        EO_RAISE(&g->first, EO_E_BAD_GRAPH, "a name of a gradient has more than %d bytes", EO_GRAPH_MAX_NAME);
        return NULL;
    }
    const char *copy = eo_arena_strndup(&g->graph->arena, text, (size_t)n);
    if (copy == NULL) {
        EO_RAISE(&g->first, EO_E_NO_MEMORY, "no memory for a name");
    }
    return copy;
}

void everyo_graph_gradient(everyo_graph *g, const char *of, const char *const *wrt, int n_wrt, const char *as_prefix)
{
    if (g->first.code != 0) {
        return;
    }
    if (g->n_gradients == MAX_GRADIENTS || n_wrt < 1 || n_wrt > MAX_WRT) {
        EO_RAISE(&g->first, EO_E_TOO_LARGE, "a graph takes %d gradient requests of 1 to %d names", MAX_GRADIENTS,
                 MAX_WRT);
        return;
    }
    struct gradient_request r = {.n_wrt = n_wrt};
    r.wrt = eo_arena_alloc_n(&g->graph->arena, (size_t)n_wrt, sizeof *r.wrt);
    r.as = eo_arena_alloc_n(&g->graph->arena, (size_t)n_wrt, sizeof *r.as);
    if (r.wrt == NULL || r.as == NULL) {
        EO_RAISE(&g->first, EO_E_NO_MEMORY, "no memory for %d names", n_wrt);
        return;
    }
    r.of = keep(g, "", of);
    for (int i = 0; i < n_wrt && g->first.code == 0; i++) {
        r.wrt[i] = keep(g, "", wrt[i]);
        r.as[i] = keep(g, as_prefix, wrt[i]);
    }
    g->gradients[g->n_gradients++] = r; /* with an error sticking, it is never looked at */
}

/* ---- plans ---- */

static void pack_names(struct eo_bytes *p, const char *key, const char *const *names, int n)
{
    eo_pack_str(p, key);
    eo_pack_array(p, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_pack_str(p, names[i]);
    }
}

static void pack_gradients(struct eo_bytes *p, const everyo_graph *g)
{
    eo_pack_str(p, "gradients");
    eo_pack_array(p, (size_t)g->n_gradients);
    for (int i = 0; i < g->n_gradients; i++) {
        const struct gradient_request *r = &g->gradients[i];
        eo_pack_map(p, 3);
        eo_pack_kv_str(p, "of", r->of);
        pack_names(p, "wrt", r->wrt, r->n_wrt);
        pack_names(p, "as", r->as, r->n_wrt);
    }
}

/* The daemon tells every output with its shape, the gradients it made included. */
static int read_outputs(everyo_plan *plan, const struct eo_item *result, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int rc = eo_need_array(result, "outputs", EO_GRAPH_MAX_NODES, &list, err);
    if (rc != EO_OK) {
        return rc;
    }
    plan->n_outputs = eo_item_count(list);
    plan->outputs = calloc(plan->n_outputs + 1, sizeof *plan->outputs);
    if (plan->outputs == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for %zu outputs", plan->n_outputs);
    }
    for (size_t i = 0; i < plan->n_outputs && rc == EO_OK; i++) {
        const struct eo_item *entry = eo_item_at(list, i);
        rc = eo_need_str(entry, "name", plan->outputs[i].name, sizeof plan->outputs[i].name, err);
        if (rc == EO_OK) {
            rc = eo_tensor_desc_unpack(entry, &plan->outputs[i].desc, err);
        }
    }
    return rc;
}

static int send_create(everyo_client *c, const everyo_graph *g, const char *device, everyo_plan *plan,
                       struct eo_error *err)
{
    struct eo_bytes encoded;
    struct eo_bytes p;
    struct eo_reply reply = {0};
    eo_bytes_init(&encoded, EO_GRAPH_MAX_BYTES);
    eo_bytes_init(&p, EO_ENVELOPE_MAX);
    int rc = eo_graph_encode(g->graph, &encoded, err);
    if (rc == EO_OK) {
        eo_pack_map(&p, 2u + (device != NULL));
        eo_pack_kv_u64(&p, "plan", plan->id);
        if (device != NULL) {
            eo_pack_kv_str(&p, "device", device);
        }
        pack_gradients(&p, g);
        rc = eo_connection_call(c->connection, "plan.create", &p, encoded.data, encoded.size, &reply, err);
    }
    if (rc == EO_OK) {
        rc = read_outputs(plan, reply.result, err);
        eo_reply_fini(&reply);
    }
    eo_bytes_fini(&p);
    eo_bytes_fini(&encoded);
    return rc;
}

int everyo_plan_create(everyo_client *c, const everyo_graph *g, const char *device, everyo_plan **out,
                       everyo_error *error)
{
    struct eo_error err = {0};
    if (g->first.code != 0) {
        return everyo_fail(error, &g->first);
    }
    everyo_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for a plan");
        return everyo_fail(error, &err);
    }
    plan->client = c;
    plan->id = ++c->next_plan;
    int rc = send_create(c, g, device, plan, &err);
    if (rc != EO_OK) {
        free(plan->outputs);
        free(plan);
        return everyo_fail(error, &err);
    }
    *out = plan;
    return EO_OK;
}

void everyo_plan_free(everyo_plan *p)
{
    if (p == NULL) {
        return;
    }
    struct eo_bytes params;
    eo_bytes_init(&params, 64);
    eo_pack_map(&params, 1);
    eo_pack_kv_u64(&params, "plan", p->id);
    eo_connection_request(p->client->connection, "plan.free", &params, NULL, 0, NULL, NULL);
    eo_bytes_fini(&params);
    free(p->outputs);
    free(p);
}

static const struct plan_output *find_output(const everyo_plan *p, const char *name, struct eo_error *err)
{
    for (size_t i = 0; i < p->n_outputs; i++) {
        if (strcmp(p->outputs[i].name, name) == 0) {
            return &p->outputs[i];
        }
    }
    char quoted[100];
    EO_RAISE(err, EO_E_BAD_GRAPH, "the plan has no output %s", eo_quote(name, strlen(name), quoted, sizeof quoted));
    return NULL;
}

static void pack_named(struct eo_bytes *b, const char *key, const char *const *names, const everyo_tensor *tensors,
                       int n)
{
    eo_pack_str(b, key);
    eo_pack_map(b, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_pack_str(b, names[i]);
        eo_handle_pack(b, tensors[i].id);
    }
}

int everyo_plan_run(everyo_plan *p, const char *const *feed_names, const everyo_tensor *feeds, int n_feeds,
                    const char *const *fetch_names, everyo_tensor *fetches, int n_fetches, everyo_error *error)
{
    struct eo_error err = {0};
    everyo_client *c = p->client;
    if (n_feeds < 0 || n_fetches < 0) {
        EO_RAISE(&err, EO_E_BAD_ARITY, "%d feeds and %d fetches", n_feeds, n_fetches);
        return everyo_fail(error, &err);
    }
    everyo_tensor *made = calloc((size_t)EO_MAX(n_fetches, 1), sizeof *made);
    int rc = made != NULL ? EO_OK : EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for %d fetches", n_fetches);
    for (int i = 0; i < n_fetches && rc == EO_OK; i++) {
        const struct plan_output *o = find_output(p, fetch_names[i], &err);
        uint64_t id = 0;
        rc = o == NULL ? err.code : eo_handles_take(&c->handles, &id, &err);
        if (rc == EO_OK) {
            everyo_set_tensor(&made[i], id, &o->desc);
        }
    }
    if (rc == EO_OK) {
        struct eo_bytes params;
        eo_bytes_init(&params, EO_ENVELOPE_MAX);
        eo_pack_map(&params, 3);
        eo_pack_kv_u64(&params, "plan", p->id);
        pack_named(&params, "feeds", feed_names, feeds, n_feeds);
        pack_named(&params, "fetches", fetch_names, made, n_fetches);
        rc = eo_connection_request(c->connection, "plan.run", &params, NULL, 0, NULL, &err);
        eo_bytes_fini(&params);
    }
    if (rc == EO_OK && n_fetches > 0) {
        memcpy(fetches, made, (size_t)n_fetches * sizeof *made);
    } else if (rc != EO_OK && made != NULL) {
        for (int i = 0; i < n_fetches; i++) {
            eo_handles_give(&c->handles, made[i].id);
        }
    }
    free(made);
    return rc == EO_OK ? EO_OK : everyo_fail(error, &err);
}
