#include "daemon/formats/json_doc.h"

#include <jansson.h>

/* jansson's const-less signatures meet our const views here and nowhere else; nothing below changes a value. */
static json_t *as_json(const struct json_value *v)
{
    return (json_t *)(uintptr_t)v;
}

static const struct json_value *as_value(const json_t *j)
{
    return (const struct json_value *)j;
}

/* Counts what could become a value: one per comma and opening bracket, none inside strings. An upper bound is enough.
 */
static int bound_values(const char *name, const char *text, size_t size, size_t max_values, struct eo_error *err)
{
    size_t n = 1;
    int depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
            continue;
        }
        if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            n++;
            depth++;
        } else if (c == ',') {
            n++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
        if (depth > JSON_DOC_DEPTH) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s nests deeper than %d levels at byte %zu", name, JSON_DOC_DEPTH, i);
        }
        if (n > max_values) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "%s holds more than %zu values", name, max_values);
        }
    }
    return EO_OK;
}

int json_doc_parse(const char *name, const void *data, size_t size, size_t max_values, struct json_doc *out,
                   struct eo_error *err)
{
    json_error_t why;
    json_t *root;
    int status = bound_values(name, data, size, max_values, err);

    if (status != EO_OK) {
        return status;
    }
    root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        char quoted[340];

        if (json_error_code(&why) == json_error_out_of_memory) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", name);
        }
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is not valid JSON at line %d, column %d: %s", name, why.line,
                        why.column, eo_quote(why.text, __builtin_strlen(why.text), quoted, sizeof(quoted)));
    }
    out->root = (struct json_value *)root;
    return EO_OK;
}

void json_doc_fini(struct json_doc *d)
{
    if (d->root != NULL) {
        json_decref(as_json(d->root));
        d->root = NULL;
    }
}

const struct json_value *json_doc_get(const struct json_value *object, const char *key)
{
    return as_value(json_object_get(as_json(object), key));
}

size_t json_doc_count(const struct json_value *v)
{
    const json_t *j = as_json(v);

    return json_is_array(j) ? json_array_size(j) : json_object_size(j);
}

const struct json_value *json_doc_at(const struct json_value *array, size_t i)
{
    return as_value(json_array_get(as_json(array), i));
}

bool json_doc_is_object(const struct json_value *v)
{
    return json_is_object(as_json(v));
}

bool json_doc_is_array(const struct json_value *v)
{
    return json_is_array(as_json(v));
}

bool json_doc_string(const struct json_value *v, const char **out)
{
    const json_t *j = as_json(v);

    if (!json_is_string(j)) {
        return false;
    }
    *out = json_string_value(j);
    return true;
}

bool json_doc_i64(const struct json_value *v, int64_t *out)
{
    const json_t *j = as_json(v);

    if (!json_is_integer(j)) {
        return false;
    }
    *out = json_integer_value(j);
    return true;
}

bool json_doc_f64(const struct json_value *v, double *out)
{
    const json_t *j = as_json(v);

    if (!json_is_number(j)) {
        return false;
    }
    *out = json_number_value(j);
    return true;
}

bool json_doc_bool(const struct json_value *v, bool *out)
{
    const json_t *j = as_json(v);

    if (!json_is_boolean(j)) {
        return false;
    }
    *out = json_is_true(j);
    return true;
}

void *json_doc_first(const struct json_value *object)
{
    return json_object_iter(as_json(object));
}

void *json_doc_next(const struct json_value *object, void *it)
{
    return json_object_iter_next(as_json(object), it);
}

const char *json_doc_key(void *it)
{
    return json_object_iter_key(it);
}

const struct json_value *json_doc_value(void *it)
{
    return as_value(json_object_iter_value(it));
}
