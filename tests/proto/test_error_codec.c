#include "proto/error_codec.h"

#include "proto/base/text.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <string.h>

static struct eo_error err, sent, got;
static struct eo_bytes b;
static struct eo_doc doc;

/* sent -> bytes -> got */
static void travel(void)
{
    eo_bytes_init(&b, 1 << 20);
    eo_error_pack(&b, &sent);
    ck_assert(!b.failed);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    ck_assert_int_eq(eo_error_unpack(doc.root, &got), sent.code);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}

static void ck_same(void)
{
    ck_assert_int_eq(got.code, sent.code);
    ck_assert_str_eq(got.message, sent.message);
    ck_assert_str_eq(got.detail, sent.detail);
    ck_assert_str_eq(got.hint, sent.hint);
    ck_assert_str_eq(got.op, sent.op);
    ck_assert_str_eq(got.node, sent.node);
    ck_assert_str_eq(got.backend, sent.backend);
    ck_assert_str_eq(got.device, sent.device);
    ck_assert_str_eq(got.host, sent.host);
    ck_assert_int_eq(got.rank, sent.rank);
    ck_assert_int_eq(got.truncated, sent.truncated);
    ck_assert_int_eq(got.n_inputs, sent.n_inputs);
    ck_assert_int_eq(got.n_causes, sent.n_causes);
    ck_assert_int_eq(got.n_contexts, sent.n_contexts);
    ck_assert_mem_eq(got.inputs, sent.inputs, sizeof(got.inputs));
    ck_assert_mem_eq(got.causes, sent.causes, sizeof(got.causes));
    ck_assert_mem_eq(got.contexts, sent.contexts, sizeof(got.contexts));
}

START_TEST(everything_travels_but_the_source_position)
{
    const int64_t shape[] = {32, 784, INT64_MAX, -1, 0, 6, 7, 8};

    EO_RAISE_ERRNO(&sent, EO_E_SHAPE_MISMATCH, ENOENT, "inner dimensions differ: %d and %d", 784, 128);
    eo_error_detail(&sent, "Line one.\nLine two: \xE2\x82\xAC.");
    eo_error_hint(&sent, "Transpose it.");
    eo_error_at_op(&sent, "matmul", "14 \"hidden1\"");
    eo_error_at_device(&sent, "cpu", "cpu:0");
    eo_error_at_host(&sent, "b:17743", 0);
    eo_error_input(&sent, "x", "float32", shape, 8, 0);
    eo_error_input(&sent, "w", "int8", shape, 0, -1);
    eo_error_cause(&sent, "peer", INT64_MIN, "");
    eo_error_push(&sent, "one");
    eo_error_push(&sent, "two");
    sent.truncated = true;
    travel();
    ck_same();
    ck_assert_ptr_nonnull(sent.file);
    ck_assert_ptr_null(got.file);
    ck_assert_int_eq(got.line, 0);
}
END_TEST

START_TEST(the_smallest_error_travels)
{
    EO_RAISE(&sent, EO_E_BUSY, "%s", "");
    travel();
    ck_same();
    ck_assert_int_eq(got.rank, -1);
}
END_TEST

START_TEST(full_fields_travel)
{
    char over[1000];

    memset(over, 'o', sizeof(over) - 1);
    over[sizeof(over) - 1] = '\0';
    EO_RAISE(&sent, EO_E_IO, "%s", over);
    eo_error_detail(&sent, "%s", over);
    eo_error_at_op(&sent, over, over);
    for (int i = 0; i < 5; i++) {
        eo_error_push(&sent, "%s", over);
        eo_error_cause(&sent, over, i, over);
        eo_error_input(&sent, over, over, NULL, 0, -1);
    }
    travel();
    ck_same();
}
END_TEST

START_TEST(unknown_codes_are_kept)
{
    eo_error_raise(&sent, 8765, NULL, 0, "from the future");
    travel();
    ck_assert_int_eq(got.code, 8765);
    ck_assert_str_eq(got.message, "from the future");
}
END_TEST

static void begin(size_t pairs)
{
    eo_bytes_init(&b, 1 << 20);
    eo_pack_map(&b, pairs);
}

static int unpack(void)
{
    int code;

    ck_assert(!b.failed);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    code = eo_error_unpack(doc.root, &got);
    ck_assert_int_eq(code, got.code);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
    return code;
}

START_TEST(what_is_no_error_becomes_bad_envelope)
{
    static const int64_t bad_codes[] = {0, -1, INT64_MIN, (int64_t)INT32_MAX + 1, INT64_MAX};

    ck_assert_int_eq(eo_error_unpack(NULL, &got), EO_E_BAD_ENVELOPE);
    begin(0);
    ck_assert_int_eq(unpack(), EO_E_BAD_ENVELOPE);
    for (size_t i = 0; i < EO_COUNT_OF(bad_codes); i++) {
        begin(1);
        eo_pack_kv_i64(&b, "code", bad_codes[i]);
        ck_assert_int_eq(unpack(), EO_E_BAD_ENVELOPE);
    }
    begin(1);
    eo_pack_kv_str(&b, "code", "2001");
    ck_assert_int_eq(unpack(), EO_E_BAD_ENVELOPE);
    eo_bytes_init(&b, 100);
    eo_pack_array(&b, 0);
    ck_assert_int_eq(unpack(), EO_E_BAD_ENVELOPE);
}
END_TEST

START_TEST(hostile_fields_are_cut_and_cleaned)
{
    char *huge = malloc(100001);

    ck_assert_ptr_nonnull(huge);
    memset(huge, '\x1b', 100000);
    huge[100000] = '\0';
    begin(8);
    eo_pack_kv_i64(&b, "code", EO_E_IO);
    eo_pack_kv_str(&b, "message", huge);
    eo_pack_kv_str(&b, "host", "evil\r\nhost\xC2\x9B");
    eo_pack_kv_i64(&b, "rank", INT64_MAX);
    eo_pack_kv_i64(&b, "detail", 5); /* of another kind: ignored */
    eo_pack_str(&b, "hint");
    eo_pack_str_n(&b, "a\0b", 3);
    eo_pack_str(&b, "context");
    eo_pack_array(&b, 3);
    eo_pack_str(&b, "fine");
    eo_pack_nil(&b);
    eo_pack_str(&b, huge);
    eo_pack_kv_str(&b, "inputs", "not a list");
    ck_assert_int_eq(unpack(), EO_E_IO);
    ck_assert_uint_eq(strlen(got.message), sizeof(got.message) - 1);
    ck_assert_ptr_null(strchr(got.message, '\x1b'));
    ck_assert(got.truncated);
    ck_assert_str_eq(got.host, "evil  host??");
    ck_assert_int_eq(got.rank, -1);
    ck_assert_str_eq(got.detail, "");
    ck_assert_str_eq(got.hint, "a?b");
    ck_assert_int_eq(got.n_contexts, 3);
    ck_assert_str_eq(got.contexts[0], "fine");
    ck_assert_str_eq(got.contexts[1], "");
    ck_assert_int_eq(got.n_inputs, 0);
    free(huge);
}
END_TEST

START_TEST(hostile_lists_are_bounded)
{
    begin(4);
    eo_pack_kv_i64(&b, "code", EO_E_IO);
    eo_pack_str(&b, "inputs");
    eo_pack_array(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        eo_pack_map(&b, 2);
        eo_pack_kv_i64(&b, "marked_dim", i == 0 ? 300 : -300);
        eo_pack_str(&b, "shape");
        eo_pack_array(&b, 100);
        for (int d = 0; d < 100; d++) {
            if (d == 1) {
                eo_pack_str(&b, "no number");
            } else {
                eo_pack_i64(&b, d);
            }
        }
    }
    eo_pack_str(&b, "causes");
    eo_pack_array(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        eo_pack_nil(&b);
    }
    eo_pack_str(&b, "context");
    eo_pack_array(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        eo_pack_str(&b, "x");
    }
    ck_assert_int_eq(unpack(), EO_E_IO);
    ck_assert(got.truncated);
    ck_assert_int_eq(got.n_inputs, EO_ERROR_INPUTS);
    ck_assert_int_eq(got.inputs[0].n_dims, EO_ERROR_DIMS);
    ck_assert_int_eq(got.inputs[0].marked_dim, -1);
    ck_assert_int_eq(got.inputs[0].shape[1], -1);
    ck_assert_int_eq(got.inputs[0].shape[7], 7);
    ck_assert_int_eq(got.n_causes, EO_ERROR_CAUSES);
    ck_assert_int_eq(got.n_contexts, EO_ERROR_CONTEXTS);
}
END_TEST

START_TEST(retryable_is_on_the_wire)
{
    bool flag = false;

    EO_RAISE(&sent, EO_E_BUSY, "busy");
    eo_bytes_init(&b, 1000);
    eo_error_pack(&b, &sent);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    ck_assert(eo_item_as_bool(eo_item_get(doc.root, "retryable"), &flag) && flag);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}
END_TEST

EO_SUITE("error_codec", everything_travels_but_the_source_position, the_smallest_error_travels, full_fields_travel,
         unknown_codes_are_kept, what_is_no_error_becomes_bad_envelope, hostile_fields_are_cut_and_cleaned,
         hostile_lists_are_bounded, retryable_is_on_the_wire)
