/* A rank that this host runs for another host's job. Created by peer.prepare, ends with its rank, an abort, or the loss
 * of the coordinator's connection. */
#ifndef EO_DAEMON_SERVER_MEMBER_H
#define EO_DAEMON_SERVER_MEMBER_H

#include "daemon/server/jobs.h"

int member_prepare(struct jobs *js, struct request *r, struct eo_error *err); /* peer.prepare; answers later */
int member_connect(struct jobs *js, struct request *r, struct eo_error *err); /* peer.connect */
int member_heartbeat(struct jobs *js, struct request *r, struct eo_error *err);
int member_abort(struct jobs *js, struct request *r, struct eo_error *err);
void member_drain(struct member *m); /* this daemon ends: tells the coordinator through the rank's end */
int member_data_hello(struct member *m, struct request *r, struct eo_error *err);
void member_free(struct member *m); /* with its job; NULL allowed */

#endif
