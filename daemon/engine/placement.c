#include "daemon/engine/placement.h"

#include "daemon/engine/memory.h"

#include <stdlib.h>
#include <string.h>

#define FOREVER UINT32_MAX     /* last use of what is copied out when all steps are done */
#define NEVER (UINT32_MAX - 1) /* last use of what nobody reads */

/* A caller's memory range that some node reads. */
struct range {
    uint64_t begin, end;
    uint32_t buffer;
    uint32_t value;   /* the source */
    uint64_t max_end; /* largest end of this and all ranges before it in the same buffer */
};

struct placer {
    const struct ir *ir;
    const struct kernels_choice *choices;
    struct placement *out;
    struct memory memory;
    uint32_t *last_use; /* per root: number of the last node that reads it */
    uint32_t *block;    /* per root: arena block, IR_NONE = none */
    uint32_t *bound;    /* per root: number of the plan output it is, IR_NONE = none */
    struct range *sources;
    uint32_t n_sources;
};

static uint64_t bytes_of(const struct ir *ir, uint32_t v)
{
    return eo_tensor_desc_bytes(&ir->values[v].desc);
}

/* ---- liveness ---- */

static void find_last_uses(struct placer *p)
{
    const struct ir *ir = p->ir;

    for (uint32_t v = 0; v < ir->n_values; v++) {
        p->last_use[v] = NEVER;
    }
    for (uint32_t n = 0; n < ir->n_nodes; n++) {
        for (uint32_t i = 0; i < ir->nodes[n].n_in; i++) {
            p->last_use[ir->values[ir->nodes[n].in[i]].root] = n;
        }
    }
}

/* ---- the caller's memory ---- */

static int by_address(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->buffer != y->buffer) {
        return x->buffer < y->buffer ? -1 : 1;
    }
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

static void place_sources(struct placer *p)
{
    const struct ir *ir = p->ir;

    for (uint32_t v = 0; v < ir->n_values; v++) {
        const struct plan_place *place;

        if (ir->values[v].kind != IR_SOURCE) {
            continue;
        }
        place = &ir->spec->inputs[ir->values[v].place];
        p->out->slots[v] = (struct plan_slot){place->offset, place->buffer};
        if (p->last_use[v] != NEVER && bytes_of(ir, v) > 0) {
            p->sources[p->n_sources++] = (struct range){
                .begin = place->offset, .end = place->offset + bytes_of(ir, v), .buffer = place->buffer, .value = v};
        }
    }
    qsort(p->sources, p->n_sources, sizeof(*p->sources), by_address);
    for (uint32_t i = 0; i < p->n_sources; i++) {
        bool same = i > 0 && p->sources[i - 1].buffer == p->sources[i].buffer;

        p->sources[i].max_end = same ? EO_MAX(p->sources[i - 1].max_end, p->sources[i].end) : p->sources[i].end;
    }
}

/* Number of sources that begin before (buffer, end). */
static uint32_t sources_before(const struct placer *p, uint32_t buffer, uint64_t end)
{
    uint32_t low = 0, high = p->n_sources;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct range *r = &p->sources[middle];

        if (r->buffer < buffer || (r->buffer == buffer && r->begin < end)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The optimizer rows state in ops.def that their results may be written over the state they replace: the parameter,
 * then slot after slot, which stand behind parameter and gradient. */
static bool row_allows(const struct eo_op_schema *op, uint32_t output, uint32_t input)
{
    switch (op == NULL ? EO_OP_NONE : op->op) {
    case EO_OP_SGD_UPDATE:
    case EO_OP_ADAM_UPDATE:
    case EO_OP_RMSPROP_UPDATE:
    case EO_OP_ADAGRAD_UPDATE:
    case EO_OP_LION_UPDATE:
        return input == (output == 0 ? 0 : output + 1);
    default:
        return false;
    }
}

static bool may_share(const struct placer *p, uint32_t n, uint32_t output, uint32_t input)
{
    const struct ir_node *node = &p->ir->nodes[n];
    uint32_t mask = p->choices[n].kernel.in_place;

    if (bytes_of(p->ir, node->out[output]) != bytes_of(p->ir, node->in[input])) {
        return false;
    }
    return (output == 0 && input < 32 && ((mask >> input) & 1) != 0) || row_allows(node->op, output, input);
}

/* Whether node n reads root r only through operands that its output may overwrite. */
static bool shares_all(const struct placer *p, uint32_t n, uint32_t output, uint32_t root)
{
    const struct ir_node *node = &p->ir->nodes[n];

    for (uint32_t i = 0; i < node->n_in; i++) {
        if (p->ir->values[node->in[i]].root == root && !may_share(p, n, output, i)) {
            return false;
        }
    }
    return true;
}

/* Whether node n may write its output over [begin, end): nothing there is read later, and by n itself only in place. */
static bool place_is_free(const struct placer *p, uint32_t n, uint32_t output, const struct plan_place *to,
                          uint64_t end, bool *out_in_place)
{
    *out_in_place = false;
    for (uint32_t i = sources_before(p, to->buffer, end); i-- > 0;) {
        const struct range *r = &p->sources[i];

        if (r->buffer != to->buffer || r->max_end <= to->offset) {
            break;
        }
        if (r->end <= to->offset || p->last_use[r->value] < n) {
            continue;
        }
        if (p->last_use[r->value] > n || r->begin != to->offset || r->end != end ||
            !shares_all(p, n, output, r->value)) {
            return false;
        }
        *out_in_place = true;
    }
    return true;
}

/* ---- the arena ---- */

static int take_arena(struct placer *p, uint32_t v, struct eo_error *err)
{
    int rc = memory_take(&p->memory, bytes_of(p->ir, v), &p->block[v], err);

    if (rc == EO_OK) {
        p->out->slots[v] = (struct plan_slot){memory_offset(&p->memory, p->block[v]), SLOT_ARENA};
    }
    return rc;
}

/* Takes over the block of an operand that ends here; false when there is none. */
static bool take_over(struct placer *p, uint32_t n, uint32_t output)
{
    const struct ir_node *node = &p->ir->nodes[n];

    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t root = p->ir->values[node->in[i]].root;

        if (p->block[root] != IR_NONE && p->last_use[root] == n &&
            bytes_of(p->ir, root) == bytes_of(p->ir, node->out[output]) && shares_all(p, n, output, root)) {
            p->block[node->out[output]] = p->block[root];
            p->out->slots[node->out[output]] = p->out->slots[root];
            p->block[root] = IR_NONE;
            p->out->n_in_place++;
            return true;
        }
    }
    return false;
}

/* True when the output can be written straight to the place that the plan's user wants it in. */
static bool goes_home(struct placer *p, uint32_t n, uint32_t output)
{
    uint32_t v = p->ir->nodes[n].out[output];
    const struct plan_place *to;
    bool in_place;

    if (p->bound[v] == IR_NONE || (p->ir->spec->without & PLAN_WITHOUT(DIRECT)) != 0) {
        return false;
    }
    to = &p->ir->spec->outputs[p->bound[v]];
    if (!place_is_free(p, n, output, to, to->offset + bytes_of(p->ir, v), &in_place)) {
        return false;
    }
    p->out->n_in_place += in_place;
    p->out->slots[v] = (struct plan_slot){to->offset, to->buffer};
    return true;
}

static int place_output(struct placer *p, uint32_t n, uint32_t output, struct eo_error *err)
{
    uint32_t v = p->ir->nodes[n].out[output];

    if (bytes_of(p->ir, v) == 0) {
        p->out->slots[v] = (struct plan_slot){0, SLOT_ARENA};
        return EO_OK;
    }
    if (goes_home(p, n, output)) {
        return EO_OK;
    }
    if (p->bound[v] != IR_NONE) {
        const struct plan_place *to = &p->ir->spec->outputs[p->bound[v]];

        p->last_use[v] = FOREVER;
        p->out->late[p->out->n_late++] = (struct placement_copy){v, {to->offset, to->buffer}};
    }
    if ((p->ir->spec->without & PLAN_WITHOUT(IN_PLACE)) == 0 && take_over(p, n, output)) {
        return EO_OK;
    }
    return take_arena(p, v, err);
}

static void give_back(struct placer *p, uint32_t root)
{
    if (p->block[root] != IR_NONE) {
        memory_give(&p->memory, p->block[root]);
        p->block[root] = IR_NONE;
    }
}

static int place_node(struct placer *p, uint32_t n, struct eo_error *err)
{
    const struct ir_node *node = &p->ir->nodes[n];
    uint64_t scratch = p->choices[n].kernel.workspace_bytes;
    int rc = EO_OK;

    for (uint32_t o = 0; rc == EO_OK && o < node->n_out; o++) {
        rc = place_output(p, n, o, err);
    }
    if (rc == EO_OK && scratch > 0) {
        uint32_t block;

        rc = memory_take(&p->memory, scratch, &block, err);
        if (rc == EO_OK) {
            p->out->workspaces[n] = (struct plan_slot){memory_offset(&p->memory, block), SLOT_ARENA};
            memory_give(&p->memory, block);
        }
    }
    for (uint32_t i = 0; rc == EO_OK && i < node->n_in; i++) {
        uint32_t root = p->ir->values[node->in[i]].root;

        if (p->last_use[root] == n) {
            give_back(p, root);
        }
    }
    for (uint32_t o = 0; rc == EO_OK && o < node->n_out; o++) {
        if (p->last_use[node->out[o]] == NEVER) {
            give_back(p, node->out[o]);
        }
    }
    return rc;
}

/* ---- all of it ---- */

static int place_constants(struct placer *p, struct eo_error *err)
{
    uint64_t total = 0;

    for (uint32_t v = 0; v < p->ir->n_values; v++) {
        uint64_t bytes = bytes_of(p->ir, v);

        if (p->ir->values[v].kind != IR_CONSTANT || p->last_use[v] == NEVER) {
            continue;
        }
        /* Their bytes are in memory already, so sums cannot overflow. */
        p->out->slots[v] = (struct plan_slot){total, SLOT_CONSTANTS};
        total += (bytes + IR_ALIGN - 1) / IR_ALIGN * IR_ALIGN;
        if (total > IR_MAX_BYTES) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "the constants of the graph need more than %d bytes", IR_MAX_BYTES);
        }
    }
    p->out->constant_bytes = total;
    return EO_OK;
}

static int place_all(struct placer *p, struct eo_error *err)
{
    const struct ir *ir = p->ir;
    int rc;

    find_last_uses(p);
    place_sources(p);
    for (uint32_t i = 0; i < ir->spec->n_outputs; i++) {
        p->bound[ir->values[ir->outputs[i]].root] = i;
    }
    rc = place_constants(p, err);
    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        rc = place_node(p, n, err);
    }
    p->out->arena_bytes = p->memory.size;
    return rc;
}

int placement_make(const struct ir *ir, const struct kernels_choice *choices, struct placement *out,
                   struct eo_error *err)
{
    struct placer p = {.ir = ir, .choices = choices, .out = out};
    size_t n = (size_t)ir->n_values + 1;
    int rc;

    *out = (struct placement){0};
    memory_init(&p.memory);
    out->slots = calloc(n, sizeof(*out->slots));
    out->workspaces = calloc((size_t)ir->n_nodes + 1, sizeof(*out->workspaces));
    out->late = malloc(((size_t)ir->spec->n_outputs + 1) * sizeof(*out->late));
    p.last_use = malloc(n * sizeof(*p.last_use));
    p.block = malloc(n * sizeof(*p.block));
    p.bound = malloc(n * sizeof(*p.bound));
    p.sources = malloc(((size_t)ir->spec->n_inputs + 1) * sizeof(*p.sources));
    if (out->slots == NULL || out->workspaces == NULL || out->late == NULL || p.last_use == NULL || p.block == NULL ||
        p.bound == NULL || p.sources == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    } else {
        memset(p.block, 0xff, n * sizeof(*p.block));
        memset(p.bound, 0xff, n * sizeof(*p.bound));
        rc = place_all(&p, err);
    }
    free(p.last_use);
    free(p.block);
    free(p.bound);
    free(p.sources);
    memory_fini(&p.memory);
    if (rc != EO_OK) {
        placement_fini(out);
    }
    return rc;
}

void placement_fini(struct placement *p)
{
    free(p->slots);
    free(p->workspaces);
    free(p->late);
    *p = (struct placement){0};
}
