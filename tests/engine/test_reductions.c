/* Reductions, orders and quantization where they are hard: zeros in products, norms at 0 and at the ends of the range,
 * logits of +-1000, ties, saturation. Numbers are worked out by hand unless a comment says where they are from. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

struct expected {
    struct call call;
    int n_grad;
    double y[8], grad[12]; /* of output 0; of input 0 */
};

#define ONE(desc, ...)                                                                                                 \
    {                                                                                                                  \
        {                                                                                                              \
            desc, (const double[])                                                                                     \
            {                                                                                                          \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }

/* clang-format off */
static const struct expected cases[] = {
    /* The product of the others, with no zero, one and two in a row. */
    {{EO_OP_PROD, "axes=1", ONE("float64 3x3", 2, -3, 4, 5, 0, 7, 0, 9, 0)}, 9, {-24, 0, 0}, {-12, 8, -6, 0, 35, 0, 0, 0, 0}},
    {{EO_OP_PROD, "axes=0", ONE("float32 2x2", 0, 3, 4, 5)}, 4, {0, 15}, {4, 5, 0, 3}},
    {{EO_OP_PROD, "", ONE("float16 5", 100, 100, 100, 0.01, 0.01)}, 0, {100.04}, {0}},
    {{EO_OP_PROD, "", ONE("float64 2", INFINITY, 0)}, 2, {NAN}, {0, INFINITY}},
    /* No square overflows, none is lost; the gradient at 0 is 0. */
    {{EO_OP_L2_NORM, "axes=1", ONE("float64 4x2", 3e300, 4e300, 3e-300, -4e-300, 0, 0, -INFINITY, 1)}, 6,
     {5e300, 5e-300, 0, INFINITY}, {0.6, 0.8, 0.6, -0.8, 0, 0}},
    {{EO_OP_L2_NORM, "axes=1", ONE("float32 3x2", 3e38, 0, 3e-30, 4e-30, 0, 0)}, 6, {3e38, 5e-30, 0}, {1, 0, 0.6, 0.8, 0, 0}},
    {{EO_OP_L2_NORM, "", ONE("float16 4", 30000, 30000, 30000, 0)}, 0, {51968}, {0}},
    {{EO_OP_L1_NORM, "", ONE("float64 3", -2, 0, 3)}, 3, {5}, {-1, 0, 1}},
    {{EO_OP_STD, "axes=1", ONE("float64 2x2", 7, 7, 1, 3)}, 4, {0, 1}, {0, 0, -0.5, 0.5}},
    {{EO_OP_STD, "correction=1", ONE("float64 1", 7)}, 0, {NAN}, {0}},
    /* Finite wherever the limit is; nothing flows where all are -inf. */
    {{EO_OP_LOG_SUM_EXP, "axes=1", ONE("float64 4x2", 1000, 1000, -1000, -1001, -INFINITY, -INFINITY, -INFINITY, 5)}, 8,
     {1000.6931471805599, -999.6867383124818, -INFINITY, 5},
     {0.5, 0.5, 0.7310585786300049, 0.2689414213699951, 0, 0, 0, 1}},
    {{EO_OP_LOG_SUM_EXP, "axes=1", ONE("float32 2x2", 1000, 1000, INFINITY, 0)}, 2, {1000.6931471805599, INFINITY}, {0.5, 0.5}},
    {{EO_OP_LOG_SUM_EXP, "", ONE("float16 2", 1000, 1000)}, 2, {1000.5}, {0.5, 0.5}},
    {{EO_OP_LOG_SUM_EXP, "", ONE("float64 2", NAN, 1)}, 0, {NAN}, {0}},
    {{EO_OP_CUMULATIVE_SUM, "exclusive=1 reverse=1", ONE("float64 4", 1, 2, 3, 4)}, 4, {9, 7, 4, 0}, {0, 1, 2, 3}},
    {{EO_OP_CUMULATIVE_SUM, "", ONE("int8 3", 100, 100, 100)}, 0, {100, -56, 44}, {0}},
    /* Of equal ones the first; the gradient goes where the value came from. */
    {{EO_OP_TOP_K, "k=2", ONE("float64 5", 1, 3, 3, 3, 2)}, 5, {3, 3}, {0, 1, 1, 0, 0}},
    {{EO_OP_TOP_K, "k=2", ONE("float64 4", 1, NAN, 5, -INFINITY)}, 4, {NAN, 5}, {0, 1, 1, 0}},
    {{EO_OP_SORT, "", ONE("float32 5", 2, NAN, -1, INFINITY, 0)}, 5, {-1, 0, 2, INFINITY, NAN}, {1, 1, 1, 1, 1}},
    {{EO_OP_ARG_MAX, "last=1", ONE("float32 5", 1, 9, 9, 2, 9)}, 0, {4}, {0}},
    {{EO_OP_ARG_MIN, "last=1 axis=0", ONE("float32 3x1", NAN, 1, NAN)}, 0, {2}, {0}},
    {{EO_OP_EINSUM, "equation=ij->j", ONE("float64 2x3", 1, 2, 3, 4, 5, 6)}, 6, {5, 7, 9}, {1, 1, 1, 1, 1, 1}},
    {{EO_OP_EINSUM, "equation=ii->i", ONE("float64 2x2", 1, 2, 3, 4)}, 4, {1, 4}, {1, 0, 0, 1}},
    /* Halves to even, saturation, NaN. */
    {{EO_OP_QUANTIZE_LINEAR, "dtype=int8",
      {{"float32 7", (const double[]){1, 3, 5, -1, -3, 1000, NAN}}, {"float32", (const double[]){2}}}},
     0, {0, 2, 2, 0, -2, 127, 0}, {0}},
    {{EO_OP_QUANTIZE_LINEAR, "",
      {{"float32 4", (const double[]){0, -300, 300, 4}}, {"float32", (const double[]){2}}, {"uint8", (const double[]){128}}}},
     0, {128, 0, 255, 130}, {0}},
    {{EO_OP_DEQUANTIZE_LINEAR, "axis=0",
      {{"uint8 2", (const double[]){0, 255}}, {"float32 2", (const double[]){2, 0.5}}, {"uint8 2", (const double[]){128, 3}}}},
     0, {-256, 126}, {0}},
    {{EO_OP_DYNAMIC_QUANTIZE_LINEAR, "", ONE("float32 6", 0, 2, -3, -2.5, 1.34, 0.5)}, 0,
     {153, 255, 0, 26, 221, 179}, {0}}, /* the example of ONNX's page */
    {{EO_OP_DYNAMIC_QUANTIZE_LINEAR, "", ONE("float32 3", 0, 0, 0)}, 0, {0, 0, 0}, {0}},
    {{EO_OP_MATMUL_INTEGER, "",
      {{"uint8 2x2", (const double[]){255, 0, 1, 2}}, {"int8 2x1", (const double[]){-128, 127}}, {"uint8 2", (const double[]){1, 0}}}},
     0, {-32639, 126}, {0}},
    {{EO_OP_GEMM, "beta=0",
      {{"float64 1x2", (const double[]){1, 2}}, {"float64 2x1", (const double[]){3, 4}}, {"float64 1", (const double[]){NAN}}}},
     2, {11}, {3, 4}},
};
/* clang-format on */

static double tolerance(const char *desc)
{
    return strncmp(desc, "float16", 7) == 0 ? 1e-3 : strncmp(desc, "float32", 7) == 0 ? 1e-6 : 1e-12;
}

static void check(struct eo_device *dev, const struct expected *e, int number)
{
    struct call_result r;
    char what[96];

    (void)snprintf(what, sizeof(what), "case %d (%s) on %s", number, eo_op_schema(e->call.op)->name, dev->info.name);
    ASSERT_OK(call_run(dev, &e->call, e->n_grad > 0, &r, &err));
    call_compare(r.out[0], e->y, r.count[0], tolerance(e->call.in[0].desc), what);
    if (e->n_grad > 0) {
        call_compare(r.grad[0], e->grad, e->n_grad, tolerance(e->call.in[0].desc), what);
    }
    call_free(&r);
}

static void check_on(const char *name)
{
    struct eo_device *dev = harness_device(name);

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        check(dev, &cases[i], (int)i);
    }
    registry_close(dev);
}

START_TEST(answers_on_reference)
{
    check_on("reference");
}
END_TEST

START_TEST(answers_on_cpu)
{
    check_on("cpu");
}
END_TEST

/* d2/dxi dxj of x0 x1 x2 x3 at (0, 2, 0, 5): the product of the two others, also where both zeros are differentiated.
 */
START_TEST(products_have_second_derivatives_at_zeros)
{
    static const double x[4] = {0, 2, 0, 5};
    struct eo_device *dev = harness_device("reference");
    struct eo_graph *g = eo_graph_new();
    struct eo_builder b;
    struct harness h;
    eo_value in, first, column[4];

    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
    in = INPUT(g, "x", EO_FLOAT64, 4);
    ASSERT_OK(
        autodiff_gradients(g, eo_build_reduce(&b, EO_OP_PROD, in, NULL, 0, false), EO_NO_VALUE, &in, 1, &first, &err));
    for (int i = 0; i < 4; i++) {
        eo_value at = eo_build_scalar(&b, EO_INT64, i);
        eo_value element = eo_build_op(&b, EO_OP_GATHER, (eo_value[]){first, at}, 2, NULL);

        ASSERT_OK(autodiff_gradients(g, element, EO_NO_VALUE, &in, 1, &column[i], &err));
    }
    ASSERT_OK(harness_open(&h, dev, g, column, 4, (struct harness_options){0}, &err));
    harness_feed(&h, in, x);
    ASSERT_OK(harness_run(&h, &err));
    for (uint32_t i = 0; i < 4; i++) {
        double got[4];

        harness_fetch(&h, i, got);
        for (uint32_t j = 0; j < 4; j++) {
            double wanted = i == j ? 0 : 1;

            for (uint32_t k = 0; k < 4; k++) {
                wanted *= k != i && k != j ? x[k] : 1;
            }
            ck_assert_msg(got[j] == wanted, "(%u, %u) is %g, not %g", i, j, got[j], wanted);
        }
    }
    harness_close(&h);
    eo_graph_free(g);
    registry_close(dev);
}
END_TEST

EO_SUITE("reductions", answers_on_reference, answers_on_cpu, products_have_second_derivatives_at_zeros)
