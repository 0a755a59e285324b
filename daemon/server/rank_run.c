#include "daemon/server/rank_run.h"

#include "daemon/jobs/blobs.h"
#include "daemon/server/loop.h"
#include "daemon/server/process.h"
#include "daemon/server/server.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_GRACE_MS = 1000,    /* after its answer a worker has nothing left to do */
    ABORT_GRACE_MS = 1000,  /* survivors report a lost peer within 2 s */
    CANCEL_GRACE_MS = 60000 /* a step and a checkpoint; a drain has the daemon's own limit */
};
enum { PATH_SIZE = 1400, RESULT_MAX = 1 << 20, TOKEN_SIZE = 32 };

struct rank_run {
    struct server *server;
    struct rank_callbacks callbacks;
    struct job_record *record; /* own copy */
    char dir[PATH_SIZE];
    char resume[PATH_SIZE]; /* chosen by prepare_work */
    int rank, world_size;
    uint64_t epoch;
    uint8_t token[TOKEN_SIZE];
    struct worker_process *worker;
    struct loop_timer *grace; /* kills a worker that does not follow */
    bool preparing;           /* the folder is being made on another thread */
    bool go, sent, answered, aborted, finished;
    struct eo_error cause; /* of aborted, or the worker's refusal */
    struct eo_bytes result;
    uint64_t progress_bytes;
    struct eo_error prepare_error;
};

static void free_run(struct rank_run *r)
{
    loop_timer_free(r->grace);
    job_record_free(r->record);
    eo_bytes_fini(&r->result);
    free(r);
}

static void finish(struct rank_run *r, const struct eo_error *err, const struct eo_item *result)
{
    if (!r->finished) {
        r->finished = true;
        r->callbacks.finished(r->callbacks.ctx, err, result);
    }
}

/* ---- the task ---- */

static void pack_files(const struct rank_run *r, struct eo_bytes *b)
{
    const struct job_record *rec = r->record;
    eo_pack_array(b, (size_t)rec->n_files);
    for (int i = 0; i < rec->n_files; i++) {
        char local[BLOBS_PATH];
        const bool is_blob = rec->files[i].sha256[0] != '\0';
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "path", rec->files[i].path);
        eo_pack_kv_str(b, "sha256", rec->files[i].sha256);
        eo_pack_kv_str(b, "local",
                       is_blob && blobs_path(r->server->state_dir, rec->files[i].sha256, local) ? local
                                                                                                : rec->files[i].path);
    }
}

static void pack_task(const struct rank_run *r, struct eo_bytes *b)
{
    char output[PATH_SIZE + 16];
    const int n_hosts = r->world_size > 1 ? r->world_size : 0;
    snprintf(output, sizeof output, "%s/output", r->dir);
    eo_pack_map(b, 11);
    eo_pack_kv_str(b, "spec", r->record->spec);
    eo_pack_str(b, "files");
    pack_files(r, b);
    eo_pack_kv_str(b, "output_dir", output);
    eo_pack_kv_str(b, "resume", r->resume);
    eo_pack_kv_i64(b, "threads", r->server->n_threads);
    eo_pack_kv_str(b, "job", r->record->id);
    eo_pack_kv_i64(b, "rank", r->rank);
    eo_pack_kv_i64(b, "world_size", r->world_size);
    eo_pack_str(b, "hosts");
    eo_pack_array(b, (size_t)n_hosts);
    for (int i = 0; i < n_hosts; i++) {
        eo_pack_str(b, r->record->hosts[i]);
    }
    eo_pack_kv_u64(b, "epoch", r->epoch);
    eo_pack_str(b, "token");
    eo_pack_bin(b, r->token, sizeof r->token);
}

/* The outcome is told when the process is gone, so that a slot that is free and a job that has ended are just that. */
static void end_worker(struct rank_run *r)
{
    loop_timer_start(r->grace, END_GRACE_MS, 0);
    worker_process_end(r->worker);
}

static void on_reply(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct rank_run *r = ctx;
    if (r->aborted || r->answered) {
        end_worker(r);
        return;
    }
    r->answered = true;
    if (err != NULL) {
        r->cause = *err;
    } else {
        eo_pack_item(&r->result, result);
    }
    end_worker(r);
}

static void send_job(struct rank_run *r)
{
    struct eo_error err = {0};
    r->sent = true;
    pack_task(r, worker_process_task(r->worker, EO_MSG_TASK_JOB));
    if (worker_process_send(r->worker, on_reply, r, &err) != EO_OK) {
        on_reply(r, &err, NULL);
    }
}

static void on_report(void *ctx, enum eo_message m, const struct eo_item *params)
{
    struct rank_run *r = ctx;
    if (m == EO_MSG_REPORT_READY) {
        r->callbacks.started(r->callbacks.ctx, params);
    } else if (m == EO_MSG_REPORT_PROGRESS) {
        eo_item_as_u64(eo_item_get(params, "collective_bytes"), &r->progress_bytes);
        r->callbacks.progress(r->callbacks.ctx, params);
    } else if (m == EO_MSG_REPORT_LOG) {
        const char *text = NULL;
        size_t length = 0;
        if (eo_item_as_str(eo_item_get(params, "text"), &text, &length)) {
            r->callbacks.log(r->callbacks.ctx, text, length);
        }
    }
}

static void on_exited(void *ctx, const struct eo_error *why)
{
    struct rank_run *r = ctx;
    struct eo_doc doc = {0};
    r->worker = NULL;
    if (r->cause.code != 0) {
        finish(r, &r->cause, NULL);
    } else if (!r->answered) {
        finish(r, why, NULL);
    } else if (r->result.failed || eo_doc_parse(&doc, r->result.data, r->result.size, &r->cause) != EO_OK) {
        EO_RAISE(&r->cause, EO_E_NO_MEMORY, "no memory for the result of job %.8s", r->record->id);
        finish(r, &r->cause, NULL);
    } else {
        finish(r, NULL, doc.root);
        eo_doc_fini(&doc);
    }
    free_run(r);
}

/* ---- starting ---- */

static bool has_checkpoint(const char *folder)
{
    bool found = false;
    DIR *d = opendir(folder);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && !found; e = readdir(d)) {
        found = strncmp(e->d_name, "step-", 5) == 0;
    }
    if (d != NULL) {
        closedir(d);
    }
    return found;
}

/* A checkpoint that came with the submit appears in the job's folder. */
static int place_resume(struct rank_run *r, struct eo_error *err)
{
    char path[PATH_SIZE + 1200];
    int rc = EO_OK;
    for (int i = 0; i < r->record->n_resume_files && rc == EO_OK; i++) {
        const struct job_file_ref *f = &r->record->resume_files[i];
        int n = snprintf(path, sizeof path, "%s/resume/%s", r->dir, f->path);
        if (n < 0 || (size_t)n >= sizeof path) {
            return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
        }
        char *slash = strrchr(path, '/');
        *slash = '\0';
        rc = eo_dir_ensure(path, 0700, err);
        *slash = '/';
        if (rc == EO_OK) {
            rc = blobs_materialise(r->server->state_dir, f->sha256, path, err);
        }
    }
    return rc;
}

static int choose_resume(struct rank_run *r, struct eo_error *err)
{
    char path[PATH_SIZE + 32];
    int n = 0;
    snprintf(path, sizeof path, "%s/output/checkpoints", r->dir);
    if (r->rank != 0) {
        return EO_OK; /* all ranks go on from rank 0's */
    }
    if (has_checkpoint(path)) {
        eo_copy_text(r->resume, sizeof r->resume, "auto");
    } else if (r->record->n_resume_files > 0) {
        n = snprintf(r->resume, sizeof r->resume, "%s/resume", r->dir);
    } else if (r->record->resume[0] != '\0') {
        n = snprintf(r->resume, sizeof r->resume, "%s/jobs/%s/output", r->server->state_dir, r->record->resume);
    }
    if (n < 0 || (size_t)n >= sizeof r->resume) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    return n > 0 && r->record->n_resume_files > 0 ? place_resume(r, err) : EO_OK;
}

static void prepare_work(void *ctx)
{
    struct rank_run *r = ctx;
    struct eo_error *err = &r->prepare_error;
    char path[PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/output", r->dir);
    int rc = eo_dir_ensure(path, 0700, err);
    if (rc == EO_OK) {
        snprintf(path, sizeof path, "%s/spec.yaml", r->dir);
        rc = eo_file_write_atomic(path, r->record->spec, strlen(r->record->spec), 0600, err);
    }
    if (rc == EO_OK) {
        choose_resume(r, err);
    }
}

static void prepare_done(void *ctx)
{
    struct rank_run *r = ctx;
    struct eo_error err = r->prepare_error;
    const char *const args[] = {"--job", r->record->id};
    const struct worker_callbacks callbacks = {.ctx = r, .report = on_report, .exited = on_exited};
    r->preparing = false;
    if (!r->finished && err.code == EO_OK) {
        worker_process_spawn(r->server, args, 2, -1, &callbacks, &r->worker, &err);
    }
    if (r->finished || err.code != EO_OK) {
        finish(r, &err, NULL);
        free_run(r);
        return;
    }
    r->callbacks.ready(r->callbacks.ctx);
    if (r->world_size == 1 && !r->sent && r->cause.code == 0) {
        send_job(r);
    }
}

static void on_grace(void *ctx)
{
    struct rank_run *r = ctx;
    if (r->worker != NULL) {
        worker_process_kill(r->worker);
    }
}

int rank_run_start(struct server *s, const struct rank_config *config, const struct rank_callbacks *callbacks,
                   struct rank_run **out, struct eo_error *err)
{
    struct rank_run *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to start a job");
    }
    r->server = s;
    r->callbacks = *callbacks;
    r->rank = config->rank;
    r->world_size = config->world_size;
    r->epoch = config->epoch;
    if (config->token != NULL) {
        memcpy(r->token, config->token, sizeof r->token);
    }
    eo_bytes_init(&r->result, RESULT_MAX);
    r->record = job_record_copy(config->record);
    r->grace = loop_timer_new(s->loop, on_grace, r);
    int rc = EO_OK;
    if (r->record == NULL || r->grace == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to start job %.8s", config->record->id);
    } else if (!eo_copy_text(r->dir, sizeof r->dir, config->dir)) {
        rc = EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    } else {
        r->preparing = true;
        rc = loop_work(s->loop, LOOP_FILES, prepare_work, prepare_done, r, err);
    }
    if (rc != EO_OK) {
        free_run(r);
        return rc;
    }
    *out = r;
    return EO_OK;
}

void rank_run_go(struct rank_run *r)
{
    if (!r->sent && r->cause.code == 0) {
        send_job(r);
    }
}

/* ---- ending ---- */

static void ignore_reply(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    EO_UNUSED(ctx);
    EO_UNUSED(err);
    EO_UNUSED(result);
}

/* Without a running job there is nothing to stop in good order. */
static bool end_unsent(struct rank_run *r, const struct eo_error *cause)
{
    if (r->sent) {
        return false;
    }
    if (r->cause.code == 0) {
        r->cause = *cause;
    }
    if (r->preparing) {
        finish(r, cause, NULL); /* prepare_done frees */
    } else {
        end_worker(r);
    }
    return true;
}

void rank_run_stop(struct rank_run *r, int stop)
{
    struct eo_error unstarted = {0};
    EO_RAISE(&unstarted, stop == 1 ? EO_E_CANCELLED : EO_E_SHUTTING_DOWN, "%s before the job started",
             stop == 1 ? "cancelled" : "the daemon ended");
    if (end_unsent(r, &unstarted) || r->answered) {
        return;
    }
    struct eo_bytes *b = worker_process_task(r->worker, EO_MSG_TASK_STOP);
    eo_pack_map(b, 1);
    eo_pack_kv_i64(b, "stop", stop);
    if (worker_process_send(r->worker, ignore_reply, NULL, NULL) != EO_OK) {
        worker_process_kill(r->worker);
    } else if (stop == 1) {
        loop_timer_start(r->grace, CANCEL_GRACE_MS, 0);
    }
}

void rank_run_abort(struct rank_run *r, const struct eo_error *cause)
{
    if (end_unsent(r, cause) || r->answered || r->aborted) {
        return;
    }
    r->aborted = true;
    r->cause = *cause;
    struct eo_bytes *b = worker_process_task(r->worker, EO_MSG_TASK_ABORT);
    eo_pack_map(b, 1);
    eo_pack_str(b, "error");
    eo_error_pack(b, cause);
    if (worker_process_send(r->worker, ignore_reply, NULL, NULL) != EO_OK) {
        worker_process_kill(r->worker);
    } else {
        loop_timer_start(r->grace, ABORT_GRACE_MS, 0);
    }
}

void rank_run_abandon(struct rank_run *r)
{
    struct eo_error ends = {0};
    EO_RAISE(&ends, EO_E_SHUTTING_DOWN, "the daemon ended");
    if (!end_unsent(r, &ends)) {
        end_worker(r);
    }
}

int rank_run_pass_fd(struct rank_run *r, int fd, int from_rank, struct eo_error *err)
{
    if (r->worker == NULL) {
        return EO_RAISE(err, EO_E_BAD_STATE, "the worker of job %.8s is not running", r->record->id);
    }
    const int32_t tag = from_rank;
    return worker_process_send_fd(r->worker, fd, &tag, sizeof tag, err);
}

pid_t rank_run_pid(const struct rank_run *r)
{
    return r->worker != NULL ? worker_process_pid(r->worker) : 0;
}

uint64_t rank_run_progress(const struct rank_run *r)
{
    return r->progress_bytes;
}
