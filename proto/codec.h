/* MessagePack, bounded. Only codec.c touches msgpack-c.
 *
 * Reading: eo_doc_parse first walks the bytes without allocating (depth <= EO_MSG_DEPTH, the sum of all announced
 * elements and string bytes <= bytes left, exactly one document, strings valid UTF-8), only then builds a tree in a
 * zone bounded by a constant times the input size. Items point into the caller's buffer, which must outlive the doc.
 *
 * Writing: into an eo_bytes; check bytes->failed once at the end.
 *
 * Envelopes (MessagePack-RPC): request [0, id, method, params], response [1, id, error, result],
 * notification [2, method, params]; id u32, method string, params/result map, error nil or map (error_codec.h). */
#ifndef EO_PROTO_CODEC_H
#define EO_PROTO_CODEC_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

enum { EO_MSG_DEPTH = 16 };

/* ---- writing ---- */
void eo_pack_nil(struct eo_bytes *b);
void eo_pack_bool(struct eo_bytes *b, bool v);
void eo_pack_i64(struct eo_bytes *b, int64_t v); /* shortest form */
void eo_pack_u64(struct eo_bytes *b, uint64_t v);
void eo_pack_f64(struct eo_bytes *b, double v);
void eo_pack_str(struct eo_bytes *b, const char *text); /* NULL packs nil */
void eo_pack_str_n(struct eo_bytes *b, const char *text, size_t length);
void eo_pack_bin(struct eo_bytes *b, const void *data, size_t size);
void eo_pack_array(struct eo_bytes *b, size_t n); /* n items follow */
void eo_pack_map(struct eo_bytes *b, size_t n);   /* n key, value pairs follow */
void eo_pack_i64_array(struct eo_bytes *b, const int64_t *v, size_t n);
/* key and value in one call */
void eo_pack_kv_str(struct eo_bytes *b, const char *key, const char *v);
void eo_pack_kv_i64(struct eo_bytes *b, const char *key, int64_t v);
void eo_pack_kv_u64(struct eo_bytes *b, const char *key, uint64_t v);
void eo_pack_kv_f64(struct eo_bytes *b, const char *key, double v);
void eo_pack_kv_bool(struct eo_bytes *b, const char *key, bool v);
struct eo_item;
void eo_pack_item(struct eo_bytes *b, const struct eo_item *it); /* what was read, written again; NULL packs nil */
/* Opens an envelope; exactly one params/result (a map) must follow. */
void eo_pack_request(struct eo_bytes *b, uint32_t id, const char *method);
void eo_pack_notification(struct eo_bytes *b, const char *method);
void eo_pack_result(struct eo_bytes *b, uint32_t id);                                /* error nil, result follows */
void eo_pack_failure(struct eo_bytes *b, uint32_t id, const struct eo_error *error); /* complete: result nil */

/* ---- reading ---- */
struct eo_item; /* one msgpack value; lives as long as its doc */

struct eo_doc {
    void *zone;
    const struct eo_item *root;
};

int eo_doc_parse(struct eo_doc *doc, const void *data, size_t size, struct eo_error *err); /* BAD_ENVELOPE */
void eo_doc_fini(struct eo_doc *doc);

enum eo_item_kind {
    EO_ITEM_NIL,
    EO_ITEM_BOOL,
    EO_ITEM_INT,
    EO_ITEM_FLOAT,
    EO_ITEM_STR,
    EO_ITEM_BIN,
    EO_ITEM_ARRAY,
    EO_ITEM_MAP,
    EO_ITEM_EXT
};
enum eo_item_kind eo_item_kind(const struct eo_item *it); /* NULL is NIL */
size_t eo_item_count(const struct eo_item *it);           /* items of an array, pairs of a map, else 0 */
const struct eo_item *eo_item_at(const struct eo_item *array, size_t i);
void eo_item_pair(const struct eo_item *map, size_t i, const struct eo_item **key, const struct eo_item **value);
const struct eo_item *eo_item_get(const struct eo_item *map, const char *key); /* NULL when absent or not a map */
bool eo_item_as_bool(const struct eo_item *it, bool *out);
bool eo_item_as_i64(const struct eo_item *it, int64_t *out); /* false when it does not fit */
bool eo_item_as_u64(const struct eo_item *it, uint64_t *out);
bool eo_item_as_f64(const struct eo_item *it, double *out);                      /* integers convert */
bool eo_item_as_str(const struct eo_item *it, const char **out, size_t *length); /* not NUL-terminated */
bool eo_item_as_bin(const struct eo_item *it, const uint8_t **out, size_t *size);

/* Parameters by name. "need" raises BAD_PARAMS naming the key when it is absent or of another type; "get" returns the
 * default when absent and raises when the type is wrong. Strings are copied, NUL-terminated, and refused when longer
 * than size - 1 or when they hold NUL. */
int eo_need_str(const struct eo_item *map, const char *key, char *out, size_t size, struct eo_error *err);
int eo_need_u64(const struct eo_item *map, const char *key, uint64_t max, uint64_t *out, struct eo_error *err);
int eo_need_i64(const struct eo_item *map, const char *key, int64_t min, int64_t max, int64_t *out,
                struct eo_error *err);
int eo_need_array(const struct eo_item *map, const char *key, size_t max_count, const struct eo_item **out,
                  struct eo_error *err);
int eo_need_map(const struct eo_item *map, const char *key, const struct eo_item **out, struct eo_error *err);
int eo_get_str(const struct eo_item *map, const char *key, const char *fallback, char *out, size_t size,
               struct eo_error *err);
int eo_get_u64(const struct eo_item *map, const char *key, uint64_t fallback, uint64_t max, uint64_t *out,
               struct eo_error *err);
int eo_get_bool(const struct eo_item *map, const char *key, bool fallback, bool *out, struct eo_error *err);
int eo_get_f64(const struct eo_item *map, const char *key, double fallback, double *out, struct eo_error *err);

/* A parsed envelope; method and items point into doc. */
struct eo_envelope {
    int type; /* 0 request, 1 response, 2 notification */
    uint32_t id;
    char method[48];              /* requests and notifications */
    const struct eo_item *params; /* a map */
    const struct eo_item *error;  /* responses: NULL or a map */
    const struct eo_item *result; /* responses */
};
int eo_envelope_parse(struct eo_doc *doc, struct eo_envelope *out, const void *data, size_t size, struct eo_error *err);

const char *eo_codec_library(void); /* version of msgpack-c: "4.0.0" */

#endif
