/* What autodiff promises beside the formulas (those: test_gradients): conventions at kinks, what flows and what does
 * not, errors, depth. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;
static struct eo_graph *g;
static struct eo_builder b;

static void setup(void)
{
    g = eo_graph_new();
    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
}

static void teardown(void)
{
    eo_graph_free(g);
}

/* Runs the graph on the reference backend; feeds in node order, outputs as float64. */
static void evaluate(const double *const *feeds, const eo_value *outputs, uint32_t n_outputs, double **out)
{
    struct eo_device *dev = harness_device("reference");
    struct harness h;

    ASSERT_OK(harness_open(&h, dev, g, outputs, n_outputs, (struct harness_options){0}, &err));
    for (uint32_t i = 0; i < h.n_inputs; i++) {
        harness_feed(&h, h.inputs[i].value, feeds[i]);
    }
    ASSERT_OK(harness_run(&h, &err));
    for (uint32_t i = 0; i < n_outputs; i++) {
        harness_fetch(&h, i, out[i]);
    }
    harness_close(&h);
    registry_close(dev);
}

static eo_value total(eo_value v)
{
    return eo_build_reduce(&b, EO_OP_SUM, v, NULL, 0, false);
}

static eo_value gradient(eo_value y, eo_value x)
{
    eo_value out = EO_NO_VALUE;

    ASSERT_OK(b.status);
    ASSERT_OK(autodiff_gradients(g, y, EO_NO_VALUE, &x, 1, &out, &err));
    return out;
}

static void assert_same(const double *got, const double *wanted, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        bool equal = isnan(wanted[i]) ? isnan(got[i]) : got[i] == wanted[i];

        ck_assert_msg(equal, "%s: element %d is %g, not %g", what, i, got[i], wanted[i]);
    }
}

/* d sum(op(x)) / dx at n points. */
static void check_unary(enum eo_op op, const struct eo_attrs *attrs, const double *x, const double *wanted, int n)
{
    double got[8];
    double *out[1] = {got};
    eo_value in, dx;

    setup();
    in = harness_input(g, "x", EO_FLOAT64, 1, (int64_t[]){n});
    dx = gradient(total(eo_build_op(&b, op, &in, 1, attrs)), in);
    evaluate(&x, &dx, 1, out);
    assert_same(got, wanted, n, eo_op_schema(op)->name);
    teardown();
}

START_TEST(kinks_of_one_operand_are_pytorchs)
{
    const struct eo_op_schema *clip = eo_op_schema(EO_OP_CLIP);
    struct eo_attrs attrs;

    check_unary(EO_OP_RELU, NULL, (double[]){-1, 0, -0.0, 1, NAN, INFINITY, -INFINITY}, (double[]){0, 0, 0, 1, 1, 1, 0},
                7);
    check_unary(EO_OP_ABS, NULL, (double[]){-2, 0, 3, INFINITY}, (double[]){-1, 0, 1, 1}, 4);
    check_unary(EO_OP_SIGN, NULL, (double[]){-2, 0, 3, NAN}, (double[]){0, 0, 0, 0}, 4);
    check_unary(EO_OP_SQRT, NULL, (double[]){0, 4}, (double[]){INFINITY, 0.25}, 2);
    check_unary(EO_OP_ROUND, NULL, (double[]){0.5, 1.2, -3}, (double[]){0, 0, 0}, 3);
    check_unary(EO_OP_FLOOR, NULL, (double[]){0, 1.2, NAN}, (double[]){0, 0, 0}, 3);
    check_unary(EO_OP_CBRT, NULL, (double[]){0, 8}, (double[]){INFINITY, 1.0 / 12}, 2);
    eo_attrs_default(clip, &attrs);
    ASSERT_OK(eo_attrs_set_float(clip, &attrs, "low", -1, &err));
    ASSERT_OK(eo_attrs_set_float(clip, &attrs, "high", 2, &err));
    check_unary(EO_OP_CLIP, &attrs, (double[]){-1.5, -1, 0, 2, 2.5, NAN}, (double[]){0, 1, 1, 1, 0, 0}, 6);
}
END_TEST

/* The gradient of an activation at n points, with up to two of its numbers set. */
static void check_activation(enum eo_op op, const char *name, double number, const char *other, double other_number,
                             const double *x, const double *wanted, int n)
{
    const struct eo_op_schema *row = eo_op_schema(op);
    struct eo_attrs attrs;

    eo_attrs_default(row, &attrs);
    if (name != NULL) {
        ASSERT_OK(eo_attrs_set_float(row, &attrs, name, number, &err));
    }
    if (other != NULL) {
        ASSERT_OK(eo_attrs_set_float(row, &attrs, other, other_number, &err));
    }
    check_unary(op, &attrs, x, wanted, n);
}

/* PyTorch: the slope of the lower side where there is one, 0 where a side is flat; NaN is handed on or lets g through.
 */
START_TEST(kinks_of_activations_are_pytorchs)
{
    const double at_zero[] = {-1, 0, -0.0, 1}, around_three[] = {-4, -3, 3, 4};

    check_activation(EO_OP_LEAKY_RELU, "alpha", 0.25, NULL, 0, at_zero, (double[]){0.25, 0.25, 0.25, 1}, 4);
    check_activation(EO_OP_ELU, "alpha", 2, NULL, 0, at_zero + 1, (double[]){2, 2, 1}, 3);
    check_activation(EO_OP_SELU, "alpha", 2, "gamma", 3, at_zero + 1, (double[]){6, 6, 3}, 3);
    check_activation(EO_OP_CELU, "alpha", 2, NULL, 0, at_zero + 1, (double[]){1, 1, 1}, 3);
    check_activation(EO_OP_HARD_SIGMOID, "alpha", 0.25, "beta", 0.75, around_three, (double[]){0, 0, 0, 0}, 4);
    check_activation(EO_OP_HARD_SIGMOID, "alpha", 0.25, "beta", 0.75, at_zero, (double[]){0.25, 0.25, 0.25, 0}, 4);
    check_activation(EO_OP_HARD_SWISH, NULL, 0, NULL, 0, around_three, (double[]){0, 0, 1, 1}, 4);
    check_activation(EO_OP_THRESHOLDED_RELU, "alpha", 1, NULL, 0, (double[]){0, 1, 2, NAN}, (double[]){0, 0, 1, 1}, 4);
    check_activation(EO_OP_SHRINK, "lambd", 1, "bias", 1, (double[]){-2, -1, 0, 1, 2}, (double[]){1, 0, 0, 0, 1}, 5);
    check_activation(EO_OP_SOFTSIGN, NULL, 0, NULL, 0, (double[]){-1, 0, 1}, (double[]){0.25, 1, 0.25}, 3);
}
END_TEST

/* Where a value or a derivative has a limit, nothing on the way to it overflows or multiplies 0 by infinity. */
START_TEST(activations_stay_finite)
{
    static const struct {
        enum eo_op op;
        double below, above; /* derivatives at -1000 and 1000 */
    } rows[] = {
        {EO_OP_LEAKY_RELU, (double)0.01F, 1},
        {EO_OP_ELU, 0, 1},
        {EO_OP_CELU, 0, 1},
        {EO_OP_GELU, 0, 1},
        {EO_OP_SILU, 0, 1},
        {EO_OP_MISH, 0, 1},
        {EO_OP_HARD_SIGMOID, 0, 0},
        {EO_OP_HARD_SWISH, 0, 1},
        {EO_OP_THRESHOLDED_RELU, 0, 1},
        {EO_OP_SHRINK, 1, 1},
        {EO_OP_LOG_SIGMOID, 1, 0},
        {EO_OP_SOFTPLUS, 0, 1},
        {EO_OP_SIGMOID, 0, 0},
        {EO_OP_TANH, 0, 0},
        {EO_OP_ERF, 0, 0},
        {EO_OP_SELU, 0, 1.05070102214813232},
        {EO_OP_ATAN, 1e-6, 1e-6},
        {EO_OP_ASINH, 1e-3, 1e-3},
        {EO_OP_SOFTSIGN, 1 / 1002001.0, 1 / 1002001.0},
    };
    const float x[2] = {-1000, 1000};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        const char *name = eo_op_schema(rows[i].op)->name;
        struct eo_device *dev = harness_device("reference");
        struct harness h;
        float y[2], dx[2];
        eo_value outputs[2], in;

        setup();
        in = INPUT(g, "x", EO_FLOAT32, 2);
        outputs[0] = eo_build_unary(&b, rows[i].op, in);
        outputs[1] = gradient(total(outputs[0]), in);
        ASSERT_OK(harness_open(&h, dev, g, outputs, 2, (struct harness_options){0}, &err));
        harness_feed(&h, in, x);
        ASSERT_OK(harness_run(&h, &err));
        harness_fetch(&h, 0, y);
        harness_fetch(&h, 1, dx);
        ck_assert_msg(isfinite(y[0]) && isfinite(y[1]), "%s: %g and %g", name, (double)y[0], (double)y[1]);
        ck_assert_msg(fabs((double)dx[0] - rows[i].below) <= 2e-6 && fabs((double)dx[1] - rows[i].above) <= 2e-6,
                      "%s: derivatives %g and %g, not %g and %g", name, (double)dx[0], (double)dx[1], rows[i].below,
                      rows[i].above);
        harness_close(&h);
        registry_close(dev);
        teardown();
    }
}
END_TEST

/* The slope of prelu gets nothing from positive elements, infinite ones neither, and all of those that share it. */
START_TEST(prelu_has_a_gradient_for_its_slope)
{
    const double x[4] = {-2, 0, INFINITY, -3}, slope[2] = {0.5, 0.25};
    double dx[4], ds[2];
    double *out[2] = {dx, ds};
    eo_value in[2], grads[2];

    setup();
    in[0] = INPUT(g, "x", EO_FLOAT64, 2, 2);
    in[1] = INPUT(g, "slope", EO_FLOAT64, 2);
    ASSERT_OK(autodiff_gradients(g, total(eo_build_op(&b, EO_OP_PRELU, in, 2, NULL)), EO_NO_VALUE, in, 2, grads, &err));
    evaluate((const double *const[]){x, slope}, grads, 2, out);
    assert_same(dx, (double[]){0.5, 0.25, 1, 0.25}, 4, "x");
    assert_same(ds, (double[]){-2, -3}, 2, "slope");
    teardown();
}
END_TEST

static void check_binary(enum eo_op op, const double *a, const double *c, const double *da, const double *dc, int n)
{
    double got_a[8], got_c[8];
    double *out[2] = {got_a, got_c};
    eo_value in[2], grads[2];

    setup();
    in[0] = harness_input(g, "a", EO_FLOAT64, 1, (int64_t[]){n});
    in[1] = harness_input(g, "b", EO_FLOAT64, 1, (int64_t[]){n});
    ASSERT_OK(autodiff_gradients(g, total(eo_build_binary(&b, op, in[0], in[1])), EO_NO_VALUE, in, 2, grads, &err));
    evaluate((const double *const[]){a, c}, grads, 2, out);
    assert_same(got_a, da, n, "a");
    assert_same(got_c, dc, n, "b");
    teardown();
}

START_TEST(kinks_of_two_operands_are_pytorchs)
{
    check_binary(EO_OP_MAXIMUM, (double[]){1, 2, 3, NAN}, (double[]){2, 2, 2, 0}, (double[]){0, 0.5, 1, 1},
                 (double[]){1, 0.5, 0, 1}, 4);
    check_binary(EO_OP_MINIMUM, (double[]){1, 2, 3, NAN}, (double[]){2, 2, 2, 0}, (double[]){1, 0.5, 0, 1},
                 (double[]){0, 0.5, 1, 1}, 4);
    /* whole quotients and what is left over: flat, and -q */
    check_binary(EO_OP_FLOOR_DIVIDE, (double[]){7, 6}, (double[]){2, 2}, (double[]){0, 0}, (double[]){0, 0}, 2);
    check_binary(EO_OP_REMAINDER, (double[]){7, -7, 6}, (double[]){2, 2, 2}, (double[]){1, 1, 1}, (double[]){-3, 4, -3},
                 3);
    check_binary(EO_OP_FMOD, (double[]){7, -7, 6}, (double[]){2, 2, 2}, (double[]){1, 1, 1}, (double[]){-3, 3, -3}, 3);
    /* a^b: b = 0 is flat in a, also at a = 0; a = 0 with b >= 0 is flat in b. */
    check_binary(EO_OP_POWER, (double[]){0, 0, 0, 2, -2, 0}, (double[]){2, 0, 1, 0, 2, 0.5},
                 (double[]){0, 0, 1, 0, -4, INFINITY}, (double[]){0, 0, 0, log(2), NAN, 0}, 6);
}
END_TEST

START_TEST(extremes_share_their_gradient)
{
    const double x[6] = {3, 1, 3, NAN, 0, 1};
    double max[6], min[6];
    double *out[2] = {max, min};
    eo_value in, grads[2];

    setup();
    in = INPUT(g, "x", EO_FLOAT64, 2, 3);
    grads[0] = gradient(total(eo_build_reduce(&b, EO_OP_MAX, in, (int64_t[]){1}, 1, false)), in);
    grads[1] = gradient(total(eo_build_reduce(&b, EO_OP_MIN, in, (int64_t[]){1}, 1, false)), in);
    evaluate((const double *const[]){x}, grads, 2, out);
    assert_same(max, (double[]){0.5, 0, 0.5, NAN, NAN, NAN}, 6, "max");
    assert_same(min, (double[]){0, 1, 0, NAN, NAN, NAN}, 6, "min");
    teardown();
}
END_TEST

/* Second derivative of x^2 at 0 must be 2, not NaN: no 0 * infinity on the way. */
START_TEST(power_has_a_second_derivative_at_zero)
{
    const double x = 0;
    double got;
    double *out[1] = {&got};
    eo_value in, second;

    setup();
    in = SCALAR_INPUT(g, "x", EO_FLOAT64);
    second = gradient(gradient(eo_build_binary(&b, EO_OP_POWER, in, eo_build_scalar(&b, EO_FLOAT64, 2)), in), in);
    evaluate((const double *const[]){&x}, &second, 1, out);
    ck_assert_double_eq(got, 2);
    teardown();
}
END_TEST

/* y = x x + tanh(x) z: x is used three times, z once, w never; also with respect to the intermediate t = tanh(x). */
START_TEST(contributions_add_up)
{
    const double feeds[3][2] = {{0.5, -1}, {2, 3}, {9, 9}};
    double dx[2], dz[2], dw[2], dt[2], dy[2];
    double *out[5] = {dx, dz, dw, dt, dy};
    eo_value x, z, w, t, y, grads[5];

    setup();
    x = INPUT(g, "x", EO_FLOAT64, 2);
    z = INPUT(g, "z", EO_FLOAT64, 2);
    w = INPUT(g, "w", EO_FLOAT64, 2);
    t = eo_build_unary(&b, EO_OP_TANH, x);
    y = total(eo_build_binary(&b, EO_OP_ADD, eo_build_binary(&b, EO_OP_MULTIPLY, x, x),
                              eo_build_binary(&b, EO_OP_MULTIPLY, t, z)));
    ASSERT_OK(autodiff_gradients(g, y, EO_NO_VALUE, (eo_value[]){x, z, w, t, y}, 5, grads, &err));
    ck_assert_int_eq(eo_graph_desc(g, grads[4])->n_dims, 0);
    evaluate((const double *const[]){feeds[0], feeds[1], feeds[2]}, grads, 5, out);
    for (int i = 0; i < 2; i++) {
        double th = tanh(feeds[0][i]);

        ck_assert_double_eq_tol(dx[i], 2 * feeds[0][i] + feeds[1][i] * (1 - th * th), 1e-14);
        ck_assert_double_eq_tol(dz[i], th, 1e-15);
        ck_assert_double_eq(dw[i], 0);
        ck_assert_double_eq(dt[i], feeds[1][i]);
    }
    ck_assert_double_eq(dy[0], 1);
    teardown();
}
END_TEST

START_TEST(seed_scales_rows)
{
    const double x[3] = {1, 2, 3}, seed[3] = {10, 0, -1};
    double got[3];
    double *out[1] = {got};
    eo_value in, s, grad;

    setup();
    in = INPUT(g, "x", EO_FLOAT64, 3);
    s = INPUT(g, "seed", EO_FLOAT64, 3);
    ASSERT_OK(autodiff_gradients(g, eo_build_binary(&b, EO_OP_MULTIPLY, in, in), s, &in, 1, &grad, &err));
    evaluate((const double *const[]){x, seed}, &grad, 1, out);
    assert_same(got, (double[]){20, 0, -6}, 3, "seeded");
    teardown();
}
END_TEST

/* Indices, masks and integer casts are constants for differentiation, without an error. */
START_TEST(integers_carry_nothing)
{
    const double x[3] = {1, 5, 2};
    double got[3];
    double *out[1] = {got};
    eo_value in, index, picked, rounded, y, grad;
    const struct eo_op_schema *arg_max = eo_op_schema(EO_OP_ARG_MAX);

    setup();
    in = INPUT(g, "x", EO_FLOAT64, 3);
    index = eo_build_unary(&b, EO_OP_ARG_MAX, in);
    ck_assert(arg_max->gradient == EO_GRADIENT_NONE);
    picked = eo_build_op(&b, EO_OP_GATHER, (eo_value[]){in, index}, 2, NULL);
    rounded = eo_build_cast(&b, eo_build_cast(&b, in, EO_INT64), EO_FLOAT64);
    y = eo_build_binary(&b, EO_OP_ADD, picked, total(eo_build_binary(&b, EO_OP_MULTIPLY, rounded, in)));
    grad = gradient(y, in);
    evaluate((const double *const[]){x}, &grad, 1, out);
    assert_same(got, (double[]){1, 6, 2}, 3, "gather and rounded");
    teardown();
}
END_TEST

START_TEST(narrow_dtypes_divide_in_float32)
{
    /* float16 holds 65504 at most; a mean over 70000 elements divides by more. */
    struct eo_device *dev = harness_device("reference");
    uint16_t *x = calloc(70000, sizeof(*x)), *dx = calloc(70000, sizeof(*dx));
    struct harness h;
    eo_value in, grads[2];

    setup();
    in = INPUT(g, "x", EO_FLOAT16, 70000);
    grads[0] = gradient(eo_build_reduce(&b, EO_OP_MEAN, in, NULL, 0, false), in);
    grads[1] = gradient(eo_build_reduce(&b, EO_OP_MAX, in, NULL, 0, false), in);
    ASSERT_OK(harness_open(&h, dev, g, grads, 2, (struct harness_options){0}, &err));
    harness_feed(&h, in, x);
    ASSERT_OK(harness_run(&h, &err));
    for (uint32_t o = 0; o < 2; o++) {
        harness_fetch(&h, o, dx);
        ck_assert_double_eq_tol(harness_get(EO_FLOAT16, dx, 69999), 1.0 / 70000, 6e-8); /* one float16 denormal */
    }
    harness_close(&h);
    registry_close(dev);
    free(x);
    free(dx);
    teardown();
}
END_TEST

START_TEST(labels_follow_the_forward_node)
{
    eo_value x, y, grad;

    setup();
    x = SCALAR_INPUT(g, "x", EO_FLOAT32);
    g->label = "hidden1";
    y = eo_build_unary(&b, EO_OP_TANH, x);
    g->label = "other";
    grad = gradient(y, x);
    ck_assert_str_eq(g->nodes[g->values[grad].node].name, "hidden1");
    ck_assert_str_eq(g->label, "other");
    teardown();
}
END_TEST

/* A chain as deep as recurrent nets over long sequences make them: no stack is used up by depth. */
START_TEST(depth_costs_no_stack)
{
    enum { DEPTH = 20000 };
    const double x = 0.7;
    double y, dx;
    double *out[2] = {&y, &dx};
    eo_value v, in, grad;

    setup();
    in = v = SCALAR_INPUT(g, "x", EO_FLOAT64);
    for (int i = 0; i < DEPTH; i++) { /* 1 / (1 / x) = x */
        v = eo_build_unary(&b, EO_OP_RECIPROCAL, v);
    }
    grad = gradient(v, in);
    evaluate((const double *const[]){&x}, (eo_value[]){v, grad}, 2, out);
    ck_assert_double_eq_tol(y, x, 1e-10);
    ck_assert_double_eq_tol(dx, 1, 1e-10);
    teardown();
}
END_TEST

START_TEST(errors_name_what_is_wrong)
{
    eo_value x, n, v, out, updated[2];
    struct eo_tensor_desc empty = harness_desc(EO_FLOAT32, SHAPE(0)), scalars = harness_desc(EO_FLOAT64, SHAPE(5));
    eo_value velocity, s, one;
    struct eo_attrs attrs;

    setup();
    one = INPUT(g, "one", EO_FLOAT32, 1);
    x = INPUT(g, "x", EO_FLOAT32, 4);
    n = INPUT(g, "n", EO_INT64, 1);
    v = INPUT(g, "v", EO_FLOAT32, 2, 2);
    ASSERT_CODE(autodiff_gradients(g, x, EO_NO_VALUE, &x, 1, &out, &err), EO_E_NO_GRADIENT);
    ASSERT_CONTAINS(err.message, "4 elements");
    ck_assert_str_ne(err.hint, "");
    ASSERT_CODE(autodiff_gradients(g, n, EO_NO_VALUE, &x, 1, &out, &err), EO_E_NO_GRADIENT);
    ASSERT_CONTAINS(err.message, "int64");
    ASSERT_CODE(autodiff_gradients(g, total(x), EO_NO_VALUE, (eo_value[]){x, n}, 2, &out, &err), EO_E_NO_GRADIENT);
    ASSERT_CONTAINS(err.message, "wrt[1]");
    ASSERT_CODE(autodiff_gradients(g, x, v, &x, 1, &out, &err), EO_E_SHAPE_MISMATCH);
    ck_assert_int_eq(err.n_inputs, 2);
    ASSERT_CODE(autodiff_gradients(g, x, eo_build_cast(&b, x, EO_FLOAT64), &x, 1, &out, &err), EO_E_DTYPE_MISMATCH);
    ASSERT_CODE(autodiff_gradients(g, 12345, EO_NO_VALUE, &x, 1, &out, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(autodiff_gradients(g, x, 12345, &x, 1, &out, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(autodiff_gradients(g, x, EO_NO_VALUE, (eo_value[]){12345}, 1, &out, &err), EO_E_BAD_GRAPH);

    /* A row without gradient on the way; the same row beside the way does no harm. */
    ASSERT_OK(eo_graph_input(g, "velocity", &empty, &velocity, &err));
    ASSERT_OK(eo_graph_input(g, "scalars", &scalars, &s, &err));
    g->label = "optimizer";
    ASSERT_OK(eo_graph_add(g, EO_OP_SGD_UPDATE, (eo_value[]){x, x, velocity, s}, 4, NULL, updated, &err));
    ASSERT_CODE(autodiff_gradients(g, total(updated[0]), EO_NO_VALUE, &x, 1, &out, &err), EO_E_NO_GRADIENT);
    ck_assert_str_eq(err.op, "sgd_update");
    ASSERT_CONTAINS(err.node, "optimizer");
    ASSERT_OK(autodiff_gradients(g, total(x), EO_NO_VALUE, &x, 1, &out, &err));

    /* A row whose gradient depends on an attribute. */
    ASSERT_OK(b.status);
    eo_attrs_default(eo_op_schema(EO_OP_SCATTER_ELEMENTS), &attrs);
    ASSERT_OK(eo_attrs_set_text(eo_op_schema(EO_OP_SCATTER_ELEMENTS), &attrs, "reduction", "minimum", &err));
    ASSERT_OK(eo_graph_add(g, EO_OP_SCATTER_ELEMENTS, (eo_value[]){x, n, one}, 3, &attrs, &v, &err));
    ASSERT_CODE(autodiff_gradients(g, total(v), EO_NO_VALUE, &x, 1, &out, &err), EO_E_NO_GRADIENT);
    ASSERT_CONTAINS(err.message, "scatter_elements with reduction minimum");
    teardown();
}
END_TEST

EO_SUITE("autodiff", kinks_of_one_operand_are_pytorchs, kinks_of_activations_are_pytorchs, activations_stay_finite,
         prelu_has_a_gradient_for_its_slope, kinks_of_two_operands_are_pytorchs, extremes_share_their_gradient,
         power_has_a_second_derivative_at_zero, contributions_add_up, seed_scales_rows, integers_carry_nothing,
         narrow_dtypes_divide_in_float32, labels_follow_the_forward_node, depth_costs_no_stack,
         errors_name_what_is_wrong)
