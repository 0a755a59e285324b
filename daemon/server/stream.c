#include "daemon/server/stream.h"

#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4096, MAX_IOV = 32, SINK_MIN = 16 << 10 };

struct stream_chunk {
    struct stream_chunk *next;
    const uint8_t *data;
    uint64_t size, sent;
    void (*release)(void *ctx);
    void *ctx;
    size_t capacity; /* of bytes, 0 = a referenced segment */
    uint8_t bytes[];
};

/* ---- hub ---- */

int stream_hub_init(struct stream_hub *h, struct loop *l, struct eo_error *err)
{
    *h = (struct stream_hub){.loop = l, .scratch = malloc(STREAM_SCRATCH)};
    return h->scratch ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for reading");
}

void stream_hub_fini(struct stream_hub *h)
{
    free(h->scratch);
    h->scratch = NULL;
}

static void flush(struct stream *s);

void stream_hub_cork(struct stream_hub *h)
{
    h->corked++;
}

void stream_hub_uncork(struct stream_hub *h)
{
    if (--h->corked > 0) {
        return;
    }
    struct stream *s = h->dirty;
    h->dirty = NULL;
    if (s) {
        loop_expect(h->loop); /* who gets an answer often asks again at once */
    }
    while (s) {
        struct stream *next = s->next_dirty;
        s->is_dirty = false;
        s->next_dirty = NULL;
        flush(s);
        s = next;
    }
}

/* ---- the end ---- */

static void run_broken(void *ctx)
{
    struct stream *s = ctx;
    struct eo_error *why = s->why;
    s->why = NULL;
    if (why && s->watch) { /* not closed meanwhile */
        s->callbacks.broken(s->callbacks.ctx, why);
    }
    free(why);
}

/* Tells the owner from the loop, never from inside a call of the owner's. */
static void fail(struct stream *s, const struct eo_error *why)
{
    if (s->state == STREAM_DEAD) {
        return;
    }
    s->state = STREAM_DEAD;
    loop_watch_set(s->watch, 0);
    loop_timer_stop(s->timer);
    s->why = malloc(sizeof(*s->why));
    if (!s->why) {
        static struct eo_error no_memory = {.code = EO_E_NO_MEMORY, .message = "no memory", .rank = -1};
        s->callbacks.broken(s->callbacks.ctx, &no_memory);
        return;
    }
    *s->why = *why;
    s->broken_call = (struct loop_call){.fn = run_broken, .ctx = s};
    loop_post(s->hub->loop, &s->broken_call);
}

static void free_chunk(struct stream_chunk *c)
{
    if (c->release) {
        c->release(c->ctx);
    }
    free(c);
}

static void run_free(void *ctx)
{
    struct stream *s = ctx;
    free(s->why);
    s->why = NULL;
    if (s->free_fn) {
        s->free_fn(s->free_ctx);
    }
}

static void leave_dirty(struct stream *s)
{
    for (struct stream **at = &s->hub->dirty; s->is_dirty && *at; at = &(*at)->next_dirty) {
        if (*at == s) {
            *at = s->next_dirty;
            break;
        }
    }
    s->is_dirty = false;
}

void stream_close(struct stream *s, loop_fn free_fn, void *ctx)
{
    if (!s->watch) {
        return;
    }
    s->state = STREAM_DEAD;
    leave_dirty(s);
    loop_watch_free(s->watch);
    s->watch = NULL;
    loop_timer_free(s->timer);
    s->timer = NULL;
    eo_channel_close(&s->channel);
    while (s->first) {
        struct stream_chunk *c = s->first;
        s->first = c->next;
        free_chunk(c);
    }
    s->newest = NULL;
    s->queued_bytes = s->owned_bytes = 0;
    eo_bytes_fini(&s->envelope);
    free(s->held);
    s->held = NULL;
    s->held_used = s->held_size = 0;
    s->free_fn = free_fn;
    s->free_ctx = ctx;
    s->free_call = (struct loop_call){.fn = run_free, .ctx = s};
    loop_post(s->hub->loop, &s->free_call); /* behind resume and broken calls that are posted already */
}

int stream_detach(struct stream *s, loop_fn free_fn, void *ctx)
{
    int fd = s->channel.fd;
    s->channel.fd = -1;
    stream_close(s, free_fn, ctx);
    return fd;
}

/* ---- timing ---- */

static uint64_t deadline_of(const struct stream *s)
{
    uint64_t at = s->greeting_deadline_ns ? s->greeting_deadline_ns : UINT64_MAX;
    bool reading = !s->paused && !s->waiting && !s->congested;
    if (reading && (s->state == STREAM_ENVELOPE || (s->state == STREAM_HEADER && s->header_used > 0))) {
        at = EO_MIN(at, s->frame_since_ns + s->envelope_timeout_ms * 1000000);
    }
    if (reading && s->state == STREAM_PAYLOAD) {
        at = EO_MIN(at, s->bytes_since_ns + s->transfer_timeout_ms * 1000000);
    }
    if (s->first) {
        at = EO_MIN(at, s->write_since_ns + s->transfer_timeout_ms * 1000000);
    }
    return at;
}

static void arm(struct stream *s)
{
    if (s->state == STREAM_DEAD) {
        return;
    }
    uint64_t at = deadline_of(s);
    if (at == UINT64_MAX) {
        loop_timer_stop(s->timer);
    } else if (!loop_timer_active(s->timer)) {
        uint64_t now = eo_now_ns();
        loop_timer_start(s->timer, at > now ? (at - now) / 1000000 + 1 : 1, 0);
    } /* else it fires early and is armed again then: cheaper than moving it with each frame */
}

static void on_timer(void *ctx)
{
    struct stream *s = ctx;
    if (deadline_of(s) > eo_now_ns()) {
        arm(s);
        return;
    }
    struct eo_error why = {0};
    if (s->greeting_deadline_ns && s->greeting_deadline_ns <= eo_now_ns()) {
        EO_RAISE(&why, EO_E_TIMED_OUT, "%s sent no hello in time", s->channel.peer);
    } else if (s->first) {
        EO_RAISE(&why, EO_E_TIMED_OUT, "%s left %llu bytes unread for %llu ms", s->channel.peer,
                 (unsigned long long)s->queued_bytes, (unsigned long long)s->transfer_timeout_ms);
    } else {
        EO_RAISE(&why, EO_E_TIMED_OUT, "%s began a frame and did not finish it in time", s->channel.peer);
    }
    fail(s, &why);
}

void stream_greeted(struct stream *s)
{
    s->greeting_deadline_ns = 0;
}

static void watch(struct stream *s)
{
    if (s->state == STREAM_DEAD || !s->watch) {
        return;
    }
    bool reading = !s->paused && !s->waiting && !s->congested;
    bool writing = s->first || s->congested || s->tell_flushed; /* the last two: to be told from the loop */
    loop_watch_set(s->watch, (reading ? LOOP_READ : 0) | (writing ? LOOP_WRITE : 0));
    arm(s);
}

/* ---- writing ---- */

static void append_chunk(struct stream *s, struct stream_chunk *c)
{
    if (s->newest) {
        s->newest->next = c;
    } else {
        s->first = c;
        s->write_since_ns = eo_now_ns();
    }
    s->newest = c;
    s->queued_bytes += c->size;
}

static bool append_copy(struct stream *s, const void *data, size_t size)
{
    struct stream_chunk *c = s->newest;
    if (!c || c->capacity == 0 || c->capacity - c->size < size) {
        size_t capacity = EO_MAX(size, (size_t)CHUNK_BYTES);
        c = malloc(sizeof(*c) + capacity);
        if (!c) {
            return false;
        }
        *c = (struct stream_chunk){.capacity = capacity};
        c->data = c->bytes;
        append_chunk(s, c);
    }
    memcpy(c->bytes + c->size, data, size);
    c->size += size;
    s->queued_bytes += size;
    s->owned_bytes += size;
    return true;
}

static bool append_segment(struct stream *s, const struct segment *g)
{
    struct stream_chunk *c = malloc(sizeof(*c));
    if (!c) {
        return false;
    }
    *c = (struct stream_chunk){.data = g->data, .size = g->size, .release = g->release, .ctx = g->ctx};
    append_chunk(s, c);
    return true;
}

static void advance(struct stream *s, size_t n)
{
    s->queued_bytes -= n;
    while (s->first) {
        struct stream_chunk *c = s->first;
        uint64_t step = EO_MIN((uint64_t)n, c->size - c->sent);
        c->sent += step;
        n -= (size_t)step;
        if (c->sent < c->size) {
            return;
        }
        s->first = c->next;
        if (!s->first) {
            s->newest = NULL;
        }
        s->owned_bytes -= c->capacity ? c->size : 0;
        free_chunk(c);
    }
}

static void flush(struct stream *s)
{
    while (s->first && s->state != STREAM_DEAD) {
        struct iovec iov[MAX_IOV];
        int n = 0;
        for (struct stream_chunk *c = s->first; c && n < MAX_IOV; c = c->next) {
            union { /* writev reads only; its type is shared with readv */
                const uint8_t *in;
                uint8_t *out;
            } at = {.in = c->data + c->sent};
            iov[n++] = (struct iovec){.iov_base = at.out, .iov_len = (size_t)(c->size - c->sent)};
        }
        struct eo_error why = {0};
        size_t moved = 0;
        if (eo_channel_writev(&s->channel, iov, n, &moved, &why) != EO_OK) {
            fail(s, &why);
            return;
        }
        if (moved == 0) {
            break;
        }
        s->write_since_ns = eo_now_ns();
        advance(s, moved);
    }
    if (s->state != STREAM_DEAD && s->owned_bytes > STREAM_OWNED_MAX) {
        struct eo_error why = {0};
        EO_RAISE(&why, EO_E_BUSY, "%s leaves its answers unread: %llu bytes wait", s->channel.peer,
                 (unsigned long long)s->owned_bytes);
        fail(s, &why);
        return;
    }
    s->congested |= s->queued_bytes > STREAM_CONGESTED;
    watch(s);
}

static void release_all(const struct segment *segments, int n)
{
    for (int i = 0; i < n; i++) {
        if (segments[i].release) {
            segments[i].release(segments[i].ctx);
        }
    }
}

void stream_send(struct stream *s, const struct eo_bytes *envelope, const struct segment *segments, int n_segments)
{
    struct eo_frame_header h = {.envelope_size = (uint32_t)envelope->size};
    uint8_t header[EO_FRAME_HEADER_SIZE];
    if (s->state == STREAM_DEAD) {
        release_all(segments, n_segments);
        return;
    }
    for (int i = 0; i < n_segments; i++) {
        h.payload_size += segments[i].size;
    }
    eo_frame_encode(&h, header);
    bool fits = append_copy(s, header, sizeof(header)) && append_copy(s, envelope->data, envelope->size);
    int n_taken = 0;
    for (; fits && n_taken < n_segments; n_taken++) {
        if (segments[n_taken].size == 0) {
            release_all(&segments[n_taken], 1);
        } else {
            fits = append_segment(s, &segments[n_taken]);
            n_taken -= fits ? 0 : 1;
        }
    }
    if (!fits) { /* half a frame cannot be taken back */
        struct eo_error why = {0};
        release_all(segments + n_taken, n_segments - n_taken);
        EO_RAISE(&why, EO_E_NO_MEMORY, "no memory for answers to %s", s->channel.peer);
        fail(s, &why);
        return;
    }
    if (s->hub->corked == 0) {
        flush(s);
    } else if (!s->is_dirty) {
        s->is_dirty = true;
        s->next_dirty = s->hub->dirty;
        s->hub->dirty = s;
    }
}

bool stream_idle(const struct stream *s)
{
    return !s->first && s->state == STREAM_HEADER && s->header_used == 0 && s->held_size == 0;
}

void stream_tell_flushed(struct stream *s)
{
    s->tell_flushed = true;
    watch(s);
}

/* ---- reading ---- */

/* A frame that breaks the rules of framing: nothing after it can be trusted. */
static void fail_frame(struct stream *s, struct eo_error *why)
{
    eo_error_push(why, "reading from %s", s->channel.peer);
    fail(s, why);
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
static bool ask_place(struct stream *s)
{
    uint8_t *to = NULL;
    enum stream_place place = s->callbacks.place(s->callbacks.ctx, s->frame.payload_size, &to);
    if (s->state == STREAM_DEAD) {
        return false;
    }
    s->waiting = place == STREAM_WAIT;
    if (s->waiting) {
        watch(s);
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
            ask_place(s);
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
        fail(s, &why);
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

static void read_turn(struct stream *s)
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

static void feed_held(struct stream *s)
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

static void on_event(void *ctx, int events)
{
    struct stream *s = ctx;
    stream_hub_cork(s->hub);
    if (events & LOOP_WRITE) {
        flush(s);
        if (s->congested && s->queued_bytes < STREAM_RELIEVED && s->state != STREAM_DEAD) {
            s->congested = false;
            feed_held(s);
            if (s->watch) {
                s->callbacks.relieved(s->callbacks.ctx);
            }
        }
        if (s->watch && s->tell_flushed && !s->first && s->state != STREAM_DEAD) {
            s->tell_flushed = false;
            s->callbacks.flushed(s->callbacks.ctx);
        }
    }
    if (s->watch && (events & LOOP_READ)) {
        read_turn(s);
    }
    if (s->watch) {
        watch(s);
    }
    stream_hub_uncork(s->hub);
}

static void run_resume(void *ctx)
{
    struct stream *s = ctx;
    s->resume_posted = false;
    if (!s->watch || s->state == STREAM_DEAD) {
        return;
    }
    stream_hub_cork(s->hub);
    if (s->waiting && s->state == STREAM_PLACE) {
        s->waiting = false;
        ask_place(s);
    }
    if (s->watch) {
        feed_held(s);
    }
    if (s->watch) {
        watch(s);
    }
    stream_hub_uncork(s->hub);
}

void stream_resume(struct stream *s)
{
    if (s->watch && !s->resume_posted) {
        s->resume_posted = true;
        s->resume_call = (struct loop_call){.fn = run_resume, .ctx = s};
        loop_post(s->hub->loop, &s->resume_call);
    }
}

void stream_pause(struct stream *s, bool paused)
{
    if (s->paused == paused || !s->watch) {
        return;
    }
    s->paused = paused;
    watch(s);
    if (!paused) {
        stream_resume(s); /* held bytes first */
    }
}

/* ---- the beginning ---- */

int stream_init(struct stream *s, struct stream_hub *hub, const struct eo_channel *channel,
                const struct stream_callbacks *callbacks, struct eo_error *err)
{
    memset(s, 0, sizeof(*s));
    s->hub = hub;
    s->callbacks = *callbacks;
    s->channel = *channel;
    s->watch = loop_watch_new(hub->loop, channel->fd, on_event, s);
    s->timer = loop_timer_new(hub->loop, on_timer, s);
    if (!s->watch || !s->timer) {
        loop_watch_free(s->watch);
        loop_timer_free(s->timer);
        s->watch = NULL;
        eo_channel_close(&s->channel);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a connection");
    }
    return EO_OK;
}

void stream_start(struct stream *s)
{
    watch(s);
}
