/* Between stream.c (life, time, writing) and stream_read.c (reading). */
#ifndef EO_DAEMON_SERVER_STREAM_INTERNAL_H
#define EO_DAEMON_SERVER_STREAM_INTERNAL_H

#include "daemon/server/stream.h"

/* Ends it; the owner hears of it from the loop. Idempotent. */
void stream_fail(struct stream *s, const struct eo_error *why);
/* Watches the descriptor for what is wanted now, and the time. */
void stream_watch(struct stream *s);

void stream_read_turn(struct stream *s); /* reads what is there, up to a turn */
void stream_feed_held(struct stream *s); /* consumes bytes that were read before */
/* Asks where the payload goes; false: wait, or the stream is dead. */
bool stream_ask_place(struct stream *s);

#endif
