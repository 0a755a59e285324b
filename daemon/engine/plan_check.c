/* What the caller of plan_compile says about places, checked before anything is built on it. */
#include "daemon/engine/plan_internal.h"
#include "proto/base/checked.h"

#include <stdlib.h>

static const char *value_name(const struct eo_graph *g, eo_value v)
{
    const char *name = g->nodes[g->values[v].node].name;

    return name != NULL ? name : "";
}

static int check_place(const struct eo_graph *g, const struct plan_place *p, const char *what, struct eo_error *err)
{
    const struct eo_tensor_desc *desc;
    uint64_t bytes, end, align;

    if (p->value >= g->n_values) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s is value %u of a graph with %u values", what, p->value, g->n_values);
    }
    desc = eo_graph_desc(g, p->value);
    bytes = eo_tensor_desc_bytes(desc);
    align = bytes >= IR_ALIGN ? IR_ALIGN : eo_dtype_size((enum eo_dtype)desc->dtype);
    if (p->buffer >= PLAN_MAX_BUFFERS) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s \"%s\" is in buffer %u, there are %d at most", what,
                        value_name(g, p->value), p->buffer, PLAN_MAX_BUFFERS);
    }
    if (!eo_add_u64(p->offset, bytes, &end) || end > INT64_MAX) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s \"%s\" ends beyond 2^63 bytes", what, value_name(g, p->value));
    }
    if (p->offset % align != 0) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s \"%s\" is at offset %llu, which is no multiple of %llu", what,
                        value_name(g, p->value), (unsigned long long)p->offset, (unsigned long long)align);
    }
    return EO_OK;
}

/* seen: one byte per value. */
static int check_inputs(const struct plan_spec *spec, uint8_t *seen, struct eo_error *err)
{
    const struct eo_graph *g = spec->graph;

    for (uint32_t i = 0; i < spec->n_inputs; i++) {
        const struct plan_place *p = &spec->inputs[i];
        int rc = check_place(g, p, "input", err);
        enum eo_node_kind kind;

        if (rc != EO_OK) {
            return rc;
        }
        kind = g->nodes[g->values[p->value].node].kind;
        if (kind != EO_NODE_INPUT && kind != EO_NODE_STATE) {
            return EO_RAISE(err, EO_E_BAD_GRAPH, "value %u has an input's place but is no input or state", p->value);
        }
        if (seen[p->value] != 0) {
            return EO_RAISE(err, EO_E_BAD_GRAPH, "input \"%s\" has two places", value_name(g, p->value));
        }
        seen[p->value] = 1;
    }
    return EO_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct plan_place *const *x = a, *const *y = b;

    if ((*x)->buffer != (*y)->buffer) {
        return (*x)->buffer < (*y)->buffer ? -1 : 1;
    }
    return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

static int check_outputs(const struct plan_spec *spec, const struct plan_place **sorted, struct eo_error *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < spec->n_outputs; i++) {
        int rc = check_place(spec->graph, &spec->outputs[i], "output", err);

        if (rc != EO_OK) {
            return rc;
        }
        if (eo_tensor_desc_count(eo_graph_desc(spec->graph, spec->outputs[i].value)) > 0) {
            sorted[n++] = &spec->outputs[i];
        }
    }
    qsort(sorted, n, sizeof(*sorted), by_place);
    for (uint32_t i = 1; i < n; i++) {
        const struct plan_place *a = sorted[i - 1], *b = sorted[i];

        if (a->buffer == b->buffer &&
            a->offset + eo_tensor_desc_bytes(eo_graph_desc(spec->graph, a->value)) > b->offset) {
            return EO_RAISE(err, EO_E_BAD_GRAPH, "outputs at offsets %llu and %llu of buffer %u overlap",
                            (unsigned long long)a->offset, (unsigned long long)b->offset, a->buffer);
        }
    }
    return EO_OK;
}

int plan_check(const struct plan_spec *spec, struct eo_error *err)
{
    uint8_t *seen = calloc((size_t)spec->graph->n_values + 1, 1);
    const struct plan_place **sorted = malloc(((size_t)spec->n_outputs + 1) * sizeof(*sorted));
    int rc;

    if (seen == NULL || sorted == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    } else {
        rc = check_inputs(spec, seen, err);
        if (rc == EO_OK) {
            rc = check_outputs(spec, sorted, err);
        }
    }
    free(seen);
    free(sorted);
    return rc;
}
