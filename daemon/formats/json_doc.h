/* JSON from outside, bounded: before anything is built, one walk over the bytes limits depth and the number of values.
 * Duplicate keys, invalid UTF-8 and anything behind the document are errors. The only file that knows jansson.
 * Values live as long as their document. Read-only sharing is safe. */
#ifndef EO_DAEMON_FORMATS_JSON_DOC_H
#define EO_DAEMON_FORMATS_JSON_DOC_H

#include "proto/base/error.h"

struct json_value;
struct json_doc {
    struct json_value *root;
};

enum { JSON_DOC_DEPTH = 16 };

/* name stands for the source in messages. Errors: BAD_FILE (with line and column), TOO_LARGE (over max_values). */
int json_doc_parse(const char *name, const void *data, size_t size, size_t max_values, struct json_doc *out,
                   struct eo_error *err);
void json_doc_fini(struct json_doc *d);

const struct json_value *json_doc_get(const struct json_value *object, const char *key); /* NULL: absent, no object */
size_t json_doc_count(const struct json_value *v); /* items of an array, pairs of an object, else 0 */
const struct json_value *json_doc_at(const struct json_value *array, size_t i);
bool json_doc_is_object(const struct json_value *v);
bool json_doc_is_array(const struct json_value *v);
/* False, with out untouched, when v is NULL or of another type. */
bool json_doc_string(const struct json_value *v, const char **out);
bool json_doc_i64(const struct json_value *v, int64_t *out);
bool json_doc_f64(const struct json_value *v, double *out); /* integers convert */
bool json_doc_bool(const struct json_value *v, bool *out);

/* Pairs of an object in the order of the text: `for (it = json_doc_first(o); it; it = json_doc_next(o, it))`. */
void *json_doc_first(const struct json_value *object);
void *json_doc_next(const struct json_value *object, void *it);
const char *json_doc_key(void *it);
const struct json_value *json_doc_value(void *it);

#endif
