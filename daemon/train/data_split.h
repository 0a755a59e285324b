/* Which rows of the training file are set aside. Pure function of its arguments. */
#ifndef EO_DAEMON_TRAIN_DATA_SPLIT_H
#define EO_DAEMON_TRAIN_DATA_SPLIT_H

#include "proto/base/error.h"

/* One part: a share of all rows, overall or of each class. */
struct data_share {
    double fraction; /* 0: nothing */
    bool stratified;
};

/* out[r] becomes 0 (training) or 1 + the index of the share that row r belongs to. The rows of a part are those that
 * come first in a permutation drawn from seed; a part has round(fraction * n) rows, at least 1, and at least one row
 * stays for training; stratified parts have that many of each class, as far as the class has them. classes:
 * 0..n_classes-1 per row. Errors: BAD_FILE (too few rows for a part), NO_MEMORY. */
int data_split(int64_t n, const int32_t *classes, int n_classes, const struct data_share *shares, int n_shares,
               uint64_t seed, uint8_t *out, struct eo_error *err);

/* A permutation of 0..n-1, a pure function of seed, step and stream (Fisher and Yates, Philox): every order is equally
 * likely but for a bias below 2^-32. */
void data_permutation(int64_t n, uint64_t seed, int64_t step, uint32_t stream, int64_t *out);

#endif
