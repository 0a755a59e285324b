#include "client/cli/item_json.h"

#include "client/cli/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { JSON_LINE_MAX = 64 << 20 };

/* Of itself or in an array; a map inside says so itself. The codec bounds the depth. */
static bool is_nonfinite(const struct eo_item *it)
{
    double v = 0;
    if (eo_item_kind(it) == EO_ITEM_ARRAY) {
        for (size_t i = 0; i < eo_item_count(it); i++) {
            if (is_nonfinite(eo_item_at(it, i))) {
                return true;
            }
        }
        return false;
    }
    return eo_item_kind(it) == EO_ITEM_FLOAT && eo_item_as_f64(it, &v) && !isfinite(v);
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(name, *list) == 0) {
            return true;
        }
    }
    return false;
}

void item_json_pairs_but(struct eo_json *j, const struct eo_item *map, const char *const *but)
{
    bool nonfinite = false;
    for (size_t i = 0; i < eo_item_count(map); i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        const char *text = NULL;
        size_t length = 0;
        char name[128];
        eo_item_pair(map, i, &key, &value);
        if (!eo_item_as_str(key, &text, &length) || length >= sizeof name) {
            continue;
        }
        memcpy(name, text, length);
        name[length] = '\0';
        if (is_one_of(name, but)) {
            continue;
        }
        eo_json_key(j, name);
        item_json(j, value);
        nonfinite = nonfinite || is_nonfinite(value);
    }
    if (nonfinite) {
        eo_json_kv_bool(j, "nonfinite", true);
    }
}

void item_json_pairs(struct eo_json *j, const struct eo_item *map)
{
    static const char *const nothing[] = {NULL};
    item_json_pairs_but(j, map, nothing);
}

static void json_bin(struct eo_json *j, const struct eo_item *it)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *data = NULL;
    size_t size = 0;
    struct eo_bytes hex;
    eo_item_as_bin(it, &data, &size);
    eo_bytes_init(&hex, 2 * size + 1);
    for (size_t i = 0; i < size; i++) {
        const char pair[2] = {digits[data[i] >> 4], digits[data[i] & 15]};
        eo_bytes_append(&hex, pair, 2);
    }
    j->out->failed = j->out->failed || hex.failed;
    eo_json_string_n(j, eo_bytes_text(&hex), hex.size);
    eo_bytes_fini(&hex);
}

void item_json(struct eo_json *j, const struct eo_item *it)
{
    int64_t i = 0;
    uint64_t u = 0;
    double f = 0;
    bool b = false;
    const char *text = NULL;
    size_t length = 0;
    switch (eo_item_kind(it)) {
    case EO_ITEM_NIL:
    case EO_ITEM_EXT:
        eo_json_null(j);
        break;
    case EO_ITEM_BOOL:
        eo_item_as_bool(it, &b);
        eo_json_bool(j, b);
        break;
    case EO_ITEM_INT:
        if (eo_item_as_i64(it, &i)) {
            eo_json_i64(j, i);
        } else {
            eo_item_as_u64(it, &u);
            eo_json_u64(j, u);
        }
        break;
    case EO_ITEM_FLOAT:
        eo_item_as_f64(it, &f);
        eo_json_f64(j, f);
        break;
    case EO_ITEM_STR:
        eo_item_as_str(it, &text, &length);
        eo_json_string_n(j, text, length);
        break;
    case EO_ITEM_BIN:
        json_bin(j, it);
        break;
    case EO_ITEM_ARRAY:
        eo_json_begin_array(j);
        for (size_t k = 0; k < eo_item_count(it); k++) {
            item_json(j, eo_item_at(it, k));
        }
        eo_json_end_array(j);
        break;
    case EO_ITEM_MAP:
        eo_json_begin_object(j);
        item_json_pairs(j, it);
        eo_json_end_object(j);
        break;
    }
}

struct eo_json *json_line_begin(struct json_line *l)
{
    eo_bytes_init(&l->bytes, JSON_LINE_MAX);
    eo_json_init(&l->json, &l->bytes);
    eo_json_begin_object(&l->json);
    return &l->json;
}

int json_line_end(struct json_line *l, bool print)
{
    struct eo_error err = {0};
    eo_json_end_object(&l->json);
    const bool failed = l->bytes.failed;
    if (print && !failed) {
        puts(eo_bytes_text(&l->bytes));
        fflush(stdout);
    }
    eo_bytes_fini(&l->bytes);
    if (print && failed) {
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for the JSON text");
        return report_failure(&err);
    }
    return 0;
}

int item_json_print(const struct eo_item *map)
{
    static const char *const own[] = {"schema", NULL};
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    item_json_pairs_but(j, map, own);
    return json_line_end(&line, true);
}

void error_json(struct eo_json *j, const struct eo_error *err)
{
    if (err->code == EO_OK) {
        eo_json_null(j);
        return;
    }
    eo_json_begin_object(j);
    eo_json_kv_i64(j, "code", err->code);
    eo_json_kv_string(j, "name", eo_code_name(err->code));
    eo_json_kv_string(j, "message", err->message);
    eo_json_kv_string(j, "hint", err->hint[0] != '\0' ? err->hint : NULL);
    eo_json_kv_string(j, "host", err->host[0] != '\0' ? err->host : NULL);
    eo_json_key(j, "rank");
    if (err->rank >= 0) {
        eo_json_i64(j, err->rank);
    } else {
        eo_json_null(j);
    }
    eo_json_end_object(j);
}

const char *item_str(const struct eo_item *it, char *out, size_t size)
{
    const char *text = NULL;
    size_t length = 0;
    out[0] = '\0';
    if (!eo_item_as_str(it, &text, &length)) {
        return out;
    }
    length = EO_MIN(length, size - 1);
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const bool is_c1 = byte == 0xc2 && i + 1 < length && (unsigned char)text[i + 1] < 0xa0;
        out[i] = byte < 0x20 || byte == 0x7f || is_c1 ? '?' : text[i];
        if (is_c1) {
            out[++i] = '?';
        }
    }
    out[length] = '\0';
    return out;
}

const char *item_text(const struct eo_item *map, const char *key, char *out, size_t size)
{
    return item_str(eo_item_get(map, key), out, size);
}

double item_f64(const struct eo_item *map, const char *key)
{
    double v = NAN;
    return eo_item_as_f64(eo_item_get(map, key), &v) ? v : NAN;
}

int64_t item_i64(const struct eo_item *map, const char *key, int64_t fallback)
{
    int64_t v = fallback;
    return eo_item_as_i64(eo_item_get(map, key), &v) ? v : fallback;
}
