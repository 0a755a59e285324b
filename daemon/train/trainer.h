/* The trainer: epochs over data with a step, validation, checkpoints, progress, cancel, data parallelism.
 * Runs in a worker's executor thread. Knows nothing of sockets: events go out through callbacks, gradients through the
 * collective it is given (NULL for one rank). */
#ifndef EO_DAEMON_TRAIN_TRAINER_H
#define EO_DAEMON_TRAIN_TRAINER_H

#include "daemon/engine/executor.h"
#include "daemon/jobs/spec.h"

#include <stdatomic.h>

struct process_group; /* distributed/process_group.h */

enum { TRAINER_MAX_METRICS = 16 /* loss and 4 metrics, of training, validation and test */ };
struct trainer_metric {
    char name[24]; /* "loss", "accuracy", "val_loss", ... */
    double value;
};

/* A report after each epoch and, throttled to one per 100 ms, inside one. */
struct trainer_progress {
    int64_t epoch, epochs; /* epoch counts from 1 */
    int64_t step, steps;   /* in all */
    int64_t epoch_step, epoch_steps;
    bool epoch_end;
    double samples_per_second, seconds, eta_seconds; /* eta < 0: unknown */
    double lr;
    int n_metrics;
    struct trainer_metric metrics[TRAINER_MAX_METRICS];
    char checkpoint[300]; /* path, when one was just written */
};

struct trainer_callbacks {
    void *ctx;
    void (*progress)(void *ctx, const struct trainer_progress *p);
    void (*log)(void *ctx, int level, const char *text); /* one line */
    /* Data by content: returns a readable local path for a data file of the spec (worker asks its daemon). */
    int (*open_data)(void *ctx, const struct spec_file *file, char *out_path, size_t size, struct eo_error *err);
};

struct trainer_config {
    const struct job_spec *spec;
    struct executor *executor;
    struct process_group *group; /* NULL: one rank */
    const char *output_dir;      /* model.safetensors, manifest.json, history.csv, run.json, checkpoints/ */
    const char *resume_dir;    /* a checkpoint directory to go on from; "" = none; "auto": newest valid in output_dir */
    const _Atomic int *stop;   /* 0 run, 1 cancel with a checkpoint, 2 drain with a checkpoint; NULL: nobody asks */
    uint64_t data_limit_bytes; /* memory for one data file; 0 = TRAINER_DATA_LIMIT */
    struct trainer_callbacks callbacks;
};

struct trainer_result {
    int64_t steps, epochs;
    double seconds;
    int n_metrics;
    struct trainer_metric metrics[TRAINER_MAX_METRICS]; /* last epoch's, test metrics as test_* */
    char parameters_sha256[65];
    bool stopped; /* by *stop: state is in the newest checkpoint */
};

#define TRAINER_DATA_LIMIT ((uint64_t)16 << 30)

/* Trains to the end, or until *stop; with a group all ranks call it with equal specs. Rank 0 alone writes the output
 * directory, and its checkpoint is what all go on from. On an error the group is aborted. stop 1 and 2 both end with a
 * checkpoint, the files of the output directory and EO_OK (stopped is set).
 * Errors: those of data_load, plan_compile and checkpoints; NON_FINITE, TIME_LIMIT (after a checkpoint), PEER_LOST,
 * PEER_TIMEOUT, DIVERGED, COLLECTIVE_MISMATCH. */
int trainer_run(const struct trainer_config *config, struct trainer_result *out, struct eo_error *err);
/* What all ranks must agree on before they open a group: names, dtypes and shapes of the parameters, and the spec. */
int trainer_layout_hash(const struct job_spec *spec, uint8_t out[32], struct eo_error *err);

#endif
