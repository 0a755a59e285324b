/* Common subexpressions: two nodes of the same row, attributes and operands give the same values and become one. That
 * holds for random nodes too: their numbers are a function of rng operand, stream and element. Equal constants are one.
 */
#include "daemon/engine/passes/pass.h"
#include "proto/attrs.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing; entries are node numbers or, in the table of constants, value numbers. */
struct table {
    uint32_t *slots;
    uint32_t mask;
};

static int table_init(struct table *t, uint32_t n, struct eo_error *err)
{
    uint32_t size = 16;

    while (size / 2 < n && size < (1U << 31)) {
        size *= 2;
    }
    t->mask = size - 1;
    t->slots = malloc(size * sizeof(*t->slots));
    if (t->slots == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    }
    memset(t->slots, 0xff, size * sizeof(*t->slots));
    return EO_OK;
}

static uint64_t hash_node(const struct ir_node *node)
{
    uint64_t h = eo_hash64(&node->op->wire_id, sizeof(node->op->wire_id), node->n_in);

    for (int a = 0; a < node->op->n_attrs; a++) {
        size_t size;
        const void *data = eo_attr_value_data(node->op->attrs[a].kind, &node->attrs->v[a], &size);

        h = eo_hash64(data, size, h);
    }
    return eo_hash64(node->in, node->n_in * sizeof(*node->in), h);
}

static bool same_node(const struct ir_node *a, const struct ir_node *b)
{
    return a->op == b->op && a->n_in == b->n_in && memcmp(a->in, b->in, a->n_in * sizeof(*a->in)) == 0 &&
           (a->op->n_attrs == 0 || eo_attrs_equal(a->op, a->attrs, b->attrs));
}

/* a + b and b + a look alike afterwards. */
static void order_operands(struct ir_node *node)
{
    if ((node->op->properties & EO_PROP_COMMUTATIVE) != 0 && node->n_in == 2 && node->in[0] > node->in[1]) {
        uint32_t first = node->in[0];

        node->in[0] = node->in[1];
        node->in[1] = first;
    }
}

static void merge_node(struct ir *ir, struct table *t, uint32_t n)
{
    struct ir_node *node = &ir->nodes[n];
    uint32_t slot;

    for (uint32_t i = 0; i < node->n_in; i++) {
        node->in[i] = ir_resolve(ir, node->in[i]);
    }
    order_operands(node);
    for (slot = (uint32_t)hash_node(node) & t->mask; t->slots[slot] != IR_NONE; slot = (slot + 1) & t->mask) {
        const struct ir_node *other = &ir->nodes[t->slots[slot]];

        if (same_node(node, other)) {
            for (uint32_t o = 0; o < node->n_out; o++) {
                ir_replace(ir, node->out[o], other->out[o]);
            }
            return;
        }
    }
    t->slots[slot] = n;
}

static void merge_constant(struct ir *ir, struct table *t, uint32_t v)
{
    const struct ir_value *value = &ir->values[v];
    uint64_t bytes = eo_tensor_desc_bytes(&value->desc);
    uint32_t slot = (uint32_t)eo_hash64(value->data, (size_t)bytes, value->desc.dtype) & t->mask;

    for (; t->slots[slot] != IR_NONE; slot = (slot + 1) & t->mask) {
        const struct ir_value *other = &ir->values[t->slots[slot]];

        if (eo_tensor_desc_equal(&value->desc, &other->desc) &&
            (bytes == 0 || memcmp(value->data, other->data, (size_t)bytes) == 0)) {
            ir_replace(ir, v, t->slots[slot]);
            return;
        }
    }
    t->slots[slot] = v;
}

static int merge_constants(struct ir *ir, struct eo_error *err)
{
    struct table t;
    uint32_t count = 0;
    int rc;

    for (uint32_t v = 0; v < ir->n_values; v++) {
        count += ir->values[v].kind == IR_CONSTANT;
    }
    rc = table_init(&t, count, err);
    for (uint32_t v = 0; rc == EO_OK && v < ir->n_values; v++) {
        if (ir->values[v].kind == IR_CONSTANT && ir->values[v].uses > 0) {
            merge_constant(ir, &t, v);
        }
    }
    if (rc == EO_OK) {
        free(t.slots);
    }
    return rc;
}

int pass_merge(struct ir *ir, struct eo_error *err)
{
    struct table t;
    int rc = merge_constants(ir, err);

    if (rc != EO_OK) {
        return rc;
    }
    rc = table_init(&t, ir->n_nodes, err);
    if (rc != EO_OK) {
        return rc;
    }
    for (uint32_t n = 0; n < ir->n_nodes; n++) {
        merge_node(ir, &t, n);
    }
    free(t.slots);
    return ir_sweep(ir, err);
}
