#include "daemon/jobs/blobs.h"

#include "proto/base/checked.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool blobs_name_valid(const char *sha256)
{
    return strlen(sha256) == 64 && strspn(sha256, "0123456789abcdef") == 64;
}

bool blobs_path(const char *state_dir, const char *sha256, char out[BLOBS_PATH])
{
    int n = snprintf(out, BLOBS_PATH, "%s/blobs/%.2s/%s", state_dir, sha256, sha256);
    return blobs_name_valid(sha256) && n > 0 && n < BLOBS_PATH;
}

static bool part_path(const char *state_dir, const char *sha256, char out[BLOBS_PATH])
{
    int n = snprintf(out, BLOBS_PATH, "%s/blobs/part/%s", state_dir, sha256);
    return blobs_name_valid(sha256) && n > 0 && n < BLOBS_PATH;
}

static int bad_name(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_BAD_PARAMS, "a blob is named by 64 lower-case hex digits");
}

int blobs_init(const char *state_dir, struct eo_error *err)
{
    char dir[BLOBS_PATH];
    snprintf(dir, sizeof dir, "%s/blobs/part", state_dir);
    return eo_dir_ensure(dir, 0700, err);
}

/* "Last used" is now. Failing means no more than that it may go earlier. */
static void note_use(const char *path)
{
    (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

bool blobs_have(const char *state_dir, const char *sha256, uint64_t *out_size, uint64_t *out_received)
{
    char path[BLOBS_PATH];
    struct stat st;
    *out_size = 0;
    *out_received = 0;
    if (blobs_path(state_dir, sha256, path) && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        *out_size = (uint64_t)st.st_size;
        note_use(path);
        return true;
    }
    if (part_path(state_dir, sha256, path) && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        *out_received = (uint64_t)st.st_size;
    }
    return false;
}

static int write_at(int fd, const uint8_t *data, uint64_t size, uint64_t offset, const char *path, struct eo_error *err)
{
    uint64_t done = 0;
    while (done < size) {
        ssize_t n = pwrite(fd, data + done, (size_t)(size - done), (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            int errnum = n < 0 ? errno : EIO;
            return eo_raise_io(err, errnum, "write", path);
        }
        done += (uint64_t)n;
    }
    return EO_OK;
}

/* A name that no blob can get by this upload: what is there of it goes, so that the next one starts afresh. */
static int refuse_part(const char *part, const char *sha256, const char *got, struct eo_error *err)
{
    unlink(part);
    EO_RAISE(err, EO_E_BAD_FILE, "the upload named %.12s... has %s", sha256, got);
    eo_error_hint(err, "The file changed while it was sent; send it again.");
    return EO_E_BAD_FILE;
}

/* The upload is complete: it becomes a blob only when its content is what its name says. */
static int seal(const char *state_dir, const char *sha256, const char *part, int fd, struct eo_error *err)
{
    char path[BLOBS_PATH];
    char dir[BLOBS_PATH];
    char got[65];
    uint64_t size = 0;
    if (fsync(fd) != 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "sync", part);
    }
    int rc = eo_file_sha256(part, got, &size, err);
    if (rc == EO_OK && strcmp(got, sha256) != 0) {
        char what[96];
        snprintf(what, sizeof what, "the SHA-256 %.12s...", got);
        return refuse_part(part, sha256, what, err);
    }
    snprintf(dir, sizeof dir, "%s/blobs/%.2s", state_dir, sha256);
    if (rc == EO_OK) {
        rc = eo_dir_ensure(dir, 0700, err);
    }
    if (rc == EO_OK && (!blobs_path(state_dir, sha256, path) || rename(part, path) != 0)) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "rename", part);
    }
    return rc == EO_OK ? eo_dir_sync(dir, err) : rc;
}

int blobs_put(const char *state_dir, const char *sha256, uint64_t size, uint64_t offset, const void *data,
              uint64_t data_size, uint64_t *out_received, bool *out_complete, struct eo_error *err)
{
    char part[BLOBS_PATH];
    uint64_t have = 0;
    uint64_t received = 0;
    uint64_t end = 0;
    if (!part_path(state_dir, sha256, part)) {
        return bad_name(err);
    }
    if (size > INT64_MAX || !eo_add_u64(offset, data_size, &end) || end > size) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "chunk %llu + %llu lies outside a blob of %llu bytes",
                        (unsigned long long)offset, (unsigned long long)data_size, (unsigned long long)size);
    }
    if (blobs_have(state_dir, sha256, &have, &received)) {
        *out_received = have;
        *out_complete = true;
        return EO_OK;
    }
    if (offset > received) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "chunk at %llu, but only %llu bytes are here", (unsigned long long)offset,
                        (unsigned long long)received);
    }
    int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "create", part);
    }
    int rc = write_at(fd, data, data_size, offset, part, err);
    if (rc == EO_E_DISK_FULL) {
        unlink(part); /* what does not fit must not keep journal and checkpoints from the disk either */
    }
    end = EO_MAX(end, received);
    const bool complete = rc == EO_OK && end >= size;
    if (complete) {
        rc = end == size ? seal(state_dir, sha256, part, fd, err)
                         : refuse_part(part, sha256, "more bytes than its size says", err);
    }
    close(fd);
    if (rc == EO_OK) {
        *out_received = end;
        *out_complete = complete;
    }
    return rc;
}

int blobs_get(const char *state_dir, const char *sha256, uint64_t offset, void *out, uint64_t size, uint64_t *out_n,
              uint64_t *out_total, struct eo_error *err)
{
    char path[BLOBS_PATH];
    struct stat st;
    if (!blobs_path(state_dir, sha256, path)) {
        return bad_name(err);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
        }
        return eo_raise_io(err, errnum, "open", path);
    }
    uint64_t n = 0;
    int rc = EO_OK;
    while (n < size && rc == EO_OK) {
        ssize_t k = pread(fd, (uint8_t *)out + n, (size_t)(size - n), (off_t)(offset + n));
        if (k == 0) {
            break;
        }
        if (k < 0 && errno != EINTR) {
            int errnum = errno;
            rc = eo_raise_io(err, errnum, "read", path);
        }
        n += k > 0 ? (uint64_t)k : 0;
    }
    close(fd);
    if (rc == EO_OK) {
        *out_n = n;
        *out_total = (uint64_t)st.st_size;
    }
    return rc;
}

static int copy_file(const char *from, const char *to, struct eo_error *err)
{
    char buffer[64 << 10];
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "open", from);
    }
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = EO_OK;
    if (out < 0) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "create", to);
    }
    for (ssize_t n = 1; rc == EO_OK && n > 0;) {
        n = read(in, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) {
            n = 1;
        } else if (n < 0) {
            int errnum = errno;
            rc = eo_raise_io(err, errnum, "read", from);
        } else {
            rc = eo_write_all(out, buffer, (size_t)n, to, err);
        }
    }
    close(in);
    if (out >= 0 && close(out) != 0 && rc == EO_OK) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "write", to);
    }
    return rc;
}

int blobs_materialise(const char *state_dir, const char *sha256, const char *path, struct eo_error *err)
{
    char blob[BLOBS_PATH];
    if (!blobs_path(state_dir, sha256, blob)) {
        return bad_name(err);
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "create", path);
    }
    /* A second name for the same bytes: blobs never change. Where links are impossible, a copy. */
    return link(blob, path) == 0 ? EO_OK : copy_file(blob, path, err);
}
