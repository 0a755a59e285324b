/* Losses where they are hard: logits of +-1000, ignored targets, probabilities 0 and 1, kinks. Numbers are PyTorch
 * 1.13's unless a comment says why not. tests/vectors/torch-opinfo-grad.jsonl (test_opinfo) holds the ordinary ones. */
#include "backends/registry.h"
#include "tests/engine/call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double logits[12] = {1000, -1000, 0, 0.5, -1, 2, 1, 2, 3, -1000, -1000, -999};
static const double targets[4] = {1, 2, 7, 0}, ignored[4] = {7, 7, 7, 7}, weight[3] = {0.5, 2, 1.5};

struct expected {
    enum eo_op op;
    const char *attrs;
    const char *desc[4]; /* "float" stands for the dtype under test */
    const double *data[4];
    int n_y, n_grad;
    double y[6], grad[12]; /* grad: of input 0 */
};

#define CLASSES                                                                                                        \
    {"float 4x3", "int64 4", "float 3"},                                                                               \
    {                                                                                                                  \
        logits, targets, weight                                                                                        \
    }
#define ALL_IGNORED                                                                                                    \
    {"float 4x3", "int64 4", "float 3"},                                                                               \
    {                                                                                                                  \
        logits, ignored, weight                                                                                        \
    }
#define NUMBERS(...)                                                                                                   \
    (const double[])                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* clang-format off */
static const struct expected cases[] = {
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7", CLASSES, 1, 12, {1000.284422325488},
     {0.5, -0.5, 0, 0.06573389705251376, 0.014667214976507793, -0.08040111202902155, 0, 0, 0,
      -0.09850730529786432, 0.02649269470213568, 0.07201461059572864}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 smoothing=0.2", CLASSES, 1, 12, {892.1012215944297},
     {0.45833333333333337, -0.43333333333333335, -0.025, 0.0559398104513468, -0.018992056467414597,
      -0.03694775398393218, 0, 0, 0, -0.07300974039715243, 0.001990259602847572, 0.07101948079430484}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 reduction=sum", CLASSES, 1, 12, {4001.137689301952},
     {2, -2, 0, 0.262935588210055, 0.05866885990603117, -0.3216044481160862, 0, 0, 0,
      -0.3940292211914573, 0.10597077880854272, 0.28805844238291456}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 reduction=none smoothing=0.2", CLASSES, 4, 12,
     {3566.6666666666665, 0.8039232350971637, 0, 0.9342964759547008},
     {1.8333333333333335, -1.7333333333333334, -0.1, 0.2237592418053872, -0.07596822586965839, -0.14779101593572871,
      0, 0, 0, -0.2920389615886097, 0.007961038411390288, 0.28407792317721936}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 smoothing=0.2", {"float 4x3", "int64 4"}, {logits, targets}, 1, 12,
     {600.6753631146408},
     {0.31111111111111106, -0.28888888888888886, -0.022222222222222223, 0.03620790849112334, -0.009184697798659741,
      -0.027023210692463585, 0, 0, 0, -0.21824170301652707, 0.048424963650139576, 0.16981673936638744}},
    {EO_OP_NLL_LOSS, "ignore_index=7", CLASSES, 1, 12, {624.25},
     {0, -0.5, 0, 0, 0, -0.375, 0, 0, 0, -0.125, 0, 0}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7", ALL_IGNORED, 1, 12, {NAN}, {0}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 smoothing=0.2", ALL_IGNORED, 1, 12, {NAN}, {0}},
    {EO_OP_CROSS_ENTROPY_LOSS, "ignore_index=7 reduction=sum", ALL_IGNORED, 1, 12, {0}, {0}},
    {EO_OP_NLL_LOSS, "ignore_index=7", ALL_IGNORED, 1, 12, {NAN}, {0}},
    {EO_OP_NLL_LOSS, "ignore_index=7 reduction=sum", ALL_IGNORED, 1, 12, {0}, {0}},
    {EO_OP_CROSS_ENTROPY_LOSS, "", {"float 0x3", "int64 0"}, {NULL}, 1, 0, {NAN}, {0}},
    {EO_OP_MSE_LOSS, "", {"float 0x3", "float 0x3"}, {NULL}, 1, 0, {NAN}, {0}},
    {EO_OP_MSE_LOSS, "reduction=sum", {"float 0x3", "float 0x3"}, {NULL}, 1, 0, {0}, {0}},

    {EO_OP_BCE_WITH_LOGITS_LOSS, "reduction=none", {"float 6", "float 6"},
     {NUMBERS(1000, -1000, 1000, -1000, 0, 3), NUMBERS(1, 0, 0, 1, 0.25, 0.5)}, 6, 6,
     {0, 0, 1000, 1000, 0.6931471805599453, 1.548587351573742}, {0, 0, 1, -1, 0.25, 0.45257412682243336}},
    {EO_OP_BCE_WITH_LOGITS_LOSS, "reduction=none", {"float 6", "float 6", "float", "float 6"},
     {NUMBERS(1000, -1000, 1000, -1000, 0, 3), NUMBERS(1, 0, 0, 1, 0.25, 0.5), NUMBERS(0.5), NUMBERS(2, 2, 2, 3, 3, 3)},
     6, 6, {0, 0, 500, 1500, 0.5198603854199589, 0.7985873515737419}, {0, 0, 0.5, -1.5, 0, 0.20257412682243336}},
    /* At 0 and 1 the gradient is that of the loss as it is bounded: 0 where the bound holds (PyTorch divides by 1e-12
     * there), 1 and -1 where the target is met (PyTorch has 0). */
    {EO_OP_BCE_LOSS, "reduction=none", {"float 6", "float 6"},
     {NUMBERS(0, 1, 0, 1, 0.25, 0.5), NUMBERS(1, 0, 0, 1, 0.25, 0.5)}, 6, 6,
     {100, 100, 0, 0, 0.5623351446188083, 0.6931471805599453}, {0, 0, 1, -1, 0, 0}},
    /* Where a probability is 0 the term is 0, also next to log 0, where PyTorch has NaN. */
    {EO_OP_KL_DIV_LOSS, "reduction=none", {"float 5", "float 5"},
     {NUMBERS(-3, -1, -0.5, -1000, -INFINITY), NUMBERS(0.3, 0.2, 1, 0, 0)}, 5, 5,
     {0.5388081587022191, -0.12188758248682006, 0.5, 0, 0}, {-0.3, -0.2, -1, 0, 0}},
    {EO_OP_KL_DIV_LOSS, "reduction=none log_target=1", {"float 3", "float 3"},
     {NUMBERS(-1, -1000, -INFINITY), NUMBERS(-2, -1000, -INFINITY)}, 3, 3,
     {-0.1353352832366127, 0, 0}, {-0.1353352832366127, 0, 0}},
    {EO_OP_MULTI_MARGIN_LOSS, "p=2 margin=0.8 reduction=none", {"float 2x3", "int64 2", "float 3"},
     {NUMBERS(0.1, 0.7, 0.2, 2, -1, 1), NUMBERS(1, 2), weight}, 2, 6, {0.08666666666666674, 1.62},
     {0.2666666666666668, -0.666666666666667, 0.40000000000000013, 1.8, 0, -1.8}},
    {EO_OP_HUBER_LOSS, "reduction=none", {"float 6", "float 6"}, {NUMBERS(-3, -1, -0.5, 0, 1, 1000), NULL}, 6, 6,
     {2.5, 0.5, 0.125, 0, 0.5, 999.5}, {-1, -1, -0.5, 0, 1, 1}},
    {EO_OP_SMOOTH_L1_LOSS, "reduction=none beta=2", {"float 6", "float 6"}, {NUMBERS(-3, -2, -0.5, 0, 2, 1000), NULL},
     6, 6, {2, 1, 0.0625, 0, 1, 999}, {-1, -1, -0.25, 0, 1, 1}},
    /* beta below float32's numbers is 0 there and tells no difference in float64 */
    {EO_OP_SMOOTH_L1_LOSS, "reduction=none beta=1e-60", {"float 3", "float 3"}, {NUMBERS(-3, 0, 2), NULL}, 3, 3,
     {3, 0, 2}, {-1, 0, 1}},
    {EO_OP_HINGE_LOSS, "reduction=none", {"float 4", "float 4"}, {NUMBERS(1000, -1000, 1, 0.5), NUMBERS(1, 1, 1, -1)},
     4, 4, {0, 1001, 0, 1.5}, {0, -1, 0, 1}},
};
/* clang-format on */

static void check(struct eo_device *dev, size_t number, enum eo_dtype dtype)
{
    const struct expected *e = &cases[number];
    struct call call = {.op = e->op, .attrs = e->attrs};
    struct call_result r;
    struct eo_error err;
    char desc[4][32], what[96];
    double rtol = dtype == EO_FLOAT64 ? 1e-12 : 1e-5;

    for (int i = 0; i < 4 && e->desc[i] != NULL; i++) {
        bool is_float = strncmp(e->desc[i], "float", 5) == 0;

        (void)snprintf(desc[i], sizeof(desc[i]), "%s%s", is_float ? eo_dtype_name(dtype) : "",
                       e->desc[i] + (is_float ? 5 : 0));
        call.in[i].desc = desc[i];
        call.in[i].data = e->data[i];
    }
    ASSERT_OK(call_run(dev, &call, false, &r, &err));
    (void)snprintf(what, sizeof(what), "case %zu, %s of %s on %s", number, eo_op_schema(e->op)->name,
                   eo_dtype_name(dtype), dev->info.name);
    call_compare(r.out[0], e->y, e->n_y, rtol, what);
    call_free(&r);
    if (e->op == EO_OP_CROSS_ENTROPY_LOSS) { /* its other output would add to the gradient */
        return;
    }
    ASSERT_OK(call_run(dev, &call, true, &r, &err));
    call_compare(r.grad[0], e->grad, e->n_grad, rtol, what);
    call_free(&r);
}

static void check_all(const char *device)
{
    static const enum eo_dtype dtypes[] = {EO_FLOAT64, EO_FLOAT32};
    struct eo_device *dev = harness_device(device);

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++) {
            check(dev, i, dtypes[d]);
        }
    }
    registry_close(dev);
}

START_TEST(hard_losses_are_pytorchs)
{
    check_all("reference");
    check_all("cpu");
}
END_TEST

/* Half types: computed in float32 and rounded once, so that a sum of losses beyond their range is still right. */
START_TEST(half_types_are_rounded_once)
{
    static const double x[4] = {300, 300, 300, 300};
    const struct call mean = {EO_OP_MSE_LOSS, "reduction=mean", {{"float16 4", x}, {"float16 4", NULL}}};
    const struct call ce = {EO_OP_CROSS_ENTROPY_LOSS, "reduction=sum", {{"float16 4x1", x}, {"int64 4", NULL}}};
    struct eo_device *dev = harness_device("cpu");
    struct call_result r;
    struct eo_error err;

    ASSERT_OK(call_run(dev, &mean, false, &r, &err));
    ck_assert(isinf(r.out[0][0])); /* 90000 itself */
    call_free(&r);
    ASSERT_OK(call_run(dev, &ce, true, &r, &err));
    ck_assert(r.out[0][0] == 0 && r.out[1][3] == 0 && r.grad[0][0] == 0);
    call_free(&r);
    registry_close(dev);
}
END_TEST

/* A class that is not there is named; an ignored one may be anything. */
START_TEST(targets_out_of_range_are_named)
{
    static const char *const devices[] = {"reference", "cpu"};
    static const enum eo_op ops[] = {EO_OP_NLL_LOSS, EO_OP_CROSS_ENTROPY_LOSS, EO_OP_MULTI_MARGIN_LOSS};
    static const double bad[2] = {3, -1};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct eo_device *dev = harness_device(devices[d]);

        for (size_t o = 0; o < EO_COUNT_OF(ops); o++) {
            for (size_t b = 0; b < EO_COUNT_OF(bad); b++) {
                double classes[4] = {0, 1, bad[b], 2};
                char number[16];
                struct call call = {ops[o], "", {{"float32 4x3", logits}, {"int64 4", classes}}};
                struct call_result r;
                struct eo_error err;

                (void)snprintf(number, sizeof(number), "%g", bad[b]);
                ASSERT_CODE(call_run(dev, &call, false, &r, &err), EO_E_BAD_VALUE);
                ASSERT_CONTAINS(err.message, number);
                call_free(&r);
            }
        }
        registry_close(dev);
    }
}
END_TEST

EO_SUITE("losses", hard_losses_are_pytorchs, half_types_are_rounded_once, targets_out_of_range_are_named)
