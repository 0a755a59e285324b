/* full, uniform, normal and dropout. Numbers are a pure function of seed, step, stream and element (proto/philox.h). */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "proto/philox.h"

#include <stdlib.h>
#include <string.h>

struct random {
    struct cpu_node node;
    enum eo_dtype dtype;
    int64_t size, count, row; /* elements; elements of one entry of dimension 0 */
    uint32_t stream;
    double a, b; /* low and high, mean and std, or p */
    const struct vector_random *vec;
    vector_map_fn fill;
    unsigned char value[8]; /* of full */
};

struct job {
    const struct random *p;
    const struct eo_launch *l;
    struct vector_rng rng;
};

static void fill_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    j->p->fill(end - begin, (char *)j->l->out[0] + begin * j->p->size, (const void *const[]){j->p->value}, 1, NULL);
}

static struct vector_rng rng_at(const struct job *j, int64_t begin)
{
    struct vector_rng g = j->rng;
    g.first += (uint64_t)begin;
    return g;
}

static void dropout_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct random *p = j->p;
    struct vector_rng g = rng_at(j, begin);
    p->vec->dropout[p->dtype](end - begin, (char *)j->l->out[0] + begin * p->size,
                              (const char *)j->l->in[0] + begin * p->size, &g, eo_rng_drop_threshold(p->a), 1 - p->a);
}

/* One element of a float dtype, rounded once. */
static void put(const struct random *p, void *out, int64_t i, double value)
{
    if (p->dtype == EO_FLOAT64)
        ((double *)out)[i] = value;
    else if (p->dtype == EO_FLOAT32)
        ((float *)out)[i] = (float)value;
    else
        ((uint16_t *)out)[i] = p->dtype == EO_FLOAT16 ? eo_half_from_double(value) : eo_bfloat_from_double(value);
}

static void uniform_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct random *p = j->p;
    struct vector_rng g = rng_at(j, begin);
    if (p->vec->uniform[p->dtype]) {
        p->vec->uniform[p->dtype](end - begin, (char *)j->l->out[0] + begin * p->size, &g, p->a, p->b);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        put(p, j->l->out[0], i,
            eo_rng_uniform(g.seed, g.step, g.stream, j->rng.first + (uint64_t)i, p->dtype, p->a, p->b));
}

static void normal_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct random *p = j->p;
    double pair[2];
    uint64_t drawn = UINT64_MAX;
    for (int64_t i = begin; i < end; i++) {
        uint64_t index = j->rng.first + (uint64_t)i;
        if (index / 2 != drawn)
            eo_rng_normal_pair(j->rng.seed, j->rng.step, j->rng.stream, drawn = index / 2, pair);
        put(p, j->l->out[0], i, p->a + p->b * pair[index % 2]);
    }
}

static int run(struct cpu_device *dev, const struct eo_launch *l, parallel_body body, int64_t cost, const int64_t *rng)
{
    const struct random *p = l->state;
    struct job j = {.p = p, .l = l};
    if (rng)
        j.rng = (struct vector_rng){rng[EO_RNG_SEED], rng[EO_RNG_STEP], p->stream,
                                    eo_rng_first_index(rng[EO_RNG_ROW_OFFSET], p->row)};
    parallel_for(dev->base.info.threads, p->count, parallel_grain(cost), body, &j);
    return EO_OK;
}

static int full_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return run(dev, l, fill_range, 1, NULL);
}

static int dropout_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return run(dev, l, dropout_range, 10, l->in[1]);
}

static int uniform_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return run(dev, l, uniform_range, 10, l->in[0]);
}

static int normal_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return run(dev, l, normal_range, 150, l->in[0]);
}

/* The attribute `value` in the dtype of the result; eo_op_infer has checked that the dtype holds it. */
static void set_value(struct random *p, double value)
{
    switch (p->dtype) {
    case EO_FLOAT32: {
        float f = (float)value;
        memcpy(p->value, &f, sizeof f);
        return;
    }
    case EO_FLOAT64:
        memcpy(p->value, &value, sizeof value);
        return;
    case EO_FLOAT16:
    case EO_BFLOAT16: {
        uint16_t h = p->dtype == EO_FLOAT16 ? eo_half_from_double(value) : eo_bfloat_from_double(value);
        memcpy(p->value, &h, sizeof h);
        return;
    }
    default: { /* integers and bool; two's complement, little-endian */
        uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
        memcpy(p->value, &bits, sizeof bits);
        return;
    }
    }
}

static void describe(struct random *p, const struct cpu_device *dev, const struct eo_node_view *node)
{
    const struct eo_tensor_desc *y = node->out[0];
    const struct eo_op_schema *op = node->op;
    p->dtype = y->dtype;
    p->size = (int64_t)eo_dtype_size(p->dtype);
    p->count = eo_tensor_desc_count(y);
    p->vec = dev->vec->random;
    p->fill = (*dev->vec->elementwise)[EO_OP_EXPAND][p->dtype];
    p->row = 1;
    for (int d = 1; d < y->n_dims; d++)
        p->row *= y->shape[d];
    if (op->op == EO_OP_FULL) {
        set_value(p, eo_attr_float(op, node->attrs, "value"));
        return;
    }
    p->stream = (uint32_t)eo_attr_int(op, node->attrs, "stream");
    p->a = eo_attr_float(op, node->attrs, op->op == EO_OP_DROPOUT ? "p" : op->op == EO_OP_UNIFORM ? "low" : "mean");
    if (op->op != EO_OP_DROPOUT)
        p->b = eo_attr_float(op, node->attrs, op->op == EO_OP_UNIFORM ? "high" : "std");
}

int random_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_op op = node->op->op;
    enum eo_dtype dtype = node->out[0]->dtype;
    struct random *p = NULL;
    if (op == EO_OP_DROPOUT && !dev->vec->random->dropout[dtype])
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name(dtype));
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    describe(p, dev, node);
    cpu_run_fn runs = op == EO_OP_FULL      ? full_run
                      : op == EO_OP_UNIFORM ? uniform_run
                      : op == EO_OP_NORMAL  ? normal_run
                                            : dropout_run;
    cpu_node_finish(&p->node, runs, out, "%s.%s.%s", node->op->name, eo_dtype_name(dtype), dev->vec->name);
    out->in_place = op == EO_OP_DROPOUT ? 1 : 0;
    return EO_OK;
}
