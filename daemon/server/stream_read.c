/* The reading half of a stream: headers, envelopes, payloads. */
#include "daemon/server/stream_internal.h"

#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { SINK_MIN = 16 << 10 /* payload of at least this is read straight to its place */ };

/* A frame that breaks the rules of framing: nothing after it can be trusted. */
static void fail_frame(struct stream *s, struct eo_error *why)
{
    eo_error_push(why, "reading from %s", s->channel.peer);
    stream_fail(s, why);
}

static void begin_frame(struct stream *s)
{
    s->state = STREAM_HEADER;
    s->header_used = 0;
    s->payload = NULL;
    s->payload_used = 0;
    eo_bytes_fini(&s->envelope);
}

static void end_frame(struct stream *s)
{
    begin_frame(s);
    s->callbacks.frame(s->callbacks.ctx);
}

static size_t feed_header(struct stream *s, const uint8_t *data, size_t n)
{
    if (s->header_used == 0) {
        s->frame_since_ns = eo_now_ns();
    }
    size_t take = EO_MIN(n, sizeof(s->header) - s->header_used);
    memcpy(s->header + s->header_used, data, take);
    s->header_used += take;
    if (s->header_used < sizeof(s->header)) {
        return take;
    }
    struct eo_error why = {0};
    void *ctx = s->callbacks.ctx;
    if (eo_frame_decode(s->header, s->callbacks.payload_limit(ctx), &s->frame, &why) != EO_OK) {
        fail_frame(s, &why);
        return take;
    }
    uint32_t limit = s->callbacks.envelope_limit(ctx);
    if (s->frame.envelope_size > limit) {
        EO_RAISE(&why, EO_E_FRAME_TOO_LARGE, "an envelope of %lu bytes exceeds %lu",
                 (unsigned long)s->frame.envelope_size, (unsigned long)limit);
        fail_frame(s, &why);
        return take;
    }
    /* Grows as bytes come: a header that claims much costs nothing. */
    eo_bytes_init(&s->envelope, s->frame.envelope_size);
    s->state = STREAM_ENVELOPE;
    return take;
}

/* Asks where the payload goes; false: wait, or the stream is dead. */
bool stream_ask_place(struct stream *s)
{
    uint8_t *to = NULL;
    enum stream_place place = s->callbacks.place(s->callbacks.ctx, s->frame.payload_size, &to);
    if (s->state == STREAM_DEAD) {
        return false;
    }
    s->waiting = place == STREAM_WAIT;
    if (s->waiting) {
        stream_watch(s);
        return false;
    }
    s->place = place;
    s->payload = to;
    s->payload_used = 0;
    s->bytes_since_ns = eo_now_ns();
    if (s->frame.payload_size == 0) {
        end_frame(s);
    } else {
        s->state = STREAM_PAYLOAD;
    }
    return s->state != STREAM_DEAD;
}

static size_t feed_envelope(struct stream *s, const uint8_t *data, size_t n)
{
    size_t take = EO_MIN(n, s->frame.envelope_size - s->envelope.size);
    eo_bytes_append(&s->envelope, data, take);
    if (s->envelope.failed) {
        struct eo_error why = {0};
        EO_RAISE(&why, EO_E_NO_MEMORY, "no memory for an envelope of %lu bytes", (unsigned long)s->frame.envelope_size);
        fail_frame(s, &why);
        return take;
    }
    if (s->envelope.size == s->frame.envelope_size) {
        s->callbacks.envelope(s->callbacks.ctx, &s->envelope, s->frame.payload_size);
        if (s->state != STREAM_DEAD) {
            s->state = STREAM_PLACE;
            stream_ask_place(s);
        }
    }
    return take;
}

static void took_payload(struct stream *s, size_t n)
{
    s->payload_used += n;
    s->bytes_since_ns = eo_now_ns();
    if (s->payload_used == s->frame.payload_size) {
        end_frame(s);
    }
}

static size_t feed_payload(struct stream *s, const uint8_t *data, size_t n)
{
    size_t take = (size_t)EO_MIN((uint64_t)n, s->frame.payload_size - s->payload_used);
    if (s->place == STREAM_INTO) {
        memcpy(s->payload + s->payload_used, data, take);
    }
    took_payload(s, take);
    return take;
}

static bool can_feed(const struct stream *s)
{
    return s->state != STREAM_DEAD && !s->paused && !s->waiting && !s->congested;
}

/* Consumes bytes as far as possible; returns how many. */
static size_t feed(struct stream *s, const uint8_t *data, size_t n)
{
    size_t used = 0;
    while (used < n && can_feed(s)) {
        switch (s->state) {
        case STREAM_HEADER:
            used += feed_header(s, data + used, n - used);
            break;
        case STREAM_ENVELOPE:
            used += feed_envelope(s, data + used, n - used);
            break;
        case STREAM_PAYLOAD:
            used += feed_payload(s, data + used, n - used);
            break;
        case STREAM_PLACE:
        case STREAM_DEAD:
            return used;
        }
    }
    return used;
}

static void hold(struct stream *s, const uint8_t *data, size_t n)
{
    if (n == 0 || s->state == STREAM_DEAD) {
        return;
    }
    s->held = malloc(n);
    if (!s->held) {
        struct eo_error why = {0};
        EO_RAISE(&why, EO_E_NO_MEMORY, "no memory for %zu bytes that came early", n);
        fail_frame(s, &why);
        return;
    }
    memcpy(s->held, data, n);
    s->held_used = 0;
    s->held_size = n;
}

/* Bytes until the next part of the frame is complete. */
static uint64_t frame_needs(const struct stream *s)
{
    switch (s->state) {
    case STREAM_HEADER:
        return sizeof(s->header) - s->header_used;
    case STREAM_ENVELOPE:
        return s->frame.envelope_size - s->envelope.size;
    case STREAM_PLACE:
    case STREAM_PAYLOAD:
    case STREAM_DEAD:
        break;
    }
    return s->frame.payload_size - s->payload_used;
}

/* One read; returns the bytes, 0 when there is nothing more now. */
static size_t read_once(struct stream *s)
{
    struct eo_error why = {0};
    uint64_t left = s->frame.payload_size - s->payload_used;
    bool direct = s->state == STREAM_PAYLOAD && s->place == STREAM_INTO && left >= SINK_MIN;
    uint8_t *to = direct ? s->payload + s->payload_used : s->hub->scratch;
    size_t most = direct ? (size_t)EO_MIN(left, (uint64_t)STREAM_TURN_BYTES) : STREAM_SCRATCH;
    if (s->exact) {
        most = (size_t)EO_MIN((uint64_t)most, frame_needs(s));
    }
    size_t got = 0;
    bool eof = false;
    if (eo_channel_read(&s->channel, to, most, &got, &eof, &why) != EO_OK) {
        stream_fail(s, &why);
        return 0;
    }
    if (got == 0) {
        return 0;
    }
    if (direct) {
        took_payload(s, got);
    } else {
        size_t used = feed(s, s->hub->scratch, got);
        if (s->watch) { /* still open */
            hold(s, s->hub->scratch + used, got - used);
        }
    }
    return got < most ? 0 : got; /* a short read: the socket is empty, most likely; the loop tells otherwise */
}

void stream_read_turn(struct stream *s)
{
    size_t total = 0;
    while (can_feed(s) && s->held_size == 0 && total < STREAM_TURN_BYTES) {
        size_t n = read_once(s);
        if (n == 0) {
            break;
        }
        total += n;
    }
}

void stream_feed_held(struct stream *s)
{
    while (s->held_size > 0 && can_feed(s)) {
        uint8_t *data = s->held;
        size_t start = s->held_used, size = s->held_size;
        s->held = NULL;
        s->held_size = s->held_used = 0;
        size_t used = feed(s, data + start, size - start);
        if (s->watch && s->state != STREAM_DEAD && start + used < size) {
            s->held = data;
            s->held_used = start + used;
            s->held_size = size;
        } else {
            free(data);
        }
    }
}
