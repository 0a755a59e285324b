/* The state directory: found, made, locked, and the identity in it. */
#ifndef EO_DAEMON_SERVER_STATE_DIR_H
#define EO_DAEMON_SERVER_STATE_DIR_H

#include "proto/base/error.h"

/* Absolute path of given, or of the default when it is empty; made with mode 0700 when absent. STATE_DIR. */
int state_dir_open(const char *given, char *out, size_t size, struct eo_error *err);
/* Locks it for this process (state/lock); *out_fd holds the lock. STATE_DIR names the process that has it. */
int state_dir_lock(const char *dir, int *out_fd, struct eo_error *err);
/* The identity in state/node, made at random the first time. out has 33 bytes. */
int state_dir_node(const char *dir, char *out, struct eo_error *err);

#endif
