/* The inside of a coordinator, for coordinator.c (life and end) and coordinator_reserve.c (connecting and reserving).
 */
#ifndef EO_DAEMON_SERVER_COORDINATOR_STATE_H
#define EO_DAEMON_SERVER_COORDINATOR_STATE_H

#include "daemon/server/coordinator.h"
#include "daemon/server/data_hello.h"
#include "daemon/server/link.h"
#include "daemon/server/peer_share.h"
#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"

enum {
    CONNECT_MS = 5000,
    PREPARE_MS = 60000,
    LEASE_MS = 60000,
    TICK_MS = 100,
    HEARTBEAT_MS = 500,
    HEARTBEAT_DEAD_MS = 10000,
    BETTER_CAUSE_MS = 300, /* a lost socket is often the echo of something that says more */
    ABORT_MS = 1500,       /* how long peers may take to answer an abort */
    FINISH_MS = 30000      /* how far ranks may end apart */
};

enum phase { PHASE_CONNECT, PHASE_RESERVE, PHASE_RUN, PHASE_ABORT };

struct host {
    struct coordinator *c;
    int rank;
    struct link *link; /* NULL: this daemon, or lost */
    char node[SERVER_NODE_SIZE];
    bool ready, prepared, ended;
    bool heartbeat_out;
    uint64_t heard_ms, asked_ms, progress;
    char parameters_sha256[65];
    struct peer_share *share;
};

struct coordinator {
    struct job *job;
    struct jobs *jobs;
    enum phase phase;
    int n, n_ready;
    struct host hosts[JOB_MAX_HOSTS]; /* by rank */
    int order[JOB_MAX_HOSTS];         /* ranks in the order of their node ids: everybody reserves in this order */
    int at;                           /* next in order to reserve */
    uint64_t epoch;
    uint8_t token[DATA_TOKEN_SIZE];
    bool has_slot, has_claim, local_ended;
    bool abandoned; /* the daemon ends: only the local worker's end is awaited */
    struct loop_timer *timer;
    struct eo_error cause; /* the first, or a better one that came soon after */
    uint64_t cause_ms, abort_ms, ended_ms;
    bool busy;              /* the end is a wait for a slot elsewhere, not a failure */
    struct eo_bytes result; /* packed reply of the local rank */
};

uint64_t coordinator_now_ms(void);
const char *coordinator_host(const struct coordinator *c, int rank); /* as typed */
/* The first cause wins, but one that only says "the other side is gone" gives way to one that says why. Frees nothing:
 * the end comes from the timer. */
void coordinator_fail(struct coordinator *c, const struct eo_error *err);
void coordinator_fail_host(struct coordinator *c, int rank, const struct eo_error *err); /* names the host */
/* A host has no slot: all reservations are given back and the job waits. */
void coordinator_give_up_busy(struct coordinator *c, const struct eo_error *why);
int coordinator_start_local(struct coordinator *c, struct eo_error *err);

/* coordinator_reserve.c */
int coordinator_open_links(struct coordinator *c, struct eo_error *err);
void coordinator_reserve_next(struct coordinator *c);

#endif
