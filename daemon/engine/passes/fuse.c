/* Element-wise fusion: nodes over one iteration space that feed each other become one program, so that what flows
 * between them never goes through memory. Nodes are visited in order; each one joins the groups of its operands as long
 * as
 *   - the whole fits struct eo_fused_program,
 *   - nobody outside has used a result of the group yet. Such a user would have to wait for the group, and the group
 * for the joining node, which may need that very user; without one the group can run where its last member stands,
 *   - the device claims the program. What a device can fuse is its business alone; nothing here knows kernels.
 * The order of nodes decides alone which groups come out: the same graph gives the same plan. */
#include "daemon/engine/passes/pass.h"

#include <stdlib.h>
#include <string.h>

struct fuse_group {
    uint32_t members[EO_FUSED_MAX_STEPS]; /* ascending */
    int n;
};

struct fuse {
    struct ir *ir;
    uint32_t *group_of; /* per node: number of its group, IR_NONE = alone */
    struct fuse_group *groups;
    uint32_t n_groups;
    uint8_t *closed; /* per node: its result has a user outside its group */
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

/* False when there are too many inputs, or one is a view of a member's result: that is memory, which the group would
 * have to write before it reads it. */
static bool draft_inputs(const struct fuse *f, const struct fuse_group *g, struct fuse_draft *d)
{
    for (int m = 0; m < g->n; m++) {
        const struct ir_node *node = &f->ir->nodes[g->members[m]];

        for (uint32_t i = 0; i < node->n_in; i++) {
            if (register_of(f, g, d, node->in[i]) >= 0) {
                continue;
            }
            if (d->program.n_inputs == EO_FUSED_MAX_INPUTS || contains(g, ir_maker(f->ir, node->in[i]))) {
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

static bool is_open(const struct fuse *f, const struct fuse_group *g)
{
    for (int i = 0; i < g->n; i++) {
        if (f->closed[g->members[i]] != 0) {
            return false;
        }
    }
    return true;
}

static int try_join(struct fuse *f, uint32_t n, uint32_t producer, struct eo_error *err)
{
    struct fuse_group own = members_of(f, n), other = members_of(f, producer), both = other;
    struct fuse_draft draft;
    struct eo_node_view view;
    struct ir_node node;
    bool accepted;
    int rc;

    if (contains(&own, producer) || !is_open(f, &other) || !unite(&other, &own, &both) ||
        !make_draft(f, &both, &draft)) {
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

static int join_operands(struct fuse *f, uint32_t n, struct eo_error *err)
{
    const struct ir *ir = f->ir;
    const struct ir_node *node = &ir->nodes[n];
    int rc = EO_OK;

    for (uint32_t i = 0; rc == EO_OK && i < node->n_in; i++) {
        uint32_t maker = ir->values[node->in[i]].node;

        if (maker != IR_NONE && fusable(&ir->nodes[maker]) &&
            eo_tensor_desc_same_shape(&ir->values[node->in[i]].desc, &ir->values[node->out[0]].desc)) {
            rc = try_join(f, n, maker, err);
        }
    }
    return rc;
}

/* Node n has found its group: the groups of its other operands have a user outside now. */
static void close_others(struct fuse *f, uint32_t n)
{
    struct fuse_group own = members_of(f, n);
    const struct ir_node *node = &f->ir->nodes[n];

    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t maker = ir_maker(f->ir, node->in[i]);

        if (maker != IR_NONE && !contains(&own, maker)) {
            f->closed[maker] = 1;
        }
    }
}

static int grow_groups(struct fuse *f, struct eo_error *err)
{
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < f->ir->n_nodes; n++) {
        if (fusable(&f->ir->nodes[n])) {
            rc = join_operands(f, n, err);
        }
        close_others(f, n);
    }
    return rc;
}

/* ---- putting groups in the place of their last members ---- */

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

/* New nodes go behind the old ones, then the old ones are dropped. */
static int emit_all(struct fuse *f, struct eo_error *err)
{
    struct ir *ir = f->ir;
    uint32_t n_old = ir->n_nodes;
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < n_old; n++) {
        struct fuse_group g = members_of(f, n);

        if (g.n == 1) {
            rc = ir_add_node(ir, &ir->nodes[n], err);
        } else if (g.members[g.n - 1] == n) {
            rc = emit_group(f, &g, err);
        }
    }
    if (rc == EO_OK) {
        ir->n_nodes -= n_old;
        memmove(ir->nodes, ir->nodes + n_old, ir->n_nodes * sizeof(*ir->nodes));
        rc = ir_sweep(ir, err);
    }
    return rc;
}

static bool fuse_init(struct fuse *f, struct ir *ir)
{
    size_t n = (size_t)ir->n_nodes + 1;

    *f = (struct fuse){.ir = ir};
    f->group_of = malloc(n * sizeof(*f->group_of));
    f->groups = malloc(n * sizeof(*f->groups));
    f->closed = calloc(n, sizeof(*f->closed));
    if (f->group_of == NULL || f->groups == NULL || f->closed == NULL) {
        return false;
    }
    memset(f->group_of, 0xff, n * sizeof(*f->group_of));
    return true;
}

static void fuse_fini(struct fuse *f)
{
    free(f->group_of);
    free(f->groups);
    free(f->closed);
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
