#include "client/lib/connection.h"

#include "proto/base/clock.h"
#include "proto/error_codec.h"
#include "proto/frame.h"
#include "proto/message_schema.h"
#include "proto/op_schema.h"
#include "proto/version.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 5000, OUT_LIMIT = 64 << 20, MAX_PENDING = 4096, REPLY_PAYLOAD_MAX = 64 << 20 };

/* A request that has no reply yet, or whose reply nobody has taken. Slots are reused; id 0 marks a free one. */
struct pending {
    uint32_t id;
    bool awaited; /* somebody will call wait; otherwise failures are deferred */
    bool arrived;
    struct eo_reply reply;
    struct eo_error *failure; /* heap; NULL when it succeeded */
    char method[48];
};

enum in_stage { IN_HEADER, IN_ENVELOPE, IN_PAYLOAD };

struct eo_connection {
    struct eo_channel channel;
    struct eo_endpoint endpoint;
    struct eo_connection_options options;
    struct eo_server_facts facts;
    pid_t owner; /* a fork's child must not touch the socket */
    uint32_t next_id;
    struct pending *pending;
    size_t n_pending, cap_pending;
    struct eo_bytes out; /* bytes not yet written, from out_at on */
    size_t out_at;
    /* the frame being read */
    enum in_stage stage;
    uint8_t header[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header in;
    size_t got;
    struct eo_bytes envelope;
    struct eo_bytes payload;
    uint8_t *payload_at; /* where payload bytes go: the waiter's buffer or payload.data */
    struct eo_doc doc;
    struct eo_envelope parsed;
    /* the wait in progress */
    uint32_t wait_id;
    uint8_t *wait_into;
    size_t wait_size;
    bool direct; /* the current payload goes to wait_into */
    eo_event_fn on_event;
    void *event_ctx;
    struct eo_error deferred;
    struct eo_error broken; /* once set, every call fails with it */
};

static int check_usable(struct eo_connection *c, struct eo_error *err)
{
    if (c->owner != getpid()) {
        EO_RAISE(err, EO_E_CONNECTION_LOST, "the connection to %s belongs to the parent process", c->endpoint.text);
        eo_error_hint(err, "Open a new connection after fork.");
        return EO_E_CONNECTION_LOST;
    }
    if (c->broken.code != 0) {
        if (err != NULL) {
            *err = c->broken;
        }
        return c->broken.code;
    }
    return EO_OK;
}

static int break_connection(struct eo_connection *c, const struct eo_error *cause, struct eo_error *err)
{
    c->broken = *cause;
    if (c->broken.host[0] == '\0') {
        eo_error_at_host(&c->broken, c->endpoint.text, -1);
    }
    if (err != NULL) {
        *err = c->broken;
    }
    return c->broken.code;
}

static struct pending *find_pending(const struct eo_connection *c, uint32_t id)
{
    for (size_t i = 0; i < c->n_pending; i++) {
        if (c->pending[i].id == id) {
            return &c->pending[i];
        }
    }
    return NULL;
}

void eo_reply_fini(struct eo_reply *r)
{
    eo_doc_fini(&r->doc);
    eo_bytes_fini(&r->envelope);
    eo_bytes_fini(&r->payload);
    memset(r, 0, sizeof *r);
}

/* Order does not matter: the last slot fills the hole. */
static void drop_pending(struct eo_connection *c, struct pending *p)
{
    free(p->failure);
    eo_reply_fini(&p->reply);
    *p = c->pending[--c->n_pending];
}

static int add_pending(struct eo_connection *c, const char *method, bool awaited, struct pending **out,
                       struct eo_error *err)
{
    if (c->n_pending == c->cap_pending) {
        size_t cap = c->cap_pending == 0 ? 16 : c->cap_pending * 2;
        if (cap > MAX_PENDING) {
            return EO_RAISE(err, EO_E_BUSY, "%zu requests to %s are not answered yet", c->n_pending, c->endpoint.text);
        }
        struct pending *grown = realloc(c->pending, cap * sizeof *grown);
        if (grown == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the request table");
        }
        c->pending = grown;
        c->cap_pending = cap;
    }
    struct pending *p = &c->pending[c->n_pending++];
    memset(p, 0, sizeof *p);
    if (++c->next_id == 0) {
        c->next_id = 1;
    }
    p->id = c->next_id;
    p->awaited = awaited;
    snprintf(p->method, sizeof p->method, "%s", method);
    *out = p;
    return EO_OK;
}

/* ---- reading ---- */

static void take_failure(struct eo_connection *c, struct pending *p, const struct eo_item *error)
{
    p->failure = calloc(1, sizeof *p->failure);
    if (p->failure == NULL) {
        EO_RAISE(&c->broken, EO_E_NO_MEMORY, "no memory for the answer to %s", p->method);
        return;
    }
    eo_error_unpack(error, p->failure);
    if (!p->awaited && c->deferred.code == 0) {
        c->deferred = *p->failure;
    }
}

/* The frame is complete: hand it to its pending request or to the event callback. */
static int finish_frame(struct eo_connection *c, struct eo_error *err)
{
    const size_t payload_size = (size_t)c->in.payload_size;
    c->stage = IN_HEADER;
    c->got = 0;
    if (c->parsed.type == 2) {
        if (c->on_event != NULL) {
            c->on_event(c->event_ctx, &c->parsed, c->payload.data, payload_size);
        }
        eo_doc_fini(&c->doc);
        return EO_OK;
    }
    struct pending *p = find_pending(c, c->parsed.id);
    if (p == NULL || p->arrived) {
        eo_doc_fini(&c->doc);
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "an answer to request %u came, which is not open", c->parsed.id);
    }
    p->arrived = true;
    if (c->parsed.error != NULL) {
        take_failure(c, p, c->parsed.error);
        eo_doc_fini(&c->doc);
    } else {
        /* The document points into the envelope's bytes: both move together. */
        p->reply.result = c->parsed.result;
        p->reply.doc = c->doc;
        p->reply.envelope = c->envelope;
        p->reply.payload_size = payload_size;
        memset(&c->doc, 0, sizeof c->doc);
        eo_bytes_init(&c->envelope, EO_ENVELOPE_MAX);
        if (!c->direct && payload_size > 0) {
            p->reply.payload = c->payload;
            eo_bytes_init(&c->payload, REPLY_PAYLOAD_MAX);
        }
    }
    if (!p->awaited) {
        drop_pending(c, p);
    }
    return EO_OK;
}

static int begin_payload(struct eo_connection *c, struct eo_error *err)
{
    int rc = eo_envelope_parse(&c->doc, &c->parsed, c->envelope.data, c->envelope.size, err);
    if (rc != EO_OK) {
        return rc;
    }
    if (c->parsed.type == 0) {
        eo_doc_fini(&c->doc);
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "the daemon sent a request");
    }
    c->got = 0;
    c->direct =
        c->parsed.type == 1 && c->wait_into != NULL && c->parsed.id == c->wait_id && c->in.payload_size == c->wait_size;
    eo_bytes_clear(&c->payload);
    if (c->direct) {
        c->payload_at = c->wait_into;
    } else if (c->in.payload_size > 0) {
        c->payload_at = eo_bytes_extend(&c->payload, (size_t)c->in.payload_size);
        if (c->payload_at == NULL) {
            eo_doc_fini(&c->doc);
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a payload of %llu bytes",
                            (unsigned long long)c->in.payload_size);
        }
    }
    c->stage = IN_PAYLOAD;
    return EO_OK;
}

static int begin_envelope(struct eo_connection *c, struct eo_error *err)
{
    int rc = eo_frame_decode(c->header, REPLY_PAYLOAD_MAX, &c->in, err);
    if (rc != EO_OK) {
        eo_error_hint(err, "Is %s really an everyod, and its own port?", c->endpoint.text);
        return rc;
    }
    eo_bytes_clear(&c->envelope);
    if (eo_bytes_extend(&c->envelope, c->in.envelope_size) == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an envelope of %u bytes", c->in.envelope_size);
    }
    c->stage = IN_ENVELOPE;
    c->got = 0;
    return EO_OK;
}

/* Where the next bytes of the current stage go, and how many are still wanted. */
static size_t stage_room(struct eo_connection *c, uint8_t **at)
{
    switch (c->stage) {
    case IN_HEADER:
        *at = c->header + c->got;
        return EO_FRAME_HEADER_SIZE - c->got;
    case IN_ENVELOPE:
        *at = c->envelope.data + c->got;
        return c->in.envelope_size - c->got;
    case IN_PAYLOAD:
        *at = c->payload_at + c->got;
        return (size_t)c->in.payload_size - c->got;
    }
    return 0;
}

static int next_stage(struct eo_connection *c, struct eo_error *err)
{
    switch (c->stage) {
    case IN_HEADER:
        return begin_envelope(c, err);
    case IN_ENVELOPE:
        return begin_payload(c, err);
    case IN_PAYLOAD:
        return finish_frame(c, err);
    }
    return EO_OK;
}

/* Reads until the socket is empty or, with one_frame, until a frame is complete. *out_frames counts complete frames. */
static int read_some(struct eo_connection *c, size_t *out_frames, struct eo_error *err)
{
    for (;;) {
        uint8_t *at = NULL;
        size_t room = stage_room(c, &at);
        if (room == 0) {
            const bool was_payload = c->stage == IN_PAYLOAD;
            int rc = next_stage(c, err);
            if (rc != EO_OK) {
                return rc;
            }
            if (was_payload) {
                *out_frames += 1;
                if (find_pending(c, c->wait_id) != NULL && find_pending(c, c->wait_id)->arrived) {
                    return EO_OK; /* what somebody waits for is here; leave the rest to the next call */
                }
            }
            continue;
        }
        size_t n = 0;
        bool eof = false;
        int rc = eo_channel_read(&c->channel, at, room, &n, &eof, err);
        if (rc != EO_OK) {
            if (eof) {
                eo_error_hint(err, "The daemon ended or closed the connection; see its log.");
            }
            return rc;
        }
        if (n == 0) {
            return EO_OK;
        }
        c->got += n;
    }
}

/* ---- writing ---- */

static int flush_some(struct eo_connection *c, struct eo_error *err)
{
    while (c->out_at < c->out.size) {
        struct iovec iov = {.iov_base = c->out.data + c->out_at, .iov_len = c->out.size - c->out_at};
        size_t n = 0;
        int rc = eo_channel_writev(&c->channel, &iov, 1, &n, err);
        if (rc != EO_OK || n == 0) {
            return rc;
        }
        c->out_at += n;
    }
    eo_bytes_clear(&c->out);
    c->out_at = 0;
    return EO_OK;
}

/* Waits for the socket once, then moves bytes both ways. deadline_ns 0 = no limit. */
static int pump_once(struct eo_connection *c, uint64_t deadline_ns, const char *what, struct eo_error *err)
{
    struct eo_error fault = {0};
    int rc = flush_some(c, &fault);
    if (rc != EO_OK) {
        return break_connection(c, &fault, err);
    }
    int wait_ms = -1;
    if (deadline_ns != 0) {
        uint64_t now = eo_now_ns();
        if (now >= deadline_ns) {
            EO_RAISE(err, EO_E_TIMED_OUT, "%s did not answer in time (%s)", c->endpoint.text, what);
            eo_error_at_host(err, c->endpoint.text, -1);
            return EO_E_TIMED_OUT;
        }
        wait_ms = (int)EO_MIN((deadline_ns - now + 999999) / 1000000, (uint64_t)1000000);
    }
    struct pollfd pfd = {.fd = c->channel.fd, .events = POLLIN};
    if (c->out_at < c->out.size) {
        pfd.events |= POLLOUT;
    }
    if (poll(&pfd, 1, wait_ms) < 0) {
        if (errno == EINTR) {
            return EO_OK; /* the caller looks at its flags and comes back */
        }
        int errnum = errno;
        EO_RAISE_ERRNO(&fault, EO_E_CONNECTION_LOST, errnum, "waiting for %s failed", c->endpoint.text);
        return break_connection(c, &fault, err);
    }
    if ((pfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        size_t frames = 0;
        rc = read_some(c, &frames, &fault);
        if (rc != EO_OK) {
            return break_connection(c, &fault, err);
        }
    }
    return EO_OK;
}

/* Writes header, envelope and payload in one writev when nothing is queued before them; queues what did not go. */
static int send_frame(struct eo_connection *c, const struct eo_bytes *envelope, const void *payload, size_t size,
                      struct eo_error *err)
{
    while (c->out.size - c->out_at > 8u << 20) { /* bound what is queued: wait until the daemon has taken some */
        uint64_t limit = c->options.call_timeout_ms;
        int rc = pump_once(c, limit == 0 ? 0 : eo_now_ns() + limit * 1000000, "sending", err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    size_t sent = 0;
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)envelope->size, .payload_size = size};
    eo_frame_encode(&h, header);
    if (c->out.size == 0) {
        union {
            const void *in;
            void *out;
        } bytes = {.in = payload}; /* iovec is not const-correct */
        struct iovec iov[3] = {{.iov_base = header, .iov_len = sizeof header},
                               {.iov_base = envelope->data, .iov_len = envelope->size},
                               {.iov_base = bytes.out, .iov_len = size}};
        struct eo_error fault = {0};
        if (eo_channel_writev(&c->channel, iov, size > 0 ? 3 : 2, &sent, &fault) != EO_OK) {
            return break_connection(c, &fault, err);
        }
    }
    const struct iovec parts[3] = {{header, sizeof header}, {envelope->data, envelope->size}, {NULL, size}};
    for (int i = 0; i < 3; i++) {
        const uint8_t *data = i == 2 ? payload : parts[i].iov_base;
        size_t skip = EO_MIN(sent, parts[i].iov_len);
        sent -= skip;
        if (skip < parts[i].iov_len) {
            eo_bytes_append(&c->out, data + skip, parts[i].iov_len - skip);
        }
    }
    if (c->out.failed) {
        struct eo_error fault = {0};
        EO_RAISE(&fault, EO_E_NO_MEMORY, "no memory to queue a request to %s", c->endpoint.text);
        return break_connection(c, &fault, err);
    }
    return EO_OK;
}

int eo_connection_request(struct eo_connection *c, const char *method, const struct eo_bytes *params,
                          const void *payload, size_t payload_size, uint32_t *out_id, struct eo_error *err)
{
    int rc = check_usable(c, err);
    if (rc != EO_OK) {
        return rc;
    }
    /* Read what has come before adding more, so that answers of pipelined calls do not pile up in the kernel. */
    size_t frames = 0;
    struct eo_error fault = {0};
    if (c->n_pending > 64 && read_some(c, &frames, &fault) != EO_OK) {
        return break_connection(c, &fault, err);
    }
    while (c->n_pending >= MAX_PENDING / 2 && out_id == NULL) {
        rc = pump_once(c, 0, method, err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    struct pending *p = NULL;
    rc = add_pending(c, method, out_id != NULL, &p, err);
    if (rc != EO_OK) {
        return rc;
    }
    const uint32_t id = p->id;
    struct eo_bytes envelope;
    eo_bytes_init(&envelope, EO_ENVELOPE_MAX);
    eo_pack_request(&envelope, id, method);
    if (params != NULL) {
        eo_bytes_append(&envelope, params->data, params->size);
    } else {
        eo_pack_map(&envelope, 0);
    }
    if (envelope.failed || (params != NULL && params->failed)) {
        rc = EO_RAISE(err, EO_E_FRAME_TOO_LARGE, "the parameters of %s exceed %d bytes", method, EO_ENVELOPE_MAX);
    } else {
        rc = send_frame(c, &envelope, payload, payload_size, err);
    }
    eo_bytes_fini(&envelope);
    if (rc != EO_OK) {
        drop_pending(c, find_pending(c, id));
        return rc;
    }
    if (out_id != NULL) {
        *out_id = id;
    }
    return EO_OK;
}

/* The reply has arrived: move it to the caller. */
static int take_reply(struct eo_connection *c, struct pending *p, struct eo_reply *reply, const void *into,
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
    } else if (reply != NULL) {
        *reply = p->reply;
        memset(&p->reply, 0, sizeof p->reply);
    }
    drop_pending(c, p);
    return rc;
}

int eo_connection_wait(struct eo_connection *c, uint32_t id, void *into, size_t into_size, struct eo_reply *reply,
                       struct eo_error *err)
{
    int rc = check_usable(c, err);
    if (rc != EO_OK) {
        return rc;
    }
    c->wait_id = id;
    c->wait_into = into;
    c->wait_size = into_size;
    struct pending *p = find_pending(c, id);
    while (p != NULL && !p->arrived && rc == EO_OK) {
        uint64_t limit = c->options.call_timeout_ms;
        rc = pump_once(c, limit == 0 ? 0 : eo_now_ns() + limit * 1000000, p->method, err);
        p = find_pending(c, id);
    }
    c->wait_id = 0;
    c->wait_into = NULL;
    if (rc != EO_OK) {
        if (c->stage == IN_PAYLOAD && c->direct) {
            /* Half a payload is in the caller's buffer, which the caller may now free: the stream cannot go on. */
            struct eo_error cut = {0};
            EO_RAISE(&cut, EO_E_CONNECTION_LOST, "the connection to %s was given up in the middle of an answer",
                     c->endpoint.text);
            break_connection(c, &cut, NULL);
        }
        return rc;
    }
    if (p == NULL) {
        return EO_BUG(err, "waiting for request %u, which was never sent", id);
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
    int rc = check_usable(c, err);
    if (rc != EO_OK) {
        return rc;
    }
    struct eo_error late = {0};
    rc = pump_once(c, deadline_ns == 0 ? eo_now_ns() + 1 : deadline_ns, "events", &late);
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
    const struct pending *p = find_pending(c, id);
    return c->broken.code != 0 || p == NULL || p->arrived;
}

int eo_connection_drain(struct eo_connection *c, struct eo_error *err)
{
    int rc = check_usable(c, err);
    while (rc == EO_OK) {
        size_t open = 0;
        for (size_t i = 0; i < c->n_pending; i++) {
            open += !c->pending[i].awaited;
        }
        if (open == 0) {
            break;
        }
        uint64_t limit = c->options.call_timeout_ms;
        rc = pump_once(c, limit == 0 ? 0 : eo_now_ns() + limit * 1000000, "sync", err);
    }
    if (rc == EO_OK && c->deferred.code != 0) {
        rc = c->deferred.code;
        if (err != NULL) {
            *err = c->deferred;
        }
        eo_error_clear(&c->deferred);
    }
    return rc;
}

/* ---- opening ---- */

static int read_facts(struct eo_connection *c, const struct eo_item *result, struct eo_error *err)
{
    struct eo_server_facts *f = &c->facts;
    const struct eo_item *limits = NULL;
    uint64_t version = 0;
    int rc = eo_need_u64(result, "version", 1000, &version, err);
    if (rc == EO_OK) {
        rc = eo_get_str(result, "build", "", f->build, sizeof f->build, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(result, "node", "", f->node, sizeof f->node, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(result, "session", "", f->session, sizeof f->session, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_map(result, "limits", &limits, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "payload", EO_CHUNK_MAX, UINT32_MAX, &f->payload_limit, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "chunk", EO_CHUNK_MAX, EO_CHUNK_MAX, &f->chunk_limit, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "handles", 1024, UINT32_MAX, &f->handle_limit, err);
    }
    if (rc == EO_OK && f->chunk_limit == 0) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "%s offers chunks of 0 bytes", c->endpoint.text);
    }
    f->version = (int)version;
    return rc;
}

static int say_hello(struct eo_connection *c, uint64_t deadline_ns, struct eo_error *err)
{
    struct eo_bytes params;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)eo_op_table_hash());
    eo_bytes_init(&params, 4096);
    eo_pack_map(&params, 4);
    eo_pack_str(&params, "versions");
    eo_pack_i64_array(&params, (int64_t[]){EO_PROTOCOL_MIN, EO_PROTOCOL_MAX}, 2);
    eo_pack_kv_str(&params, "role", "client");
    eo_pack_kv_str(&params, "build", eo_build());
    eo_pack_kv_str(&params, "ops_hash", hash);
    uint32_t id = 0;
    int rc = eo_connection_request(c, "hello", &params, NULL, 0, &id, err);
    eo_bytes_fini(&params);
    while (rc == EO_OK && !eo_connection_ready(c, id)) {
        rc = pump_once(c, deadline_ns, "hello", err);
    }
    struct eo_reply reply = {0};
    if (rc == EO_OK) {
        rc = eo_connection_wait(c, id, NULL, 0, &reply, err);
    }
    if (rc == EO_OK) {
        rc = read_facts(c, reply.result, err);
        eo_reply_fini(&reply);
    }
    return rc;
}

int eo_connection_open(const struct eo_endpoint *ep, const struct eo_connection_options *options,
                       struct eo_connection **out, struct eo_error *err)
{
    struct eo_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a connection");
    }
    c->endpoint = *ep;
    c->owner = getpid();
    c->channel.fd = -1;
    if (options != NULL) {
        c->options = *options;
    }
    eo_bytes_init(&c->out, OUT_LIMIT);
    eo_bytes_init(&c->envelope, EO_ENVELOPE_MAX);
    eo_bytes_init(&c->payload, REPLY_PAYLOAD_MAX);
    uint64_t timeout_ms = c->options.timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : c->options.timeout_ms;
    uint64_t deadline_ns = eo_now_ns() + timeout_ms * 1000000;
    int rc = eo_channel_connect(&c->channel, ep, deadline_ns, err);
    if (rc == EO_OK) {
        rc = say_hello(c, deadline_ns, err);
        if (rc == EO_E_TIMED_OUT) {
            /* Something listens but does not speak: for the user that is the same as nobody being there. */
            EO_RAISE(err, EO_E_UNREACHABLE, "%s accepted the connection but did not answer hello within %llu ms",
                     ep->text, (unsigned long long)timeout_ms);
            eo_error_hint(err, "Is it an everyod? A stopped process or another service may hold the port.");
            rc = EO_E_UNREACHABLE;
        }
    }
    if (rc != EO_OK) {
        eo_error_at_host(err, ep->text, -1);
        eo_connection_close(c);
        return rc;
    }
    *out = c;
    return EO_OK;
}

void eo_connection_close(struct eo_connection *c)
{
    if (c == NULL) {
        return;
    }
    while (c->n_pending > 0) {
        drop_pending(c, &c->pending[c->n_pending - 1]);
    }
    free(c->pending);
    eo_doc_fini(&c->doc);
    eo_bytes_fini(&c->out);
    eo_bytes_fini(&c->envelope);
    eo_bytes_fini(&c->payload);
    eo_channel_close(&c->channel);
    free(c);
}

const struct eo_server_facts *eo_connection_facts(const struct eo_connection *c)
{
    return &c->facts;
}

const char *eo_connection_host(const struct eo_connection *c)
{
    return c->endpoint.text;
}

int eo_connection_fd(const struct eo_connection *c)
{
    return c->channel.fd;
}

void eo_connection_on_event(struct eo_connection *c, eo_event_fn fn, void *ctx)
{
    c->on_event = fn;
    c->event_ctx = ctx;
}
