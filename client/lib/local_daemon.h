/* A private daemon: everyod on a 0600 unix socket in a fresh directory, dying with its parent. */
#ifndef EO_CLIENT_LIB_LOCAL_DAEMON_H
#define EO_CLIENT_LIB_LOCAL_DAEMON_H

#include "proto/endpoint.h"

struct eo_local_daemon;

/* Looks for everyod beside the running program, then beside the library's configured bindir, then in PATH. Waits until
 * the daemon is ready (10 s). State lives in the private directory and is removed by stop. */
int eo_local_daemon_start(struct eo_local_daemon **out, struct eo_endpoint *out_endpoint, struct eo_error *err);
void eo_local_daemon_stop(struct eo_local_daemon *d); /* SIGTERM, waits, then SIGKILL after 5 s; NULL allowed */
int eo_local_daemon_pid(const struct eo_local_daemon *d);

#endif
