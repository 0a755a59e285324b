#include "daemon/server/coordinator_state.h"

#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t coordinator_now_ms(void)
{
    return eo_now_ns() / 1000000;
}

const char *coordinator_host(const struct coordinator *c, int rank)
{
    return c->job->record->hosts[rank];
}

/* ---- the end ---- */

static bool all_ended(const struct coordinator *c)
{
    for (int i = 1; i < c->n; i++) {
        if (c->hosts[i].prepared && !c->hosts[i].ended && c->hosts[i].link != NULL) {
            return false;
        }
    }
    return c->local_ended || c->job->run == NULL;
}

static void close_links(struct coordinator *c)
{
    for (int i = 1; i < c->n; i++) {
        struct link *l = c->hosts[i].link;
        peer_share_free(c->hosts[i].share);
        c->hosts[i].share = NULL;
        c->hosts[i].link = NULL; /* answers that link_close gives find it gone */
        if (l != NULL) {
            link_close(l);
        }
    }
}

static void pack_ranks(const struct coordinator *c, struct eo_bytes *b)
{
    eo_bytes_clear(b);
    eo_pack_array(b, (size_t)c->n);
    for (int i = 0; i < c->n; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "host", coordinator_host(c, i));
        eo_pack_kv_i64(b, "rank", i);
        eo_pack_kv_str(b, "parameters_sha256",
                       c->hosts[i].parameters_sha256[0] != '\0' ? c->hosts[i].parameters_sha256 : NULL);
    }
}

/* Equal parameters on all ranks are part of success. */
static void check_equal(struct coordinator *c)
{
    for (int i = 1; i < c->n && c->cause.code == 0; i++) {
        if (strcmp(c->hosts[i].parameters_sha256, c->hosts[0].parameters_sha256) != 0) {
            EO_RAISE(&c->cause, EO_E_DIVERGED, "rank %d on %s ended with other parameters (%.12s) than rank 0 (%.12s)",
                     i, coordinator_host(c, i), c->hosts[i].parameters_sha256, c->hosts[0].parameters_sha256);
            eo_error_at_host(&c->cause, coordinator_host(c, i), i);
        }
    }
}

static void finish_job(struct coordinator *c, struct job *j)
{
    struct eo_doc doc = {0};
    if (c->busy && !j->cancelled) {
        const uint32_t shift = EO_MIN(j->refusals, 5u);
        j->refusals++;
        /* Node ids spread the retries of two coordinators that refused each other. */
        j->not_before_ms =
            coordinator_now_ms() + (200u << shift) + eo_hash64(c->jobs->server->node, 32, j->refusals) % 300;
        job_change(j, JOB_QUEUED, "%s", c->cause.message);
        return;
    }
    if (c->cause.code == 0 && eo_doc_parse(&doc, c->result.data, c->result.size, &c->cause) == EO_OK) {
        check_equal(c);
    }
    pack_ranks(c, &j->record->ranks);
    if (c->cause.code != 0) {
        job_run_ended(j, &c->cause, NULL);
    } else {
        job_run_ended(j, NULL, doc.root);
    }
    eo_doc_fini(&doc);
}

static void drop_claim(struct coordinator *c)
{
    if (c->has_claim) {
        c->has_claim = false;
        c->jobs->n_claims--;
    }
}

static void free_coordinator(struct coordinator *c)
{
    drop_claim(c);
    loop_timer_free(c->timer);
    close_links(c);
    eo_bytes_fini(&c->result);
    free(c);
}

static void destroy(struct coordinator *c)
{
    struct job *j = c->job;
    struct jobs *js = c->jobs;
    const bool has_slot = c->has_slot;
    drop_claim(c);
    close_links(c);
    j->coordinator = NULL;
    finish_job(c, j);
    free_coordinator(c);
    if (has_slot) {
        jobs_give_slot(js);
    } else {
        jobs_schedule(js);
    }
    jobs_check_drained(js);
    job_unref(j);
}

void coordinator_abandon(struct coordinator *c)
{
    struct job *j = c->job;
    c->abandoned = true;
    loop_timer_stop(c->timer);
    close_links(c);
    if (j->run != NULL) {
        rank_run_abandon(j->run); /* local_finished frees, now or later */
        return;
    }
    j->coordinator = NULL;
    free_coordinator(c);
    job_unref(j);
}

/* Called from the timer only, so that no callback finds its coordinator gone under its feet. */
static void end_if_done(struct coordinator *c)
{
    const uint64_t now = coordinator_now_ms();
    if (c->phase == PHASE_ABORT) {
        const bool waited = now - c->abort_ms > ABORT_MS;
        if (c->job->run == NULL && (waited || all_ended(c))) {
            destroy(c);
        }
        return;
    }
    if (c->phase == PHASE_RUN && c->local_ended && all_ended(c)) {
        destroy(c);
    }
}

static void ignore_reply(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                         uint64_t payload_size)
{
    EO_UNUSED(ctx);
    EO_UNUSED(err);
    EO_UNUSED(result);
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
}

/* Tells everybody the first cause. Reservations end with their connection, running ranks by peer.abort. */
static void abort_all(struct coordinator *c)
{
    c->phase = PHASE_ABORT;
    c->abort_ms = coordinator_now_ms();
    for (int i = 1; i < c->n; i++) {
        struct host *h = &c->hosts[i];
        if (h->link == NULL || !h->prepared || h->ended) {
            continue;
        }
        struct eo_bytes *b = link_request(h->link, EO_MSG_PEER_ABORT);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "job", c->job->record->id);
        eo_pack_kv_u64(b, "epoch", c->epoch);
        eo_pack_str(b, "error");
        eo_error_pack(b, &c->cause);
        link_send(h->link, NULL, 0, ABORT_MS, ignore_reply, NULL, NULL);
    }
    if (c->job->run != NULL) {
        rank_run_abort(c->job->run, &c->cause);
    }
}

static bool is_echo(const struct eo_error *err)
{
    return err->code == EO_E_PEER_LOST || err->code == EO_E_PEER_TIMEOUT || err->code == EO_E_CONNECTION_LOST;
}

/* The first cause wins, but one that only says "the other side is gone" gives way to one that says why. */
void coordinator_fail(struct coordinator *c, const struct eo_error *err)
{
    if (c->phase == PHASE_ABORT && !(is_echo(&c->cause) && !is_echo(err))) {
        return;
    }
    if (c->cause.code == 0) {
        c->cause_ms = coordinator_now_ms();
        c->cause = *err;
        job_log_printf(c->job, "EO-%d: %s", err->code, err->message);
    } else if (is_echo(&c->cause) && !is_echo(err)) {
        c->cause = *err;
    }
    if (c->phase != PHASE_ABORT && (c->phase != PHASE_RUN || !is_echo(&c->cause))) {
        abort_all(c);
    }
}

void coordinator_fail_host(struct coordinator *c, int rank, const struct eo_error *err)
{
    struct eo_error named = *err;
    if (named.host[0] == '\0' || (named.rank < 0 && strcmp(named.host, coordinator_host(c, rank)) == 0)) {
        eo_error_at_host(&named, coordinator_host(c, rank), rank);
    }
    coordinator_fail(c, &named);
}

void coordinator_give_up_busy(struct coordinator *c, const struct eo_error *why)
{
    c->busy = true;
    c->cause = *why;
    abort_all(c);
}

/* ---- the local rank ---- */

static void local_ready(void *ctx)
{
    struct coordinator *c = ctx;
    c->hosts[0].prepared = true;
    job_log_printf(c->job, "rank 0: worker process %d started", (int)rank_run_pid(c->job->run));
    c->at++;
    coordinator_reserve_next(c);
}

static void local_started(void *ctx, const struct eo_item *params)
{
    struct coordinator *c = ctx;
    job_set_device(c->job, params);
    job_change(c->job, JOB_RUNNING, NULL);
}

static void local_progress(void *ctx, const struct eo_item *params)
{
    const struct coordinator *c = ctx;
    job_set_progress(c->job, params);
}

static void local_log(void *ctx, const char *text, size_t length)
{
    const struct coordinator *c = ctx;
    job_log_append(c->job, text, length);
}

static void local_finished(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct coordinator *c = ctx;
    c->job->run = NULL;
    if (c->abandoned) {
        struct job *j = c->job;
        j->coordinator = NULL;
        free_coordinator(c);
        job_unref(j);
        return;
    }
    c->local_ended = true;
    c->ended_ms = coordinator_now_ms();
    if (err != NULL) {
        coordinator_fail_host(c, 0, err);
        return;
    }
    eo_get_str(result, "parameters_sha256", "", c->hosts[0].parameters_sha256, sizeof c->hosts[0].parameters_sha256,
               NULL);
    eo_pack_item(&c->result, result);
}

int coordinator_start_local(struct coordinator *c, struct eo_error *err)
{
    char dir[JOBS_DIR_SIZE];
    if (!job_dir(c->job, dir)) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    const struct rank_config config = {
        .record = c->job->record, .dir = dir, .rank = 0, .world_size = c->n, .epoch = c->epoch, .token = c->token};
    const struct rank_callbacks callbacks = {.ctx = c,
                                             .ready = local_ready,
                                             .started = local_started,
                                             .progress = local_progress,
                                             .log = local_log,
                                             .finished = local_finished};
    drop_claim(c);
    c->has_slot = true;
    jobs_take_slot(c->jobs);
    return rank_run_start(c->jobs->server, &config, &callbacks, &c->job->run, err);
}

/* ---- time ---- */

static void on_heartbeat(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                         uint64_t payload_size)
{
    struct host *h = ctx;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    h->heartbeat_out = false;
    if (err == NULL && h->link != NULL) {
        h->heard_ms = coordinator_now_ms();
        eo_item_as_u64(eo_item_get(result, "progress"), &h->progress);
    }
}

static void beat(struct coordinator *c, struct host *h, uint64_t now)
{
    if (h->link == NULL || h->ended) {
        return;
    }
    if (now - h->heard_ms > HEARTBEAT_DEAD_MS) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_PEER_TIMEOUT, "%s (rank %d) did not answer heartbeats for %d s",
                 coordinator_host(c, h->rank), h->rank, HEARTBEAT_DEAD_MS / 1000);
        eo_error_hint(&err, "Its daemon is stopped or the host is overloaded or unreachable.");
        coordinator_fail_host(c, h->rank, &err);
        return;
    }
    if (!h->heartbeat_out && now - h->asked_ms >= HEARTBEAT_MS) {
        struct eo_bytes *b = link_request(h->link, EO_MSG_PEER_HEARTBEAT);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "job", c->job->record->id);
        eo_pack_kv_u64(b, "epoch", c->epoch);
        eo_pack_kv_u64(b, "progress", c->job->run != NULL ? rank_run_progress(c->job->run) : 0);
        h->heartbeat_out = link_send(h->link, NULL, 0, 0, on_heartbeat, h, NULL) == EO_OK;
        h->asked_ms = now;
    }
}

static void on_tick(void *ctx)
{
    struct coordinator *c = ctx;
    const uint64_t now = coordinator_now_ms();
    for (int i = 1; i < c->n && c->phase == PHASE_RUN; i++) {
        beat(c, &c->hosts[i], now);
    }
    if (c->phase == PHASE_RUN && c->local_ended && c->cause.code == 0 && now - c->ended_ms > FINISH_MS) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_PEER_TIMEOUT, "rank 0 ended, other ranks did not within %d s", FINISH_MS / 1000);
        coordinator_fail(c, &err);
    }
    if (c->cause.code != 0 && c->phase != PHASE_ABORT && now - c->cause_ms >= BETTER_CAUSE_MS) {
        abort_all(c);
    }
    end_if_done(c); /* may free c */
}

/* ---- starting and stopping ---- */

/* A number that grows with each try, also over a restart of the daemon: tries are further apart than a tenth of a
 * second. That sockets of another try are not taken for ours is the token's business. */
static uint64_t new_epoch(const struct job_record *r)
{
    const int64_t age_ms = eo_wall_ms() - r->submitted_ms;
    return (uint64_t)EO_MAX(age_ms, (int64_t)0) / 100 + 1;
}

int coordinator_start(struct job *j, struct eo_error *err)
{
    struct coordinator *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to coordinate a job");
    }
    c->job = j;
    c->jobs = j->jobs;
    c->n = j->record->n_hosts;
    eo_bytes_init(&c->result, 1 << 20);
    for (int i = 0; i < c->n; i++) {
        c->hosts[i] = (struct host){.c = c, .rank = i};
    }
    eo_copy_text(c->hosts[0].node, sizeof c->hosts[0].node, j->jobs->server->node);
    c->timer = loop_timer_new(j->jobs->server->loop, on_tick, c);
    int rc = c->timer != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a timer");
    c->epoch = new_epoch(j->record);
    if (rc == EO_OK && getrandom(c->token, sizeof c->token, 0) != (ssize_t)sizeof c->token) {
        rc = EO_RAISE(err, EO_E_INTERNAL, "no random bytes from the system");
    }
    if (rc == EO_OK) {
        job_change(j, JOB_STARTING, "connecting to %d other host%s", c->n - 1, c->n == 2 ? "" : "s");
        rc = coordinator_open_links(c, err);
    }
    if (rc != EO_OK) {
        free_coordinator(c);
        return rc;
    }
    c->has_claim = true;
    c->jobs->n_claims++;
    j->coordinator = c;
    job_ref(j);
    loop_timer_start(c->timer, TICK_MS, TICK_MS);
    return EO_OK;
}

void coordinator_stop(struct coordinator *c, int stop)
{
    struct eo_error err = {0};
    if (c->phase == PHASE_RUN) {
        if (c->job->run != NULL) {
            rank_run_stop(c->job->run, stop); /* the ranks agree on the step to stop at by their vote */
        }
        return;
    }
    EO_RAISE(&err, stop == 1 ? EO_E_CANCELLED : EO_E_SHUTTING_DOWN, "%s before it started",
             stop == 1 ? "the job was cancelled" : "the daemon ended");
    coordinator_fail(c, &err);
}

int coordinator_data_hello(struct coordinator *c, struct request *r, struct eo_error *err)
{
    const struct data_expectation e = {.epoch = c->epoch, .token = c->token, .rank = 0, .world_size = c->n};
    return data_hello_accept(c->job, &e, r, err);
}
