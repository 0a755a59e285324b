/* A job as it is remembered: what the journal stores and job.status shows. */
#ifndef EO_DAEMON_JOBS_JOB_H
#define EO_DAEMON_JOBS_JOB_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* The number is stored in the journal: never reorder. */
enum job_state {
    JOB_QUEUED = 0,
    JOB_STARTING = 1,
    JOB_RUNNING = 2,
    JOB_SUCCEEDED = 3,
    JOB_FAILED = 4,
    JOB_CANCELLED = 5,
    JOB_INTERRUPTED = 6,
    JOB_STATE_COUNT
};

enum { JOB_ID_SIZE = 33, JOB_MAX_HOSTS = 8, JOB_MAX_FILES = 16, JOB_MAX_RESUME_FILES = 32, JOB_HOST_SIZE = 300 };

struct job_file_ref {
    char path[1024]; /* as the job file writes it; of a checkpoint: its relative name */
    char sha256[65]; /* "" = a file of this host, inside an allowed directory */
    uint64_t size;
};

struct job_record {
    char id[JOB_ID_SIZE]; /* 128 bit random, hex */
    char key[65];         /* idempotency key of the submit */
    char name[64];
    enum job_state state;
    char reason[320]; /* why it waits, or how it ended; "" when there is nothing to say */
    char *spec;       /* canonical YAML, owned */
    char spec_hash[65];
    char device[32];          /* as the spec asks, then as it was opened */
    char resume[JOB_ID_SIZE]; /* job whose newest checkpoint this one starts from; "" = none */
    /* Owned; a daemon remembers thousands of jobs, so lists are as long as they must be. */
    struct job_file_ref *files;
    struct job_file_ref *resume_files; /* a checkpoint that came with the submit */
    char (*hosts)[JOB_HOST_SIZE];      /* as typed; the first one coordinates */
    int n_files, n_resume_files;
    int n_hosts;                                /* 0 = where it was submitted */
    int64_t submitted_ms, started_ms, ended_ms; /* 0 = not yet */
    int64_t restarts;
    int64_t steps, epochs;
    double seconds;
    char parameters_sha256[65];
    struct eo_bytes metrics; /* a packed map name -> number; empty = none */
    struct eo_bytes ranks;   /* a packed array [{host, rank, parameters_sha256}]; empty = none */
    struct eo_error error;   /* code 0 = none */
};

const char *job_state_name(enum job_state s);
bool job_state_ended(enum job_state s); /* nothing more will happen by itself */
/* A record with buffers ready; NULL when memory is out. */
struct job_record *job_record_new(void);
struct job_record *job_record_copy(const struct job_record *r); /* deep; NULL when memory is out */
void job_record_free(struct job_record *r);
int job_id_make(char out[JOB_ID_SIZE], struct eo_error *err); /* getrandom(2) */
bool job_id_valid_prefix(const char *text);                   /* 1..32 lower-case hex digits */
bool job_id_valid(const char *text);                          /* all 32: may name a folder */
/* A relative path without empty or dotted parts: stays below the folder it is joined to. */
bool job_file_name_safe(const char *name);
/* Replace a list of the record by a copy; false when memory is out, the record is as before then. */
bool job_record_set_files(struct job_record *r, const struct job_file_ref *files, int n);
bool job_record_set_resume_files(struct job_record *r, const struct job_file_ref *files, int n);
bool job_record_set_hosts(struct job_record *r, const char (*hosts)[JOB_HOST_SIZE], int n);

#endif
