/* A job's log file: lines are gathered on the loop and appended by one write at a time on a file thread, in order. */
#include "daemon/server/jobs.h"

#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

bool job_log_path(const struct job *j, char *out, size_t size)
{
    char dir[1200];
    return rank_run_dir(j->jobs->server, j->record->id, dir, sizeof dir) && eo_path_join(out, size, dir, "log");
}

static void append_work(void *ctx)
{
    struct job *j = ctx;
    char path[1300];
    char dir[1200];
    if (!job_log_path(j, path, sizeof path) || !rank_run_dir(j->jobs->server, j->record->id, dir, sizeof dir)) {
        EO_RAISE(&j->log_error, EO_E_STATE_DIR, "the path of the state directory is too long");
        return;
    }
    if (eo_dir_ensure(dir, 0700, &j->log_error) != EO_OK) {
        return;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int errnum = errno;
        eo_raise_io(&j->log_error, errnum, "open", path);
        return;
    }
    eo_write_all(fd, j->log_writing.data, j->log_writing.size, path, &j->log_error);
    close(fd);
}

static void start_write(struct job *j);

static void append_done(void *ctx)
{
    struct job *j = ctx;
    j->log_busy = false;
    if (j->log_error.code == 0) {
        j->log_bytes += j->log_writing.size;
    } else {
        eo_log_error("jobs", &j->log_error); /* the job goes on: its log is less than its result */
        eo_error_clear(&j->log_error);
    }
    eo_bytes_clear(&j->log_writing);
    if (j->log_waiting.size > 0) {
        start_write(j);
    }
    job_watch_kick(j);
}

static void start_write(struct job *j)
{
    struct eo_error err = {0};
    struct eo_bytes swap = j->log_writing;
    j->log_writing = j->log_waiting;
    j->log_waiting = swap;
    eo_bytes_clear(&j->log_waiting);
    j->log_busy = loop_work(j->jobs->server->loop, LOOP_FILES, append_work, append_done, j, &err) == EO_OK;
    if (!j->log_busy) {
        eo_log_error("jobs", &err);
        eo_bytes_clear(&j->log_writing);
    }
}

void job_log_append(struct job *j, const char *text, size_t length)
{
    char when[32];
    const size_t before = j->log_waiting.size;
    length = EO_MIN(length, (size_t)LINE_MAX_BYTES);
    if (j->log_dropped > 0 && !j->log_waiting.failed) {
        eo_bytes_printf(&j->log_waiting, "%s (%llu lines lost: the disk was too slow)\n",
                        eo_rfc3339(eo_wall_ms(), when, sizeof when), (unsigned long long)j->log_dropped);
        j->log_dropped = 0;
    }
    eo_bytes_printf(&j->log_waiting, "%s %.*s\n", eo_rfc3339(eo_wall_ms(), when, sizeof when), (int)length, text);
    if (j->log_waiting.failed) { /* the bound is reached: this line is dropped and counted */
        j->log_waiting.failed = false;
        j->log_waiting.size = before;
        j->log_dropped++;
    }
    if (!j->log_busy && j->log_waiting.size > 0) {
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
