/* Packs bytes as one gzip member, for tests. */
#ifndef EO_TESTS_FORMATS_GZIP_H
#define EO_TESTS_FORMATS_GZIP_H

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#if EO_HAVE_ZLIB
#include <zlib.h>

/* malloc'd; *out_size bytes */
static inline uint8_t *gzip(const void *data, size_t size, size_t *out_size)
{
    z_stream z = {0};
    size_t bound;
    uint8_t *out;

    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    bound = deflateBound(&z, size);
    out = malloc(bound);
    ck_assert_ptr_nonnull(out);
    z.next_in = (z_const Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out_size = z.total_out;
    deflateEnd(&z);
    return out;
}
#endif

#endif
