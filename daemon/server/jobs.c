/* The table of jobs, their states, and the journal behind them. */
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

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PROGRESS_MAX = 1 << 16, LOG_WAITING_MAX = 4 << 20, REWRITE_MS = 500 };

static uint64_t now_ms(void)
{
    return eo_now_ns() / 1000000;
}

struct jobs *jobs_of(struct server *s)
{
    return s->jobs;
}

static void release_table(struct jobs *js)
{
    if (--js->n_refs == 0) {
        free(js);
    }
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
        if (!j->durable || j->removing || strncmp(j->record->id, prefix, strlen(prefix)) != 0) {
            continue;
        }
        if (found != NULL) {
            EO_RAISE(err, EO_E_NO_JOB, "%s is the beginning of several job ids", quoted);
            eo_error_hint(err, "Give more digits.");
            return EO_E_NO_JOB;
        }
        found = j;
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
    j->n_refs = 1; /* the table's */
    j->record = record;
    j->state_count = 1;
    eo_bytes_init(&j->progress, PROGRESS_MAX);
    eo_bytes_init(&j->log_waiting, LOG_WAITING_MAX);
    eo_bytes_init(&j->log_writing, LOG_WAITING_MAX);
    j->next = js->list;
    js->list = j;
    js->n_refs++;
    return j;
}

static void pin_files(const struct job_file_ref *files, int n, struct eo_bytes *out)
{
    for (int i = 0; i < n; i++) {
        if (files[i].sha256[0] != '\0') {
            eo_bytes_append(out, files[i].sha256, strlen(files[i].sha256));
        }
    }
}

void jobs_pin_blobs(const struct jobs *js, struct eo_bytes *out)
{
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        if (!job_state_ended(j->record->state) || job_active(j)) {
            pin_files(j->record->files, j->record->n_files, out);
            pin_files(j->record->resume_files, j->record->n_resume_files, out);
        }
    }
}

bool job_dir(const struct job *j, char out[JOBS_DIR_SIZE])
{
    const char *state = j->jobs->server->state_dir;
    int n = j->is_member
                ? snprintf(out, JOBS_DIR_SIZE, "%s/members/%s-%016" PRIx64, state, j->record->id, j->member_number)
                : snprintf(out, JOBS_DIR_SIZE, "%s/jobs/%s", state, j->record->id);
    return n > 0 && n < JOBS_DIR_SIZE;
}

bool job_active(const struct job *j)
{
    return j->run != NULL || j->coordinator != NULL || j->member != NULL;
}

struct job *job_ref(struct job *j)
{
    j->n_refs++;
    return j;
}

struct removal {
    char dir[JOBS_DIR_SIZE];
};

static void remove_work(void *ctx)
{
    struct removal *r = ctx;
    struct eo_error err = {0};
    if (eo_dir_remove(r->dir, &err) != EO_OK) {
        eo_log_error("jobs", &err);
    }
}

/* What a member leaves is nobody's result. What is missed here, the next start of the daemon removes. */
static void remove_member_files(const struct job *j)
{
    struct removal *r = calloc(1, sizeof *r);
    if (r == NULL || j->jobs->stopped || !job_dir(j, r->dir) ||
        loop_work(j->jobs->server->loop, LOOP_FILES, remove_work, free, r, NULL) != EO_OK) {
        free(r);
    }
}

void job_unref(struct job *j)
{
    if (--j->n_refs > 0) {
        return;
    }
    struct jobs *js = j->jobs;
    while (j->submitters != NULL) {
        struct job_submitter *w = j->submitters;
        j->submitters = w->next;
        request_unref(w->request);
        free(w);
    }
    if (j->is_member) {
        remove_member_files(j);
    }
    eo_bytes_fini(&j->progress);
    job_log_fini(j);
    job_record_free(j->record);
    free(j);
    release_table(js);
}

void job_forget(struct job *j)
{
    struct job **at = &j->jobs->list;
    struct eo_error gone = {0};
    if (j->forgotten) {
        return;
    }
    while (*at != j) {
        at = &(*at)->next;
    }
    *at = j->next;
    j->forgotten = true;
    EO_RAISE(&gone, EO_E_NO_JOB, "job %.8s was removed", j->record->id);
    job_watch_fail(j, &gone);
    job_unref(j);
}

/* ---- the journal ---- */

/* Carries the journal's word from its thread to the loop. */
struct journal_write {
    struct loop_call call;
    struct job *job;
    bool first;
    struct eo_error error;
};

static void answer_submit(struct job *j, struct request *r, bool created)
{
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "job", j->record->id);
    eo_pack_kv_str(b, "state", job_state_name(j->record->state));
    eo_pack_kv_bool(b, "created", created);
    request_send(r);
}

static void first_written(struct job *j, const struct eo_error *err)
{
    struct job_submitter *waiting = j->submitters;
    j->submitters = NULL;
    j->durable = err == NULL;
    while (waiting != NULL) {
        struct job_submitter *w = waiting;
        waiting = w->next;
        if (err == NULL) {
            answer_submit(j, w->request, w->created);
        } else {
            request_fail(w->request, err);
        }
        request_unref(w->request);
        free(w);
    }
    if (err != NULL) {
        job_forget(j); /* it was never accepted */
    } else if (!j->jobs->stopped) {
        job_change(j, JOB_QUEUED, "waiting for a slot");
        jobs_schedule(j->jobs);
    }
}

/* A journal that takes nothing is complained of once, and tried again. */
static void note_written(struct job *j, const struct eo_error *err)
{
    if (err != NULL && j->rewrite_ms == 0) {
        eo_log_error("journal", err);
    }
    j->rewrite_ms = err != NULL ? now_ms() + REWRITE_MS : 0;
    if (err != NULL) {
        jobs_arm(j->jobs);
    }
}

static void written_on_loop(void *ctx)
{
    struct journal_write *w = ctx;
    struct job *j = w->job;
    const struct eo_error *err = w->error.code != 0 ? &w->error : NULL;
    if (w->first) {
        first_written(j, err);
    } else {
        note_written(j, err);
    }
    job_unref(j);
    free(w);
}

static void written_in_journal(void *ctx, const struct eo_error *err)
{
    struct journal_write *w = ctx;
    if (err != NULL) {
        w->error = *err;
    }
    loop_post(w->job->jobs->server->loop, &w->call);
}

static int write_journal(struct job *j, bool first, struct eo_error *err)
{
    if (j->is_member || j->jobs->stopped) {
        return EO_OK;
    }
    struct journal_write *w = calloc(1, sizeof *w);
    struct job_record *copy = job_record_copy(j->record);
    if (w == NULL || copy == NULL) {
        free(w);
        job_record_free(copy);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write job %.8s to the journal", j->record->id);
    }
    w->call.fn = written_on_loop;
    w->call.ctx = w;
    w->first = first;
    w->job = job_ref(j);
    int rc = journal_put(j->jobs->journal, copy, written_in_journal, w, err);
    if (rc != EO_OK) {
        job_unref(j);
        free(w);
    }
    return rc;
}

static void write_state(struct job *j)
{
    struct eo_error err = {0};
    if (write_journal(j, false, &err) != EO_OK) {
        note_written(j, &err);
    }
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
    int rc = write_journal(j, true, err);
    if (rc != EO_OK) {
        j->submitters = w->next;
        request_unref(w->request);
        free(w);
    }
    return rc;
}

/* ---- changes ---- */

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
    r->ended_ms = !job_state_ended(state) ? 0 : r->ended_ms != 0 ? r->ended_ms : eo_wall_ms();
    if (state_changed) {
        eo_log(EO_LOG_INFO, "jobs", "job %.8s is %s%s%s", r->id, job_state_name(state), reason[0] != '\0' ? ": " : "",
               reason);
        write_state(j); /* a new reason alone is not worth a disk write */
    }
    job_watch_kick(j);
}

void job_set_device(struct job *j, const struct eo_item *ready)
{
    struct job_record *r = j->record;
    char reason[200];
    eo_get_str(ready, "reason", "", reason, sizeof reason, NULL);
    eo_get_str(eo_item_get(ready, "device"), "name", r->device, r->device, sizeof r->device, NULL);
    job_log_printf(j, "device %s%s%s", r->device, reason[0] != '\0' ? ": " : "", reason);
}

void job_set_progress(struct job *j, const struct eo_item *progress)
{
    eo_item_as_i64(eo_item_get(progress, "step"), &j->record->steps);
    eo_item_as_i64(eo_item_get(progress, "epoch"), &j->record->epochs);
    eo_item_as_f64(eo_item_get(progress, "elapsed_seconds"), &j->record->seconds);
    eo_bytes_clear(&j->progress);
    eo_pack_item(&j->progress, progress);
    if (j->progress.failed) {
        eo_bytes_clear(&j->progress);
    }
    job_pack_metrics(&j->record->metrics, eo_item_get(progress, "metrics"));
    if (eo_item_kind(eo_item_get(progress, "checkpoint")) == EO_ITEM_STR) {
        j->failures = 0; /* it gets on */
    }
    j->progress_count++;
    job_watch_kick(j);
}

/* ---- starting ---- */

/* What the record does not hold comes from its spec, checked again: the file may be older than this program. */
static bool read_spec(struct job *j, struct eo_error *err)
{
    struct job_spec *spec = NULL;
    if (spec_parse(j->record->spec, strlen(j->record->spec), "spec.yaml", NULL, 0, &spec, err) != EO_OK) {
        return false;
    }
    j->restart_on_failure = spec->on_failure == ON_FAILURE_RESTART;
    spec_free(spec);
    return true;
}

/* A job that ran when the daemon ended goes on from its last checkpoint when it says so, else it stays interrupted. */
static void revive(struct job *j)
{
    char path[JOBS_DIR_SIZE + 100];
    struct stat st;
    struct eo_error err = {0};
    const enum job_state was = j->record->state;
    j->durable = true;
    if (job_log_path(j, path, sizeof path) && stat(path, &st) == 0) {
        j->log_bytes = (uint64_t)st.st_size;
    }
    if (job_state_ended(was) && was != JOB_INTERRUPTED) {
        return;
    }
    if (!read_spec(j, &err)) {
        eo_error_push(&err, "job %.8s, read from the journal", j->record->id);
        j->record->error = err;
        job_change(j, JOB_FAILED, "EO-%d: %s", err.code, err.message);
    } else if (was == JOB_QUEUED) {
        job_change(j, JOB_QUEUED, "waiting for a slot");
    } else if (j->restart_on_failure) {
        j->record->restarts++;
        job_change(j, JOB_QUEUED, "going on from the last checkpoint after the daemon ended");
    } else {
        job_change(j, JOB_INTERRUPTED, "the daemon ended while the job ran");
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

/* What the journal could not take, once its time has come. */
static void offer_again(struct jobs *js, uint64_t now)
{
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (j->rewrite_ms != 0 && j->rewrite_ms <= now) {
            j->rewrite_ms = now + REWRITE_MS; /* until the journal has answered */
            write_state(j);
        }
    }
}

/* The timer sleeps unless something waits for a time: an idle daemon has nothing to wake up for. */
void jobs_arm(struct jobs *js)
{
    const uint64_t now = now_ms();
    uint64_t at = UINT64_MAX;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        if (j->record->state == JOB_QUEUED && j->not_before_ms > now) {
            at = EO_MIN(at, j->not_before_ms);
        }
        if (j->rewrite_ms != 0) {
            at = EO_MIN(at, EO_MAX(j->rewrite_ms, now));
        }
    }
    if (js->stopped || at == UINT64_MAX) {
        return;
    }
    loop_timer_start(js->schedule_timer, at - now, 0);
}

static void on_schedule(void *ctx)
{
    struct jobs *js = ctx;
    offer_again(js, now_ms());
    jobs_schedule(js);
}

static int open_state(struct jobs *js, struct eo_error *err)
{
    char path[JOBS_DIR_SIZE];
    const char *state = js->server->state_dir;
    snprintf(path, sizeof path, "%s/members", state);
    int rc = eo_dir_remove(path, err); /* ranks of another daemon's life */
    if (rc == EO_OK) {
        rc = blobs_init(state, err);
    }
    if (rc == EO_OK) {
        snprintf(path, sizeof path, "%s/journal.sqlite", state);
        rc = journal_open(path, &js->journal, err);
    }
    return rc == EO_OK ? journal_load(js->journal, on_loaded, js, err) : rc;
}

/* ---- the module ---- */

/* Runs that are still at work keep their jobs, and with them the table, until their workers have ended. The journal
 * keeps what it was told before: a job that was cut off is found running there, and so interrupted, by the next start.
 */
static void stop_module(void *state)
{
    struct jobs *js = state;
    struct eo_error ends = {0};
    offer_again(js, UINT64_MAX - REWRITE_MS); /* the last chance */
    js->stopped = true;
    loop_timer_free(js->schedule_timer);
    for (struct job *j = js->list; j != NULL; j = j->next) {
        if (j->coordinator != NULL) {
            coordinator_abandon(j->coordinator);
        } else if (j->run != NULL) {
            rank_run_abandon(j->run);
        }
    }
    journal_close(js->journal);
    js->journal = NULL;
    EO_RAISE(&ends, EO_E_SHUTTING_DOWN, "this daemon is shutting down");
    while (js->list != NULL) {
        struct job *j = js->list;
        js->list = j->next;
        j->forgotten = true;
        job_watch_fail(j, &ends); /* answered before, by the server, and so not told by their connections */
        job_unref(j);
    }
    release_table(js);
}

static int start_module(struct server *s, void **out_state, struct eo_error *err)
{
    struct jobs *js = calloc(1, sizeof *js);
    if (js == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the job table");
    }
    js->server = s;
    js->n_refs = 1;
    js->schedule_timer = loop_timer_new(s->loop, on_schedule, js);
    int rc = js->schedule_timer != NULL ? open_state(js, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a timer");
    if (rc != EO_OK) {
        stop_module(js);
        return rc;
    }
    loop_timer_start(js->schedule_timer, 0, 0); /* what the journal holds starts once the loop runs */
    *out_state = js;
    return EO_OK;
}

static void drain_module(void *state)
{
    struct jobs *js = state;
    js->draining = true;
    for (struct job *next, *j = js->list; j != NULL; j = next) {
        next = j->next; /* a member that had not begun is forgotten at once */
        if (j->coordinator != NULL) {
            coordinator_stop(j->coordinator, 2);
        } else if (j->member != NULL) {
            member_drain(j->member);
        } else if (j->run != NULL) {
            rank_run_stop(j->run, 2);
        }
    }
    jobs_check_drained(js);
}

/* Logs and journal of what just ended are written before the daemon says it is done. */
static bool module_idle(void *state)
{
    const struct jobs *js = state;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        if (job_active(j) || !job_log_settled(j) || !job_watch_settled(j)) {
            return false;
        }
    }
    return true;
}

static void tell_drained(void *ctx)
{
    struct jobs *js = ctx;
    js->drained_posted = false;
    if (!js->stopped) {
        server_drained(js->server); /* which may stop this module */
    }
    release_table(js);
}

/* Said from the loop, not from under the feet of whoever noticed. */
void jobs_check_drained(struct jobs *js)
{
    if (js->draining && !js->stopped && !js->drained_posted && module_idle(js)) {
        js->drained_posted = true;
        js->n_refs++;
        js->drained_call = (struct loop_call){.fn = tell_drained, .ctx = js};
        loop_post(js->server->loop, &js->drained_call);
    }
}

static void module_load(void *state, uint32_t *out_running, uint32_t *out_queued)
{
    const struct jobs *js = state;
    *out_running = 0;
    *out_queued = 0;
    for (const struct job *j = js->list; j != NULL; j = j->next) {
        *out_running += job_active(j);
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
    struct job *j = js != NULL ? jobs_by_id(js, id) : NULL;
    if (j != NULL && j->coordinator != NULL) {
        return coordinator_data_hello(j->coordinator, r, err);
    }
    if (j != NULL && j->member != NULL) {
        return member_data_hello(j->member, r, err);
    }
    char quoted[48];
    return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_JOB: no rank of job %s runs here",
                    eo_quote(id, EO_MIN(strlen(id), (size_t)8), quoted, sizeof quoted));
}

const struct server_module jobs_module = {.name = "jobs",
                                          .start = start_module,
                                          .drain = drain_module,
                                          .idle = module_idle,
                                          .stop = stop_module,
                                          .load = module_load,
                                          .data_hello = module_data_hello};
