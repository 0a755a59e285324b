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
