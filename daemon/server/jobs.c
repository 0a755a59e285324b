#include "daemon/server/jobs.h"

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/spec.h"
#include "daemon/server/coordinator.h"
#include "daemon/server/member.h"
#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PROGRESS_MAX = 1 << 16, LOG_WAITING_MAX = 4 << 20, SCHEDULE_MS = 500 };

struct jobs *jobs_of(struct server *s)
{
    return s->jobs;
}

/* ---- table ---- */

struct job *jobs_by_id(struct jobs *js, const char *id)
{
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (strcmp(j->record->id, id) == 0) {
            return j;
        }
    }
    return NULL;
}

struct job *jobs_by_key(struct jobs *js, const char *key)
{
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (!j->is_member && strcmp(j->record->key, key) == 0) {
            return j;
        }
    }
    return NULL;
}

int jobs_find(struct jobs *js, const char *prefix, struct job **out, struct eo_error *err)
{
    struct job *found = NULL;
    char quoted[100];
    eo_quote(prefix, strlen(prefix), quoted, sizeof quoted);
    if (!job_id_valid_prefix(prefix)) {
        EO_RAISE(err, EO_E_NO_JOB, "%s is no job id", quoted);
        eo_error_hint(err, "Ids are hexadecimal; `everyo-submit ls` shows them.");
        return EO_E_NO_JOB;
    }
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (strncmp(j->record->id, prefix, strlen(prefix)) == 0) {
            if (found != NULL) {
                EO_RAISE(err, EO_E_NO_JOB, "%s is the beginning of several job ids", quoted);
                eo_error_hint(err, "Give more digits.");
                return EO_E_NO_JOB;
            }
            found = j;
        }
    }
    if (found == NULL) {
        EO_RAISE(err, EO_E_NO_JOB, "there is no job %s", quoted);
        eo_error_hint(err, "`everyo-submit ls -a` lists all jobs of this daemon.");
        return EO_E_NO_JOB;
    }
    *out = found;
    return EO_OK;
}

struct job *jobs_add(struct jobs *js, struct job_record *record)
{
    struct job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        job_record_free(record);
        return NULL;
    }
    j->jobs = js;
    j->record = record;
    j->state_count = 1;
    eo_copy_text(j->device, sizeof j->device, "auto");
    eo_bytes_init(&j->progress, PROGRESS_MAX);
    eo_bytes_init(&j->log_waiting, LOG_WAITING_MAX);
    eo_bytes_init(&j->log_writing, LOG_WAITING_MAX);
    j->next = js->list;
    js->list = j;
    return j;
}

static void free_job(struct job *j)
{
    while (j->submitters != NULL) {
        struct job_submitter *w = j->submitters;
        j->submitters = w->next;
        request_unref(w->request);
        free(w);
    }
    eo_bytes_fini(&j->progress);
    job_log_fini(j);
    job_record_free(j->record);
    free(j);
}

void jobs_forget(struct job *j)
{
    struct job **at = &j->jobs->list;
    while (*at != NULL && *at != j) {
        at = &(*at)->next;
    }
    if (*at == j) {
        *at = j->next;
    }
    free_job(j);
}

/* ---- slots ---- */

bool jobs_slot_free(const struct jobs *js)
{
    return js->n_running < (uint32_t)js->server->config->slots && !js->draining;
}

void jobs_take_slot(struct jobs *js)
{
    js->n_running++;
}

void jobs_give_slot(struct jobs *js)
{
    js->n_running--;
    jobs_schedule(js);
}

void jobs_holder_text(const struct jobs *js, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (const struct job *j = js->list; j != NULL && at < size; j = j->next) {
        if (j->run != NULL || j->coordinator != NULL || j->member != NULL) {
            int n = snprintf(out + at, size - at, "%sjob %.8s%s%s", at > 0 ? ", " : "", j->record->id,
                             j->is_member ? " of " : "", j->is_member ? j->coordinator_host : "");
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

/* ---- changes ---- */

static void write_journal(struct job *j)
{
    struct eo_error err = {0};
    if (j->is_member) {
        return;
    }
    struct job_record *copy = job_record_copy(j->record);
    int rc = copy != NULL ? journal_put(j->jobs->journal, copy, NULL, NULL, &err)
                          : EO_RAISE(&err, EO_E_NO_MEMORY, "no memory to write job %.8s", j->record->id);
    if (rc != EO_OK) {
        eo_log_error("jobs", &err);
    }
}

void job_change(struct job *j, enum job_state state, const char *fmt, ...)
{
    struct job_record *r = j->record;
    char reason[sizeof r->reason] = "";
    if (fmt != NULL) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(reason, sizeof reason, fmt, args);
        va_end(args);
    }
    if (r->state == state && strcmp(r->reason, reason) == 0) {
        return;
    }
    const bool state_changed = r->state != state;
    r->state = state;
    eo_copy_text(r->reason, sizeof r->reason, reason);
    j->state_count++;
    if (state == JOB_RUNNING && r->started_ms == 0) {
        r->started_ms = eo_wall_ms();
    }
    if (job_state_ended(state)) {
        r->ended_ms = eo_wall_ms();
    }
    if (state_changed) {
        eo_log(EO_LOG_INFO, "jobs", "job %.8s is %s%s%s", r->id, job_state_name(state), reason[0] != '\0' ? ": " : "",
               reason);
        write_journal(j); /* a new reason alone is not worth a disk write */
    }
    job_watch_kick(j);
}

void job_set_progress(struct job *j, const struct eo_item *progress)
{
    const struct eo_item *steps = eo_item_get(progress, "step");
    const struct eo_item *epochs = eo_item_get(progress, "epoch");
    eo_item_as_i64(steps, &j->record->steps);
    eo_item_as_i64(epochs, &j->record->epochs);
    eo_item_as_f64(eo_item_get(progress, "elapsed_seconds"), &j->record->seconds);
    eo_bytes_clear(&j->progress);
    eo_pack_item(&j->progress, progress);
    if (j->progress.failed) {
        eo_bytes_clear(&j->progress);
    }
    job_pack_metrics(&j->record->metrics, eo_item_get(progress, "metrics"));
    j->progress_count++;
    job_watch_kick(j);
}

static void take_result(struct job *j, const struct eo_item *result)
{
    struct job_record *r = j->record;
    eo_item_as_i64(eo_item_get(result, "steps"), &r->steps);
    eo_item_as_i64(eo_item_get(result, "epochs"), &r->epochs);
    eo_item_as_f64(eo_item_get(result, "seconds"), &r->seconds);
    eo_get_str(result, "parameters_sha256", "", r->parameters_sha256, sizeof r->parameters_sha256, NULL);
    job_pack_metrics(&r->metrics, eo_item_get(result, "metrics"));
}

static bool may_restart(const struct job *j, const struct eo_error *err)
{
    /* Losing a worker or a peer may go better next time; bad data or a diverging model will not. */
    return j->restart_on_failure && !j->cancelled && !j->jobs->draining && !j->is_member &&
           eo_code_retryable(err->code) && j->record->restarts < JOBS_MAX_RESTARTS;
}

void job_run_ended(struct job *j, const struct eo_error *err, const struct eo_item *result)
{
    bool stopped = false;
    if (err != NULL && may_restart(j, err)) {
        j->record->restarts++;
        j->not_before_ms = eo_now_ns() / 1000000 + (500u << EO_MIN(j->record->restarts, 6)); /* let it come back */
        job_log_printf(j, "restarting from the last checkpoint after EO-%d: %s", err->code, err->message);
        job_change(j, JOB_QUEUED, "restarting after EO-%d: %s", err->code, err->message);
        return;
    }
    if (err != NULL && !(j->cancelled && err->code == EO_E_CANCELLED)) {
        j->record->error = *err;
        job_log_printf(j, "failed: EO-%d %s", err->code, err->message);
        job_change(j, JOB_FAILED, "EO-%d: %s", err->code, err->message);
        return;
    }
    if (result != NULL) {
        take_result(j, result);
        eo_item_as_bool(eo_item_get(result, "stopped"), &stopped);
    }
    if (j->cancelled && (stopped || err != NULL)) {
        job_log_printf(j, "cancelled");
        EO_RAISE(&j->record->error, EO_E_CANCELLED, "the job was cancelled after %lld steps",
                 (long long)j->record->steps);
        job_change(j, JOB_CANCELLED, "cancelled after %lld steps", (long long)j->record->steps);
    } else if (stopped) {
        job_log_printf(j, "interrupted: the daemon ends; the state is in the last checkpoint");
        job_change(j, JOB_INTERRUPTED, "the daemon ended");
    } else {
        job_log_printf(j, "succeeded after %lld steps", (long long)j->record->steps);
        job_change(j, JOB_SUCCEEDED, NULL);
    }
}

void job_cancel(struct job *j, const char *reason)
{
    j->cancelled = true;
    job_log_printf(j, "cancel: %s", reason);
    if (j->coordinator != NULL) {
        coordinator_stop(j->coordinator, 1);
    } else if (j->run != NULL) {
        rank_run_stop(j->run, 1);
    } else if (!job_state_ended(j->record->state)) {
        EO_RAISE(&j->record->error, EO_E_CANCELLED, "the job was cancelled before it started");
        job_change(j, JOB_CANCELLED, "cancelled before it started");
    }
}

/* ---- submitting ---- */

static void answer_submit(struct job *j, struct request *r, bool created)
{
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "job", j->record->id);
    eo_pack_kv_str(b, "state", job_state_name(j->record->state));
    eo_pack_kv_bool(b, "created", created);
    request_send(r);
}

/* Carries the journal's word from its thread to the loop. */
struct durable_call {
    struct loop_call call;
    struct jobs *jobs;
    char id[JOB_ID_SIZE];
    struct eo_error error;
};

static void durable_on_loop(void *ctx)
{
    struct durable_call *d = ctx;
    struct job *j = jobs_by_id(d->jobs, d->id);
    struct job_submitter *waiting = j != NULL ? j->submitters : NULL;
    if (j != NULL) {
        j->submitters = NULL;
        j->durable = d->error.code == 0;
    }
    while (waiting != NULL) {
        struct job_submitter *w = waiting;
        waiting = w->next;
        if (d->error.code == 0) {
            answer_submit(j, w->request, w->created);
        } else {
            request_fail(w->request, &d->error);
        }
        request_unref(w->request);
        free(w);
    }
    if (j != NULL && d->error.code != 0) {
        jobs_forget(j); /* it was never accepted */
    } else if (j != NULL) {
        job_change(j, JOB_QUEUED, "waiting for a slot");
        jobs_schedule(d->jobs);
    }
    free(d);
}

static void durable_in_journal(void *ctx, const struct eo_error *err)
{
    struct durable_call *d = ctx;
    if (err != NULL) {
        d->error = *err;
    }
    loop_post(d->jobs->server->loop, &d->call);
}

static int write_first(struct job *j, struct eo_error *err)
{
    struct durable_call *d = calloc(1, sizeof *d);
    struct job_record *copy = job_record_copy(j->record);
    if (d == NULL || copy == NULL) {
        free(d);
        job_record_free(copy);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write job %.8s", j->record->id);
    }
    d->call.fn = durable_on_loop;
    d->call.ctx = d;
    d->jobs = j->jobs;
    eo_copy_text(d->id, sizeof d->id, j->record->id);
    int rc = journal_put(j->jobs->journal, copy, durable_in_journal, d, err);
    if (rc != EO_OK) {
        free(d);
    }
    return rc;
}

int job_submit_durable(struct job *j, struct request *r, bool created, struct eo_error *err)
{
    if (j->durable) {
        answer_submit(j, r, created);
        return EO_OK;
    }
    struct job_submitter *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a submit");
    }
    w->request = request_ref(r);
    w->created = created;
    w->next = j->submitters;
    j->submitters = w;
    if (!created) {
        return EO_OK;
    }
    int rc = write_first(j, err);
    if (rc != EO_OK) {
        j->submitters = w->next;
        request_unref(w->request);
        free(w);
    }
    return rc;
}

/* ---- running on this host alone ---- */

static void run_ready(void *ctx)
{
    struct job *j = ctx;
    job_log_printf(j, "worker process %d started", (int)rank_run_pid(j->run));
}

static void run_started(void *ctx, const struct eo_item *params)
{
    struct job *j = ctx;
    char reason[200];
    eo_get_str(params, "reason", "", reason, sizeof reason, NULL);
    eo_get_str(eo_item_get(params, "device"), "name", j->device, j->device, sizeof j->device, NULL);
    job_log_printf(j, "device %s%s%s", j->device, reason[0] != '\0' ? ": " : "", reason);
    job_change(j, JOB_RUNNING, NULL);
}

static void run_progress(void *ctx, const struct eo_item *params)
{
    job_set_progress(ctx, params);
}

static void run_log(void *ctx, const char *text, size_t length)
{
    job_log_append(ctx, text, length);
}

static void run_finished(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct job *j = ctx;
    j->run = NULL;
    job_run_ended(j, err, result);
    jobs_give_slot(j->jobs);
    if (j->jobs->draining) {
        server_drained(j->jobs->server);
    }
}

static int start_alone(struct job *j, struct eo_error *err)
{
    const struct job_record *r = j->record;
    const struct rank_config config = {.job = r->id,
                                       .spec = r->spec,
                                       .files = r->files,
                                       .n_files = r->n_files,
                                       .resume = r->restarts > 0 ? "auto" : r->resume,
                                       .world_size = 1};
    const struct rank_callbacks callbacks = {.ctx = j,
                                             .ready = run_ready,
                                             .started = run_started,
                                             .progress = run_progress,
                                             .log = run_log,
                                             .finished = run_finished};
    jobs_take_slot(j->jobs);
    int rc = rank_run_start(j->jobs->server, &config, &callbacks, &j->run, err);
    if (rc != EO_OK) {
        j->jobs->n_running--;
    }
    return rc;
}

static bool wants_start(const struct job *j, uint64_t now_ms)
{
    return j->record->state == JOB_QUEUED && j->durable && !j->is_member && j->not_before_ms <= now_ms;
}

static void start_job(struct job *j)
{
    struct eo_error err = {0};
    job_change(j, JOB_STARTING, "starting a worker");
    int rc = j->record->n_hosts > 1 ? coordinator_start(j, &err) : start_alone(j, &err);
    if (rc != EO_OK) {
        job_run_ended(j, &err, NULL);
    }
}

/* The oldest job that may start. The list is newest first. */
static struct job *next_to_start(struct jobs *js)
{
    struct job *found = NULL;
    const uint64_t now_ms = eo_now_ns() / 1000000;
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (wants_start(j, now_ms)) {
            found = j;
        }
    }
    return found;
}

void jobs_schedule(struct jobs *js)
{
    if (js->scheduling || js->draining) {
        return; /* a start that fails at once comes back here */
    }
    js->scheduling = true;
    struct job *j = next_to_start(js);
    while (j != NULL && jobs_slot_free(js)) {
        start_job(j);
        j = next_to_start(js);
    }
    if (j != NULL) {
        char holders[200];
        jobs_holder_text(js, holders, sizeof holders);
        for (struct job *w = js->list; w != NULL; w = w->next) {
            if (w->record->state == JOB_QUEUED && w->durable && !w->is_member) {
                job_change(w, JOB_QUEUED, "all %llu slots are taken by %s",
                           (unsigned long long)js->server->config->slots, holders);
            }
        }
    }
    js->scheduling = false;
}

static void on_schedule(void *ctx)
{
    struct jobs *js = ctx;
    struct eo_error err = {0};
    if (journal_failure(js->journal, &err)) {
        eo_log_error("journal", &err);
    }
    jobs_schedule(js);
}

/* ---- the module ---- */

/* What the record does not hold comes from its spec, checked again: the file may be older than this program. */
static void read_spec(struct job *j)
{
    struct job_spec *spec = NULL;
    struct eo_error err = {0};
    if (spec_parse(j->record->spec, strlen(j->record->spec), "spec.yaml", NULL, 0, &spec, &err) == EO_OK) {
        j->restart_on_failure = spec->on_failure == ON_FAILURE_RESTART;
        eo_copy_text(j->device, sizeof j->device, spec->device);
        spec_free(spec);
    } else if (!job_state_ended(j->record->state)) {
        j->record->error = err;
        j->record->state = JOB_FAILED;
    }
}

/* A job that ran when the daemon ended goes on from its last checkpoint when it says so, else it stays interrupted. */
static void revive(struct job *j)
{
    char path[1300];
    struct stat st;
    const enum job_state was = j->record->state;
    j->durable = true;
    read_spec(j);
    if (job_log_path(j, path, sizeof path) && stat(path, &st) == 0) {
        j->log_bytes = (uint64_t)st.st_size;
    }
    if (was == JOB_STARTING || was == JOB_RUNNING || (was == JOB_INTERRUPTED && j->restart_on_failure)) {
        if (j->restart_on_failure) {
            j->record->restarts++;
            job_change(j, JOB_QUEUED, "going on from the last checkpoint after the daemon ended");
        } else {
            job_change(j, JOB_INTERRUPTED, "the daemon ended while the job ran");
        }
    }
}

static void on_loaded(void *ctx, struct job_record *r)
{
    struct jobs *js = ctx;
    struct job *j = jobs_add(js, r);
    if (j != NULL) {
        revive(j);
    }
}

static void stop_module(void *state)
{
    struct jobs *js = state;
    loop_timer_free(js->schedule_timer);
    journal_close(js->journal);
    while (js->list != NULL) {
        struct job *j = js->list;
        js->list = j->next;
        free_job(j);
    }
    free(js);
}

static int start_module(struct server *s, void **out_state, struct eo_error *err)
{
    char path[1100];
    struct jobs *js = calloc(1, sizeof *js);
    if (js == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the job table");
    }
    js->server = s;
    s->jobs = js;
    snprintf(path, sizeof path, "%s/journal.sqlite", s->state_dir);
    js->schedule_timer = loop_timer_new(s->loop, on_schedule, js);
    int rc = js->schedule_timer != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a timer");
    if (rc == EO_OK) {
        rc = blobs_init(s->state_dir, err);
    }
    if (rc == EO_OK) {
        rc = journal_open(path, &js->journal, err);
    }
    if (rc == EO_OK) {
        rc = journal_load(js->journal, on_loaded, js, err);
    }
    if (rc != EO_OK) {
        stop_module(js);
        s->jobs = NULL;
        return rc;
    }
    loop_timer_start(js->schedule_timer, 1, SCHEDULE_MS);
    *out_state = js;
    return EO_OK;
}

static void drain_module(void *state)
{
    struct jobs *js = state;
    js->draining = true;
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (j->coordinator != NULL) {
            coordinator_stop(j->coordinator, 2);
        } else if (j->member != NULL) {
            member_drain(j->member);
        } else if (j->run != NULL) {
            rank_run_stop(j->run, 2);
        }
    }
}

/* Logs and journal of what just ended are written before the daemon says it is done. */
static bool module_idle(void *state)
{
    const struct jobs *js = state;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        if (j->run != NULL || j->coordinator != NULL || j->member != NULL || !job_log_settled(j)) {
            return false;
        }
    }
    return true;
}

static void module_load(void *state, uint32_t *out_running, uint32_t *out_queued)
{
    const struct jobs *js = state;
    *out_running = 0;
    *out_queued = 0;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        *out_running += j->run != NULL || j->coordinator != NULL || j->member != NULL;
        *out_queued += j->record->state == JOB_QUEUED;
    }
}

static int module_data_hello(void *state, struct request *r, struct eo_error *err)
{
    struct jobs *js = state;
    char id[JOB_ID_SIZE];
    int rc = eo_need_str(r->params, "job", id, sizeof id, err);
    if (rc != EO_OK) {
        return rc;
    }
    struct job *j = jobs_by_id(js, id);
    if (j != NULL && j->coordinator != NULL) {
        return coordinator_data_hello(j->coordinator, r, err);
    }
    if (j != NULL && j->member != NULL) {
        return member_data_hello(j->member, r, err);
    }
    return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_JOB: no rank of job %.8s runs here", id);
}

const struct server_module jobs_module = {.name = "jobs",
                                          .start = start_module,
                                          .drain = drain_module,
                                          .idle = module_idle,
                                          .stop = stop_module,
                                          .load = module_load,
                                          .data_hello = module_data_hello};
