/* job.* requests that ask about jobs, cancel and remove them. */
#include "daemon/server/handlers.h"
#include "daemon/server/jobs.h"
#include "daemon/server/rank_run.h"
#include "proto/base/file.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { PATH_SIZE = 1400 };

int job_of_request(struct request *r, struct job **out, struct eo_error *err)
{
    char id[64];
    int rc = eo_need_str(r->params, "job", id, sizeof id, err);
    return rc != EO_OK ? rc : jobs_find(jobs_of(r->server), id, out, err);
}

/* ---- asking ---- */

HANDLER(JOB_LIST)
{
    const struct jobs *js = jobs_of(r->server);
    uint64_t limit = 0;
    uint64_t n = 0;
    int rc = eo_get_u64(r->params, "limit", 100, 10000, &limit, err);
    if (rc != EO_OK) {
        return rc;
    }
    /* What fits into one envelope is sent; a job's map is below 4 KiB but for long error texts. */
    struct eo_bytes *b = request_result(r);
    for (const struct job *j = js->list; j != NULL && n < limit; j = j->next) {
        n++;
    }
    n = EO_MIN(n, (uint64_t)200);
    eo_pack_map(b, 1);
    eo_pack_str(b, "jobs");
    eo_pack_array(b, (size_t)n);
    const struct job *j = js->list;
    for (uint64_t i = 0; i < n; i++, j = j->next) {
        job_pack(b, j);
    }
    request_send(r);
    return EO_OK;
}

HANDLER(JOB_STATUS)
{
    struct job *j = NULL;
    int rc = job_of_request(r, &j, err);
    if (rc != EO_OK) {
        return rc;
    }
    job_pack(request_result(r), j);
    request_send(r);
    return EO_OK;
}

HANDLER(JOB_WATCH)
{
    struct job *j = NULL;
    int rc = job_of_request(r, &j, err);
    return rc != EO_OK ? rc : job_watch_start(j, r, err);
}

/* ---- cancel and remove ---- */

HANDLER(JOB_CANCEL)
{
    struct job *j = NULL;
    char reason[200];
    int rc = job_of_request(r, &j, err);
    if (rc == EO_OK) {
        rc = eo_get_str(r->params, "reason", "asked for by a client", reason, sizeof reason, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    const bool already = job_state_ended(j->record->state);
    if (j->is_member && !already) {
        EO_RAISE(err, EO_E_BAD_STATE, "job %.8s is coordinated by %s", j->record->id, j->coordinator_host);
        eo_error_hint(err, "Cancel it there: `everyo-submit cancel %.8s -H %s`.", j->record->id, j->coordinator_host);
        return EO_E_BAD_STATE;
    }
    if (!already) {
        job_cancel(j, reason);
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 3);
    eo_pack_kv_i64(b, "schema", 1);
    eo_pack_kv_str(b, "state", job_state_name(j->record->state));
    eo_pack_kv_bool(b, "already", already);
    request_send(r);
    return EO_OK;
}

struct remove_work {
    struct request *request;
    char dir[PATH_SIZE];
    struct eo_error error;
};

static void remove_files(void *ctx)
{
    struct remove_work *w = ctx;
    struct stat st;
    if (stat(w->dir, &st) == 0) {
        eo_dir_remove(w->dir, &w->error);
    }
}

static void remove_done(void *ctx)
{
    struct remove_work *w = ctx;
    if (w->error.code != 0) {
        request_fail(w->request, &w->error);
    } else {
        request_ok(w->request);
    }
    request_unref(w->request);
    free(w);
}

HANDLER(JOB_REMOVE)
{
    struct job *j = NULL;
    int rc = job_of_request(r, &j, err);
    if (rc != EO_OK) {
        return rc;
    }
    if (!job_state_ended(j->record->state) || !job_log_settled(j)) {
        EO_RAISE(err, EO_E_BAD_STATE, "job %.8s is %s", j->record->id, job_state_name(j->record->state));
        eo_error_hint(err, "Cancel it first: `everyo-submit cancel %.8s`.", j->record->id);
        return EO_E_BAD_STATE;
    }
    struct eo_error gone = {0};
    EO_RAISE(&gone, EO_E_NO_JOB, "job %.8s was removed", j->record->id);
    job_watch_fail(j, &gone);
    if (j->watchers != NULL) {
        return EO_RAISE(err, EO_E_BUSY, "the log of job %.8s is being read", j->record->id);
    }
    struct remove_work *w = calloc(1, sizeof *w);
    if (w == NULL || !rank_run_dir(r->server, j->record->id, w->dir, sizeof w->dir)) {
        free(w);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to remove a job");
    }
    w->request = request_ref(r);
    rc = loop_work(r->server->loop, LOOP_FILES, remove_files, remove_done, w, err);
    if (rc == EO_OK && !j->is_member) {
        rc = journal_remove(jobs_of(r->server)->journal, j->record->id, NULL, NULL, err);
    }
    jobs_forget(j);
    return EO_OK;
}
