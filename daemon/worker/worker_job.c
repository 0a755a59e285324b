/* task.job: one rank of a training job on a thread of its own, so that task.stop and task.abort get through. */
#include "daemon/worker/worker.h"

#include "daemon/jobs/spec.h"
#include "daemon/train/trainer.h"
#include "daemon/worker/rank_sockets.h"
#include "distributed/process_group.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = SPEC_MAX_FILES, PATH_SIZE = 1400 };

struct local_file {
    char path[1024];
    char sha256[65];
    char local[PATH_SIZE];
};

struct job_state {
    struct worker *worker;
    struct worker_call *call;
    pthread_t thread;
    _Atomic int stop;
    struct job_spec *spec;
    struct local_file files[MAX_FILES];
    int n_files;
    char output_dir[PATH_SIZE];
    char resume[PATH_SIZE];
    int threads;
    struct collective_config group; /* world_size 1: no group */
    struct rank_sockets *sockets;
    pthread_mutex_t lock; /* guards process_group and aborted against the task thread */
    struct process_group *process_group;
    bool aborted;
    struct eo_error abort_cause;
};

/* ---- reports ---- */

static void report_log(void *ctx, int level, const char *text)
{
    struct job_state *j = ctx;
    struct eo_bytes b;
    eo_bytes_init(&b, 16 << 10);
    eo_pack_map(&b, 2);
    eo_pack_kv_i64(&b, "level", level);
    eo_pack_kv_str(&b, "text", text);
    worker_report(j->worker, EO_MSG_REPORT_LOG, &b);
    eo_bytes_fini(&b);
}

static void pack_metrics(struct eo_bytes *b, const struct trainer_metric *metrics, int n)
{
    eo_pack_str(b, "metrics");
    eo_pack_map(b, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_pack_kv_f64(b, metrics[i].name, metrics[i].value);
    }
}

static void report_progress(void *ctx, const struct trainer_progress *p)
{
    struct job_state *j = ctx;
    struct eo_bytes b;
    eo_bytes_init(&b, 64 << 10);
    eo_pack_map(&b, 14);
    eo_pack_kv_i64(&b, "epoch", p->epoch);
    eo_pack_kv_i64(&b, "epochs", p->epochs);
    eo_pack_kv_i64(&b, "step", p->step);
    eo_pack_kv_i64(&b, "steps", p->steps);
    eo_pack_kv_i64(&b, "epoch_step", p->epoch_step);
    eo_pack_kv_i64(&b, "epoch_steps", p->epoch_steps);
    eo_pack_kv_bool(&b, "epoch_end", p->epoch_end);
    eo_pack_kv_f64(&b, "samples_per_second", p->samples_per_second);
    eo_pack_kv_f64(&b, "elapsed_seconds", p->seconds);
    eo_pack_str(&b, "eta_seconds");
    if (p->eta_seconds >= 0) {
        eo_pack_f64(&b, p->eta_seconds);
    } else {
        eo_pack_nil(&b);
    }
    eo_pack_kv_f64(&b, "lr", p->lr);
    pack_metrics(&b, p->metrics, p->n_metrics);
    eo_pack_kv_str(&b, "checkpoint", p->checkpoint[0] != '\0' ? p->checkpoint : NULL);
    eo_pack_kv_u64(&b, "collective_bytes", j->process_group != NULL ? process_group_progress(j->process_group) : 0);
    worker_report(j->worker, EO_MSG_REPORT_PROGRESS, &b);
    eo_bytes_fini(&b);
}

static void report_ready(struct job_state *j, const char *reason)
{
    const struct eo_device_info *info = &j->worker->device->info;
    struct eo_bytes b;
    eo_bytes_init(&b, 4096);
    eo_pack_map(&b, 3);
    eo_pack_str(&b, "device");
    eo_pack_map(&b, 2);
    eo_pack_kv_str(&b, "name", info->name);
    eo_pack_kv_str(&b, "description", info->description);
    eo_pack_kv_i64(&b, "threads", info->threads);
    eo_pack_kv_str(&b, "reason", reason);
    worker_report(j->worker, EO_MSG_REPORT_READY, &b);
    eo_bytes_fini(&b);
}

static int open_data(void *ctx, const struct spec_file *file, char *out_path, size_t size, struct eo_error *err)
{
    const struct job_state *j = ctx;
    for (int i = 0; i < j->n_files; i++) {
        if (strcmp(j->files[i].path, file->path) == 0) {
            if (!eo_copy_text(out_path, size, j->files[i].local)) {
                return EO_RAISE(err, EO_E_NO_FILE, "the local path of %s is too long", file->path);
            }
            return EO_OK;
        }
    }
    return EO_RAISE(err, EO_E_NO_FILE, "data file %s did not come with the job", file->path);
}

/* ---- the group ---- */

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static int open_group(struct job_state *j, struct eo_error *err)
{
    uint8_t hash[32];
    int fds[COLLECTIVE_MAX_RANKS];
    struct process_group *g = NULL;
    if (j->group.world_size == 1) {
        return EO_OK;
    }
    int rc = rank_sockets_connect(j->sockets, &j->group, &j->stop, fds, err);
    if (rc != EO_OK) {
        return rc;
    }
    /* Before any byte of training travels: the same layout everywhere. */
    rc = trainer_layout_hash(j->spec, hash, err);
    if (rc != EO_OK) {
        close_all(fds, j->group.world_size);
        return rc;
    }
    rc = process_group_open("tcp", &j->group, fds, hash, &g, err);
    if (rc != EO_OK) {
        return rc;
    }
    pthread_mutex_lock(&j->lock);
    j->process_group = g;
    if (j->aborted) {
        process_group_abort(g, &j->abort_cause);
    }
    pthread_mutex_unlock(&j->lock);
    return EO_OK;
}

static void close_group(struct job_state *j)
{
    pthread_mutex_lock(&j->lock);
    struct process_group *g = j->process_group;
    j->process_group = NULL;
    pthread_mutex_unlock(&j->lock);
    if (g != NULL) {
        process_group_close(g);
    }
}

/* ---- the thread ---- */

/* Data lies under the name of its content; people know it by the name in their job file. */
static void replace_text(char *text, size_t size, const char *from, const char *to)
{
    char whole[2 * PATH_SIZE];
    const char *at = from[0] != '\0' ? strstr(text, from) : NULL;
    if (at != NULL) {
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        eo_copy_text(text, size, whole);
    }
}

static void name_files_as_written(const struct job_state *j, struct eo_error *err)
{
    for (int i = 0; i < j->n_files; i++) {
        const struct local_file *f = &j->files[i];
        replace_text(err->message, sizeof err->message, f->local, f->path);
        replace_text(err->detail, sizeof err->detail, f->local, f->path);
        for (int k = 0; k < err->n_contexts; k++) {
            replace_text(err->contexts[k], sizeof err->contexts[k], f->local, f->path);
        }
    }
}

static int run(struct job_state *j, struct trainer_result *out, struct eo_error *err)
{
    char reason[200] = "";
    int rc = worker_open_device(j->worker, j->spec->device, j->spec->threads > 0 ? j->spec->threads : j->threads,
                                reason, sizeof reason, err);
    if (rc != EO_OK) {
        return rc;
    }
    report_ready(j, reason);
    rc = open_group(j, err);
    if (rc == EO_OK) {
        const struct trainer_config config = {
            .spec = j->spec,
            .executor = j->worker->executor,
            .group = j->process_group,
            .output_dir = j->output_dir,
            .resume_dir = j->resume,
            .stop = &j->stop,
            .callbacks = {.ctx = j, .progress = report_progress, .log = report_log, .open_data = open_data}};
        rc = trainer_run(&config, out, err);
    }
    close_group(j);
    if (rc != EO_OK && j->aborted && err != NULL) {
        *err = j->abort_cause; /* the first cause, not what it led to here */
        rc = err->code;
    }
    return rc;
}

static void *job_thread(void *ctx)
{
    struct job_state *j = ctx;
    struct trainer_result result = {0};
    struct eo_error err = {0};
    if (run(j, &result, &err) != EO_OK) {
        name_files_as_written(j, &err);
        if (j->group.world_size > 1 && err.host[0] == '\0') {
            eo_error_at_host(&err, j->group.hosts[j->group.rank], j->group.rank);
        }
        worker_refuse(j->worker, j->call, &err);
        return NULL;
    }
    struct eo_bytes b;
    eo_bytes_init(&b, 64 << 10);
    eo_pack_map(&b, 6);
    eo_pack_kv_i64(&b, "steps", result.steps);
    eo_pack_kv_i64(&b, "epochs", result.epochs);
    eo_pack_kv_f64(&b, "seconds", result.seconds);
    pack_metrics(&b, result.metrics, result.n_metrics);
    eo_pack_kv_str(&b, "parameters_sha256", result.parameters_sha256);
    eo_pack_kv_bool(&b, "stopped", result.stopped);
    worker_answer(j->worker, j->call, &b);
    eo_bytes_fini(&b);
    return NULL;
}

/* ---- tasks ---- */

static int read_files(struct job_state *j, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int rc = eo_need_array(params, "files", MAX_FILES, &list, err);
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(list); i++) {
        struct local_file *f = &j->files[j->n_files++];
        const struct eo_item *it = eo_item_at(list, i);
        rc = eo_need_str(it, "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = eo_get_str(it, "sha256", "", f->sha256, sizeof f->sha256, err);
        }
        if (rc == EO_OK) {
            rc = eo_need_str(it, "local", f->local, sizeof f->local, err);
        }
    }
    return rc;
}

static int read_spec(struct job_state *j, const struct eo_item *params, struct eo_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    if (!eo_item_as_str(eo_item_get(params, "spec"), &text, &length)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "task.job has no spec");
    }
    return spec_parse(text, length, "spec.yaml", NULL, 0, &j->spec, err);
}

static int read_group(struct collective_config *g, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *hosts = NULL;
    const uint8_t *token = NULL;
    size_t token_size = 0;
    char job[33];
    int64_t rank = 0;
    int64_t world = 1;
    int rc = eo_need_i64(params, "world_size", 1, COLLECTIVE_MAX_RANKS, &world, err);
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "rank", 0, world - 1, &rank, err);
    }
    g->rank = (int)rank;
    g->world_size = (int)world;
    g->deadline_ms = 30000;
    if (rc != EO_OK || world == 1) {
        return rc;
    }
    rc = eo_need_u64(params, "epoch", UINT64_MAX, &g->epoch, err);
    if (rc == EO_OK) {
        rc = eo_need_str(params, "job", job, sizeof job, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_array(params, "hosts", COLLECTIVE_MAX_RANKS, &hosts, err);
    }
    if (rc == EO_OK &&
        (eo_item_count(hosts) != (size_t)world || !eo_item_as_bin(eo_item_get(params, "token"), &token, &token_size) ||
         token_size != sizeof g->token)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "task.job of %lld ranks has not their hosts and token", (long long)world);
    }
    if (rc != EO_OK) {
        return rc;
    }
    memcpy(g->token, token, sizeof g->token);
    for (size_t i = 0; i < sizeof g->job; i++) {
        const char pair[3] = {job[2 * i], job[2 * i + 1], '\0'};
        g->job[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    for (int i = 0; i < g->world_size; i++) {
        const char *text = "";
        size_t length = 0;
        eo_item_as_str(eo_item_at(hosts, (size_t)i), &text, &length);
        length = EO_MIN(length, sizeof g->hosts[i] - 1);
        memcpy(g->hosts[i], text, length);
        g->hosts[i][length] = '\0';
    }
    return EO_OK;
}

TASK(JOB)
{
    struct job_state *j = w->job_state;
    EO_UNUSED(result);
    if (j == NULL || j->call != NULL) {
        return EO_RAISE(err, EO_E_BAD_STATE, "this worker runs %s", j == NULL ? "no jobs" : "a job already");
    }
    int64_t threads = 0;
    int rc = read_spec(j, call->params, err);
    if (rc == EO_OK) {
        rc = read_files(j, call->params, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_str(call->params, "output_dir", j->output_dir, sizeof j->output_dir, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(call->params, "resume", "", j->resume, sizeof j->resume, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_i64(call->params, "threads", 0, 4096, &threads, err);
    }
    if (rc == EO_OK) {
        rc = read_group(&j->group, call->params, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    j->threads = (int)threads;
    j->call = call;
    call->deferred = true; /* before the thread may answer */
    int errnum = pthread_create(&j->thread, NULL, job_thread, j);
    if (errnum != 0) {
        call->deferred = false;
        j->call = NULL;
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "the job's thread could not be started");
    }
    pthread_detach(j->thread); /* the process ends without waiting for it */
    return EO_OK;
}

TASK(STOP)
{
    struct job_state *j = w->job_state;
    int64_t stop = 0;
    int rc = eo_need_i64(call->params, "stop", 1, 2, &stop, err);
    if (rc == EO_OK && j != NULL) {
        atomic_store(&j->stop, (int)stop);
    }
    eo_pack_map(result, 0);
    return rc;
}

TASK(ABORT)
{
    struct job_state *j = w->job_state;
    struct eo_error cause = {0};
    EO_UNUSED(err);
    eo_error_unpack(eo_item_get(call->params, "error"), &cause);
    if (j != NULL) {
        pthread_mutex_lock(&j->lock);
        if (!j->aborted) {
            j->aborted = true;
            j->abort_cause = cause;
            atomic_store(&j->stop, 1);
            if (j->process_group != NULL) {
                process_group_abort(j->process_group, &cause);
            }
            rank_sockets_abort(j->sockets);
        }
        pthread_mutex_unlock(&j->lock);
    }
    eo_pack_map(result, 0);
    return EO_OK;
}

/* ---- life ---- */

static void on_fd(void *ctx, int fd, const void *tag, size_t size)
{
    struct job_state *j = ctx;
    int32_t rank = -1;
    if (size == sizeof rank) {
        memcpy(&rank, tag, sizeof rank);
    }
    rank_sockets_give(j->sockets, fd, rank);
}

int worker_job_init(struct worker *w, struct eo_error *err)
{
    struct job_state *j = calloc(1, sizeof *j);
    if (j == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    j->worker = w;
    pthread_mutex_init(&j->lock, NULL);
    int rc = rank_sockets_new(&j->sockets, err);
    if (rc != EO_OK) {
        pthread_mutex_destroy(&j->lock);
        free(j);
        return rc;
    }
    w->job_state = j;
    worker_on_fd(w, on_fd, j);
    return EO_OK;
}
