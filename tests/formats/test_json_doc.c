#include "daemon/formats/json_doc.h"

#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static int parse(const char *text, struct json_doc *doc)
{
    return json_doc_parse("t.json", text, strlen(text), 100, doc, &err);
}

START_TEST(values_by_type)
{
    struct json_doc doc;
    const char *text;
    int64_t i;
    double d;
    bool flag;
    int n = 0;

    ASSERT_OK(parse("{\"s\": \"x\", \"i\": -7, \"d\": 0.5, \"b\": true, \"a\": [1, 2, 3], \"o\": {}}", &doc));
    ck_assert(json_doc_is_object(doc.root));
    ck_assert(json_doc_string(json_doc_get(doc.root, "s"), &text));
    ck_assert_str_eq(text, "x");
    ck_assert(json_doc_i64(json_doc_get(doc.root, "i"), &i));
    ck_assert_int_eq(i, -7);
    ck_assert(json_doc_f64(json_doc_get(doc.root, "d"), &d));
    ck_assert_double_eq(d, 0.5);
    ck_assert(json_doc_f64(json_doc_get(doc.root, "i"), &d));
    ck_assert_double_eq(d, -7);
    ck_assert(json_doc_bool(json_doc_get(doc.root, "b"), &flag) && flag);
    ck_assert_uint_eq(json_doc_count(json_doc_get(doc.root, "a")), 3);
    ck_assert(json_doc_i64(json_doc_at(json_doc_get(doc.root, "a"), 2), &i));
    ck_assert_int_eq(i, 3);
    /* absent or of another type */
    ck_assert(!json_doc_i64(json_doc_get(doc.root, "none"), &i));
    ck_assert(!json_doc_i64(json_doc_get(doc.root, "d"), &i));
    ck_assert(!json_doc_string(json_doc_get(doc.root, "i"), &text));
    ck_assert(!json_doc_i64(json_doc_at(json_doc_get(doc.root, "a"), 3), &i));
    ck_assert_uint_eq(json_doc_count(NULL), 0);
    ck_assert(!json_doc_is_array(NULL));
    for (void *it = json_doc_first(doc.root); it != NULL; it = json_doc_next(doc.root, it)) {
        ck_assert_ptr_nonnull(json_doc_key(it));
        ck_assert_ptr_nonnull(json_doc_value(it));
        n++;
    }
    ck_assert_int_eq(n, 6);
    json_doc_fini(&doc);
}
END_TEST

START_TEST(hostile_text_is_refused)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{\"a\": 1, \"a\": 2}",
                                      "[1] x",
                                      "\"\xff\"",
                                      "{\"a\": 01}",
                                      "nul",
                                      "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"};
    char many[1000];
    struct json_doc doc;

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ASSERT_CODE(parse(bad[i], &doc), EO_E_BAD_FILE);
        ASSERT_CONTAINS(err.message, "t.json");
    }
    memset(many, ',', sizeof(many));
    many[0] = '[';
    many[sizeof(many) - 1] = '\0';
    ASSERT_CODE(parse(many, &doc), EO_E_TOO_LARGE);
}
END_TEST

EO_SUITE("json_doc", values_by_type, hostile_text_is_refused)
