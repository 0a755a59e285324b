/* Training data in memory: files read and checked, rows set aside for validation and test, values scaled, batches
 * gathered.
 *
 * Images of bytes stay bytes until a batch is gathered; everything else is scaled when it is read. Scaling is fitted to
 * the training rows alone. Which rows are set aside and in which order the others come depends on the seed (and the
 * epoch) alone, never on ranks, threads or time. Read-only after data_load; belongs to one thread. */
#ifndef EO_DAEMON_TRAIN_DATA_H
#define EO_DAEMON_TRAIN_DATA_H

#include "daemon/jobs/spec.h"

enum { DATA_PARTS = 3 };
enum data_part_kind { DATA_TRAIN, DATA_VALIDATION, DATA_TEST };

/* The rows of one CSV file, or of one pair of IDX files. */
struct data_rows {
    int64_t n;
    struct eo_tensor_desc row; /* of one row, without the batch dimension; uint8, or the model's dtype when scaled */
    void *x;                   /* n rows, C order */
    void *y;                   /* n targets: int64 classes, or the model's dtype */
    char name[1024];           /* of the file with the targets, for messages */
    int64_t first_line;        /* of row 0 in a CSV file; 0: IDX */
};

/* x' = (x - mean) / deviation per feature, or x / divide; the same for a regression's target. */
struct data_scale {
    double divide;                        /* 1 = none */
    double *mean, *deviation;             /* per feature; NULL = none */
    double target_mean, target_deviation; /* 0 and 1 = none */
};

struct data_part {
    const struct data_rows *rows; /* NULL: this part does not exist */
    int64_t *index;               /* which of them, ascending */
    int64_t n;
};

struct data {
    struct data_rows files[DATA_PARTS]; /* as many as differ */
    int n_files;
    struct data_part part[DATA_PARTS];
    struct data_scale scale;
    int64_t features;             /* elements of one row */
    double target_shift;          /* mean of the stored targets of the training rows: see metric_build */
    enum eo_dtype dtype;          /* of gathered rows */
    struct eo_tensor_desc target; /* of one gathered target, without the batch dimension */
    char sha256[65];              /* of everything above that decides a run: rows, targets, parts */
    float byte_value32[256];      /* what each byte of an image means after `divide` */
};

struct data_open {
    void *ctx; /* as trainer_callbacks.open_data; NULL function: the path as it stands */
    int (*open)(void *ctx, const struct spec_file *file, char *out_path, size_t size, struct eo_error *err);
};

/* Reads all files of the spec. Sets the model's input to what they hold and checks the model again (model_check), then
 * the targets against it. limit_bytes bounds the memory of each file. On success data_fini frees it.
 * Errors: NO_FILE, BAD_FILE (with file, line, column), BAD_SPEC (shapes), TOO_LARGE, NO_MEMORY, IO. */
int data_load(const struct job_spec *spec, const struct data_open *open, uint64_t limit_bytes, struct data *out,
              struct eo_error *err);
void data_fini(struct data *d);

/* Order of the training rows in an epoch: a permutation of 0..n-1 (the identity when shuffle is off). */
void data_order(const struct job_spec *spec, int64_t epoch, int64_t n, int64_t *out);
/* Copies rows part->index[order[0..n-1]] (order NULL: first, first + 1, ...) to x and y, scaled. Allocates nothing. */
void data_gather(const struct data *d, const struct data_part *part, const int64_t *order, int64_t first, int64_t n,
                 void *x, void *y);

#endif
