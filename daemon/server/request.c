#include "daemon/server/request.h"

#include "daemon/server/session.h"
#include "proto/base/text.h"

#include <stdlib.h>

void segment_free_data(void *ctx)
{
    free(ctx);
}

struct request *request_new(struct connection *c, struct eo_bytes *envelope, struct eo_error *err)
{
    struct request *r = calloc(1, sizeof(*r));
    struct request_private *p = calloc(1, sizeof(*p));
    size_t size = 0;
    if (!r || !p || !(p->envelope = eo_bytes_take(envelope, &size))) {
        free(r);
        free(p);
        EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a request");
        return NULL;
    }
    struct eo_envelope e;
    if (eo_envelope_parse(&p->doc, &e, p->envelope, size, err) != EO_OK) {
        free(p->envelope);
        free(p);
        free(r);
        return NULL;
    }
    p->n_refs = 1;
    p->type = e.type;
    eo_copy_text(p->method, sizeof(p->method), e.method);
    *r = (struct request){.id = e.id, .server = c->server, .conn = c, .params = e.params, .private_ = p};
    p->next_out = c->unanswered;
    p->link_out = &c->unanswered;
    if (p->next_out) {
        p->next_out->private_->link_out = &p->next_out;
    }
    c->unanswered = r;
    c->n_unanswered++;
    return r;
}

struct request *request_ref(struct request *r)
{
    r->private_->n_refs++;
    return r;
}

/* Takes it off its connection's list: answered, or the connection goes. */
static void leave_connection(struct request *r)
{
    struct request_private *p = r->private_;
    if (p->link_out) {
        *p->link_out = p->next_out;
        if (p->next_out) {
            p->next_out->private_->link_out = p->link_out;
        }
        p->link_out = NULL;
        r->conn->n_unanswered--;
    }
}

/* False: somebody answered before, or nobody is there any more. */
static bool close_request(struct request *r)
{
    struct request_private *p = r->private_;
    if (p->answered) {
        return false;
    }
    p->answered = true;
    p->on_close = NULL;
    if (p->counted && r->session) {
        r->session->n_pending--;
        p->counted = false;
    }
    bool there = r->conn != NULL;
    if (there) {
        leave_connection(r);
    }
    return there;
}

static void drop_payload(struct request *r)
{
    struct request_private *p = r->private_;
    free(r->payload);
    r->payload = NULL;
    r->payload_size = 0;
    if (p->buffered_by) {
        struct connection *c = p->buffered_by;
        struct server *s = r->server;
        c->buffered_bytes -= p->buffered;
        s->buffered_bytes -= p->buffered;
        p->buffered_by = NULL;
        p->buffered = 0;
        connection_unref(c);
        connection_buffer_freed(s);
    }
}

void request_unref(struct request *r)
{
    struct request_private *p = r->private_;
    if (--p->n_refs > 0) {
        return;
    }
    if (!p->answered && !r->conn) {
        close_request(r);
    } else if (!p->answered) {
        struct eo_error err = {0};
        p->n_refs = 1; /* answering may look at it */
        EO_BUG(&err, "%s was dropped without an answer", r->schema ? r->schema->method : "a request");
        request_fail(r, &err);
    }
    if (p->sink) {
        tensor_unuse(p->sink);
        tensor_unref(p->sink);
    }
    drop_payload(r);
    if (r->session) {
        session_unref(r->session);
    }
    eo_doc_fini(&p->doc);
    free(p->envelope);
    free(p->refusal);
    poison_unref(p->cause);
    free(p);
    free(r);
}

uint8_t *request_take_payload(struct request *r)
{
    uint8_t *data = r->payload;
    r->payload = NULL;
    drop_payload(r);
    return data;
}

/* ---- answering ---- */

struct eo_bytes *request_result(struct request *r)
{
    struct eo_bytes *b = &r->server->scratch;
    eo_bytes_clear(b);
    eo_pack_result(b, r->id);
    return b;
}

void request_send_payload(struct request *r, const struct segment *segments, int n_segments)
{
    struct eo_bytes *b = &r->server->scratch;
    if (b->failed) {
        struct eo_error err = {0};
        EO_RAISE(&err, EO_E_TOO_LARGE, "the answer to %s exceeds %d bytes", r->schema->method, EO_ENVELOPE_MAX);
        for (int i = 0; i < n_segments; i++) {
            if (segments[i].release) {
                segments[i].release(segments[i].ctx);
            }
        }
        request_fail(r, &err);
        return;
    }
    struct connection *c = r->conn;
    if (close_request(r)) {
        stream_send(&c->stream, b, segments, n_segments);
        return;
    }
    for (int i = 0; i < n_segments; i++) {
        if (segments[i].release) {
            segments[i].release(segments[i].ctx);
        }
    }
}

void request_send(struct request *r)
{
    request_send_payload(r, NULL, 0);
}

void request_ok(struct request *r)
{
    eo_pack_map(request_result(r), 0);
    request_send(r);
}

void request_fail(struct request *r, const struct eo_error *err)
{
    if (r->session && !r->private_->answered) {
        session_poison_outputs(r, err);
    }
    struct connection *c = r->conn;
    if (!close_request(r)) {
        return;
    }
    struct eo_bytes *b = &r->server->scratch;
    eo_bytes_clear(b);
    eo_pack_failure(b, r->id, err);
    stream_send(&c->stream, b, NULL, 0);
    eo_log(EO_LOG_DEBUG, "server", "%s: %s answered EO-%04d: %s", connection_peer(c),
           r->schema ? r->schema->method : "?", err->code, err->message);
}

bool request_answered(const struct request *r)
{
    return r->private_->answered;
}

void request_on_close(struct request *r, void (*fn)(struct request *r, void *ctx), void *ctx)
{
    r->private_->on_close = fn;
    r->private_->on_close_ctx = ctx;
}

void request_refuse(struct request *r, const struct eo_error *err)
{
    r->private_->refusal = malloc(sizeof(*err));
    if (r->private_->refusal) {
        *r->private_->refusal = *err;
    }
}

void request_detach(struct request *r)
{
    struct request_private *p = r->private_;
    void (*fn)(struct request *, void *) = p->on_close;
    p->on_close = NULL;
    leave_connection(r);
    r->conn = NULL;
    if (fn) {
        fn(r, p->on_close_ctx);
    }
}
