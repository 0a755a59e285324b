/* Bytes of a connection: frames in, frames out, one poll at a time. */
#include "client/lib/connection_internal.h"
#include "proto/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
    OUT_FULL_BYTES = 8 << 20,    /* a sender waits until less than this is queued */
    COPIED_MAX_BYTES = 64 << 10, /* smaller payloads are queued, larger ones are written where they lie */
};

int eo_connection_break(struct eo_connection *c, const struct eo_error *cause, struct eo_error *err)
{
    if (c->broken.code == 0) { /* the first cause stays */
        c->broken = *cause;
        if (c->broken.host[0] == '\0') {
            eo_error_at_host(&c->broken, c->endpoint.text, -1);
        }
    }
    if (err != NULL) {
        *err = c->broken;
    }
    return c->broken.code;
}

uint64_t eo_connection_deadline(const struct eo_connection *c)
{
    return c->options.call_timeout_ms == 0 ? 0 : eo_now_ns() + c->options.call_timeout_ms * 1000000;
}

/* ---- reading ---- */

static int begin_envelope(struct eo_connection *c, struct eo_error *err)
{
    int rc = eo_frame_decode(c->header, EO_CONNECTION_REPLY_MAX, &c->in, err);
    if (rc != EO_OK) {
        eo_error_hint(err, "Is %s really an everyod, and its own port?", c->endpoint.text);
        return rc;
    }
    eo_bytes_clear(&c->envelope);
    if (eo_bytes_extend(&c->envelope, c->in.envelope_size) == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an envelope of %u bytes", c->in.envelope_size);
    }
    c->stage = EO_IN_ENVELOPE;
    c->got = 0;
    return EO_OK;
}

static int begin_payload(struct eo_connection *c, struct eo_error *err)
{
    int rc = eo_envelope_parse(&c->doc, &c->parsed, c->envelope.data, c->envelope.size, err);
    if (rc != EO_OK) {
        return rc;
    }
    if (c->parsed.type == 0) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "the daemon sent a request");
    }
    eo_bytes_clear(&c->payload);
    c->direct = c->parsed.type == 1 && c->parsed.error == NULL && c->wait_into != NULL && c->parsed.id == c->wait_id &&
                c->in.payload_size == c->wait_size;
    if (c->direct) {
        c->payload_at = c->wait_into;
    } else if (c->in.payload_size > 0) {
        c->payload_at = eo_bytes_extend(&c->payload, (size_t)c->in.payload_size);
        if (c->payload_at == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a payload of %llu bytes",
                            (unsigned long long)c->in.payload_size);
        }
    }
    c->stage = EO_IN_PAYLOAD;
    c->got = 0;
    return EO_OK;
}

static int finish_frame(struct eo_connection *c, struct eo_error *err)
{
    int rc = EO_OK;
    c->stage = EO_IN_HEADER;
    c->got = 0;
    if (c->parsed.type == 1) {
        rc = eo_connection_deliver(c, err);
    } else if (c->on_event != NULL) {
        c->on_event(c->event_ctx, &c->parsed, c->payload.data, (size_t)c->in.payload_size);
    }
    eo_doc_fini(&c->doc);
    return rc;
}

/* Where the next bytes of the current stage go, and how many are still wanted. */
static size_t stage_room(struct eo_connection *c, uint8_t **at)
{
    switch (c->stage) {
    case EO_IN_HEADER:
        *at = c->header + c->got;
        return EO_FRAME_HEADER_SIZE - c->got;
    case EO_IN_ENVELOPE:
        *at = c->envelope.data + c->got;
        return c->in.envelope_size - c->got;
    case EO_IN_PAYLOAD:
        *at = c->payload_at == NULL ? NULL : c->payload_at + c->got;
        return (size_t)c->in.payload_size - c->got;
    }
    return 0;
}

static int next_stage(struct eo_connection *c, struct eo_error *err)
{
    switch (c->stage) {
    case EO_IN_HEADER:
        return begin_envelope(c, err);
    case EO_IN_ENVELOPE:
        return begin_payload(c, err);
    case EO_IN_PAYLOAD:
        return finish_frame(c, err);
    }
    return EO_OK;
}

/* True once the reply that somebody waits for is here: the rest is left to the next call. */
static bool wait_is_over(const struct eo_connection *c)
{
    const struct eo_pending *p = c->wait_id == 0 ? NULL : eo_connection_find(c, c->wait_id);
    return p != NULL && p->arrived;
}

/* Reads until the socket is empty or the awaited reply is complete. */
static int read_some(struct eo_connection *c, struct eo_error *err)
{
    bool any_frame = false;
    for (;;) {
        uint8_t *at = NULL;
        const size_t room = stage_room(c, &at);
        if (room == 0) {
            const bool completes = c->stage == EO_IN_PAYLOAD;
            int rc = next_stage(c, err);
            if (rc != EO_OK) {
                return rc;
            }
            any_frame = any_frame || completes;
            if (completes && wait_is_over(c)) {
                return EO_OK;
            }
            continue;
        }
        size_t n = 0;
        bool eof = false;
        int rc = eo_channel_read(&c->channel, at, room, &n, &eof, err);
        if (rc != EO_OK) {
            if (any_frame) {
                return EO_OK; /* what came before the end counts; the next read meets the end again */
            }
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

static size_t unsent(const struct eo_connection *c)
{
    return c->out.size - c->out_at + c->tail_size;
}

static int flush_some(struct eo_connection *c, struct eo_error *err)
{
    while (unsent(c) > 0) {
        union {
            const void *in;
            void *out;
        } tail = {.in = c->tail}; /* iovec is not const-correct */
        const size_t queued = c->out.size - c->out_at;
        const struct iovec iov[2] = {{.iov_base = c->out.data + c->out_at, .iov_len = queued},
                                     {.iov_base = tail.out, .iov_len = c->tail_size}};
        const int first = queued == 0;
        size_t n = 0;
        int rc = eo_channel_writev(&c->channel, iov + first, (c->tail_size > 0 ? 2 : 1) - first, &n, err);
        if (rc != EO_OK || n == 0) {
            return rc;
        }
        const size_t of_queue = EO_MIN(n, queued);
        c->out_at += of_queue;
        if (n > of_queue) {
            c->tail += n - of_queue;
            c->tail_size -= n - of_queue;
        }
    }
    eo_bytes_clear(&c->out);
    c->out_at = 0;
    return EO_OK;
}

/* Writing failed. The daemon may have said why before it closed: that is the better cause. */
static int write_failed(struct eo_connection *c, const struct eo_error *fault, struct eo_error *err)
{
    struct eo_error said = {0};
    int rc = read_some(c, &said);
    return eo_connection_break(c, rc != EO_OK && rc != EO_E_CONNECTION_LOST ? &said : fault, err);
}

static int timed_out(const struct eo_connection *c, const char *what, struct eo_error *err)
{
    EO_RAISE(err, EO_E_TIMED_OUT, "%s did not answer in time (%s)", c->endpoint.text, what);
    eo_error_at_host(err, c->endpoint.text, -1);
    return EO_E_TIMED_OUT;
}

int eo_connection_step(struct eo_connection *c, uint64_t deadline_ns, const char *what, struct eo_error *err)
{
    struct eo_error fault = {0};
    int wait_ms = -1;
    if (deadline_ns != 0) {
        const uint64_t now = eo_now_ns();
        if (now >= deadline_ns) {
            return timed_out(c, what, err);
        }
        wait_ms = (int)EO_MIN((deadline_ns - now + 999999) / 1000000, (uint64_t)1000000);
    }
    struct pollfd pfd = {.fd = c->channel.fd, .events = POLLIN};
    if (unsent(c) > 0) {
        pfd.events |= POLLOUT;
    }
    const int ready = poll(&pfd, 1, wait_ms);
    if (ready == 0 && deadline_ns != 0 && eo_now_ns() >= deadline_ns) {
        return timed_out(c, what, err);
    }
    if (ready < 0) {
        if (errno == EINTR) {
            return EO_OK; /* the caller looks at its flags and comes back */
        }
        const int errnum = errno;
        EO_RAISE_ERRNO(&fault, EO_E_CONNECTION_LOST, errnum, "waiting for %s failed", c->endpoint.text);
        return eo_connection_break(c, &fault, err);
    }
    if ((pfd.revents & POLLOUT) != 0 && flush_some(c, &fault) != EO_OK) {
        return write_failed(c, &fault, err);
    }
    if ((pfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && read_some(c, &fault) != EO_OK) {
        return eo_connection_break(c, &fault, err);
    }
    return EO_OK;
}

/* Bytes already written need not be kept: what is left moves to the front once that is no more than what went. */
static void compact(struct eo_connection *c)
{
    const size_t left = c->out.size - c->out_at;
    if (c->out_at > 0 && c->out_at >= left) {
        memmove(c->out.data, c->out.data + c->out_at, left);
        c->out.size = left;
        c->out_at = 0;
    }
}

static int queue_frame(struct eo_connection *c, const struct eo_bytes *envelope, const void *payload, size_t size,
                       struct eo_error *err)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)envelope->size, .payload_size = size};
    eo_frame_encode(&h, header);
    compact(c);
    eo_bytes_append(&c->out, header, sizeof header);
    eo_bytes_append(&c->out, envelope->data, envelope->size);
    if (size > COPIED_MAX_BYTES) {
        c->tail = payload;
        c->tail_size = size;
    } else if (size > 0) {
        eo_bytes_append(&c->out, payload, size);
    }
    if (c->out.failed) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to queue a request to %s", c->endpoint.text);
    }
    return EO_OK;
}

/* A frame that is sent in part cannot be taken back. */
static int give_up(struct eo_connection *c, const struct eo_error *fault, struct eo_error *err)
{
    c->tail_size = 0;
    return eo_connection_break(c, fault, err);
}

int eo_connection_send(struct eo_connection *c, const struct eo_bytes *envelope, const void *payload, size_t size,
                       struct eo_error *err)
{
    struct eo_error fault = {0};
    while (unsent(c) > OUT_FULL_BYTES) {
        int rc = eo_connection_step(c, eo_connection_deadline(c), "sending", err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    if (queue_frame(c, envelope, payload, size, &fault) != EO_OK) {
        return give_up(c, &fault, err);
    }
    if (flush_some(c, &fault) != EO_OK) {
        c->tail_size = 0;
        return write_failed(c, &fault, err);
    }
    while (c->tail_size > 0) {
        if (eo_connection_step(c, eo_connection_deadline(c), "sending", &fault) != EO_OK) {
            return give_up(c, &fault, err);
        }
    }
    return EO_OK;
}
