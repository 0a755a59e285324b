/* A connection that everyod opens to another everyod. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_LINK_H
#define EO_DAEMON_SERVER_LINK_H

#include "proto/codec.h"
#include "proto/endpoint.h"
#include "proto/message_schema.h"

struct server;
struct link;
struct segment;

struct link_callbacks {
    void *ctx;
    /* Optional: packs the params map of hello; NULL: role "peer" with our node id. */
    void (*hello)(void *ctx, struct eo_bytes *b);
    /* Connected and welcomed. result lives during the call. */
    void (*ready)(void *ctx, const struct eo_item *result);
    /* A notification of the other side; everything lives during the call. Optional. */
    void (*notification)(void *ctx, const struct eo_message_schema *m, const struct eo_item *params,
                         const uint8_t *payload, uint64_t payload_size);
    /* It ended, or never came up (UNREACHABLE, TIMED_OUT, VERSION_MISMATCH, CONNECTION_LOST, ... naming the endpoint as
     * typed). Outstanding requests were answered before. The link is freed when this returns. */
    void (*closed)(void *ctx, const struct eo_error *why);
};

/* Starts connecting; timeout_ms covers resolving, connecting and hello. Callbacks come later, never from inside. */
int link_open(struct server *s, const struct eo_endpoint *endpoint, uint64_t timeout_ms,
              const struct link_callbacks *callbacks, struct link **out, struct eo_error *err);
void link_close(
    struct link *l); /* frees; outstanding requests are answered CONNECTION_LOST first, closed does not run */

typedef void (*link_reply_fn)(void *ctx, const struct eo_error *err, const struct eo_item *result,
                              const uint8_t *payload, uint64_t payload_size);
/* Opens a request; pack exactly one map of params, then link_send. timeout_ms 0 = none. reply runs exactly once when
 * link_send returned 0. */
struct eo_bytes *link_request(struct link *l, enum eo_message m);
int link_send(struct link *l, const struct segment *segments, int n_segments, uint64_t timeout_ms, link_reply_fn reply,
              void *ctx, struct eo_error *err);
/* After ready of a hello with role "data": takes the descriptor out of the loop and frees the link. */
int link_detach(struct link *l);
bool link_is_open(const struct link *l); /* false in replies that come because it ends; closed follows those */
const struct eo_endpoint *link_endpoint(const struct link *l);

#endif
