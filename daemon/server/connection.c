#include "daemon/server/request.h"

#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { HELLO_ENVELOPE_MAX = 64 << 10 };

/* ---- memory ---- */

void connection_unref(struct connection *c)
{
    if (--c->n_refs == 0) {
        free(c->close_why);
        free(c);
    }
}

static void free_connection(void *ctx)
{
    connection_unref(ctx);
}

/* ---- the end ---- */

/* Everything of a connection that others know, except its descriptor. */
static void dissolve(struct connection *c)
{
    c->closed = true;
    *c->link = c->next;
    if (c->next) {
        c->next->link = c->link;
    }
    c->server->n_connections--;
    /* Keep each request while it hears of the end: on_close may let the last other reference go. */
    while (c->unanswered) {
        struct request *r = request_ref(c->unanswered);
        request_detach(r);
        request_unref(r);
    }
    if (c->incoming) {
        request_unref(c->incoming);
        c->incoming = NULL;
    }
    while (c->waiters) {
        connection_forget_waiter(c->waiters);
    }
    while (c->hooks) {
        struct connection_hook *h = c->hooks;
        connection_unhook(h);
        h->closed(h->ctx);
    }
    if (c->session) {
        session_detach(c->session);
        session_unref(c->session);
        c->session = NULL;
    }
}

void connection_close(struct connection *c, const struct eo_error *why)
{
    if (c->closed) {
        return;
    }
    eo_log(EO_LOG_DEBUG, "server", "%s closed%s%s", connection_peer(c), why ? ": " : "", why ? why->message : "");
    dissolve(c);
    if (c->detach) {
        struct eo_error lost = {0};
        EO_RAISE(&lost, EO_E_CONNECTION_LOST, "%s was closed before it could be handed over", connection_peer(c));
        c->detach(c->detach_ctx, -1, &lost);
        c->detach = NULL;
    }
    stream_close(&c->stream, free_connection, c);
}

void connections_close_all(struct server *s)
{
    while (s->connections) {
        connection_close(s->connections, NULL);
    }
}

void connection_close_flushed(struct connection *c)
{
    if (!c->closed) {
        c->close_when_flushed = true;
        stream_pause(&c->stream, true);
        stream_tell_flushed(&c->stream);
    }
}

/* ---- callbacks of the stream ---- */

static uint64_t payload_limit(void *ctx)
{
    const struct connection *c = ctx;
    return c->role == ROLE_NONE ? 0 : dispatch_max_payload();
}

static uint32_t envelope_limit(void *ctx)
{
    const struct connection *c = ctx;
    return c->role == ROLE_NONE ? (uint32_t)HELLO_ENVELOPE_MAX : (uint32_t)EO_ENVELOPE_MAX;
}

/* The bytes are a frame but no message: says so with request id 0, then closes. */
static void refuse_connection(struct connection *c, const struct eo_error *err)
{
    struct eo_bytes *b = &c->server->scratch;
    eo_bytes_clear(b);
    eo_pack_failure(b, 0, err);
    stream_send(&c->stream, b, NULL, 0);
    connection_close_flushed(c);
}

static void on_envelope(void *ctx, struct eo_bytes *envelope, uint64_t payload_size)
{
    struct connection *c = ctx;
    struct eo_error err = {0};
    struct request *r = request_new(c, envelope, &err);
    if (!r) {
        refuse_connection(c, &err);
        return;
    }
    c->incoming = r;
    dispatch_envelope(c, r, payload_size);
}

static enum stream_place on_place(void *ctx, uint64_t payload_size, uint8_t **out_data)
{
    struct connection *c = ctx;
    return c->incoming ? dispatch_place(c, c->incoming, payload_size, out_data) : STREAM_DISCARD;
}

static void on_frame(void *ctx)
{
    struct connection *c = ctx;
    struct request *r = c->incoming;
    c->incoming = NULL;
    if (r) {
        dispatch_frame(c, r);
        request_unref(r);
    }
}

static void on_broken(void *ctx, const struct eo_error *why)
{
    struct connection *c = ctx;
    connection_close(c, why);
}

static void on_relieved(void *ctx)
{
    struct connection *c = ctx;
    while (c->waiters && !connection_congested(c)) {
        struct connection_waiter *w = c->waiters;
        connection_forget_waiter(w);
        w->drained(w->ctx);
    }
}

static void detach_now(struct connection *c)
{
    void (*fn)(void *, int, const struct eo_error *) = c->detach;
    c->detach = NULL;
    struct eo_error err = {0};
    if (!stream_idle(&c->stream)) {
        EO_RAISE(&err, EO_E_BAD_FRAME, "%s sent data before its hello was answered", connection_peer(c));
        fn(c->detach_ctx, -1, &err);
        connection_close(c, &err);
        return;
    }
    dissolve(c);
    int fd = stream_detach(&c->stream, free_connection, c);
    fn(c->detach_ctx, fd, NULL);
}

static void on_flushed(void *ctx)
{
    struct connection *c = ctx;
    if (c->detach) {
        detach_now(c);
    } else if (c->close_when_flushed) {
        connection_close(c, NULL);
    }
}

/* ---- the beginning ---- */

int connection_accept(struct server *s, const struct eo_channel *channel, struct eo_error *err)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (!c) {
        struct eo_channel gone = *channel;
        eo_channel_close(&gone);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a connection");
    }
    const struct stream_callbacks callbacks = {.ctx = c,
                                               .payload_limit = payload_limit,
                                               .envelope_limit = envelope_limit,
                                               .envelope = on_envelope,
                                               .place = on_place,
                                               .frame = on_frame,
                                               .broken = on_broken,
                                               .relieved = on_relieved,
                                               .flushed = on_flushed};
    int code = stream_init(&c->stream, &s->hub, channel, &callbacks, err);
    if (code != EO_OK) {
        free(c);
        return code;
    }
    c->n_refs = 1;
    c->server = s;
    c->stream.envelope_timeout_ms = s->config->hello_timeout_ms;
    c->stream.transfer_timeout_ms = s->config->transfer_timeout_ms;
    c->stream.greeting_deadline_ns = eo_now_ns() + s->config->hello_timeout_ms * 1000000;
    c->next = s->connections;
    c->link = &s->connections;
    if (c->next) {
        c->next->link = &c->next;
    }
    s->connections = c;
    s->n_connections++;
    stream_start(&c->stream);
    return EO_OK;
}

/* ---- waiting while a payload has no place ---- */

static void place_ready(void *ctx)
{
    struct connection *c = ctx;
    c->place_waits = false;
    if (!c->closed) {
        stream_resume(&c->stream);
    }
    connection_unref(c);
}

struct tensor_waiter *connection_place_waiter(void *connection)
{
    struct connection *c = connection;
    if (!c->place_waits) {
        c->place_waits = true;
        c->n_refs++; /* the waiter stands in somebody's list, also when the connection closes meanwhile */
        c->place_waiter = (struct tensor_waiter){.fn = place_ready, .ctx = c};
    }
    return &c->place_waiter;
}

void connection_buffer_freed(struct server *s)
{
    for (struct connection *c = s->connections; c; c = c->next) {
        if (c->wants_buffer) {
            c->wants_buffer = false;
            stream_resume(&c->stream);
        }
    }
}

/* ---- what handlers see ---- */

struct eo_bytes *connection_notification(struct connection *c, enum eo_message m)
{
    struct eo_bytes *b = &c->server->scratch;
    eo_bytes_clear(b);
    eo_pack_notification(b, eo_message_schema(m)->method);
    return b;
}

void connection_send(struct connection *c, const struct segment *segments, int n_segments)
{
    struct eo_bytes *b = &c->server->scratch;
    if (c->closed || b->failed) {
        for (int i = 0; i < n_segments; i++) {
            if (segments[i].release) {
                segments[i].release(segments[i].ctx);
            }
        }
        if (b->failed) {
            eo_log(EO_LOG_ERROR, "server", "a notification exceeds %d bytes and was not sent", EO_ENVELOPE_MAX);
        }
        return;
    }
    stream_send(&c->stream, b, segments, n_segments);
}

void request_send_and_detach(struct request *r, void (*fn)(void *ctx, int fd, const struct eo_error *err), void *ctx)
{
    struct connection *c = r->conn;
    if (!c) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_CONNECTION_LOST, "the connection was closed before it could be handed over");
        fn(ctx, -1, &err);
        return;
    }
    request_send(r);
    c->detach = fn;
    c->detach_ctx = ctx;
    stream_greeted(&c->stream);
    stream_pause(&c->stream, true);
    stream_tell_flushed(&c->stream);
}

bool connection_congested(const struct connection *c)
{
    return c->stream.congested || c->stream.queued_bytes > STREAM_CONGESTED;
}

void connection_wait_drained(struct connection *c, struct connection_waiter *w)
{
    if (w->link || c->closed) {
        return;
    }
    w->next = c->waiters;
    w->link = &c->waiters;
    if (w->next) {
        w->next->link = &w->next;
    }
    c->waiters = w;
}

void connection_forget_waiter(struct connection_waiter *w)
{
    if (w->link) {
        *w->link = w->next;
        if (w->next) {
            w->next->link = w->link;
        }
        w->link = NULL;
        w->next = NULL;
    }
}

void connection_hook(struct connection *c, struct connection_hook *h)
{
    h->next = c->hooks;
    h->link = &c->hooks;
    if (h->next) {
        h->next->link = &h->next;
    }
    c->hooks = h;
}

void connection_unhook(struct connection_hook *h)
{
    if (h->link) {
        *h->link = h->next;
        if (h->next) {
            h->next->link = h->link;
        }
        h->link = NULL;
        h->next = NULL;
    }
}

enum connection_role connection_role(const struct connection *c)
{
    return c->role;
}

const char *connection_peer(const struct connection *c)
{
    return c->stream.channel.peer;
}

const char *connection_peer_node(const struct connection *c)
{
    return c->node;
}

const char *connection_peer_advertise(const struct connection *c)
{
    return c->advertise;
}
