/* Plan outputs as nodes: afterwards each output is a computed value of its own (or an input that is in its place), so
 * that planning memory has one case only. Every other case costs a copy: an input handed on to another place, a
 * constant, the same value in two places. */
#include "daemon/engine/passes/pass.h"

#include <stdlib.h>

static int add_copy(struct ir *ir, uint32_t from, uint32_t *out, struct eo_error *err)
{
    struct ir_node node = {.n_in = 1, .n_out = 1, .in = &from, .origin = IR_NONE};
    int rc = ir_add_value(ir, IR_COMPUTED, &ir->values[from].desc, &node.out[0], err);

    *out = node.out[0];
    return rc == EO_OK ? ir_add_node(ir, &node, err) : rc;
}

/* Copies of inputs were appended; they go to the front, so that later nodes may write straight over the inputs. */
static int move_to_front(struct ir *ir, uint32_t first, struct eo_error *err)
{
    uint32_t n_moved = ir->n_nodes - first;
    struct ir_node *all;

    if (n_moved == 0 || first == 0) {
        return EO_OK;
    }
    all = malloc(ir->n_nodes * sizeof(*all));
    if (all == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    }
    for (uint32_t n = 0; n < ir->n_nodes; n++) {
        all[n < first ? n + n_moved : n - first] = ir->nodes[n];
    }
    free(ir->nodes);
    ir->nodes = all;
    ir->cap_nodes = ir->n_nodes;
    return EO_OK;
}

/* An input handed on to the place where it is already. */
static bool stays(const struct ir *ir, uint32_t output, uint32_t root)
{
    const struct plan_place *from = &ir->spec->inputs[ir->values[root].place];
    const struct plan_place *to = &ir->spec->outputs[output];

    return from->buffer == to->buffer && from->offset == to->offset;
}

static int copy_inputs(struct ir *ir, struct eo_error *err)
{
    uint32_t first = ir->n_nodes;
    int rc = EO_OK;

    for (uint32_t i = 0; rc == EO_OK && i < ir->spec->n_outputs; i++) {
        uint32_t root = ir->values[ir->outputs[i]].root;

        if (ir->values[root].kind == IR_SOURCE && !stays(ir, i, root)) {
            rc = add_copy(ir, ir->outputs[i], &ir->outputs[i], err);
        }
    }
    return rc == EO_OK ? move_to_front(ir, first, err) : rc;
}

/* taken[v]: the root v is an output already. */
static int copy_others(struct ir *ir, bool *taken, struct eo_error *err)
{
    int rc = EO_OK;

    for (uint32_t i = 0; rc == EO_OK && i < ir->spec->n_outputs; i++) {
        uint32_t root = ir->values[ir->outputs[i]].root;

        if (ir->values[root].kind == IR_SOURCE) {
            continue;
        }
        if (ir->values[root].kind == IR_CONSTANT || taken[root]) {
            rc = add_copy(ir, ir->outputs[i], &ir->outputs[i], err);
        } else {
            taken[root] = true;
        }
    }
    return rc;
}

int bind_outputs(struct ir *ir, struct eo_error *err)
{
    bool *taken;
    int rc = copy_inputs(ir, err);

    if (rc != EO_OK) {
        return rc;
    }
    taken = calloc((size_t)ir->n_values + ir->spec->n_outputs, sizeof(*taken));
    rc = taken == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph") : copy_others(ir, taken, err);
    free(taken);
    return rc == EO_OK ? ir_sweep(ir, err) : rc;
}
