/* Learning rate schedules: rows of schedules.def. The rate of an update is the optimizer's lr times the factors of all
 * schedules of the job; it is a pure function of the step's number, the run's length and, for plateau, of its state,
 * with bits that do not depend on the C library: every rank works out the same rate. */
#ifndef EO_DAEMON_TRAIN_SCHEDULE_H
#define EO_DAEMON_TRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_kind {
#define SCHEDULE(name, NAME, ...) SCHEDULE_##NAME,
#include "daemon/train/schedules.def"
    SCHEDULE_COUNT
};

enum { SCHEDULE_MAX_PARAMS = 5, SCHEDULE_MAX = 4 /* of one job */ };

struct schedule_config {
    enum schedule_kind kind;
    double values[SCHEDULE_MAX_PARAMS]; /* in the order of the row */
};

struct schedule_param {
    const char *name, *help, *range; /* range: min and max in words */
    double fallback, min, max;
};

int schedule_count(void);
const char *schedule_name(enum schedule_kind kind);
const char *schedule_summary(enum schedule_kind kind);
int schedule_n_params(enum schedule_kind kind);
const struct schedule_param *schedule_param(enum schedule_kind kind, int i); /* NULL beyond the last */
void schedule_default(enum schedule_kind kind, struct schedule_config *out);

/* Where the run stands: update `step` (from 0) of `steps`, of which an epoch has steps_per_epoch (above 0). */
struct schedule_time {
    int64_t step, steps, steps_per_epoch;
};

/* What plateau remembers; belongs to the state of the run. */
struct schedule_state {
    double factor; /* of lr; 0 = nothing seen yet, counts as 1 */
    double best;
    int64_t bad, cooldown; /* epochs */
};

/* The factor of lr for this update: the product over all n schedules. */
double schedule_factor(const struct schedule_config *list, int n, const struct schedule_time *time,
                       const struct schedule_state *state);
/* Tells plateau the watched loss at the end of an epoch (NaN counts as no improvement). */
void schedule_observe(const struct schedule_config *list, int n, double loss, struct schedule_state *state);

#endif
