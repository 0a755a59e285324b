/* An IDX file, plain or gzip. What is accepted has exactly the bytes it announces, and no more than the limit. */
#include "daemon/formats/idx.h"

#include <string.h>

enum { LIMIT_BYTES = 1 << 20 };

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_error err = {0};
    struct stream *s;
    struct idx x;

    if (stream_open_memory("f.idx", data, size, &s, &err) != EO_OK) {
        return 0;
    }
    if (idx_read_stream(s, LIMIT_BYTES, &x, &err) == EO_OK) {
        uint64_t bytes = eo_tensor_desc_bytes(&x.desc);
        volatile uint8_t sum = 0; /* so that the loop is kept */

        promise(eo_tensor_desc_check(&x.desc, &err) == EO_OK && x.desc.n_dims >= 1);
        promise(bytes <= LIMIT_BYTES && bytes <= stream_bound_bytes(s));
        for (uint64_t i = 0; i < bytes; i++) {
            sum = (uint8_t)(sum + ((uint8_t *)x.data)[i]); /* every byte is there and set */
        }
        idx_fini(&x);
    } else {
        promise(err.code != EO_OK);
    }
    stream_close(s);
    return 0;
}
