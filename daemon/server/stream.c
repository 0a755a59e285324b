#include "daemon/server/stream_internal.h"

#include "proto/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4096, MAX_IOV = 32 };

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

/* What is said when there is no memory for more: also then the owner hears of it from the loop. */
static struct eo_error no_memory = {.code = EO_E_NO_MEMORY, .message = "no memory", .rank = -1};

static void free_why(struct eo_error *why)
{
    if (why != &no_memory) {
        free(why);
    }
}

static void run_broken(void *ctx)
{
    struct stream *s = ctx;
    struct eo_error *why = s->why;
    s->why = NULL;
    if (why && s->watch) { /* not closed meanwhile */
        s->callbacks.broken(s->callbacks.ctx, why);
    }
    free_why(why);
}

/* Tells the owner from the loop, never from inside a call of the owner's. */
void stream_fail(struct stream *s, const struct eo_error *why)
{
    if (s->state == STREAM_DEAD) {
        return;
    }
    s->state = STREAM_DEAD;
    loop_watch_set(s->watch, 0);
    loop_timer_stop(s->timer);
    s->why = malloc(sizeof(*s->why));
    if (s->why) {
        *s->why = *why;
    } else {
        s->why = &no_memory;
    }
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
    free_why(s->why);
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
    stream_fail(s, &why);
}

void stream_greeted(struct stream *s)
{
    s->greeting_deadline_ns = 0;
}

void stream_watch(struct stream *s)
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
            stream_fail(s, &why);
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
        stream_fail(s, &why);
        return;
    }
    s->congested |= s->queued_bytes > STREAM_CONGESTED;
    stream_watch(s);
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
        stream_fail(s, &why);
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
    stream_watch(s);
}

/* ---- the loop ---- */

static void on_event(void *ctx, int events)
{
    struct stream *s = ctx;
    stream_hub_cork(s->hub);
    if (events & LOOP_WRITE) {
        flush(s);
        if (s->congested && s->queued_bytes < STREAM_RELIEVED && s->state != STREAM_DEAD) {
            s->congested = false;
            stream_feed_held(s);
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
        stream_read_turn(s);
    }
    if (s->watch) {
        stream_watch(s);
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
        stream_ask_place(s);
    }
    if (s->watch) {
        stream_feed_held(s);
    }
    if (s->watch) {
        stream_watch(s);
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
    stream_watch(s);
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
    stream_watch(s);
}
