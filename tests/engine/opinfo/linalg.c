/* Linear algebra. */
#include "tests/engine/opinfo/sample.h"

static eo_value emit_product(struct sample *s, enum eo_op op)
{
    return sample_two(s, op, sample_input(s), sample_arg_tensor(s, 0));
}

static eo_value emit_einsum(struct sample *s, enum eo_op op)
{
    return sample_row(s, op, s->value, s->n_tensors, "equation=%s", json_string_value(sample_arg(s, 0)));
}

static eo_value emit_gemm(struct sample *s, enum eo_op op)
{
    eo_value in[3] = {sample_arg_tensor(s, 0), sample_arg_tensor(s, 1), sample_input(s)};

    return sample_row(s, op, in, 3, "alpha=%.17g beta=%.17g", sample_kwarg_number(s, "alpha", 1),
                      sample_kwarg_number(s, "beta", 1));
}

/* beta c + alpha product */
static eo_value blend(struct sample *s, eo_value product)
{
    double alpha = sample_kwarg_number(s, "alpha", 1), beta = sample_kwarg_number(s, "beta", 1);

    return sample_two(s, EO_OP_ADD, sample_two(s, EO_OP_MULTIPLY, sample_input(s), sample_scalar(s, beta)),
                      sample_two(s, EO_OP_MULTIPLY, product, sample_scalar(s, alpha)));
}

static eo_value emit_add_product(struct sample *s, enum eo_op op)
{
    return blend(s, sample_two(s, op, sample_arg_tensor(s, 0), sample_arg_tensor(s, 1)));
}

static eo_value emit_addbmm(struct sample *s, enum eo_op op)
{
    eo_value products = sample_two(s, op, sample_arg_tensor(s, 0), sample_arg_tensor(s, 1));

    return blend(s, eo_build_reduce(&s->b, EO_OP_SUM, products, (int64_t[]){0}, 1, false));
}

static eo_value emit_linear(struct sample *s, enum eo_op op)
{
    eo_value weight = eo_build_transpose(&s->b, sample_arg_tensor(s, 0), NULL, 0); /* PyTorch's is (O, I) */

    return eo_build_op(&s->b, op, (eo_value[]){sample_input(s), weight, sample_arg_tensor(s, 1)}, 3, NULL);
}

const struct function opinfo_linalg[] = {
    {"matmul", NULL, emit_product, EO_OP_MATMUL},
    {"mm", NULL, emit_product, EO_OP_MATMUL},
    {"bmm", NULL, emit_product, EO_OP_MATMUL},
    {"mv", NULL, emit_product, EO_OP_MATMUL},
    {"dot", NULL, emit_product, EO_OP_DOT},
    {"outer", NULL, emit_product, EO_OP_OUTER},
    {"addmm", NULL, emit_gemm, EO_OP_GEMM},
    {"einsum", NULL, emit_einsum, EO_OP_EINSUM},
    {"addmv", NULL, emit_add_product, EO_OP_MATMUL},
    {"baddbmm", NULL, emit_add_product, EO_OP_MATMUL},
    {"addbmm", NULL, emit_addbmm, EO_OP_MATMUL},
    {"nn.functional.linear", NULL, emit_linear, EO_OP_LINEAR},
    {NULL, NULL, NULL, EO_OP_NONE},
};
