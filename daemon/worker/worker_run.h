/* The inside of the worker program. */
#ifndef EO_DAEMON_WORKER_WORKER_RUN_H
#define EO_DAEMON_WORKER_WORKER_RUN_H

#include "daemon/worker/worker.h"

/* Serves commands until everyod ends it; returns the exit status when it cannot. w holds what the command line said. */
int worker_run(struct worker *w);
void worker_pack_device(struct eo_bytes *b, const struct eo_device *dev); /* the map of report.ready and task.facts */

#endif
