/* The store of blobs kept within a bound: what has not been used for the longest time goes first. File I/O: never on
 * the loop. */
#ifndef EO_DAEMON_JOBS_BLOBS_TRIM_H
#define EO_DAEMON_JOBS_BLOBS_TRIM_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

enum { BLOBS_NAME = 64 /* hex digits of a name, without a NUL in a list of names */ };

struct blobs_trim {
    uint64_t limit_bytes;    /* of all blobs together */
    uint64_t keep_ms;        /* what was used within this time stays in any case: somebody may be about to name it */
    struct eo_bytes *pinned; /* names of BLOBS_NAME bytes, one behind the other, that stay; is sorted here */
};

struct blobs_trimmed {
    uint64_t n_kept, kept_bytes, n_removed, removed_bytes;
};

/* Removes blobs until limit_bytes holds or nothing may go, and uploads that nobody went on with for a day. What cannot
 * be removed is passed over. Errors: NO_MEMORY, NO_FILE, IO (of the folders). */
int blobs_trim(const char *state_dir, const struct blobs_trim *t, struct blobs_trimmed *out, struct eo_error *err);

#endif
