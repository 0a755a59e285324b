/* The public msgpack-test-suite (tests/vectors): every encoding must decode to its value, and our writer must produce
 * the first encoding of each. Exceptions, stated here and nowhere else:
 *   timestamp, ext  the writer has no extension types: only decoding is checked, to an item of kind EXT;
 *   floats          the writer always uses 64 bits, so the value's cb encoding takes the place of a shorter ca one;
 *   2^63 - 1        listed first as int64, written as uint64 (both have nine bytes, both are listed);
 *   a number listed both as integer and float decodes to the kind that its encoding says, with the same value. */
#include "proto/base/file.h"
#include "proto/codec.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { N_VALUES = 85, N_ENCODINGS = 233 };

static struct eo_error err;

static size_t from_hex(const char *text, uint8_t *out, size_t size)
{
    size_t n = 0;

    for (; *text != '\0'; text += text[2] == '-' ? 3 : 2) {
        unsigned value = 0;

        ck_assert_uint_lt(n, size);
        ck_assert_int_eq(sscanf(text, "%2x", &value), 1);
        out[n++] = (uint8_t)value;
    }
    return n;
}

/* ---- values of the suite: JSON, except these members of an entry ---- */

static bool is_extension(const json_t *entry)
{
    return json_object_get(entry, "timestamp") != NULL || json_object_get(entry, "ext") != NULL;
}

static const char *bignum_of(const json_t *entry)
{
    return json_string_value(json_object_get(entry, "bignum"));
}

static const json_t *value_of(const json_t *entry)
{
    static const char *const keys[] = {"nil", "bool", "number", "string", "array", "map"};

    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        if (json_object_get(entry, keys[i]) != NULL) {
            return json_object_get(entry, keys[i]);
        }
    }
    return NULL;
}

static void write_json(struct eo_bytes *b, const json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;

    switch (json_typeof(v)) {
    case JSON_NULL:
        eo_pack_nil(b);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        eo_pack_bool(b, json_is_true(v));
        break;
    case JSON_INTEGER:
        eo_pack_i64(b, json_integer_value(v));
        break;
    case JSON_REAL:
        eo_pack_f64(b, json_real_value(v));
        break;
    case JSON_STRING:
        eo_pack_str_n(b, json_string_value(v), json_string_length(v));
        break;
    case JSON_ARRAY:
        eo_pack_array(b, json_array_size(v));
        for (i = 0; i < json_array_size(v); i++) {
            write_json(b, json_array_get(v, i));
        }
        break;
    case JSON_OBJECT:
        eo_pack_map(b, json_object_size(v));
        for (void *it = json_object_iter((json_t *)(uintptr_t)v); it != NULL;
             it = json_object_iter_next((json_t *)(uintptr_t)v, it)) {
            key = json_object_iter_key(it);
            item = json_object_iter_value(it);
            eo_pack_str(b, key);
            write_json(b, item);
        }
        break;
    }
}

static void write_entry(struct eo_bytes *b, const json_t *entry)
{
    uint8_t bin[64];

    if (bignum_of(entry) != NULL && bignum_of(entry)[0] == '-') {
        eo_pack_i64(b, (int64_t)strtoll(bignum_of(entry), NULL, 10));
    } else if (bignum_of(entry) != NULL) {
        eo_pack_u64(b, (uint64_t)strtoull(bignum_of(entry), NULL, 10));
    } else if (json_object_get(entry, "binary") != NULL) {
        size_t n = from_hex(json_string_value(json_object_get(entry, "binary")), bin, sizeof(bin));

        eo_pack_bin(b, bin, n);
    } else {
        write_json(b, value_of(entry));
    }
}

static void ck_same_value(const struct eo_item *it, const json_t *v)
{
    const char *text = NULL;
    size_t n = 0;
    double f = 0;
    bool flag = false;

    switch (json_typeof(v)) {
    case JSON_NULL:
        ck_assert_int_eq(eo_item_kind(it), EO_ITEM_NIL);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        ck_assert(eo_item_as_bool(it, &flag) && flag == json_is_true(v));
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        ck_assert(eo_item_as_f64(it, &f));
        ck_assert(f == json_number_value(v)); /* all are exact in a double; larger ones come as bignum */
        break;
    case JSON_STRING:
        ck_assert(eo_item_as_str(it, &text, &n));
        ck_assert_uint_eq(n, json_string_length(v));
        ck_assert_int_eq(memcmp(text, json_string_value(v), n), 0);
        break;
    case JSON_ARRAY:
        ck_assert_int_eq(eo_item_kind(it), EO_ITEM_ARRAY);
        ck_assert_uint_eq(eo_item_count(it), json_array_size(v));
        for (size_t i = 0; i < json_array_size(v); i++) {
            ck_same_value(eo_item_at(it, i), json_array_get(v, i));
        }
        break;
    case JSON_OBJECT:
        ck_assert_int_eq(eo_item_kind(it), EO_ITEM_MAP);
        ck_assert_uint_eq(eo_item_count(it), json_object_size(v));
        for (void *i = json_object_iter((json_t *)(uintptr_t)v); i != NULL;
             i = json_object_iter_next((json_t *)(uintptr_t)v, i)) {
            ck_same_value(eo_item_get(it, json_object_iter_key(i)), json_object_iter_value(i));
        }
        break;
    }
}

static void ck_same_bignum(const struct eo_item *it, const char *digits)
{
    char text[32] = "";
    int64_t i;
    uint64_t u;
    double f;

    if (eo_item_as_i64(it, &i)) {
        snprintf(text, sizeof(text), "%" PRId64, i);
    } else if (eo_item_as_u64(it, &u)) {
        snprintf(text, sizeof(text), "%" PRIu64, u);
    } else if (eo_item_as_f64(it, &f)) {
        snprintf(text, sizeof(text), "%.0f", f);
    }
    ck_assert_str_eq(text, digits);
}

static void ck_decodes(const json_t *entry, const uint8_t *bytes, size_t size)
{
    struct eo_doc doc;
    const uint8_t *bin = NULL;
    uint8_t expected[64];
    size_t n = 0;

    ASSERT_OK(eo_doc_parse(&doc, bytes, size, &err));
    if (is_extension(entry)) {
        ck_assert_int_eq(eo_item_kind(doc.root), EO_ITEM_EXT);
    } else if (bignum_of(entry) != NULL) {
        ck_same_bignum(doc.root, bignum_of(entry));
    } else if (json_object_get(entry, "binary") != NULL) {
        size_t wanted = from_hex(json_string_value(json_object_get(entry, "binary")), expected, sizeof(expected));

        ck_assert(eo_item_as_bin(doc.root, &bin, &n));
        ck_assert_uint_eq(n, wanted);
        ck_assert_int_eq(n == 0 ? 0 : memcmp(bin, expected, n), 0);
    } else {
        ck_same_value(doc.root, value_of(entry));
    }
    eo_doc_fini(&doc);
    for (size_t cut = 0; cut < size; cut++) {
        ASSERT_CODE(eo_doc_parse(&doc, bytes, cut, &err), EO_E_BAD_ENVELOPE);
    }
}

/* Which of the listed encodings the writer has to produce; see the top of the file. */
static size_t expected_encoding(const json_t *entry, const json_t *encodings)
{
    const char *first = json_string_value(json_array_get(encodings, 0));

    if (strncmp(first, "ca-", 3) == 0) {
        return 1;
    }
    return bignum_of(entry) != NULL && strcmp(bignum_of(entry), "9223372036854775807") == 0 ? 1 : 0;
}

static void ck_encodes(const json_t *entry, const json_t *encodings)
{
    struct eo_bytes b;
    uint8_t expected[128];
    const char *text = json_string_value(json_array_get(encodings, expected_encoding(entry, encodings)));
    size_t n = from_hex(text, expected, sizeof(expected));

    eo_bytes_init(&b, 1024);
    write_entry(&b, entry);
    ck_assert(!b.failed);
    ck_assert_msg(b.size == n && memcmp(b.data, expected, n) == 0, "not written as %s", text);
    eo_bytes_fini(&b);
}

START_TEST(suite)
{
    const char *root = getenv("EO_SOURCE_DIR");
    char path[512];
    json_error_t problem;
    json_t *doc, *group;
    const char *name;
    int n_values = 0, n_encodings = 0, n_decode_only = 0;

    ck_assert(eo_path_join(path, sizeof(path), root == NULL ? "." : root, "tests/vectors/msgpack-test-suite.json"));
    doc = json_load_file(path, 0, &problem);
    ck_assert_msg(doc != NULL, "%s: %s", path, problem.text);
    json_object_foreach(doc, name, group)
    {
        for (size_t i = 0; i < json_array_size(group); i++) {
            const json_t *entry = json_array_get(group, i);
            const json_t *encodings = json_object_get(entry, "msgpack");

            n_values++;
            for (size_t k = 0; k < json_array_size(encodings); k++) {
                uint8_t bytes[128];
                size_t n = from_hex(json_string_value(json_array_get(encodings, k)), bytes, sizeof(bytes));

                ck_decodes(entry, bytes, n);
                n_encodings++;
            }
            if (is_extension(entry)) {
                n_decode_only++;
            } else {
                ck_encodes(entry, encodings);
            }
        }
    }
    json_decref(doc);
    ck_assert_int_eq(n_values, N_VALUES);
    ck_assert_int_eq(n_encodings, N_ENCODINGS);
    printf("%d values, %d encodings; only decoded: %d (timestamp and ext)\n", n_values, n_encodings, n_decode_only);
    ck_assert_int_eq(n_decode_only, 26);
}
END_TEST

EO_SUITE("msgpack_vectors", suite)
