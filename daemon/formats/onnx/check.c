/* What can be told about a model before shapes are known: names, single assignment, order, known operators. */
#include "daemon/formats/onnx/model.h"
#include "daemon/formats/onnx/table.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct checker {
    const struct onnx_model *m;
    const struct onnx_import *imports;
    int n_imports;
    struct eo_arena arena; /* of the names */
    struct eo_name_node *names;
    struct eo_error *err;
};

static const char *quote(const char *text, char *out, size_t size)
{
    return eo_quote(text, strlen(text), out, size);
}

/* A new value; what: who makes it. */
static int define(struct checker *c, const char *name, const char *what)
{
    char quoted[340];
    uint32_t number;

    if (eo_name_index_find(c->names, name, &number)) {
        return EO_RAISE(c->err, EO_E_BAD_FILE, "value %s is made twice, the second time by %s",
                        quote(name, quoted, sizeof(quoted)), what);
    }
    return eo_name_index_add(&c->names, &c->arena, name, 0) ? EO_OK
                                                            : EO_RAISE(c->err, EO_E_NO_MEMORY, "no memory for names");
}

/* ---- operators ---- */

static const char *name_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return onnx_operator_at((int)i)->name;
}

static int unknown_operator(struct checker *c, const struct onnx_node *node, int version, bool known)
{
    char type[340], domain[340];
    const char *near = eo_nearest(node->op_type, name_at, NULL, (size_t)onnx_operator_count());
    int code;

    if (known) {
        return EO_RAISE(c->err, EO_E_UNSUPPORTED, "operator %s is not supported in opset %d",
                        quote(node->op_type, type, sizeof(type)), version);
    }
    code = EO_RAISE(c->err, EO_E_UNSUPPORTED, "operator %s of set %s is not supported",
                    quote(node->op_type, type, sizeof(type)),
                    node->domain[0] == '\0' ? "ai.onnx" : quote(node->domain, domain, sizeof(domain)));
    if (near != NULL) {
        eo_error_hint(c->err, "The nearest one is %s; docs/reference/onnx.md lists all.", near);
    }
    return code;
}

static int check_operator(struct checker *c, const struct onnx_node *node)
{
    int version = onnx_import_version(c->imports, c->n_imports, node->domain);
    int newest = strcmp(node->domain, ONNX_TRAINING) == 0 ? ONNX_NEWEST_TRAINING : ONNX_NEWEST;
    bool known;
    char domain[340];

    if (onnx_find_function(c->m, node->domain, node->op_type) != NULL) {
        return EO_OK;
    }
    if (onnx_operator_find(node->domain, node->op_type, version, &known) != NULL) {
        return EO_OK;
    }
    if (version == 0) {
        return EO_RAISE(c->err, EO_E_BAD_FILE, "operator set %s is used, but not imported",
                        node->domain[0] == '\0' ? "ai.onnx" : quote(node->domain, domain, sizeof(domain)));
    }
    if (known && version > newest) {
        int code =
            EO_RAISE(c->err, EO_E_UNSUPPORTED, "opset %d is not supported, the newest that is: %d", version, newest);

        eo_error_hint(c->err, "Export the model with opset %d or convert it.", newest);
        return code;
    }
    return unknown_operator(c, node, version, known);
}

/* ---- nodes ---- */

static int check_values(struct checker *c, const struct onnx_node *node)
{
    char quoted[340];
    uint32_t number;
    int rc = EO_OK;

    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i][0] != '\0' && !eo_name_index_find(c->names, node->in[i], &number)) {
            rc = EO_RAISE(c->err, EO_E_BAD_FILE, "operand %d is %s, which nothing before it makes", i,
                          quote(node->in[i], quoted, sizeof(quoted)));
            eo_error_hint(c->err, "Nodes must stand in an order in which each value is made before it is used; "
                                  "there are no cycles.");
            return rc;
        }
    }
    for (int o = 0; rc == EO_OK && o < node->n_out; o++) {
        if (node->out[o][0] != '\0') {
            rc = define(c, node->out[o], "this node");
        }
    }
    return rc;
}

static int check_nodes(struct checker *c, const struct onnx_node *nodes, int n)
{
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < n; i++) {
        rc = check_operator(c, &nodes[i]);
        if (rc == EO_OK) {
            rc = check_values(c, &nodes[i]);
        }
        if (rc != EO_OK) {
            char name[340], label[360], type[340];
            const char *called = nodes[i].name[0] != '\0' ? nodes[i].name : nodes[i].n_out > 0 ? nodes[i].out[0] : "";

            (void)snprintf(label, sizeof(label), "%d %s", i, quote(called, name, sizeof(name)));
            eo_error_at_op(c->err, nodes[i].op_type, label);
            eo_error_push(c->err, "node %s (%s) of the model", label, quote(nodes[i].op_type, type, sizeof(type)));
        }
    }
    return rc;
}

/* ---- graph, functions ---- */

static int check_graph(struct checker *c, const struct onnx_graph *g)
{
    char quoted[340];
    uint32_t number;
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < g->n_inputs; i++) {
        if (g->inputs[i].dtype == EO_DTYPE_NONE) {
            return EO_RAISE(c->err, EO_E_BAD_FILE, "input %s of the graph has no type",
                            quote(g->inputs[i].name, quoted, sizeof(quoted)));
        }
        rc = define(c, g->inputs[i].name, "an input of the graph");
    }
    for (int i = 0; rc == EO_OK && i < g->n_initializers; i++) {
        const struct onnx_tensor *t = &g->initializers[i];

        /* an input of the same name has it as default; a second initializer would be ambiguous */
        if (!eo_name_index_find(c->names, t->name, &number)) {
            rc = define(c, t->name, "an initializer");
        }
    }
    if (rc == EO_OK) {
        rc = check_nodes(c, g->nodes, g->n_nodes);
    }
    for (int i = 0; rc == EO_OK && i < g->n_outputs; i++) {
        if (!eo_name_index_find(c->names, g->outputs[i].name, &number)) {
            rc = EO_RAISE(c->err, EO_E_BAD_FILE, "output %s of the graph is made by nothing",
                          quote(g->outputs[i].name, quoted, sizeof(quoted)));
        }
    }
    return rc;
}

static int check_function(struct checker *c, const struct onnx_function *f)
{
    char quoted[340];
    uint32_t number;
    int rc = EO_OK;

    c->imports = f->imports;
    c->n_imports = f->n_imports;
    for (int i = 0; rc == EO_OK && i < f->n_inputs; i++) {
        rc = define(c, f->inputs[i], "an input of the function");
    }
    if (rc == EO_OK) {
        rc = check_nodes(c, f->nodes, f->n_nodes);
    }
    for (int i = 0; rc == EO_OK && i < f->n_outputs; i++) {
        if (!eo_name_index_find(c->names, f->outputs[i], &number)) {
            rc = EO_RAISE(c->err, EO_E_BAD_FILE, "output %s is made by nothing",
                          quote(f->outputs[i], quoted, sizeof(quoted)));
        }
    }
    if (rc != EO_OK) {
        eo_error_push(c->err, "function %s of the model", quote(f->name, quoted, sizeof(quoted)));
    }
    return rc;
}

/* Two initializers of one name. */
static int check_initializers(struct checker *c, const struct onnx_graph *g)
{
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < g->n_initializers; i++) {
        rc = define(c, g->initializers[i].name, "an initializer");
    }
    return rc;
}

static void forget_names(struct checker *c)
{
    eo_arena_fini(&c->arena);
    eo_arena_init(&c->arena, SIZE_MAX);
    c->names = NULL;
}

int onnx_check(const struct onnx_model *m, struct eo_error *err)
{
    struct checker c = {.m = m, .imports = m->imports, .n_imports = m->n_imports, .err = err};
    int rc;

    forget_names(&c);
    rc = check_initializers(&c, &m->graph);
    if (rc == EO_OK) {
        forget_names(&c);
        rc = check_graph(&c, &m->graph);
    }
    for (int i = 0; rc == EO_OK && i < m->n_functions; i++) {
        forget_names(&c);
        rc = check_function(&c, &m->functions[i]);
    }
    eo_arena_fini(&c.arena);
    return rc;
}
