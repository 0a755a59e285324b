/* Names to numbers, in an arena: a crit-bit tree (Bernstein), so that looking up and adding cost at most the length of
 * the name whatever names a stranger chooses, where a hash table could be driven to a scan per name. */
#ifndef EO_PROTO_NAME_INDEX_H
#define EO_PROTO_NAME_INDEX_H

#include "proto/base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* A leaf holds a name; an inner node tells which bit decides between its children. */
struct eo_name_node {
    struct eo_name_node *child[2]; /* NULL in a leaf */
    uint32_t byte;
    uint8_t bit; /* one bit set; 0 in a leaf */
    uint32_t number;
    const char *name; /* NUL-terminated; lives as long as the arena */
};

/* Names hold no NUL. */
bool eo_name_index_find(const struct eo_name_node *root, const char *name, uint32_t *out_number);
/* name is not copied. False when the name is there already or memory is out; nothing has changed then. */
bool eo_name_index_add(struct eo_name_node **root, struct eo_arena *arena, const char *name, uint32_t number);

#endif
