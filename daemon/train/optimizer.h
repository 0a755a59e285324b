/* Optimizers: rows of optimizers.def (name, hyper-parameters with defaults and ranges, number of state slots, update
 * op). */
#ifndef EO_DAEMON_TRAIN_OPTIMIZER_H
#define EO_DAEMON_TRAIN_OPTIMIZER_H

#include "proto/graph_build.h"

enum optimizer_kind {
#define OPTIMIZER(name, NAME, ...) OPTIMIZER_##NAME,
#include "daemon/train/optimizers.def"
    OPTIMIZER_COUNT
};

struct optimizer_config {
    enum optimizer_kind kind;
    double lr, momentum, weight_decay, beta1, beta2, eps, alpha, lr_decay, initial;
    bool nesterov, amsgrad, centered;
};

struct optimizer_param {
    const char *name; /* key in the job file: "lr", "betas", ... */
    const char *help;
    double fallback, min, max;
    bool is_bool;
    bool is_pair;      /* betas: [b1, b2] */
    double fallback2;  /* of a pair's second number */
    const char *range; /* min and max in words: "above 0" */
    size_t offset;     /* of its field in optimizer_config; a pair has two neighbours */
};

int optimizer_count(void);
const char *optimizer_name(enum optimizer_kind kind);
const char *optimizer_summary(enum optimizer_kind kind);
int optimizer_find(const char *name); /* -1 when unknown */
int optimizer_n_params(enum optimizer_kind kind);
const struct optimizer_param *optimizer_param(enum optimizer_kind kind, int i);
void optimizer_default(enum optimizer_kind kind, struct optimizer_config *out);
/* Stores a value that is in range: values[1] counts for pairs only, flags take 0 and 1. */
void optimizer_set(struct optimizer_config *c, const struct optimizer_param *p, const double values[2]);
/* What a pair of parameters must not be together. BAD_SPEC names both. */
int optimizer_check(const struct optimizer_config *c, struct eo_error *err);
/* "velocity", "m", ...: what slot i is called in checkpoints. */
const char *optimizer_slot_name(const struct optimizer_config *c, int slot);
int optimizer_slots(const struct optimizer_config *c); /* flat state tensors */

/* Emits the update over flat vectors; returns the new param value and fills new slots. scalars: float64 vector input
 * laid out as the update op demands; optimizer_scalars fills its host image for update number t (from 1). */
enum { OPTIMIZER_MAX_SLOTS = 3, OPTIMIZER_SCALARS = 8 };
eo_value optimizer_build(const struct optimizer_config *c, struct eo_builder *b, eo_value param, eo_value grad,
                         const eo_value *slots, eo_value scalars, eo_value *out_slots);
void optimizer_scalars(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                       double out[OPTIMIZER_SCALARS]);

#endif
