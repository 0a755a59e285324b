/* What a job may add to plain steps: batches in parts, limits of gradients, a running average of the parameters. Each
 * against what it is by definition, from runs without it. */
#include "daemon/formats/safetensors.h"
#include "tests/train/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

enum { MOST = 256 };

/* All parameters of a run's model, in the order of the file. */
static int parameters(const struct run *r, double out[MOST])
{
    struct safetensors f;
    char path[512];
    int n = 0;

    ASSERT_OK(safetensors_open(run_path(r, "out/model.safetensors", path), &f, &err));
    for (uint32_t i = 0; i < f.n_tensors; i++) {
        int64_t count = eo_tensor_desc_count(&f.tensors[i].desc);

        ck_assert_int_eq(f.tensors[i].desc.dtype, EO_FLOAT64);
        ck_assert_int_le(n + count, MOST);
        ASSERT_OK(safetensors_read(&f, &f.tensors[i], out + n, &err));
        n += (int)count;
    }
    safetensors_close(&f);
    return n;
}

/* The parameters after `steps` steps of float64; sets: further settings, up to five. */
static int after(const char *steps, const char *const *sets, double out[MOST])
{
    const char *all[8] = {"precision=float64", steps};
    struct run r;
    int n = 2;

    for (; *sets != NULL; sets++) {
        all[n++] = *sets;
    }
    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, all, &err));
    n = parameters(&r, out);
    run_fini(&r);
    return n;
}

static void expect_near(const double *a, const double *b, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        ck_assert_msg(fabs(a[i] - b[i]) <= tolerance, "parameter %d is %.17g and %.17g", i, a[i], b[i]);
    }
}

/* Batches of 16 in 1, 3 and 40 parts (some of them empty), dropout included: the same sums in another order. */
START_TEST(parts_of_a_batch_add_up)
{
    static const char *const sets[][2] = {{NULL}, {"train.accumulate=3"}, {"train.accumulate=40"}};
    double whole[MOST], parts[MOST];
    int n = after("train.max_steps=30", sets[0], whole);

    for (size_t i = 1; i < EO_COUNT_OF(sets); i++) {
        ck_assert_int_eq(after("train.max_steps=30", sets[i], parts), n);
        expect_near(whole, parts, n, 1e-11);
    }
}
END_TEST

static const char sgd[] = "optimizer={sgd: {lr: 1}}", no_norm[] = "train.clip_norm=1e300";

/* One step of lr 1 moves a parameter by its gradient, so by clip_value at most. */
START_TEST(gradients_are_limited)
{
    const char *const none[] = {sgd, no_norm, NULL}, *const tight[] = {sgd, no_norm, "train.clip_value=1e-3", NULL};
    const char *const still[] = {"optimizer={sgd: {lr: 1e-300}}", NULL};
    double before[MOST], free_step[MOST], limited[MOST], largest = 0;
    int n = after("train.max_steps=1", still, before);

    ck_assert_int_eq(after("train.max_steps=1", none, free_step), n);
    ck_assert_int_eq(after("train.max_steps=1", tight, limited), n);
    for (int i = 0; i < n; i++) {
        double wanted = fmin(fmax(free_step[i] - before[i], -1e-3), 1e-3);

        ck_assert_double_eq_tol(limited[i] - before[i], wanted, 1e-15);
        largest = fmax(largest, fabs(free_step[i] - before[i]));
    }
    ck_assert_double_gt(largest, 2e-3);
}
END_TEST

/* clip_norm takes the norm of what clip_value left. */
START_TEST(value_first_then_norm)
{
    const char *const both[] = {sgd, "train.clip_value=1e-3", "train.clip_norm=1e-4", NULL};
    const char *const still[] = {"optimizer={sgd: {lr: 1e-300}}", NULL};
    double before[MOST], moved[MOST], squares = 0;
    int n = after("train.max_steps=1", still, before);

    ck_assert_int_eq(after("train.max_steps=1", both, moved), n);
    for (int i = 0; i < n; i++) {
        squares += (moved[i] - before[i]) * (moved[i] - before[i]);
    }
    ck_assert_double_eq_tol(sqrt(squares), 1e-4, 1e-12);
}
END_TEST

/* A limit would turn an infinite gradient into an ordinary one: it is seen before. */
START_TEST(infinity_is_not_limited_away)
{
    const char *sets[] = {"optimizer={sgd: {lr: 1e38}}", "train.clip_value=1e30", no_norm, NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_CODE(run_job(&r, run_blobs_job, sets, &err), EO_E_NON_FINITE);
    run_fini(&r);
}
END_TEST

/* average + (1 - decay) (parameters - average) after each step, decay at most (1 + t) / (10 + t). */
START_TEST(running_average)
{
    const char *const plain[] = {sgd, NULL}, *const averaged[] = {sgd, "train.ema=0.2", NULL};
    const char *const still[] = {"optimizer={sgd: {lr: 1e-300}}", NULL};
    double p[4][MOST], average[MOST];
    static const char *const steps[] = {"train.max_steps=1", "train.max_steps=2", "train.max_steps=3"};
    int n = after("train.max_steps=1", still, p[0]);

    for (int t = 1; t <= 3; t++) {
        ck_assert_int_eq(after(steps[t - 1], plain, p[t]), n);
    }
    ck_assert_int_eq(after("train.max_steps=3", averaged, average), n);
    for (int i = 0; i < n; i++) {
        double wanted = p[0][i];

        for (int t = 1; t <= 3; t++) {
            wanted += (1 - fmin(0.2, (1.0 + t) / (10.0 + t))) * (p[t][i] - wanted);
        }
        ck_assert_double_eq_tol(average[i], wanted, 1e-14);
    }
}
END_TEST

/* Validation during training uses the average, and the test after it uses the result: on the same rows they agree. */
START_TEST(the_average_is_evaluated)
{
    const char *sets[] = {"optimizer={sgd: {lr: 1}}",
                          "train.epochs=2",
                          "data.validation={csv: blobs.csv}",
                          "data.test={csv: blobs.csv}",
                          NULL,
                          NULL};
    struct run plain, averaged;

    run_init(&plain);
    run_blobs(&plain, 200);
    ASSERT_OK(run_job(&plain, run_blobs_job, sets, &err));
    sets[4] = "train.ema=0.95";
    run_init(&averaged);
    run_blobs(&averaged, 200);
    ASSERT_OK(run_job(&averaged, run_blobs_job, sets, &err));
    ck_assert_double_eq(run_metric(&averaged, "val_loss"), run_metric(&averaged, "test_loss"));
    ck_assert_double_ne(run_metric(&averaged, "val_loss"), run_metric(&plain, "val_loss"));
    ck_assert_double_eq(run_metric(&averaged, "loss"), run_metric(&plain, "loss")); /* training is the same */
    run_fini(&plain);
    run_fini(&averaged);
}
END_TEST

START_TEST(interrupted_runs_go_on_exactly)
{
    const char *sets[] = {"train.accumulate=3", "train.clip_value=0.01",        "train.ema=0.9",
                          "schedule=cosine",    "early_stopping={patience: 2}", NULL};
    struct run whole, cut;

    run_init(&whole);
    run_blobs(&whole, 200);
    ASSERT_OK(run_job(&whole, run_blobs_job, sets, &err));
    run_init(&cut);
    run_blobs(&cut, 200);
    cut.stop_at_step = 17;
    cut.stop_with = 1;
    ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
    ck_assert(cut.result.stopped);
    cut.stop = 0;
    cut.stop_at_step = 0;
    cut.resume = "auto";
    ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
    ck_assert_str_eq(cut.result.parameters_sha256, whole.result.parameters_sha256);
    run_fini(&whole);
    run_fini(&cut);
}
END_TEST

EO_SUITE("train options", parts_of_a_batch_add_up, gradients_are_limited, value_first_then_norm,
         infinity_is_not_limited_away, running_average, the_average_is_evaluated, interrupted_runs_go_on_exactly)
