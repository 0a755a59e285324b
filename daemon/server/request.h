/* The inside of requests, for connection.c, dispatch.c and request.c. */
#ifndef EO_DAEMON_SERVER_REQUEST_H
#define EO_DAEMON_SERVER_REQUEST_H

#include "daemon/server/server.h"
#include "daemon/server/stream.h"
#include "daemon/server/tensor.h"
#include "proto/codec.h"

enum {
    REQUEST_BUFFERED_MAX = 32 << 20 /* payloads held by one connection's requests */,
    SERVER_BUFFERED_MAX = 512 << 20 /* and by all */
};

struct request_private {
    uint32_t n_refs;
    struct request *next_out, **link_out; /* unanswered, of the connection */
    struct request *next_inbox;           /* session.c */
    struct eo_doc doc;
    uint8_t *envelope;
    int type; /* of the envelope */
    char method[48];
    bool answered, counted;
    struct eo_error *refusal; /* decided before the payload came */
    struct poison *cause;     /* an input failed: what poisons the outputs, so that the first cause is kept */
    uint64_t buffered;        /* counted in the connection's and the server's sums */
    struct connection *buffered_by;
    struct tensor *sink; /* tensor the payload goes to; in use and referenced */
    uint64_t sink_offset, received;
    void (*on_close)(struct request *r, void *ctx);
    void *on_close_ctx;
};

struct connection {
    struct connection *next, **link;
    uint32_t n_refs; /* of memory: the stream, and requests that count buffers */
    struct server *server;
    struct stream stream;
    enum connection_role role;
    char node[SERVER_NODE_SIZE];
    char advertise[300];
    struct session *session;
    struct request *unanswered;
    uint32_t n_unanswered;
    uint64_t buffered_bytes;
    struct request *incoming; /* whose payload is being received */
    struct connection_waiter *waiters;
    struct connection_hook *hooks;
    struct tensor_waiter place_waiter; /* place() waits for a tensor, a device or the inbox */
    bool place_waits, wants_buffer, closed, close_when_flushed;
    struct eo_error *close_why;
    void (*detach)(void *ctx, int fd, const struct eo_error *err);
    void *detach_ctx;
};

int connection_accept(struct server *s, const struct eo_channel *channel, struct eo_error *err); /* takes it over */
void connections_close_all(struct server *s);
void connection_close_flushed(struct connection *c); /* after what is queued has been sent */
void connection_buffer_freed(struct server *s);      /* somebody may go on receiving */
void connection_unref(struct connection *c);
/* A waiter that asks for the payload's place again when it fires; put it into exactly one list. */
struct tensor_waiter *connection_place_waiter(void *connection);

/* Makes a request of an envelope (bytes are taken over). */
struct request *request_new(struct connection *c, struct eo_bytes *envelope, struct eo_error *err);
void request_refuse(struct request *r, const struct eo_error *err); /* to be answered once the payload was read over */
void request_detach(struct request *r);                             /* its connection goes away */

/* dispatch.c */
void dispatch_envelope(struct connection *c, struct request *r, uint64_t payload_size);
enum stream_place dispatch_place(struct connection *c, struct request *r, uint64_t payload_size, uint8_t **out_data);
void dispatch_frame(struct connection *c, struct request *r);
bool dispatch_run(struct request *r); /* the handler, and the answer when it fails; false: it is to be run again */
uint64_t dispatch_max_payload(void);

/* Where a payload that belongs into a tensor goes (handlers/tensor.c): an error refuses the request. With STREAM_WAIT,
 * waiter(r->conn) stands in a list. */
int tensor_place(struct request *r, uint64_t payload_size, waiter_fn waiter, enum stream_place *out_place,
                 uint8_t **out_data, struct eo_error *err);

#endif
