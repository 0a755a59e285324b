/* Time of a whole training step: forward, loss, backward, finite check with gradient norm, optimizer. One JSON line.
 *
 *   bench_steps CASE [threads] [sgd|adam]      CASE: mlp_tiny (64-128-10, batch 32), mlp (784-512-512-10, batch 128)
 *
 * bench/steps.py runs it in turn with the peer and prints ratios. */
#include "backends/registry.h"
#include "daemon/jobs/spec.h"
#include "daemon/train/step.h"
#include "proto/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 9, MIN_REPEAT_NS = 200000000, WARM_UP = 20 };

struct bench_case {
    const char *name, *model;
    int64_t n_in, batch;
};

static const struct bench_case cases[] = {
    {"mlp_tiny", "[linear: {in: 64, out: 128}, relu, linear: {in: 128, out: 10}]", 64, 32},
    {"mlp", "[linear: {in: 784, out: 512}, relu, linear: {in: 512, out: 512}, relu, linear: {in: 512, out: 10}]", 784,
     128},
};

static int fail(const struct eo_error *err)
{
    char text[4096];
    eo_error_text(err, false, text, sizeof text);
    fputs(text, stderr);
    return 70;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static int one_step(struct train_step *s, const struct step_feed *feed, int64_t t, double *out_loss,
                    struct eo_error *err)
{
    struct step_result result;
    double sum_squares = 0;
    int rc = step_compute(s, feed, &result, err);
    if (rc == EO_OK) {
        rc = step_commit(s, &sum_squares, err);
    }
    if (rc == EO_OK) {
        rc = step_update(s, 1e-3, 1.0, t, err);
    }
    *out_loss = result.loss_sum / (double)feed->n_rows;
    return rc;
}

static int measure(struct train_step *s, struct step_feed *feed, const struct bench_case *c, const char *device,
                   struct eo_error *err)
{
    double times[REPEATS];
    double loss = 0;
    int64_t t = 0;
    int rc = EO_OK;
    for (int i = 0; i < WARM_UP && rc == EO_OK; i++) {
        feed->step = t;
        rc = one_step(s, feed, ++t, &loss, err);
    }
    for (int r = 0; r < REPEATS && rc == EO_OK; r++) {
        const uint64_t start = eo_now_ns();
        uint64_t ns = 0;
        int64_t n = 0;
        while (ns < MIN_REPEAT_NS && rc == EO_OK) {
            for (int i = 0; i < 16 && rc == EO_OK; i++) {
                feed->step = t;
                rc = one_step(s, feed, ++t, &loss, err);
            }
            n += 16;
            ns = eo_now_ns() - start;
        }
        times[r] = (double)ns / 1e3 / (double)n;
    }
    if (rc == EO_OK) {
        qsort(times, REPEATS, sizeof *times, by_value);
        printf("{\"case\": \"%s\", \"us_per_step\": %.2f, \"min\": %.2f, \"max\": %.2f, \"steps\": %lld, "
               "\"loss_last\": %.5f, "
               "\"device\": \"%s\"}\n",
               c->name, times[REPEATS / 2], times[0], times[REPEATS - 1], (long long)t, loss, device);
    }
    return rc;
}

/* Fixed random batch. */
static void fill(float *x, int64_t *y, const struct bench_case *c)
{
    uint64_t state = 88172645463325252u; /* xorshift64: only to have some numbers */
    for (int64_t i = 0; i < c->n_in * c->batch; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        x[i] = (float)((double)(state >> 40) / (1 << 24) * 2 - 1);
    }
    for (int64_t i = 0; i < c->batch; i++) {
        y[i] = i % 10;
    }
}

static int run(const struct bench_case *c, int threads, const char *optimizer, struct eo_error *err)
{
    char text[1024];
    struct job_spec *spec = NULL;
    struct eo_device *dev = NULL;
    struct executor *x = NULL;
    struct train_step *s = NULL;
    char reason[200];
    const struct eo_device_config device_config = {.threads = threads};
    snprintf(text, sizeof text,
             "name: bench\nmodel: %s\nloss: cross_entropy\noptimizer: {%s: {lr: 0.001}}\n"
             "data: {train: {csv: none.csv}, batch: %lld}\ntrain: {epochs: 1}\n",
             c->model, optimizer, (long long)c->batch);
    int rc = spec_parse(text, strlen(text), "bench", NULL, 0, &spec, err);
    float *rows = malloc((size_t)(c->n_in * c->batch) * sizeof *rows);
    int64_t *targets = malloc((size_t)c->batch * sizeof *targets);
    if (rc == EO_OK && (rows == NULL || targets == NULL)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the batch");
    }
    if (rc == EO_OK) {
        fill(rows, targets, c);
        rc = eo_tensor_desc_init(&spec->model->input, EO_FLOAT32, (const int64_t[]){0, c->n_in}, 2, err);
    }
    if (rc == EO_OK) {
        rc = model_check(spec->model, err);
    }
    if (rc == EO_OK) {
        rc = registry_open("auto", &device_config, &dev, reason, sizeof reason, err);
    }
    if (rc == EO_OK) {
        rc = executor_new(dev, &x, err);
    }
    if (rc == EO_OK) {
        const struct step_config config = {.model = spec->model, .optimizer = spec->optimizer, .seed = 0};
        rc = step_new(&config, x, &s, err);
    }
    if (rc == EO_OK) {
        struct step_feed feed = {.x = rows, .y = targets, .n_rows = c->batch, .n_global = c->batch};
        rc = measure(s, &feed, c, dev->info.description, err);
    }
    step_free(s);
    executor_free(x);
    if (dev != NULL) {
        registry_close(dev);
    }
    spec_free(spec);
    free(rows);
    free(targets);
    return rc;
}

int main(int argc, char **argv)
{
    struct eo_error err = {0};
    for (size_t i = 0; argc > 1 && i < EO_COUNT_OF(cases); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            const int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
            return run(&cases[i], threads, argc > 3 ? argv[3] : "adam", &err) == EO_OK ? 0 : fail(&err);
        }
    }
    fputs("usage: bench_steps mlp_tiny|mlp [threads] [sgd|adam]\n", stderr);
    return 64;
}
