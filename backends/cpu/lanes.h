/* One run of elements that indices move: the inner loops of gather_elements, scatter_elements, gather_nd, scatter_nd.
 */
#ifndef EO_BACKENDS_CPU_LANES_H
#define EO_BACKENDS_CPU_LANES_H

#include "proto/dtype.h"

/* Element j of a lane is x[at * stride + j * step], at = indices[j] counted from the end when negative. */
struct lane {
    int64_t axis, stride, step;
};
/* Gathers: y[j] = element j. Scatters: element j is combined with y[j], j rising. indices NULL: at is 0. In range. */
typedef void (*lane_fn)(const struct lane *g, int64_t n, void *x, void *y, const int64_t *indices);

lane_fn lane_gather(enum eo_dtype dtype);
lane_fn lane_scatter(enum eo_dtype dtype, int64_t reduction); /* enum eo_scatter_reduction; NULL: no such loop */

#endif
