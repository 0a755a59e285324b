/* The inside of data.c: files as they come, before anything is scaled. */
#ifndef EO_DAEMON_TRAIN_DATA_READ_H
#define EO_DAEMON_TRAIN_DATA_READ_H

#include "daemon/train/data.h"

/* What a file holds. Either bytes, or values of float64. */
struct data_raw {
    int64_t n;
    struct eo_tensor_desc row; /* uint8 or float64 */
    uint8_t *bytes;
    double *values;
    double *targets; /* n */
    char name[1024];
    int64_t first_line;
};

int data_read(const struct job_spec *spec, const struct spec_source *source, const struct data_open *open,
              uint64_t limit_bytes, struct data_raw *out, struct eo_error *err);
void data_raw_fini(struct data_raw *r);
/* BAD_FILE at the target of row r: "digits.csv:17: target 11 ..." */
int data_bad_target(const struct data_raw *raw, int64_t r, struct eo_error *err, const char *fmt, ...) EO_PRINTF(4, 5);

#endif
