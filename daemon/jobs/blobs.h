/* Data by content: files named by their SHA-256 below state/blobs. A blob exists only complete and verified; an upload
 * grows in blobs/part/<sha256> and becomes a blob by rename after hashing and fsync. Its modification time is when it
 * was last used, which decides what blobs_trim removes. All calls do file I/O: never on the loop. */
#ifndef EO_DAEMON_JOBS_BLOBS_H
#define EO_DAEMON_JOBS_BLOBS_H

#include "proto/base/error.h"

enum { BLOBS_PATH = 1200 };

bool blobs_name_valid(const char *sha256);                   /* 64 lower-case hex digits */
int blobs_init(const char *state_dir, struct eo_error *err); /* makes the folders */
/* A use. A complete blob's size is in *out_size, or *out_received tells how much of an upload is there. */
bool blobs_have(const char *state_dir, const char *sha256, uint64_t *out_size, uint64_t *out_received);
/* Writes a chunk at offset; the one that reaches size hashes the whole. BAD_FILE: another content than its name says
 * (the part is removed); BAD_PARAMS: offset beyond what is there; DISK_FULL (the part is removed). Chunks of one blob
 * must not run at the same time. */
int blobs_put(const char *state_dir, const char *sha256, uint64_t size, uint64_t offset, const void *data,
              uint64_t data_size, uint64_t *out_received, bool *out_complete, struct eo_error *err);
/* Reads up to size bytes; *out_n may be less at the end. NO_FILE when it is not here. */
int blobs_get(const char *state_dir, const char *sha256, uint64_t offset, void *out, uint64_t size, uint64_t *out_n,
              uint64_t *out_total, struct eo_error *err);
/* Makes the blob appear as file path, replacing what is there; read only. NO_FILE when it is not here. */
int blobs_materialise(const char *state_dir, const char *sha256, const char *path, struct eo_error *err);
bool blobs_path(const char *state_dir, const char *sha256, char out[BLOBS_PATH]);

#endif
