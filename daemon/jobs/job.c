#include "daemon/jobs/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { METRICS_MAX = 1 << 16, RANKS_MAX = 1 << 16 };

static const char *const state_names[JOB_STATE_COUNT] = {
    [JOB_QUEUED] = "queued",           [JOB_STARTING] = "starting", [JOB_RUNNING] = "running",
    [JOB_SUCCEEDED] = "succeeded",     [JOB_FAILED] = "failed",     [JOB_CANCELLED] = "cancelled",
    [JOB_INTERRUPTED] = "interrupted",
};

const char *job_state_name(enum job_state s)
{
    return s >= 0 && s < JOB_STATE_COUNT ? state_names[s] : "?";
}

bool job_state_ended(enum job_state s)
{
    return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED || s == JOB_INTERRUPTED;
}

struct job_record *job_record_new(void)
{
    struct job_record *r = calloc(1, sizeof *r);
    if (r != NULL) {
        eo_bytes_init(&r->metrics, METRICS_MAX);
        eo_bytes_init(&r->ranks, RANKS_MAX);
    }
    return r;
}

static bool replace(void **at, const void *list, size_t size)
{
    void *copy = malloc(EO_MAX(size, (size_t)1));
    if (copy == NULL) {
        return false;
    }
    if (size > 0) {
        memcpy(copy, list, size);
    }
    free(*at);
    *at = copy;
    return true;
}

static bool replace_files(struct job_file_ref **at, int *out_n, const struct job_file_ref *files, int n)
{
    void *list = *at;
    const bool done = replace(&list, files, (size_t)n * sizeof *files);
    *at = list;
    *out_n = done ? n : *out_n;
    return done;
}

bool job_record_set_files(struct job_record *r, const struct job_file_ref *files, int n)
{
    return replace_files(&r->files, &r->n_files, files, n);
}

bool job_record_set_resume_files(struct job_record *r, const struct job_file_ref *files, int n)
{
    return replace_files(&r->resume_files, &r->n_resume_files, files, n);
}

bool job_record_set_hosts(struct job_record *r, const char (*hosts)[JOB_HOST_SIZE], int n)
{
    void *list = r->hosts;
    const bool done = replace(&list, hosts, (size_t)n * sizeof *hosts);
    r->hosts = list;
    r->n_hosts = done ? n : r->n_hosts;
    return done;
}

struct job_record *job_record_copy(const struct job_record *r)
{
    struct job_record *c = malloc(sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    *c = *r;
    c->files = NULL;
    c->resume_files = NULL;
    c->hosts = NULL;
    eo_bytes_init(&c->metrics, METRICS_MAX);
    eo_bytes_init(&c->ranks, RANKS_MAX);
    eo_bytes_append(&c->metrics, r->metrics.data, r->metrics.size);
    eo_bytes_append(&c->ranks, r->ranks.data, r->ranks.size);
    c->spec = r->spec != NULL ? strdup(r->spec) : NULL;
    const bool lists = job_record_set_files(c, r->files, r->n_files) &&
                       job_record_set_resume_files(c, r->resume_files, r->n_resume_files) &&
                       job_record_set_hosts(c, (const char(*)[JOB_HOST_SIZE])r->hosts, r->n_hosts);
    if (!lists || c->metrics.failed || c->ranks.failed || (r->spec != NULL && c->spec == NULL)) {
        job_record_free(c);
        return NULL;
    }
    return c;
}

void job_record_free(struct job_record *r)
{
    if (r != NULL) {
        eo_bytes_fini(&r->metrics);
        eo_bytes_fini(&r->ranks);
        free(r->files);
        free(r->resume_files);
        free(r->hosts);
        free(r->spec);
        free(r);
    }
}

int job_id_make(char out[JOB_ID_SIZE], struct eo_error *err)
{
    uint8_t bytes[(JOB_ID_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return EO_RAISE(err, EO_E_INTERNAL, "no random bytes from the system");
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
    return EO_OK;
}

bool job_id_valid_prefix(const char *text)
{
    const size_t n = strlen(text);
    return n >= 1 && n < JOB_ID_SIZE && strspn(text, "0123456789abcdef") == n;
}

bool job_id_valid(const char *text)
{
    return job_id_valid_prefix(text) && strlen(text) == JOB_ID_SIZE - 1;
}

bool job_file_name_safe(const char *name)
{
    for (const char *at = name; *at != '\0';) {
        const size_t n = strcspn(at, "/");
        if (n == 0 || at[0] == '.') {
            return false;
        }
        at += n;
        if (at[0] == '/' && *++at == '\0') {
            return false;
        }
    }
    return name[0] != '\0';
}
