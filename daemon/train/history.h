/* What an epoch ended with, one row per epoch: kept in checkpoints bit for bit, written as history.csv. */
#ifndef EO_DAEMON_TRAIN_HISTORY_H
#define EO_DAEMON_TRAIN_HISTORY_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

enum { HISTORY_MAX_COLUMNS = 16 };

struct history {
    int n_columns;
    char columns[HISTORY_MAX_COLUMNS][24]; /* "epoch", "step", "lr", "loss", ... */
    int64_t n_rows, capacity;
    double *values; /* n_rows x n_columns; owned */
};

void history_init(struct history *h);
void history_fini(struct history *h);
void history_column(struct history *h, const char *name); /* before the first row; too many are a bug and dropped */
int history_add(struct history *h, const double *values, struct eo_error *err);
/* header line and one line per row; numbers in the shortest form that reads back equal */
void history_csv(const struct history *h, struct eo_bytes *out);

#endif
