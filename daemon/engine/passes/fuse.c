/* Element-wise fusion: nodes over one iteration space that feed each other become one program, so that what flows
 * between them never goes through memory. A group grows by one producer at a time, as long as
 *   - it fits struct eo_fused_program,
 *   - it stays convex: no path leaves the group and comes back, so that it can run as one step,
 *   - the device claims the program. What a device can fuse is its business alone; nothing here knows kernels.
 * The order of nodes decides alone which groups come out: the same graph gives the same plan. */
#include "daemon/engine/passes/pass.h"

#include <stdlib.h>
#include <string.h>

enum { FUSE_MAX_VISITS = 256 /* nodes looked at per convexity question: bounds the time for large graphs */ };

struct fuse_group {
    uint32_t members[EO_FUSED_MAX_STEPS]; /* ascending */
    int n;
};

struct fuse {
    struct ir *ir;
    uint32_t *group_of; /* per node: number of its group, IR_NONE = alone */
    struct fuse_group *groups;
    uint32_t n_groups;
    uint32_t *stamp; /* per node: question in which it was visited */
    uint32_t question;
    uint32_t *stack;
    uint8_t *emitted; /* per node */
    uint32_t n_old;   /* nodes before groups are emitted */
};

/* A group as a program, with the values that its registers and outputs are. */
struct fuse_draft {
    struct eo_fused_program program;
    uint32_t in[EO_FUSED_MAX_INPUTS];
    uint32_t out[EO_FUSED_MAX_OUTPUTS];
};

static bool fusable(const struct ir_node *node)
{
    return node->op != NULL && (node->op->properties & EO_PROP_ELEMENTWISE) != 0 &&
           (node->op->flags & EO_OPF_RANDOM) == 0 && node->n_in <= 3 && node->n_out == 1;
}

static struct fuse_group members_of(const struct fuse *f, uint32_t n)
{
    return f->group_of[n] != IR_NONE ? f->groups[f->group_of[n]] : (struct fuse_group){.members = {n}, .n = 1};
}

static bool contains(const struct fuse_group *g, uint32_t n)
{
    for (int i = 0; i < g->n; i++) {
        if (g->members[i] == n) {
            return true;
        }
    }
    return false;
}

/* ---- a group as a program ---- */

/* Register of a value: an input's number, or n_inputs + step; -1 when the group does not know it. */
static int register_of(const struct fuse *f, const struct fuse_group *g, const struct fuse_draft *d, uint32_t v)
{
    for (int i = 0; i < g->n; i++) {
        if (f->ir->nodes[g->members[i]].out[0] == v) {
            return d->program.n_inputs + i;
        }
    }
    for (int i = 0; i < d->program.n_inputs; i++) {
        if (d->in[i] == v) {
            return i;
        }
    }
    return -1;
}

static bool draft_inputs(const struct fuse *f, const struct fuse_group *g, struct fuse_draft *d)
{
    for (int m = 0; m < g->n; m++) {
        const struct ir_node *node = &f->ir->nodes[g->members[m]];

        for (uint32_t i = 0; i < node->n_in; i++) {
            if (register_of(f, g, d, node->in[i]) >= 0) {
                continue;
            }
            if (d->program.n_inputs == EO_FUSED_MAX_INPUTS) {
                return false;
            }
            d->in[d->program.n_inputs++] = node->in[i];
        }
    }
    return true;
}

static uint32_t uses_inside(const struct fuse *f, const struct fuse_group *g, uint32_t v)
{
    uint32_t count = 0;

    for (int m = 0; m < g->n; m++) {
        const struct ir_node *node = &f->ir->nodes[g->members[m]];

        for (uint32_t i = 0; i < node->n_in; i++) {
            count += node->in[i] == v;
        }
    }
    return count;
}

/* Steps and, from those used outside the group, outputs. */
static bool draft_steps(const struct fuse *f, const struct fuse_group *g, struct fuse_draft *d)
{
    for (int m = 0; m < g->n; m++) {
        const struct ir_node *node = &f->ir->nodes[g->members[m]];
        const struct ir_value *out = &f->ir->values[node->out[0]];
        struct eo_fused_step *step = &d->program.steps[m];

        *step = (struct eo_fused_step){
            .op = (uint16_t)node->op->op, .n_in = (uint8_t)node->n_in, .dtype = out->desc.dtype, .attrs = node->attrs};
        for (uint32_t i = 0; i < node->n_in; i++) {
            step->in[i] = (uint8_t)register_of(f, g, d, node->in[i]);
        }
        if (out->uses == uses_inside(f, g, node->out[0])) {
            continue;
        }
        if (d->program.n_outputs == EO_FUSED_MAX_OUTPUTS) {
            return false;
        }
        d->program.outputs[d->program.n_outputs] = (uint8_t)(d->program.n_inputs + m);
        d->out[d->program.n_outputs++] = node->out[0];
    }
    d->program.n_steps = (uint8_t)g->n;
    return true;
}

static bool make_draft(const struct fuse *f, const struct fuse_group *g, struct fuse_draft *d)
{
    memset(d, 0, sizeof(*d));
    return draft_inputs(f, g, d) && draft_steps(f, g, d);
}

static struct ir_node draft_node(const struct fuse *f, const struct fuse_group *g, struct fuse_draft *d)
{
    const struct ir_node *first = &f->ir->nodes[g->members[0]];
    struct ir_node node = {.fused = &d->program,
                           .n_in = d->program.n_inputs,
                           .n_out = d->program.n_outputs,
                           .in = d->in,
                           .label = first->label,
                           .origin = first->origin};

    memcpy(node.out, d->out, sizeof(d->out));
    return node;
}

/* ---- convexity ---- */

/* Pushes what the unit needs; true when that includes a member of g. (Within g, values pass in registers, but a view of
 * a member's result is read from memory, so g would wait for itself.) */
static bool push_inputs(struct fuse *f, const struct fuse_group *unit, const struct fuse_group *g, uint32_t *depth)
{
    for (int m = 0; m < unit->n; m++) {
        const struct ir_node *node = &f->ir->nodes[unit->members[m]];

        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t v = node->in[i], maker = ir_maker(f->ir, v);
            struct fuse_group next;

            if (maker == IR_NONE || (unit == g && f->ir->values[v].node != IR_NONE && contains(g, maker))) {
                continue;
            }
            if (contains(g, maker)) {
                return true;
            }
            next = members_of(f, maker);
            /* All that precedes the group's first member cannot depend on it. */
            if (next.members[next.n - 1] > g->members[0] && f->stamp[next.members[0]] != f->question) {
                f->stamp[next.members[0]] = f->question;
                f->stack[(*depth)++] = next.members[0];
            }
        }
    }
    return false;
}

/* Whether something outside g depends on g and g on it. Groups are units: who needs a part waits for the whole. */
static bool returns_to(struct fuse *f, const struct fuse_group *g)
{
    uint32_t depth = 0;

    f->question++;
    if (push_inputs(f, g, g, &depth)) {
        return true;
    }
    for (int visits = 0; depth > 0; visits++) {
        struct fuse_group unit = members_of(f, f->stack[--depth]);

        if (visits == FUSE_MAX_VISITS || push_inputs(f, &unit, g, &depth)) {
            return true;
        }
    }
    return false;
}

/* ---- growing groups ---- */

static bool unite(const struct fuse_group *a, const struct fuse_group *b, struct fuse_group *out)
{
    int i = 0, j = 0;

    if (a->n + b->n > EO_FUSED_MAX_STEPS) {
        return false;
    }
    for (out->n = 0; out->n < a->n + b->n; out->n++) {
        bool from_a = j == b->n || (i < a->n && a->members[i] < b->members[j]);

        out->members[out->n] = from_a ? a->members[i++] : b->members[j++];
    }
    return true;
}

static void adopt(struct fuse *f, const struct fuse_group *g)
{
    uint32_t number = IR_NONE;

    for (int i = 0; number == IR_NONE && i < g->n; i++) {
        number = f->group_of[g->members[i]];
    }
    if (number == IR_NONE) {
        number = f->n_groups++;
    }
    f->groups[number] = *g;
    for (int i = 0; i < g->n; i++) {
        f->group_of[g->members[i]] = number;
    }
}

static int try_join(struct fuse *f, uint32_t n, uint32_t producer, struct eo_error *err)
{
    struct fuse_group own = members_of(f, n), other = members_of(f, producer), both;
    struct fuse_draft draft;
    struct eo_node_view view;
    struct ir_node node;
    bool accepted;
    int rc;

    if (contains(&own, producer) || !unite(&other, &own, &both) || !make_draft(f, &both, &draft) ||
        returns_to(f, &both)) {
        return EO_OK;
    }
    node = draft_node(f, &both, &draft);
    ir_view(f->ir, &node, &view);
    rc = ir_device_accepts(f->ir, &view, &accepted, err);
    if (rc == EO_OK && accepted) {
        adopt(f, &both);
    }
    return rc;
}

static int grow_groups(struct fuse *f, struct eo_error *err)
{
    struct ir *ir = f->ir;
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        const struct ir_node *node = &ir->nodes[n];

        for (uint32_t i = 0; rc == EO_OK && fusable(node) && i < node->n_in; i++) {
            uint32_t maker = ir->values[node->in[i]].node;

            if (maker != IR_NONE && fusable(&ir->nodes[maker]) &&
                eo_tensor_desc_same_shape(&ir->values[node->in[i]].desc, &ir->values[node->out[0]].desc)) {
                rc = try_join(f, n, maker, err);
            }
        }
    }
    return rc;
}

/* ---- putting groups in the place of their members ---- */

static int emit_group(struct fuse *f, const struct fuse_group *g, struct eo_error *err)
{
    struct fuse_draft draft;
    struct eo_fused_program *program = eo_arena_alloc(&f->ir->arena, sizeof(*program));
    struct ir_node node;

    if (program == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    }
    (void)make_draft(f, g, &draft); /* it was possible before */
    *program = draft.program;
    node = draft_node(f, g, &draft);
    node.fused = program;
    return ir_add_node(f->ir, &node, err);
}

/* A node that the unit still waits for, IR_NONE when it can go. Makers beyond the old nodes have been emitted. */
static uint32_t waits_for(const struct fuse *f, const struct fuse_group *unit)
{
    for (int m = 0; m < unit->n; m++) {
        const struct ir_node *node = &f->ir->nodes[unit->members[m]];

        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t maker = ir_maker(f->ir, node->in[i]);

            if (maker < f->n_old && f->emitted[maker] == 0 && !contains(unit, maker)) {
                return maker;
            }
        }
    }
    return IR_NONE;
}

static int emit_unit(struct fuse *f, const struct fuse_group *unit, struct eo_error *err)
{
    for (int m = 0; m < unit->n; m++) {
        f->emitted[unit->members[m]] = 1;
    }
    if (unit->n > 1) {
        return emit_group(f, unit, err);
    }
    return ir_add_node(f->ir, &f->ir->nodes[unit->members[0]], err);
}

/* Emits unit n after all it needs: depth first, on a stack of its own. */
static int emit_with_needs(struct fuse *f, uint32_t n, struct eo_error *err)
{
    uint32_t depth = 0;
    int rc = EO_OK;

    f->stack[depth++] = n;
    while (rc == EO_OK && depth > 0) {
        struct fuse_group unit = members_of(f, f->stack[depth - 1]);
        uint32_t needed = f->emitted[unit.members[0]] != 0 ? IR_NONE : waits_for(f, &unit);

        if (needed != IR_NONE) {
            f->stack[depth++] = needed;
            continue;
        }
        if (f->emitted[unit.members[0]] == 0) {
            rc = emit_unit(f, &unit, err);
        }
        depth--;
    }
    return rc;
}

/* New nodes go behind the old ones, in the old order as far as groups allow; then the old ones are dropped. */
static int emit_all(struct fuse *f, struct eo_error *err)
{
    struct ir *ir = f->ir;
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < f->n_old; n++) {
        rc = emit_with_needs(f, n, err);
    }
    if (rc == EO_OK) {
        ir->n_nodes -= f->n_old;
        memmove(ir->nodes, ir->nodes + f->n_old, ir->n_nodes * sizeof(*ir->nodes));
        rc = ir_sweep(ir, err);
    }
    return rc;
}

static bool fuse_init(struct fuse *f, struct ir *ir)
{
    size_t n = (size_t)ir->n_nodes + 2;

    *f = (struct fuse){.ir = ir, .n_old = ir->n_nodes};
    f->group_of = malloc(n * sizeof(*f->group_of));
    f->groups = malloc(n * sizeof(*f->groups));
    f->stamp = calloc(n, sizeof(*f->stamp));
    f->stack = malloc(n * sizeof(*f->stack));
    f->emitted = calloc(n, sizeof(*f->emitted));
    if (f->group_of == NULL || f->groups == NULL || f->stamp == NULL || f->stack == NULL || f->emitted == NULL) {
        return false;
    }
    memset(f->group_of, 0xff, n * sizeof(*f->group_of));
    return true;
}

static void fuse_fini(struct fuse *f)
{
    free(f->group_of);
    free(f->groups);
    free(f->stamp);
    free(f->stack);
    free(f->emitted);
}

int pass_fuse(struct ir *ir, struct eo_error *err)
{
    struct fuse f;
    int rc = fuse_init(&f, ir) ? grow_groups(&f, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");

    if (rc == EO_OK && f.n_groups > 0) {
        rc = emit_all(&f, err);
    }
    fuse_fini(&f);
    return rc;
}
