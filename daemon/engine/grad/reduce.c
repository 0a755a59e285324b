/* Gradients of the reductions. All work on g (and y) brought back to the rank of x with size 1 in the reduced axes. */
#include "daemon/engine/grad/rules.h"

#include <math.h>

/* Which axes of x the node reduces, over how many elements, and x's shape with those axes of size 1. */
struct reduction {
    struct eo_tensor_desc x;
    int64_t axes[EO_MAX_DIMS];
    int n_axes;
    int64_t kept[EO_MAX_DIMS];
    double count;
};

static struct reduction reduction_of(const struct grad_site *s)
{
    struct reduction r = {.x = site_desc(s, site_x(s, 0)), .count = 1};
    int axes[EO_MAX_DIMS], n_given;
    const int64_t *given = eo_attr_ints(s->node->op, s->node->attrs, "axes", &n_given);

    /* The node passed this check when it was added. */
    (void)eo_normalize_axes(given, n_given, r.x.n_dims, axes, &r.n_axes, s->node->op->name, NULL);
    for (int d = 0; d < r.x.n_dims; d++) {
        r.kept[d] = r.x.shape[d];
    }
    for (int i = 0; i < r.n_axes; i++) {
        r.axes[i] = axes[i];
        r.kept[axes[i]] = 1;
        r.count *= (double)r.x.shape[axes[i]];
    }
    return r;
}

static eo_value keep_dims(const struct grad_site *s, const struct reduction *r, eo_value v)
{
    return eo_build_reshape(s->b, v, r->kept, r->x.n_dims);
}

static void give_expanded(const struct grad_site *s, const struct reduction *r, eo_value g)
{
    s->in_grads[0] = eo_build_expand(s->b, g, r->x.shape, r->x.n_dims);
}

void grad_sum(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);

    give_expanded(s, &r, keep_dims(s, &r, site_g(s)));
}

/* Divisors are counts, which 16-bit floats do not hold: such dtypes divide in float32 and round once. */
static enum eo_dtype wide_dtype(const struct reduction *r)
{
    return eo_dtype_size((enum eo_dtype)r->x.dtype) == 2 ? EO_FLOAT32 : (enum eo_dtype)r->x.dtype;
}

static eo_value wide_g(const struct grad_site *s, const struct reduction *r)
{
    return eo_build_cast(s->b, keep_dims(s, r, site_g(s)), wide_dtype(r));
}

static eo_value narrow(const struct grad_site *s, const struct reduction *r, eo_value v)
{
    return eo_build_cast(s->b, v, (enum eo_dtype)r->x.dtype);
}

void grad_mean(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    eo_value count = eo_build_scalar(s->b, wide_dtype(&r), r.count);

    give_expanded(s, &r, narrow(s, &r, emit_div(s, wide_g(s, &r), count)));
}

/* 2 (x - mean) / max(count - correction, 0); the divisor 0 gives inf or NaN, as the forward value has it. */
void grad_variance(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    double divisor = r.count - (double)eo_attr_int(s->node->op, s->node->attrs, "correction");
    eo_value scale = eo_build_scalar(s->b, wide_dtype(&r), divisor > 0 ? 2 / divisor : INFINITY);
    eo_value x = site_x(s, 0);
    eo_value distance = emit_sub(s, x, eo_build_reduce(s->b, EO_OP_MEAN, x, r.axes, r.n_axes, true));

    site_give(s, 0, emit_mul(s, distance, narrow(s, &r, emit_mul(s, wide_g(s, &r), scale))));
}

/* All elements that equal the extreme share g equally, as PyTorch's amax and amin do. NaN equals nothing: 0 * (g / 0)
 * is NaN for all elements under it. */
static void share_between_extremes(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    eo_value hit = eo_build_binary(s->b, EO_OP_EQUAL, site_x(s, 0), keep_dims(s, &r, site_y(s)));
    eo_value hits = eo_build_cast(s->b, hit, wide_dtype(&r));
    eo_value count = eo_build_reduce(s->b, EO_OP_SUM, hits, r.axes, r.n_axes, true);
    eo_value share = narrow(s, &r, emit_div(s, wide_g(s, &r), count));

    site_give(s, 0, emit_mul(s, narrow(s, &r, hit), share));
}

void grad_max(const struct grad_site *s)
{
    share_between_extremes(s);
}

void grad_min(const struct grad_site *s)
{
    share_between_extremes(s);
}

/* ---- products ---- */

enum { PROD_LEVELS = 63 };

/* x with the reduced axes last and laid out as one: (rows, n). perm receives the order. */
static eo_value rows_of(const struct grad_site *s, const struct reduction *r, int64_t rows, eo_value x, int64_t *perm)
{
    int n = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < r->x.n_dims; d++) {
            bool reduced = false;

            for (int i = 0; i < r->n_axes; i++) {
                reduced |= r->axes[i] == d;
            }
            if (reduced == (pass == 1)) {
                perm[n++] = d;
            }
        }
    }
    return eo_build_reshape(s->b, eo_build_transpose(s->b, x, perm, n), (int64_t[]){rows, -1}, 2);
}

/* Undoes rows_of. */
static eo_value unrows(const struct grad_site *s, const struct reduction *r, eo_value v, const int64_t *perm)
{
    int64_t shape[EO_MAX_DIMS], inverse[EO_MAX_DIMS];

    for (int i = 0; i < r->x.n_dims; i++) {
        shape[i] = r->x.shape[perm[i]];
        inverse[perm[i]] = i;
    }
    return eo_build_transpose(s->b, eo_build_reshape(s->b, v, shape, r->x.n_dims), inverse, r->x.n_dims);
}

/* Columns from..to-1 of v (rows, n). */
static eo_value columns(const struct grad_site *s, eo_value v, int64_t rows, int64_t from, int64_t to)
{
    const struct eo_op_schema *slice = eo_op_schema(EO_OP_SLICE);
    struct eo_attrs attrs;

    eo_attrs_default(slice, &attrs);
    if (s->b->status == EO_OK &&
        (eo_attrs_set_ints(slice, &attrs, "starts", (int64_t[]){0, from}, 2, s->b->err) != EO_OK ||
         eo_attrs_set_ints(slice, &attrs, "stops", (int64_t[]){rows, to}, 2, s->b->err) != EO_OK)) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    return eo_build_op(s->b, EO_OP_SLICE, &v, 1, &attrs);
}

/* Parts (rows, n_i) side by side; a part may be EO_NO_VALUE. */
static eo_value beside(const struct grad_site *s, const eo_value *parts, int n_parts)
{
    const struct eo_op_schema *concatenate = eo_op_schema(EO_OP_CONCATENATE);
    struct eo_attrs attrs;
    eo_value in[3];
    int n = 0;

    for (int i = 0; i < n_parts; i++) {
        if (parts[i] != EO_NO_VALUE) {
            in[n++] = parts[i];
        }
    }
    eo_attrs_default(concatenate, &attrs);
    if (s->b->status == EO_OK && eo_attrs_set_int(concatenate, &attrs, "axis", 1, s->b->err) != EO_OK) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    return n == 1 ? in[0] : eo_build_op(s->b, EO_OP_CONCATENATE, in, n, &attrs);
}

/* A level of the tree: v (rows, n) is its halves a and b and, of an odd n, the last column. */
struct prod_level {
    eo_value a, b, odd;
};

/* g times the product of all other columns, for each column of v (rows, n): a tree of products of halves going up, and
 * of what is outside each half coming down. Nothing is divided, so zeros need no cases, and the result is a polynomial
 * whose derivatives of any order are exact; all levels together cost a few passes over v. */
static eo_value others(const struct grad_site *s, eo_value v, int64_t rows, int64_t n, eo_value g)
{
    struct prod_level levels[PROD_LEVELS];
    int depth = 0;

    for (; n > 1; depth++) {
        struct prod_level *l = &levels[depth];
        int64_t half = n / 2;

        l->a = columns(s, v, rows, 0, half);
        l->b = columns(s, v, rows, half, 2 * half);
        l->odd = n % 2 != 0 ? columns(s, v, rows, 2 * half, n) : EO_NO_VALUE;
        v = beside(s, (eo_value[]){emit_mul(s, l->a, l->b), l->odd}, 2);
        n = half + n % 2;
    }
    while (depth-- > 0) {
        const struct prod_level *l = &levels[depth];
        struct eo_tensor_desc a = site_desc(s, l->a);
        int64_t half = a.n_dims == 2 ? a.shape[1] : 0;
        eo_value outside = l->odd == EO_NO_VALUE ? g : columns(s, g, rows, 0, half);
        eo_value odd = l->odd == EO_NO_VALUE ? EO_NO_VALUE : columns(s, g, rows, half, half + 1);

        g = beside(s, (eo_value[]){emit_mul(s, outside, l->b), emit_mul(s, outside, l->a), odd}, 3);
    }
    return g;
}

void grad_prod(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    int64_t perm[EO_MAX_DIMS], n = 1, rows = 1;
    eo_value x, g;

    if (eo_tensor_desc_count(&r.x) == 0) {
        s->in_grads[0] = eo_build_full_like(s->b, site_x(s, 0), 0);
        return;
    }
    for (int d = 0; d < r.x.n_dims; d++) {
        rows *= r.kept[d];
        n *= r.x.shape[d] / r.kept[d]; /* 1 where the axis is kept */
    }
    x = rows_of(s, &r, rows, eo_build_cast(s->b, site_x(s, 0), wide_dtype(&r)), perm);
    g = eo_build_reshape(s->b, eo_build_cast(s->b, site_g(s), wide_dtype(&r)), (int64_t[]){rows, 1}, 2);
    s->in_grads[0] = narrow(s, &r, unrows(s, &r, others(s, x, rows, n, g), perm));
}

/* ---- norms and the like ---- */

/* x / y, 0 where the norm y is 0. */
void grad_l2_norm(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    eo_value x = site_x(s, 0), y = keep_dims(s, &r, site_y(s)), one = emit_scalar(s, 1), zero = emit_scalar(s, 0);
    eo_value flat = eo_build_binary(s->b, EO_OP_EQUAL, y, zero);
    eo_value direction = emit_div(s, x, eo_build_where(s->b, flat, one, y));

    site_give(s, 0, emit_mul(s, keep_dims(s, &r, site_g(s)), direction));
}

/* softmax(x) over the reduced axes, worked out again from x: the result, rounded to its dtype, is too coarse for
 * exp(x - y) where it is large. Where all elements are -inf the gradient is 0. */
void grad_log_sum_exp(const struct grad_site *s)
{
    struct reduction r = reduction_of(s);
    eo_value x = eo_build_cast(s->b, site_x(s, 0), wide_dtype(&r)), m, e, sum, flat, zero, one;

    if (eo_tensor_desc_count(&r.x) == 0) {
        s->in_grads[0] = eo_build_full_like(s->b, site_x(s, 0), 0);
        return;
    }
    zero = eo_build_scalar(s->b, wide_dtype(&r), 0);
    one = eo_build_scalar(s->b, wide_dtype(&r), 1);
    m = eo_build_reduce(s->b, EO_OP_MAX, x, r.axes, r.n_axes, true);
    m = eo_build_where(s->b, eo_build_unary(s->b, EO_OP_ISFINITE, m), m, zero);
    e = eo_build_unary(s->b, EO_OP_EXP, emit_sub(s, x, m));
    sum = eo_build_reduce(s->b, EO_OP_SUM, e, r.axes, r.n_axes, true);
    flat = eo_build_binary(s->b, EO_OP_EQUAL, sum, zero);
    e = emit_div(s, e, eo_build_where(s->b, flat, one, sum));
    s->in_grads[0] = narrow(s, &r, emit_mul(s, wide_g(s, &r), e));
}

/* An element counts in the results behind it: the sum of g from the other end. */
void grad_cumulative_sum(const struct grad_site *s)
{
    struct eo_attrs attrs = *s->node->attrs;
    const struct eo_op_schema *op = s->node->op;
    eo_value g = site_g(s);

    attrs.v[eo_attr_index(op, "reverse")].i = eo_attr_int(op, &attrs, "reverse") == 0 ? 1 : 0;
    s->in_grads[0] = eo_build_op(s->b, EO_OP_CUMULATIVE_SUM, &g, 1, &attrs);
}

/* ---- order ---- */

/* Each result is one element of x: its gradient goes back there. */
static void scatter_back(const struct grad_site *s)
{
    const struct eo_op_schema *scatter = eo_op_schema(EO_OP_SCATTER_ELEMENTS);
    eo_value indices = s->node->first_output + 1;
    eo_value in[3] = {eo_build_full_like(s->b, site_x(s, 0), 0), indices, site_g(s)};
    struct eo_attrs attrs;

    eo_attrs_default(scatter, &attrs);
    if (s->b->status == EO_OK &&
        (eo_attrs_set_int(scatter, &attrs, "axis", eo_attr_int(s->node->op, s->node->attrs, "axis"), s->b->err) !=
             EO_OK ||
         eo_attrs_set_text(scatter, &attrs, "reduction", "add", s->b->err) != EO_OK)) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    s->in_grads[0] = eo_build_op(s->b, EO_OP_SCATTER_ELEMENTS, in, 3, &attrs);
}

void grad_top_k(const struct grad_site *s)
{
    scatter_back(s);
}

void grad_sort(const struct grad_site *s)
{
    scatter_back(s);
}
