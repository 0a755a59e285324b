/* Kernels of the reference backend: one function per primitive row of ops.def, complete for every dtype that the row
 * admits. A row without its function does not link. Composite rows are their lowering (daemon/engine/lower/). */
#ifndef EO_BACKENDS_REFERENCE_REFERENCE_H
#define EO_BACKENDS_REFERENCE_REFERENCE_H

#include "backends/backend.h"

extern const struct eo_backend reference_backend;

#define PRIMITIVE(name) int reference_##name(const struct eo_launch *l, struct eo_error *err);
#define LOWERED(name)
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...) lower(name)
#include "proto/tables/ops.def"
#undef PRIMITIVE
#undef LOWERED

#endif
