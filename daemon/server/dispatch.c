/* From frames to handlers: which row, whether the connection may, where the payload goes, in which order it runs. */
#include "daemon/server/handlers.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

typedef int (*handler_fn)(struct request *r, struct eo_error *err);

static const handler_fn handlers[EO_MESSAGE_COUNT] = {
#define HANDLED_CLIENT(NAME) [EO_MSG_##NAME] = handle_##NAME,
#define HANDLED_PEER(NAME) [EO_MSG_##NAME] = handle_##NAME,
#define HANDLED_EVENT(NAME)
#define HANDLED_TASK(NAME)
#define HANDLED_REPORT(NAME)
#define EO_MESSAGE(method, NAME, from, ...) HANDLED_##from(NAME)
#include "proto/tables/messages.def"
};

uint64_t dispatch_max_payload(void)
{
    static uint64_t known;
    if (known == 0) {
        for (int i = EO_MESSAGE_NONE + 1; i < EO_MESSAGE_COUNT; i++) {
            known = EO_MAX(known, eo_message_schema((enum eo_message)i)->max_payload);
        }
    }
    return known;
}

/* ---- may it? ---- */

static const char *method_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return eo_message_schema((enum eo_message)(i + 1))->method;
}

static int unknown_method(const char *method, struct eo_error *err)
{
    char quoted[100];
    EO_RAISE(err, EO_E_UNKNOWN_METHOD, "there is no method %s",
             eo_quote(method, strlen(method), quoted, sizeof(quoted)));
    const char *nearest = eo_nearest(method, method_at, NULL, EO_MESSAGE_COUNT - 1);
    if (nearest) {
        eo_error_hint(err, "Did you mean %s? A method that this daemon lacks may need a newer version of it.", nearest);
    } else {
        eo_error_hint(err, "A method that this daemon lacks may need a newer version of it.");
    }
    return EO_E_UNKNOWN_METHOD;
}

static int check_needs(const struct connection *c, const struct eo_message_schema *m, struct eo_error *err)
{
    switch (m->needs) {
    case EO_NEEDS_NOTHING:
        return EO_OK;
    case EO_NEEDS_HELLO:
        if (c->role == ROLE_NONE) {
            return EO_RAISE(err, EO_E_HELLO_REQUIRED, "%s came before hello", m->method);
        }
        return EO_OK;
    case EO_NEEDS_SESSION:
        if (c->role == ROLE_NONE) {
            return EO_RAISE(err, EO_E_HELLO_REQUIRED, "%s came before hello", m->method);
        }
        if (!c->session || c->session->closed) {
            return EO_RAISE(err, EO_E_NO_SESSION, "%s needs a session, and this connection has none", m->method);
        }
        return EO_OK;
    case EO_NEEDS_PEER_HELLO:
        if (c->role != ROLE_PEER) {
            return EO_RAISE(err, EO_E_HELLO_REQUIRED, "%s is for connections whose hello said role \"peer\"",
                            m->method);
        }
        return EO_OK;
    case EO_NEEDS_INSIDE:
        break;
    }
    return EO_RAISE(err, EO_E_UNKNOWN_METHOD, "%s is spoken inside a daemon only", m->method);
}

static int check_pending(struct connection *c, struct request *r, struct eo_error *err)
{
    const uint64_t limit = c->server->config->session_pending;
    uint64_t n = c->n_unanswered - 1;
    if (r->session) {
        n = EO_MAX(n, (uint64_t)r->session->n_pending);
    }
    if (n >= limit) {
        EO_RAISE(err, EO_E_BUSY, "%llu requests are unanswered, and no more may wait", (unsigned long long)n);
        eo_error_hint(err, "Wait for answers before sending more; hello gave the limit as limits.pending.");
        return EO_E_BUSY;
    }
    return EO_OK;
}

static int check_request(struct connection *c, struct request *r, const char *method, uint64_t payload_size,
                         struct eo_error *err)
{
    const struct eo_message_schema *m = eo_message_by_method(method);
    if (!m || !handlers[m->message]) {
        return m && m->needs == EO_NEEDS_INSIDE ? check_needs(c, m, err) : unknown_method(method, err);
    }
    r->schema = m;
    int code = check_needs(c, m, err);
    if (code != EO_OK) {
        return code;
    }
    if (m->needs == EO_NEEDS_SESSION) {
        r->session = session_ref(c->session);
    }
    if (payload_size > m->max_payload) {
        return EO_RAISE(err, EO_E_FRAME_TOO_LARGE, "%s carries %llu bytes of payload, at most %llu may be", m->method,
                        (unsigned long long)payload_size, (unsigned long long)m->max_payload);
    }
    code = check_pending(c, r, err);
    if (code == EO_OK && r->session) {
        r->private_->counted = true;
        r->session->n_pending++;
    }
    return code;
}

void dispatch_envelope(struct connection *c, struct request *r, uint64_t payload_size)
{
    struct eo_error err = {0};
    if (r->private_->type != 0) { /* clients are asked nothing, so they answer nothing */
        EO_RAISE(&err, EO_E_BAD_ENVELOPE, "a message of type %d, only requests (0) are expected", r->private_->type);
        request_refuse(r, &err);
        c->close_when_flushed = true;
        return;
    }
    if (check_request(c, r, r->private_->method, payload_size, &err) != EO_OK) {
        request_refuse(r, &err);
    }
}

/* ---- payload ---- */

static enum stream_place place_buffer(struct connection *c, struct request *r, uint64_t size, uint8_t **out_data)
{
    struct server *s = c->server;
    /* One payload always fits, so that a limit below the largest row cannot block for ever. */
    bool full = (c->buffered_bytes > 0 && c->buffered_bytes + size > REQUEST_BUFFERED_MAX) ||
                (s->buffered_bytes > 0 && s->buffered_bytes + size > SERVER_BUFFERED_MAX);
    if (full) {
        c->wants_buffer = true;
        return STREAM_WAIT;
    }
    r->payload = malloc(size);
    if (!r->payload) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for a payload of %llu bytes", (unsigned long long)size);
        request_refuse(r, &err);
        return STREAM_DISCARD;
    }
    r->payload_size = size;
    r->private_->buffered = size;
    r->private_->buffered_by = c;
    c->n_refs++;
    c->buffered_bytes += size;
    s->buffered_bytes += size;
    *out_data = r->payload;
    return STREAM_INTO;
}

enum stream_place dispatch_place(struct connection *c, struct request *r, uint64_t payload_size, uint8_t **out_data)
{
    if (r->private_->refusal || !r->schema) {
        return STREAM_DISCARD;
    }
    enum eo_message m = r->schema->message;
    if (m == EO_MSG_TENSOR_CREATE || m == EO_MSG_TENSOR_UPLOAD) {
        if (session_inbox_busy(r->session)) { /* what came before may free the slot, or make the tensor */
            session_wait_inbox(r->session, connection_place_waiter(c));
            return STREAM_WAIT;
        }
        struct eo_error err = {0};
        enum stream_place place = STREAM_DISCARD;
        r->private_->received = payload_size;
        if (tensor_place(r, payload_size, connection_place_waiter, &place, out_data, &err) != EO_OK) {
            request_refuse(r, &err);
            return STREAM_DISCARD;
        }
        return place;
    }
    return payload_size == 0 ? STREAM_DISCARD : place_buffer(c, r, payload_size, out_data);
}

/* ---- running ---- */

bool dispatch_run(struct request *r)
{
    struct eo_error err = {0};
    int code = handlers[r->schema->message](r, &err);
    if (code > 0) {
        request_fail(r, &err);
    }
    return code != SESSION_AGAIN;
}

void dispatch_frame(struct connection *c, struct request *r)
{
    if (r->private_->refusal) {
        bool greeted = c->role != ROLE_NONE;
        request_fail(r, r->private_->refusal);
        if (!greeted || c->close_when_flushed) { /* a stranger gets one answer */
            connection_close_flushed(c);
        }
        return;
    }
    if (!r->schema) { /* refusing it took memory that was not there */
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for a request");
        request_fail(r, &err);
        return;
    }
    if (r->session) {
        session_submit(r->session, r);
    } else {
        (void)dispatch_run(r);
    }
}
