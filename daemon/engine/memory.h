/* Offsets in one arena for blocks that come and go in a known order: best fit over free blocks, neighbours merged. Only
 * numbers; no memory is touched. Time per call does not grow with the number of blocks. Belongs to one thread. */
#ifndef EO_DAEMON_ENGINE_MEMORY_H
#define EO_DAEMON_ENGINE_MEMORY_H

#include "proto/base/error.h"

enum { MEMORY_ALIGN = 64, MEMORY_BINS = 512 };

struct memory_block {
    uint64_t offset, size;
    uint32_t before, after;      /* neighbours by address */
    uint32_t bin_prev, bin_next; /* free blocks of one size class */
    bool free;
};

struct memory {
    struct memory_block *blocks;
    uint32_t n_blocks, cap_blocks;
    uint32_t spare; /* unused entries of blocks, chained by bin_next */
    uint32_t last;  /* block at the end of the arena */
    uint32_t bins[MEMORY_BINS];
    uint64_t filled[MEMORY_BINS / 64]; /* bit per bin: it has blocks */
    uint64_t size;                     /* of the arena so far */
};

void memory_init(struct memory *m);
void memory_fini(struct memory *m);
/* Books size > 0 bytes. Errors: NO_MEMORY, TOO_LARGE (the arena does not fit in 63 bits). */
int memory_take(struct memory *m, uint64_t size, uint32_t *out_block, struct eo_error *err);
void memory_give(struct memory *m, uint32_t block);
static inline uint64_t memory_offset(const struct memory *m, uint32_t block)
{
    return m->blocks[block].offset;
}

#endif
