/* safetensors: u64 little-endian header length, a JSON header {"name": {"dtype", "shape", "data_offsets"}, ...,
 * "__metadata__": {text: text}}, then the tensors' bytes, little-endian, C order, without gaps.
 * Read piece by piece: the header first, each tensor straight to where it belongs. Not thread-safe. */
#ifndef EO_DAEMON_FORMATS_SAFETENSORS_H
#define EO_DAEMON_FORMATS_SAFETENSORS_H

#include "proto/base/arena.h"
#include "proto/tensor_desc.h"

enum { SAFETENSORS_MAX_HEADER = 16 << 20, SAFETENSORS_MAX_TENSORS = 1 << 16, SAFETENSORS_MAX_NAME = 255 };

struct safetensors_tensor {
    const char *name;
    struct eo_tensor_desc desc;
    const void *data;      /* writing only */
    uint64_t offset_bytes; /* reading only: from the start of the file */
};
struct safetensors_meta {
    const char *key, *value;
};

struct safetensors {
    char *path;                         /* for messages */
    int fd;                             /* -1: header only */
    struct eo_arena arena;              /* owns all that follows */
    struct safetensors_tensor *tensors; /* by name, in byte order */
    uint32_t n_tensors;
    struct safetensors_meta *metadata;
    uint32_t n_metadata;
};

/* Errors: NO_FILE, BAD_FILE (header, dtype, offsets that overlap, leave gaps or do not fit shape or file), TOO_LARGE,
 * NO_MEMORY, IO. On success safetensors_close frees all. */
int safetensors_open(const char *path, struct safetensors *out, struct eo_error *err);
/* The same for the first `size` bytes of a file of file_bytes; only the header is looked at. */
int safetensors_parse(const char *name, const void *data, size_t size, uint64_t file_bytes, struct safetensors *out,
                      struct eo_error *err);
void safetensors_close(struct safetensors *s);

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL */
const char *safetensors_metadata(const struct safetensors *s, const char *key);                   /* NULL */
/* Reads the bytes of t into out (eo_tensor_desc_bytes of its desc). */
int safetensors_read(const struct safetensors *s, const struct safetensors_tensor *t, void *out, struct eo_error *err);

/* Writes path (which must not exist) and fsyncs it; sha256 and size of the file come back, each may be NULL. A file cut
 * by an error is removed. Errors: CANNOT_CREATE, DISK_FULL, IO, NO_MEMORY. */
int safetensors_write(const char *path, const struct safetensors_tensor *tensors, uint32_t n_tensors,
                      const struct safetensors_meta *metadata, uint32_t n_metadata, char out_sha256[65],
                      uint64_t *out_bytes, struct eo_error *err);

#endif
