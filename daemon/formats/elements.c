#include "daemon/formats/elements.h"

#include <inttypes.h>
#include <string.h>

int elements_read_exactly(struct stream *s, void *out, size_t size, const char *what, struct eo_error *err)
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

int elements_read(struct stream *s, const struct eo_tensor_desc *desc, uint64_t limit_bytes, struct host_tensor *out,
                  struct eo_error *err)
{
    char shape[128];
    uint64_t bytes = eo_tensor_desc_bytes(desc);
    struct host_tensor t;
    int status;

    if (bytes > stream_bound_bytes(s)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is cut short: it announces %s, which its size cannot hold",
                        stream_name(s), eo_tensor_desc_text(desc, shape, sizeof(shape)));
    }
    if (bytes > limit_bytes) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: %s is larger than the limit of %" PRIu64 " bytes", stream_name(s),
                        eo_tensor_desc_text(desc, shape, sizeof(shape)), limit_bytes);
    }
    status = host_tensor_init(desc, &t, err);
    if (status != EO_OK) {
        eo_error_push(err, "reading %s", stream_name(s));
        return status;
    }
    status = elements_read_exactly(s, t.data, bytes, "elements", err);
    if (status == EO_OK) {
        status = expect_end(s, err);
    }
    if (status != EO_OK) {
        host_tensor_fini(&t);
        return status;
    }
    *out = t;
    return EO_OK;
}

void elements_to_host(struct host_tensor *t, bool big_endian)
{
    const size_t size = eo_dtype_size((enum eo_dtype)t->desc.dtype);
    const int64_t count = eo_tensor_desc_count(&t->desc);
    uint8_t *at = t->data;

    if (big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
        return;
    }
    for (int64_t i = 0; i < count; i++, at += size) {
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t byte = at[k];

            at[k] = at[size - 1 - k];
            at[size - 1 - k] = byte;
        }
    }
}

void elements_from_columns(const struct eo_tensor_desc *desc, const void *from, void *to)
{
    const size_t size = eo_dtype_size((enum eo_dtype)desc->dtype);
    const int64_t count = eo_tensor_desc_count(desc);
    int64_t stride[EO_MAX_DIMS] = {1}, index[EO_MAX_DIMS] = {0}, at = 0;
    uint8_t *out = to;

    for (int i = 1; i < desc->n_dims; i++) {
        stride[i] = stride[i - 1] * desc->shape[i - 1]; /* at most count */
    }
    for (int64_t i = 0; i < count; i++, out += size) {
        memcpy(out, (const uint8_t *)from + (size_t)at * size, size);
        for (int d = desc->n_dims - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < desc->shape[d]) {
                break;
            }
            at -= stride[d] * desc->shape[d];
            index[d] = 0;
        }
    }
}
