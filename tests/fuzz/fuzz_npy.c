/* An npy file, plain or gzip. What is accepted has exactly the bytes it announces, no more than the limit, and is read
 * again from what npy_write makes of it. */
#include "daemon/formats/npy.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIMIT_BYTES = 1 << 20 };

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static void rewrite(const struct host_tensor *x)
{
    char path[64];
    struct host_tensor again;
    const uint64_t bytes = eo_tensor_desc_bytes(&x->desc);
    int fd = memfd_create("npy", MFD_CLOEXEC);

    if (fd < 0) {
        return;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    promise(npy_write(fd, path, x, NULL) == EO_OK);
    promise(lseek(fd, 0, SEEK_END) == (off_t)npy_written_bytes(&x->desc));
    promise(npy_read(path, 2 * LIMIT_BYTES, &again, NULL) == EO_OK);
    promise(again.desc.dtype == npy_written_dtype((enum eo_dtype)x->desc.dtype));
    promise(eo_tensor_desc_same_shape(&again.desc, &x->desc));
    promise(x->desc.dtype == EO_BFLOAT16 || memcmp(again.data, x->data, bytes) == 0);
    host_tensor_fini(&again);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_error err = {0};
    struct stream *s;
    struct host_tensor x;

    if (stream_open_memory("f.npy", data, size, &s, &err) != EO_OK) {
        return 0;
    }
    if (npy_read_stream(s, LIMIT_BYTES, &x, &err) == EO_OK) {
        uint64_t bytes = eo_tensor_desc_bytes(&x.desc);

        promise(eo_tensor_desc_check(&x.desc, &err) == EO_OK);
        promise(bytes <= LIMIT_BYTES && bytes <= stream_bound_bytes(s));
        promise(x.data != NULL);
        rewrite(&x);
        host_tensor_fini(&x);
    } else {
        promise(err.code != EO_OK);
    }
    stream_close(s);
    return 0;
}
