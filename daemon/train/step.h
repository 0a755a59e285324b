/* The training step of one rank: graphs of a model turned into compute, commit and update plans over flat buffers.
 *
 * Memory (all on the device): params (P elements of the model's dtype, each parameter 64-byte aligned inside), grads
 * (the buckets: same layout), optimizer state (k x P), feeds. Padding elements are zero and stay zero.
 * The loss of a batch is the sum of per-sample losses times inv_count = 1 / global batch, so that gradients of ranks
 * add up by a plain sum (docs/adr/0007). */
#ifndef EO_DAEMON_TRAIN_STEP_H
#define EO_DAEMON_TRAIN_STEP_H

#include "daemon/engine/executor.h"
#include "daemon/nn/model.h"
#include "daemon/train/optimizer.h"

enum { STEP_NAME = 96 };
struct step_layout_entry {
    char name[STEP_NAME];
    struct eo_tensor_desc desc;
    uint64_t offset; /* bytes from the start of params and of grads */
};

struct train_step;
struct step_config {
    const struct model *model; /* borrowed, outlives the step */
    struct optimizer_config optimizer;
    uint64_t seed;
    enum plan_fallback fallback;
    const int *metrics; /* enum metric_kind; borrowed; their sums follow each other in step_result */
    int n_metrics;
    double target_shift; /* see metric_build */
    double clip_value;   /* gradients are limited to +- this before the norm is taken; 0 = not */
    double ema;          /* decay of a running average of the parameters, which evaluations use; 0 = none */
};

/* Makes buffers and the commit and update plans, and initial parameters from the seed. x must outlive the step. */
int step_new(const struct step_config *config, struct executor *x, struct train_step **out, struct eo_error *err);
void step_free(struct train_step *s);
/* Forward and backward with gradients written, with gradients added to those that are there, or forward alone. */
enum step_pass { STEP_TRAIN, STEP_ACCUMULATE, STEP_EVALUATE, STEP_PASSES };
/* Compiles the plan of a pass over n_rows, with memory for their feeds, so that later calls with this many rows
 * allocate nothing. step_compute and step_evaluate do it themselves when it was not done. Few row counts are kept
 * (STEP_MAX_PLANS of each pass); a full batch and the odd last one of two data sets fit, each in uneven parts. */
enum { STEP_MAX_PLANS = 8, STEP_MAX_METRIC_SUMS = 8, STEP_MAX_SLOTS = OPTIMIZER_MAX_SLOTS + 1 };
int step_prepare(struct train_step *s, int64_t n_rows, enum step_pass pass, struct eo_error *err);
/* What ran where for whom: "relu (cpu: no float16 kernel), ..." of all plans so far; "" = nothing fell back. */
const char *step_fallbacks(const struct train_step *s);

/* Host views used by checkpoints, hashing and collectives. On a host-memory device these are the device buffers
 * themselves; otherwise pinned staging that step_pull/step_push synchronise. */
uint32_t step_n_params(const struct train_step *s);
const struct step_layout_entry *step_layout(const struct train_step *s, uint32_t i);
uint64_t step_flat_bytes(const struct train_step *s); /* of params and of grads, padding included */
void *step_params(struct train_step *s);
void *step_grads(struct train_step *s);
/* The optimizer's slots, then the running average where there is one; NULL beyond. */
void *step_slot(struct train_step *s, int slot);
const char *step_slot_name(const struct train_step *s, int slot); /* "velocity", ..., "ema" */
/* Host view: the parameters become the running average, where there is one; step_push comes after. */
void step_take_average(struct train_step *s);
int step_pull(struct train_step *s, struct eo_error *err);       /* device -> host views */
int step_push(struct train_step *s, struct eo_error *err);       /* host views -> device */
int step_pull_grads(struct train_step *s, struct eo_error *err); /* the gradients alone, for a collective */
int step_push_grads(struct train_step *s, struct eo_error *err);

struct step_feed {
    const void *x;      /* rows of the model's input, n_rows of them, host memory, dtype and row shape of the model */
    const void *y;      /* n_rows targets */
    int64_t n_rows;     /* rows of this rank; may be 0: contributes zeros */
    int64_t n_global;   /* rows of all ranks in this step */
    int64_t row_offset; /* global index of this rank's first row in the step (dropout counters) */
    int64_t step;       /* counter, from 0 */
    bool accumulate;    /* a further part of the same step: gradients are added */
};
struct step_result {
    double loss_sum;                          /* sum of per-sample losses of this rank */
    double metric_sums[STEP_MAX_METRIC_SUMS]; /* per metric its sums over this rank's rows (see metrics.h) */
};
/* Compute phase: forward and backward; gradients end in step_grads. Results are those of the part alone. */
int step_compute(struct train_step *s, const struct step_feed *feed, struct step_result *out, struct eo_error *err);
/* Commit phase: squared L2 norm of the (reduced) gradients, after clip_value; NaN or Inf before it shows up here. */
int step_commit(struct train_step *s, double *out_sum_squares, struct eo_error *err);
/* Update phase: applies the optimizer with gradients multiplied by grad_scale (clipping). t counts updates from 1. */
int step_update(struct train_step *s, double lr, double grad_scale, int64_t t, struct eo_error *err);
/* Forward only, no dropout; loss and metrics as above; out_pred (may be NULL) receives the model's output rows. */
int step_evaluate(struct train_step *s, const struct step_feed *feed, struct step_result *out, void *out_pred,
                  struct eo_error *err);
/* After warm-up a step makes no heap allocation (tests count). */

#endif
