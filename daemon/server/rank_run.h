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
    const char *job; /* id */
    const char *spec;
    const struct job_file_ref *files;
    int n_files;
    const char *resume; /* "", "auto" (newest checkpoint of this job), or the id of another job of this host */
    int rank, world_size;
    const char (*hosts)[300]; /* world_size entries when world_size > 1 */
    uint64_t epoch;
    const uint8_t *token; /* 32 bytes when world_size > 1 */
};

struct rank_callbacks {
    void *ctx;
    void (*ready)(void *ctx);                                  /* the worker lives and takes descriptors */
    void (*started)(void *ctx, const struct eo_item *params);  /* report.ready: the device is open */
    void (*progress)(void *ctx, const struct eo_item *params); /* report.progress */
    void (*log)(void *ctx, const char *text, size_t length);   /* one line without its end */
    /* Exactly once: err NULL and the result of task.job, or the error (WORKER_LOST when the process died). After it the
     * run is freed. */
    void (*finished)(void *ctx, const struct eo_error *err, const struct eo_item *result);
};

/* Makes the job's folder on another thread, starts the worker and, when its rank needs no peers, the job; with peers
 * the job starts by rank_run_go. Failures before the worker lives also come through finished. */
int rank_run_start(struct server *s, const struct rank_config *config, const struct rank_callbacks *callbacks,
                   struct rank_run **out, struct eo_error *err);
void rank_run_go(struct rank_run *r);
void rank_run_stop(struct rank_run *r, int stop); /* 1 cancel, 2 drain: with a checkpoint */
void rank_run_abort(struct rank_run *r,
                    const struct eo_error *cause); /* the collective fails with cause; kill after 5 s */
void rank_run_kill(struct rank_run *r);
int rank_run_pass_fd(struct rank_run *r, int fd, int from_rank, struct eo_error *err); /* fd stays the caller's */
pid_t rank_run_pid(const struct rank_run *r);                                          /* 0 = not started */
uint64_t rank_run_progress(const struct rank_run *r); /* bytes moved by collectives, as last reported */
/* "<state>/jobs/<id>" */
bool rank_run_dir(const struct server *s, const char *job, char *out, size_t size);

#endif
