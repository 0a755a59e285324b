/* One connection to everyod: frames, hello, pipelined requests, events. Used by libeveryo and the command line tools.
 *
 * Requests are queued and written as the socket takes them; replies are matched by id, in whatever order they come.
 * While a write would block, incoming frames are read, so that two sides with full buffers cannot wait for each other.
 * Belongs to one thread, and to the process that opened it: a fork's child gets CONNECTION_LOST and only closes. */
#ifndef EO_CLIENT_LIB_CONNECTION_H
#define EO_CLIENT_LIB_CONNECTION_H

#include "proto/channel.h"
#include "proto/codec.h"

struct eo_connection;

struct eo_server_facts { /* from the answer to hello */
    int version;
    char build[128];
    char node[64];
    uint64_t payload_limit, chunk_limit, handle_limit, pending_limit;
    char session[64];
};

struct eo_connection_options {
    uint64_t timeout_ms;      /* to connect and for hello; 0 = 5000 */
    uint64_t call_timeout_ms; /* longest silence while waiting for a reply; 0 = none */
};

/* Errors: those of eo_channel_connect; UNREACHABLE when something accepts but never answers hello; BAD_FRAME,
 * BAD_ENVELOPE, BAD_PARAMS when what answers is no everyod; VERSION_MISMATCH; whatever hello was refused with. */
int eo_connection_open(const struct eo_endpoint *ep, const struct eo_connection_options *options,
                       struct eo_connection **out, struct eo_error *err);
void eo_connection_close(struct eo_connection *c); /* NULL allowed */
const struct eo_server_facts *eo_connection_facts(const struct eo_connection *c);
const char *eo_connection_host(const struct eo_connection *c); /* as typed */
int eo_connection_fd(const struct eo_connection *c);

/* An event (notification) of the daemon. Items and payload live during the call only, and the call must not use the
 * connection: it runs in the middle of a read. */
typedef void (*eo_event_fn)(void *ctx, const struct eo_envelope *event, const uint8_t *payload, size_t payload_size);
void eo_connection_on_event(struct eo_connection *c, eo_event_fn fn, void *ctx);

/* The reply to a request. Free with eo_reply_fini. */
struct eo_reply {
    struct eo_bytes envelope; /* backs doc */
    struct eo_doc doc;
    const struct eo_item *result;
    struct eo_bytes payload; /* unless the caller gave a destination */
    size_t payload_size;
};
void eo_reply_fini(struct eo_reply *r);

/* Queues a request; params is a packed map or NULL for an empty one; the payload may be reused when the call returns.
 * *out_id identifies the reply for eo_connection_wait. With out_id == NULL nobody waits: a failure becomes the
 * connection's first deferred error, which eo_connection_drain reports. Blocks while more requests are unanswered than
 * the daemon takes (limits.pending of hello) and while a large payload is under way. BUSY: 1024 replies wait here to
 * be taken. */
int eo_connection_request(struct eo_connection *c, const char *method, const struct eo_bytes *params,
                          const void *payload, size_t payload_size, uint32_t *out_id, struct eo_error *err);
/* Waits for one reply. A failure reported by the daemon is returned as its error. into: destination for the payload
 * (exactly into_size bytes expected, BAD_ENVELOPE otherwise) or NULL. reply may be NULL. After TIMED_OUT the reply is
 * dropped when it comes. A reply that came before the connection broke is still handed out. */
int eo_connection_wait(struct eo_connection *c, uint32_t id, void *into, size_t into_size, struct eo_reply *reply,
                       struct eo_error *err);
/* request + wait */
int eo_connection_call(struct eo_connection *c, const char *method, const struct eo_bytes *params, const void *payload,
                       size_t payload_size, struct eo_reply *reply, struct eo_error *err);
/* Reads what is there, at most until deadline_ns (0 = do not wait), dispatching events; for callers with an own poll
 * loop. */
int eo_connection_pump(struct eo_connection *c, uint64_t deadline_ns, struct eo_error *err);
/* True when the reply to id has arrived (or its failure): eo_connection_wait will not block. */
bool eo_connection_ready(const struct eo_connection *c, uint32_t id);
/* Waits until every request that nobody waits for is answered; returns the first deferred error and forgets it. */
int eo_connection_drain(struct eo_connection *c, struct eo_error *err);

#endif
