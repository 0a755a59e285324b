/* Sessions: what a client owns here. Handles are (slot, generation), chosen by the client; a session lives while a
 * connection is attached and, when it owns something, for the lease after that. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_SESSION_H
#define EO_DAEMON_SERVER_SESSION_H

#include "daemon/server/device.h"
#include "daemon/server/server.h"
#include "daemon/server/tensor.h"

enum {
    SESSION_ID_SIZE = 33 /* 128 bits, hex */,
    SESSION_SECRET_SIZE = 65 /* 256 bits, hex */,
    SESSION_PAGE_SLOTS = 256
};

struct handle {
    uint32_t slot, generation;
};

struct slot {
    struct tensor *tensor; /* NULL = free */
    uint32_t generation;   /* the last one used */
};

struct session_plan {
    uint32_t n_refs;
    struct session_plan *next; /* of its bucket */
    struct session *session;   /* not referenced: closing detaches */
    uint32_t id;               /* the client's */
    uint64_t worker_id;        /* unique in this daemon */
    struct device *device;
    uint32_t device_epoch; /* of the worker that compiled it */
    enum { PLAN_CREATING, PLAN_READY, PLAN_FAILED } state;
    struct poison *poison;
    uint32_t n_inputs, n_outputs;
    struct session_port *ports; /* inputs, then outputs */
    struct tensor_waiter *waiters;
};
struct session_port {
    char name[96];
    struct eo_tensor_desc desc;
};

struct session {
    uint32_t n_refs;
    struct session *next, **link; /* of the table */
    struct server *server;
    char id[SESSION_ID_SIZE];
    char secret[SESSION_SECRET_SIZE];
    bool closed;
    uint32_t n_connections, n_pending, n_tensors, n_plans;
    uint64_t tensor_bytes;
    struct slot **pages; /* of SESSION_PAGE_SLOTS each, made when touched, so that a high slot costs one page */
    uint32_t n_pages;
    struct session_plan *plans[64];
    struct task_queue queues[DEVICE_MAX];
    struct loop_timer *lease;
    /* Requests in order of arrival while one of them waits for a plan or a device. */
    struct request *inbox, **inbox_last;
    struct tensor_waiter inbox_waiter;
    bool inbox_waits;
    struct tensor_waiter *idle_waiters; /* the inbox became empty */
};

int random_hex(char *out, size_t n_bytes, struct eo_error *err); /* 2 n_bytes digits and NUL; at most 32 bytes */
int sessions_init(struct server *s, struct eo_error *err);
void sessions_fini(struct server *s);
uint32_t sessions_count(const struct server *s);

int session_new(struct server *s, struct session **out, struct eo_error *err);
/* Finds it and compares the secret in constant time. NO_SESSION either way, so that ids cannot be probed. */
int session_find(struct server *s, const char *id, const char *secret, struct session **out, struct eo_error *err);
int session_attach(struct session *x, struct eo_error *err); /* QUOTA: too many connections */
void session_detach(struct session *x);                      /* the lease begins with the last one */
void session_close(struct session *x);                       /* frees everything now */
struct session *session_ref(struct session *x);
void session_unref(struct session *x);

/* ---- handles ---- */
int handle_unpack(const struct session *x, const struct eo_item *it, const char *what, struct handle *out,
                  struct eo_error *err);
int session_tensor(const struct session *x, struct handle h, struct tensor **out, struct eo_error *err); /* borrowed */
/* BAD_HANDLE when the slot is in use or the generation is not newer; QUOTA. */
int session_check_new(const struct session *x, struct handle h, struct eo_error *err);
int session_put(struct session *x, struct handle h, struct tensor *t, struct eo_error *err); /* takes t over */
bool session_drop(struct session *x, struct handle h);                                       /* false: no such handle */
/* The outputs of a request that failed: handles that do not exist become poisoned tensors. */
void session_poison_outputs(struct request *r, const struct eo_error *err);

/* ---- plans ---- */
struct session_plan *session_find_plan(const struct session *x, uint32_t id);
int session_put_plan(struct session *x, struct session_plan *p,
                     struct eo_error *err); /* QUOTA, BAD_HANDLE; takes p over */
void session_drop_plan(struct session *x, struct session_plan *p);
struct session_plan *session_plan_ref(struct session_plan *p);
void session_plan_unref(struct session_plan *p);
void session_plan_settle(struct session_plan *p, const struct eo_error *err); /* NULL: ready */
/* EO_OK, or why it cannot run: its creation failed, or its worker was lost. */
int session_plan_check(struct session_plan *p, struct eo_error *err);

/* ---- order ---- */
/* Runs r's handler now, or after those that came before it and wait. */
void session_submit(struct session *x, struct request *r);
/* For handlers of rows that need a session: the waiter to put into a list before they return SESSION_AGAIN; when it
 * fires, they run again. */
enum { SESSION_AGAIN = -1 };
struct tensor_waiter *session_waiter(void *session);
bool session_inbox_busy(const struct session *x);
void session_wait_inbox(struct session *x, struct tensor_waiter *w);

#endif
