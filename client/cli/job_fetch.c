#include "client/cli/job_fetch.h"

#include "client/cli/item_json.h"
#include "client/cli/remote_file.h"
#include "client/cli/report.h"
#include "proto/base/file.h"

#include <stdio.h>
#include <string.h>

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

struct job_file_name {
    const char *job, *name;
};

static void pack_name(void *ctx, struct eo_bytes *params)
{
    const struct job_file_name *f = ctx;
    eo_pack_kv_str(params, "job", f->job);
    eo_pack_kv_str(params, "name", f->name);
}

static int fetch_one(struct eo_connection *c, const char *job, const struct eo_item *file, const char *dir,
                     struct eo_error *err)
{
    char name[256];
    char want[65];
    char path[2048];
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
    struct job_file_name file_name = {job, name};
    const struct remote_file source = {.method = "job.read",
                                       .pack = pack_name,
                                       .n_keys = 2,
                                       .ctx = &file_name,
                                       .name = name,
                                       .size = size,
                                       .sha256 = want};
    return rc == EO_OK ? remote_file_fetch(c, &source, path, err) : rc;
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
