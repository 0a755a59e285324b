/* A worker process seen from everyod: started by exec, spoken to over rings in shared memory, gone when it ends or its
 * control socket closes. The same for --device and --job workers. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_PROCESS_H
#define EO_DAEMON_SERVER_PROCESS_H

#include "daemon/server/loop.h"
#include "proto/base/bytes.h"
#include "proto/codec.h"
#include "proto/message_schema.h"

#include <sys/types.h>

struct server;
struct worker_process;

enum { WORKER_MAX_ARGS = 12, WORKER_TAG_MAX = 512 };

struct worker_callbacks {
    void *ctx;
    /* A report.* row. params live during the call. */
    void (*report)(void *ctx, enum eo_message m, const struct eo_item *params);
    /* The process has ended and every outstanding task was answered. why is WORKER_LOST, naming signal or status and
     * the worker. The worker_process is freed when this returns. */
    void (*exited)(void *ctx, const struct eo_error *why);
};

/* args: what follows `everyod-worker --state-dir D`, such as {"--device", "cpu"} or {"--job", id}; pool_fd: tensor
 * memory to map, -1 for none (stays the caller's). */
int worker_process_spawn(struct server *s, const char *const *args, int n_args, int pool_fd,
                         const struct worker_callbacks *callbacks, struct worker_process **out, struct eo_error *err);

/* Exactly one call per task: err NULL and result a map, or the error (WORKER_LOST when the process ended first). Both
 * live during the call only. */
typedef void (*worker_reply_fn)(void *ctx, const struct eo_error *err, const struct eo_item *result);
/* Opens a task; pack exactly one map of params, then worker_process_send. BUSY when too much is queued, TOO_LARGE for
 * an envelope over the limit; reply is not called then. */
struct eo_bytes *worker_process_task(struct worker_process *w, enum eo_message m);
int worker_process_send(struct worker_process *w, worker_reply_fn reply, void *ctx, struct eo_error *err);
/* The same with params packed elsewhere: one msgpack map. */
int worker_process_send_params(struct worker_process *w, enum eo_message m, const struct eo_bytes *params,
                               worker_reply_fn reply, void *ctx, struct eo_error *err);
/* Passes a descriptor with a tag of at most WORKER_TAG_MAX bytes (worker.h, worker_on_fd); fd stays the caller's. */
int worker_process_send_fd(struct worker_process *w, int fd, const void *tag, size_t size, struct eo_error *err);

pid_t worker_process_pid(const struct worker_process *w);
bool worker_process_gone(const struct worker_process *w); /* it has ended; exited is about to be called */
uint32_t worker_process_in_flight(const struct worker_process *w);
const char *worker_process_label(const struct worker_process *w); /* "everyod-worker --device cpu (pid 4711)" */
/* Asks it to end by closing the control socket; after 5 s it is killed. exited follows. close: its end was not wanted
 * by us (it is logged as a loss); end: it was. */
void worker_process_close(struct worker_process *w);
void worker_process_end(struct worker_process *w);
void worker_process_kill(struct worker_process *w);                         /* SIGKILL; exited follows */
struct worker_process *worker_process_next(const struct worker_process *w); /* of server.workers */
/* Looks at the rings of all workers while the loop spins. */
void worker_process_spinner(struct server *s, struct loop_spinner *out);

#endif
