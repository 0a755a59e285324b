/* The 48-byte header in front of everything on a data socket, little-endian:
 *
 *    0 u32 magic "EOCH"   4 u8 type   5 u8 kind   6 u8 reduce   7 u8 dtype
 *    8 u64 epoch         16 u64 seq  24 u64 count
 *   32 u64 offset        40 u32 length            44 u8 phase  45 u8 root  46 u16 zero
 *
 * A data chunk carries the whole fingerprint of its collective, so that a wrong epoch, a skipped collective or another
 * count is found before a byte of data is used and both ends can show both fingerprints. */
#ifndef EO_DISTRIBUTED_ENGINES_TCP_CHUNK_H
#define EO_DISTRIBUTED_ENGINES_TCP_CHUNK_H

#include "distributed/collective.h"

enum {
    TCP_CHUNK_HEADER = 48,
    TCP_CHUNK_MAX = 1 << 20,      /* payload bytes of one data chunk */
    TCP_CHUNK_ABORT_MAX = 4 << 10 /* payload bytes of an abort: an eo_error as a msgpack map */
};

enum tcp_chunk_type {
    TCP_CHUNK_DATA = 1,
    TCP_CHUNK_PING,  /* are you there? Sent by a rank that waits too long. */
    TCP_CHUNK_PONG,  /* I am in a collective and waiting too */
    TCP_CHUNK_ABORT, /* the first cause; nothing follows */
    TCP_CHUNK_TYPES
};

enum tcp_phase {
    TCP_PHASE_OPEN,   /* no payload: only the fingerprint */
    TCP_PHASE_INPUT,  /* the sender's operand, for the receiver to combine */
    TCP_PHASE_RESULT, /* final bytes, received in place */
    TCP_PHASES
};

struct tcp_fingerprint {
    uint64_t epoch;
    uint64_t seq;   /* collectives of this epoch, from 1 */
    uint64_t count; /* elements; bytes for a broadcast */
    uint8_t kind;   /* enum collective_kind */
    uint8_t reduce; /* enum collective_reduce */
    uint8_t dtype;  /* enum eo_dtype */
    uint8_t root;
};

struct tcp_chunk {
    uint8_t type, phase;
    uint32_t length; /* payload bytes that follow */
    uint64_t offset; /* bytes from the start of the collective's data */
    struct tcp_fingerprint print;
};

void tcp_chunk_encode(const struct tcp_chunk *chunk, uint8_t out[TCP_CHUNK_HEADER]);
/* Every field within its range and no payload over its limit, or false and why (a constant phrase). */
bool tcp_chunk_decode(const uint8_t in[TCP_CHUNK_HEADER], struct tcp_chunk *out, const char **why);

bool tcp_fingerprint_equal(const struct tcp_fingerprint *a, const struct tcp_fingerprint *b);
/* "all_reduce 12 of epoch 3 (sum of 1000 float32)", "broadcast 7 of epoch 3 (64 bytes from rank 0)", "barrier 9 of
 * epoch 3" */
char *tcp_fingerprint_text(const struct tcp_fingerprint *print, char *out, size_t size); /* returns out */

#endif
