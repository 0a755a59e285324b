/* Losses and attention. */
#include "tests/engine/opinfo/sample.h"

#include <math.h>

/* PyTorch's default, a value that its classes never have. */
enum { IGNORED_BY_DEFAULT = -100 };

static const char *reduction(const struct sample *s)
{
    return sample_kwarg_text(s, "reduction", "mean");
}

static eo_value emit_pair(struct sample *s, enum eo_op op)
{
    eo_value in[2] = {sample_input(s), sample_arg_tensor(s, 0)};

    return sample_row(s, op, in, 2, "reduction=%s", reduction(s));
}

static eo_value emit_huber(struct sample *s, enum eo_op op)
{
    eo_value in[2] = {sample_input(s), sample_arg_tensor(s, 0)};

    return sample_row(s, op, in, 2, "reduction=%s delta=%.17g", reduction(s), sample_kwarg_number(s, "delta", 1));
}

static eo_value emit_kl_div(struct sample *s, enum eo_op op)
{
    eo_value in[2] = {sample_input(s), sample_arg_tensor(s, 0)};

    return sample_row(s, op, in, 2, "reduction=%s log_target=%d", reduction(s),
                      json_is_true(sample_kwarg(s, "log_target")));
}

/* Class probabilities as targets: the mean over rows of -sum over classes of target log_softmax(x). */
static eo_value soft_cross_entropy(struct sample *s)
{
    eo_value x = sample_input(s), terms;

    terms = sample_row(s, EO_OP_LOG_SOFTMAX, &x, 1, "axis=1");
    terms = sample_two(s, EO_OP_MULTIPLY, terms, sample_arg_tensor(s, 0));
    terms = eo_build_reduce(&s->b, EO_OP_SUM, terms, (int64_t[]){1}, 1, false);
    return eo_build_reduce(&s->b, EO_OP_MEAN, sample_one(s, EO_OP_NEGATIVE, terms), NULL, 0, false);
}

static eo_value emit_classes(struct sample *s, enum eo_op op)
{
    eo_value in[3] = {sample_input(s), sample_arg_tensor(s, 0), sample_tensor(s, sample_kwarg(s, "weight"))};

    if (sample_desc(s, in[1]).dtype != EO_INT64) {
        return soft_cross_entropy(s);
    }
    return sample_row(s, op, in, in[2] == EO_NO_VALUE ? 2 : 3, "reduction=%s axis=1 ignore_index=%d", reduction(s),
                      (int)sample_kwarg_number(s, "ignore_index", IGNORED_BY_DEFAULT));
}

/* The row, and its weights written out. */
static eo_value emit_attention(struct sample *s, enum eo_op op)
{
    eo_value in[3] = {sample_input(s), sample_arg_tensor(s, 0), sample_arg_tensor(s, 1)}, scores, seen;
    bool causal = json_is_true(sample_kwarg(s, "is_causal"));
    struct eo_tensor_desc d = sample_desc(s, in[0]);

    scores = eo_build_matmul(&s->b, in[0], in[1], false, true);
    scores = sample_two(s, EO_OP_MULTIPLY, scores, sample_scalar(s, 1 / sqrt((double)d.shape[d.n_dims - 1])));
    d = sample_desc(s, scores);
    if (causal) {
        seen = sample_row(s, EO_OP_FULL, NULL, 0, "dtype=bool value=1 shape=%d,%d", (int)d.shape[d.n_dims - 2],
                          (int)d.shape[d.n_dims - 1]);
        seen = sample_row(s, EO_OP_TRILU, &seen, 1, "upper=0");
        scores = eo_build_where(&s->b, seen, scores, sample_scalar(s, -(double)INFINITY));
    }
    sample_also(s, sample_one(s, EO_OP_SOFTMAX, scores));
    return sample_row(s, op, in, 3, "causal=%d", causal);
}

const struct function opinfo_loss[] = {
    {"nn.functional.cross_entropy", NULL, emit_classes, EO_OP_CROSS_ENTROPY_LOSS},
    {"nn.functional.nll_loss", NULL, emit_classes, EO_OP_NLL_LOSS},
    {"nn.functional.mse_loss", NULL, emit_pair, EO_OP_MSE_LOSS},
    {"nn.functional.l1_loss", NULL, emit_pair, EO_OP_MAE_LOSS},
    {"nn.functional.smooth_l1_loss", NULL, emit_pair, EO_OP_SMOOTH_L1_LOSS},
    {"nn.functional.huber_loss", NULL, emit_huber, EO_OP_HUBER_LOSS},
    {"nn.functional.binary_cross_entropy", NULL, emit_pair, EO_OP_BCE_LOSS},
    {"nn.functional.binary_cross_entropy_with_logits", NULL, emit_pair, EO_OP_BCE_WITH_LOGITS_LOSS},
    {"nn.functional.kl_div", NULL, emit_kl_div, EO_OP_KL_DIV_LOSS},
    {"nn.functional._scaled_dot_product_attention", NULL, emit_attention, EO_OP_ATTENTION},
    {NULL, NULL, NULL, EO_OP_NONE},
};
