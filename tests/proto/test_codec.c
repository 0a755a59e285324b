#include "proto/codec.h"

#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;
static struct eo_bytes b;
static struct eo_doc doc;

static void start(void)
{
    eo_bytes_init(&b, 1 << 20);
}

static void parse(void)
{
    ck_assert(!b.failed);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
}

static void stop(void)
{
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}

/* ---- values ---- */

START_TEST(integers_travel)
{
    static const int64_t values[] = {0,      1,      -1,        127,       128,       255,       256,
                                     32767,  65535,  65536,     -32,       -33,       -128,      -129,
                                     -32768, -32769, INT32_MAX, INT32_MIN, 1ll << 32, INT64_MAX, INT64_MIN};
    int64_t i;
    uint64_t u;
    double f;

    start();
    eo_pack_i64_array(&b, values, EO_COUNT_OF(values));
    parse();
    ck_assert_uint_eq(eo_item_count(doc.root), EO_COUNT_OF(values));
    for (size_t k = 0; k < EO_COUNT_OF(values); k++) {
        const struct eo_item *it = eo_item_at(doc.root, k);

        ck_assert_int_eq(eo_item_kind(it), EO_ITEM_INT);
        ck_assert(eo_item_as_i64(it, &i));
        ck_assert_int_eq(i, values[k]);
        ck_assert_int_eq(eo_item_as_u64(it, &u), values[k] >= 0);
        ck_assert(eo_item_as_f64(it, &f));
        ck_assert(f == (double)values[k]);
    }
    ck_assert_ptr_null(eo_item_at(doc.root, EO_COUNT_OF(values)));
    stop();
    start();
    eo_pack_u64(&b, UINT64_MAX);
    parse();
    ck_assert(!eo_item_as_i64(doc.root, &i));
    ck_assert(eo_item_as_u64(doc.root, &u) && u == UINT64_MAX);
    ck_assert(eo_item_as_f64(doc.root, &f) && f == 18446744073709551615.0);
    stop();
}
END_TEST

START_TEST(other_values_travel)
{
    static const double floats[] = {0.0, -0.0, 0.1, DBL_MAX, DBL_MIN, 5e-324};
    const char *text;
    const uint8_t *bin;
    size_t n;
    bool flag;
    double f;

    start();
    eo_pack_array(&b, 6 + EO_COUNT_OF(floats) + 2);
    eo_pack_nil(&b);
    eo_pack_bool(&b, true);
    eo_pack_str(&b, "h\xC3\xA9llo");
    eo_pack_bin(&b, "\x00\xFF", 2);
    eo_pack_str(&b, NULL);
    eo_pack_str_n(&b, "a\0b", 3);
    for (size_t i = 0; i < EO_COUNT_OF(floats); i++) {
        eo_pack_f64(&b, floats[i]);
    }
    eo_pack_f64(&b, (double)NAN);
    eo_pack_f64(&b, (double)-INFINITY);
    parse();
    ck_assert_int_eq(eo_item_kind(eo_item_at(doc.root, 0)), EO_ITEM_NIL);
    ck_assert(eo_item_as_bool(eo_item_at(doc.root, 1), &flag) && flag);
    ck_assert(eo_item_as_str(eo_item_at(doc.root, 2), &text, &n));
    ck_assert_uint_eq(n, 6);
    ck_assert_mem_eq(text, "h\xC3\xA9llo", 6);
    ck_assert((const uint8_t *)text >= b.data && (const uint8_t *)text < b.data + b.size); /* not a copy */
    ck_assert(eo_item_as_bin(eo_item_at(doc.root, 3), &bin, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert_mem_eq(bin, "\x00\xFF", 2);
    ck_assert_int_eq(eo_item_kind(eo_item_at(doc.root, 4)), EO_ITEM_NIL);
    ck_assert(eo_item_as_str(eo_item_at(doc.root, 5), &text, &n));
    ck_assert_mem_eq(text, "a\0b", 3);
    for (size_t i = 0; i < EO_COUNT_OF(floats); i++) {
        ck_assert(eo_item_as_f64(eo_item_at(doc.root, 6 + i), &f));
        ck_assert_mem_eq(&f, &floats[i], sizeof(f));
    }
    ck_assert(eo_item_as_f64(eo_item_at(doc.root, 12), &f) && isnan(f));
    ck_assert(eo_item_as_f64(eo_item_at(doc.root, 13), &f) && isinf(f) && f < 0);
    stop();
}
END_TEST

START_TEST(maps_are_looked_up)
{
    const struct eo_item *key, *value;
    int64_t i;

    start();
    eo_pack_map(&b, 7);
    eo_pack_kv_i64(&b, "a", 1);
    eo_pack_kv_u64(&b, "ab", 2);
    eo_pack_kv_f64(&b, "f", 2.5);
    eo_pack_kv_bool(&b, "t", true);
    eo_pack_kv_str(&b, "s", "x");
    eo_pack_i64(&b, 5); /* a key that is no string is never found by name */
    eo_pack_i64(&b, 6);
    eo_pack_kv_i64(&b, "a", 99); /* the first of equal keys counts */
    parse();
    ck_assert_uint_eq(eo_item_count(doc.root), 7);
    ck_assert(eo_item_as_i64(eo_item_get(doc.root, "a"), &i) && i == 1);
    ck_assert(eo_item_as_i64(eo_item_get(doc.root, "ab"), &i) && i == 2);
    ck_assert_ptr_null(eo_item_get(doc.root, "abc"));
    ck_assert_ptr_null(eo_item_get(doc.root, ""));
    ck_assert_ptr_null(eo_item_get(eo_item_get(doc.root, "a"), "a"));
    eo_item_pair(doc.root, 5, &key, &value);
    ck_assert(eo_item_as_i64(key, &i) && i == 5);
    ck_assert(eo_item_as_i64(value, &i) && i == 6);
    eo_item_pair(doc.root, 7, &key, &value);
    ck_assert_ptr_null(key);
    ck_assert_ptr_null(value);
    stop();
}
END_TEST

START_TEST(wrong_kinds_are_refused_and_leave_out_alone)
{
    const char *text = "untouched";
    const uint8_t *bin = NULL;
    size_t n = 7;
    int64_t i = 7;
    uint64_t u = 7;
    double f = 7;
    bool flag = true;

    start();
    eo_pack_array(&b, 0);
    parse();
    for (int pass = 0; pass < 2; pass++) {
        const struct eo_item *it = pass == 0 ? NULL : doc.root;

        ck_assert(!eo_item_as_bool(it, &flag) && flag);
        ck_assert(!eo_item_as_i64(it, &i) && i == 7);
        ck_assert(!eo_item_as_u64(it, &u) && u == 7);
        ck_assert(!eo_item_as_f64(it, &f) && f == 7);
        ck_assert(!eo_item_as_str(it, &text, &n) && n == 7);
        ck_assert_str_eq(text, "untouched");
        ck_assert(!eo_item_as_bin(it, &bin, &n) && bin == NULL);
        ck_assert_ptr_null(eo_item_at(it, 0));
        ck_assert_ptr_null(eo_item_get(it, "x"));
        ck_assert_uint_eq(eo_item_count(it), 0);
    }
    ck_assert_int_eq(eo_item_kind(NULL), EO_ITEM_NIL);
    stop();
}
END_TEST

START_TEST(writer_reports_its_limit_once)
{
    eo_bytes_init(&b, 10);
    eo_pack_array(&b, 3);
    eo_pack_str(&b, "0123456789");
    ck_assert(b.failed);
    eo_pack_i64(&b, 1);
    eo_pack_nil(&b);
    ck_assert_uint_le(b.size, 10);
    eo_bytes_fini(&b);
#if SIZE_MAX > UINT32_MAX
    start();
    eo_pack_array(&b, (size_t)UINT32_MAX + 1);
    ck_assert(b.failed);
    eo_bytes_clear(&b);
    eo_pack_map(&b, (size_t)UINT32_MAX + 1);
    ck_assert(b.failed);
    eo_bytes_clear(&b);
    eo_pack_str_n(&b, "", (size_t)UINT32_MAX + 1); /* refused before a byte of it is read */
    ck_assert(b.failed);
    eo_bytes_fini(&b);
#endif
}
END_TEST

/* ---- hostile bytes ---- */

static int parse_bytes(const char *bytes, size_t size)
{
    struct eo_doc d = {(void *)1, (const void *)1};
    uint8_t *exact = malloc(size > 0 ? size : 1); /* a read past the end is seen by the sanitizer */
    int code;

    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, size);
    code = eo_doc_parse(&d, exact, size, &err);
    if (code != EO_OK) {
        ck_assert_ptr_null(d.zone);
        ck_assert_ptr_null(d.root);
    }
    eo_doc_fini(&d);
    free(exact);
    return code;
}

START_TEST(hostile_bytes)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } rows[] = {
        {"", 0, "ends at byte 0"},
        {"\xc1", 1, "0xc1"},
        {"\xdd\xff\xff\xff\xff", 5, "array of 4294967295, but 0 bytes follow"},
        {"\xdf\xff\xff\xff\xff", 5, "map of 4294967295"},
        {"\xdf\x80\x00\x00\x00", 5, "map of 2147483648"},
        {"\xdb\xff\xff\xff\xff", 5, "string of 4294967295"},
        {"\xc6\xff\xff\xff\xff", 5, "bytes of 4294967295"},
        {"\xc9\xff\xff\xff\xff\x01", 6, "bytes of 4294967295"},
        {"\xdd\xff\xff", 3, "ends at byte 3"},
        {"\xcf\x00\x00\x00", 4, "ends at byte 4"},
        {"\xd8\x01\x00", 3, "ends at byte 3"},
        {"\x91", 1, "array of 1, but 0 bytes follow"},
        {"\x92\x01", 2, "array of 2, but 1 bytes follow"},
        {"\x81\x01", 2, "map of 1, but 1 bytes follow"},
        {"\x92\x92\x01\x02", 4, "array of 2, but 2 bytes follow"}, /* three values announced, two bytes left */
        {"\xa3\x61\x62", 3, "string of 3, but 2 bytes follow"},
        {"\xa2\xc3\x28", 3, "not valid UTF-8"},
        {"\xa3\xed\xa0\x80", 4, "not valid UTF-8"},
        {"\xa2\xc0\x80", 3, "not valid UTF-8"},
        {"\xc0\xc0", 2, "ends at byte 1"},
        {"\x90\x00", 2, "ends at byte 1"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_CODE(parse_bytes(rows[i].bytes, rows[i].size), EO_E_BAD_ENVELOPE);
        ck_assert_msg(strstr(err.message, rows[i].says) != NULL, "row %zu: %s", i, err.message);
        ck_assert_int_eq(eo_doc_parse(&doc, rows[i].bytes, rows[i].size, NULL), EO_E_BAD_ENVELOPE);
    }
}
END_TEST

/* depth arrays around one nil. */
static int parse_nested(size_t depth, int lead)
{
    char *bytes = malloc(2 * depth + 1);
    size_t n = 0;
    int code;

    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < depth; i++) {
        bytes[n++] = (char)lead;
        if (lead == 0x81) {
            bytes[n++] = '\x01';
        }
    }
    bytes[n++] = '\xc0';
    code = parse_bytes(bytes, n);
    free(bytes);
    return code;
}

START_TEST(depth_is_bounded)
{
    ASSERT_OK(parse_nested(EO_MSG_DEPTH, 0x91));
    ASSERT_CODE(parse_nested(EO_MSG_DEPTH + 1, 0x91), EO_E_BAD_ENVELOPE);
    ASSERT_CONTAINS(err.message, "deeper than 16");
    ASSERT_OK(parse_nested(EO_MSG_DEPTH, 0x81));
    ASSERT_CODE(parse_nested(EO_MSG_DEPTH + 1, 0x81), EO_E_BAD_ENVELOPE);
    ASSERT_CODE(parse_nested(100000, 0x91), EO_E_BAD_ENVELOPE);
    /* Containers that are full are closed: many in a row are not deep. */
    start();
    eo_pack_array(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        eo_pack_array(&b, 1);
        eo_pack_map(&b, 0);
    }
    parse();
    stop();
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    start();
    eo_pack_request(&b, 7, "tensor.create");
    eo_pack_map(&b, 4);
    eo_pack_kv_str(&b, "dtype", "float32");
    eo_pack_kv_f64(&b, "x", 0.5);
    eo_pack_kv_bool(&b, "flag", true);
    eo_pack_str(&b, "blob");
    eo_pack_bin(&b, "0123456789", 10);
    ASSERT_OK(parse_bytes((const char *)b.data, b.size));
    for (size_t n = 0; n < b.size; n++) {
        ASSERT_CODE(parse_bytes((const char *)b.data, n), EO_E_BAD_ENVELOPE);
    }
    /* Any one byte changed: an answer, never a crash. */
    for (size_t at = 0; at < b.size; at++) {
        for (int value = 0; value < 256; value++) {
            uint8_t before = b.data[at];

            b.data[at] = (uint8_t)value;
            (void)parse_bytes((const char *)b.data, b.size);
            b.data[at] = before;
        }
    }
    eo_bytes_fini(&b);
}
END_TEST

/* ---- envelopes ---- */

START_TEST(envelopes_travel)
{
    struct eo_envelope e;
    struct eo_error sent;
    uint64_t x;

    start();
    eo_pack_request(&b, UINT32_MAX, "op.run");
    eo_pack_map(&b, 1);
    eo_pack_kv_u64(&b, "x", 3);
    ASSERT_OK(eo_envelope_parse(&doc, &e, b.data, b.size, &err));
    ck_assert_int_eq(e.type, 0);
    ck_assert_uint_eq(e.id, UINT32_MAX);
    ck_assert_str_eq(e.method, "op.run");
    ck_assert(eo_item_as_u64(eo_item_get(e.params, "x"), &x) && x == 3);
    stop();

    start();
    eo_pack_notification(&b, "job.event");
    eo_pack_map(&b, 0);
    ASSERT_OK(eo_envelope_parse(&doc, &e, b.data, b.size, &err));
    ck_assert_int_eq(e.type, 2);
    ck_assert_str_eq(e.method, "job.event");
    ck_assert_int_eq(eo_item_kind(e.params), EO_ITEM_MAP);
    stop();

    start();
    eo_pack_result(&b, 9);
    eo_pack_map(&b, 0);
    ASSERT_OK(eo_envelope_parse(&doc, &e, b.data, b.size, &err));
    ck_assert_int_eq(e.type, 1);
    ck_assert_uint_eq(e.id, 9);
    ck_assert_ptr_null(e.error);
    ck_assert_int_eq(eo_item_kind(e.result), EO_ITEM_MAP);
    stop();

    EO_RAISE(&sent, EO_E_BUSY, "64 requests are pending");
    start();
    eo_pack_failure(&b, 10, &sent);
    ASSERT_OK(eo_envelope_parse(&doc, &e, b.data, b.size, &err));
    ck_assert_int_eq(e.type, 1);
    ck_assert_ptr_null(e.result);
    ck_assert(eo_item_as_u64(eo_item_get(e.error, "code"), &x) && x == EO_E_BUSY);
    stop();
}
END_TEST

START_TEST(golden_envelope)
{
    start();
    eo_pack_request(&b, 1, "ping");
    eo_pack_map(&b, 0);
    ck_assert_uint_eq(b.size, 9);
    ck_assert_mem_eq(b.data, "\x94\x00\x01\xa4ping\x80", 9);
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(bad_envelopes)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } rows[] = {
        {"\x80", 1, "must be an array, not a map of 0"},
        {"\x90", 1, "type must be 0, 1 or 2, not nil"},
        {"\x94\x03\x01\xa1x\x80", 6, "not 3"},
        {"\x94\xff\x01\xa1x\x80", 6, "not -1"},
        {"\x93\x00\x01\xa1x", 5, "must have 4 items, not 3"},
        {"\x95\x00\x01\xa1x\x80\xc0", 7, "must have 4 items, not 5"},
        {"\x94\x02\xa1x\x80\xc0", 6, "must have 3 items, not 4"},
        {"\x94\x00\xff\xa1x\x80", 6, "id must be"},
        {"\x94\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xa1x\x80", 14, "id must be"},
        {"\x94\x00\x01\xa0\x80", 5, "method must be"},
        {"\x94\x00\x01\x05\x80", 5, "method must be"},
        {"\x94\x00\x01\xa2x\x00\x80", 7, "method must be"},
        {"\x94\x00\x01\xa1x\x90", 6, "params must be a map, not an array of 0"},
        {"\x94\x01\x01\x01\xc0", 5, "error must be nil or a map"},
        {"\x94\x01\x01\xc0\xc0", 5, "result must be a map, not nil"},
        {"\x94\x01\x01\x80\x80", 5, "result must be nil beside an error"},
        {"\x93\x02\xa1x\xc0", 5, "params must be a map"},
    };
    char longest[64] = "\x94\x00\x01\xd9\x30";
    struct eo_envelope e = {.type = 77};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_CODE(eo_envelope_parse(&doc, &e, rows[i].bytes, rows[i].size, &err), EO_E_BAD_ENVELOPE);
        ck_assert_msg(strstr(err.message, rows[i].says) != NULL, "row %zu: %s", i, err.message);
        ck_assert_ptr_null(doc.zone);
        ck_assert_int_eq(e.type, 77);
    }
    memset(longest + 5, 'm', 48); /* one byte too long */
    longest[53] = '\x80';
    ASSERT_CODE(eo_envelope_parse(&doc, &e, longest, 54, &err), EO_E_BAD_ENVELOPE);
    longest[4] = 47;
    longest[52] = '\x80';
    ASSERT_OK(eo_envelope_parse(&doc, &e, longest, 53, &err));
    ck_assert_uint_eq(strlen(e.method), 47);
    eo_doc_fini(&doc);
}
END_TEST

/* ---- parameters ---- */

static void start_params(void)
{
    start();
    eo_pack_map(&b, 9);
    eo_pack_kv_str(&b, "s", "text");
    eo_pack_kv_i64(&b, "n", -5);
    eo_pack_kv_u64(&b, "u", 10);
    eo_pack_kv_f64(&b, "f", 0.5);
    eo_pack_kv_bool(&b, "t", true);
    eo_pack_str(&b, "list");
    eo_pack_array(&b, 2);
    eo_pack_nil(&b);
    eo_pack_nil(&b);
    eo_pack_str(&b, "map");
    eo_pack_map(&b, 0);
    eo_pack_kv_str(&b, "none", NULL);
    eo_pack_str(&b, "nul");
    eo_pack_str_n(&b, "a\0b", 3);
    parse();
}

START_TEST(params_that_are_there)
{
    const struct eo_item *it = NULL;
    char text[5];
    uint64_t u;
    int64_t i;
    double f;
    bool flag = false;

    start_params();
    ASSERT_OK(eo_need_str(doc.root, "s", text, sizeof(text), &err)); /* four bytes and the NUL just fit */
    ck_assert_str_eq(text, "text");
    ASSERT_OK(eo_need_i64(doc.root, "n", -5, 0, &i, &err));
    ck_assert_int_eq(i, -5);
    ASSERT_OK(eo_need_u64(doc.root, "u", 10, &u, &err));
    ck_assert_uint_eq(u, 10);
    ASSERT_OK(eo_need_array(doc.root, "list", 2, &it, &err));
    ck_assert_uint_eq(eo_item_count(it), 2);
    ASSERT_OK(eo_need_map(doc.root, "map", &it, &err));
    ck_assert_uint_eq(eo_item_count(it), 0);
    ASSERT_OK(eo_get_str(doc.root, "s", "other", text, sizeof(text), &err));
    ck_assert_str_eq(text, "text");
    ASSERT_OK(eo_get_u64(doc.root, "u", 3, 10, &u, &err));
    ck_assert_uint_eq(u, 10);
    ASSERT_OK(eo_get_bool(doc.root, "t", false, &flag, &err));
    ck_assert(flag);
    ASSERT_OK(eo_get_f64(doc.root, "f", 1, &f, &err));
    ck_assert(f == 0.5);
    ASSERT_OK(eo_get_f64(doc.root, "n", 1, &f, &err));
    ck_assert(f == -5);
    stop();
}
END_TEST

START_TEST(params_that_are_absent)
{
    const struct eo_item *it = NULL;
    const struct eo_item *maps[2];
    char text[5] = "keep";
    uint64_t u = 7;
    int64_t i = 7;
    double f = 7;
    bool flag = false;

    start_params();
    maps[0] = doc.root;
    maps[1] = NULL; /* no map at all is like an empty one */
    for (size_t k = 0; k < 2; k++) {
        ASSERT_CODE(eo_need_str(maps[k], "none", text, sizeof(text), &err), EO_E_BAD_PARAMS);
        ASSERT_CONTAINS(err.message, "\"none\" is missing");
        ASSERT_CODE(eo_need_u64(maps[k], "gone", 1, &u, &err), EO_E_BAD_PARAMS);
        ASSERT_CODE(eo_need_i64(maps[k], "gone", 0, 1, &i, &err), EO_E_BAD_PARAMS);
        ASSERT_CODE(eo_need_array(maps[k], "gone", 1, &it, &err), EO_E_BAD_PARAMS);
        ASSERT_CODE(eo_need_map(maps[k], "gone", &it, &err), EO_E_BAD_PARAMS);
    }
    ck_assert_str_eq(text, "keep");
    ck_assert(u == 7 && i == 7 && it == NULL);
    ASSERT_OK(eo_get_str(doc.root, "none", "dflt", text, sizeof(text), &err));
    ck_assert_str_eq(text, "dflt");
    ASSERT_OK(eo_get_str(doc.root, "gone", NULL, text, sizeof(text), &err));
    ck_assert_str_eq(text, "");
    ASSERT_CODE(eo_get_str(doc.root, "gone", "longer", text, sizeof(text), &err), EO_E_INTERNAL);
    ASSERT_OK(eo_get_u64(doc.root, "gone", 99, 10, &u, &err)); /* a default may be outside the range: "not given" */
    ck_assert_uint_eq(u, 99);
    ASSERT_OK(eo_get_bool(doc.root, "none", true, &flag, &err));
    ck_assert(flag);
    ASSERT_OK(eo_get_f64(doc.root, "gone", 1.5, &f, &err));
    ck_assert(f == 1.5);
    stop();
}
END_TEST

START_TEST(params_that_are_wrong)
{
    const struct eo_item *it = NULL;
    char text[5] = "keep";
    uint64_t u = 7;
    int64_t i = 7;
    double f = 7;
    bool flag = true;

    start_params();
    ASSERT_CODE(eo_need_str(doc.root, "u", text, sizeof(text), &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.message, "parameter \"u\" must be a string, not 10");
    ASSERT_CODE(eo_need_str(doc.root, "s", text, 4, &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.message, "parameter \"s\" has 4 bytes, at most 3 are allowed");
    ASSERT_CODE(eo_need_str(doc.root, "nul", text, sizeof(text), &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "NUL");
    ASSERT_CODE(eo_get_str(doc.root, "list", "", text, sizeof(text), &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "not an array of 2");
    ASSERT_CODE(eo_need_u64(doc.root, "u", 9, &u, &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.message, "parameter \"u\" must be an integer from 0 to 9, not 10");
    ASSERT_CODE(eo_need_u64(doc.root, "n", UINT64_MAX, &u, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_need_u64(doc.root, "f", 9, &u, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "not 0.5");
    ASSERT_CODE(eo_get_u64(doc.root, "s", 1, 9, &u, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "not \"text\"");
    ASSERT_CODE(eo_need_i64(doc.root, "n", -4, 0, &i, &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.message, "parameter \"n\" must be an integer from -4 to 0, not -5");
    ASSERT_CODE(eo_need_array(doc.root, "list", 1, &it, &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.message, "parameter \"list\" has 2 items, at most 1 are allowed");
    ASSERT_CODE(eo_need_array(doc.root, "map", 1, &it, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_need_map(doc.root, "list", &it, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_get_bool(doc.root, "u", true, &flag, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_get_f64(doc.root, "t", 1, &f, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "not true");
    ck_assert_str_eq(text, "keep");
    ck_assert(u == 7 && i == 7 && it == NULL && f == 7 && flag);
    stop();
}
END_TEST

EO_SUITE("codec", integers_travel, other_values_travel, maps_are_looked_up, wrong_kinds_are_refused_and_leave_out_alone,
         writer_reports_its_limit_once, hostile_bytes, depth_is_bounded, every_truncation_is_refused, envelopes_travel,
         golden_envelope, bad_envelopes, params_that_are_there, params_that_are_absent, params_that_are_wrong)
