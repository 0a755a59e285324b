#include "proto/base/file.h"

#include "proto/base/error.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct eo_error err;
static char dir[] = "/tmp/eo-test-file-XXXXXX";
static char path[512];

static const char *in_dir(const char *name)
{
    ck_assert(eo_path_join(path, sizeof(path), dir, name));
    return path;
}

static void set_up(void)
{
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    ASSERT_OK(eo_dir_remove(dir, &err));
    ck_assert_int_eq(access(dir, F_OK), -1);
}

static int count_entries(const char *name)
{
    DIR *d = opendir(name);
    int n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n - 2;
}

START_TEST(write_then_read)
{
    struct eo_bytes b;
    struct stat st;

    set_up();
    ASSERT_OK(eo_file_write_atomic(in_dir("a"), "hello", 5, 0600, &err));
    ASSERT_OK(eo_file_read(path, 5, &b, &err)); /* exactly at the limit */
    ck_assert_str_eq(eo_bytes_text(&b), "hello");
    ck_assert_uint_eq(b.size, 5);
    eo_bytes_fini(&b);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);

    ASSERT_OK(eo_file_write_atomic(path, "", 0, 0600, &err));
    ASSERT_OK(eo_file_read(path, 0, &b, &err));
    ck_assert_uint_eq(b.size, 0);
    eo_bytes_fini(&b);
    ck_assert_int_eq(count_entries(dir), 1); /* no temporary file is left */
    tear_down();
}
END_TEST

START_TEST(read_refuses)
{
    struct eo_bytes b = {0};

    set_up();
    ASSERT_OK(eo_file_write_atomic(in_dir("a"), "hello", 5, 0600, &err));
    ASSERT_CODE(eo_file_read(path, 4, &b, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "4 bytes");
    ASSERT_CODE(eo_file_read(in_dir("missing"), 10, &b, &err), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, "missing\"");
    ck_assert_int_eq(err.causes[0].code, ENOENT);
    ASSERT_CODE(eo_file_read(in_dir("a/b"), 10, &b, &err), EO_E_NO_FILE);
    ASSERT_CODE(eo_file_read(dir, 10, &b, &err), EO_E_NO_FILE);
    ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
    ASSERT_CODE(eo_file_read(path, 10, &b, &err), EO_E_NO_FILE); /* and does not block */
    ASSERT_CODE(eo_file_read("/dev/zero", 10, &b, &err), EO_E_NO_FILE);
    ck_assert_ptr_null(b.data);
    ck_assert_int_eq(eo_file_read(in_dir("missing"), 10, &b, NULL), EO_E_NO_FILE);
    tear_down();
}
END_TEST

START_TEST(read_of_larger_files_and_proc)
{
    struct eo_bytes b;
    size_t size = 300 * 1000;
    char *data = malloc(size);

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < size; i++) {
        data[i] = (char)(i * 31);
    }
    set_up();
    ASSERT_OK(eo_file_write_atomic(in_dir("big"), data, size, 0640, &err));
    ASSERT_OK(eo_file_read(path, SIZE_MAX, &b, &err));
    ck_assert_uint_eq(b.size, size);
    ck_assert_mem_eq(b.data, data, size);
    eo_bytes_fini(&b);
    free(data);
    /* A regular file whose size is said to be 0. */
    ASSERT_OK(eo_file_read("/proc/self/status", 1 << 20, &b, &err));
    ck_assert_uint_gt(b.size, 100);
    eo_bytes_fini(&b);
    tear_down();
}
END_TEST

START_TEST(failed_write_keeps_the_old_file)
{
    struct eo_bytes b;

    set_up();
    ASSERT_CODE(eo_file_write_atomic(in_dir("no/such/dir/a"), "x", 1, 0600, &err), EO_E_CANNOT_CREATE);
    ck_assert_int_eq(mkdir(in_dir("d"), 0700), 0);
    ASSERT_CODE(eo_file_write_atomic(path, "x", 1, 0600, &err), EO_E_CANNOT_CREATE); /* a directory of that name */
    ck_assert_int_eq(count_entries(dir), 1);
    ASSERT_OK(eo_file_write_atomic(in_dir("a"), "old", 3, 0600, &err));
    ASSERT_OK(eo_file_write_atomic(path, "new!", 4, 0600, &err));
    ASSERT_OK(eo_file_read(path, 10, &b, &err));
    ck_assert_str_eq(eo_bytes_text(&b), "new!");
    eo_bytes_fini(&b);
    tear_down();
}
END_TEST

START_TEST(full_disk)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ASSERT_CODE(eo_write_all(fd, "x", 1, "/dev/full", &err), EO_E_DISK_FULL);
    ck_assert_int_eq(err.causes[0].code, ENOSPC);
    ASSERT_CONTAINS(err.hint, "Free some space");
    close(fd);
    ASSERT_CODE(eo_write_all(-1, "x", 1, "nowhere", &err), EO_E_IO);
}
END_TEST

START_TEST(write_all_waits_for_a_slow_reader)
{
    size_t size = 1 << 20;
    char *data = malloc(size);
    int fds[2];
    pid_t reader;

    ck_assert_ptr_nonnull(data);
    memset(data, 'w', size);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    reader = fork();
    ck_assert_int_ge(reader, 0);
    if (reader == 0) {
        char sink[4096];

        close(fds[0]);
        while (read(fds[1], sink, sizeof(sink)) > 0) {
        }
        _exit(0);
    }
    close(fds[1]);
    ASSERT_OK(eo_write_all(fds[0], data, size, "pipe", &err));
    close(fds[0]);
    ck_assert_int_eq(waitpid(reader, NULL, 0), reader);
    free(data);
}
END_TEST

START_TEST(hashes_of_files)
{
    char hex[65];
    uint64_t size = 0;

    set_up();
    ASSERT_OK(eo_file_write_atomic(in_dir("a"), "abc", 3, 0600, &err));
    ASSERT_OK(eo_file_sha256(path, hex, &size, &err));
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert_uint_eq(size, 3);
    ASSERT_OK(eo_file_sha256(path, hex, NULL, &err));
    ASSERT_CODE(eo_file_sha256(in_dir("b"), hex, &size, &err), EO_E_NO_FILE);
    tear_down();
}
END_TEST

START_TEST(directories_are_made_with_parents)
{
    struct stat st;

    set_up();
    ASSERT_OK(eo_dir_ensure(in_dir("x/y/z"), 0700, &err));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ASSERT_OK(eo_dir_ensure(path, 0700, &err));
    ASSERT_OK(eo_dir_ensure(in_dir("x//y/w/"), 0700, &err));
    ASSERT_OK(eo_dir_sync(path, &err));
    ASSERT_OK(eo_dir_ensure("/", 0700, &err));
    ASSERT_OK(eo_file_write_atomic(in_dir("f"), "", 0, 0600, &err));
    ASSERT_CODE(eo_dir_ensure(path, 0700, &err), EO_E_CANNOT_CREATE);
    ASSERT_CODE(eo_dir_ensure(in_dir("f/g"), 0700, &err), EO_E_CANNOT_CREATE);
    ASSERT_CODE(eo_dir_ensure("", 0700, &err), EO_E_CANNOT_CREATE);
    ASSERT_CODE(eo_dir_sync(in_dir("nothing"), &err), EO_E_NO_FILE);
    tear_down();
}
END_TEST

START_TEST(removal_takes_the_tree_and_follows_no_link)
{
    char inside[600];

    set_up();
    ASSERT_OK(eo_dir_ensure(in_dir("keep"), 0700, &err));
    ASSERT_OK(eo_file_write_atomic(in_dir("keep/file"), "x", 1, 0600, &err));
    ASSERT_OK(eo_dir_ensure(in_dir("gone/a/b/c"), 0700, &err));
    ASSERT_OK(eo_file_write_atomic(in_dir("gone/a/file"), "x", 1, 0600, &err));
    snprintf(inside, sizeof(inside), "%s/gone/a/link", dir);
    ck_assert_int_eq(symlink(in_dir("keep"), inside), 0);
    ASSERT_OK(eo_dir_remove(in_dir("gone"), &err));
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_int_eq(access(in_dir("keep/file"), F_OK), 0);

    snprintf(inside, sizeof(inside), "%s/link", dir);
    ck_assert_int_eq(symlink(in_dir("keep"), inside), 0);
    ASSERT_OK(eo_dir_remove(inside, &err)); /* the link itself */
    ck_assert_int_eq(access(in_dir("keep/file"), F_OK), 0);
    ASSERT_OK(eo_dir_remove(in_dir("keep/file"), &err)); /* a file */
    ASSERT_OK(eo_dir_remove(in_dir("never-there"), &err));
    tear_down();
}
END_TEST

START_TEST(removal_is_bounded_in_depth)
{
    char deep[2048];
    size_t used;

    set_up();
    used = (size_t)snprintf(deep, sizeof(deep), "%s", dir);
    for (int i = 0; i < 80; i++) {
        used += (size_t)snprintf(deep + used, sizeof(deep) - used, "/d");
    }
    ASSERT_OK(eo_dir_ensure(deep, 0700, &err));
    ASSERT_CODE(eo_dir_remove(dir, &err), EO_E_IO);
    deep[strlen(dir) + (size_t)2 * 40] = '\0';
    ASSERT_OK(eo_dir_remove(deep, &err)); /* from further down it is within the bound */
    tear_down();
}
END_TEST

START_TEST(paths_join_with_one_slash)
{
    char out[16];

    ck_assert(eo_path_join(out, sizeof(out), "a", "b"));
    ck_assert_str_eq(out, "a/b");
    ck_assert(eo_path_join(out, sizeof(out), "a//", "//b"));
    ck_assert_str_eq(out, "a/b");
    ck_assert(eo_path_join(out, sizeof(out), "/", "b"));
    ck_assert_str_eq(out, "/b");
    ck_assert(eo_path_join(out, sizeof(out), "", "b"));
    ck_assert_str_eq(out, "b");
    ck_assert(eo_path_join(out, sizeof(out), "1234567", "1234567"));
    ck_assert(!eo_path_join(out, sizeof(out), "1234567", "12345678"));
}
END_TEST

START_TEST(codes_by_errno)
{
    static const struct {
        int errnum;
        const char *what;
        int code;
    } rows[] = {
        {ENOSPC, "write", EO_E_DISK_FULL},
        {EDQUOT, "create", EO_E_DISK_FULL},
        {ENOENT, "open", EO_E_NO_FILE},
        {EACCES, "read", EO_E_NO_FILE},
        {EACCES, "create", EO_E_CANNOT_CREATE},
        {EROFS, "make", EO_E_CANNOT_CREATE},
        {EISDIR, "rename", EO_E_CANNOT_CREATE},
        {EIO, "read", EO_E_IO},
        {EACCES, "remove", EO_E_IO},
        {ENOMEM, "open", EO_E_NO_MEMORY},
        {EMFILE, "open", EO_E_IO},
    };

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_CODE(eo_raise_io(&err, rows[i].errnum, rows[i].what, "some\npath"), rows[i].code);
        ASSERT_CONTAINS(err.message, "\"some\\npath\"");
        ASSERT_CONTAINS(err.message, rows[i].what);
    }
}
END_TEST

EO_SUITE("file", write_then_read, read_refuses, read_of_larger_files_and_proc, failed_write_keeps_the_old_file,
         full_disk, write_all_waits_for_a_slow_reader, hashes_of_files, directories_are_made_with_parents,
         removal_takes_the_tree_and_follows_no_link, removal_is_bounded_in_depth, paths_join_with_one_slash,
         codes_by_errno)
