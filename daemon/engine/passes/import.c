/* From eo_graph to the IR: a copy of what the outputs need, with composites lowered. */
#include "daemon/engine/lower.h"
#include "daemon/engine/passes/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One import of a graph: the spec's, or a small one that holds the lowering of a node. */
struct import {
    struct ir *ir;
    const struct eo_graph *graph;
    uint32_t *map;  /* graph value -> IR value */
    uint8_t *live;  /* per graph value; NULL: all */
    bool temporary; /* the graph dies before the IR: copy attributes and constants */
    const char *label;
    uint32_t origin; /* label and number for all nodes of a lowering */
};

static int import_node(struct import *im, uint32_t n, struct eo_error *err);

static int add_constant(struct import *im, const struct eo_graph_node *node, struct eo_error *err)
{
    const struct eo_tensor_desc *desc = eo_graph_desc(im->graph, node->first_output);
    uint64_t bytes = eo_tensor_desc_bytes(desc);
    const void *data = node->constant;
    int rc = ir_add_value(im->ir, IR_CONSTANT, desc, &im->map[node->first_output], err);

    if (rc == EO_OK && im->temporary) {
        void *copy = ir_alloc(im->ir, bytes, err);

        if (copy == NULL) {
            return EO_E_NO_MEMORY;
        }
        if (bytes > 0) {
            memcpy(copy, node->constant, bytes);
        }
        data = copy;
    }
    if (rc == EO_OK) {
        im->ir->values[im->map[node->first_output]].data = data;
    }
    return rc;
}

static int add_op(struct import *im, const struct ir_node *like, const struct eo_graph_node *node, struct eo_error *err)
{
    struct ir_node copy = *like;

    if (im->temporary) {
        struct eo_attrs *attrs = eo_arena_alloc(&im->ir->arena, sizeof(*attrs));

        if (attrs == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
        }
        *attrs = *node->attrs;
        copy.attrs = attrs;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        int rc = ir_add_value(im->ir, IR_COMPUTED, eo_graph_desc(im->graph, node->first_output + o), &copy.out[o], err);

        if (rc != EO_OK) {
            return rc;
        }
        im->map[node->first_output + o] = copy.out[o];
    }
    return ir_add_node(im->ir, &copy, err);
}

/* A graph of the lowering alone: one input per operand, then what lower_node emits. */
static int lower_into(struct eo_graph *g, const struct ir *ir, const struct ir_node *like, eo_value *out,
                      struct eo_error *err)
{
    eo_value in[EO_MAX_INPUTS];
    struct eo_graph_node node = {.kind = EO_NODE_OP,
                                 .op = like->op,
                                 .n_inputs = like->n_in,
                                 .n_outputs = like->n_out,
                                 .inputs = in,
                                 .attrs = like->attrs};
    struct eo_builder b;

    for (uint32_t i = 0; i < like->n_in; i++) {
        char name[16];
        int rc;

        (void)snprintf(name, sizeof(name), "%u", i);
        rc = eo_graph_input(g, name, &ir->values[like->in[i]].desc, &in[i], err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    eo_build_init(&b, g, err);
    return lower_node(&b, &node, out);
}

static int splice(struct import *im, const struct ir_node *like, const struct eo_graph *g, const eo_value *lowered,
                  const struct eo_graph_node *node, struct eo_error *err)
{
    struct import inner = {.ir = im->ir, .graph = g, .temporary = true, .label = like->label, .origin = like->origin};
    int rc = EO_OK;

    inner.map = calloc(g->n_values, sizeof(*inner.map));
    if (inner.map == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    }
    for (uint32_t n = 0; rc == EO_OK && n < g->n_nodes; n++) {
        if (n < like->n_in) {
            inner.map[g->nodes[n].first_output] = like->in[n];
        } else {
            rc = import_node(&inner, n, err);
        }
    }
    for (uint32_t o = 0; rc == EO_OK && o < node->n_outputs; o++) {
        im->map[node->first_output + o] = inner.map[lowered[o]];
    }
    free(inner.map);
    return rc;
}

/* The depth of nesting is that of the lowerings in the table, not of the graph. */
static int add_lowered(struct import *im, const struct ir_node *like, const struct eo_graph_node *node,
                       struct eo_error *err)
{
    struct eo_graph *g = eo_graph_new();
    eo_value lowered[EO_MAX_OUTPUTS];
    int rc = g == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph")
                       : lower_into(g, im->ir, like, lowered, err);

    if (rc == EO_OK) {
        rc = splice(im, like, g, lowered, node, err);
    }
    eo_graph_free(g);
    return rc;
}

static int claims_composite(struct import *im, const struct ir_node *like, const struct eo_graph_node *node, bool *out,
                            struct eo_error *err)
{
    struct eo_node_view view;
    struct ir_node inputs_only = *like;

    inputs_only.n_out = 0; /* its outputs are not values of the IR yet */
    ir_view(im->ir, &inputs_only, &view);
    view.n_out = (int)node->n_outputs;
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        view.out[o] = eo_graph_desc(im->graph, node->first_output + o);
    }
    return ir_device_accepts(im->ir, &view, out, err);
}

static int refuse_data_shape(const struct eo_graph_node *node, struct eo_error *err)
{
    (void)EO_RAISE(err, EO_E_UNSUPPORTED, "%s has a result whose shape depends on data, so no plan can hold it",
                   node->op->name);
    eo_error_hint(err, "Run it by itself (op.run) and feed its result to the graph.");
    eo_error_at_op(err, node->op->name, node->name);
    return EO_E_UNSUPPORTED;
}

static int import_op(struct import *im, uint32_t n, const struct eo_graph_node *node, struct eo_error *err)
{
    uint32_t in[EO_MAX_INPUTS];
    struct ir_node like = {.op = node->op,
                           .attrs = node->attrs,
                           .n_in = node->n_inputs,
                           .n_out = node->n_outputs,
                           .in = in,
                           .label = im->temporary ? im->label : node->name,
                           .origin = im->temporary ? im->origin : n};
    bool claimed = true;

    for (uint32_t i = 0; i < node->n_inputs; i++) {
        in[i] = im->map[node->inputs[i]];
    }
    if ((node->op->flags & EO_OPF_DATA_SHAPE) != 0) {
        return refuse_data_shape(node, err);
    }
    if ((node->op->flags & EO_OPF_COMPOSITE) != 0) {
        int rc = claims_composite(im, &like, node, &claimed, err);

        if (rc != EO_OK) {
            return rc;
        }
    }
    return claimed ? add_op(im, &like, node, err) : add_lowered(im, &like, node, err);
}

static int import_node(struct import *im, uint32_t n, struct eo_error *err)
{
    const struct eo_graph_node *node = &im->graph->nodes[n];
    eo_value v = node->first_output;
    bool live = im->live == NULL;

    for (uint32_t o = 0; !live && o < node->n_outputs; o++) {
        live = im->live[v + o] != 0;
    }
    if (!live) {
        return EO_OK;
    }
    switch (node->kind) {
    case EO_NODE_CONSTANT:
        return add_constant(im, node, err);
    case EO_NODE_OP:
        return import_op(im, n, node, err);
    case EO_NODE_INPUT:
    case EO_NODE_STATE:
        break;
    }
    if (im->map[v] == IR_NONE) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s \"%s\" is used but has no place",
                        node->kind == EO_NODE_INPUT ? "input" : "state", node->name);
    }
    return EO_OK;
}

static void mark_live(const struct eo_graph *g, const struct plan_spec *spec, uint8_t *live)
{
    for (uint32_t i = 0; i < spec->n_outputs; i++) {
        live[spec->outputs[i].value] = 1;
    }
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const struct eo_graph_node *node = &g->nodes[n];
        bool needed = false;

        for (uint32_t o = 0; o < node->n_outputs; o++) {
            needed |= live[node->first_output + o] != 0;
        }
        for (uint32_t i = 0; needed && i < node->n_inputs; i++) {
            live[node->inputs[i]] = 1;
        }
    }
}

static int add_sources(struct import *im, struct eo_error *err)
{
    const struct plan_spec *spec = im->ir->spec;

    for (uint32_t i = 0; i < spec->n_inputs; i++) {
        eo_value v = spec->inputs[i].value;
        int rc;

        if (im->live[v] == 0) {
            continue;
        }
        rc = ir_add_value(im->ir, IR_SOURCE, eo_graph_desc(im->graph, v), &im->map[v], err);
        if (rc != EO_OK) {
            return rc;
        }
        im->ir->values[im->map[v]].place = i;
    }
    return EO_OK;
}

static int import_live(struct import *im, struct eo_error *err)
{
    const struct plan_spec *spec = im->ir->spec;
    int rc;

    mark_live(im->graph, spec, im->live);
    memset(im->map, 0xff, im->graph->n_values * sizeof(*im->map));
    rc = add_sources(im, err);
    for (uint32_t n = 0; rc == EO_OK && n < im->graph->n_nodes; n++) {
        rc = import_node(im, n, err);
    }
    for (uint32_t i = 0; rc == EO_OK && i < spec->n_outputs; i++) {
        im->ir->outputs[i] = im->map[spec->outputs[i].value];
    }
    return rc == EO_OK ? ir_sweep(im->ir, err) : rc;
}

int import_graph(struct ir *ir, struct eo_error *err)
{
    const struct eo_graph *g = ir->spec->graph;
    struct import im = {.ir = ir, .graph = g};
    int rc;

    ir->outputs = malloc(((size_t)ir->spec->n_outputs + 1) * sizeof(*ir->outputs));
    im.map = malloc(((size_t)g->n_values + 1) * sizeof(*im.map));
    im.live = calloc((size_t)g->n_values + 1, sizeof(*im.live));
    if (ir->outputs == NULL || im.map == NULL || im.live == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    } else {
        rc = import_live(&im, err);
    }
    free(im.map);
    free(im.live);
    return rc;
}
