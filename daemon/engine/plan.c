#include "backends/registry.h"
#include "daemon/engine/passes/pass.h"
#include "daemon/engine/plan_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_MAX_HOST_BYTES = 1 << 30 };

static int out_of_memory(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
}

/* ---- passes ---- */

static int run_passes(struct ir *ir, struct eo_error *err)
{
    static const struct {
        int (*run)(struct ir *ir, struct eo_error *err);
        uint32_t bit;
    } passes[] = {
#define PLAN_PASS(name, NAME, summary) {pass_##name, PLAN_WITHOUT(NAME)},
#include "daemon/engine/passes/passes.def"
    };
    int rc = import_graph(ir, err);

    for (size_t i = 0; rc == EO_OK && i < EO_COUNT_OF(passes); i++) {
        if ((ir->spec->without & passes[i].bit) == 0) {
            rc = passes[i].run(ir, err);
        }
    }
    return rc == EO_OK ? bind_outputs(ir, err) : rc;
}

/* ---- from the IR to memory that lives as long as the plan ---- */

struct emitter {
    struct plan *plan;
    struct ir *ir;
    const struct eo_tensor_desc **descs; /* per value of the IR: the plan's copy, NULL until needed */
    struct eo_node_view **views;         /* per node */
    struct placement placement;
};

/* Rows without attributes may come without values; kernels get a valid pointer all the same. */
static const struct eo_attrs *keep_attrs(struct plan *p, const struct eo_op_schema *op, const struct eo_attrs *attrs)
{
    struct eo_attrs *copy = eo_arena_alloc(&p->arena, sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    if (attrs != NULL) {
        *copy = *attrs;
    } else {
        eo_attrs_default(op, copy);
    }
    return copy;
}

static const struct eo_fused_program *keep_program(struct plan *p, const struct eo_fused_program *program)
{
    struct eo_fused_program *copy = eo_arena_alloc(&p->arena, sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    *copy = *program;
    for (int i = 0; i < copy->n_steps; i++) {
        struct eo_fused_step *step = &copy->steps[i];

        step->attrs = keep_attrs(p, eo_op_schema((enum eo_op)step->op), step->attrs);
        if (step->attrs == NULL) {
            return NULL;
        }
    }
    return copy;
}

static const struct eo_tensor_desc *keep_desc(struct emitter *e, uint32_t v)
{
    if (e->descs[v] == NULL) {
        struct eo_tensor_desc *copy = eo_arena_alloc(&e->plan->arena, sizeof(*copy));

        if (copy != NULL) {
            *copy = e->ir->values[v].desc;
        }
        e->descs[v] = copy;
    }
    return e->descs[v];
}

static struct eo_node_view *keep_view(struct emitter *e, const struct ir_node *node)
{
    struct eo_node_view *view = eo_arena_alloc(&e->plan->arena, sizeof(*view));

    if (view == NULL) {
        return NULL;
    }
    ir_view(e->ir, node, view);
    for (uint32_t i = 0; i < node->n_in; i++) {
        view->in[i] = keep_desc(e, node->in[i]);
        if (view->in[i] == NULL) {
            return NULL;
        }
    }
    for (uint32_t o = 0; o < node->n_out; o++) {
        view->out[o] = keep_desc(e, node->out[o]);
        if (view->out[o] == NULL) {
            return NULL;
        }
    }
    if (node->op != NULL) {
        view->attrs = keep_attrs(e->plan, node->op, node->attrs);
    }
    if (node->fused != NULL) {
        view->fused = keep_program(e->plan, node->fused);
    }
    return (node->op != NULL && view->attrs == NULL) || (node->fused != NULL && view->fused == NULL) ? NULL : view;
}

static void note_fallback(struct plan_stats *s, const struct eo_node_view *view, const struct eo_device *dev,
                          const char *why)
{
    size_t used = strlen(s->fallback_ops);
    char title[64];

    s->n_fallback++;
    (void)snprintf(s->fallback_ops + used, sizeof(s->fallback_ops) - used, "%s%s (%s: %s)", used > 0 ? ", " : "",
                   kernels_title(view, title, sizeof(title)), dev->info.name, why);
}

static int choose_kernels(struct emitter *e, struct eo_error *err)
{
    struct plan *p = e->plan;
    const struct ir *ir = e->ir;

    p->choices = calloc((size_t)ir->n_nodes + 1, sizeof(*p->choices));
    if (p->choices == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t n = 0; n < ir->n_nodes; n++) {
        char why[160];
        int rc;

        e->views[n] = keep_view(e, &ir->nodes[n]);
        if (e->views[n] == NULL) {
            return out_of_memory(err);
        }
        rc = kernels_choose(e->ir, &ir->nodes[n], e->views[n], &p->choices[n], why, sizeof(why), err);
        if (rc != EO_OK) {
            return rc;
        }
        p->n_choices = n + 1;
        if (p->choices[n].fallback != NULL) {
            note_fallback(&p->stats, e->views[n], p->dev, why);
        }
        p->stats.n_fused += ir->nodes[n].fused != NULL;
    }
    return EO_OK;
}

/* ---- steps ---- */

static struct plan_step *next_step(struct emitter *e, uint32_t n_slots, struct plan_slot **out_slots)
{
    struct plan_step *step = &e->plan->steps[e->plan->n_steps];

    *out_slots = eo_arena_alloc_n(&e->plan->arena, n_slots, sizeof(**out_slots));
    if (*out_slots == NULL) {
        return NULL;
    }
    step->slots = *out_slots;
    e->plan->n_steps++;
    return step;
}

static int emit_node(struct emitter *e, uint32_t n, struct eo_error *err)
{
    const struct ir_node *node = &e->ir->nodes[n];
    const struct kernels_choice *choice = &e->plan->choices[n];
    struct plan_step_info *info = &e->plan->infos[e->plan->n_steps];
    struct plan_slot *slot;
    struct plan_step *step = next_step(e, node->n_in + node->n_out, &slot);

    if (step == NULL) {
        return out_of_memory(err);
    }
    step->run = choice->kernel.run;
    step->state = choice->kernel.state;
    step->view = e->views[n];
    step->workspace =
        choice->kernel.workspace_bytes > 0 ? e->placement.workspaces[n] : (struct plan_slot){0, SLOT_ARENA};
    step->n_in = node->n_in;
    step->n_out = node->n_out;
    for (uint32_t i = 0; i < node->n_in; i++) {
        *slot++ = placement_slot(&e->placement, e->ir, node->in[i]);
    }
    for (uint32_t o = 0; o < node->n_out; o++) {
        *slot++ = placement_slot(&e->placement, e->ir, node->out[o]);
    }
    *info = (struct plan_step_info){.kernel = choice->kernel.name, .origin = node->origin};
    if (node->label != NULL) {
        info->label = eo_arena_strndup(&e->plan->arena, node->label, strlen(node->label));
        if (info->label == NULL) {
            return out_of_memory(err);
        }
    }
    e->plan->stats.n_copies += ir_is_copy(node);
    return EO_OK;
}

static int emit_late_copy(struct emitter *e, const struct placement_copy *copy, struct eo_error *err)
{
    struct ir_node node = {.n_in = 1, .n_out = 1, .in = &(uint32_t){copy->value}, .out = {copy->value}};
    struct eo_node_view *view = keep_view(e, &node);
    struct plan_step_info *info = &e->plan->infos[e->plan->n_steps];
    struct kernels_choice choice = {0};
    struct plan_slot *slots;
    struct plan_step *step = view == NULL ? NULL : next_step(e, 2, &slots);
    int rc;

    if (step == NULL) {
        return out_of_memory(err);
    }
    rc = kernels_choose(e->ir, &node, view, &choice, NULL, 0, err);
    step->run = choice.kernel.run;
    step->view = view;
    step->workspace = (struct plan_slot){0, SLOT_ARENA};
    step->n_in = step->n_out = 1;
    slots[0] = placement_slot(&e->placement, e->ir, copy->value);
    slots[1] = copy->to;
    *info = (struct plan_step_info){.kernel = choice.kernel.name, .origin = IR_NONE};
    e->plan->stats.n_copies++;
    return rc;
}

static int emit_steps(struct emitter *e, struct eo_error *err)
{
    struct plan *p = e->plan;
    uint32_t n_steps = e->ir->n_nodes + e->placement.n_late;
    int rc = EO_OK;

    p->steps = eo_arena_alloc_n(&p->arena, n_steps, sizeof(*p->steps));
    p->infos = eo_arena_alloc_n(&p->arena, n_steps, sizeof(*p->infos));
    if (p->steps == NULL || p->infos == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t n = 0; rc == EO_OK && n < e->ir->n_nodes; n++) {
        rc = emit_node(e, n, err);
    }
    for (uint32_t i = 0; rc == EO_OK && i < e->placement.n_late; i++) {
        rc = emit_late_copy(e, &e->placement.late[i], err);
    }
    return rc;
}

/* ---- constants and buffers ---- */

static int upload_constants(struct emitter *e, struct eo_error *err)
{
    struct plan *p = e->plan;
    const struct eo_backend *backend = p->dev->backend;
    int rc;

    if (p->stats.constant_bytes == 0) {
        return EO_OK;
    }
    rc = backend->alloc(p->dev, p->stats.constant_bytes, &p->constants, err);
    for (uint32_t v = 0; rc == EO_OK && v < e->ir->n_values; v++) {
        const struct ir_value *value = &e->ir->values[v];
        struct plan_slot slot = e->placement.slots[v];
        uint64_t bytes = eo_tensor_desc_bytes(&value->desc);

        if (value->kind == IR_CONSTANT && slot.base == SLOT_CONSTANTS && bytes > 0) {
            rc = backend->copy_in(p->dev, (void *)((uintptr_t)p->constants + slot.offset), value->data, bytes, err);
        }
    }
    /* The bytes belong to the graph and the IR, which may go now. */
    return rc == EO_OK && backend->sync != NULL ? backend->sync(p->dev, err) : rc;
}

static void note_places(struct plan *p, const struct eo_graph *g, const struct plan_place *places, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = places[i].offset + eo_tensor_desc_bytes(eo_graph_desc(g, places[i].value));
        uint32_t b = places[i].buffer;

        p->n_buffers = EO_MAX(p->n_buffers, b + 1);
        p->buffer_bytes[b] = EO_MAX(p->buffer_bytes[b], end);
    }
}

static uint32_t count_ops(const struct eo_graph *g)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < g->n_nodes; n++) {
        count += g->nodes[n].kind == EO_NODE_OP;
    }
    return count;
}

static int emit(struct emitter *e, struct eo_error *err)
{
    struct plan *p = e->plan;
    int rc = choose_kernels(e, err);

    if (rc == EO_OK) {
        rc = placement_make(e->ir, p->choices, &e->placement, err);
    }
    if (rc == EO_OK) {
        rc = emit_steps(e, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    p->stats.n_graph_nodes = count_ops(e->ir->spec->graph);
    p->stats.n_steps = p->n_steps;
    p->stats.n_in_place = e->placement.n_in_place;
    p->stats.arena_bytes = e->placement.arena_bytes;
    p->stats.constant_bytes = e->placement.constant_bytes;
    return upload_constants(e, err);
}

static int emit_plan(struct plan *p, struct ir *ir, struct eo_error *err)
{
    struct emitter e = {.plan = p, .ir = ir};
    int rc;

    if (ir->n_nodes > PLAN_MAX_STEPS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the graph needs %u steps, at most %d are possible", ir->n_nodes,
                        PLAN_MAX_STEPS);
    }
    e.descs = calloc((size_t)ir->n_values + 1, sizeof(*e.descs));
    e.views = calloc((size_t)ir->n_nodes + 1, sizeof(*e.views));
    rc = e.descs == NULL || e.views == NULL ? out_of_memory(err) : emit(&e, err);
    if (p->stats.n_fallback > 0) { /* the reference device stays with those who run on it */
        p->reference = ir->reference;
        ir->reference = NULL;
    }
    placement_fini(&e.placement);
    free(e.descs);
    free(e.views);
    return rc;
}

int plan_compile(const struct plan_spec *spec, struct eo_device *dev, struct plan **out, struct eo_error *err)
{
    struct plan *p;
    struct ir ir;
    int rc = plan_check(spec, err);

    if (rc != EO_OK) {
        return rc;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return out_of_memory(err);
    }
    p->dev = dev;
    eo_arena_init(&p->arena, PLAN_MAX_HOST_BYTES);
    note_places(p, spec->graph, spec->inputs, spec->n_inputs);
    note_places(p, spec->graph, spec->outputs, spec->n_outputs);
    ir_init(&ir, spec, dev);
    rc = run_passes(&ir, err);
    if (rc == EO_OK) {
        rc = emit_plan(p, &ir, err);
    }
    ir_fini(&ir);
    if (rc != EO_OK) {
        plan_free(p);
        return rc;
    }
    *out = p;
    return EO_OK;
}

void plan_free(struct plan *p)
{
    if (p == NULL) {
        return;
    }
    if (p->dev->backend->sync != NULL) {
        (void)p->dev->backend->sync(p->dev, NULL); /* queued kernels still use the plan; their errors were reported */
    }
    for (uint32_t n = 0; n < p->n_choices; n++) {
        kernels_release(&p->choices[n]);
    }
    if (p->constants != NULL) {
        p->dev->backend->free(p->dev, p->constants, p->stats.constant_bytes);
    }
    if (p->reference != NULL) {
        registry_close(p->reference);
    }
    free(p->choices);
    eo_arena_fini(&p->arena);
    free(p);
}

const struct plan_stats *plan_stats(const struct plan *p)
{
    return &p->stats;
}

uint64_t plan_arena_bytes(const struct plan *p)
{
    return p->stats.arena_bytes;
}

uint64_t plan_buffer_bytes(const struct plan *p, uint32_t buffer)
{
    return buffer < p->n_buffers ? p->buffer_bytes[buffer] : 0;
}

const char *plan_kernel(const struct plan *p, uint32_t step)
{
    return step < p->n_steps ? p->infos[step].kernel : NULL;
}
