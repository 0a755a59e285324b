/* job.files and job.read: what a job left, read on another thread. */
#include "daemon/server/chunk.h"
#include "daemon/server/handlers.h"
#include "daemon/server/jobs.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 1400, NAME_SIZE = 256, MAX_RESULT_FILES = 4096, MAX_DEPTH = 4 };

struct result_file {
    char name[NAME_SIZE];
    char sha256[65];
    uint64_t size;
};

struct files_work {
    struct request *request;
    char dir[PATH_SIZE];
    struct result_file *files;
    size_t n, room;
    struct eo_error error;
};

static void add_file(struct files_work *w, const char *name, const char *path)
{
    if (w->n == MAX_RESULT_FILES) {
        EO_RAISE(&w->error, EO_E_TOO_LARGE, "the job left more than %d files", MAX_RESULT_FILES);
        return;
    }
    if (w->n == w->room) {
        const size_t room = EO_MAX(2 * w->room, (size_t)16);
        struct result_file *files = realloc(w->files, room * sizeof *files);
        if (files == NULL) {
            EO_RAISE(&w->error, EO_E_NO_MEMORY, "no memory to list files");
            return;
        }
        w->files = files;
        w->room = room;
    }
    struct result_file *f = &w->files[w->n];
    struct eo_error err = {0};
    eo_copy_text(f->name, sizeof f->name, name);
    int rc = eo_file_sha256(path, f->sha256, &f->size, &err);
    if (rc == EO_OK) {
        w->n++;
    } else if (rc != EO_E_NO_FILE) { /* an old checkpoint of a running job may go just now */
        w->error = err;
    }
}

/* Regular files below output/, checkpoints included, as relative names. */
static void list_dir(struct files_work *w, const char *prefix, int depth)
{
    char path[PATH_SIZE + NAME_SIZE];
    snprintf(path, sizeof path, "%s%s%s", w->dir, prefix[0] != '\0' ? "/" : "", prefix);
    DIR *d = opendir(path);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && w->error.code == 0; e = readdir(d)) {
        char name[NAME_SIZE];
        char full[PATH_SIZE + NAME_SIZE];
        struct stat st;
        if (e->d_name[0] == '.') { /* what is being written has such a name */
            continue;
        }
        int n = snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", e->d_name);
        if (n < 0 || (size_t)n >= sizeof name || !eo_path_join(full, sizeof full, w->dir, name) ||
            lstat(full, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
            list_dir(w, name, depth + 1);
        } else if (S_ISREG(st.st_mode)) {
            add_file(w, name, full);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

static void files_work(void *ctx)
{
    struct files_work *w = ctx;
    list_dir(w, "", 0);
}

static void files_done(void *ctx)
{
    struct files_work *w = ctx;
    if (w->error.code != 0) {
        request_fail(w->request, &w->error);
    } else {
        struct eo_bytes *b = request_result(w->request);
        eo_pack_map(b, 1);
        eo_pack_str(b, "files");
        eo_pack_array(b, w->n);
        for (size_t i = 0; i < w->n; i++) {
            eo_pack_map(b, 3);
            eo_pack_kv_str(b, "name", w->files[i].name);
            eo_pack_kv_u64(b, "size", w->files[i].size);
            eo_pack_kv_str(b, "sha256", w->files[i].sha256);
        }
        request_send(w->request);
    }
    request_unref(w->request);
    free(w->files);
    free(w);
}

static bool output_dir(const struct job *j, char *out, size_t size)
{
    char dir[JOBS_DIR_SIZE];
    return job_dir(j, dir) && eo_path_join(out, size, dir, "output");
}

HANDLER(JOB_FILES)
{
    struct job *j = NULL;
    int rc = job_of_request(r, &j, err);
    if (rc != EO_OK) {
        return rc;
    }
    struct files_work *w = calloc(1, sizeof *w);
    if (w == NULL || !output_dir(j, w->dir, sizeof w->dir)) {
        free(w);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to list files");
    }
    w->request = request_ref(r);
    rc = loop_work(r->server->loop, LOOP_FILES, files_work, files_done, w, err);
    if (rc != EO_OK) {
        request_unref(w->request);
        free(w);
    }
    return rc;
}

HANDLER(JOB_READ)
{
    struct job *j = NULL;
    char name[NAME_SIZE];
    char dir[PATH_SIZE];
    char path[PATH_SIZE + NAME_SIZE];
    int rc = job_of_request(r, &j, err);
    if (rc == EO_OK) {
        rc = eo_need_str(r->params, "name", name, sizeof name, err);
    }
    if (rc == EO_OK && !job_file_name_safe(name)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "a file of a job is named by a relative path without dots");
    }
    if (rc == EO_OK && (!output_dir(j, dir, sizeof dir) || !eo_path_join(path, sizeof path, dir, name))) {
        rc = EO_RAISE(err, EO_E_NO_FILE, "the path of %s is too long", name);
    }
    return rc == EO_OK ? chunk_answer(r, path, -1, err) : rc;
}
