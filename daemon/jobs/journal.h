/* The journal: every job as one row of SQLite (WAL, synchronous=FULL), written by one thread of its own. Only journal.c
 * touches SQLite.
 *
 * Threads: journal_open, journal_load and journal_close run on the caller's thread, before and after use. journal_put
 * and journal_remove queue; their done runs on the journal's thread after the commit, or with the error. Writes happen
 * in the order they were queued. Several that wait share one transaction, and each done comes after its commit; when it
 * fails, each is tried by itself. */
#ifndef EO_DAEMON_JOBS_JOURNAL_H
#define EO_DAEMON_JOBS_JOURNAL_H

#include "daemon/jobs/job.h"

struct journal;

/* Opens or creates path, migrates by user_version, starts the thread. Errors: STATE_DIR (not a journal, newer version,
 * damaged: says what to do), DISK_FULL, NO_MEMORY. */
int journal_open(const char *path, struct journal **out, struct eo_error *err);
void journal_close(struct journal *j); /* finishes what is queued; NULL allowed */

/* Every record, oldest first. fn owns the record. */
int journal_load(struct journal *j, void (*fn)(void *ctx, struct job_record *r), void *ctx, struct eo_error *err);

/* err NULL: the record is on disk. Runs on the journal's thread exactly once. */
typedef void (*journal_done_fn)(void *ctx, const struct eo_error *err);
/* Inserts, or replaces what may change (everything but what was submitted) by id. Owns record (made by
 * job_record_copy), also when this fails. */
int journal_put(struct journal *j, struct job_record *record, journal_done_fn done, void *ctx, struct eo_error *err);
int journal_remove(struct journal *j, const char *id, journal_done_fn done, void *ctx, struct eo_error *err);
const char *journal_library(void); /* "3.40.1" */

#endif
