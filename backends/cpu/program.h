/* Element-wise programs: one row, or a fused chain, turned into calls of vector loops over blocks that stay in the
 * first-level cache. Made once per node, run many times. */
#ifndef EO_BACKENDS_CPU_PROGRAM_H
#define EO_BACKENDS_CPU_PROGRAM_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/space.h"

enum {
    PROGRAM_REGISTERS = EO_FUSED_MAX_INPUTS + EO_FUSED_MAX_STEPS,
    PROGRAM_BLOCK_BYTES = 24 << 10, /* of scratch registers together, per thread: most of a first-level cache */
    PROGRAM_MAX_BLOCK = 1024,       /* elements */
    PROGRAM_MIN_BLOCK = 128,
    PROGRAM_AROUND_FROM = 8 << 20, /* bytes of a result that is written around the caches */
    PROGRAM_ROW = 128 /* rows at least this long are worked on one by one, shorter ones are packed into blocks */
};

struct program_step {
    vector_map_fn run;
    struct vector_args args;
    uint8_t n_in, in[3]; /* registers */
    uint8_t size;        /* bytes of an element of the result */
    uint8_t dtype;       /* of the result */
    int8_t output;       /* number of the output that it writes, -1: a scratch register */
    uint8_t slot;        /* scratch register of a step that writes no output, or one element only */
    uint8_t scalars;     /* bit i: operand i is one element */
    bool is_one;         /* all operands are: the result is one element, spread when it is an output */
};

/* How an input lies under the iteration space. */
enum program_access {
    PROGRAM_DENSE, /* like the result */
    PROGRAM_ONE,   /* one element for all */
    PROGRAM_VARIED /* broadcast along some dimensions */
};
struct program_input {
    enum program_access access;
    uint8_t size, dtype;
    bool is_one;  /* one element for the whole inner loop */
    uint8_t slot; /* where packed blocks of it go */
};

struct program {
    struct cpu_node node;
    struct space space; /* operand i = input i */
    int n_inputs, n_steps, n_slots;
    bool has_varied, is_packed;
    bool around;                    /* results are written around the caches */
    int64_t count, row;             /* elements of the result; elements of the innermost dimension */
    int64_t block;                  /* elements worked on at a time */
    int64_t cost;                   /* of one element, in the units of parallel.h */
    const vector_map_table *copies; /* for packing and filling */
    struct program_input inputs[EO_FUSED_MAX_INPUTS];
    struct program_step steps[EO_FUSED_MAX_STEPS];
};

/* After inputs, steps and outputs are described: decides slots, blocks and the in-place mask. */
void program_plan(struct program *p, int threads, uint32_t *out_in_place, uint64_t *out_workspace);
int program_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err);

#endif
