#include "daemon/formats/stream.h"

#include "daemon/formats/gunzip.h"
#include "tests/formats/gzip.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct eo_error err;

START_TEST(plain_memory_comes_as_it_is)
{
    struct stream *s;
    char out[8];
    size_t n;

    ASSERT_OK(stream_open_memory("text", "hello", 5, &s, &err));
    ck_assert_uint_eq(stream_bound_bytes(s), 5);
    ASSERT_OK(stream_read(s, out, 3, &n, &err));
    ck_assert_uint_eq(n, 3);
    ck_assert_mem_eq(out, "hel", 3);
    ASSERT_OK(stream_read(s, out, sizeof(out), &n, &err));
    ck_assert_uint_eq(n, 2);
    ASSERT_OK(stream_read(s, out, sizeof(out), &n, &err));
    ck_assert_uint_eq(n, 0);
    stream_close(s);
}
END_TEST

START_TEST(files_are_read_past_their_first_chunk)
{
    char path[] = "/tmp/eo-stream-XXXXXX";
    int fd = mkstemp(path);
    struct stream *s;
    char *data = malloc(200000), *out = malloc(300000);
    size_t n;

    ck_assert_int_ge(fd, 0);
    for (size_t i = 0; i < 200000; i++) {
        data[i] = (char)(i % 251 + 1);
    }
    ck_assert_int_eq(write(fd, data, 200000), 200000);
    close(fd);
    ASSERT_OK(stream_open(path, &s, &err));
    ck_assert_str_eq(stream_name(s), path);
    ck_assert_uint_eq(stream_bound_bytes(s), 200000);
    ASSERT_OK(stream_read(s, out, 300000, &n, &err));
    ck_assert_uint_eq(n, 200000);
    ck_assert_mem_eq(out, data, n);
    stream_close(s);
    unlink(path);
    free(data);
    free(out);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    struct stream *s;
    char folder[] = "/tmp/eo-stream-XXXXXX", fifo[64];

    ASSERT_CODE(stream_open("/nonexistent/data.csv", &s, &err), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, "/nonexistent/data.csv");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ASSERT_CODE(stream_open(folder, &s, &err), EO_E_BAD_FILE);
    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ASSERT_CODE(stream_open(fifo, &s, &err), EO_E_BAD_FILE); /* and does not wait for a writer */
    unlink(fifo);
    rmdir(folder);
}
END_TEST

#if EO_HAVE_ZLIB
START_TEST(gzip_is_unpacked_in_any_portion)
{
    static const size_t portions[] = {1, 2, 7, 4096, 1 << 20};
    size_t size = 300000, packed_size, n;
    uint8_t *data = malloc(size), *out = malloc(size + 1), *packed;

    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * i >> 7);
    }
    packed = gzip(data, size, &packed_size);
    for (size_t p = 0; p < EO_COUNT_OF(portions); p++) {
        struct stream *s;
        size_t total = 0;

        ASSERT_OK(stream_open_memory("packed", packed, packed_size, &s, &err));
        do {
            ASSERT_OK(stream_read(s, out + total, EO_MIN(portions[p], size + 1 - total), &n, &err));
            total += n;
        } while (n > 0);
        ck_assert_uint_eq(total, size);
        ck_assert_mem_eq(out, data, size);
        stream_close(s);
    }
    free(packed);
    free(out);
    free(data);
}
END_TEST

START_TEST(gzip_members_follow_each_other)
{
    size_t n1, n2, n;
    uint8_t *first = gzip("one,", 4, &n1), *second = gzip("two", 3, &n2);
    uint8_t *both = malloc(n1 + n2);
    char out[16];
    struct stream *s;

    memcpy(both, first, n1);
    memcpy(both + n1, second, n2);
    ASSERT_OK(stream_open_memory("members", both, n1 + n2, &s, &err));
    ASSERT_OK(stream_read(s, out, sizeof(out), &n, &err));
    ck_assert_uint_eq(n, 7);
    ck_assert_mem_eq(out, "one,two", 7);
    stream_close(s);
    free(both);
    free(second);
    free(first);
}
END_TEST

START_TEST(damaged_gzip_is_an_error_at_every_cut)
{
    char data[500], out[1000];
    size_t size, n;
    uint8_t *packed;
    struct stream *s;

    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (char)(i * 7 % 26 + 'a');
    }
    packed = gzip(data, sizeof(data), &size);
    for (size_t cut = 2; cut < size; cut++) {
        ASSERT_OK(stream_open_memory("cut", packed, cut, &s, &err));
        ASSERT_CODE(stream_read(s, out, sizeof(out), &n, &err), EO_E_BAD_FILE);
        ASSERT_CONTAINS(err.message, "cut");
        stream_close(s);
    }
    packed[size - 6] ^= 1; /* the checksum */
    ASSERT_OK(stream_open_memory("flipped", packed, size, &s, &err));
    ASSERT_CODE(stream_read(s, out, sizeof(out), &n, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "damaged");
    stream_close(s);
    free(packed);
}
END_TEST

START_TEST(a_bomb_is_bounded_before_it_is_unpacked)
{
    size_t size;
    uint8_t *zeros = calloc(1, 8 << 20), *packed = gzip(zeros, 8 << 20, &size);
    struct stream *s;

    ck_assert_uint_lt(size, 10000);
    ASSERT_OK(stream_open_memory("bomb", packed, size, &s, &err));
    ck_assert_uint_ge(stream_bound_bytes(s), 8 << 20);
    ck_assert_uint_eq(stream_bound_bytes(s), size * GUNZIP_MAX_RATIO);
    stream_close(s);
    free(packed);
    free(zeros);
}
END_TEST

EO_SUITE("stream", plain_memory_comes_as_it_is, files_are_read_past_their_first_chunk, what_is_no_file_is_refused,
         gzip_is_unpacked_in_any_portion, gzip_members_follow_each_other, damaged_gzip_is_an_error_at_every_cut,
         a_bomb_is_bounded_before_it_is_unpacked)
#else
START_TEST(gzip_without_zlib_says_so)
{
    static const uint8_t magic[] = {0x1f, 0x8b, 8, 0};
    struct stream *s;

    ASSERT_CODE(stream_open_memory("packed.gz", magic, sizeof(magic), &s, &err), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "packed.gz");
    ASSERT_CONTAINS(err.hint, "EO_WITH_ZLIB");
}
END_TEST

EO_SUITE("stream", plain_memory_comes_as_it_is, files_are_read_past_their_first_chunk, what_is_no_file_is_refused,
         gzip_without_zlib_says_so)
#endif
