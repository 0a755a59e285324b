/* A transpose of the last two dimensions that feeds a matmul becomes the matmul's flag: the product reads its operand
 * in the other order and nothing is moved. */
#include "daemon/engine/passes/pass.h"

static bool swaps_last_two(const struct ir_node *node, int rank)
{
    int n;
    const int64_t *perm;

    if (node->op == NULL || node->op->op != EO_OP_TRANSPOSE || rank < 2) {
        return false;
    }
    perm = eo_attr_ints(node->op, node->attrs, "perm", &n);
    if (n == 0) {
        return rank == 2;
    }
    for (int d = 0; d < rank - 2; d++) {
        if (perm[d] != d) {
            return false;
        }
    }
    return perm[rank - 2] == rank - 1 && perm[rank - 1] == rank - 2;
}

static int flip(struct ir *ir, struct ir_node *product, const char *flag, struct eo_error *err)
{
    struct eo_attrs *attrs = eo_arena_alloc(&ir->arena, sizeof(*attrs));

    if (attrs == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compile the graph");
    }
    *attrs = *product->attrs;
    product->attrs = attrs;
    return eo_attrs_set_int(product->op, attrs, flag, !eo_attr_int(product->op, attrs, flag), err);
}

static int absorb(struct ir *ir, struct ir_node *product, int operand, struct eo_error *err)
{
    static const char *const flags[2] = {"transpose_a", "transpose_b"};
    int rc = EO_OK;

    /* A loop: transposes of transposes cancel. */
    while (rc == EO_OK) {
        const struct ir_value *v = &ir->values[product->in[operand]];
        const struct ir_node *maker = v->node == IR_NONE ? NULL : &ir->nodes[v->node];

        if (maker == NULL || !swaps_last_two(maker, v->desc.n_dims)) {
            break;
        }
        product->in[operand] = maker->in[0];
        rc = flip(ir, product, flags[operand], err);
    }
    return rc;
}

int pass_transpose(struct ir *ir, struct eo_error *err)
{
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        struct ir_node *node = &ir->nodes[n];

        for (int i = 0; rc == EO_OK && node->op != NULL && node->op->op == EO_OP_MATMUL && i < 2; i++) {
            rc = absorb(ir, node, i, err);
        }
    }
    return rc == EO_OK ? ir_sweep(ir, err) : rc;
}
