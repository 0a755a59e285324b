#include "daemon/formats/idx.h"

#include "proto/base/checked.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct idx_type {
    uint8_t code;
    enum eo_dtype dtype;
};

static const struct idx_type types[] = {
    {0x08, EO_UINT8}, {0x09, EO_INT8}, {0x0b, EO_INT16}, {0x0c, EO_INT32}, {0x0d, EO_FLOAT32}, {0x0e, EO_FLOAT64},
};

static int read_exactly(struct stream *s, void *out, size_t size, const char *what, struct eo_error *err)
{
    size_t n;
    int status = stream_read(s, out, size, &n, err);

    if (status == EO_OK && n < size) {
        EO_RAISE(err, EO_E_BAD_FILE, "%s is cut short: %zu of %zu bytes of its %s", stream_name(s), n, size, what);
        eo_error_hint(err, "Fetch the file again.");
        return EO_E_BAD_FILE;
    }
    return status;
}

static int read_header(struct stream *s, struct eo_tensor_desc *out, struct eo_error *err)
{
    uint8_t magic[4], dims[EO_MAX_DIMS * 4];
    int64_t shape[EO_MAX_DIMS];
    enum eo_dtype dtype = EO_DTYPE_NONE;
    int status = read_exactly(s, magic, sizeof(magic), "header", err);

    if (status != EO_OK) {
        return status;
    }
    for (size_t i = 0; i < EO_COUNT_OF(types); i++) {
        dtype = magic[2] == types[i].code ? types[i].dtype : dtype;
    }
    if (magic[0] != 0 || magic[1] != 0 || dtype == EO_DTYPE_NONE || magic[3] == 0 || magic[3] > EO_MAX_DIMS) {
        EO_RAISE(err, EO_E_BAD_FILE, "%s is no IDX file: it starts with bytes %02x %02x %02x %02x", stream_name(s),
                 magic[0], magic[1], magic[2], magic[3]);
        eo_error_hint(err, "IDX starts with 00 00, a type (08 = bytes) and 1 to %d dimensions.", EO_MAX_DIMS);
        return EO_E_BAD_FILE;
    }
    status = read_exactly(s, dims, (size_t)magic[3] * 4, "dimensions", err);
    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < magic[3]; i++) {
        uint32_t be;

        memcpy(&be, dims + (size_t)i * 4, 4);
        shape[i] = be32toh(be);
    }
    status = eo_tensor_desc_init(out, dtype, shape, magic[3], err);
    if (status != EO_OK) {
        eo_error_push(err, "reading %s", stream_name(s));
    }
    return status;
}

static void swap_to_host(void *data, int64_t count, size_t size)
{
    uint8_t *at = data;

    for (int64_t i = 0; i < count; i++, at += size) {
        uint16_t v16;
        uint32_t v32;
        uint64_t v64;

        switch (size) {
        case 2:
            memcpy(&v16, at, 2);
            v16 = be16toh(v16);
            memcpy(at, &v16, 2);
            break;
        case 4:
            memcpy(&v32, at, 4);
            v32 = be32toh(v32);
            memcpy(at, &v32, 4);
            break;
        case 8:
            memcpy(&v64, at, 8);
            v64 = be64toh(v64);
            memcpy(at, &v64, 8);
            break;
        default:
            return;
        }
    }
}

static int expect_end(struct stream *s, struct eo_error *err)
{
    uint8_t extra;
    size_t n;
    int status = stream_read(s, &extra, 1, &n, err);

    if (status == EO_OK && n != 0) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s holds more bytes than its header announces", stream_name(s));
    }
    return status;
}

int idx_read_stream(struct stream *s, uint64_t limit_bytes, struct idx *out, struct eo_error *err)
{
    struct idx x = {0};
    char shape[128];
    uint64_t bytes;
    int status = read_header(s, &x.desc, err);

    if (status != EO_OK) {
        return status;
    }
    bytes = eo_tensor_desc_bytes(&x.desc);
    if (bytes > stream_bound_bytes(s)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is cut short: it announces %s, which its size cannot hold",
                        stream_name(s), eo_tensor_desc_text(&x.desc, shape, sizeof(shape)));
    }
    if (bytes > limit_bytes) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: %s is larger than the limit of %" PRIu64 " bytes", stream_name(s),
                        eo_tensor_desc_text(&x.desc, shape, sizeof(shape)), limit_bytes);
    }
    if (bytes > 0) {
        x.data = aligned_alloc(64, (bytes + 63) & ~(uint64_t)63);
        if (x.data == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the %" PRIu64 " bytes of %s", bytes, stream_name(s));
        }
        status = read_exactly(s, x.data, bytes, "elements", err);
    }
    if (status == EO_OK) {
        status = expect_end(s, err);
    }
    if (status != EO_OK) {
        idx_fini(&x);
        return status;
    }
    swap_to_host(x.data, eo_tensor_desc_count(&x.desc), eo_dtype_size((enum eo_dtype)x.desc.dtype));
    *out = x;
    return EO_OK;
}

int idx_read(const char *path, uint64_t limit_bytes, struct idx *out, struct eo_error *err)
{
    struct stream *s;
    int status = stream_open(path, &s, err);

    if (status == EO_OK) {
        status = idx_read_stream(s, limit_bytes, out, err);
        stream_close(s);
    }
    return status;
}

void idx_fini(struct idx *x)
{
    free(x->data);
    *x = (struct idx){0};
}
