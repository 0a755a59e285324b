/* Checkpoints: one directory each, "step-000000000123", below a folder that belongs to one run.
 *
 *   model.safetensors   parameters by name
 *   state.safetensors   optimizer slots, history, sums of the running epoch; counters and hashes as metadata
 *   manifest.json       what it is, sizes and SHA-256 of the other files
 *
 * Written under a temporary name, each file and the directory fsynced, then renamed: a checkpoint is there completely
 * or not at all. What a crash of the machine may damage all the same, the hashes find. One thread, one run per folder.
 */
#ifndef EO_DAEMON_TRAIN_CHECKPOINT_H
#define EO_DAEMON_TRAIN_CHECKPOINT_H

#include "daemon/jobs/spec.h"
#include "daemon/train/history.h"
#include "daemon/train/step.h"

enum { CHECKPOINT_SUMS = 1 + STEP_MAX_METRIC_SUMS };

/* Where training stands: everything beside tensors that the next step depends on. */
struct checkpoint_position {
    int64_t step;                 /* steps done, skipped ones too: dropout's counter */
    int64_t updates;              /* updates applied: the optimizer's t */
    int64_t epoch;                /* epochs done */
    int64_t batch;                /* steps done in the running epoch */
    int64_t rows;                 /* rows seen in the running epoch by all ranks */
    double sums[CHECKPOINT_SUMS]; /* loss and metric sums over those rows */
    struct schedule_state schedule;
    double watched_best; /* early stopping: the best value, of epoch best_epoch (0: none yet) */
    int64_t best_epoch;
};

/* Whose it is. A checkpoint fits when state_hash and data are equal; another fingerprint is reported. */
struct checkpoint_identity {
    const struct job_spec *spec;
    const char *data_sha256;
    const char *fingerprint; /* device, kernels, threads: equal ones give equal bits */
    int world_size;
};

typedef void (*checkpoint_log_fn)(void *ctx, const char *text);

/* Writes the step's host views (step_pull comes first) and removes what is beyond the newest `keep`, but never the
 * newest one whose numbers are all finite. out_path: its directory. Errors: CANNOT_CREATE, DISK_FULL, IO, NO_MEMORY. */
int checkpoint_save(const char *folder, struct train_step *s, const struct checkpoint_identity *id,
                    const struct checkpoint_position *at, const struct history *h, int keep, char *out_path,
                    size_t path_size, struct eo_error *err);

/* Reads one directory into the host views (step_push comes after), position and history; everything is verified before
 * anything is changed. log: told when the fingerprint differs. Errors: BAD_CHECKPOINT, NO_FILE, IO, NO_MEMORY. */
int checkpoint_load(const char *path, struct train_step *s, const struct checkpoint_identity *id,
                    struct checkpoint_position *at, struct history *h, checkpoint_log_fn log, void *ctx,
                    struct eo_error *err);
/* The newest one in folder that loads; damaged ones are told to log and skipped, those of another job are an error.
 * *out_found is false when there is none. */
int checkpoint_load_newest(const char *folder, struct train_step *s, const struct checkpoint_identity *id,
                           struct checkpoint_position *at, struct history *h, bool *out_found, char *out_path,
                           size_t path_size, checkpoint_log_fn log, void *ctx, struct eo_error *err);
bool checkpoint_is_one(const char *path); /* has a checkpoint's manifest */

#endif
