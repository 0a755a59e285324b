/* Whole files: bounded reads, atomic durable writes (temporary name, fsync, rename, fsync of the directory),
 * private directories. Errors: NO_FILE, BAD_FILE (over the limit), DISK_FULL (ENOSPC, EDQUOT), CANNOT_CREATE, IO. */
#ifndef EO_PROTO_BASE_FILE_H
#define EO_PROTO_BASE_FILE_H

#include "proto/base/bytes.h"

#include <sys/types.h>

struct eo_error;

/* Regular files only, so that a FIFO or device under a user's name cannot block or flood the reader.
 * Inits out; the caller calls eo_bytes_fini after success. */
int eo_file_read(const char *path, size_t limit, struct eo_bytes *out, struct eo_error *err);
int eo_file_write_atomic(const char *path, const void *data, size_t size, mode_t mode, struct eo_error *err);
int eo_file_sha256(const char *path, char out_hex[65], uint64_t *out_size, struct eo_error *err);
int eo_dir_ensure(const char *path, mode_t mode, struct eo_error *err); /* mkdir -p, all with mode; existing is fine */
int eo_dir_sync(const char *path, struct eo_error *err);
/* The tree below path and path itself; never follows links; nothing there is fine. */
int eo_dir_remove(const char *path, struct eo_error *err);
int eo_write_all(int fd, const void *data, size_t size, const char *path, struct eo_error *err);
/* Joins with one slash; returns false when it does not fit. */
bool eo_path_join(char *out, size_t size, const char *dir, const char *name);
/* Raises DISK_FULL, NO_MEMORY, NO_FILE, CANNOT_CREATE or IO, naming path. what: a verb. "open", "read", "stat" and
 * "list" of something absent or forbidden is NO_FILE; "create", "make" and "rename" is CANNOT_CREATE; else IO. */
int eo_raise_io(struct eo_error *err, int errnum, const char *what, const char *path);

#endif
