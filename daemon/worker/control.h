/* The control socket between everyod and a worker: a SOCK_SEQPACKET pair. Its end means: exit. Messages carry
 * descriptors (SCM_RIGHTS): the first one the shared memory, later ones data sockets with a tag. */
#ifndef EO_DAEMON_WORKER_CONTROL_H
#define EO_DAEMON_WORKER_CONTROL_H

#include "proto/base/error.h"

enum { CONTROL_FD = 3 /* in the worker */, CONTROL_TAG_MAX = 512, CONTROL_MAX_FDS = 4 };

enum control_kind {
    CONTROL_START = 'S', /* fds: ring memory, eventfd of the worker, eventfd of everyod, pool (device workers) */
    CONTROL_FDS = 'F'    /* one descriptor with a tag */
};

struct control_message {
    enum control_kind kind;
    uint8_t tag[CONTROL_TAG_MAX];
    size_t tag_size;
    int fds[CONTROL_MAX_FDS]; /* received ones are the receiver's, close-on-exec */
    int n_fds;
};

/* Never blocks: BUSY when the socket is full, WORKER_LOST when the other side is gone. Descriptors stay the sender's.
 */
int control_send(int socket, const struct control_message *m, struct eo_error *err);
/* Blocks unless the socket is non-blocking. *out_eof true at the end; BUSY when nothing is there. */
int control_receive(int socket, struct control_message *out, bool *out_eof, struct eo_error *err);

#endif
