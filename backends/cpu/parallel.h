/* The one thread pool of the process. Only the executor's thread calls parallel_for; OpenBLAS uses the same pool (its
 * OpenMP build is demanded by blas.c). Builds without OpenMP run everything on the calling thread. */
#ifndef EO_BACKENDS_CPU_PARALLEL_H
#define EO_BACKENDS_CPU_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Work of one call in units of about 0.15 ns (a float32 addition on cached memory). A thread is worth waking for
 * PARALLEL_WORTH units (some 20 us): starting and joining it costs about 2 us. */
enum { PARALLEL_WORTH = 1 << 17 };

/* Items per block, so that one block is worth a thread. Depends on the work alone. */
int64_t parallel_grain(int64_t cost_per_item);

/* Does the items begin..end-1; thread is 0..threads-1 and names the caller's scratch memory. */
typedef void (*parallel_body)(void *context, int64_t begin, int64_t end, int thread);

/* Splits 0..n-1 into contiguous ranges of whole blocks (block i starts at i * grain), one range per thread; one thread
 * when there is one block only. Block boundaries do not depend on the number of threads: a body whose result depends on
 * nothing but its blocks gives equal bits for any number. Bodies must not call parallel_for. */
void parallel_for(int threads, int64_t n, int64_t grain, parallel_body body, void *context);

/* Threads of the parallel regions that libraries open on the calling thread. */
void parallel_set_threads(int threads);
bool parallel_is_compiled(void); /* false: this build runs serially */

#endif
