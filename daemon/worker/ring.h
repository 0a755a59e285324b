/* Two byte rings in one shared mapping, one each way: records (u32 size, bytes) of MessagePack-RPC envelopes, one
 * producer and one consumer per ring, an eventfd each to wake a consumer that sleeps.
 *
 * Both sides trust each other as little as needed: positions and sizes read from shared memory are checked against the
 * ring before use, and a record is copied out before it is parsed. A broken ring is INTERNAL and ends the worker. */
#ifndef EO_DAEMON_WORKER_RING_H
#define EO_DAEMON_WORKER_RING_H

#include "daemon/worker/shm.h"
#include "proto/base/bytes.h"

enum { RING_BYTES = 2 << 20, RING_RECORD_MAX = (1 << 20) + 4096 };

struct ring; /* lies in shared memory */

/* One side's view of both rings. */
struct ring_pair {
    struct shm shm;
    struct ring *out, *in;
    uint64_t out_head, in_tail; /* private copies of what this side alone advances */
    int wake_peer;              /* eventfd we signal */
    int wake_me;                /* eventfd we sleep on */
};

/* everyod's side: makes memory and eventfds (non-blocking, close-on-exec). */
int ring_pair_create(struct ring_pair *p, struct eo_error *err);
/* The worker's side: takes three descriptors over (memory, eventfd of the worker, eventfd of everyod). */
int ring_pair_attach(struct ring_pair *p, int shm_fd, int wake_worker, int wake_daemon, struct eo_error *err);
void ring_pair_close(struct ring_pair *p);

/* EO_OK; BUSY when it does not fit now (the consumer wakes us when there is room again); TOO_LARGE never fits. */
int ring_send(struct ring_pair *p, const void *data, size_t size, struct eo_error *err);
bool ring_readable(const struct ring_pair *p);
/* Replaces out's contents by the next record; *out_got false when there is none. INTERNAL: the ring is broken. */
int ring_receive(struct ring_pair *p, struct eo_bytes *out, bool *out_got, struct eo_error *err);
/* Announces that this side goes to sleep; returns false when something arrived meanwhile (do not sleep then). */
bool ring_prepare_sleep(struct ring_pair *p);
void ring_awake(struct ring_pair *p); /* withdraws the announcement: the other side need not wake us while we look */
void ring_woken(struct ring_pair *p); /* after sleeping: drains wake_me, withdraws the announcement */

#endif
