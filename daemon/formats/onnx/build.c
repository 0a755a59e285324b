#include "daemon/formats/onnx/build.h"

#include "backends/registry.h"
#include "daemon/formats/onnx/site.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 256 << 20, FIRST_VALUES = 256, FIRST_FEEDS = 32 };

static int fail(struct onnx_build *b, int code)
{
    b->b.status = b->b.status != EO_OK ? b->b.status : code;
    return b->b.status;
}

static int no_memory(struct onnx_build *b)
{
    return fail(b, EO_RAISE(b->b.err, EO_E_NO_MEMORY, "no memory to build the graph of the model"));
}

/* ---- what is known ---- */

static int make_room(struct onnx_build *b, eo_value v)
{
    uint64_t cap = b->cap_known == 0 ? FIRST_VALUES : b->cap_known;
    struct build_known *grown;

    while (cap <= v) {
        cap *= 2;
    }
    if (cap == b->cap_known) {
        return EO_OK;
    }
    grown = realloc(b->known, cap * sizeof(*grown));
    if (grown == NULL) {
        return no_memory(b);
    }
    memset(grown + b->cap_known, 0, (cap - b->cap_known) * sizeof(*grown));
    b->known = grown;
    b->cap_known = (uint32_t)cap;
    return EO_OK;
}

int build_know(struct onnx_build *b, eo_value v, const struct eo_tensor_desc *desc, const void *data, void *owned)
{
    int rc = make_room(b, v);

    if (rc == EO_OK) {
        b->known[v] = (struct build_known){*desc, data, owned};
    } else {
        free(owned);
    }
    return rc;
}

static int add_feed(struct onnx_build *b, eo_value v, const void *data)
{
    if (b->n_feeds == b->cap_feeds) {
        uint32_t cap = b->cap_feeds == 0 ? FIRST_FEEDS : 2 * b->cap_feeds;
        struct build_feed *grown = realloc(b->feeds, cap * sizeof(*grown));

        if (grown == NULL) {
            return no_memory(b);
        }
        b->feeds = grown;
        b->cap_feeds = cap;
    }
    b->feeds[b->n_feeds++] = (struct build_feed){v, data};
    return EO_OK;
}

static eo_value feed(struct onnx_build *b, const struct eo_tensor_desc *desc, const void *data)
{
    char name[24];
    eo_value v = EO_NO_VALUE;
    int rc;

    (void)snprintf(name, sizeof(name), "feed%" PRIu32, b->n_feeds);
    rc = eo_graph_input(b->graph, name, desc, &v, b->b.err);
    if (rc == EO_OK) {
        rc = add_feed(b, v, data);
    }
    if (rc == EO_OK) {
        rc = build_know(b, v, desc, data, NULL);
    }
    return fail(b, rc) != EO_OK ? EO_NO_VALUE : v;
}

eo_value build_tensor(struct onnx_build *b, const struct eo_tensor_desc *desc, const void *data)
{
    eo_value v = EO_NO_VALUE;
    int rc;

    if (b->b.status != EO_OK) {
        return EO_NO_VALUE;
    }
    if (eo_tensor_desc_bytes(desc) > BUILD_CONSTANT_BYTES) {
        return feed(b, desc, data);
    }
    rc = eo_graph_constant(b->graph, desc, data, &v, b->b.err);
    if (rc == EO_OK) {
        rc = build_know(b, v, desc, b->graph->nodes[b->graph->values[v].node].constant, NULL);
    }
    return fail(b, rc) != EO_OK ? EO_NO_VALUE : v;
}

/* ---- names ---- */

static const char *quote(const char *text, char *out, size_t size)
{
    return eo_quote(text, strlen(text), out, size);
}

static int bind(struct onnx_build *b, struct build_scope *scope, const char *name, eo_value v)
{
    return eo_name_index_add(&scope->names, &b->arena, name, v) ? EO_OK : no_memory(b);
}

/* Names were checked with the model. */
static eo_value look_up(const struct build_scope *scope, const char *name)
{
    uint32_t v;

    return name[0] != '\0' && eo_name_index_find(scope->names, name, &v) ? v : EO_NO_VALUE;
}

/* ---- nodes ---- */

static int build_nodes(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *nodes, int n);

/* Attributes of a node with the values of the call's where they refer to it; one whose reference was not given is not
 * given either. */
static int resolve_attrs(struct onnx_build *b, const struct build_scope *scope, const struct onnx_node *node,
                         const struct onnx_attr **out, int *out_n)
{
    int n = 0;

    for (int i = 0; i < node->n_attrs; i++) {
        const struct onnx_attr *a = &node->attrs[i];
        struct onnx_attr *copy;

        if (a->ref == NULL) {
            out[n++] = a;
            continue;
        }
        for (int k = 0; k < scope->n_attrs; k++) {
            if (strcmp(scope->attrs[k]->name, a->ref) != 0) {
                continue;
            }
            copy = eo_arena_alloc(&b->arena, sizeof(*copy));
            if (copy == NULL) {
                return no_memory(b);
            }
            *copy = *scope->attrs[k];
            copy->name = a->name;
            out[n++] = copy;
        }
    }
    *out_n = n;
    return EO_OK;
}

static int bind_outputs(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *node,
                        const eo_value *out)
{
    int rc = EO_OK;

    for (int o = 0; rc == EO_OK && o < node->n_out; o++) {
        if (node->out[o][0] == '\0') {
            continue;
        }
        if (out[o] == EO_NO_VALUE) {
            return fail(b, EO_RAISE(b->b.err, EO_E_UNSUPPORTED, "output %d of %s is not supported", o, node->op_type));
        }
        rc = bind(b, scope, node->out[o], out[o]);
    }
    return rc;
}

/* A function is its body with the caller's values and attributes. */
static int build_call(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *node,
                      const struct onnx_function *f)
{
    const struct onnx_attr *attrs[ONNX_MAX_ATTRS];
    struct build_scope inner = {
        .imports = f->imports, .n_imports = f->n_imports, .attrs = attrs, .depth = scope->depth + 1};
    eo_value out[ONNX_MAX_INPUTS];
    int rc = resolve_attrs(b, scope, node, attrs, &inner.n_attrs);

    if (inner.depth > BUILD_MAX_CALLS) {
        return fail(b,
                    EO_RAISE(b->b.err, EO_E_BAD_FILE, "functions call each other more than %d deep", BUILD_MAX_CALLS));
    }
    if (rc == EO_OK && (node->n_in > f->n_inputs || node->n_out > f->n_outputs)) {
        rc = fail(b,
                  EO_RAISE(b->b.err, EO_E_BAD_ARITY, "a function of %d inputs and %d outputs is called with %d and %d",
                           f->n_inputs, f->n_outputs, node->n_in, node->n_out));
    }
    for (int i = 0; rc == EO_OK && i < f->n_inputs; i++) {
        rc = bind(b, &inner, f->inputs[i], i < node->n_in ? look_up(scope, node->in[i]) : EO_NO_VALUE);
    }
    if (rc == EO_OK) {
        rc = build_nodes(b, &inner, f->nodes, f->n_nodes);
    }
    for (int o = 0; rc == EO_OK && o < node->n_out; o++) {
        out[o] = look_up(&inner, f->outputs[o]);
    }
    return rc != EO_OK ? rc : bind_outputs(b, scope, node, out);
}

/* An attribute that no map function asked for would be ignored without a word. */
static void refuse_unseen(struct onnx_site *s)
{
    for (int i = 0; site_ok(s) && i < s->n_attrs; i++) {
        char quoted[340];

        if ((s->seen & (UINT64_C(1) << i)) == 0) {
            site_fail(s, EO_E_BAD_ATTRIBUTE, "%s of opset %d has no attribute %s", s->node->op_type, s->version,
                      quote(s->attrs[i]->name, quoted, sizeof(quoted)));
        }
    }
}

static int build_operator(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *node)
{
    const struct onnx_attr *attrs[ONNX_MAX_ATTRS];
    eo_value in[ONNX_MAX_INPUTS], out[ONNX_MAX_INPUTS];
    struct onnx_site s = {.build = b,
                          .b = &b->b,
                          .scope = scope,
                          .node = node,
                          .version = onnx_import_version(scope->imports, scope->n_imports, node->domain),
                          .attrs = attrs,
                          .in = in,
                          .n_in = node->n_in,
                          .out = out,
                          .n_out = node->n_out};
    int rc = resolve_attrs(b, scope, node, attrs, &s.n_attrs);

    s.op = onnx_operator_find(node->domain, node->op_type, s.version, NULL);
    if (rc == EO_OK && s.op == NULL) {
        rc = fail(b, EO_RAISE(b->b.err, EO_E_UNSUPPORTED, "operator %s is not supported", node->op_type));
    }
    if (rc != EO_OK) {
        return rc;
    }
    for (int i = 0; i < node->n_in; i++) {
        in[i] = look_up(scope, node->in[i]);
    }
    for (int o = 0; o < node->n_out; o++) {
        out[o] = EO_NO_VALUE;
    }
    s.op->map(&s);
    refuse_unseen(&s);
    return b->b.status != EO_OK ? b->b.status : bind_outputs(b, scope, node, out);
}

/* Who it was, by the file's names. The innermost node is the place of the error; the row that refused and the calls
 * around it are context. */
static void annotate(struct onnx_build *b, const struct onnx_node *node, int number)
{
    char name[340], label[360], type[340];
    const char *called = node->name[0] != '\0' ? node->name : node->n_out > 0 ? node->out[0] : "";

    if (b->b.err == NULL) {
        return;
    }
    (void)snprintf(label, sizeof(label), "%d %s", number, quote(called, name, sizeof(name)));
    if (b->placed) {
        eo_error_push(b->b.err, "called by node %s (%s)", label, quote(node->op_type, type, sizeof(type)));
        return;
    }
    if (b->b.err->op[0] != '\0' && strcmp(b->b.err->op, node->op_type) != 0) {
        eo_error_push(b->b.err, "as row %s", b->b.err->op);
    }
    eo_error_at_op(b->b.err, node->op_type, label);
    b->placed = true;
}

static int build_node(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *node, int number)
{
    const struct onnx_function *f = onnx_find_function(b->model, node->domain, node->op_type);
    char label[EO_GRAPH_MAX_NAME + 1];
    int rc;

    if (++b->n_nodes > ONNX_MAX_EXPANDED) {
        return fail(b, EO_RAISE(b->b.err, EO_E_TOO_LARGE,
                                "the model has more than %d nodes once functions are expanded", ONNX_MAX_EXPANDED));
    }
    (void)snprintf(label, sizeof(label), "%.32s %.200s", node->op_type,
                   node->name[0] != '\0' ? node->name
                   : node->n_out > 0     ? node->out[0]
                                         : "");
    b->graph->label = eo_text_valid_utf8(label, strlen(label)) ? label : NULL;
    rc = f != NULL ? build_call(b, scope, node, f) : build_operator(b, scope, node);
    b->graph->label = NULL;
    if (rc != EO_OK) {
        annotate(b, node, number);
    }
    return rc;
}

static int build_nodes(struct onnx_build *b, struct build_scope *scope, const struct onnx_node *nodes, int n)
{
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < n; i++) {
        rc = build_node(b, scope, &nodes[i], i);
    }
    return rc;
}

/* ---- inputs and outputs of the model ---- */

/* Tools without bfloat16 (NumPy) keep such numbers as uint16: their bits. */
static struct eo_tensor_desc as_port(const struct onnx_port *port, const struct eo_tensor_desc *given)
{
    struct eo_tensor_desc desc = *given;

    if (port->dtype == EO_BFLOAT16 && desc.dtype == EO_UINT16) {
        desc.dtype = EO_BFLOAT16;
    }
    return desc;
}

/* No node asks for more of the value than its type: operand 1 of CastLike. */
static bool only_type_counts(const struct onnx_model *m, const char *name)
{
    for (int i = 0; i < m->graph.n_nodes; i++) {
        const struct onnx_node *node = &m->graph.nodes[i];

        for (int k = 0; k < node->n_in; k++) {
            if (strcmp(node->in[k], name) == 0 && (k != 1 || strcmp(node->op_type, "CastLike") != 0)) {
                return false;
            }
        }
    }
    return true;
}

static int check_input(const struct onnx_model *m, const struct onnx_port *port, const struct eo_tensor_desc *desc,
                       struct eo_error *err)
{
    char name[340], text[128];
    bool same_rank = port->n_dims < 0 || port->n_dims == desc->n_dims;
    int bad = -1;

    if (desc->dtype != port->dtype) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "input %s is %s, the model wants %s",
                        quote(port->name, name, sizeof(name)), eo_dtype_name((enum eo_dtype)desc->dtype),
                        eo_dtype_name(port->dtype));
    }
    for (int d = 0; same_rank && d < port->n_dims && bad < 0; d++) {
        bad = port->dims[d] >= 0 && port->dims[d] != desc->shape[d] ? d : -1;
    }
    if ((same_rank && bad < 0) || only_type_counts(m, port->name)) {
        return EO_OK;
    }
    if (!same_rank) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "input %s is %s, the model wants %d dimensions",
                        quote(port->name, name, sizeof(name)), eo_tensor_desc_text(desc, text, sizeof(text)),
                        port->n_dims);
    }
    return EO_RAISE(err, EO_E_BAD_PARAMS, "input %s is %s, the model wants %" PRId64 " in dimension %d",
                    quote(port->name, name, sizeof(name)), eo_tensor_desc_text(desc, text, sizeof(text)),
                    port->dims[bad], bad);
}

static int add_inputs(struct onnx_build *b, struct build_scope *scope, const struct host_tensor *const *inputs,
                      int n_in)
{
    int rc = EO_OK, n;
    const struct onnx_port *ports = onnx_model_inputs(b->model, &n);
    char name[340];

    if (n_in > n) {
        return fail(b, EO_RAISE(b->b.err, EO_E_BAD_PARAMS, "%d inputs are given, the model has %d", n_in, n));
    }
    for (int i = 0; rc == EO_OK && i < n; i++) {
        const struct host_tensor *given = i < n_in ? inputs[i] : NULL;
        struct eo_tensor_desc desc;

        if (given == NULL && !ports[i].has_default) {
            return fail(b, EO_RAISE(b->b.err, EO_E_BAD_PARAMS, "input %s of the model is not given",
                                    quote(ports[i].name, name, sizeof(name))));
        }
        if (given == NULL) {
            continue;
        }
        desc = as_port(&ports[i], &given->desc);
        rc = fail(b, check_input(b->model, &ports[i], &desc, b->b.err));
        if (rc == EO_OK) {
            eo_value v = feed(b, &desc, given->data);

            rc = v == EO_NO_VALUE ? b->b.status : bind(b, scope, ports[i].name, v);
        }
    }
    return rc;
}

static int add_initializers(struct onnx_build *b, struct build_scope *scope)
{
    const struct onnx_graph *g = &b->model->graph;
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < g->n_initializers; i++) {
        const struct onnx_tensor *t = &g->initializers[i];

        if (look_up(scope, t->name) == EO_NO_VALUE) { /* not given as an input */
            eo_value v = build_tensor(b, &t->desc, t->data);

            rc = v == EO_NO_VALUE ? b->b.status : bind(b, scope, t->name, v);
        }
    }
    return rc;
}

static int find_outputs(struct onnx_build *b, const struct build_scope *scope, eo_value **out)
{
    const struct onnx_graph *g = &b->model->graph;

    *out = eo_arena_alloc_n(&b->arena, (size_t)g->n_outputs + 1, sizeof(**out));
    if (*out == NULL) {
        return no_memory(b);
    }
    for (int i = 0; i < g->n_outputs; i++) {
        (*out)[i] = look_up(scope, g->outputs[i].name);
    }
    return EO_OK;
}

int build_model(struct onnx_build *b, const struct onnx_model *m, const struct host_tensor *const *inputs, int n_in,
                eo_value **out_values, struct eo_error *err)
{
    struct build_scope scope = {.imports = m->imports, .n_imports = m->n_imports};
    int rc;

    *b = (struct onnx_build){.model = m, .graph = eo_graph_new()};
    eo_arena_init(&b->arena, ARENA_BYTES);
    if (b->graph == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to build the graph of the model");
    }
    eo_build_init(&b->b, b->graph, err);
    rc = add_inputs(b, &scope, inputs, n_in);
    if (rc == EO_OK) {
        rc = add_initializers(b, &scope);
    }
    if (rc == EO_OK) {
        rc = build_nodes(b, &scope, m->graph.nodes, m->graph.n_nodes);
    }
    return rc != EO_OK ? rc : find_outputs(b, &scope, out_values);
}

void build_fini(struct onnx_build *b)
{
    for (uint32_t v = 0; v < b->cap_known; v++) {
        free(b->known[v].owned);
    }
    executor_free(b->evaluator);
    if (b->reference != NULL) {
        registry_close(b->reference);
    }
    free(b->known);
    free(b->feeds);
    eo_arena_fini(&b->arena);
    eo_graph_free(b->graph);
}
