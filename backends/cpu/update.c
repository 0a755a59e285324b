/* The optimizer rows: one pass over flat vectors. Outputs may alias inputs. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduce.h"

#include <math.h>
#include <stdlib.h>

struct update {
    struct cpu_node node;
    enum eo_dtype dtype;
    int64_t size, count;
    const struct vector_update *vec;
    const struct vector_reduce *reduce;
    bool nesterov, amsgrad, decoupled, centered, has_velocity;
};

struct job {
    const struct update *u;
    const struct eo_launch *l;
    struct vector_sgd sgd;
    struct vector_adam adam;
    struct vector_rmsprop rmsprop;
    struct vector_adagrad adagrad;
    struct vector_lion lion;
};

static const char *input(const struct job *j, int i, int64_t begin)
{
    return (const char *)j->l->in[i] + begin * j->u->size;
}

static char *output(const struct job *j, int i, int64_t begin)
{
    return (char *)j->l->out[i] + begin * j->u->size;
}

static void sgd_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    bool v = j->u->has_velocity;
    j->u->vec->sgd(end - begin, output(j, 0, begin), v ? output(j, 1, begin) : NULL, input(j, 0, begin),
                   input(j, 1, begin), v ? input(j, 2, begin) : NULL, &j->sgd);
}

/* scalars: lr, momentum, weight_decay, grad_scale, first_step */
static int sgd_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    const double *s = l->in[3];
    struct job j = {.u = u, .l = l, .sgd = {s[0], s[1], s[2], s[3], s[4] != 0, u->nesterov}};
    parallel_for(dev->base.info.threads, u->count, parallel_grain(u->size), sgd_range, &j);
    return EO_OK;
}

static void adam_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    bool a = j->u->amsgrad;
    void *const out[4] = {output(j, 0, begin), output(j, 1, begin), output(j, 2, begin),
                          a ? output(j, 3, begin) : NULL};
    const void *const in[5] = {input(j, 0, begin), input(j, 1, begin), input(j, 2, begin), input(j, 3, begin),
                               a ? input(j, 4, begin) : NULL};
    j->u->vec->adam(end - begin, out, in, &j->adam);
}

/* scalars: lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, grad_scale */
static int adam_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    const double *s = l->in[5];
    struct job j = {.u = u,
                    .l = l,
                    .adam = {.beta1 = s[1],
                             .beta2 = s[2],
                             .step_size = s[0] / s[5],
                             .root = 1 / sqrt(s[6]),
                             .eps = s[3],
                             .weight_decay = u->decoupled ? 0 : s[4],
                             .keep = u->decoupled ? 1 - s[0] * s[4] : 1,
                             .grad_scale = s[7]}};
    parallel_for(dev->base.info.threads, u->count, parallel_grain(u->size * 3), adam_range, &j);
    return EO_OK;
}

static void rmsprop_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    bool c = j->u->centered, v = j->u->has_velocity;
    void *const out[4] = {output(j, 0, begin), output(j, 1, begin), c ? output(j, 2, begin) : NULL,
                          v ? output(j, 3, begin) : NULL};
    const void *const in[5] = {input(j, 0, begin), input(j, 1, begin), input(j, 2, begin),
                               c ? input(j, 3, begin) : NULL, v ? input(j, 4, begin) : NULL};
    j->u->vec->rmsprop(end - begin, out, in, &j->rmsprop);
}

/* scalars: lr, alpha, eps, weight_decay, momentum, grad_scale */
static int rmsprop_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    const double *s = l->in[5];
    struct job j = {.u = u, .l = l, .rmsprop = {s[0], s[1], s[2], s[3], s[4], s[5]}};
    parallel_for(dev->base.info.threads, u->count, parallel_grain(u->size * 3), rmsprop_range, &j);
    return EO_OK;
}

static void adagrad_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    void *const out[2] = {output(j, 0, begin), output(j, 1, begin)};
    const void *const in[3] = {input(j, 0, begin), input(j, 1, begin), input(j, 2, begin)};
    j->u->vec->adagrad(end - begin, out, in, &j->adagrad);
}

/* scalars: step_size, eps, weight_decay, initial, first_step, grad_scale */
static int adagrad_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    const double *s = l->in[3];
    struct job j = {.u = u, .l = l, .adagrad = {s[0], s[1], s[2], s[3], s[5], s[4] != 0}};
    parallel_for(dev->base.info.threads, u->count, parallel_grain(u->size * 2), adagrad_range, &j);
    return EO_OK;
}

static void lion_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    void *const out[2] = {output(j, 0, begin), output(j, 1, begin)};
    const void *const in[3] = {input(j, 0, begin), input(j, 1, begin), input(j, 2, begin)};
    j->u->vec->lion(end - begin, out, in, &j->lion);
}

/* scalars: lr, beta1, beta2, weight_decay, grad_scale */
static int lion_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    const double *s = l->in[3];
    struct job j = {.u = u, .l = l, .lion = {s[0], s[1], s[2], 1 - s[0] * s[3], s[4]}};
    parallel_for(dev->base.info.threads, u->count, parallel_grain(u->size * 2), lion_range, &j);
    return EO_OK;
}

static void squares_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    double *partial = j->l->workspace;
    for (int64_t c = begin; c < end; c++) {
        int64_t first = c * REDUCE_CHUNK, n = EO_MIN(j->u->count - first, REDUCE_CHUNK);
        partial[c] = j->u->reduce->sum_squares(n, input(j, 0, first), 0);
    }
}

static int64_t chunks_of(const struct update *u)
{
    return (u->count + REDUCE_CHUNK - 1) / REDUCE_CHUNK;
}

static int sum_squares_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct update *u = l->state;
    struct job j = {.u = u, .l = l};
    struct reduce_cascade total = {.n = 0};
    const double *partial = l->workspace;
    parallel_for(dev->base.info.threads, chunks_of(u), parallel_grain(REDUCE_CHUNK * u->size / 4), squares_range, &j);
    for (int64_t c = 0; c < chunks_of(u); c++)
        reduce_push(&total, partial[c]);
    *(double *)l->out[0] = reduce_total(&total);
    return EO_OK;
}

/* What the loops have to know of the node's attributes and empty operands; the run function of the row. */
static cpu_run_fn look_at_node(struct update *u, const struct eo_node_view *node)
{
    switch (node->op->op) {
    case EO_OP_SGD_UPDATE:
        u->nesterov = eo_attr_int(node->op, node->attrs, "nesterov") != 0;
        u->has_velocity = eo_tensor_desc_count(node->in[2]) > 0;
        return sgd_run;
    case EO_OP_ADAM_UPDATE:
        u->amsgrad = eo_attr_int(node->op, node->attrs, "amsgrad") != 0;
        u->decoupled = eo_attr_int(node->op, node->attrs, "decoupled") != 0;
        return adam_run;
    case EO_OP_RMSPROP_UPDATE:
        u->centered = eo_tensor_desc_count(node->in[3]) > 0;
        u->has_velocity = eo_tensor_desc_count(node->in[4]) > 0;
        return rmsprop_run;
    case EO_OP_ADAGRAD_UPDATE:
        return adagrad_run;
    case EO_OP_LION_UPDATE:
        return lion_run;
    default:
        return sum_squares_run;
    }
}

int update_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_op op = node->op->op;
    enum eo_dtype dtype = node->in[0]->dtype;
    struct update *u = NULL;
    if (!(*dev->vec->update)[dtype].adam)
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name(dtype));
    int rc = cpu_node_new(sizeof *u, &u, err);
    if (rc != EO_OK)
        return rc;
    u->dtype = dtype;
    u->size = (int64_t)eo_dtype_size(dtype);
    u->count = eo_tensor_desc_count(node->in[0]);
    u->vec = &(*dev->vec->update)[dtype];
    u->reduce = &(*dev->vec->reduce)[dtype];
    cpu_run_fn run = look_at_node(u, node);
    if (op == EO_OP_SUM_SQUARES)
        out->workspace_bytes = (uint64_t)chunks_of(u) * sizeof(double);
    cpu_node_finish(&u->node, run, out, "%s.%s.%s", node->op->name, eo_dtype_name(dtype), dev->vec->name);
    /* Every loop reads element i of all operands before it writes element i of a result. */
    out->in_place = op == EO_OP_SUM_SQUARES ? 0 : 3;
    return EO_OK;
}
