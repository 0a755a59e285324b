#include "client/lib/handles.h"

#include <stdlib.h>
#include <string.h>

int eo_handles_init(struct eo_handles *h, uint64_t limit, struct eo_error *err)
{
    memset(h, 0, sizeof *h);
    if (limit == 0 || limit > UINT32_MAX) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "the daemon allows %llu handles", (unsigned long long)limit);
    }
    h->limit = (uint32_t)limit;
    return EO_OK;
}

void eo_handles_fini(struct eo_handles *h)
{
    free(h->generation);
    free(h->free_slots);
    memset(h, 0, sizeof *h);
}

static int grow(struct eo_handles *h, struct eo_error *err)
{
    uint32_t cap = h->cap_slots == 0 ? 64 : h->cap_slots * 2;
    cap = EO_MIN(cap, h->limit);
    uint32_t *generation = realloc(h->generation, cap * sizeof *generation);
    if (generation == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for %u handles", cap);
    }
    h->generation = generation;
    uint32_t *free_slots = realloc(h->free_slots, cap * sizeof *free_slots);
    if (free_slots == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for %u handles", cap);
    }
    h->free_slots = free_slots;
    h->cap_slots = cap;
    return EO_OK;
}

int eo_handles_take(struct eo_handles *h, uint64_t *out_id, struct eo_error *err)
{
    uint32_t slot;
    if (h->n_free > 0) {
        slot = h->free_slots[--h->n_free];
    } else {
        if (h->n_slots == h->limit) {
            EO_RAISE(err, EO_E_QUOTA, "all %u handles of the session are in use", h->limit);
            eo_error_hint(err, "Free tensors that are no longer needed.");
            return EO_E_QUOTA;
        }
        if (h->n_slots == h->cap_slots) {
            int rc = grow(h, err);
            if (rc != EO_OK) {
                return rc;
            }
        }
        slot = h->n_slots++;
        h->generation[slot] = 1;
    }
    *out_id = ((uint64_t)h->generation[slot] << 32) | (slot + 1u);
    return EO_OK;
}

void eo_handles_give(struct eo_handles *h, uint64_t id)
{
    const uint32_t slot = (uint32_t)id - 1;
    if (id == 0 || slot >= h->n_slots || h->generation[slot] != (uint32_t)(id >> 32)) {
        return;
    }
    if (++h->generation[slot] == 0) {
        h->generation[slot] = 1;
    }
    h->free_slots[h->n_free++] = slot;
}

void eo_handle_pack(struct eo_bytes *b, uint64_t id)
{
    eo_pack_array(b, 2);
    eo_pack_u64(b, (uint32_t)id == 0 ? UINT32_MAX : (uint32_t)id - 1u);
    eo_pack_u64(b, id >> 32);
}
