/* doctor's checks towards peers: reachable, who it is, how long a round trip takes. All peers at once. */
#include "daemon/server/handlers/doctor.h"
#include "daemon/server/link.h"
#include "proto/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEER_TIMEOUT_MS = 5000, N_PINGS = 5 };

struct peer {
    struct doctor *doctor;
    struct link *link;
    char text[300];
    char node[64], build[64];
    int n_pings;
    uint64_t asked_ns, rtt_ns[N_PINGS];
};

static void end_peer(struct peer *p)
{
    struct doctor *d = p->doctor;
    if (p->link) {
        link_close(p->link);
    }
    free(p);
    doctor_part_done(d);
}

static void unreachable(struct peer *p, const struct eo_error *why)
{
    struct check c = {.name = "reachable", .status = CHECK_FAIL, .peer = p->text};
    check_say(c.what, sizeof(c.what), "%.150s answers", p->text);
    check_say(c.why, sizeof(c.why), "EO-%04d: %s", why->code, why->message);
    check_say(c.fix, sizeof(c.fix), "%s",
              why->hint[0] ? why->hint : "see whether everyod runs there and whether a firewall is between");
    check_add(p->doctor, &c);
}

static int by_time(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void report(struct peer *p)
{
    struct check c = {.name = "reachable", .status = CHECK_OK, .peer = p->text};
    qsort(p->rtt_ns, (size_t)p->n_pings, sizeof(p->rtt_ns[0]), by_time);
    check_say(c.what, sizeof(c.what), "%.150s answers", p->text);
    const int middle = p->n_pings / 2;
    check_say(c.why, sizeof(c.why), "round trip %.0f us (median of %d), everyod %s", (double)p->rtt_ns[middle] / 1e3,
              p->n_pings, p->build);
    check_add(p->doctor, &c);
    struct check id = {.name = "identity", .status = CHECK_OK, .peer = p->text};
    check_say(id.what, sizeof(id.what), "%.150s is node %.8s", p->text, p->node);
    if (strcmp(p->node, p->doctor->request->server->node) == 0) {
        id.status = CHECK_WARN;
        check_say(id.why, sizeof(id.why), "that is this daemon itself");
        check_say(id.fix, sizeof(id.fix), "name another host; two daemons need two state directories");
    }
    check_add(p->doctor, &id);
}

static void ping(struct peer *p);

static void on_pong(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                    uint64_t payload_size)
{
    struct peer *p = ctx;
    EO_UNUSED(result);
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (err) {
        if (link_is_open(p->link)) { /* else on_closed follows */
            unreachable(p, err);
            end_peer(p);
        }
        return;
    }
    p->rtt_ns[p->n_pings++] = eo_now_ns() - p->asked_ns;
    if (p->n_pings < N_PINGS) {
        ping(p);
        return;
    }
    report(p);
    end_peer(p);
}

static void ping(struct peer *p)
{
    struct eo_error err = {0};
    p->asked_ns = eo_now_ns();
    eo_pack_map(link_request(p->link, EO_MSG_PING), 0);
    if (link_send(p->link, NULL, 0, PEER_TIMEOUT_MS, on_pong, p, &err) != EO_OK) {
        unreachable(p, &err);
        end_peer(p);
    }
}

static void on_ready(void *ctx, const struct eo_item *result)
{
    struct peer *p = ctx;
    (void)eo_get_str(result, "node", "", p->node, sizeof(p->node), NULL);
    (void)eo_get_str(result, "build", "", p->build, sizeof(p->build), NULL);
    ping(p);
}

static void on_closed(void *ctx, const struct eo_error *why)
{
    struct peer *p = ctx;
    p->link = NULL; /* frees itself */
    unreachable(p, why);
    end_peer(p);
}

static int start_peer(struct doctor *d, const char *text, size_t length, struct eo_error *err)
{
    struct eo_endpoint ep;
    struct eo_error why = {0};
    struct peer *p = calloc(1, sizeof(*p));
    if (!p) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for doctor");
    }
    p->doctor = d;
    snprintf(p->text, sizeof(p->text), "%.*s", (int)length, text);
    d->n_pending++;
    const struct link_callbacks callbacks = {.ctx = p, .ready = on_ready, .closed = on_closed};
    int code = eo_endpoint_parse(p->text, &ep, &why);
    if (code == EO_OK) {
        code = link_open(d->request->server, &ep, PEER_TIMEOUT_MS, &callbacks, &p->link, &why);
    }
    if (code != EO_OK) {
        unreachable(p, &why);
        end_peer(p);
    }
    return EO_OK;
}

int doctor_peers(struct doctor *d, const struct eo_item *endpoints, struct eo_error *err)
{
    int code = EO_OK;
    for (size_t i = 0; code == EO_OK && i < eo_item_count(endpoints); i++) {
        const char *text = NULL;
        size_t length = 0;
        (void)eo_item_as_str(eo_item_at(endpoints, i), &text, &length);
        code = start_peer(d, text, length, err);
    }
    return code;
}
