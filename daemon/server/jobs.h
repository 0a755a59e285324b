/* The jobs of this daemon: table, states, queue, logs, watchers. Loop's thread only.
 *
 * A job is owned by the table until it is removed. One that this host coordinates or runs alone is in the journal; one
 * that it takes part in for another host (member) is kept in memory only. */
#ifndef EO_DAEMON_SERVER_JOBS_H
#define EO_DAEMON_SERVER_JOBS_H

#include "daemon/jobs/job.h"
#include "daemon/jobs/journal.h"
#include "daemon/server/connection.h"
#include "daemon/server/loop.h"

enum { JOBS_MAX_QUEUED = 10000, JOBS_MAX_MEMBERS = 64, JOBS_MAX_RESTARTS = 3 };

struct jobs;
struct job_watcher;
struct rank_run;
struct coordinator;
struct member;

/* A caller that waits for the journal. */
struct job_submitter {
    struct job_submitter *next;
    struct request *request;
    bool created;
};

struct job {
    struct job *next; /* newest first */
    struct jobs *jobs;
    struct job_record *record;
    bool durable; /* the first journal write has been committed; not started before */
    bool restart_on_failure;
    bool cancelled; /* a cancel was asked for */
    char device[32];
    struct job_submitter *submitters;
    struct eo_bytes progress; /* the newest packed progress map; empty = none */
    uint64_t progress_count;  /* grows with each progress */
    uint64_t state_count;     /* grows with each change of state or reason */
    /* log: what is on disk, what is being written, what waits */
    uint64_t log_bytes;
    struct eo_bytes log_waiting;
    struct eo_bytes log_writing;
    bool log_busy;
    uint64_t log_dropped;
    struct eo_error log_error;
    struct job_watcher *watchers;
    uint64_t watch_round;
    /* at most one of these while it is starting or running */
    struct rank_run *run;
    struct coordinator *coordinator;
    struct member *member;
    bool is_member;
    char coordinator_host[300]; /* members: who leads */
    uint64_t not_before_ms;     /* monotonic; a job of several hosts that was refused tries again then */
    uint32_t refusals;
};

struct jobs {
    struct server *server;
    struct journal *journal;
    struct job *list;
    struct loop_timer *schedule_timer;
    uint32_t n_running; /* slots taken, members included */
    bool draining, scheduling;
};

/* The one table of the server. */
struct jobs *jobs_of(struct server *s);
/* By id or unique prefix; NO_JOB says whether none or several fit. */
int jobs_find(struct jobs *js, const char *prefix, struct job **out, struct eo_error *err);
/* The job that parameter "job" of a request names (handlers/job.c). */
int job_of_request(struct request *r, struct job **out, struct eo_error *err);
struct job *jobs_by_id(struct jobs *js, const char *id);
struct job *jobs_by_key(struct jobs *js, const char *key);
/* Takes the record over; NULL when memory is out (the record is freed). */
struct job *jobs_add(struct jobs *js, struct job_record *record);
void jobs_forget(struct job *j); /* frees; no run, no watchers */

/* Changes state and reason (fmt NULL = no reason), writes the journal, tells watchers, frees a slot when it ends. */
void job_change(struct job *j, enum job_state state, const char *fmt, ...) EO_PRINTF(3, 4);
/* The only way a run ends: err NULL and result (the reply of task.job), or the error. Decides succeeded, failed,
 * cancelled, interrupted or restart. */
void job_run_ended(struct job *j, const struct eo_error *err, const struct eo_item *result);
int job_submit_durable(struct job *j, struct request *r, bool created,
                       struct eo_error *err); /* answers when committed */
void job_cancel(struct job *j, const char *reason);
void job_set_progress(struct job *j, const struct eo_item *progress);
/* Starts what can be started; cheap, called after every change. */
void jobs_schedule(struct jobs *js);
void jobs_take_slot(struct jobs *js);
void jobs_give_slot(struct jobs *js);
bool jobs_slot_free(const struct jobs *js);
/* Who holds the slots, for reasons: "job 3f2a... of alpha:17743". */
void jobs_holder_text(const struct jobs *js, char *out, size_t size);

/* job_map.c: the map of job.status. */
void job_pack(struct eo_bytes *b, const struct job *j);
/* Copies numbers name -> value of an item map as a packed map. */
void job_pack_metrics(struct eo_bytes *out, const struct eo_item *metrics);

/* job_log.c */
void job_log_append(struct job *j, const char *text, size_t length); /* adds time and line end */
void job_log_printf(struct job *j, const char *fmt, ...) EO_PRINTF(2, 3);
bool job_log_settled(const struct job *j); /* everything appended is on disk */
void job_log_fini(struct job *j);
bool job_log_path(const struct job *j, char *out, size_t size);

/* job_watch.c */
int job_watch_start(struct job *j, struct request *r, struct eo_error *err);
void job_watch_kick(struct job *j);                             /* something changed */
void job_watch_fail(struct job *j, const struct eo_error *err); /* the job is being removed */

#endif
