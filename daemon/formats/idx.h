/* IDX, the format of MNIST: two zero bytes, a type byte, the number of dimensions, big-endian u32 dimensions, then the
 * elements, big-endian. gzip is unpacked on the way. */
#ifndef EO_DAEMON_FORMATS_IDX_H
#define EO_DAEMON_FORMATS_IDX_H

#include "daemon/formats/stream.h"
#include "proto/tensor_desc.h"

struct idx {
    struct eo_tensor_desc desc; /* uint8, int8, int16, int32, float32 or float64; 1 to 8 dimensions */
    void *data;                 /* in the host's byte order, 64-byte aligned; owned; never NULL */
};

/* The announced size is checked against limit_bytes and against what the file can hold before memory is taken.
 * Errors: NO_FILE, BAD_FILE (magic, cut short, bytes left over), TOO_LARGE, NO_MEMORY, IO. */
int idx_read(const char *path, uint64_t limit_bytes, struct idx *out, struct eo_error *err);
int idx_read_stream(struct stream *s, uint64_t limit_bytes, struct idx *out, struct eo_error *err);
void idx_fini(struct idx *x);

#endif
