/* One MessagePack document: parsed, visited in every way, written again and read back equal; as an error report and as
 * parameters too. Memory stays within a constant of the input, which libFuzzer watches with -malloc_limit_mb. */
#include "proto/codec.h"
#include "proto/error_codec.h"

#include <string.h>

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

/* False for what the writer has no form for: extension types. */
static bool write_item(struct eo_bytes *b, const struct eo_item *it)
{
    const struct eo_item *key, *value;
    const uint8_t *bin;
    const char *text;
    size_t n = eo_item_count(it);
    bool ok = true, flag;
    int64_t i;
    uint64_t u;
    double f;

    switch (eo_item_kind(it)) {
    case EO_ITEM_NIL:
        eo_pack_nil(b);
        return true;
    case EO_ITEM_BOOL:
        promise(eo_item_as_bool(it, &flag));
        eo_pack_bool(b, flag);
        return true;
    case EO_ITEM_INT:
        if (eo_item_as_i64(it, &i)) {
            eo_pack_i64(b, i);
        } else {
            promise(eo_item_as_u64(it, &u) && u > INT64_MAX);
            eo_pack_u64(b, u);
        }
        return true;
    case EO_ITEM_FLOAT:
        promise(eo_item_as_f64(it, &f));
        eo_pack_f64(b, f);
        return true;
    case EO_ITEM_STR:
        promise(eo_item_as_str(it, &text, &n));
        eo_pack_str_n(b, text, n);
        return true;
    case EO_ITEM_BIN:
        promise(eo_item_as_bin(it, &bin, &n));
        eo_pack_bin(b, bin, n);
        return true;
    case EO_ITEM_ARRAY:
        eo_pack_array(b, n);
        for (size_t k = 0; k < n; k++) {
            ok = write_item(b, eo_item_at(it, k)) && ok;
        }
        return ok;
    case EO_ITEM_MAP:
        eo_pack_map(b, n);
        for (size_t k = 0; k < n; k++) {
            eo_item_pair(it, k, &key, &value);
            ok = write_item(b, key) && write_item(b, value) && ok;
        }
        return ok;
    case EO_ITEM_EXT:
        break;
    }
    return false;
}

/* The shortest form is a fixed point: writing what was read from it gives the same bytes. */
static void ck_rewrite(const struct eo_item *root, size_t size)
{
    struct eo_bytes once, twice;
    struct eo_error err;
    struct eo_doc doc;

    /* Doubles may take 9 bytes where a float took 5; everything else is no longer than it was. */
    eo_bytes_init(&once, 2 * size + 16);
    eo_bytes_init(&twice, 2 * size + 16);
    if (write_item(&once, root) && !once.failed) {
        promise(eo_doc_parse(&doc, once.data, once.size, &err) == EO_OK);
        promise(write_item(&twice, doc.root) && !twice.failed);
        promise(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
        eo_doc_fini(&doc);
    }
    eo_bytes_fini(&twice);
    eo_bytes_fini(&once);
}

static void ck_error(const struct eo_item *root)
{
    struct eo_error got, again;
    struct eo_bytes b;
    struct eo_error err;
    struct eo_doc doc;
    char text[16384];

    promise(eo_error_unpack(root, &got) == got.code && got.code > 0);
    promise(eo_error_text(&got, true, text, sizeof(text)) < sizeof(text));
    promise(eo_error_json(&got, text, sizeof(text)) < sizeof(text));
    eo_bytes_init(&b, 1 << 16);
    eo_error_pack(&b, &got);
    promise(!b.failed && eo_doc_parse(&doc, b.data, b.size, &err) == EO_OK);
    promise(eo_error_unpack(doc.root, &again) == got.code);
    promise(strcmp(again.message, got.message) == 0 && strcmp(again.detail, got.detail) == 0);
    promise(again.n_inputs == got.n_inputs && again.n_causes == got.n_causes && again.n_contexts == got.n_contexts);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}

static void ck_params(const struct eo_item *root)
{
    static const char *const keys[] = {"code", "message", "name", "shape", "handle", "x", ""};
    const struct eo_item *it;
    struct eo_error err;
    char text[16];
    uint64_t u;
    int64_t i;
    double f;
    bool flag;

    for (size_t k = 0; k < EO_COUNT_OF(keys); k++) {
        if (eo_need_str(root, keys[k], text, sizeof(text), &err) == EO_OK) {
            promise(memchr(text, '\0', sizeof(text)) != NULL);
        }
        promise(eo_need_u64(root, keys[k], 10, &u, &err) != EO_OK || u <= 10);
        promise(eo_need_i64(root, keys[k], -3, 3, &i, &err) != EO_OK || (i >= -3 && i <= 3));
        promise(eo_need_array(root, keys[k], 4, &it, &err) != EO_OK || eo_item_count(it) <= 4);
        promise(eo_need_map(root, keys[k], &it, &err) != EO_OK || eo_item_kind(it) == EO_ITEM_MAP);
        (void)eo_get_bool(root, keys[k], false, &flag, &err);
        (void)eo_get_f64(root, keys[k], 0, &f, &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_envelope envelope;
    struct eo_error err;
    struct eo_doc doc;

    if (eo_doc_parse(&doc, data, size, &err) != EO_OK) {
        promise(err.code == EO_E_BAD_ENVELOPE && doc.zone == NULL);
        return 0;
    }
    ck_rewrite(doc.root, size);
    ck_error(doc.root);
    ck_params(doc.root);
    eo_doc_fini(&doc);
    if (eo_envelope_parse(&doc, &envelope, data, size, &err) == EO_OK) {
        if (envelope.type == 1) {
            promise((envelope.error == NULL) == (envelope.result != NULL));
        } else {
            promise(envelope.method[0] != '\0' && eo_item_kind(envelope.params) == EO_ITEM_MAP);
        }
        eo_doc_fini(&doc);
    }
    return 0;
}
