#include "backends/cpu/parallel.h"

#ifdef EO_HAVE_OPENMP
#include <omp.h>
#endif

int64_t parallel_grain(int64_t cost_per_item)
{
    if (cost_per_item < 1)
        cost_per_item = 1;
    int64_t grain = PARALLEL_WORTH / cost_per_item;
    return grain < 1 ? 1 : grain;
}

#ifdef EO_HAVE_OPENMP
/* Range of thread t of `threads`, in whole blocks. */
static void run_range(int64_t n, int64_t grain, int64_t n_blocks, int t, int threads, parallel_body body, void *context)
{
    int64_t first = n_blocks / threads * t + n_blocks % threads * t / threads;
    int64_t last = n_blocks / threads * (t + 1) + n_blocks % threads * (t + 1) / threads;
    int64_t begin = first * grain, end = last == n_blocks ? n : last * grain;
    if (begin < end)
        body(context, begin, end, t);
}
#endif

void parallel_for(int threads, int64_t n, int64_t grain, parallel_body body, void *context)
{
    if (n <= 0)
        return;
#ifdef EO_HAVE_OPENMP
    int64_t n_blocks = (n - 1) / grain + 1;
    if (n_blocks < threads)
        threads = (int)n_blocks;
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        run_range(n, grain, n_blocks, omp_get_thread_num(), omp_get_num_threads(), body, context);
        return;
    }
#else
    (void)threads;
    (void)grain;
#endif
    body(context, 0, n, 0);
}

void parallel_set_threads(int threads)
{
#ifdef EO_HAVE_OPENMP
    omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}

bool parallel_is_compiled(void)
{
#ifdef EO_HAVE_OPENMP
    return true;
#else
    return false;
#endif
}
