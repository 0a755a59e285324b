/* The devices of this host as everyod sees them: a name, a pool, and a worker process that is started at first use and
 * again after it was lost. Tasks queue per session and leave in turn; a few are in flight at a time, so that no session
 * waits behind a long queue of another. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_DEVICE_H
#define EO_DAEMON_SERVER_DEVICE_H

#include "daemon/server/pool.h"
#include "daemon/server/process.h"
#include "daemon/server/tensor.h"
#include "proto/codec.h"

/* In flight at a time: enough to hide the way to the worker when tasks are short, few when they are long, so that
 * another session's next task waits for little. */
enum {
    DEVICE_MAX = 32,
    DEVICE_MAX_INDEX = 7, /* "cuda:7" */
    DEVICE_IN_FLIGHT = 8,
    DEVICE_IN_FLIGHT_LONG = 2,
    DEVICE_LONG_NS = 200000,
    DEVICE_RETRY_MS = 1000,
    DEVICE_MAX_RANGES = 64
};

struct server;
struct session;
struct request;
struct device_task;
struct eo_op_schema;
struct eo_attrs;

/* Tasks of one session for one device, in order. */
struct task_queue {
    struct device_task *first, **last;
    struct task_queue *next, **link; /* of the device's round; link NULL = not in it */
};

enum device_state { DEVICE_OFF, DEVICE_STARTING, DEVICE_READY, DEVICE_FAILED };

struct device {
    struct server *server;
    int index;
    char name[16];
    char description[96];
    int n_threads;
    enum device_state state;
    struct pool pool;
    struct worker_process *worker;
    uint32_t epoch;      /* counts workers; plans of an older one are lost */
    struct eo_error why; /* of FAILED, or how the last worker ended */
    uint64_t failed_ns;
    uint32_t n_in_flight, n_queued;
    uint64_t task_since_ns, task_ns; /* when the worker turned to the present task; how long they take, averaged */
    struct task_queue system;        /* tasks of no session */
    struct task_queue *round, **round_last;
    struct tensor_waiter *waiters; /* state changed */
    struct loop_timer *trim;
};

struct device_table {
    struct server *server;
    int n;
    struct device *devices[DEVICE_MAX];
    struct device *fallback; /* the default device, once known */
    bool resolving;
    struct eo_error resolve_error; /* code != 0: the last try failed */
    uint64_t resolve_failed_ns;
    struct tensor_waiter *waiters; /* for the default device */
    struct eo_bytes facts;         /* the last answer of task.facts: what info shows while the worker computes */
};

int devices_init(struct server *s, struct eo_error *err);
void devices_fini(struct server *s);
/* EO_OK for a name that device_choose would look for; NO_DEVICE, with the nearest one, for any other. */
int device_check_name(const char *name, struct eo_error *err);
const char *devices_best(void); /* the backend that auto tries first */
/* By name; NO_DEVICE for a name no backend has. Does not start anything. */
int device_find(struct server *s, const char *name, struct device **out, struct eo_error *err);
/* The default device. EO_OK with *out; or EO_OK with *out NULL: not known yet, waiter(owner) fires when it is. */
int device_default(struct server *s, struct device **out, waiter_fn waiter, void *owner, struct eo_error *err);
/* name "" or "auto" = the default one, else as device_find. */
int device_choose(struct server *s, const char *name, struct device **out, waiter_fn waiter, void *owner,
                  struct eo_error *err);

/* A task: one task.* row with the tensors it reads and writes. Made by device_task_new, given to device_submit. */
struct device_task {
    struct device_task *next;
    struct device *device;
    enum eo_message message;
    struct session *session; /* NULL = the system's; referenced */
    struct request *request; /* to be answered; referenced; may be NULL */
    struct eo_bytes body;    /* n_keys key, value pairs: the params without their map header */
    uint32_t n_keys;
    uint32_t n_in, n_out;
    struct tensor **in, **out; /* referenced and in use */
    struct session_plan *plan; /* referenced; its worker must be the present one */
    /* Once, when it has ended: outputs are settled before. The task is freed when this returns. */
    void (*done)(struct device_task *t, const struct eo_error *err, const struct eo_item *result);
    void *ctx;
    uint32_t n_ranges; /* promised to be committed */
    struct {
        uint64_t offset, bytes;
    } ranges[DEVICE_MAX_RANGES];
};
/* in and out are referenced and marked in use; counts may be 0. */
int device_task_new(struct device *d, enum eo_message m, struct request *r, struct tensor *const *in, uint32_t n_in,
                    struct tensor *const *out, uint32_t n_out, struct device_task **out_task, struct eo_error *err);
void device_submit(struct device_task *t);
/* Takes back what a closing session has queued; tasks in flight end by themselves. */
void device_forget(struct session *x);
/* Packs {key: [[offset, size], ...]} of tensors into a task's body; NULL entries become nil. */
void device_task_places(struct device_task *t, const char *key, struct tensor *const *tensors, uint32_t n);

void device_memory_freed(struct device *d); /* gives pages back to the host after a while */
/* Packs an operation on t's tensors into a task.op. */
void device_task_op(struct device_task *t, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const char *fallback);
uint64_t devices_used_bytes(const struct server *s);
/* Between device.c (names and workers) and device_task.c (tasks and turns). */
void device_start(struct device *d);
bool device_resting(const struct device *d); /* it failed to start too recently to try again */
void device_pump(struct device *d); /* brings queued tasks on their way: starts the worker, keeps a few in flight */
void device_fail_queue(struct device *d, const struct eo_error *err);

void waiters_add(struct tensor_waiter **list, struct tensor_waiter *w);
void waiters_fire(struct tensor_waiter **list);

#endif
