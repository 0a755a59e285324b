#include "client/cli/remote_file.h"

#include "client/cli/report.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_chunk(struct eo_connection *c, const struct remote_file *f, uint64_t at, uint64_t size, void *into,
                      struct eo_error *err)
{
    struct eo_bytes p;
    uint32_t id = 0;
    eo_bytes_init(&p, 4096);
    eo_pack_map(&p, 2 + f->n_keys);
    f->pack(f->ctx, &p);
    eo_pack_kv_u64(&p, "offset", f->offset + at);
    eo_pack_kv_u64(&p, "size", size);
    int rc = eo_connection_request(c, f->method, &p, NULL, 0, &id, err);
    eo_bytes_fini(&p);
    return rc != EO_OK ? rc : eo_connection_wait(c, id, into, (size_t)size, NULL, err);
}

static int copy_bytes(struct eo_connection *c, const struct remote_file *f, int fd, const char *path, char out_hex[65],
                      struct eo_error *err)
{
    const uint64_t chunk = eo_connection_facts(c)->chunk_limit;
    uint8_t *buffer = malloc((size_t)EO_MIN(chunk, f->size) + 1);
    struct eo_sha256 hash;
    uint8_t digest[EO_SHA256_SIZE] = {0};
    if (buffer == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a chunk");
    }
    eo_sha256_init(&hash);
    int rc = EO_OK;
    for (uint64_t at = 0; at < f->size && rc == EO_OK;) {
        const uint64_t n = EO_MIN(chunk, f->size - at);
        rc = read_chunk(c, f, at, n, buffer, err);
        if (rc == EO_OK) {
            rc = eo_write_all(fd, buffer, (size_t)n, path, err);
            eo_sha256_update(&hash, buffer, (size_t)n);
        }
        at += n;
        progress_show("fetching %s %3.0f%%", f->name, 100.0 * (double)at / (double)f->size);
    }
    free(buffer);
    if (!eo_sha256_final(&hash, digest) && rc == EO_OK) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash %s", f->name);
    }
    eo_sha256_hex(digest, out_hex);
    return rc;
}

int remote_file_fetch(struct eo_connection *c, const struct remote_file *f, const char *path, struct eo_error *err)
{
    char part[2080];
    char got[65];
    snprintf(part, sizeof part, "%s.part", path);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "%s could not be created", part);
    }
    int rc = copy_bytes(c, f, fd, part, got, err);
    if (close(fd) != 0 && rc == EO_OK) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "close", part);
    }
    if (rc == EO_OK && f->sha256 != NULL && strcmp(f->sha256, got) != 0) {
        rc = EO_RAISE(err, EO_E_BAD_FILE, "%s arrived with SHA-256 %.12s..., %.12s... was announced", f->name, got,
                      f->sha256);
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
