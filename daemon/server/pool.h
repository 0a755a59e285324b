/* The tensor memory of one device: a shared mapping and its allocator. Bookkeeping lies in everyod's own memory, so
 * that a worker gone wild cannot break it. Offsets are multiples of 64 bytes; allocation and freeing take constant
 * time.
 *
 * Pages are taken before use (commit). everyod commits what it is about to receive; what a worker is about to write is
 * promised: the task carries the ranges, the worker commits them. A promise that failed is withdrawn.
 * Loop's thread only. */
#ifndef EO_DAEMON_SERVER_POOL_H
#define EO_DAEMON_SERVER_POOL_H

#include "daemon/worker/shm.h"

enum { POOL_ALIGN = 64, POOL_GRANULE = 64 << 10 /* unit of committing */, POOL_BINS = 60 * 8 };

struct pool_extent; /* a piece of the pool, used or free */

struct pool {
    struct shm shm;
    uint64_t used_bytes;      /* by extents in use */
    uint64_t committed_bytes; /* pages taken or promised */
    uint64_t n_granules;
    uint8_t *granules; /* enum granule_state */
    struct pool_extent *bins[POOL_BINS];
    uint64_t bin_map[(POOL_BINS + 63) / 64];
    struct pool_extent *first; /* by address */
};

int pool_init(struct pool *p, uint64_t size, struct eo_error *err);
void pool_fini(struct pool *p);

/* DEVICE_MEMORY when no free piece is large enough. bytes 0 takes nothing: offset 0, extent NULL. */
int pool_alloc(struct pool *p, uint64_t bytes, uint64_t *out_offset, struct pool_extent **out, struct eo_error *err);
void pool_free(struct pool *p, struct pool_extent *e); /* NULL is fine; does not give pages back */
/* Frees what lies behind the first `bytes`, in units of POOL_ALIGN; 0 frees all and sets *e to NULL. Nothing happens
 * when memory for the bookkeeping is out. */
void pool_shrink(struct pool *p, struct pool_extent **e, uint64_t bytes);

int pool_commit(struct pool *p, uint64_t offset, uint64_t bytes, struct eo_error *err);
/* Calls fn with each range of [offset, offset + bytes) that is not committed for sure, and marks it promised. */
void pool_promise(struct pool *p, uint64_t offset, uint64_t bytes,
                  void (*fn)(void *ctx, uint64_t offset, uint64_t bytes), void *ctx);
void pool_kept(struct pool *p, uint64_t offset, uint64_t bytes);   /* the promise was kept */
void pool_broken(struct pool *p, uint64_t offset, uint64_t bytes); /* it was not, or nobody knows */
/* Gives pages of free extents back to the host, until at most keep_bytes of free memory stay committed. */
void pool_trim(struct pool *p, uint64_t keep_bytes);

#endif
