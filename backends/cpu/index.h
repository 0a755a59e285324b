/* Checks of indices that the families of indexed rows share. */
#ifndef EO_BACKENDS_CPU_INDEX_H
#define EO_BACKENDS_CPU_INDEX_H

#include "proto/base/error.h"

/* BAD_VALUE that names the first of n indices outside low..limit-1. */
int index_check(const int64_t *indices, int64_t n, int64_t low, int64_t limit, struct eo_error *err);
int index_raise(int64_t index, int64_t position, int64_t low, int64_t limit, struct eo_error *err);

#endif
