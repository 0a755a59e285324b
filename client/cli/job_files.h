/* The data files of a job: found beside the job file, hashed, uploaded once by content. */
#ifndef EO_CLIENT_CLI_JOB_FILES_H
#define EO_CLIENT_CLI_JOB_FILES_H

#include "client/lib/connection.h"

enum { JOB_FILES_MAX = 16 };

struct job_file {
    char path[1024];  /* as the job file writes it: how the spec refers to it */
    char local[2048]; /* resolved against the job file's folder */
    char sha256[65];
    uint64_t size;
};

struct job_files {
    struct job_file files[JOB_FILES_MAX];
    size_t n;
};

/* Told before and after each file; sent is the bytes that really travelled. */
typedef void (*job_files_progress_fn)(void *ctx, const struct job_file *file, uint64_t done, uint64_t sent);

/* files: the array [{path}] of job.check. NO_FILE names the missing one with the path that was tried. */
int job_files_find(const struct eo_item *files, const char *spec_path, struct job_files *out, struct eo_error *err);
int job_files_upload(struct eo_connection *c, const struct job_files *files, job_files_progress_fn progress, void *ctx,
                     struct eo_error *err);
void job_files_pack(struct eo_bytes *b, const struct job_files *files); /* [{path, sha256, size}] */

#endif
