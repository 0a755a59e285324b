/* The inside of trainer.c: what its files share. */
#ifndef EO_DAEMON_TRAIN_TRAINER_STATE_H
#define EO_DAEMON_TRAIN_TRAINER_STATE_H

#include "daemon/train/checkpoint.h"
#include "daemon/train/data.h"
#include "daemon/train/metrics.h"
#include "daemon/train/trainer.h"

#include <limits.h>

enum { TRAINER_VALUES = 1 + SPEC_MAX_METRICS }; /* loss and metrics of one data set */
enum trainer_stop { STOP_NONE, STOP_CANCEL, STOP_DRAIN, STOP_TIME_LIMIT };

struct trainer {
    const struct trainer_config *config;
    const struct job_spec *spec;
    int rank, world;
    struct data data;
    struct train_step *step;
    int n_sums; /* of loss and metrics together */

    int64_t batch, eval_batch;      /* rows of all ranks */
    int64_t steps_per_epoch, steps; /* steps: where training ends */
    int64_t *order;                 /* of the running epoch */
    int64_t order_epoch;            /* which one that is; -1: none yet */
    void *x, *y;                    /* one rank's rows, gathered; 64-byte aligned */

    struct checkpoint_position at;
    struct checkpoint_identity identity;
    char fingerprint[320];
    struct history history;
    int64_t skipped;                           /* steps without an update, by `finite: skip` */
    int64_t saved_step;                        /* of the newest checkpoint of this run; -1: none */
    double values[DATA_PARTS][TRAINER_VALUES]; /* newest ones; valid where has_values says so */
    bool has_values[DATA_PARTS];

    uint64_t started_ns, reported_ns;
    int64_t started_step, reported_rows, rows_done; /* rows_done: in this run, by all ranks */
    uint64_t epoch_ns;                              /* when this run's part of the epoch began */
    int64_t epoch_rows;                             /* rows_done then */
    double lr;                                      /* of the newest update; before the first: of that one */
    double epoch_rate;                              /* rows per second of the epoch that ended, evaluation left out */
    struct trainer_progress progress;
};

/* ---- trainer_epoch.c ---- */

/* The learning rate of the next update. */
double trainer_rate(const struct trainer *t);
/* One training step of all ranks, vote and update included. */
int trainer_step(struct trainer *t, enum trainer_stop *out_stop, struct eo_error *err);
/* Loss and metrics over one part into t->values. */
int trainer_evaluate(struct trainer *t, enum data_part_kind part, struct eo_error *err);
/* Values of the epoch so far from its sums. */
void trainer_running_values(struct trainer *t);
/* This rank's share [*out_first, *out_first + n) of n_global rows: contiguous, uneven where it must be; returns n. */
int64_t trainer_share(const struct trainer *t, int64_t n_global, int64_t *out_first);
/* Part 0..accumulate-1 of this rank's rows, [*out_first, *out_first + n); returns n, which may be 0. */
int64_t trainer_part(const struct trainer *t, int64_t rows, int64_t part, int64_t *out_first);

/* ---- trainer_report.c ---- */

void trainer_log(struct trainer *t, int level, const char *fmt, ...) EO_PRINTF(3, 4);
void trainer_report(struct trainer *t, bool epoch_end, const char *checkpoint);
/* "loss", "val_accuracy", ...: value i of a part. */
void trainer_value_name(const struct trainer *t, enum data_part_kind part, int i, char out[24]);
int trainer_n_values(const struct trainer *t);
/* All values that there are, in the order of parts. */
int trainer_metrics(const struct trainer *t, struct trainer_metric *out);
int trainer_record(struct trainer *t, int64_t epoch, struct eo_error *err); /* a row of the history */
void trainer_recall(struct trainer *t, int64_t row); /* the newest values from a row of the history, if it is there */
/* model.safetensors, manifest.json, history.csv, run.json. The step's host views are up to date. */
int trainer_write_output(struct trainer *t, const struct trainer_result *result, struct eo_error *err);

#endif
