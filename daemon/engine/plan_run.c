/* The loop that runs a plan: for each step, addresses are base + offset, then one call. Nothing is allocated or looked
 * up. */
#include "daemon/engine/plan_internal.h"
#include "proto/base/clock.h"

#include <string.h>

/* Addresses as numbers: device pointers are opaque, and base may be NULL where nothing is stored. */
static inline void *address(const uintptr_t *bases, const struct plan_slot *slot)
{
    return (void *)(bases[slot->base] + (uintptr_t)slot->offset);
}

static inline int run_step(const struct plan *p, const struct plan_step *step, const uintptr_t *bases,
                           struct eo_launch *launch, struct eo_error *err)
{
    const struct plan_slot *slot = step->slots;

    launch->node = step->view;
    launch->state = step->state;
    launch->workspace = address(bases, &step->workspace);
    for (uint32_t i = 0; i < step->n_in; i++) {
        launch->in[i] = address(bases, slot++);
    }
    for (uint32_t o = 0; o < step->n_out; o++) {
        launch->out[o] = address(bases, slot++);
    }
    return step->run(p->dev, launch, err);
}

static int fail(const struct plan *p, uint32_t n, int rc, struct eo_error *err)
{
    kernels_annotate(err, p->steps[n].view, p->infos[n].label, p->infos[n].origin, p->dev);
    return rc;
}

static int run_timed(const struct plan *p, const uintptr_t *bases, struct plan_profile *profile, struct eo_error *err)
{
    struct eo_launch launch;

    profile->n = 0;
    for (uint32_t n = 0; n < p->n_steps; n++) {
        uint64_t start = eo_now_ns();
        int rc = run_step(p, &p->steps[n], bases, &launch, err);

        if (rc == EO_OK && p->dev->backend->sync != NULL) {
            rc = p->dev->backend->sync(p->dev, err);
        }
        if (rc != EO_OK) {
            return fail(p, n, rc, err);
        }
        if (profile->n < profile->capacity) {
            profile->steps[profile->n++] =
                (struct plan_step_time){p->infos[n].kernel, p->infos[n].label, eo_now_ns() - start};
        }
    }
    return EO_OK;
}

int plan_run(const struct plan *p, void *const *buffers, void *arena, struct plan_profile *profile,
             struct eo_error *err)
{
    uintptr_t bases[SLOT_COUNT];
    struct eo_launch launch;

    for (uint32_t i = 0; i < p->n_buffers; i++) {
        bases[i] = (uintptr_t)buffers[i];
    }
    bases[SLOT_ARENA] = (uintptr_t)arena;
    bases[SLOT_CONSTANTS] = (uintptr_t)p->constants;
    if (profile != NULL) {
        return run_timed(p, bases, profile, err);
    }
    for (uint32_t n = 0; n < p->n_steps; n++) {
        int rc = run_step(p, &p->steps[n], bases, &launch, err);

        if (rc != EO_OK) {
            return fail(p, n, rc, err);
        }
    }
    return EO_OK;
}
