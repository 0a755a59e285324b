/* Brings the data files of a job to another daemon by content: asks what it has, sends what is missing. */
#ifndef EO_DAEMON_SERVER_PEER_SHARE_H
#define EO_DAEMON_SERVER_PEER_SHARE_H

#include "daemon/jobs/job.h"

struct server;
struct link;
struct peer_share;

/* err NULL: all are there; sent is the bytes that travelled. Runs once, not after peer_share_free; the share frees
 * itself. */
typedef void (*peer_share_fn)(void *ctx, const struct eo_error *err, uint64_t sent);
int peer_share_start(struct server *s, struct link *link, const struct job_file_ref *files, int n_files,
                     peer_share_fn done, void *ctx, struct peer_share **out, struct eo_error *err);
void peer_share_free(struct peer_share *p); /* gives up; before the link is freed; NULL allowed */

#endif
