/* A job on several hosts, seen from the one that coordinates: reserves everywhere or nowhere in the order of node ids,
 * shares the data, starts all ranks, watches all of them, ends with the first cause. */
#ifndef EO_DAEMON_SERVER_COORDINATOR_H
#define EO_DAEMON_SERVER_COORDINATOR_H

#include "daemon/server/jobs.h"

/* Takes the job (state starting). The slot of this host is taken when its turn comes. Ends in job_run_ended, or puts
 * the job back into the queue with a reason and a time to wait when a host has no free slot. */
int coordinator_start(struct job *j, struct eo_error *err);
void coordinator_stop(struct coordinator *c, int stop); /* 1 cancel, 2 drain */
void coordinator_abandon(struct coordinator *c);        /* the daemon ends: lets all go at once */
/* A data socket from another rank arrived for the local rank. */
int coordinator_data_hello(struct coordinator *c, struct request *r, struct eo_error *err);

#endif
