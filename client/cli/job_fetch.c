#include "client/cli/job_fetch.h"

#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "proto/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const job_fetch_results[] = {"model.safetensors", "manifest.json", "history.csv", "run.json", NULL};

bool job_fetch_name_is_safe(const char *name)
{
    const char *at = name;
    for (;;) {
        const size_t n = strcspn(at, "/");
        if (n == 0 || (n <= 2 && strncmp(at, "..", n) == 0)) {
            return false;
        }
        for (size_t i = 0; i < n; i++) { /* a terminal would obey control characters */
            const unsigned char byte = (unsigned char)at[i];
            if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && (unsigned char)at[i + 1] < 0xa0)) {
                return false;
            }
        }
        if (at[n] == '\0') {
            return true;
        }
        at += n + 1;
    }
}

static int make_parent(const char *path, struct eo_error *err)
{
    char parent[2048];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || (size_t)(slash - path) >= sizeof parent) {
        return EO_OK;
    }
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    return eo_dir_ensure(parent, 0777, err);
}

static int read_chunk(struct eo_connection *c, const char *job, const char *name, uint64_t offset, uint64_t size,
                      void *into, struct eo_error *err)
{
    struct eo_bytes p;
    uint32_t id = 0;
    eo_bytes_init(&p, 4096);
    eo_pack_map(&p, 4);
    eo_pack_kv_str(&p, "job", job);
    eo_pack_kv_str(&p, "name", name);
    eo_pack_kv_u64(&p, "offset", offset);
    eo_pack_kv_u64(&p, "size", size);
    int rc = eo_connection_request(c, "job.read", &p, NULL, 0, &id, err);
    eo_bytes_fini(&p);
    return rc != EO_OK ? rc : eo_connection_wait(c, id, into, (size_t)size, NULL, err);
}

static int copy_bytes(struct eo_connection *c, const char *job, const char *name, uint64_t size, int fd,
                      const char *path, char out_hex[65], struct eo_error *err)
{
    const uint64_t chunk = eo_connection_facts(c)->chunk_limit;
    uint8_t *buffer = malloc((size_t)EO_MIN(chunk, size) + 1);
    struct eo_sha256 hash;
    uint8_t digest[EO_SHA256_SIZE] = {0};
    if (buffer == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a chunk");
    }
    eo_sha256_init(&hash);
    int rc = EO_OK;
    for (uint64_t at = 0; at < size && rc == EO_OK;) {
        const uint64_t n = EO_MIN(chunk, size - at);
        rc = read_chunk(c, job, name, at, n, buffer, err);
        if (rc == EO_OK) {
            rc = eo_write_all(fd, buffer, (size_t)n, path, err);
            eo_sha256_update(&hash, buffer, (size_t)n);
        }
        at += n;
        progress_show("fetching %s %3.0f%%", name, 100.0 * (double)at / (double)size);
    }
    free(buffer);
    if (!eo_sha256_final(&hash, digest) && rc == EO_OK) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash %s", name);
    }
    eo_sha256_hex(digest, out_hex);
    return rc;
}

static int fetch_one(struct eo_connection *c, const char *job, const struct eo_item *file, const char *dir,
                     struct eo_error *err)
{
    char name[256];
    char want[65];
    char got[65];
    char path[2048];
    char part[2080];
    uint64_t size = 0;
    int rc = eo_need_str(file, "name", name, sizeof name, err);
    if (rc == EO_OK) {
        rc = eo_need_str(file, "sha256", want, sizeof want, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_u64(file, "size", INT64_MAX, &size, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (!job_fetch_name_is_safe(name) || !eo_path_join(path, sizeof path, dir, name)) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "the daemon offers a file of an unsafe name");
    }
    rc = make_parent(path, err);
    snprintf(part, sizeof part, "%s.part", path);
    int fd = rc == EO_OK ? open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd < 0) {
        int errnum = errno;
        return rc != EO_OK ? rc : EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "%s could not be created", part);
    }
    rc = copy_bytes(c, job, name, size, fd, part, got, err);
    if (close(fd) != 0 && rc == EO_OK) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "close", part);
    }
    if (rc == EO_OK && strcmp(want, got) != 0) {
        rc = EO_RAISE(err, EO_E_BAD_FILE, "%s arrived with SHA-256 %.12s..., %.12s... was announced", name, got, want);
    }
    if (rc == EO_OK && rename(part, path) != 0) {
        int errnum = errno;
        rc = EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "%s could not be renamed", part);
    }
    if (rc != EO_OK) {
        unlink(part);
    }
    return rc;
}

static bool wanted(const struct eo_item *file, const char *const *only)
{
    char name[256];
    item_text(file, "name", name, sizeof name);
    for (size_t i = 0; only != NULL && only[i] != NULL; i++) {
        if (strcmp(name, only[i]) == 0) {
            return true;
        }
    }
    return only == NULL;
}

int job_fetch(struct eo_connection *c, const char *job, const char *dir, const char *const *only, size_t *out_files,
              struct eo_error *err)
{
    struct eo_bytes p;
    struct eo_reply reply = {0};
    size_t done = 0;
    eo_bytes_init(&p, 512);
    eo_pack_map(&p, 1);
    eo_pack_kv_str(&p, "job", job);
    int rc = eo_connection_call(c, "job.files", &p, NULL, 0, &reply, err);
    eo_bytes_fini(&p);
    if (rc != EO_OK) {
        return rc;
    }
    rc = eo_dir_ensure(dir, 0777, err);
    const struct eo_item *files = eo_item_get(reply.result, "files");
    for (size_t i = 0; i < eo_item_count(files) && rc == EO_OK; i++) {
        if (wanted(eo_item_at(files, i), only)) {
            rc = fetch_one(c, job, eo_item_at(files, i), dir, err);
            done++;
        }
    }
    progress_clear();
    eo_reply_fini(&reply);
    if (rc == EO_OK) {
        *out_files = done;
    }
    return rc;
}
