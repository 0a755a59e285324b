/* Downloads what a job left. */
#ifndef EO_CLIENT_CLI_JOB_FETCH_H
#define EO_CLIENT_CLI_JOB_FETCH_H

#include "client/lib/connection.h"

/* Every file of the job into dir (made when missing), each checked against its SHA-256 before it gets its name. only: a
 * NULL- terminated list of names, or NULL for all. */
int job_fetch(struct eo_connection *c, const char *job, const char *dir, const char *const *only, size_t *out_files,
              struct eo_error *err);
/* Names come from the daemon: only plain relative paths may become files here. */
bool job_fetch_name_is_safe(const char *name);
extern const char *const job_fetch_results[]; /* model.safetensors, manifest.json, history.csv, run.json */

#endif
