/* Copies between two strided views of one shape: transposes, slices, concatenations and expansions are all such copies.
 */
#ifndef EO_BACKENDS_CPU_STRIDED_H
#define EO_BACKENDS_CPU_STRIDED_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/space.h"

/* Operand 0 of the space is the source, operand 1 the destination. */
struct strided {
    struct space space;
    int64_t src_first, dst_first; /* elements */
    size_t size;                  /* bytes of an element */
    int tile_dim; /* >= 0: the source is contiguous along this dimension, the destination along the last */
};

void strided_init(struct strided *s, const int64_t *shape, int n_dims, const int64_t *src_stride, int64_t src_first,
                  const int64_t *dst_stride, int64_t dst_first, size_t size);
void strided_run(const struct cpu_device *dev, const struct strided *s, void *dst, const void *src);
bool strided_is_plain(const struct strided *s); /* one block of memory onto another */

#endif
