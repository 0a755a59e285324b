#include "proto/base/json.h"

#include "proto/base/text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void eo_json_init(struct eo_json *j, struct eo_bytes *out)
{
    j->out = out;
    j->need_comma = false;
}

static void put(struct eo_json *j, const char *text)
{
    eo_bytes_append(j->out, text, strlen(text));
}

static void before_value(struct eo_json *j)
{
    if (j->need_comma) {
        put(j, ",");
    }
    j->need_comma = true;
}

static void open_with(struct eo_json *j, const char *bracket)
{
    before_value(j);
    put(j, bracket);
    j->need_comma = false;
}

static void close_with(struct eo_json *j, const char *bracket)
{
    put(j, bracket);
    j->need_comma = true;
}

void eo_json_begin_object(struct eo_json *j)
{
    open_with(j, "{");
}
void eo_json_end_object(struct eo_json *j)
{
    close_with(j, "}");
}
void eo_json_begin_array(struct eo_json *j)
{
    open_with(j, "[");
}
void eo_json_end_array(struct eo_json *j)
{
    close_with(j, "]");
}

size_t eo_json_escape(const char **text, const char *end, char out[EO_JSON_ESCAPE_MAX])
{
    static const char shorts[][2] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                     {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};
    const char *p = *text;
    unsigned char c = (unsigned char)*p;
    size_t length = eo_utf8_length(p, (size_t)(end - p));

    *text += length == 0 ? 1 : length;
    for (size_t i = 0; i < EO_COUNT_OF(shorts); i++) {
        if (*p == shorts[i][0]) {
            out[0] = '\\';
            out[1] = shorts[i][1];
            return 2;
        }
    }
    if (c < 0x20 || c == 0x7f) {
        return (size_t)snprintf(out, EO_JSON_ESCAPE_MAX, "\\u%04x", (unsigned)c);
    }
    if (length == 2 && c == 0xC2 && (unsigned char)p[1] < 0xA0) {
        return (size_t)snprintf(out, EO_JSON_ESCAPE_MAX, "\\u%04x", (unsigned)(unsigned char)p[1]);
    }
    if (length == 0) {
        memcpy(out, "\xEF\xBF\xBD", 3);
        return 3;
    }
    memcpy(out, p, length);
    return length;
}

static void put_quoted(struct eo_json *j, const char *text, size_t length)
{
    const char *end = text + length;
    char escaped[EO_JSON_ESCAPE_MAX];

    put(j, "\"");
    while (text < end && !j->out->failed) {
        size_t n = eo_json_escape(&text, end, escaped);

        eo_bytes_append(j->out, escaped, n);
    }
    put(j, "\"");
}

void eo_json_key(struct eo_json *j, const char *key)
{
    before_value(j);
    put_quoted(j, key, strlen(key));
    put(j, ":");
    j->need_comma = false;
}

void eo_json_string_n(struct eo_json *j, const char *text, size_t length)
{
    before_value(j);
    put_quoted(j, text, length);
}

void eo_json_string(struct eo_json *j, const char *text)
{
    if (text == NULL) {
        eo_json_null(j);
    } else {
        eo_json_string_n(j, text, strlen(text));
    }
}

void eo_json_i64(struct eo_json *j, int64_t v)
{
    before_value(j);
    eo_bytes_printf(j->out, "%" PRId64, v);
}

void eo_json_u64(struct eo_json *j, uint64_t v)
{
    before_value(j);
    eo_bytes_printf(j->out, "%" PRIu64, v);
}

/* Fewest digits that strtod reads back as v. 15 digits always survive the way text -> normal double -> text, so the
 * search starts there; subnormals have fewer significant digits and start at 1. */
static void shortest(double v, char out[EO_JSON_F64_MAX])
{
    int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG;

    for (; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(out, EO_JSON_F64_MAX, "%.*g", digits, v);
        if (strtod(out, NULL) == v) {
            return;
        }
    }
}

void eo_json_f64(struct eo_json *j, double v)
{
    char text[EO_JSON_F64_MAX];
    char *to = text;
    bool in_point = false;

    if (!isfinite(v)) {
        eo_json_null(j);
        return;
    }
    shortest(v, text);
    /* A host program may have set a locale whose decimal point is not '.', and may be several bytes. */
    for (const char *from = text; *from != '\0'; from++) {
        bool plain = (*from >= '0' && *from <= '9') || *from == 'e' || *from == '-' || *from == '+';

        if (plain || !in_point) {
            *to++ = plain ? *from : '.';
        }
        in_point = !plain;
    }
    *to = '\0';
    before_value(j);
    put(j, text);
}

void eo_json_bool(struct eo_json *j, bool v)
{
    before_value(j);
    put(j, v ? "true" : "false");
}

void eo_json_null(struct eo_json *j)
{
    before_value(j);
    put(j, "null");
}

void eo_json_raw(struct eo_json *j, const char *json, size_t length)
{
    before_value(j);
    eo_bytes_append(j->out, json, length);
}

void eo_json_kv_string(struct eo_json *j, const char *key, const char *text)
{
    eo_json_key(j, key);
    eo_json_string(j, text);
}

void eo_json_kv_i64(struct eo_json *j, const char *key, int64_t v)
{
    eo_json_key(j, key);
    eo_json_i64(j, v);
}

void eo_json_kv_u64(struct eo_json *j, const char *key, uint64_t v)
{
    eo_json_key(j, key);
    eo_json_u64(j, v);
}

void eo_json_kv_f64(struct eo_json *j, const char *key, double v)
{
    eo_json_key(j, key);
    eo_json_f64(j, v);
}

void eo_json_kv_bool(struct eo_json *j, const char *key, bool v)
{
    eo_json_key(j, key);
    eo_json_bool(j, v);
}
