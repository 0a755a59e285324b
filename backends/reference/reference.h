/* Kernels of the reference backend: one function per row of ops.def, complete for every dtype that the row admits.
 * A row without its function does not link. */
#ifndef EO_BACKENDS_REFERENCE_REFERENCE_H
#define EO_BACKENDS_REFERENCE_REFERENCE_H

#include "backends/backend.h"

extern const struct eo_backend reference_backend;

#define EO_OP(name, NAME, ...) int reference_##name(const struct eo_launch *l, struct eo_error *err);
#include "proto/tables/ops.def"

#endif
