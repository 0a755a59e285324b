/* A bump allocator: many small objects of one lifetime, freed together. All memory is zeroed and 16-byte aligned.
 * Returns NULL when the limit or memory is reached. Not thread-safe. */
#ifndef EO_PROTO_BASE_ARENA_H
#define EO_PROTO_BASE_ARENA_H

#include <stddef.h>

struct eo_arena_block;
struct eo_arena {
    struct eo_arena_block *head;
    size_t used;
    size_t limit;
};

void eo_arena_init(struct eo_arena *a, size_t limit);
void eo_arena_fini(struct eo_arena *a);
void *eo_arena_alloc(struct eo_arena *a, size_t size);
void *eo_arena_alloc_n(struct eo_arena *a, size_t count, size_t size); /* checked multiplication */
char *eo_arena_strndup(struct eo_arena *a, const char *text, size_t length);

#endif
