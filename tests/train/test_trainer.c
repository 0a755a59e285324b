/* Whole runs: what they leave behind, and that interrupted ones go on as if nothing had happened. */
#include "backends/registry.h"
#include "daemon/formats/safetensors.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "tests/support/fake_device.h"
#include "tests/train/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct eo_error err;

static bool exists(const struct run *r, const char *name)
{
    char path[512];

    return access(run_path(r, name, path), F_OK) == 0;
}

static void expect_same_file(const struct run *a, const struct run *b, const char *name_a, const char *name_b)
{
    size_t size_a, size_b;
    char *x = run_read(a, name_a, &size_a), *y = run_read(b, name_b, &size_b);

    ck_assert_msg(size_a == size_b && memcmp(x, y, size_a) == 0, "%s and %s differ", name_a, name_b);
    free(x);
    free(y);
}

/* Everything that a finished run leaves, except what tells the time. `step` names its last checkpoint. */
static void expect_same_end(const struct run *a, const struct run *b, int64_t step)
{
    char state_a[100], state_b[100];

    ck_assert_str_eq(a->result.parameters_sha256, b->result.parameters_sha256);
    snprintf(state_a, sizeof(state_a), "%s/checkpoints/step-%012" PRId64 "/state.safetensors", a->output, step);
    snprintf(state_b, sizeof(state_b), "%s/checkpoints/step-%012" PRId64 "/state.safetensors", b->output, step);
    expect_same_file(a, b, state_a, state_b);
    expect_same_file(a, b, "out/history.csv", "out/history.csv");
    expect_same_file(a, b, "out/model.safetensors", "out/model.safetensors");
}

/* ---- one run ---- */

/* parameters_sha256 as design section 9 words it, from the file. */
static void hash_model(const struct run *r, char out[65])
{
    char path[512];
    struct safetensors f;
    struct eo_sha256 h;
    uint8_t digest[32];

    ASSERT_OK(safetensors_open(run_path(r, "out/model.safetensors", path), &f, &err));
    eo_sha256_init(&h);
    for (uint32_t i = 0; i < f.n_tensors; i++) {
        const struct safetensors_tensor *t = &f.tensors[i];
        uint64_t bytes = eo_tensor_desc_bytes(&t->desc);
        void *data = malloc(bytes);
        char shape[64] = "";

        ASSERT_OK(safetensors_read(&f, t, data, &err));
        for (int d = 0; d < t->desc.n_dims; d++) {
            snprintf(shape + strlen(shape), sizeof(shape) - strlen(shape), "%s%" PRId64, d > 0 ? "," : "",
                     t->desc.shape[d]);
        }
        eo_sha256_update(&h, t->name, strlen(t->name) + 1);
        eo_sha256_update(&h, "float32", 8);
        eo_sha256_update(&h, shape, strlen(shape) + 1);
        eo_sha256_update(&h, data, bytes);
        free(data);
    }
    ck_assert(eo_sha256_final(&h, digest));
    eo_sha256_hex(digest, out);
    safetensors_close(&f);
}

START_TEST(a_run_leaves_its_files)
{
    const char *sets[] = {"data.test={split: 0.1}", "train.checkpoint={every_epochs: 1, keep: 2}", NULL};
    struct run r;
    char hash[65], *text;

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_eq(r.n_epoch_ends, 4);
    ck_assert_int_eq(r.result.epochs, 4);
    ck_assert_int_eq(r.result.steps, 4 * 9); /* 131 training rows in batches of 16 */
    ck_assert(!r.result.stopped);
    ck_assert_int_eq(r.last.epoch, 4);
    ck_assert_int_eq(r.last.step, r.last.steps);
    ck_assert_int_eq(r.last.epoch_step, 9);
    ck_assert_double_eq(r.last.lr, 0.01);
    ASSERT_CONTAINS(r.last.checkpoint, "step-000000000036");
    ck_assert_double_gt(run_metric(&r, "accuracy"), 0.7);
    ck_assert_double_gt(run_metric(&r, "val_accuracy"), 0.8);
    ck_assert_double_gt(run_metric(&r, "test_accuracy"), 0.8);
    ck_assert_double_lt(run_metric(&r, "test_loss"), 1);
    hash_model(&r, hash);
    ck_assert_str_eq(hash, r.result.parameters_sha256);
    text = run_read(&r, "out/manifest.json", NULL);
    ASSERT_CONTAINS(text, hash);
    ASSERT_CONTAINS(text, "\"format\":\"everyo-model\"");
    ASSERT_CONTAINS(text, "\"mean\":[");
    free(text);
    text = run_read(&r, "out/run.json", NULL);
    ASSERT_CONTAINS(text, "\"seed\":3");
    ASSERT_CONTAINS(text, "\"val_accuracy\":");
    free(text);
    text = run_read(&r, "out/history.csv", NULL);
    ck_assert_int_eq(strncmp(text, "epoch,step,lr,loss,accuracy,val_loss,val_accuracy\n1,9,0.01,", 59), 0);
    free(text);
    ck_assert(exists(&r, "out/checkpoints/step-000000000036"));
    ck_assert(exists(&r, "out/checkpoints/step-000000000027"));
    ck_assert(!exists(&r, "out/checkpoints/step-000000000018"));
    run_fini(&r);
}
END_TEST

START_TEST(a_seed_gives_one_result_on_a_device)
{
    static const char *const devices[] = {"cpu", "reference", "fake"};
    const char *seed[] = {"train.seed=4", NULL};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        const char *sets[] = {NULL, NULL};
        struct run a, b, c;
        char device[40];

        snprintf(device, sizeof(device), "device=%s", devices[d]);
        sets[0] = device;
        run_init(&a);
        run_init(&b);
        run_init(&c);
        a.device = b.device = devices[d];
        run_blobs(&a, 60);
        run_blobs(&b, 60);
        run_blobs(&c, 60);
        ASSERT_OK(run_job(&a, run_blobs_job, sets, &err));
        ASSERT_OK(run_job(&b, run_blobs_job, sets, &err));
        ASSERT_OK(run_job(&c, run_blobs_job, seed, &err));
        expect_same_end(&a, &b, 12);
        ck_assert_str_ne(a.result.parameters_sha256, c.result.parameters_sha256);
        run_fini(&a);
        run_fini(&b);
        run_fini(&c);
    }
}
END_TEST

/* ---- going on ---- */

/* 20 epochs at once; the same cut by max_steps in the middle of epochs, at their ends, and by asking it to stop. */
static void compare_interrupted(const char *device, const char *optimizer)
{
    static const int64_t cuts[] = {1, 7, 10, 33, 50};
    struct run straight, cut;
    char set_optimizer[100], set_steps[40], set_device[40];
    const char *sets[] = {set_optimizer, set_device, "train.epochs=20", NULL, NULL};

    snprintf(set_optimizer, sizeof(set_optimizer), "optimizer=%s", optimizer);
    snprintf(set_device, sizeof(set_device), "device=%s", device);
    run_init(&straight);
    run_init(&cut);
    straight.device = cut.device = device;
    run_blobs(&straight, 90);
    run_blobs(&cut, 90);
    ASSERT_OK(run_job(&straight, run_blobs_job, sets, &err));
    ck_assert_int_eq(straight.result.steps, 100);
    cut.resume = "auto";
    sets[3] = set_steps;
    for (size_t i = 0; i < EO_COUNT_OF(cuts); i++) {
        snprintf(set_steps, sizeof(set_steps), "train.max_steps=%" PRId64, cuts[i]);
        ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
        ck_assert_int_eq(cut.result.steps, cuts[i]);
        ck_assert_int_eq(cut.n_warnings, 0);
    }
    sets[3] = NULL;
    ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
    expect_same_end(&straight, &cut, 100);
    run_fini(&straight);
    run_fini(&cut);
}

START_TEST(resuming_is_exact)
{
    compare_interrupted("cpu", "{adam: {lr: 0.01, amsgrad: true}}");
    compare_interrupted("cpu", "{sgd: {lr: 0.05, momentum: 0.9, nesterov: true}}");
    compare_interrupted("cpu", "{sgd: {lr: 0.05}}");
    compare_interrupted("reference", "{adam: {lr: 0.01, weight_decay: 0.01}}");
    compare_interrupted("fake", "adam");
}
END_TEST

/* 10 epochs, then the same job with 20: what people do when a run was too short. */
START_TEST(more_epochs_go_on)
{
    const char *ten[] = {"train.epochs=10", NULL}, *twenty[] = {"train.epochs=20", NULL};
    struct run straight, longer;
    char from[512];

    run_init(&straight);
    run_init(&longer);
    run_blobs(&straight, 90);
    run_blobs(&longer, 90);
    ASSERT_OK(run_job(&straight, run_blobs_job, twenty, &err));
    longer.output = "first";
    ASSERT_OK(run_job(&longer, run_blobs_job, ten, &err));
    longer.output = "out"; /* from the output directory of the first run into another one */
    longer.resume = run_path(&longer, "first", from);
    ASSERT_OK(run_job(&longer, run_blobs_job, twenty, &err));
    expect_same_end(&straight, &longer, 100);
    /* and once more when there is nothing left to do: the same end, its metrics too */
    longer.resume = "auto";
    ASSERT_OK(run_job(&longer, run_blobs_job, twenty, &err));
    expect_same_end(&straight, &longer, 100);
    ck_assert_double_eq(run_metric(&longer, "val_loss"), run_metric(&straight, "val_loss"));
    run_fini(&straight);
    run_fini(&longer);
}
END_TEST

START_TEST(stopping_leaves_a_checkpoint)
{
    static const int wishes[] = {1, 2};

    for (size_t i = 0; i < EO_COUNT_OF(wishes); i++) {
        struct run straight, stopped;
        int n = 0;

        run_init(&straight);
        run_init(&stopped);
        run_blobs(&straight, 90);
        run_blobs(&stopped, 90);
        ASSERT_OK(run_job(&straight, run_blobs_job, NULL, &err));
        stopped.resume = "auto";
        stopped.stop_with = wishes[i];
        do {
            stopped.stop_at_step = n * 7 + 1; /* at the next report from there on */
            ASSERT_OK(run_job(&stopped, run_blobs_job, NULL, &err));
            ck_assert_int_lt(++n, 30);
        } while (stopped.result.stopped);
        ck_assert_int_gt(n, 1);
        expect_same_end(&straight, &stopped, 20);
        run_fini(&straight);
        run_fini(&stopped);
    }
}
END_TEST

START_TEST(a_checkpoint_fits_its_job_only)
{
    static const char *const foreign[] = {
        "train.seed=9", "optimizer.adam.lr=0.02",    "model.0.linear.initializer=uniform",
        "data.batch=8", "data.validation.split=0.5", "precision=float64"};
    struct run r;
    char path[512];

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_OK(run_job(&r, run_blobs_job, NULL, &err));
    r.resume = "auto";
    for (size_t i = 0; i < EO_COUNT_OF(foreign); i++) {
        const char *sets[] = {foreign[i], NULL};

        ASSERT_CODE(run_job(&r, run_blobs_job, sets, &err), EO_E_BAD_CHECKPOINT);
        ASSERT_CONTAINS(err.message, "another job");
    }
    run_blobs(&r, 93);
    ASSERT_CODE(run_job(&r, run_blobs_job, NULL, &err), EO_E_BAD_CHECKPOINT);
    ASSERT_CONTAINS(err.message, "other data");
    r.resume = run_path(&r, "nowhere", path);
    ASSERT_CODE(run_job(&r, run_blobs_job, NULL, &err), EO_E_BAD_CHECKPOINT);
    ASSERT_CONTAINS(err.message, "nowhere");
    run_fini(&r);
}
END_TEST

START_TEST(other_kernels_are_told)
{
    const char *sets[] = {"train.epochs=6", "device=reference", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_OK(run_job(&r, run_blobs_job, NULL, &err));
    r.resume = "auto";
    r.device = "reference";
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_eq(r.n_warnings, 1);
    ASSERT_CONTAINS(r.warnings, "other kernels");
    ASSERT_CONTAINS(r.warnings, "reference");
    run_fini(&r);
}
END_TEST

/* ---- killed at any moment ---- */

/* Runs the job in a child that is killed after n_ends epochs have been reported and `spins` more turns of a loop. */
static void run_and_kill(struct run *r, const char *const *sets, int n_ends, unsigned spins)
{
    int pipe_fds[2], status;
    volatile unsigned turns = 0;
    pid_t child;
    char byte;

    ck_assert_int_eq(pipe(pipe_fds), 0);
    fflush(NULL);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(pipe_fds[0]);
        r->tell_fd = pipe_fds[1];
        _exit(run_job(r, run_blobs_job, sets, &err) == EO_OK ? 0 : 1);
    }
    close(pipe_fds[1]);
    for (int i = 0; i < n_ends; i++) {
        if (read(pipe_fds[0], &byte, 1) != 1) {
            break; /* it was faster */
        }
    }
    while (turns < spins) {
        turns++;
    }
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(pipe_fds[0]);
}

START_TEST(killed_at_any_moment)
{
    const char *sets[] = {"device=reference", "train.epochs=12", "train.checkpoint={every_epochs: 1, keep: 2}", NULL};
    struct run straight, killed;

    run_init(&straight);
    run_init(&killed);
    /* plain loops: a thread pool does not survive fork */
    straight.device = killed.device = "reference";
    run_blobs(&straight, 90);
    run_blobs(&killed, 90);
    ASSERT_OK(run_job(&straight, run_blobs_job, sets, &err));
    killed.resume = "auto";
    for (unsigned i = 0; i < 12; i++) {
        run_and_kill(&killed, sets, 1, i * 40000);
    }
    ASSERT_OK(run_job(&killed, run_blobs_job, sets, &err));
    ck_assert_int_eq(killed.n_warnings, 0); /* a checkpoint is there completely or not at all */
    expect_same_end(&straight, &killed, 60);
    run_fini(&straight);
    run_fini(&killed);
}
END_TEST

/* ---- numbers that are not finite ---- */

START_TEST(finite_stop_keeps_the_last_good_state)
{
    const char *good[] = {"train.epochs=1", "train.clip_norm=1", NULL};
    const char *wild[] = {"optimizer={sgd: {lr: 1e30}}", "train.clip_norm=1e30", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_CODE(run_job(&r, run_blobs_job, wild, &err), EO_E_NON_FINITE);
    ASSERT_CONTAINS(err.message, "not finite at step");
    ASSERT_CONTAINS(err.hint, "optimizer.lr");
    ck_assert(!exists(&r, "out/model.safetensors"));
    ASSERT_OK(run_job(&r, run_blobs_job, good, &err));
    run_fini(&r);
}
END_TEST

START_TEST(finite_skip_goes_on)
{
    const char *sets[] = {"optimizer={sgd: {lr: 1e30}}", "train.clip_norm=1e30", "finite=skip", NULL};
    struct run r;
    char *text;

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_gt(r.n_warnings, 0);
    ASSERT_CONTAINS(r.warnings, "skipped");
    ck_assert_int_eq(r.result.steps, 20);
    text = run_read(&r, "out/manifest.json", NULL);
    ASSERT_CONTAINS(text, "\"finite\":true"); /* no bad step was applied */
    free(text);
    run_fini(&r);
}
END_TEST

START_TEST(finite_ignore_says_what_became_of_it)
{
    const char *sets[] = {"finite=ignore", "optimizer={sgd: {lr: 1e30}}", "train.clip_norm=1e30", NULL};
    struct run r;
    char *text;

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_double_nan(run_metric(&r, "loss"));
    text = run_read(&r, "out/run.json", NULL);
    ASSERT_CONTAINS(text, "\"loss\":null");
    ASSERT_CONTAINS(text, "\"nonfinite\":true");
    free(text);
    text = run_read(&r, "out/manifest.json", NULL);
    ASSERT_CONTAINS(text, "\"finite\":false");
    free(text);
    text = run_read(&r, "out/history.csv", NULL);
    ASSERT_CONTAINS(text, "nan");
    free(text);
    run_fini(&r);
}
END_TEST

/* ---- limits and mistakes ---- */

/* The history's column of a name, one number per epoch. */
static double history_value(const struct run *r, int column, int64_t epoch)
{
    char *text = run_read(r, "out/history.csv", NULL), *at = text;
    double value;

    for (int64_t i = 0; i < epoch; i++) {
        at = strchr(at, '\n') + 1;
    }
    for (int i = 0; i < column; i++) {
        at = strchr(at, ',') + 1;
    }
    value = strtod(at, NULL);
    free(text);
    return value;
}

enum { COLUMN_LR = 2, COLUMN_VAL_LOSS = 5 };

START_TEST(a_schedule_sets_the_rate)
{
    const char *sets[] = {"schedule=[{step: {every: 2, gamma: 0.5}}, {warmup: {epochs: 1}}]", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_double_eq_tol(history_value(&r, COLUMN_LR, 1), 0.01, 1e-15);
    ck_assert_double_eq_tol(history_value(&r, COLUMN_LR, 2), 0.01, 1e-15);
    ck_assert_double_eq_tol(history_value(&r, COLUMN_LR, 3), 0.005, 1e-15);
    ck_assert_double_eq_tol(r.last.lr, 0.005, 1e-15);
    run_fini(&r);
}
END_TEST

/* Every schedule and optimizer: cut in the middle, resumed, and equal to a run that was not cut. */
START_TEST(schedules_and_optimizers_resume_exactly)
{
    static const char *const optimizers[] = {"optimizer={sgd: {lr: 0.1, momentum: 0.9}}", "optimizer=adamw",
                                             "optimizer={rmsprop: {centered: true, momentum: 0.5}}",
                                             "optimizer={adagrad: {lr: 0.1, initial: 0.1}}",
                                             "optimizer={lion: {lr: 0.01, weight_decay: 0.1}}"};
    static const char *const schedules[] = {"schedule=[cosine, {warmup: {steps: 7}}]", "schedule=one_cycle",
                                            "schedule={plateau: {patience: 0, threshold: 0.5, factor: 0.5}}",
                                            "schedule={exponential: {gamma: 0.7}}", "schedule=linear"};

    for (size_t i = 0; i < EO_COUNT_OF(optimizers); i++) {
        const char *sets[] = {optimizers[i], schedules[i], NULL};
        struct run whole, cut;

        run_init(&whole);
        run_blobs(&whole, 200);
        ASSERT_OK(run_job(&whole, run_blobs_job, sets, &err));
        run_init(&cut);
        run_blobs(&cut, 200);
        cut.stop_at_step = 23; /* the third epoch */
        cut.stop_with = 1;
        ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
        ck_assert(cut.result.stopped);
        cut.stop = 0;
        cut.stop_at_step = 0;
        cut.resume = "auto";
        ASSERT_OK(run_job(&cut, run_blobs_job, sets, &err));
        expect_same_end(&whole, &cut, whole.result.steps);
        run_fini(&whole);
        run_fini(&cut);
    }
}
END_TEST

/* A rate so large that the validation loss soon rises: training ends before its time with the best epoch's model. */
START_TEST(early_stopping_restores_the_best)
{
    const char *sets[] = {"optimizer={sgd: {lr: 3, momentum: 0.9}}", "train.epochs=60",
                          "early_stopping={patience: 3, metric: val_loss}", NULL};
    struct run r;
    int64_t best = 1;

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_lt(r.result.epochs, 60);
    for (int64_t e = 2; e <= r.result.epochs; e++) {
        if (history_value(&r, COLUMN_VAL_LOSS, e) < history_value(&r, COLUMN_VAL_LOSS, best)) {
            best = e;
        }
    }
    ck_assert_int_eq(best, r.result.epochs - 3);
    ck_assert_double_eq(run_metric(&r, "val_loss"), history_value(&r, COLUMN_VAL_LOSS, best));
    /* The result is a model: evaluated again it has that loss. Resumed, nothing is left to do and nothing changes. */
    {
        char hash[65];

        snprintf(hash, sizeof(hash), "%s", r.result.parameters_sha256);
        r.resume = "auto";
        ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
        ck_assert_str_eq(r.result.parameters_sha256, hash);
        ck_assert_double_eq(run_metric(&r, "val_loss"), history_value(&r, COLUMN_VAL_LOSS, best));
    }
    run_fini(&r);
}
END_TEST

/* Resumed into another directory, where the best epoch's checkpoint is not: the last epoch's model, and a warning. */
START_TEST(the_best_is_out_of_reach)
{
    const char *sets[] = {"optimizer={sgd: {lr: 3, momentum: 0.9}}", "train.epochs=60",
                          "early_stopping={patience: 3, metric: val_loss}", NULL};
    struct run r;
    char from[512];

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    r.resume = run_path(&r, "out", from);
    r.output = "elsewhere";
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ASSERT_CONTAINS(r.warnings, "the checkpoint of the best epoch");
    run_fini(&r);
}
END_TEST

START_TEST(early_stopping_without_restoring)
{
    const char *sets[] = {"optimizer={sgd: {lr: 1e-9}}", "train.epochs=60",
                          "early_stopping={patience: 2, metric: accuracy, min_delta: 0.5, restore_best: false}", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 200);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_eq(r.result.epochs, 3); /* the first is the best, two more are borne */
    ck_assert(!exists(&r, "out/best"));
    run_fini(&r);
}
END_TEST

START_TEST(a_time_limit_ends_with_a_checkpoint)
{
    const char *sets[] = {"time_limit=1ms", "train.epochs=100000", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 90);
    ASSERT_CODE(run_job(&r, run_blobs_job, sets, &err), EO_E_TIME_LIMIT);
    ASSERT_CONTAINS(err.message, "1ms");
    ck_assert(exists(&r, "out/model.safetensors"));
    r.resume = "auto";
    ASSERT_CODE(run_job(&r, run_blobs_job, sets, &err), EO_E_TIME_LIMIT); /* one more step, from the checkpoint */
    run_fini(&r);
}
END_TEST

START_TEST(an_output_that_cannot_be_made)
{
    struct run r;

    run_init(&r);
    run_blobs(&r, 90);
    run_write(&r, "file", "x");
    r.output = "file/out";
    ASSERT_CODE(run_job(&r, run_blobs_job, NULL, &err), EO_E_CANNOT_CREATE);
    run_fini(&r);
}
END_TEST

START_TEST(missing_data)
{
    struct run r;

    run_init(&r);
    ASSERT_CODE(run_job(&r, run_blobs_job, NULL, &err), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, "blobs.csv");
    run_fini(&r);
}
END_TEST

START_TEST(small_data_and_large_batches)
{
    const char *sets[] = {"data.batch=1000000", "data.validation={split: 0.5}", NULL};
    const char *none[] = {"data.batch=1", "train.epochs=2", "metrics=[]", NULL};
    struct run r;

    run_init(&r);
    run_blobs(&r, 3);
    ASSERT_OK(run_job(&r, run_blobs_job, sets, &err));
    ck_assert_int_eq(r.result.steps, 4); /* one row, one step an epoch */
    run_blobs(&r, 12);
    r.output = "other";
    ASSERT_OK(run_job(&r, run_blobs_job, none, &err));
    ck_assert_int_eq(r.result.steps, 2 * 9);
    run_fini(&r);
}
END_TEST

START_TEST(regression_in_its_own_units)
{
    static const char job[] = "model: [{linear: {in: 1, out: 1}}]\nloss: mse\nmetrics: [rmse, mae, r2]\n"
                              "optimizer: {adam: {lr: 0.05}}\nprecision: float64\n"
                              "data: {train: {csv: line.csv}, test: {csv: line.csv},\n"
                              "  scale: {standardize: true, standardize_target: true}, batch: 50}\n"
                              "train: {epochs: 400, seed: 0}\n";
    struct run r;
    struct eo_bytes text;
    char *manifest;

    run_init(&r);
    eo_bytes_init(&text, 1 << 16);
    for (int i = 0; i < 50; i++) {
        eo_bytes_printf(&text, "%d,%g\n", i, 1000 + 20.0 * i + (i % 2 ? 1 : -1));
    }
    run_write(&r, "line.csv", eo_bytes_text(&text));
    eo_bytes_fini(&text);
    ASSERT_OK(run_job(&r, job, NULL, &err));
    ck_assert_double_eq_tol(run_metric(&r, "test_rmse"), 1, 0.01); /* the residual is +-1 in the file's units */
    ck_assert_double_eq_tol(run_metric(&r, "test_mae"), 1, 0.01);
    ck_assert_double_gt(run_metric(&r, "test_r2"), 0.9999);
    manifest = run_read(&r, "out/manifest.json", NULL);
    ASSERT_CONTAINS(manifest, "\"target_mean\":1490");
    free(manifest);
    run_fini(&r);
}
END_TEST

START_TEST(binary_classes)
{
    static const char job[] = "model: [{linear: {in: 2, out: 1}}]\nloss: bce_with_logits\nmetrics: [binary_accuracy]\n"
                              "optimizer: {sgd: {lr: 0.5, momentum: 0.5}}\n"
                              "data: {train: {csv: two.csv}, validation: {split: 0.25, stratified: true}, batch: 8}\n"
                              "train: {epochs: 40, seed: 0}\n";
    struct run r;
    struct eo_bytes text;

    run_init(&r);
    eo_bytes_init(&text, 1 << 16);
    for (int i = 0; i < 80; i++) {
        double x = sin(i), y = cos(i * 1.7);

        eo_bytes_printf(&text, "%g,%g,%d\n", x, y, x + y > 0);
    }
    run_write(&r, "two.csv", eo_bytes_text(&text));
    eo_bytes_fini(&text);
    ASSERT_OK(run_job(&r, job, NULL, &err));
    ck_assert_double_gt(run_metric(&r, "val_binary_accuracy"), 0.85);
    run_fini(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {killed_at_any_moment, /* first: before any device has threads */
                                  a_run_leaves_its_files,
                                  a_seed_gives_one_result_on_a_device,
                                  resuming_is_exact,
                                  more_epochs_go_on,
                                  stopping_leaves_a_checkpoint,
                                  a_checkpoint_fits_its_job_only,
                                  other_kernels_are_told,
                                  finite_stop_keeps_the_last_good_state,
                                  finite_skip_goes_on,
                                  finite_ignore_says_what_became_of_it,
                                  a_schedule_sets_the_rate,
                                  schedules_and_optimizers_resume_exactly,
                                  early_stopping_restores_the_best,
                                  early_stopping_without_restoring,
                                  the_best_is_out_of_reach,
                                  a_time_limit_ends_with_a_checkpoint,
                                  an_output_that_cannot_be_made,
                                  missing_data,
                                  small_data_and_large_batches,
                                  regression_in_its_own_units,
                                  binary_classes};

    registry_reset();
    ASSERT_OK(registry_add(&fake_backend, &err));
    return eo_suite_run("trainer", tests, EO_COUNT_OF(tests));
}
