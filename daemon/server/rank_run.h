/* One rank of a job on this host: a worker process that runs the trainer. Used for jobs of one host, for the
 * coordinator's own rank and for members alike. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_RANK_RUN_H
#define EO_DAEMON_SERVER_RANK_RUN_H

#include "daemon/jobs/job.h"
#include "proto/codec.h"

#include <sys/types.h>

struct server;
struct rank_run;

struct rank_config {
    const struct job_record *record; /* id, spec, files, hosts; rank 0 also resume and resume_files */
    const char *dir;                 /* the job's folder, made when it is not there */
    int rank, world_size;
    uint64_t epoch;
    const uint8_t *token; /* 32 bytes when world_size > 1 */
};

struct rank_callbacks {
    void *ctx;
    void (*ready)(void *ctx);                                  /* the worker lives and takes descriptors */
    void (*started)(void *ctx, const struct eo_item *params);  /* report.ready: the device is open */
    void (*progress)(void *ctx, const struct eo_item *params); /* report.progress */
    void (*log)(void *ctx, const char *text, size_t length);   /* report.log, one line */
    /* Exactly once, when the worker process is gone. err NULL: result is the reply of task.job. The run frees itself;
     * its pointer is not used any more. */
    void (*finished)(void *ctx, const struct eo_error *err, const struct eo_item *result);
};

/* Makes the job's folder on another thread, starts the worker and, when its rank needs no peers, the job; with peers
 * the job starts by rank_run_go. Rank 0 goes on from the newest checkpoint in its folder when there is one, else from
 * where the record says. Failures before the worker lives also come through finished; nothing is called from inside. */
int rank_run_start(struct server *s, const struct rank_config *config, const struct rank_callbacks *callbacks,
                   struct rank_run **out, struct eo_error *err);
void rank_run_go(struct rank_run *r);
/* The next three may call finished before they return when no worker has been started yet. */
void rank_run_stop(struct rank_run *r, int stop); /* 1 cancel, 2 drain: with a checkpoint */
/* The collective fails with cause, which is what finished is told; the worker is killed when it does not end soon. */
void rank_run_abort(struct rank_run *r, const struct eo_error *cause);
void rank_run_abandon(struct rank_run *r); /* the daemon ends: the worker is to go, whatever it does */
int rank_run_pass_fd(struct rank_run *r, int fd, int from_rank, struct eo_error *err); /* fd stays the caller's */
pid_t rank_run_pid(const struct rank_run *r);                                          /* 0 = not started */
uint64_t rank_run_progress(const struct rank_run *r); /* bytes moved by collectives, as last reported */

#endif
