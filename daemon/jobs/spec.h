/* The job file (design section 10), parsed from YAML with positions and checked completely before anything starts.
 * Every message names file, line, column, the value and the nearest valid choice. */
#ifndef EO_DAEMON_JOBS_SPEC_H
#define EO_DAEMON_JOBS_SPEC_H

#include "daemon/nn/model.h"
#include "daemon/train/optimizer.h"
#include "daemon/train/schedule.h"

enum { SPEC_MAX_FILES = 16, SPEC_MAX_BYTES = 1 << 20, SPEC_MAX_METRICS = 4 };

/* A data file the job names. The client resolves the path against the job file, hashes and uploads it; the daemon knows
 * it by sha256. Where only the daemon has it (allow-listed directories), sha256 is empty and path is absolute. */
struct spec_file {
    char path[1024]; /* as written, or absolute after resolution */
    char sha256[65];
    uint64_t size;
};

enum spec_source_kind { SOURCE_NONE, SOURCE_CSV, SOURCE_IDX, SOURCE_SPLIT };
struct spec_source {
    enum spec_source_kind kind;
    int file, labels; /* indices into files; labels -1 for csv */
    char target[64];  /* csv: header name or 0-based index as text; "" = last column */
    double split;     /* SOURCE_SPLIT: fraction taken from train */
    bool stratified;
    int line, column;
};

enum spec_finite { FINITE_STOP, FINITE_SKIP, FINITE_IGNORE };
enum spec_on_failure { ON_FAILURE_FAIL, ON_FAILURE_RESTART };

/* Ends training when a reported value has not improved for `patience` epochs. */
struct spec_early_stopping {
    int64_t patience; /* 0 = off */
    char metric[32];  /* "val_loss", "accuracy", ... */
    bool validation;  /* a value of the validation data, else of the training data */
    int value;        /* 0 = loss, i = metric i - 1 */
    double min_delta; /* an improvement is larger than this */
    bool restore_best;
};

struct job_spec {
    char name[64];
    struct model *model; /* owned */
    struct optimizer_config optimizer;
    struct schedule_config schedules[SCHEDULE_MAX];
    int n_schedules;
    struct spec_early_stopping early;
    int metrics[SPEC_MAX_METRICS]; /* enum metric_kind, train/metrics.h */
    int n_metrics;
    struct spec_file files[SPEC_MAX_FILES];
    int n_files;
    struct spec_source train, validation, test;
    double scale_divide;     /* 0 = none */
    bool standardize;        /* features: minus the training rows' mean, divided by their standard deviation */
    bool standardize_target; /* the same for the target of a regression; metrics stay in its own units */
    int64_t batch;
    bool shuffle;      /* default true */
    int64_t epochs;    /* 0 = as many as max_steps takes */
    int64_t max_steps; /* 0 = by epochs */
    uint64_t seed;
    double clip_norm;                /* 0 = none */
    double clip_value;               /* 0 = none */
    int64_t accumulate;              /* parts that a batch is computed in; 1 = at once */
    double ema;                      /* decay of the running average of the parameters; 0 = none */
    int64_t checkpoint_every_epochs; /* 0 = at the end only */
    int checkpoint_keep;             /* default 2 */
    char device[32];                 /* "auto", "cpu", "reference", ... */
    char fallback[8];                /* "strict" or "report" */
    int threads;                     /* 0 = default */
    uint64_t time_limit_ms;          /* 0 = none */
    enum spec_on_failure on_failure;
    enum spec_finite finite;
    char hosts[8][300]; /* endpoints; empty = where it was submitted */
    int n_hosts;
    struct eo_bytes canonical; /* the spec with defaults and overrides applied, as YAML: what is stored and hashed */
    char hash[65];             /* SHA-256 of canonical */
    /* SHA-256 of what decides how parameters change from step to step: model, loss, metrics, optimizer, data handling,
     * seed, clipping. A checkpoint fits every job with this hash, whatever its name, number of epochs, hosts, device.
     */
    char state_hash[65];
};

/* text: the job file; file_name for messages and to resolve relative paths (the caller resolves); overrides:
 * "key.path=value" of --set. On success *out is owned by the caller (spec_free). Errors: BAD_SPEC (with position),
 * TOO_LARGE. */
int spec_parse(const char *text, size_t size, const char *file_name, const char *const *overrides, int n_overrides,
               struct job_spec **out, struct eo_error *err);
void spec_free(struct job_spec *s);

#endif
