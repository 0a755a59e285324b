/* Where every value of a plan lives: the caller's buffers, the constants, or an offset in the arena that lasts exactly
 * as long as the value does. Results go straight to their bound place where nothing still needs what is there; else
 * they wait in the arena and are copied when all steps are done. */
#ifndef EO_DAEMON_ENGINE_PLACEMENT_H
#define EO_DAEMON_ENGINE_PLACEMENT_H

#include "daemon/engine/kernels.h"

enum { SLOT_ARENA = PLAN_MAX_BUFFERS, SLOT_CONSTANTS, SLOT_COUNT };

struct plan_slot {
    uint64_t offset;
    uint32_t base; /* number of a caller's buffer, SLOT_ARENA or SLOT_CONSTANTS */
};

struct placement_copy {
    uint32_t value;
    struct plan_slot to;
};

struct placement {
    struct plan_slot *slots;      /* per value of the IR; valid for roots: read with placement_slot */
    struct plan_slot *workspaces; /* per node */
    struct placement_copy *late;  /* copies after the last node */
    uint32_t n_late;
    uint32_t n_in_place;
    uint64_t arena_bytes, constant_bytes;
};

/* Errors: NO_MEMORY, TOO_LARGE. */
int placement_make(const struct ir *ir, const struct kernels_choice *choices, struct placement *out,
                   struct eo_error *err);
void placement_fini(struct placement *p);

static inline struct plan_slot placement_slot(const struct placement *p, const struct ir *ir, uint32_t v)
{
    return p->slots[ir->values[v].root];
}

#endif
