#include "daemon/jobs/yaml_tree.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { YAML_TREE_ARENA_BYTES = 32 << 20 };

struct reader {
    struct yaml_tree *tree;
    yaml_parser_t parser;
    const char *source; /* of the items that are made */
    const char *text;   /* what is parsed, for messages about an override */
};

char *yaml_tree_place(const struct yaml_tree *t, const struct yaml_item *item, char *out, size_t size)
{
    if (item->source != NULL) {
        char quoted[340];

        snprintf(out, size, "--set %s", eo_quote(item->source, strlen(item->source), quoted, sizeof(quoted)));
    } else {
        snprintf(out, size, "%s:%d:%d", t->name, item->line, item->column);
    }
    return out;
}

static int fail_at(const struct reader *r, yaml_mark_t mark, struct eo_error *err, const char *what)
{
    struct yaml_item here = {.line = (int)mark.line + 1, .column = (int)mark.column + 1, .source = r->source};
    char place[400];

    EO_RAISE(err, EO_E_BAD_SPEC, "%s: %s", yaml_tree_place(r->tree, &here, place, sizeof(place)), what);
    if (err != NULL) {
        eo_copy_text(err->node, sizeof(err->node), place);
    }
    return EO_E_BAD_SPEC;
}

static int no_memory(const struct reader *r, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", r->tree->name);
}

/* ---- items ---- */

static struct yaml_item *new_item(struct yaml_tree *t, enum yaml_kind kind, const char *source)
{
    struct yaml_item *item = eo_arena_alloc(&t->arena, sizeof(*item));

    if (item != NULL) {
        item->kind = kind;
        item->source = source;
        item->line = item->column = 1;
        item->text = "";
    }
    return item;
}

/* key NULL: a list. Old arrays stay in the arena: doubling wastes no more than the final size. */
static bool append(struct yaml_tree *t, struct yaml_item *parent, struct yaml_item *key, struct yaml_item *value)
{
    if (parent->n == parent->capacity) {
        int capacity = parent->capacity == 0 ? 4 : parent->capacity * 2;
        struct yaml_item **items = eo_arena_alloc_n(&t->arena, (size_t)capacity, sizeof(*items));
        struct yaml_item **keys = eo_arena_alloc_n(&t->arena, (size_t)capacity, sizeof(*keys));

        if (items == NULL || keys == NULL) {
            return false;
        }
        if (parent->n > 0) {
            memcpy(items, parent->items, sizeof(*items) * (size_t)parent->n);
            memcpy(keys, parent->keys, sizeof(*keys) * (size_t)parent->n);
        }
        parent->items = items;
        parent->keys = keys;
        parent->capacity = capacity;
    }
    parent->items[parent->n] = value;
    parent->keys[parent->n] = key;
    parent->n++;
    return true;
}

struct yaml_item *yaml_tree_get(const struct yaml_item *map, const char *key)
{
    for (int i = 0; map->kind == YAML_MAP && i < map->n; i++) {
        if (strcmp(map->keys[i]->text, key) == 0) {
            return map->items[i];
        }
    }
    return NULL;
}

/* ---- from libyaml's events ---- */

static int next_event(struct reader *r, yaml_event_t *out, struct eo_error *err)
{
    char what[200];
    yaml_mark_t mark;

    if (yaml_parser_parse(&r->parser, out)) {
        return EO_OK;
    }
    if (r->parser.error == YAML_MEMORY_ERROR) {
        return no_memory(r, err);
    }
    mark = r->parser.problem_mark;
    if (r->parser.error == YAML_READER_ERROR) {
        /* Bytes that are no UTF-8: libyaml gives their offset only. */
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < r->parser.problem_offset && r->text[i] != '\0'; i++) {
            mark.column = r->text[i] == '\n' ? 0 : mark.column + 1;
            mark.line += r->text[i] == '\n';
        }
    }
    snprintf(what, sizeof(what), "%s%s%s", r->parser.context != NULL ? r->parser.context : "",
             r->parser.context != NULL ? ", " : "", r->parser.problem != NULL ? r->parser.problem : "not valid YAML");
    return fail_at(r, mark, err, what);
}

static int read_item(struct reader *r, yaml_event_t *event, int depth, struct yaml_item **out, struct eo_error *err);

static int read_scalar(struct reader *r, const yaml_event_t *event, struct yaml_item *item, struct eo_error *err)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;

    if (memchr(value, '\0', length) != NULL) {
        return fail_at(r, event->start_mark, err, "a text with a NUL character");
    }
    item->text = eo_arena_strndup(&r->tree->arena, value, length);
    item->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return item->text == NULL ? no_memory(r, err) : EO_OK;
}

static int read_pair(struct reader *r, yaml_event_t *event, int depth, struct yaml_item *map, struct eo_error *err)
{
    yaml_mark_t mark = event->start_mark;
    struct yaml_item *key, *value;
    yaml_event_t next;
    int status;

    if (event->type != YAML_SCALAR_EVENT) {
        return fail_at(r, mark, err, "a key must be a plain word");
    }
    if (map->n >= YAML_TREE_MAX_KEYS) {
        return fail_at(r, mark, err, "too many keys in one map");
    }
    status = read_item(r, event, depth, &key, err);
    if (status == EO_OK && yaml_tree_get(map, key->text) != NULL) {
        char quoted[340], what[400];

        snprintf(what, sizeof(what), "key %s stands here a second time",
                 eo_quote(key->text, strlen(key->text), quoted, sizeof(quoted)));
        status = fail_at(r, mark, err, what);
    }
    if (status == EO_OK) {
        status = next_event(r, &next, err);
    }
    if (status != EO_OK) {
        return status;
    }
    status = read_item(r, &next, depth, &value, err);
    yaml_event_delete(&next);
    if (status == EO_OK && !append(r->tree, map, key, value)) {
        status = no_memory(r, err);
    }
    return status;
}

/* The entries of a list or map up to its end event. */
static int read_entries(struct reader *r, struct yaml_item *parent, int depth, struct eo_error *err)
{
    for (;;) {
        yaml_event_t event;
        int status = next_event(r, &event, err);
        bool end;

        if (status != EO_OK) {
            return status;
        }
        end = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        if (!end && parent->kind == YAML_MAP) {
            status = read_pair(r, &event, depth + 1, parent, err);
        } else if (!end) {
            struct yaml_item *item;

            status = read_item(r, &event, depth + 1, &item, err);
            if (status == EO_OK && !append(r->tree, parent, NULL, item)) {
                status = no_memory(r, err);
            }
        }
        yaml_event_delete(&event);
        if (end || status != EO_OK) {
            return status;
        }
    }
}

static const char *refused_feature(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "aliases (*name) are not used in job files: write the value out";
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        return "a value is missing here";
    }
    return anchor != NULL ? "anchors (&name) are not used in job files: write the value out"
           : tag != NULL  ? "tags (!name) are not used in job files"
                          : NULL;
}

/* event is the item's first one and stays the caller's. */
static int read_item(struct reader *r, yaml_event_t *event, int depth, struct yaml_item **out, struct eo_error *err)
{
    const char *refused = refused_feature(event);
    struct yaml_item *item;

    if (refused != NULL) {
        return fail_at(r, event->start_mark, err, refused);
    }
    if (depth > YAML_TREE_MAX_DEPTH) {
        return fail_at(r, event->start_mark, err, "nested too deep");
    }
    if (r->tree->n_items++ >= YAML_TREE_MAX_ITEMS) {
        return fail_at(r, event->start_mark, err, "too many values");
    }
    item = new_item(r->tree, YAML_SCALAR, r->source);
    if (item == NULL) {
        return no_memory(r, err);
    }
    item->line = (int)event->start_mark.line + 1;
    item->column = (int)event->start_mark.column + 1;
    *out = item;
    if (event->type == YAML_SCALAR_EVENT) {
        return read_scalar(r, event, item, err);
    }
    item->kind = event->type == YAML_MAPPING_START_EVENT ? YAML_MAP : YAML_LIST;
    return read_entries(r, item, depth, err);
}

static int expect_end(struct reader *r, struct eo_error *err)
{
    yaml_event_t event;
    yaml_mark_t mark;
    yaml_event_type_t type;
    int status = next_event(r, &event, err); /* the document's end */

    if (status != EO_OK) {
        return status;
    }
    yaml_event_delete(&event);
    status = next_event(r, &event, err);
    if (status != EO_OK) {
        return status;
    }
    type = event.type;
    mark = event.start_mark;
    yaml_event_delete(&event);
    return type == YAML_STREAM_END_EVENT ? EO_OK : fail_at(r, mark, err, "a second document starts here");
}

static int read_document(struct reader *r, struct yaml_item **out, struct eo_error *err)
{
    yaml_event_t event;
    bool directives, empty;
    int status = next_event(r, &event, err); /* the stream's start */

    if (status != EO_OK) {
        return status;
    }
    yaml_event_delete(&event);
    status = next_event(r, &event, err);
    if (status != EO_OK) {
        return status;
    }
    empty = event.type == YAML_STREAM_END_EVENT;
    directives =
        !empty && (event.data.document_start.version_directive != NULL ||
                   event.data.document_start.tag_directives.start != event.data.document_start.tag_directives.end);
    yaml_event_delete(&event);
    if (empty || directives) {
        return fail_at(r, (yaml_mark_t){0}, err,
                       empty ? "there is nothing in it" : "directives (%...) are not used in job files");
    }
    status = next_event(r, &event, err);
    if (status != EO_OK) {
        return status;
    }
    status = read_item(r, &event, 1, out, err);
    yaml_event_delete(&event);
    return status == EO_OK ? expect_end(r, err) : status;
}

static int parse_into(struct yaml_tree *t, const char *source, const char *text, size_t size, struct yaml_item **out,
                      struct eo_error *err)
{
    struct reader r = {.tree = t, .source = source, .text = text};
    int status;

    if (!yaml_parser_initialize(&r.parser)) {
        return no_memory(&r, err);
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    status = read_document(&r, out, err);
    yaml_parser_delete(&r.parser);
    return status;
}

int yaml_tree_parse(const char *name, const char *text, size_t size, struct yaml_tree *out, struct eo_error *err)
{
    struct yaml_tree t = {.name = name};
    int status;

    if (size > YAML_TREE_MAX_BYTES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s is larger than %d bytes", name, YAML_TREE_MAX_BYTES);
    }
    eo_arena_init(&t.arena, YAML_TREE_ARENA_BYTES);
    status = parse_into(&t, NULL, text, size, &t.root, err);
    if (status != EO_OK) {
        yaml_tree_fini(&t);
        return status;
    }
    *out = t;
    return EO_OK;
}

void yaml_tree_fini(struct yaml_tree *t)
{
    eo_arena_fini(&t->arena);
    *t = (struct yaml_tree){0};
}

/* ---- overrides ---- */

static int bad_override(const char *source, struct eo_error *err, const char *what)
{
    char quoted[340];

    EO_RAISE(err, EO_E_BAD_SPEC, "--set %s: %s", eo_quote(source, strlen(source), quoted, sizeof(quoted)), what);
    eo_error_hint(err, "Write --set key.path=value, for example --set train.epochs=5 or --set model.0.linear.out=256.");
    return EO_E_BAD_SPEC;
}

/* The place for `key` in parent: an existing entry, or a new one that holds an empty scalar. */
static int descend(struct yaml_tree *t, struct yaml_item *parent, const char *key, const char *source,
                   struct yaml_item ***out, struct eo_error *err)
{
    struct yaml_item *name = NULL;
    int64_t index;

    if (parent->kind == YAML_LIST) {
        if (!eo_parse_i64(key, &index) || index < 0 || index > parent->n) {
            char what[200];

            snprintf(what, sizeof(what), "a list takes an index from 0 to %d here (%d appends)", parent->n, parent->n);
            return bad_override(source, err, what);
        }
        if (index < parent->n) {
            *out = &parent->items[index];
            return EO_OK;
        }
    } else {
        if (parent->kind == YAML_SCALAR) {
            parent->kind = YAML_MAP;
            parent->n = 0;
        }
        for (int i = 0; i < parent->n; i++) {
            if (strcmp(parent->keys[i]->text, key) == 0) {
                *out = &parent->items[i];
                return EO_OK;
            }
        }
        if (parent->n >= YAML_TREE_MAX_KEYS) {
            return bad_override(source, err, "too many keys in one map");
        }
        name = new_item(t, YAML_SCALAR, source);
        if (name != NULL) {
            name->text = key;
        }
    }
    if (t->n_items++ >= YAML_TREE_MAX_ITEMS) {
        return bad_override(source, err, "too many values");
    }
    if ((parent->kind == YAML_MAP && name == NULL) || !append(t, parent, name, new_item(t, YAML_SCALAR, source)) ||
        parent->items[parent->n - 1] == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for --set");
    }
    *out = &parent->items[parent->n - 1];
    return EO_OK;
}

int yaml_tree_set(struct yaml_tree *t, const char *assignment, struct eo_error *err)
{
    size_t length = strnlen(assignment, YAML_TREE_MAX_BYTES + 1);
    const char *equals = memchr(assignment, '=', length), *source;
    struct yaml_item **place = &t->root, *value = NULL;
    char *path, *save = NULL;
    int depth = 0;
    int status;

    if (length > YAML_TREE_MAX_BYTES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "an override is larger than %d bytes", YAML_TREE_MAX_BYTES);
    }
    if (equals == NULL || equals == assignment || assignment[0] == '.' || equals[-1] == '.' ||
        memmem(assignment, (size_t)(equals - assignment), "..", 2) != NULL) {
        return bad_override(assignment, err, "no key.path=value");
    }
    source = eo_arena_strndup(&t->arena, assignment, length);
    path = eo_arena_strndup(&t->arena, assignment, (size_t)(equals - assignment));
    if (source == NULL || path == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for --set");
    }
    for (char *key = strtok_r(path, ".", &save); key != NULL; key = strtok_r(NULL, ".", &save)) {
        if (++depth > YAML_TREE_MAX_DEPTH) {
            return bad_override(assignment, err, "nested too deep");
        }
        status = descend(t, *place, key, source, &place, err);
        if (status != EO_OK) {
            return status;
        }
    }
    if (equals[1] == '\0') {
        value = new_item(t, YAML_SCALAR, source);
        status = value == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory for --set") : EO_OK;
    } else {
        status = parse_into(t, source, equals + 1, length - (size_t)(equals + 1 - assignment), &value, err);
    }
    if (status == EO_OK) {
        *place = value;
    }
    return status;
}
