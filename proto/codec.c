#include "proto/codec.h"

#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <inttypes.h>
#include <math.h>
#include <msgpack.h>
#include <string.h>

/* ---- writing ---- */

static int append(void *data, const char *from, size_t size)
{
    struct eo_bytes *b = data;

    eo_bytes_append(b, from, size);
    return b->failed ? -1 : 0;
}

/* A packer is two pointers: making one per value costs nothing and keeps msgpack types out of the interface. */
static msgpack_packer packer(struct eo_bytes *b)
{
    msgpack_packer pk;

    msgpack_packer_init(&pk, b, append);
    return pk;
}

void eo_pack_nil(struct eo_bytes *b)
{
    msgpack_packer pk = packer(b);

    msgpack_pack_nil(&pk);
}

void eo_pack_bool(struct eo_bytes *b, bool v)
{
    msgpack_packer pk = packer(b);

    if (v) {
        msgpack_pack_true(&pk);
    } else {
        msgpack_pack_false(&pk);
    }
}

void eo_pack_i64(struct eo_bytes *b, int64_t v)
{
    msgpack_packer pk = packer(b);

    msgpack_pack_int64(&pk, v);
}

void eo_pack_u64(struct eo_bytes *b, uint64_t v)
{
    msgpack_packer pk = packer(b);

    msgpack_pack_uint64(&pk, v);
}

void eo_pack_f64(struct eo_bytes *b, double v)
{
    msgpack_packer pk = packer(b);

    msgpack_pack_double(&pk, v);
}

/* A length over 32 bits has no msgpack form. */
static bool has_form(struct eo_bytes *b, size_t n)
{
    if (n > UINT32_MAX) {
        b->failed = true;
    }
    return !b->failed;
}

void eo_pack_str_n(struct eo_bytes *b, const char *text, size_t length)
{
    msgpack_packer pk = packer(b);

    if (has_form(b, length)) {
        msgpack_pack_str(&pk, length);
        eo_bytes_append(b, text, length);
    }
}

void eo_pack_str(struct eo_bytes *b, const char *text)
{
    if (text == NULL) {
        eo_pack_nil(b);
    } else {
        eo_pack_str_n(b, text, strlen(text));
    }
}

void eo_pack_bin(struct eo_bytes *b, const void *data, size_t size)
{
    msgpack_packer pk = packer(b);

    if (has_form(b, size)) {
        msgpack_pack_bin(&pk, size);
        eo_bytes_append(b, data, size);
    }
}

void eo_pack_array(struct eo_bytes *b, size_t n)
{
    msgpack_packer pk = packer(b);

    if (has_form(b, n)) {
        msgpack_pack_array(&pk, n);
    }
}

void eo_pack_map(struct eo_bytes *b, size_t n)
{
    msgpack_packer pk = packer(b);

    if (has_form(b, n)) {
        msgpack_pack_map(&pk, n);
    }
}

void eo_pack_i64_array(struct eo_bytes *b, const int64_t *v, size_t n)
{
    eo_pack_array(b, n);
    for (size_t i = 0; i < n && !b->failed; i++) {
        eo_pack_i64(b, v[i]);
    }
}

void eo_pack_kv_str(struct eo_bytes *b, const char *key, const char *v)
{
    eo_pack_str(b, key);
    eo_pack_str(b, v);
}

void eo_pack_kv_i64(struct eo_bytes *b, const char *key, int64_t v)
{
    eo_pack_str(b, key);
    eo_pack_i64(b, v);
}

void eo_pack_kv_u64(struct eo_bytes *b, const char *key, uint64_t v)
{
    eo_pack_str(b, key);
    eo_pack_u64(b, v);
}

void eo_pack_kv_f64(struct eo_bytes *b, const char *key, double v)
{
    eo_pack_str(b, key);
    eo_pack_f64(b, v);
}

void eo_pack_kv_bool(struct eo_bytes *b, const char *key, bool v)
{
    eo_pack_str(b, key);
    eo_pack_bool(b, v);
}

enum { TYPE_REQUEST = 0, TYPE_RESPONSE = 1, TYPE_NOTIFICATION = 2 };

void eo_pack_request(struct eo_bytes *b, uint32_t id, const char *method)
{
    eo_pack_array(b, 4);
    eo_pack_u64(b, TYPE_REQUEST);
    eo_pack_u64(b, id);
    eo_pack_str(b, method);
}

void eo_pack_notification(struct eo_bytes *b, const char *method)
{
    eo_pack_array(b, 3);
    eo_pack_u64(b, TYPE_NOTIFICATION);
    eo_pack_str(b, method);
}

void eo_pack_result(struct eo_bytes *b, uint32_t id)
{
    eo_pack_array(b, 4);
    eo_pack_u64(b, TYPE_RESPONSE);
    eo_pack_u64(b, id);
    eo_pack_nil(b);
}

void eo_pack_failure(struct eo_bytes *b, uint32_t id, const struct eo_error *error)
{
    eo_pack_array(b, 4);
    eo_pack_u64(b, TYPE_RESPONSE);
    eo_pack_u64(b, id);
    eo_error_pack(b, error);
    eo_pack_nil(b);
}

/* ---- the walk: everything that could hurt is refused before anything is allocated ---- */

struct walk {
    const uint8_t *data;
    size_t size;
    size_t at;
    uint64_t pending;            /* values announced and not yet seen; each takes at least one byte */
    uint64_t open[EO_MSG_DEPTH]; /* values left in each open container */
    int depth;
    struct eo_error *err;
};

/* What a lead byte announces: a fixed number of body bytes, or a length field and what that counts. */
enum lead_kind { LEAD_FIXED, LEAD_STR, LEAD_BIN, LEAD_EXT, LEAD_ARRAY, LEAD_MAP, LEAD_INVALID };

struct lead {
    enum lead_kind kind;
    uint8_t length_bytes; /* size of the length field */
    uint8_t extra;        /* body bytes besides what the length counts (an ext's type byte), or all of a fixed value */
};

/* 0xc0..0xdf by the MessagePack specification; the rest of the byte range is decoded from the bits. */
static const struct lead leads[32] = {
    [0x00] = {LEAD_FIXED, 0, 0},                                /* nil */
    [0x01] = {LEAD_INVALID, 0, 0}, [0x02] = {LEAD_FIXED, 0, 0}, /* false, true */
    [0x03] = {LEAD_FIXED, 0, 0},   [0x04] = {LEAD_BIN, 1, 0},   [0x05] = {LEAD_BIN, 2, 0},
    [0x06] = {LEAD_BIN, 4, 0},     [0x07] = {LEAD_EXT, 1, 1},   [0x08] = {LEAD_EXT, 2, 1},
    [0x09] = {LEAD_EXT, 4, 1},     [0x0a] = {LEAD_FIXED, 0, 4}, /* float32, float64 */
    [0x0b] = {LEAD_FIXED, 0, 8},   [0x0c] = {LEAD_FIXED, 0, 1}, /* uint8..uint64 */
    [0x0d] = {LEAD_FIXED, 0, 2},   [0x0e] = {LEAD_FIXED, 0, 4}, [0x0f] = {LEAD_FIXED, 0, 8},
    [0x10] = {LEAD_FIXED, 0, 1}, /* int8..int64 */
    [0x11] = {LEAD_FIXED, 0, 2},   [0x12] = {LEAD_FIXED, 0, 4}, [0x13] = {LEAD_FIXED, 0, 8},
    [0x14] = {LEAD_FIXED, 0, 2}, /* fixext 1, 2, 4, 8, 16: type byte and body */
    [0x15] = {LEAD_FIXED, 0, 3},   [0x16] = {LEAD_FIXED, 0, 5}, [0x17] = {LEAD_FIXED, 0, 9},
    [0x18] = {LEAD_FIXED, 0, 17},  [0x19] = {LEAD_STR, 1, 0},   [0x1a] = {LEAD_STR, 2, 0},
    [0x1b] = {LEAD_STR, 4, 0},     [0x1c] = {LEAD_ARRAY, 2, 0}, [0x1d] = {LEAD_ARRAY, 4, 0},
    [0x1e] = {LEAD_MAP, 2, 0},     [0x1f] = {LEAD_MAP, 4, 0},
};

static int walk_fail(struct walk *w, size_t at, const char *what, uint64_t announced)
{
    return EO_RAISE(w->err, EO_E_BAD_ENVELOPE, "envelope byte %zu: %s of %" PRIu64 ", but %zu bytes follow", at, what,
                    announced, w->size - w->at);
}

static int walk_truncated(struct walk *w, size_t at)
{
    return EO_RAISE(w->err, EO_E_BAD_ENVELOPE, "envelope ends at byte %zu inside the value that starts at byte %zu",
                    w->size, at);
}

/* Reads lead byte and length field; *count is what the length counts. Both come in as a fixed value of no body. */
static int walk_lead(struct walk *w, struct lead *out, uint64_t *count)
{
    size_t at = w->at;
    uint8_t byte;

    if (w->at >= w->size) {
        return walk_truncated(w, at);
    }
    byte = w->data[w->at++];
    if (byte >= 0xa0 && byte <= 0xbf) {
        out->kind = LEAD_STR;
        *count = byte & 0x1f;
    } else if (byte >= 0x90 && byte <= 0x9f) {
        out->kind = LEAD_ARRAY;
        *count = byte & 0x0f;
    } else if (byte >= 0x80 && byte <= 0x8f) {
        out->kind = LEAD_MAP;
        *count = byte & 0x0f;
    } else if (byte >= 0xc0 && byte <= 0xdf) {
        *out = leads[byte - 0xc0];
    }
    if (out->kind == LEAD_INVALID) {
        return EO_RAISE(w->err, EO_E_BAD_ENVELOPE, "envelope byte %zu is 0x%02x, which starts no value", at, byte);
    }
    if (out->length_bytes > w->size - w->at) {
        return walk_truncated(w, at);
    }
    for (int i = 0; i < out->length_bytes; i++) {
        *count = *count << 8 | w->data[w->at++];
    }
    return EO_OK;
}

static int walk_container(struct walk *w, size_t at, bool is_map, uint64_t count)
{
    uint64_t values = is_map ? count * 2 : count; /* count has 32 bits at most */

    if (w->depth >= EO_MSG_DEPTH) {
        return EO_RAISE(w->err, EO_E_BAD_ENVELOPE, "envelope byte %zu: nested deeper than %d", at, EO_MSG_DEPTH);
    }
    if (w->pending + values > w->size - w->at) {
        return walk_fail(w, at, is_map ? "map" : "array", count);
    }
    w->pending += values;
    w->open[w->depth++] = values;
    return EO_OK;
}

static int walk_body(struct walk *w, size_t at, const struct lead *lead, uint64_t count)
{
    uint64_t body = count + lead->extra;

    if (body > w->size - w->at) {
        return lead->kind == LEAD_FIXED ? walk_truncated(w, at)
                                        : walk_fail(w, at, lead->kind == LEAD_STR ? "string" : "bytes", count);
    }
    if (lead->kind == LEAD_STR && !eo_text_valid_utf8((const char *)w->data + w->at, (size_t)count)) {
        return EO_RAISE(w->err, EO_E_BAD_ENVELOPE, "envelope byte %zu: string is not valid UTF-8", at);
    }
    w->at += (size_t)body;
    return EO_OK;
}

static int walk_value(struct walk *w)
{
    size_t at = w->at;
    struct lead lead = {LEAD_FIXED, 0, 0};
    uint64_t count = 0;
    int code = walk_lead(w, &lead, &count);

    if (code != EO_OK) {
        return code;
    }
    w->pending--;
    if (w->depth > 0) {
        w->open[w->depth - 1]--;
    }
    code = lead.kind == LEAD_ARRAY || lead.kind == LEAD_MAP ? walk_container(w, at, lead.kind == LEAD_MAP, count)
                                                            : walk_body(w, at, &lead, count);
    while (code == EO_OK && w->depth > 0 && w->open[w->depth - 1] == 0) {
        w->depth--;
    }
    return code;
}

static int walk_document(const void *data, size_t size, struct eo_error *err)
{
    struct walk w = {.data = data, .size = size, .pending = 1, .err = err};

    while (w.pending > 0) {
        int code = walk_value(&w);

        if (code != EO_OK) {
            return code;
        }
    }
    if (w.at != size) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "envelope holds %zu bytes, its value ends at byte %zu", size, w.at);
    }
    return EO_OK;
}

/* ---- the tree ---- */

static const msgpack_object *as_object(const struct eo_item *it)
{
    return (const void *)it;
}
static const struct eo_item *as_item(const msgpack_object *o)
{
    return (const void *)o;
}

/* A tree takes at most sizeof(msgpack_object) = 24 bytes per value, and the walk has shown that there are no more
 * values than bytes. */
int eo_doc_parse(struct eo_doc *doc, const void *data, size_t size, struct eo_error *err)
{
    msgpack_unpacked unpacked;
    msgpack_unpack_return answer;
    msgpack_object *root;
    size_t offset = 0;
    int code = walk_document(data, size, err);

    *doc = (struct eo_doc){NULL, NULL};
    if (code != EO_OK) {
        return code;
    }
    msgpack_unpacked_init(&unpacked);
    answer = msgpack_unpack_next(&unpacked, data, size, &offset);
    if (answer != MSGPACK_UNPACK_SUCCESS || offset != size) {
        msgpack_unpacked_destroy(&unpacked);
        if (answer == MSGPACK_UNPACK_NOMEM_ERROR) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an envelope of %zu bytes", size);
        }
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "envelope of %zu bytes cannot be decoded", size);
    }
    if (unpacked.zone == NULL) { /* a lone scalar needs none, but the root must live somewhere */
        unpacked.zone = msgpack_zone_new(sizeof(msgpack_object));
    }
    root = unpacked.zone == NULL ? NULL : msgpack_zone_malloc(unpacked.zone, sizeof(*root));
    if (root == NULL) {
        msgpack_unpacked_destroy(&unpacked);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an envelope of %zu bytes", size);
    }
    *root = unpacked.data;
    doc->root = as_item(root);
    doc->zone = msgpack_unpacked_release_zone(&unpacked);
    return EO_OK;
}

void eo_doc_fini(struct eo_doc *doc)
{
    if (doc->zone != NULL) {
        msgpack_zone_free(doc->zone);
    }
    *doc = (struct eo_doc){NULL, NULL};
}

void eo_pack_item(struct eo_bytes *b, const struct eo_item *it)
{
    msgpack_packer pk = packer(b);

    if (it == NULL) {
        msgpack_pack_nil(&pk);
    } else {
        msgpack_pack_object(&pk, *as_object(it));
    }
}

enum eo_item_kind eo_item_kind(const struct eo_item *it)
{
    if (it == NULL) {
        return EO_ITEM_NIL;
    }
    switch (as_object(it)->type) {
    case MSGPACK_OBJECT_NIL:
        return EO_ITEM_NIL;
    case MSGPACK_OBJECT_BOOLEAN:
        return EO_ITEM_BOOL;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return EO_ITEM_INT;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return EO_ITEM_FLOAT;
    case MSGPACK_OBJECT_STR:
        return EO_ITEM_STR;
    case MSGPACK_OBJECT_BIN:
        return EO_ITEM_BIN;
    case MSGPACK_OBJECT_ARRAY:
        return EO_ITEM_ARRAY;
    case MSGPACK_OBJECT_MAP:
        return EO_ITEM_MAP;
    case MSGPACK_OBJECT_EXT:
        break;
    }
    return EO_ITEM_EXT;
}

size_t eo_item_count(const struct eo_item *it)
{
    switch (eo_item_kind(it)) {
    case EO_ITEM_ARRAY:
        return as_object(it)->via.array.size;
    case EO_ITEM_MAP:
        return as_object(it)->via.map.size;
    case EO_ITEM_NIL:
    case EO_ITEM_BOOL:
    case EO_ITEM_INT:
    case EO_ITEM_FLOAT:
    case EO_ITEM_STR:
    case EO_ITEM_BIN:
    case EO_ITEM_EXT:
        break;
    }
    return 0;
}

const struct eo_item *eo_item_at(const struct eo_item *array, size_t i)
{
    if (eo_item_kind(array) != EO_ITEM_ARRAY || i >= as_object(array)->via.array.size) {
        return NULL;
    }
    return as_item(&as_object(array)->via.array.ptr[i]);
}

void eo_item_pair(const struct eo_item *map, size_t i, const struct eo_item **key, const struct eo_item **value)
{
    *key = NULL;
    *value = NULL;
    if (eo_item_kind(map) == EO_ITEM_MAP && i < as_object(map)->via.map.size) {
        *key = as_item(&as_object(map)->via.map.ptr[i].key);
        *value = as_item(&as_object(map)->via.map.ptr[i].val);
    }
}

const struct eo_item *eo_item_get(const struct eo_item *map, const char *key)
{
    size_t n = eo_item_kind(map) == EO_ITEM_MAP ? eo_item_count(map) : 0;
    size_t length = strlen(key);

    for (size_t i = 0; i < n; i++) {
        const msgpack_object_kv *pair = &as_object(map)->via.map.ptr[i];

        if (pair->key.type == MSGPACK_OBJECT_STR && pair->key.via.str.size == length &&
            memcmp(pair->key.via.str.ptr, key, length) == 0) {
            return as_item(&pair->val);
        }
    }
    return NULL;
}

bool eo_item_as_bool(const struct eo_item *it, bool *out)
{
    if (eo_item_kind(it) != EO_ITEM_BOOL) {
        return false;
    }
    *out = as_object(it)->via.boolean;
    return true;
}

bool eo_item_as_i64(const struct eo_item *it, int64_t *out)
{
    if (eo_item_kind(it) != EO_ITEM_INT) {
        return false;
    }
    if (as_object(it)->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        *out = as_object(it)->via.i64;
        return true;
    }
    if (as_object(it)->via.u64 > INT64_MAX) {
        return false;
    }
    *out = (int64_t)as_object(it)->via.u64;
    return true;
}

bool eo_item_as_u64(const struct eo_item *it, uint64_t *out)
{
    if (it == NULL || as_object(it)->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
        return false;
    }
    *out = as_object(it)->via.u64;
    return true;
}

bool eo_item_as_f64(const struct eo_item *it, double *out)
{
    if (eo_item_kind(it) == EO_ITEM_FLOAT) {
        *out = as_object(it)->via.f64;
        return true;
    }
    if (eo_item_kind(it) == EO_ITEM_INT) {
        *out = as_object(it)->type == MSGPACK_OBJECT_NEGATIVE_INTEGER ? (double)as_object(it)->via.i64
                                                                      : (double)as_object(it)->via.u64;
        return true;
    }
    return false;
}

bool eo_item_as_str(const struct eo_item *it, const char **out, size_t *length)
{
    if (eo_item_kind(it) != EO_ITEM_STR) {
        return false;
    }
    *length = as_object(it)->via.str.size;
    *out = *length == 0 ? "" : as_object(it)->via.str.ptr; /* msgpack-c leaves NULL for empty ones */
    return true;
}

bool eo_item_as_bin(const struct eo_item *it, const uint8_t **out, size_t *size)
{
    if (eo_item_kind(it) != EO_ITEM_BIN) {
        return false;
    }
    *size = as_object(it)->via.bin.size;
    *out = *size == 0 ? (const void *)"" : (const void *)as_object(it)->via.bin.ptr;
    return true;
}

const char *eo_codec_library(void)
{
    return msgpack_version();
}
