#include "daemon/server/member.h"

#include "daemon/jobs/blobs.h"
#include "daemon/server/data_hello.h"
#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

enum { WATCH_MS = 1000, HEARTBEAT_DEAD_MS = 10000, LEASE_DEFAULT_MS = 30000, LEASE_MAX_MS = 600000 };

enum member_phase { MEMBER_PREPARING, MEMBER_PREPARED, MEMBER_RUNNING };

struct member {
    struct job *job;
    enum member_phase phase;
    uint64_t epoch;
    uint8_t token[DATA_TOKEN_SIZE];
    int rank, world_size;
    struct request *prepare;     /* answered when the worker lives */
    struct request *connect;     /* answered when the rank has ended */
    struct connection *conn;     /* the coordinator's; NULL once it is gone */
    struct connection_hook hook; /* on conn */
    struct loop_timer *timer;    /* lease, then missing heartbeats */
    uint64_t lease_ms, heard_ms;
};

static uint64_t now_ms(void)
{
    return eo_now_ns() / 1000000;
}

static void free_member(struct member *m)
{
    connection_unhook(&m->hook);
    loop_timer_free(m->timer);
    if (m->prepare != NULL) {
        request_unref(m->prepare);
    }
    if (m->connect != NULL) {
        request_unref(m->connect);
    }
    free(m);
}

static const char *own_host(const struct member *m)
{
    return m->job->record->hosts[m->rank];
}

/* ---- the rank's life ---- */

static void answer_prepare(struct member *m)
{
    struct eo_bytes *b = request_result(m->prepare);
    eo_pack_map(b, 3);
    eo_pack_kv_i64(b, "pid", (int64_t)rank_run_pid(m->job->run));
    eo_pack_kv_str(b, "engine", "tcp");
    eo_pack_kv_str(b, "engine_version", eo_version());
    request_send(m->prepare);
    request_unref(m->prepare);
    m->prepare = NULL;
}

static void on_ready(void *ctx)
{
    struct member *m = ctx;
    if (m->conn == NULL) {
        return; /* already on its way out */
    }
    m->phase = MEMBER_PREPARED;
    m->heard_ms = now_ms();
    answer_prepare(m);
    job_change(m->job, JOB_STARTING, "rank %d of %d, waiting for the coordinator %s", m->rank, m->world_size,
               m->job->coordinator_host);
}

static void on_started(void *ctx, const struct eo_item *params)
{
    struct member *m = ctx;
    job_set_device(m->job, params);
    job_change(m->job, JOB_RUNNING, "rank %d of %d for %s", m->rank, m->world_size, m->job->coordinator_host);
}

static void on_progress(void *ctx, const struct eo_item *params)
{
    const struct member *m = ctx;
    job_set_progress(m->job, params);
}

static void on_log(void *ctx, const char *text, size_t length)
{
    const struct member *m = ctx;
    job_log_append(m->job, text, length);
    if (m->conn != NULL && !connection_congested(m->conn)) { /* the line is here in any case */
        struct eo_bytes *b = connection_notification(m->conn, EO_MSG_PEER_EVENT);
        eo_pack_map(b, 5);
        eo_pack_kv_str(b, "job", m->job->record->id);
        eo_pack_kv_u64(b, "epoch", m->epoch);
        eo_pack_kv_i64(b, "rank", m->rank);
        eo_pack_kv_str(b, "kind", "log");
        eo_pack_str(b, "text");
        eo_pack_str_n(b, text, length);
        connection_send(m->conn, NULL, 0);
    }
}

static void answer_connect(struct member *m, const struct eo_error *err, const struct eo_item *result)
{
    static const char *const keys[] = {"parameters_sha256", "steps", "stopped"};
    if (err != NULL) {
        request_fail(m->connect, err);
        return;
    }
    struct eo_bytes *b = request_result(m->connect);
    eo_pack_map(b, EO_COUNT_OF(keys));
    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        eo_pack_str(b, keys[i]);
        eo_pack_item(b, eo_item_get(result, keys[i]));
    }
    request_send(m->connect);
}

/* What this host remembers of its rank. The job's own state is the coordinator's matter. */
static void record_end(struct member *m, const struct eo_error *err, const struct eo_item *result)
{
    struct job *j = m->job;
    struct job_record *r = j->record;
    bool stopped = false;
    if (err != NULL) {
        r->error = *err;
        job_log_printf(j, "rank %d failed: EO-%d %s", m->rank, err->code, err->message);
        job_change(j, JOB_FAILED, "EO-%d: %s", err->code, err->message);
        return;
    }
    eo_item_as_i64(eo_item_get(result, "steps"), &r->steps);
    eo_item_as_bool(eo_item_get(result, "stopped"), &stopped);
    eo_get_str(result, "parameters_sha256", "", r->parameters_sha256, sizeof r->parameters_sha256, NULL);
    job_pack_metrics(&r->metrics, eo_item_get(result, "metrics"));
    if (stopped) {
        job_change(j, JOB_CANCELLED, "stopped by the coordinator %s", j->coordinator_host);
    } else {
        job_change(j, JOB_SUCCEEDED, NULL);
    }
}

static void on_finished(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct member *m = ctx;
    struct job *j = m->job;
    struct jobs *js = j->jobs;
    j->run = NULL;
    j->member = NULL;
    if (m->prepare != NULL) {
        request_fail(m->prepare, err);
    }
    if (m->connect != NULL) {
        answer_connect(m, err, result);
    }
    if (!js->stopped) {
        /* A reservation that came to nothing is forgotten, unless peer.connect will ask what became of it. */
        if (m->phase == MEMBER_RUNNING || (m->conn != NULL && err != NULL && err->code == EO_E_WORKER_LOST)) {
            record_end(m, err, result);
        } else {
            job_forget(j);
        }
        jobs_give_slot(js);
        jobs_check_drained(js);
    }
    free_member(m);
    job_unref(j);
}

static void end_with(struct member *m, const struct eo_error *cause)
{
    eo_log_error("jobs", cause);
    rank_run_abort(m->job->run, cause); /* may finish at once and free m */
}

static void coordinator_lost(struct member *m, int code, const char *how)
{
    struct eo_error cause = {0};
    EO_RAISE(&cause, code, "the coordinator %s %s", m->job->coordinator_host, how);
    eo_error_at_host(&cause, m->job->coordinator_host, 0);
    end_with(m, &cause);
}

static void on_closed(void *ctx)
{
    struct member *m = ctx;
    m->conn = NULL;
    coordinator_lost(m, EO_E_PEER_LOST, "was lost");
}

static void on_timer(void *ctx)
{
    struct member *m = ctx;
    const uint64_t silent_ms = now_ms() - m->heard_ms;
    if (m->conn == NULL) {
        return; /* its end is under way */
    }
    if (m->phase == MEMBER_PREPARED && silent_ms > m->lease_ms) {
        coordinator_lost(m, EO_E_PEER_TIMEOUT, "reserved a slot here and did not come back");
    } else if (m->phase == MEMBER_RUNNING && silent_ms > HEARTBEAT_DEAD_MS) {
        coordinator_lost(m, EO_E_PEER_TIMEOUT, "sent no heartbeat for 10 s");
    }
}

/* ---- peer.prepare ---- */

struct prepare {
    struct request *request;
    struct job_record *record; /* id, name, spec, files, hosts */
    uint64_t epoch, lease_ms;
    int64_t rank, world_size;
    uint8_t token[DATA_TOKEN_SIZE];
    struct eo_error error;
};

static void free_prepare(struct prepare *p)
{
    job_record_free(p->record);
    if (p->request != NULL) {
        request_unref(p->request);
    }
    free(p);
}

static int read_files(struct prepare *p, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    struct job_file_ref files[JOB_MAX_FILES];
    int rc = eo_need_array(params, "files", JOB_MAX_FILES, &list, err);
    const size_t n = rc == EO_OK ? eo_item_count(list) : 0;
    memset(files, 0, sizeof files);
    for (size_t i = 0; rc == EO_OK && i < n; i++) {
        const struct eo_item *it = eo_item_at(list, i);
        rc = eo_need_str(it, "path", files[i].path, sizeof files[i].path, err);
        if (rc == EO_OK) {
            rc = eo_need_str(it, "sha256", files[i].sha256, sizeof files[i].sha256, err);
        }
        if (rc == EO_OK && !blobs_name_valid(files[i].sha256)) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "file %zu travels without a valid SHA-256", i);
        }
    }
    if (rc == EO_OK && !job_record_set_files(p->record, files, (int)n)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    return rc;
}

static int read_hosts(struct prepare *p, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    char hosts[JOB_MAX_HOSTS][JOB_HOST_SIZE];
    int rc = eo_need_array(params, "hosts", JOB_MAX_HOSTS, &list, err);
    if (rc == EO_OK && eo_item_count(list) != (size_t)p->world_size) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "%zu hosts for a world of %lld", eo_item_count(list),
                      (long long)p->world_size);
    }
    for (size_t i = 0; rc == EO_OK && i < (size_t)p->world_size; i++) {
        const char *text = "";
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(list, i), &text, &length) || length >= sizeof hosts[0] || length == 0) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "host %zu is no short text", i);
        } else {
            memcpy(hosts[i], text, length);
            hosts[i][length] = '\0';
        }
    }
    if (rc == EO_OK && !job_record_set_hosts(p->record, (const char(*)[JOB_HOST_SIZE])hosts, (int)p->world_size)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    return rc;
}

static int read_numbers(struct prepare *p, const struct eo_item *params, struct eo_error *err)
{
    int rc = eo_need_u64(params, "epoch", UINT64_MAX, &p->epoch, err);
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "world_size", 2, JOB_MAX_HOSTS, &p->world_size, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "rank", 1, p->world_size - 1, &p->rank, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(params, "lease_ms", LEASE_DEFAULT_MS, LEASE_MAX_MS, &p->lease_ms, err);
    }
    return rc;
}

static int read_params(struct prepare *p, const struct eo_item *params, struct eo_error *err)
{
    struct job_record *rec = p->record;
    const uint8_t *token = NULL;
    size_t token_size = 0;
    const char *spec = NULL;
    size_t spec_length = 0;
    int rc = eo_need_str(params, "job", rec->id, sizeof rec->id, err);
    if (rc == EO_OK && !job_id_valid(rec->id)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "the job id is not 32 hex digits");
    }
    if (rc == EO_OK) {
        rc = eo_get_str(params, "name", "", rec->name, sizeof rec->name, err);
    }
    if (rc == EO_OK) {
        rc = read_numbers(p, params, err);
    }
    if (rc == EO_OK &&
        (!eo_item_as_bin(eo_item_get(params, "token"), &token, &token_size) || token_size != DATA_TOKEN_SIZE ||
         !eo_item_as_str(eo_item_get(params, "spec"), &spec, &spec_length))) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "peer.prepare lacks its token or spec");
    }
    if (rc == EO_OK) {
        memcpy(p->token, token, DATA_TOKEN_SIZE);
        rec->spec = strndup(spec, spec_length);
        rc = rec->spec != NULL ? read_files(p, params, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    return rc == EO_OK ? read_hosts(p, params, err) : rc;
}

/* On a file thread: what the coordinator shared must be here. */
static void look_for_files(void *ctx)
{
    struct prepare *p = ctx;
    for (int i = 0; i < p->record->n_files && p->error.code == 0; i++) {
        const struct job_file_ref *f = &p->record->files[i];
        uint64_t size = 0;
        uint64_t received = 0;
        if (!blobs_have(p->request->server->state_dir, f->sha256, &size, &received)) {
            EO_RAISE(&p->error, EO_E_NO_FILE, "the content of data file %.12s... is not here", f->sha256);
        }
    }
}

/* A new epoch of a job whose earlier one ended here replaces it. */
static int clear_earlier(struct jobs *js, const struct prepare *p, struct eo_error *err)
{
    struct job *old = jobs_by_id(js, p->record->id);
    if (old == NULL) {
        return EO_OK;
    }
    if (!old->is_member) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_JOB: job %.8s belongs to this host", p->record->id);
    }
    if (old->member != NULL) {
        return EO_RAISE(err, EO_E_BUSY, "%s still runs an earlier epoch of job %.8s", p->record->hosts[p->rank],
                        p->record->id);
    }
    job_forget(old);
    return EO_OK;
}

/* Ended members are remembered for whoever asks, the oldest ones are forgotten. */
static void bound_members(struct jobs *js)
{
    int n = 0;
    for (struct job *next, *j = js->list; j != NULL; j = next) {
        next = j->next;
        if (j->is_member && j->member == NULL && ++n > JOBS_MAX_MEMBERS) {
            job_forget(j);
        }
    }
}

static struct job *add_job(struct jobs *js, struct prepare *p)
{
    struct job_record *rec = p->record;
    p->record = NULL;
    rec->state = JOB_STARTING;
    rec->submitted_ms = eo_wall_ms();
    eo_copy_text(rec->device, sizeof rec->device, "auto");
    struct job *j = jobs_add(js, rec);
    if (j != NULL) {
        j->is_member = true;
        j->member_epoch = p->epoch;
        j->member_number = ++js->n_members;
        j->durable = true;
        eo_copy_text(j->coordinator_host, sizeof j->coordinator_host, rec->hosts[0]);
    }
    return j;
}

static int start_rank(struct member *m, struct eo_error *err)
{
    struct job *j = m->job;
    char dir[JOBS_DIR_SIZE];
    if (!job_dir(j, dir)) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    const struct rank_config config = {.record = j->record,
                                       .dir = dir,
                                       .rank = m->rank,
                                       .world_size = m->world_size,
                                       .epoch = m->epoch,
                                       .token = m->token};
    const struct rank_callbacks callbacks = {.ctx = m,
                                             .ready = on_ready,
                                             .started = on_started,
                                             .progress = on_progress,
                                             .log = on_log,
                                             .finished = on_finished};
    return rank_run_start(j->jobs->server, &config, &callbacks, &j->run, err);
}

static int create(struct jobs *js, struct prepare *p, struct eo_error *err)
{
    struct member *m = calloc(1, sizeof *m);
    struct job *j = m != NULL ? add_job(js, p) : NULL;
    if (j == NULL) {
        free(m);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    m->job = j;
    m->epoch = p->epoch;
    memcpy(m->token, p->token, sizeof m->token);
    m->rank = (int)p->rank;
    m->world_size = (int)p->world_size;
    m->lease_ms = p->lease_ms;
    m->timer = loop_timer_new(js->server->loop, on_timer, m);
    int rc = m->timer != NULL ? start_rank(m, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a timer");
    if (rc != EO_OK) {
        free_member(m);
        job_forget(j);
        return rc;
    }
    j->member = m;
    job_ref(j);
    jobs_take_slot(js);
    m->prepare = request_ref(p->request);
    m->conn = p->request->conn;
    m->hook = (struct connection_hook){.closed = on_closed, .ctx = m};
    connection_hook(m->conn, &m->hook);
    loop_timer_start(m->timer, WATCH_MS, WATCH_MS);
    return EO_OK;
}

static int reserve(struct jobs *js, struct prepare *p, struct eo_error *err)
{
    const char *host = p->record->hosts[p->rank];
    if (js == NULL || js->draining) {
        return EO_RAISE(err, EO_E_SHUTTING_DOWN, "%s is shutting down", host);
    }
    int rc = clear_earlier(js, p, err);
    if (rc == EO_OK && !jobs_slot_free(js)) {
        char holders[200];
        jobs_holder_text(js, holders, sizeof holders);
        rc = EO_RAISE(err, EO_E_BUSY, "%s has no free slot: %s", host, holders);
    }
    if (rc == EO_OK) {
        bound_members(js);
        rc = create(js, p, err);
    }
    return rc;
}

static void files_looked_for(void *ctx)
{
    struct prepare *p = ctx;
    struct eo_error err = p->error;
    if (p->request->conn != NULL && (err.code != 0 || reserve(jobs_of(p->request->server), p, &err) != EO_OK)) {
        request_fail(p->request, &err);
    }
    free_prepare(p);
}

int member_prepare(struct jobs *js, struct request *r, struct eo_error *err)
{
    struct prepare *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->record = job_record_new();
    }
    int rc = p != NULL && p->record != NULL ? read_params(p, r->params, err)
                                            : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    if (rc == EO_OK) {
        p->request = request_ref(r);
        rc = loop_work(js->server->loop, LOOP_FILES, look_for_files, files_looked_for, p, err);
    }
    if (rc != EO_OK && p != NULL) {
        free_prepare(p);
    }
    return rc;
}

/* ---- the other requests ---- */

static int find_member(struct jobs *js, const struct request *r, struct member **out, struct eo_error *err)
{
    char id[JOB_ID_SIZE];
    uint64_t epoch = 0;
    int rc = eo_need_str(r->params, "job", id, sizeof id, err);
    if (rc == EO_OK) {
        rc = eo_need_u64(r->params, "epoch", UINT64_MAX, &epoch, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    struct job *j = jobs_by_id(js, id);
    if (j != NULL && j->is_member && j->member == NULL && j->member_epoch == epoch && j->record->error.code != 0) {
        const int code = j->record->error.code;
        *err = j->record->error; /* it ended before it was asked to begin */
        return code;
    }
    if (j == NULL || j->member == NULL) {
        char quoted[48];
        return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_JOB: no rank of job %s runs here",
                        eo_quote(id, EO_MIN(strlen(id), (size_t)8), quoted, sizeof quoted));
    }
    if (j->member->epoch != epoch) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "STALE_EPOCH: epoch %llu, here runs %llu", (unsigned long long)epoch,
                        (unsigned long long)j->member->epoch);
    }
    if (j->member->conn != r->conn) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "AUTH: the rank of job %.8s was prepared over another connection", id);
    }
    *out = j->member;
    return EO_OK;
}

int member_connect(struct jobs *js, struct request *r, struct eo_error *err)
{
    struct member *m = NULL;
    int rc = find_member(js, r, &m, err);
    if (rc == EO_OK && m->phase != MEMBER_PREPARED) {
        rc = EO_RAISE(err, EO_E_BAD_STATE, "rank %d is %s", m->rank,
                      m->phase == MEMBER_RUNNING ? "running already" : "not ready");
    }
    if (rc != EO_OK) {
        return rc;
    }
    m->phase = MEMBER_RUNNING;
    m->heard_ms = now_ms();
    m->connect = request_ref(r);
    rank_run_go(m->job->run);
    return EO_OK;
}

int member_heartbeat(struct jobs *js, struct request *r, struct eo_error *err)
{
    struct member *m = NULL;
    int rc = find_member(js, r, &m, err);
    if (rc != EO_OK) {
        return rc;
    }
    m->heard_ms = now_ms();
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "progress", rank_run_progress(m->job->run));
    eo_pack_kv_str(b, "state", job_state_name(m->job->record->state));
    request_send(r);
    return EO_OK;
}

int member_abort(struct jobs *js, struct request *r, struct eo_error *err)
{
    struct member *m = NULL;
    struct eo_error cause = {0};
    int rc = find_member(js, r, &m, err);
    if (rc != EO_OK) {
        return rc;
    }
    eo_error_unpack(eo_item_get(r->params, "error"), &cause);
    request_ok(r);
    end_with(m, &cause);
    return EO_OK;
}

void member_drain(struct member *m)
{
    struct eo_error cause = {0};
    EO_RAISE(&cause, EO_E_SHUTTING_DOWN, "the daemon of rank %d (%s) is shutting down", m->rank, own_host(m));
    eo_error_at_host(&cause, own_host(m), m->rank);
    end_with(m, &cause);
}

int member_data_hello(struct member *m, struct request *r, struct eo_error *err)
{
    const struct data_expectation e = {
        .epoch = m->epoch, .token = m->token, .rank = m->rank, .world_size = m->world_size};
    return data_hello_accept(m->job, &e, r, err);
}
