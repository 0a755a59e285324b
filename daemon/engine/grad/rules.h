/* What gradient rules share: their declarations, made from ops.def, and short spellings for what they emit.
 *
 * Descriptors are copied (site_desc), never pointed to: adding a node may move the graph's tables. */
#ifndef EO_DAEMON_ENGINE_GRAD_RULES_H
#define EO_DAEMON_ENGINE_GRAD_RULES_H

#include "daemon/engine/autodiff.h"

#define GRAD(name) void grad_##name(const struct grad_site *s);
#define BY_LOWERING(name)
#define NO_GRAD(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, ...) grad(name)
#include "proto/tables/ops.def"
#undef GRAD
#undef BY_LOWERING
#undef NO_GRAD

/* The names of calculus: x_i are inputs, y is output 0, g is the gradient of output 0. */
static inline eo_value site_x(const struct grad_site *s, int i)
{
    return s->node->inputs[i];
}

static inline eo_value site_y(const struct grad_site *s)
{
    return s->node->first_output;
}

static inline eo_value site_g(const struct grad_site *s)
{
    return s->out_grads[0];
}

static inline struct eo_tensor_desc site_desc(const struct grad_site *s, eo_value v)
{
    return *eo_build_desc(s->b, v);
}

static inline eo_value emit_add(const struct grad_site *s, eo_value a, eo_value b)
{
    return eo_build_binary(s->b, EO_OP_ADD, a, b);
}

static inline eo_value emit_sub(const struct grad_site *s, eo_value a, eo_value b)
{
    return eo_build_binary(s->b, EO_OP_SUBTRACT, a, b);
}

static inline eo_value emit_mul(const struct grad_site *s, eo_value a, eo_value b)
{
    return eo_build_binary(s->b, EO_OP_MULTIPLY, a, b);
}

static inline eo_value emit_div(const struct grad_site *s, eo_value a, eo_value b)
{
    return eo_build_binary(s->b, EO_OP_DIVIDE, a, b);
}

static inline eo_value emit_neg(const struct grad_site *s, eo_value a)
{
    return eo_build_unary(s->b, EO_OP_NEGATIVE, a);
}

static inline eo_value emit_scalar(const struct grad_site *s, double v)
{
    return eo_build_scalar_like(s->b, site_g(s), v);
}

/* Hands input i its gradient, summed over what broadcasting repeated. */
static inline void site_give(const struct grad_site *s, int i, eo_value g)
{
    s->in_grads[i] = eo_build_sum_to(s->b, g, site_x(s, i));
}

#endif
