/* Connecting to the hosts of a job and reserving them, all or none, in the order of their node ids. */
#include "daemon/server/coordinator_state.h"

#include "proto/base/text.h"
#include "proto/version.h"

#include <string.h>

/* ---- reserving ---- */

static void on_connected_end(void *ctx, const struct eo_error *err, const struct eo_item *result,
                             const uint8_t *payload, uint64_t payload_size)
{
    struct host *h = ctx;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (h->link == NULL || !link_is_open(h->link)) {
        return; /* closed by us, or lost: on_closed says so */
    }
    h->ended = true;
    if (err != NULL) {
        coordinator_fail_host(h->c, h->rank, err);
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
        h->heard_ms = coordinator_now_ms();
        struct eo_bytes *b = link_request(h->link, EO_MSG_PEER_CONNECT);
        eo_pack_map(b, 2);
        eo_pack_kv_str(b, "job", c->job->record->id);
        eo_pack_kv_u64(b, "epoch", c->epoch);
        if (link_send(h->link, NULL, 0, 0, on_connected_end, h, &err) != EO_OK) {
            coordinator_fail_host(c, i, &err);
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
    if (h->link == NULL || !link_is_open(h->link) || c->phase == PHASE_ABORT) {
        return;
    }
    if (err != NULL && err->code == EO_E_BUSY) {
        coordinator_give_up_busy(c, err);
        return;
    }
    if (err != NULL) {
        coordinator_fail_host(c, h->rank, err);
        return;
    }
    eo_get_str(result, "engine_version", "", version, sizeof version, NULL);
    if (strcmp(version, eo_version()) != 0) {
        struct eo_error differs = {0};
        EO_RAISE(&differs, EO_E_PEER_REJECTED, "VERSION: %s runs everyod %s, this coordinator %s",
                 coordinator_host(c, h->rank), version, eo_version());
        eo_error_hint(&differs, "Install the same version on all hosts of a job.");
        coordinator_fail_host(c, h->rank, &differs);
        return;
    }
    h->prepared = true;
    job_log_printf(c->job, "rank %d: %s is ready", h->rank, coordinator_host(c, h->rank));
    c->at++;
    coordinator_reserve_next(c);
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
    if (h->link == NULL || !link_is_open(h->link) || c->phase == PHASE_ABORT) {
        return;
    }
    if (err != NULL) {
        coordinator_fail_host(c, h->rank, err);
        return;
    }
    if (sent > 0) {
        char size[32];
        job_log_printf(c->job, "rank %d: %s of data sent to %s", h->rank, eo_format_bytes(sent, size, sizeof size),
                       coordinator_host(c, h->rank));
    }
    pack_prepare(c, h->rank, link_request(h->link, EO_MSG_PEER_PREPARE));
    if (link_send(h->link, NULL, 0, PREPARE_MS, on_prepared, h, &failure) != EO_OK) {
        coordinator_fail_host(c, h->rank, &failure);
    }
}

void coordinator_reserve_next(struct coordinator *c)
{
    struct eo_error err = {0};
    if (c->cause.code != 0) {
        return; /* the timer ends it */
    }
    if (c->at == c->n) {
        go(c);
        return;
    }
    struct host *h = &c->hosts[c->order[c->at]];
    job_change(c->job, JOB_STARTING, "reserving %s (%d of %d)", coordinator_host(c, h->rank), c->at + 1, c->n);
    if (h->rank != 0) {
        if (peer_share_start(c->jobs->server, h->link, c->job->record->files, c->job->record->n_files, on_shared, h,
                             &h->share, &err) != EO_OK) {
            coordinator_fail_host(c, h->rank, &err);
        }
    } else if (!jobs_slot_free(c->jobs)) {
        char holders[200];
        jobs_holder_text(c->jobs, holders, sizeof holders);
        EO_RAISE(&err, EO_E_BUSY, "%s has no free slot: %s", coordinator_host(c, 0), holders);
        coordinator_give_up_busy(c, &err);
    } else if (coordinator_start_local(c, &err) != EO_OK) {
        coordinator_fail(c, &err);
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
            EO_RAISE(err, EO_E_PEER_REJECTED, "SELF_CONNECT: %s and %s are the same daemon", coordinator_host(c, a),
                     coordinator_host(c, b));
            eo_error_at_host(err, coordinator_host(c, b), b);
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
        coordinator_fail(c, &err);
        return;
    }
    c->phase = PHASE_RESERVE;
    coordinator_reserve_next(c);
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
        job_log_printf(h->c->job, "[rank %d %s] %.*s", h->rank, coordinator_host(h->c, h->rank),
                       (int)EO_MIN(length, 800u), text);
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
        EO_RAISE(&lost, EO_E_PEER_LOST, "%s (rank %d) was lost", coordinator_host(c, h->rank), h->rank);
        eo_error_cause(&lost, "peer", why->code, why->message);
        eo_error_hint(&lost, "Its daemon ended or the network between the hosts failed; look at its log.");
    }
    eo_error_at_host(&lost, coordinator_host(c, h->rank), h->rank);
    if (!h->ended || c->phase != PHASE_RUN) {
        coordinator_fail(c, &lost);
    }
}

int coordinator_open_links(struct coordinator *c, struct eo_error *err)
{
    int rc = EO_OK;
    for (int i = 1; i < c->n && rc == EO_OK; i++) {
        struct eo_endpoint ep;
        const struct link_callbacks callbacks = {
            .ctx = &c->hosts[i], .ready = on_ready, .notification = on_notification, .closed = on_closed};
        rc = eo_endpoint_parse(coordinator_host(c, i), &ep, err);
        if (rc == EO_OK) {
            rc = link_open(c->jobs->server, &ep, CONNECT_MS, &callbacks, &c->hosts[i].link, err);
        }
    }
    return rc;
}
