/* Connections and requests of everyod: what a handler needs to answer.
 *
 * A request outlives its connection: handlers keep it with request_ref and answer later, from the loop's thread; when
 * the connection has gone meanwhile, conn is NULL and answers go nowhere. Exactly one answer per request; letting the
 * last reference go without one answers INTERNAL.
 *
 * Everything here belongs to the loop's thread. */
#ifndef EO_DAEMON_SERVER_CONNECTION_H
#define EO_DAEMON_SERVER_CONNECTION_H

#include "proto/base/bytes.h"
#include "proto/codec.h"
#include "proto/message_schema.h"

struct server;
struct connection;
struct session;

enum connection_role { ROLE_NONE /* before hello */, ROLE_CLIENT, ROLE_PEER };

/* A piece of payload that is sent where it lies. release (optional) runs exactly once: when the bytes were sent or
 * never will be. */
struct segment {
    const void *data;
    uint64_t size;
    void (*release)(void *ctx);
    void *ctx;
};
void segment_free_data(void *ctx); /* a release for memory from malloc: ctx is the memory */

struct request {
    uint32_t id;
    const struct eo_message_schema *schema;
    struct server *server;
    struct connection *conn;      /* NULL once it is closed */
    struct session *session;      /* the attached one (kept alive by the request); NULL for rows that need none */
    const struct eo_item *params; /* a map; lives as long as the request */
    uint8_t *payload;             /* all of it, when the row allows payload and it went to no tensor; else NULL */
    uint64_t payload_size;
    void *user; /* the handler's own */
    struct request_private *private_;
};

struct request *request_ref(struct request *r);
void request_unref(struct request *r);
/* Takes the payload over; free it with free(). */
uint8_t *request_take_payload(struct request *r);

/* Answering. request_result opens the reply; pack exactly one map into it, then call one of the senders before anything
 * else of the connection (the buffer is shared). Works, and does nothing, when the connection has gone. */
struct eo_bytes *request_result(struct request *r);
void request_send(struct request *r);
void request_send_payload(struct request *r, const struct segment *segments, int n_segments);
void request_ok(struct request *r); /* an empty map */
void request_fail(struct request *r, const struct eo_error *err);
bool request_answered(const struct request *r);
/* Runs once when the connection goes away before the answer; conn is NULL by then. One per request. */
void request_on_close(struct request *r, void (*fn)(struct request *r, void *ctx), void *ctx);
/* Sends the reply that was packed and, once it is out, hands the descriptor over: the connection ends without closing
 * it. Bytes that came meanwhile end the connection instead (fd -1, why in err). For hello with role "data". */
void request_send_and_detach(struct request *r, void (*fn)(void *ctx, int fd, const struct eo_error *err), void *ctx);

/* Notifications. Open, pack exactly one map of params, then connection_send. */
struct eo_bytes *connection_notification(struct connection *c, enum eo_message m);
void connection_send(struct connection *c, const struct segment *segments, int n_segments);

/* Back-pressure: a sender of streams (watches, downloads) stops while the connection is congested and goes on in
 * `drained`. A connection whose queue grows past the hard limit, or moves nothing for the write time-out, is closed. */
bool connection_congested(const struct connection *c);
struct connection_waiter {
    struct connection_waiter *next, **link; /* the connection's; link NULL = not waiting */
    void (*drained)(void *ctx);
    void *ctx;
};
void connection_wait_drained(struct connection *c, struct connection_waiter *w); /* once; dropped when it closes */
void connection_forget_waiter(struct connection_waiter *w);                      /* idempotent */

/* Told when the connection goes away, after its requests were. For what a connection stands for beyond its requests. */
struct connection_hook {
    struct connection_hook *next, **link; /* the connection's; link NULL = not hooked */
    void (*closed)(void *ctx);            /* unhooked before; may free the hook */
    void *ctx;
};
void connection_hook(struct connection *c, struct connection_hook *h);
void connection_unhook(struct connection_hook *h); /* idempotent */

enum connection_role connection_role(const struct connection *c);
const char *connection_peer(const struct connection *c);                 /* "127.0.0.1:4711", for logs */
const char *connection_peer_node(const struct connection *c);            /* node id a peer gave in hello, "" else */
const char *connection_peer_advertise(const struct connection *c);       /* address a peer gave, "" else */
void connection_close(struct connection *c, const struct eo_error *why); /* why NULL = orderly; logged at debug */

#endif
