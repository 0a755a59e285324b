#include "proto/base/file.h"

#include "proto/base/clock.h"
#include "proto/base/error.h"
#include "proto/base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_STEP = 64 * 1024, REMOVE_DEPTH = 64 };

/* ---- errors ---- */

/* errno values that say the name is at fault, not the device. */
static bool is_about_name(int errnum)
{
    static const int list[] = {ENOENT, ENOTDIR, EACCES, EPERM, EISDIR, ELOOP, ENAMETOOLONG, EROFS, EEXIST, ENOTEMPTY};

    for (size_t i = 0; i < EO_COUNT_OF(list); i++) {
        if (list[i] == errnum) {
            return true;
        }
    }
    return false;
}

static bool is_one_of(const char *what, const char *const *verbs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(what, verbs[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int code_for(int errnum, const char *what)
{
    static const char *const reading[] = {"open", "read", "stat", "list"};
    static const char *const creating[] = {"create", "make", "rename"};

    if (errnum == ENOSPC || errnum == EDQUOT) {
        return EO_E_DISK_FULL;
    }
    if (errnum == ENOMEM) {
        return EO_E_NO_MEMORY;
    }
    if (is_about_name(errnum) && is_one_of(what, reading, EO_COUNT_OF(reading))) {
        return EO_E_NO_FILE;
    }
    if (is_about_name(errnum) && is_one_of(what, creating, EO_COUNT_OF(creating))) {
        return EO_E_CANNOT_CREATE;
    }
    return EO_E_IO;
}

int eo_raise_io(struct eo_error *err, int errnum, const char *what, const char *path)
{
    char name[160];
    char reason[96];

    eo_quote(path, strlen(path), name, sizeof(name));
    EO_RAISE_ERRNO(err, code_for(errnum, what), errnum, "could not %s %s: %s", what, name,
                   strerror_r(errnum, reason, sizeof(reason)));
    if (errnum == ENOSPC || errnum == EDQUOT) {
        eo_error_hint(err, "Free some space on the file system that holds %s, then try again.", name);
    } else if (errnum == EACCES || errnum == EPERM) {
        eo_error_hint(err, "Check the owner and mode of the path and of the folders above it.");
    } else if (errnum == EROFS) {
        eo_error_hint(err, "The file system is read-only; name a path on another one.");
    }
    return code_for(errnum, what);
}

/* ---- reading ---- */

static int open_regular(const char *path, int *out_fd, struct eo_error *err)
{
    char name[160];
    struct stat st;
    /* O_NONBLOCK: a FIFO without a writer must not hold the caller; for regular files it means nothing. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int saved;

    if (fd < 0) {
        return eo_raise_io(err, errno, "open", path);
    }
    if (fstat(fd, &st) != 0) {
        saved = errno;
        close(fd);
        return eo_raise_io(err, saved, "stat", path);
    }
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        return eo_raise_io(err, EISDIR, "read", path);
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return EO_RAISE(err, EO_E_NO_FILE, "%s is not a regular file",
                        eo_quote(path, strlen(path), name, sizeof(name)));
    }
    *out_fd = fd;
    return EO_OK;
}

static ssize_t read_retry(int fd, void *data, size_t size)
{
    ssize_t n;

    do {
        n = read(fd, data, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

static int read_into(int fd, const char *path, size_t limit, struct eo_bytes *out, struct eo_error *err)
{
    char name[160];

    for (;;) {
        /* One byte more than allowed tells "exactly at the limit" from "over it", also for files that grow. */
        size_t room = EO_MIN(limit - out->size + 1, (size_t)READ_STEP);
        size_t before = out->size;
        uint8_t *to = eo_bytes_extend(out, room);
        ssize_t n;

        if (to == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s",
                            eo_quote(path, strlen(path), name, sizeof(name)));
        }
        n = read_retry(fd, to, room);
        if (n < 0) {
            return eo_raise_io(err, errno, "read", path);
        }
        out->size = before + (size_t)n;
        if (n == 0) {
            return EO_OK;
        }
        if (out->size > limit) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s is larger than the %zu bytes allowed for it",
                            eo_quote(path, strlen(path), name, sizeof(name)), limit);
        }
    }
}

int eo_file_read(const char *path, size_t limit, struct eo_bytes *out, struct eo_error *err)
{
    struct eo_bytes bytes;
    int fd = -1;
    int code = open_regular(path, &fd, err);

    if (code != EO_OK) {
        return code;
    }
    limit = EO_MIN(limit, SIZE_MAX - 2);
    eo_bytes_init(&bytes, limit + 1);
    code = read_into(fd, path, limit, &bytes, err);
    close(fd);
    if (code != EO_OK) {
        eo_bytes_fini(&bytes);
        return code;
    }
    *out = bytes;
    return EO_OK;
}

int eo_file_sha256(const char *path, char out_hex[65], uint64_t *out_size, struct eo_error *err)
{
    struct eo_sha256 sha;
    uint8_t digest[EO_SHA256_SIZE];
    uint8_t *buffer;
    uint64_t total = 0;
    ssize_t n = 0;
    int saved;
    int fd = -1;
    int code = open_regular(path, &fd, err);

    if (code != EO_OK) {
        return code;
    }
    buffer = malloc(READ_STEP);
    eo_sha256_init(&sha);
    while (buffer != NULL && (n = read_retry(fd, buffer, READ_STEP)) > 0) {
        eo_sha256_update(&sha, buffer, (size_t)n);
        total += (uint64_t)n;
    }
    saved = errno;
    close(fd);
    free(buffer);
    if (!eo_sha256_final(&sha, digest) || buffer == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to compute a SHA-256");
    }
    if (n < 0) {
        return eo_raise_io(err, saved, "read", path);
    }
    eo_sha256_hex(digest, out_hex);
    if (out_size != NULL) {
        *out_size = total;
    }
    return EO_OK;
}

/* ---- writing ---- */

int eo_write_all(int fd, const void *data, size_t size, const char *path, struct eo_error *err)
{
    const uint8_t *p = data;

    while (size > 0) {
        /* Linux moves at most 0x7ffff000 bytes a call and says so by a short count. */
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            (void)poll(&wait, 1, -1);
            continue;
        }
        if (n < 0 && errno != EINTR) {
            return eo_raise_io(err, errno, "write", path);
        }
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        }
    }
    return EO_OK;
}

static void parent_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);

    if (slash == NULL) {
        snprintf(out, size, ".");
    } else if (length == 0) {
        snprintf(out, size, "/");
    } else {
        snprintf(out, size, "%.*s", (int)EO_MIN(length, size - 1), path);
    }
}

/* A name beside path that nobody else uses. Created exclusively and with the final mode under the process's umask. */
static int create_temporary(const char *path, mode_t mode, char *out, size_t size, int *out_fd, struct eo_error *err)
{
    static atomic_uint counter;
    const char *slash = strrchr(path, '/');
    int dir_length = slash == NULL ? 0 : (int)(slash - path + 1);
    const char *base = path + dir_length;

    for (int attempt = 0; attempt < 100; attempt++) {
        int wanted = snprintf(out, size, "%.*s.%.200s.%ld-%u-%04x", dir_length, path, base, (long)getpid(),
                              atomic_fetch_add(&counter, 1), (unsigned)(eo_now_ns() >> 10) & 0xffffu);
        int fd;

        if (wanted < 0 || (size_t)wanted >= size) {
            return eo_raise_io(err, ENAMETOOLONG, "create", path);
        }
        fd = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0) {
            *out_fd = fd;
            return EO_OK;
        }
        if (errno != EEXIST) {
            return eo_raise_io(err, errno, "create", path);
        }
    }
    return eo_raise_io(err, EEXIST, "create", path);
}

static int fill_and_close(int fd, const void *data, size_t size, const char *path, struct eo_error *err)
{
    int code = eo_write_all(fd, data, size, path, err);

    if (code == EO_OK && fsync(fd) != 0) {
        code = eo_raise_io(err, errno, "write", path);
    }
    /* Some file systems report a full disk or quota only here. */
    if (close(fd) != 0 && code == EO_OK && errno != EINTR) {
        code = eo_raise_io(err, errno, "write", path);
    }
    return code;
}

int eo_file_write_atomic(const char *path, const void *data, size_t size, mode_t mode, struct eo_error *err)
{
    char temporary[PATH_MAX];
    char dir[PATH_MAX];
    int fd = -1;
    int code = create_temporary(path, mode, temporary, sizeof(temporary), &fd, err);

    if (code != EO_OK) {
        return code;
    }
    code = fill_and_close(fd, data, size, path, err);
    if (code == EO_OK && rename(temporary, path) != 0) {
        code = eo_raise_io(err, errno, "rename", path);
    }
    if (code != EO_OK) {
        unlink(temporary);
        return code;
    }
    parent_of(path, dir, sizeof(dir));
    return eo_dir_sync(dir, err);
}

/* ---- directories ---- */

int eo_dir_sync(const char *path, struct eo_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = 0;

    if (fd < 0) {
        return eo_raise_io(err, errno, "open", path);
    }
    /* EINVAL: the file system has no such notion (some FUSE and network ones). */
    if (fsync(fd) != 0 && errno != EINVAL) {
        failed = errno;
    }
    close(fd);
    return failed == 0 ? EO_OK : eo_raise_io(err, failed, "write", path);
}

static int make_one(const char *path, mode_t mode, struct eo_error *err)
{
    struct stat st;
    int errnum;

    if (mkdir(path, mode) == 0) {
        return EO_OK;
    }
    errnum = errno;
    /* mkdir of an existing directory may say EEXIST, EACCES or EROFS, depending on what it looks at first. */
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return EO_OK;
        }
        errnum = ENOTDIR;
    }
    return eo_raise_io(err, errnum, "make", path);
}

int eo_dir_ensure(const char *path, mode_t mode, struct eo_error *err)
{
    char partial[PATH_MAX];
    size_t length = strlen(path);

    if (length == 0) {
        return eo_raise_io(err, ENOENT, "make", path);
    }
    if (length >= sizeof(partial)) {
        return eo_raise_io(err, ENAMETOOLONG, "make", path);
    }
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        int code;

        if (partial[i] != '/') {
            continue;
        }
        partial[i] = '\0';
        code = make_one(partial, mode, err);
        partial[i] = '/';
        if (code != EO_OK) {
            return code;
        }
    }
    return make_one(path, mode, err);
}

static int remove_entry(int dir_fd, const char *name, const char *root, int depth, struct eo_error *err);

/* Takes ownership of fd. Every step is relative to an open directory and refuses links, so that nobody who can write
 * inside the tree can point the removal elsewhere. */
static int remove_contents(int fd, const char *root, int depth, struct eo_error *err)
{
    DIR *dir = fdopendir(fd);
    int code = EO_OK;
    int errnum;

    if (dir == NULL) {
        errnum = errno;
        close(fd);
        return eo_raise_io(err, errnum, "list", root);
    }
    while (code == EO_OK) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            code = errno == 0 ? EO_OK : eo_raise_io(err, errno, "list", root);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            code = remove_entry(dirfd(dir), entry->d_name, root, depth, err);
        }
    }
    closedir(dir);
    return code;
}

static int remove_entry(int dir_fd, const char *name, const char *root, int depth, struct eo_error *err)
{
    int fd;
    int code;

    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT) {
        return EO_OK;
    }
    if (errno != EISDIR && errno != EPERM) { /* Linux says EISDIR, POSIX EPERM, for a directory */
        return eo_raise_io(err, errno, "remove", root);
    }
    if (depth >= REMOVE_DEPTH) {
        return eo_raise_io(err, ELOOP, "remove", root);
    }
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return eo_raise_io(err, errno, "remove", root);
    }
    code = remove_contents(fd, root, depth + 1, err);
    if (code == EO_OK && unlinkat(dir_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        code = eo_raise_io(err, errno, "remove", root);
    }
    return code;
}

int eo_dir_remove(const char *path, struct eo_error *err)
{
    return remove_entry(AT_FDCWD, path, path, 0, err);
}

bool eo_path_join(char *out, size_t size, const char *dir, const char *name)
{
    size_t dir_length = strlen(dir);
    int wanted;

    while (dir_length > 1 && dir[dir_length - 1] == '/') {
        dir_length--;
    }
    while (name[0] == '/') {
        name++;
    }
    if (dir_length == 0) {
        wanted = snprintf(out, size, "%s", name);
    } else if (dir_length == 1 && dir[0] == '/') {
        wanted = snprintf(out, size, "/%s", name);
    } else {
        wanted = dir_length < INT_MAX ? snprintf(out, size, "%.*s/%s", (int)dir_length, dir, name) : -1;
    }
    return wanted >= 0 && (size_t)wanted < size;
}
