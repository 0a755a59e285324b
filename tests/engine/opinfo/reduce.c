/* Reductions and the softmax family. */
#include "tests/engine/opinfo/sample.h"

#include <math.h>
#include <string.h>

/* Attribute text of axes: those of dim, all when there is none or x is a scalar. */
static const char *axes(const struct sample *s, const json_t *dim, char *text, size_t size)
{
    int64_t list[EO_MAX_DIMS];
    int n = dim == NULL || sample_desc(s, sample_input(s)).n_dims == 0 ? 0 : sample_ints(dim, 1, list);

    return sample_list(list, n, text, size);
}

static eo_value emit_reduce(struct sample *s, enum eo_op op)
{
    char text[64];
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "axes=%s keepdims=%d", axes(s, sample_either(s, 0, "dim"), text, sizeof(text)),
                      json_is_true(sample_either(s, 1, "keepdim")));
}

static eo_value emit_variance(struct sample *s, enum eo_op op)
{
    const json_t *unbiased = sample_kwarg(s, "unbiased");
    char text[64];
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "axes=%s keepdims=%d correction=%d",
                      axes(s, sample_kwarg(s, "dim"), text, sizeof(text)), json_is_true(sample_kwarg(s, "keepdim")),
                      unbiased == NULL || json_is_true(unbiased));
}

static eo_value emit_cumsum(struct sample *s, enum eo_op op)
{
    eo_value x = sample_vector(s, sample_input(s));

    return sample_like_result(s, sample_row(s, op, &x, 1, "axis=%d", (int)sample_arg_int(s, 0)));
}

/* ---- norms ---- */

/* (sum |x|^p)^(1/p) over axes; the rows for 1, 2 and the infinities, a count for 0. */
static eo_value norm(struct sample *s, eo_value x, double p, const char *over, bool keepdims)
{
    eo_value size = sample_one(s, EO_OP_ABS, x);

    if (p == 2 || p == 1) {
        return sample_row(s, p == 2 ? EO_OP_L2_NORM : EO_OP_L1_NORM, &x, 1, "axes=%s keepdims=%d", over, keepdims);
    }
    if (isinf(p)) {
        return sample_row(s, p > 0 ? EO_OP_MAX : EO_OP_MIN, &size, 1, "axes=%s keepdims=%d", over, keepdims);
    }
    if (p == 0) {
        size = eo_build_cast(&s->b, sample_two(s, EO_OP_NOT_EQUAL, x, sample_scalar(s, 0)), EO_FLOAT64);
        return sample_row(s, EO_OP_SUM, &size, 1, "axes=%s keepdims=%d", over, keepdims);
    }
    size = sample_two(s, EO_OP_POWER, size, sample_scalar(s, p));
    size = sample_row(s, EO_OP_SUM, &size, 1, "axes=%s keepdims=%d", over, keepdims);
    return sample_two(s, EO_OP_POWER, size, sample_scalar(s, 1 / p));
}

static eo_value emit_norm(struct sample *s, enum eo_op op)
{
    const json_t *p = sample_arg(s, 0);
    const char *word = json_is_string(p) ? json_string_value(p) : "";
    bool frobenius = p == NULL || strcmp(word, "fro") == 0;
    char text[64];

    EO_UNUSED(op);
    if (strcmp(word, "nuc") == 0) {
        return sample_leave_out(s, "the nuclear norm needs singular values");
    }
    return norm(s, sample_input(s), frobenius ? 2 : sample_number(p), axes(s, sample_arg(s, 1), text, sizeof(text)),
                false);
}

/* x / max(norm, 1e-12) */
static eo_value emit_normalize(struct sample *s, enum eo_op op)
{
    char text[64];
    eo_value length = norm(s, sample_input(s), sample_kwarg_number(s, "p", 2),
                           axes(s, sample_kwarg(s, "dim"), text, sizeof(text)), true);

    return sample_two(s, op, sample_input(s), sample_two(s, EO_OP_MAXIMUM, length, sample_scalar(s, 1e-12)));
}

/* x y / sqrt(max(x x y y, eps^2)) */
static eo_value emit_cosine(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s), y = sample_arg_tensor(s, 0), pairs[3][2] = {{x, y}, {x, x}, {y, y}}, sums[3];
    double eps = sample_kwarg_number(s, "eps", 1e-8);
    int64_t dim = (int64_t)sample_kwarg_number(s, "dim", 1);
    bool scalar = sample_desc(s, x).n_dims == 0;

    for (int i = 0; i < 3; i++) {
        sums[i] = eo_build_reduce(&s->b, EO_OP_SUM, sample_two(s, EO_OP_MULTIPLY, pairs[i][0], pairs[i][1]), &dim,
                                  scalar ? 0 : 1, false);
    }
    sums[1] = sample_two(s, EO_OP_MULTIPLY, sums[1], sums[2]);
    sums[1] = sample_one(s, EO_OP_SQRT, sample_two(s, EO_OP_MAXIMUM, sums[1], sample_scalar(s, eps * eps)));
    return sample_two(s, op, sums[0], sums[1]);
}

/* ---- the softmax family ---- */

static eo_value emit_softmax(struct sample *s, enum eo_op op)
{
    eo_value x = sample_vector(s, sample_input(s));

    return sample_like_result(s, sample_row(s, op, &x, 1, "axis=%d", (int)sample_arg_int(s, 0)));
}

static eo_value emit_softmin(struct sample *s, enum eo_op op)
{
    eo_value x = sample_vector(s, sample_one(s, EO_OP_NEGATIVE, sample_input(s)));

    return sample_like_result(s, sample_row(s, op, &x, 1, "axis=%d", (int)sample_arg_int(s, 0)));
}

const struct function opinfo_reduce[] = {
    {"sum", NULL, emit_reduce, EO_OP_SUM},
    {"mean", NULL, emit_reduce, EO_OP_MEAN},
    {"amax", NULL, emit_reduce, EO_OP_MAX},
    {"amin", NULL, emit_reduce, EO_OP_MIN},
    {"var", NULL, emit_variance, EO_OP_VARIANCE},
    {"std", NULL, emit_variance, EO_OP_STD},
    {"prod", NULL, emit_reduce, EO_OP_PROD},
    {"logsumexp", NULL, emit_reduce, EO_OP_LOG_SUM_EXP},
    {"cumsum", NULL, emit_cumsum, EO_OP_CUMULATIVE_SUM},
    {"norm", NULL, emit_norm, EO_OP_L2_NORM},
    {"nn.functional.normalize", NULL, emit_normalize, EO_OP_DIVIDE},
    {"nn.functional.cosine_similarity", NULL, emit_cosine, EO_OP_DIVIDE},
    {"softmax", NULL, emit_softmax, EO_OP_SOFTMAX},
    {"log_softmax", NULL, emit_softmax, EO_OP_LOG_SOFTMAX},
    {"nn.functional.softmin", NULL, emit_softmin, EO_OP_SOFTMAX},
    {NULL, NULL, NULL, EO_OP_NONE},
};
