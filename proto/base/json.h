/* A streaming JSON writer over eo_bytes: no tree, no allocation per value. Commas and escaping are its business;
 * balance is the caller's. Non-finite numbers become null. (JSON from outside is read with jansson, in daemon/ and
 * tests.) */
#ifndef EO_PROTO_BASE_JSON_H
#define EO_PROTO_BASE_JSON_H

#include "proto/base/bytes.h"

enum { EO_JSON_ESCAPE_MAX = 8, EO_JSON_F64_MAX = 40 };

struct eo_json {
    struct eo_bytes *out;
    bool need_comma;
};

void eo_json_init(struct eo_json *j, struct eo_bytes *out);
void eo_json_begin_object(struct eo_json *j);
void eo_json_end_object(struct eo_json *j);
void eo_json_begin_array(struct eo_json *j);
void eo_json_end_array(struct eo_json *j);
void eo_json_key(struct eo_json *j, const char *key);
void eo_json_string(struct eo_json *j, const char *text);                  /* NULL writes null */
void eo_json_string_n(struct eo_json *j, const char *text, size_t length); /* invalid UTF-8 becomes U+FFFD */
void eo_json_i64(struct eo_json *j, int64_t v);
void eo_json_u64(struct eo_json *j, uint64_t v);
void eo_json_f64(struct eo_json *j, double v); /* shortest text that reads back equal; null for NaN and Inf */
void eo_json_bool(struct eo_json *j, bool v);
void eo_json_null(struct eo_json *j);
void eo_json_raw(struct eo_json *j, const char *json, size_t length); /* one value that is JSON text already */
/* key and value in one call */
void eo_json_kv_string(struct eo_json *j, const char *key, const char *text);
void eo_json_kv_i64(struct eo_json *j, const char *key, int64_t v);
void eo_json_kv_u64(struct eo_json *j, const char *key, uint64_t v);
void eo_json_kv_f64(struct eo_json *j, const char *key, double v);
void eo_json_kv_bool(struct eo_json *j, const char *key, bool v);

/* The escape of the character at *text (which advances past it): at most 6 bytes to out, their number returned. What is
 * no valid UTF-8 becomes U+FFFD; C1 controls and DEL are escaped too, so that a terminal may show the text. */
size_t eo_json_escape(const char **text, const char *end, char out[EO_JSON_ESCAPE_MAX]);

#endif
