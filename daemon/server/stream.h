/* Frames over a channel inside the loop: reads headers, envelopes and payloads, queues and writes frames. Used by
 * accepted connections (connection.c) and by links to other daemons (link.c).
 *
 * Payload goes straight to where the owner says. What is written is copied once (small) or referenced (segments). A
 * stream never calls back from inside stream_send, stream_resume or stream_close; it may be closed from inside any of
 * its callbacks, and its memory must stay until the loop has turned once more (stream_close takes a function for that).
 */
#ifndef EO_DAEMON_SERVER_STREAM_H
#define EO_DAEMON_SERVER_STREAM_H

#include "daemon/server/connection.h"
#include "daemon/server/loop.h"
#include "proto/channel.h"
#include "proto/frame.h"

enum {
    STREAM_SCRATCH = 64 << 10,   /* one read of what is not payload */
    STREAM_TURN_BYTES = 1 << 20, /* read per turn, so that streams take turns */
    STREAM_CONGESTED = 8 << 20,  /* queued bytes above which nothing is read */
    STREAM_RELIEVED = 2 << 20,   /* and below which it goes on */
    STREAM_OWNED_MAX = 32 << 20  /* copied bytes a reader may leave unread before it is cut off */
};

/* Shared by all streams of a loop. */
struct stream;
struct stream_hub {
    struct loop *loop;
    uint8_t *scratch;
    int corked;
    struct stream *dirty; /* with something to write, while corked */
};
int stream_hub_init(struct stream_hub *h, struct loop *l, struct eo_error *err);
void stream_hub_fini(struct stream_hub *h);
void stream_hub_cork(struct stream_hub *h);
void stream_hub_uncork(struct stream_hub *h);

enum stream_place {
    STREAM_INTO,    /* payload goes to *out_data */
    STREAM_DISCARD, /* read and forgotten */
    STREAM_WAIT     /* nothing is read until stream_resume; then `place` is asked again */
};

struct stream_callbacks {
    void *ctx;
    uint64_t (*payload_limit)(void *ctx); /* of the frame that begins now */
    uint32_t (*envelope_limit)(void *ctx);
    /* An envelope is complete. Takes the bytes over by eo_bytes_take, or leaves them. */
    void (*envelope)(void *ctx, struct eo_bytes *envelope, uint64_t payload_size);
    /* Where the payload goes (not asked when there is none, but WAIT is honoured: size 0 asks too). */
    enum stream_place (*place)(void *ctx, uint64_t payload_size, uint8_t **out_data);
    void (*frame)(void *ctx); /* all of it is there */
    /* The other side has gone, sent no frame, or was too slow. The stream reads and writes nothing more; close it. */
    void (*broken)(void *ctx, const struct eo_error *why);
    void (*relieved)(void *ctx); /* no longer congested */
    void (*flushed)(void *ctx);  /* everything was written; optional */
};

struct stream_chunk;
enum stream_state { STREAM_HEADER, STREAM_ENVELOPE, STREAM_PLACE, STREAM_PAYLOAD, STREAM_DEAD };

struct stream {
    struct stream_hub *hub;
    struct stream_callbacks callbacks;
    struct eo_channel channel;
    struct loop_watch *watch;
    struct loop_timer *timer;
    uint64_t envelope_timeout_ms, transfer_timeout_ms;
    uint64_t greeting_deadline_ns; /* 0 once the other side has introduced itself */

    enum stream_state state;
    uint8_t header[EO_FRAME_HEADER_SIZE];
    size_t header_used;
    struct eo_frame_header frame;
    struct eo_bytes envelope;
    enum stream_place place;
    uint8_t *payload;
    uint64_t payload_used;
    uint64_t frame_since_ns, bytes_since_ns; /* when the frame began, when its last byte came */
    uint8_t *held;                           /* bytes read but not yet consumed */
    size_t held_used, held_size;
    bool exact; /* reads nothing beyond the frame, so that the descriptor can be handed over after it */
    bool paused, waiting, congested, tell_flushed, resume_posted;
    struct loop_call resume_call, broken_call, free_call;
    struct eo_error *why; /* of broken_call */
    loop_fn free_fn;
    void *free_ctx;

    struct stream_chunk *first, *newest; /* both NULL = nothing queued */
    uint64_t queued_bytes, owned_bytes;
    uint64_t write_since_ns; /* last progress while something is queued */
    struct stream *next_dirty;
    bool is_dirty;
};

/* Takes channel over (also on failure, where it is closed). Reading begins with stream_start. */
int stream_init(struct stream *s, struct stream_hub *hub, const struct eo_channel *channel,
                const struct stream_callbacks *callbacks, struct eo_error *err);
void stream_start(struct stream *s);
void stream_pause(struct stream *s, bool paused); /* reads nothing while paused */
void stream_resume(struct stream *s);             /* after STREAM_WAIT */
void stream_greeted(struct stream *s);            /* ends greeting_deadline_ns */
/* Queues one frame; segments are released when sent or when the stream closes. */
void stream_send(struct stream *s, const struct eo_bytes *envelope, const struct segment *segments, int n_segments);
bool stream_idle(const struct stream *s); /* nothing queued, and the input is between two frames */
/* Stops everything at once, closes the descriptor; free_fn(ctx) runs from the loop when the memory may go. */
void stream_close(struct stream *s, loop_fn free_fn, void *ctx);
int stream_detach(struct stream *s, loop_fn free_fn, void *ctx); /* the same, but returns the descriptor open */
void stream_tell_flushed(struct stream *s); /* calls flushed, from the loop, once nothing is queued */

#endif
