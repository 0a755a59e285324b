/* The files that go with a job: data found beside the job file, or a checkpoint to start from. Hashed, uploaded once by
 * content. */
#ifndef EO_CLIENT_CLI_JOB_FILES_H
#define EO_CLIENT_CLI_JOB_FILES_H

#include "client/lib/connection.h"

enum { JOB_FILES_MAX = 16 };

struct job_file {
    char path[1024];  /* as the job file writes it: how the spec refers to it */
    char local[2048]; /* resolved against the job file's folder */
    char sha256[65];  /* "" = not here: the daemon looks on its own host */
    uint64_t size;
};

struct job_files {
    struct job_file files[JOB_FILES_MAX];
    size_t n;
};

/* Told while a file travels and once when it is there; sent is the bytes that really travelled. False gives the upload
 * up: CANCELLED. */
typedef bool (*job_files_progress_fn)(void *ctx, const struct job_file *file, uint64_t done, uint64_t sent);

/* files: the array [{path}] of job.check. NO_FILE names the missing one with the path that was tried; with far, an
 * absolute path that is not here is left to the daemon. */
int job_files_find(const struct eo_item *files, const char *spec_path, bool far, struct job_files *out,
                   struct eo_error *err);
/* The files of the checkpoint in dir: dir itself, or the newest step-N in dir/checkpoints or dir. NO_FILE: there is
 * none. */
int job_files_find_checkpoint(const char *dir, struct job_files *out, struct eo_error *err);
/* One file whose local, sha256 and size are filled in. */
int job_file_upload(struct eo_connection *c, const struct job_file *f, job_files_progress_fn progress, void *ctx,
                    struct eo_error *err);
int job_files_upload(struct eo_connection *c, const struct job_files *files, job_files_progress_fn progress, void *ctx,
                     struct eo_error *err);
void job_files_pack(struct eo_bytes *b,
                    const struct job_files *files); /* [{path, sha256, size}], only path where it is not here */

#endif
