/* The training step on every device: gradients, sums, shards, padding. */
#include "daemon/train/step.h"

#include "backends/registry.h"
#include "daemon/train/metrics.h"
#include "tests/nn/models.h"
#include "tests/support/fake_device.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

enum { IN = 5, HIDDEN = 7, CLASSES = 3, ROWS = 11 };

struct rig {
    struct eo_device *dev;
    struct executor *x;
    struct layer layers[4];
    struct model m;
    struct train_step *s;
    int metrics[1];
    double rows[ROWS * IN];
    float narrow[ROWS * IN];
    int64_t classes[ROWS];
};

static void rig_init(struct rig *r, const char *device, enum eo_dtype dtype, double dropout,
                     enum optimizer_kind optimizer)
{
    const struct eo_device_config device_config = {.threads = 1};
    struct step_config config = {.seed = 42, .fallback = PLAN_STRICT};
    char why[200];

    *r = (struct rig){.metrics = {METRIC_ACCURACY}};
    ASSERT_OK(registry_open(device, &device_config, &r->dev, why, sizeof(why), &err));
    ASSERT_OK(executor_new(r->dev, &r->x, &err));
    r->layers[0] = linear_of(0, IN, HIDDEN, true);
    r->layers[1] = layer_of(LAYER_TANH, 1);
    r->layers[2] = layer_of(LAYER_DROPOUT, 2);
    r->layers[2].args[0].number = dropout;
    r->layers[3] = linear_of(3, HIDDEN, CLASSES, true);
    r->m = model_of(r->layers, 4, LOSS_CROSS_ENTROPY, dtype, (int64_t[]){IN}, 1);
    ASSERT_OK(model_check(&r->m, &err));
    config.model = &r->m;
    config.metrics = r->metrics;
    config.n_metrics = 1;
    optimizer_default(optimizer, &config.optimizer);
    ASSERT_OK(step_new(&config, r->x, &r->s, &err));
    for (int i = 0; i < ROWS * IN; i++) {
        r->rows[i] = sin(i * 1.3) + 0.1 * (i % 7);
        r->narrow[i] = (float)r->rows[i];
    }
    for (int i = 0; i < ROWS; i++) {
        r->classes[i] = i * i % CLASSES;
    }
}

static void rig_fini(struct rig *r)
{
    step_free(r->s);
    executor_free(r->x);
    registry_close(r->dev);
}

static struct step_feed feed_of(const struct rig *r, int64_t first, int64_t n)
{
    return (struct step_feed){.x = r->m.dtype == EO_FLOAT64 ? (const void *)(r->rows + first * IN)
                                                            : (const void *)(r->narrow + first * IN),
                              .y = r->classes + first,
                              .n_rows = n,
                              .n_global = ROWS,
                              .row_offset = first,
                              .step = 3};
}

static struct step_result compute(struct rig *r, int64_t first, int64_t n)
{
    const struct step_feed feed = feed_of(r, first, n);
    struct step_result result;

    ASSERT_OK(step_compute(r->s, &feed, &result, &err));
    ASSERT_OK(step_pull(r->s, &err));
    return result;
}

static const char *const devices[] = {"reference", "cpu", "fake"};

START_TEST(parameters_are_laid_out_and_initialised)
{
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig r;
        const double *params;

        rig_init(&r, devices[d], EO_FLOAT64, 0, OPTIMIZER_ADAM);
        ASSERT_OK(step_pull(r.s, &err));
        ck_assert_uint_eq(step_n_params(r.s), 4);
        ck_assert_str_eq(step_layout(r.s, 2)->name, "3.weight");
        ck_assert_ptr_null(step_layout(r.s, 4));
        ck_assert_ptr_nonnull(step_slot(r.s, 1));
        ck_assert_ptr_null(step_slot(r.s, 2));
        params = step_params(r.s);
        for (uint32_t i = 0; i < 4; i++) {
            const struct step_layout_entry *e = step_layout(r.s, i);

            ck_assert_uint_eq(e->offset % 64, 0);
            ck_assert_uint_le(e->offset + eo_tensor_desc_bytes(&e->desc), step_flat_bytes(r.s));
            ck_assert_double_eq(fabs(params[e->offset / 8]) > 0, i % 2 == 0); /* weights drawn, biases 0 */
        }
        rig_fini(&r);
    }
}
END_TEST

/* d loss / d parameter by central differences, float64. */
START_TEST(gradients_match_differences)
{
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig r;
        double *grads;
        uint64_t bytes;

        rig_init(&r, devices[d], EO_FLOAT64, 0.3, OPTIMIZER_SGD);
        bytes = step_flat_bytes(r.s);
        compute(&r, 0, ROWS);
        grads = malloc(bytes);
        memcpy(grads, step_grads(r.s), bytes);
        for (uint32_t p = 0; p < step_n_params(r.s); p++) {
            const struct step_layout_entry *e = step_layout(r.s, p);

            for (int64_t i = 0; i < eo_tensor_desc_count(&e->desc); i += 5) {
                double *value = (double *)step_params(r.s) + e->offset / 8 + i, saved = *value, up, down;

                *value = saved + 1e-5;
                ASSERT_OK(step_push(r.s, &err));
                up = compute(&r, 0, ROWS).loss_sum;
                *value = saved - 1e-5;
                ASSERT_OK(step_push(r.s, &err));
                down = compute(&r, 0, ROWS).loss_sum;
                *value = saved;
                ck_assert_double_eq_tol(grads[e->offset / 8 + (uint64_t)i], (up - down) / 2e-5 / ROWS, 1e-8);
            }
        }
        free(grads);
        rig_fini(&r);
    }
}
END_TEST

/* Uneven shards, one of them empty, add up to the whole: losses, metrics and gradients, dropout included. */
START_TEST(shards_add_up)
{
    static const int64_t cuts[] = {0, 4, 4, 5, ROWS};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig r;
        struct step_result whole;
        double *grads, *sum, loss = 0, hits = 0;
        uint64_t n;

        rig_init(&r, devices[d], EO_FLOAT64, 0.4, OPTIMIZER_ADAM);
        n = step_flat_bytes(r.s) / 8;
        grads = malloc(n * 8);
        sum = calloc(n, 8);
        whole = compute(&r, 0, ROWS);
        memcpy(grads, step_grads(r.s), n * 8);
        for (int i = 0; i < 4; i++) {
            struct step_result part = compute(&r, cuts[i], cuts[i + 1] - cuts[i]);

            loss += part.loss_sum;
            hits += part.metric_sums[0];
            for (uint64_t k = 0; k < n; k++) {
                sum[k] += ((double *)step_grads(r.s))[k];
            }
        }
        ck_assert_double_eq_tol(loss, whole.loss_sum, 1e-13);
        ck_assert_double_eq(hits, whole.metric_sums[0]);
        for (uint64_t k = 0; k < n; k++) {
            ck_assert_double_eq_tol(sum[k], grads[k], 1e-15);
        }
        free(grads);
        free(sum);
        rig_fini(&r);
    }
}
END_TEST

static double flat_at(const struct rig *r, const void *flat, uint64_t i)
{
    return r->m.dtype == EO_FLOAT64 ? ((const double *)flat)[i] : (double)((const float *)flat)[i];
}

/* The norm is that of the gradients, and an update is the optimizer's on every element, padding left alone. */
START_TEST(commit_and_update)
{
    static const enum eo_dtype dtypes[] = {EO_FLOAT64, EO_FLOAT32};

    for (size_t d = 0; d < EO_COUNT_OF(devices) * 2; d++) {
        enum eo_dtype dtype = dtypes[d % 2];
        uint64_t n, used = 0;
        struct rig r;
        double sum_squares, expected = 0, *before;

        rig_init(&r, devices[d / 2], dtype, 0, OPTIMIZER_SGD);
        n = step_flat_bytes(r.s) / eo_dtype_size(dtype);
        before = malloc(n * 8);
        compute(&r, 0, ROWS);
        for (uint64_t i = 0; i < n; i++) {
            double g = flat_at(&r, step_grads(r.s), i);

            before[i] = flat_at(&r, step_params(r.s), i);
            expected += g * g;
        }
        ASSERT_OK(step_commit(r.s, &sum_squares, &err));
        ck_assert_double_eq_tol(sum_squares, expected, 1e-12 * expected);
        ASSERT_OK(step_update(r.s, 0.1, 0.5, 1, &err));
        ASSERT_OK(step_pull(r.s, &err));
        for (uint64_t i = 0; i < n; i++) {
            double moved = before[i] - 0.1 * 0.5 * flat_at(&r, step_grads(r.s), i);

            ck_assert_double_eq_tol(flat_at(&r, step_params(r.s), i), moved, dtype == EO_FLOAT64 ? 1e-15 : 1e-7);
        }
        for (uint32_t p = 0; p < step_n_params(r.s); p++) {
            used += (uint64_t)eo_tensor_desc_count(&step_layout(r.s, p)->desc);
        }
        ck_assert_uint_gt(n, used); /* there is padding, and it is zero */
        for (uint64_t i = step_layout(r.s, 1)->offset / eo_dtype_size(dtype) + HIDDEN;
             i < step_layout(r.s, 2)->offset / eo_dtype_size(dtype); i++) {
            ck_assert_double_eq(flat_at(&r, step_params(r.s), i), 0);
            ck_assert_double_eq(flat_at(&r, step_grads(r.s), i), 0);
        }
        free(before);
        rig_fini(&r);
    }
}
END_TEST

START_TEST(nan_shows_in_the_norm)
{
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig r;
        double sum_squares;

        rig_init(&r, devices[d], EO_FLOAT32, 0, OPTIMIZER_SGD);
        r.narrow[2] = NAN;
        ck_assert_double_nan(compute(&r, 0, ROWS).loss_sum);
        ASSERT_OK(step_commit(r.s, &sum_squares, &err));
        ck_assert_double_nan(sum_squares);
        rig_fini(&r);
    }
}
END_TEST

/* Evaluation leaves dropout out, gives the outputs, and does not touch the gradients. */
START_TEST(evaluation)
{
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig plain, dropping;
        struct step_result a, b;
        double pred_a[ROWS * CLASSES], pred_b[ROWS * CLASSES], by_hand = 0;
        struct step_feed feed;

        rig_init(&plain, devices[d], EO_FLOAT64, 0, OPTIMIZER_ADAM);
        rig_init(&dropping, devices[d], EO_FLOAT64, 0.5, OPTIMIZER_ADAM);
        feed = feed_of(&plain, 0, ROWS);
        ASSERT_OK(step_evaluate(plain.s, &feed, &a, pred_a, &err));
        ASSERT_OK(step_evaluate(dropping.s, &feed, &b, pred_b, &err));
        ck_assert_mem_eq(pred_a, pred_b, sizeof(pred_a));
        ck_assert_double_eq(a.loss_sum, b.loss_sum);
        for (int i = 0; i < ROWS; i++) {
            const double *z = pred_a + i * CLASSES;

            by_hand += log(exp(z[0]) + exp(z[1]) + exp(z[2])) - z[plain.classes[i]];
        }
        ck_assert_double_eq_tol(a.loss_sum, by_hand, 1e-13);
        ck_assert_double_eq_tol(compute(&plain, 0, ROWS).loss_sum, by_hand, 1e-13);
        feed.n_rows = 0;
        ASSERT_OK(step_evaluate(plain.s, &feed, &a, pred_a, &err));
        ck_assert_double_eq(a.loss_sum, 0);
        rig_fini(&plain);
        rig_fini(&dropping);
    }
}
END_TEST

/* More row counts than are kept: the oldest plan goes, results stay the same. */
START_TEST(many_row_counts)
{
    struct rig r;
    double first[ROWS];

    rig_init(&r, "cpu", EO_FLOAT64, 0.2, OPTIMIZER_ADAM);
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 1; n <= ROWS; n++) {
            double loss = compute(&r, 0, n).loss_sum;

            if (round == 0) {
                first[n - 1] = loss;
            }
            ck_assert_double_eq(loss, first[n - 1]);
        }
    }
    rig_fini(&r);
}
END_TEST

/* A feed at an odd address is copied, not read where it cannot be. */
START_TEST(feeds_need_no_alignment)
{
    struct rig r;
    char *odd = malloc(ROWS * IN * 8 + ROWS * 8 + 1);
    struct step_feed feed;
    struct step_result a, b;

    rig_init(&r, "cpu", EO_FLOAT64, 0, OPTIMIZER_ADAM);
    feed = feed_of(&r, 0, ROWS);
    ASSERT_OK(step_compute(r.s, &feed, &a, &err));
    memcpy(odd + 1, r.rows, sizeof(r.rows));
    memcpy(odd + 1 + sizeof(r.rows), r.classes, sizeof(r.classes));
    feed.x = odd + 1;
    feed.y = odd + 1 + sizeof(r.rows);
    ASSERT_OK(step_compute(r.s, &feed, &b, &err));
    ck_assert_double_eq(a.loss_sum, b.loss_sum);
    free(odd);
    rig_fini(&r);
}
END_TEST

START_TEST(a_class_out_of_range_is_told)
{
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct rig r;
        struct step_result result;
        struct step_feed feed;

        rig_init(&r, devices[d], EO_FLOAT32, 0, OPTIMIZER_SGD);
        r.classes[4] = CLASSES;
        feed = feed_of(&r, 0, ROWS);
        ASSERT_CODE(step_compute(r.s, &feed, &result, &err), EO_E_BAD_VALUE);
        rig_fini(&r);
    }
}
END_TEST

START_TEST(too_many_metric_sums_are_refused)
{
    static const int metrics[] = {METRIC_R2, METRIC_R2, METRIC_R2};
    struct step_config config = {.metrics = metrics, .n_metrics = 3};
    struct train_step *s;
    struct rig r;

    rig_init(&r, "cpu", EO_FLOAT32, 0, OPTIMIZER_SGD);
    config.model = &r.m;
    optimizer_default(OPTIMIZER_SGD, &config.optimizer);
    ASSERT_CODE(step_new(&config, r.x, &s, &err), EO_E_BAD_SPEC);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {parameters_are_laid_out_and_initialised,
                                  gradients_match_differences,
                                  shards_add_up,
                                  commit_and_update,
                                  nan_shows_in_the_norm,
                                  evaluation,
                                  many_row_counts,
                                  feeds_need_no_alignment,
                                  a_class_out_of_range_is_told,
                                  too_many_metric_sums_are_refused};

    registry_reset();
    ASSERT_OK(registry_add(&fake_backend, &err));
    return eo_suite_run("step", tests, EO_COUNT_OF(tests));
}
