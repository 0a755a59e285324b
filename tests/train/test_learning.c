/* The example jobs reach their scores on real data: what a user would see. */
#include "proto/base/file.h"
#include "tests/train/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static char *example(const char *name)
{
    char path[512];
    struct eo_bytes text;

    snprintf(path, sizeof(path), "%s/deploy/examples/%s", getenv("EO_SOURCE_DIR"), name);
    ASSERT_OK(eo_file_read(path, 1 << 20, &text, &err));
    return (char *)eo_bytes_take(&text, &(size_t){0});
}

/* Runs an example with overrides; the value of one metric. */
static double score(const char *name, const char *const *sets, const char *metric)
{
    char *job = example(name), folder[512];
    struct run r;
    double value;

    snprintf(folder, sizeof(folder), "%s/deploy/examples", getenv("EO_SOURCE_DIR"));
    run_init(&r);
    r.data_folder = folder;
    ASSERT_OK(run_job(&r, job, sets, &err));
    value = run_metric(&r, metric);
    run_fini(&r);
    free(job);
    return value;
}

/* Mean over the splits and starts of seeds first..last. */
static double mean_score(const char *name, const char *extra, int first, int last, const char *metric)
{
    double sum = 0;

    for (int seed = first; seed <= last; seed++) {
        char set_seed[40];
        const char *sets[] = {set_seed, extra, NULL};

        snprintf(set_seed, sizeof(set_seed), "train.seed=%d", seed);
        sum += score(name, sets, metric);
    }
    return sum / (last - first + 1);
}

START_TEST(digits)
{
    ck_assert_double_ge(score("digits.yaml", NULL, "val_accuracy"), 0.96);
}
END_TEST

START_TEST(iris)
{
    ck_assert_double_ge(mean_score("iris.yaml", NULL, 0, 19, "val_accuracy"), 0.94);
}
END_TEST

/* Concrete strength: PyTorch with the same model reached R2 0.87 and RMSE 5.6 on one split (data/README.md of the
 * project's shared data); which rows are set aside moves that by several points, so the mean of 8 splits is held to it.
 */
START_TEST(regression)
{
    const char *scaled = "data.scale={standardize: true, standardize_target: true}";

    ck_assert_double_ge(mean_score("regression.yaml", scaled, 0, 7, "val_r2"), 0.87);
    ck_assert_double_le(mean_score("regression.yaml", scaled, 0, 7, "val_rmse"), 5.6);
}
END_TEST

EO_SUITE("learning", digits, iris, regression)
