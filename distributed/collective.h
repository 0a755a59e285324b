/* The engine table: how bytes are reduced between ranks. The control plane (process_group.h) sits above it, so every
 * engine gets identities, fingerprints, votes and aborts. All calls belong to one thread, except abort (any thread,
 * idempotent). */
#ifndef EO_DISTRIBUTED_COLLECTIVE_H
#define EO_DISTRIBUTED_COLLECTIVE_H

#include "proto/base/error.h"
#include "proto/dtype.h"

enum { COLLECTIVE_ABI = 1, COLLECTIVE_MAX_RANKS = 64 };

enum collective_reduce { COLLECTIVE_SUM, COLLECTIVE_MIN, COLLECTIVE_MAX };
enum collective_kind { COLLECTIVE_ALL_REDUCE, COLLECTIVE_BROADCAST, COLLECTIVE_BARRIER };

/* What the coordinator decided for one epoch of one job. */
struct collective_config {
    uint8_t job[16];   /* 128-bit random id */
    uint64_t epoch;    /* counter; wrong epochs are refused explicitly */
    uint8_t token[32]; /* secret of this epoch, proves membership on data sockets */
    int rank, world_size;
    char hosts[COLLECTIVE_MAX_RANKS][300]; /* as the user typed them; for messages */
    uint64_t deadline_ms;                  /* no-progress deadline per collective, default 30 s */
};

struct collective_comm;
/* A row of engines.def. A call that failed has failed for good: every later one returns the first cause. */
struct collective_engine {
    uint32_t abi;
    uint32_t version; /* of the bytes on the wire; equal on all ranks */
    const char *name; /* "tcp" */
    const char *summary;
    const char *stability; /* "stable" or "experimental" */
    const char *since;
    /* fds[r]: connected, authenticated stream socket to rank r (-1 for the own rank); ownership passes on success. */
    int (*open)(const struct collective_config *config, const int *fds, struct collective_comm **out,
                struct eo_error *err);
    /* In place on data. rank-order mode: every element is summed in rank order 0..n-1 with one rounding per addition in
     * the element's own type (float16/bfloat16 in float32), so all ranks get equal bits for any chunking. Errors:
     * PEER_LOST, PEER_TIMEOUT, COLLECTIVE_MISMATCH (both fingerprints), each naming the host. */
    int (*all_reduce)(struct collective_comm *c, void *data, uint64_t count, enum eo_dtype dtype,
                      enum collective_reduce reduce, struct eo_error *err);
    /* Root's bytes to everybody. Like all_reduce and barrier it returns only after all ranks have entered it. */
    int (*broadcast)(struct collective_comm *c, void *data, uint64_t bytes, int root, struct eo_error *err);
    int (*barrier)(struct collective_comm *c, struct eo_error *err);
    void (*abort)(struct collective_comm *c, const struct eo_error *cause); /* waiters return within 1 s */
    void (*close)(struct collective_comm *c); /* no other call, abort included, may be running or follow */
    uint64_t (*progress_bytes)(const struct collective_comm *c); /* counter for heartbeats; any thread */
};

int collective_engine_count(void);
const struct collective_engine *collective_engine_at(int i);
const struct collective_engine *collective_engine_find(const char *name);

#endif
