/* Gradients of windows. unfold and fold are each other's adjoint; conv, conv_transpose and conv_weight are the adjoints
 * of one trilinear form, the sum over x, weight and g of conv(x, weight) * g. The rows emitted get all attributes as
 * numbers: pads where the node has a padding word, the size that a strided convolution does not tell. */
#include "daemon/engine/grad/rules.h"
#include "daemon/engine/windows.h"

static eo_value emit(const struct grad_site *s, enum eo_op op, eo_value a, eo_value b)
{
    struct eo_window_shape w = windows_of(s->b, s->node);
    eo_value in[2] = {a, b};

    return windows_emit(s->b, op, &w, in, b == EO_NO_VALUE ? 1 : 2);
}

void grad_unfold(const struct grad_site *s)
{
    s->in_grads[0] = emit(s, EO_OP_FOLD, site_g(s), EO_NO_VALUE);
}

void grad_fold(const struct grad_site *s)
{
    s->in_grads[0] = emit(s, EO_OP_UNFOLD, site_g(s), EO_NO_VALUE);
}

/* The sum of g over everything but channels. */
static void give_bias(const struct grad_site *s)
{
    struct eo_window_shape w = windows_of(s->b, s->node);
    int64_t axes[1 + EO_WINDOW_AXES] = {0};

    for (int d = 0; d < w.n_axes; d++) {
        axes[1 + d] = d + (w.channels_first ? 2 : 1);
    }
    s->in_grads[2] = eo_build_reduce(s->b, EO_OP_SUM, site_g(s), axes, 1 + w.n_axes, false);
}

static bool wants_bias(const struct grad_site *s)
{
    return s->node->n_inputs > 2 && s->needs[2] && site_desc(s, site_x(s, 2)).shape[0] > 0;
}

void grad_conv(const struct grad_site *s)
{
    if (s->needs[0]) {
        s->in_grads[0] = emit(s, EO_OP_CONV_TRANSPOSE, site_g(s), site_x(s, 1));
    }
    if (s->needs[1]) {
        s->in_grads[1] = emit(s, EO_OP_CONV_WEIGHT, site_x(s, 0), site_g(s));
    }
    if (wants_bias(s)) {
        give_bias(s);
    }
}

void grad_conv_transpose(const struct grad_site *s)
{
    if (s->needs[0]) {
        s->in_grads[0] = emit(s, EO_OP_CONV, site_g(s), site_x(s, 1));
    }
    if (s->needs[1]) {
        s->in_grads[1] = emit(s, EO_OP_CONV_WEIGHT, site_g(s), site_x(s, 0));
    }
    if (wants_bias(s)) {
        give_bias(s);
    }
}

void grad_conv_weight(const struct grad_site *s)
{
    if (s->needs[0]) {
        s->in_grads[0] = emit(s, EO_OP_CONV_TRANSPOSE, site_x(s, 1), site_g(s));
    }
    if (s->needs[1]) {
        s->in_grads[1] = emit(s, EO_OP_CONV, site_x(s, 0), site_g(s));
    }
}
