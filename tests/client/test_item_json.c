#include "client/cli/item_json.h"

#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;
static struct eo_bytes packed;
static struct eo_doc doc;

/* What was packed, as JSON. */
static const char *as_json(void)
{
    static char text[1024];
    struct eo_bytes out;
    struct eo_json j;
    ASSERT_OK(eo_doc_parse(&doc, packed.data, packed.size, &err));
    eo_bytes_init(&out, 1 << 20);
    eo_json_init(&j, &out);
    item_json(&j, doc.root);
    snprintf(text, sizeof text, "%s", eo_bytes_text(&out));
    eo_bytes_fini(&out);
    eo_doc_fini(&doc);
    return text;
}

static void start(void)
{
    eo_bytes_fini(&packed);
    eo_bytes_init(&packed, 1 << 20);
}

START_TEST(every_kind)
{
    start();
    eo_pack_array(&packed, 9);
    eo_pack_nil(&packed);
    eo_pack_bool(&packed, true);
    eo_pack_i64(&packed, INT64_MIN);
    eo_pack_u64(&packed, UINT64_MAX);
    eo_pack_f64(&packed, 0.1);
    eo_pack_str_n(&packed, "a\"\0b", 4);
    eo_pack_bin(&packed, "\x00\xff\x1e", 3);
    eo_pack_array(&packed, 0);
    eo_pack_map(&packed, 1);
    eo_pack_kv_i64(&packed, "k", 1);
    ck_assert_str_eq(as_json(), "[null,true,-9223372036854775808,18446744073709551615,0.1,\"a\\\"\\u0000b\","
                                "\"00ff1e\",[],{\"k\":1}]");
    start();
    eo_pack_bin(&packed, NULL, 0);
    ck_assert_str_eq(as_json(), "\"\"");
    start();
    const uint8_t ext[] = {0xd4, 0x01, 0x02}; /* fixext 1 */
    eo_bytes_append(&packed, ext, sizeof ext);
    ck_assert_str_eq(as_json(), "null");
    start();
    eo_bytes_fini(&packed);
}
END_TEST

START_TEST(non_finite_numbers_are_null_and_said)
{
    start();
    eo_pack_map(&packed, 2);
    eo_pack_kv_f64(&packed, "loss", NAN);
    eo_pack_kv_f64(&packed, "lr", 0.5);
    ck_assert_str_eq(as_json(), "{\"loss\":null,\"lr\":0.5,\"nonfinite\":true}");
    start();
    eo_pack_map(&packed, 1);
    eo_pack_str(&packed, "metrics"); /* the object that holds it says so, not the one around it */
    eo_pack_map(&packed, 1);
    eo_pack_kv_f64(&packed, "loss", -INFINITY);
    ck_assert_str_eq(as_json(), "{\"metrics\":{\"loss\":null,\"nonfinite\":true}}");
    start();
    eo_pack_map(&packed, 1);
    eo_pack_str(&packed, "losses");
    eo_pack_array(&packed, 2);
    eo_pack_f64(&packed, 1);
    eo_pack_array(&packed, 1);
    eo_pack_f64(&packed, INFINITY);
    ck_assert_str_eq(as_json(), "{\"losses\":[1,[null]],\"nonfinite\":true}");
    start();
    eo_pack_map(&packed, 1);
    eo_pack_kv_f64(&packed, "loss", 1e308);
    ck_assert_ptr_null(strstr(as_json(), "nonfinite"));
    eo_bytes_fini(&packed);
}
END_TEST

START_TEST(large_bytes_are_whole)
{
    uint8_t bytes[400];
    memset(bytes, 0xa5, sizeof bytes);
    start();
    eo_pack_bin(&packed, bytes, sizeof bytes);
    ck_assert_uint_eq(strlen(as_json()), 2 * sizeof bytes + 2);
    eo_bytes_fini(&packed);
}
END_TEST

START_TEST(errors_have_all_their_keys)
{
    struct eo_bytes out;
    struct eo_json j;
    struct eo_error none = {0};
    eo_bytes_init(&out, 4096);
    eo_json_init(&j, &out);
    error_json(&j, &none);
    ck_assert_str_eq(eo_bytes_text(&out), "null");
    eo_bytes_clear(&out);
    eo_json_init(&j, &out);
    EO_RAISE(&err, EO_E_PEER_LOST, "gone");
    error_json(&j, &err);
    ck_assert_str_eq(eo_bytes_text(&out), "{\"code\":5001,\"name\":\"PEER_LOST\",\"message\":\"gone\",\"hint\":null,"
                                          "\"host\":null,\"rank\":null}");
    eo_bytes_clear(&out);
    eo_json_init(&j, &out);
    eo_error_at_host(&err, "b:2", 1);
    eo_error_hint(&err, "Start it again.");
    error_json(&j, &err);
    ck_assert_str_eq(eo_bytes_text(&out), "{\"code\":5001,\"name\":\"PEER_LOST\",\"message\":\"gone\",\"hint\":"
                                          "\"Start it again.\",\"host\":\"b:2\",\"rank\":1}");
    eo_bytes_fini(&out);
}
END_TEST

START_TEST(readers_for_people)
{
    char text[12];
    start();
    eo_pack_map(&packed, 5);
    eo_pack_kv_str(&packed, "plain", "r\xc3\xa9sum\xc3\xa9");
    eo_pack_kv_str(&packed, "hostile", "\x1b[2J\n\x7f\xc2\x9b");
    eo_pack_kv_str(&packed, "long", "abcdefghijklmnop");
    eo_pack_kv_i64(&packed, "n", 7);
    eo_pack_kv_f64(&packed, "x", 0.25);
    ASSERT_OK(eo_doc_parse(&doc, packed.data, packed.size, &err));
    ck_assert_str_eq(item_text(doc.root, "plain", text, sizeof text), "r\xc3\xa9sum\xc3\xa9");
    ck_assert_str_eq(item_text(doc.root, "hostile", text, sizeof text), "?[2J????");
    ck_assert_str_eq(item_text(doc.root, "long", text, sizeof text), "abcdefghijk");
    ck_assert_str_eq(item_text(doc.root, "absent", text, sizeof text), "");
    ck_assert_str_eq(item_text(NULL, "plain", text, sizeof text), "");
    ck_assert_int_eq(item_i64(doc.root, "n", -1), 7);
    ck_assert_int_eq(item_i64(doc.root, "plain", -1), -1);
    ck_assert_double_eq(item_f64(doc.root, "x"), 0.25);
    ck_assert_double_eq(item_f64(doc.root, "n"), 7);
    ck_assert(isnan(item_f64(doc.root, "absent")));
    eo_doc_fini(&doc);
    eo_bytes_fini(&packed);
}
END_TEST

EO_SUITE("cli items as json", every_kind, non_finite_numbers_are_null_and_said, large_bytes_are_whole,
         errors_have_all_their_keys, readers_for_people)
