#include "daemon/formats/safetensors.h"

#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/base/sha256.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Wide elements first, so that every tensor is aligned to its element; names decide among equals, so that equal
 * contents give equal files. */
static int by_alignment(const void *a, const void *b)
{
    const struct safetensors_tensor *x = *(const struct safetensors_tensor *const *)a;
    const struct safetensors_tensor *y = *(const struct safetensors_tensor *const *)b;
    size_t nx = eo_dtype_size((enum eo_dtype)x->desc.dtype), ny = eo_dtype_size((enum eo_dtype)y->desc.dtype);

    if (nx != ny) {
        return nx > ny ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static void put_tensor(struct eo_json *j, const struct safetensors_tensor *t, uint64_t *offset)
{
    uint64_t bytes = eo_tensor_desc_bytes(&t->desc);

    eo_json_key(j, t->name);
    eo_json_begin_object(j);
    eo_json_kv_string(j, "dtype", eo_dtype_safetensors((enum eo_dtype)t->desc.dtype));
    eo_json_key(j, "shape");
    eo_json_begin_array(j);
    for (int i = 0; i < t->desc.n_dims; i++) {
        eo_json_i64(j, t->desc.shape[i]);
    }
    eo_json_end_array(j);
    eo_json_key(j, "data_offsets");
    eo_json_begin_array(j);
    eo_json_u64(j, *offset);
    eo_json_u64(j, *offset + bytes);
    eo_json_end_array(j);
    eo_json_end_object(j);
    *offset += bytes;
}

/* Length prefix and header, padded with blanks so that the tensors start at a multiple of 8. */
static void put_header(struct eo_bytes *b, const struct safetensors_tensor *const *sorted, uint32_t n_tensors,
                       const struct safetensors_meta *metadata, uint32_t n_metadata)
{
    struct eo_json j;
    uint64_t offset = 0, length = 0;

    eo_bytes_append(b, &length, sizeof(length));
    eo_json_init(&j, b);
    eo_json_begin_object(&j);
    if (n_metadata > 0) {
        eo_json_key(&j, "__metadata__");
        eo_json_begin_object(&j);
        for (uint32_t i = 0; i < n_metadata; i++) {
            eo_json_kv_string(&j, metadata[i].key, metadata[i].value);
        }
        eo_json_end_object(&j);
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        put_tensor(&j, sorted[i], &offset);
    }
    eo_json_end_object(&j);
    while (!b->failed && b->size % 8 != 0) {
        eo_bytes_append(b, " ", 1);
    }
    if (!b->failed) {
        length = htole64(b->size - 8);
        memcpy(b->data, &length, sizeof(length));
    }
}

struct output {
    int fd;
    const char *path;
    struct eo_sha256 hash;
    uint64_t bytes;
};

static int put(struct output *o, const void *data, uint64_t size, struct eo_error *err)
{
    eo_sha256_update(&o->hash, data, size);
    o->bytes += size;
    return eo_write_all(o->fd, data, size, o->path, err);
}

static int put_all(struct output *o, const struct eo_bytes *header, const struct safetensors_tensor *const *sorted,
                   uint32_t n_tensors, struct eo_error *err)
{
    int status = put(o, header->data, header->size, err);

    for (uint32_t i = 0; i < n_tensors && status == EO_OK; i++) {
        status = put(o, sorted[i]->data, eo_tensor_desc_bytes(&sorted[i]->desc), err);
    }
    if (status == EO_OK && fsync(o->fd) != 0) {
        status = eo_raise_io(err, errno, "fsync", o->path);
    }
    return status;
}

static int write_file(const char *path, const struct eo_bytes *header, const struct safetensors_tensor *const *sorted,
                      uint32_t n_tensors, char out_sha256[65], uint64_t *out_bytes, struct eo_error *err)
{
    struct output o = {.path = path};
    uint8_t digest[EO_SHA256_SIZE];
    int status;

    o.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (o.fd < 0) {
        return eo_raise_io(err, errno, "create", path);
    }
    eo_sha256_init(&o.hash);
    status = put_all(&o, header, sorted, n_tensors, err);
    if (!eo_sha256_final(&o.hash, digest) && status == EO_OK) {
        status = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash %s", path);
    }
    if (close(o.fd) != 0 && status == EO_OK) {
        status = eo_raise_io(err, errno, "close", path);
    }
    if (status != EO_OK) {
        unlink(path);
        return status;
    }
    if (out_sha256 != NULL) {
        eo_sha256_hex(digest, out_sha256);
    }
    if (out_bytes != NULL) {
        *out_bytes = o.bytes;
    }
    return EO_OK;
}

int safetensors_write(const char *path, const struct safetensors_tensor *tensors, uint32_t n_tensors,
                      const struct safetensors_meta *metadata, uint32_t n_metadata, char out_sha256[65],
                      uint64_t *out_bytes, struct eo_error *err)
{
    const struct safetensors_tensor **sorted = calloc(EO_MAX(n_tensors, 1u), sizeof(*sorted));
    struct eo_bytes header;
    int status;

    if (sorted == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write %s", path);
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        sorted[i] = &tensors[i];
    }
    qsort(sorted, n_tensors, sizeof(*sorted), by_alignment);
    eo_bytes_init(&header, SAFETENSORS_MAX_HEADER);
    put_header(&header, sorted, n_tensors, metadata, n_metadata);
    if (header.failed) {
        status =
            EO_RAISE(err, EO_E_TOO_LARGE, "the header of %s does not fit in %d bytes", path, SAFETENSORS_MAX_HEADER);
    } else {
        status = write_file(path, &header, sorted, n_tensors, out_sha256, out_bytes, err);
    }
    eo_bytes_fini(&header);
    free(sorted);
    return status;
}
