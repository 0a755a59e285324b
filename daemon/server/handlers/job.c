/* job.* requests that ask about jobs, cancel and remove them. */
#include "daemon/server/handlers.h"
#include "daemon/server/jobs.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/frame.h"

#include <stdlib.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 10000, LIST_BYTES = EO_ENVELOPE_MAX - (64 << 10), JOB_MAP_MAX = 1 << 20 };

int job_of_request(struct request *r, struct job **out, struct eo_error *err)
{
    struct jobs *js = jobs_of(r->server);
    char id[64];
    int rc = eo_need_str(r->params, "job", id, sizeof id, err);
    if (rc == EO_OK && js == NULL) {
        rc = EO_RAISE(err, EO_E_SHUTTING_DOWN, "this daemon is shutting down");
    }
    return rc != EO_OK ? rc : jobs_find(js, id, out, err);
}

/* ---- asking ---- */

static bool listed(const struct job *j)
{
    return j->durable && !j->removing;
}

/* As many as fit into one envelope; the answer says how many there are in all, so that a client asks on from there. */
HANDLER(JOB_LIST)
{
    const struct jobs *js = jobs_of(r->server);
    uint64_t limit = 0;
    uint64_t offset = 0;
    uint64_t total = 0;
    size_t n = 0;
    struct eo_bytes maps;
    struct eo_bytes one;
    int rc = eo_get_u64(r->params, "limit", LIST_DEFAULT, LIST_MAX, &limit, err);
    if (rc == EO_OK) {
        rc = eo_get_u64(r->params, "offset", 0, INT64_MAX, &offset, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    eo_bytes_init(&maps, LIST_BYTES);
    eo_bytes_init(&one, JOB_MAP_MAX);
    bool full = false;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        if (!listed(j) || total++ < offset || n == limit || full) {
            continue;
        }
        eo_bytes_clear(&one);
        job_pack(&one, j);
        full = one.failed || maps.size + one.size > LIST_BYTES;
        if (!full) {
            eo_bytes_append(&maps, one.data, one.size);
            full = maps.failed;
            n += !full;
        }
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 2);
    eo_pack_str(b, "jobs");
    eo_pack_array(b, n);
    eo_bytes_append(b, maps.data, maps.size);
    eo_pack_kv_u64(b, "total", total);
    request_send(r);
    eo_bytes_fini(&maps);
    eo_bytes_fini(&one);
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

/* ---- cancel ---- */

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
    if (!already && !j->cancelled) {
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

/* ---- remove: first from the journal, then from the table, then its files ---- */

struct removal {
    struct loop_call call;
    struct request *request;
    struct job *job; /* a reference */
    char dir[JOBS_DIR_SIZE];
    struct eo_error error;
};

static void free_removal(struct removal *w)
{
    if (w->error.code != 0) {
        request_fail(w->request, &w->error);
    } else {
        request_ok(w->request);
    }
    request_unref(w->request);
    if (w->job != NULL) {
        job_unref(w->job);
    }
    free(w);
}

static void remove_files(void *ctx)
{
    struct removal *w = ctx;
    eo_dir_remove(w->dir, &w->error);
}

static void files_removed(void *ctx)
{
    free_removal(ctx);
}

static void row_removed(void *ctx)
{
    struct removal *w = ctx;
    struct job *j = w->job;
    if (w->error.code != 0) {
        j->removing = false;
        free_removal(w);
        return;
    }
    job_forget(j);
    w->job = NULL;
    const bool is_member = j->is_member; /* whose files go with the job itself */
    struct loop *loop = j->jobs->server->loop;
    job_unref(j);
    if (is_member || loop_work(loop, LOOP_FILES, remove_files, files_removed, w, &w->error) != EO_OK) {
        free_removal(w);
    }
}

static void row_removed_in_journal(void *ctx, const struct eo_error *err)
{
    struct removal *w = ctx;
    if (err != NULL) {
        w->error = *err;
    }
    loop_post(w->job->jobs->server->loop, &w->call);
}

HANDLER(JOB_REMOVE)
{
    struct job *j = NULL;
    int rc = job_of_request(r, &j, err);
    if (rc != EO_OK) {
        return rc;
    }
    if (!job_state_ended(j->record->state) || job_active(j)) {
        EO_RAISE(err, EO_E_BAD_STATE, "job %.8s is %s", j->record->id, job_state_name(j->record->state));
        eo_error_hint(err, "Cancel it first: `everyo-submit cancel %.8s`.", j->record->id);
        return EO_E_BAD_STATE;
    }
    struct removal *w = calloc(1, sizeof *w);
    if (w == NULL || !job_dir(j, w->dir)) {
        free(w);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to remove a job");
    }
    w->call = (struct loop_call){.fn = row_removed, .ctx = w};
    w->request = request_ref(r);
    w->job = job_ref(j);
    if (j->is_member) {
        row_removed(w);
        return EO_OK;
    }
    rc = journal_remove(j->jobs->journal, j->record->id, row_removed_in_journal, w, err);
    if (rc == EO_OK) {
        j->removing = true;
        return EO_OK;
    }
    job_unref(j);
    request_unref(w->request); /* not answered: the dispatcher does */
    free(w);
    return rc;
}
