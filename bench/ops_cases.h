/* The calls that bench_ops, bench_library and peers/torch_ops.py time: one table, so that all of them do the same work.
 */
#ifndef EO_BENCH_OPS_CASES_H
#define EO_BENCH_OPS_CASES_H

#include "proto/op_schema.h"

enum { BENCH_MAX_INPUTS = 8 };

struct bench_text {
    const char *name, *op;
    const char *inputs; /* "float32 4096x1024; int64 32"; no shape: rank 0 */
    const char *attrs;  /* "axis=0 pads=1,1,1,1 layout=nchw" */
};

/* A call read from its text. */
struct bench_case {
    const char *name;
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
    int n_in, n_out;
    struct eo_tensor_desc in[BENCH_MAX_INPUTS], out[EO_MAX_OUTPUTS];
};

int bench_count(void);
const struct bench_text *bench_text_at(int index);
/* BAD_ATTRIBUTE and the like when the table is wrong; UNSUPPORTED when this build has no such row. */
int bench_read(int index, struct bench_case *out, struct eo_error *err);
/* Multiplications and additions; 0 where nobody counts them. */
double bench_flop(const struct bench_case *c);

/* Numbers between 0.5 and 1.5 in floats, 0 and 1 in integers, into host memory. */
void bench_fill(const struct eo_tensor_desc *d, void *to);

/* Times of repeats, in nanoseconds per call. */
enum { BENCH_MAX_REPEATS = 101, BENCH_REPEAT_NS = 1000000 };
struct bench_times {
    int n;
    double ns[BENCH_MAX_REPEATS];
};
void bench_sort(struct bench_times *t);
double bench_median(const struct bench_times *t); /* after bench_sort */
/* One JSON line: case, kernel, threads, us_min, us_median, us_max and, where limit is given, us_limit: its median. */
void bench_print(const struct bench_case *c, const char *kernel, int threads, const struct bench_times *t,
                 const struct bench_times *limit);
/* All cases as JSON lines, for peers. */
void bench_list(void);

#endif
