/* The canonical form of a spec: every value spelled out, in one order, as YAML whose values are JSON, so that it parses
 * back to itself and equal jobs have equal text. */
#include "daemon/jobs/spec_parse.h"
#include "daemon/train/metrics.h"
#include "proto/base/json.h"
#include "proto/base/sha256.h"

#include <string.h>

struct writer {
    struct eo_bytes *out;
    bool everything; /* false: only what state_hash covers */
};

static void put(struct writer *w, const char *text)
{
    eo_bytes_append(w->out, text, strlen(text));
}

/* A JSON value on one line of YAML. */
static struct eo_json value(struct writer *w, const char *key)
{
    struct eo_json j;

    eo_bytes_printf(w->out, "%s: ", key);
    eo_json_init(&j, w->out);
    return j;
}

static void put_text(struct writer *w, const char *key, const char *text)
{
    struct eo_json j = value(w, key);

    eo_json_string(&j, text);
    put(w, "\n");
}

/* ---- model ---- */

static void put_layer(struct eo_json *j, const struct layer *l)
{
    const struct layer_schema *row = layer_schema(l->kind);

    eo_json_begin_object(j);
    eo_json_key(j, row->name);
    if (l->kind == LAYER_SEQUENTIAL) {
        eo_json_begin_array(j);
        for (int i = 0; i < l->n_children; i++) {
            put_layer(j, &l->children[i]);
        }
        eo_json_end_array(j);
        eo_json_end_object(j);
        return;
    }
    eo_json_begin_object(j);
    for (int i = 0; i < row->n_args; i++) {
        eo_json_key(j, row->args[i].name);
        switch (row->args[i].kind) {
        case ARG_INT:
            eo_json_i64(j, (int64_t)l->args[i].number);
            break;
        case ARG_FLOAT:
            eo_json_f64(j, l->args[i].number);
            break;
        case ARG_BOOL:
            eo_json_bool(j, l->args[i].number != 0);
            break;
        case ARG_NAME:
            eo_json_string(j, l->args[i].text);
            break;
        }
    }
    eo_json_end_object(j);
    eo_json_end_object(j);
}

static void put_model(struct writer *w, const struct job_spec *s)
{
    put(w, "model:\n");
    for (int i = 0; i < s->model->n_layers; i++) {
        struct eo_json j;

        put(w, "  - ");
        eo_json_init(&j, w->out);
        put_layer(&j, &s->model->layers[i]);
        put(w, "\n");
    }
    put_text(w, "loss", loss_name(s->model->loss));
}

static void put_metrics(struct writer *w, const struct job_spec *s)
{
    struct eo_json j = value(w, "metrics");

    eo_json_begin_array(&j);
    for (int i = 0; i < s->n_metrics; i++) {
        eo_json_string(&j, metric_name((enum metric_kind)s->metrics[i]));
    }
    eo_json_end_array(&j);
    put(w, "\n");
}

static void put_optimizer(struct writer *w, const struct job_spec *s)
{
    enum optimizer_kind kind = s->optimizer.kind;
    struct eo_json j = value(w, "optimizer");

    eo_json_begin_object(&j);
    eo_json_key(&j, optimizer_name(kind));
    eo_json_begin_object(&j);
    for (int i = 0; i < optimizer_n_params(kind); i++) {
        const struct optimizer_param *p = optimizer_param(kind, i);
        const char *field = (const char *)&s->optimizer + p->offset;
        double values[2] = {0};
        bool flag = false;

        eo_json_key(&j, p->name);
        if (p->is_bool) {
            memcpy(&flag, field, sizeof(flag));
            eo_json_bool(&j, flag);
        } else if (p->is_pair) {
            memcpy(values, field, sizeof(values));
            eo_json_begin_array(&j);
            eo_json_f64(&j, values[0]);
            eo_json_f64(&j, values[1]);
            eo_json_end_array(&j);
        } else {
            memcpy(values, field, sizeof(values[0]));
            eo_json_f64(&j, values[0]);
        }
    }
    eo_json_end_object(&j);
    eo_json_end_object(&j);
    put(w, "\n");
}

static void put_schedule(struct writer *w, const struct job_spec *s)
{
    struct eo_json j = value(w, "schedule");

    eo_json_begin_array(&j);
    for (int i = 0; i < s->n_schedules; i++) {
        const struct schedule_config *c = &s->schedules[i];

        eo_json_begin_object(&j);
        eo_json_key(&j, schedule_name(c->kind));
        eo_json_begin_object(&j);
        for (int k = 0; k < schedule_n_params(c->kind); k++) {
            eo_json_kv_f64(&j, schedule_param(c->kind, k)->name, c->values[k]);
        }
        eo_json_end_object(&j);
        eo_json_end_object(&j);
    }
    eo_json_end_array(&j);
    put(w, "\n");
}

/* When training ends does not change the steps before; it is no part of the state. */
static void put_early_stopping(struct writer *w, const struct job_spec *s)
{
    struct eo_json j;

    if (s->early.patience == 0) {
        return;
    }
    j = value(w, "early_stopping");
    eo_json_begin_object(&j);
    eo_json_kv_i64(&j, "patience", s->early.patience);
    eo_json_kv_string(&j, "metric", s->early.metric);
    eo_json_kv_f64(&j, "min_delta", s->early.min_delta);
    eo_json_kv_bool(&j, "restore_best", s->early.restore_best);
    eo_json_end_object(&j);
    put(w, "\n");
}

/* ---- data ---- */

static void put_source(struct writer *w, const struct job_spec *s, const char *key, const struct spec_source *source)
{
    struct eo_json j;

    if (source->kind == SOURCE_NONE) {
        return;
    }
    j = value(w, key);
    eo_json_begin_object(&j);
    switch (source->kind) {
    case SOURCE_CSV:
        /* Where the bytes lie does not matter to the state; what they are is compared by content. */
        eo_json_kv_string(&j, "csv", w->everything ? s->files[source->file].path : "");
        if (source->target[0] != '\0') {
            eo_json_kv_string(&j, "target", source->target);
        }
        break;
    case SOURCE_IDX:
        eo_json_kv_string(&j, "idx", w->everything ? s->files[source->file].path : "");
        eo_json_kv_string(&j, "labels", w->everything ? s->files[source->labels].path : "");
        break;
    case SOURCE_SPLIT:
        eo_json_kv_f64(&j, "split", source->split);
        eo_json_kv_bool(&j, "stratified", source->stratified);
        break;
    case SOURCE_NONE:
        break;
    }
    eo_json_end_object(&j);
    put(w, "\n");
}

static void put_data(struct writer *w, const struct job_spec *s)
{
    struct eo_json j;

    put(w, "data:\n");
    put_source(w, s, "  train", &s->train);
    put_source(w, s, "  validation", &s->validation);
    put_source(w, s, "  test", &s->test);
    j = value(w, "  scale");
    eo_json_begin_object(&j);
    if (s->scale_divide != 0) {
        eo_json_kv_f64(&j, "divide", s->scale_divide);
    }
    eo_json_kv_bool(&j, "standardize", s->standardize);
    eo_json_kv_bool(&j, "standardize_target", s->standardize_target);
    eo_json_end_object(&j);
    eo_bytes_printf(w->out, "\n  batch: %lld\n  shuffle: %s\n", (long long)s->batch, s->shuffle ? "true" : "false");
}

/* ---- train and where ---- */

static void put_train(struct writer *w, const struct job_spec *s)
{
    struct eo_json j = value(w, "train");

    eo_json_begin_object(&j);
    if (w->everything && s->epochs > 0) {
        eo_json_kv_i64(&j, "epochs", s->epochs);
    }
    if (w->everything && s->max_steps > 0) {
        eo_json_kv_i64(&j, "max_steps", s->max_steps);
    }
    eo_json_kv_u64(&j, "seed", s->seed);
    if (s->clip_norm != 0) {
        eo_json_kv_f64(&j, "clip_norm", s->clip_norm);
    }
    if (s->clip_value != 0) {
        eo_json_kv_f64(&j, "clip_value", s->clip_value);
    }
    if (s->accumulate != 1) {
        eo_json_kv_i64(&j, "accumulate", s->accumulate);
    }
    if (s->ema != 0) {
        eo_json_kv_f64(&j, "ema", s->ema);
    }
    if (w->everything) {
        eo_json_key(&j, "checkpoint");
        eo_json_begin_object(&j);
        eo_json_kv_i64(&j, "every_epochs", s->checkpoint_every_epochs);
        eo_json_kv_i64(&j, "keep", s->checkpoint_keep);
        eo_json_end_object(&j);
    }
    eo_json_end_object(&j);
    put(w, "\n");
}

static void put_where(struct writer *w, const struct job_spec *s)
{
    struct eo_json j;

    put_text(w, "device", s->device);
    put_text(w, "fallback", s->fallback);
    if (s->threads > 0) {
        eo_bytes_printf(w->out, "threads: %d\n", s->threads);
    }
    if (s->time_limit_ms > 0) {
        eo_bytes_printf(w->out, "time_limit: %llums\n", (unsigned long long)s->time_limit_ms);
    }
    put_text(w, "on_failure", s->on_failure == ON_FAILURE_RESTART ? "restart" : "fail");
    j = value(w, "hosts");
    eo_json_begin_array(&j);
    for (int i = 0; i < s->n_hosts; i++) {
        eo_json_string(&j, s->hosts[i]);
    }
    eo_json_end_array(&j);
    put(w, "\n");
}

static void put_spec(struct writer *w, const struct job_spec *s)
{
    static const char *const finite[] = {"stop", "skip", "ignore"};

    if (w->everything) {
        put_text(w, "name", s->name);
    }
    put_model(w, s);
    put_metrics(w, s);
    put_optimizer(w, s);
    put_schedule(w, s);
    put_text(w, "precision", eo_dtype_name(s->model->dtype));
    put_data(w, s);
    put_train(w, s);
    put_text(w, "finite", finite[s->finite]);
    if (w->everything) {
        put_early_stopping(w, s);
        put_where(w, s);
    }
}

int spec_write(struct job_spec *s, struct eo_error *err)
{
    struct writer w = {.out = &s->canonical};
    bool hashed;

    put_spec(&w, s);
    hashed = !s->canonical.failed && eo_sha256_of(s->canonical.data, s->canonical.size, s->state_hash);
    eo_bytes_clear(&s->canonical);
    w.everything = true;
    put_spec(&w, s);
    hashed = hashed && !s->canonical.failed && eo_sha256_of(s->canonical.data, s->canonical.size, s->hash);
    if (!hashed) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "the job does not fit in %d bytes", SPEC_MAX_BYTES);
    }
    return EO_OK;
}
