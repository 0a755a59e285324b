/* Slots and the queue: which job starts when, jobs of this host alone, and what becomes of a job when its run ends. */
#include "daemon/server/jobs.h"

#include "daemon/server/coordinator.h"
#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

enum { RESTART_MS = 500, RESTART_SHIFT_MAX = 6 };

static uint64_t now_ms(void)
{
    return eo_now_ns() / 1000000;
}

/* ---- slots ---- */

bool jobs_slot_free(const struct jobs *js)
{
    return js->n_running < js->server->config->slots && !js->draining;
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
        if (job_active(j)) {
            int n = snprintf(out + at, size - at, "%sjob %.8s%s%s", at > 0 ? ", " : "", j->record->id,
                             j->is_member ? " of " : "", j->is_member ? j->coordinator_host : "");
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

/* ---- the end of a run ---- */

static void take_result(struct job *j, const struct eo_item *result)
{
    struct job_record *r = j->record;
    eo_item_as_i64(eo_item_get(result, "steps"), &r->steps);
    eo_item_as_i64(eo_item_get(result, "epochs"), &r->epochs);
    eo_item_as_f64(eo_item_get(result, "seconds"), &r->seconds);
    eo_get_str(result, "parameters_sha256", "", r->parameters_sha256, sizeof r->parameters_sha256, NULL);
    job_pack_metrics(&r->metrics, eo_item_get(result, "metrics"));
}

/* Losing a worker or a peer may go better next time; bad data or a diverging model will not. A job that fails again and
 * again without getting further is not helped by another try. */
static bool may_restart(const struct job *j, const struct eo_error *err)
{
    if (!j->restart_on_failure || !eo_code_retryable(err->code)) {
        return false;
    }
    return j->failures < JOBS_MAX_FAILURES;
}

/* "EO-4005: everyod-worker ... (beta:17743)": code and host always show. */
static void failure_text(const struct eo_error *err, char *out, size_t size)
{
    const bool named = err->host[0] == '\0' || strstr(err->message, err->host) != NULL;
    char whole[sizeof err->message + sizeof err->host + 32];
    snprintf(whole, sizeof whole, "EO-%d: %s%s%s%s", err->code, err->message, named ? "" : " (", named ? "" : err->host,
             named ? "" : ")");
    eo_copy_text(out, size, whole);
}

static void restart(struct job *j, const struct eo_error *err)
{
    char text[sizeof j->record->reason];
    const uint32_t shift = EO_MIN(j->failures, (uint32_t)RESTART_SHIFT_MAX);
    j->failures++;
    j->record->restarts++;
    j->not_before_ms = now_ms() + ((uint64_t)RESTART_MS << shift); /* let what was lost come back */
    failure_text(err, text, sizeof text);
    job_log_printf(j, "restarting from the last checkpoint after %s", text);
    job_change(j, JOB_QUEUED, "restarting after %s", text);
}

static void failed(struct job *j, const struct eo_error *err)
{
    const bool again = may_restart(j, err);
    char text[sizeof j->record->reason];
    failure_text(err, text, sizeof text);
    if (j->jobs->draining && j->record->started_ms == 0 && err->code == EO_E_SHUTTING_DOWN) {
        job_change(j, JOB_QUEUED, "the daemon ended before the job started");
    } else if (j->jobs->draining && again) {
        job_change(j, JOB_INTERRUPTED, "the daemon ended; %s", text);
    } else if (again) {
        restart(j, err);
    } else {
        j->record->error = *err;
        job_log_printf(j, "failed: %s", text);
        job_change(j, JOB_FAILED, "%s", text);
    }
}

void job_run_ended(struct job *j, const struct eo_error *err, const struct eo_item *result)
{
    bool stopped = false;
    if (err == NULL) {
        take_result(j, result);
        eo_item_as_bool(eo_item_get(result, "stopped"), &stopped);
    }
    if (j->cancelled && (stopped || err != NULL)) {
        job_log_printf(j, "cancelled after %lld steps", (long long)j->record->steps);
        EO_RAISE(&j->record->error, EO_E_CANCELLED, "the job was cancelled after %lld steps",
                 (long long)j->record->steps);
        job_change(j, JOB_CANCELLED, "cancelled after %lld steps", (long long)j->record->steps);
    } else if (err != NULL) {
        failed(j, err);
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
    if (j->coordinator == NULL && j->run == NULL) {
        EO_RAISE(&j->record->error, EO_E_CANCELLED, "the job was cancelled before it started");
        job_change(j, JOB_CANCELLED, "cancelled before it started");
        jobs_schedule(j->jobs); /* the reasons of those behind it */
        return;
    }
    job_change(j, j->record->state, "being cancelled: %s", reason);
    if (j->coordinator != NULL) {
        coordinator_stop(j->coordinator, 1);
    } else {
        rank_run_stop(j->run, 1);
    }
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
    job_set_device(j, params);
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

static void pack_own_rank(struct job *j)
{
    struct job_record *r = j->record;
    eo_bytes_clear(&r->ranks);
    eo_pack_array(&r->ranks, 1);
    eo_pack_map(&r->ranks, 3);
    eo_pack_kv_str(&r->ranks, "host", r->n_hosts > 0 ? r->hosts[0] : server_advertise(j->jobs->server));
    eo_pack_kv_i64(&r->ranks, "rank", 0);
    eo_pack_kv_str(&r->ranks, "parameters_sha256", r->parameters_sha256[0] != '\0' ? r->parameters_sha256 : NULL);
}

static void run_finished(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct job *j = ctx;
    struct jobs *js = j->jobs;
    j->run = NULL;
    if (!js->stopped) {
        if (err == NULL) {
            take_result(j, result);
            pack_own_rank(j); /* before the change is written */
        }
        job_run_ended(j, err, result);
        jobs_give_slot(js);
        jobs_check_drained(js);
    }
    job_unref(j);
}

static int start_alone(struct job *j, struct eo_error *err)
{
    char dir[JOBS_DIR_SIZE];
    const struct job_record *r = j->record;
    if (!job_dir(j, dir)) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    const struct rank_config config = {.record = r, .dir = dir, .world_size = 1};
    const struct rank_callbacks callbacks = {.ctx = j,
                                             .ready = run_ready,
                                             .started = run_started,
                                             .progress = run_progress,
                                             .log = run_log,
                                             .finished = run_finished};
    int rc = rank_run_start(j->jobs->server, &config, &callbacks, &j->run, err);
    if (rc == EO_OK) {
        job_ref(j);
        jobs_take_slot(j->jobs);
    }
    return rc;
}

/* ---- the queue ---- */

static bool wants_start(const struct job *j, uint64_t now)
{
    return j->record->state == JOB_QUEUED && j->durable && !j->is_member && j->not_before_ms <= now;
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
    const uint64_t now = now_ms();
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (wants_start(j, now)) {
            found = j;
        }
    }
    return found;
}

static void say_who_holds(struct jobs *js)
{
    char holders[200];
    const uint64_t now = now_ms();
    const unsigned long long slots = js->server->config->slots;
    jobs_holder_text(js, holders, sizeof holders);
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (wants_start(j, now)) {
            job_change(j, JOB_QUEUED, "waiting: %s %s taken by %s", slots == 1 ? "the slot of this host" : "all slots",
                       slots == 1 ? "is" : "are", holders);
        }
    }
}

/* A job of several hosts claims a slot here from the moment it is started, so that younger jobs do not take it while
 * the others' hosts are asked. Members do not look at claims: two coordinators would wait for each other. */
void jobs_schedule(struct jobs *js)
{
    if (js->scheduling || js->draining || js->stopped) {
        return; /* a start that fails at once comes back here */
    }
    js->scheduling = true;
    struct job *j = next_to_start(js);
    while (j != NULL && js->n_running + js->n_claims < js->server->config->slots) {
        start_job(j);
        j = next_to_start(js);
    }
    if (j != NULL) {
        say_who_holds(js);
    }
    jobs_arm(js);
    js->scheduling = false;
}
