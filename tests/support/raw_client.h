/* The protocol by hand: frames and envelopes over a blocking socket, so that tests can also say what no client library
 * would. One thread. */
#ifndef EO_TESTS_SUPPORT_RAW_CLIENT_H
#define EO_TESTS_SUPPORT_RAW_CLIENT_H

#include "proto/channel.h"
#include "proto/codec.h"
#include "proto/frame.h"
#include "proto/tensor_desc.h"

enum { RAW_TIMEOUT_MS = 30000 };

struct raw_client {
    struct eo_channel channel;
    struct eo_bytes out; /* the envelope being packed */
    uint32_t last_id;
    char session[33], secret[65];
};

struct raw_reply {
    struct eo_envelope envelope; /* type 1 or 2 */
    struct eo_error error;       /* code 0 = result */
    const struct eo_item *result;
    uint8_t *payload;
    uint64_t payload_size;
    struct eo_doc doc;
    uint8_t *bytes;
};

int raw_connect(struct raw_client *c, const struct eo_endpoint *ep, struct eo_error *err);
void raw_close(struct raw_client *c); /* idempotent */
/* hello as a client with a new session (kept in c), or attached to (session, secret) when given. */
int raw_hello(struct raw_client *c, const char *session, const char *secret, struct eo_error *err);
int raw_open(struct raw_client *c, const struct eo_endpoint *ep, struct eo_error *err); /* connect and hello */

/* Opens a request with the next id; pack exactly one map, then raw_send. */
struct eo_bytes *raw_request(struct raw_client *c, const char *method);
int raw_send(struct raw_client *c, const void *payload, size_t size, struct eo_error *err);
int raw_send_bytes(struct raw_client *c, const void *data, size_t size, struct eo_error *err); /* no frame around it */
/* The next frame. TIMED_OUT, CONNECTION_LOST; an error inside the frame is in reply->error, and the call succeeds. */
int raw_receive(struct raw_client *c, struct raw_reply *out, uint64_t timeout_ms, struct eo_error *err);
void raw_reply_fini(struct raw_reply *r);
/* Sends what was packed and waits for its answer, skipping others; returns the answer's error. reply may be NULL. */
int raw_call(struct raw_client *c, const void *payload, size_t size, struct raw_reply *out, struct eo_error *err);
/* True when the other side closes (or has closed) the connection within the time. */
bool raw_is_closed(struct raw_client *c, uint64_t timeout_ms);

/* ---- short spellings ---- */
void raw_pack_handle(struct eo_bytes *b, uint32_t slot, uint32_t generation);
int raw_ping(struct raw_client *c, struct eo_error *err);
/* float32 tensor of a shape. data NULL: nothing is uploaded. */
int raw_create(struct raw_client *c, uint32_t slot, uint32_t generation, const int64_t *shape, int n_dims,
               const float *data, struct eo_error *err);
int raw_download(struct raw_client *c, uint32_t slot, uint32_t generation, void *out, size_t size,
                 struct eo_error *err);
int raw_free(struct raw_client *c, uint32_t slot, uint32_t generation, struct eo_error *err);
/* Packs op.run of generation-1 handles; raw_send or raw_call follows. */
void raw_pack_op(struct raw_client *c, const char *op, const uint32_t *in_slots, size_t n_in, uint32_t out_slot,
                 uint32_t out_generation);

#endif
