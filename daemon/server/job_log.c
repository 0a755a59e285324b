/* A job's log file: lines are gathered on the loop and appended by one write at a time on a file thread, in order. */
#include "daemon/server/jobs.h"

#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

struct log_write {
    struct job *job; /* a reference */
    struct eo_error error;
};

bool job_log_path(const struct job *j, char *out, size_t size)
{
    char dir[JOBS_DIR_SIZE];
    return job_dir(j, dir) && eo_path_join(out, size, dir, "log");
}

static int open_log(const struct job *j, char *path, size_t size, int *out_fd, struct eo_error *err)
{
    char dir[JOBS_DIR_SIZE];
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    if (!job_log_path(j, path, size) || !job_dir(j, dir)) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    *out_fd = open(path, flags, 0600);
    if (*out_fd < 0 && errno == ENOENT) {
        int rc = eo_dir_ensure(dir, 0700, err);
        if (rc != EO_OK) {
            return rc;
        }
        *out_fd = open(path, flags, 0600);
    }
    if (*out_fd < 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "create", path);
    }
    return EO_OK;
}

/* At the place where watchers will look for it: what a failed write left half is written over by the next one. */
static void append_work(void *ctx)
{
    struct log_write *w = ctx;
    struct job *j = w->job;
    char path[JOBS_DIR_SIZE + 8];
    int fd = -1;
    if (open_log(j, path, sizeof path, &fd, &w->error) != EO_OK) {
        return;
    }
    if (lseek(fd, (off_t)j->log_bytes, SEEK_SET) < 0) {
        int errnum = errno;
        eo_raise_io(&w->error, errnum, "write", path);
    } else {
        eo_write_all(fd, j->log_writing.data, j->log_writing.size, path, &w->error);
    }
    close(fd);
}

static void start_write(struct job *j);

/* A job goes on when its log cannot be written: the log is less than the result. */
static void lose_lines(struct job *j, const struct eo_error *why)
{
    if (j->log_dropped == 0) {
        eo_log_error("jobs", why);
    }
    for (size_t i = 0; i < j->log_writing.size; i++) {
        j->log_dropped += j->log_writing.data[i] == '\n';
    }
}

static void append_done(void *ctx)
{
    struct log_write *w = ctx;
    struct job *j = w->job;
    j->log_busy = false;
    if (w->error.code == 0) {
        j->log_bytes += j->log_writing.size;
    } else {
        lose_lines(j, &w->error);
    }
    free(w);
    eo_bytes_clear(&j->log_writing);
    if (j->log_waiting.size > 0) {
        start_write(j);
    }
    job_watch_kick(j);
    jobs_check_drained(j->jobs);
    job_unref(j);
}

static void start_write(struct job *j)
{
    struct eo_error err = {0};
    struct log_write *w = calloc(1, sizeof *w);
    struct eo_bytes swap = j->log_writing;
    j->log_writing = j->log_waiting;
    j->log_waiting = swap;
    eo_bytes_clear(&j->log_waiting);
    int rc = EO_OK;
    if (w == NULL) {
        rc = EO_RAISE(&err, EO_E_NO_MEMORY, "no memory to write the log of job %.8s", j->record->id);
    } else {
        w->job = job_ref(j);
        rc = loop_work(j->jobs->server->loop, LOOP_FILES, append_work, append_done, w, &err);
    }
    j->log_busy = rc == EO_OK;
    if (rc != EO_OK) {
        lose_lines(j, &err);
        eo_bytes_clear(&j->log_writing);
        if (w != NULL) {
            job_unref(j);
        }
        free(w);
    }
}

/* Texts of workers and other hosts: one line each, and nothing that a terminal obeys. */
static void append_text(struct eo_bytes *b, const char *text, size_t length)
{
    char *to = (char *)eo_bytes_extend(b, length);
    for (size_t i = 0; to != NULL && i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        to[i] = byte < 0x20 || byte == 0x7f ? ' ' : text[i];
    }
}

/* Cuts at the boundary of a character. */
static size_t cut(const char *text, size_t length)
{
    if (length <= LINE_MAX_BYTES) {
        return length;
    }
    length = LINE_MAX_BYTES;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--;
    }
    return length;
}

void job_log_append(struct job *j, const char *text, size_t length)
{
    char when[32];
    struct eo_bytes *b = &j->log_waiting;
    const size_t before = b->size;
    eo_rfc3339(eo_wall_ms(), when, sizeof when);
    if (j->log_dropped > 0) {
        eo_bytes_printf(b, "%s (%llu lines lost: they could not be written)\n", when,
                        (unsigned long long)j->log_dropped);
    }
    eo_bytes_printf(b, "%s ", when);
    append_text(b, text, cut(text, length));
    eo_bytes_append(b, "\n", 1);
    if (b->failed) { /* the bound is reached: this line is dropped and counted */
        b->failed = false;
        b->size = before;
        j->log_dropped++;
    } else {
        j->log_dropped = 0;
    }
    if (!j->log_busy && b->size > 0) {
        start_write(j);
    }
}

void job_log_printf(struct job *j, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    job_log_append(j, line, strlen(line));
}

bool job_log_settled(const struct job *j)
{
    return !j->log_busy && j->log_waiting.size == 0;
}

void job_log_fini(struct job *j)
{
    eo_bytes_fini(&j->log_waiting);
    eo_bytes_fini(&j->log_writing);
}
