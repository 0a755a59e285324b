/* The jobs of this daemon: table, states, queue, logs, watchers. Loop's thread only.
 *
 * A job that this host coordinates or runs alone is in the journal; one that it takes part in for another host (member)
 * is kept in memory only. The table holds a reference to each job until it is forgotten; everything that works on a job
 * elsewhere (its run, watchers, log and journal writes) holds one more, so that no callback finds its job gone. The
 * table itself lives until its last job is freed. */
#ifndef EO_DAEMON_SERVER_JOBS_H
#define EO_DAEMON_SERVER_JOBS_H

#include "daemon/jobs/job.h"
#include "daemon/jobs/journal.h"
#include "daemon/server/connection.h"
#include "daemon/server/loop.h"

enum {
    JOBS_MAX_QUEUED = 10000,
    JOBS_MAX_MEMBERS = 64, /* ended ranks of other hosts' jobs that are remembered */
    JOBS_MAX_FAILURES = 3, /* restarts in a row without a new checkpoint */
    JOBS_DIR_SIZE = 1200   /* enough for every folder of a job */
};

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
    uint32_t n_refs;
    struct job_record *record;
    bool durable; /* the first journal write has been committed; neither seen nor started before */
    bool removing, forgotten;
    bool restart_on_failure;
    bool cancelled;      /* a cancel was asked for */
    uint64_t rewrite_ms; /* the journal failed to take the newest state: offered again then; 0 = it has it */
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
    struct job_watcher *watchers;
    /* at most one of these while it is starting or running; run belongs to the others when they are there */
    struct rank_run *run;
    struct coordinator *coordinator;
    struct member *member;
    bool is_member;
    uint64_t member_epoch;
    uint64_t member_number;               /* names its directory: a rank that was prepared again finds an empty one */
    char coordinator_host[JOB_HOST_SIZE]; /* members: who leads */
    uint64_t not_before_ms;               /* monotonic; a job that was refused or failed tries again then */
    uint32_t refusals;
    uint32_t failures; /* in a row, without a checkpoint between */
};

struct jobs {
    struct server *server;
    struct journal *journal; /* NULL once stopped */
    struct job *list;
    uint32_t n_refs;
    struct loop_timer *schedule_timer;
    struct loop_call drained_call;
    bool drained_posted;
    uint32_t n_running; /* slots taken, members included */
    uint32_t n_claims;  /* jobs of several hosts that are on their way to a slot here */
    uint64_t n_members; /* prepared so far */
    bool draining, stopped, scheduling;
};

/* The one table of the server; NULL while it ends. */
struct jobs *jobs_of(struct server *s);
/* Appends the names of data that jobs which wait or run need, without anything between them. */
void jobs_pin_blobs(const struct jobs *js, struct eo_bytes *out);
/* By id or unique prefix; NO_JOB says whether none or several fit. */
int jobs_find(struct jobs *js, const char *prefix, struct job **out, struct eo_error *err);
/* The job that parameter "job" of a request names (handlers/job.c). */
int job_of_request(struct request *r, struct job **out, struct eo_error *err);
struct job *jobs_by_id(struct jobs *js, const char *id);
struct job *jobs_by_key(struct jobs *js, const char *key);
/* Takes the record over; NULL when memory is out (the record is freed). */
struct job *jobs_add(struct jobs *js, struct job_record *record);
struct job *job_ref(struct job *j);
void job_unref(struct job *j);
void job_forget(struct job *j); /* off the table; watchers are told; the files of a member go with it */
/* "<state>/jobs/<id>"; of a member "<state>/members/<id>-<epoch>" */
bool job_dir(const struct job *j, char out[JOBS_DIR_SIZE]);
bool job_active(const struct job *j); /* a run, a coordinator or a member of it is at work */

/* Changes state and reason (fmt NULL = no reason), writes the journal, tells watchers. */
void job_change(struct job *j, enum job_state state, const char *fmt, ...) EO_PRINTF(3, 4);
void job_set_progress(struct job *j, const struct eo_item *progress);
void job_set_device(struct job *j, const struct eo_item *ready); /* params of report.ready */
int job_submit_durable(struct job *j, struct request *r, bool created,
                       struct eo_error *err); /* answers when committed */
void jobs_arm(struct jobs *js); /* sets the timer for jobs that may start later, and for journal writes to try again */
/* After anything that may have been the last thing a draining daemon waits for. */
void jobs_check_drained(struct jobs *js);

/* job_queue.c */
/* The only way a run ends that is not a member's: err NULL and result (the reply of task.job), or the error. Decides
 * succeeded, failed, cancelled, interrupted or restart. */
void job_run_ended(struct job *j, const struct eo_error *err, const struct eo_item *result);
void job_cancel(struct job *j, const char *reason);
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
void job_log_append(struct job *j, const char *text, size_t length); /* one line; adds time and line end */
void job_log_printf(struct job *j, const char *fmt, ...) EO_PRINTF(2, 3);
bool job_log_settled(const struct job *j); /* everything appended is on disk */
void job_log_fini(struct job *j);
bool job_log_path(const struct job *j, char *out, size_t size);

/* job_watch.c */
int job_watch_start(struct job *j, struct request *r, struct eo_error *err);
void job_watch_kick(struct job *j);                             /* something changed */
void job_watch_fail(struct job *j, const struct eo_error *err); /* the job is being removed */
bool job_watch_settled(
    const struct job *j); /* nobody is being told anything now; who does not listen is not waited for */

#endif
