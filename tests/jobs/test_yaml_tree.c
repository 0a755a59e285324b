#include "daemon/jobs/yaml_tree.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static int parse(const char *text, struct yaml_tree *out)
{
    return yaml_tree_parse("t.yaml", text, strlen(text), out, &err);
}

START_TEST(items_know_their_place)
{
    struct yaml_tree t;
    struct yaml_item *b;
    char place[200];

    ASSERT_OK(parse("a: 1\nb:\n  - x\n  - {c: \"2\"}\n", &t));
    ck_assert_int_eq(t.root->kind, YAML_MAP);
    ck_assert_str_eq(yaml_tree_get(t.root, "a")->text, "1");
    b = yaml_tree_get(t.root, "b");
    ck_assert_int_eq(b->kind, YAML_LIST);
    ck_assert_int_eq(b->n, 2);
    ck_assert_str_eq(yaml_tree_place(&t, b->items[1], place, sizeof(place)), "t.yaml:4:5");
    ck_assert(yaml_tree_get(b->items[1], "c")->quoted);
    ck_assert(!b->items[0]->quoted);
    ck_assert_ptr_null(yaml_tree_get(t.root, "z"));
    ck_assert_ptr_null(yaml_tree_get(b, "a"));
    yaml_tree_fini(&t);
    ASSERT_OK(parse("{\"linear\":{\"in\":64,\"bias\":true,\"x\":[1,2]}}", &t)); /* JSON is YAML */
    ck_assert_str_eq(yaml_tree_get(yaml_tree_get(t.root, "linear"), "in")->text, "64");
    yaml_tree_fini(&t);
}
END_TEST

START_TEST(what_is_refused)
{
    static const struct {
        const char *text, *place, *why;
    } bad[] = {
        {"", "t.yaml:1:1", "nothing"},
        {"# only a comment\n", "t.yaml:1:1", "nothing"},
        {"a: &x 1\n", "t.yaml:1:4", "anchors"},
        {"a: 1\nb: *x\n", "t.yaml:2:4", "aliases"},
        {"a: !!int 1\n", "t.yaml:1:4", "tags"},
        {"a: !x [1]\n", "t.yaml:1:4", "tags"},
        {"a: 1\na: 2\n", "t.yaml:2:1", "second time"},
        {"? [1, 2]\n: 3\n", "t.yaml:1:3", "plain word"},
        {"a: 1\n--- \nb: 2\n", "t.yaml:2:1", "second document"},
        {"%YAML 1.1\n---\na: 1\n", "t.yaml", "directives"},
        {"a: [1, 2\n", "t.yaml:2:1", ""},
        {"a: 1\n\tb: 2\n", "t.yaml:2:1", ""},
        {"a: \"\\x00\"\n", "t.yaml:1:4", "NUL"},
        {"a: 1\nbc\xff: 2\n", "t.yaml:2:3", ""},
    };

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        struct yaml_tree t;

        ASSERT_CODE(parse(bad[i].text, &t), EO_E_BAD_SPEC);
        ASSERT_CONTAINS(err.message, bad[i].place);
        ASSERT_CONTAINS(err.message, bad[i].why);
    }
}
END_TEST

START_TEST(depth_and_numbers_are_bounded)
{
    size_t n = YAML_TREE_MAX_BYTES;
    char *text = malloc(n + 2);
    struct yaml_tree t;

    memset(text, '[', n);
    ASSERT_CODE(yaml_tree_parse("t.yaml", text, n, &t, &err), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "deep");
    ASSERT_CODE(yaml_tree_parse("t.yaml", text, n + 1, &t, &err), EO_E_TOO_LARGE);
    for (size_t i = 0; i + 1 < n; i += 2) {
        memcpy(text + i, "1,", 2);
    }
    text[0] = '[';
    text[1] = ' ';
    ASSERT_CODE(yaml_tree_parse("t.yaml", text, n, &t, &err), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "too many");
    free(text);
}
END_TEST

START_TEST(many_keys_are_refused)
{
    char *text = malloc(400 * 16), *at = text;
    struct yaml_tree t;

    for (int i = 0; i < 400; i++) {
        at += snprintf(at, 16, "k%d: 1\n", i);
    }
    ASSERT_CODE(parse(text, &t), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "too many keys");
    free(text);
}
END_TEST

START_TEST(overrides)
{
    struct yaml_tree t;
    char place[200];

    ASSERT_OK(parse("a: 1\nlist: [x, {y: 2}]\nopt: adam\n", &t));
    ASSERT_OK(yaml_tree_set(&t, "a=5", &err));
    ck_assert_str_eq(yaml_tree_get(t.root, "a")->text, "5");
    ck_assert_str_eq(yaml_tree_place(&t, yaml_tree_get(t.root, "a"), place, sizeof(place)), "--set \"a=5\"");
    ASSERT_OK(yaml_tree_set(&t, "list.1.y=[1, 2]", &err));
    ck_assert_int_eq(yaml_tree_get(yaml_tree_get(t.root, "list")->items[1], "y")->n, 2);
    ASSERT_OK(yaml_tree_set(&t, "list.2=z", &err));
    ck_assert_str_eq(yaml_tree_get(t.root, "list")->items[2]->text, "z");
    ASSERT_OK(yaml_tree_set(&t, "new.deep.key=true", &err));
    ck_assert_str_eq(yaml_tree_get(yaml_tree_get(yaml_tree_get(t.root, "new"), "deep"), "key")->text, "true");
    ASSERT_OK(yaml_tree_set(&t, "opt.adam.lr=0.1", &err));
    ck_assert_str_eq(yaml_tree_get(yaml_tree_get(yaml_tree_get(t.root, "opt"), "adam"), "lr")->text, "0.1");
    ASSERT_OK(yaml_tree_set(&t, "empty=", &err));
    ck_assert_str_eq(yaml_tree_get(t.root, "empty")->text, "");
    ASSERT_OK(yaml_tree_set(&t, "text=a=b", &err));
    ck_assert_str_eq(yaml_tree_get(t.root, "text")->text, "a=b");
    ASSERT_CODE(yaml_tree_set(&t, "list.9=z", &err), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "0 to 3");
    ASSERT_CODE(yaml_tree_set(&t, "list.x=z", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "nothing", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "=1", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, ".a=1", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "a..b=1", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "a.=1", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "a=[1", &err), EO_E_BAD_SPEC);
    ASSERT_CODE(yaml_tree_set(&t, "a=*x", &err), EO_E_BAD_SPEC);
    yaml_tree_fini(&t);
}
END_TEST

EO_SUITE("yaml_tree", items_know_their_place, what_is_refused, depth_and_numbers_are_bounded, many_keys_are_refused,
         overrides)
