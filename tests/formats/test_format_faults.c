/* Every allocation of the readers fails once: each time an error, never a leak or a crash. */
#include "daemon/formats/csv.h"
#include "daemon/formats/idx.h"
#include "daemon/formats/npy.h"
#include "daemon/formats/safetensors.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_csv(void)
{
    static const char text[] = "a,b\n1,2\n3,4\n5,6\n";
    struct stream *s;
    struct csv c;
    int status = stream_open_memory("t.csv", text, sizeof(text) - 1, &s, NULL);

    if (status == EO_OK) {
        status = csv_read_stream(s, 1 << 20, &c, NULL);
        stream_close(s);
    }
    if (status == EO_OK) {
        csv_fini(&c);
    }
    return status == EO_OK;
}

static bool read_idx(void)
{
    static const uint8_t bytes[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3};
    struct stream *s;
    struct idx x;
    int status = stream_open_memory("t.idx", bytes, sizeof(bytes), &s, NULL);

    if (status == EO_OK) {
        status = idx_read_stream(s, 1 << 20, &x, NULL);
        stream_close(s);
    }
    if (status == EO_OK) {
        idx_fini(&x);
    }
    return status == EO_OK;
}

/* Fortran order and a header of version 2. */
static bool read_npy(void)
{
    static const char bytes[] =
        "\x93NUMPY\x02\x00\x3a\x00\x00\x00{'descr': '|u1', 'fortran_order': True, 'shape': (2,2)}   1234";
    struct stream *s;
    struct host_tensor x;
    int status = stream_open_memory("t.npy", bytes, sizeof(bytes) - 1, &s, NULL);

    if (status == EO_OK) {
        status = npy_read_stream(s, 1 << 20, &x, NULL);
        stream_close(s);
    }
    if (status == EO_OK) {
        host_tensor_fini(&x);
    }
    return status == EO_OK;
}

static char path[64];

static bool write_and_read(void)
{
    static const float w[2] = {1, 2};
    const struct safetensors_tensor one = {
        .name = "w", .desc = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {2}}, .data = w};
    const struct safetensors_meta meta = {"k", "v"};
    struct safetensors s;
    bool ok = safetensors_write(path, &one, 1, &meta, 1, NULL, NULL, NULL) == EO_OK;

    if (ok) {
        ok = safetensors_open(path, &s, NULL) == EO_OK;
        unlink(path);
    }
    if (ok) {
        safetensors_close(&s);
    }
    return ok;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_ge(alloc_exhaust(read_csv), 4);
    ck_assert_int_ge(alloc_exhaust(read_idx), 1);
    ck_assert_int_ge(alloc_exhaust(read_npy), 2);
    snprintf(path, sizeof(path), "/tmp/eo-faults-%d", (int)getpid());
    ck_assert_int_ge(alloc_exhaust(write_and_read), 4);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

EO_SUITE("format faults", every_allocation_may_fail)
