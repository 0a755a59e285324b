#include "daemon/jobs/blobs_trim.h"

#include "daemon/jobs/blobs.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 5, SIZE = 1000, HOUR_S = 3600 };

static struct eo_error err;
static char dir[64];
static char names[N][BLOBS_NAME + 1];
static struct eo_bytes pinned;
static struct blobs_trimmed result;

static void set_age(const char *path, int64_t seconds)
{
    const int64_t at = eo_wall_ms() / 1000 - seconds;
    const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};

    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_file(const char *path, size_t size)
{
    static const char zeros[SIZE];

    ASSERT_OK(eo_file_write_atomic(path, zeros, size, 0600, &err));
}

/* N blobs of SIZE bytes; blob i was used N - i hours ago. Their content does not matter here. */
static void open_store(void)
{
    snprintf(dir, sizeof(dir), "/tmp/everyo-trim-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ASSERT_OK(blobs_init(dir, &err));
    eo_bytes_init(&pinned, 1 << 20);
    for (int i = 0; i < N; i++) {
        char path[BLOBS_PATH], folder[100];

        snprintf(names[i], sizeof(names[i]), "%02x%062d", (i * 71) & 0xff, i);
        ck_assert(blobs_path(dir, names[i], path));
        snprintf(folder, sizeof(folder), "%s/blobs/%.2s", dir, names[i]);
        ASSERT_OK(eo_dir_ensure(folder, 0700, &err));
        make_file(path, SIZE);
        set_age(path, (int64_t)(N - i) * HOUR_S);
    }
}

static void close_store(void)
{
    eo_bytes_fini(&pinned);
    ASSERT_OK(eo_dir_remove(dir, &err));
}

static void trim(uint64_t limit_bytes, uint64_t keep_ms)
{
    const struct blobs_trim t = {.limit_bytes = limit_bytes, .keep_ms = keep_ms, .pinned = &pinned};

    ASSERT_OK(blobs_trim(dir, &t, &result, &err));
}

/* Which are there, as "01234" with '-' for one that is gone. Looks without using. */
static const char *left(void)
{
    static char out[N + 1];

    for (int i = 0; i < N; i++) {
        char path[BLOBS_PATH];

        ck_assert(blobs_path(dir, names[i], path));
        out[i] = access(path, F_OK) == 0 ? (char)('0' + i) : '-';
    }
    return out;
}

START_TEST(the_oldest_go_first)
{
    open_store();
    trim(N * SIZE, 0);
    ck_assert_str_eq(left(), "01234");
    ck_assert_uint_eq(result.n_removed, 0);
    ck_assert_uint_eq(result.kept_bytes, N * SIZE);
    trim(N * SIZE - 1, 0);
    ck_assert_str_eq(left(), "-1234");
    trim(2 * SIZE + 500, 0);
    ck_assert_str_eq(left(), "---34");
    ck_assert_uint_eq(result.n_removed, 2);
    ck_assert_uint_eq(result.removed_bytes, 2 * SIZE);
    ck_assert_uint_eq(result.n_kept, 2);
    trim(0, 0);
    ck_assert_str_eq(left(), "-----");
    trim(0, 0); /* an empty store */
    ck_assert_uint_eq(result.n_kept, 0);
    close_store();
}
END_TEST

START_TEST(a_use_makes_one_the_youngest)
{
    uint64_t size = 0, received = 0;

    open_store();
    ck_assert(blobs_have(dir, names[0], &size, &received));
    trim(2 * SIZE, 0);
    ck_assert_str_eq(left(), "0---4");
    close_store();
}
END_TEST

START_TEST(pinned_ones_stay)
{
    open_store();
    eo_bytes_append(&pinned, names[1], BLOBS_NAME);
    eo_bytes_append(&pinned, names[0], BLOBS_NAME);
    eo_bytes_append(&pinned, names[1], BLOBS_NAME); /* of two jobs */
    trim(SIZE, 0);
    ck_assert_str_eq(left(), "01---");
    ck_assert_uint_eq(result.kept_bytes, 2 * SIZE); /* more than the limit, and said so */
    close_store();
}
END_TEST

START_TEST(recent_ones_stay)
{
    open_store();
    trim(0, (uint64_t)2 * HOUR_S * 1000 + 1000 * 1000);
    ck_assert_str_eq(left(), "---34"); /* used one and two hours ago */
    close_store();
}
END_TEST

START_TEST(abandoned_uploads_go_after_a_day)
{
    char part[200], other[200];

    open_store();
    snprintf(part, sizeof(part), "%s/blobs/part/%s", dir, names[0]);
    snprintf(other, sizeof(other), "%s/blobs/part/no-upload", dir);
    make_file(part, 10);
    make_file(other, 10);
    set_age(other, (int64_t)48 * HOUR_S);
    set_age(part, (int64_t)23 * HOUR_S);
    trim(UINT64_MAX, 0);
    ck_assert_int_eq(access(part, F_OK), 0);
    set_age(part, (int64_t)25 * HOUR_S);
    trim(UINT64_MAX, 0);
    ck_assert_int_ne(access(part, F_OK), 0);
    ck_assert_int_eq(access(other, F_OK), 0); /* not of ours */
    ck_assert_str_eq(left(), "01234");
    close_store();
}
END_TEST

EO_SUITE("blobs trim", the_oldest_go_first, a_use_makes_one_the_youngest, pinned_ones_stay, recent_ones_stay,
         abandoned_uploads_go_after_a_day)
