#include "daemon/jobs/blobs.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 10000 };

static char dir[64];
static uint8_t content[SIZE];
static char name[65];

static void hash_of(const void *data, size_t size, char out[65])
{
    struct eo_sha256 h;
    uint8_t digest[EO_SHA256_SIZE];

    eo_sha256_init(&h);
    eo_sha256_update(&h, data, size);
    ck_assert(eo_sha256_final(&h, digest));
    eo_sha256_hex(digest, out);
}

static void open_dir(void)
{
    struct eo_error err = {0};

    snprintf(dir, sizeof(dir), "/tmp/everyo-blobs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ASSERT_OK(blobs_init(dir, &err));
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = (uint8_t)(i * 31 + i / 251);
    }
    hash_of(content, SIZE, name);
}

static void close_dir(void)
{
    struct eo_error err = {0};

    ASSERT_OK(eo_dir_remove(dir, &err));
}

static int put(uint64_t size, uint64_t offset, uint64_t n, uint64_t *out_received, bool *out_complete,
               struct eo_error *err)
{
    return blobs_put(dir, name, size, offset, content + offset, n, out_received, out_complete, err);
}

static void part_of(const char *sha256, char *out, size_t size)
{
    snprintf(out, size, "%s/blobs/part/%s", dir, sha256);
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

static void expect_content(void)
{
    uint8_t got[SIZE + 10];
    uint64_t n = 0;
    uint64_t total = 0;
    struct eo_error err = {0};

    ASSERT_OK(blobs_get(dir, name, 0, got, sizeof(got), &n, &total, &err));
    ck_assert_uint_eq(n, SIZE);
    ck_assert_uint_eq(total, SIZE);
    ck_assert_mem_eq(got, content, SIZE);
}

START_TEST(chunks_become_a_blob)
{
    uint64_t size = 0;
    uint64_t received = 0;
    bool complete = false;
    struct eo_error err = {0};
    char part[200];

    open_dir();
    part_of(name, part, sizeof(part));
    ck_assert(!blobs_have(dir, name, &size, &received));
    ck_assert_uint_eq(received, 0);
    ASSERT_OK(put(SIZE, 0, 4000, &received, &complete, &err));
    ck_assert(!complete);
    ck_assert_uint_eq(received, 4000);
    ck_assert(!blobs_have(dir, name, &size, &received));
    ck_assert_uint_eq(received, 4000);
    ASSERT_OK(put(SIZE, 4000, 0, &received, &complete, &err)); /* an empty chunk is one */
    ck_assert_uint_eq(received, 4000);
    ASSERT_OK(put(SIZE, 2000, 3000, &received, &complete, &err)); /* sent again, and more */
    ck_assert_uint_eq(received, 5000);
    ASSERT_OK(put(SIZE, 0, 100, &received, &complete, &err)); /* nothing new does not take back */
    ck_assert_uint_eq(received, 5000);
    ASSERT_OK(put(SIZE, 5000, 5000, &received, &complete, &err));
    ck_assert(complete);
    ck_assert(blobs_have(dir, name, &size, &received));
    ck_assert_uint_eq(size, SIZE);
    ck_assert(!exists(part));
    expect_content();
    ASSERT_OK(put(SIZE, 0, 100, &received, &complete, &err)); /* known already */
    ck_assert(complete);
    ck_assert_uint_eq(received, SIZE);
    expect_content();
    close_dir();
}
END_TEST

START_TEST(an_upload_goes_on_after_a_restart)
{
    uint64_t size = 0;
    uint64_t received = 0;
    bool complete = false;
    struct eo_error err = {0};

    open_dir();
    ASSERT_OK(put(SIZE, 0, 4000, &received, &complete, &err));
    ASSERT_OK(blobs_init(dir, &err)); /* what a start of the daemon does */
    ck_assert(!blobs_have(dir, name, &size, &received));
    ck_assert_uint_eq(received, 4000);
    ASSERT_OK(put(SIZE, 4000, 6000, &received, &complete, &err));
    ck_assert(complete);
    expect_content();
    close_dir();
}
END_TEST

START_TEST(the_empty_blob)
{
    uint64_t size = 1;
    uint64_t received = 0;
    uint64_t n = 9;
    bool complete = false;
    struct eo_error err = {0};
    char empty[65];

    open_dir();
    hash_of("", 0, empty);
    ASSERT_OK(blobs_put(dir, empty, 0, 0, "", 0, &received, &complete, &err));
    ck_assert(complete);
    ck_assert(blobs_have(dir, empty, &size, &received));
    ck_assert_uint_eq(size, 0);
    ASSERT_OK(blobs_get(dir, empty, 0, &n, sizeof(n), &n, &size, &err));
    ck_assert_uint_eq(n, 0);
    close_dir();
}
END_TEST

START_TEST(another_content_than_the_name_says)
{
    uint64_t size = 0;
    uint64_t received = 0;
    bool complete = false;
    struct eo_error err = {0};

    open_dir();
    content[77] ^= 1;
    ASSERT_CODE(put(SIZE, 0, SIZE, &received, &complete, &err), EO_E_BAD_FILE);
    ck_assert(!complete);
    ck_assert(err.hint[0] != '\0');
    ck_assert(!blobs_have(dir, name, &size, &received));
    ck_assert_uint_eq(received, 0); /* and the next try begins afresh */
    content[77] ^= 1;
    ASSERT_OK(put(SIZE, 0, SIZE, &received, &complete, &err));
    ck_assert(complete);
    close_dir();
}
END_TEST

START_TEST(chunks_out_of_place)
{
    uint64_t received = 0;
    bool complete = false;
    struct eo_error err = {0};

    open_dir();
    ASSERT_CODE(put(SIZE, 1, 100, &received, &complete, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(put(50, 0, 100, &received, &complete, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(blobs_put(dir, name, UINT64_MAX, 0, content, 1, &received, &complete, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(blobs_put(dir, name, INT64_MAX, UINT64_MAX, content, 1, &received, &complete, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(blobs_put(dir, name, SIZE, UINT64_MAX - 50, content, 100, &received, &complete, &err), EO_E_BAD_PARAMS);
    /* Two sizes for one name: what was there before goes. */
    ASSERT_OK(put(SIZE, 0, 4000, &received, &complete, &err));
    ASSERT_CODE(put(100, 0, 100, &received, &complete, &err), EO_E_BAD_FILE);
    ASSERT_OK(put(SIZE, 0, SIZE, &received, &complete, &err));
    ck_assert(complete);
    close_dir();
}
END_TEST

START_TEST(names_that_are_none)
{
    static const char *const bad[] = {"",
                                      "../../../../etc/passwd",
                                      "..",
                                      "/etc/passwd",
                                      "abc",
                                      "ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789",
                                      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde/",
                                      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"};
    struct eo_error err = {0};
    uint64_t a = 0;
    uint64_t b = 0;
    bool complete = false;
    char path[BLOBS_PATH];
    uint8_t byte = 0;

    open_dir();
    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ck_assert(!blobs_name_valid(bad[i]));
        ck_assert(!blobs_path(dir, bad[i], path));
        ck_assert(!blobs_have(dir, bad[i], &a, &b));
        ASSERT_CODE(blobs_put(dir, bad[i], 1, 0, "x", 1, &a, &complete, &err), EO_E_BAD_PARAMS);
        ASSERT_CODE(blobs_get(dir, bad[i], 0, &byte, 1, &a, &b, &err), EO_E_BAD_PARAMS);
        ASSERT_CODE(blobs_materialise(dir, bad[i], "/tmp/everyo-never", &err), EO_E_BAD_PARAMS);
    }
    close_dir();
}
END_TEST

START_TEST(reading_parts)
{
    uint64_t n = 0;
    uint64_t total = 0;
    bool complete = false;
    struct eo_error err = {0};
    uint8_t got[200];

    open_dir();
    ASSERT_CODE(blobs_get(dir, name, 0, got, 1, &n, &total, &err), EO_E_NO_FILE);
    ASSERT_OK(put(SIZE, 0, SIZE, &n, &complete, &err));
    ASSERT_OK(blobs_get(dir, name, 300, got, 100, &n, &total, &err));
    ck_assert_uint_eq(n, 100);
    ck_assert_uint_eq(total, SIZE);
    ck_assert_mem_eq(got, content + 300, 100);
    ASSERT_OK(blobs_get(dir, name, SIZE - 50, got, 200, &n, &total, &err));
    ck_assert_uint_eq(n, 50);
    ASSERT_OK(blobs_get(dir, name, SIZE, got, 200, &n, &total, &err));
    ck_assert_uint_eq(n, 0);
    ASSERT_OK(blobs_get(dir, name, INT64_MAX - 200, got, 200, &n, &total, &err));
    ck_assert_uint_eq(n, 0);
    close_dir();
}
END_TEST

START_TEST(materialised_under_another_name)
{
    uint64_t n = 0;
    bool complete = false;
    struct eo_error err = {0};
    struct eo_bytes got;
    char path[200];

    open_dir();
    snprintf(path, sizeof(path), "%s/copy", dir);
    ASSERT_CODE(blobs_materialise(dir, name, path, &err), EO_E_NO_FILE);
    ASSERT_OK(put(SIZE, 0, SIZE, &n, &complete, &err));
    ASSERT_OK(eo_file_write_atomic(path, "old", 3, 0600, &err));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(blobs_materialise(dir, name, path, &err));
        ASSERT_OK(eo_file_read(path, SIZE, &got, &err));
        ck_assert_uint_eq(got.size, SIZE);
        ck_assert_mem_eq(got.data, content, SIZE);
        eo_bytes_fini(&got);
    }
    ck_assert_int_eq(unlink(path), 0);
    expect_content();
    close_dir();
}
END_TEST

/* EFBIG instead of ENOSPC: the same path for a file system that takes no more. */
START_TEST(a_disk_that_takes_no_more)
{
    uint64_t received = 0;
    bool complete = false;
    struct eo_error err = {0};
    struct rlimit before, small = {.rlim_cur = 6000};

    open_dir();
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ASSERT_CODE(put(SIZE, 0, SIZE, &received, &complete, &err), EO_E_IO);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert(!complete);
    ASSERT_OK(put(SIZE, 0, SIZE, &received, &complete, &err));
    ck_assert(complete);
    expect_content();
    close_dir();
}
END_TEST

static void *upload_many(void *ctx)
{
    const size_t thread = (size_t)(uintptr_t)ctx;
    uint8_t data[3000];

    for (size_t i = 0; i < 20; i++) {
        char own[65];
        uint64_t received = 0;
        bool complete = false;
        struct eo_error err = {0};

        memset(data, (int)(thread * 20 + i), sizeof(data));
        hash_of(data, sizeof(data), own);
        for (uint64_t at = 0; at < sizeof(data); at += 1000) {
            ASSERT_OK(blobs_put(dir, own, sizeof(data), at, data + at, 1000, &received, &complete, &err));
        }
        ck_assert(complete);
    }
    return NULL;
}

START_TEST(many_at_a_time)
{
    pthread_t threads[4];

    open_dir();
    for (size_t i = 0; i < EO_COUNT_OF(threads); i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, upload_many, (void *)(uintptr_t)i), 0);
    }
    for (size_t i = 0; i < EO_COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    close_dir();
}
END_TEST

EO_SUITE("blobs", chunks_become_a_blob, an_upload_goes_on_after_a_restart, the_empty_blob,
         another_content_than_the_name_says, chunks_out_of_place, names_that_are_none, reading_parts,
         materialised_under_another_name, a_disk_that_takes_no_more, many_at_a_time)
