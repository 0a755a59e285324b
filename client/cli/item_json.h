/* Result maps of the protocol as JSON: the wire and --json share their keys (docs/reference/json.md). */
#ifndef EO_CLIENT_CLI_ITEM_JSON_H
#define EO_CLIENT_CLI_ITEM_JSON_H

#include "proto/base/json.h"
#include "proto/codec.h"

/* Any item; a map with a non-finite number gets "nonfinite": true. Binary becomes lower-case hex. */
void item_json(struct eo_json *j, const struct eo_item *it);
/* The pairs of a map, into an object that is already open. */
void item_json_pairs(struct eo_json *j, const struct eo_item *map);
/* {"schema":1, pairs...} and a newline to stdout. Returns the exit code. */
int item_json_print(const struct eo_item *map);
/* Writes the error object {code, message, hint, host, rank} for NDJSON results, or the full one. */
void error_json(struct eo_json *j, const struct eo_error *err);

/* Small readers for text output: "" / NAN / fallback when absent. */
const char *item_text(const struct eo_item *map, const char *key, char *out, size_t size);
double item_f64(const struct eo_item *map, const char *key);
int64_t item_i64(const struct eo_item *map, const char *key, int64_t fallback);

#endif
