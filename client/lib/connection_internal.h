/* What the files of a connection share: connection.c keeps the requests, connection_io.c moves the bytes,
 * connection_open.c says hello. */
#ifndef EO_CLIENT_LIB_CONNECTION_INTERNAL_H
#define EO_CLIENT_LIB_CONNECTION_INTERNAL_H

#include "client/lib/connection.h"
#include "proto/frame.h"

#include <sys/types.h>

enum {
    EO_CONNECTION_OPEN_MAX = 1024,          /* requests whose reply has not been taken; a power of two */
    EO_CONNECTION_REPLY_MAX = EO_CHUNK_MAX, /* payload of a reply or event: bulk comes in chunks */
};

enum eo_pending_use {
    EO_PENDING_AWAITED,   /* somebody will call eo_connection_wait */
    EO_PENDING_DEFERRED,  /* a failure becomes the deferred error */
    EO_PENDING_ABANDONED, /* its wait timed out: whatever comes is dropped */
};

/* A request that has no reply yet, or whose reply nobody has taken. It lies at id % EO_CONNECTION_OPEN_MAX; id 0 marks
 * a free slot. */
struct eo_pending {
    uint32_t id;
    enum eo_pending_use use;
    bool arrived;
    struct eo_reply reply;
    struct eo_error *failure; /* heap; NULL when it succeeded */
    char method[32];
};

enum eo_in_stage { EO_IN_HEADER, EO_IN_ENVELOPE, EO_IN_PAYLOAD };

struct eo_connection {
    struct eo_channel channel;
    struct eo_endpoint endpoint;
    struct eo_connection_options options;
    struct eo_server_facts facts;
    pid_t owner; /* a fork's child must not touch the socket */
    uint32_t next_id;
    struct eo_pending *pending; /* EO_CONNECTION_OPEN_MAX slots */
    uint32_t n_unanswered;      /* on their way */
    uint32_t n_deferred;        /* of these, DEFERRED ones */
    /* not yet written: out from out_at on, then the tail, which is the caller's payload */
    struct eo_bytes out;
    size_t out_at;
    const uint8_t *tail;
    size_t tail_size;
    /* the frame being read */
    enum eo_in_stage stage;
    uint8_t header[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header in;
    size_t got;
    struct eo_bytes envelope;
    struct eo_bytes payload;
    uint8_t *payload_at; /* where payload bytes go: the waiter's buffer or payload.data */
    struct eo_doc doc;
    struct eo_envelope parsed;
    /* the wait in progress */
    uint32_t wait_id;
    uint8_t *wait_into;
    size_t wait_size;
    bool direct; /* the current payload goes to wait_into */
    eo_event_fn on_event;
    void *event_ctx;
    struct eo_error deferred;
    struct eo_error broken; /* once set, every call fails with it */
};

/* ---- connection.c ---- */
struct eo_pending *eo_connection_find(const struct eo_connection *c, uint32_t id);
/* A response has come completely: c->parsed, c->doc, c->payload. */
int eo_connection_deliver(struct eo_connection *c, struct eo_error *err);

/* ---- connection_io.c ---- */
/* Waits for the socket once, then moves bytes both ways, so that what is left to write is less or what was awaited is
 * here; returns at EINTR too. deadline_ns 0 = no limit. TIMED_OUT
 * leaves the connection usable, everything else breaks it. what is for the message. */
int eo_connection_step(struct eo_connection *c, uint64_t deadline_ns, const char *what, struct eo_error *err);
int eo_connection_send(struct eo_connection *c, const struct eo_bytes *envelope, const void *payload, size_t size,
                       struct eo_error *err);
/* The end of the longest silence from now on; 0 when there is no limit. */
uint64_t eo_connection_deadline(const struct eo_connection *c);
/* Every later call fails with cause. Returns its code. */
int eo_connection_break(struct eo_connection *c, const struct eo_error *cause, struct eo_error *err);

#endif
