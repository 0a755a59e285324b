/* Values that must be known while the graph is built (shapes, axes, limits): the part of the graph that makes them is
 * copied and run on the reference backend with the given inputs. */
#include "daemon/formats/onnx/build.h"

#include "backends/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_ALIGN = 64 };

static int fail(struct onnx_build *b, int code)
{
    b->b.status = b->b.status != EO_OK ? b->b.status : code;
    return b->b.status;
}

static int no_memory(struct onnx_build *b)
{
    return fail(b, EO_RAISE(b->b.err, EO_E_NO_MEMORY, "no memory to evaluate a value of the model"));
}

static const struct build_known *known(const struct onnx_build *b, eo_value v)
{
    return v < b->cap_known && b->known[v].data != NULL ? &b->known[v] : NULL;
}

static int open_reference(struct onnx_build *b)
{
    int rc = EO_OK;

    if (b->reference == NULL) {
        rc = registry_open("reference", &(struct eo_device_config){.threads = 1}, &b->reference, NULL, 0, b->b.err);
    }
    if (rc == EO_OK && b->evaluator == NULL) {
        rc = executor_new(b->reference, &b->evaluator, b->b.err);
    }
    return fail(b, rc);
}

/* ---- the part of the graph behind a value ---- */

/* A copy of it: known values are its inputs, each with a place in buffer 0; the wanted value is alone in buffer 1. */
struct part {
    struct onnx_build *b;
    struct eo_graph *graph;
    eo_value *map;   /* value of the whole -> value of the part, EO_NO_VALUE */
    uint32_t *stack; /* nodes that wait for their operands */
    uint32_t n_stack;
    struct plan_place *places;
    const void **data; /* of each place */
    uint32_t n_places;
    uint64_t bytes;
};

static int part_init(struct part *p, struct onnx_build *b)
{
    const struct eo_graph *g = b->graph;

    *p = (struct part){.b = b,
                       .graph = eo_graph_new(),
                       .map = malloc(((size_t)g->n_values + 1) * sizeof(*p->map)),
                       .stack = malloc(((size_t)g->n_nodes + 1) * sizeof(*p->stack)),
                       .places = malloc(((size_t)g->n_values + 1) * sizeof(*p->places)),
                       .data = malloc(((size_t)g->n_values + 1) * sizeof(*p->data))};
    if (p->graph == NULL || p->map == NULL || p->stack == NULL || p->places == NULL || p->data == NULL) {
        return no_memory(b);
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        p->map[v] = EO_NO_VALUE;
    }
    return EO_OK;
}

static void part_fini(struct part *p)
{
    eo_graph_free(p->graph);
    free(p->map);
    free(p->stack);
    free(p->places);
    free(p->data);
}

static int add_known(struct part *p, eo_value v, const struct build_known *k)
{
    char name[EO_GRAPH_MAX_NAME];
    eo_value copy;
    int rc;

    if (eo_tensor_desc_bytes(&k->desc) <= BUILD_CONSTANT_BYTES) {
        rc = eo_graph_constant(p->graph, &k->desc, k->data, &copy, p->b->b.err);
        p->map[v] = rc == EO_OK ? copy : EO_NO_VALUE;
        return rc;
    }
    (void)snprintf(name, sizeof(name), "%" PRIu32, v);
    rc = eo_graph_input(p->graph, name, &k->desc, &copy, p->b->b.err);
    if (rc == EO_OK) {
        p->map[v] = copy;
        p->data[p->n_places] = k->data;
        p->places[p->n_places++] = (struct plan_place){copy, 0, p->bytes};
        p->bytes += (eo_tensor_desc_bytes(&k->desc) + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
    }
    return rc;
}

/* Every op node is made from known values: its inputs are fed, its other sources constants, which are known too. */
static int add_node(struct part *p, uint32_t n)
{
    const struct eo_graph_node *node = &p->b->graph->nodes[n];
    eo_value in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
    int rc;

    for (uint32_t i = 0; i < node->n_inputs; i++) {
        in[i] = p->map[node->inputs[i]];
    }
    p->graph->label = node->name;
    rc = eo_graph_add(p->graph, node->op->op, in, (int)node->n_inputs, node->attrs, out, p->b->b.err);
    p->graph->label = NULL;
    for (uint32_t o = 0; rc == EO_OK && o < node->n_outputs; o++) {
        p->map[node->first_output + o] = out[o];
    }
    return rc;
}

/* Constants of rows' own making (scalars of lowerings) are not in the table of known values. */
static int add_source(struct part *p, const struct eo_graph_node *node)
{
    struct build_known k = {*eo_graph_desc(p->b->graph, node->first_output), node->constant, NULL};

    return node->kind == EO_NODE_CONSTANT ? add_known(p, node->first_output, &k)
                                          : EO_BUG(p->b->b.err, "an input of the model's graph has no bytes");
}

/* Depth first without recursion: a node stays on the stack until its operands are there. */
static int collect(struct part *p, eo_value wanted)
{
    const struct eo_graph *g = p->b->graph;
    int rc = EO_OK;

    p->stack[p->n_stack++] = g->values[wanted].node;
    while (rc == EO_OK && p->n_stack > 0) {
        uint32_t n = p->stack[p->n_stack - 1], waits = EO_NO_VALUE;
        const struct eo_graph_node *node = &g->nodes[n];

        for (uint32_t i = 0; rc == EO_OK && i < node->n_inputs && waits == EO_NO_VALUE; i++) {
            eo_value v = node->inputs[i];
            const struct build_known *k = known(p->b, v);

            if (p->map[v] == EO_NO_VALUE && k != NULL) {
                rc = add_known(p, v, k);
            } else if (p->map[v] == EO_NO_VALUE) {
                waits = g->values[v].node;
            }
        }
        if (rc == EO_OK && waits != EO_NO_VALUE) {
            p->stack[p->n_stack++] = waits; /* an earlier node: no deeper than there are nodes */
            continue;
        }
        if (rc == EO_OK) {
            rc = node->kind == EO_NODE_OP ? add_node(p, n) : add_source(p, node);
        }
        p->n_stack--;
    }
    return rc;
}

/* ---- running it ---- */

static int compile_and_run(struct part *p, eo_value wanted, void *feeds, void *result)
{
    struct plan_place output = {p->map[wanted], 1, 0};
    struct plan_spec spec = {
        .graph = p->graph, .inputs = p->places, .n_inputs = p->n_places, .outputs = &output, .n_outputs = 1};
    void *buffers[2] = {feeds, result};
    struct plan *plan;
    int rc = plan_compile(&spec, p->b->reference, &plan, p->b->b.err);

    if (rc != EO_OK) {
        return rc;
    }
    if (plan_arena_bytes(plan) > BUILD_MAX_EVALUATED) {
        rc = EO_RAISE(p->b->b.err, EO_E_TOO_LARGE, "evaluating it takes %" PRIu64 " bytes, at most %d are given to it",
                      plan_arena_bytes(plan), BUILD_MAX_EVALUATED);
    }
    if (rc == EO_OK) {
        rc = executor_run(p->b->evaluator, plan, buffers, NULL, p->b->b.err);
    }
    plan_free(plan);
    return rc;
}

/* The reference backend's memory is host memory. */
static int run_part(struct part *p, eo_value wanted, struct host_tensor *out)
{
    const struct eo_tensor_desc *desc = eo_graph_desc(p->graph, p->map[wanted]);
    struct eo_tensor_desc bytes_desc;
    struct host_tensor feeds = {0};
    int64_t bytes = (int64_t)p->bytes;
    int rc;

    if (eo_tensor_desc_bytes(desc) > BUILD_MAX_EVALUATED) {
        return EO_RAISE(p->b->b.err, EO_E_TOO_LARGE, "it has %" PRIu64 " bytes, at most %d are evaluated",
                        eo_tensor_desc_bytes(desc), BUILD_MAX_EVALUATED);
    }
    rc = eo_tensor_desc_init(&bytes_desc, EO_UINT8, &bytes, 1, p->b->b.err);
    if (rc == EO_OK) {
        rc = host_tensor_init(&bytes_desc, &feeds, p->b->b.err);
    }
    for (uint32_t i = 0; rc == EO_OK && i < p->n_places; i++) {
        memcpy((char *)feeds.data + p->places[i].offset, p->data[i],
               (size_t)eo_tensor_desc_bytes(eo_graph_desc(p->graph, p->places[i].value)));
    }
    if (rc == EO_OK) {
        rc = host_tensor_init(desc, out, p->b->b.err);
    }
    if (rc == EO_OK) {
        rc = compile_and_run(p, wanted, feeds.data, out->data);
    }
    host_tensor_fini(&feeds);
    return rc;
}

const struct build_known *build_evaluate(struct onnx_build *b, eo_value v)
{
    struct host_tensor result = {0};
    struct part p;
    int rc;

    if (b->b.status != EO_OK || v == EO_NO_VALUE) {
        return NULL;
    }
    if (known(b, v) != NULL) {
        return known(b, v);
    }
    rc = open_reference(b);
    if (rc != EO_OK) {
        return NULL;
    }
    rc = part_init(&p, b);
    if (rc == EO_OK) {
        rc = collect(&p, v);
    }
    if (rc == EO_OK) {
        rc = run_part(&p, v, &result);
    }
    part_fini(&p);
    if (rc != EO_OK) {
        host_tensor_fini(&result);
        (void)fail(b, rc);
        eo_error_push(b->b.err, "evaluating an operand that decides shapes");
        return NULL;
    }
    return build_know(b, v, &result.desc, result.data, result.data) == EO_OK ? known(b, v) : NULL;
}

/* ---- results whose shape depends on data ---- */

static int run_data_shape(struct onnx_build *b, const struct eo_node_view *view, void *const *in, void *out,
                          struct eo_tensor_desc *actual)
{
    struct eo_launch launch = {.node = view, .out = {out}, .actual = actual};
    struct eo_kernel kernel = {0};
    struct host_tensor workspace = {0};
    int64_t bytes;
    struct eo_tensor_desc desc;
    int rc = b->reference->backend->select(b->reference, view, &kernel, b->b.err);

    if (rc != EO_OK) {
        return rc;
    }
    memcpy(launch.in, in, (size_t)view->n_in * sizeof(*in));
    bytes = (int64_t)kernel.workspace_bytes;
    rc = eo_tensor_desc_init(&desc, EO_UINT8, &bytes, 1, b->b.err);
    if (rc == EO_OK) {
        rc = host_tensor_init(&desc, &workspace, b->b.err);
    }
    if (rc == EO_OK) {
        launch.workspace = workspace.data;
        launch.state = kernel.state;
        rc = kernel.run(b->reference, &launch, b->b.err);
    }
    if (kernel.state_free != NULL) {
        kernel.state_free(kernel.state);
    }
    host_tensor_fini(&workspace);
    return rc;
}

eo_value build_data_shape(struct onnx_build *b, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                          const eo_value *in, int n_in)
{
    struct host_tensor copies[EO_MAX_NAMED_INPUTS] = {{{0}, NULL}}, largest = {0};
    struct eo_node_view view = {.op = op, .attrs = attrs, .n_in = n_in, .n_out = 1};
    struct eo_tensor_desc out_desc[EO_MAX_OUTPUTS], actual;
    void *data[EO_MAX_NAMED_INPUTS];
    eo_value v = EO_NO_VALUE;
    int rc = open_reference(b);

    for (int i = 0; rc == EO_OK && i < n_in; i++) {
        const struct build_known *k = build_evaluate(b, in[i]);

        rc = k == NULL ? b->b.status
                       : host_tensor_copy(&k->desc, k->data, eo_tensor_desc_bytes(&k->desc), &copies[i], b->b.err);
        view.in[i] = &copies[i].desc;
        data[i] = copies[i].data;
    }
    if (rc == EO_OK) {
        rc = eo_op_infer(op, view.in, n_in, attrs, out_desc, b->b.err);
        view.out[0] = &out_desc[0];
    }
    if (rc == EO_OK && eo_tensor_desc_bytes(&out_desc[0]) > BUILD_MAX_EVALUATED) {
        rc = EO_RAISE(b->b.err, EO_E_TOO_LARGE, "the result may have %" PRIu64 " bytes, at most %d are evaluated",
                      eo_tensor_desc_bytes(&out_desc[0]), BUILD_MAX_EVALUATED);
    }
    if (rc == EO_OK) {
        rc = host_tensor_init(&out_desc[0], &largest, b->b.err);
    }
    if (rc == EO_OK) {
        actual = out_desc[0];
        rc = run_data_shape(b, &view, data, largest.data, &actual);
    }
    for (int i = 0; i < n_in; i++) {
        host_tensor_fini(&copies[i]);
    }
    v = rc == EO_OK ? build_tensor(b, &actual, largest.data) : EO_NO_VALUE;
    if (v == EO_NO_VALUE) {
        host_tensor_fini(&largest);
        (void)fail(b, rc);
        return EO_NO_VALUE;
    }
    /* the bytes belong to the value from now on, whether the graph copied them or not */
    return build_know(b, v, &actual, largest.data, largest.data) == EO_OK ? v : EO_NO_VALUE;
}
