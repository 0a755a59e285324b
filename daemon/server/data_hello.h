/* A data socket of another rank arrives at this daemon's port: checked, answered, and passed to the rank's worker. */
#ifndef EO_DAEMON_SERVER_DATA_HELLO_H
#define EO_DAEMON_SERVER_DATA_HELLO_H

#include "daemon/server/jobs.h"

enum { DATA_TOKEN_SIZE = 32 };

struct data_expectation {
    uint64_t epoch;
    const uint8_t *token; /* DATA_TOKEN_SIZE bytes */
    int rank, world_size; /* the rank that runs here */
};

/* PEER_REJECTED with the reason as its first word: STALE_EPOCH, AUTH, WRONG_RANK. */
int data_hello_accept(struct job *j, const struct data_expectation *e, struct request *r, struct eo_error *err);

#endif
