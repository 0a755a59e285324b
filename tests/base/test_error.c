#include "proto/base/error.h"

#include "proto/base/text.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static struct eo_error err;
static char text[8192];

static void render(bool color)
{
    ck_assert_uint_lt(eo_error_text(&err, color, text, sizeof(text)), sizeof(text));
}

static void raise_matmul(void)
{
    const int64_t x[] = {32, 784}, w[] = {128, 784};

    EO_RAISE(&err, EO_E_SHAPE_MISMATCH, "inner dimensions differ: %d and %d", 784, 128);
    eo_error_at_op(&err, "matmul", "14 \"hidden1\", transpose_b=false");
    eo_error_input(&err, "x", "float32", x, 2, 1);
    eo_error_input(&err, "w", "float32", w, 2, 0);
    eo_error_at_device(&err, "cuda", "cuda:0");
    eo_error_push(&err, "running step %d of session %d, request %s", 12, 7, "91c2");
    eo_error_hint(&err, "Set transpose_b, or pass the second input as [%d, n].", 784);
}

START_TEST(terminal_form)
{
    raise_matmul();
    render(false);
    ck_assert_str_eq(text, "error EO-2001: inner dimensions differ: 784 and 128\n"
                           "  op       matmul, node 14 \"hidden1\", transpose_b=false\n"
                           "  input 0  x  float32 [32, 784]\n"
                           "                           ^^^\n"
                           "  input 1  w  float32 [128, 784]\n"
                           "                       ^^^\n"
                           "  backend  cuda:0\n"
                           "  while    running step 12 of session 7, request 91c2\n"
                           "  hint     Set transpose_b, or pass the second input as [784, n].\n"
                           "  more     everyo explain EO-2001\n");
}
END_TEST

START_TEST(terminal_form_of_everything_else)
{
    const int64_t none[] = {0};
    const int64_t big[] = {INT64_MIN, 1, 2, 3, 4, 5, 6, INT64_MAX};

    EO_RAISE(&err, EO_E_PEER_LOST, "b:17743 was lost");
    eo_error_at_op(&err, NULL, "job.yaml:3:5");
    eo_error_at_device(&err, "reference", "cpu:0");
    eo_error_at_host(&err, "b:17743", 1);
    eo_error_detail(&err, "First line.\nSecond line.");
    eo_error_input(&err, "", "int8", none, 0, 0);
    eo_error_input(&err, "h\xC3\xA4mmer", "int64", big, 8, 7);
    eo_error_cause(&err, "errno", 104, "Connection reset by peer");
    eo_error_cause(&err, "peer", 5001, "");
    eo_error_push(&err, "inner");
    eo_error_push(&err, "outer");
    render(false);
    ck_assert_str_eq(text,
                     "error EO-5001: b:17743 was lost\n"
                     "  at       job.yaml:3:5\n"
                     "  input 0  int8 []\n"
                     "  input 1  h\xC3\xA4mmer  int64 [-9223372036854775808, 1, 2, 3, 4, 5, 6, 9223372036854775807]\n"
                     "                                                                  ^^^^^^^^^^^^^^^^^^^\n"
                     "  backend  reference on cpu:0\n"
                     "  peer     b:17743 (rank 1)\n"
                     "  detail   First line.\n"
                     "           Second line.\n"
                     "  cause    errno 104: Connection reset by peer\n"
                     "  cause    peer 5001\n"
                     "  while    inner\n"
                     "  while    outer\n"
                     "  more     everyo explain EO-5001\n");
}
END_TEST

START_TEST(color_adds_escapes_and_nothing_else)
{
    char plain[8192];
    size_t n = 0;

    raise_matmul();
    render(false);
    eo_copy_text(plain, sizeof(plain), text);
    render(true);
    ck_assert_msg(strstr(text, "\033[1;31merror EO-2001\033[0m") == text, "%s", text);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\033') {
            p = strchr(p, 'm');
            continue;
        }
        ck_assert_int_eq(*p, plain[n++]);
    }
    ck_assert_int_eq(plain[n], '\0');
}
END_TEST

START_TEST(rendering_is_bounded_like_snprintf)
{
    size_t wanted;
    char small[64];

    raise_matmul();
    wanted = eo_error_text(&err, false, NULL, 0);
    ck_assert_uint_eq(wanted, eo_error_text(&err, false, text, sizeof(text)));
    for (size_t size = 1; size <= sizeof(small); size++) {
        memset(small, '#', sizeof(small));
        ck_assert_uint_eq(eo_error_text(&err, false, small, size), wanted);
        ck_assert_uint_eq(strlen(small), size - 1);
        ck_assert_mem_eq(small, text, size - 1);
    }
    wanted = eo_error_json(&err, NULL, 0);
    ck_assert_uint_eq(wanted, eo_error_json(&err, text, sizeof(text)));
    ck_assert_uint_eq(eo_error_json(&err, small, 10), wanted);
    ck_assert_uint_eq(strlen(small), 9);
}
END_TEST

START_TEST(no_error_and_unknown_codes)
{
    eo_error_clear(&err);
    ck_assert_int_eq(err.rank, -1);
    render(false);
    ck_assert_str_eq(text, "no error\n");
    eo_error_raise(&err, 9876, NULL, 0, "from a newer peer");
    render(false);
    ck_assert_str_eq(text, "error EO-9876: from a newer peer\n");
    ck_assert_str_eq(eo_code_name(9876), "UNKNOWN");
    ck_assert_str_eq(eo_code_summary(9876), "unknown error");
    ck_assert_int_eq(eo_code_exit(9876), 70);
    ck_assert(!eo_code_retryable(9876));
}
END_TEST

START_TEST(codes)
{
    ck_assert_int_gt(eo_code_count(), 40);
    for (int i = 0; i < eo_code_count(); i++) {
        int code = eo_code_at(i);

        ck_assert_int_ge(code, 1001);
        ck_assert_int_lt(code, 8000);
        ck_assert(eo_code_name(code)[0] != '\0' && strcmp(eo_code_name(code), "UNKNOWN") != 0);
        ck_assert(eo_code_summary(code)[0] >= 'a' && eo_code_summary(code)[0] <= 'z');
        ck_assert(eo_code_exit(code) > 0 && eo_code_exit(code) < 128);
        for (int k = 0; k < i; k++) {
            ck_assert_int_ne(code, eo_code_at(k));
            ck_assert_str_ne(eo_code_name(code), eo_code_name(eo_code_at(k)));
        }
    }
    ck_assert_int_eq(eo_code_at(-1), EO_OK);
    ck_assert_int_eq(eo_code_at(eo_code_count()), EO_OK);
    ck_assert_str_eq(eo_code_name(EO_E_BUSY), "BUSY");
    ck_assert_int_eq(eo_code_exit(EO_E_BUSY), 75);
    ck_assert(eo_code_retryable(EO_E_BUSY));
    ck_assert(!eo_code_retryable(EO_E_SHAPE_MISMATCH));
}
END_TEST

START_TEST(raise_returns_the_code_and_rewrites_everything)
{
    raise_matmul();
    errno = 42;
    ck_assert_int_eq(EO_RAISE(&err, EO_E_BAD_HANDLE, "handle %d is not live", 3), EO_E_BAD_HANDLE);
    ck_assert_int_eq(errno, 42);
    ck_assert_str_eq(err.message, "handle 3 is not live");
    ck_assert_int_eq(err.n_inputs + err.n_causes + err.n_contexts, 0);
    ck_assert_str_eq(err.hint, "");
    ck_assert_str_eq(err.op, "");
    ck_assert_int_eq(err.rank, -1);
    ck_assert_str_eq(err.file, "tests/base/test_error.c"); /* without the path of the tree it was built in */
    ck_assert_int_gt(err.line, 0);
    ck_assert_int_eq(EO_RAISE(NULL, EO_E_BAD_HANDLE, "nobody asks"), EO_E_BAD_HANDLE);
}
END_TEST

START_TEST(arguments_may_point_into_the_error)
{
    EO_RAISE(&err, EO_E_IO, "disk on fire");
    eo_error_hint(&err, "Leave the building.");
    EO_RAISE(&err, EO_E_BAD_CHECKPOINT, "checkpoint lost: %s (%s)", err.message, err.hint);
    ck_assert_str_eq(err.message, "checkpoint lost: disk on fire (Leave the building.)");
    eo_error_detail(&err, "%s %s", err.detail, err.message);
    ck_assert_str_eq(err.detail, " checkpoint lost: disk on fire (Leave the building.)");
}
END_TEST

START_TEST(errno_becomes_a_cause)
{
    ck_assert_int_eq(EO_RAISE_ERRNO(&err, EO_E_NO_FILE, ENOENT, "could not open %s", "\"x\""), EO_E_NO_FILE);
    ck_assert_int_eq(err.n_causes, 1);
    ck_assert_str_eq(err.causes[0].source, "errno");
    ck_assert_int_eq(err.causes[0].code, ENOENT);
    ck_assert_str_eq(err.causes[0].text, "No such file or directory");
    ck_assert_int_eq(EO_RAISE_ERRNO(NULL, EO_E_IO, EIO, "x"), EO_E_IO);
}
END_TEST

START_TEST(bugs_ask_for_a_report)
{
    ck_assert_int_eq(EO_BUG(&err, "slot %d is taken twice", 4), EO_E_INTERNAL);
    ASSERT_CONTAINS(err.detail, "tests/base/test_error.c:");
    ASSERT_CONTAINS(err.hint, "report");
    ck_assert_int_eq(EO_BUG(NULL, "x"), EO_E_INTERNAL);
}
END_TEST

static bool ends_in_dots(const char *field)
{
    return strcmp(field + strlen(field) - 3, "...") == 0;
}

START_TEST(cut_texts_are_marked)
{
    char fits[sizeof(err.message)];
    char over[2000];

    memset(fits, 'm', sizeof(fits) - 1);
    fits[sizeof(fits) - 1] = '\0';
    EO_RAISE(&err, EO_E_IO, "%s", fits);
    ck_assert_str_eq(err.message, fits);
    ck_assert(!err.truncated);

    memset(over, 'o', sizeof(over) - 1);
    over[sizeof(over) - 1] = '\0';
    EO_RAISE(&err, EO_E_IO, "%s", over);
    ck_assert_uint_eq(strlen(err.message), sizeof(err.message) - 1);
    ck_assert(ends_in_dots(err.message) && err.truncated);
    err.truncated = false;
    eo_error_detail(&err, "%s", over);
    ck_assert(ends_in_dots(err.detail) && err.truncated);
    eo_error_hint(&err, "%s", over);
    ck_assert(ends_in_dots(err.hint));
    eo_error_push(&err, "%s", over);
    ck_assert(ends_in_dots(err.contexts[0]));
    eo_error_at_op(&err, over, over);
    ck_assert(ends_in_dots(err.op) && ends_in_dots(err.node));
    eo_error_at_device(&err, over, over);
    ck_assert(ends_in_dots(err.backend) && ends_in_dots(err.device));
    eo_error_at_host(&err, over, -7);
    ck_assert(ends_in_dots(err.host));
    ck_assert_int_eq(err.rank, -1);
    eo_error_cause(&err, over, 1, over);
    ck_assert(ends_in_dots(err.causes[0].source) && ends_in_dots(err.causes[0].text));
    eo_error_input(&err, over, over, NULL, 0, -1);
    ck_assert(ends_in_dots(err.inputs[0].name) && ends_in_dots(err.inputs[0].dtype));
    render(false);
    ASSERT_CONTAINS(text, "  note     parts of this report were cut to fit\n");
}
END_TEST

START_TEST(cuts_respect_characters)
{
    char wide[400] = "";

    /* Three-byte characters at all three offsets relative to the cut. */
    for (size_t shift = 0; shift < 3; shift++) {
        memset(wide, 'x', shift);
        wide[shift] = '\0';
        while (strlen(wide) + 3 < sizeof(wide)) {
            eo_copy_text(wide + strlen(wide), 4, "\xE2\x82\xAC");
        }
        EO_RAISE(&err, EO_E_IO, "%s", wide);
        ck_assert(ends_in_dots(err.message));
        ck_assert(eo_text_valid_utf8(err.message, strlen(err.message)));
        ck_assert_ptr_null(strchr(err.message, '?'));
    }
}
END_TEST

START_TEST(lists_are_bounded)
{
    const int64_t shape[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

    EO_RAISE(&err, EO_E_IO, "x");
    for (int i = 0; i < 10; i++) {
        eo_error_push(&err, "context %d", i);
        eo_error_cause(&err, "errno", i, "text");
        eo_error_input(&err, "x", "float32", shape, 10, 9);
    }
    ck_assert(err.truncated);
    ck_assert_int_eq(err.n_contexts, EO_ERROR_CONTEXTS);
    ck_assert_str_eq(err.contexts[0], "context 0");
    ck_assert_int_eq(err.n_causes, EO_ERROR_CAUSES);
    ck_assert_int_eq(err.n_inputs, EO_ERROR_INPUTS);
    ck_assert_int_eq(err.inputs[0].n_dims, EO_ERROR_DIMS);
    ck_assert_int_eq(err.inputs[0].marked_dim, -1);
    ck_assert_int_eq(err.inputs[0].shape[7], 8);
}
END_TEST

START_TEST(decorations_accept_null)
{
    const int64_t shape[] = {1};

    eo_error_clear(NULL);
    eo_error_detail(NULL, "x");
    eo_error_hint(NULL, "x");
    eo_error_push(NULL, "x");
    eo_error_at_op(NULL, "x", "y");
    eo_error_at_device(NULL, "x", "y");
    eo_error_at_host(NULL, "x", 0);
    eo_error_input(NULL, "x", "y", shape, 1, 0);
    eo_error_cause(NULL, "x", 0, "y");
}
END_TEST

START_TEST(hostile_text_never_controls_the_terminal)
{
    const char *evil = "\x1b[2J\x07\r\nerror EO-0000: all is well\x7f\xff\xC2\x9B"
                       "31m\tend";

    EO_RAISE(&err, EO_E_IO, "%s", evil);
    eo_error_detail(&err, "%s", evil);
    eo_error_push(&err, "%s", evil);
    eo_error_at_op(&err, evil, evil);
    eo_error_at_host(&err, evil, 0);
    eo_error_cause(&err, evil, 0, evil);
    eo_error_input(&err, evil, evil, NULL, 0, -1);
    ck_assert_str_eq(err.message, "?[2J?  error EO-0000: all is well????31m end");
    render(false);
    for (const char *p = text; *p != '\0'; p++) {
        ck_assert(*p == '\n' || ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f));
    }
    /* Only the detail may have lines, and they stay in its column. */
    ck_assert_ptr_null(strstr(text, "\nerror"));
    ASSERT_CONTAINS(text, "\n           error EO-0000");
}
END_TEST

START_TEST(quoting)
{
    char out[400];
    char longer[200];

    ck_assert_str_eq(eo_quote("abc", 3, out, sizeof(out)), "\"abc\"");
    ck_assert_str_eq(eo_quote("", 0, out, sizeof(out)), "\"\"");
    ck_assert_str_eq(eo_quote(NULL, 5, out, sizeof(out)), "\"\"");
    ck_assert_str_eq(eo_quote("a\"b\\\n\r\t\x01\x7f\xC3\xA4\0z", 13, out, sizeof(out)),
                     "\"a\\\"b\\\\\\n\\r\\t\\x01\\x7f\\xc3\\xa4\\x00z\"");
    memset(longer, 'a', sizeof(longer));
    eo_quote(longer, 80, out, sizeof(out));
    ck_assert_uint_eq(strlen(out), 82);
    eo_quote(longer, 81, out, sizeof(out));
    ck_assert_uint_eq(strlen(out), 85);
    ck_assert_str_eq(out + 80, "a\"...");
    memset(longer, '\x1b', sizeof(longer));
    for (size_t size = 0; size < sizeof(out); size++) {
        memset(out, '#', sizeof(out));
        eo_quote(longer, sizeof(longer), out, size);
        if (size > 0) {
            ck_assert_uint_lt(strnlen(out, size), size);
        }
        for (size_t k = size; k < sizeof(out); k++) {
            ck_assert_int_eq(out[k], '#');
        }
    }
    ck_assert_str_eq(eo_quote("abcdefgh", 8, out, 10), "\"abcd\"...");
}
END_TEST

START_TEST(json_form)
{
    json_error_t problem;
    json_t *doc, *input;

    raise_matmul();
    eo_error_cause(&err, "errno", 5, "a \"quoted\" cause");
    eo_error_at_host(&err, "b:1", 2);
    eo_error_json(&err, text, sizeof(text));
    ck_assert_ptr_null(strchr(text, '\n'));
    doc = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    ck_assert_msg(doc != NULL, "%s: %s", problem.text, text);
    ck_assert_str_eq(json_string_value(json_object_get(doc, "code")), "EO-2001");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "name")), "SHAPE_MISMATCH");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "message")), "inner dimensions differ: 784 and 128");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "host")), "b:1");
    ck_assert_int_eq(json_integer_value(json_object_get(doc, "rank")), 2);
    ck_assert(json_is_false(json_object_get(doc, "retryable")));
    ck_assert_uint_eq(json_array_size(json_object_get(doc, "inputs")), 2);
    input = json_array_get(json_object_get(doc, "inputs"), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(input, "shape"), 0)), 128);
    ck_assert_int_eq(json_integer_value(json_object_get(input, "marked_dim")), 0);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(json_object_get(doc, "causes"), 0), "text")),
                     "a \"quoted\" cause");
    ck_assert_uint_eq(json_array_size(json_object_get(doc, "context")), 1);
    ck_assert_str_eq(json_string_value(json_object_get(doc, "file")), "tests/base/test_error.c");
    json_decref(doc);
}
END_TEST

EO_SUITE("error", terminal_form, terminal_form_of_everything_else, color_adds_escapes_and_nothing_else,
         rendering_is_bounded_like_snprintf, no_error_and_unknown_codes, codes,
         raise_returns_the_code_and_rewrites_everything, arguments_may_point_into_the_error, errno_becomes_a_cause,
         bugs_ask_for_a_report, cut_texts_are_marked, cuts_respect_characters, lists_are_bounded,
         decorations_accept_null, hostile_text_never_controls_the_terminal, quoting, json_form)
