/* uniform, normal, bernoulli, permutation and dropout. Numbers are a pure function of seed, step, stream and element
 * (proto/philox.h). */
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
    vector_map_fn from_bytes; /* cast of 0 and 1 to the dtype: bernoulli */
};

struct job {
    const struct random *p;
    const struct eo_launch *l;
    struct vector_rng rng;
};

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

static void bernoulli_range(void *context, int64_t begin, int64_t end, int thread)
{
    enum { BLOCK = 256 };
    (void)thread;
    const struct job *j = context;
    const struct random *p = j->p;
    const uint64_t threshold = eo_rng_bernoulli_threshold(p->a);
    for (int64_t first = begin; first < end; first += BLOCK) {
        uint32_t words[BLOCK];
        uint8_t ones[BLOCK];
        const int64_t n = EO_MIN(end - first, (int64_t)BLOCK);
        struct vector_rng g = rng_at(j, first);
        p->vec->words(n, words, &g);
        for (int64_t i = 0; i < n; i++)
            ones[i] = words[i] < threshold;
        p->from_bytes(n, (char *)j->l->out[0] + first * p->size, (const void *const[]){ones}, 0, NULL);
    }
}

/* One pass of a radix sort: places `from` in `to` by byte number `byte` of the keys, keeping the order of equals. */
struct keyed {
    uint64_t key;
    int64_t number;
};
static void sort_pass(int64_t n, struct keyed *to, const struct keyed *from, int byte)
{
    int64_t start[256] = {0}, at = 0;
    for (int64_t i = 0; i < n; i++)
        start[from[i].key >> (8 * byte) & 255]++;
    for (int b = 0; b < 256; b++) {
        int64_t count = start[b];
        start[b] = at;
        at += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[start[from[i].key >> (8 * byte) & 255]++] = from[i];
}

/* Elements in the order of their keys. The keys are drawn in pairs of words, as eo_rng_key does. */
static int permutation_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    enum { BLOCK = 128 };
    (void)dev;
    (void)err;
    const struct random *p = l->state;
    const int64_t *rng = l->in[0], n = p->count;
    int64_t *order = l->out[0];
    struct keyed *keyed = l->workspace, *spare = keyed + n;
    for (int64_t first = 0; first < n; first += BLOCK) {
        uint32_t words[2 * BLOCK];
        const int64_t m = EO_MIN(n - first, (int64_t)BLOCK);
        struct vector_rng g = {rng[EO_RNG_SEED], rng[EO_RNG_STEP], p->stream, 2 * (uint64_t)first};
        p->vec->words(2 * m, words, &g);
        for (int64_t i = 0; i < m; i++)
            keyed[first + i] = (struct keyed){(uint64_t)words[2 * i] << 32 | words[2 * i + 1], first + i};
    }
    for (int byte = 0; byte < 8; byte += 2) {
        sort_pass(n, spare, keyed, byte);
        sort_pass(n, keyed, spare, byte + 1);
    }
    for (int64_t i = 0; i < n; i++)
        order[i] = keyed[i].number;
    return EO_OK;
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

static int bernoulli_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    return run(dev, l, bernoulli_range, 5, l->in[0]);
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

static void describe(struct random *p, const struct cpu_device *dev, const struct eo_node_view *node)
{
    const struct eo_tensor_desc *y = node->out[0];
    const struct eo_op_schema *op = node->op;
    p->dtype = y->dtype;
    p->size = (int64_t)eo_dtype_size(p->dtype);
    p->count = eo_tensor_desc_count(y);
    p->vec = dev->vec->random;
    p->from_bytes = (*dev->vec->cast)[EO_UINT8][p->dtype];
    p->row = 1;
    for (int d = 1; d < y->n_dims; d++)
        p->row *= y->shape[d];
    p->stream = (uint32_t)eo_attr_int(op, node->attrs, "stream");
    if (op->op == EO_OP_UNIFORM || op->op == EO_OP_NORMAL) {
        p->a = eo_attr_float(op, node->attrs, op->op == EO_OP_UNIFORM ? "low" : "mean");
        p->b = eo_attr_float(op, node->attrs, op->op == EO_OP_UNIFORM ? "high" : "std");
    } else if (op->op != EO_OP_PERMUTATION) {
        p->a = eo_attr_float(op, node->attrs, "p");
    }
}

static cpu_run_fn run_of(enum eo_op op)
{
    switch (op) {
    case EO_OP_UNIFORM:
        return uniform_run;
    case EO_OP_NORMAL:
        return normal_run;
    case EO_OP_BERNOULLI:
        return bernoulli_run;
    case EO_OP_PERMUTATION:
        return permutation_run;
    default:
        return dropout_run;
    }
}

int random_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_op op = node->op->op;
    enum eo_dtype dtype = node->out[0]->dtype;
    struct random *p = NULL;
    if (op == EO_OP_DROPOUT && !dev->vec->random->dropout[dtype])
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name(dtype));
    if (op == EO_OP_PERMUTATION && node->out[0]->shape[0] > INT64_MAX / (int64_t)(2 * sizeof(struct keyed)))
        return cpu_decline(why, node->op->name, "cannot count the bytes of its keys");
    int rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    describe(p, dev, node);
    cpu_node_finish(&p->node, run_of(op), out, "%s.%s.%s", node->op->name, eo_dtype_name(dtype), dev->vec->name);
    out->in_place = op == EO_OP_DROPOUT ? 1 : 0;
    if (op == EO_OP_PERMUTATION)
        out->workspace_bytes = 2 * (uint64_t)p->count * sizeof(struct keyed);
    return EO_OK;
}
