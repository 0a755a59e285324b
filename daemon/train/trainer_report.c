/* What the trainer tells: log lines, progress, history, and the files of the output directory. */
#include "daemon/train/trainer_state.h"

#include "daemon/train/manifest.h"
#include "daemon/train/params.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/version.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPORT_EVERY_NS = 100000000, OUTPUT_TEXT_BYTES = 64 << 20 };

void trainer_log(struct trainer *t, int level, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    if (t->config->callbacks.log == NULL) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    t->config->callbacks.log(t->config->callbacks.ctx, level, text);
}

/* ---- values and their names ---- */

int trainer_n_values(const struct trainer *t)
{
    return 1 + t->spec->n_metrics;
}

void trainer_value_name(const struct trainer *t, enum data_part_kind part, int i, char out[24])
{
    static const char *const prefix[DATA_PARTS] = {"", "val_", "test_"};

    snprintf(out, 24, "%s%s", prefix[part], i == 0 ? "loss" : metric_name((enum metric_kind)t->spec->metrics[i - 1]));
}

int trainer_metrics(const struct trainer *t, struct trainer_metric *out)
{
    int n = 0;

    for (int part = 0; part < DATA_PARTS; part++) {
        for (int i = 0; t->has_values[part] && i < trainer_n_values(t) && n < TRAINER_MAX_METRICS; i++, n++) {
            trainer_value_name(t, (enum data_part_kind)part, i, out[n].name);
            out[n].value = t->values[part][i];
        }
    }
    return n;
}

int trainer_record(struct trainer *t, int64_t epoch, struct eo_error *err)
{
    double row[HISTORY_MAX_COLUMNS] = {(double)epoch, (double)t->at.step, t->lr};
    int n = 3; /* the columns of name_history */

    for (int part = DATA_TRAIN; part <= DATA_VALIDATION; part++) {
        for (int i = 0; t->data.part[part].rows != NULL && i < trainer_n_values(t); i++) {
            row[n++] = t->values[part][i];
        }
    }
    return history_add(&t->history, row, err);
}

void trainer_recall(struct trainer *t, int64_t number)
{
    const double *row;
    int n = 3;

    if (number < 0 || number >= t->history.n_rows) {
        return;
    }
    row = t->history.values + number * t->history.n_columns;
    for (int part = DATA_TRAIN; part <= DATA_VALIDATION; part++) {
        for (int i = 0; t->data.part[part].rows != NULL && i < trainer_n_values(t); i++) {
            t->values[part][i] = row[n++];
            t->has_values[part] = true;
        }
    }
}

/* ---- progress ---- */

void trainer_report(struct trainer *t, bool epoch_end, const char *checkpoint)
{
    struct trainer_progress *p = &t->progress;
    uint64_t now = eo_now_ns();
    int64_t steps_here = t->at.step - t->started_step;

    if (t->config->callbacks.progress == NULL || (!epoch_end && now - t->reported_ns < REPORT_EVERY_NS)) {
        return;
    }
    if (!epoch_end) {
        trainer_running_values(t);
    }
    if (epoch_end) {
        p->samples_per_second = t->epoch_rate;
    } else if (now > t->reported_ns) {
        p->samples_per_second = (double)(t->rows_done - t->reported_rows) * 1e9 / (double)(now - t->reported_ns);
    }
    p->epoch = epoch_end && t->at.batch == 0 ? t->at.epoch : t->at.epoch + 1;
    p->epochs = (t->steps + t->steps_per_epoch - 1) / t->steps_per_epoch;
    p->step = t->at.step;
    p->steps = t->steps;
    p->epoch_step = epoch_end && t->at.batch == 0 ? t->steps_per_epoch : t->at.batch;
    p->epoch_steps = t->steps_per_epoch;
    p->epoch_end = epoch_end;
    p->seconds = (double)(now - t->started_ns) / 1e9;
    p->eta_seconds = steps_here > 0 ? p->seconds / (double)steps_here * (double)(t->steps - t->at.step) : -1;
    p->lr = t->lr;
    p->n_metrics = trainer_metrics(t, p->metrics);
    p->checkpoint[0] = '\0';
    if (checkpoint != NULL) {
        eo_copy_text(p->checkpoint, sizeof(p->checkpoint), checkpoint);
    }
    t->reported_ns = now;
    t->reported_rows = t->rows_done;
    t->config->callbacks.progress(t->config->callbacks.ctx, p);
}

/* ---- the output directory ---- */

static int no_memory(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the files of the output directory");
}

static int output_path(const struct trainer *t, const char *name, char *out, struct eo_error *err)
{
    return eo_path_join(out, PATH_MAX, t->config->output_dir, name)
               ? EO_OK
               : EO_RAISE(err, EO_E_CANNOT_CREATE, "the path of the output directory is too long");
}

static int write_text(struct trainer *t, const char *name, struct eo_bytes *text, struct eo_error *err)
{
    char path[PATH_MAX];
    int status = text->failed ? no_memory(err) : output_path(t, name, path, err);

    if (status == EO_OK) {
        status = eo_file_write_atomic(path, text->data, text->size, 0644, err);
    }
    eo_bytes_fini(text);
    return status;
}

static void put_doubles(struct eo_json *j, const char *key, const double *values, int64_t n)
{
    eo_json_key(j, key);
    eo_json_begin_array(j);
    for (int64_t i = 0; i < n; i++) {
        eo_json_f64(j, values[i]);
    }
    eo_json_end_array(j);
}

/* How raw values become inputs, and outputs raw values again: {"divide"} or {"mean", "deviation"}. */
static void put_scale(struct eo_json *j, const struct data *d)
{
    eo_json_begin_object(j);
    if (d->scale.mean != NULL) {
        put_doubles(j, "mean", d->scale.mean, d->features);
        put_doubles(j, "deviation", d->scale.deviation, d->features);
    } else {
        eo_json_kv_f64(j, "divide", d->scale.divide);
    }
    if (d->scale.target_mean != 0 || d->scale.target_deviation != 1) {
        eo_json_kv_f64(j, "target_mean", d->scale.target_mean);
        eo_json_kv_f64(j, "target_deviation", d->scale.target_deviation);
    }
    eo_json_end_object(j);
}

static void put_shape(struct eo_json *j, const char *key, const struct eo_tensor_desc *batch)
{
    eo_json_key(j, key);
    eo_json_begin_array(j);
    for (int i = 1; i < batch->n_dims; i++) {
        eo_json_i64(j, batch->shape[i]);
    }
    eo_json_end_array(j);
}

/* The model as a file that can be used without the job: the spec, from which the layers are rebuilt, and the scaling go
 * along as metadata. */
static int write_model(struct trainer *t, struct manifest_file *file, const char *scale, struct eo_error *err)
{
    uint32_t n = step_n_params(t->step);
    struct safetensors_tensor *tensors = calloc(n, sizeof(*tensors));
    char *spec = strndup((const char *)t->spec->canonical.data, t->spec->canonical.size);
    const struct safetensors_meta meta[] = {
        {"format", "everyo-model"}, {"everyo_version", eo_version()}, {"spec", spec}, {"scale", scale}};
    char temporary[PATH_MAX], path[PATH_MAX];
    int status =
        tensors == NULL || spec == NULL ? no_memory(err) : output_path(t, ".new-model.safetensors", temporary, err);

    eo_copy_text(file->name, sizeof(file->name), "model.safetensors");
    if (status == EO_OK) {
        status = output_path(t, file->name, path, err);
    }
    if (status == EO_OK) {
        params_tensors(t->step, step_params(t->step), tensors);
        unlink(temporary); /* left by a crash */
        status = safetensors_write(temporary, tensors, n, meta, (uint32_t)EO_COUNT_OF(meta), file->sha256, &file->bytes,
                                   err);
    }
    if (status == EO_OK && rename(temporary, path) != 0) {
        status = eo_raise_io(err, errno, "rename", temporary);
    }
    free(tensors);
    free(spec);
    return status == EO_OK ? eo_dir_sync(t->config->output_dir, err) : status;
}

static int write_manifest(struct trainer *t, const struct trainer_result *result, const struct manifest *m,
                          const char *scale, struct eo_error *err)
{
    struct eo_bytes text;
    struct eo_json j;

    eo_bytes_init(&text, OUTPUT_TEXT_BYTES);
    eo_json_init(&j, &text);
    manifest_begin(&j, m);
    eo_json_kv_string(&j, "job", t->spec->name);
    eo_json_kv_string(&j, "spec_sha256", t->spec->hash);
    eo_json_kv_string(&j, "parameters_sha256", result->parameters_sha256);
    eo_json_kv_string(&j, "loss", loss_name(t->spec->model->loss));
    put_shape(&j, "input", &t->spec->model->input);
    put_shape(&j, "output", &t->spec->model->output);
    eo_json_key(&j, "scale");
    eo_json_raw(&j, scale, strlen(scale));
    manifest_end(&j, m);
    return write_text(t, "manifest.json", &text, err);
}

static int write_history(struct trainer *t, struct eo_error *err)
{
    struct eo_bytes text;

    eo_bytes_init(&text, OUTPUT_TEXT_BYTES);
    history_csv(&t->history, &text);
    return write_text(t, "history.csv", &text, err);
}

static int write_run(struct trainer *t, const struct trainer_result *r, struct eo_error *err)
{
    struct eo_device *dev = executor_device(t->config->executor);
    bool nonfinite = false;
    struct eo_bytes text;
    struct eo_json j;
    char when[32];

    eo_bytes_init(&text, OUTPUT_TEXT_BYTES);
    eo_json_init(&j, &text);
    eo_json_begin_object(&j);
    eo_json_kv_i64(&j, "schema", 1);
    eo_json_kv_string(&j, "job", t->spec->name);
    eo_json_kv_string(&j, "ended", eo_rfc3339(eo_wall_ms(), when, sizeof(when)));
    eo_json_kv_bool(&j, "stopped", r->stopped);
    eo_json_kv_string(&j, "version", eo_version());
    eo_json_kv_string(&j, "commit", eo_commit());
    eo_json_kv_string(&j, "device", dev->info.name);
    eo_json_kv_string(&j, "device_description", dev->info.description);
    eo_json_kv_i64(&j, "threads", dev->info.threads);
    eo_json_kv_string(&j, "fallbacks", step_fallbacks(t->step));
    eo_json_kv_i64(&j, "world_size", t->world);
    eo_json_kv_u64(&j, "seed", t->spec->seed);
    eo_json_kv_string(&j, "spec_sha256", t->spec->hash);
    eo_json_kv_string(&j, "data_sha256", t->data.sha256);
    eo_json_kv_string(&j, "parameters_sha256", r->parameters_sha256);
    eo_json_kv_i64(&j, "steps", r->steps);
    eo_json_kv_i64(&j, "epochs", r->epochs);
    eo_json_kv_i64(&j, "skipped_steps", t->skipped);
    eo_json_kv_f64(&j, "seconds", r->seconds);
    eo_json_key(&j, "metrics");
    eo_json_begin_object(&j);
    for (int i = 0; i < r->n_metrics; i++) {
        eo_json_kv_f64(&j, r->metrics[i].name, r->metrics[i].value);
        nonfinite = nonfinite || !isfinite(r->metrics[i].value);
    }
    if (nonfinite) {
        eo_json_kv_bool(&j, "nonfinite", true);
    }
    eo_json_end_object(&j);
    eo_json_end_object(&j);
    return write_text(t, "run.json", &text, err);
}

int trainer_write_output(struct trainer *t, const struct trainer_result *result, struct eo_error *err)
{
    struct manifest m = {.finite = params_finite(t->step), .n_files = 1};
    struct eo_bytes scale;
    struct eo_json j;
    int status;

    eo_bytes_init(&scale, OUTPUT_TEXT_BYTES);
    eo_json_init(&j, &scale);
    put_scale(&j, &t->data);
    eo_copy_text(m.format, sizeof(m.format), "everyo-model");
    status = scale.failed ? no_memory(err) : write_model(t, &m.files[0], eo_bytes_text(&scale), err);
    if (status == EO_OK) {
        status = write_history(t, err);
    }
    if (status == EO_OK) {
        status = write_run(t, result, err);
    }
    if (status == EO_OK) {
        status = write_manifest(t, result, &m, eo_bytes_text(&scale), err);
    }
    eo_bytes_fini(&scale);
    return status;
}
