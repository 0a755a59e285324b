#include "tests/train/run.h"

#include "backends/registry.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/philox.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char run_blobs_job[] = "name: blobs\n"
                             "model:\n"
                             "  - linear: {in: 4, out: 16}\n"
                             "  - relu\n"
                             "  - dropout: {p: 0.1}\n"
                             "  - linear: {in: 16, out: 3}\n"
                             "loss: cross_entropy\n"
                             "metrics: [accuracy]\n"
                             "optimizer: {adam: {lr: 0.01}}\n"
                             "data:\n"
                             "  train: {csv: blobs.csv}\n"
                             "  validation: {split: 0.25, stratified: true}\n"
                             "  scale: {standardize: true}\n"
                             "  batch: 16\n"
                             "train: {epochs: 4, seed: 3, clip_norm: 1.0}\n"
                             "device: cpu\n";

void run_init(struct run *r)
{
    *r = (struct run){.device = "cpu", .output = "out"};
    snprintf(r->folder, sizeof(r->folder), "/tmp/eo-train-XXXXXX");
    if (mkdtemp(r->folder) == NULL) { /* also called outside of tests, where libcheck cannot fail */
        perror(r->folder);
        exit(EXIT_FAILURE);
    }
}

void run_fini(struct run *r)
{
    if (eo_dir_remove(r->folder, NULL) != EO_OK) {
        perror(r->folder);
        exit(EXIT_FAILURE);
    }
}

char *run_path(const struct run *r, const char *name, char *out)
{
    ck_assert(eo_path_join(out, 512, r->folder, name));
    return out;
}

void run_write(struct run *r, const char *name, const char *text)
{
    char path[512];

    ck_assert_int_eq(eo_file_write_atomic(run_path(r, name, path), text, strlen(text), 0644, NULL), EO_OK);
}

void run_blobs(struct run *r, int n_rows)
{
    static const double centres[3][4] = {{0, 0, 1, 2}, {2, 1, -1, 0}, {-2, 2, 0, 1}};
    struct eo_bytes text;

    eo_bytes_init(&text, 1 << 20);
    eo_bytes_printf(&text, "a,b,c,d,class\n");
    for (int i = 0; i < n_rows; i++) {
        for (int f = 0; f < 4; f++) {
            double v = centres[i % 3][f] + eo_rng_normal(1, 0, 7, (uint64_t)(i * 4 + f), 0, 0.8);

            eo_bytes_printf(&text, "%.6f,", v);
        }
        eo_bytes_printf(&text, "%d\n", i % 3);
    }
    run_write(r, "blobs.csv", eo_bytes_text(&text));
    eo_bytes_fini(&text);
}

/* ---- callbacks ---- */

static void on_progress(void *ctx, const struct trainer_progress *p)
{
    struct run *r = ctx;

    r->n_reports++;
    r->n_epoch_ends += p->epoch_end;
    r->last = *p;
    if (r->tell_fd > 0 && p->epoch_end && write(r->tell_fd, "", 1) != 1) {
        r->tell_fd = 0;
    }
    if (r->stop_at_step > 0 && p->step >= r->stop_at_step) {
        atomic_store(&r->stop, r->stop_with);
    }
}

static void on_log(void *ctx, int level, const char *text)
{
    struct run *r = ctx;
    size_t used = strlen(r->warnings);

    if (level >= EO_LOG_WARN) {
        r->n_warnings++;
        snprintf(r->warnings + used, sizeof(r->warnings) - used, "%s\n", text);
    }
}

static int on_open(void *ctx, const struct spec_file *file, char *out, size_t size, struct eo_error *err)
{
    struct run *r = ctx;

    EO_UNUSED(err);
    if (file->path[0] == '/') {
        snprintf(out, size, "%s", file->path);
    } else {
        snprintf(out, size, "%s/%s", r->data_folder != NULL ? r->data_folder : r->folder, file->path);
    }
    return EO_OK;
}

/* ---- running ---- */

/* The registry belongs to one thread at a time; ranks of one process take turns. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

static int run_spec(struct run *r, const struct job_spec *spec, struct eo_error *err)
{
    const struct eo_device_config device_config = {.threads = 1};
    char output[128], why[256];
    struct trainer_config config = {.spec = spec,
                                    .group = r->group,
                                    .output_dir = output,
                                    .resume_dir = r->resume,
                                    .stop = &r->stop,
                                    .callbacks = {r, on_progress, on_log, on_open}};
    struct eo_device *dev;
    int status;

    /* no assertion from here on: other threads and failing allocations come by, and libcheck stands neither */
    snprintf(output, sizeof(output), "%s/%s", r->folder, r->output);
    pthread_mutex_lock(&registry_lock);
    status = registry_open(r->device, &device_config, &dev, why, sizeof(why), err);
    pthread_mutex_unlock(&registry_lock);
    if (status != EO_OK) {
        return status;
    }
    status = executor_new(dev, &config.executor, err);
    if (status == EO_OK) {
        status = trainer_run(&config, &r->result, err);
        executor_free(config.executor);
    }
    pthread_mutex_lock(&registry_lock);
    registry_close(dev);
    pthread_mutex_unlock(&registry_lock);
    return status;
}

int run_job(struct run *r, const char *job, const char *const *overrides, struct eo_error *err)
{
    struct job_spec *spec;
    int n = 0, status;

    while (overrides != NULL && overrides[n] != NULL) {
        n++;
    }
    r->n_reports = r->n_epoch_ends = r->n_warnings = 0;
    r->warnings[0] = '\0';
    atomic_store(&r->stop, 0);
    status = spec_parse(job, strlen(job), "job.yaml", overrides, n, &spec, err);
    if (status == EO_OK) {
        status = run_spec(r, spec, err);
        spec_free(spec);
    }
    return status;
}

/* ---- what came out ---- */

char *run_read(const struct run *r, const char *name, size_t *out_size)
{
    char path[512];
    struct eo_error err = {0};
    struct eo_bytes bytes;
    size_t size;
    char *text;

    ASSERT_OK(eo_file_read(run_path(r, name, path), 64 << 20, &bytes, &err));
    text = (char *)eo_bytes_take(&bytes, &size);
    ck_assert_ptr_nonnull(text);
    if (out_size != NULL) {
        *out_size = size;
    }
    return text;
}

double run_metric(const struct run *r, const char *name)
{
    for (int i = 0; i < r->result.n_metrics; i++) {
        if (strcmp(r->result.metrics[i].name, name) == 0) {
            return r->result.metrics[i].value;
        }
    }
    ck_abort_msg("the result has no %s", name);
    return 0;
}
