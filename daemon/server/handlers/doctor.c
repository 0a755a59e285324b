/* doctor: the checks of this host and towards peers. */
#include "daemon/server/handlers/doctor.h"

#include "daemon/server/facts.h"
#include "daemon/server/handlers.h"
#include "daemon/server/listener.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKS_MAX_BYTES = 512 << 10, MAX_PEERS = 16, FACTS_PATIENCE_MS = 10000 };

/* ---- collecting ---- */

void check_say(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, size, fmt, args);
    va_end(args);
}

void check_add(struct doctor *d, const struct check *c)
{
    static const char *const status[] = {
        [CHECK_OK] = "OK", [CHECK_WARN] = "WARN", [CHECK_FAIL] = "FAIL", [CHECK_SKIP] = "SKIP"};
    struct eo_bytes *b = &d->checks;
    eo_pack_map(b, 7);
    eo_pack_kv_str(b, "name", c->name);
    eo_pack_kv_str(b, "status", status[c->status]);
    eo_pack_kv_str(b, "what", c->what);
    eo_pack_kv_str(b, "why", c->why);
    eo_pack_kv_str(b, "fix", c->fix);
    eo_pack_kv_str(b, "backend", c->backend);
    eo_pack_kv_str(b, "peer", c->peer);
    d->n_checks++;
}

void doctor_part_done(struct doctor *d)
{
    if (--d->n_pending > 0) {
        return;
    }
    struct eo_bytes *b = request_result(d->request);
    eo_pack_map(b, 1);
    eo_pack_str(b, "checks");
    eo_pack_array(b, d->n_checks);
    eo_bytes_append(b, d->checks.data, d->checks.size);
    b->failed |= d->checks.failed;
    request_send(d->request);
    request_unref(d->request);
    eo_bytes_fini(&d->checks);
    free(d);
}

/* ---- this daemon ---- */

static void check_listening(struct doctor *d)
{
    const struct server *s = d->request->server;
    for (int i = 0; i < s->n_listeners; i++) {
        const struct listener *l = s->listeners[i];
        struct check c = {.name = "listen", .status = l->loopback ? CHECK_OK : CHECK_WARN};
        check_say(c.what, sizeof(c.what), "listening on %s", l->text);
        if (!l->loopback) {
            check_say(c.why, sizeof(c.why), "everybody who reaches this address may run jobs here");
            check_say(c.fix, sizeof(c.fix),
                      "listen on 127.0.0.1 and use ssh -L, or keep strangers off with a firewall");
        }
        check_add(d, &c);
    }
}

/* Peers that are told a loopback address would connect to themselves. */
static void check_advertise(struct doctor *d)
{
    const struct server *s = d->request->server;
    struct eo_endpoint ep;
    bool open = false;
    for (int i = 0; i < s->n_listeners; i++) {
        open |= !s->listeners[i]->loopback;
    }
    struct check c = {.name = "advertise", .status = CHECK_OK};
    check_say(c.what, sizeof(c.what), "peers are told to reach this host at %s", server_advertise(s));
    if (s->config->advertise[0] && open && eo_endpoint_parse(s->config->advertise, &ep, NULL) == EO_OK &&
        eo_endpoint_is_loopback(&ep)) {
        c.status = CHECK_FAIL;
        check_say(c.why, sizeof(c.why), "%s is a loopback address: other hosts would reach themselves",
                  s->config->advertise);
        check_say(c.fix, sizeof(c.fix), "start everyod with --advertise and an address of this host in the network");
    }
    check_add(d, &c);
}

/* ---- backends ---- */

static void check_fact(struct doctor *d, const char *backend, bool mandatory, const struct eo_item *fact)
{
    char state[16] = "", why[200] = "", name[64] = "";
    struct check c = {.backend = backend};
    (void)eo_get_str(fact, "fact", "", name, sizeof(name), NULL);
    (void)eo_get_str(fact, "state", "", state, sizeof(state), NULL);
    (void)eo_get_str(fact, "why", "", why, sizeof(why), NULL);
    c.name = name;
    c.status = strcmp(state, "yes") == 0 ? CHECK_OK : CHECK_SKIP;
    if (strcmp(state, "no") == 0) {
        c.status = mandatory ? CHECK_FAIL : CHECK_WARN;
    }
    check_say(c.what, sizeof(c.what), "%s: %s", backend, name);
    check_say(c.why, sizeof(c.why), "%s", why);
    if (c.status == CHECK_WARN) {
        check_say(c.fix, sizeof(c.fix),
                  "docs/fallback.md says what each backend needs; without it another one is used");
    }
    check_add(d, &c);
}

static void check_self(struct doctor *d, const char *backend, const struct eo_item *self)
{
    bool ok = false;
    struct check c = {.name = "self-check", .backend = backend};
    (void)eo_get_bool(self, "ok", false, &ok, NULL);
    c.status = ok ? CHECK_OK : CHECK_FAIL;
    check_say(c.what, sizeof(c.what), "%s: products against plain loops", backend);
    (void)eo_get_str(self, "report", "", c.why, sizeof(c.why), NULL);
    if (!ok) {
        check_say(c.fix, sizeof(c.fix),
                  "results of this backend cannot be trusted here: use another one (device: in the "
                  "job file) and update its library");
    }
    check_add(d, &c);
}

static void check_worker(struct doctor *d, const struct eo_error *err)
{
    struct check c = {.name = "worker", .status = err ? CHECK_FAIL : CHECK_OK};
    check_say(c.what, sizeof(c.what), "a worker process starts and answers");
    if (err) {
        c.status = err->code == EO_E_TIMED_OUT ? CHECK_WARN : CHECK_FAIL;
        check_say(c.why, sizeof(c.why), "EO-%04d: %s", err->code, err->message);
        check_say(c.fix, sizeof(c.fix), "%s", err->hint);
    }
    check_add(d, &c);
}

static void check_backends(struct doctor *d, const struct eo_item *backends)
{
    for (size_t i = 0; i < eo_item_count(backends); i++) {
        const struct eo_item *backend = eo_item_at(backends, i);
        const struct eo_item *list = eo_item_get(backend, "facts");
        const struct eo_item *self = eo_item_get(backend, "self_check");
        char name[32] = "";
        (void)eo_get_str(backend, "name", "", name, sizeof(name), NULL);
        for (size_t k = 0; k < eo_item_count(list); k++) {
            check_fact(d, name, strcmp(name, "reference") == 0, eo_item_at(list, k));
        }
        if (eo_item_kind(self) == EO_ITEM_MAP) {
            check_self(d, name, self);
        }
    }
}

/* The question to the worker: the answer, or the end of patience, whichever comes first, is the report. */
struct facts_part {
    struct doctor *doctor; /* NULL once reported */
    struct loop_timer *patience;
};

static void report_facts(struct facts_part *p, const struct eo_error *err, const struct eo_item *facts)
{
    struct doctor *d = p->doctor;
    p->doctor = NULL;
    loop_timer_free(p->patience);
    p->patience = NULL;
    check_worker(d, err);
    check_backends(d, eo_item_get(facts, "backends"));
    doctor_part_done(d);
}

static void have_facts(void *ctx, const struct eo_error *err, const struct eo_item *facts)
{
    struct facts_part *p = ctx;
    if (p->doctor) {
        report_facts(p, err, facts);
    }
    free(p);
}

static void no_patience(void *ctx)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_TIMED_OUT, "the worker did not answer within %d s", FACTS_PATIENCE_MS / 1000);
    eo_error_hint(&err, "It computes for somebody; ask again when it has finished.");
    report_facts(ctx, &err, NULL);
}

static int start_facts(struct doctor *d, struct eo_error *err)
{
    struct facts_part *p = calloc(1, sizeof(*p));
    if (!p || !(p->patience = loop_timer_new(d->request->server->loop, no_patience, p))) {
        free(p);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for doctor");
    }
    p->doctor = d;
    d->n_pending++;
    loop_timer_start(p->patience, FACTS_PATIENCE_MS, 0);
    int code = facts_ask(d->request->server, true, have_facts, p, err);
    if (code != EO_OK) {
        d->n_pending--;
        loop_timer_free(p->patience);
        free(p);
    }
    return code;
}

/* ---- host ---- */

struct host_part {
    struct doctor *doctor;
    struct doctor found; /* the file thread's */
};

static void host_work(void *ctx)
{
    struct host_part *p = ctx;
    doctor_host(p->doctor->request->server, &p->found);
}

static void host_done(void *ctx)
{
    struct host_part *p = ctx;
    struct doctor *d = p->doctor;
    eo_bytes_append(&d->checks, p->found.checks.data, p->found.checks.size);
    d->n_checks += p->found.n_checks;
    eo_bytes_fini(&p->found.checks);
    free(p);
    doctor_part_done(d);
}

static int start_host(struct doctor *d, struct eo_error *err)
{
    struct host_part *p = calloc(1, sizeof(*p));
    if (!p) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for doctor");
    }
    p->doctor = d;
    eo_bytes_init(&p->found.checks, CHECKS_MAX_BYTES);
    int code = loop_work(d->request->server->loop, LOOP_FILES, host_work, host_done, p, err);
    if (code == EO_OK) {
        d->n_pending++;
    } else {
        free(p);
    }
    return code;
}

static int check_peer_list(const struct request *r, const struct eo_item **out, struct eo_error *err)
{
    const struct eo_item *peers = eo_item_get(r->params, "peers");
    *out = peers;
    if (!peers) {
        return EO_OK;
    }
    if (eo_item_kind(peers) != EO_ITEM_ARRAY || eo_item_count(peers) > MAX_PEERS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "peers is no array of at most %d endpoints", MAX_PEERS);
    }
    for (size_t i = 0; i < eo_item_count(peers); i++) {
        const char *text = NULL;
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(peers, i), &text, &length) || length >= 300 || memchr(text, '\0', length)) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "peers[%zu] is no endpoint", i);
        }
    }
    return EO_OK;
}

HANDLER(DOCTOR)
{
    const struct eo_item *peers = NULL;
    int code = check_peer_list(r, &peers, err);
    if (code != EO_OK) {
        return code;
    }
    struct doctor *d = calloc(1, sizeof(*d));
    if (!d) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for doctor");
    }
    d->request = request_ref(r);
    d->n_pending = 1; /* this function */
    eo_bytes_init(&d->checks, CHECKS_MAX_BYTES);
    check_listening(d);
    check_advertise(d);
    code = start_host(d, err);
    if (code == EO_OK) {
        code = doctor_peers(d, peers, err);
    }
    if (code == EO_OK) {
        code = start_facts(d, err);
    }
    if (code != EO_OK) { /* parts that run end into an answered request */
        request_fail(r, err);
    }
    doctor_part_done(d);
    return EO_OK;
}
