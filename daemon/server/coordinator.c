#include "daemon/server/coordinator.h"

#include "daemon/server/data_hello.h"
#include "daemon/server/link.h"
#include "daemon/server/peer_share.h"
#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    CONNECT_MS = 5000,
    PREPARE_MS = 60000,
    LEASE_MS = 60000,
    TICK_MS = 100,
    HEARTBEAT_MS = 500,
    HEARTBEAT_DEAD_MS = 10000,
    BETTER_CAUSE_MS = 500, /* a lost socket is often the echo of something that says more */
    ABORT_MS = 1500,       /* how long peers may take to answer an abort */
    FINISH_MS = 30000      /* how far ranks may end apart */
};

enum phase { PHASE_CONNECT, PHASE_RESERVE, PHASE_RUN, PHASE_ABORT };

struct host {
    struct coordinator *c;
    int rank;
    struct link *link; /* NULL: this daemon, or lost */
    char node[SERVER_NODE_SIZE];
    bool ready, prepared, ended;
    bool heartbeat_out;
    uint64_t heard_ms, asked_ms, progress;
    char parameters_sha256[65];
    struct peer_share *share;
};

struct coordinator {
    struct job *job;
    struct jobs *jobs;
    enum phase phase;
    int n, n_ready;
    struct host hosts[JOB_MAX_HOSTS]; /* by rank */
    int order[JOB_MAX_HOSTS];         /* ranks in the order of their node ids: everybody reserves in this order */
    int at;                           /* next in order to reserve */
    uint64_t epoch;
    uint8_t token[DATA_TOKEN_SIZE];
    bool has_slot, local_ended;
    struct loop_timer *timer;
    struct eo_error cause; /* the first, or a better one that came soon after */
    uint64_t cause_ms, abort_ms, ended_ms;
    bool busy;              /* the end is a wait for a slot elsewhere, not a failure */
    struct eo_bytes result; /* packed reply of the local rank */
    int stop;
};

static uint64_t now_ms(void)
{
    return eo_now_ns() / 1000000;
}

static const char *host_text(const struct coordinator *c, int rank)
{
    return c->job->record->hosts[rank];
}

static void reserve_next(struct coordinator *c);

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
        eo_pack_kv_str(b, "host", host_text(c, i));
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
                     i, host_text(c, i), c->hosts[i].parameters_sha256, c->hosts[0].parameters_sha256);
            eo_error_at_host(&c->cause, host_text(c, i), i);
        }
    }
}

static void finish_job(struct coordinator *c, struct job *j)
{
    struct eo_doc doc = {0};
    if (c->busy) {
        const uint32_t shift = EO_MIN(j->refusals, 5u);
        j->refusals++;
        /* Node ids spread the retries of two coordinators that refused each other. */
        j->not_before_ms = now_ms() + (200u << shift) + eo_hash64(c->jobs->server->node, 32, j->refusals) % 300;
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

static void destroy(struct coordinator *c)
{
    struct job *j = c->job;
    struct jobs *js = c->jobs;
    const bool has_slot = c->has_slot;
    loop_timer_free(c->timer);
    c->timer = NULL;
    close_links(c);
    j->coordinator = NULL;
    finish_job(c, j);
    eo_bytes_fini(&c->result);
    free(c);
    if (has_slot) {
        jobs_give_slot(js);
    }
    if (js->draining) {
        server_drained(js->server);
    }
}

/* Called from the timer only, so that no callback finds its coordinator gone under its feet. */
static void end_if_done(struct coordinator *c)
{
    const uint64_t now = now_ms();
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
    c->abort_ms = now_ms();
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
static void fail(struct coordinator *c, const struct eo_error *err)
{
    if (c->phase == PHASE_ABORT && !(is_echo(&c->cause) && !is_echo(err))) {
        return;
    }
    if (c->cause.code == 0) {
        c->cause_ms = now_ms();
        c->cause = *err;
        job_log_printf(c->job, "EO-%d: %s", err->code, err->message);
    } else if (is_echo(&c->cause) && !is_echo(err)) {
        c->cause = *err;
    }
    if (c->phase != PHASE_ABORT && !is_echo(&c->cause)) {
        abort_all(c);
    }
}

static void fail_host(struct coordinator *c, int rank, const struct eo_error *err)
{
    struct eo_error named = *err;
    if (named.host[0] == '\0') {
        eo_error_at_host(&named, host_text(c, rank), rank);
    }
    fail(c, &named);
}

/* ---- the local rank ---- */

static void local_ready(void *ctx)
{
    struct coordinator *c = ctx;
    c->hosts[0].prepared = true;
    job_log_printf(c->job, "rank 0: worker process %d started", (int)rank_run_pid(c->job->run));
    c->at++;
    reserve_next(c);
}

static void local_started(void *ctx, const struct eo_item *params)
{
    struct coordinator *c = ctx;
    eo_get_str(eo_item_get(params, "device"), "name", c->job->device, c->job->device, sizeof c->job->device, NULL);
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
    c->local_ended = true;
    c->ended_ms = now_ms();
    if (err != NULL) {
        fail_host(c, 0, err);
        return;
    }
    eo_get_str(result, "parameters_sha256", "", c->hosts[0].parameters_sha256, sizeof c->hosts[0].parameters_sha256,
               NULL);
    eo_pack_item(&c->result, result);
}

static int start_local(struct coordinator *c, struct eo_error *err)
{
    const struct job_record *r = c->job->record;
    const struct rank_config config = {.job = r->id,
                                       .spec = r->spec,
                                       .files = r->files,
                                       .n_files = r->n_files,
                                       .resume = r->restarts > 0 ? "auto" : r->resume,
                                       .rank = 0,
                                       .world_size = c->n,
                                       .hosts = (const char(*)[300])r->hosts,
                                       .epoch = c->epoch,
                                       .token = c->token};
    const struct rank_callbacks callbacks = {.ctx = c,
                                             .ready = local_ready,
                                             .started = local_started,
                                             .progress = local_progress,
                                             .log = local_log,
                                             .finished = local_finished};
    c->has_slot = true;
    jobs_take_slot(c->jobs);
    return rank_run_start(c->jobs->server, &config, &callbacks, &c->job->run, err);
}

/* ---- reserving ---- */

static void give_up_busy(struct coordinator *c, const struct eo_error *why)
{
    c->busy = true;
    c->cause = *why;
    abort_all(c);
}

static void on_connected_end(void *ctx, const struct eo_error *err, const struct eo_item *result,
                             const uint8_t *payload, uint64_t payload_size)
{
    struct host *h = ctx;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (h->link == NULL) {
        return; /* closed by us or lost: said elsewhere */
    }
    h->ended = true;
    if (err != NULL) {
        fail_host(h->c, h->rank, err);
    } else {
        eo_get_str(result, "parameters_sha256", "", h->parameters_sha256, sizeof h->parameters_sha256, NULL);
    }
}

/* Everybody is ready: the data sockets are opened and training starts. */
static void go(struct coordinator *c)
{
    c->phase = PHASE_RUN;
    for (int i = 1; i < c->n && c->phase == PHASE_RUN; i++) {
        struct host *h = &c->hosts[i];
        struct eo_error err = {0};
        h->heard_ms = now_ms();
        struct eo_bytes *b = link_request(h->link, EO_MSG_PEER_CONNECT);
        eo_pack_map(b, 2);
        eo_pack_kv_str(b, "job", c->job->record->id);
        eo_pack_kv_u64(b, "epoch", c->epoch);
        if (link_send(h->link, NULL, 0, 0, on_connected_end, h, &err) != EO_OK) {
            fail_host(c, i, &err);
        }
    }
    if (c->phase == PHASE_RUN) {
        rank_run_go(c->job->run);
    }
}

static void on_prepared(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                        uint64_t payload_size)
{
    struct host *h = ctx;
    struct coordinator *c = h->c;
    char version[32];
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (h->link == NULL || c->phase == PHASE_ABORT) {
        return;
    }
    if (err != NULL && err->code == EO_E_BUSY) {
        give_up_busy(c, err);
        return;
    }
    if (err != NULL) {
        fail_host(c, h->rank, err);
        return;
    }
    eo_get_str(result, "engine_version", "", version, sizeof version, NULL);
    if (strcmp(version, eo_version()) != 0) {
        struct eo_error differs = {0};
        EO_RAISE(&differs, EO_E_PEER_REJECTED, "VERSION: %s runs everyod %s, this coordinator %s",
                 host_text(c, h->rank), version, eo_version());
        eo_error_hint(&differs, "Install the same version on all hosts of a job.");
        fail_host(c, h->rank, &differs);
        return;
    }
    h->prepared = true;
    job_log_printf(c->job, "rank %d: %s is ready", h->rank, host_text(c, h->rank));
    c->at++;
    reserve_next(c);
}

static void pack_prepare(const struct coordinator *c, int rank, struct eo_bytes *b)
{
    const struct job_record *r = c->job->record;
    eo_pack_map(b, 10);
    eo_pack_kv_str(b, "job", r->id);
    eo_pack_kv_u64(b, "epoch", c->epoch);
    eo_pack_kv_i64(b, "rank", rank);
    eo_pack_kv_i64(b, "world_size", c->n);
    eo_pack_str(b, "hosts");
    eo_pack_array(b, (size_t)c->n);
    for (int i = 0; i < c->n; i++) {
        eo_pack_str(b, r->hosts[i]);
    }
    eo_pack_kv_str(b, "name", r->name);
    eo_pack_kv_str(b, "spec", r->spec);
    eo_pack_str(b, "files");
    eo_pack_array(b, (size_t)r->n_files);
    for (int i = 0; i < r->n_files; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "path", r->files[i].path);
        eo_pack_kv_str(b, "sha256", r->files[i].sha256);
        eo_pack_kv_u64(b, "size", r->files[i].size);
    }
    eo_pack_str(b, "token");
    eo_pack_bin(b, c->token, sizeof c->token);
    eo_pack_kv_u64(b, "lease_ms", LEASE_MS);
}

static void on_shared(void *ctx, const struct eo_error *err, uint64_t sent)
{
    struct host *h = ctx;
    struct coordinator *c = h->c;
    struct eo_error failure = {0};
    h->share = NULL;
    if (c->phase == PHASE_ABORT) {
        return;
    }
    if (err != NULL) {
        fail_host(c, h->rank, err);
        return;
    }
    if (sent > 0) {
        char size[32];
        job_log_printf(c->job, "rank %d: %s of data sent to %s", h->rank, eo_format_bytes(sent, size, sizeof size),
                       host_text(c, h->rank));
    }
    pack_prepare(c, h->rank, link_request(h->link, EO_MSG_PEER_PREPARE));
    if (link_send(h->link, NULL, 0, PREPARE_MS, on_prepared, h, &failure) != EO_OK) {
        fail_host(c, h->rank, &failure);
    }
}

static void reserve_next(struct coordinator *c)
{
    struct eo_error err = {0};
    if (c->phase == PHASE_ABORT) {
        return;
    }
    if (c->at == c->n) {
        go(c);
        return;
    }
    struct host *h = &c->hosts[c->order[c->at]];
    job_change(c->job, JOB_STARTING, "reserving %s (%d of %d)", host_text(c, h->rank), c->at + 1, c->n);
    if (h->rank != 0) {
        if (peer_share_start(c->jobs->server, h->link, c->job->record->files, c->job->record->n_files, on_shared, h,
                             &h->share, &err) != EO_OK) {
            fail_host(c, h->rank, &err);
        }
    } else if (!jobs_slot_free(c->jobs)) {
        char holders[200];
        jobs_holder_text(c->jobs, holders, sizeof holders);
        EO_RAISE(&err, EO_E_BUSY, "%s has no free slot: %s", host_text(c, 0), holders);
        give_up_busy(c, &err);
    } else if (start_local(c, &err) != EO_OK) {
        fail(c, &err);
    }
}

/* ---- connecting ---- */

static int by_node(const struct coordinator *c, int a, int b)
{
    return strcmp(c->hosts[a].node, c->hosts[b].node);
}

static int check_nodes(struct coordinator *c, struct eo_error *err)
{
    for (int i = 0; i < c->n; i++) {
        c->order[i] = i;
        for (int k = i; k > 0 && by_node(c, c->order[k], c->order[k - 1]) < 0; k--) {
            const int swap = c->order[k];
            c->order[k] = c->order[k - 1];
            c->order[k - 1] = swap;
        }
    }
    for (int i = 1; i < c->n; i++) {
        if (by_node(c, c->order[i - 1], c->order[i]) == 0) {
            const int a = EO_MIN(c->order[i - 1], c->order[i]);
            const int b = EO_MAX(c->order[i - 1], c->order[i]);
            EO_RAISE(err, EO_E_PEER_REJECTED, "SELF_CONNECT: %s and %s are the same daemon", host_text(c, a),
                     host_text(c, b));
            eo_error_at_host(err, host_text(c, b), b);
            eo_error_hint(err, "Name each daemon once; two daemons on one host need a state directory each.");
            return EO_E_PEER_REJECTED;
        }
    }
    return EO_OK;
}

static void on_ready(void *ctx, const struct eo_item *result)
{
    struct host *h = ctx;
    struct coordinator *c = h->c;
    struct eo_error err = {0};
    h->ready = true;
    eo_get_str(result, "node", "", h->node, sizeof h->node, NULL);
    if (c->phase != PHASE_CONNECT || ++c->n_ready < c->n - 1) {
        return;
    }
    if (check_nodes(c, &err) != EO_OK) {
        fail(c, &err);
        return;
    }
    c->phase = PHASE_RESERVE;
    reserve_next(c);
}

static void on_notification(void *ctx, const struct eo_message_schema *m, const struct eo_item *params,
                            const uint8_t *payload, uint64_t payload_size)
{
    const struct host *h = ctx;
    const char *text = NULL;
    size_t length = 0;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (m->message == EO_MSG_PEER_EVENT && eo_item_as_str(eo_item_get(params, "text"), &text, &length)) {
        job_log_printf(h->c->job, "[rank %d %s] %.*s", h->rank, host_text(h->c, h->rank), (int)EO_MIN(length, 800u),
                       text);
    }
}

static void on_closed(void *ctx, const struct eo_error *why)
{
    struct host *h = ctx;
    struct coordinator *c = h->c;
    struct eo_error lost = *why;
    peer_share_free(h->share);
    h->share = NULL;
    h->link = NULL;
    if (c->phase != PHASE_CONNECT) { /* before, why tells best: refused, unknown host, another version */
        EO_RAISE(&lost, EO_E_PEER_LOST, "%s (rank %d) was lost", host_text(c, h->rank), h->rank);
        eo_error_cause(&lost, "peer", why->code, why->message);
        eo_error_hint(&lost, "Its daemon ended or the network between the hosts failed; look at its log.");
    }
    eo_error_at_host(&lost, host_text(c, h->rank), h->rank);
    if (!h->ended || c->phase != PHASE_RUN) {
        fail(c, &lost);
    }
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
        h->heard_ms = now_ms();
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
        EO_RAISE(&err, EO_E_PEER_TIMEOUT, "%s (rank %d) did not answer heartbeats for %d s", host_text(c, h->rank),
                 h->rank, HEARTBEAT_DEAD_MS / 1000);
        eo_error_hint(&err, "Its daemon is stopped or the host is overloaded or unreachable.");
        fail_host(c, h->rank, &err);
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
    const uint64_t now = now_ms();
    for (int i = 1; i < c->n && c->phase == PHASE_RUN; i++) {
        beat(c, &c->hosts[i], now);
    }
    if (c->phase == PHASE_RUN && c->local_ended && c->cause.code == 0 && now - c->ended_ms > FINISH_MS) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_PEER_TIMEOUT, "rank 0 ended, other ranks did not within %d s", FINISH_MS / 1000);
        fail(c, &err);
    }
    if (c->cause.code != 0 && c->phase != PHASE_ABORT && now - c->cause_ms >= BETTER_CAUSE_MS) {
        abort_all(c);
    }
    end_if_done(c); /* may free c */
}

/* ---- starting and stopping ---- */

static int open_links(struct coordinator *c, struct eo_error *err)
{
    int rc = EO_OK;
    for (int i = 1; i < c->n && rc == EO_OK; i++) {
        struct eo_endpoint ep;
        const struct link_callbacks callbacks = {
            .ctx = &c->hosts[i], .ready = on_ready, .notification = on_notification, .closed = on_closed};
        rc = eo_endpoint_parse(host_text(c, i), &ep, err);
        if (rc == EO_OK) {
            rc = link_open(c->jobs->server, &ep, CONNECT_MS, &callbacks, &c->hosts[i].link, err);
        }
    }
    return rc;
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
    if (rc == EO_OK && (getrandom(&c->epoch, sizeof c->epoch, 0) != (ssize_t)sizeof c->epoch ||
                        getrandom(c->token, sizeof c->token, 0) != (ssize_t)sizeof c->token)) {
        rc = EO_RAISE(err, EO_E_INTERNAL, "no random bytes from the system");
    }
    if (rc == EO_OK) {
        job_change(j, JOB_STARTING, "connecting to %d hosts", c->n - 1);
        rc = open_links(c, err);
    }
    if (rc != EO_OK) {
        loop_timer_free(c->timer);
        close_links(c);
        eo_bytes_fini(&c->result);
        free(c);
        return rc;
    }
    j->coordinator = c;
    loop_timer_start(c->timer, TICK_MS, TICK_MS);
    return EO_OK;
}

void coordinator_stop(struct coordinator *c, int stop)
{
    c->stop = stop;
    if (c->phase == PHASE_RUN && c->job->run != NULL) {
        rank_run_stop(c->job->run, stop); /* the ranks agree on the step to stop at by their vote */
        return;
    }
    struct eo_error err = {0};
    EO_RAISE(&err, stop == 1 ? EO_E_CANCELLED : EO_E_SHUTTING_DOWN, "%s before it started",
             stop == 1 ? "the job was cancelled" : "the daemon ended");
    fail(c, &err);
}

int coordinator_data_hello(struct coordinator *c, struct request *r, struct eo_error *err)
{
    const struct data_expectation e = {.epoch = c->epoch, .token = c->token, .rank = 0, .world_size = c->n};
    return data_hello_accept(c->job, &e, r, err);
}
