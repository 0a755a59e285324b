/* A plan: a graph compiled for one device and one set of shapes. It names memory by (buffer, offset) only, so one plan
 * serves any executor of the device. Made once, run many times; running allocates nothing.
 *
 * Passes, in order: copy with dead code removed, composites lowered unless the backend claims them, constant folding,
 * exact simplifications, transposes folded into matmul, common subexpressions, reshapes as views, element-wise fusion
 * (where the backend claims the program), results written straight to their place, in-place where the kernel allows,
 * liveness-based offsets in one arena.
 *
 * A training step is three plans over shared buffers (train/step.h): compute (forward, backward; gradients are written
 * into the bucket buffer), commit (squared norm of the reduced buckets), update (optimizer on the flat state). State is
 * changed by the update plan only. */
#ifndef EO_DAEMON_ENGINE_PLAN_H
#define EO_DAEMON_ENGINE_PLAN_H

#include "backends/backend.h"
#include "proto/graph.h"

enum {
    PLAN_MAX_BUFFERS = 128,   /* room for each operand of a single op in a buffer of its own */
    PLAN_MAX_STEPS = 1 << 17, /* more is TOO_LARGE: steps cost host memory */
};

/* Where a value lives: caller's buffer number and byte offset (64-byte aligned unless the value is smaller, then
 * aligned to its dtype). Outputs may not overlap each other; one may overlap inputs in any way: they keep their values
 * until their last reader is done, at the price of a copy unless the output replaces one input exactly. */
struct plan_place {
    eo_value value;
    uint32_t buffer;
    uint64_t offset;
};

enum plan_fallback {
    PLAN_STRICT, /* an op the device does not support is an error */
    PLAN_REPORT  /* it runs on the reference backend, with copies, and is reported */
};

/* Passes that can be left out: the rows of passes/passes.def, and two habits of placing values in memory. */
enum plan_pass {
#define PLAN_PASS(name, NAME, summary) PLAN_PASS_##NAME,
#include "daemon/engine/passes/passes.def"
    PLAN_PASS_IN_PLACE, /* a result takes the memory of an operand that ends with it */
    PLAN_PASS_DIRECT,   /* plan outputs are written straight to their place */
    PLAN_PASS_COUNT
};
#define PLAN_WITHOUT(NAME) (1U << PLAN_PASS_##NAME)

struct plan_spec {
    const struct eo_graph *graph;
    const struct plan_place *inputs; /* every graph input and state that is used, in any order */
    uint32_t n_inputs;
    const struct plan_place *outputs; /* values to leave in buffers; may replace inputs (update in place) */
    uint32_t n_outputs;
    enum plan_fallback fallback;
    uint32_t without; /* PLAN_WITHOUT_x: debugging and tests; results must not depend on it beyond rounding */
};

struct plan_stats {
    uint32_t n_graph_nodes; /* op nodes of the graph */
    uint32_t n_steps;       /* kernels and copies per run */
    uint32_t n_fused;       /* of them fused */
    uint32_t n_copies;      /* of them plain copies */
    uint32_t n_in_place;    /* results that overwrite an operand */
    uint32_t n_fallback;    /* steps that run on the reference backend */
    uint64_t arena_bytes, constant_bytes;
    char fallback_ops[256]; /* "relu (cpu: no float16 kernel), ..." */
};

struct plan;
/* dev must outlive the plan; spec and graph need not. A plan belongs to one thread at a time.
 * Errors: BAD_GRAPH, UNSUPPORTED (strict), TOO_LARGE, NO_MEMORY, DEVICE_MEMORY (constants). */
int plan_compile(const struct plan_spec *spec, struct eo_device *dev, struct plan **out, struct eo_error *err);
void plan_free(struct plan *p);
const struct plan_stats *plan_stats(const struct plan *p);
uint64_t plan_arena_bytes(const struct plan *p);
/* Bytes of the caller's buffer i that the plan may touch: the end of its last place there; 0 for a buffer it knows not.
 */
uint64_t plan_buffer_bytes(const struct plan *p, uint32_t buffer);

/* The kernel that runs step 0..n_steps-1, e.g. to be recorded with a checkpoint; NULL beyond. Lives as long as the
 * plan. */
const char *plan_kernel(const struct plan *p, uint32_t step);

/* One timing record per step when a profile is given; an asynchronous device is then synchronised after each step. */
struct plan_step_time {
    const char *kernel; /* "cpu.matmul.f32.blas"; texts live as long as the plan */
    const char *label;  /* of the graph's node, or NULL */
    uint64_t ns;
};
struct plan_profile {
    struct plan_step_time *steps;
    uint32_t n, capacity; /* steps beyond capacity are run, not recorded */
};

/* Runs all steps; allocates nothing. buffers[i]: device pointer of buffer i, up to the largest that the spec names;
 * arena: device memory of plan_arena_bytes. Returns the first error with op, node label, inputs and backend filled in;
 * what the outputs hold then is undefined. Does not sync asynchronous devices. */
int plan_run(const struct plan *p, void *const *buffers, void *arena, struct plan_profile *profile,
             struct eo_error *err);

#endif
