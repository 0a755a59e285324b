/* Following a job: events from the daemon as a progress line, log lines or NDJSON. */
#ifndef EO_CLIENT_CLI_JOB_WATCH_H
#define EO_CLIENT_CLI_JOB_WATCH_H

#include "client/cli/cli.h"
#include "client/lib/connection.h"

struct job_watch {
    const struct cli *cli;
    const char *job;    /* id */
    bool show_logs;     /* print log text to stdout (logs) or as events (--json) */
    bool show_progress; /* line or NDJSON */
    bool follow;
    bool cancel_on_int; /* first SIGINT/SIGTERM asks for a cancel, the second leaves */
    uint64_t log_offset;
    uint64_t deadline_ns; /* 0 = none */
    /* filled while watching */
    bool interrupted;
    char state[16];
};

/* Catches SIGINT and SIGTERM as a flag from now on. */
void job_watch_catch_signals(void);
bool job_watch_signalled(void);

/* Until the drain marker. EO_OK; TIMED_OUT at the deadline; CONNECTION_LOST; or CANCELLED after a second signal. */
int job_watch_run(struct job_watch *w, struct eo_connection *c, struct eo_error *err);

/* Fetches the job map. */
int job_get(struct eo_connection *c, const char *job, struct eo_reply *reply, struct eo_error *err);
/* Prints the closing lines for a person, or the result object for --json, from the job map. Returns the exit code. */
int job_print_result(const struct cli *cli, const struct eo_item *job, const char *output_dir);
/* The result object of a run whose job could not be asked for its own; job "" = there is none yet; state: as last seen.
 */
void job_print_no_result(const struct eo_error *err, const char *job, const char *state, size_t world_size);
bool job_state_ended(const char *state);

#endif
