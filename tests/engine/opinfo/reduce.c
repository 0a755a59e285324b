/* Reductions and the softmax family. */
#include "tests/engine/opinfo/sample.h"

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

    x = sample_row(s, EO_OP_VARIANCE, &x, 1, "axes=%s keepdims=%d correction=%d",
                   axes(s, sample_kwarg(s, "dim"), text, sizeof(text)), json_is_true(sample_kwarg(s, "keepdim")),
                   unbiased == NULL || json_is_true(unbiased));
    return op == EO_OP_SQRT ? sample_one(s, op, x) : x;
}

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
    {"std", NULL, emit_variance, EO_OP_SQRT},
    {"softmax", NULL, emit_softmax, EO_OP_SOFTMAX},
    {"log_softmax", NULL, emit_softmax, EO_OP_LOG_SOFTMAX},
    {"nn.functional.softmin", NULL, emit_softmin, EO_OP_SOFTMAX},
    {NULL, NULL, NULL, EO_OP_NONE},
};
