/* YAML as a tree with positions: maps, lists and scalars, nothing else. Anchors, aliases, tags, directives and further
 * documents are refused, size, depth and number of items are bounded, keys of a map differ. The only file that knows
 * libyaml. Not thread-safe. */
#ifndef EO_DAEMON_JOBS_YAML_TREE_H
#define EO_DAEMON_JOBS_YAML_TREE_H

#include "proto/base/arena.h"
#include "proto/base/error.h"

enum {
    YAML_TREE_MAX_BYTES = 1 << 20,
    YAML_TREE_MAX_DEPTH = 32,
    YAML_TREE_MAX_ITEMS = 1 << 16,
    YAML_TREE_MAX_KEYS = 256 /* of one map */
};

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_item {
    enum yaml_kind kind;
    int line, column;         /* from 1, in the file or in the text of an override */
    const char *source;       /* NULL: the file; else the override that put it here, "train.seed=1" */
    const char *text;         /* scalars: NUL-terminated; no NUL inside */
    bool quoted;              /* written in quotes (or as a block): a text, never a number */
    struct yaml_item **items; /* lists: items; maps: values */
    struct yaml_item **keys;  /* maps: scalars */
    int n, capacity;
};

struct yaml_tree {
    const char *name; /* the file's, for messages; borrowed */
    struct yaml_item *root;
    struct eo_arena arena;
    int n_items;
};

/* Errors: BAD_SPEC ("file:line:column: ..."), TOO_LARGE, NO_MEMORY. */
int yaml_tree_parse(const char *name, const char *text, size_t size, struct yaml_tree *out, struct eo_error *err);
void yaml_tree_fini(struct yaml_tree *t);
/* Applies one "key.path=value": maps by key, lists by index (the length appends), absent keys are made, the value is
 * YAML. A scalar on the way becomes a map ("optimizer: adam" and "optimizer.adam.lr=0.1"). Errors: BAD_SPEC. */
int yaml_tree_set(struct yaml_tree *t, const char *assignment, struct eo_error *err);

struct yaml_item *yaml_tree_get(const struct yaml_item *map, const char *key); /* NULL: absent, or no map */
/* "job.yaml:3:7" or "--set train.seed=1"; returns out. */
char *yaml_tree_place(const struct yaml_tree *t, const struct yaml_item *item, char *out, size_t size);

#endif
