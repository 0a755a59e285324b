/* Reductions and cumulative sums. Sums run in float64 with their rounding errors carried along (integers in 64 bits),
 * in C order of the reduced elements. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"
#include "proto/shape_rules.h"

#include <math.h>

/* Visits the results (outer) and, for each, the elements of x that fold into it (inner); operand 0 of both is x. */
struct fold {
    struct walk outer, inner;
};

static void fold_init(struct fold *f, const struct eo_tensor_desc *x, const bool reduced[EO_MAX_DIMS])
{
    int64_t dense[EO_MAX_DIMS], shape[2][EO_MAX_DIMS], stride[2][EO_MAX_DIMS];
    int n[2] = {0, 0};
    walk_dense_strides(x, dense);
    for (int d = 0; d < x->n_dims; d++) {
        int side = reduced[d] ? 1 : 0;
        shape[side][n[side]] = x->shape[d];
        stride[side][n[side]++] = dense[d];
    }
    walk_init(&f->outer, shape[0], n[0]);
    walk_strided(&f->outer, stride[0], 0);
    walk_init(&f->inner, shape[1], n[1]);
    walk_strided(&f->inner, stride[1], 0);
}

static int fold_axes(const struct eo_launch *l, struct fold *f, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0];
    int n_axes = 0, n = 0, axes[EO_MAX_DIMS];
    const int64_t *wanted = eo_attr_ints(l->node->op, l->node->attrs, "axes", &n_axes);
    int rc = eo_normalize_axes(wanted, n_axes, x->n_dims, axes, &n, l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    bool reduced[EO_MAX_DIMS] = {false};
    for (int i = 0; i < n; i++)
        reduced[axes[i]] = true;
    fold_init(f, x, reduced);
    return EO_OK;
}

static int fold_axis(const struct eo_launch *l, struct fold *f, struct eo_error *err)
{
    const struct eo_tensor_desc *x = l->node->in[0];
    int axis = 0;
    int rc =
        eo_normalize_axis(eo_attr_int(l->node->op, l->node->attrs, "axis"), x->n_dims, &axis, l->node->op->name, err);
    if (rc != EO_OK)
        return rc;
    bool reduced[EO_MAX_DIMS] = {false};
    reduced[axis] = true;
    fold_init(f, x, reduced);
    return EO_OK;
}

static int64_t fold_at(const struct fold *f)
{
    return f->outer.offset[0] + f->inner.offset[0];
}

/* A sum and what rounding took from it (A. Neumaier, 1974): within an ulp or so for any number of terms. */
struct exact_sum {
    double total, lost;
};

static void add_term(struct exact_sum *s, double x)
{
    double next = s->total + x;
    s->lost += fabs(s->total) >= fabs(x) ? (s->total - next) + x : (x - next) + s->total;
    s->total = next;
}

static double value_of(const struct exact_sum *s)
{
    return isfinite(s->total) ? s->total + s->lost : s->total;
}

static uint64_t bits_of(struct element e)
{
    return e.kind == EO_KIND_SIGNED ? (uint64_t)e.v.i : e.v.u;
}

/* A 64-bit result of integers as an element; its low bits are what counts. */
static struct element integer_of(enum eo_dtype dtype, uint64_t bits)
{
    return eo_dtype_kind(dtype) == EO_KIND_SIGNED ? element_signed((int64_t)bits) : element_unsigned(bits);
}

static struct element sum_of(const void *x, enum eo_dtype dtype, struct fold *f)
{
    struct exact_sum total = {0, 0};
    uint64_t bits = 0;
    for (walk_rewind(&f->inner); walk_more(&f->inner); walk_next(&f->inner)) {
        struct element e = element_get(x, dtype, fold_at(f));
        if (e.kind == EO_KIND_FLOAT)
            add_term(&total, e.v.f);
        else
            bits += bits_of(e);
    }
    return eo_dtype_kind(dtype) == EO_KIND_FLOAT ? element_float(value_of(&total)) : integer_of(dtype, bits);
}

int reference_sum(const struct eo_launch *l, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer))
        element_set(l->out[0], dtype, f.outer.linear, sum_of(l->in[0], dtype, &f));
    return EO_OK;
}

int reference_mean(const struct eo_launch *l, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        double total = sum_of(l->in[0], dtype, &f).v.f;
        element_set_float(l->out[0], dtype, f.outer.linear, total / (double)f.inner.count);
    }
    return EO_OK;
}

/* Two passes: the mean first, then the squared distances from it. */
int reference_variance(const struct eo_launch *l, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    int64_t correction = eo_attr_int(l->node->op, l->node->attrs, "correction");
    double divisor = f.inner.count > correction ? (double)(f.inner.count - correction) : 0;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        double mean = sum_of(l->in[0], dtype, &f).v.f / (double)f.inner.count;
        struct exact_sum total = {0, 0};
        for (walk_rewind(&f.inner); walk_more(&f.inner); walk_next(&f.inner)) {
            double distance = element_get_float(l->in[0], dtype, fold_at(&f)) - mean;
            add_term(&total, distance * distance);
        }
        element_set_float(l->out[0], dtype, f.outer.linear, value_of(&total) / divisor);
    }
    return EO_OK;
}

int reference_prod(const struct eo_launch *l, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        double product = 1;
        uint64_t bits = 1;
        for (walk_rewind(&f.inner); walk_more(&f.inner); walk_next(&f.inner)) {
            struct element e = element_get(l->in[0], dtype, fold_at(&f));
            if (e.kind == EO_KIND_FLOAT)
                product *= e.v.f;
            else
                bits *= bits_of(e);
        }
        bool is_float = eo_dtype_kind(dtype) == EO_KIND_FLOAT;
        element_set(l->out[0], dtype, f.outer.linear, is_float ? element_float(product) : integer_of(dtype, bits));
    }
    return EO_OK;
}

/* Whether an element that is `wanted` occurs: any looks for true, all for false. */
static int search(const struct eo_launch *l, bool wanted, struct eo_error *err)
{
    struct fold f;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        bool found = false;
        for (walk_rewind(&f.inner); walk_more(&f.inner); walk_next(&f.inner))
            found |= (element_get(l->in[0], EO_BOOL, fold_at(&f)).v.u != 0) == wanted;
        element_set(l->out[0], EO_BOOL, f.outer.linear, element_bool(found == wanted));
    }
    return EO_OK;
}

int reference_any(const struct eo_launch *l, struct eo_error *err)
{
    return search(l, true, err);
}

int reference_all(const struct eo_launch *l, struct eo_error *err)
{
    return search(l, false, err);
}

static struct element running_total(enum eo_dtype dtype, const struct exact_sum *total, uint64_t bits)
{
    return eo_dtype_kind(dtype) == EO_KIND_FLOAT ? element_float(value_of(total)) : integer_of(dtype, bits);
}

int reference_cumulative_sum(const struct eo_launch *l, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    bool exclusive = eo_attr_int(l->node->op, l->node->attrs, "exclusive") != 0;
    bool reverse = eo_attr_int(l->node->op, l->node->attrs, "reverse") != 0;
    int rc = fold_axis(l, &f, err);
    if (rc != EO_OK)
        return rc;
    int64_t n = f.inner.count, stride = f.inner.stride[0][0];
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        struct exact_sum total = {0, 0};
        uint64_t bits = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = f.outer.offset[0] + (reverse ? n - 1 - i : i) * stride;
            struct element e = element_get(l->in[0], dtype, at);
            if (exclusive)
                element_set(l->out[0], dtype, at, running_total(dtype, &total, bits));
            if (e.kind == EO_KIND_FLOAT)
                add_term(&total, e.v.f);
            else
                bits += bits_of(e);
            if (!exclusive)
                element_set(l->out[0], dtype, at, running_total(dtype, &total, bits));
        }
    }
    return EO_OK;
}

/* Does b take the place of the best element so far, a? The first NaN wins and stays; equal elements do not replace. */
static bool is_better(struct element a, struct element b, bool largest)
{
    switch (a.kind) {
    case EO_KIND_FLOAT:
        return !isnan(a.v.f) && (isnan(b.v.f) || (largest ? b.v.f > a.v.f : b.v.f < a.v.f));
    case EO_KIND_SIGNED:
        return largest ? b.v.i > a.v.i : b.v.i < a.v.i;
    case EO_KIND_UNSIGNED:
    case EO_KIND_BOOL:
        break;
    }
    return largest ? b.v.u > a.v.u : b.v.u < a.v.u;
}

/* Neither is better, and no NaN stands against a number. */
static bool is_tie(struct element a, struct element b)
{
    return !is_better(a, b, true) && !is_better(b, a, true) &&
           (a.kind != EO_KIND_FLOAT || isnan(a.v.f) == isnan(b.v.f));
}

static int64_t best_of(const void *x, enum eo_dtype dtype, struct fold *f, bool largest, bool last,
                       struct element *out_best)
{
    int64_t at = 0;
    struct element best = element_get(x, dtype, f->outer.offset[0]);
    for (walk_rewind(&f->inner); walk_more(&f->inner); walk_next(&f->inner)) {
        struct element e = element_get(x, dtype, fold_at(f));
        if (is_better(best, e, largest) || (last && is_tie(best, e))) {
            best = e;
            at = f->inner.linear;
        }
    }
    *out_best = best;
    return at;
}

static int extreme(const struct eo_launch *l, bool largest, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axes(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        struct element best;
        best_of(l->in[0], dtype, &f, largest, false, &best);
        element_set(l->out[0], dtype, f.outer.linear, best);
    }
    return EO_OK;
}

static int arg_extreme(const struct eo_launch *l, bool largest, struct eo_error *err)
{
    struct fold f;
    bool last = eo_attr_int(l->node->op, l->node->attrs, "last") != 0;
    int rc = fold_axis(l, &f, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        struct element best;
        int64_t at = best_of(l->in[0], l->node->in[0]->dtype, &f, largest, last, &best);
        element_set(l->out[0], EO_INT64, f.outer.linear, element_signed(at));
    }
    return EO_OK;
}

int reference_max(const struct eo_launch *l, struct eo_error *err)
{
    return extreme(l, true, err);
}

int reference_min(const struct eo_launch *l, struct eo_error *err)
{
    return extreme(l, false, err);
}

int reference_arg_max(const struct eo_launch *l, struct eo_error *err)
{
    return arg_extreme(l, true, err);
}

int reference_arg_min(const struct eo_launch *l, struct eo_error *err)
{
    return arg_extreme(l, false, err);
}

/* Largest value along the axis and log of the sum of exp(x - largest). A row of -inf only gives NaN, as its softmax
 * must. */
static double row_statistics(const void *x, enum eo_dtype dtype, struct fold *f, double *out_largest)
{
    struct element best;
    double total = 0;
    best_of(x, dtype, f, true, false, &best);
    for (walk_rewind(&f->inner); walk_more(&f->inner); walk_next(&f->inner))
        total += exp(element_get_float(x, dtype, fold_at(f)) - best.v.f);
    *out_largest = best.v.f;
    return total;
}

static int softmax_rows(const struct eo_launch *l, bool logarithm, struct eo_error *err)
{
    struct fold f;
    enum eo_dtype dtype = l->node->in[0]->dtype;
    int rc = fold_axis(l, &f, err);
    if (rc != EO_OK || eo_tensor_desc_count(l->node->in[0]) == 0)
        return rc;
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        double largest = 0, total = row_statistics(l->in[0], dtype, &f, &largest);
        for (walk_rewind(&f.inner); walk_more(&f.inner); walk_next(&f.inner)) {
            double x = element_get_float(l->in[0], dtype, fold_at(&f)) - largest;
            element_set_float(l->out[0], dtype, fold_at(&f), logarithm ? x - log(total) : exp(x) / total);
        }
    }
    return EO_OK;
}

int reference_softmax(const struct eo_launch *l, struct eo_error *err)
{
    return softmax_rows(l, false, err);
}

int reference_log_softmax(const struct eo_launch *l, struct eo_error *err)
{
    return softmax_rows(l, true, err);
}

/* logits (N,C), targets (N) -> losses (N) */
int reference_cross_entropy(const struct eo_launch *l, struct eo_error *err)
{
    const struct eo_tensor_desc *logits = l->node->in[0];
    const int64_t *targets = l->in[1];
    int64_t n_classes = logits->shape[1];
    struct fold f;
    fold_init(&f, logits, (const bool[EO_MAX_DIMS]){false, true});
    for (int64_t n = 0; n < logits->shape[0]; n++) {
        if (targets[n] < 0 || targets[n] >= n_classes)
            return EO_RAISE(err, EO_E_BAD_VALUE, "target %lld of row %lld is outside 0..%lld", (long long)targets[n],
                            (long long)n, (long long)n_classes - 1);
    }
    for (; walk_more(&f.outer); walk_next(&f.outer)) {
        double largest = 0, total = row_statistics(l->in[0], logits->dtype, &f, &largest);
        double x = element_get_float(l->in[0], logits->dtype, f.outer.offset[0] + targets[f.outer.linear]);
        element_set_float(l->out[0], logits->dtype, f.outer.linear, log(total) - (x - largest));
    }
    return EO_OK;
}
