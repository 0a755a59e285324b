#include "proto/base/json.h"

#include "tests/support/suite.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

static struct eo_bytes out;
static struct eo_json json;

static void begin(void)
{
    eo_bytes_init(&out, 1 << 20);
    eo_json_init(&json, &out);
}

static void ends_with(const char *expected)
{
    ck_assert_str_eq(eo_bytes_text(&out), expected);
    eo_bytes_fini(&out);
}

START_TEST(nesting_and_commas)
{
    begin();
    eo_json_begin_object(&json);
    eo_json_kv_string(&json, "name", "x");
    eo_json_key(&json, "list");
    eo_json_begin_array(&json);
    eo_json_i64(&json, INT64_MIN);
    eo_json_u64(&json, UINT64_MAX);
    eo_json_begin_array(&json);
    eo_json_end_array(&json);
    eo_json_begin_object(&json);
    eo_json_end_object(&json);
    eo_json_null(&json);
    eo_json_raw(&json, "[1,2]", 5);
    eo_json_bool(&json, false);
    eo_json_end_array(&json);
    eo_json_kv_bool(&json, "ok", true);
    eo_json_kv_i64(&json, "i", -1);
    eo_json_kv_u64(&json, "u", 1);
    eo_json_kv_f64(&json, "f", 0.5);
    eo_json_kv_string(&json, "none", NULL);
    eo_json_end_object(&json);
    ends_with("{\"name\":\"x\",\"list\":[-9223372036854775808,18446744073709551615,[],{},null,[1,2],false],"
              "\"ok\":true,\"i\":-1,\"u\":1,\"f\":0.5,\"none\":null}");
}
END_TEST

START_TEST(escapes)
{
    begin();
    eo_json_string_n(&json, "a\"b\\c/\n\r\t\b\f\x01\x1f\x7f\0z", 16);
    ends_with("\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001f\\u007f\\u0000z\"");
    begin();
    eo_json_string(&json,
                   "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xC2\x9B[2J"); /* U+009B starts a terminal sequence */
    ends_with("\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \\u009b[2J\"");
    begin();
    eo_json_string(&json, "\xFF|\xC3|\xED\xA0\x80");
    ends_with("\"\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    begin();
    eo_json_key(&json, "k\"");
    ends_with("\"k\\\"\":");
}
END_TEST

static void number_is(double v, const char *expected)
{
    begin();
    eo_json_f64(&json, v);
    ends_with(expected);
}

START_TEST(numbers_are_shortest)
{
    number_is(0, "0");
    number_is(-0.0, "-0");
    number_is(1, "1");
    number_is(0.1, "0.1");
    number_is(0.1 + 0.2, "0.30000000000000004");
    number_is(1.0 / 3, "0.3333333333333333");
    number_is(1e21, "1e+21");
    number_is(123456789012345680.0, "1.2345678901234568e+17");
    number_is(5e-324, "5e-324");
    number_is(DBL_MAX, "1.7976931348623157e+308");
    number_is((double)NAN, "null");
    number_is((double)INFINITY, "null");
    number_is((double)-INFINITY, "null");
}
END_TEST

START_TEST(numbers_read_back_equal)
{
    uint64_t state = 12345;

    for (int i = 0; i < 20000; i++) {
        double v, back;

        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&v, &state, sizeof(v));
        if (!isfinite(v)) {
            continue;
        }
        begin();
        eo_json_f64(&json, v);
        back = strtod(eo_bytes_text(&out), NULL);
        ck_assert_mem_eq(&back, &v, sizeof(v));
        eo_bytes_fini(&out);
    }
}
END_TEST

START_TEST(everything_parses)
{
    json_error_t error;
    json_t *doc;
    char all[256];

    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (char)i;
    }
    begin();
    eo_json_begin_object(&json);
    eo_json_key(&json, "all");
    eo_json_string_n(&json, all, sizeof(all));
    eo_json_kv_f64(&json, "nan", (double)NAN);
    eo_json_end_object(&json);
    doc = json_loadb((const char *)out.data, out.size, JSON_ALLOW_NUL, &error);
    ck_assert_msg(doc != NULL, "%s", error.text);
    ck_assert(json_is_null(json_object_get(doc, "nan")));
    /* 128 ASCII bytes of one character each, 128 that are no UTF-8 and became U+FFFD of three bytes. */
    ck_assert_uint_eq(json_string_length(json_object_get(doc, "all")), 128 + 3 * 128);
    json_decref(doc);
    eo_bytes_fini(&out);
}
END_TEST

START_TEST(limit_is_reported_by_the_bytes)
{
    struct eo_bytes small;
    struct eo_json j;

    eo_bytes_init(&small, 10);
    eo_json_init(&j, &small);
    eo_json_string(&j, "much longer than ten bytes");
    ck_assert(small.failed);
    ck_assert_uint_le(small.size, 10);
    eo_bytes_fini(&small);
}
END_TEST

EO_SUITE("json", nesting_and_commas, escapes, numbers_are_shortest, numbers_read_back_equal, everything_parses,
         limit_is_reported_by_the_bytes)
