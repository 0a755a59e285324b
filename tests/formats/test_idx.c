#include "daemon/formats/idx.h"

#include "tests/formats/gzip.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static int read_bytes(const void *data, size_t size, struct idx *out)
{
    struct stream *s;
    int status;

    ASSERT_OK(stream_open_memory("t.idx", data, size, &s, &err));
    status = idx_read_stream(s, 1 << 20, out, &err);
    stream_close(s);
    return status;
}

START_TEST(every_type_arrives_in_host_order)
{
    static const uint8_t bytes[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255};
    static const uint8_t shorts[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0x01, 0x02, 0xff, 0xfe};
    static const uint8_t ints[] = {0, 0, 0x0c, 1, 0, 0, 0, 1, 0x01, 0x02, 0x03, 0x04};
    static const uint8_t floats[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
    static const uint8_t doubles[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 0x04, 0, 0, 0, 0, 0, 0};
    struct idx x;

    ASSERT_OK(read_bytes(bytes, sizeof(bytes), &x));
    ck_assert_int_eq(x.desc.dtype, EO_UINT8);
    ck_assert_int_eq(x.desc.n_dims, 2);
    ck_assert_int_eq(x.desc.shape[0], 2);
    ck_assert_int_eq(x.desc.shape[1], 3);
    ck_assert_mem_eq(x.data, bytes + 12, 6);
    idx_fini(&x);
    ASSERT_OK(read_bytes(shorts, sizeof(shorts), &x));
    ck_assert_int_eq(((int16_t *)x.data)[0], 0x0102);
    ck_assert_int_eq(((int16_t *)x.data)[1], -2);
    idx_fini(&x);
    ASSERT_OK(read_bytes(ints, sizeof(ints), &x));
    ck_assert_int_eq(((int32_t *)x.data)[0], 0x01020304);
    idx_fini(&x);
    ASSERT_OK(read_bytes(floats, sizeof(floats), &x));
    ck_assert_float_eq(((float *)x.data)[0], 1.5f);
    idx_fini(&x);
    ASSERT_OK(read_bytes(doubles, sizeof(doubles), &x));
    ck_assert_double_eq(((double *)x.data)[0], -2.5);
    idx_fini(&x);
}
END_TEST

START_TEST(an_empty_tensor_is_fine)
{
    static const uint8_t empty[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 28};
    struct idx x;

    ASSERT_OK(read_bytes(empty, sizeof(empty), &x));
    ck_assert_int_eq(eo_tensor_desc_count(&x.desc), 0);
    idx_fini(&x);
}
END_TEST

START_TEST(lies_and_cuts_are_refused)
{
    static const uint8_t good[] = {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
    static const uint8_t more[] = {0, 0, 8, 1, 0, 0, 0, 1, 1, 2};
    static const uint8_t huge[] = {0,   0,   0x0e, 4,   255, 255, 255, 255, 255, 255,
                                   255, 255, 255,  255, 255, 255, 255, 255, 255, 255};
    static const uint8_t large[] = {0, 0, 8, 1, 0x40, 0, 0, 0, 1, 2};
    static const uint8_t no_dims[] = {0, 0, 8, 0, 1};
    static const uint8_t nine_dims[] = {0, 0, 8, 9, 0, 0, 0, 1};
    static const uint8_t no_type[] = {0, 0, 7, 1, 0, 0, 0, 1, 1};
    struct idx x;

    for (size_t cut = 0; cut < sizeof(good); cut++) {
        ASSERT_CODE(read_bytes(good, cut, &x), EO_E_BAD_FILE);
    }
    ASSERT_CODE(read_bytes(more, sizeof(more), &x), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "more bytes");
    ASSERT_CODE(read_bytes(huge, sizeof(huge), &x), EO_E_TOO_LARGE);
    ASSERT_CODE(read_bytes(large, sizeof(large), &x), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "cut short");
    ASSERT_CODE(read_bytes(no_dims, sizeof(no_dims), &x), EO_E_BAD_FILE);
    ASSERT_CODE(read_bytes(nine_dims, sizeof(nine_dims), &x), EO_E_BAD_FILE);
    ASSERT_CODE(read_bytes(no_type, sizeof(no_type), &x), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "00 00 07 01");
    ASSERT_CODE(read_bytes("label,pixel\n", 12, &x), EO_E_BAD_FILE);
    ASSERT_CODE(idx_read("/nonexistent", 1 << 20, &x, &err), EO_E_NO_FILE);
}
END_TEST

#if EO_HAVE_ZLIB
START_TEST(gzip_and_its_bombs)
{
    size_t n = 2 << 20, size;
    uint8_t *plain = calloc(1, n + 8), *packed;
    struct idx x;

    plain[2] = 8;
    plain[3] = 1;
    plain[6] = 4; /* 1024 elements */
    packed = gzip(plain, 8 + 1024, &size);
    ASSERT_OK(read_bytes(packed, size, &x));
    ck_assert_int_eq(x.desc.shape[0], 1024);
    idx_fini(&x);
    free(packed);
    /* unpacks to more than it announces */
    packed = gzip(plain, n + 8, &size);
    ASSERT_CODE(read_bytes(packed, size, &x), EO_E_BAD_FILE);
    free(packed);
    /* announces more than the limit of 1 MiB, and could hold it */
    plain[5] = 0x20;
    plain[6] = 0;
    packed = gzip(plain, n + 8, &size);
    ASSERT_CODE(read_bytes(packed, size, &x), EO_E_TOO_LARGE);
    free(packed);
    free(plain);
}
END_TEST

EO_SUITE("idx", every_type_arrives_in_host_order, an_empty_tensor_is_fine, lies_and_cuts_are_refused,
         gzip_and_its_bombs)
#else
EO_SUITE("idx", every_type_arrives_in_host_order, an_empty_tensor_is_fine, lies_and_cuts_are_refused)
#endif
