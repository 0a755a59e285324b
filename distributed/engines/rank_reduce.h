/* The arithmetic of a collective: n arrays, one per rank, become one.
 *
 * Elements are combined in rank order, in[0] op in[1] op ... in[n-1], with one rounding per addition in the element's
 * own type; float16 and bfloat16 are accumulated in float32 and rounded once, at the end. Integers wrap. min and max
 * give NaN when any operand is NaN and keep the first of two zeros. Every NaN of the result is the canonical one, so
 * equal inputs give equal bits for every compiler, vector width and position in the array. */
#ifndef EO_DISTRIBUTED_ENGINES_RANK_REDUCE_H
#define EO_DISTRIBUTED_ENGINES_RANK_REDUCE_H

#include "distributed/collective.h"

/* out may be one of the inputs; n >= 2; pointers are aligned to the element. */
typedef void (*rank_reduce_fn)(void *out, const void *const *in, int n, size_t count);

/* NULL when there is no kernel for this dtype. */
rank_reduce_fn rank_reduce_find(enum eo_dtype dtype, enum collective_reduce reduce);

#endif
