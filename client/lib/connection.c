#include "client/lib/connection.h"

#include "client/lib/connection_internal.h"
#include "proto/base/clock.h"
#include "proto/error_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table of requests ---- */

struct eo_pending *eo_connection_find(const struct eo_connection *c, uint32_t id)
{
    struct eo_pending *p = &c->pending[id % EO_CONNECTION_OPEN_MAX];
    return id != 0 && p->id == id ? p : NULL;
}

void eo_reply_fini(struct eo_reply *r)
{
    eo_doc_fini(&r->doc);
    eo_bytes_fini(&r->envelope);
    eo_bytes_fini(&r->payload);
    memset(r, 0, sizeof *r);
}

static void drop_pending(struct eo_pending *p)
{
    free(p->failure);
    eo_reply_fini(&p->reply);
    memset(p, 0, sizeof *p);
}

/* Ids go up by one; those whose slot still holds a reply that nobody has taken are passed over. */
static int add_pending(struct eo_connection *c, const char *method, bool awaited, struct eo_pending **out,
                       struct eo_error *err)
{
    for (int tries = 0; tries <= EO_CONNECTION_OPEN_MAX; tries++) {
        c->next_id++;
        struct eo_pending *p = &c->pending[c->next_id % EO_CONNECTION_OPEN_MAX];
        if (c->next_id != 0 && p->id == 0) {
            p->id = c->next_id;
            p->use = awaited ? EO_PENDING_AWAITED : EO_PENDING_DEFERRED;
            snprintf(p->method, sizeof p->method, "%s", method);
            c->n_unanswered++;
            c->n_deferred += !awaited;
            *out = p;
            return EO_OK;
        }
    }
    return EO_RAISE(err, EO_E_BUSY, "%d replies of %s have not been taken", EO_CONNECTION_OPEN_MAX, c->endpoint.text);
}

/* ---- what arrives ---- */

static int take_failure(struct eo_connection *c, struct eo_pending *p, struct eo_error *err)
{
    p->failure = calloc(1, sizeof *p->failure);
    if (p->failure == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the answer to %s", p->method);
    }
    eo_error_unpack(c->parsed.error, p->failure);
    if (p->use == EO_PENDING_DEFERRED && c->deferred.code == 0) {
        c->deferred = *p->failure;
    }
    return EO_OK;
}

/* The document points into the envelope's bytes: both move together. */
static void take_result(struct eo_connection *c, struct eo_pending *p)
{
    p->reply.result = c->parsed.result;
    p->reply.doc = c->doc;
    p->reply.envelope = c->envelope;
    p->reply.payload_size = (size_t)c->in.payload_size;
    memset(&c->doc, 0, sizeof c->doc);
    eo_bytes_init(&c->envelope, EO_ENVELOPE_MAX);
    if (!c->direct && c->in.payload_size > 0) {
        p->reply.payload = c->payload;
        eo_bytes_init(&c->payload, EO_CONNECTION_REPLY_MAX);
    }
}

/* Number 0 is nobody's request: the daemon refuses the whole connection. */
static int refused(const struct eo_connection *c, struct eo_error *err)
{
    struct eo_error why;
    eo_error_unpack(c->parsed.error, &why);
    if (err != NULL) {
        *err = why;
    }
    return why.code;
}

int eo_connection_deliver(struct eo_connection *c, struct eo_error *err)
{
    if (c->parsed.id == 0 && c->parsed.error != NULL) {
        return refused(c, err);
    }
    struct eo_pending *p = eo_connection_find(c, c->parsed.id);
    if (p == NULL || p->arrived) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "an answer to request %u came, which is not open", c->parsed.id);
    }
    int rc = EO_OK;
    p->arrived = true;
    c->n_unanswered--;
    c->n_deferred -= p->use == EO_PENDING_DEFERRED;
    if (c->parsed.error != NULL) {
        rc = take_failure(c, p, err);
    } else if (p->use == EO_PENDING_AWAITED) {
        take_result(c, p);
    }
    if (p->use != EO_PENDING_AWAITED) {
        drop_pending(p);
    }
    return rc;
}

/* ---- calls ---- */

static int check_owner(const struct eo_connection *c, struct eo_error *err)
{
    if (c->owner == getpid()) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_CONNECTION_LOST, "the connection to %s belongs to the parent process", c->endpoint.text);
    eo_error_hint(err, "Open a new connection after fork.");
    return EO_E_CONNECTION_LOST;
}

static int check_usable(struct eo_connection *c, struct eo_error *err)
{
    int rc = check_owner(c, err);
    return rc == EO_OK && c->broken.code != 0 ? eo_connection_break(c, &c->broken, err) : rc;
}

/* More unanswered requests than the daemon takes would be refused as busy. */
static int wait_for_room(struct eo_connection *c, const char *method, struct eo_error *err)
{
    uint64_t most = c->facts.pending_limit == 0 ? 1 : c->facts.pending_limit;
    most = EO_MIN(most, (uint64_t)EO_CONNECTION_OPEN_MAX);
    int rc = EO_OK;
    while (rc == EO_OK && c->n_unanswered >= most) {
        rc = eo_connection_step(c, eo_connection_deadline(c), method, err);
    }
    return rc;
}

static int send_request(struct eo_connection *c, uint32_t id, const char *method, const struct eo_bytes *params,
                        const void *payload, size_t payload_size, struct eo_error *err)
{
    struct eo_bytes envelope;
    int rc;
    eo_bytes_init(&envelope, EO_ENVELOPE_MAX);
    eo_pack_request(&envelope, id, method);
    if (params != NULL) {
        eo_bytes_append(&envelope, params->data, params->size);
    } else {
        eo_pack_map(&envelope, 0);
    }
    if (envelope.failed || (params != NULL && params->failed)) {
        rc = EO_RAISE(err, EO_E_FRAME_TOO_LARGE, "the parameters of %s exceed %d bytes, or memory is out", method,
                      EO_ENVELOPE_MAX);
    } else {
        rc = eo_connection_send(c, &envelope, payload, payload_size, err);
    }
    eo_bytes_fini(&envelope);
    return rc;
}

int eo_connection_request(struct eo_connection *c, const char *method, const struct eo_bytes *params,
                          const void *payload, size_t payload_size, uint32_t *out_id, struct eo_error *err)
{
    struct eo_pending *p = NULL;
    int rc = check_usable(c, err);
    if (rc == EO_OK) {
        rc = wait_for_room(c, method, err);
    }
    if (rc == EO_OK) {
        rc = add_pending(c, method, out_id != NULL, &p, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    const uint32_t id = p->id;
    rc = send_request(c, id, method, params, payload, payload_size, err);
    if (rc != EO_OK) {
        c->n_unanswered--;
        c->n_deferred -= out_id == NULL;
        drop_pending(p);
        return rc;
    }
    if (out_id != NULL) {
        *out_id = id;
    }
    return EO_OK;
}

/* The reply has arrived: move it to the caller. */
static int take_reply(struct eo_connection *c, struct eo_pending *p, struct eo_reply *reply, void *into,
                      size_t into_size, struct eo_error *err)
{
    int rc = EO_OK;
    if (p->failure != NULL) {
        rc = p->failure->code;
        if (err != NULL) {
            *err = *p->failure;
        }
    } else if (into != NULL && p->reply.payload_size != into_size) {
        rc = EO_RAISE(err, EO_E_BAD_ENVELOPE, "%s answered %s with %zu bytes, %zu were asked for", c->endpoint.text,
                      p->method, p->reply.payload_size, into_size);
    } else {
        if (into != NULL && p->reply.payload.size > 0) { /* it came before anybody waited */
            memcpy(into, p->reply.payload.data, into_size);
        }
        if (reply != NULL) {
            *reply = p->reply;
            memset(&p->reply, 0, sizeof p->reply);
        }
    }
    drop_pending(p);
    return rc;
}

/* Nobody will take the reply any more. */
static void abandon(struct eo_connection *c, struct eo_pending *p)
{
    p->use = EO_PENDING_ABANDONED;
    if (c->stage == EO_IN_PAYLOAD && c->direct && c->broken.code == 0) {
        /* Half a payload is in the caller's buffer, which the caller may now free: the stream cannot go on. */
        struct eo_error cut = {0};
        EO_RAISE(&cut, EO_E_CONNECTION_LOST, "the connection to %s was given up in the middle of an answer",
                 c->endpoint.text);
        eo_connection_break(c, &cut, NULL);
    }
}

int eo_connection_wait(struct eo_connection *c, uint32_t id, void *into, size_t into_size, struct eo_reply *reply,
                       struct eo_error *err)
{
    int rc = check_owner(c, err);
    if (rc != EO_OK) {
        return rc;
    }
    struct eo_pending *p = eo_connection_find(c, id);
    if (p == NULL || p->use != EO_PENDING_AWAITED) {
        return EO_BUG(err, "waiting for request %u, which nobody has to wait for", id);
    }
    c->wait_id = id;
    c->wait_into = into;
    c->wait_size = into_size;
    while (!p->arrived && rc == EO_OK) {
        rc = check_usable(c, err);
        if (rc == EO_OK) {
            rc = eo_connection_step(c, eo_connection_deadline(c), p->method, err);
        }
    }
    c->wait_id = 0;
    c->wait_into = NULL;
    if (!p->arrived) {
        abandon(c, p);
        return rc;
    }
    return take_reply(c, p, reply, into, into_size, err);
}

int eo_connection_call(struct eo_connection *c, const char *method, const struct eo_bytes *params, const void *payload,
                       size_t payload_size, struct eo_reply *reply, struct eo_error *err)
{
    uint32_t id = 0;
    int rc = eo_connection_request(c, method, params, payload, payload_size, &id, err);
    return rc != EO_OK ? rc : eo_connection_wait(c, id, NULL, 0, reply, err);
}

int eo_connection_pump(struct eo_connection *c, uint64_t deadline_ns, struct eo_error *err)
{
    struct eo_error late = {0};
    int rc = check_usable(c, err);
    if (rc != EO_OK) {
        return rc;
    }
    rc = eo_connection_step(c, deadline_ns == 0 ? eo_now_ns() + 1 : deadline_ns, "events", &late);
    if (rc == EO_E_TIMED_OUT) {
        return EO_OK;
    }
    if (rc != EO_OK && err != NULL) {
        *err = late;
    }
    return rc;
}

bool eo_connection_ready(const struct eo_connection *c, uint32_t id)
{
    const struct eo_pending *p = eo_connection_find(c, id);
    return c->broken.code != 0 || p == NULL || p->arrived;
}

int eo_connection_drain(struct eo_connection *c, struct eo_error *err)
{
    int rc = check_owner(c, err);
    while (rc == EO_OK && c->n_deferred > 0) {
        rc = check_usable(c, err);
        if (rc == EO_OK) {
            rc = eo_connection_step(c, eo_connection_deadline(c), "sync", err);
        }
    }
    if (rc == EO_OK) {
        rc = check_usable(c, err);
    }
    if (c->deferred.code != 0 && rc != EO_E_TIMED_OUT) { /* it came before whatever ended the wait */
        rc = c->deferred.code;
        if (err != NULL) {
            *err = c->deferred;
        }
        eo_error_clear(&c->deferred);
    }
    return rc;
}

void eo_connection_on_event(struct eo_connection *c, eo_event_fn fn, void *ctx)
{
    c->on_event = fn;
    c->event_ctx = ctx;
}
