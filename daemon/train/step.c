#include "daemon/train/step.h"

#include "daemon/train/metrics.h"
#include "daemon/train/step_graph.h"
#include "proto/base/checked.h"
#include "proto/philox.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, STEP_MAX_PARAMS = 2 * MODEL_MAX_LAYERS };

/* Memory of the device with a view for the host: the same bytes where the device computes in host memory. */
struct region {
    void *device, *host;
    uint64_t bytes;
};

struct step_plan {
    struct plan *plan; /* NULL: free */
    int64_t n_rows;
};

struct train_step {
    struct step_config config;
    struct step_shape shape;
    struct executor *x;
    struct eo_device *dev;
    struct step_layout_entry *layout;
    struct region regions[STEP_BUFFERS];
    struct step_plan plans[STEP_PASSES][STEP_MAX_PLANS];
    int next_plan[STEP_PASSES]; /* which one goes next when all are taken */
    struct plan *commit, *update;
    uint64_t x_row_bytes, y_row_bytes, pred_row_bytes;
    char fallbacks[256];
};

/* ---- memory ---- */

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

static void region_fini(struct train_step *s, struct region *r)
{
    if (r->host != r->device) {
        free(r->host);
    }
    if (r->device != NULL) {
        s->dev->backend->free(s->dev, r->device, r->bytes);
    }
    *r = (struct region){0};
}

static int region_to_device(struct train_step *s, const struct region *r, struct eo_error *err)
{
    return r->host == r->device ? EO_OK : s->dev->backend->copy_in(s->dev, r->device, r->host, r->bytes, err);
}

static int region_to_host(struct train_step *s, const struct region *r, struct eo_error *err)
{
    return r->host == r->device ? EO_OK : s->dev->backend->copy_out(s->dev, r->host, r->device, r->bytes, err);
}

/* Zeroed, at least one line of bytes so that empty tensors have an address. */
static int region_init(struct train_step *s, struct region *r, uint64_t bytes, struct eo_error *err)
{
    int status;

    r->bytes = align_up(EO_MAX(bytes, 1));
    status = s->dev->backend->alloc(s->dev, r->bytes, &r->device, err);
    if (status != EO_OK) {
        r->device = NULL;
        return status;
    }
    r->host = s->dev->info.host_memory ? r->device : aligned_alloc(ALIGN, r->bytes);
    if (r->host == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for %" PRIu64 " bytes beside the device", r->bytes);
    }
    memset(r->host, 0, r->bytes);
    return region_to_device(s, r, err);
}

static int region_grow(struct train_step *s, struct region *r, uint64_t bytes, struct eo_error *err)
{
    if (r->bytes >= bytes && r->device != NULL) {
        return EO_OK;
    }
    region_fini(s, r);
    return region_init(s, r, bytes, err);
}

static int wait_for(struct train_step *s, struct eo_error *err)
{
    return s->dev->backend->sync == NULL ? EO_OK : s->dev->backend->sync(s->dev, err);
}

/* ---- parameters ---- */

static int lay_out(struct train_step *s, struct eo_error *err)
{
    struct model_param *params = calloc(STEP_MAX_PARAMS, sizeof(*params));
    uint64_t offset = 0;
    int n = 0, status;

    s->layout = calloc(STEP_MAX_PARAMS, sizeof(*s->layout));
    if (params == NULL || s->layout == NULL) {
        status = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the model's parameters");
    } else {
        status = model_params(s->config.model, params, STEP_MAX_PARAMS, &n, err);
    }
    for (int i = 0; i < n && status == EO_OK; i++) {
        struct step_layout_entry *e = &s->layout[i];

        snprintf(e->name, sizeof(e->name), "%s", params[i].name);
        e->desc = params[i].desc;
        e->offset = offset;
        if (!eo_add_u64(offset, eo_tensor_desc_bytes(&e->desc) + ALIGN - 1, &offset) || offset > INT64_MAX) {
            status = EO_RAISE(err, EO_E_TOO_LARGE, "the model's parameters need more than 2^63 bytes");
        }
        offset &= ~(uint64_t)(ALIGN - 1);
    }
    s->shape.layout = s->layout;
    s->shape.n_params = n;
    s->shape.flat_elements = (int64_t)(offset / eo_dtype_size(s->config.model->dtype));
    free(params);
    return status;
}

static int init_params(struct train_step *s, struct eo_error *err)
{
    struct model_param *params = calloc(STEP_MAX_PARAMS, sizeof(*params));
    int n, status;

    if (params == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the model's parameters");
    }
    status = model_params(s->config.model, params, STEP_MAX_PARAMS, &n, err);
    for (int i = 0; i < n && status == EO_OK; i++) {
        status = model_init_param(&params[i], s->config.seed, (char *)step_params(s) + s->layout[i].offset, err);
    }
    free(params);
    if (status == EO_OK && s->shape.ema) { /* the average begins where the parameters do */
        memcpy(s->regions[STEP_SLOTS + step_graph_slots(&s->shape) - 1].host, step_params(s), step_flat_bytes(s));
    }
    return status;
}

/* ---- plans ---- */

static void note_fallbacks(struct train_step *s, const struct plan *p)
{
    const char *ops = plan_stats(p)->fallback_ops;

    if (ops[0] != '\0' && strstr(s->fallbacks, ops) == NULL) {
        size_t used = strlen(s->fallbacks);

        snprintf(s->fallbacks + used, sizeof(s->fallbacks) - used, "%s%s", used > 0 ? ", " : "", ops);
    }
}

static int accept_plan(struct train_step *s, struct plan *p, struct eo_error *err)
{
    note_fallbacks(s, p);
    return executor_reserve(s->x, p, err);
}

static struct step_plan *find_plan(struct train_step *s, int64_t n_rows, enum step_pass pass)
{
    struct step_plan *plans = s->plans[pass];

    for (int i = 0; i < STEP_MAX_PLANS; i++) {
        if (plans[i].plan != NULL && plans[i].n_rows == n_rows) {
            return &plans[i];
        }
    }
    return NULL;
}

/* A place for one more plan; when all are taken, the one that came first goes. */
static struct step_plan *free_slot(struct train_step *s, enum step_pass pass)
{
    int *next = &s->next_plan[pass];
    struct step_plan *slot = &s->plans[pass][*next];

    *next = (*next + 1) % STEP_MAX_PLANS;
    plan_free(slot->plan);
    slot->plan = NULL;
    return slot;
}

int step_prepare(struct train_step *s, int64_t n_rows, enum step_pass pass, struct eo_error *err)
{
    struct step_plan *slot;
    struct plan *plan;
    uint64_t x_bytes, y_bytes, pred_bytes;
    int status;

    if (n_rows == 0 || find_plan(s, n_rows, pass) != NULL) {
        return EO_OK;
    }
    if (!eo_mul_u64(s->x_row_bytes, (uint64_t)n_rows, &x_bytes) ||
        !eo_mul_u64(s->y_row_bytes, (uint64_t)n_rows, &y_bytes) ||
        !eo_mul_u64(s->pred_row_bytes, (uint64_t)n_rows, &pred_bytes)) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a batch of %" PRId64 " rows does not fit in memory", n_rows);
    }
    status = step_graph_compute(&s->shape, n_rows, pass, s->dev, &plan, err);
    if (status != EO_OK) {
        eo_error_push(err, "compiling the %s of %" PRId64 " rows",
                      pass == STEP_EVALUATE ? "evaluation" : "training step", n_rows);
        return status;
    }
    slot = free_slot(s, pass);
    slot->plan = plan;
    slot->n_rows = n_rows;
    status = accept_plan(s, plan, err);
    if (status == EO_OK) {
        status = region_grow(s, &s->regions[STEP_X], x_bytes, err);
    }
    if (status == EO_OK) {
        status = region_grow(s, &s->regions[STEP_Y], y_bytes, err);
    }
    if (status == EO_OK && pass == STEP_EVALUATE) {
        status = region_grow(s, &s->regions[STEP_PRED], pred_bytes, err);
    }
    return status;
}

const char *step_fallbacks(const struct train_step *s)
{
    return s->fallbacks;
}

/* ---- life ---- */

static int make_buffers(struct train_step *s, struct eo_error *err)
{
    uint64_t flat = step_flat_bytes(s);
    int status = region_init(s, &s->regions[STEP_PARAMS], flat, err);

    if (status == EO_OK) {
        status = region_init(s, &s->regions[STEP_GRADS], flat, err);
    }
    for (int i = 0; i < step_graph_slots(&s->shape) && status == EO_OK; i++) {
        status = region_init(s, &s->regions[STEP_SLOTS + i], flat, err);
    }
    if (status == EO_OK) {
        status = region_init(s, &s->regions[STEP_SCALARS], sizeof(struct step_scalars), err);
    }
    if (status == EO_OK) {
        status = region_init(s, &s->regions[STEP_RESULTS], sizeof(struct step_results), err);
    }
    return status;
}

static int check_metrics(const struct step_config *config, struct eo_error *err)
{
    int n_sums = 0;

    for (int i = 0; i < config->n_metrics; i++) {
        n_sums += metric_n_sums((enum metric_kind)config->metrics[i]);
    }
    if (n_sums > STEP_MAX_METRIC_SUMS) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "%d metrics need %d sums, %d at most", config->n_metrics, n_sums,
                        STEP_MAX_METRIC_SUMS);
    }
    return EO_OK;
}

static uint64_t row_bytes(const struct eo_tensor_desc *batch)
{
    struct eo_tensor_desc one = *batch;

    one.shape[0] = 1;
    return eo_tensor_desc_bytes(&one);
}

static int build(struct train_step *s, struct eo_error *err)
{
    struct eo_tensor_desc targets;
    int status = check_metrics(&s->config, err);

    if (status == EO_OK) {
        status = model_target_desc(s->config.model, &targets, err);
    }
    if (status == EO_OK) {
        s->x_row_bytes = row_bytes(&s->config.model->input);
        s->y_row_bytes = row_bytes(&targets);
        s->pred_row_bytes = row_bytes(&s->config.model->output);
        status = lay_out(s, err);
    }
    if (status == EO_OK) {
        status = make_buffers(s, err);
    }
    if (status == EO_OK) {
        status = step_graph_commit(&s->shape, s->dev, &s->commit, err);
    }
    if (status == EO_OK) {
        status = accept_plan(s, s->commit, err);
    }
    if (status == EO_OK) {
        status = step_graph_update(&s->shape, s->dev, &s->update, err);
    }
    if (status == EO_OK) {
        status = accept_plan(s, s->update, err);
    }
    if (status == EO_OK) {
        status = init_params(s, err);
    }
    return status == EO_OK ? step_push(s, err) : status;
}

int step_new(const struct step_config *config, struct executor *x, struct train_step **out, struct eo_error *err)
{
    struct train_step *s = calloc(1, sizeof(*s));
    int status;

    if (s == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a training step");
    }
    s->config = *config;
    s->x = x;
    s->dev = executor_device(x);
    s->shape = (struct step_shape){.model = config->model,
                                   .optimizer = &s->config.optimizer,
                                   .metrics = config->metrics,
                                   .n_metrics = config->n_metrics,
                                   .target_shift = config->target_shift,
                                   .clip_value = config->clip_value,
                                   .ema = config->ema > 0,
                                   .fallback = config->fallback};
    status = build(s, err);
    if (status != EO_OK) {
        step_free(s);
        return status;
    }
    *out = s;
    return EO_OK;
}

void step_free(struct train_step *s)
{
    if (s == NULL) {
        return;
    }
    wait_for(s, NULL); /* queued work may still use what is freed now */
    for (int pass = 0; pass < STEP_PASSES; pass++) {
        for (int i = 0; i < STEP_MAX_PLANS; i++) {
            plan_free(s->plans[pass][i].plan);
        }
    }
    plan_free(s->commit);
    plan_free(s->update);
    for (int i = 0; i < STEP_BUFFERS; i++) {
        region_fini(s, &s->regions[i]);
    }
    free(s->layout);
    free(s);
}

/* ---- host views ---- */

uint32_t step_n_params(const struct train_step *s)
{
    return (uint32_t)s->shape.n_params;
}

const struct step_layout_entry *step_layout(const struct train_step *s, uint32_t i)
{
    return i < step_n_params(s) ? &s->layout[i] : NULL;
}

uint64_t step_flat_bytes(const struct train_step *s)
{
    return (uint64_t)s->shape.flat_elements * eo_dtype_size(s->config.model->dtype);
}

void *step_params(struct train_step *s)
{
    return s->regions[STEP_PARAMS].host;
}

void *step_grads(struct train_step *s)
{
    return s->regions[STEP_GRADS].host;
}

void *step_slot(struct train_step *s, int slot)
{
    return slot >= 0 && slot < step_graph_slots(&s->shape) ? s->regions[STEP_SLOTS + slot].host : NULL;
}

const char *step_slot_name(const struct train_step *s, int slot)
{
    return slot == optimizer_slots(&s->config.optimizer) ? "ema" : optimizer_slot_name(&s->config.optimizer, slot);
}

/* The average is the last slot. */
static struct region *average(struct train_step *s)
{
    return s->shape.ema ? &s->regions[STEP_SLOTS + step_graph_slots(&s->shape) - 1] : NULL;
}

void step_take_average(struct train_step *s)
{
    if (s->shape.ema) {
        memcpy(step_params(s), average(s)->host, step_flat_bytes(s));
    }
}

int step_pull(struct train_step *s, struct eo_error *err)
{
    int status = wait_for(s, err);

    for (int i = STEP_PARAMS; i < STEP_X && status == EO_OK; i++) {
        status = region_to_host(s, &s->regions[i], err);
    }
    return status;
}

int step_push(struct train_step *s, struct eo_error *err)
{
    int status = EO_OK;

    for (int i = STEP_PARAMS; i < STEP_X && status == EO_OK; i++) {
        status = region_to_device(s, &s->regions[i], err);
    }
    return status;
}

int step_pull_grads(struct train_step *s, struct eo_error *err)
{
    int status = wait_for(s, err);

    return status == EO_OK ? region_to_host(s, &s->regions[STEP_GRADS], err) : status;
}

int step_push_grads(struct train_step *s, struct eo_error *err)
{
    return region_to_device(s, &s->regions[STEP_GRADS], err);
}

/* ---- running ---- */

static void buffers_of(struct train_step *s, void *buffers[STEP_BUFFERS])
{
    for (int i = 0; i < STEP_BUFFERS; i++) {
        buffers[i] = s->regions[i].device;
    }
}

/* Where kernels read a feed: the caller's memory when the device can use it, else a copy. */
static int place_feed(struct train_step *s, enum step_buffer which, const void *data, uint64_t bytes, void **out,
                      struct eo_error *err)
{
    struct region *r = &s->regions[which];

    if (s->dev->info.host_memory && (uintptr_t)data % ALIGN == 0) {
        *out = (void *)(uintptr_t)data; /* kernels only read it */
        return EO_OK;
    }
    *out = r->device;
    if (r->host == r->device) {
        memcpy(r->device, data, bytes);
        return EO_OK;
    }
    return s->dev->backend->copy_in(s->dev, r->device, data, bytes, err);
}

/* v in the model's dtype */
static union step_scalar scalar_of(const struct train_step *s, double v)
{
    return s->config.model->dtype == EO_FLOAT64 ? (union step_scalar){.f64 = v} : (union step_scalar){.f32 = (float)v};
}

static int send_scalars(struct train_step *s, struct eo_error *err)
{
    return region_to_device(s, &s->regions[STEP_SCALARS], err);
}

static int read_results(struct train_step *s, struct eo_error *err)
{
    int status = wait_for(s, err);

    return status == EO_OK ? region_to_host(s, &s->regions[STEP_RESULTS], err) : status;
}

/* Runs a compute or evaluation plan on a feed of at least one row. */
static int run_rows(struct train_step *s, const struct step_feed *feed, enum step_pass pass, struct step_result *out,
                    struct eo_error *err)
{
    const struct step_results *results = s->regions[STEP_RESULTS].host;
    struct step_scalars *scalars = s->regions[STEP_SCALARS].host;
    uint64_t n = (uint64_t)feed->n_rows;
    void *buffers[STEP_BUFFERS];
    int status = step_prepare(s, feed->n_rows, pass, err);

    if (status != EO_OK) {
        return status;
    }
    scalars->rng[EO_RNG_SEED] = (int64_t)s->config.seed;
    scalars->rng[EO_RNG_STEP] = feed->step;
    scalars->rng[EO_RNG_ROW_OFFSET] = feed->row_offset;
    scalars->inv_count = scalar_of(s, 1.0 / (double)feed->n_global);
    buffers_of(s, buffers);
    if (pass == STEP_EVALUATE && s->shape.ema) {
        buffers[STEP_PARAMS] = average(s)->device;
    }
    status = send_scalars(s, err);
    if (status == EO_OK) {
        status = place_feed(s, STEP_X, feed->x, n * s->x_row_bytes, &buffers[STEP_X], err);
    }
    if (status == EO_OK) {
        status = place_feed(s, STEP_Y, feed->y, n * s->y_row_bytes, &buffers[STEP_Y], err);
    }
    if (status == EO_OK) {
        status = executor_run(s->x, find_plan(s, feed->n_rows, pass)->plan, buffers, NULL, err);
    }
    if (status == EO_OK) {
        status = read_results(s, err);
    }
    if (status == EO_OK) {
        out->loss_sum = results->loss_sum;
        memcpy(out->metric_sums, results->metric_sums, sizeof(out->metric_sums));
    }
    return status;
}

int step_compute(struct train_step *s, const struct step_feed *feed, struct step_result *out, struct eo_error *err)
{
    *out = (struct step_result){0};
    if (feed->n_rows > 0) {
        return run_rows(s, feed, feed->accumulate ? STEP_ACCUMULATE : STEP_TRAIN, out, err);
    }
    if (feed->accumulate) {
        return EO_OK;
    }
    memset(step_grads(s), 0, step_flat_bytes(s));
    return step_push_grads(s, err);
}

int step_evaluate(struct train_step *s, const struct step_feed *feed, struct step_result *out, void *out_pred,
                  struct eo_error *err)
{
    uint64_t bytes = (uint64_t)feed->n_rows * s->pred_row_bytes;
    int status;

    *out = (struct step_result){0};
    if (feed->n_rows == 0) {
        return EO_OK;
    }
    status = run_rows(s, feed, STEP_EVALUATE, out, err);
    if (status == EO_OK && out_pred != NULL && s->dev->info.host_memory) {
        memcpy(out_pred, s->regions[STEP_PRED].device, bytes);
    } else if (status == EO_OK && out_pred != NULL) {
        status = s->dev->backend->copy_out(s->dev, out_pred, s->regions[STEP_PRED].device, bytes, err);
    }
    return status;
}

int step_commit(struct train_step *s, double *out_sum_squares, struct eo_error *err)
{
    const struct step_results *results = s->regions[STEP_RESULTS].host;
    void *buffers[STEP_BUFFERS];
    int status;

    buffers_of(s, buffers);
    status = executor_run(s->x, s->commit, buffers, NULL, err);
    if (status == EO_OK) {
        status = read_results(s, err);
    }
    if (status == EO_OK) {
        bool clipped = s->config.clip_value > 0 && isfinite(results->sum_squares);

        *out_sum_squares = clipped ? results->clipped_squares : results->sum_squares;
    }
    return status;
}

int step_update(struct train_step *s, double lr, double grad_scale, int64_t t, struct eo_error *err)
{
    struct step_scalars *scalars = s->regions[STEP_SCALARS].host;
    void *buffers[STEP_BUFFERS];
    int status;

    /* Early averages follow quickly: they would hold on to the random beginning. */
    double decay = EO_MIN(s->config.ema, (1 + (double)t) / (10 + (double)t));

    optimizer_scalars(&s->config.optimizer, lr, grad_scale, t, scalars->optimizer);
    scalars->ema = scalar_of(s, 1 - decay);
    buffers_of(s, buffers);
    status = send_scalars(s, err);
    return status == EO_OK ? executor_run(s->x, s->update, buffers, NULL, err) : status;
}
