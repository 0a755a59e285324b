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

enum { WATCH_MS = 1000, HEARTBEAT_DEAD_MS = 10000 };

enum member_phase { MEMBER_PREPARING, MEMBER_PREPARED, MEMBER_RUNNING };

struct member {
    struct job *job;
    enum member_phase phase;
    uint64_t epoch;
    uint8_t token[DATA_TOKEN_SIZE];
    int rank, world_size;
    struct request *prepare;  /* answered when the worker lives */
    struct request *connect;  /* answered when the rank has ended; its connection is the coordinator's */
    struct loop_timer *timer; /* lease, then missing heartbeats */
    uint64_t lease_ms, heard_ms;
};

static uint64_t now_ms(void)
{
    return eo_now_ns() / 1000000;
}

void member_free(struct member *m)
{
    if (m != NULL) {
        loop_timer_free(m->timer);
        if (m->prepare != NULL) {
            request_unref(m->prepare);
        }
        if (m->connect != NULL) {
            request_unref(m->connect);
        }
        free(m);
    }
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
    m->phase = MEMBER_PREPARED;
    m->heard_ms = now_ms();
    answer_prepare(m);
    job_change(m->job, JOB_STARTING, "rank %d of %d, waiting for the coordinator %s", m->rank, m->world_size,
               m->job->coordinator_host);
}

static void on_started(void *ctx, const struct eo_item *params)
{
    struct member *m = ctx;
    eo_get_str(eo_item_get(params, "device"), "name", m->job->device, m->job->device, sizeof m->job->device, NULL);
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
    if (m->connect != NULL && m->connect->conn != NULL) {
        struct eo_bytes *b = connection_notification(m->connect->conn, EO_MSG_PEER_EVENT);
        eo_pack_map(b, 5);
        eo_pack_kv_str(b, "job", m->job->record->id);
        eo_pack_kv_u64(b, "epoch", m->epoch);
        eo_pack_kv_i64(b, "rank", m->rank);
        eo_pack_kv_str(b, "kind", "log");
        eo_pack_str(b, "text");
        eo_pack_str_n(b, text, length);
        connection_send(m->connect->conn, NULL, 0);
    }
}

static void answer_connect(struct member *m, const struct eo_error *err, const struct eo_item *result)
{
    if (err != NULL) {
        request_fail(m->connect, err);
        return;
    }
    struct eo_bytes *b = request_result(m->connect);
    eo_pack_map(b, 3);
    eo_pack_str(b, "parameters_sha256");
    eo_pack_item(b, eo_item_get(result, "parameters_sha256"));
    eo_pack_str(b, "steps");
    eo_pack_item(b, eo_item_get(result, "steps"));
    eo_pack_str(b, "stopped");
    eo_pack_item(b, eo_item_get(result, "stopped"));
    request_send(m->connect);
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
    job_run_ended(j, err, result);
    member_free(m);
    jobs_give_slot(js);
    if (js->draining) {
        server_drained(js->server);
    }
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

static void on_connect_closed(struct request *r, void *ctx)
{
    EO_UNUSED(r);
    coordinator_lost(ctx, EO_E_PEER_LOST, "was lost");
}

static void on_prepare_closed(struct request *r, void *ctx)
{
    struct member *m = ctx;
    EO_UNUSED(r);
    coordinator_lost(m, EO_E_PEER_LOST, "was lost while this host prepared");
}

static void on_timer(void *ctx)
{
    struct member *m = ctx;
    const uint64_t silent_ms = now_ms() - m->heard_ms;
    if (m->phase == MEMBER_PREPARED && silent_ms > m->lease_ms) {
        coordinator_lost(m, EO_E_PEER_TIMEOUT, "reserved a slot here and did not come back");
    } else if (m->phase == MEMBER_RUNNING && silent_ms > HEARTBEAT_DEAD_MS) {
        coordinator_lost(m, EO_E_PEER_TIMEOUT, "sent no heartbeat for 10 s");
    }
}

/* ---- peer.prepare ---- */

struct prepare_params {
    char job[JOB_ID_SIZE], name[64];
    char *spec; /* owned */
    uint64_t epoch, lease_ms;
    int64_t rank, world_size;
    uint8_t token[DATA_TOKEN_SIZE];
    struct job_file_ref files[JOB_MAX_FILES];
    int n_files;
    char hosts[JOB_MAX_HOSTS][300];
};

static int read_lists(struct prepare_params *p, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *files = NULL;
    const struct eo_item *hosts = NULL;
    int rc = eo_need_array(params, "files", JOB_MAX_FILES, &files, err);
    if (rc == EO_OK) {
        rc = eo_need_array(params, "hosts", JOB_MAX_HOSTS, &hosts, err);
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(files); i++) {
        struct job_file_ref *f = &p->files[p->n_files++];
        const struct eo_item *it = eo_item_at(files, i);
        rc = eo_need_str(it, "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = eo_need_str(it, "sha256", f->sha256, sizeof f->sha256, err);
        }
        if (rc == EO_OK && !blobs_name_valid(f->sha256)) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "file %s travels without a valid SHA-256", f->path);
        }
    }
    if (rc == EO_OK && eo_item_count(hosts) != (size_t)p->world_size) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "%zu hosts for a world of %lld", eo_item_count(hosts),
                      (long long)p->world_size);
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(hosts); i++) {
        const char *text = "";
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(hosts, i), &text, &length) || length >= sizeof p->hosts[0]) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "host %zu is no short text", i);
        } else {
            memcpy(p->hosts[i], text, length);
        }
    }
    return rc;
}

static int read_params(struct prepare_params *p, const struct eo_item *params, struct eo_error *err)
{
    const uint8_t *token = NULL;
    size_t token_size = 0;
    const char *spec = NULL;
    size_t spec_length = 0;
    int rc = eo_need_str(params, "job", p->job, sizeof p->job, err);
    if (rc == EO_OK && (!job_id_valid_prefix(p->job) || strlen(p->job) != JOB_ID_SIZE - 1)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "the job id is not 32 hex digits");
    }
    if (rc == EO_OK) {
        rc = eo_get_str(params, "name", "", p->name, sizeof p->name, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_u64(params, "epoch", UINT64_MAX, &p->epoch, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "world_size", 2, JOB_MAX_HOSTS, &p->world_size, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "rank", 1, p->world_size - 1, &p->rank, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(params, "lease_ms", 30000, 600000, &p->lease_ms, err);
    }
    if (rc == EO_OK &&
        (!eo_item_as_bin(eo_item_get(params, "token"), &token, &token_size) || token_size != DATA_TOKEN_SIZE ||
         !eo_item_as_str(eo_item_get(params, "spec"), &spec, &spec_length))) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "peer.prepare lacks its token or spec");
    }
    if (rc == EO_OK) {
        memcpy(p->token, token, DATA_TOKEN_SIZE);
        p->spec = strndup(spec, spec_length);
        rc = p->spec != NULL ? read_lists(p, params, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
    }
    return rc;
}

/* A new epoch of a job whose earlier one ended here replaces it. */
static int clear_earlier(struct jobs *js, const char *id, struct eo_error *err)
{
    struct job *old = jobs_by_id(js, id);
    if (old == NULL) {
        return EO_OK;
    }
    if (!old->is_member || old->member != NULL || old->watchers != NULL || !job_log_settled(old)) {
        return EO_RAISE(err, EO_E_BUSY, "job %.8s is %s on this host", id, job_state_name(old->record->state));
    }
    jobs_forget(old);
    return EO_OK;
}

/* Ended members are remembered for whoever asks, the oldest ones are forgotten. */
static void bound_members(struct jobs *js)
{
    int n = 0;
    for (struct job *j = js->list; j != NULL;) {
        struct job *next = j->next;
        if (j->is_member && j->member == NULL && ++n > JOBS_MAX_MEMBERS && j->watchers == NULL && job_log_settled(j)) {
            jobs_forget(j);
        }
        j = next;
    }
}

static struct job *add_job(struct jobs *js, struct prepare_params *p, struct eo_error *err)
{
    struct job_record *rec = job_record_new();
    struct job *j = NULL;
    if (rec != NULL) {
        eo_copy_text(rec->id, sizeof rec->id, p->job);
        eo_copy_text(rec->name, sizeof rec->name, p->name);
        rec->state = JOB_STARTING;
        rec->spec = p->spec;
        p->spec = NULL;
        rec->n_files = p->n_files;
        memcpy(rec->files, p->files, sizeof rec->files);
        rec->n_hosts = (int)p->world_size;
        memcpy(rec->hosts, p->hosts, sizeof rec->hosts);
        rec->submitted_ms = eo_wall_ms();
        j = jobs_add(js, rec);
    }
    if (j == NULL) {
        EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a job");
        return NULL;
    }
    j->is_member = true;
    j->durable = true;
    eo_copy_text(j->coordinator_host, sizeof j->coordinator_host, p->hosts[0]);
    return j;
}

static int start_rank(struct member *m, struct eo_error *err)
{
    struct job *j = m->job;
    const struct rank_config config = {.job = j->record->id,
                                       .spec = j->record->spec,
                                       .files = j->record->files,
                                       .n_files = j->record->n_files,
                                       .resume = "",
                                       .rank = m->rank,
                                       .world_size = m->world_size,
                                       .hosts = (const char(*)[300])j->record->hosts,
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

static int create(struct jobs *js, struct prepare_params *p, struct request *r, struct eo_error *err)
{
    struct member *m = calloc(1, sizeof *m);
    struct job *j = m != NULL ? add_job(js, p, err) : NULL;
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
        member_free(m);
        jobs_forget(j);
        return rc;
    }
    j->member = m;
    jobs_take_slot(js);
    m->prepare = request_ref(r);
    request_on_close(r, on_prepare_closed, m);
    loop_timer_start(m->timer, WATCH_MS, WATCH_MS);
    return EO_OK;
}

int member_prepare(struct jobs *js, struct request *r, struct eo_error *err)
{
    struct prepare_params p = {.n_files = 0};
    int rc = read_params(&p, r->params, err);
    if (rc == EO_OK && js->draining) {
        rc = EO_RAISE(err, EO_E_SHUTTING_DOWN, "%s is shutting down", p.hosts[p.rank]);
    }
    if (rc == EO_OK) {
        rc = clear_earlier(js, p.job, err);
    }
    if (rc == EO_OK && !jobs_slot_free(js)) {
        char holders[200];
        jobs_holder_text(js, holders, sizeof holders);
        rc = EO_RAISE(err, EO_E_BUSY, "%s has no free slot: %s", p.hosts[p.rank], holders);
    }
    for (int i = 0; i < p.n_files && rc == EO_OK; i++) {
        uint64_t size = 0;
        uint64_t received = 0;
        if (!blobs_have(js->server->state_dir, p.files[i].sha256, &size, &received)) {
            rc = EO_RAISE(err, EO_E_NO_FILE, "the content of %s is not here yet", p.files[i].path);
        }
    }
    if (rc == EO_OK) {
        bound_members(js);
        rc = create(js, &p, r, err);
    }
    free(p.spec);
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
    if (j == NULL || j->member == NULL) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_JOB: no rank of job %.8s runs here", id);
    }
    if (j->member->epoch != epoch) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "STALE_EPOCH: epoch %llu, here runs %llu", (unsigned long long)epoch,
                        (unsigned long long)j->member->epoch);
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
    request_on_close(r, on_connect_closed, m);
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
    EO_RAISE(&cause, EO_E_SHUTTING_DOWN, "the daemon of rank %d (%s) is shutting down", m->rank,
             m->job->record->hosts[m->rank]);
    eo_error_at_host(&cause, m->job->record->hosts[m->rank], m->rank);
    end_with(m, &cause);
}

int member_data_hello(struct member *m, struct request *r, struct eo_error *err)
{
    const struct data_expectation e = {
        .epoch = m->epoch, .token = m->token, .rank = m->rank, .world_size = m->world_size};
    return data_hello_accept(m->job, &e, r, err);
}
