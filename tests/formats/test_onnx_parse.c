/* ONNX files as strangers write them: cut, lying, too deep, too large, wrong. Nothing is read that is not checked, and
 * every refusal names what is wrong. */
#include "tests/formats/onnx_bytes.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static struct eo_error err;

/* Parses and frees; the code. */
static int parse(struct eo_bytes *b)
{
    struct onnx_model *m = NULL;
    int rc;

    eo_error_clear(&err);
    rc = onnx_model_parse(b->data, b->size, &m, &err);
    onnx_model_free(m);
    eo_bytes_fini(b);
    return rc;
}

static int parse_model(struct model *m)
{
    struct eo_bytes b = model_bytes(m);

    return parse(&b);
}

/* x -> Relu -> y, with an initializer and a second node */
static struct model small_model(void)
{
    struct model m = model_new(13);

    model_input(&m, "x", T_FLOAT, "Nx3");
    model_initializer(&m, "w", T_FLOAT, "3", "1 2 3");
    model_node(&m, "Relu", "x", "r", "");
    model_node(&m, "Mul", "r w", "y", "");
    model_output(&m, "y");
    return m;
}

START_TEST(test_a_model_tells_its_ports)
{
    struct model m = small_model();
    struct eo_bytes b;
    struct onnx_model *model;
    const struct onnx_port *ports;
    int n;

    model_input(&m, "w", T_FLOAT, "3"); /* has a default: comes last */
    model_input(&m, "k", T_INT64, NULL);
    b = model_bytes(&m);
    ASSERT_OK(onnx_model_parse(b.data, b.size, &model, &err));
    eo_bytes_fini(&b);
    ports = onnx_model_inputs(model, &n);
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(ports[0].name, "x");
    ck_assert_int_eq(ports[0].dtype, EO_FLOAT32);
    ck_assert_int_eq(ports[0].n_dims, 2);
    ck_assert_int_eq(ports[0].dims[0], -1);
    ck_assert_str_eq(ports[0].symbols[0], "N");
    ck_assert_int_eq(ports[0].dims[1], 3);
    ck_assert_ptr_null(ports[0].symbols[1]);
    ck_assert_str_eq(ports[1].name, "k");
    ck_assert_int_eq(ports[1].n_dims, -1);
    ck_assert(!ports[1].has_default);
    ck_assert_str_eq(ports[2].name, "w");
    ck_assert(ports[2].has_default);
    ports = onnx_model_outputs(model, &n);
    ck_assert_int_eq(n, 1);
    ck_assert_str_eq(ports[0].name, "y");
    onnx_model_free(model);
}
END_TEST

START_TEST(test_every_cut_is_refused)
{
    struct model m = small_model();
    struct eo_bytes b = model_bytes(&m);

    for (size_t cut = 0; cut < b.size; cut++) {
        uint8_t *copy = malloc(cut + 1); /* exactly so many bytes: a read past them is seen by the sanitizer */
        struct onnx_model *model = NULL;

        if (cut > 0)
            memcpy(copy, b.data, cut);
        eo_error_clear(&err);
        ASSERT_CODE(onnx_model_parse(copy, cut, &model, &err), EO_E_BAD_FILE);
        free(copy);
    }
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(test_what_is_no_message_is_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } files[] = {{"", 0, "it has no graph"},
                 {"PK\3\4", 4, "wire type that does not exist"},
                 {"\x3b", 1, "wire type that does not exist"},
                 {"\x3a\xff\xff\xff\xff\x0f", 6, "past the end"},
                 {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "cut or too long"},
                 {"\x0a\x01x", 3, "does not have the type that it should"}};

    for (size_t i = 0; i < EO_COUNT_OF(files); i++) {
        struct onnx_model *m = NULL;

        eo_error_clear(&err);
        ASSERT_CODE(onnx_model_parse(files[i].bytes, files[i].size, &m, &err), EO_E_BAD_FILE);
        ASSERT_CONTAINS(err.message, files[i].why);
    }
}
END_TEST

START_TEST(test_sizes_are_bounded)
{
    struct onnx_model *m = NULL;
    struct eo_bytes b = pb_new(), graph = pb_new();
    uint8_t byte = 0;

    ASSERT_CODE(onnx_model_parse(&byte, (size_t)ONNX_MAX_BYTES + 1, &m, &err), EO_E_TOO_LARGE);
    /* 2 bytes of the file, a hundred in memory */
    for (int i = 0; i < 2000000; i++)
        pb_data(&graph, 1, "", 0);
    pb_message(&b, 7, &graph);
    ASSERT_CODE(parse(&b), EO_E_TOO_LARGE);
    ASSERT_CONTAINS(err.message, "bytes of memory");
}
END_TEST

START_TEST(test_more_nodes_than_allowed_are_refused)
{
    struct eo_bytes b = pb_new(), graph = pb_new();

    for (int i = 0; i <= ONNX_MAX_NODES; i++)
        pb_data(&graph, 1, "", 0);
    pb_message(&b, 7, &graph);
    ASSERT_CODE(parse(&b), EO_E_TOO_LARGE);
    ASSERT_CONTAINS(err.message, "more than 131072 nodes");
}
END_TEST

START_TEST(test_depth_is_bounded)
{
    for (int depth = 1; depth < 2000; depth += 333) {
        struct eo_bytes inner = pb_new(), b = pb_new();

        for (int i = 0; i < depth; i++) { /* graph in attribute in node in graph ... */
            struct eo_bytes attr = pb_new(), node = pb_new(), graph = pb_new();

            pb_text(&attr, 1, "body");
            pb_message(&attr, 6, &inner);
            pb_message(&node, 5, &attr);
            pb_message(&graph, 1, &node);
            inner = graph;
        }
        pb_message(&b, 7, &inner);
        ck_assert_int_ne(parse(&b), EO_OK);
        if (depth > 8)
            ASSERT_CONTAINS(err.message, "24 deep");
    }
}
END_TEST

/* ---- tensors ---- */

static int parse_tensor(struct eo_bytes *b, struct host_tensor *out)
{
    int rc;

    eo_error_clear(&err);
    rc = onnx_tensor_parse(b->data, b->size, out, &err);
    eo_bytes_fini(b);
    return rc;
}

/* Numbers in the typed list of a data type: packed, and one by one. */
START_TEST(test_typed_lists_packed_or_not)
{
    static const struct {
        int type, field;
        enum eo_dtype dtype;
        uint8_t expected[8]; /* of the number 5, or of bits 0x3c00 */
        size_t size;
        uint64_t number;
    } rows[] = {{2, 5, EO_UINT8, {5}, 1, 5},
                {3, 5, EO_INT8, {5}, 1, 5},
                {4, 5, EO_UINT16, {5}, 2, 5},
                {5, 5, EO_INT16, {5}, 2, 5},
                {6, 5, EO_INT32, {5}, 4, 5},
                {7, 7, EO_INT64, {5}, 8, 5},
                {9, 5, EO_BOOL, {1}, 1, 1},
                {10, 5, EO_FLOAT16, {0, 0x3c}, 2, 0x3c00},
                {12, 11, EO_UINT32, {5}, 4, 5},
                {13, 11, EO_UINT64, {5}, 8, 5},
                {16, 5, EO_BFLOAT16, {0x80, 0x3f}, 2, 0x3f80}};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++)
        for (int packed = 0; packed < 2; packed++) {
            struct eo_bytes b = pb_new(), list = pb_new();
            struct host_tensor t;

            pb_varint(&b, 1, 2);
            pb_varint(&b, 2, (uint64_t)rows[i].type);
            for (int e = 0; e < 2; e++) {
                if (packed) {
                    struct eo_bytes one = pb_new();

                    pb_varint(&one, 1, rows[i].number);
                    eo_bytes_append(&list, one.data + 1, one.size - 1); /* without the tag */
                    eo_bytes_fini(&one);
                } else {
                    pb_varint(&b, rows[i].field, rows[i].number);
                }
            }
            if (packed)
                pb_data(&b, rows[i].field, list.data, list.size);
            eo_bytes_fini(&list);
            ASSERT_OK(parse_tensor(&b, &t));
            ck_assert_int_eq(t.desc.dtype, rows[i].dtype);
            ck_assert_int_eq(t.desc.n_dims, 1);
            ck_assert_int_eq(t.desc.shape[0], 2);
            ck_assert_mem_eq(t.data, rows[i].expected, rows[i].size);
            ck_assert_mem_eq((char *)t.data + rows[i].size, rows[i].expected, rows[i].size);
            host_tensor_fini(&t);
        }
}
END_TEST

START_TEST(test_floats_and_raw_bytes)
{
    struct eo_bytes b = pb_new();
    struct host_tensor t;
    double d = 2.5;

    pb_varint(&b, 2, T_FLOAT); /* 0-dim */
    pb_float(&b, 4, 1.5f);
    ASSERT_OK(parse_tensor(&b, &t));
    ck_assert_int_eq(t.desc.n_dims, 0);
    ck_assert(*(float *)t.data > 1.4f && *(float *)t.data < 1.6f);
    host_tensor_fini(&t);

    b = pb_new();
    pb_varint(&b, 1, 1);
    pb_varint(&b, 2, T_DOUBLE);
    pb_data(&b, 9, &d, sizeof(d));
    ASSERT_OK(parse_tensor(&b, &t));
    ck_assert_mem_eq(t.data, &d, sizeof(d));
    host_tensor_fini(&t);

    b = tensor_bytes("empty", T_INT64, "0x3", "");
    ASSERT_OK(parse_tensor(&b, &t));
    ck_assert_int_eq(eo_tensor_desc_count(&t.desc), 0);
    host_tensor_fini(&t);
}
END_TEST

START_TEST(test_wrong_tensors_are_refused)
{
    static const struct {
        int type, field; /* field: 0 none, 9 raw bytes, else a number in that list */
        uint64_t number;
        const char *shape;
        int code;
        const char *why;
    } rows[] = {{0, 0, 0, "2", EO_E_UNSUPPORTED, "element type 0"},
                {99, 0, 0, "2", EO_E_UNSUPPORTED, "element type 99"},
                {8, 0, 0, "2", EO_E_UNSUPPORTED, "STRING"},
                {14, 0, 0, "2", EO_E_UNSUPPORTED, "COMPLEX64"},
                {1, 0, 0, "2", EO_E_BAD_FILE, "0 numbers"},
                {7, 7, 1, "2", EO_E_BAD_FILE, "1 numbers"},
                {7, 5, 1, "1", EO_E_BAD_FILE, "0 numbers"},
                {1, 9, 0, "2", EO_E_BAD_FILE, "3 bytes"},
                {9, 9, 2, "3", EO_E_BAD_FILE, "the byte 2"},
                {2, 5, 256, "1", EO_E_BAD_FILE, "no uint8"},
                {9, 5, 2, "1", EO_E_BAD_FILE, "no bool"},
                {10, 5, 65536, "1", EO_E_BAD_FILE, "no float16"},
                {12, 11, UINT64_C(1) << 32, "1", EO_E_BAD_FILE, "no uint32"},
                {1, 0, 0, "-1", EO_E_BAD_FILE, "negative size"},
                {1, 0, 0, "9223372036854775807x2", EO_E_TOO_LARGE, ""},
                {1, 0, 0, "1x1x1x1x1x1x1x1x1", EO_E_TOO_LARGE, "9 dimensions"}};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        struct eo_bytes b = tensor_bytes("t", T_INT64, rows[i].shape, "");
        struct host_tensor t;
        uint8_t raw[3] = {1, 1, (uint8_t)rows[i].number};

        pb_varint(&b, 2, (uint64_t)rows[i].type); /* the last one counts */
        if (rows[i].field == 9)
            pb_data(&b, 9, raw, sizeof(raw));
        else if (rows[i].field != 0)
            pb_varint(&b, rows[i].field, rows[i].number);
        ASSERT_CODE(parse_tensor(&b, &t), rows[i].code);
        ASSERT_CONTAINS(err.message, rows[i].why);
    }
}
END_TEST

START_TEST(test_data_elsewhere_is_refused)
{
    struct eo_bytes b = tensor_bytes("t", T_FLOAT, "1", "1"), segment = pb_new();
    struct host_tensor t;

    pb_varint(&b, 14, 1);
    ASSERT_CODE(parse_tensor(&b, &t), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "in another file");
    b = tensor_bytes("t", T_FLOAT, "1", "1");
    pb_varint(&segment, 1, 0);
    pb_message(&b, 3, &segment);
    ASSERT_CODE(parse_tensor(&b, &t), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "segment");
}
END_TEST

/* ---- models that are messages, but wrong ---- */

START_TEST(test_names_have_one_maker_before_their_users)
{
    struct model m = model_new(13);

    model_input(&m, "x", T_FLOAT, "2");
    model_node(&m, "Relu", "z", "y", "");
    model_node(&m, "Relu", "y", "z", "");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE); /* a cycle */
    ASSERT_CONTAINS(err.message, "\"z\", which nothing before it makes");
    ck_assert_str_eq(err.op, "Relu");
    ASSERT_CONTAINS(err.node, "0 \"y\"");

    m = model_new(13);
    model_input(&m, "x", T_FLOAT, "2");
    model_node(&m, "Relu", "x", "x", "");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "\"x\" is made twice");

    m = small_model();
    model_initializer(&m, "w", T_FLOAT, "1", "1");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "\"w\" is made twice");

    m = small_model();
    model_output(&m, "nothing");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "output \"nothing\" of the graph is made by nothing");

    m = small_model();
    model_node(&m, "Relu", "x", "bad\001name", "");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "control character");
}
END_TEST

START_TEST(test_long_names_are_refused)
{
    char name[ONNX_MAX_NAME + 2];
    struct model m = small_model();

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    model_input(&m, name, T_FLOAT, "1");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "1025 bytes");
}
END_TEST

START_TEST(test_unknown_operators_and_sets_are_named)
{
    struct model m = small_model();

    model_node(&m, "Reluu", "x", "z", "");
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "\"Reluu\" of set ai.onnx");
    ASSERT_CONTAINS(err.hint, "Relu");
    ASSERT_CONTAINS(err.node, "2 \"z\"");

    m = small_model();
    model_node_of(&m, "com.example", "Thing", "x", "z", "");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "\"com.example\" is used, but not imported");

    m = model_new(18);
    model_input(&m, "x", T_FLOAT, "2");
    model_node(&m, "Relu", "x", "y", "");
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "opset 18");
    ASSERT_CONTAINS(err.hint, "opset 17");

    m = model_new(5);
    model_input(&m, "x", T_FLOAT, "2");
    model_node(&m, "Relu", "x", "y", "");
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "\"Relu\" is not supported in opset 5");
}
END_TEST

START_TEST(test_attributes_are_told_apart)
{
    struct model m = small_model();
    struct eo_bytes attr = pb_new(), node = pb_new();

    model_node(&m, "Softmax", "x", "z", "axis=1 axis=1");
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "\"axis\" is there twice");

    m = small_model();
    pb_text(&attr, 1, "value");
    pb_varint(&attr, 20, 11); /* a sparse tensor */
    pb_text(&node, 2, "z");
    pb_text(&node, 4, "Constant");
    pb_message(&node, 5, &attr);
    pb_message(&m.graph, 1, &node);
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "kind 11");

    m = small_model();
    attr = pb_new();
    node = pb_new();
    pb_text(&attr, 1, "mode");
    pb_data(&attr, 4, "a\0b", 3);
    pb_varint(&attr, 20, 3);
    pb_text(&node, 4, "Pad");
    pb_message(&node, 5, &attr);
    pb_message(&m.graph, 1, &node);
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "zero byte");
}
END_TEST

START_TEST(test_inputs_that_are_no_tensors_are_refused)
{
    static const struct {
        int field;
        const char *what;
    } kinds[] = {{4, "a sequence"}, {5, "a map"}, {8, "a sparse tensor"}, {9, "an optional value"}};

    for (size_t i = 0; i < EO_COUNT_OF(kinds); i++) {
        struct model m = small_model();
        struct eo_bytes type = pb_new(), value = pb_new();

        pb_data(&type, kinds[i].field, "", 0);
        pb_text(&value, 1, "s");
        pb_message(&value, 2, &type);
        pb_message(&m.graph, 11, &value);
        ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
        ASSERT_CONTAINS(err.message, kinds[i].what);
        ASSERT_CONTAINS(err.contexts[0], "\"s\"");
    }
    struct model m = small_model();

    model_input(&m, "s", T_STRING, "2");
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "STRING");
    m = small_model();
    model_input(&m, "s", T_FLOAT, "1x1x1x1x1x1x1x1x1");
    ASSERT_CODE(parse_model(&m), EO_E_TOO_LARGE);
    m = small_model();
    model_input(&m, "s", 0, NULL);
    ASSERT_CODE(parse_model(&m), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "\"s\" of the graph has no type");
}
END_TEST

START_TEST(test_sparse_initializers_are_refused)
{
    struct model m = small_model();

    pb_data(&m.graph, 15, "", 0);
    ASSERT_CODE(parse_model(&m), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "sparse initializers");
}
END_TEST

EO_SUITE("ONNX files", test_a_model_tells_its_ports, test_every_cut_is_refused, test_what_is_no_message_is_refused,
         test_sizes_are_bounded, test_more_nodes_than_allowed_are_refused, test_depth_is_bounded,
         test_typed_lists_packed_or_not, test_floats_and_raw_bytes, test_wrong_tensors_are_refused,
         test_data_elsewhere_is_refused, test_names_have_one_maker_before_their_users, test_long_names_are_refused,
         test_unknown_operators_and_sets_are_named, test_attributes_are_told_apart,
         test_inputs_that_are_no_tensors_are_refused, test_sparse_initializers_are_refused)
