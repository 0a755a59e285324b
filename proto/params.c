/* Parameters by name and whole envelopes, on top of the items of codec.h. */
#include "proto/base/text.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters ---- */

/* What was given, for a message: `"abc"`, `-3`, `an array of 2`. */
static char *describe(const struct eo_item *it, char *out, size_t size)
{
    const char *text = NULL;
    size_t length = 0;
    uint64_t u;
    int64_t i;
    double f;
    bool b;

    if (eo_item_as_str(it, &text, &length)) {
        return eo_quote(text, length, out, size);
    }
    if (eo_item_as_i64(it, &i)) {
        snprintf(out, size, "%" PRId64, i);
    } else if (eo_item_as_u64(it, &u)) {
        snprintf(out, size, "%" PRIu64, u);
    } else if (eo_item_as_f64(it, &f)) {
        snprintf(out, size, "%g", f);
    } else if (eo_item_as_bool(it, &b)) {
        snprintf(out, size, "%s", b ? "true" : "false");
    } else if (eo_item_kind(it) == EO_ITEM_ARRAY) {
        snprintf(out, size, "an array of %zu", eo_item_count(it));
    } else if (eo_item_kind(it) == EO_ITEM_MAP) {
        snprintf(out, size, "a map of %zu", eo_item_count(it));
    } else {
        snprintf(out, size, "%s", eo_item_kind(it) == EO_ITEM_NIL ? "nil" : "bytes");
    }
    return out;
}

static int missing(const char *key, const char *wanted, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter \"%s\" is missing; it must be %s", key, wanted);
}

static int wrong(const char *key, const char *wanted, const struct eo_item *got, struct eo_error *err)
{
    char text[128];

    return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter \"%s\" must be %s, not %s", key, wanted,
                    describe(got, text, sizeof(text)));
}

static bool is_absent(const struct eo_item *it)
{
    return eo_item_kind(it) == EO_ITEM_NIL;
}

static int take_str(const struct eo_item *it, const char *key, char *out, size_t size, struct eo_error *err)
{
    const char *text = NULL;
    size_t length = 0;

    if (!eo_item_as_str(it, &text, &length)) {
        return wrong(key, "a string", it, err);
    }
    if (length >= size) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter \"%s\" has %zu bytes, at most %zu are allowed", key, length,
                        size - 1);
    }
    if (length > 0 && memchr(text, '\0', length) != NULL) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter \"%s\" holds a NUL byte", key);
    }
    if (length > 0) {
        memcpy(out, text, length);
    }
    out[length] = '\0';
    return EO_OK;
}

static int take_u64(const struct eo_item *it, const char *key, uint64_t max, uint64_t *out, struct eo_error *err)
{
    uint64_t v;

    if (!eo_item_as_u64(it, &v) || v > max) {
        char wanted[64];

        snprintf(wanted, sizeof(wanted), "an integer from 0 to %" PRIu64, max);
        return wrong(key, wanted, it, err);
    }
    *out = v;
    return EO_OK;
}

int eo_need_str(const struct eo_item *map, const char *key, char *out, size_t size, struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    return is_absent(it) ? missing(key, "a string", err) : take_str(it, key, out, size, err);
}

int eo_need_u64(const struct eo_item *map, const char *key, uint64_t max, uint64_t *out, struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    return is_absent(it) ? missing(key, "an integer", err) : take_u64(it, key, max, out, err);
}

int eo_need_i64(const struct eo_item *map, const char *key, int64_t min, int64_t max, int64_t *out,
                struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);
    int64_t v;

    if (is_absent(it)) {
        return missing(key, "an integer", err);
    }
    if (!eo_item_as_i64(it, &v) || v < min || v > max) {
        char wanted[80];

        snprintf(wanted, sizeof(wanted), "an integer from %" PRId64 " to %" PRId64, min, max);
        return wrong(key, wanted, it, err);
    }
    *out = v;
    return EO_OK;
}

int eo_need_array(const struct eo_item *map, const char *key, size_t max_count, const struct eo_item **out,
                  struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (is_absent(it)) {
        return missing(key, "an array", err);
    }
    if (eo_item_kind(it) != EO_ITEM_ARRAY) {
        return wrong(key, "an array", it, err);
    }
    if (eo_item_count(it) > max_count) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "parameter \"%s\" has %zu items, at most %zu are allowed", key,
                        eo_item_count(it), max_count);
    }
    *out = it;
    return EO_OK;
}

int eo_need_map(const struct eo_item *map, const char *key, const struct eo_item **out, struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (is_absent(it)) {
        return missing(key, "a map", err);
    }
    if (eo_item_kind(it) != EO_ITEM_MAP) {
        return wrong(key, "a map", it, err);
    }
    *out = it;
    return EO_OK;
}

int eo_get_str(const struct eo_item *map, const char *key, const char *fallback, char *out, size_t size,
               struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (!is_absent(it)) {
        return take_str(it, key, out, size, err);
    }
    if (!eo_copy_text(out, size, fallback == NULL ? "" : fallback)) {
        return EO_BUG(err, "the default of parameter \"%s\" is longer than its buffer of %zu bytes", key, size);
    }
    return EO_OK;
}

int eo_get_u64(const struct eo_item *map, const char *key, uint64_t fallback, uint64_t max, uint64_t *out,
               struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (is_absent(it)) {
        *out = fallback;
        return EO_OK;
    }
    return take_u64(it, key, max, out, err);
}

int eo_get_bool(const struct eo_item *map, const char *key, bool fallback, bool *out, struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (is_absent(it)) {
        *out = fallback;
        return EO_OK;
    }
    return eo_item_as_bool(it, out) ? EO_OK : wrong(key, "true or false", it, err);
}

int eo_get_f64(const struct eo_item *map, const char *key, double fallback, double *out, struct eo_error *err)
{
    const struct eo_item *it = eo_item_get(map, key);

    if (is_absent(it)) {
        *out = fallback;
        return EO_OK;
    }
    return eo_item_as_f64(it, out) ? EO_OK : wrong(key, "a number", it, err);
}

/* ---- envelopes ---- */

enum { TYPE_REQUEST = 0, TYPE_RESPONSE = 1, TYPE_NOTIFICATION = 2 };

static int bad(struct eo_error *err, const char *what, const struct eo_item *got)
{
    char text[128];

    return EO_RAISE(err, EO_E_BAD_ENVELOPE, "envelope %s, not %s", what, describe(got, text, sizeof(text)));
}

static int read_id(const struct eo_item *it, uint32_t *out, struct eo_error *err)
{
    uint64_t id;

    if (!eo_item_as_u64(it, &id) || id > UINT32_MAX) {
        return bad(err, "id must be an integer of 32 bits", it);
    }
    *out = (uint32_t)id;
    return EO_OK;
}

static int read_call(const struct eo_item *method, const struct eo_item *params, struct eo_envelope *out,
                     struct eo_error *err)
{
    const char *text = NULL;
    size_t length = 0;

    if (!eo_item_as_str(method, &text, &length) || length == 0 || length >= sizeof(out->method) ||
        memchr(text, '\0', length) != NULL) {
        return bad(err, "method must be a string of 1 to 47 bytes", method);
    }
    if (eo_item_kind(params) != EO_ITEM_MAP) {
        return bad(err, "params must be a map", params);
    }
    memcpy(out->method, text, length);
    out->method[length] = '\0';
    out->params = params;
    return EO_OK;
}

static int read_answer(const struct eo_item *error, const struct eo_item *result, struct eo_envelope *out,
                       struct eo_error *err)
{
    if (eo_item_kind(error) == EO_ITEM_MAP) {
        if (eo_item_kind(result) != EO_ITEM_NIL) {
            return bad(err, "result must be nil beside an error", result);
        }
        out->error = error;
        return EO_OK;
    }
    if (eo_item_kind(error) != EO_ITEM_NIL) {
        return bad(err, "error must be nil or a map", error);
    }
    if (eo_item_kind(result) != EO_ITEM_MAP) {
        return bad(err, "result must be a map", result);
    }
    out->result = result;
    return EO_OK;
}

static int read_envelope(const struct eo_item *root, struct eo_envelope *out, struct eo_error *err)
{
    size_t count = eo_item_count(root);
    uint64_t type;
    int code;

    if (eo_item_kind(root) != EO_ITEM_ARRAY) {
        return bad(err, "must be an array", root);
    }
    if (!eo_item_as_u64(eo_item_at(root, 0), &type) || type > TYPE_NOTIFICATION) {
        return bad(err, "type must be 0, 1 or 2", eo_item_at(root, 0));
    }
    if (count != (type == TYPE_NOTIFICATION ? 3 : 4)) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "envelope of type %d must have %d items, not %zu", (int)type,
                        type == TYPE_NOTIFICATION ? 3 : 4, count);
    }
    out->type = (int)type;
    if (type == TYPE_NOTIFICATION) {
        return read_call(eo_item_at(root, 1), eo_item_at(root, 2), out, err);
    }
    code = read_id(eo_item_at(root, 1), &out->id, err);
    if (code != EO_OK) {
        return code;
    }
    return type == TYPE_REQUEST ? read_call(eo_item_at(root, 2), eo_item_at(root, 3), out, err)
                                : read_answer(eo_item_at(root, 2), eo_item_at(root, 3), out, err);
}

int eo_envelope_parse(struct eo_doc *doc, struct eo_envelope *out, const void *data, size_t size, struct eo_error *err)
{
    struct eo_envelope envelope = {0};
    int code = eo_doc_parse(doc, data, size, err);

    if (code != EO_OK) {
        return code;
    }
    code = read_envelope(doc->root, &envelope, err);
    if (code != EO_OK) {
        eo_doc_fini(doc);
        return code;
    }
    *out = envelope;
    return EO_OK;
}
