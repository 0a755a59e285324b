/* A fake daemon that takes one job: what everyo-submit needs of a daemon, as a script of fake_server.h. */
#ifndef EO_TESTS_CLIENT_FAKE_JOBS_H
#define EO_TESTS_CLIENT_FAKE_JOBS_H

#include "tests/client/fake_server.h"

#include <pthread.h>

#define FAKE_JOB "0123456789abcdef0123456789abcdef"

struct fake_jobs {
    /* set by the test */
    const char *data_file;         /* in the answer of job.check; NULL: none */
    const char *const *spec_hosts; /* NULL-terminated, or NULL */
    const char *end_state;         /* "succeeded" when NULL */
    int error_code;                /* of the ended job, 0 = none */
    bool have_blobs;
    bool waits_for_cancel; /* the watch ends after job.cancel */
    int lose_watch;        /* this many connections end in the middle of the watch */
    pthread_t interrupt;   /* with waits_for_cancel: gets SIGINT when the watch has begun */
    const char *hangs_at;  /* a method that is never answered */
    uint64_t n_jobs;       /* in job.list, one an answer; 0 = 1 */
    /* told to the test */
    char submitted[2048]; /* params of job.submit as JSON-like text */
    uint64_t put_bytes;
    uint64_t log_offset; /* of the last watch */
    int n_watches, n_cancels, n_removed;
    bool over; /* this run of the job was cancelled */
};

void fake_jobs_script(struct fake_peer *p); /* ctx: struct fake_jobs */

#endif
