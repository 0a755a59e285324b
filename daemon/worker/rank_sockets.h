/* Data sockets of one rank: it connects to all lower ranks through their daemons' port and is handed those of higher
 * ranks by its own daemon. give and abort may be called from any thread. */
#ifndef EO_DAEMON_WORKER_RANK_SOCKETS_H
#define EO_DAEMON_WORKER_RANK_SOCKETS_H

#include "distributed/collective.h"

#include <stdatomic.h>

struct rank_sockets;

int rank_sockets_new(struct rank_sockets **out, struct eo_error *err);
void rank_sockets_free(struct rank_sockets *s); /* closes what nobody took; NULL allowed */
void rank_sockets_give(struct rank_sockets *s, int fd,
                       int from_rank);           /* owns fd; unknown or repeated ranks are closed */
void rank_sockets_abort(struct rank_sockets *s); /* connect returns soon with PEER_LOST */
/* Fills fds[0..world_size-1], -1 for the own rank; the caller owns them. Gives up after 20 s naming the ranks that are
 * missing (PEER_TIMEOUT), or when *stop turns non-zero. PEER_REJECTED: the other daemon refused, its reason included.
 */
int rank_sockets_connect(struct rank_sockets *s, const struct collective_config *config, const _Atomic int *stop,
                         int *fds, struct eo_error *err);

#endif
