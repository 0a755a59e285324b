/* Optimizer updates: one pass over flat vectors, in the dtype of the parameters. Only + - * / sqrt of IEEE 754, in the
 * order written: equal bits on every instruction set. */
#include "backends/cpu/vector/vector.h"

#define UPDATES(suffix, T, sqrt_fn)                                                                                    \
    static void sgd_plain_##suffix(int64_t n, T *param_out, const T *param, const T *grad, const struct vector_sgd *s) \
    {                                                                                                                  \
        const T lr = (T)s->lr, decay = (T)s->weight_decay, scale = (T)s->grad_scale;                                   \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T p = param[i];                                                                                      \
            param_out[i] = p - lr * (scale * grad[i] + decay * p);                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    /* first: the velocity starts as the gradient, whatever it held (also NaN). */                                     \
    static void sgd_momentum_##suffix(int64_t n, T *param_out, T *velocity_out, const T *param, const T *grad,         \
                                      const T *velocity, const struct vector_sgd *s)                                   \
    {                                                                                                                  \
        const T lr = (T)s->lr, decay = (T)s->weight_decay, scale = (T)s->grad_scale, momentum = (T)s->momentum;        \
        const bool first = s->first, nesterov = s->nesterov;                                                           \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T p = param[i], g = scale * grad[i] + decay * p;                                                     \
            const T moved = momentum * velocity[i] + g, v = first ? g : moved, ahead = g + momentum * v;               \
            velocity_out[i] = v;                                                                                       \
            param_out[i] = p - lr * (nesterov ? ahead : v);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void sgd_##suffix(int64_t n, void *param_out, void *velocity_out, const void *param, const void *grad,      \
                             const void *velocity, const struct vector_sgd *s)                                         \
    {                                                                                                                  \
        if (velocity)                                                                                                  \
            sgd_momentum_##suffix(n, param_out, velocity_out, param, grad, velocity, s);                               \
        else                                                                                                           \
            sgd_plain_##suffix(n, param_out, param, grad, s);                                                          \
    }                                                                                                                  \
    static void adam_plain_##suffix(int64_t n, T *p_out, T *m_out, T *v_out, const T *p_in, const T *g_in,             \
                                    const T *m_in, const T *v_in, const struct vector_adam *s)                         \
    {                                                                                                                  \
        ADAM_CONSTANTS(T)                                                                                              \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            ADAM_MOMENTS(T)                                                                                            \
            p_out[i] = p * keep - step_size * m / (sqrt_fn(v) * root + eps);                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void adam_amsgrad_##suffix(int64_t n, T *p_out, T *m_out, T *v_out, T *largest_out, const T *p_in,          \
                                      const T *g_in, const T *m_in, const T *v_in, const T *largest_in,                \
                                      const struct vector_adam *s)                                                     \
    {                                                                                                                  \
        ADAM_CONSTANTS(T)                                                                                              \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            ADAM_MOMENTS(T)                                                                                            \
            const T before = largest_in[i], largest = v > before || v != v ? v : before;                               \
            largest_out[i] = largest;                                                                                  \
            p_out[i] = p * keep - step_size * m / (sqrt_fn(largest) * root + eps);                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void adam_##suffix(int64_t n, void *const out[4], const void *const in[5], const struct vector_adam *s)     \
    {                                                                                                                  \
        if (in[4])                                                                                                     \
            adam_amsgrad_##suffix(n, out[0], out[1], out[2], out[3], in[0], in[1], in[2], in[3], in[4], s);            \
        else                                                                                                           \
            adam_plain_##suffix(n, out[0], out[1], out[2], in[0], in[1], in[2], in[3], s);                             \
    }

#define ADAM_CONSTANTS(T)                                                                                              \
    const T beta1 = (T)s->beta1, fresh1 = (T)(1 - s->beta1), beta2 = (T)s->beta2, fresh2 = (T)(1 - s->beta2);          \
    const T step_size = (T)s->step_size, root = (T)s->root, eps = (T)s->eps;                                           \
    const T decay = (T)s->weight_decay, keep = (T)s->keep, scale = (T)s->grad_scale;

#define ADAM_MOMENTS(T)                                                                                                \
    const T p = p_in[i], g = scale * g_in[i] + decay * p;                                                              \
    const T m = beta1 * m_in[i] + fresh1 * g, v = beta2 * v_in[i] + fresh2 * g * g;                                    \
    m_out[i] = m;                                                                                                      \
    v_out[i] = v;

UPDATES(f32, float, __builtin_sqrtf)
UPDATES(f64, double, __builtin_sqrt)

/* centered and moving are constants of each call below, so that each gets a loop without branches. Results may lie over
 * their operands: element i of all is read before any is written. */
#define RMSPROP(suffix, T, sqrt_fn)                                                                                    \
    static inline __attribute__((always_inline)) void rmsprop_loop_##suffix(                                           \
        int64_t n, T *p_out, T *square_out, T *mean_out, T *velocity_out, const T *p_in, const T *g_in,                \
        const T *square_in, const T *mean_in, const T *velocity_in, const struct vector_rmsprop *s, bool centered,     \
        bool moving)                                                                                                   \
    {                                                                                                                  \
        const T lr = (T)s->lr, alpha = (T)s->alpha, fresh = (T)(1 - s->alpha), eps = (T)s->eps;                        \
        const T decay = (T)s->weight_decay, momentum = (T)s->momentum, scale = (T)s->grad_scale;                       \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T p = p_in[i], g = scale * g_in[i] + decay * p, square = alpha * square_in[i] + fresh * g * g;       \
            T spread = square, step;                                                                                   \
            if (centered) {                                                                                            \
                const T mean = alpha * mean_in[i] + fresh * g, left = square - mean * mean;                            \
                spread = left < 0 ? 0 : left;                                                                          \
                mean_out[i] = mean;                                                                                    \
            }                                                                                                          \
            step = g / (sqrt_fn(spread) + eps);                                                                        \
            if (moving) {                                                                                              \
                step = momentum * velocity_in[i] + step;                                                               \
                velocity_out[i] = step;                                                                                \
            }                                                                                                          \
            square_out[i] = square;                                                                                    \
            p_out[i] = p - lr * step;                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void rmsprop_##suffix(int64_t n, void *const out[4], const void *const in[5],                               \
                                 const struct vector_rmsprop *s)                                                       \
    {                                                                                                                  \
        if (in[3] && in[4])                                                                                            \
            rmsprop_loop_##suffix(n, out[0], out[1], out[2], out[3], in[0], in[1], in[2], in[3], in[4], s, true,       \
                                  true);                                                                               \
        else if (in[3])                                                                                                \
            rmsprop_loop_##suffix(n, out[0], out[1], out[2], NULL, in[0], in[1], in[2], in[3], NULL, s, true, false);  \
        else if (in[4])                                                                                                \
            rmsprop_loop_##suffix(n, out[0], out[1], NULL, out[3], in[0], in[1], in[2], NULL, in[4], s, false, true);  \
        else                                                                                                           \
            rmsprop_loop_##suffix(n, out[0], out[1], NULL, NULL, in[0], in[1], in[2], NULL, NULL, s, false, false);    \
    }

RMSPROP(f32, float, __builtin_sqrtf)
RMSPROP(f64, double, __builtin_sqrt)

#define ONE_SLOT(suffix, T, sqrt_fn)                                                                                   \
    static void adagrad_##suffix(int64_t n, void *const out[2], const void *const in[3],                               \
                                 const struct vector_adagrad *s)                                                       \
    {                                                                                                                  \
        const T *p_in = in[0], *g_in = in[1], *sum_in = in[2];                                                         \
        T *p_out = out[0], *sum_out = out[1];                                                                          \
        const T size = (T)s->step_size, eps = (T)s->eps, decay = (T)s->weight_decay, initial = (T)s->initial;          \
        const T scale = (T)s->grad_scale;                                                                              \
        const bool first = s->first;                                                                                   \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T p = p_in[i], g = scale * g_in[i] + decay * p, before = sum_in[i];                                  \
            const T sum = (first ? initial : before) + g * g;                                                          \
            sum_out[i] = sum;                                                                                          \
            p_out[i] = p - size * g / (sqrt_fn(sum) + eps);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void lion_##suffix(int64_t n, void *const out[2], const void *const in[3], const struct vector_lion *s)     \
    {                                                                                                                  \
        const T *p_in = in[0], *g_in = in[1], *m_in = in[2];                                                           \
        T *p_out = out[0], *m_out = out[1];                                                                            \
        const T lr = (T)s->lr, beta1 = (T)s->beta1, fresh1 = (T)(1 - s->beta1), beta2 = (T)s->beta2;                   \
        const T fresh2 = (T)(1 - s->beta2), keep = (T)s->keep, scale = (T)s->grad_scale;                               \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T p = p_in[i], g = scale * g_in[i], m = m_in[i], along = beta1 * m + fresh1 * g;                     \
            const T sign = along > 0 ? (T)1 : along < 0 ? (T)-1 : along; /* 0 and NaN as they are */                   \
            m_out[i] = beta2 * m + fresh2 * g;                                                                         \
            p_out[i] = p * keep - lr * sign;                                                                           \
        }                                                                                                              \
    }

ONE_SLOT(f32, float, __builtin_sqrtf)
ONE_SLOT(f64, double, __builtin_sqrt)

const vector_update_table VECTOR_ISA(vector_update) = {
    [EO_FLOAT32] = {sgd_f32, adam_f32, rmsprop_f32, adagrad_f32, lion_f32},
    [EO_FLOAT64] = {sgd_f64, adam_f64, rmsprop_f64, adagrad_f64, lion_f64},
};
