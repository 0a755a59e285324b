/* Which of the compiled instruction sets runs. */
#ifndef EO_BACKENDS_CPU_ISA_H
#define EO_BACKENDS_CPU_ISA_H

#include "backends/cpu/vector/vector.h"
#include "proto/base/error.h"

int isa_count(void); /* instruction sets compiled in, smallest first */
const struct vector_set *isa_at(int index);
bool isa_runs_here(int index); /* asks the processor */
/* The largest one that runs here, or the one that EVERYO_CPU_ISA names. Raises NO_DEVICE for a name that is not
 * compiled in or does not run here. */
int isa_choose(const struct vector_set **out, struct eo_error *err);

#endif
