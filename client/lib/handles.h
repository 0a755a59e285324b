/* Handles chosen by the client: (slot, generation). A freed slot is used again with the next generation, so that a late
 * use of the old handle is an error and not another tensor. id = generation << 32 | slot + 1; 0 is none. */
#ifndef EO_CLIENT_LIB_HANDLES_H
#define EO_CLIENT_LIB_HANDLES_H

#include "proto/codec.h"

struct eo_handles {
    uint32_t *generation; /* per slot */
    uint32_t *free_slots;
    uint32_t n_free, n_slots, cap_slots, limit;
};

int eo_handles_init(struct eo_handles *h, uint64_t limit, struct eo_error *err);
void eo_handles_fini(struct eo_handles *h);
int eo_handles_take(struct eo_handles *h, uint64_t *out_id, struct eo_error *err); /* QUOTA when all are in use */
void eo_handles_give(struct eo_handles *h, uint64_t id);                           /* a stale id is ignored */
void eo_handle_pack(struct eo_bytes *b, uint64_t id);                              /* [slot, generation] */

#endif
