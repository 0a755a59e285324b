/* Operands of a task: ranges of the pool, checked again here, and the device pointers a backend computes on. On a
 * device with host memory the pool is used in place; else operands are copied to the device and results back. */
#ifndef EO_DAEMON_WORKER_PLACES_H
#define EO_DAEMON_WORKER_PLACES_H

#include "daemon/worker/worker.h"

struct place {
    uint64_t offset, bytes;
    void *data;  /* device pointer; NULL when empty, or before placed */
    bool absent; /* a result that nobody wants */
};

/* it is [offset, bytes]; bytes must be what the descriptor says, and the range must lie in the pool. INTERNAL: everyod
 * would not send such a thing. */
int place_unpack(const struct worker *w, const struct eo_item *it, uint64_t bytes, struct place *out,
                 struct eo_error *err);
/* Results may overlap neither operands nor each other. */
int places_check_apart(const struct place *in, uint32_t n_in, const struct place *out, uint32_t n_out,
                       struct eo_error *err);
/* Takes the pages that the task says are promised ("commit": [[offset, bytes], ...]). DEVICE_MEMORY. */
int places_commit(const struct worker *w, const struct eo_item *params, struct eo_error *err);
/* Fills data of all; copies operands where the device has memory of its own. */
int places_enter(struct worker *w, struct place *in, uint32_t n_in, struct place *out, uint32_t n_out,
                 struct eo_error *err);
/* After the run: waits for it, brings results into the pool (when ok), frees what enter took. Returns the first error.
 */
int places_leave(struct worker *w, struct place *in, uint32_t n_in, struct place *out, uint32_t n_out, bool ok,
                 struct eo_error *err);

#endif
