/* Watchers of a job: each gets states, the newest progress and every byte of the log in order, then the drain marker.
 */
#include "daemon/server/jobs.h"

#include "daemon/server/server.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_CHUNK = 256 << 10 };

struct job_watcher {
    struct job_watcher *next, **link; /* of the job's list */
    struct job *job;
    struct request *request;
    struct connection_waiter waiter;
    bool events, logs, follow;
    bool reading; /* a chunk of the log is being read on another thread */
    bool closed;  /* the connection went away while reading */
    uint64_t state_seen, progress_seen;
    uint64_t log_at;   /* next byte to send */
    uint64_t log_end;  /* without follow: where to stop */
    uint64_t read_end; /* what may be read now */
    char path[JOBS_DIR_SIZE + 8];
    uint8_t *chunk;
    size_t chunk_size;
    struct eo_error read_error;
};

static void unlink_watcher(struct job_watcher *w)
{
    *w->link = w->next;
    if (w->next != NULL) {
        w->next->link = w->link;
    }
}

static void free_watcher(struct job_watcher *w)
{
    struct job *j = w->job;
    unlink_watcher(w);
    connection_forget_waiter(&w->waiter);
    request_unref(w->request);
    free(w->chunk);
    free(w);
    job_unref(j);
}

static void begin_event(struct job_watcher *w, struct eo_bytes **out, size_t extra, const char *kind)
{
    struct eo_bytes *b = connection_notification(w->request->conn, EO_MSG_JOB_EVENT);
    eo_pack_map(b, 3 + extra);
    eo_pack_kv_str(b, "job", w->job->record->id);
    eo_pack_kv_u64(b, "watch", w->request->id);
    eo_pack_kv_str(b, "kind", kind);
    *out = b;
}

static void send_state(struct job_watcher *w)
{
    struct eo_bytes *b = NULL;
    begin_event(w, &b, 2, "state");
    eo_pack_kv_str(b, "state", job_state_name(w->job->record->state));
    eo_pack_kv_str(b, "reason", w->job->record->reason);
    connection_send(w->request->conn, NULL, 0);
    w->state_seen = w->job->state_count;
}

static void send_progress(struct job_watcher *w)
{
    struct eo_bytes *b = NULL;
    begin_event(w, &b, 1, "progress");
    eo_pack_str(b, "progress");
    eo_bytes_append(b, w->job->progress.data, w->job->progress.size);
    connection_send(w->request->conn, NULL, 0);
    w->progress_seen = w->job->progress_count;
}

static void pump(struct job_watcher *w);

static void on_drained(void *ctx)
{
    pump(ctx);
}

/* ---- log ---- */

/* Chunks end with a line, so that no character is cut, and never lie beyond what has been written for good. */
static size_t whole_lines(const uint8_t *data, size_t n, uint64_t most)
{
    n = (size_t)EO_MIN((uint64_t)n, most);
    for (size_t at = n; at > 0; at--) {
        if (data[at - 1] == '\n') {
            return at;
        }
    }
    return n;
}

static void read_work(void *ctx)
{
    struct job_watcher *w = ctx;
    int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = -1;
    if (fd >= 0) {
        n = pread(fd, w->chunk, LOG_CHUNK, (off_t)w->log_at);
    }
    if (n < 0) {
        int errnum = errno;
        eo_raise_io(&w->read_error, errnum, "read", w->path);
    }
    if (fd >= 0) {
        close(fd);
    }
    w->chunk_size = whole_lines(w->chunk, n > 0 ? (size_t)n : 0, w->read_end - w->log_at);
}

static void take_chunk(struct job_watcher *w)
{
    if (w->read_error.code == 0 && w->chunk_size == 0) {
        EO_RAISE(&w->read_error, EO_E_IO, "the log of job %.8s is shorter than it was", w->job->record->id);
    }
    if (w->read_error.code != 0) {
        request_fail(w->request, &w->read_error);
        free_watcher(w);
        return;
    }
    struct eo_bytes *b = NULL;
    const struct segment segment = {
        .data = w->chunk, .size = w->chunk_size, .release = segment_free_data, .ctx = w->chunk};
    begin_event(w, &b, 1, "log");
    eo_pack_kv_u64(b, "log_offset", w->log_at);
    w->log_at += w->chunk_size;
    w->chunk = NULL; /* the connection frees it when it is sent */
    connection_send(w->request->conn, &segment, 1);
    pump(w);
}

static void read_done(void *ctx)
{
    struct job_watcher *w = ctx;
    struct job *j = job_ref(w->job);
    w->reading = false;
    if (w->closed || w->request->conn == NULL) {
        free_watcher(w);
    } else {
        take_chunk(w);
    }
    jobs_check_drained(j->jobs); /* a daemon that ends lets watchers hear the end */
    job_unref(j);
}

static void start_read(struct job_watcher *w, uint64_t end)
{
    struct eo_error err = {0};
    w->chunk = malloc(LOG_CHUNK);
    int rc = w->chunk != NULL && job_log_path(w->job, w->path, sizeof w->path)
                 ? EO_OK
                 : EO_RAISE(&err, EO_E_NO_MEMORY, "no memory to read a log");
    if (rc == EO_OK) {
        w->read_end = end;
        rc = loop_work(w->job->jobs->server->loop, LOOP_FILES, read_work, read_done, w, &err);
    }
    if (rc != EO_OK) {
        request_fail(w->request, &err);
        free_watcher(w);
        return;
    }
    w->reading = true;
}

/* ---- the pump ---- */

static bool is_complete(const struct job_watcher *w)
{
    const struct job *j = w->job;
    if (!w->follow) {
        return !w->logs || w->log_at >= w->log_end;
    }
    return job_state_ended(j->record->state) && (!w->logs || (job_log_settled(j) && w->log_at >= j->log_bytes));
}

static void complete(struct job_watcher *w)
{
    struct eo_bytes *b = request_result(w->request);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "state", job_state_name(w->job->record->state));
    eo_pack_kv_u64(b, "log_bytes", w->log_at);
    eo_pack_str(b, "result");
    job_pack(b, w->job);
    request_send(w->request);
    free_watcher(w);
}

static void pump(struct job_watcher *w)
{
    const struct job *j = w->job;
    if (w->request->conn == NULL || w->reading) {
        return; /* the close hook or read_done goes on */
    }
    if (connection_congested(w->request->conn)) {
        if (w->waiter.link == NULL) {
            connection_wait_drained(w->request->conn, &w->waiter);
        }
        return;
    }
    if (w->events && w->state_seen != j->state_count) {
        send_state(w);
    }
    if (w->events && w->progress_seen != j->progress_count && j->progress.size > 0) {
        send_progress(w);
    }
    const uint64_t end = w->follow ? j->log_bytes : EO_MIN(j->log_bytes, w->log_end);
    if (w->logs && w->log_at < end) {
        start_read(w, end);
    } else if (is_complete(w)) {
        complete(w);
    }
}

static void on_close(struct request *r, void *ctx)
{
    struct job_watcher *w = ctx;
    EO_UNUSED(r);
    if (w->reading) {
        w->closed = true;
    } else {
        free_watcher(w);
    }
}

int job_watch_start(struct job *j, struct request *r, struct eo_error *err)
{
    struct job_watcher *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a watcher");
    }
    uint64_t offset = 0;
    int rc = eo_get_u64(r->params, "log_offset", 0, INT64_MAX, &offset, err);
    if (rc == EO_OK) {
        rc = eo_get_bool(r->params, "events", true, &w->events, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_bool(r->params, "logs", true, &w->logs, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_bool(r->params, "follow", true, &w->follow, err);
    }
    if (rc == EO_OK && offset > j->log_bytes) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "log_offset %llu lies beyond the log's %llu bytes",
                      (unsigned long long)offset, (unsigned long long)j->log_bytes);
    }
    if (rc != EO_OK) {
        free(w);
        return rc;
    }
    w->job = job_ref(j);
    w->request = request_ref(r);
    w->waiter.drained = on_drained;
    w->waiter.ctx = w;
    w->log_at = offset;
    w->log_end = j->log_bytes;
    w->state_seen = UINT64_MAX; /* the present state comes first */
    w->next = j->watchers;
    w->link = &j->watchers;
    if (w->next != NULL) {
        w->next->link = &w->next;
    }
    j->watchers = w;
    request_on_close(r, on_close, w);
    pump(w);
    return EO_OK;
}

/* A step may let its own watcher go, and with the last one the job; no other, for streams call back from the loop. */
void job_watch_kick(struct job *j)
{
    job_ref(j);
    for (struct job_watcher *next, *w = j->watchers; w != NULL; w = next) {
        next = w->next;
        pump(w);
    }
    job_unref(j);
}

void job_watch_fail(struct job *j, const struct eo_error *err)
{
    struct job_watcher *w = j->watchers;
    j->watchers = NULL;
    while (w != NULL) {
        struct job_watcher *next = w->next;
        w->next = NULL; /* a list of its own */
        w->link = &w->next;
        request_fail(w->request, err);
        if (w->reading) {
            w->closed = true; /* read_done frees it */
        } else {
            free_watcher(w);
        }
        w = next;
    }
}

bool job_watch_settled(const struct job *j)
{
    for (const struct job_watcher *w = j->watchers; w != NULL; w = w->next) {
        if (w->reading) {
            return false;
        }
    }
    return true;
}
