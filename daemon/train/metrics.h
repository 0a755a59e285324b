/* Metrics: rows of metrics.def. A metric is streamed as sums of float64 that batches and ranks add up, so that nothing
 * is kept and every rank count gives the same value. Pure functions; thread-safe. */
#ifndef EO_DAEMON_TRAIN_METRICS_H
#define EO_DAEMON_TRAIN_METRICS_H

#include "daemon/nn/model.h"

enum metric_kind {
#define METRIC(name, NAME, ...) METRIC_##NAME,
#include "daemon/train/metrics.def"
    METRIC_COUNT
};

enum { METRIC_MAX_SUMS = 3 };

const char *metric_name(enum metric_kind kind);
const char *metric_summary(enum metric_kind kind);
int metric_find(const char *name); /* -1 */
int metric_n_sums(enum metric_kind kind);
bool metric_higher_is_better(enum metric_kind kind);
bool metric_fits(enum metric_kind kind, enum loss_kind loss);

/* Emits the sums of one batch, each a 0-dim float64. target_shift: a value near the targets' mean; sums of squares are
 * taken around it, so that r2 does not cancel. */
void metric_build(enum metric_kind kind, struct eo_builder *b, eo_value output, eo_value targets, double target_shift,
                  eo_value *out_sums);

struct metric_scale {
    int64_t n_rows;       /* that the sums went over; 0 gives NaN */
    int64_t row_elements; /* of the output */
    double target_unit;   /* standard deviation that the targets were divided by; 1 = none */
};
double metric_value(enum metric_kind kind, const double *sums, const struct metric_scale *scale);

#endif
