/* A daemon for tests of the client: one thread that accepts connections and runs a script for each, frame by frame.
 *
 * Scripts run beside the test, so they cannot assert: what they find wrong they hand to fake_complain, and
 * fake_server_stop fails the test with it. All waits of a script end after some seconds. */
#ifndef EO_TESTS_CLIENT_FAKE_SERVER_H
#define EO_TESTS_CLIENT_FAKE_SERVER_H

#include "proto/channel.h"
#include "proto/codec.h"
#include "proto/frame.h"

struct fake_server;

/* One accepted connection, as its script sees it. */
struct fake_peer {
    struct fake_server *server;
    void *ctx;  /* of fake_server_start */
    int number; /* 0 for the first connection */
    struct eo_channel channel;
    /* the request read last */
    struct eo_bytes envelope;
    struct eo_doc doc;
    struct eo_envelope request;
    struct eo_bytes payload;
    struct eo_bytes out; /* a reply being packed */
};

typedef void (*fake_script)(struct fake_peer *p);

/* The endpoint is 127.0.0.1 with a port of the kernel's. */
struct fake_server *fake_server_start(fake_script script, void *ctx);
const struct eo_endpoint *fake_server_endpoint(const struct fake_server *s);
void fake_server_stop(struct fake_server *s); /* waits for the script; fails the test when it complained */

/* ---- for scripts ---- */
void fake_complain(struct fake_peer *p, const char *fmt, ...) EO_PRINTF(2, 3);
/* Reads one request; false at the end of the connection. method NULL takes any, else another one is a complaint. */
bool fake_read(struct fake_peer *p, const char *method);
/* Reads hello and answers it; pending as limits.pending. */
bool fake_hello(struct fake_peer *p, uint32_t pending);
struct eo_bytes *fake_result(struct fake_peer *p, uint32_t id); /* one map has to follow */
struct eo_bytes *fake_event(struct fake_peer *p, const char *method);
void fake_send(struct fake_peer *p, const void *payload, size_t size); /* what was begun by one of the two above */
void fake_ok(struct fake_peer *p, uint32_t id);                        /* an empty result */
void fake_fail(struct fake_peer *p, uint32_t id, int code, const char *message);
void fake_raw(struct fake_peer *p, const void *data, size_t size);
/* Until the client closes; what it sends meanwhile is dropped. */
void fake_wait_closed(struct fake_peer *p);

#endif
