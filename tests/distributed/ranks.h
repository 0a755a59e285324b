/* Several ranks in one test: a full mesh of connected sockets, one communicator and one thread per rank. Assertions
 * belong to the main thread; rank functions report through their struct rank. */
#ifndef EO_TESTS_DISTRIBUTED_RANKS_H
#define EO_TESTS_DISTRIBUTED_RANKS_H

#include "distributed/engines/tcp.h"

enum { RANKS_MAX = 8 };
enum ranks_mesh { RANKS_UNIX, RANKS_TCP };

struct rank {
    int rank, world_size;
    struct collective_comm *comm; /* NULL when opened with ranks_connect only */
    int fds[COLLECTIVE_MAX_RANKS];
    struct collective_config config;
    const void *arg;
    int code; /* what the rank's function returned */
    struct eo_error err;
    uint64_t elapsed_ns;
    uint64_t hash; /* of a result, for comparing ranks */
};

struct ranks {
    int n;
    struct rank rank[RANKS_MAX];
};

typedef int (*rank_fn)(struct rank *r, struct eo_error *err);

extern const struct collective_engine *ranks_engine; /* "tcp" */

/* All end the program with a message when the machine refuses. Host r is named "node-r:17743". */
struct ranks *ranks_connect(int n, enum ranks_mesh mesh, uint64_t deadline_ms);
struct ranks *ranks_open(int n, enum ranks_mesh mesh, uint64_t deadline_ms, const struct tcp_tuning *tuning);
void ranks_close(struct ranks *g); /* what is still open */
void ranks_close_rank(struct rank *r);
/* Runs fn for every rank at the same time and waits for all; arg reaches them as r->arg. */
void ranks_run(struct ranks *g, rank_fn fn, const void *arg);

#endif
