/* Exact simplifications only: every result keeps its bits.
 *   - x reshaped to its own shape, cast to its own dtype, ... is x;
 *   - x * 1, x / 1, x - 0 are x (x + 0 is not: -0 + 0 = 0);
 *   - an operand of an element-wise node that only repeats a smaller value (expand, full, a constant of equal elements)
 * is replaced by that value as long as broadcasting still gives the same shape. The last one matters after
 * differentiation, which expands the gradients of sums. */
#include "daemon/engine/passes/pass.h"

#include <string.h>

static const struct ir_node *maker_of(const struct ir *ir, uint32_t v)
{
    return ir->values[v].node == IR_NONE ? NULL : &ir->nodes[ir->values[v].node];
}

/* The bits of a small whole number, in any dtype. */
static void encode(enum eo_dtype dtype, int number, unsigned char out[8])
{
    uint16_t half = dtype == EO_BFLOAT16 ? eo_bfloat_from_float((float)number) : eo_half_from_float((float)number);
    float single = (float)number;
    double wide = number;
    int64_t integer = number;

    memcpy(out, &integer, sizeof(integer)); /* little-endian: the first bytes are any narrower integer */
    if (dtype == EO_FLOAT32) {
        memcpy(out, &single, sizeof(single));
    } else if (dtype == EO_FLOAT64) {
        memcpy(out, &wide, sizeof(wide));
    } else if (eo_dtype_kind(dtype) == EO_KIND_FLOAT) {
        memcpy(out, &half, sizeof(half));
    }
}

static bool is_number(const struct ir *ir, uint32_t v, int number)
{
    enum eo_dtype dtype = (enum eo_dtype)ir->values[v].desc.dtype;
    unsigned char bits[8];
    const void *element;

    encode(dtype, number, bits);
    return ir_uniform(ir, v, &element) && memcmp(element, bits, eo_dtype_size(dtype)) == 0;
}

/* A one-element value that v repeats, through a few relabellings; IR_NONE when there is none. */
static uint32_t repeated_scalar(struct ir *ir, uint32_t v)
{
    enum { LONGEST_CHAIN = 16 }; /* differentiating a sum makes 3 */

    for (int i = 0; i < LONGEST_CHAIN; i++) {
        const struct ir_node *maker = maker_of(ir, v);

        if (eo_tensor_desc_count(&ir->values[v].desc) == 1) {
            return v;
        }
        if (maker == NULL || maker->op == NULL ||
            (maker->op->op != EO_OP_EXPAND && maker->op->op != EO_OP_RESHAPE && maker->op->op != EO_OP_TRANSPOSE)) {
            break;
        }
        v = ir_resolve(ir, maker->in[0]);
    }
    return IR_NONE;
}

/* One element of a value whose elements are all the same, as a scalar constant. */
static int scalar_constant(struct ir *ir, uint32_t v, uint32_t *out, struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)ir->values[v].desc.dtype;
    struct eo_tensor_desc desc;
    const void *element;
    int rc;

    *out = IR_NONE;
    if (eo_tensor_desc_count(&ir->values[v].desc) <= 1 || !ir_uniform(ir, v, &element)) {
        return EO_OK;
    }
    rc = eo_tensor_desc_init(&desc, dtype, NULL, 0, err);
    if (rc == EO_OK) {
        rc = ir_add_value(ir, IR_CONSTANT, &desc, out, err);
    }
    if (rc == EO_OK) {
        ir->values[*out].data = element;
    }
    return rc;
}

/* The smallest value that operand i may be replaced by, if any. */
static int smaller_operand(struct ir *ir, uint32_t v, uint32_t *out, struct eo_error *err)
{
    const struct ir_node *maker = maker_of(ir, v);
    uint32_t scalar = repeated_scalar(ir, v);

    if (scalar != IR_NONE && scalar != v) {
        *out = scalar;
        return EO_OK;
    }
    if (maker != NULL && maker->op != NULL && maker->op->op == EO_OP_EXPAND) {
        *out = ir_resolve(ir, maker->in[0]);
        return EO_OK;
    }
    return scalar_constant(ir, v, out, err);
}

static bool shape_survives(const struct ir *ir, const struct ir_node *node, uint32_t operand, uint32_t with)
{
    const struct eo_tensor_desc *in[EO_MAX_INPUTS];
    struct eo_tensor_desc out = ir->values[node->out[0]].desc;
    int64_t shape[EO_MAX_DIMS] = {0};
    int n_dims;

    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = &ir->values[i == operand ? with : node->in[i]].desc;
    }
    return eo_broadcast_shapes(in, (int)node->n_in, shape, &n_dims, node->op->name, NULL) == EO_OK &&
           n_dims == out.n_dims && memcmp(shape, out.shape, (size_t)n_dims * sizeof(shape[0])) == 0;
}

static int shrink_operands(struct ir *ir, uint32_t n, struct eo_error *err)
{
    for (uint32_t i = 0; ir->nodes[n].n_in > 1 && i < ir->nodes[n].n_in; i++) {
        uint32_t with = IR_NONE;
        int rc = smaller_operand(ir, ir->nodes[n].in[i], &with, err);

        if (rc != EO_OK) {
            return rc;
        }
        if (with != IR_NONE && shape_survives(ir, &ir->nodes[n], i, with)) {
            ir->nodes[n].in[i] = with;
        }
    }
    return EO_OK;
}

/* The operand that the node hands on unchanged, or IR_NONE. */
static uint32_t neutral(const struct ir *ir, const struct ir_node *node)
{
    switch (node->op->op) {
    case EO_OP_MULTIPLY:
        return is_number(ir, node->in[1], 1) ? node->in[0] : is_number(ir, node->in[0], 1) ? node->in[1] : IR_NONE;
    case EO_OP_DIVIDE:
        return is_number(ir, node->in[1], 1) ? node->in[0] : IR_NONE;
    case EO_OP_SUBTRACT:
        return is_number(ir, node->in[1], 0) ? node->in[0] : IR_NONE;
    default:
        return IR_NONE;
    }
}

static int simplify_node(struct ir *ir, uint32_t n, struct eo_error *err)
{
    struct ir_node *node = &ir->nodes[n];
    uint32_t same = IR_NONE;
    int rc = EO_OK;

    for (uint32_t i = 0; i < node->n_in; i++) {
        node->in[i] = ir_resolve(ir, node->in[i]);
    }
    if (node->op == NULL) {
        return EO_OK;
    }
    if ((node->op->properties & EO_PROP_ELEMENTWISE) != 0) {
        rc = shrink_operands(ir, n, err);
        same = neutral(ir, node);
    }
    if (same == IR_NONE && views_is_relabelling(ir, node)) {
        same = node->in[0];
    }
    if (rc == EO_OK && same != IR_NONE &&
        eo_tensor_desc_equal(&ir->values[same].desc, &ir->values[node->out[0]].desc)) {
        ir_replace(ir, node->out[0], same);
    }
    return rc;
}

int pass_simplify(struct ir *ir, struct eo_error *err)
{
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        rc = simplify_node(ir, n, err);
    }
    return rc == EO_OK ? ir_sweep(ir, err) : rc;
}
