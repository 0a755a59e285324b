#include "tests/conformance/cases.h"

#include "proto/base/text.h"
#include "proto/einsum.h"
#include "proto/philox.h"
#include "proto/shape_rules.h"
#include "proto/shape_rules_window.h"
#include "tests/proto/op_case.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct op_case cases[] = {
#define CASE(OP, inputs, attrs) {EO_OP_##OP, inputs, attrs},
#include "tests/conformance/cases.def"
};

int case_count(void)
{
    return (int)EO_COUNT_OF(cases);
}

const struct op_case *case_at(int index)
{
    return &cases[index];
}

eo_dtype_set case_dtypes(const struct eo_op_schema *op)
{
    switch (op->op) {
    case EO_OP_ONE_HOT:
    case EO_OP_CAST:
        return EO_SET_ANY;
    default:
        return op->dtypes;
    }
}

/* ---- a call from its text ---- */

/* Replaces the letter T of the row's text by the dtype under test: "dtype=T". */
static void attrs_text(const char *text, enum eo_dtype dtype, char *out, size_t size)
{
    const char *at = strstr(text, "dtype=T");
    if (at)
        snprintf(out, size, "%.*sdtype=%s%s", (int)(at - text), text, eo_dtype_name(dtype), at + strlen("dtype=T"));
    else
        snprintf(out, size, "%s", text);
}

static enum eo_dtype dtype_of_letter(char letter, enum eo_dtype under_test)
{
    switch (letter) {
    case 'I':
        return EO_INT64;
    case 'B':
        return EO_BOOL;
    case 'D':
        return EO_FLOAT64;
    case 'F':
        return EO_FLOAT32;
    case 'N':
        return EO_INT32;
    case 'S':
        return EO_INT8;
    case 'U':
        return EO_UINT8;
    default:
        return under_test;
    }
}

static int parse_inputs(const char *text, enum eo_dtype dtype, struct eo_tensor_desc *out)
{
    int n = 0;
    while (*text) {
        char one[96];
        size_t length = strcspn(text, ";");
        snprintf(one, sizeof one, "%s%.*s", eo_dtype_name(dtype_of_letter(*text, dtype)), (int)length - 1, text + 1);
        out[n++] = op_case_desc(one);
        text += length;
        text += strspn(text, "; ");
    }
    return n;
}

int case_init(struct run *r, const struct op_case *c, enum eo_dtype dtype, enum eo_dtype to, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_schema(c->op);
    struct eo_tensor_desc in[EO_MAX_NAMED_INPUTS];
    char text[160];
    attrs_text(c->attrs, c->op == EO_OP_CAST ? to : dtype, text, sizeof text);
    struct eo_attrs attrs = op_case_attrs(op, text);
    int n = parse_inputs(c->inputs, dtype, in);
    return run_init(r, op, &attrs, in, n, err);
}

/* ---- data ---- */

double random_unit(uint64_t seed, uint64_t index)
{
    uint64_t key[2] = {seed, index};
    return (double)(eo_hash64(key, sizeof key, 1) >> 11) * 0x1p-53;
}

double element_value(enum eo_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case EO_FLOAT32:
        return (double)((const float *)data)[i];
    case EO_FLOAT64:
        return ((const double *)data)[i];
    case EO_FLOAT16:
        return (double)eo_half_to_float(((const uint16_t *)data)[i]);
    case EO_BFLOAT16:
        return (double)eo_bfloat_to_float(((const uint16_t *)data)[i]);
    case EO_INT8:
        return ((const int8_t *)data)[i];
    case EO_INT16:
        return ((const int16_t *)data)[i];
    case EO_INT32:
        return ((const int32_t *)data)[i];
    case EO_INT64:
        return (double)((const int64_t *)data)[i];
    case EO_UINT16:
        return ((const uint16_t *)data)[i];
    case EO_UINT32:
        return ((const uint32_t *)data)[i];
    case EO_UINT64:
        return (double)((const uint64_t *)data)[i];
    default: /* uint8 and bool */
        return ((const uint8_t *)data)[i];
    }
}

/* value is in the range of dtype; fractions are cut off for integers. */
void set_element(enum eo_dtype dtype, void *data, int64_t i, double value)
{
    uint64_t bits = 0;
    size_t size = eo_dtype_size(dtype);
    switch (dtype) {
    case EO_FLOAT32:
        ((float *)data)[i] = (float)value;
        return;
    case EO_FLOAT64:
        ((double *)data)[i] = value;
        return;
    case EO_FLOAT16:
        ((uint16_t *)data)[i] = eo_half_from_double(value);
        return;
    case EO_BFLOAT16:
        ((uint16_t *)data)[i] = eo_bfloat_from_double(value);
        return;
    default:
        bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
        memcpy((char *)data + (size_t)i * size, &bits, size);
        return;
    }
}

/* Most values within a few units, every fifth one far out: sines reduce their argument there, error functions and
 * hyperbolic ones are at their limits. */
static double near_and_far(double u, double near, double far)
{
    return u < 0.8 ? (u / 0.8 - 0.5) * 2 * near : (u - 0.9) * 20 * far;
}

/* A value that the row is made for; u is evenly in [0, 1). */
static double ordinary_float(enum eo_op op, int input, double u)
{
    switch (op) {
    case EO_OP_LOG:
    case EO_OP_LOG2:
    case EO_OP_LOG10:
    case EO_OP_SQRT:
        return pow(10, 6 * u - 3);
    case EO_OP_LOG1P:
        return u < 0.5 ? u * 1.96 - 0.98 : pow(10, 6 * u - 4);
    case EO_OP_EXP:
    case EO_OP_EXP2:
    case EO_OP_EXPM1:
    case EO_OP_TANH:
    case EO_OP_SIGMOID:
    case EO_OP_SOFTPLUS:
        return u < 0.2 ? (u - 0.1) * 1e-3 : 18 * (u - 0.6) / 0.4;
    case EO_OP_SIN:
    case EO_OP_COS:
    case EO_OP_TAN:
        return near_and_far(u, 8, 60000);
    case EO_OP_SINH:
    case EO_OP_COSH:
    case EO_OP_ASINH:
    case EO_OP_ATAN:
    case EO_OP_ERF:
    case EO_OP_ERFC:
    case EO_OP_GELU:
    case EO_OP_MISH:
    case EO_OP_SILU:
        return near_and_far(u, 3, 10);
    case EO_OP_ASIN:
    case EO_OP_ACOS:
    case EO_OP_ATANH:
        return u * 2 - 1;
    case EO_OP_ACOSH:
        return 1 + pow(10, 6 * u - 3);
    case EO_OP_LOG_SUM:
        return 0.5 + u;
    case EO_OP_PROD:
        return u < 0.5 ? -exp(u - 0.25) : exp(u - 0.75); /* products of any number stay in range */
    case EO_OP_POWER:
        return input == 0 ? 0.1 + 9.9 * u : 6 * u - 3;
    case EO_OP_EQUAL:
    case EO_OP_NOT_EQUAL:
    case EO_OP_LESS:
    case EO_OP_LESS_EQUAL:
    case EO_OP_GREATER:
    case EO_OP_GREATER_EQUAL:
    case EO_OP_ARG_MAX:
    case EO_OP_ARG_MIN:
    case EO_OP_SORT:
    case EO_OP_TOP_K:
        return floor(u * 9) - 4; /* ties */
    case EO_OP_ROUND:
    case EO_OP_FLOOR_DIVIDE:
    case EO_OP_REMAINDER:
    case EO_OP_FMOD:
        return (floor(u * 97) - 48) / 4; /* halves, whole quotients */
    case EO_OP_BATCH_NORM:
        return input == 4 ? 0.1 + u : (u - 0.5) * 8; /* variances are not negative */
    case EO_OP_ADAM_UPDATE:
        return input >= 3 ? u * 0.1 : u * 2 - 1; /* second moments are not negative */
    case EO_OP_RNN:
    case EO_OP_LSTM:
    case EO_OP_GRU:
        return u - 0.5; /* steps neither grow nor saturate */
    case EO_OP_BCE_LOSS:
        return u;
    case EO_OP_BCE_WITH_LOGITS_LOSS:
        return input == 1 ? u : (u - 0.5) * 8;
    case EO_OP_KL_DIV_LOSS:
        return input == 1 ? u : (u - 1) * 8;
    case EO_OP_HINGE_LOSS:
        return input == 1 ? (u < 0.5 ? -1 : 1) : (u - 0.5) * 8;
    case EO_OP_RMSPROP_UPDATE: /* mean squares are not below squared means */
        return input == 2 ? 1 + u : u - 0.5;
    case EO_OP_ADAGRAD_UPDATE:
        return input == 2 ? u : u * 2 - 1;
    case EO_OP_CAST:
        return (u - 0.5) * 600;
    default:
        return (u - 0.5) * 8;
    }
}

static double ordinary_value(const struct run *r, int input, double u)
{
    switch (eo_dtype_kind((enum eo_dtype)r->in[input].dtype)) {
    case EO_KIND_FLOAT:
        return ordinary_float(r->op->op, input, u);
    case EO_KIND_SIGNED:
        return floor(u * 41) - 20;
    case EO_KIND_UNSIGNED:
        return floor(u * 41);
    case EO_KIND_BOOL:
        break;
    }
    return u < 0.5;
}

/* sums: the order of additions decides where intermediate results overflow, so the largest values are left out. */
static double special_float(enum eo_dtype dtype, int which, bool sums)
{
    bool wide = dtype == EO_FLOAT64, half = dtype == EO_FLOAT16;
    double largest = sums ? 1000 : wide ? DBL_MAX : half ? 65504 : dtype == EO_BFLOAT16 ? 0x1.FEp127 : (double)FLT_MAX;
    double smallest = wide ? DBL_MIN : half ? 0x1p-14 : (double)FLT_MIN; /* normal */
    const double list[] = {NAN,       INFINITY,     -INFINITY,     0,   -0.0, 1, -1,  largest, -largest,   smallest,
                           -smallest, smallest / 4, -smallest / 4, 0.5, -2,   3, 100, -100,    largest / 3};
    return list[which % (int)EO_COUNT_OF(list)];
}

static void special_integer(enum eo_dtype dtype, void *data, int64_t i, int which)
{
    size_t size = eo_dtype_size(dtype);
    uint64_t top = (uint64_t)1 << (size * 8 - 1);
    const uint64_t list[] = {0, 1, UINT64_MAX, top, top - 1, top + 1, 2, UINT64_MAX - 1, 0x7F, 0x80, 200, 255};
    uint64_t bits = list[which % (int)EO_COUNT_OF(list)];
    memcpy((char *)data + (size_t)i * size, &bits, size);
}

static void fill_values(struct run *r, int input, enum fill fill, uint64_t seed)
{
    const struct eo_tensor_desc *d = &r->in[input];
    enum eo_dtype dtype = (enum eo_dtype)d->dtype;
    int64_t n = eo_tensor_desc_count(d);
    for (int64_t i = 0; i < n; i++) {
        double u = random_unit(seed + (uint64_t)input, (uint64_t)i);
        set_element(dtype, r->in_data[input], i, ordinary_value(r, input, u));
        /* Operands run through the list at different speeds, so that special values meet. */
        int which = (int)((input == 0 ? i : i / 19 + i * input) % 1000);
        if (fill != FILL_SPECIAL || (i % 5 == 4 && n > 200))
            continue;
        if (eo_dtype_kind(dtype) == EO_KIND_FLOAT) {
            double x = special_float(dtype, which, (r->op->flags & EO_OPF_REDUCTION) != 0);
            /* The logarithm of a sum that cancels is that of its rounding errors. */
            set_element(dtype, r->in_data[input], i, r->op->op == EO_OP_LOG_SUM ? fabs(x) : x);
        } else {
            special_integer(dtype, r->in_data[input], i, which);
        }
    }
}

static void fill_indices(struct run *r, int input, int64_t low, int64_t limit, uint64_t seed)
{
    int64_t *data = r->in_data[input], n = eo_tensor_desc_count(&r->in[input]);
    for (int64_t i = 0; i < n; i++)
        data[i] = low + (int64_t)(random_unit(seed, (uint64_t)i) * (double)(limit - low));
}

/* Index tuples of gather_nd and scatter_nd: each coordinate has its own range. */
static void fill_tuples(struct run *r, uint64_t seed)
{
    struct eo_nd_shape nd = eo_nd_shape(r->op, &r->attrs, &r->in[0], &r->in[1]);
    int64_t *data = r->in_data[1], n = eo_tensor_desc_count(&r->in[1]);
    for (int64_t i = 0; i < n; i++) {
        int64_t size = nd.size[i % nd.n_coords];
        data[i] = (int64_t)(random_unit(seed, (uint64_t)i) * 2 * (double)size) - size;
    }
}

/* The operand named rng, where it is given. */
static void fill_rng(struct run *r, uint64_t seed)
{
    for (int i = 0; i < r->n_in && i < EO_MAX_NAMED_INPUTS && r->op->input_names[i]; i++) {
        int64_t *data = r->in_data[i];
        if (strcmp(r->op->input_names[i], "rng") != 0 || eo_tensor_desc_count(&r->in[i]) != EO_RNG_WORDS)
            continue;
        data[EO_RNG_SEED] = (int64_t)eo_hash64(&seed, sizeof seed, 2);
        data[EO_RNG_STEP] = (int64_t)(seed % 1000) + ((int64_t)5 << 32);
        data[EO_RNG_ROW_OFFSET] = (int64_t)(seed % 7);
    }
}

/* Targets of a loss with classes; some are the class that is ignored. */
static void fill_targets(struct run *r, int64_t n_classes, uint64_t seed)
{
    int64_t *data = r->in_data[1], n = eo_tensor_desc_count(&r->in[1]);
    int ignore = eo_attr_index(r->op, "ignore_index");
    fill_indices(r, 1, 0, n_classes, seed);
    for (int64_t i = 1; ignore >= 0 && r->attrs.v[ignore].i != INT64_MIN && i < n; i += 3)
        data[i] = r->attrs.v[ignore].i;
}

/* Size of the dimension of input 0 that an attribute names. */
static int64_t size_along(const struct run *r, const char *name)
{
    int64_t axis = eo_attr_int(r->op, &r->attrs, name);
    return r->in[0].shape[axis < 0 ? axis + r->in[0].n_dims : axis];
}

static int64_t axis_size(const struct run *r)
{
    return size_along(r, "axis");
}

static int64_t count_of(const struct eo_tensor_desc *d)
{
    return eo_tensor_desc_count(d);
}

/* Largest finite magnitude among the floats of an input. */
static double scale_of(const struct run *r, int input)
{
    double scale = 0;
    int64_t n = count_of(&r->in[input]);
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(element_value((enum eo_dtype)r->in[input].dtype, r->in_data[input], i));
        if (isfinite(x) && x > scale)
            scale = x;
    }
    return scale;
}

bool case_is_update(enum eo_op op)
{
    return op == EO_OP_SGD_UPDATE || op == EO_OP_ADAM_UPDATE || op == EO_OP_RMSPROP_UPDATE ||
           op == EO_OP_ADAGRAD_UPDATE || op == EO_OP_LION_UPDATE;
}

/* The scalars operand, the last one. */
static void fill_scalars(struct run *r)
{
    static const double sgd[5] = {0.01, 0.9, 0.001, 0.5, 0};
    static const double adam[8] = {0.001, 0.9, 0.999, 1e-8, 0.01, 1 - 0.9 * 0.9 * 0.9, 1 - 0.999 * 0.999 * 0.999, 0.5};
    static const double rmsprop[6] = {0.01, 0.9, 1e-8, 0.01, 0.9, 0.5};
    static const double adagrad[6] = {0.01, 1e-10, 0.01, 0.1, 0, 0.5};
    static const double lion[5] = {0.001, 0.9, 0.99, 0.01, 0.5};
    enum eo_op op = r->op->op;
    const double *from = op == EO_OP_SGD_UPDATE       ? sgd
                         : op == EO_OP_ADAM_UPDATE    ? adam
                         : op == EO_OP_RMSPROP_UPDATE ? rmsprop
                         : op == EO_OP_ADAGRAD_UPDATE ? adagrad
                                                      : lion;
    size_t n = op == EO_OP_ADAM_UPDATE ? 8 : op == EO_OP_SGD_UPDATE || op == EO_OP_LION_UPDATE ? 5 : 6;
    memcpy(r->in_data[r->n_in - 1], from, n * sizeof *from);
}

static bool is_class_loss(enum eo_op op)
{
    return op == EO_OP_NLL_LOSS || op == EO_OP_CROSS_ENTROPY_LOSS || op == EO_OP_MULTI_MARGIN_LOSS;
}

static bool is_recurrent(enum eo_op op)
{
    return op == EO_OP_RNN || op == EO_OP_LSTM || op == EO_OP_GRU;
}

static bool is_pair_loss(enum eo_op op)
{
    return op >= EO_OP_MSE_LOSS && op <= EO_OP_HINGE_LOSS;
}

static bool is_convolution(enum eo_op op)
{
    return op == EO_OP_CONV || op == EO_OP_CONV_TRANSPOSE || op == EO_OP_CONV_WEIGHT;
}

static double data_scale(const struct run *r)
{
    if (case_is_update(r->op->op))
        return scale_of(r, 0) + scale_of(r, 1) + scale_of(r, 2);
    if (r->op->op == EO_OP_MATMUL)
        return scale_of(r, 0) * scale_of(r, 1);
    if (is_convolution(r->op->op))
        return scale_of(r, 0) * scale_of(r, 1) + (r->n_in > 2 ? scale_of(r, 2) : 0);
    if (r->op->op == EO_OP_ATTENTION) /* an error of a score scales what it weighs */
        return scale_of(r, 2) * (1 + scale_of(r, 0) * scale_of(r, 1));
    if (is_recurrent(r->op->op)) /* of the terms of a cell; states are at most about 1 */
        return 1 + scale_of(r, 0) * scale_of(r, 1) + scale_of(r, 2);
    if (r->op->op == EO_OP_LINEAR)
        return scale_of(r, 0) * scale_of(r, 1) + scale_of(r, 2);
    if (r->op->op == EO_OP_VARIANCE || r->op->op == EO_OP_SUM_SQUARES || r->op->op == EO_OP_SUM_SQUARE ||
        r->op->op == EO_OP_MULTI_MARGIN_LOSS)
        return scale_of(r, 0) * scale_of(r, 0);
    if (is_pair_loss(r->op->op)) {
        double sum = scale_of(r, 0) + scale_of(r, 1);
        return sum * sum;
    }
    if (r->op->op == EO_OP_GEMM)
        return fabs(eo_attr_float(r->op, &r->attrs, "alpha")) * scale_of(r, 0) * scale_of(r, 1) +
               (r->n_in > 2 ? fabs(eo_attr_float(r->op, &r->attrs, "beta")) * scale_of(r, 2) : 0);
    if (r->op->op == EO_OP_DOT || r->op->op == EO_OP_EINSUM) {
        double scale = 1;
        for (int i = 0; i < r->n_in; i++)
            scale *= scale_of(r, i);
        return scale;
    }
    if (r->op->op == EO_OP_PROD || r->op->op == EO_OP_LOG_SUM)
        return 0; /* nothing cancels */
    return scale_of(r, 0);
}

void case_fill(struct run *r, enum fill fill, uint64_t seed)
{
    enum eo_op op = r->op->op;
    for (int i = 0; i < r->n_in; i++)
        fill_values(r, i, fill, seed);
    if (op == EO_OP_GATHER_ND || op == EO_OP_SCATTER_ND)
        fill_tuples(r, seed);
    else if (op == EO_OP_GATHER || op == EO_OP_SCATTER_ADD || op == EO_OP_GATHER_ELEMENTS ||
             op == EO_OP_SCATTER_ELEMENTS)
        fill_indices(r, 1, -axis_size(r), axis_size(r), seed);
    else if (op == EO_OP_ONE_HOT)
        fill_indices(r, 0, 0, eo_attr_int(r->op, &r->attrs, "depth"), seed);
    else if (op == EO_OP_REVERSE_SEQUENCE)
        fill_indices(r, 1, 0, size_along(r, "time_axis") + 1, seed);
    else if (op == EO_OP_CROSS_ENTROPY)
        fill_indices(r, 1, 0, r->in[0].shape[1], seed);
    else if (op == EO_OP_ATTENTION && r->n_in > 4 && r->in[4].dtype == EO_INT64)
        fill_rng(r, seed);
    else if (is_recurrent(op) && r->n_in > 4 && r->in[4].dtype == EO_INT64)
        fill_indices(r, 4, 0, EO_MAX(r->in[0].shape[0], r->in[0].shape[1]) + 1, seed);
    else if (is_class_loss(op))
        fill_targets(r, axis_size(r), seed);
    else if (r->op->flags & EO_OPF_RANDOM)
        fill_rng(r, seed);
    else if (case_is_update(op))
        fill_scalars(r);
    r->scale = r->n_in > 0 ? data_scale(r) : 0;
}

/* ---- tolerances ---- */

static int64_t convolution_reduced(const struct run *r)
{
    const struct eo_tensor_desc *in[3];
    struct eo_window_shape w;
    struct eo_error err;
    for (int i = 0; i < r->n_in; i++)
        in[i] = &r->in[i];
    ASSERT_OK(eo_window_resolve(r->op, in, r->n_in, &r->attrs, &w, &err));
    if (r->op->op == EO_OP_CONV_WEIGHT)
        return w.batch * eo_window_count(&w);
    return eo_window_cells(&w) * (r->op->op == EO_OP_CONV ? w.channels : w.out_channels) / w.groups;
}

/* Terms of one result of an einsum: the product of the sizes that the result has not. */
static int64_t einsum_terms(const struct run *r)
{
    const struct eo_tensor_desc *in[EO_EINSUM_OPERANDS];
    struct eo_einsum e;
    struct eo_error err;
    int64_t n = 1;
    for (int i = 0; i < r->n_in; i++)
        in[i] = &r->in[i];
    ASSERT_OK(eo_einsum_read(r->op, in, r->n_in, &r->attrs, &e, &err));
    for (int l = 0; l < EO_EINSUM_LABELS; l++)
        n *= EO_MAX(e.size[l], 1);
    for (int k = 0; k < e.n_out; k++)
        n /= EO_MAX(e.size[e.out[k]], 1);
    return n;
}

int64_t case_reduced(const struct run *r)
{
    struct eo_matmul_shape s;
    struct eo_error err;
    switch (r->op->op) {
    case EO_OP_MATMUL:
    case EO_OP_GEMM:
    case EO_OP_DOT:
    case EO_OP_LINEAR: {
        bool ta = eo_attr_int(r->op, &r->attrs, "transpose_a"); /* 0 where the row has none */
        bool tb = eo_attr_int(r->op, &r->attrs, "transpose_b");
        ASSERT_OK(eo_matmul_shape(r->op, &r->in[0], &r->in[1], ta, tb, &s, &err));
        return s.k;
    }
    case EO_OP_SOFTMAX:
    case EO_OP_LOG_SOFTMAX:
        return axis_size(r);
    case EO_OP_CROSS_ENTROPY:
        return r->in[0].shape[1];
    case EO_OP_RNN:
    case EO_OP_LSTM:
    case EO_OP_GRU:
        return r->in[0].shape[2] + r->in[2].shape[2];
    case EO_OP_ATTENTION: /* sizes of both products */
        return r->in[0].shape[r->in[0].n_dims - 1] + r->in[1].shape[r->in[1].n_dims - 2];
    case EO_OP_NLL_LOSS:
    case EO_OP_CROSS_ENTROPY_LOSS:
    case EO_OP_MULTI_MARGIN_LOSS:
        return count_of(&r->in[0]);
    case EO_OP_SCATTER_ADD:
    case EO_OP_SCATTER_ELEMENTS:
    case EO_OP_SCATTER_ND:
        return count_of(&r->in[1]);
    case EO_OP_CONV:
    case EO_OP_CONV_TRANSPOSE:
    case EO_OP_CONV_WEIGHT:
        return convolution_reduced(r);
    case EO_OP_CUMULATIVE_SUM:
        return axis_size(r);
    case EO_OP_EINSUM:
        return einsum_terms(r);
    default:
        break;
    }
    int64_t results = count_of(&r->out[0]);
    return r->n_in > 0 && results > 0 ? count_of(&r->in[0]) / results : 1;
}

/* A scatter that replaces or picks extremes computes nothing. */
static bool selects(const struct run *r)
{
    int64_t reduction = eo_attr_int(r->op, &r->attrs, "reduction");
    return (r->op->op == EO_OP_SCATTER_ELEMENTS || r->op->op == EO_OP_SCATTER_ND) && reduction != EO_SCATTER_ADD &&
           reduction != EO_SCATTER_MULTIPLY;
}

double case_allowed(const struct run *r, int o, double expected)
{
    enum eo_dtype dtype = (enum eo_dtype)(r->n_in > 0 ? r->in[0].dtype : r->out[0].dtype);
    bool is_reduction = (r->op->flags & EO_OPF_REDUCTION) != 0;
    double rtol = eo_op_tolerance(r->op, dtype, is_reduction ? case_reduced(r) : 1);
    double least = r->out[o].dtype == EO_FLOAT64 ? 0x1p-1074 : r->out[o].dtype == EO_FLOAT16 ? 0x1p-24 : 0x1p-149;
    if (rtol == 0 || selects(r))
        return 0;
    /* Below the normal numbers a relative bound means nothing; the last place has a fixed size there. */
    /* What goes wrong in a last place there grows when a composite row multiplies it, by 100 in the values tried here.
     */
    if (r->op->flags & EO_OPF_COMPOSITE)
        least *= 100;
    /* Where terms cancel, the error is that of the terms. */
    bool cancels = is_reduction || case_is_update(r->op->op);
    return rtol * (fabs(expected) + (cancels ? r->scale : 0)) + 4 * least;
}
