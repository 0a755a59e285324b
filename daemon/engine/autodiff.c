#include "daemon/engine/autodiff.h"

#include "daemon/engine/grad/rules.h"
#include "daemon/engine/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

grad_rule_fn grad_rule(enum eo_op op)
{
#define GRAD(name) grad_##name
#define BY_LOWERING(name) NULL
#define NO_GRAD(name) NULL
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, ...)                           \
    [EO_OP_##NAME] = grad(name),
    static const grad_rule_fn rules[EO_OP_COUNT] = {
#include "proto/tables/ops.def"
    };
#undef GRAD
#undef BY_LOWERING
#undef NO_GRAD

    return op > EO_OP_NONE && op < EO_OP_COUNT ? rules[op] : NULL;
}

/* One differentiation. Nodes are in topological order, so one walk up marks what depends on wrt and one walk down
 * carries gradients: no recursion over the graph, whatever its depth. Values added on the way get numbers behind those
 * of the graph; only those of a lowering that is differentiated itself take part (step_into_lowering). */
struct tape {
    struct eo_graph *g;
    struct eo_builder b;
    eo_value y;
    uint32_t n_values; /* entries of active and grads */
    bool *active;      /* per value: float, and depends on a wrt (or is one) */
    eo_value *grads;   /* per value: sum of the gradients so far */
};

static bool is_float(const struct eo_graph *g, eo_value v)
{
    return eo_dtype_kind((enum eo_dtype)eo_graph_desc(g, v)->dtype) == EO_KIND_FLOAT;
}

static int need_float(const struct eo_graph *g, eo_value v, const char *what, struct eo_error *err)
{
    if (v >= g->n_values) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s is value %u of a graph with %u values", what, v, g->n_values);
    }
    if (!is_float(g, v)) {
        int rc = EO_RAISE(err, EO_E_NO_GRADIENT, "%s is %s: only float values have gradients", what,
                          eo_dtype_name((enum eo_dtype)eo_graph_desc(g, v)->dtype));

        eo_error_input_desc(err, what, eo_graph_desc(g, v), -1);
        return rc;
    }
    return EO_OK;
}

static int check_seed(const struct eo_graph *g, eo_value y, eo_value seed, struct eo_error *err)
{
    const struct eo_tensor_desc *dy = eo_graph_desc(g, y);

    if (seed == EO_NO_VALUE) {
        if (eo_tensor_desc_count(dy) == 1) {
            return EO_OK;
        }
        (void)EO_RAISE(err, EO_E_NO_GRADIENT, "y has %lld elements and no seed was given",
                       (long long)eo_tensor_desc_count(dy));
        eo_error_hint(err, "Differentiate a scalar, or pass the gradient of y as seed.");
        eo_error_input_desc(err, "y", dy, -1);
        return EO_E_NO_GRADIENT;
    }
    if (seed >= g->n_values) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "seed is value %u of a graph with %u values", seed, g->n_values);
    }
    if (!eo_tensor_desc_equal(dy, eo_graph_desc(g, seed))) {
        bool shape = !eo_tensor_desc_same_shape(dy, eo_graph_desc(g, seed));
        int rc = EO_RAISE(err, shape ? EO_E_SHAPE_MISMATCH : EO_E_DTYPE_MISMATCH, "seed and y differ in %s",
                          shape ? "shape" : "dtype");

        eo_error_input_desc(err, "y", dy, -1);
        eo_error_input_desc(err, "seed", eo_graph_desc(g, seed), -1);
        return rc;
    }
    return EO_OK;
}

static int check_request(const struct eo_graph *g, eo_value y, eo_value seed, const eo_value *wrt, int n_wrt,
                         struct eo_error *err)
{
    int rc = need_float(g, y, "y", err);

    for (int i = 0; rc == EO_OK && i < n_wrt; i++) {
        char what[32];

        (void)snprintf(what, sizeof(what), "wrt[%d]", i);
        rc = need_float(g, wrt[i], what, err);
    }
    return rc != EO_OK ? rc : check_seed(g, y, seed, err);
}

/* What of nodes first..end-1 depends on an active value is active. */
static void spread_active(struct tape *t, uint32_t first, uint32_t end)
{
    for (uint32_t n = first; n < end; n++) {
        const struct eo_graph_node *node = &t->g->nodes[n];
        bool any = false;

        for (uint32_t i = 0; i < node->n_inputs; i++) {
            any |= t->active[node->inputs[i]];
        }
        for (uint32_t o = 0; any && o < node->n_outputs; o++) {
            t->active[node->first_output + o] |= is_float(t->g, node->first_output + o);
        }
    }
}

static int no_rule(const struct eo_graph_node *node, uint32_t n, struct eo_error *err)
{
    char where[64];

    (void)snprintf(where, sizeof(where), node->name != NULL ? "%u \"%s\"" : "%u", n, node->name);
    (void)EO_RAISE(err, EO_E_NO_GRADIENT, "%s has no gradient, and y depends on wrt through it", node->op->name);
    eo_error_at_op(err, node->op->name, where);
    return EO_E_NO_GRADIENT;
}

static void add_grad(struct tape *t, eo_value v, eo_value g)
{
    t->grads[v] = t->grads[v] == EO_NO_VALUE ? g : eo_build_binary(&t->b, EO_OP_ADD, t->grads[v], g);
}

/* Adds what the rule of node made to the gradients of its inputs. */
static int collect(struct tape *t, const struct eo_graph_node *node, const bool *needs, const eo_value *in_grads)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        eo_value v = node->inputs[i], g = in_grads[i];

        if (!needs[i] || g == EO_NO_VALUE) {
            continue;
        }
        if (!eo_tensor_desc_equal(eo_graph_desc(t->g, v), eo_graph_desc(t->g, g))) {
            return EO_BUG(t->b.err, "gradient rule of %s: input %u has another shape", node->op->name, i);
        }
        add_grad(t, v, g);
    }
    return t->b.status;
}

/* Room in the tape for all values that the graph has now. */
static int grow(struct tape *t)
{
    uint32_t n = t->g->n_values;
    bool *active = realloc(t->active, n * sizeof(*active));

    if (active != NULL) {
        t->active = active;
    }
    eo_value *grads = realloc(t->grads, n * sizeof(*grads));

    if (grads != NULL) {
        t->grads = grads;
    }
    if (active == NULL || grads == NULL) {
        return EO_RAISE(t->b.err, EO_E_NO_MEMORY, "no memory to differentiate a graph of %u values", n);
    }
    for (uint32_t v = t->n_values; v < n; v++) {
        active[v] = false;
        grads[v] = EO_NO_VALUE;
    }
    t->n_values = n;
    return EO_OK;
}

static int step_back(struct tape *t, uint32_t n);

/* A composite row without a rule of its own: its lowering is added to the graph and differentiated. What it computes
 * again is merged with the lowering of the node itself when the graph is compiled. Lowerings nest as deep as rows
 * lower to composite rows, so the recursion is bounded by the table. */
static int step_into_lowering(struct tape *t, const struct eo_graph_node *node)
{
    eo_value lowered[EO_MAX_OUTPUTS];
    uint32_t first = t->g->n_nodes, end;
    int rc = lower_node(&t->b, node, lowered);

    end = t->g->n_nodes;
    if (rc == EO_OK) {
        rc = grow(t);
    }
    if (rc != EO_OK) {
        return rc;
    }
    spread_active(t, first, end);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        if (t->grads[node->first_output + o] != EO_NO_VALUE) {
            add_grad(t, lowered[o], t->grads[node->first_output + o]);
        }
    }
    rc = t->b.status;
    while (rc == EO_OK && end-- > first) {
        rc = step_back(t, end);
    }
    return rc;
}

static int step_back(struct tape *t, uint32_t n)
{
    /* A copy: the rule adds nodes, which may move the graph's table. */
    const struct eo_graph_node node = t->g->nodes[n];
    bool needs[EO_MAX_INPUTS];
    eo_value in_grads[EO_MAX_INPUTS];
    bool flows = false, wanted = false;
    grad_rule_fn rule;

    for (uint32_t o = 0; o < node.n_outputs; o++) {
        flows |= t->grads[node.first_output + o] != EO_NO_VALUE;
    }
    for (uint32_t i = 0; i < node.n_inputs; i++) {
        needs[i] = t->active[node.inputs[i]];
        wanted |= needs[i];
        in_grads[i] = EO_NO_VALUE;
    }
    if (!flows || !wanted) {
        return EO_OK;
    }
    t->g->label = node.name;
    if (node.op->gradient == EO_GRADIENT_LOWERING) {
        return step_into_lowering(t, &node);
    }
    rule = grad_rule(node.op->op);
    if (rule == NULL) {
        return no_rule(&node, n, t->b.err);
    }
    rule(&(struct grad_site){&t->b, &node, &t->grads[node.first_output], needs, in_grads});
    return t->b.status != EO_OK ? t->b.status : collect(t, &node, needs, in_grads);
}

static int walk_back(struct tape *t, eo_value seed)
{
    uint32_t n = t->g->values[t->y].node + 1;
    int rc;

    t->grads[t->y] = seed != EO_NO_VALUE ? seed : eo_build_full_like(&t->b, t->y, 1);
    rc = t->b.status;
    while (rc == EO_OK && n-- > 0) {
        rc = step_back(t, n);
    }
    return rc;
}

static int differentiate(struct tape *t, eo_value seed, const eo_value *wrt, int n_wrt, eo_value *out)
{
    const char *label = t->g->label;
    int rc = EO_OK;

    for (int i = 0; i < n_wrt; i++) {
        t->active[wrt[i]] = true;
    }
    spread_active(t, 0, t->g->values[t->y].node + 1);
    if (t->active[t->y]) {
        rc = walk_back(t, seed);
    }
    t->g->label = label;
    for (int i = 0; rc == EO_OK && i < n_wrt; i++) {
        eo_value g = t->grads[wrt[i]];

        out[i] = g != EO_NO_VALUE ? g : eo_build_full_like(&t->b, wrt[i], 0);
        rc = t->b.status;
    }
    return rc;
}

int autodiff_gradients(struct eo_graph *g, eo_value y, eo_value seed, const eo_value *wrt, int n_wrt, eo_value *out,
                       struct eo_error *err)
{
    struct tape t = {.g = g, .y = y, .n_values = g->n_values};
    int rc = check_request(g, y, seed, wrt, n_wrt, err);

    if (rc != EO_OK) {
        return rc;
    }
    eo_build_init(&t.b, g, err);
    t.active = calloc(t.n_values, sizeof(*t.active));
    t.grads = malloc(t.n_values * sizeof(*t.grads));
    if (t.active == NULL || t.grads == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to differentiate a graph of %u values", t.n_values);
    } else {
        for (uint32_t v = 0; v < t.n_values; v++) {
            t.grads[v] = EO_NO_VALUE;
        }
        rc = differentiate(&t, seed, wrt, n_wrt, out);
    }
    free(t.active);
    free(t.grads);
    return rc;
}
