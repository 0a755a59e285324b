#include "client/cli/job_files.h"

#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int resolve(struct job_file *f, const char *spec_path, struct eo_error *err)
{
    const char *slash = strrchr(spec_path, '/');
    char dir[1024] = "/";
    bool fits = true;
    if (f->path[0] == '/' || slash == NULL) {
        fits = eo_copy_text(f->local, sizeof f->local, f->path);
    } else {
        if (slash != spec_path) {
            fits = snprintf(dir, sizeof dir, "%.*s", (int)(slash - spec_path), spec_path) < (int)sizeof dir;
        }
        fits = fits && eo_path_join(f->local, sizeof f->local, dir, f->path);
    }
    if (!fits) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "the path of data file %s is too long", f->path);
    }
    int rc = eo_file_sha256(f->local, f->sha256, &f->size, err);
    if (rc == EO_E_NO_FILE && err != NULL && err->hint[0] == '\0') {
        eo_error_hint(err, "Relative paths start at the job file, %s.", spec_path);
    }
    return rc;
}

int job_files_find(const struct eo_item *files, const char *spec_path, bool far, struct job_files *out,
                   struct eo_error *err)
{
    memset(out, 0, sizeof *out);
    if (eo_item_count(files) > JOB_FILES_MAX) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "the job names %zu data files, %d are allowed", eo_item_count(files),
                        JOB_FILES_MAX);
    }
    int rc = EO_OK;
    for (size_t i = 0; i < eo_item_count(files) && rc == EO_OK; i++) {
        struct job_file *f = &out->files[out->n++];
        rc = eo_need_str(eo_item_at(files, i), "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = resolve(f, spec_path, err);
        }
        if (rc == EO_E_NO_FILE && far && f->path[0] == '/' && access(f->local, F_OK) != 0) {
            eo_error_clear(err);
            f->sha256[0] = '\0';
            rc = EO_OK;
        }
    }
    return rc;
}

/* ---- a checkpoint as files ---- */

static bool is_checkpoint(const char *dir)
{
    char path[2048];
    struct stat st;
    return eo_path_join(path, sizeof path, dir, "state.safetensors") && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Their names sort as their steps do. */
static bool newest_checkpoint(const char *dir, char *out, size_t size)
{
    char newest[64] = "";
    DIR *d = opendir(dir);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        char path[2048];
        if (strncmp(e->d_name, "step-", 5) == 0 && strlen(e->d_name) < sizeof newest && strcmp(e->d_name, newest) > 0 &&
            eo_path_join(path, sizeof path, dir, e->d_name) && is_checkpoint(path)) {
            eo_copy_text(newest, sizeof newest, e->d_name);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return newest[0] != '\0' && eo_path_join(out, size, dir, newest);
}

static bool find_checkpoint(const char *dir, char *out, size_t size)
{
    char below[2048];
    if (is_checkpoint(dir)) {
        return eo_copy_text(out, size, dir);
    }
    return (eo_path_join(below, sizeof below, dir, "checkpoints") && newest_checkpoint(below, out, size)) ||
           newest_checkpoint(dir, out, size);
}

int job_files_find_checkpoint(const char *dir, struct job_files *out, struct eo_error *err)
{
    static const char *const names[] = {"manifest.json", "model.safetensors", "state.safetensors"};
    char found[2048];
    int rc = EO_OK;
    memset(out, 0, sizeof *out);
    if (!find_checkpoint(dir, found, sizeof found)) {
        EO_RAISE(err, EO_E_NO_FILE, "%s holds no checkpoint", dir);
        eo_error_hint(err, "Name a folder step-N of a job's checkpoints, or what `everyo-submit fetch` wrote.");
        return EO_E_NO_FILE;
    }
    for (size_t i = 0; i < EO_COUNT_OF(names) && rc == EO_OK; i++) {
        struct job_file *f = &out->files[out->n++];
        eo_copy_text(f->path, sizeof f->path, names[i]);
        rc = eo_path_join(f->local, sizeof f->local, found, names[i])
                 ? eo_file_sha256(f->local, f->sha256, &f->size, err)
                 : EO_RAISE(err, EO_E_NO_FILE, "the path of %s in %s is too long", names[i], found);
    }
    return rc;
}

/* ---- uploading ---- */

void job_files_pack(struct eo_bytes *b, const struct job_files *files)
{
    eo_pack_array(b, files->n);
    for (size_t i = 0; i < files->n; i++) {
        const struct job_file *f = &files->files[i];
        eo_pack_map(b, f->sha256[0] != '\0' ? 3 : 1);
        eo_pack_kv_str(b, "path", f->path);
        if (f->sha256[0] != '\0') {
            eo_pack_kv_str(b, "sha256", f->sha256);
            eo_pack_kv_u64(b, "size", f->size);
        }
    }
}

/* What the daemon has of one file: all of it (have), or an unfinished upload's first bytes. */
static int ask_have(struct eo_connection *c, const struct job_file *f, bool *out_have, uint64_t *out_received,
                    struct eo_error *err)
{
    struct eo_bytes p;
    struct eo_reply reply = {0};
    eo_bytes_init(&p, 1024);
    eo_pack_map(&p, 1);
    eo_pack_str(&p, "sha256");
    eo_pack_array(&p, 1);
    eo_pack_str(&p, f->sha256);
    int rc = eo_connection_call(c, "blob.have", &p, NULL, 0, &reply, err);
    eo_bytes_fini(&p);
    if (rc != EO_OK) {
        return rc;
    }
    *out_have = false;
    *out_received = 0;
    eo_item_as_bool(eo_item_at(eo_item_get(reply.result, "have"), 0), out_have);
    eo_item_as_u64(eo_item_at(eo_item_get(reply.result, "received"), 0), out_received);
    eo_reply_fini(&reply);
    return EO_OK;
}

static int put_chunk(struct eo_connection *c, const struct job_file *f, uint64_t offset, const void *data, size_t size,
                     bool last, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 1024);
    eo_pack_map(&p, 3);
    eo_pack_kv_str(&p, "sha256", f->sha256);
    eo_pack_kv_u64(&p, "size", f->size);
    eo_pack_kv_u64(&p, "offset", offset);
    /* Only the last answer matters: it says that length and hash are right. Earlier failures surface there as well. */
    int rc = last ? eo_connection_drain(c, err) : EO_OK;
    if (rc == EO_OK && last) {
        rc = eo_connection_call(c, "blob.put", &p, data, size, NULL, err);
    } else if (rc == EO_OK) {
        rc = eo_connection_request(c, "blob.put", &p, data, size, NULL, err);
    }
    eo_bytes_fini(&p);
    return rc;
}

static int upload_from(struct eo_connection *c, const struct job_file *f, int fd, uint64_t offset, uint8_t *buffer,
                       size_t chunk, job_files_progress_fn progress, void *ctx, struct eo_error *err)
{
    const uint64_t start = offset;
    int rc = EO_OK;
    bool last = false;
    while (!last && rc == EO_OK) {
        size_t want = (size_t)EO_MIN((uint64_t)chunk, f->size - offset);
        size_t got = 0;
        while (got < want) {
            ssize_t n = pread(fd, buffer + got, want - got, (off_t)(offset + got));
            if (n <= 0) {
                int errnum = n < 0 ? errno : EIO;
                return EO_RAISE_ERRNO(err, EO_E_IO, errnum, "%s changed or could not be read while it was uploaded",
                                      f->local);
            }
            got += (size_t)n;
        }
        last = offset + got == f->size;
        rc = put_chunk(c, f, offset, buffer, got, last, err);
        offset += got;
        if (rc == EO_OK && !progress(ctx, f, offset, offset - start)) {
            rc = EO_RAISE(err, EO_E_CANCELLED, "the upload of %s was given up", f->path);
        }
    }
    return rc;
}

static int upload_one(struct eo_connection *c, const struct job_file *f, uint64_t offset,
                      job_files_progress_fn progress, void *ctx, struct eo_error *err)
{
    const size_t chunk = (size_t)eo_connection_facts(c)->chunk_limit;
    int fd = open(f->local, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "open", f->local);
    }
    uint8_t *buffer = malloc(chunk);
    int rc = buffer != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a chunk of %zu bytes", chunk);
    if (rc == EO_OK) {
        rc = upload_from(c, f, fd, EO_MIN(offset, f->size), buffer, chunk, progress, ctx, err);
    }
    free(buffer);
    close(fd);
    return rc;
}

int job_file_upload(struct eo_connection *c, const struct job_file *f, job_files_progress_fn progress, void *ctx,
                    struct eo_error *err)
{
    bool have = false;
    uint64_t received = 0;
    int rc = ask_have(c, f, &have, &received, err);
    if (rc == EO_OK && have) {
        progress(ctx, f, f->size, 0);
    } else if (rc == EO_OK) {
        rc = upload_one(c, f, received, progress, ctx, err);
    }
    return rc;
}

int job_files_upload(struct eo_connection *c, const struct job_files *files, job_files_progress_fn progress, void *ctx,
                     struct eo_error *err)
{
    int rc = EO_OK;
    for (size_t i = 0; i < files->n && rc == EO_OK; i++) {
        if (files->files[i].sha256[0] != '\0') {
            rc = job_file_upload(c, &files->files[i], progress, ctx, err);
        }
    }
    return rc;
}
