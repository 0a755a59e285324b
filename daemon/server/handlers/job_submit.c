/* job.check and job.submit: the spec is parsed and its files are looked for on another thread. */
#include "daemon/jobs/blobs.h"
#include "daemon/jobs/spec.h"
#include "daemon/server/handlers.h"
#include "daemon/server/jobs.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 64 };

struct spec_work {
    struct request *request;
    char *text; /* NUL-terminated copy */
    size_t size;
    char file_name[1024];
    char *sets[MAX_SETS];
    int n_sets;
    struct job_spec *spec;
    struct eo_error error;
    /* submit only */
    bool submit;
    char key[65];
    char resume[64];
    char hosts[JOB_MAX_HOSTS][300];
    int n_hosts;
    struct job_file_ref files[JOB_MAX_FILES];
    int n_files;
};

static void free_spec_work(struct spec_work *w)
{
    for (int i = 0; i < w->n_sets; i++) {
        free(w->sets[i]);
    }
    spec_free(w->spec);
    free(w->text);
    request_unref(w->request);
    free(w);
}

static int copy_text_param(const struct eo_item *params, const char *key, char **out, size_t *out_size,
                           struct eo_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    if (!eo_item_as_str(eo_item_get(params, key), &text, &length)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter %s is missing or no string", key);
    }
    *out = malloc(length + 1);
    if (*out == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job file of %zu bytes", length);
    }
    memcpy(*out, text, length);
    (*out)[length] = '\0';
    *out_size = length;
    return EO_OK;
}

static int copy_sets(struct spec_work *w, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *sets = eo_item_get(params, "set");
    const size_t n = eo_item_count(sets);
    if (n > MAX_SETS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "%zu overrides, at most %d are possible", n, MAX_SETS);
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = NULL;
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(sets, i), &text, &length)) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "an override is no string");
        }
        w->sets[w->n_sets] = strndup(text, length);
        if (w->sets[w->n_sets] == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an override");
        }
        w->n_sets++;
    }
    return EO_OK;
}

static void check_work(void *ctx)
{
    struct spec_work *w = ctx;
    const char *sets[MAX_SETS];
    for (int i = 0; i < w->n_sets; i++) {
        sets[i] = w->sets[i];
    }
    spec_parse(w->text, w->size, w->file_name, sets, w->n_sets, &w->spec, &w->error);
}

static void check_done(void *ctx)
{
    struct spec_work *w = ctx;
    const struct job_spec *spec = w->spec;
    if (spec == NULL) {
        request_fail(w->request, &w->error);
        free_spec_work(w);
        return;
    }
    struct eo_bytes *b = request_result(w->request);
    eo_pack_map(b, 5);
    eo_pack_kv_str(b, "name", spec->name);
    eo_pack_str(b, "spec");
    eo_pack_str_n(b, (const char *)spec->canonical.data, spec->canonical.size);
    eo_pack_kv_str(b, "hash", spec->hash);
    eo_pack_str(b, "files");
    eo_pack_array(b, (size_t)spec->n_files);
    for (int i = 0; i < spec->n_files; i++) {
        eo_pack_map(b, 1);
        eo_pack_kv_str(b, "path", spec->files[i].path);
    }
    eo_pack_str(b, "hosts");
    eo_pack_array(b, (size_t)spec->n_hosts);
    for (int i = 0; i < spec->n_hosts; i++) {
        eo_pack_str(b, spec->hosts[i]);
    }
    request_send(w->request);
    free_spec_work(w);
}

static struct spec_work *new_spec_work(struct request *r, struct eo_error *err)
{
    struct spec_work *w = calloc(1, sizeof *w);
    if (w == NULL) {
        EO_RAISE(err, EO_E_NO_MEMORY, "no memory to check a job");
        return NULL;
    }
    w->request = request_ref(r);
    return w;
}

HANDLER(JOB_CHECK)
{
    struct spec_work *w = new_spec_work(r, err);
    int rc = w != NULL ? copy_text_param(r->params, "spec", &w->text, &w->size, err) : EO_E_NO_MEMORY;
    if (rc == EO_OK) {
        rc = eo_get_str(r->params, "file_name", "job.yaml", w->file_name, sizeof w->file_name, err);
    }
    if (rc == EO_OK) {
        rc = copy_sets(w, r->params, err);
    }
    if (rc == EO_OK) {
        rc = loop_work(r->server->loop, LOOP_FILES, check_work, check_done, w, err);
    }
    if (rc != EO_OK && w != NULL) {
        free_spec_work(w);
    }
    return rc;
}

/* A file that did not travel is one of this host, and only from where the operator allows it. */
static int check_local_file(const struct server *s, const char *path, struct eo_error *err)
{
    char real[4096];
    if (path[0] == '/' && realpath(path, real) != NULL) {
        for (int i = 0; i < s->config->data_dirs.n; i++) {
            char dir[4096];
            const char *allowed = s->config->data_dirs.items[i];
            if (realpath(allowed, dir) != NULL && strncmp(real, dir, strlen(dir)) == 0 &&
                (real[strlen(dir)] == '/' || strcmp(dir, "/") == 0)) {
                return EO_OK;
            }
        }
    }
    char quoted[100];
    EO_RAISE(err, EO_E_NO_FILE, "data file %s was not uploaded and is not below a --data-dir of this daemon",
             eo_quote(path, strlen(path), quoted, sizeof quoted));
    eo_error_hint(err, "Keep the file beside the job file, so that everyo-submit uploads it.");
    return EO_E_NO_FILE;
}

/* Every file of the spec must be among those named with the submit, and here. */
static int check_files(struct spec_work *w, struct eo_error *err)
{
    struct server *s = w->request->server;
    for (int i = 0; i < w->spec->n_files; i++) {
        const char *path = w->spec->files[i].path;
        struct job_file_ref *found = NULL;
        uint64_t size = 0;
        uint64_t received = 0;
        for (int k = 0; k < w->n_files; k++) {
            if (strcmp(w->files[k].path, path) == 0) {
                found = &w->files[k];
            }
        }
        if (found == NULL || found->sha256[0] == '\0') {
            int rc = check_local_file(s, path, err);
            if (rc != EO_OK) {
                return rc;
            }
            if (found == NULL && w->n_files < JOB_MAX_FILES) {
                eo_copy_text(w->files[w->n_files++].path, sizeof w->files[0].path, path);
            }
        } else if (!blobs_have(s->state_dir, found->sha256, &size, &received)) {
            return EO_RAISE(err, EO_E_NO_FILE, "the content of data file %s (%.12s...) was not uploaded", path,
                            found->sha256);
        }
    }
    return EO_OK;
}

static void submit_work(void *ctx)
{
    struct spec_work *w = ctx;
    if (spec_parse(w->text, w->size, "job", NULL, 0, &w->spec, &w->error) == EO_OK) {
        check_files(w, &w->error);
    }
}

static int fill_record(struct spec_work *w, struct job_record *rec, struct eo_error *err)
{
    const struct job_spec *spec = w->spec;
    rec->spec = strndup((const char *)spec->canonical.data, spec->canonical.size);
    if (rec->spec == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    eo_copy_text(rec->key, sizeof rec->key, w->key);
    eo_copy_text(rec->name, sizeof rec->name, spec->name);
    eo_copy_text(rec->spec_hash, sizeof rec->spec_hash, spec->hash);
    eo_copy_text(rec->reason, sizeof rec->reason, "being written to the journal");
    rec->n_files = w->n_files;
    memcpy(rec->files, w->files, sizeof w->files);
    rec->n_hosts = w->n_hosts > 0 ? w->n_hosts : spec->n_hosts;
    for (int i = 0; i < rec->n_hosts; i++) {
        eo_copy_text(rec->hosts[i], sizeof rec->hosts[i], w->n_hosts > 0 ? w->hosts[i] : spec->hosts[i]);
    }
    if (w->resume[0] != '\0') {
        struct job *from = NULL;
        int rc = jobs_find(jobs_of(w->request->server), w->resume, &from, err);
        if (rc != EO_OK) {
            return rc;
        }
        eo_copy_text(rec->resume, sizeof rec->resume, from->record->id);
    }
    rec->submitted_ms = eo_wall_ms();
    return job_id_make(rec->id, err);
}

static int add_job(struct spec_work *w, struct eo_error *err)
{
    struct jobs *js = jobs_of(w->request->server);
    struct job *known = jobs_by_key(js, w->key);
    if (known != NULL) {
        return job_submit_durable(known, w->request, false, err);
    }
    uint32_t queued = 0;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        queued += j->record->state == JOB_QUEUED;
    }
    if (queued >= JOBS_MAX_QUEUED) {
        return EO_RAISE(err, EO_E_BUSY, "%u jobs are waiting already", queued);
    }
    struct job_record *rec = job_record_new();
    int rc = rec != NULL ? fill_record(w, rec, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    if (rc != EO_OK) {
        job_record_free(rec);
        return rc;
    }
    struct job *j = jobs_add(js, rec);
    if (j == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    j->restart_on_failure = w->spec->on_failure == ON_FAILURE_RESTART;
    eo_copy_text(j->device, sizeof j->device, w->spec->device);
    rc = job_submit_durable(j, w->request, true, err);
    if (rc != EO_OK) {
        jobs_forget(j);
    }
    return rc;
}

static void submit_done(void *ctx)
{
    struct spec_work *w = ctx;
    struct eo_error err = w->error;
    if (err.code != 0 || add_job(w, &err) != EO_OK) {
        request_fail(w->request, &err);
    }
    free_spec_work(w);
}

static int read_file_refs(struct spec_work *w, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int rc = eo_need_array(params, "files", JOB_MAX_FILES, &list, err);
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(list); i++) {
        struct job_file_ref *f = &w->files[w->n_files++];
        const struct eo_item *it = eo_item_at(list, i);
        rc = eo_need_str(it, "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = eo_get_str(it, "sha256", "", f->sha256, sizeof f->sha256, err);
        }
        if (rc == EO_OK) {
            rc = eo_get_u64(it, "size", 0, INT64_MAX, &f->size, err);
        }
        if (rc == EO_OK && f->sha256[0] != '\0' && !blobs_name_valid(f->sha256)) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "file %s has no valid SHA-256", f->path);
        }
    }
    return rc;
}

static int read_host_list(struct spec_work *w, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = eo_item_get(params, "hosts");
    const size_t n = eo_item_count(list);
    if (n > JOB_MAX_HOSTS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "%zu hosts are named, %d are possible", n, JOB_MAX_HOSTS);
    }
    for (size_t i = 0; i < n; i++) {
        struct eo_endpoint ep;
        const char *text = NULL;
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(list, i), &text, &length) || length >= sizeof w->hosts[0]) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "host %zu is no text of at most %zu bytes", i,
                            sizeof w->hosts[0] - 1);
        }
        memcpy(w->hosts[i], text, length);
        w->hosts[i][length] = '\0';
        int rc = eo_endpoint_parse(w->hosts[i], &ep, err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    w->n_hosts = (int)n;
    return EO_OK;
}

HANDLER(JOB_SUBMIT)
{
    if (jobs_of(r->server)->draining) {
        return EO_RAISE(err, EO_E_SHUTTING_DOWN, "the daemon is ending and takes no new jobs");
    }
    struct spec_work *w = new_spec_work(r, err);
    int rc = w != NULL ? copy_text_param(r->params, "spec", &w->text, &w->size, err) : EO_E_NO_MEMORY;
    if (rc == EO_OK) {
        rc = eo_need_str(r->params, "key", w->key, sizeof w->key, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(r->params, "resume", "", w->resume, sizeof w->resume, err);
    }
    if (rc == EO_OK) {
        rc = read_file_refs(w, r->params, err);
    }
    if (rc == EO_OK) {
        rc = read_host_list(w, r->params, err);
    }
    if (rc == EO_OK) {
        rc = loop_work(r->server->loop, LOOP_FILES, submit_work, submit_done, w, err);
    }
    if (rc != EO_OK && w != NULL) {
        free_spec_work(w);
    }
    return rc;
}
