/* The kernel of each step: the device's, or, where the policy allows it, the reference backend's with copies around it.
 * Belongs to the thread that compiles; fallbacks then belong to the plan. */
#ifndef EO_DAEMON_ENGINE_KERNELS_H
#define EO_DAEMON_ENGINE_KERNELS_H

#include "daemon/engine/ir.h"

struct fallback;

struct kernels_choice {
    struct eo_kernel kernel;   /* of a fallback: copies in, runs on the reference backend, copies out */
    struct fallback *fallback; /* NULL: the device's own kernel */
};

/* Fills choice (zeroed by the caller) for a node; the view must stay valid as long as the plan runs. why receives, for
 * a fallback, the reason of the device's refusal. Errors: UNSUPPORTED with op, node and inputs (strict policy, or the
 * reference backend refuses too), NO_MEMORY, what a backend raises. */
int kernels_choose(struct ir *ir, const struct ir_node *node, const struct eo_node_view *view,
                   struct kernels_choice *choice, char *why, size_t why_size, struct eo_error *err);
void kernels_release(struct kernels_choice *choice);

/* Adds op, node, inputs and device to an error that a kernel raised; leaves one alone that names another op. */
void kernels_annotate(struct eo_error *err, const struct eo_node_view *view, const char *label, uint32_t origin,
                      const struct eo_device *dev);
/* "relu", "fused(add, relu)", "copy"; returns out */
char *kernels_title(const struct eo_node_view *view, char *out, size_t size);

#endif
