/* Views: nodes that only relabel the bytes of their operand cost no step; their output shares its memory. */
#include "daemon/engine/passes/pass.h"
#include "proto/shape_rules.h"

/* Dimensions of size 1 may go anywhere; the others must stay in order. */
static bool keeps_order(const struct ir_node *node, const struct eo_tensor_desc *x)
{
    int n, last = -1;
    const int64_t *perm = eo_attr_ints(node->op, node->attrs, "perm", &n);

    for (int d = 0; d < x->n_dims; d++) {
        int from = n == 0 ? x->n_dims - 1 - d : (int)perm[d];

        if (x->shape[from] == 1) {
            continue;
        }
        if (from < last) {
            return false;
        }
        last = from;
    }
    return true;
}

static bool takes_all_forward(const struct ir_node *node, const struct eo_tensor_desc *x)
{
    struct eo_slice_dim dims[EO_MAX_DIMS];

    if (eo_slice_dims(node->op, node->attrs, x, dims, NULL) != EO_OK) {
        return false;
    }
    for (int d = 0; d < x->n_dims; d++) {
        if (dims[d].count != x->shape[d] || (dims[d].count > 1 && dims[d].step != 1)) {
            return false;
        }
    }
    return true;
}

bool views_is_relabelling(const struct ir *ir, const struct ir_node *node)
{
    const struct eo_tensor_desc *x, *y;

    if (node->op == NULL || node->n_in == 0) {
        return false;
    }
    x = &ir->values[node->in[0]].desc;
    y = &ir->values[node->out[0]].desc;
    if (x->dtype != y->dtype || eo_tensor_desc_count(x) != eo_tensor_desc_count(y)) {
        return false;
    }
    switch (node->op->op) {
    case EO_OP_CAST:
    case EO_OP_RESHAPE:
    case EO_OP_EXPAND: /* as many elements as before: it only added dimensions of size 1 */
        return true;
    case EO_OP_CONCATENATE:
        return node->n_in == 1;
    case EO_OP_TRANSPOSE:
        return keeps_order(node, x);
    case EO_OP_SLICE:
        return takes_all_forward(node, x);
    default:
        return false;
    }
}

static void make_view(struct ir *ir, uint32_t v, uint32_t root)
{
    ir->values[v].root = root;
    ir->values[v].node = IR_NONE;
    if (eo_tensor_desc_equal(&ir->values[v].desc, &ir->values[root].desc)) {
        ir_replace(ir, v, root);
    }
}

int pass_views(struct ir *ir, struct eo_error *err)
{
    uint32_t kept = 0;
    int rc = ir_sweep(ir, err);

    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        struct ir_node *node = &ir->nodes[n];

        if (views_is_relabelling(ir, node)) {
            make_view(ir, node->out[0], ir->values[node->in[0]].root);
            continue;
        }
        for (uint32_t o = 0; o < node->n_out; o++) {
            ir->values[node->out[o]].node = kept;
        }
        ir->nodes[kept++] = *node;
    }
    if (rc == EO_OK) {
        ir->n_nodes = kept;
        rc = ir_sweep(ir, err);
    }
    return rc;
}
