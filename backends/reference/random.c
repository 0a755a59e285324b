/* Random rows. Random numbers are a pure function of (seed, step, stream, global element index):
 * proto/philox.h. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "proto/philox.h"

/* Global index of the first element of y: rows are entries of dimension 0. */
static uint64_t first_index(const struct eo_tensor_desc *y, const int64_t *rng)
{
    int64_t row = 1;
    for (int d = 1; d < y->n_dims; d++)
        row *= y->shape[d];
    return eo_rng_first_index(rng[EO_RNG_ROW_OFFSET], row);
}

int reference_uniform(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    const int64_t *rng = l->in[0];
    double low = eo_attr_float(l->node->op, l->node->attrs, "low");
    double high = eo_attr_float(l->node->op, l->node->attrs, "high");
    uint32_t stream = (uint32_t)eo_attr_int(l->node->op, l->node->attrs, "stream");
    uint64_t first = first_index(y, rng);
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++)
        element_set_float(
            l->out[0], y->dtype, i,
            eo_rng_uniform(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, first + (uint64_t)i, y->dtype, low, high));
    return EO_OK;
}

int reference_normal(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    const int64_t *rng = l->in[0];
    double mean = eo_attr_float(l->node->op, l->node->attrs, "mean");
    double std = eo_attr_float(l->node->op, l->node->attrs, "std");
    uint32_t stream = (uint32_t)eo_attr_int(l->node->op, l->node->attrs, "stream");
    uint64_t first = first_index(y, rng);
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++)
        element_set_float(l->out[0], y->dtype, i,
                          eo_rng_normal(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, first + (uint64_t)i, mean, std));
    return EO_OK;
}

/* The row computes in float32, or in float64 for float64: divisor and quotient are values of that dtype. */
static double dropped(double x, double divisor, enum eo_dtype dtype)
{
    return dtype == EO_FLOAT64 ? x / divisor : (double)(float)(x / divisor);
}

int reference_dropout(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    const int64_t *rng = l->in[1];
    double p = eo_attr_float(l->node->op, l->node->attrs, "p");
    double divisor = y->dtype == EO_FLOAT64 ? 1 - p : (double)(float)(1 - p);
    uint32_t stream = (uint32_t)eo_attr_int(l->node->op, l->node->attrs, "stream");
    uint32_t threshold = eo_rng_drop_threshold(p);
    uint64_t first = first_index(y, rng);
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++) {
        bool keep = eo_rng_keep(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, first + (uint64_t)i, threshold);
        double x = element_get_float(l->in[0], y->dtype, i);
        element_set_float(l->out[0], y->dtype, i, keep ? dropped(x, divisor, y->dtype) : 0);
    }
    return EO_OK;
}

int reference_bernoulli(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    const int64_t *rng = l->in[0];
    uint64_t threshold = eo_rng_bernoulli_threshold(eo_attr_float(l->node->op, l->node->attrs, "p"));
    uint32_t stream = (uint32_t)eo_attr_int(l->node->op, l->node->attrs, "stream");
    uint64_t first = first_index(y, rng);
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++) {
        bool one = eo_rng_word(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, first + (uint64_t)i) < threshold;
        element_set(l->out[0], y->dtype, i, element_from_double(one, y->dtype));
    }
    return EO_OK;
}

/* Order of two elements by (key, number). */
static bool comes_before(const int64_t *rng, uint32_t stream, int64_t a, int64_t b)
{
    uint64_t key_a = eo_rng_key(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, (uint64_t)a);
    uint64_t key_b = eo_rng_key(rng[EO_RNG_SEED], rng[EO_RNG_STEP], stream, (uint64_t)b);
    return key_a != key_b ? key_a < key_b : a < b;
}

/* Lets the element at `root` of the heap y[0..n) sink to its place; the last one of the order is on top. */
static void sink(int64_t *y, int64_t root, int64_t n, const int64_t *rng, uint32_t stream)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && comes_before(rng, stream, y[child], y[child + 1]))
            child++;
        if (!comes_before(rng, stream, y[root], y[child]))
            return;
        int64_t top = y[root];
        y[root] = y[child];
        y[child] = top;
    }
}

/* Heap sort: in place, so that nothing has to be allocated; keys are drawn again for every comparison. */
int reference_permutation(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const int64_t *rng = l->in[0];
    int64_t *y = l->out[0], n = eo_tensor_desc_count(l->node->out[0]);
    uint32_t stream = (uint32_t)eo_attr_int(l->node->op, l->node->attrs, "stream");
    for (int64_t i = 0; i < n; i++)
        y[i] = i;
    for (int64_t root = n / 2; root-- > 0;)
        sink(y, root, n, rng, stream);
    for (int64_t last = n - 1; last > 0; last--) {
        int64_t top = y[0];
        y[0] = y[last];
        y[last] = top;
        sink(y, 0, last, rng, stream);
    }
    return EO_OK;
}
