/* Bytes of a data file, read once from front to back: a regular file or memory, plain or gzip (told by its magic bytes,
 * not by its name). What gzip unpacks is bounded by whoever reads: nothing is allocated here beyond fixed buffers.
 * Not thread-safe. */
#ifndef EO_DAEMON_FORMATS_STREAM_H
#define EO_DAEMON_FORMATS_STREAM_H

#include "proto/base/error.h"

struct stream;

/* Errors: NO_FILE, BAD_FILE (not a regular file, or gzip in a build without zlib), IO, NO_MEMORY. */
int stream_open(const char *path, struct stream **out, struct eo_error *err);
/* The same; name stands for the path in messages about the content. */
int stream_open_as(const char *path, const char *name, struct stream **out, struct eo_error *err);
/* Borrows data; name stands for the path in messages and must outlive the stream. */
int stream_open_memory(const char *name, const void *data, size_t size, struct stream **out, struct eo_error *err);
void stream_close(struct stream *s); /* NULL is fine */

const char *stream_name(const struct stream *s);
/* Fewer bytes than asked for only at the end of the data. Errors: BAD_FILE (damaged or cut gzip), IO. */
int stream_read(struct stream *s, void *out, size_t size, size_t *out_n, struct eo_error *err);
/* No more than this many bytes can come: the file's size, or what deflate can make of it. Check an announced size
 * against it before memory is taken. */
uint64_t stream_bound_bytes(const struct stream *s);

#endif
