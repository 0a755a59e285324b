#include "daemon/server/models.h"

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/blobs_trim.h"
#include "daemon/server/device.h"
#include "daemon/server/items.h"
#include "daemon/server/process.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_SIZE = 1100,
    RESULT_MAX = 1 << 20,
    END_GRACE_MS = 1000 /* after its answer a worker has nothing left to do */
};

enum run_state { RUN_WAITING, RUN_RUNNING, RUN_SETTLING /* a file thread looks at the results */, RUN_DONE };

struct model_run {
    struct model_run *next; /* of the table, oldest first */
    struct models *models;
    enum run_state state;
    bool dropped; /* nobody wants its results any more */
    char id[MODELS_ID_SIZE];
    char path[PATH_SIZE]; /* of the results, until they lose their name */
    struct model_task task;
    struct request *request; /* until it is answered */
    struct session *session;
    struct connection_hook hook;
    struct worker_process *worker;
    struct loop_timer *timer; /* the time limit, then the grace of a worker that has answered */
    bool answered;            /* by the worker */
    struct eo_bytes result;   /* its answer */
    struct eo_error cause;    /* why it failed */
    int fd;                   /* of the results; -1 = none */
    uint64_t bytes;
};

struct models {
    struct server *server;
    struct model_run *first, **last;
    const struct session *served; /* whose turn it was last; compared only */
    bool scheduling;
};

static void schedule(struct models *m);

/* ---- the table ---- */

static void add_run(struct models *m, struct model_run *run)
{
    run->next = NULL;
    *m->last = run;
    m->last = &run->next;
}

static void free_run(struct model_run *run)
{
    connection_unhook(&run->hook);
    loop_timer_free(run->timer);
    if (run->request != NULL) {
        request_unref(run->request);
    }
    if (run->session != NULL) {
        session_unref(run->session);
    }
    if (run->fd >= 0) {
        close(run->fd);
    }
    eo_bytes_fini(&run->task.body);
    eo_bytes_fini(&run->task.blobs);
    eo_bytes_fini(&run->result);
    free(run);
}

static void remove_run(struct model_run *run)
{
    struct models *m = run->models;
    struct model_run **at = &m->first;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    if (m->last == &run->next) {
        m->last = at;
    }
    free_run(run);
}

int models_init(struct server *s, struct eo_error *err)
{
    char path[PATH_SIZE];
    struct models *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for models");
    }
    m->server = s;
    m->last = &m->first;
    s->models = m;
    if (!eo_path_join(path, sizeof path, s->state_dir, "models")) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    int rc = eo_dir_remove(path, err);
    return rc == EO_OK ? eo_dir_ensure(path, 0700, err) : rc;
}

void models_fini(struct server *s)
{
    while (s->models != NULL && s->models->first != NULL) {
        remove_run(s->models->first);
    }
    free(s->models);
    s->models = NULL;
}

/* ---- the end of a run ---- */

/* {run, the pairs of the worker's answer} */
static void send_result(struct model_run *run, const struct eo_item *result)
{
    const struct eo_item *key = NULL;
    const struct eo_item *value = NULL;
    const size_t n = eo_item_count(result);
    struct eo_bytes *b = request_result(run->request);
    eo_pack_map(b, n + (run->task.describe ? 0 : 1));
    if (!run->task.describe) {
        eo_pack_kv_str(b, "run", run->id);
    }
    for (size_t i = 0; i < n; i++) {
        eo_item_pair(result, i, &key, &value);
        item_pack(b, key);
        item_pack(b, value);
    }
    request_send(run->request);
}

static void answer(struct model_run *run)
{
    struct eo_doc doc;
    if (run->cause.code == EO_OK && run->result.failed) {
        EO_RAISE(&run->cause, EO_E_NO_MEMORY, "no memory for the answer of the worker");
    }
    if (run->cause.code == EO_OK && eo_doc_parse(&doc, run->result.data, run->result.size, &run->cause) == EO_OK) {
        send_result(run, doc.root);
        eo_doc_fini(&doc);
    } else {
        request_fail(run->request, &run->cause);
    }
    request_unref(run->request);
    run->request = NULL;
    eo_bytes_fini(&run->result);
}

static void note_uses(const struct model_run *run)
{
    const struct eo_bytes *names = &run->task.blobs;
    for (size_t at = 0; at + BLOBS_NAME <= names->size; at += BLOBS_NAME) {
        char name[BLOBS_NAME + 1] = "";
        uint64_t size = 0;
        uint64_t received = 0;
        memcpy(name, names->data + at, BLOBS_NAME);
        (void)blobs_have(run->models->server->state_dir, name, &size, &received);
    }
}

/* The results lose their name, and what else a failed run has left goes. */
static void settle_work(void *ctx)
{
    struct model_run *run = ctx;
    struct stat st;
    note_uses(run);
    if (run->cause.code == EO_OK && !run->task.describe) {
        run->fd = open(run->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (run->fd < 0 || fstat(run->fd, &st) != 0) {
            int errnum = errno;
            eo_raise_io(&run->cause, errnum, "open", run->path);
        } else {
            run->bytes = (uint64_t)st.st_size;
        }
    }
    (void)unlink(run->path);
}

static void settle_done(void *ctx)
{
    struct model_run *run = ctx;
    struct models *m = run->models;
    run->state = RUN_DONE;
    if (!run->dropped) {
        answer(run);
    }
    if (run->dropped || run->fd < 0) {
        remove_run(run);
    }
    schedule(m);
}

static void settle(struct model_run *run)
{
    run->state = RUN_SETTLING;
    loop_timer_stop(run->timer);
    if (loop_work(run->models->server->loop, LOOP_FILES, settle_work, settle_done, run, &run->cause) != EO_OK) {
        settle_done(run); /* with the cause just raised; the next start of the daemon removes the file */
    }
}

/* ---- the worker ---- */

static void on_reply(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    struct model_run *run = ctx;
    if (run->cause.code != EO_OK) {
        return; /* it is being killed */
    }
    run->answered = true;
    if (err != NULL) {
        run->cause = *err;
    } else {
        eo_pack_item(&run->result, result);
    }
    loop_timer_start(run->timer, END_GRACE_MS, 0);
    worker_process_end(run->worker);
}

static void on_exited(void *ctx, const struct eo_error *why)
{
    struct model_run *run = ctx;
    run->worker = NULL;
    if (!run->answered && run->cause.code == EO_OK) {
        run->cause = *why;
    }
    settle(run);
}

static void on_timer(void *ctx)
{
    struct model_run *run = ctx;
    if (!run->answered && run->cause.code == EO_OK) {
        const uint64_t limit_ms = run->models->server->config->model_time_limit_ms;
        EO_RAISE(&run->cause, EO_E_TIME_LIMIT, "the model ran past its time limit of %llu ms",
                 (unsigned long long)limit_ms);
        eo_error_hint(&run->cause, "Raise model-time-limit in the configuration of everyod.");
    }
    worker_process_kill(run->worker);
}

/* What the results of a session may still take. */
static uint64_t results_left(const struct model_run *run)
{
    const struct server *s = run->models->server;
    uint64_t left = s->config->session_memory_bytes != 0 ? s->config->session_memory_bytes : s->memory_limit_bytes;
    for (const struct model_run *other = run->models->first; other != NULL; other = other->next) {
        left -= other->session == run->session ? EO_MIN(left, other->bytes) : 0;
    }
    return left;
}

static int send_task(struct model_run *run, struct eo_error *err)
{
    struct eo_bytes *b = worker_process_task(run->worker, EO_MSG_TASK_MODEL);
    eo_pack_map(b, run->task.n_keys + 4);
    eo_pack_kv_bool(b, "describe", run->task.describe);
    eo_pack_kv_str(b, "device", run->task.device);
    eo_pack_kv_str(b, "result", run->path);
    eo_pack_kv_u64(b, "limit_bytes", results_left(run));
    eo_bytes_append(b, run->task.body.data, run->task.body.size);
    b->failed |= run->task.body.failed;
    return worker_process_send(run->worker, on_reply, run, err);
}

static void start(struct model_run *run)
{
    struct server *s = run->models->server;
    const char *const args[] = {"--job", run->id};
    const struct worker_callbacks callbacks = {.ctx = run, .exited = on_exited};
    run->state = RUN_RUNNING;
    run->models->served = run->session;
    if (worker_process_spawn(s, args, 2, -1, &callbacks, &run->worker, &run->cause) != EO_OK) {
        run->worker = NULL;
        settle(run);
        return;
    }
    if (send_task(run, &run->cause) != EO_OK) {
        worker_process_kill(run->worker);
        return;
    }
    loop_timer_start(run->timer, s->config->model_time_limit_ms, 0);
}

/* ---- turns ---- */

/* "auto" takes the best backend, the first of the table: the two are one device as far as turns go. */
static const char *queue_of(const struct model_run *run)
{
    return run->task.device[0] == '\0' || strcmp(run->task.device, "auto") == 0 ? devices_best() : run->task.device;
}

static bool is_free(const struct models *m, const char *queue)
{
    for (const struct model_run *run = m->first; run != NULL; run = run->next) {
        if ((run->state == RUN_RUNNING || run->state == RUN_SETTLING) && strcmp(queue_of(run), queue) == 0) {
            return false;
        }
    }
    return true;
}

/* The oldest one that can start, before those of the session that had the last turn. */
static struct model_run *take_next(struct models *m)
{
    struct model_run *same = NULL;
    for (struct model_run *run = m->first; run != NULL; run = run->next) {
        if (run->state == RUN_WAITING && is_free(m, queue_of(run))) {
            if (run->session != m->served) {
                return run;
            }
            same = same != NULL ? same : run;
        }
    }
    return same;
}

static void schedule(struct models *m)
{
    if (m->scheduling) {
        return; /* a start that failed at once: the loop below looks again */
    }
    m->scheduling = true;
    for (struct model_run *run = take_next(m); run != NULL; run = take_next(m)) {
        start(run);
    }
    m->scheduling = false;
}

/* ---- clients ---- */

static void on_connection_closed(void *ctx)
{
    struct model_run *run = ctx;
    run->dropped = true;
    if (run->state == RUN_WAITING || run->state == RUN_DONE) {
        remove_run(run);
    } else if (run->state == RUN_RUNNING && !run->answered) {
        EO_RAISE(&run->cause, EO_E_CANCELLED, "the connection was closed");
        worker_process_kill(run->worker);
    }
}

static int check_room(const struct models *m, const struct request *r, struct eo_error *err)
{
    unsigned n_waiting = 0;
    unsigned n_mine = 0;
    for (const struct model_run *run = m->first; run != NULL; run = run->next) {
        n_waiting += run->state == RUN_WAITING;
        n_mine += run->session == r->session;
    }
    if (m->server->draining) {
        return EO_RAISE(err, EO_E_SHUTTING_DOWN, "this daemon is shutting down");
    }
    if (n_waiting >= MODELS_MAX_WAITING) {
        return EO_RAISE(err, EO_E_BUSY, "%u models wait for their turn, and no more may", n_waiting);
    }
    if (n_mine >= MODELS_MAX_OF_SESSION) {
        EO_RAISE(err, EO_E_QUOTA, "%u runs of this session wait, run or have results", n_mine);
        eo_error_hint(err, "Let results go with model.free.");
        return EO_E_QUOTA;
    }
    return r->conn != NULL ? EO_OK : EO_RAISE(err, EO_E_CONNECTION_LOST, "the connection was closed");
}

static int new_run(struct models *m, struct request *r, struct model_run **out, struct eo_error *err)
{
    struct model_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a run");
    }
    run->models = m;
    run->fd = -1;
    eo_bytes_init(&run->result, RESULT_MAX);
    run->timer = loop_timer_new(m->server->loop, on_timer, run);
    int rc = run->timer != NULL ? random_hex(run->id, (MODELS_ID_SIZE - 1) / 2, err)
                                : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a run");
    int n = snprintf(run->path, sizeof run->path, "%s/models/%s", m->server->state_dir, run->id);
    if (rc == EO_OK && (size_t)n >= sizeof run->path) {
        rc = EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory is too long");
    }
    if (rc != EO_OK) {
        free_run(run);
        return rc;
    }
    run->request = request_ref(r);
    run->session = session_ref(r->session);
    run->hook = (struct connection_hook){.closed = on_connection_closed, .ctx = run};
    connection_hook(r->conn, &run->hook);
    *out = run;
    return EO_OK;
}

int models_submit(struct request *r, struct model_task *task, struct eo_error *err)
{
    struct models *m = r->server->models;
    struct model_run *run = NULL;
    int rc = check_room(m, r, err);
    if (rc == EO_OK) {
        rc = new_run(m, r, &run, err);
    }
    if (rc != EO_OK) {
        eo_bytes_fini(&task->body);
        eo_bytes_fini(&task->blobs);
        return rc;
    }
    run->task = *task;
    add_run(m, run);
    schedule(m);
    return EO_OK;
}

void models_pin_blobs(const struct server *s, struct eo_bytes *out)
{
    for (const struct model_run *run = s->models->first; run != NULL; run = run->next) {
        if (run->state == RUN_WAITING || run->state == RUN_RUNNING) {
            eo_bytes_append(out, run->task.blobs.data, run->task.blobs.size);
        }
    }
}

static int find_run(const struct request *r, const char *id, struct model_run **out, struct eo_error *err)
{
    char quoted[100];
    for (struct model_run *run = r->server->models->first; run != NULL; run = run->next) {
        if (run->state == RUN_DONE && run->session == r->session && strcmp(run->id, id) == 0) {
            *out = run;
            return EO_OK;
        }
    }
    return EO_RAISE(err, EO_E_BAD_PARAMS, "this session has no results of a run %s",
                    eo_quote(id, strlen(id), quoted, sizeof quoted));
}

int models_results(const struct request *r, const char *id, int *out_fd, struct eo_error *err)
{
    struct model_run *run = NULL;
    int rc = find_run(r, id, &run, err);
    if (rc != EO_OK) {
        return rc;
    }
    *out_fd = fcntl(run->fd, F_DUPFD_CLOEXEC, 0);
    if (*out_fd < 0) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_BUSY, errnum, "no descriptor to read results");
    }
    return EO_OK;
}

int models_free(const struct request *r, const char *id, struct eo_error *err)
{
    struct model_run *run = NULL;
    int rc = find_run(r, id, &run, err);
    if (rc == EO_OK) {
        remove_run(run);
    }
    return rc;
}
