/* The compute process: executes task.* rows that come over the ring. One thread, the ring's, receives tasks and runs
 * short ones itself; a task that runs long (task.job) starts a thread of its own and answers later, so that task.stop
 * gets through. The control thread waits for everyod's end and for descriptors. */
#ifndef EO_DAEMON_WORKER_WORKER_H
#define EO_DAEMON_WORKER_WORKER_H

#include "backends/backend.h"
#include "daemon/worker/ring.h"
#include "proto/codec.h"
#include "proto/message_schema.h"

struct executor;
struct worker_plans;
struct worker_private;

struct worker {
    const char *state_dir;
    const char *device_name; /* --device; NULL for a job worker */
    const char *job;         /* --job; NULL for a device worker */
    int n_threads;           /* 0 = by affinity */
    uint64_t memory_limit_bytes;
    struct shm pool; /* tensor memory; size 0 for a job worker */
    struct eo_device *device;
    struct executor *executor; /* of device */
    struct worker_plans *plans;
    void *job_state; /* worker_job.c's own */
    struct worker_private *private_;
};

/* A task being executed. params live until it is answered. */
struct worker_call {
    uint32_t id;
    enum eo_message message;
    const struct eo_item *params;
    bool deferred; /* set by the task function before anybody may answer: it answers later through worker_answer */
    struct worker_call_private *private_;
};

/* One function per task.* row of messages.def, TASK(OP) for task.op; a missing one is a link error. It packs exactly
 * one map into result and returns 0, or returns an error, or sets call->deferred and keeps the call until it calls
 * worker_answer or worker_refuse (any thread), which free it. */
#define TASK_ARGUMENTS struct worker *w, struct worker_call *call, struct eo_bytes *result, struct eo_error *err
#define TASK(NAME) int task_TASK_##NAME(TASK_ARGUMENTS)

#define TASKED_CLIENT(NAME)
#define TASKED_PEER(NAME)
#define TASKED_EVENT(NAME)
#define TASKED_TASK(NAME) int task_##NAME(TASK_ARGUMENTS);
#define TASKED_REPORT(NAME)
#define EO_MESSAGE(method, NAME, from, ...) TASKED_##from(NAME)
#include "proto/tables/messages.def"
#undef TASKED_CLIENT
#undef TASKED_PEER
#undef TASKED_EVENT
#undef TASKED_TASK
#undef TASKED_REPORT

/* result: one packed map. Any thread. */
void worker_answer(struct worker *w, struct worker_call *call, const struct eo_bytes *result);
void worker_refuse(struct worker *w, struct worker_call *call, const struct eo_error *error);
/* Sends a report.* row; params: one packed map. Any thread; waits while the ring is full. */
void worker_report(struct worker *w, enum eo_message m, const struct eo_bytes *params);

/* Opens a device (design section 9 names) and its executor into w->device, w->executor. For job workers, whose spec
 * names the device. NO_DEVICE names every candidate and why it was not taken. */
int worker_open_device(struct worker *w, const char *name, int n_threads, char *out_reason, size_t reason_size,
                       struct eo_error *err);
/* Descriptors that everyod passes (data sockets of a job): fn runs on the control thread and owns fd. Those that came
 * before are handed over at once. */
void worker_on_fd(struct worker *w, void (*fn)(void *ctx, int fd, const void *tag, size_t size), void *ctx);

/* A job worker's own state (worker_job.c); lives as long as the process. */
int worker_job_init(struct worker *w, struct eo_error *err);

#endif
