/* ai.onnx.preview.training: gradients, and the optimizers' steps as compositions of rows.
 *
 * The steps work on groups: R (rate), T (steps so far), then X1..Xn (parameters), G1..Gn (gradients) and the state. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include "daemon/engine/autodiff.h"

#include <math.h>
#include <string.h>

static eo_value times(struct onnx_site *s, eo_value x, double factor)
{
    return site_binary(s, "multiply", x, site_scalar_like(s, x, factor));
}

static eo_value plus(struct onnx_site *s, eo_value a, eo_value b)
{
    return site_binary(s, "add", a, b);
}

static eo_value product(struct onnx_site *s, eo_value a, eo_value b)
{
    return site_binary(s, "multiply", a, b);
}

/* Number of tensors when each has this many operands and results; 0 after an error. */
static int group_size(struct onnx_site *s, int operands, int results)
{
    int n = (s->n_in - 2) / operands;

    if (s->n_in < 2 + operands || (s->n_in - 2) % operands != 0 || s->n_out != n * results) {
        site_fail(s, EO_E_BAD_ARITY, "%s has %d operands and %d outputs: wanted are 2 + %d n and %d n",
                  s->node->op_type, s->n_in, s->n_out, operands, results);
        return 0;
    }
    return n;
}

/* Operand of tensor i in group g. */
static eo_value member(struct onnx_site *s, int g, int n, int i)
{
    return site_in(s, 2 + g * n + i);
}

/* norm_coefficient X + G: the gradient with its L2 regularisation. */
static eo_value regularised(struct onnx_site *s, eo_value x, eo_value g)
{
    double norm = site_float(s, "norm_coefficient", 0);

    return norm > 0 || norm < 0 ? plus(s, times(s, x, norm), g) : g;
}

void map_adagrad(struct onnx_site *s)
{
    int n = group_size(s, 3, 2);
    double decay = site_float(s, "decay_factor", 0), eps = site_float(s, "epsilon", (double)1e-6f);
    double steps = site_real(s, 1);

    for (int i = 0; i < n; i++) {
        eo_value x = member(s, 0, n, i), g = regularised(s, x, member(s, 1, n, i)), h = member(s, 2, n, i);
        eo_value rate = times(s, site_cast(s, site_in(s, 0), site_dtype(s, x)), 1 / (1 + steps * decay));
        eo_value root;

        h = plus(s, h, product(s, g, g));
        root = site_unary(s, "sqrt", h);
        root = plus(s, root, site_scalar_like(s, root, eps));
        s->out[i] = site_binary(s, "subtract", x, site_binary(s, "divide", product(s, rate, g), root));
        s->out[n + i] = h;
    }
}

/* Bias correction from the first step on; norm_coefficient_post shrinks the new parameter. Without the attribute
 * epsilon ONNX's text says 1e-6, its published case without it (test_adam_multiple) was computed with 1e-2: the case
 * decides. */
void map_adam(struct onnx_site *s)
{
    int n = group_size(s, 4, 3);
    double alpha = site_float(s, "alpha", (double)0.9f), beta = site_float(s, "beta", (double)0.999f);
    double eps = site_float(s, "epsilon", (double)1e-2f), post = site_float(s, "norm_coefficient_post", 0);
    double steps = site_real(s, 1);
    double correction = steps > 0 ? sqrt(1 - pow(beta, steps)) / (1 - pow(alpha, steps)) : 1;

    for (int i = 0; i < n; i++) {
        eo_value x = member(s, 0, n, i), g = regularised(s, x, member(s, 1, n, i));
        eo_value v = plus(s, times(s, member(s, 2, n, i), alpha), times(s, g, 1 - alpha));
        eo_value h = plus(s, times(s, member(s, 3, n, i), beta), times(s, product(s, g, g), 1 - beta));
        eo_value rate = times(s, site_cast(s, site_in(s, 0), site_dtype(s, x)), correction);
        eo_value root = site_unary(s, "sqrt", h), fresh;

        root = plus(s, root, site_scalar_like(s, root, eps));
        fresh = site_binary(s, "subtract", x, site_binary(s, "divide", product(s, rate, v), root));
        s->out[i] = post > 0 || post < 0 ? times(s, fresh, 1 - post) : fresh;
        s->out[n + i] = v;
        s->out[2 * n + i] = h;
    }
}

/* In the first step (T = 0) the gradient counts whole. */
void map_momentum(struct onnx_site *s)
{
    int n = group_size(s, 3, 2);
    double alpha = site_float(s, "alpha", 0), beta = site_float(s, "beta", 0);
    double share = site_real(s, 1) > 0 ? beta : 1;
    bool nesterov = site_word(s, "mode", "standard", "nesterov");

    if (!nesterov && !site_word(s, "mode", "standard", "standard")) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "mode of Momentum is neither standard nor nesterov");
    }
    for (int i = 0; i < n; i++) {
        eo_value x = member(s, 0, n, i), g = regularised(s, x, member(s, 1, n, i));
        eo_value v = plus(s, times(s, member(s, 2, n, i), alpha), times(s, g, share));
        eo_value rate = site_cast(s, site_in(s, 0), site_dtype(s, x));
        eo_value by = nesterov ? plus(s, g, times(s, v, alpha)) : v;

        s->out[i] = site_binary(s, "subtract", x, product(s, rate, by));
        s->out[n + i] = v;
    }
}

/* ---- Gradient ---- */

/* dy / dx for each name of xs, at the values of the graph itself. zs are further values that y depends on, held. */
void map_gradient(struct onnx_site *s)
{
    const struct onnx_attr *xs = site_attr(s, "xs"), *zs = site_attr(s, "zs");
    const char *y_name = site_text(s, "y", "");
    eo_value y, seed, wrt[EO_MAX_INPUTS], out[EO_MAX_INPUTS];
    uint32_t number;

    if (!site_ok(s) || xs == NULL || xs->kind != ONNX_ATTR_TEXTS || xs->n == 0 || xs->n > EO_MAX_INPUTS ||
        (size_t)s->n_out > xs->n || (zs != NULL && zs->kind != ONNX_ATTR_TEXTS)) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "Gradient needs names xs, one for each output, and y");
        return;
    }
    if (!eo_name_index_find(s->scope->names, y_name, &number) || number == EO_NO_VALUE) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "y of Gradient is no value that is made before it");
        return;
    }
    y = number;
    for (size_t i = 0; i < xs->n; i++) {
        wrt[i] = site_in(s, (int)i);
        if (site_ok(s) && (!eo_name_index_find(s->scope->names, xs->texts[i], &number) || number != wrt[i])) {
            site_fail(s, EO_E_UNSUPPORTED, "Gradient at other values than the graph's is not supported");
        }
    }
    seed = eo_build_full_like(s->b, y, 1);
    if (site_ok(s)) {
        s->b->status = autodiff_gradients(s->b->graph, y, seed, wrt, (int)xs->n, out, s->b->err);
    }
    for (int o = 0; site_ok(s) && o < s->n_out; o++) {
        s->out[o] = out[o];
    }
}
