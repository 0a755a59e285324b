#include "daemon/engine/memory.h"

#include "proto/base/checked.h"

#include <stdlib.h>
#include <string.h>

#define NO_BLOCK UINT32_MAX
enum { SCAN_MAX = 64 /* blocks of one bin that are compared */ };

void memory_init(struct memory *m)
{
    *m = (struct memory){.spare = NO_BLOCK, .last = NO_BLOCK};
    memset(m->bins, 0xff, sizeof(m->bins));
}

void memory_fini(struct memory *m)
{
    free(m->blocks);
    memory_init(m);
}

/* Size classes: exact up to 7 units, then 8 per power of two. */
static uint32_t bin_of(uint64_t size)
{
    uint64_t units = size / MEMORY_ALIGN;
    uint32_t level;

    if (units < 8) {
        return (uint32_t)units;
    }
    level = 63U - (uint32_t)__builtin_clzll(units);
    return (level - 2) * 8 + (uint32_t)((units >> (level - 3)) & 7);
}

static void bin_insert(struct memory *m, uint32_t b)
{
    uint32_t bin = bin_of(m->blocks[b].size);

    m->blocks[b].free = true;
    m->blocks[b].bin_prev = NO_BLOCK;
    m->blocks[b].bin_next = m->bins[bin];
    if (m->bins[bin] != NO_BLOCK) {
        m->blocks[m->bins[bin]].bin_prev = b;
    }
    m->bins[bin] = b;
    m->filled[bin / 64] |= 1ULL << (bin % 64);
}

static void bin_remove(struct memory *m, uint32_t b)
{
    struct memory_block *block = &m->blocks[b];
    uint32_t bin = bin_of(block->size);

    if (block->bin_next != NO_BLOCK) {
        m->blocks[block->bin_next].bin_prev = block->bin_prev;
    }
    if (block->bin_prev != NO_BLOCK) {
        m->blocks[block->bin_prev].bin_next = block->bin_next;
    } else {
        m->bins[bin] = block->bin_next;
        if (m->bins[bin] == NO_BLOCK) {
            m->filled[bin / 64] &= ~(1ULL << (bin % 64));
        }
    }
    block->free = false;
}

/* Smallest of the bin's first blocks that holds size; ties go to the lower address. */
static uint32_t best_in_bin(const struct memory *m, uint32_t bin, uint64_t size)
{
    uint32_t best = NO_BLOCK, b = m->bins[bin];

    for (int i = 0; i < SCAN_MAX && b != NO_BLOCK; i++, b = m->blocks[b].bin_next) {
        const struct memory_block *block = &m->blocks[b];

        if (block->size >= size && (best == NO_BLOCK || block->size < m->blocks[best].size ||
                                    (block->size == m->blocks[best].size && block->offset < m->blocks[best].offset))) {
            best = b;
        }
    }
    return best;
}

static uint32_t best_fit(const struct memory *m, uint64_t size)
{
    uint32_t bin = bin_of(size);
    uint32_t best = best_in_bin(m, bin, size);
    uint32_t word = (bin + 1) / 64;
    uint64_t bits = word < MEMORY_BINS / 64 ? m->filled[word] & (~0ULL << ((bin + 1) % 64)) : 0;

    if (best != NO_BLOCK) {
        return best;
    }
    while (bits == 0) { /* all blocks of higher bins fit */
        if (++word >= MEMORY_BINS / 64) {
            return NO_BLOCK;
        }
        bits = m->filled[word];
    }
    return best_in_bin(m, word * 64 + (uint32_t)__builtin_ctzll(bits), size);
}

static uint32_t new_block(struct memory *m)
{
    uint32_t b = m->spare;

    if (b != NO_BLOCK) {
        m->spare = m->blocks[b].bin_next;
        return b;
    }
    if (m->n_blocks == m->cap_blocks) {
        uint32_t wanted = m->cap_blocks == 0 ? 32 : m->cap_blocks * 2;
        struct memory_block *grown = wanted < m->cap_blocks ? NULL : realloc(m->blocks, wanted * sizeof(*m->blocks));

        if (grown == NULL) {
            return NO_BLOCK;
        }
        m->blocks = grown;
        m->cap_blocks = wanted;
    }
    return m->n_blocks++;
}

static void forget_block(struct memory *m, uint32_t b)
{
    m->blocks[b].bin_next = m->spare;
    m->blocks[b].free = false;
    m->spare = b;
}

/* Puts a new block of size behind b (NO_BLOCK: into an empty arena). */
static uint32_t insert_after(struct memory *m, uint32_t b, uint64_t offset, uint64_t size)
{
    uint32_t fresh = new_block(m);

    if (fresh == NO_BLOCK) {
        return NO_BLOCK;
    }
    m->blocks[fresh] = (struct memory_block){
        .offset = offset, .size = size, .before = b, .after = b == NO_BLOCK ? NO_BLOCK : m->blocks[b].after};
    if (b != NO_BLOCK) {
        m->blocks[b].after = fresh;
    }
    if (m->blocks[fresh].after != NO_BLOCK) {
        m->blocks[m->blocks[fresh].after].before = fresh;
    } else {
        m->last = fresh;
    }
    return fresh;
}

/* Makes the arena longer, counting a free block at its end in. */
static int extend(struct memory *m, uint64_t size, uint32_t *out, struct eo_error *err)
{
    bool tail = m->last != NO_BLOCK && m->blocks[m->last].free;
    uint64_t missing = size - (tail ? m->blocks[m->last].size : 0), total;

    if (!eo_add_u64(m->size, missing, &total) || total > INT64_MAX) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "intermediate results need more than 2^63 bytes");
    }
    if (tail) {
        bin_remove(m, m->last);
        m->blocks[m->last].size = size;
        *out = m->last;
    } else {
        *out = insert_after(m, m->last, m->size, size);
        if (*out == NO_BLOCK) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to plan memory");
        }
    }
    m->size = total;
    return EO_OK;
}

int memory_take(struct memory *m, uint64_t size, uint32_t *out_block, struct eo_error *err)
{
    uint64_t rounded;
    uint32_t b;

    if (!eo_add_u64(size, MEMORY_ALIGN - 1, &rounded)) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "an intermediate result needs %llu bytes", (unsigned long long)size);
    }
    rounded &= ~(uint64_t)(MEMORY_ALIGN - 1);
    b = best_fit(m, rounded);
    if (b == NO_BLOCK) {
        return extend(m, rounded, out_block, err);
    }
    bin_remove(m, b);
    if (m->blocks[b].size > rounded) {
        uint32_t rest = insert_after(m, b, m->blocks[b].offset + rounded, m->blocks[b].size - rounded);

        if (rest == NO_BLOCK) {
            bin_insert(m, b);
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to plan memory");
        }
        m->blocks[b].size = rounded;
        bin_insert(m, rest);
    }
    *out_block = b;
    return EO_OK;
}

/* Adds the free block `with` to its free or just freed neighbour before it. */
static void absorb(struct memory *m, uint32_t b, uint32_t with)
{
    m->blocks[b].size += m->blocks[with].size;
    m->blocks[b].after = m->blocks[with].after;
    if (m->blocks[b].after != NO_BLOCK) {
        m->blocks[m->blocks[b].after].before = b;
    } else {
        m->last = b;
    }
    forget_block(m, with);
}

void memory_give(struct memory *m, uint32_t block)
{
    uint32_t before = m->blocks[block].before, after = m->blocks[block].after;

    if (after != NO_BLOCK && m->blocks[after].free) {
        bin_remove(m, after);
        absorb(m, block, after);
    }
    if (before != NO_BLOCK && m->blocks[before].free) {
        bin_remove(m, before);
        absorb(m, before, block);
        block = before;
    }
    bin_insert(m, block);
}
