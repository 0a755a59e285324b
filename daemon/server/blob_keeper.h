/* Keeps the uploaded data of the state directory within blob-limit (jobs/blobs_trim.h), on a file thread, some time
 * after there was more of it. Data of jobs that wait or run, and of models, stay. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_BLOB_KEEPER_H
#define EO_DAEMON_SERVER_BLOB_KEEPER_H

#include "proto/base/error.h"

struct server;

int blob_keeper_init(struct server *s, struct eo_error *err);
void blob_keeper_fini(struct server *s); /* after the loop has settled */
void blob_keeper_wake(struct server *s); /* there is more than before; cheap */

#endif
