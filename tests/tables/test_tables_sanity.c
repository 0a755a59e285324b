/* The tables of proto/ interrogated: what a row says must fit together. Uniqueness of ids is a compile error already.
 */
#include "proto/base/text.h"
#include "proto/op_example.h"
#include "proto/op_schema.h"
#include "proto/shape_rules.h"
#include "tests/support/suite.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

static bool is_identifier(const char *text)
{
    if (text == NULL || !islower((unsigned char)text[0])) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (!islower((unsigned char)*text) && !isdigit((unsigned char)*text) && *text != '_') {
            return false;
        }
    }
    return true;
}

/* One line for help and pages: not empty, no final period, fits beside a name. */
static bool is_summary(const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);

    return length >= 2 && length <= 90 && text[length - 1] != '.' && strchr(text, '\n') == NULL && text[0] != ' ';
}

/* ---- dtypes ---- */

START_TEST(test_dtypes)
{
    eo_dtype_set floats = 0, integers = 0, all = 0;

    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        enum eo_dtype dtype = (enum eo_dtype)d;

        ck_assert_msg(eo_dtype_valid(d), "dtype ids are dense: %d", d);
        ck_assert(is_identifier(eo_dtype_name(dtype)));
        ck_assert_uint_lt(strlen(eo_dtype_name(dtype)), sizeof(((struct eo_error_input *)0)->dtype));
        all |= EO_DTYPE_BIT(d);
        floats |= eo_dtype_kind(dtype) == EO_KIND_FLOAT ? EO_DTYPE_BIT(d) : 0;
        integers |=
            eo_dtype_kind(dtype) == EO_KIND_SIGNED || eo_dtype_kind(dtype) == EO_KIND_UNSIGNED ? EO_DTYPE_BIT(d) : 0;
        for (int other = 1; other < d; other++) {
            ck_assert_str_ne(eo_dtype_name(dtype), eo_dtype_name((enum eo_dtype)other));
            ck_assert_str_ne(eo_dtype_safetensors(dtype), eo_dtype_safetensors((enum eo_dtype)other));
            ck_assert_str_ne(eo_dtype_npy(dtype), eo_dtype_npy((enum eo_dtype)other));
        }
    }
    ck_assert_uint_eq(floats, EO_SET_FLOAT);
    ck_assert_uint_eq(integers, EO_SET_INTEGER);
    ck_assert_uint_eq(all, EO_SET_ANY);
}
END_TEST

/* ---- errors ---- */

START_TEST(test_errors)
{
    static const int exits[] = {1, 64, 65, 66, 69, 70, 73, 74, 75, 76, 77, 78, 124}; /* design section 9 */

    for (int i = 0; i < eo_code_count(); i++) {
        int code = eo_code_at(i);
        bool known = false;

        ck_assert(code >= 1001 && code <= 7999);
        ck_assert(is_summary(eo_code_summary(code)));
        for (size_t k = 0; k < EO_COUNT_OF(exits); k++) {
            known |= eo_code_exit(code) == exits[k];
        }
        ck_assert_msg(known, "%s has exit code %d", eo_code_name(code), eo_code_exit(code));
        for (const char *p = eo_code_name(code); *p != '\0'; p++) {
            ck_assert(isupper((unsigned char)*p) || *p == '_');
        }
    }
}
END_TEST

/* ---- operations ---- */

/* Visits every row. */
#define FOR_EACH_OP(op)                                                                                                \
    for (const struct eo_op_schema *op = eo_op_schema((enum eo_op)1); op != NULL; op = eo_op_schema(op->op + 1))

START_TEST(test_op_texts)
{
    int n = 0;

    FOR_EACH_OP(op)
    {
        int n_names = (op->flags & EO_OPF_VARIADIC) != 0 ? 1 : op->max_inputs;

        n++;
        ck_assert(is_identifier(op->name));
        ck_assert_msg(is_summary(op->summary), "%s", op->name);
        ck_assert_uint_lt(strlen(op->name), sizeof(((struct eo_error *)0)->op));
        ck_assert_ptr_eq(eo_op_by_name(op->name, strlen(op->name)), op);
        ck_assert_ptr_eq(eo_op_by_wire_id(op->wire_id), op);
        for (int i = 0; i < (int)EO_COUNT_OF(op->input_names); i++) {
            ck_assert_msg(i < n_names ? is_identifier(op->input_names[i]) : op->input_names[i] == NULL,
                          "input %d of %s", i, op->name);
        }
        ck_assert_msg(op->since != NULL && isdigit((unsigned char)op->since[0]), "%s", op->name);
    }
    ck_assert_int_eq(n, EO_OP_COUNT - 1);
}
END_TEST

START_TEST(test_op_arity)
{
    FOR_EACH_OP(op)
    {
        bool variadic = (op->flags & EO_OPF_VARIADIC) != 0;

        ck_assert(op->max_inputs <= EO_MAX_INPUTS);
        ck_assert_msg(variadic ? op->min_inputs < op->max_inputs : op->max_inputs <= EO_MAX_NAMED_INPUTS, "%s",
                      op->name);
        ck_assert_msg(op->min_inputs <= op->max_inputs, "%s", op->name);
        ck_assert(op->n_outputs >= 1 && op->n_outputs <= EO_MAX_OUTPUTS);
        ck_assert_ptr_nonnull((const void *)(uintptr_t)op->infer);
        ck_assert_msg(op->dtypes != 0 && (op->dtypes & ~(eo_dtype_set)EO_SET_ANY) == 0, "%s", op->name);
        ck_assert(op->dtype_rule != EO_RULE_INDEX || op->min_inputs >= 2);
        ck_assert(op->dtype_rule == EO_RULE_OWN || op->min_inputs >= 1);
    }
}
END_TEST

static void check_attr(const struct eo_op_schema *op, const struct eo_attr_schema *a)
{
    bool inside = a->fallback >= a->min && a->fallback <= a->max;

    ck_assert(is_identifier(a->name));
    ck_assert_msg(is_summary(a->help), "%s of %s", a->name, op->name);
    ck_assert_msg(a->min <= a->max, "%s of %s", a->name, op->name);
    ck_assert_msg((a->kind == EO_ATTR_CHOICE) == (a->choices != NULL), "%s of %s", a->name, op->name);
    if (a->kind == EO_ATTR_INTS || a->kind == EO_ATTR_TEXT) {
        ck_assert_double_eq(a->fallback, 0);
    } else if (a->required) { /* so that a forgotten one is found when the op is inferred */
        ck_assert_msg(!inside, "the default of %s, needed by %s, is inside its range", a->name, op->name);
    } else {
        ck_assert_msg(inside, "the default of %s of %s is outside its range", a->name, op->name);
    }
    ck_assert_msg(a->kind != EO_ATTR_DTYPE || a->required || eo_dtype_valid((int)a->fallback), "%s", op->name);
}

START_TEST(test_op_attributes)
{
    FOR_EACH_OP(op)
    {
        struct eo_attrs defaults;
        bool all_optional = true;

        ck_assert_uint_le(op->n_attrs, EO_MAX_ATTRS);
        for (int i = 0; i < EO_MAX_ATTRS; i++) {
            ck_assert_msg((i < op->n_attrs) == (op->attrs[i].name != NULL), "%s", op->name);
        }
        for (int i = 0; i < op->n_attrs; i++) {
            check_attr(op, &op->attrs[i]);
            ck_assert_int_eq(eo_attr_index(op, op->attrs[i].name), i); /* names are unique */
            all_optional &= !op->attrs[i].required || op->attrs[i].kind == EO_ATTR_INTS;
        }
        eo_attrs_default(op, &defaults);
        ck_assert_msg((eo_attrs_check(op, &defaults, NULL) == EO_OK) == all_optional, "%s", op->name);
    }
}
END_TEST

START_TEST(test_op_properties)
{
    const uint32_t unary =
        EO_PROP_IDEMPOTENT | EO_PROP_INVOLUTION | EO_PROP_ODD | EO_PROP_EVEN | EO_PROP_MONOTONE; /* about one operand */

    FOR_EACH_OP(op)
    {
        bool reduction = (op->flags & EO_OPF_REDUCTION) != 0;

        ck_assert_msg((op->properties & EO_PROP_COMMUTATIVE) == 0 || op->min_inputs == 2, "%s", op->name);
        ck_assert_msg((op->properties & unary) == 0 || op->max_inputs == 1, "%s", op->name);
        ck_assert_msg((op->properties & EO_PROP_ODD) == 0 || (op->properties & EO_PROP_EVEN) == 0, "%s", op->name);
        ck_assert_msg((op->properties & EO_PROP_VIEW) == 0 || (op->rtol == 0 && op->dtypes == EO_SET_ANY), "%s",
                      op->name);
        ck_assert_msg(!reduction || op->rtol > 0, "%s", op->name);
        ck_assert(op->rtol >= 0 && op->rtol < 1e-4);
        ck_assert_msg((op->properties & EO_PROP_ELEMENTWISE) == 0 || !reduction, "%s", op->name);
        if ((op->flags & EO_OPF_RANDOM) != 0) {
            bool has_rng = false;

            for (int i = 0; i < op->max_inputs; i++) {
                has_rng |= strcmp(op->input_names[i], "rng") == 0;
            }
            ck_assert_msg(has_rng && eo_attr_index(op, "stream") >= 0, "%s", op->name);
        }
        if ((op->flags & EO_OPF_INTERNAL) != 0) {
            ck_assert_msg(op->onnx[0] == '\0', "%s", op->name);
        }
    }
}
END_TEST

/* Element-wise rows of equal shapes keep the shape, in every dtype they take. */
START_TEST(test_elementwise_rows_keep_shapes)
{
    FOR_EACH_OP(op)
    {
        for (int d = 1; (op->properties & EO_PROP_ELEMENTWISE) != 0 && d < EO_DTYPE_LIMIT; d++) {
            struct eo_tensor_desc x = {.dtype = (uint8_t)d, .n_dims = 2, .shape = {3, 0}}, c = x, out;
            const struct eo_tensor_desc *in[] = {op->op == EO_OP_WHERE ? &c : &x, &x, &x};
            struct eo_attrs attrs;
            struct eo_error err;

            c.dtype = EO_BOOL;
            eo_attrs_default(op, &attrs);
            if (eo_attr_index(op, "dtype") >= 0) {
                attrs.v[eo_attr_index(op, "dtype")].i = d;
            }
            if ((op->dtypes & EO_DTYPE_BIT(d)) == 0) {
                ck_assert_int_eq(eo_op_infer(op, in, op->min_inputs, &attrs, &out, &err), EO_E_DTYPE_MISMATCH);
                continue;
            }
            ASSERT_OK(eo_op_infer(op, in, op->min_inputs, &attrs, &out, &err));
            ck_assert(eo_tensor_desc_same_shape(&out, &x));
            ck_assert_int_eq(out.dtype, op->dtype_rule == EO_RULE_COMPARE ? EO_BOOL : d);
        }
    }
}
END_TEST

/* Rows whose results are floats made from float operands are differentiable; a row without gradient makes integers,
 * bools or random numbers, has a shape that depends on data, or is internal. */
START_TEST(test_gradients_are_declared)
{
    FOR_EACH_OP(op)
    {
        bool from_floats = op->min_inputs > 0 && (op->dtypes & EO_SET_FLOAT) != 0 && op->dtype_rule != EO_RULE_COMPARE;
        bool excused = (op->flags & (EO_OPF_INTERNAL | EO_OPF_RANDOM | EO_OPF_DATA_SHAPE)) != 0 ||
                       op->op == EO_OP_ARG_MAX || op->op == EO_OP_ARG_MIN || op->op == EO_OP_HARDMAX ||
                       op->op == EO_OP_QUANTIZE_LINEAR || op->op == EO_OP_DYNAMIC_QUANTIZE_LINEAR;

        ck_assert_msg(op->gradient == EO_GRADIENT_NONE || from_floats, "%s", op->name);
        ck_assert_msg(op->gradient != EO_GRADIENT_NONE || !from_floats || excused, "%s", op->name);
        ck_assert_msg(op->gradient != EO_GRADIENT_LOWERING || (op->flags & EO_OPF_COMPOSITE) != 0, "%s", op->name);
    }
}
END_TEST

/* caps asks a device about one call of each row: proto/tables/examples.def has it, for every dtype of the row. */
START_TEST(test_every_row_has_an_example)
{
    FOR_EACH_OP(op)
    {
        for (int d = 1; d < EO_DTYPE_LIMIT && (op->flags & EO_OPF_INTERNAL) == 0; d++) {
            struct eo_op_example e;

            if ((op->dtypes & EO_DTYPE_BIT(d)) != 0) {
                ck_assert_msg(eo_op_example(op, (enum eo_dtype)d, &e), "no example call of %s with %s", op->name,
                              eo_dtype_name((enum eo_dtype)d));
            }
        }
    }
}
END_TEST

/* The operators of ONNX 1.12 (opset 17), each between two spaces. */
static const char onnx_operators[] =
    " "
    "Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli BitShift "
    "BlackmanWindow Cast CastLike Ceil Celu Clip Compress Concat ConcatFromSequence Constant ConstantOfShape Conv "
    "ConvInteger ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Det Div Dropout "
    "DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements "
    "GatherND Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample HammingWindow "
    "HannWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM "
    "LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul "
    "MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mod Mul "
    "Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement "
    "OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RNN RandomNormal "
    "RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize "
    "ReverseSequence RoiAlign Round STFT Scan ScatterElements ScatterND Selu SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh "
    "Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan "
    "Tanh ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Where Xor ";

START_TEST(test_onnx_names)
{
    FOR_EACH_OP(op)
    {
        char word[64];

        ck_assert_msg((op->onnx[0] != '\0') == (op->onnx_opset > 0), "%s", op->name);
        ck_assert(op->onnx_opset <= 17);
        snprintf(word, sizeof(word), " %s ", op->onnx);
        ck_assert_msg(op->onnx[0] == '\0' || strstr(onnx_operators, word) != NULL, "ONNX has no %s (%s)", op->onnx,
                      op->name);
    }
}
END_TEST

/* The projection that ops.def documents for gradient rules gives exactly the rows with a rule. */
static const char *const gradient_rules[] = {
#define GRAD(name) #name,
#define BY_LOWERING(name)
#define NO_GRAD(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, ...) grad(name)
#include "proto/tables/ops.def"
#undef GRAD
#undef BY_LOWERING
#undef NO_GRAD
};
static const char *const lowerings[] = {
#define LOWERED(name) #name,
#define PRIMITIVE(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...) lower(name)
#include "proto/tables/ops.def"
#undef LOWERED
#undef PRIMITIVE
};

START_TEST(test_projections_agree)
{
    size_t n_grads = 0, n_lowerings = 0;

    FOR_EACH_OP(op)
    {
        if (op->gradient == EO_GRADIENT_RULE) {
            ck_assert_uint_lt(n_grads, EO_COUNT_OF(gradient_rules));
            ck_assert_str_eq(gradient_rules[n_grads++], op->name);
        }
        if ((op->flags & EO_OPF_COMPOSITE) != 0) {
            ck_assert_uint_lt(n_lowerings, EO_COUNT_OF(lowerings));
            ck_assert_str_eq(lowerings[n_lowerings++], op->name);
        }
    }
    ck_assert_uint_eq(n_grads, EO_COUNT_OF(gradient_rules));
    ck_assert_uint_eq(n_lowerings, EO_COUNT_OF(lowerings));
}
END_TEST

/* Wire ids that have been given away. A row may be added here, never changed: peers of other versions compare them. */
START_TEST(test_wire_ids_are_kept)
{
    static const struct {
        uint32_t id;
        const char *name;
    } given[] = {
        {1, "full"},
        {2, "uniform"},
        {3, "normal"},
        {10, "negative"},
        {11, "exp"},
        {12, "log"},
        {13, "log1p"},
        {14, "expm1"},
        {15, "sqrt"},
        {16, "reciprocal"},
        {17, "sigmoid"},
        {18, "tanh"},
        {19, "relu"},
        {20, "softplus"},
        {21, "abs"},
        {22, "sign"},
        {23, "logical_not"},
        {24, "isfinite"},
        {25, "clip"},
        {26, "cast"},
        {40, "add"},
        {41, "subtract"},
        {42, "multiply"},
        {43, "divide"},
        {44, "power"},
        {45, "maximum"},
        {46, "minimum"},
        {47, "equal"},
        {48, "not_equal"},
        {49, "less"},
        {50, "less_equal"},
        {51, "greater"},
        {52, "greater_equal"},
        {53, "logical_and"},
        {54, "logical_or"},
        {55, "where"},
        {70, "matmul"},
        {71, "linear"},
        {80, "sum"},
        {81, "mean"},
        {82, "max"},
        {83, "min"},
        {84, "variance"},
        {85, "arg_max"},
        {86, "arg_min"},
        {87, "softmax"},
        {88, "log_softmax"},
        {100, "reshape"},
        {101, "transpose"},
        {102, "expand"},
        {103, "concatenate"},
        {104, "slice"},
        {105, "slice_scatter"},
        {106, "gather"},
        {107, "scatter_add"},
        {108, "one_hot"},
        {120, "cross_entropy"},
        {121, "dropout"},
        {140, "sum_squares"},
        {141, "sgd_update"},
        {142, "adam_update"},
        {200, "zeros"},
        {201, "ones"},
        {202, "eye"},
        {203, "arange"},
        {204, "linspace"},
        {205, "bernoulli"},
        {206, "permutation"},
        {220, "floor"},
        {221, "ceil"},
        {222, "round"},
        {223, "trunc"},
        {224, "exp2"},
        {225, "log2"},
        {226, "log10"},
        {227, "cbrt"},
        {228, "erf"},
        {229, "erfc"},
        {230, "sin"},
        {231, "cos"},
        {232, "tan"},
        {233, "asin"},
        {234, "acos"},
        {235, "atan"},
        {236, "sinh"},
        {237, "cosh"},
        {238, "asinh"},
        {239, "acosh"},
        {240, "atanh"},
        {241, "isnan"},
        {242, "isinf"},
        {243, "bitwise_not"},
        {244, "floor_divide"},
        {245, "remainder"},
        {246, "fmod"},
        {247, "atan2"},
        {248, "bitwise_and"},
        {249, "bitwise_or"},
        {250, "bitwise_xor"},
        {251, "shift_left"},
        {252, "shift_right"},
        {253, "logical_xor"},
        {260, "leaky_relu"},
        {261, "elu"},
        {262, "selu"},
        {263, "celu"},
        {264, "gelu"},
        {265, "silu"},
        {266, "mish"},
        {267, "softsign"},
        {268, "hard_sigmoid"},
        {269, "hard_swish"},
        {270, "thresholded_relu"},
        {271, "prelu"},
        {272, "shrink"},
        {273, "log_sigmoid"},
        {340, "flatten"},
        {341, "squeeze"},
        {342, "unsqueeze"},
        {343, "tile"},
        {344, "pad"},
        {345, "stack"},
        {346, "split"},
        {347, "trilu"},
        {348, "reverse"},
        {349, "roll"},
        {350, "depth_to_space"},
        {351, "space_to_depth"},
        {352, "reverse_sequence"},
        {353, "masked_fill"},
        {354, "diagonal"},
        {370, "gather_elements"},
        {371, "gather_nd"},
        {372, "scatter_elements"},
        {373, "scatter_nd"},
        {374, "nonzero"},
        {375, "compress"},
        {400, "unfold"},
        {401, "fold"},
        {402, "conv"},
        {403, "conv_transpose"},
        {404, "conv_weight"},
        {405, "max_pool"},
        {406, "average_pool"},
        {407, "lp_pool"},
        {408, "global_max_pool"},
        {409, "global_average_pool"},
        {410, "global_lp_pool"},
        {430, "batch_norm"},
        {431, "batch_norm_train"},
        {432, "layer_norm"},
        {433, "instance_norm"},
        {434, "group_norm"},
        {435, "rms_norm"},
        {436, "local_response_norm"},
        {437, "mean_variance_norm"},
        {438, "hardmax"},
        {450, "nll_loss"},
        {451, "cross_entropy_loss"},
        {452, "mse_loss"},
        {453, "mae_loss"},
        {454, "huber_loss"},
        {455, "smooth_l1_loss"},
        {456, "bce_loss"},
        {457, "bce_with_logits_loss"},
        {458, "kl_div_loss"},
        {459, "hinge_loss"},
        {460, "multi_margin_loss"},
        {470, "rnn"},
        {471, "lstm"},
        {472, "gru"},
        {473, "attention"},
        {143, "rmsprop_update"},
        {144, "adagrad_update"},
        {145, "lion_update"},
        {290, "prod"},
        {291, "any"},
        {292, "all"},
        {293, "std"},
        {294, "l1_norm"},
        {295, "l2_norm"},
        {296, "log_sum_exp"},
        {297, "sum_square"},
        {298, "log_sum"},
        {299, "cumulative_sum"},
        {300, "top_k"},
        {301, "sort"},
        {490, "quantize_linear"},
        {491, "dequantize_linear"},
        {492, "dynamic_quantize_linear"},
        {493, "matmul_integer"},
        {494, "conv_integer"},
        {495, "qlinear_matmul"},
        {496, "qlinear_conv"},
        {320, "gemm"},
        {321, "dot"},
        {322, "outer"},
        {323, "einsum"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(given); i++) {
        const struct eo_op_schema *op = eo_op_by_wire_id(given[i].id);

        ck_assert_msg(op == NULL || strcmp(op->name, given[i].name) == 0, "id %u was %s", given[i].id, given[i].name);
    }
    FOR_EACH_OP(op)
    {
        bool listed = false;

        for (size_t i = 0; i < EO_COUNT_OF(given); i++) {
            listed |= given[i].id == op->wire_id;
        }
        ck_assert_msg(listed, "add the wire id of %s to this list", op->name);
    }
}
END_TEST

EO_SUITE("tables_sanity", test_dtypes, test_errors, test_op_texts, test_op_arity, test_op_attributes,
         test_op_properties, test_elementwise_rows_keep_shapes, test_gradients_are_declared, test_onnx_names,
         test_every_row_has_an_example, test_projections_agree, test_wire_ids_are_kept)
