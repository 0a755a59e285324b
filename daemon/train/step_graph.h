/* The inside of step.c: which memory a step has, and its graphs compiled over it. */
#ifndef EO_DAEMON_TRAIN_STEP_GRAPH_H
#define EO_DAEMON_TRAIN_STEP_GRAPH_H

#include "daemon/train/step.h"

/* Buffer numbers of all plans of a step. */
enum step_buffer {
    STEP_PARAMS,
    STEP_GRADS,
    STEP_SLOTS,                           /* one buffer per slot: the optimizer's, then the running average */
    STEP_X = STEP_SLOTS + STEP_MAX_SLOTS, /* rows of this rank */
    STEP_Y,
    STEP_SCALARS, /* struct step_scalars */
    STEP_RESULTS, /* struct step_results */
    STEP_PRED,    /* the model's output */
    STEP_BUFFERS
};

/* What changes from step to step but never a plan: read by kernels from device memory. */
struct step_scalars {
    int64_t rng[8]; /* EO_RNG_WORDS of them */
    union step_scalar {
        float f32;
        double f64;
    } inv_count;           /* 1 / global batch, in the model's dtype */
    union step_scalar ema; /* what the running average takes of the new parameters, in the model's dtype */
    double unused[6];
    double optimizer[OPTIMIZER_SCALARS];
};

struct step_results {
    double loss_sum;
    double metric_sums[STEP_MAX_METRIC_SUMS];
    double sum_squares;     /* of the gradients */
    double clipped_squares; /* of the gradients after clip_value */
};

struct step_shape {
    const struct model *model;
    const struct step_layout_entry *layout;
    int n_params;
    int64_t flat_elements;
    const struct optimizer_config *optimizer;
    const int *metrics;
    int n_metrics;
    double target_shift;
    double clip_value; /* 0 = none */
    bool ema;
    enum plan_fallback fallback;
};

int step_graph_slots(const struct step_shape *s); /* the optimizer's, and one for the running average */

/* A pass over n_rows; STEP_EVALUATE leaves the output in STEP_PRED. */
int step_graph_compute(const struct step_shape *s, int64_t n_rows, enum step_pass pass, struct eo_device *dev,
                       struct plan **out, struct eo_error *err);
int step_graph_commit(const struct step_shape *s, struct eo_device *dev, struct plan **out, struct eo_error *err);
int step_graph_update(const struct step_shape *s, struct eo_device *dev, struct plan **out, struct eo_error *err);

#endif
