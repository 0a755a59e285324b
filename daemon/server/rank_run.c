#include "daemon/server/rank_run.h"

#include "daemon/jobs/blobs.h"
#include "daemon/server/loop.h"
#include "daemon/server/process.h"
#include "daemon/server/server.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ABORT_GRACE_MS = 5000, STOP_GRACE_MS = 60000, PATH_SIZE = 1200 };

struct rank_run {
    struct server *server;
    struct rank_callbacks callbacks;
    char job[JOB_ID_SIZE];
    char dir[PATH_SIZE];
    char resume[PATH_SIZE];
    char *spec;
    struct job_file_ref *files;
    int n_files;
    int rank, world_size;
    char (*hosts)[300];
    uint64_t epoch;
    uint8_t token[32];
    struct worker_process *worker;
    struct loop_timer *grace; /* kills a worker that does not follow stop or abort */
    bool preparing;           /* the folder is being made on another thread */
    bool gone;                /* finished while preparing: only the thread's end is awaited */
    bool go, sent, finished;
    int pending_stop;
    uint64_t progress_bytes;
    struct eo_error prepare_error;
};

bool rank_run_dir(const struct server *s, const char *job, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/jobs/%s", s->state_dir, job);
    return n > 0 && (size_t)n < size;
}

static void free_run(struct rank_run *r)
{
    loop_timer_free(r->grace);
    free(r->spec);
    free(r->files);
    free(r->hosts);
    free(r);
}

/* Tells the owner once; the run ends when process and thread are gone. */
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
    eo_pack_array(b, (size_t)r->n_files);
    for (int i = 0; i < r->n_files; i++) {
        char local[BLOBS_PATH];
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "path", r->files[i].path);
        eo_pack_kv_str(b, "sha256", r->files[i].sha256);
        if (r->files[i].sha256[0] != '\0' && blobs_path(r->server->state_dir, r->files[i].sha256, local)) {
            eo_pack_kv_str(b, "local", local);
        } else {
            eo_pack_kv_str(b, "local", r->files[i].path);
        }
    }
}

static void pack_task(const struct rank_run *r, struct eo_bytes *b)
{
    char output[PATH_SIZE + 16];
    snprintf(output, sizeof output, "%s/output", r->dir);
    eo_pack_map(b, 11);
    eo_pack_kv_str(b, "spec", r->spec);
    eo_pack_str(b, "files");
    pack_files(r, b);
    eo_pack_kv_str(b, "output_dir", output);
    eo_pack_kv_str(b, "resume", r->resume);
    eo_pack_kv_i64(b, "threads", r->server->n_threads);
    eo_pack_kv_str(b, "job", r->job);
    eo_pack_kv_i64(b, "rank", r->rank);
    eo_pack_kv_i64(b, "world_size", r->world_size);
    eo_pack_str(b, "hosts");
    eo_pack_array(b, r->world_size > 1 ? (size_t)r->world_size : 0);
    for (int i = 0; i < r->world_size && r->world_size > 1; i++) {
        eo_pack_str(b, r->hosts[i]);
    }
    eo_pack_kv_u64(b, "epoch", r->epoch);
    eo_pack_str(b, "token");
    eo_pack_bin(b, r->token, sizeof r->token);
}

static void on_reply(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct rank_run *r = ctx;
    finish(r, err, result);
    worker_process_close(r->worker); /* exited follows and frees the run */
}

static void send_job(struct rank_run *r)
{
    struct eo_error err = {0};
    r->sent = true;
    struct eo_bytes *b = worker_process_task(r->worker, EO_MSG_TASK_JOB);
    pack_task(r, b);
    if (worker_process_send(r->worker, on_reply, r, &err) != EO_OK) {
        finish(r, &err, NULL);
        worker_process_close(r->worker);
    } else if (r->pending_stop != 0) {
        rank_run_stop(r, r->pending_stop);
    }
}

static void on_report(void *ctx, enum eo_message m, const struct eo_item *params)
{
    struct rank_run *r = ctx;
    if (r->finished) {
        return;
    }
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
    r->worker = NULL;
    finish(r, why, NULL);
    free_run(r);
}

/* ---- starting ---- */

static void prepare_work(void *ctx)
{
    struct rank_run *r = ctx;
    char path[PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/output", r->dir);
    int rc = eo_dir_ensure(path, 0700, &r->prepare_error);
    if (rc == EO_OK) {
        snprintf(path, sizeof path, "%s/spec.yaml", r->dir);
        eo_file_write_atomic(path, r->spec, strlen(r->spec), 0600, &r->prepare_error);
    }
}

static void prepare_done(void *ctx)
{
    struct rank_run *r = ctx;
    struct eo_error err = {0};
    const char *const args[] = {"--job", r->job};
    const struct worker_callbacks callbacks = {.ctx = r, .report = on_report, .exited = on_exited};
    r->preparing = false;
    if (r->gone) {
        free_run(r);
        return;
    }
    int rc = r->prepare_error.code;
    if (rc != EO_OK) {
        err = r->prepare_error;
    } else {
        rc = worker_process_spawn(r->server, args, 2, -1, &callbacks, &r->worker, &err);
    }
    if (rc != EO_OK) {
        finish(r, &err, NULL);
        free_run(r);
        return;
    }
    r->callbacks.ready(r->callbacks.ctx);
    if (r->world_size == 1 || r->go) {
        send_job(r);
    }
}

static int copy_config(struct rank_run *r, const struct rank_config *c, struct eo_error *err)
{
    eo_copy_text(r->job, sizeof r->job, c->job);
    r->rank = c->rank;
    r->world_size = c->world_size;
    r->epoch = c->epoch;
    r->spec = strdup(c->spec);
    r->files = calloc((size_t)EO_MAX(c->n_files, 1), sizeof *r->files);
    r->hosts = calloc((size_t)c->world_size, sizeof *r->hosts);
    if (r->spec == NULL || r->files == NULL || r->hosts == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to start job %.8s", c->job);
    }
    r->n_files = c->n_files;
    memcpy(r->files, c->files, (size_t)c->n_files * sizeof *r->files);
    if (c->world_size > 1) {
        memcpy(r->hosts, c->hosts, (size_t)c->world_size * sizeof *r->hosts);
        memcpy(r->token, c->token, sizeof r->token);
    }
    if (!rank_run_dir(r->server, c->job, r->dir, sizeof r->dir)) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    if (c->resume[0] == '\0' || strcmp(c->resume, "auto") == 0) {
        eo_copy_text(r->resume, sizeof r->resume, c->resume);
    } else {
        int n = snprintf(r->resume, sizeof r->resume, "%s/jobs/%s/output", r->server->state_dir, c->resume);
        if (n < 0 || (size_t)n >= sizeof r->resume) {
            return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
        }
    }
    return EO_OK;
}

static void on_grace(void *ctx)
{
    rank_run_kill(ctx);
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
    r->grace = loop_timer_new(s->loop, on_grace, r);
    int rc = copy_config(r, config, err);
    if (rc == EO_OK && r->grace == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to start job %.8s", config->job);
    }
    if (rc == EO_OK) {
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
    r->go = true;
    if (r->worker != NULL && !r->sent) {
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
    finish(r, cause, NULL);
    if (r->preparing) {
        r->gone = true;
    } else if (r->worker != NULL) {
        worker_process_close(r->worker);
    }
    return true;
}

void rank_run_stop(struct rank_run *r, int stop)
{
    struct eo_error cancelled = {0};
    EO_RAISE(&cancelled, EO_E_CANCELLED, "the job was cancelled before it started");
    r->pending_stop = stop;
    if (r->finished || end_unsent(r, &cancelled)) {
        return;
    }
    struct eo_bytes *b = worker_process_task(r->worker, EO_MSG_TASK_STOP);
    eo_pack_map(b, 1);
    eo_pack_kv_i64(b, "stop", stop);
    if (worker_process_send(r->worker, ignore_reply, NULL, NULL) != EO_OK) {
        rank_run_kill(r);
    } else {
        loop_timer_start(r->grace, STOP_GRACE_MS, 0);
    }
}

void rank_run_abort(struct rank_run *r, const struct eo_error *cause)
{
    if (r->finished || end_unsent(r, cause)) {
        return;
    }
    struct eo_bytes *b = worker_process_task(r->worker, EO_MSG_TASK_ABORT);
    eo_pack_map(b, 1);
    eo_pack_str(b, "error");
    eo_error_pack(b, cause);
    if (worker_process_send(r->worker, ignore_reply, NULL, NULL) != EO_OK) {
        rank_run_kill(r);
    } else {
        loop_timer_start(r->grace, ABORT_GRACE_MS, 0);
    }
}

void rank_run_kill(struct rank_run *r)
{
    if (r->worker != NULL) {
        worker_process_kill(r->worker);
    }
}

int rank_run_pass_fd(struct rank_run *r, int fd, int from_rank, struct eo_error *err)
{
    if (r->worker == NULL) {
        return EO_RAISE(err, EO_E_BAD_STATE, "the worker of job %.8s is not running", r->job);
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
