/* A plan: a graph compiled for one device and one set of shapes. It names memory by (buffer, offset) only, so one plan
 * serves any executor of the device. Made once, run many times; running allocates nothing.
 *
 * Passes, in order: copy with dead code removed, composites lowered unless the backend claims them, constant folding,
 * common subexpressions, transposes folded into matmul, element-wise fusion (where the backend claims the program),
 * in-place where the kernel allows, liveness-based offsets in one arena.
 *
 * A training step is three plans over shared buffers (train/step.h): compute (forward, backward; gradients are written
 * into the bucket buffer), commit (squared norm of the reduced buckets), update (optimizer on the flat state). State is
 * changed by the update plan only. */
#ifndef EO_DAEMON_ENGINE_PLAN_H
#define EO_DAEMON_ENGINE_PLAN_H

#include "backends/backend.h"
#include "proto/graph.h"

enum { PLAN_MAX_BUFFERS = 64 };

/* Where a value lives: caller's buffer number and byte offset (64-byte aligned unless the value is smaller). */
struct plan_place {
    eo_value value;
    uint32_t buffer;
    uint64_t offset;
};

enum plan_fallback {
    PLAN_STRICT, /* an op the device does not support is an error */
    PLAN_REPORT  /* it runs on the reference backend, with copies, and is reported */
};

struct plan_spec {
    const struct eo_graph *graph;
    const struct plan_place *inputs; /* every graph input and state that is used, in any order */
    uint32_t n_inputs;
    const struct plan_place *outputs; /* values to leave in buffers; may alias an input's place exactly (update in place) */
    uint32_t n_outputs;
    enum plan_fallback fallback;
    bool no_fusion; /* debugging and tests: results must not depend on it beyond rounding */
};

struct plan_stats {
    uint32_t n_graph_nodes, n_steps, n_fused, n_in_place, n_fallback;
    uint64_t arena_bytes, constant_bytes;
    char fallback_ops[256]; /* "relu (cpu: no float16 kernel), ..." */
};

struct plan;
/* dev must outlive the plan. Errors: BAD_GRAPH, UNSUPPORTED (strict), TOO_LARGE, DEVICE_MEMORY (constants). */
int plan_compile(const struct plan_spec *spec, struct eo_device *dev, struct plan **out, struct eo_error *err);
void plan_free(struct plan *p);
const struct plan_stats *plan_stats(const struct plan *p);
uint64_t plan_arena_bytes(const struct plan *p);

/* One timing record per step when a profile is given. */
struct plan_step_time {
    const char *kernel;
    const char *label;
    uint64_t ns;
};
struct plan_profile {
    struct plan_step_time *steps;
    uint32_t n, capacity;
};

/* Runs all steps. buffers[i]: device pointer of buffer i; arena: device memory of plan_arena_bytes. Returns the first
 * error with op, node label, inputs and backend filled in. Does not sync asynchronous devices. */
int plan_run(const struct plan *p, void *const *buffers, void *arena, struct plan_profile *profile,
             struct eo_error *err);

#endif
