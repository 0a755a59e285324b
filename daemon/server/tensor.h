/* A tensor as everyod owns it: descriptor, place in a device's pool, and whether its bytes are there.
 *
 *   FILLING   bytes are being uploaded: usable once all came
 *   PENDING   a task is going to write it
 *   READY     complete
 *   POISONED  the call that was to produce it failed; the first cause is kept
 *
 * References: the session's handle, tasks, answers under way. Users: tasks and answers that touch the bytes right now;
 * who wants to overwrite them waits until there are none. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_TENSOR_H
#define EO_DAEMON_SERVER_TENSOR_H

#include "proto/tensor_desc.h"

struct device;
struct session;
struct pool_extent;

/* An error shared by everything that a failed call was to produce. */
struct poison {
    uint32_t n_refs;
    struct eo_error error;
};
struct poison *poison_new(const struct eo_error *err); /* NULL when memory is out */
struct poison *poison_ref(struct poison *p);
void poison_unref(struct poison *p);

enum tensor_state { TENSOR_FILLING, TENSOR_PENDING, TENSOR_READY, TENSOR_POISONED };
enum { TENSOR_MAX_SPANS = 32 };

struct tensor_waiter {
    struct tensor_waiter *next;
    void (*fn)(void *ctx);
    void *ctx;
};

/* Gives the waiter that an owner waits with, when it turns out that it has to. */
typedef struct tensor_waiter *(*waiter_fn)(void *owner);

struct tensor {
    uint32_t n_refs, n_users;
    enum tensor_state state;
    bool sized_by_data;      /* PENDING: desc and bytes are the largest possible, tensor_shrink brings the real ones */
    struct device *device;   /* NULL for one that was poisoned before it had a place */
    struct session *session; /* whose quota it counts against; referenced */
    struct eo_tensor_desc desc;
    uint64_t offset, bytes;
    struct pool_extent *extent;
    struct poison *poison;
    struct {
        uint64_t begin, end;
    } spans[TENSOR_MAX_SPANS]; /* FILLING: ranges received, ascending, not touching */
    int n_spans;
    struct tensor_waiter *waiters;
};

/* Takes memory for desc on the device and counts it against the session. Errors: QUOTA, DEVICE_MEMORY, NO_MEMORY. */
int tensor_new(struct session *session, struct device *device, const struct eo_tensor_desc *desc,
               enum tensor_state state, struct tensor **out, struct eo_error *err);
struct tensor *tensor_new_poisoned(struct session *session, struct poison *p); /* NULL when memory is out */
struct tensor *tensor_ref(struct tensor *t);
void tensor_unref(struct tensor *t); /* NULL is fine */
/* The real shape of one that is sized by data; gives back the memory behind it. INTERNAL when it is no part of the
 * largest. */
int tensor_shrink(struct tensor *t, const struct eo_tensor_desc *desc, struct eo_error *err);
/* Whether nobody can tell its shape yet. */
static inline bool tensor_shape_is_open(const struct tensor *t)
{
    return t->sized_by_data && t->state == TENSOR_PENDING;
}
void tensor_settle(struct tensor *t, struct poison *p); /* PENDING -> READY, or POISONED with p */
void tensor_use(struct tensor *t);
void tensor_unuse(struct tensor *t);
/* FILLING: [offset, offset + size) has come. BAD_PARAMS when the upload is in too many pieces. */
int tensor_received(struct tensor *t, uint64_t offset, uint64_t size, struct eo_error *err);
uint64_t tensor_received_bytes(const struct tensor *t);
/* Raises what stands against reading it: POISONED's first cause, or that bytes are missing. PENDING is fine. */
int tensor_check_readable(const struct tensor *t, struct eo_error *err);
/* fn runs once at the next change of state or end of use; the waiter is the caller's until then. */
void tensor_wait(struct tensor *t, struct tensor_waiter *w);

#endif
