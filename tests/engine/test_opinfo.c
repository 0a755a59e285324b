/* PyTorch's own gradients (tests/vectors/torch-opinfo-grad.jsonl: OpInfo samples, results and gradients in float64) for
 * every function of it that our rows express. What is not run here is other functions (convolution, pooling, ...) or
 * argument forms without counterpart; each function of the table below must find a case. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

enum { MAX_TENSORS = 16 };

/* One line of the file while it is turned into a graph. */
struct sample {
    json_t *root, *args, *kwargs;
    struct eo_graph *g;
    struct eo_builder b;
    const json_t *json[MAX_TENSORS]; /* of each tensor, in the order of input, args, kwargs */
    eo_value value[MAX_TENSORS];
    void *data[MAX_TENSORS];
    int n_tensors;
    eo_value leaves[MAX_TENSORS];
    int n_leaves;
};

/* ---- reading ---- */

static double number(const json_t *j)
{
    if (json_is_string(j)) {
        const char *text = json_string_value(j);

        return strcmp(text, "nan") == 0 ? (double)NAN : text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    }
    return json_is_boolean(j) ? json_is_true(j) : json_number_value(j);
}

static int read_shape(const json_t *tensor, int64_t *shape)
{
    const json_t *dims = json_object_get(tensor, "shape");

    for (size_t i = 0; i < json_array_size(dims); i++) {
        shape[i] = json_integer_value(json_array_get(dims, i));
    }
    return (int)json_array_size(dims);
}

static void add_tensor(struct sample *s, const json_t *holder)
{
    const json_t *tensor = json_object_get(holder, "tensor"), *data = json_object_get(tensor, "data");
    const char *name = json_string_value(json_object_get(tensor, "dtype"));
    enum eo_dtype dtype = eo_dtype_by_name(name);
    int64_t shape[EO_MAX_DIMS];
    int n_dims = read_shape(tensor, shape), t = s->n_tensors++;
    char label[16];

    ck_assert_int_lt(t, MAX_TENSORS);
    dtype = dtype == EO_FLOAT32 ? EO_FLOAT64 : dtype == EO_UINT8 ? EO_INT64 : dtype;
    (void)snprintf(label, sizeof(label), "t%d", t);
    s->json[t] = holder;
    s->value[t] = harness_input(s->g, label, dtype, n_dims, shape);
    s->data[t] = calloc(json_array_size(data) + 1, sizeof(double));
    ck_assert_ptr_nonnull(s->data[t]);
    for (size_t i = 0; i < json_array_size(data); i++) {
        harness_set(dtype, s->data[t], (int64_t)i, number(json_array_get(data, i)));
    }
    if (json_is_true(json_object_get(tensor, "leaf"))) {
        s->leaves[s->n_leaves++] = s->value[t];
    }
}

static void add_tensors(struct sample *s, const json_t *j)
{
    if (json_is_object(j) && json_object_get(j, "tensor") != NULL) {
        add_tensor(s, j);
    } else if (json_is_array(j)) {
        for (size_t i = 0; i < json_array_size(j); i++) {
            add_tensors(s, json_array_get(j, i));
        }
    }
}

/* ---- what functions ask of a sample ---- */

static eo_value tensor(const struct sample *s, const json_t *j)
{
    for (int t = 0; t < s->n_tensors; t++) {
        if (s->json[t] == j) {
            return s->value[t];
        }
    }
    return EO_NO_VALUE;
}

static eo_value input(const struct sample *s)
{
    return tensor(s, json_object_get(s->root, "input"));
}

static const json_t *arg(const struct sample *s, size_t i)
{
    return json_array_get(s->args, i);
}

static eo_value arg_tensor(const struct sample *s, size_t i)
{
    return tensor(s, arg(s, i));
}

static const json_t *kwarg(const struct sample *s, const char *name)
{
    return json_object_get(s->kwargs, name);
}

static int64_t arg_int(const struct sample *s, size_t i)
{
    return json_integer_value(arg(s, i));
}

static struct eo_tensor_desc desc(const struct sample *s, eo_value v)
{
    return *eo_build_desc(&s->b, v);
}

static eo_value scalar(struct sample *s, double v)
{
    return eo_build_scalar(&s->b, EO_FLOAT64, v);
}

static eo_value two(struct sample *s, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(&s->b, op, x, y);
}

static eo_value axis_op(struct sample *s, enum eo_op op, const eo_value *in, int n_in, int64_t axis)
{
    const struct eo_op_schema *schema = eo_op_schema(op);
    struct eo_attrs attrs;

    eo_attrs_default(schema, &attrs);
    ASSERT_OK(eo_attrs_set_int(schema, &attrs, "axis", axis, &err));
    return eo_build_op(&s->b, op, in, n_in, &attrs);
}

static eo_value slice(struct sample *s, eo_value x, int64_t dim, int64_t start, int64_t stop, int64_t step)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SLICE);
    struct eo_tensor_desc d = desc(s, x);
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS], steps[EO_MAX_DIMS];
    struct eo_attrs attrs;

    for (int i = 0; i < EO_MAX_DIMS; i++) {
        stops[i] = d.shape[i];
        steps[i] = 1;
    }
    dim += dim < 0 ? d.n_dims : 0;
    starts[dim] = start;
    stops[dim] = stop;
    steps[dim] = step;
    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "starts", starts, d.n_dims, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "stops", stops, d.n_dims, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "steps", steps, d.n_dims, &err));
    return eo_build_op(&s->b, EO_OP_SLICE, &x, 1, &attrs);
}

/* The first result's shape, for functions that only regroup. */
static eo_value like_result(struct sample *s, eo_value x)
{
    int64_t shape[EO_MAX_DIMS];
    int n = read_shape(json_array_get(json_object_get(s->root, "outputs"), 0), shape);

    return eo_build_reshape(&s->b, x, shape, n);
}

static eo_value reduced_loss(struct sample *s, eo_value losses)
{
    const json_t *how = kwarg(s, "reduction");
    const char *text = how != NULL ? json_string_value(how) : "mean";

    if (strcmp(text, "none") == 0) {
        return losses;
    }
    return eo_build_reduce(&s->b, strcmp(text, "sum") == 0 ? EO_OP_SUM : EO_OP_MEAN, losses, NULL, 0, false);
}

/* ---- functions: EO_NO_VALUE = no counterpart of this form ---- */

static eo_value emit_unary(struct sample *s, enum eo_op op)
{
    return eo_build_unary(&s->b, op, input(s));
}

static eo_value emit_binary(struct sample *s, enum eo_op op)
{
    eo_value y = arg_tensor(s, 0);

    if (kwarg(s, "rounding_mode") != NULL) {
        return EO_NO_VALUE;
    }
    if (kwarg(s, "alpha") != NULL) {
        y = two(s, EO_OP_MULTIPLY, y, scalar(s, number(kwarg(s, "alpha"))));
    }
    return two(s, op, input(s), y);
}

static eo_value emit_reduce(struct sample *s, enum eo_op op)
{
    const json_t *dim = kwarg(s, "dim");
    int64_t axes[EO_MAX_DIMS];
    int n = 0;

    if (json_is_integer(dim) && desc(s, input(s)).n_dims > 0) {
        axes[n++] = json_integer_value(dim);
    }
    return eo_build_reduce(&s->b, op, input(s), axes, n, json_is_true(kwarg(s, "keepdim")));
}

static eo_value emit_variance(struct sample *s, enum eo_op op)
{
    const struct eo_op_schema *schema = eo_op_schema(EO_OP_VARIANCE);
    const json_t *dim = kwarg(s, "dim"), *unbiased = kwarg(s, "unbiased");
    eo_value x = input(s), v;
    struct eo_attrs attrs;
    int64_t axis = json_integer_value(dim);

    eo_attrs_default(schema, &attrs);
    ASSERT_OK(eo_attrs_set_ints(schema, &attrs, "axes", &axis, dim != NULL, &err));
    ASSERT_OK(eo_attrs_set_int(schema, &attrs, "keepdims", json_is_true(kwarg(s, "keepdim")), &err));
    ASSERT_OK(eo_attrs_set_int(schema, &attrs, "correction", unbiased == NULL || json_is_true(unbiased), &err));
    v = eo_build_op(&s->b, EO_OP_VARIANCE, &x, 1, &attrs);
    return op == EO_OP_SQRT ? eo_build_unary(&s->b, op, v) : v;
}

static eo_value emit_softmax(struct sample *s, enum eo_op op)
{
    eo_value x = input(s);

    if (desc(s, x).n_dims == 0) {
        x = eo_build_reshape(&s->b, x, (int64_t[]){1}, 1);
    }
    return like_result(s, axis_op(s, op, &x, 1, arg_int(s, 0)));
}

static eo_value emit_regroup(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return like_result(s, input(s));
}

static eo_value emit_square(struct sample *s, enum eo_op op)
{
    return two(s, op, input(s), input(s));
}

static eo_value emit_rsqrt(struct sample *s, enum eo_op op)
{
    return eo_build_unary(&s->b, op, eo_build_unary(&s->b, EO_OP_SQRT, input(s)));
}

static eo_value emit_softplus(struct sample *s, enum eo_op op)
{
    double beta = number(kwarg(s, "beta")), threshold = number(kwarg(s, "threshold"));
    eo_value scaled = two(s, EO_OP_MULTIPLY, input(s), scalar(s, beta));
    eo_value curve = two(s, EO_OP_DIVIDE, eo_build_unary(&s->b, op, scaled), scalar(s, beta));

    return eo_build_where(&s->b, two(s, EO_OP_GREATER, scaled, scalar(s, threshold)), input(s), curve);
}

static eo_value emit_clamp(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return two(s, EO_OP_MINIMUM, two(s, EO_OP_MAXIMUM, input(s), arg_tensor(s, 0)), arg_tensor(s, 1));
}

static eo_value emit_hardtanh(struct sample *s, enum eo_op op)
{
    const struct eo_op_schema *schema = eo_op_schema(op);
    double low = kwarg(s, "min_val") != NULL ? number(kwarg(s, "min_val")) : -1;
    double high = kwarg(s, "max_val") != NULL ? number(kwarg(s, "max_val")) : 1;
    eo_value x = input(s);
    struct eo_attrs attrs;

    if (low >= high) { /* refused here; at equality PyTorch's hardtanh excludes its bounds, which its clamp does not */
        return EO_NO_VALUE;
    }
    eo_attrs_default(schema, &attrs);
    ASSERT_OK(eo_attrs_set_float(schema, &attrs, "low", low, &err));
    ASSERT_OK(eo_attrs_set_float(schema, &attrs, "high", high, &err));
    return eo_build_op(&s->b, op, &x, 1, &attrs);
}

static eo_value emit_where(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return eo_build_where(&s->b, arg_tensor(s, 0), input(s), arg_tensor(s, 1));
}

static eo_value emit_masked_fill(struct sample *s, enum eo_op op)
{
    eo_value fill = arg_tensor(s, 1);

    EO_UNUSED(op);
    if (fill == EO_NO_VALUE) {
        fill = scalar(s, number(arg(s, 1)));
    }
    return eo_build_where(&s->b, arg_tensor(s, 0), fill, input(s));
}

static eo_value emit_outer(struct sample *s, enum eo_op op)
{
    int64_t column[2] = {desc(s, input(s)).shape[0], 1};

    return two(s, op, eo_build_reshape(&s->b, input(s), column, 2), arg_tensor(s, 0));
}

static eo_value emit_addmm(struct sample *s, enum eo_op op)
{
    double alpha = number(kwarg(s, "alpha")), beta = number(kwarg(s, "beta"));
    eo_value product = two(s, op, arg_tensor(s, 0), arg_tensor(s, 1));

    return two(s, EO_OP_ADD, two(s, EO_OP_MULTIPLY, input(s), scalar(s, beta)),
               two(s, EO_OP_MULTIPLY, product, scalar(s, alpha)));
}

static eo_value emit_linear(struct sample *s, enum eo_op op)
{
    eo_value weight = eo_build_transpose(&s->b, arg_tensor(s, 0), NULL, 0); /* PyTorch's is (O, I) */

    return eo_build_op(&s->b, op, (eo_value[]){input(s), weight, arg_tensor(s, 1)}, 3, NULL);
}

static eo_value emit_permute(struct sample *s, enum eo_op op)
{
    const json_t *dims = arg(s, 0);
    int64_t perm[EO_MAX_DIMS];
    int n = desc(s, input(s)).n_dims;

    EO_UNUSED(op);
    for (int i = 0; i < n; i++) {
        perm[i] = json_integer_value(json_array_get(dims, (size_t)i));
        perm[i] += perm[i] < 0 ? n : 0;
    }
    return eo_build_transpose(&s->b, input(s), perm, n);
}

static eo_value emit_swap(struct sample *s, enum eo_op op)
{
    int64_t perm[EO_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7}, i = arg_int(s, 0), j = arg_int(s, 1);
    int n = desc(s, input(s)).n_dims;

    EO_UNUSED(op);
    if (n == 0) {
        return EO_NO_VALUE;
    }
    i += i < 0 ? n : 0;
    j += j < 0 ? n : 0;
    perm[i] = j;
    perm[j] = i;
    return eo_build_transpose(&s->b, input(s), perm, n);
}

static eo_value emit_expand(struct sample *s, enum eo_op op)
{
    int64_t shape[EO_MAX_DIMS];
    int n = read_shape(json_array_get(json_object_get(s->root, "outputs"), 0), shape);

    EO_UNUSED(op);
    return eo_build_expand(&s->b, input(s), shape, n);
}

static eo_value emit_narrow(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    if (!json_is_integer(arg(s, 1))) {
        return EO_NO_VALUE;
    }
    return slice(s, input(s), arg_int(s, 0), arg_int(s, 1), arg_int(s, 1) + arg_int(s, 2), 1);
}

static eo_value emit_select(struct sample *s, enum eo_op op)
{
    int64_t dim = arg_int(s, 0), i = arg_int(s, 1);
    struct eo_tensor_desc d = desc(s, input(s));

    EO_UNUSED(op);
    i += i < 0 ? d.shape[dim < 0 ? dim + d.n_dims : dim] : 0;
    return like_result(s, slice(s, input(s), dim, i, i + 1, 1));
}

static eo_value emit_flip(struct sample *s, enum eo_op op)
{
    const json_t *dims = kwarg(s, "dims");
    eo_value x = input(s);

    EO_UNUSED(op);
    for (size_t i = 0; i < json_array_size(dims); i++) {
        x = slice(s, x, json_integer_value(json_array_get(dims, i)), -1, INT64_MIN / 2, -1);
    }
    return x;
}

static eo_value emit_cat(struct sample *s, enum eo_op op)
{
    eo_value parts[MAX_TENSORS];

    memcpy(parts, s->value, sizeof(parts));
    return axis_op(s, op, parts, s->n_tensors, json_integer_value(kwarg(s, "dim")));
}

static eo_value emit_stack(struct sample *s, enum eo_op op)
{
    eo_value parts[MAX_TENSORS];
    int64_t shape[EO_MAX_DIMS], dim = arg_int(s, 0);
    int n = read_shape(json_array_get(json_object_get(s->root, "outputs"), 0), shape);

    dim += dim < 0 ? n : 0;
    shape[dim] = 1;
    for (int t = 0; t < s->n_tensors; t++) {
        parts[t] = eo_build_reshape(&s->b, s->value[t], shape, n);
    }
    return axis_op(s, op, parts, s->n_tensors, dim);
}

static eo_value emit_index_select(struct sample *s, enum eo_op op)
{
    if (desc(s, input(s)).n_dims == 0) {
        return EO_NO_VALUE;
    }
    return axis_op(s, op, (eo_value[]){input(s), arg_tensor(s, 1)}, 2, arg_int(s, 0));
}

static eo_value emit_embedding(struct sample *s, enum eo_op op)
{
    if (json_object_size(s->kwargs) > 0) {
        return EO_NO_VALUE;
    }
    return axis_op(s, op, (eo_value[]){input(s), arg_tensor(s, 0)}, 2, 0);
}

static eo_value emit_cross_entropy(struct sample *s, enum eo_op op)
{
    eo_value x = input(s), target = arg_tensor(s, 0), losses;

    if (desc(s, x).n_dims != 2) {
        return EO_NO_VALUE;
    }
    if (desc(s, target).dtype == EO_INT64) {
        losses = two(s, op, x, target);
    } else { /* class probabilities */
        losses = two(s, EO_OP_MULTIPLY, target, axis_op(s, EO_OP_LOG_SOFTMAX, &x, 1, 1));
        losses = eo_build_reduce(&s->b, EO_OP_SUM, losses, (int64_t[]){1}, 1, false);
        losses = eo_build_unary(&s->b, EO_OP_NEGATIVE, losses);
    }
    return reduced_loss(s, losses);
}

static eo_value emit_mse(struct sample *s, enum eo_op op)
{
    eo_value d = two(s, EO_OP_SUBTRACT, input(s), arg_tensor(s, 0));

    return reduced_loss(s, two(s, op, d, d));
}

static eo_value emit_l1(struct sample *s, enum eo_op op)
{
    return reduced_loss(s, eo_build_unary(&s->b, op, two(s, EO_OP_SUBTRACT, input(s), arg_tensor(s, 0))));
}

/* softplus(x) - x y */
static eo_value emit_bce(struct sample *s, enum eo_op op)
{
    eo_value xy = two(s, EO_OP_MULTIPLY, input(s), arg_tensor(s, 0));

    return reduced_loss(s, two(s, EO_OP_SUBTRACT, eo_build_unary(&s->b, op, input(s)), xy));
}

static const struct function {
    const char *name;
    eo_value (*emit)(struct sample *s, enum eo_op op);
    enum eo_op op;
} functions[] = {
    {"abs", emit_unary, EO_OP_ABS},
    {"exp", emit_unary, EO_OP_EXP},
    {"log", emit_unary, EO_OP_LOG},
    {"log1p", emit_unary, EO_OP_LOG1P},
    {"expm1", emit_unary, EO_OP_EXPM1},
    {"sqrt", emit_unary, EO_OP_SQRT},
    {"reciprocal", emit_unary, EO_OP_RECIPROCAL},
    {"sigmoid", emit_unary, EO_OP_SIGMOID},
    {"tanh", emit_unary, EO_OP_TANH},
    {"neg", emit_unary, EO_OP_NEGATIVE},
    {"sign", emit_unary, EO_OP_SIGN},
    {"nn.functional.relu", emit_unary, EO_OP_RELU},
    {"add", emit_binary, EO_OP_ADD},
    {"sub", emit_binary, EO_OP_SUBTRACT},
    {"mul", emit_binary, EO_OP_MULTIPLY},
    {"div", emit_binary, EO_OP_DIVIDE},
    {"true_divide", emit_binary, EO_OP_DIVIDE},
    {"pow", emit_binary, EO_OP_POWER},
    {"maximum", emit_binary, EO_OP_MAXIMUM},
    {"minimum", emit_binary, EO_OP_MINIMUM},
    {"matmul", emit_binary, EO_OP_MATMUL},
    {"mm", emit_binary, EO_OP_MATMUL},
    {"bmm", emit_binary, EO_OP_MATMUL},
    {"mv", emit_binary, EO_OP_MATMUL},
    {"dot", emit_binary, EO_OP_MATMUL},
    {"sum", emit_reduce, EO_OP_SUM},
    {"mean", emit_reduce, EO_OP_MEAN},
    {"amax", emit_reduce, EO_OP_MAX},
    {"amin", emit_reduce, EO_OP_MIN},
    {"var", emit_variance, EO_OP_VARIANCE},
    {"std", emit_variance, EO_OP_SQRT},
    {"softmax", emit_softmax, EO_OP_SOFTMAX},
    {"log_softmax", emit_softmax, EO_OP_LOG_SOFTMAX},
    {"reshape", emit_regroup, EO_OP_RESHAPE},
    {"squeeze", emit_regroup, EO_OP_RESHAPE},
    {"unsqueeze", emit_regroup, EO_OP_RESHAPE},
    {"square", emit_square, EO_OP_MULTIPLY},
    {"rsqrt", emit_rsqrt, EO_OP_RECIPROCAL},
    {"nn.functional.softplus", emit_softplus, EO_OP_SOFTPLUS},
    {"clamp", emit_clamp, EO_OP_MINIMUM},
    {"nn.functional.hardtanh", emit_hardtanh, EO_OP_CLIP},
    {"where", emit_where, EO_OP_WHERE},
    {"masked_fill", emit_masked_fill, EO_OP_WHERE},
    {"outer", emit_outer, EO_OP_MULTIPLY},
    {"addmm", emit_addmm, EO_OP_MATMUL},
    {"nn.functional.linear", emit_linear, EO_OP_LINEAR},
    {"permute", emit_permute, EO_OP_TRANSPOSE},
    {"transpose", emit_swap, EO_OP_TRANSPOSE},
    {"expand", emit_expand, EO_OP_EXPAND},
    {"narrow", emit_narrow, EO_OP_SLICE},
    {"select", emit_select, EO_OP_SLICE},
    {"flip", emit_flip, EO_OP_SLICE},
    {"cat", emit_cat, EO_OP_CONCATENATE},
    {"stack", emit_stack, EO_OP_CONCATENATE},
    {"index_select", emit_index_select, EO_OP_GATHER},
    {"nn.functional.embedding", emit_embedding, EO_OP_GATHER},
    {"nn.functional.cross_entropy", emit_cross_entropy, EO_OP_CROSS_ENTROPY},
    {"nn.functional.mse_loss", emit_mse, EO_OP_MULTIPLY},
    {"nn.functional.l1_loss", emit_l1, EO_OP_ABS},
    {"nn.functional.binary_cross_entropy_with_logits", emit_bce, EO_OP_SOFTPLUS},
};

/* ---- running ---- */

/* Both sides compute in float64 from the same float32 inputs; what is left is rounding. */
static void compare(const double *got, const json_t *wanted, const char *what, int line)
{
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        double w = number(json_array_get(wanted, i));
        bool equal = isnan(w) ? isnan(got[i]) : isinf(w) ? got[i] == w : fabs(got[i] - w) <= 1e-12 + 1e-9 * fabs(w);

        ck_assert_msg(equal, "line %d, %s, element %zu: %.17g, PyTorch has %.17g", line, what, i, got[i], w);
    }
}

static void run_sample(struct eo_device *dev, struct sample *s, const char *name, eo_value y, int line)
{
    const json_t *outputs = json_object_get(s->root, "outputs"), *seeds = json_object_get(s->root, "grad_outputs");
    const json_t *grads = json_object_get(s->root, "grad_leaves"), *seed_data = json_array_get(seeds, 0);
    eo_value results[MAX_TENSORS + 1] = {y}, seed;
    struct eo_tensor_desc d = desc(s, y);
    double *buffer = calloc((size_t)1 << 16, sizeof(double));
    struct harness h;

    ck_assert_ptr_nonnull(buffer);
    for (size_t i = 0; i < json_array_size(seed_data); i++) {
        buffer[i] = number(json_array_get(seed_data, i));
    }
    ASSERT_OK(eo_graph_constant(s->g, &d, buffer, &seed, &err));
    ASSERT_OK(autodiff_gradients(s->g, y, seed, s->leaves, s->n_leaves, results + 1, &err));
    ASSERT_OK(harness_open(&h, dev, s->g, results, 1 + (uint32_t)s->n_leaves, (struct harness_options){0}, &err));
    for (int t = 0; t < s->n_tensors; t++) {
        harness_feed(&h, s->value[t], s->data[t]);
    }
    ASSERT_OK(harness_run(&h, &err));
    harness_fetch(&h, 0, buffer);
    compare(buffer, json_object_get(json_array_get(outputs, 0), "data"), name, line);
    for (int l = 0; l < s->n_leaves; l++) {
        const json_t *wanted = json_array_get(grads, (size_t)l);

        if (!json_is_null(wanted)) {
            harness_fetch(&h, 1 + (uint32_t)l, buffer);
            compare(buffer, json_object_get(wanted, "data"), name, line);
        }
    }
    harness_close(&h);
    free(buffer);
}

/* Returns whether the sample had a counterpart. */
static bool try_sample(struct eo_device *dev, json_t *root, const struct function *f, int line)
{
    struct sample s = {.root = root,
                       .args = json_object_get(root, "args"),
                       .kwargs = json_object_get(root, "kwargs"),
                       .g = eo_graph_new()};
    const char *key;
    json_t *value;
    eo_value y;

    ck_assert_ptr_nonnull(s.g);
    eo_build_init(&s.b, s.g, &err);
    add_tensors(&s, json_object_get(root, "input"));
    add_tensors(&s, s.args);
    json_object_foreach(s.kwargs, key, value)
    {
        add_tensors(&s, value);
    }
    y = f->emit(&s, f->op);
    ASSERT_OK(s.b.status);
    if (y != EO_NO_VALUE) {
        run_sample(dev, &s, f->name, y, line);
    }
    for (int t = 0; t < s.n_tensors; t++) {
        free(s.data[t]);
    }
    eo_graph_free(s.g);
    return y != EO_NO_VALUE;
}

static int find_function(const char *name)
{
    for (size_t i = 0; i < EO_COUNT_OF(functions); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

START_TEST(gradients_equal_pytorchs)
{
    struct eo_device *dev = harness_device("reference");
    const char *source = getenv("EO_SOURCE_DIR");
    int used[EO_COUNT_OF(functions)] = {0}, n_run = 0, line_number = 0;
    char path[512], *line = NULL;
    size_t capacity = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/tests/vectors/torch-opinfo-grad.jsonl", source != NULL ? source : ".");
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    while (getline(&line, &capacity, file) > 0) {
        json_t *root = json_loads(line, 0, NULL);
        int f = find_function(json_string_value(json_object_get(root, "op")));

        line_number++;
        if (f >= 0 && try_sample(dev, root, &functions[f], line_number)) {
            used[f]++;
            n_run++;
        }
        json_decref(root);
    }
    (void)fclose(file);
    free(line);
    for (size_t i = 0; i < EO_COUNT_OF(functions); i++) {
        ck_assert_msg(used[i] > 0, "no sample of %s was run", functions[i].name);
    }
    ck_assert_int_ge(n_run, 210);
    registry_close(dev);
}
END_TEST

EO_SUITE("opinfo", gradients_equal_pytorchs)
