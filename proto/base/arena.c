#include "proto/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, ARENA_BLOCK_MIN = 4096, ARENA_BLOCK_MAX = 256 * 1024 };

/* The payload follows the header; alignas keeps it on the same boundary as the block, which calloc aligns. */
struct eo_arena_block {
    struct eo_arena_block *next;
    size_t capacity;
    size_t used;
    alignas(ARENA_ALIGN) unsigned char data[];
};

void eo_arena_init(struct eo_arena *a, size_t limit)
{
    a->head = NULL;
    a->used = 0;
    a->limit = limit;
}

void eo_arena_fini(struct eo_arena *a)
{
    struct eo_arena_block *block = a->head;

    while (block != NULL) {
        struct eo_arena_block *next = block->next;

        free(block);
        block = next;
    }
    a->head = NULL;
    a->used = 0;
}

/* Blocks double from 4 KiB to 256 KiB, so that a small arena is small and a large one makes few calls. */
static struct eo_arena_block *block_new(const struct eo_arena_block *previous, size_t need)
{
    size_t capacity = previous == NULL ? ARENA_BLOCK_MIN : previous->capacity;
    struct eo_arena_block *block;

    if (previous != NULL && capacity < ARENA_BLOCK_MAX) {
        capacity *= 2;
    }
    if (capacity > ARENA_BLOCK_MAX) {
        capacity = ARENA_BLOCK_MAX;
    }
    if (capacity < need) {
        capacity = need;
    }
    if (capacity > SIZE_MAX - sizeof(struct eo_arena_block)) {
        return NULL;
    }
    block = calloc(1, sizeof(struct eo_arena_block) + capacity);
    if (block != NULL) {
        block->capacity = capacity;
    }
    return block;
}

void *eo_arena_alloc(struct eo_arena *a, size_t size)
{
    struct eo_arena_block *block = a->head;
    size_t rounded = size == 0 ? ARENA_ALIGN : size;
    void *memory;

    if (rounded > SIZE_MAX - (ARENA_ALIGN - 1)) {
        return NULL;
    }
    rounded = (rounded + (ARENA_ALIGN - 1)) & ~(size_t)(ARENA_ALIGN - 1);
    if (a->used > a->limit || rounded > a->limit - a->used) {
        return NULL;
    }
    if (block == NULL || rounded > block->capacity - block->used) {
        block = block_new(a->head, rounded);
        if (block == NULL) {
            return NULL;
        }
        block->next = a->head;
        a->head = block;
    }
    memory = block->data + block->used;
    block->used += rounded;
    a->used += rounded;
    return memory;
}

void *eo_arena_alloc_n(struct eo_arena *a, size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    return eo_arena_alloc(a, total);
}

char *eo_arena_strndup(struct eo_arena *a, const char *text, size_t length)
{
    char *copy;

    if (length == SIZE_MAX) {
        return NULL;
    }
    copy = eo_arena_alloc(a, length + 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}
