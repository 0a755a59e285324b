#include "daemon/train/data.h"

#include "daemon/train/data_split.h"
#include "proto/base/file.h"
#include "tests/train/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;
static struct run folder;

/* A job on CSV files of the temporary folder. */
static const char csv_job[] = "model: [{linear: {in: 2, out: 3}}]\nloss: cross_entropy\noptimizer: adam\n"
                              "data: {train: {csv: t.csv}, batch: 4}\ntrain: {epochs: 1, seed: 5}\n";
static const char idx_job[] = "model: [flatten, {linear: {in: 4, out: 3}}]\nloss: cross_entropy\noptimizer: adam\n"
                              "data: {train: {idx: x.idx, labels: y.idx}, scale: {divide: 2}}\ntrain: {epochs: 1}\n";

static int open_here(void *ctx, const struct spec_file *file, char *out, size_t size, struct eo_error *e)
{
    EO_UNUSED(ctx);
    EO_UNUSED(e);
    snprintf(out, size, "%s/%s", folder.folder, file->path);
    return EO_OK;
}

static const struct data_open opener = {.open = open_here};

static int load(const char *job, const char *const *sets, int n_sets, struct job_spec **spec, struct data *d)
{
    int status;

    ASSERT_OK(spec_parse(job, strlen(job), "job.yaml", sets, n_sets, spec, &err));
    status = data_load(*spec, &opener, 1 << 20, d, &err);
    if (status != EO_OK) {
        spec_free(*spec);
    }
    return status;
}

static void drop(struct job_spec *spec, struct data *d)
{
    data_fini(d);
    spec_free(spec);
}

/* ---- permutations and splits ---- */

START_TEST(permutations_hold_everything_once)
{
    int64_t a[1000], b[1000];
    bool seen[1000] = {false};
    int moved = 0, equal = 0;

    data_permutation(1000, 1, 0, 9, a);
    for (int i = 0; i < 1000; i++) {
        ck_assert(a[i] >= 0 && a[i] < 1000 && !seen[a[i]]);
        seen[a[i]] = true;
        moved += a[i] != i;
    }
    ck_assert_int_gt(moved, 980);
    data_permutation(1000, 1, 1, 9, b); /* another epoch */
    for (int i = 0; i < 1000; i++) {
        equal += a[i] == b[i];
    }
    ck_assert_int_lt(equal, 15);
    data_permutation(1000, 1, 0, 9, b);
    ck_assert_mem_eq(a, b, sizeof(a));
    data_permutation(0, 1, 0, 9, b);
    data_permutation(1, 1, 0, 9, b);
    ck_assert_int_eq(b[0], 0);
}
END_TEST

/* Every one of the 24 orders of 4 things comes about equally often: chi squared with 23 degrees of freedom, 5 sigma. */
START_TEST(permutations_are_uniform)
{
    int counts[256] = {0}, n = 24000, kinds = 0;
    double chi = 0;

    for (int seed = 0; seed < n; seed++) {
        int64_t order[4];

        data_permutation(4, (uint64_t)seed, 0, 9, order);
        counts[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        kinds += counts[i] > 0;
        chi += counts[i] > 0 ? (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000 : 0;
    }
    ck_assert_int_eq(kinds, 24);
    ck_assert_double_lt(chi, 23 + 5 * sqrt(46));
}
END_TEST

static void count_parts(const uint8_t *marks, int64_t n, int64_t out[3])
{
    memset(out, 0, sizeof(int64_t) * 3);
    for (int64_t i = 0; i < n; i++) {
        out[marks[i]]++;
    }
}

START_TEST(splits_have_their_sizes)
{
    uint8_t marks[150], other[150];
    int32_t classes[150];
    int64_t n[3];
    const struct data_share plain[2] = {{0.1, false}, {0.2, false}};
    const struct data_share stratified[2] = {{0.1, true}, {0.2, true}};

    for (int i = 0; i < 150; i++) {
        classes[i] = i < 100 ? 0 : i < 140 ? 1 : 2;
    }
    ASSERT_OK(data_split(150, NULL, 0, plain, 2, 3, marks, &err));
    count_parts(marks, 150, n);
    ck_assert_int_eq(n[1], 15);
    ck_assert_int_eq(n[2], 30);
    ASSERT_OK(data_split(150, NULL, 0, plain, 2, 4, other, &err));
    ck_assert(memcmp(marks, other, sizeof(marks)) != 0);
    ASSERT_OK(data_split(150, classes, 3, stratified, 2, 3, marks, &err));
    count_parts(marks, 100, n);
    ck_assert_int_eq(n[1], 10);
    ck_assert_int_eq(n[2], 20);
    count_parts(marks + 100, 40, n);
    ck_assert_int_eq(n[1], 4);
    ck_assert_int_eq(n[2], 8);
    count_parts(marks + 140, 10, n);
    ck_assert_int_eq(n[1], 1);
    ck_assert_int_eq(n[2], 2);
    /* another share for validation leaves the test rows alone */
    ASSERT_OK(data_split(150, classes, 3, (struct data_share[]){{0.1, true}, {0.4, true}}, 2, 3, other, &err));
    for (int i = 0; i < 150; i++) {
        ck_assert_int_eq(marks[i] == 1, other[i] == 1);
    }
}
END_TEST

START_TEST(splits_at_the_borders)
{
    uint8_t marks[4];
    int64_t n[3];
    const int32_t classes[4] = {0, 0, 0, 1};

    ASSERT_OK(data_split(4, NULL, 0, (struct data_share[]){{0.01, false}}, 1, 0, marks, &err));
    count_parts(marks, 4, n);
    ck_assert_int_eq(n[1], 1); /* at least one */
    ASSERT_OK(data_split(4, NULL, 0, (struct data_share[]){{0.99, false}}, 1, 0, marks, &err));
    count_parts(marks, 4, n);
    ck_assert_int_eq(n[0], 1); /* one stays */
    ASSERT_OK(data_split(4, classes, 2, (struct data_share[]){{0.5, true}}, 1, 0, marks, &err));
    ck_assert_int_eq(marks[3], 0); /* a class of one row stays for training */
    ASSERT_CODE(data_split(1, NULL, 0, (struct data_share[]){{0.5, false}}, 1, 0, marks, &err), EO_E_BAD_FILE);
}
END_TEST

/* ---- csv ---- */

START_TEST(csv_is_split_scaled_and_gathered)
{
    const char *sets[] = {"data.scale.standardize=true", "data.validation={split: 0.25}", "precision=float64"};
    const struct data_part *train;
    struct job_spec *spec;
    struct data d;
    double x[2], mean[2] = {0}, variance[2] = {0};
    int64_t y, order[6];

    run_write(&folder, "t.csv", "a,b,class\n1,10,0\n2,20,1\n3,10,2\n4,20,0\n5,10,1\n6,20,2\n7,10,0\n8,1000,1\n");
    ASSERT_OK(load(csv_job, sets, 3, &spec, &d));
    train = &d.part[DATA_TRAIN];
    ck_assert_int_eq(train->n, 6);
    ck_assert_int_eq(d.part[DATA_VALIDATION].n, 2);
    ck_assert_ptr_null(d.part[DATA_TEST].rows);
    ck_assert_int_eq(d.features, 2);
    ck_assert_int_eq(spec->model->input.shape[1], 2);
    for (int i = 0; i < 6; i++) {
        data_gather(&d, train, NULL, i, 1, x, &y);
        ck_assert_int_eq(y, train->index[i] % 3);
        for (int f = 0; f < 2; f++) {
            mean[f] += x[f] / 6;
            variance[f] += x[f] * x[f] / 6;
        }
    }
    /* fitted to the training rows alone */
    for (int f = 0; f < 2; f++) {
        ck_assert_double_eq_tol(mean[f], 0, 1e-14);
        ck_assert_double_eq_tol(variance[f], 1, 1e-14);
    }
    /* an order picks the same rows */
    for (int i = 0; i < 6; i++) {
        order[i] = 5 - i;
    }
    for (int i = 0; i < 6; i++) {
        double again[2];

        data_gather(&d, train, order, i, 1, x, &y);
        data_gather(&d, train, NULL, 5 - i, 1, again, &y);
        ck_assert_mem_eq(x, again, sizeof(x));
    }
    drop(spec, &d);
}
END_TEST

START_TEST(constant_features_do_no_harm)
{
    const char *sets[] = {"data.scale.standardize=true", "precision=float64"};
    struct job_spec *spec;
    struct data d;
    double x[8];
    int64_t y[4];

    run_write(&folder, "t.csv", "0.1,5,0\n0.1,6,1\n0.1,7,2\n0.1,8,0\n");
    ASSERT_OK(load(csv_job, sets, 2, &spec, &d));
    data_gather(&d, &d.part[DATA_TRAIN], NULL, 0, 4, x, y);
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq_tol(x[2 * i], 0, 1e-15);
    }
    drop(spec, &d);
}
END_TEST

START_TEST(regression_targets)
{
    static const char job[] = "model: [{linear: {in: 1, out: 1}}]\nloss: mse\noptimizer: adam\nprecision: float64\n"
                              "data: {train: {csv: t.csv, target: t}}\ntrain: {epochs: 1}\n";
    const char *scaled[] = {"data.scale.standardize_target=true"};
    struct job_spec *spec;
    struct data d;
    double x[4], y[4];

    run_write(&folder, "t.csv", "t,x\n100,1\n300,2\n100,3\n300,4\n");
    ASSERT_OK(load(job, NULL, 0, &spec, &d));
    data_gather(&d, &d.part[DATA_TRAIN], NULL, 0, 4, x, y);
    ck_assert_double_eq(y[1], 300);
    ck_assert_double_eq(x[3], 4);
    ck_assert_double_eq(d.target_shift, 200);
    ck_assert_double_eq(d.scale.target_deviation, 1);
    drop(spec, &d);
    ASSERT_OK(load(job, scaled, 1, &spec, &d));
    data_gather(&d, &d.part[DATA_TRAIN], NULL, 0, 4, x, y);
    ck_assert_double_eq(y[0], -1);
    ck_assert_double_eq(y[1], 1);
    ck_assert_double_eq(d.scale.target_mean, 200);
    ck_assert_double_eq(d.scale.target_deviation, 100);
    ck_assert_double_eq(d.target_shift, 0);
    drop(spec, &d);
}
END_TEST

START_TEST(mistakes_in_csv_are_placed)
{
    static const struct {
        const char *text, *place, *why;
        int code;
    } rows[] = {
        {"a,b,class\n1,2,0\n3,4,3\n", "t.csv:3", "target 3 is no class of 0 to 2", EO_E_BAD_FILE},
        {"a,b,class\n1,2,0.5\n", "t.csv:2", "target 0.5", EO_E_BAD_FILE},
        {"1,2,-1\n", "t.csv:1", "target -1", EO_E_BAD_FILE},
        {"a,b,class\n1,2\n", "t.csv:2", "2 cells", EO_E_BAD_FILE},
        {"class\n1\n", "t.csv", "one column", EO_E_BAD_FILE},
        {"a,b,c,class\n1,2,3,0\n", "takes 2 features", "[3]", EO_E_BAD_SPEC},
    };

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        struct job_spec *spec;
        struct data d;

        run_write(&folder, "t.csv", rows[i].text);
        ASSERT_CODE(load(csv_job, NULL, 0, &spec, &d), rows[i].code);
        ASSERT_CONTAINS(err.message, rows[i].place);
        ASSERT_CONTAINS(err.message, rows[i].why);
    }
}
END_TEST

START_TEST(files_of_other_shapes_are_refused)
{
    const char *sets[] = {"data.test={csv: u.csv}"}, *target[] = {"data.train.target=klass"};
    struct job_spec *spec;
    struct data d;

    run_write(&folder, "t.csv", "a,b,class\n1,2,0\n3,4,1\n");
    run_write(&folder, "u.csv", "a,class\n1,0\n");
    ASSERT_CODE(load(csv_job, sets, 1, &spec, &d), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "u.csv");
    ASSERT_CODE(load(csv_job, target, 1, &spec, &d), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "klass");
    ASSERT_CONTAINS(err.hint, "class");
    run_write(&folder, "u.csv", "a,b,class\n1,2,1\n");
    ASSERT_OK(load(csv_job, sets, 1, &spec, &d));
    ck_assert_int_eq(d.part[DATA_TEST].n, 1);
    drop(spec, &d);
}
END_TEST

/* ---- idx ---- */

static void write_bytes(const char *name, const void *data, size_t size)
{
    char path[512];

    ASSERT_OK(eo_file_write_atomic(run_path(&folder, name, path), data, size, 0644, &err));
}

START_TEST(images_stay_bytes_until_gathered)
{
    static const uint8_t x[] = {0, 0, 8, 3, 0, 0, 0,  3,  0,  0,  0,   2,   0, 0,
                                0, 2, 0, 1, 2, 3, 10, 20, 30, 40, 255, 254, 1, 0};
    static const uint8_t y[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};
    const char *standard[] = {"data.scale={standardize: true}"};
    struct job_spec *spec;
    struct data d;
    float rows[12];
    int64_t labels[3];

    write_bytes("x.idx", x, sizeof(x));
    write_bytes("y.idx", y, sizeof(y));
    ASSERT_OK(load(idx_job, NULL, 0, &spec, &d));
    ck_assert_int_eq(d.files[0].row.dtype, EO_UINT8);
    ck_assert_int_eq(spec->model->input.n_dims, 3);
    data_gather(&d, &d.part[DATA_TRAIN], NULL, 0, 3, rows, labels);
    ck_assert_float_eq(rows[1], 0.5f);
    ck_assert_float_eq(rows[7], 20);
    ck_assert_float_eq(rows[8], 127.5f);
    ck_assert_int_eq(labels[0], 2);
    ck_assert_int_eq(labels[2], 1);
    drop(spec, &d);
    ASSERT_OK(load(idx_job, standard, 1, &spec, &d));
    data_gather(&d, &d.part[DATA_TRAIN], NULL, 0, 3, rows, labels);
    ck_assert_float_eq_tol(rows[0] + rows[4] + rows[8], 0, 1e-6f);
    drop(spec, &d);
}
END_TEST

START_TEST(labels_must_belong_to_images)
{
    static const uint8_t x[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t three[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1}, large[] = {0, 0, 8, 1, 0, 0, 0, 2, 2, 9};
    static const uint8_t flat[] = {0, 0, 8, 1, 0, 0, 0, 1, 2}, none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 4};
    struct job_spec *spec;
    struct data d;

    write_bytes("x.idx", x, sizeof(x));
    write_bytes("y.idx", three, sizeof(three));
    ASSERT_CODE(load(idx_job, NULL, 0, &spec, &d), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "2 rows");
    write_bytes("y.idx", large, sizeof(large));
    ASSERT_CODE(load(idx_job, NULL, 0, &spec, &d), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "label 1: target 9");
    write_bytes("x.idx", flat, sizeof(flat));
    ASSERT_CODE(load(idx_job, NULL, 0, &spec, &d), EO_E_BAD_FILE);
    write_bytes("x.idx", none, sizeof(none));
    ASSERT_CODE(load(idx_job, NULL, 0, &spec, &d), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "no rows");
}
END_TEST

/* ---- identity ---- */

START_TEST(the_digest_sees_rows_targets_and_parts)
{
    const char *seed[] = {"data.validation={split: 0.5}", "train.seed=6"};
    const char *split[] = {"data.validation={split: 0.5}"};
    struct job_spec *spec;
    struct data d;
    char first[65];

    run_write(&folder, "t.csv", "1,2,0\n3,4,1\n5,6,2\n7,8,0\n");
    ASSERT_OK(load(csv_job, NULL, 0, &spec, &d));
    memcpy(first, d.sha256, sizeof(first));
    drop(spec, &d);
    ASSERT_OK(load(csv_job, NULL, 0, &spec, &d));
    ck_assert_str_eq(first, d.sha256);
    drop(spec, &d);
    ASSERT_OK(load(csv_job, split, 1, &spec, &d));
    ck_assert_str_ne(first, d.sha256);
    memcpy(first, d.sha256, sizeof(first));
    drop(spec, &d);
    ASSERT_OK(load(csv_job, seed, 2, &spec, &d));
    ck_assert_str_ne(first, d.sha256);
    drop(spec, &d);
    run_write(&folder, "t.csv", "1,2,0\n3,4,1\n5,6,2\n7,8.5,0\n");
    ASSERT_OK(load(csv_job, split, 1, &spec, &d));
    ck_assert_str_ne(first, d.sha256);
    drop(spec, &d);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {permutations_hold_everything_once,
                                  permutations_are_uniform,
                                  splits_have_their_sizes,
                                  splits_at_the_borders,
                                  csv_is_split_scaled_and_gathered,
                                  constant_features_do_no_harm,
                                  regression_targets,
                                  mistakes_in_csv_are_placed,
                                  files_of_other_shapes_are_refused,
                                  images_stay_bytes_until_gathered,
                                  labels_must_belong_to_images,
                                  the_digest_sees_rows_targets_and_parts};
    int result;

    run_init(&folder);
    result = eo_suite_run("data", tests, EO_COUNT_OF(tests));
    run_fini(&folder);
    return result;
}
