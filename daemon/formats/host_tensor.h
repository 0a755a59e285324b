/* A tensor in host memory with its bytes: what file formats (npy, ONNX tensors) read into and write from. */
#ifndef EO_DAEMON_FORMATS_HOST_TENSOR_H
#define EO_DAEMON_FORMATS_HOST_TENSOR_H

#include "proto/tensor_desc.h"

/* Owns data: eo_tensor_desc_bytes(desc) bytes, little-endian, C order, 64-byte aligned; never NULL once made. */
struct host_tensor {
    struct eo_tensor_desc desc;
    void *data;
};

/* Zeroed memory for a checked descriptor. Errors: NO_MEMORY. */
int host_tensor_init(const struct eo_tensor_desc *desc, struct host_tensor *out, struct eo_error *err);
/* A copy of size bytes, which must be those of desc. Errors: NO_MEMORY, BAD_PARAMS. */
int host_tensor_copy(const struct eo_tensor_desc *desc, const void *data, uint64_t size, struct host_tensor *out,
                     struct eo_error *err);
void host_tensor_fini(struct host_tensor *t); /* zeroed ones and NULL are fine */

#endif
