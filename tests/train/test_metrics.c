#include "daemon/train/metrics.h"

#include "backends/registry.h"
#include "tests/engine/harness.h"

#include <math.h>
#include <string.h>

static struct eo_error err;

START_TEST(rows_are_sane)
{
    for (int i = 0; i < METRIC_COUNT; i++) {
        enum metric_kind kind = (enum metric_kind)i;
        int n_losses = 0;

        ck_assert_int_eq(metric_find(metric_name(kind)), i);
        ck_assert(metric_summary(kind)[0] != '\0');
        ck_assert_int_ge(metric_n_sums(kind), 1);
        ck_assert_int_le(metric_n_sums(kind), METRIC_MAX_SUMS);
        for (int l = 0; l < LOSS_COUNT; l++) {
            n_losses += metric_fits(kind, (enum loss_kind)l);
        }
        ck_assert_int_ge(n_losses, 1);
    }
    ck_assert_int_eq(metric_find("f1"), -1);
    ck_assert(metric_fits(METRIC_ACCURACY, LOSS_CROSS_ENTROPY));
    ck_assert(!metric_fits(METRIC_ACCURACY, LOSS_MSE));
}
END_TEST

/* Sums of one batch of n rows on a device. */
static void sums_of(const char *device, enum metric_kind kind, enum eo_dtype dtype, int64_t n, int64_t width,
                    const void *output, const void *targets, double shift, double *out)
{
    bool classes = kind == METRIC_ACCURACY;
    struct eo_device *dev = harness_device(device);
    struct eo_graph *g = eo_graph_new();
    eo_value o = INPUT(g, "output", dtype, n, width), t, sums[METRIC_MAX_SUMS];
    struct eo_builder b;
    struct harness h;

    t = classes ? INPUT(g, "targets", EO_INT64, n) : INPUT(g, "targets", dtype, n, width);
    eo_build_init(&b, g, &err);
    metric_build(kind, &b, o, t, shift, sums);
    ASSERT_OK(b.status);
    ASSERT_OK(harness_open(&h, dev, g, sums, (uint32_t)metric_n_sums(kind), (struct harness_options){0}, &err));
    harness_feed(&h, o, output);
    harness_feed(&h, t, targets);
    ASSERT_OK(harness_run(&h, &err));
    for (int i = 0; i < metric_n_sums(kind); i++) {
        harness_fetch(&h, (uint32_t)i, &out[i]);
    }
    harness_close(&h);
    registry_close(dev);
    eo_graph_free(g);
}

static const char *const devices[] = {"reference", "cpu"};

START_TEST(accuracy)
{
    const float logits[] = {1, 2, 3, 5, 1, 1, 0, 0, 0, -1, -2, NAN};
    const int64_t classes[] = {2, 1, 0, 2};
    const struct metric_scale scale = {.n_rows = 4, .row_elements = 3, .target_unit = 1};
    double sums[1];

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        sums_of(devices[d], METRIC_ACCURACY, EO_FLOAT32, 4, 3, logits, classes, 0, sums);
        ck_assert_double_eq(sums[0], 3); /* ties go to the first; a NaN is taken for the largest */
        ck_assert_double_eq(metric_value(METRIC_ACCURACY, sums, &scale), 0.75);
    }
}
END_TEST

START_TEST(binary_accuracy)
{
    const double logits[] = {0.1, -0.1, 0, 700, -700, NAN}, targets[] = {1, 0, 0, 1, 1, 1};
    const struct metric_scale scale = {.n_rows = 6, .row_elements = 1, .target_unit = 1};
    double sums[1];

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        sums_of(devices[d], METRIC_BINARY_ACCURACY, EO_FLOAT64, 6, 1, logits, targets, 0, sums);
        ck_assert_double_eq(sums[0], 4);
        ck_assert_double_eq_tol(metric_value(METRIC_BINARY_ACCURACY, sums, &scale), 4 / 6.0, 1e-15);
    }
}
END_TEST

START_TEST(regression)
{
    const double output[] = {1, 2, 3, 4}, targets[] = {1, 3, 2, 6};
    const struct metric_scale scale = {.n_rows = 4, .row_elements = 1, .target_unit = 10};
    double sums[METRIC_MAX_SUMS];

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        sums_of(devices[d], METRIC_MAE, EO_FLOAT64, 4, 1, output, targets, 0, sums);
        ck_assert_double_eq(metric_value(METRIC_MAE, sums, &scale), 10);
        sums_of(devices[d], METRIC_MSE, EO_FLOAT64, 4, 1, output, targets, 0, sums);
        ck_assert_double_eq(metric_value(METRIC_MSE, sums, &scale), 150);
        sums_of(devices[d], METRIC_RMSE, EO_FLOAT64, 4, 1, output, targets, 0, sums);
        ck_assert_double_eq(metric_value(METRIC_RMSE, sums, &scale), sqrt(150));
        sums_of(devices[d], METRIC_R2, EO_FLOAT64, 4, 1, output, targets, 3, sums);
        /* squares of errors 6, of distances from the mean 3: 4 + 0 + 1 + 9 = 14 */
        ck_assert_double_eq_tol(metric_value(METRIC_R2, sums, &scale), 1 - 6 / 14.0, 1e-15);
    }
}
END_TEST

/* Targets far from 0: around the shift nothing cancels, around 0 everything would. */
START_TEST(r2_keeps_its_digits)
{
    double output[100], targets[100], sums[METRIC_MAX_SUMS], residual = 0, spread = 0;
    const struct metric_scale scale = {.n_rows = 100, .row_elements = 1, .target_unit = 1};

    for (int i = 0; i < 100; i++) {
        targets[i] = 1e9 + i;
        output[i] = 1e9 + i + (i % 2 ? 1 : -1);
        residual += 1;
        spread += (i - 49.5) * (i - 49.5);
    }
    sums_of("cpu", METRIC_R2, EO_FLOAT64, 100, 1, output, targets, 1e9 + 40, sums);
    ck_assert_double_eq_tol(metric_value(METRIC_R2, sums, &scale), 1 - residual / spread, 1e-12);
}
END_TEST

START_TEST(borders)
{
    const struct metric_scale none = {.row_elements = 1, .target_unit = 1};
    const struct metric_scale four = {.n_rows = 4, .row_elements = 1, .target_unit = 1};
    const double constant[] = {3, 4, 4}, one[] = {2, 1.5, 2.25};
    double sums[METRIC_MAX_SUMS] = {0};

    for (int i = 0; i < METRIC_COUNT; i++) {
        ck_assert_double_nan(metric_value((enum metric_kind)i, sums, &none));
    }
    ck_assert_double_eq(metric_value(METRIC_R2, constant, &four), 0); /* four targets of shift + 1 */
    ck_assert_double_eq(metric_value(METRIC_R2, one, &(struct metric_scale){1, 1, 1}), 0);
}
END_TEST

EO_SUITE("metrics", rows_are_sane, accuracy, binary_accuracy, regression, r2_keeps_its_digits, borders)
