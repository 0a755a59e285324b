#include "daemon/formats/idx.h"

#include "daemon/formats/elements.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

struct idx_type {
    uint8_t code;
    enum eo_dtype dtype;
};

static const struct idx_type types[] = {
    {0x08, EO_UINT8}, {0x09, EO_INT8}, {0x0b, EO_INT16}, {0x0c, EO_INT32}, {0x0d, EO_FLOAT32}, {0x0e, EO_FLOAT64},
};

static int read_header(struct stream *s, struct eo_tensor_desc *out, struct eo_error *err)
{
    uint8_t magic[4], dims[EO_MAX_DIMS * 4];
    int64_t shape[EO_MAX_DIMS];
    enum eo_dtype dtype = EO_DTYPE_NONE;
    int status = elements_read_exactly(s, magic, sizeof(magic), "header", err);

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
    status = elements_read_exactly(s, dims, (size_t)magic[3] * 4, "dimensions", err);
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

int idx_read_stream(struct stream *s, uint64_t limit_bytes, struct idx *out, struct eo_error *err)
{
    struct eo_tensor_desc desc;
    struct host_tensor t;
    int status = read_header(s, &desc, err);

    if (status == EO_OK) {
        status = elements_read(s, &desc, limit_bytes, &t, err);
    }
    if (status != EO_OK) {
        return status;
    }
    elements_to_host(&t, true);
    *out = (struct idx){.desc = t.desc, .data = t.data};
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
