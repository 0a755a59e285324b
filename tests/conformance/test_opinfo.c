/* PyTorch's OpInfo samples (results in float64) on every backend, for the functions that one row of ours is. Gradients
 * and functions made of several rows are the engine's (tests/engine/test_opinfo.c). */
#include "tests/conformance/cases.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TENSORS = 8 };

static struct devices devices;

/* One sample while it becomes a call: tensors in the order of input, args; plain arguments stay JSON. */
struct sample {
    const json_t *root, *args, *kwargs;
    const json_t *tensors[MOST_TENSORS];
    int n_tensors;
};

/* Fills attributes and the order of operands; false: this form has no counterpart in one row. */
struct call {
    struct eo_attrs attrs;
    int order[MOST_TENSORS], n;
};
typedef bool (*adapter_fn)(const struct sample *s, const struct eo_op_schema *op, struct call *c);

static const json_t *argument(const struct sample *s, size_t position, const char *name)
{
    const json_t *by_name = json_object_get(s->kwargs, name);
    return by_name ? by_name : json_array_get(s->args, position);
}

static int rank_of(const struct sample *s, int tensor)
{
    return (int)json_array_size(json_object_get(s->tensors[tensor], "shape"));
}

static void set_int(const struct eo_op_schema *op, struct call *c, const char *name, int64_t value)
{
    c->attrs.v[eo_attr_index(op, name)].i = value;
}

/* Numbers of a JSON list, or the one number. */
static void set_ints(const struct eo_op_schema *op, struct call *c, const char *name, const json_t *list)
{
    struct eo_attr_value *v = &c->attrs.v[eo_attr_index(op, name)];
    v->n = 0;
    if (json_is_integer(list))
        v->ints[v->n++] = json_integer_value(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        v->ints[v->n++] = json_integer_value(json_array_get(list, i));
}

static bool plain(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    (void)op;
    (void)c;
    return json_object_size(s->kwargs) == 0;
}

/* A loss of two tensors of one shape. */
static bool pair_loss(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    const char *how = json_string_value(json_object_get(s->kwargs, "reduction"));
    if (how && eo_attrs_set_text(op, &c->attrs, "reduction", how, NULL) != EO_OK)
        return false;
    const json_t *delta = json_object_get(s->kwargs, "delta");
    if (delta)
        c->attrs.v[eo_attr_index(op, "delta")].f = json_number_value(delta);
    if (json_is_true(json_object_get(s->kwargs, "log_target")))
        set_int(op, c, "log_target", 1);
    return true;
}

static bool where(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    c->order[0] = 1; /* torch: input.where(condition, other) */
    c->order[1] = 0;
    return plain(s, op, c);
}

static bool reduction(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    if (rank_of(s, 0) > 0)
        set_ints(op, c, "axes", json_object_get(s->kwargs, "dim"));
    set_int(op, c, "keepdims", json_is_true(json_object_get(s->kwargs, "keepdim")));
    return true;
}

static bool variance(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    set_int(op, c, "correction", json_is_false(json_object_get(s->kwargs, "unbiased")) ? 0 : 1);
    return reduction(s, op, c);
}

static bool along(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    set_int(op, c, "axis", json_integer_value(argument(s, 0, "dim")));
    return rank_of(s, 0) > 0;
}

static bool concatenation(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    set_int(op, c, "axis", json_integer_value(argument(s, 0, "dim")));
    return s->n_tensors > 0;
}

static bool shaped(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    const json_t *shape = argument(s, 0, "shape");
    set_ints(op, c, "shape", shape);
    for (size_t i = 0; op->op == EO_OP_EXPAND && i < json_array_size(shape); i++)
        if (json_integer_value(json_array_get(shape, i)) < 0) /* torch: keep that dimension */
            return false;
    return true;
}

static bool permutation(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    set_ints(op, c, "perm", argument(s, 0, "dims"));
    struct eo_attr_value *v = &c->attrs.v[0];
    for (int i = 0; i < v->n; i++)
        v->ints[i] += v->ints[i] < 0 ? v->n : 0;
    return true;
}

static bool swap(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    struct eo_attr_value *v = &c->attrs.v[eo_attr_index(op, "perm")];
    int64_t a = json_integer_value(argument(s, 0, "dim0")), b = json_integer_value(argument(s, 1, "dim1"));
    int n = rank_of(s, 0);
    for (int i = 0; i < n; i++)
        v->ints[i] = i;
    v->n = (uint8_t)n;
    if (n > 0) {
        a += a < 0 ? n : 0;
        b += b < 0 ? n : 0;
        v->ints[a] = b;
        v->ints[b] = a;
    }
    return true;
}

static bool narrowing(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    int64_t axis = json_integer_value(argument(s, 0, "dim")), n = rank_of(s, 0);
    const json_t *start = argument(s, 1, "start"), *shape = json_object_get(s->tensors[0], "shape");
    if (!json_is_integer(start))
        return false;
    axis += axis < 0 ? n : 0;
    for (int64_t d = 0; d < n; d++) {
        struct eo_attr_value *starts = &c->attrs.v[eo_attr_index(op, "starts")];
        struct eo_attr_value *stops = &c->attrs.v[eo_attr_index(op, "stops")];
        starts->n = stops->n = (uint8_t)n;
        starts->ints[d] = d == axis ? json_integer_value(start) : 0;
        stops->ints[d] = d == axis ? starts->ints[d] + json_integer_value(argument(s, 2, "length"))
                                   : json_integer_value(json_array_get(shape, (size_t)d));
    }
    return true;
}

static bool selection(const struct sample *s, const struct eo_op_schema *op, struct call *c)
{
    set_int(op, c, "axis", json_integer_value(argument(s, 0, "dim")));
    return rank_of(s, 0) > 0;
}

static const struct {
    const char *function, *variant;
    enum eo_op op;
    adapter_fn adapt;
    int least; /* samples that must be compared */
} functions[] = {
    {"abs", "", EO_OP_ABS, plain, 1},
    {"exp", "", EO_OP_EXP, plain, 3},
    {"expm1", "", EO_OP_EXPM1, plain, 1},
    {"log", "", EO_OP_LOG, plain, 3},
    {"log1p", "", EO_OP_LOG1P, plain, 1},
    {"neg", "", EO_OP_NEGATIVE, plain, 1},
    {"reciprocal", "", EO_OP_RECIPROCAL, plain, 3},
    {"sigmoid", "", EO_OP_SIGMOID, plain, 3},
    {"sign", "", EO_OP_SIGN, plain, 1},
    {"sqrt", "", EO_OP_SQRT, plain, 1},
    {"tanh", "", EO_OP_TANH, plain, 1},
    {"nn.functional.relu", "", EO_OP_RELU, plain, 4},
    {"ceil", "", EO_OP_CEIL, plain, 1},
    {"floor", "", EO_OP_FLOOR, plain, 1},
    {"sin", "", EO_OP_SIN, plain, 1},
    {"cos", "", EO_OP_COS, plain, 3},
    {"erf", "", EO_OP_ERF, plain, 1},
    {"nn.functional.leaky_relu", "", EO_OP_LEAKY_RELU, plain, 3},
    {"nn.functional.elu", "", EO_OP_ELU, plain, 3},
    {"nn.functional.celu", "", EO_OP_CELU, plain, 3},
    {"nn.functional.silu", "", EO_OP_SILU, plain, 3},
    {"nn.functional.mish", "", EO_OP_MISH, plain, 3},
    {"nn.functional.softsign", "", EO_OP_SOFTSIGN, plain, 3},
    {"nn.functional.logsigmoid", "", EO_OP_LOG_SIGMOID, plain, 3},
    {"nn.functional.hardswish", "", EO_OP_HARD_SWISH, plain, 2},
    {"nn.functional.mse_loss", "", EO_OP_MSE_LOSS, pair_loss, 6},
    {"nn.functional.l1_loss", "", EO_OP_MAE_LOSS, pair_loss, 6},
    {"nn.functional.smooth_l1_loss", "", EO_OP_SMOOTH_L1_LOSS, pair_loss, 6},
    {"nn.functional.huber_loss", "", EO_OP_HUBER_LOSS, pair_loss, 6},
    {"nn.functional.kl_div", "", EO_OP_KL_DIV_LOSS, pair_loss, 6},
    {"nn.functional.binary_cross_entropy", "", EO_OP_BCE_LOSS, pair_loss, 5},
    {"nn.functional.binary_cross_entropy_with_logits", "", EO_OP_BCE_WITH_LOGITS_LOSS, pair_loss, 5},
    {"outer", "", EO_OP_OUTER, plain, 1},
    {"atan2", "", EO_OP_ATAN2, plain, 5},
    {"add", "", EO_OP_ADD, plain, 5},
    {"sub", "", EO_OP_SUBTRACT, plain, 5},
    {"mul", "", EO_OP_MULTIPLY, plain, 5},
    {"div", "no_rounding_mode", EO_OP_DIVIDE, plain, 5},
    {"true_divide", "", EO_OP_DIVIDE, plain, 5},
    {"pow", "", EO_OP_POWER, plain, 5},
    {"maximum", "", EO_OP_MAXIMUM, plain, 5},
    {"minimum", "", EO_OP_MINIMUM, plain, 5},
    {"where", "", EO_OP_WHERE, where, 3},
    {"matmul", "", EO_OP_MATMUL, plain, 6},
    {"mm", "", EO_OP_MATMUL, plain, 1},
    {"bmm", "", EO_OP_MATMUL, plain, 1},
    {"mv", "", EO_OP_MATMUL, plain, 1},
    {"dot", "", EO_OP_MATMUL, plain, 1},
    {"sum", "", EO_OP_SUM, reduction, 6},
    {"mean", "", EO_OP_MEAN, reduction, 6},
    {"amax", "", EO_OP_MAX, reduction, 6},
    {"amin", "", EO_OP_MIN, reduction, 6},
    {"var", "", EO_OP_VARIANCE, variance, 4},
    {"std", "", EO_OP_STD, variance, 4},
    {"softmax", "", EO_OP_SOFTMAX, along, 4},
    {"log_softmax", "", EO_OP_LOG_SOFTMAX, along, 4},
    {"cat", "", EO_OP_CONCATENATE, concatenation, 6},
    {"expand", "", EO_OP_EXPAND, shaped, 3},
    {"reshape", "", EO_OP_RESHAPE, shaped, 5},
    {"permute", "", EO_OP_TRANSPOSE, permutation, 4},
    {"transpose", "", EO_OP_TRANSPOSE, swap, 6},
    {"narrow", "", EO_OP_SLICE, narrowing, 2},
    {"index_select", "", EO_OP_GATHER, selection, 2},
    {"nn.functional.embedding", "", EO_OP_GATHER, plain, 3},
};

static double number(const json_t *j)
{
    if (json_is_string(j))
        return strcmp(json_string_value(j), "nan") == 0 ? (double)NAN
               : json_string_value(j)[0] == '-'         ? -(double)INFINITY
                                                        : (double)INFINITY;
    return json_is_boolean(j) ? json_is_true(j) : json_number_value(j);
}

static struct eo_tensor_desc describe(const json_t *tensor, enum eo_dtype floats)
{
    struct eo_tensor_desc d = {0};
    const json_t *shape = json_object_get(tensor, "shape");
    enum eo_dtype dtype = eo_dtype_by_name(json_string_value(json_object_get(tensor, "dtype")));
    d.dtype = (uint8_t)(eo_dtype_kind(dtype) == EO_KIND_FLOAT ? floats : dtype);
    for (size_t i = 0; i < json_array_size(shape); i++)
        d.shape[d.n_dims++] = json_integer_value(json_array_get(shape, i));
    return d;
}

static void collect(struct sample *s, const json_t *value)
{
    const json_t *tensor = json_object_get(value, "tensor");
    if (tensor) {
        CHECK(s->n_tensors < MOST_TENSORS, "too many tensors in a sample");
        s->tensors[s->n_tensors++] = tensor;
        return;
    }
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        collect(s, json_array_get(value, i));
}

static void compare(struct eo_device *dev, const struct run *r, const json_t *expected)
{
    struct eo_error err;
    struct results out;
    enum eo_dtype dtype = (enum eo_dtype)r->out[0].dtype;
    const json_t *data = json_object_get(expected, "data");
    double tolerance = dtype == EO_FLOAT64 ? 1e-12 : 3e-5;
    ASSERT_OK(run_on(dev, r, -1, &out, &err));
    CHECK((int64_t)json_array_size(data) == eo_tensor_desc_count(&r->out[0]), "%s has another size", out.kernel);
    for (size_t i = 0; i < json_array_size(data); i++) {
        double want = number(json_array_get(data, i)), got = element_value(dtype, out.out[0], (int64_t)i);
        CHECK(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= tolerance * (fabs(want) + 1),
              "%s: element %zu is %.17g, PyTorch says %.17g", out.kernel, i, got, want);
    }
    results_fini(&out);
}

static bool try_sample(const struct sample *s, size_t function, enum eo_dtype floats)
{
    struct eo_error err;
    struct run r;
    const struct eo_op_schema *op = eo_op_schema(functions[function].op);
    struct call c = {.n = s->n_tensors};
    struct eo_tensor_desc in[MOST_TENSORS];
    eo_attrs_default(op, &c.attrs);
    for (int i = 0; i < c.n; i++)
        c.order[i] = i;
    if (!functions[function].adapt(s, op, &c))
        return false;
    for (int i = 0; i < c.n; i++)
        in[i] = describe(s->tensors[c.order[i]], floats);
    ASSERT_OK(run_init(&r, op, &c.attrs, in, c.n, &err));
    for (int i = 0; i < c.n; i++) {
        const json_t *data = json_object_get(s->tensors[c.order[i]], "data");
        for (size_t k = 0; k < json_array_size(data); k++)
            set_element((enum eo_dtype)in[i].dtype, r.in_data[i], (int64_t)k, number(json_array_get(data, k)));
    }
    for (int b = -1; b < devices.n; b++)
        compare(b < 0 ? devices.reference : devices.under_test[b], &r,
                json_array_get(json_object_get(s->root, "outputs"), 0));
    run_fini(&r);
    return true;
}

static void try_line(const json_t *root, int *compared)
{
    const char *name = json_string_value(json_object_get(root, "op"));
    const char *variant = json_string_value(json_object_get(root, "variant"));
    for (size_t f = 0; f < EO_COUNT_OF(functions); f++) {
        struct sample s = {
            .root = root, .args = json_object_get(root, "args"), .kwargs = json_object_get(root, "kwargs")};
        if (strcmp(functions[f].function, name) != 0 || strcmp(functions[f].variant, variant) != 0)
            continue;
        collect(&s, json_object_get(root, "input"));
        collect(&s, s.args);
        if (try_sample(&s, f, EO_FLOAT64) && try_sample(&s, f, EO_FLOAT32))
            compared[f]++;
    }
}

START_TEST(test_results_equal_pytorchs)
{
    char path[512];
    int compared[EO_COUNT_OF(functions)] = {0};
    snprintf(path, sizeof path, "%s/tests/vectors/torch-opinfo-grad.jsonl", getenv("EO_SOURCE_DIR"));
    FILE *f = fopen(path, "re");
    ck_assert_msg(f != NULL, "%s", path);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, f) > 0) {
        json_error_t error;
        json_t *root = json_loads(line, JSON_DECODE_ANY, &error);
        CHECK(root, "%s", error.text);
        try_line(root, compared);
        json_decref(root);
    }
    free(line);
    ck_assert_int_eq(fclose(f), 0);
    for (size_t i = 0; i < EO_COUNT_OF(functions); i++)
        ck_assert_msg(compared[i] >= functions[i].least, "%s: %d samples were compared", functions[i].function,
                      compared[i]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_results_equal_pytorchs};
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("PyTorch samples", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
