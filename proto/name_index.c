#include "proto/name_index.h"

#include <string.h>

/* Byte i of a name; past the end it is 0, which no name holds. */
static unsigned byte_at(const char *name, size_t length, size_t i)
{
    return i < length ? (unsigned char)name[i] : 0;
}

/* The leaf that shares the longest decided prefix with name. */
static const struct eo_name_node *nearest_leaf(const struct eo_name_node *node, const char *name, size_t length)
{
    while (node->bit != 0) {
        node = node->child[(byte_at(name, length, node->byte) & node->bit) != 0];
    }
    return node;
}

bool eo_name_index_find(const struct eo_name_node *root, const char *name, uint32_t *out_number)
{
    const struct eo_name_node *leaf;

    if (root == NULL) {
        return false;
    }
    leaf = nearest_leaf(root, name, strlen(name));
    if (strcmp(leaf->name, name) != 0) {
        return false;
    }
    *out_number = leaf->number;
    return true;
}

bool eo_name_index_add(struct eo_name_node **root, struct eo_arena *arena, const char *name, uint32_t number)
{
    struct eo_name_node *leaf, *inner, **place = root;
    size_t length = strlen(name), byte = 0;
    const char *other;
    unsigned differ, bit;

    if (*root == NULL) {
        leaf = eo_arena_alloc(arena, sizeof(*leaf));
        if (leaf == NULL) {
            return false;
        }
        leaf->name = name;
        leaf->number = number;
        *root = leaf;
        return true;
    }
    other = nearest_leaf(*root, name, length)->name;
    while (other[byte] == name[byte]) {
        if (name[byte] == '\0') {
            return false;
        }
        byte++;
    }
    differ = (unsigned char)other[byte] ^ (unsigned char)name[byte];
    bit = 1U << (31 - __builtin_clz(differ));
    leaf = eo_arena_alloc(arena, sizeof(*leaf));
    inner = eo_arena_alloc(arena, sizeof(*inner));
    if (leaf == NULL || inner == NULL) {
        return false;
    }
    leaf->name = name;
    leaf->number = number;
    inner->byte = (uint32_t)byte;
    inner->bit = (uint8_t)bit;
    while ((*place)->bit != 0 && ((*place)->byte < byte || ((*place)->byte == byte && (*place)->bit > bit))) {
        place = &(*place)->child[(byte_at(name, length, (*place)->byte) & (*place)->bit) != 0];
    }
    inner->child[(byte_at(name, length, byte) & bit) != 0] = leaf;
    inner->child[(byte_at(name, length, byte) & bit) == 0] = *place;
    *place = inner;
    return true;
}
