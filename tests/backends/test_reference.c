/* The oracle itself against answers worked out by hand or taken from NumPy and PyTorch: one call or more per family of
 * rows, chosen where implementations go wrong. */
#include "backends/registry.h"
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

struct answer {
    enum eo_op op;
    const char *inputs, *attrs;
    enum eo_dtype dtype, to; /* T of the inputs; target of a cast */
    double in[3][MOST];
    double out[MOST]; /* of output 0 */
};

#define NAN_ ((double)NAN)
#define INF_ ((double)INFINITY)

static const struct answer answers[] = {
    /* integers wrap, also where the C language leaves it undefined */
    {EO_OP_ADD, "T 3; T 3", "", EO_INT8, 0, {{127, -128, 100}, {1, -1, 100}}, {-128, 127, -56}},
    {EO_OP_NEGATIVE, "T 2", "", EO_INT32, 0, {{-2147483648.0, 5}}, {-2147483648.0, -5}},
    {EO_OP_ABS, "T 2", "", EO_INT16, 0, {{-32768, -5}}, {-32768, 5}},
    {EO_OP_MULTIPLY, "T 2; T 2", "", EO_UINT8, 0, {{200, 16}, {2, 16}}, {144, 0}},
    {EO_OP_SUM, "T 3", "", EO_INT8, 0, {{100, 100, 100}}, {44}},
    {EO_OP_MATMUL, "T 1x2; T 2x1", "", EO_INT32, 0, {{65536, 3}, {65536, 4}}, {12}},
    /* NaN goes through extremes, comparisons are false */
    {EO_OP_MAXIMUM, "T 4; T 4", "", EO_FLOAT32, 0, {{1, NAN_, 2, NAN_}, {NAN_, 1, 3, NAN_}}, {NAN_, NAN_, 3, NAN_}},
    {EO_OP_MAX, "T 3", "", EO_FLOAT64, 0, {{1, NAN_, 5}}, {NAN_}},
    {EO_OP_MIN, "T 3", "", EO_UINT8, 0, {{7, 3, 5}}, {3}},
    {EO_OP_CLIP, "T 4", "low=1 high=2", EO_FLOAT32, 0, {{NAN_, 0, 1.5, 9}}, {NAN_, 1, 1.5, 2}},
    {EO_OP_RELU, "T 4", "", EO_FLOAT32, 0, {{NAN_, -1, 2, -INF_}}, {NAN_, 0, 2, 0}},
    {EO_OP_SIGN, "T 4", "", EO_FLOAT32, 0, {{NAN_, -3, 0, INF_}}, {NAN_, -1, 0, 1}},
    {EO_OP_LESS, "T 3; T 3", "", EO_FLOAT32, 0, {{NAN_, 1, 2}, {1, NAN_, 3}}, {0, 0, 1}},
    {EO_OP_NOT_EQUAL, "T 2; T 2", "", EO_FLOAT32, 0, {{NAN_, 1}, {NAN_, 1}}, {1, 0}},
    {EO_OP_ISFINITE, "T 4", "", EO_FLOAT32, 0, {{NAN_, INF_, -INF_, 1}}, {0, 0, 0, 1}},
    {EO_OP_ARG_MAX, "T 5", "", EO_FLOAT32, 0, {{1, 9, 9, NAN_, NAN_}}, {3}},
    {EO_OP_ARG_MAX, "T 4", "", EO_INT64, 0, {{1, 9, 9, 2}}, {1}},
    {EO_OP_ARG_MIN, "T 2x2", "axis=0", EO_FLOAT32, 0, {{3, 1, 2, 1}}, {1, 0}},
    /* functions that overflow or cancel when written carelessly */
    {EO_OP_SIGMOID, "T 4", "", EO_FLOAT64, 0, {{-800, 0, 800, -745}}, {0, 0.5, 1, 4.9406564584124654e-324}},
    {EO_OP_SOFTPLUS, "T 4", "", EO_FLOAT64, 0, {{-800, 0, 800, NAN_}}, {0, 0.69314718055994529, 800, NAN_}},
    {EO_OP_LOG1P, "T 2", "", EO_FLOAT64, 0, {{1e-20, -1}}, {1e-20, -INF_}},
    {EO_OP_EXPM1, "T 2", "", EO_FLOAT64, 0, {{1e-20, -INF_}}, {1e-20, -1}},
    {EO_OP_POWER, "T 4; T 4", "", EO_FLOAT64, 0, {{0, -8, -8, NAN_}, {0, 3, 0.5, 0}}, {1, -512, NAN_, 1}},
    {EO_OP_SOFTMAX, "T 3", "axis=0", EO_FLOAT64, 0, {{1000, 1000, -INF_}}, {0.5, 0.5, 0}},
    {EO_OP_LOG_SOFTMAX, "T 2", "axis=0", EO_FLOAT64, 0, {{0, 1000}}, {-1000, 0}},
    {EO_OP_CROSS_ENTROPY, "T 2x3; I 2", "", EO_FLOAT64, 0, {{0, 0, 0, 1000, 0, 0}, {2, 1}}, {1.0986122886681098, 1000}},
    /* casts: truncate, clamp, NaN is 0; bool is x != 0; one rounding, ties to even */
    {EO_OP_CAST,
     "T 6",
     "dtype=T",
     EO_FLOAT32,
     EO_INT8,
     {{-1.9, 1.9, 300, -300, NAN_, INF_}},
     {-1, 1, 127, -128, 0, 127}},
    {EO_OP_CAST, "T 4", "dtype=T", EO_FLOAT64, EO_UINT64, {{-1, 1e30, NAN_, 3.7}}, {0, 18446744073709551615.0, 0, 3}},
    {EO_OP_CAST, "T 3", "dtype=T", EO_INT32, EO_UINT8, {{-1, 256, 257}}, {255, 0, 1}},
    {EO_OP_CAST, "T 4", "dtype=T", EO_FLOAT32, EO_BOOL, {{0, -0.0, 0.1, NAN_}}, {0, 0, 1, 1}},
    {EO_OP_CAST, "T 3", "dtype=T", EO_FLOAT64, EO_FLOAT16, {{2049, 65519.999, 65520}}, {2048, 65504, INF_}},
    {EO_OP_CAST, "T 2", "dtype=T", EO_FLOAT64, EO_BFLOAT16, {{1.00390625, 1.01171875}}, {1, 1.015625}},
    {EO_OP_CAST, "T 2", "dtype=T", EO_INT64, EO_FLOAT32, {{16777217, -16777219}}, {16777216, -16777220}},
    /* reductions of nothing, corrections */
    {EO_OP_SUM, "T 0x2", "axes=0", EO_FLOAT32, 0, {{0}}, {0, 0}},
    {EO_OP_MEAN, "T 0x2", "axes=0", EO_FLOAT32, 0, {{0}}, {NAN_, NAN_}},
    {EO_OP_VARIANCE, "T 4", "", EO_FLOAT64, 0, {{1, 2, 3, 4}}, {1.25}},
    {EO_OP_VARIANCE, "T 4", "correction=1", EO_FLOAT64, 0, {{1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3}}, {1.6666666666666667}},
    {EO_OP_VARIANCE, "T 1", "correction=1", EO_FLOAT64, 0, {{5}}, {NAN_}},
    {EO_OP_MEAN, "T 2x3", "axes=1", EO_FLOAT16, 0, {{65504, 65504, 65504, 1, 2, 6}}, {65504, 3}},
    /* products: transposes, 1-D operands, batches that broadcast */
    {EO_OP_MATMUL,
     "T 2x3; T 2x2",
     "transpose_a=1",
     EO_FLOAT32,
     0,
     {{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1}},
     {1, 4, 2, 5, 3, 6}},
    {EO_OP_MATMUL, "T 3; T 3", "", EO_FLOAT32, 0, {{1, 2, 3}, {4, 5, 6}}, {32}},
    {EO_OP_MATMUL, "T 2x1x2; T 2", "", EO_FLOAT32, 0, {{1, 2, 3, 4}, {1, 10}}, {21, 43}},
    {EO_OP_MATMUL, "T 1x0; T 0x2", "", EO_FLOAT32, 0, {{0}}, {0, 0}},
    {EO_OP_LINEAR, "T 1x2; T 2x2; T 2", "", EO_FLOAT32, 0, {{1, 2}, {1, 2, 3, 4}, {100, 200}}, {107, 210}},
    /* selection: NumPy's rules for negative steps and indices */
    {EO_OP_SLICE, "T 5", "starts=-1 stops=-6 steps=-2", EO_INT32, 0, {{0, 1, 2, 3, 4}}, {4, 2, 0}},
    {EO_OP_SLICE, "T 2x3", "starts=0,1 stops=9,9", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {1, 2, 4, 5}},
    {EO_OP_SLICE_SCATTER, "T 4; T 2", "starts=1 stops=4 steps=2", EO_INT32, 0, {{0, 1, 2, 3}, {8, 9}}, {0, 8, 2, 9}},
    {EO_OP_GATHER, "T 3x2; I 3", "axis=0", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {-1, 0, 2}}, {4, 5, 0, 1, 4, 5}},
    {EO_OP_SCATTER_ADD, "T 3; I 4; T 4", "", EO_FLOAT32, 0, {{1, 1, 1}, {0, 2, -3, 0}, {1, 2, 4, 8}}, {14, 1, 3}},
    /* PyTorch's gather, NumPy's x[i, j]; the last of equal indices wins; reductions in order */
    {EO_OP_GATHER_ELEMENTS, "T 2x2; I 1x2", "axis=0", EO_INT32, 0, {{1, 2, 3, 4}, {-1, 0}}, {3, 2}},
    {EO_OP_GATHER_ELEMENTS,
     "T 2x2; I 2x3",
     "axis=1",
     EO_INT32,
     0,
     {{1, 2, 3, 4}, {1, 1, 0, 0, 1, -2}},
     {2, 2, 1, 3, 4, 3}},
    {EO_OP_GATHER_ND, "T 2x2; I 2x2", "", EO_INT32, 0, {{1, 2, 3, 4}, {0, 1, -1, 0}}, {2, 3}},
    {EO_OP_GATHER_ND, "T 2x2x2; I 2x1", "batch_dims=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0}}, {2, 3, 4, 5}},
    {EO_OP_SCATTER_ELEMENTS, "T 3; I 3; T 3", "", EO_INT32, 0, {{1, 2, 3}, {0, -3, 2}, {7, 8, 9}}, {8, 2, 9}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=multiply",
     EO_INT8,
     0,
     {{3, 5}, {0, 0, 1}, {50, 2, 7}},
     {44, 35}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=maximum",
     EO_FLOAT32,
     0,
     {{3, NAN_}, {0, 0, 1}, {5, 4, 7}},
     {5, NAN_}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=minimum",
     EO_FLOAT32,
     0,
     {{3, 1}, {0, 0, 1}, {5, NAN_, 7}},
     {NAN_, 1}},
    /* rounding to float16 between the updates would lose all but the first of them */
    {EO_OP_SCATTER_ELEMENTS, "T 1; I 3; T 3", "reduction=add", EO_FLOAT16, 0, {{2048}, {0, 0, 0}, {1, 1, 1}}, {2052}},
    {EO_OP_SCATTER_ND, "T 2x2; I 2x1; T 2x2", "", EO_INT32, 0, {{1, 2, 3, 4}, {1, 1}, {5, 6, 7, 8}}, {1, 2, 7, 8}},
    {EO_OP_SCATTER_ND,
     "T 2x2; I 2x1; T 2x2",
     "reduction=add",
     EO_INT32,
     0,
     {{1, 2, 3, 4}, {1, -1}, {5, 6, 7, 8}},
     {1, 2, 15, 18}},
    {EO_OP_ONE_HOT, "I 2", "depth=3 dtype=T", EO_UINT8, 0, {{2, 0}}, {0, 0, 1, 1, 0, 0}},
    /* NumPy's pad, roll, tile, triu; ONNX's DepthToSpace */
    {EO_OP_PAD, "T 4", "pads=2,3 mode=reflect", EO_INT32, 0, {{1, 2, 3, 4}}, {3, 2, 1, 2, 3, 4, 3, 2, 1}},
    {EO_OP_PAD, "T 3", "pads=2,1 mode=edge", EO_INT32, 0, {{1, 2, 3}}, {1, 1, 1, 2, 3, 3}},
    {EO_OP_PAD, "T 3", "pads=4,4 mode=wrap", EO_INT32, 0, {{1, 2, 3}}, {3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}},
    {EO_OP_PAD, "T 2x2", "pads=0,-1,1,2 value=9", EO_INT32, 0, {{1, 2, 3, 4}}, {2, 9, 9, 4, 9, 9, 9, 9, 9}},
    {EO_OP_ROLL, "T 2x3", "shifts=1,-1 axes=0,1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {4, 5, 3, 1, 2, 0}},
    {EO_OP_ROLL, "T 2x3", "shifts=-2", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {2, 3, 4, 5, 0, 1}},
    {EO_OP_TILE, "T 2", "repeats=2,2", EO_INT32, 0, {{1, 2}}, {1, 2, 1, 2, 1, 2, 1, 2}},
    {EO_OP_TRILU, "T 2x3", "k=1", EO_INT32, 0, {{1, 2, 3, 4, 5, 6}}, {0, 2, 3, 0, 0, 6}},
    {EO_OP_TRILU, "T 2x3", "upper=0", EO_INT32, 0, {{1, 2, 3, 4, 5, 6}}, {1, 0, 0, 4, 5, 0}},
    {EO_OP_STACK, "T 2; T 2", "axis=1", EO_INT32, 0, {{1, 2}, {3, 4}}, {1, 3, 2, 4}},
    {EO_OP_SPLIT, "T 2x3", "sizes=2,1 axis=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 1, 3, 4}},
    {EO_OP_DIAGONAL, "T 2x3", "offset=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {1, 5}},
    {EO_OP_DIAGONAL, "T 3x2", "offset=-1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {2, 5}},
    {EO_OP_MASKED_FILL, "T 2x2; B 2", "value=9", EO_INT32, 0, {{1, 2, 3, 4}, {1, 0}}, {9, 2, 9, 4}},
    {EO_OP_REVERSE_SEQUENCE, "T 3x2; I 2", "", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {2, 3}}, {2, 5, 0, 3, 4, 1}},
    {EO_OP_DEPTH_TO_SPACE,
     "T 1x8x1x1",
     "block=2 layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 2, 4, 6, 1, 3, 5, 7}},
    {EO_OP_DEPTH_TO_SPACE,
     "T 1x8x1x1",
     "block=2 mode=crd layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 1, 2, 3, 4, 5, 6, 7}},
    {EO_OP_SPACE_TO_DEPTH,
     "T 1x2x2x2",
     "block=2 layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 4, 1, 5, 2, 6, 3, 7}},
    {EO_OP_TRANSPOSE, "T 2x3", "", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 3, 1, 4, 2, 5}},
    {EO_OP_TRANSPOSE, "T 1x2x3", "perm=2,0,1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 3, 1, 4, 2, 5}},
    {EO_OP_CONCATENATE, "T 2x1; T 2x2", "axis=1", EO_INT32, 0, {{0, 1}, {2, 3, 4, 5}}, {0, 2, 3, 1, 4, 5}},
    {EO_OP_EXPAND, "T 2x1", "shape=2,2", EO_INT32, 0, {{1, 2}}, {1, 1, 2, 2}},
    {EO_OP_WHERE, "B 2x1; T; T 2", "", EO_FLOAT32, 0, {{1, 0}, {7}, {8, 9}}, {7, 7, 8, 9}},
    /* updates, worked out by hand */
    {EO_OP_SUM_SQUARES, "T 3", "", EO_FLOAT32, 0, {{3, 4, 12}}, {169}},
    {EO_OP_SGD_UPDATE, "T 2; T 2; T 0; D 5", "", EO_FLOAT64, 0, {{1, 2}, {0.5, 0.5}}, {0.95, 1.95}},
};

static struct eo_device *reference;

static void load(struct run *r, const struct answer *a)
{
    for (int i = 0; i < r->n_in && i < 3; i++)
        for (int64_t k = 0; k < eo_tensor_desc_count(&r->in[i]); k++)
            set_element((enum eo_dtype)r->in[i].dtype, r->in_data[i], k, a->in[i][k]);
    if (r->op->op == EO_OP_SGD_UPDATE) /* lr, momentum, weight_decay, grad_scale, first_step */
        memcpy(r->in_data[3], (const double[5]){0.1, 0, 0, 1, 1}, 5 * sizeof(double));
}

START_TEST(test_known_answers)
{
    for (size_t c = 0; c < EO_COUNT_OF(answers); c++) {
        const struct answer *a = &answers[c];
        struct eo_error err;
        struct run r;
        struct results out;
        ASSERT_OK(case_init(&r, &(struct op_case){a->op, a->inputs, a->attrs}, a->dtype, a->to, &err));
        load(&r, a);
        ASSERT_OK(run_on(reference, &r, -1, &out, &err));
        for (int64_t i = 0; i < eo_tensor_desc_count(&r.out[0]); i++) {
            double got = element_value((enum eo_dtype)r.out[0].dtype, out.out[0], i), want = a->out[i];
            bool same = got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-15 * fabs(want);
            CHECK(same, "answer %zu (%s %s of %s): element %lld is %.17g, should be %.17g", c, r.op->name, a->inputs,
                  eo_dtype_name(a->dtype), (long long)i, got, want);
        }
        results_fini(&out);
        run_fini(&r);
    }
}
END_TEST

/* One Adam step from zero moments moves each parameter by lr, whatever the gradient's size; two SGD steps with Nesterov
 * momentum follow the written recursion. */
START_TEST(test_optimizer_steps)
{
    struct eo_error err;
    struct run r;
    struct results out;
    const double adam[8] = {0.1, 0.9, 0.999, 0, 0, 0.1, 0.001, 1};
    ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_ADAM_UPDATE, "T 2; T 2; T 2; T 2; T 2; D 8", "amsgrad=1"},
                        EO_FLOAT64, 0, &err));
    memcpy(r.in_data[0], (const double[2]){1, 1}, 16);
    memcpy(r.in_data[1], (const double[2]){4, -0.001}, 16);
    memcpy(r.in_data[4], (const double[2]){0, 100}, 16);
    memcpy(r.in_data[5], adam, sizeof adam);
    ASSERT_OK(run_on(reference, &r, -1, &out, &err));
    ck_assert_double_eq_tol(((double *)out.out[0])[0], 0.9, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[1])[0], 0.4, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[2])[0], 0.016, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[3])[0], 0.016, 1e-12);
    ck_assert_double_eq(((double *)out.out[3])[1], 100);
    ck_assert_double_eq_tol(((double *)out.out[0])[1], 1 + 0.1 * 0.001 / sqrt(100 / 0.001), 1e-15);
    results_fini(&out);
    run_fini(&r);

    double param = 1, velocity = NAN;
    for (int step = 0; step < 2; step++) {
        const double sgd[5] = {0.1, 0.9, 0.5, 2, step == 0};
        ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_SGD_UPDATE, "T 1; T 1; T 1; D 5", "nesterov=1"}, EO_FLOAT64, 0,
                            &err));
        *(double *)r.in_data[0] = param;
        *(double *)r.in_data[1] = 0.25;
        *(double *)r.in_data[2] = velocity;
        memcpy(r.in_data[3], sgd, sizeof sgd);
        double g = 2 * 0.25 + 0.5 * param, v = step == 0 ? g : 0.9 * velocity + g;
        double expected = param - 0.1 * (g + 0.9 * v);
        ASSERT_OK(run_on(reference, &r, -1, &out, &err));
        ck_assert_double_eq_tol(*(double *)out.out[0], expected, 1e-15);
        ck_assert_double_eq_tol(*(double *)out.out[1], v, 1e-15);
        param = *(double *)out.out[0];
        velocity = *(double *)out.out[1];
        results_fini(&out);
        run_fini(&r);
    }
}
END_TEST

/* Random numbers do not depend on how rows are spread over ranks: one tensor equals its parts at their row offsets. */
START_TEST(test_random_rows_can_be_split)
{
    static const struct {
        enum eo_op op;
        const char *inputs, *attrs, *part_inputs, *part_attrs;
        int rng;
    } calls[] = {
        {EO_OP_UNIFORM, "I 3", "shape=6,5 dtype=T stream=9", "I 3", "shape=2,5 dtype=T stream=9", 0},
        {EO_OP_NORMAL, "I 3", "shape=6,5 dtype=T stream=9", "I 3", "shape=2,5 dtype=T stream=9", 0},
        {EO_OP_DROPOUT, "T 6x5; I 3", "p=0.4", "T 2x5; I 3", "p=0.4", 1},
    };
    for (size_t c = 0; c < EO_COUNT_OF(calls); c++) {
        struct eo_error err;
        struct run whole;
        struct results all;
        ASSERT_OK(
            case_init(&whole, &(struct op_case){calls[c].op, calls[c].inputs, calls[c].attrs}, EO_FLOAT32, 0, &err));
        case_fill(&whole, FILL_ORDINARY, 3);
        ((int64_t *)whole.in_data[calls[c].rng])[2] = 0;
        ASSERT_OK(run_on(reference, &whole, -1, &all, &err));
        for (int64_t row = 0; row < 6; row += 2) {
            struct run part;
            struct results some;
            ASSERT_OK(case_init(&part, &(struct op_case){calls[c].op, calls[c].part_inputs, calls[c].part_attrs},
                                EO_FLOAT32, 0, &err));
            memcpy(part.in_data[calls[c].rng], whole.in_data[calls[c].rng], 24);
            ((int64_t *)part.in_data[calls[c].rng])[2] = row;
            if (calls[c].rng == 1)
                memcpy(part.in_data[0], (float *)whole.in_data[0] + row * 5, 40);
            ASSERT_OK(run_on(reference, &part, -1, &some, &err));
            ck_assert_int_eq(memcmp(some.out[0], (float *)all.out[0] + row * 5, 40), 0);
            results_fini(&some);
            run_fini(&part);
        }
        results_fini(&all);
        run_fini(&whole);
    }
}
END_TEST

START_TEST(test_dropout_keeps_the_mean)
{
    struct eo_error err;
    struct run r;
    struct results out;
    double total = 0;
    int64_t zeros = 0, n = 20000;
    ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_DROPOUT, "T 20000; I 3", "p=0.25"}, EO_FLOAT64, 0, &err));
    case_fill(&r, FILL_ORDINARY, 11);
    for (int64_t i = 0; i < n; i++)
        ((double *)r.in_data[0])[i] = 1;
    ASSERT_OK(run_on(reference, &r, -1, &out, &err));
    for (int64_t i = 0; i < n; i++) {
        double y = ((double *)out.out[0])[i];
        ck_assert(y == 0 || y == 1 / 0.75);
        zeros += y == 0;
        total += y;
    }
    /* five standard deviations of a binomial distribution */
    ck_assert_double_eq_tol((double)zeros / (double)n, 0.25, 5 * sqrt(0.25 * 0.75 / (double)n));
    ck_assert_double_eq_tol(total / (double)n, 1, 0.05);
    results_fini(&out);
    run_fini(&r);
}
END_TEST

START_TEST(test_self_check_and_device)
{
    struct eo_error err;
    char report[128];
    struct eo_device *dev = NULL;
    ASSERT_OK(reference->backend->self_check(reference, report, sizeof report, &err));
    ASSERT_CONTAINS(report, "known answers");
    ck_assert(reference->info.host_memory);
    ck_assert_int_eq(reference->info.threads, 1);
    ASSERT_CODE(reference->backend->device_open(1, &(struct eo_device_config){0}, &dev, &err), EO_E_NO_DEVICE);
}
END_TEST

int main(void)
{
    struct eo_error err;
    const TTest *const tests[] = {test_known_answers, test_optimizer_steps, test_random_rows_can_be_split,
                                  test_dropout_keeps_the_mean, test_self_check_and_device};
    (void)setenv("CK_FORK", "no", 1);
    if (registry_open("reference", NULL, &reference, NULL, 0, &err) != EO_OK)
        return EXIT_FAILURE;
    int rc = eo_suite_run("reference", tests, EO_COUNT_OF(tests));
    registry_close(reference);
    return rc;
}
