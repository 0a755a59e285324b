/* job.check and job.submit: the spec is parsed and its files are looked for on another thread. */
#include "daemon/jobs/blobs.h"
#include "daemon/jobs/spec.h"
#include "daemon/server/handlers.h"
#include "daemon/server/jobs.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <limits.h>
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
    char key[65];
    char resume[64];
    char hosts[JOB_MAX_HOSTS][JOB_HOST_SIZE];
    int n_hosts;
    struct job_file_ref given[JOB_MAX_FILES], files[JOB_MAX_FILES]; /* as named by the client; as the spec needs them */
    int n_given, n_files;
    struct job_file_ref resume_files[JOB_MAX_RESUME_FILES];
    int n_resume_files;
    struct config_paths data_dirs; /* a copy: the configuration may be read again meanwhile */
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

static bool is_below(const char *path, const char *dir)
{
    const size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || strcmp(dir, "/") == 0);
}

/* A file that did not travel is one of this host, and only from where the operator allows it. */
static int find_local_file(const struct spec_work *w, const char *path, struct job_file_ref *out, struct eo_error *err)
{
    char real[PATH_MAX];
    char quoted[100];
    eo_quote(path, strlen(path), quoted, sizeof quoted);
    if (w->n_hosts > 1 || (w->n_hosts == 0 && w->spec->n_hosts > 1)) {
        EO_RAISE(err, EO_E_BAD_SPEC,
                 "data file %s was not uploaded, and a job on several hosts takes no file of one host", quoted);
        eo_error_hint(err, "Keep the file beside the job file, so that everyo-submit uploads it.");
        return EO_E_BAD_SPEC;
    }
    if (path[0] == '/' && realpath(path, real) != NULL) {
        for (int i = 0; i < w->data_dirs.n; i++) {
            char dir[PATH_MAX];
            if (realpath(w->data_dirs.items[i], dir) != NULL && is_below(real, dir) &&
                eo_copy_text(out->path, sizeof out->path, path)) {
                return EO_OK;
            }
        }
    }
    EO_RAISE(err, EO_E_NO_FILE, "data file %s was not uploaded and is not below a --data-dir of this daemon", quoted);
    eo_error_hint(err, "Keep the file beside the job file, so that everyo-submit uploads it.");
    return EO_E_NO_FILE;
}

static int need_blob(const struct spec_work *w, const struct job_file_ref *f, struct eo_error *err)
{
    uint64_t size = 0;
    uint64_t received = 0;
    if (!blobs_have(w->request->server->state_dir, f->sha256, &size, &received)) {
        char quoted[100];
        return EO_RAISE(err, EO_E_NO_FILE, "the content of file %s (%.12s...) was not uploaded",
                        eo_quote(f->path, strlen(f->path), quoted, sizeof quoted), f->sha256);
    }
    return EO_OK;
}

/* Every file of the spec must be among those named with the submit, and here. */
static int check_files(struct spec_work *w, struct eo_error *err)
{
    int rc = EO_OK;
    for (int i = 0; i < w->spec->n_files && rc == EO_OK; i++) {
        const char *path = w->spec->files[i].path;
        const struct job_file_ref *given = NULL;
        for (int k = 0; k < w->n_given; k++) {
            if (strcmp(w->given[k].path, path) == 0) {
                given = &w->given[k];
            }
        }
        struct job_file_ref *f = &w->files[w->n_files++];
        if (given == NULL || given->sha256[0] == '\0') {
            rc = find_local_file(w, path, f, err);
        } else {
            *f = *given;
            rc = need_blob(w, f, err);
        }
    }
    for (int i = 0; i < w->n_resume_files && rc == EO_OK; i++) {
        rc = need_blob(w, &w->resume_files[i], err);
    }
    return rc;
}

static void submit_work(void *ctx)
{
    struct spec_work *w = ctx;
    if (spec_parse(w->text, w->size, "job", NULL, 0, &w->spec, &w->error) == EO_OK) {
        check_files(w, &w->error);
    }
}

static int fill_lists(const struct spec_work *w, struct job_record *rec, struct eo_error *err)
{
    const struct job_spec *spec = w->spec;
    const bool named = w->n_hosts > 0;
    if (!job_record_set_files(rec, w->files, w->n_files) ||
        !job_record_set_resume_files(rec, w->resume_files, w->n_resume_files) ||
        !job_record_set_hosts(rec, (const char(*)[JOB_HOST_SIZE])(named ? w->hosts : spec->hosts),
                              named ? w->n_hosts : spec->n_hosts)) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    return EO_OK;
}

static int find_resume(struct spec_work *w, struct job_record *rec, struct eo_error *err)
{
    struct job *from = NULL;
    if (w->resume[0] == '\0') {
        return EO_OK;
    }
    int rc = jobs_find(jobs_of(w->request->server), w->resume, &from, err);
    if (rc == EO_OK && from->is_member) {
        EO_RAISE(err, EO_E_BAD_STATE, "the checkpoints of job %.8s are on %s", from->record->id,
                 from->coordinator_host);
        eo_error_hint(err, "Name that host first: `everyo-submit run ... --resume %.8s -H %s,...`.", from->record->id,
                      from->coordinator_host);
        return EO_E_BAD_STATE;
    }
    if (rc == EO_OK) {
        eo_copy_text(rec->resume, sizeof rec->resume, from->record->id);
    }
    return rc;
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
    eo_copy_text(rec->device, sizeof rec->device, spec->device);
    eo_copy_text(rec->reason, sizeof rec->reason, "being written to the journal");
    int rc = fill_lists(w, rec, err);
    if (rc == EO_OK) {
        rc = find_resume(w, rec, err);
    }
    rec->submitted_ms = eo_wall_ms();
    return rc == EO_OK ? job_id_make(rec->id, err) : rc;
}

static uint32_t n_queued(const struct jobs *js)
{
    uint32_t n = 0;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        n += j->record->state == JOB_QUEUED;
    }
    return n;
}

/* The same key means the same submit, sent again because its answer was lost. */
static int answer_again(struct spec_work *w, struct job *known, struct eo_error *err)
{
    if (strcmp(known->record->spec_hash, w->spec->hash) != 0) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "the key of this submit was used for job %.8s, which is another one",
                        known->record->id);
    }
    return job_submit_durable(known, w->request, false, err);
}

static int add_job(struct spec_work *w, struct eo_error *err)
{
    struct jobs *js = jobs_of(w->request->server);
    if (js == NULL || js->draining) {
        return EO_RAISE(err, EO_E_SHUTTING_DOWN, "the daemon is ending and takes no new jobs");
    }
    struct job *known = jobs_by_key(js, w->key);
    if (known != NULL) {
        return answer_again(w, known, err);
    }
    const uint32_t queued = n_queued(js);
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
    rc = job_submit_durable(j, w->request, true, err);
    if (rc != EO_OK) {
        job_forget(j);
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

static int read_file_refs(const struct eo_item *params, const char *key, struct job_file_ref *out, int most, int *out_n,
                          struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int rc = eo_need_array(params, key, (size_t)most, &list, err);
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(list); i++) {
        struct job_file_ref *f = &out[(*out_n)++];
        const struct eo_item *it = eo_item_at(list, i);
        rc = eo_need_str(it, "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = eo_get_str(it, "sha256", "", f->sha256, sizeof f->sha256, err);
        }
        if (rc == EO_OK) {
            rc = eo_get_u64(it, "size", 0, INT64_MAX, &f->size, err);
        }
        if (rc == EO_OK && f->sha256[0] != '\0' && !blobs_name_valid(f->sha256)) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "entry %zu of %s has no valid SHA-256", i, key);
        }
    }
    return rc;
}

static int read_resume_files(struct spec_work *w, const struct eo_item *params, struct eo_error *err)
{
    if (eo_item_kind(eo_item_get(params, "resume_files")) == EO_ITEM_NIL) {
        return EO_OK;
    }
    int rc = read_file_refs(params, "resume_files", w->resume_files, JOB_MAX_RESUME_FILES, &w->n_resume_files, err);
    for (int i = 0; i < w->n_resume_files && rc == EO_OK; i++) {
        if (!job_file_name_safe(w->resume_files[i].path) || w->resume_files[i].sha256[0] == '\0') {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS,
                          "entry %d of resume_files needs a relative path without dots, and a SHA-256", i);
        }
    }
    if (rc == EO_OK && w->resume[0] != '\0') {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "resume and resume_files exclude each other");
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
    if (rc == EO_OK && w->key[0] == '\0') {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "the key of a submit is empty");
    }
    if (rc == EO_OK) {
        rc = read_file_refs(r->params, "files", w->given, JOB_MAX_FILES, &w->n_given, err);
    }
    if (rc == EO_OK) {
        rc = read_resume_files(w, r->params, err);
    }
    if (rc == EO_OK) {
        rc = read_host_list(w, r->params, err);
    }
    if (rc == EO_OK) {
        w->data_dirs = r->server->config->data_dirs;
        rc = loop_work(r->server->loop, LOOP_FILES, submit_work, submit_done, w, err);
    }
    if (rc != EO_OK && w != NULL) {
        free_spec_work(w);
    }
    return rc;
}
