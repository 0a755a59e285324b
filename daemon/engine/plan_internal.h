/* The inside of a plan, for the files that make and run it and for their tests. */
#ifndef EO_DAEMON_ENGINE_PLAN_INTERNAL_H
#define EO_DAEMON_ENGINE_PLAN_INTERNAL_H

#include "daemon/engine/kernels.h"
#include "daemon/engine/placement.h"

/* What running needs: one cache line per step. */
struct plan_step {
    eo_kernel_fn run;
    void *state;
    const struct eo_node_view *view;
    const struct plan_slot *slots; /* inputs, then outputs */
    struct plan_slot workspace;
    uint32_t n_in, n_out;
};

/* What only messages and profiles need. */
struct plan_step_info {
    const char *kernel;
    const char *label;
    uint32_t origin; /* number of the graph's node, IR_NONE = none */
};

struct plan {
    struct eo_device *dev;
    struct eo_device *reference; /* for fallbacks; owned; NULL when there are none */
    struct eo_arena arena;       /* host memory of all below */
    struct plan_step *steps;
    struct plan_step_info *infos;
    struct kernels_choice *choices; /* per kernel: what plan_free releases */
    uint32_t n_steps, n_choices;
    void *constants; /* device memory of constant_bytes */
    uint32_t n_buffers;
    uint64_t buffer_bytes[PLAN_MAX_BUFFERS];
    struct plan_stats stats;
};

/* Places against the graph, each other and the rules of plan.h. Errors: BAD_GRAPH, TOO_LARGE, NO_MEMORY. */
int plan_check(const struct plan_spec *spec, struct eo_error *err);

#endif
