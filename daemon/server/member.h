/* A rank that this host runs for another host's job. Created by peer.prepare, bound to the connection it came over:
 * ends with its rank, an abort, or the loss of that connection. */
#ifndef EO_DAEMON_SERVER_MEMBER_H
#define EO_DAEMON_SERVER_MEMBER_H

#include "daemon/server/jobs.h"

int member_prepare(struct jobs *js, struct request *r, struct eo_error *err); /* peer.prepare; answers later */
int member_connect(struct jobs *js, struct request *r, struct eo_error *err); /* peer.connect */
int member_heartbeat(struct jobs *js, struct request *r, struct eo_error *err);
int member_abort(struct jobs *js, struct request *r, struct eo_error *err);
/* This daemon ends: tells the coordinator through the rank's end. The job may be forgotten when this returns. */
void member_drain(struct member *m);
int member_data_hello(struct member *m, struct request *r, struct eo_error *err);

#endif
