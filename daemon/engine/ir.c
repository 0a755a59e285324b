#include "daemon/engine/ir.h"

#include "backends/registry.h"

#include <stdlib.h>
#include <string.h>

void ir_init(struct ir *ir, const struct plan_spec *spec, struct eo_device *dev)
{
    *ir = (struct ir){.spec = spec, .dev = dev};
    eo_arena_init(&ir->arena, IR_MAX_BYTES);
}

void ir_fini(struct ir *ir)
{
    if (ir->reference != NULL) {
        registry_close(ir->reference);
    }
    free(ir->nodes);
    free(ir->values);
    free(ir->outputs);
    eo_arena_fini(&ir->arena);
}

static int out_of_memory(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
}

static bool grow(void **table, uint32_t *capacity, uint32_t used, size_t size)
{
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown;

    if (used < *capacity) {
        return true;
    }
    if (wanted < *capacity) {
        return false;
    }
    grown = realloc(*table, wanted * size);
    if (grown == NULL) {
        return false;
    }
    *table = grown;
    *capacity = wanted;
    return true;
}

int ir_add_value(struct ir *ir, enum ir_kind kind, const struct eo_tensor_desc *desc, uint32_t *out,
                 struct eo_error *err)
{
    struct eo_tensor_desc copy = *desc; /* desc may point into the table that grows */
    void *table = ir->values;
    bool ok = grow(&table, &ir->cap_values, ir->n_values, sizeof(*ir->values));

    ir->values = table;
    if (!ok) {
        return out_of_memory(err);
    }
    *out = ir->n_values++;
    ir->values[*out] =
        (struct ir_value){.desc = copy, .kind = kind, .node = IR_NONE, .place = IR_NONE, .forward = *out, .root = *out};
    return EO_OK;
}

int ir_add_node(struct ir *ir, const struct ir_node *like, struct eo_error *err)
{
    struct ir_node node = *like; /* like may lie in the table that grows */
    const uint32_t *in = node.in;
    void *table = ir->nodes;
    bool ok = grow(&table, &ir->cap_nodes, ir->n_nodes, sizeof(*ir->nodes));

    ir->nodes = table;
    node.in = eo_arena_alloc_n(&ir->arena, node.n_in, sizeof(*node.in));
    if (!ok || node.in == NULL) {
        return out_of_memory(err);
    }
    if (node.n_in > 0) {
        memcpy(node.in, in, node.n_in * sizeof(*node.in));
    }
    for (uint32_t o = 0; o < node.n_out; o++) {
        ir->values[node.out[o]].node = ir->n_nodes;
    }
    ir->nodes[ir->n_nodes++] = node;
    return EO_OK;
}

void *ir_alloc(struct ir *ir, uint64_t size, struct eo_error *err)
{
    char *memory = size > IR_MAX_BYTES ? NULL : eo_arena_alloc(&ir->arena, (size_t)size + IR_ALIGN);

    if (memory == NULL) {
        (void)out_of_memory(err);
        return NULL;
    }
    return memory + (IR_ALIGN - (uintptr_t)memory % IR_ALIGN) % IR_ALIGN;
}

uint32_t ir_resolve(struct ir *ir, uint32_t v)
{
    uint32_t end = v;

    while (ir->values[end].forward != end) {
        end = ir->values[end].forward;
    }
    while (ir->values[v].forward != end) {
        uint32_t next = ir->values[v].forward;

        ir->values[v].forward = end;
        v = next;
    }
    return end;
}

void ir_replace(struct ir *ir, uint32_t old, uint32_t with)
{
    ir->values[ir_resolve(ir, old)].forward = ir_resolve(ir, with);
}

/* Resolves one use and counts it, on the value itself and on the one that holds its bytes. */
static uint32_t use(struct ir *ir, uint32_t v)
{
    uint32_t now = ir_resolve(ir, v);

    ir->values[now].uses++;
    if (ir->values[now].root != now) {
        ir->values[ir->values[now].root].uses++;
    }
    return now;
}

/* Finds the nodes that outputs need, from the last node to the first. */
static void count_uses(struct ir *ir, bool *needed)
{
    for (uint32_t v = 0; v < ir->n_values; v++) {
        ir->values[v].uses = 0;
    }
    for (uint32_t i = 0; i < ir->spec->n_outputs; i++) {
        ir->outputs[i] = use(ir, ir->outputs[i]);
    }
    for (uint32_t n = ir->n_nodes; n-- > 0;) {
        struct ir_node *node = &ir->nodes[n];

        for (uint32_t o = 0; o < node->n_out; o++) {
            /* A folded result is a constant: its node is done. */
            needed[n] |= ir->values[node->out[o]].uses > 0 && ir->values[node->out[o]].kind == IR_COMPUTED;
        }
        for (uint32_t i = 0; needed[n] && i < node->n_in; i++) {
            node->in[i] = use(ir, node->in[i]);
        }
    }
}

int ir_sweep(struct ir *ir, struct eo_error *err)
{
    bool *needed = calloc((size_t)ir->n_nodes + 1, sizeof(*needed));
    uint32_t kept = 0;

    if (needed == NULL) {
        return out_of_memory(err);
    }
    count_uses(ir, needed);
    for (uint32_t n = 0; n < ir->n_nodes; n++) {
        if (!needed[n]) {
            continue;
        }
        ir->nodes[kept] = ir->nodes[n];
        for (uint32_t o = 0; o < ir->nodes[kept].n_out; o++) {
            ir->values[ir->nodes[kept].out[o]].node = kept;
        }
        kept++;
    }
    ir->n_nodes = kept;
    free(needed);
    return EO_OK;
}

void ir_view(const struct ir *ir, const struct ir_node *node, struct eo_node_view *out)
{
    out->op = node->op;
    out->attrs = node->attrs;
    out->fused = node->fused;
    out->n_in = (int)node->n_in;
    out->n_out = (int)node->n_out;
    for (uint32_t i = 0; i < node->n_in; i++) {
        out->in[i] = &ir->values[node->in[i]].desc;
    }
    for (uint32_t o = 0; o < node->n_out; o++) {
        out->out[o] = &ir->values[node->out[o]].desc;
    }
}

int ir_device_accepts(struct ir *ir, const struct eo_node_view *view, bool *out, struct eo_error *err)
{
    struct eo_kernel kernel = {0};
    struct eo_error refusal; /* err must stay untouched when the answer is no */
    int rc = ir->dev->backend->select(ir->dev, view, &kernel, &refusal);

    *out = rc == EO_OK;
    if (rc == EO_OK && kernel.state_free != NULL) {
        kernel.state_free(kernel.state);
    }
    if (rc != EO_OK && rc != EO_E_UNSUPPORTED && err != NULL) {
        *err = refusal;
    }
    return rc == EO_E_UNSUPPORTED ? EO_OK : rc;
}

int ir_reference(struct ir *ir, struct eo_device **out, struct eo_error *err)
{
    int rc = EO_OK;

    if (ir->reference == NULL) {
        rc = registry_open("reference", &(struct eo_device_config){.threads = 1}, &ir->reference, NULL, 0, err);
    }
    *out = ir->reference;
    return rc;
}

bool ir_uniform(const struct ir *ir, uint32_t v, const void **out)
{
    const struct ir_value *value = &ir->values[v];
    size_t size = eo_dtype_size((enum eo_dtype)value->desc.dtype);
    uint64_t bytes = eo_tensor_desc_bytes(&value->desc);

    if (value->data == NULL || bytes == 0) {
        return false;
    }
    *out = value->data;
    return value->kind == IR_COMPUTED || bytes == size ||
           memcmp(value->data, (const char *)value->data + size, bytes - size) == 0;
}
