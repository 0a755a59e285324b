/* Result maps of the protocol as JSON: the wire and --json share their keys (docs/reference/json.md). */
#ifndef EO_CLIENT_CLI_ITEM_JSON_H
#define EO_CLIENT_CLI_ITEM_JSON_H

#include "proto/base/json.h"
#include "proto/codec.h"

/* Any item; a map with a non-finite number gets "nonfinite": true. Binary becomes lower-case hex. */
void item_json(struct eo_json *j, const struct eo_item *it);
/* The pairs of a map, into an object that is already open. */
void item_json_pairs(struct eo_json *j, const struct eo_item *map);
/* The same without some keys; but is a list that ends with NULL. */
void item_json_pairs_but(struct eo_json *j, const struct eo_item *map, const char *const *but);

/* One JSON text on stdout, ended by a newline and flushed: a document, or a line of NDJSON. The object is open between
 * begin and end. Returns the exit code; without print nothing is written. */
struct json_line {
    struct eo_bytes bytes;
    struct eo_json json;
};
struct eo_json *json_line_begin(struct json_line *l);
int json_line_end(struct json_line *l, bool print);
/* {"schema":1, pairs...} as such a line. Returns the exit code. */
int item_json_print(const struct eo_item *map);
/* The short error object: {code, name, message, hint, host, rank}, or null when there is no error. */
void error_json(struct eo_json *j, const struct eo_error *err);

/* Small readers for text output: "" / NAN / fallback when absent. Control characters, which a terminal would obey,
 * become '?'. */
const char *item_str(const struct eo_item *it, char *out, size_t size);
const char *item_text(const struct eo_item *map, const char *key, char *out, size_t size);
double item_f64(const struct eo_item *map, const char *key);
int64_t item_i64(const struct eo_item *map, const char *key, int64_t fallback);

#endif
