/* Whole training runs for tests: a job file as text, data files in a temporary folder, what came out. */
#ifndef EO_TESTS_TRAIN_RUN_H
#define EO_TESTS_TRAIN_RUN_H

#include "daemon/train/trainer.h"
#include "tests/support/suite.h"

struct run {
    char folder[64];         /* temporary; data files and output go here */
    const char *device;      /* default "cpu" */
    const char *resume;      /* as trainer_config.resume_dir */
    const char *data_folder; /* where relative data paths start; NULL: folder */
    struct process_group *group;
    const char *output; /* below folder; default "out" */
    _Atomic int stop;
    int64_t stop_at_step; /* sets stop to stop_with when a report shows this step; 0: never */
    int stop_with;
    int tell_fd; /* gets a byte at the end of each epoch; 0: none */
    int n_reports, n_epoch_ends, n_warnings;
    char warnings[2000];
    struct trainer_progress last;
    struct trainer_result result;
};

void run_init(struct run *r);
void run_fini(struct run *r);
void run_write(struct run *r, const char *name, const char *text);
char *run_path(const struct run *r, const char *name, char *out); /* out: 512 bytes; returns it */
/* overrides end with NULL and may be NULL. The error of trainer_run. */
int run_job(struct run *r, const char *job, const char *const *overrides, struct eo_error *err);
/* The whole file, NUL behind it; the test fails when it is not there. free() it. */
char *run_read(const struct run *r, const char *name, size_t *out_size);
double run_metric(const struct run *r, const char *name); /* of the result; fails when there is none */

/* A job on 3 classes in 4 features that any optimizer learns; run_blobs writes its blobs.csv. */
extern const char run_blobs_job[];
void run_blobs(struct run *r, int n_rows);

#endif
