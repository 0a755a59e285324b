/* What memory gives: the time in which as many threads read the operands of a call and write its results, and do
 * nothing else. */
#ifndef EO_BENCH_OPS_LIMIT_H
#define EO_BENCH_OPS_LIMIT_H

#include "bench/ops_cases.h"

struct limit {
    int threads, n_in, n_out;
    const void *in[BENCH_MAX_INPUTS];
    void *out[EO_MAX_OUTPUTS];
    uint64_t in_bytes[BENCH_MAX_INPUTS], out_bytes[EO_MAX_OUTPUTS];
};
/* One pass; streaming: results are written around the cache. Results hold nonsense afterwards. Host memory only. */
void limit_run(const struct limit *l, bool streaming);

#endif
