#include "daemon/train/trainer.h"

#include "daemon/train/checkpoint_list.h"
#include "daemon/train/params.h"
#include "daemon/train/trainer_state.h"
#include "distributed/process_group.h"
#include "proto/base/checked.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/sha256.h"
#include "proto/base/text.h"
#include "proto/version.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVAL_BATCH = 256 /* rows of an evaluation at least: fewer, larger products */ };

/* ---- what ranks agree on ---- */

int trainer_layout_hash(const struct job_spec *spec, uint8_t out[32], struct eo_error *err)
{
    enum { MAX_PARAMS = 2 * MODEL_MAX_LAYERS };
    struct model_param *params = calloc(MAX_PARAMS, sizeof(*params));
    struct eo_sha256 h;
    int n = 0, status;

    if (params == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the model's parameters");
    }
    status = model_params(spec->model, params, MAX_PARAMS, &n, err);
    eo_sha256_init(&h);
    eo_sha256_update(&h, spec->hash, sizeof(spec->hash));
    for (int i = 0; i < n; i++) {
        eo_sha256_update(&h, params[i].name, sizeof(params[i].name));
        eo_sha256_update(&h, &params[i].desc.dtype, sizeof(params[i].desc.dtype));
        eo_sha256_update(&h, params[i].desc.shape, sizeof(params[i].desc.shape));
    }
    if (!eo_sha256_final(&h, out) && status == EO_OK) {
        status = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash the model's layout");
    }
    free(params);
    return status;
}

static int expect_equal_params(struct trainer *t, const char *what, char out_hex[65], struct eo_error *err)
{
    uint8_t digest[32];
    int status = step_pull(t->step, err);

    if (status == EO_OK) {
        status = params_sha256(t->step, digest, err);
    }
    if (status == EO_OK && t->config->group != NULL) {
        status = process_group_expect_equal(t->config->group, digest, what, err);
    }
    if (status == EO_OK && out_hex != NULL) {
        eo_sha256_hex(digest, out_hex);
    }
    return status;
}

/* ---- set-up ---- */

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int count_steps(struct trainer *t, struct eo_error *err)
{
    const struct job_spec *s = t->spec;
    int64_t n = t->data.part[DATA_TRAIN].n, by_epochs = INT64_MAX;

    t->batch = EO_MIN(s->batch, n);
    /* Who takes the batch in parts wants less memory: evaluations keep to it. */
    t->eval_batch = EO_MAX(divide_up(t->batch, s->accumulate), EVAL_BATCH);
    t->steps_per_epoch = (n + t->batch - 1) / t->batch;
    if (s->epochs > 0 && !eo_mul_i64(s->epochs, t->steps_per_epoch, &by_epochs)) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%" PRId64 " epochs of %" PRId64 " steps are too many", s->epochs,
                        t->steps_per_epoch);
    }
    t->steps = s->max_steps > 0 ? EO_MIN(s->max_steps, by_epochs) : by_epochs;
    return EO_OK;
}

/* Plans for a training batch of n_global rows in its parts. */
static int prepare_batch(struct trainer *t, int64_t n_global, struct eo_error *err)
{
    int64_t offset, first, rows = trainer_share(t, n_global, &offset);
    int status = EO_OK;

    for (int64_t part = 0; part < t->spec->accumulate && status == EO_OK; part++) {
        status =
            step_prepare(t->step, trainer_part(t, rows, part, &first), part == 0 ? STEP_TRAIN : STEP_ACCUMULATE, err);
    }
    return status;
}

static int prepare_evaluation(struct trainer *t, int64_t n_global, struct eo_error *err)
{
    int64_t offset;

    return step_prepare(t->step, trainer_share(t, n_global, &offset), STEP_EVALUATE, err);
}

/* Plans for every number of rows that this rank will see: full and last batches, of training and evaluation. */
static int prepare_plans(struct trainer *t, struct eo_error *err)
{
    const struct data_part *train = &t->data.part[DATA_TRAIN];
    int status = prepare_batch(t, t->batch, err);

    if (status == EO_OK && train->n % t->batch != 0) {
        status = prepare_batch(t, train->n % t->batch, err);
    }
    for (int i = DATA_VALIDATION; i <= DATA_TEST && status == EO_OK; i++) {
        int64_t n = t->data.part[i].n;

        if (n >= t->eval_batch) {
            status = prepare_evaluation(t, t->eval_batch, err);
        }
        if (status == EO_OK && n % t->eval_batch != 0) {
            status = prepare_evaluation(t, n % t->eval_batch, err);
        }
    }
    return status;
}

static int make_feeds(struct trainer *t, struct eo_error *err)
{
    /* A rank's share of n rows is at most ceil(n / world), a part of that again. */
    int64_t part = divide_up(divide_up(t->batch, t->world), t->spec->accumulate);
    uint64_t rows = (uint64_t)EO_MAX(part, divide_up(t->eval_batch, t->world));
    uint64_t x_row = (uint64_t)t->data.features * eo_dtype_size(t->data.dtype), x_bytes;
    uint64_t y_bytes = rows * eo_dtype_size((enum eo_dtype)t->data.target.dtype);

    t->order = malloc(sizeof(*t->order) * (size_t)t->data.part[DATA_TRAIN].n);
    if (eo_mul_u64(rows, x_row, &x_bytes) && x_bytes <= INT64_MAX) {
        t->x = aligned_alloc(64, (x_bytes + 63) & ~(uint64_t)63);
        t->y = aligned_alloc(64, (y_bytes + 63) & ~(uint64_t)63);
    }
    if (t->order == NULL || t->x == NULL || t->y == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for batches of %" PRIu64 " rows", rows);
    }
    return EO_OK;
}

static void name_history(struct trainer *t)
{
    static const char *const fixed[] = {"epoch", "step", "lr"};
    char name[24];

    history_init(&t->history);
    for (size_t i = 0; i < EO_COUNT_OF(fixed); i++) {
        history_column(&t->history, fixed[i]);
    }
    for (int part = DATA_TRAIN; part <= DATA_VALIDATION; part++) {
        for (int i = 0; t->data.part[part].rows != NULL && i < trainer_n_values(t); i++) {
            trainer_value_name(t, (enum data_part_kind)part, i, name);
            history_column(&t->history, name);
        }
    }
}

static void identify(struct trainer *t)
{
    const struct eo_device_info *info = &executor_device(t->config->executor)->info;

    snprintf(t->fingerprint, sizeof(t->fingerprint), "%s: %s; %d threads; %d ranks; everyo %s", info->name,
             info->description, info->threads, t->world, eo_version());
    t->identity = (struct checkpoint_identity){
        .spec = t->spec, .data_sha256 = t->data.sha256, .fingerprint = t->fingerprint, .world_size = t->world};
}

static int make_step(struct trainer *t, struct eo_error *err)
{
    const struct step_config config = {
        .model = t->spec->model,
        .optimizer = t->spec->optimizer,
        .seed = t->spec->seed,
        .fallback = strcmp(t->spec->fallback, "report") == 0 ? PLAN_REPORT : PLAN_STRICT,
        .metrics = t->spec->metrics,
        .n_metrics = t->spec->n_metrics,
        .target_shift = t->data.target_shift,
        .clip_value = t->spec->clip_value,
        .ema = t->spec->ema,
    };

    t->n_sums = 1;
    for (int i = 0; i < t->spec->n_metrics; i++) {
        t->n_sums += metric_n_sums((enum metric_kind)t->spec->metrics[i]);
    }
    return step_new(&config, t->config->executor, &t->step, err);
}

static void log_start(struct trainer *t)
{
    const struct data *d = &t->data;
    const struct model *m = t->spec->model;

    trainer_log(t, EO_LOG_INFO,
                "%" PRId64 " training rows, %" PRId64 " for validation, %" PRId64 " for test; %" PRId64
                " features; %u parameter tensors, %" PRIu64 " bytes; %" PRId64 " steps per epoch",
                d->part[DATA_TRAIN].n, d->part[DATA_VALIDATION].n, d->part[DATA_TEST].n, d->features,
                step_n_params(t->step), step_flat_bytes(t->step), t->steps_per_epoch);
    if (step_fallbacks(t->step)[0] != '\0') {
        trainer_log(t, EO_LOG_WARN, "not all of it runs on the device: %s", step_fallbacks(t->step));
    }
    if (m->loss == LOSS_CROSS_ENTROPY && m->layers[m->n_layers - 1].kind == LAYER_SOFTMAX) {
        trainer_log(t, EO_LOG_WARN, "cross_entropy takes logits, but the model ends with softmax: leave it out");
    }
}

static int set_up(struct trainer *t, struct eo_error *err)
{
    const struct trainer_config *c = t->config;
    const struct data_open open = {.ctx = c->callbacks.ctx, .open = c->callbacks.open_data};
    uint64_t limit = c->data_limit_bytes > 0 ? c->data_limit_bytes : TRAINER_DATA_LIMIT;
    int status = data_load(t->spec, &open, limit, &t->data, err);

    if (status == EO_OK) {
        status = count_steps(t, err);
    }
    if (status == EO_OK) {
        status = make_step(t, err);
    }
    if (status == EO_OK) {
        status = make_feeds(t, err);
    }
    if (status == EO_OK) {
        status = prepare_plans(t, err);
    }
    if (status == EO_OK) {
        name_history(t);
        identify(t);
        log_start(t);
    }
    return status;
}

/* ---- resuming ---- */

static void log_warning(void *ctx, const char *text)
{
    trainer_log(ctx, EO_LOG_WARN, "%s", text);
}

static int checkpoint_folder(const struct trainer *t, const char *parent, char *out, struct eo_error *err)
{
    EO_UNUSED(t);
    return eo_path_join(out, PATH_MAX, parent, "checkpoints")
               ? EO_OK
               : EO_RAISE(err, EO_E_CANNOT_CREATE, "the path of the checkpoint folder is too long");
}

/* resume_dir: "auto", a checkpoint, a folder of checkpoints, or an output directory with one. */
static int find_and_load(struct trainer *t, bool *out_found, char *out_path, struct eo_error *err)
{
    const char *from = t->config->resume_dir;
    bool automatic = strcmp(from, "auto") == 0;
    char folder[PATH_MAX];
    int status;

    if (!automatic && checkpoint_is_one(from)) {
        eo_copy_text(out_path, PATH_MAX, from);
        *out_found = true;
        return checkpoint_load(from, t->step, &t->identity, &t->at, &t->history, log_warning, t, err);
    }
    status = checkpoint_folder(t, automatic ? t->config->output_dir : from, folder, err);
    if (status == EO_OK) {
        status = checkpoint_load_newest(folder, t->step, &t->identity, &t->at, &t->history, out_found, out_path,
                                        PATH_MAX, log_warning, t, err);
    }
    if (status == EO_OK && !*out_found && !automatic) {
        status = checkpoint_load_newest(from, t->step, &t->identity, &t->at, &t->history, out_found, out_path, PATH_MAX,
                                        log_warning, t, err);
    }
    if (status == EO_OK && !*out_found && !automatic) {
        EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s holds no checkpoint that can be used", from);
        eo_error_hint(err, "Name a checkpoint (a step-* directory) or the output directory of the run.");
        return EO_E_BAD_CHECKPOINT;
    }
    return status;
}

/* What rank 0 tells the others: how loading went, and where training stands. */
struct start {
    int64_t code, resumed;
    struct checkpoint_position at;
};

/* State lies in the flat vectors; all ranks go on from rank 0's. */
static int share_state(struct trainer *t, struct eo_error *err)
{
    struct process_group *g = t->config->group;
    int status = process_group_broadcast(g, step_params(t->step), step_flat_bytes(t->step), 0, err);

    for (int i = 0; step_slot(t->step, i) != NULL && status == EO_OK; i++) {
        status = process_group_broadcast(g, step_slot(t->step, i), step_flat_bytes(t->step), 0, err);
    }
    return status;
}

static int share_start(struct trainer *t, struct start *start, struct eo_error *err)
{
    struct process_group *g = t->config->group;
    int status = process_group_broadcast(g, start, sizeof(*start), 0, err);

    if (status != EO_OK) {
        return status;
    }
    if (start->code != EO_OK && t->rank != 0) {
        EO_RAISE(err, EO_E_BAD_CHECKPOINT, "rank 0 cannot resume: its error says why");
        eo_error_at_host(err, process_group_config(g)->hosts[0], 0);
        return EO_E_BAD_CHECKPOINT;
    }
    t->at = start->at;
    return start->code == EO_OK && start->resumed ? share_state(t, err) : EO_OK;
}

static int resume(struct trainer *t, struct eo_error *err)
{
    const char *from = t->config->resume_dir;
    char path[PATH_MAX] = "";
    struct start start = {0};
    bool found = false;
    int status = EO_OK;

    if (t->rank == 0 && from != NULL && from[0] != '\0') {
        status = find_and_load(t, &found, path, err);
        start.code = status;
        start.resumed = found;
        start.at = t->at;
    }
    if (t->config->group != NULL) {
        struct eo_error why;
        int shared = share_start(t, &start, &why);

        if (status == EO_OK && shared != EO_OK) {
            status = shared;
            if (err != NULL) {
                *err = why;
            }
        }
    }
    if (status == EO_OK && start.resumed) {
        status = step_push(t->step, err);
        trainer_recall(t, t->history.n_rows - 1);
        trainer_log(t, EO_LOG_INFO, "goes on after step %" PRId64 ", epoch %" PRId64 "%s%s", t->at.step, t->at.epoch,
                    path[0] != '\0' ? ", from " : "", path);
    }
    return status == EO_OK ? expect_equal_params(t, "parameters before the first step", NULL, err) : status;
}

/* ---- the run ---- */

/* ---- early stopping ---- */

enum { BEST_KEPT = 1 };

static int best_folder(const struct trainer *t, char *out, struct eo_error *err)
{
    return eo_path_join(out, PATH_MAX, t->config->output_dir, "best")
               ? EO_OK
               : EO_RAISE(err, EO_E_CANNOT_CREATE, "the path of the folder of the best checkpoint is too long");
}

static int save_best(struct trainer *t, struct eo_error *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    int status = best_folder(t, folder, err);

    if (status == EO_OK) {
        status = step_pull(t->step, err);
    }
    return status == EO_OK
               ? checkpoint_save(folder, t->step, &t->identity, &t->at, &t->history, BEST_KEPT, path, sizeof(path), err)
               : status;
}

/* Looks at the values of the epoch that has just ended; the first epoch is the best one so far. */
static int watch(struct trainer *t, int64_t epoch, struct eo_error *err)
{
    const struct spec_early_stopping *e = &t->spec->early;
    enum data_part_kind part = e->validation ? DATA_VALIDATION : DATA_TRAIN;
    bool higher = e->value > 0 && metric_higher_is_better((enum metric_kind)t->spec->metrics[e->value - 1]);
    double value = t->values[part][e->value], gain = value - t->at.watched_best;

    if (e->patience == 0 || isnan(value) || (t->at.best_epoch > 0 && (higher ? gain : -gain) <= e->min_delta)) {
        return EO_OK;
    }
    t->at.watched_best = value;
    t->at.best_epoch = epoch;
    return t->rank == 0 && e->restore_best ? save_best(t, err) : EO_OK;
}

static bool out_of_patience(const struct trainer *t)
{
    return t->spec->early.patience > 0 && t->at.batch == 0 && t->at.epoch - t->at.best_epoch >= t->spec->early.patience;
}

/* Rank 0's host views become the best epoch's; *out_found is 0 where its checkpoint is not, as after resuming from
 * another directory. */
static int load_best(struct trainer *t, int64_t *out_found, struct eo_error *err)
{
    char folder[PATH_MAX], path[PATH_MAX], name[CHECKPOINT_NAME];
    struct checkpoint_position at;
    struct history history;
    int status = best_folder(t, folder, err);

    checkpoint_name(t->at.best_epoch * t->steps_per_epoch, name);
    *out_found = status == EO_OK && eo_path_join(path, sizeof(path), folder, name) && checkpoint_is_one(path);
    if (*out_found == 0) {
        trainer_log(t, EO_LOG_WARN, "the checkpoint of the best epoch, %" PRId64 ", is not in %s: the last epoch stays",
                    t->at.best_epoch, folder);
        return status;
    }
    history_init(&history);
    for (int c = 0; c < t->history.n_columns; c++) {
        history_column(&history, t->history.columns[c]);
    }
    status = checkpoint_load(path, t->step, &t->identity, &at, &history, log_warning, t, err);
    history_fini(&history);
    return status;
}

/* The state of the best epoch, and its values, on all ranks. What the run itself remembers stays. */
static int restore_best(struct trainer *t, struct eo_error *err)
{
    int64_t found = 0;
    int status = EO_OK;

    if (!t->spec->early.restore_best || t->at.best_epoch == 0 || t->at.best_epoch == t->at.epoch) {
        return EO_OK;
    }
    if (t->rank == 0) {
        status = load_best(t, &found, err);
    }
    if (status == EO_OK && t->config->group != NULL) {
        status = process_group_broadcast(t->config->group, &found, sizeof(found), 0, err);
    }
    if (status != EO_OK || found == 0) {
        return status;
    }
    status = t->config->group != NULL ? share_state(t, err) : EO_OK;
    if (status == EO_OK) {
        status = step_push(t->step, err);
    }
    if (status == EO_OK) {
        trainer_recall(t, t->at.best_epoch - 1);
        trainer_log(t, EO_LOG_INFO, "the result is that of epoch %" PRId64 ", the best by %s: %g", t->at.best_epoch,
                    t->spec->early.metric, t->at.watched_best);
    }
    return status;
}

/* ---- checkpoints ---- */

static int save_checkpoint(struct trainer *t, char *out_path, size_t path_size, struct eo_error *err)
{
    char folder[PATH_MAX];
    int status;

    out_path[0] = '\0';
    if (t->rank != 0 || t->saved_step == t->at.step) {
        return EO_OK;
    }
    status = step_pull(t->step, err);
    if (status == EO_OK) {
        status = checkpoint_folder(t, t->config->output_dir, folder, err);
    }
    if (status == EO_OK) {
        status = checkpoint_save(folder, t->step, &t->identity, &t->at, &t->history, t->spec->checkpoint_keep, out_path,
                                 path_size, err);
    }
    if (status == EO_OK) {
        t->saved_step = t->at.step;
    }
    return status;
}

/* Tells the schedule how the epoch went. */
static void observe(struct trainer *t)
{
    enum data_part_kind part = t->has_values[DATA_VALIDATION] ? DATA_VALIDATION : DATA_TRAIN;

    schedule_observe(t->spec->schedules, t->spec->n_schedules, t->values[part][0], &t->at.schedule);
}

/* An epoch's end, or where max_steps cuts one: validation, a row of the history, a report. A cut epoch's row comes
 * after the checkpoint, because a longer run goes on in the middle of that epoch and will write the whole row. */
static int end_epoch(struct trainer *t, bool last, struct eo_error *err)
{
    bool whole = t->at.batch == t->steps_per_epoch;
    int64_t epoch = t->at.epoch + 1;
    char path[PATH_MAX] = "";
    double seconds = (double)(eo_now_ns() - t->epoch_ns) / 1e9;
    int status = EO_OK;

    t->epoch_rate = seconds > 0 ? (double)(t->rows_done - t->epoch_rows) / seconds : 0;
    trainer_running_values(t);
    if (t->data.part[DATA_VALIDATION].rows != NULL) {
        status = trainer_evaluate(t, DATA_VALIDATION, err);
    }
    if (status == EO_OK && whole) {
        status = trainer_record(t, epoch, err);
        observe(t);
        t->at = (struct checkpoint_position){.step = t->at.step,
                                             .updates = t->at.updates,
                                             .epoch = epoch,
                                             .schedule = t->at.schedule,
                                             .watched_best = t->at.watched_best,
                                             .best_epoch = t->at.best_epoch};
        if (status == EO_OK) {
            status = watch(t, epoch, err);
        }
    }
    if (status == EO_OK &&
        (last || (whole && t->spec->checkpoint_every_epochs > 0 && epoch % t->spec->checkpoint_every_epochs == 0))) {
        status = save_checkpoint(t, path, sizeof(path), err);
    }
    if (status == EO_OK && !whole) {
        status = trainer_record(t, epoch, err);
    }
    if (status == EO_OK) {
        trainer_report(t, true, path);
    }
    return status;
}

static int train(struct trainer *t, enum trainer_stop *out_stop, struct eo_error *err)
{
    int status = EO_OK;

    *out_stop = STOP_NONE;
    while (status == EO_OK && t->at.step < t->steps && *out_stop == STOP_NONE && !out_of_patience(t)) {
        if (t->order_epoch != t->at.epoch) {
            data_order(t->spec, t->at.epoch, t->data.part[DATA_TRAIN].n, t->order);
            t->order_epoch = t->at.epoch;
            t->epoch_ns = eo_now_ns();
            t->epoch_rows = t->rows_done;
        }
        status = trainer_step(t, out_stop, err);
        if (status != EO_OK) {
            return status;
        }
        if (t->at.batch == t->steps_per_epoch || t->at.step == t->steps) {
            status = end_epoch(t, t->at.step == t->steps, err);
        } else {
            trainer_report(t, false, NULL);
        }
    }
    if (status == EO_OK && t->at.step < t->steps && *out_stop == STOP_NONE) {
        trainer_log(t, EO_LOG_INFO, "stops early: %s has not improved since epoch %" PRId64 " (%g)",
                    t->spec->early.metric, t->at.best_epoch, t->at.watched_best);
    }
    return status;
}

/* The result is the average; the checkpoint that was just written has both. */
static int take_average(struct trainer *t, struct eo_error *err)
{
    int status = step_pull(t->step, err);

    step_take_average(t->step);
    return status == EO_OK ? step_push(t->step, err) : status;
}

static int finish(struct trainer *t, enum trainer_stop stop, struct trainer_result *out, struct eo_error *err)
{
    char path[PATH_MAX];
    int status = save_checkpoint(t, path, sizeof(path), err);

    if (status == EO_OK && stop == STOP_NONE) {
        status = restore_best(t, err);
    }
    if (status == EO_OK && t->spec->ema > 0) {
        status = take_average(t, err);
    }
    if (status == EO_OK && stop == STOP_NONE && t->data.part[DATA_TEST].rows != NULL) {
        status = trainer_evaluate(t, DATA_TEST, err);
    }
    if (status == EO_OK) {
        status = expect_equal_params(t, "parameters after the last step", out->parameters_sha256, err);
    }
    if (status != EO_OK) {
        return status;
    }
    out->steps = t->at.step;
    out->epochs = t->at.epoch;
    out->seconds = (double)(eo_now_ns() - t->started_ns) / 1e9;
    out->n_metrics = trainer_metrics(t, out->metrics);
    out->stopped = stop != STOP_NONE;
    if (t->rank == 0) {
        status = trainer_write_output(t, out, err);
    }
    if (status == EO_OK && stop == STOP_TIME_LIMIT) {
        char limit[32];

        EO_RAISE(err, EO_E_TIME_LIMIT, "the job reached its time limit of %s after step %" PRId64,
                 eo_format_duration((double)t->spec->time_limit_ms / 1000, limit, sizeof(limit)), t->at.step);
        eo_error_hint(err, "Resume it with a longer time_limit: its state is in the newest checkpoint.");
        return EO_E_TIME_LIMIT;
    }
    return status;
}

static int run(struct trainer *t, struct trainer_result *out, struct eo_error *err)
{
    enum trainer_stop stop;
    int status = t->rank == 0 ? eo_dir_ensure(t->config->output_dir, 0755, err) : EO_OK;

    if (status == EO_OK) {
        status = set_up(t, err);
    }
    if (status == EO_OK) {
        status = resume(t, err);
    }
    if (status != EO_OK) {
        return status;
    }
    t->reported_ns = eo_now_ns();
    t->started_step = t->at.step;
    t->lr = trainer_rate(t);
    status = train(t, &stop, err);
    return status == EO_OK ? finish(t, stop, out, err) : status;
}

int trainer_run(const struct trainer_config *config, struct trainer_result *out, struct eo_error *err)
{
    struct trainer *t = calloc(1, sizeof(*t));
    struct eo_error why;
    int status;

    if (t == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a training run");
    }
    *out = (struct trainer_result){0};
    t->config = config;
    t->spec = config->spec;
    t->rank = config->group != NULL ? process_group_rank(config->group) : 0;
    t->world = config->group != NULL ? process_group_size(config->group) : 1;
    t->order_epoch = t->saved_step = -1;
    t->started_ns = eo_now_ns();
    status = run(t, out, &why);
    if (status != EO_OK && config->group != NULL) {
        process_group_abort(config->group, &why);
    }
    if (status != EO_OK && err != NULL) {
        *err = why;
    }
    step_free(t->step);
    data_fini(&t->data);
    history_fini(&t->history);
    free(t->order);
    free(t->x);
    free(t->y);
    free(t);
    return status;
}
