#include "daemon/server/link.h"

#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/error_codec.h"
#include "proto/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct outgoing {
    struct outgoing *next;
    struct link *owner;
    uint32_t id;
    enum eo_message message;
    link_reply_fn reply;
    void *ctx;
    struct loop_timer *timer;
};

struct link {
    uint32_t n_refs;             /* the owner's, the connecting thread's, the stream's */
    struct loop_call owner_call; /* lets the owner's go from the loop, so that nothing is freed under a callback */
    struct server *server;
    struct eo_endpoint endpoint;
    struct link_callbacks callbacks;
    uint64_t deadline_ns;
    bool closed, ready, streaming;
    /* The connecting thread's, until connected runs. */
    struct eo_channel channel;
    int connect_code;
    struct eo_error connect_error;
    struct stream stream;
    struct loop_timer *hello_timer;
    uint32_t next_id;
    enum eo_message opened;
    struct outgoing *first, **last;
    /* The frame being received. */
    struct eo_doc doc;
    struct eo_envelope envelope;
    uint8_t *bytes, *payload;
    uint64_t payload_size;
};

static void unref(struct link *l)
{
    if (--l->n_refs == 0) {
        free(l);
    }
}

static void unref_call(void *ctx)
{
    unref(ctx);
}

/* ---- the end ---- */

static void forget_frame(struct link *l)
{
    if (l->bytes) {
        eo_doc_fini(&l->doc);
    }
    free(l->bytes);
    free(l->payload);
    l->bytes = NULL;
    l->payload = NULL;
    l->payload_size = 0;
}

static void answer(struct link *l, struct outgoing *o, const struct eo_error *err, const struct eo_item *result)
{
    for (struct outgoing **at = &l->first; *at; at = &(*at)->next) {
        if (*at == o) {
            *at = o->next;
            if (l->last == &o->next) {
                l->last = at;
            }
            break;
        }
    }
    loop_timer_free(o->timer);
    link_reply_fn reply = o->reply;
    void *ctx = o->ctx;
    free(o);
    reply(ctx, err, result, err ? NULL : l->payload, err ? 0 : l->payload_size);
}

static void answer_all(struct link *l, const struct eo_error *err)
{
    while (l->first) {
        answer(l, l->first, err, NULL);
    }
}

static void leave_owner(struct link *l)
{
    l->owner_call = (struct loop_call){.fn = unref_call, .ctx = l};
    loop_post(l->server->loop, &l->owner_call);
}

/* Stops everything; the owner hears of it when tell is set. */
static void shut(struct link *l, const struct eo_error *why, bool tell)
{
    if (l->closed) {
        return;
    }
    l->closed = true;
    loop_timer_free(l->hello_timer);
    l->hello_timer = NULL;
    answer_all(l, why);
    if (tell) {
        l->callbacks.closed(l->callbacks.ctx, why);
    }
    forget_frame(l);
    if (l->streaming) {
        stream_close(&l->stream, unref_call, l);
    }
    leave_owner(l);
}

void link_close(struct link *l)
{
    struct eo_error why = {0};
    EO_RAISE(&why, EO_E_CONNECTION_LOST, "the connection to %s was closed here", l->endpoint.text);
    eo_error_at_host(&why, l->endpoint.text, -1);
    shut(l, &why, false);
}

int link_detach(struct link *l)
{
    l->closed = true;
    loop_timer_free(l->hello_timer);
    l->hello_timer = NULL;
    int fd = -1;
    if (l->streaming && stream_idle(&l->stream)) {
        fd = stream_detach(&l->stream, unref_call, l);
    } else if (l->streaming) { /* bytes that came early cannot be given back */
        stream_close(&l->stream, unref_call, l);
    }
    leave_owner(l);
    return fd;
}

/* ---- receiving ---- */

static uint64_t payload_limit(void *ctx)
{
    const struct link *l = ctx;
    return l->ready ? EO_CHUNK_MAX : 0;
}

static uint32_t envelope_limit(void *ctx)
{
    EO_UNUSED(ctx);
    return EO_ENVELOPE_MAX;
}

static void on_envelope(void *ctx, struct eo_bytes *envelope, uint64_t payload_size)
{
    struct link *l = ctx;
    size_t size = 0;
    struct eo_error why = {0};
    l->payload_size = payload_size;
    l->bytes = eo_bytes_take(envelope, &size);
    if (l->bytes && eo_envelope_parse(&l->doc, &l->envelope, l->bytes, size, &why) == EO_OK) {
        return;
    }
    free(l->bytes);
    l->bytes = NULL;
    if (why.code == EO_OK) {
        EO_RAISE(&why, EO_E_NO_MEMORY, "no memory for an answer of %s", l->endpoint.text);
    }
    eo_error_at_host(&why, l->endpoint.text, -1);
    shut(l, &why, true);
}

static enum stream_place on_place(void *ctx, uint64_t payload_size, uint8_t **out_data)
{
    struct link *l = ctx;
    if (payload_size == 0 || !l->bytes || !(l->payload = malloc(payload_size))) {
        l->payload_size = 0;
        return STREAM_DISCARD;
    }
    *out_data = l->payload;
    return STREAM_INTO;
}

static void take_response(struct link *l, const struct eo_envelope *e)
{
    struct eo_error error = {0};
    if (e->error) {
        eo_error_unpack(e->error, &error);
        if (error.host[0] == '\0') {
            eo_error_at_host(&error, l->endpoint.text, error.rank);
        }
    }
    for (struct outgoing *o = l->first; o; o = o->next) {
        if (o->id == e->id) {
            answer(l, o, e->error ? &error : NULL, e->result);
            return;
        }
    }
    if (e->id == 0 && e->error) { /* it refuses the connection as a whole */
        shut(l, &error, true);
    }
}

static void on_frame(void *ctx)
{
    struct link *l = ctx;
    if (!l->bytes) {
        return;
    }
    const struct eo_envelope e = l->envelope;
    if (e.type == 1) {
        take_response(l, &e);
    } else if (e.type == 2 && l->ready && l->callbacks.notification) {
        const struct eo_message_schema *m = eo_message_by_method(e.method);
        if (m && m->from == EO_FROM_EVENT) {
            l->callbacks.notification(l->callbacks.ctx, m, e.params, l->payload, l->payload_size);
        }
    }
    forget_frame(l);
}

static void on_broken(void *ctx, const struct eo_error *why)
{
    struct link *l = ctx;
    struct eo_error lost = *why;
    eo_error_at_host(&lost, l->endpoint.text, -1);
    shut(l, &lost, true);
}

static void on_relieved(void *ctx)
{
    EO_UNUSED(ctx);
}

/* ---- sending ---- */

struct eo_bytes *link_request(struct link *l, enum eo_message m)
{
    l->opened = m;
    if (++l->next_id == 0) {
        l->next_id = 1;
    }
    struct eo_bytes *b = &l->server->scratch;
    eo_bytes_clear(b);
    eo_pack_request(b, l->next_id, eo_message_schema(m)->method);
    return b;
}

static void on_late(void *ctx)
{
    struct outgoing *o = ctx;
    struct link *l = o->owner;
    struct eo_error why = {0};
    EO_RAISE(&why, EO_E_TIMED_OUT, "%s did not answer %s in time", l->endpoint.text,
             eo_message_schema(o->message)->method);
    eo_error_at_host(&why, l->endpoint.text, -1);
    answer(l, o, &why, NULL); /* a later answer finds nobody */
}

static void release_all(const struct segment *segments, int n)
{
    for (int i = 0; i < n; i++) {
        if (segments[i].release) {
            segments[i].release(segments[i].ctx);
        }
    }
}

int link_send(struct link *l, const struct segment *segments, int n_segments, uint64_t timeout_ms, link_reply_fn reply,
              void *ctx, struct eo_error *err)
{
    struct eo_bytes *b = &l->server->scratch;
    int code = EO_OK;
    struct outgoing *o = calloc(1, sizeof(*o));
    if (l->closed || !l->streaming) {
        code = EO_RAISE(err, EO_E_CONNECTION_LOST, "there is no connection to %s", l->endpoint.text);
    } else if (b->failed) {
        code = EO_RAISE(err, EO_E_TOO_LARGE, "a request to %s exceeds %d bytes", l->endpoint.text, EO_ENVELOPE_MAX);
    } else if (!o || (timeout_ms && !(o->timer = loop_timer_new(l->server->loop, on_late, o)))) {
        code = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a request to %s", l->endpoint.text);
    }
    if (code != EO_OK) {
        eo_error_at_host(err, l->endpoint.text, -1);
        release_all(segments, n_segments);
        free(o);
        return code;
    }
    o->owner = l;
    o->id = l->next_id;
    o->message = l->opened;
    o->reply = reply;
    o->ctx = ctx;
    *l->last = o;
    l->last = &o->next;
    if (timeout_ms) {
        loop_timer_start(o->timer, timeout_ms, 0);
    }
    stream_send(&l->stream, b, segments, n_segments);
    return EO_OK;
}

/* ---- hello ---- */

static void pack_hello(struct link *l, struct eo_bytes *b)
{
    if (l->callbacks.hello) {
        l->callbacks.hello(l->callbacks.ctx, b);
        return;
    }
    const char *advertise = server_advertise(l->server);
    const int64_t versions[2] = {EO_PROTOCOL_MIN, EO_PROTOCOL_MAX};
    eo_pack_map(b, 5);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, versions, 2);
    eo_pack_kv_str(b, "role", "peer");
    eo_pack_kv_str(b, "build", eo_build());
    eo_pack_kv_str(b, "node", l->server->node);
    eo_pack_kv_str(b, "advertise", advertise);
}

static void on_hello(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                     uint64_t payload_size)
{
    struct link *l = ctx;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    if (l->closed) {
        return; /* shut is telling */
    }
    if (err) {
        shut(l, err, true);
        return;
    }
    l->ready = true;
    l->stream.exact = false;
    loop_timer_stop(l->hello_timer);
    l->callbacks.ready(l->callbacks.ctx, result);
}

static void on_hello_late(void *ctx)
{
    struct link *l = ctx;
    struct eo_error why = {0};
    EO_RAISE(&why, EO_E_TIMED_OUT, "%s accepted the connection but did not answer hello", l->endpoint.text);
    eo_error_hint(&why, "Is it an everyod that listens there? A stopped process accepts but does not answer.");
    eo_error_at_host(&why, l->endpoint.text, -1);
    shut(l, &why, true);
}

static void start_stream(struct link *l)
{
    const struct stream_callbacks callbacks = {.ctx = l,
                                               .payload_limit = payload_limit,
                                               .envelope_limit = envelope_limit,
                                               .envelope = on_envelope,
                                               .place = on_place,
                                               .frame = on_frame,
                                               .broken = on_broken,
                                               .relieved = on_relieved};
    struct eo_error err = {0};
    int code = stream_init(&l->stream, &l->server->hub, &l->channel, &callbacks, &err);
    if (code == EO_OK) {
        l->streaming = true;
        l->n_refs++; /* the stream's */
        l->stream.envelope_timeout_ms = l->server->config->hello_timeout_ms;
        l->stream.transfer_timeout_ms = l->server->config->transfer_timeout_ms;
        l->stream.exact = true; /* what follows the answer to hello may be for who gets the descriptor */
        stream_start(&l->stream);
        pack_hello(l, link_request(l, EO_MSG_HELLO));
        code = link_send(l, NULL, 0, 0, on_hello, l, &err);
    }
    if (code != EO_OK) {
        shut(l, &err, true);
        return;
    }
    uint64_t now = eo_now_ns();
    uint64_t left_ms = l->deadline_ns > now ? (l->deadline_ns - now) / 1000000 + 1 : 1;
    loop_timer_start(l->hello_timer, left_ms, 0);
}

/* ---- connecting ---- */

static void connect_work(void *ctx)
{
    struct link *l = ctx;
    l->connect_code = eo_channel_connect(&l->channel, &l->endpoint, l->deadline_ns, &l->connect_error);
}

static void connected(void *ctx)
{
    struct link *l = ctx;
    if (l->closed) {
        if (l->connect_code == EO_OK) {
            eo_channel_close(&l->channel);
        }
    } else if (l->connect_code != EO_OK) {
        eo_error_at_host(&l->connect_error, l->endpoint.text, -1);
        shut(l, &l->connect_error, true);
    } else {
        start_stream(l);
    }
    unref(l);
}

int link_open(struct server *s, const struct eo_endpoint *endpoint, uint64_t timeout_ms,
              const struct link_callbacks *callbacks, struct link **out, struct eo_error *err)
{
    struct link *l = calloc(1, sizeof(*l));
    if (!l || !(l->hello_timer = loop_timer_new(s->loop, on_hello_late, l))) {
        free(l);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to connect to %s", endpoint->text);
    }
    l->n_refs = 2; /* the owner's and the connecting thread's */
    l->server = s;
    l->endpoint = *endpoint;
    l->callbacks = *callbacks;
    l->deadline_ns = eo_now_ns() + timeout_ms * 1000000;
    l->last = &l->first;
    int code = loop_work(s->loop, LOOP_BLOCKING, connect_work, connected, l, err);
    if (code != EO_OK) {
        loop_timer_free(l->hello_timer);
        free(l);
        return code;
    }
    *out = l;
    return EO_OK;
}

const struct eo_endpoint *link_endpoint(const struct link *l)
{
    return &l->endpoint;
}

bool link_is_open(const struct link *l)
{
    return !l->closed;
}
