/* A graph as a client sends it: refused with a report, or whole. A whole one is in topological order, holds no internal
 * operation, and has one encoding that decodes to itself. */
#include "proto/graph.h"

#include <string.h>

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static void ck_node(const struct eo_graph *g, uint32_t index)
{
    const struct eo_graph_node *node = &g->nodes[index];

    promise(node->n_outputs >= 1 && node->first_output + node->n_outputs <= g->n_values);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const struct eo_graph_value *v = &g->values[node->first_output + i];

        promise(v->node == index && v->output == i);
        promise(eo_tensor_desc_check(&v->desc, NULL) == EO_OK);
    }
    if (node->kind != EO_NODE_OP) {
        promise(node->n_inputs == 0);
        promise(node->kind == EO_NODE_CONSTANT || eo_graph_find(g, node->name) == node->first_output);
        return;
    }
    promise(node->attrs != NULL && eo_attrs_check(node->op, node->attrs, NULL) == EO_OK);
    promise((node->op->flags & EO_OPF_INTERNAL) == 0);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        promise(node->inputs[i] < node->first_output);
    }
}

static void ck_graph(const struct eo_graph *g)
{
    struct eo_graph *again;
    struct eo_bytes once, twice;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        ck_node(g, i);
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        promise(g->outputs[i].value < g->n_values);
        promise(eo_graph_find(g, g->outputs[i].name) == g->outputs[i].value);
    }
    eo_bytes_init(&once, EO_GRAPH_MAX_BYTES);
    eo_bytes_init(&twice, EO_GRAPH_MAX_BYTES);
    promise(eo_graph_encode(g, &once, NULL) == EO_OK);
    promise(eo_graph_decode(once.data, once.size, &again, NULL) == EO_OK);
    promise(eo_graph_encode(again, &twice, NULL) == EO_OK);
    promise(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    eo_graph_free(again);
    eo_bytes_fini(&twice);
    eo_bytes_fini(&once);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_graph *g = NULL;
    struct eo_error err;
    int rc = eo_graph_decode(data, size, &g, &err);

    if (rc != EO_OK) {
        promise(err.code == rc && err.message[0] != '\0' && g == NULL);
        return 0;
    }
    ck_graph(g);
    eo_graph_free(g);
    return 0;
}
