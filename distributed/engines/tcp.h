/* The built-in engine over one connected stream socket per peer.
 *
 * Everything happens in the thread that calls a collective: sockets are non-blocking and watched by one poll. A
 * collective is described by byte ranges ("spans") of the caller's data, per peer and direction:
 *
 *   input   operands for the owner of a slice, received into a ring of slots, combined in rank order
 *   result  final bytes, received in place
 *
 *   direct (2 ranks, or small)    every rank owns the whole array and gets everybody's input; no results
 *   reduce-scatter + all-gather   rank r owns slice r, gets its inputs, sends each finished segment to everybody
 *   broadcast                     the root's data are results; no inputs
 *   barrier                       nothing but fingerprints
 *
 * Both spans of a direction are cut into chunks of the same size, sent in order on one socket, results before inputs.
 * Every rank sends every peer at least one header per collective, so nobody leaves before all have entered.
 * Why nothing can block for ever: the contributor that is furthest behind always has a free slot at the owner, and
 * nobody waits for the network in order to send. */
#ifndef EO_DISTRIBUTED_ENGINES_TCP_H
#define EO_DISTRIBUTED_ENGINES_TCP_H

#include "distributed/engines/rank_reduce.h"
#include "distributed/engines/tcp_chunk.h"
#include "proto/base/bytes.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    TCP_INBOX = TCP_CHUNK_HEADER + (16 << 10) + TCP_CHUNK_HEADER, /* a whole small message and the header behind it */
    TCP_SLOTS = 2,                                                /* segments in flight per contributor */
    TCP_FLUSH_MS = 300                                            /* for telling the peers why we give up */
};

/* Equal on all ranks. Results do not depend on it (tests prove that); only tests use other values. */
struct tcp_tuning {
    uint32_t chunk_bytes;  /* a multiple of 64, at most TCP_CHUNK_MAX */
    uint64_t direct_bytes; /* up to this size every rank sends all to all */
    bool direct_pair;      /* two ranks exchange directly at any size */
};
extern const struct tcp_tuning tcp_tuning_default;

struct tcp_span {
    uint64_t begin, next, end; /* bytes [begin, next) are done, [next, end) still to do */
};

struct tcp_peer {
    int fd;
    int rank;
    uint8_t *slots; /* TCP_SLOTS * chunk_bytes */

    /* Receiving. The inbox holds bytes that were read and not yet looked at. */
    bool opened;   /* its fingerprint was seen in this collective */
    bool readable; /* poll says so */
    bool
        parked; /* the chunk at the head of the inbox has to wait: no free slot, or it belongs to the next collective */
    bool skipping; /* its data are worthless now; only an abort and the end of the stream count */
    bool dry;      /* the last read found nothing */
    bool eof;
    struct tcp_span input_in, result_in; /* next: completely received */
    uint8_t *payload;                    /* where the current chunk goes; NULL = nowhere */
    uint32_t payload_left, payload_size;
    uint8_t payload_phase;
    size_t inbox_begin, inbox_end;
    uint8_t inbox[TCP_INBOX];

    /* Sending. */
    bool open_sent;                        /* a header of this collective was queued */
    bool blocked;                          /* the socket takes no more for now */
    bool told;                             /* the abort was queued */
    bool deaf;                             /* an abort can no longer reach it */
    struct tcp_span input_out, result_out; /* next: completely handed to the kernel */
    uint8_t header[TCP_CHUNK_HEADER];
    const uint8_t *out;
    size_t header_left, out_left;
    uint32_t out_size;
    uint8_t out_type, out_phase;
    bool ping_due, pong_due;
    uint64_t answered_in; /* the stall in which it last showed that it waits too */
};

struct collective_comm {
    struct collective_config config;
    struct tcp_tuning tuning;
    int n_peers;
    struct tcp_peer *peers; /* in the order rank+1, rank+2, ... so that not everybody begins with rank 0 */
    struct pollfd *polled;  /* n_peers + 1; the last is wake_fd */
    uint8_t *scratch;

    /* Held during a collective; abort takes it only when it is free. Order: io before cause_lock. */
    pthread_mutex_t io;
    pthread_mutex_t cause_lock; /* guards abort_cause */
    struct eo_error abort_cause;
    _Atomic bool abort_requested;
    int wake_fd; /* eventfd that ends the poll */
    _Atomic uint64_t progress;

    /* Under io. */
    bool failed;
    struct eo_error cause;       /* the first one */
    struct eo_bytes abort_frame; /* what the peers are told */

    /* The collective that runs, or the last one. */
    struct tcp_fingerprint print;
    uint8_t *data;
    uint64_t element_bytes;
    rank_reduce_fn combine;
    struct tcp_span own; /* the slice that this rank combines; next: finished */
    uint64_t ready;      /* results may be sent up to here */
    bool direct;         /* inputs are sent from the array that is overwritten */
    bool small;          /* one chunk per peer: latency counts */
    uint64_t last_progress_ns;
    uint64_t stall; /* counts the times between two bytes of progress */
    bool pinged;    /* in this stall the peers were asked whether they are there */

    uint64_t spin_max_ns, spin_ns; /* adaptive spin before a blocking poll, for small messages */
};

/* Inside, err is never NULL. */

/* tcp.c */
int tcp_open_tuned(const struct collective_config *config, const int *fds, const struct tcp_tuning *tuning,
                   struct collective_comm **out, struct eo_error *err);

/* tcp_peer.c: one step of one socket; never blocks. */
struct tcp_peer *tcp_peer_of_rank(const struct collective_comm *c, int rank); /* NULL for the own rank */
int tcp_peer_receive(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err);
int tcp_peer_send(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err);
int tcp_peer_flush(struct collective_comm *c, struct tcp_peer *p); /* what is queued; 0, EAGAIN or the errno */
bool tcp_peer_wants_read(const struct tcp_peer *p);
bool tcp_peer_wants_write(const struct collective_comm *c, const struct tcp_peer *p);
bool tcp_peer_received_all(const struct tcp_peer *p);
bool tcp_peer_sent_all(const struct tcp_peer *p);

/* tcp_exchange.c: runs one collective over bytes of c->data; print, data, element_bytes and combine are set. */
int tcp_exchange_run(struct collective_comm *c, uint64_t bytes, struct eo_error *err);

/* tcp_abort.c: the ways in which a collective ends for all. The raising functions return the code. */
int tcp_abort_raise_lost(const struct collective_comm *c, const struct tcp_peer *p, int errnum, struct eo_error *err);
int tcp_abort_raise_mismatch(const struct collective_comm *c, const struct tcp_peer *p,
                             const struct tcp_fingerprint *theirs, struct eo_error *err);
int tcp_abort_raise_bad_chunk(const struct collective_comm *c, const struct tcp_peer *p, struct eo_error *err,
                              const char *fmt, ...) EO_PRINTF(4, 5);
int tcp_abort_raise_timeout(const struct collective_comm *c, struct eo_error *err);
int tcp_abort_raise_requested(struct collective_comm *c, struct eo_error *err); /* the cause that abort was given */
int tcp_abort_raise_received(const struct collective_comm *c, const struct tcp_peer *p, const uint8_t *body,
                             size_t size, struct eo_error *err);
/* Makes cause the first cause and tells the peers, for at most TCP_FLUSH_MS. io is held. */
void tcp_abort_fail(struct collective_comm *c, const struct eo_error *cause);

#endif
