/* Steps and evaluations. Nothing here allocates once the plans for the row counts of a job are made. */
#include "daemon/train/trainer_state.h"

#include "distributed/process_group.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int64_t trainer_share(const struct trainer *t, int64_t n_global, int64_t *out_first)
{
    *out_first = n_global * t->rank / t->world;
    return n_global * (t->rank + 1) / t->world - *out_first;
}

int64_t trainer_part(const struct trainer *t, int64_t rows, int64_t part, int64_t *out_first)
{
    *out_first = rows * part / t->spec->accumulate;
    return rows * (part + 1) / t->spec->accumulate - *out_first;
}

static void values_from(const struct trainer *t, const double *sums, int64_t rows, double *out)
{
    const struct metric_scale scale = {.n_rows = rows,
                                       .row_elements = 1, /* targets are one number, or a class */
                                       .target_unit = t->data.scale.target_deviation};
    const double *metric = sums + 1;

    out[0] = rows == 0 ? (double)NAN : sums[0] / (double)rows;
    for (int i = 0; i < t->spec->n_metrics; i++) {
        enum metric_kind kind = (enum metric_kind)t->spec->metrics[i];

        out[1 + i] = metric_value(kind, metric, &scale);
        metric += metric_n_sums(kind);
    }
}

void trainer_running_values(struct trainer *t)
{
    values_from(t, t->at.sums, t->at.rows, t->values[DATA_TRAIN]);
    t->has_values[DATA_TRAIN] = true;
}

/* ---- one step ---- */

static int reduce_gradients(struct trainer *t, struct eo_error *err)
{
    enum eo_dtype dtype = t->spec->model->dtype;
    uint64_t count = step_flat_bytes(t->step) / eo_dtype_size(dtype);
    int status;

    if (t->config->group == NULL) {
        return EO_OK;
    }
    status = step_pull_grads(t->step, err);
    if (status == EO_OK) {
        status = process_group_all_reduce(t->config->group, step_grads(t->step), count, dtype, err);
    }
    return status == EO_OK ? step_push_grads(t->step, err) : status;
}

/* What this rank would like: the caller's wish, or the job's time limit as rank 0's clock sees it. */
static enum trainer_stop wish(const struct trainer *t)
{
    int asked = t->config->stop != NULL ? atomic_load(t->config->stop) : 0;

    if (asked != 0) {
        return asked == 1 ? STOP_CANCEL : STOP_DRAIN;
    }
    if (t->rank == 0 && t->spec->time_limit_ms > 0 &&
        (eo_now_ns() - t->started_ns) / 1000000 >= t->spec->time_limit_ms) {
        return STOP_TIME_LIMIT;
    }
    return STOP_NONE;
}

static int vote(struct trainer *t, struct group_vote *v, struct eo_error *err)
{
    return t->config->group == NULL ? EO_OK : process_group_vote(t->config->group, v, err);
}

static int not_finite(const struct trainer *t, double loss, double sum_squares, struct eo_error *err)
{
    EO_RAISE(err, EO_E_NON_FINITE, "%s at step %" PRId64 " of epoch %" PRId64 ": loss %g, gradient norm %g",
             isfinite(loss) ? "the gradient is not finite" : "the loss is not finite", t->at.step + 1, t->at.epoch + 1,
             loss, sqrt(sum_squares));
    eo_error_detail(err, "The step was not applied: parameters are as they were before it.");
    eo_error_hint(err, "Lower optimizer.lr, set train.clip_norm, look at the data's scale; `finite: skip` leaves such "
                       "steps out.");
    return EO_E_NON_FINITE;
}

static double clip_scale(double clip_norm, double sum_squares)
{
    double norm = sqrt(sum_squares);

    return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
}

double trainer_rate(const struct trainer *t)
{
    const struct schedule_time time = {.step = t->at.step, .steps = t->steps, .steps_per_epoch = t->steps_per_epoch};

    return t->spec->optimizer.lr * schedule_factor(t->spec->schedules, t->spec->n_schedules, &time, &t->at.schedule);
}

/* Applies the step that all agreed on and moves the position past it. */
static int commit(struct trainer *t, const struct group_vote *v, double sum_squares, int64_t n_global,
                  struct eo_error *err)
{
    int status = EO_OK;

    if (v->ok) {
        t->lr = trainer_rate(t);
        status = step_update(t->step, t->lr, clip_scale(t->spec->clip_norm, sum_squares), t->at.updates + 1, err);
        for (int i = 0; i < t->n_sums; i++) {
            t->at.sums[i] += v->sums[i];
        }
        t->at.updates++;
        t->at.rows += n_global;
    } else if (t->spec->finite == FINITE_STOP) {
        return not_finite(t, v->sums[0] / (double)n_global, sum_squares, err);
    } else {
        t->skipped++;
        trainer_log(t, 2, "step %" PRId64 " skipped: loss %g, gradient norm %g", t->at.step + 1,
                    v->sums[0] / (double)n_global, sqrt(sum_squares));
    }
    t->at.step++;
    t->at.batch++;
    t->rows_done += n_global;
    return status;
}

/* Gradients and sums of this rank's rows of the batch that begins at row `first`, in as many parts as the job asks for:
 * the sum of the parts is what one pass over all would give, with the memory of one part. */
static int compute(struct trainer *t, int64_t first, int64_t n_global, struct step_result *out, struct eo_error *err)
{
    int64_t offset, begin, rows = trainer_share(t, n_global, &offset);
    int status = EO_OK;

    *out = (struct step_result){0};
    for (int64_t part = 0; part < t->spec->accumulate && status == EO_OK; part++) {
        struct step_feed feed = {
            .x = t->x, .y = t->y, .n_global = n_global, .step = t->at.step, .accumulate = part > 0};
        struct step_result result;

        feed.n_rows = trainer_part(t, rows, part, &begin);
        feed.row_offset = offset + begin;
        data_gather(&t->data, &t->data.part[DATA_TRAIN], t->order, first + offset + begin, feed.n_rows, t->x, t->y);
        status = step_compute(t->step, &feed, &result, err);
        out->loss_sum += result.loss_sum;
        for (int i = 0; i < STEP_MAX_METRIC_SUMS; i++) {
            out->metric_sums[i] += result.metric_sums[i];
        }
    }
    return status;
}

int trainer_step(struct trainer *t, enum trainer_stop *out_stop, struct eo_error *err)
{
    const struct data_part *train = &t->data.part[DATA_TRAIN];
    int64_t first = t->at.batch * t->batch, n_global = EO_MIN(t->batch, train->n - first);
    struct group_vote v = {.n_sums = t->n_sums};
    struct step_result result;
    double sum_squares;
    int status = compute(t, first, n_global, &result, err);

    if (status == EO_OK) {
        status = reduce_gradients(t, err);
    }
    if (status == EO_OK) {
        status = step_commit(t->step, &sum_squares, err);
    }
    if (status != EO_OK) {
        return status;
    }
    v.ok = t->spec->finite == FINITE_IGNORE || (isfinite(result.loss_sum) && isfinite(sum_squares));
    v.stop = (int)wish(t);
    v.sums[0] = result.loss_sum;
    memcpy(v.sums + 1, result.metric_sums, sizeof(double) * (size_t)(t->n_sums - 1));
    status = vote(t, &v, err);
    if (status != EO_OK) {
        return status;
    }
    *out_stop = (enum trainer_stop)v.stop;
    return commit(t, &v, sum_squares, n_global, err);
}

/* ---- evaluation ---- */

int trainer_evaluate(struct trainer *t, enum data_part_kind kind, struct eo_error *err)
{
    const struct data_part *part = &t->data.part[kind];
    double sums[CHECKPOINT_SUMS] = {0};
    int status = EO_OK;

    for (int64_t first = 0; first < part->n && status == EO_OK; first += t->eval_batch) {
        int64_t n_global = EO_MIN(t->eval_batch, part->n - first), offset;
        struct step_feed feed = {.x = t->x, .y = t->y, .n_global = n_global};
        struct step_result result;

        feed.n_rows = trainer_share(t, n_global, &offset);
        feed.row_offset = offset;
        data_gather(&t->data, part, NULL, first + offset, feed.n_rows, t->x, t->y);
        status = step_evaluate(t->step, &feed, &result, NULL, err);
        if (status == EO_OK) {
            sums[0] += result.loss_sum;
            for (int i = 1; i < t->n_sums; i++) {
                sums[i] += result.metric_sums[i - 1];
            }
        }
    }
    if (status == EO_OK && t->config->group != NULL) {
        status = process_group_all_reduce(t->config->group, sums, (uint64_t)t->n_sums, EO_FLOAT64, err);
    }
    if (status == EO_OK) {
        values_from(t, sums, part->n, t->values[kind]);
        t->has_values[kind] = true;
    }
    return status;
}
