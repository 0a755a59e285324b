/* Memory shared between everyod and a worker: a sealed memfd mapped by both. */
#ifndef EO_DAEMON_WORKER_SHM_H
#define EO_DAEMON_WORKER_SHM_H

#include "proto/base/error.h"

struct shm {
    int fd; /* owned; -1 = none */
    uint8_t *data;
    uint64_t size;
};

/* A new memfd of size bytes (rounded up to pages), sealed against shrinking and growing; no page is taken before it is
 * used. Errors: NO_MEMORY. */
int shm_create(struct shm *m, const char *name, uint64_t size, struct eo_error *err);
/* Maps a descriptor from the other side after checking type, size and seals, so that no access can fault on a cut file.
 * Takes fd over on success. */
int shm_attach(struct shm *m, int fd, uint64_t min_size, struct eo_error *err);
void shm_close(struct shm *m); /* unmaps, closes; idempotent */
/* Takes pages now, so that lack of memory is DEVICE_MEMORY here and not a signal later. */
int shm_commit(const struct shm *m, uint64_t offset, uint64_t size, struct eo_error *err);
void shm_decommit(const struct shm *m, uint64_t offset, uint64_t size); /* gives whole pages back; they read as zero */

#endif
