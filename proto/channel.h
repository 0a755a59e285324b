/* A byte stream over a non-blocking descriptor: TCP and unix sockets now, TLS in the same place later (the transport
 * table below is where it plugs in). Knows nothing of event loops: callers watch fd for eo_channel_want().
 * Not thread-safe; one thread at a time. */
#ifndef EO_PROTO_CHANNEL_H
#define EO_PROTO_CHANNEL_H

#include "proto/base/error.h"
#include "proto/endpoint.h"

#include <sys/uio.h>

enum { EO_WANT_READ = 1, EO_WANT_WRITE = 2 };

struct eo_channel;

/* A transport returns bytes moved (> 0), 0 for end of stream (read only), or -1 with errno; EAGAIN sets want. */
struct eo_transport {
    const char *name;
    ssize_t (*read)(struct eo_channel *c, void *data, size_t size);
    ssize_t (*writev)(struct eo_channel *c, const struct iovec *iov, int n);
    void (*close)(struct eo_channel *c); /* optional; default closes fd */
};

struct eo_channel {
    int fd;
    int want; /* EO_WANT_* of the last call that could not go on */
    const struct eo_transport *transport;
    void *state;    /* the transport's own */
    char peer[128]; /* for messages and logs */
};

/* Takes ownership of fd; makes it non-blocking, close-on-exec and, for TCP, no-delay with keepalive 10/5/3 s and a
 * user timeout of 20 s. */
int eo_channel_init(struct eo_channel *c, int fd, struct eo_error *err);
void eo_channel_close(struct eo_channel *c); /* idempotent */
/* EO_OK with *out_n > 0, or EO_OK with *out_n == 0 and want set (would block), or CONNECTION_LOST (also at end of
 * stream, then *out_eof is true). */
int eo_channel_read(struct eo_channel *c, void *data, size_t size, size_t *out_n, bool *out_eof, struct eo_error *err);
int eo_channel_writev(struct eo_channel *c, const struct iovec *iov, int n, size_t *out_n, struct eo_error *err);

/* Blocking helpers with a deadline in eo_now_ns() terms (0 = none); TIMED_OUT names what was being done. */
int eo_channel_connect(struct eo_channel *c, const struct eo_endpoint *ep, uint64_t deadline_ns, struct eo_error *err);
int eo_channel_read_full(struct eo_channel *c, void *data, size_t size, uint64_t deadline_ns, struct eo_error *err);
int eo_channel_write_full(struct eo_channel *c, const struct iovec *iov, int n, uint64_t deadline_ns,
                          struct eo_error *err);
/* Listening socket, non-blocking, close-on-exec. TCP: exactly the address given (IPv4 or IPv6), port 0 allowed, backlog
 * 128, SO_REUSEADDR; *out_port is the bound port. unix: mode 0600, a stale socket file is replaced, a live one is
 * ADDRESS_IN_USE. */
int eo_listen(const struct eo_endpoint *ep, int *out_fd, uint16_t *out_port, struct eo_error *err);

/* eo_channel_connect tries all addresses of a name in parallel-with-stagger order (happy eyeballs, 250 ms). The name
 * lookup before that is the system resolver's and keeps its own time. Errors: UNREACHABLE, TIMED_OUT, BAD_ENDPOINT
 * (port 0); c->peer is the endpoint as typed. eo_listen: ADDRESS_IN_USE, CANNOT_CREATE, UNREACHABLE (no such name). */

#endif
