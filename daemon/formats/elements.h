/* The elements of a tensor as a file holds them: dense, behind a header that announced dtype and shape. What the
 * headers of IDX and npy share. */
#ifndef EO_DAEMON_FORMATS_ELEMENTS_H
#define EO_DAEMON_FORMATS_ELEMENTS_H

#include "daemon/formats/host_tensor.h"
#include "daemon/formats/stream.h"

/* Exactly size bytes; BAD_FILE names what was cut short. */
int elements_read_exactly(struct stream *s, void *out, size_t size, const char *what, struct eo_error *err);
/* The elements of desc and nothing behind them, in the byte order of the file. The announced size is checked against
 * what the stream can hold and against limit_bytes before memory is taken. On success out is the caller's,
 * host_tensor_fini frees it. Errors: BAD_FILE (cut short, bytes left over), TOO_LARGE, NO_MEMORY, IO. */
int elements_read(struct stream *s, const struct eo_tensor_desc *desc, uint64_t limit_bytes, struct host_tensor *out,
                  struct eo_error *err);
/* In place, from the byte order that is named to the host's. */
void elements_to_host(struct host_tensor *t, bool big_endian);
/* Column-major to C order: from and to have the bytes of desc. */
void elements_from_columns(const struct eo_tensor_desc *desc, const void *from, void *to);

#endif
