/* The optimizer rows: flat vectors, computed in float64 and rounded once per result. Outputs may alias inputs:
 * everything of element i is read before anything of it is written. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"

#include <math.h>

int reference_sum_squares(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = element_get_float(l->in[0], l->node->in[0]->dtype, i);
        total += x * x;
    }
    *(double *)l->out[0] = total;
    return EO_OK;
}

/* param, grad, velocity, scalars -> param', velocity'
 *   g = grad_scale * grad + weight_decay * param
 *   velocity' = first_step ? g : momentum * velocity + g
 *   param' = param - lr * (nesterov ? g + momentum * velocity' : velocity') */
int reference_sgd_update(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    bool has_velocity = eo_tensor_desc_count(l->node->in[2]) > 0;
    bool nesterov = eo_attr_int(l->node->op, l->node->attrs, "nesterov") != 0;
    const double *s = l->in[3];
    double lr = s[0], momentum = s[1], weight_decay = s[2], grad_scale = s[3];
    bool first = s[4] != 0;
    for (int64_t i = 0; i < n; i++) {
        double param = element_get_float(l->in[0], dtype, i);
        double g = grad_scale * element_get_float(l->in[1], dtype, i) + weight_decay * param;
        double step = g;
        if (has_velocity) {
            double v = first ? g : momentum * element_get_float(l->in[2], dtype, i) + g;
            element_set_float(l->out[1], dtype, i, v);
            step = nesterov ? g + momentum * v : v;
        }
        element_set_float(l->out[0], dtype, i, param - lr * step);
    }
    return EO_OK;
}

/* param, grad, m, v, vmax, scalars -> param', m', v', vmax'
 *   g = grad_scale * grad (+ weight_decay * param unless decoupled)
 *   m' = beta1 * m + (1 - beta1) * g;  v' = beta2 * v + (1 - beta2) * g^2;  vmax' = max(vmax, v')
 *   param' = param (* (1 - lr * weight_decay) when decoupled)
 *            - lr * (m' / bias_correction1) / (sqrt((amsgrad ? vmax' : v') / bias_correction2) + eps) */
int reference_adam_update(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    bool amsgrad = eo_attr_int(l->node->op, l->node->attrs, "amsgrad") != 0;
    bool decoupled = eo_attr_int(l->node->op, l->node->attrs, "decoupled") != 0;
    const double *s = l->in[5];
    double lr = s[0], beta1 = s[1], beta2 = s[2], eps = s[3], weight_decay = s[4];
    double correction1 = s[5], correction2 = s[6], grad_scale = s[7];
    for (int64_t i = 0; i < n; i++) {
        double param = element_get_float(l->in[0], dtype, i);
        double g = grad_scale * element_get_float(l->in[1], dtype, i);
        if (decoupled)
            param -= lr * weight_decay * param;
        else
            g += weight_decay * param;
        double m = beta1 * element_get_float(l->in[2], dtype, i) + (1 - beta1) * g;
        double v = beta2 * element_get_float(l->in[3], dtype, i) + (1 - beta2) * g * g;
        double second = v;
        if (amsgrad) {
            double vmax = element_get_float(l->in[4], dtype, i);
            second = v > vmax || isnan(v) ? v : vmax;
            element_set_float(l->out[3], dtype, i, second);
        }
        element_set_float(l->out[1], dtype, i, m);
        element_set_float(l->out[2], dtype, i, v);
        element_set_float(l->out[0], dtype, i, param - lr * (m / correction1) / (sqrt(second / correction2) + eps));
    }
    return EO_OK;
}

/* param, grad, square, mean, velocity, scalars -> param', square', mean', velocity'
 *   g = grad_scale * grad + weight_decay * param
 *   square' = alpha * square + (1 - alpha) * g^2;  mean' = alpha * mean + (1 - alpha) * g
 *   step = g / (sqrt(max(square' - mean'^2, 0)) + eps), without mean where that is empty
 *   velocity' = momentum * velocity + step;  param' = param - lr * (velocity' or step) */
int reference_rmsprop_update(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    bool centered = eo_tensor_desc_count(l->node->in[3]) > 0, has_velocity = eo_tensor_desc_count(l->node->in[4]) > 0;
    const double *s = l->in[5];
    double lr = s[0], alpha = s[1], eps = s[2], weight_decay = s[3], momentum = s[4], grad_scale = s[5];
    for (int64_t i = 0; i < n; i++) {
        double param = element_get_float(l->in[0], dtype, i);
        double g = grad_scale * element_get_float(l->in[1], dtype, i) + weight_decay * param;
        double square = alpha * element_get_float(l->in[2], dtype, i) + (1 - alpha) * g * g, spread = square;
        if (centered) {
            double mean = alpha * element_get_float(l->in[3], dtype, i) + (1 - alpha) * g;
            spread = square - mean * mean < 0 ? 0 : square - mean * mean;
            element_set_float(l->out[2], dtype, i, mean);
        }
        double step = g / (sqrt(spread) + eps);
        if (has_velocity) {
            step += momentum * element_get_float(l->in[4], dtype, i);
            element_set_float(l->out[3], dtype, i, step);
        }
        element_set_float(l->out[1], dtype, i, square);
        element_set_float(l->out[0], dtype, i, param - lr * step);
    }
    return EO_OK;
}

/* param, grad, sum, scalars -> param', sum'
 *   g = grad_scale * grad + weight_decay * param;  sum' = (first_step ? initial : sum) + g^2
 *   param' = param - step_size * g / (sqrt(sum') + eps) */
int reference_adagrad_update(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    const double *s = l->in[3];
    double step_size = s[0], eps = s[1], weight_decay = s[2], initial = s[3], grad_scale = s[5];
    bool first = s[4] != 0;
    for (int64_t i = 0; i < n; i++) {
        double param = element_get_float(l->in[0], dtype, i);
        double g = grad_scale * element_get_float(l->in[1], dtype, i) + weight_decay * param;
        double sum = (first ? initial : element_get_float(l->in[2], dtype, i)) + g * g;
        element_set_float(l->out[1], dtype, i, sum);
        element_set_float(l->out[0], dtype, i, param - step_size * g / (sqrt(sum) + eps));
    }
    return EO_OK;
}

/* param, grad, m, scalars -> param', m'
 *   g = grad_scale * grad;  param' = param * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g)
 *   m' = beta2 * m + (1 - beta2) * g */
int reference_lion_update(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int64_t n = eo_tensor_desc_count(l->node->in[0]);
    const double *s = l->in[3];
    double lr = s[0], beta1 = s[1], beta2 = s[2], weight_decay = s[3], grad_scale = s[4];
    for (int64_t i = 0; i < n; i++) {
        double param = element_get_float(l->in[0], dtype, i), m = element_get_float(l->in[2], dtype, i);
        double g = grad_scale * element_get_float(l->in[1], dtype, i);
        double along = beta1 * m + (1 - beta1) * g, sign = isnan(along) ? along : (along > 0) - (along < 0);
        element_set_float(l->out[1], dtype, i, beta2 * m + (1 - beta2) * g);
        element_set_float(l->out[0], dtype, i, param * (1 - lr * weight_decay) - lr * sign);
    }
    return EO_OK;
}
