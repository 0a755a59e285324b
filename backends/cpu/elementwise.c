/* Chooses the vector loops of element-wise rows and of fused programs. */
#include "backends/cpu/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cost of one float32 element in the units of parallel.h; other dtypes by their width. Measured with bench/ops.c; what
 * it does not time is counted like what is most similar. */
static int64_t cost_of(enum eo_op op, enum eo_dtype dtype)
{
    int64_t cost = 1;
    switch (op) {
    case EO_OP_DIVIDE:
    case EO_OP_SQRT:
    case EO_OP_RECIPROCAL:
        cost = 3;
        break;
    case EO_OP_EXP:
    case EO_OP_EXP2:
    case EO_OP_LOG:
    case EO_OP_LOG2:
    case EO_OP_LOG10:
    case EO_OP_EXPM1:
    case EO_OP_LOG1P:
    case EO_OP_SIGMOID:
    case EO_OP_SIN:
    case EO_OP_COS:
    case EO_OP_ASIN:
    case EO_OP_ACOS:
    case EO_OP_ATAN:
        cost = 10;
        break;
    case EO_OP_TANH:
    case EO_OP_SOFTPLUS:
    case EO_OP_CBRT:
    case EO_OP_ERF:
    case EO_OP_ERFC:
    case EO_OP_TAN:
    case EO_OP_SINH:
    case EO_OP_COSH:
    case EO_OP_ASINH:
    case EO_OP_ACOSH:
    case EO_OP_ATANH:
    case EO_OP_ATAN2:
        cost = 20;
        break;
    case EO_OP_POWER:
    case EO_OP_FLOOR_DIVIDE:
    case EO_OP_REMAINDER:
    case EO_OP_FMOD:
        cost = 40;
        break;
    default: /* arithmetic, comparisons, selection, bits */
        break;
    }
    return eo_dtype_size(dtype) == 8 ? cost * 2 : cost;
}

/* A bound of clip in a dtype of n bits; outside of its range it bounds nothing. */
static union vector_number bound_in(double bound, enum eo_dtype dtype)
{
    int bits = (int)eo_dtype_size(dtype) * 8;
    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_SIGNED: {
        double limit = ldexp(1, bits - 1);
        int64_t top = INT64_MAX >> (64 - bits);
        return (union vector_number){.i = bound <= -limit ? -top - 1 : bound >= limit ? top : (int64_t)bound};
    }
    case EO_KIND_UNSIGNED: {
        uint64_t top = UINT64_MAX >> (64 - bits);
        return (union vector_number){.u = bound <= 0 ? 0 : bound >= ldexp(1, bits) ? top : (uint64_t)bound};
    }
    default:
        return (union vector_number){.f = bound};
    }
}

/* Attributes as the loops want them. */
static void set_args(const struct eo_op_schema *op, const struct eo_attrs *attrs, enum eo_dtype dtype,
                     struct vector_args *out)
{
    if (op->op == EO_OP_CLIP) {
        out->low = bound_in(eo_attr_float(op, attrs, "low"), dtype);
        out->high = bound_in(eo_attr_float(op, attrs, "high"), dtype);
    } else if (op->op == EO_OP_ISINF) {
        out->low.f = eo_attr_int(op, attrs, "detect_negative") ? (double)-INFINITY : (double)NAN;
        out->high.f = eo_attr_int(op, attrs, "detect_positive") ? (double)INFINITY : (double)NAN;
    }
}

/* The vector loop of an op from operand dtype `from` to result dtype `to`, NULL when there is none. */
static vector_map_fn loop_of(const struct vector_set *vec, enum eo_op op, enum eo_dtype from, enum eo_dtype to)
{
    if (op == EO_OP_CAST) /* bool to bool is no copy: it makes every non-zero byte 1 */
        return from == to && from != EO_BOOL ? (*vec->elementwise)[EO_OP_EXPAND][from] : (*vec->cast)[from][to];
    vector_map_fn loop = (*vec->elementwise)[op][from];
    if (!loop)
        loop = (*vec->integer)[op][from];
    return loop ? loop : (*vec->math)[op][from];
}

/* Describes one step; in_dtype is the dtype of its last operand. False with a reason in *why when no loop fits. */
static bool set_step(struct program *p, const struct cpu_device *dev, int s, enum eo_op op,
                     const struct eo_attrs *attrs, enum eo_dtype in_dtype, enum eo_dtype out_dtype, const char **why)
{
    struct program_step *step = &p->steps[s];
    const struct eo_op_schema *schema = eo_op_schema(op);
    if (!schema || !(schema->properties & EO_PROP_ELEMENTWISE)) {
        *why = "is not element-wise";
        return false;
    }
    step->run = loop_of(dev->vec, op, in_dtype, out_dtype);
    if (!step->run) {
        *why = "has no loop";
        return false;
    }
    set_args(schema, attrs, in_dtype, &step->args);
    step->size = (uint8_t)eo_dtype_size(out_dtype);
    step->dtype = (uint8_t)out_dtype;
    step->output = -1;
    p->cost += cost_of(op, in_dtype);
    return true;
}

static struct program *new_program(const struct cpu_device *dev, const struct eo_node_view *node, struct eo_error *err)
{
    struct program *p = NULL;
    if (cpu_node_new(sizeof *p, &p, err) != EO_OK)
        return NULL;
    p->copies = dev->vec->elementwise;
    p->n_inputs = node->n_in;
    space_init(&p->space, node->out[0]->shape, node->out[0]->n_dims);
    for (int i = 0; i < node->n_in; i++) {
        p->inputs[i].dtype = node->in[i]->dtype;
        p->inputs[i].size = (uint8_t)eo_dtype_size(node->in[i]->dtype);
        space_add_broadcast(&p->space, node->in[i]);
    }
    return p;
}

static void finish(struct program *p, const struct cpu_device *dev, const char *what, const char *dtype,
                   struct eo_kernel *out)
{
    cpu_node_finish(&p->node, program_run, out, "%s.%s.%s", what, dtype, dev->vec->name);
    program_plan(p, dev->base.info.threads, &out->in_place, &out->workspace_bytes);
}

static int select_row(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                      struct cpu_refusals *refusals, struct eo_error *err)
{
    const char *why = NULL;
    struct program *p = new_program(dev, node, err);
    if (!p)
        return EO_E_NO_MEMORY;
    enum eo_dtype dtype = node->in[node->n_in - 1]->dtype, result = node->out[0]->dtype;
    p->n_steps = 1;
    if (!set_step(p, dev, 0, node->op->op, node->attrs, dtype, result, &why)) {
        free(p);
        return cpu_decline(refusals, node->op->name, "%s for %s%s%s", why, eo_dtype_name(dtype),
                           node->op->op == EO_OP_CAST ? " to " : "",
                           node->op->op == EO_OP_CAST ? eo_dtype_name(result) : "");
    }
    p->steps[0].output = 0;
    p->steps[0].n_in = (uint8_t)node->n_in;
    for (int i = 0; i < node->n_in; i++)
        p->steps[0].in[i] = (uint8_t)i;
    finish(p, dev, node->op->name, eo_dtype_name(dtype), out);
    return EO_OK;
}

static enum eo_dtype register_dtype(const struct program *p, int r)
{
    return r < p->n_inputs ? p->inputs[r].dtype : p->steps[r - p->n_inputs].dtype;
}

/* Checks what the interpreter takes for granted and describes the steps; false with a reason. */
static bool load_program(struct program *p, const struct cpu_device *dev, const struct eo_node_view *node,
                         int *out_step, const char **why)
{
    const struct eo_fused_program *f = node->fused;
    for (int s = 0; s < f->n_steps; s++) {
        const struct eo_fused_step *step = &f->steps[s];
        *out_step = s;
        *why = "reads a register that is not written yet";
        if (step->n_in < 1 || step->n_in > 3)
            return false;
        for (int i = 0; i < step->n_in; i++)
            if (step->in[i] >= f->n_inputs + s)
                return false;
        enum eo_dtype in = register_dtype(p, step->in[step->n_in - 1]);
        if (!set_step(p, dev, s, (enum eo_op)step->op, step->attrs, in, (enum eo_dtype)step->dtype, why))
            return false;
        p->steps[s].n_in = step->n_in;
        memcpy(p->steps[s].in, step->in, sizeof step->in);
    }
    for (int o = 0; o < f->n_outputs; o++) {
        int s = f->outputs[o] - f->n_inputs;
        *out_step = s;
        *why = "cannot be an output: an input, or one already";
        if (s < 0 || s >= f->n_steps || p->steps[s].output >= 0)
            return false;
        p->steps[s].output = (int8_t)o;
    }
    return true;
}

static int select_fused(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                        struct cpu_refusals *refusals, struct eo_error *err)
{
    const struct eo_fused_program *f = node->fused;
    if (f->n_inputs > EO_FUSED_MAX_INPUTS || f->n_steps < 1 || f->n_steps > EO_FUSED_MAX_STEPS || f->n_outputs < 1 ||
        f->n_outputs > EO_FUSED_MAX_OUTPUTS || node->n_in != f->n_inputs)
        return cpu_decline(refusals, "fused", "the program is larger than the interpreter takes");
    int step = 0;
    const char *why = NULL;
    struct program *p = new_program(dev, node, err);
    if (!p)
        return EO_E_NO_MEMORY;
    p->n_steps = f->n_steps;
    if (!load_program(p, dev, node, &step, &why)) {
        const struct eo_op_schema *op =
            step >= 0 && step < f->n_steps ? eo_op_schema((enum eo_op)f->steps[step].op) : NULL;
        free(p);
        return cpu_decline(refusals, "fused", "step %d (%s) %s", step, op ? op->name : "?", why);
    }
    char steps[16];
    (void)snprintf(steps, sizeof steps, "%d-steps", f->n_steps);
    finish(p, dev, "fused", steps, out);
    return EO_OK;
}

int elementwise_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                       struct cpu_refusals *why, struct eo_error *err)
{
    return node->fused ? select_fused(dev, node, out, why, err) : select_row(dev, node, out, why, err);
}
