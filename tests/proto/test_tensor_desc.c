#include "proto/base/bytes.h"
#include "proto/codec.h"
#include "proto/op_schema.h"
#include "proto/tensor_desc.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static struct eo_tensor_desc desc(enum eo_dtype dtype, int n_dims, const int64_t *shape)
{
    struct eo_tensor_desc d;
    struct eo_error err;

    ASSERT_OK(eo_tensor_desc_init(&d, dtype, shape, n_dims, &err));
    return d;
}
#define DESC(dtype, ...)                                                                                               \
    desc((dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

START_TEST(test_init)
{
    struct eo_tensor_desc d = DESC(EO_FLOAT32, 32, 784);
    char text[64];

    ck_assert_int_eq(eo_tensor_desc_count(&d), 32 * 784);
    ck_assert_uint_eq(eo_tensor_desc_bytes(&d), 32 * 784 * 4);
    ck_assert_str_eq(eo_tensor_desc_text(&d, text, sizeof(text)), "float32 [32, 784]");
    for (int i = 2; i < EO_MAX_DIMS; i++) {
        ck_assert_int_eq(d.shape[i], 0);
    }
    d = desc(EO_BOOL, 0, NULL);
    ck_assert_int_eq(eo_tensor_desc_count(&d), 1);
    ck_assert_str_eq(eo_tensor_desc_text(&d, text, sizeof(text)), "bool []");
    d = DESC(EO_INT64, 3, 0, 5);
    ck_assert_int_eq(eo_tensor_desc_count(&d), 0);
    ck_assert_uint_eq(eo_tensor_desc_bytes(&d), 0);
    eo_tensor_desc_text(&d, text, 8);
    ck_assert_uint_lt(strlen(text), 8);
}
END_TEST

START_TEST(test_hostile_sizes)
{
    struct eo_tensor_desc d = DESC(EO_INT8, 7), before = d;
    struct eo_error err;
    int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

    ASSERT_CODE(eo_tensor_desc_init(&d, EO_FLOAT32, shape, 9, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_FLOAT32, shape, -1, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_tensor_desc_init(&d, (enum eo_dtype)14, shape, 1, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_DTYPE_NONE, shape, 1, &err), EO_E_BAD_PARAMS);
    shape[1] = -3;
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_FLOAT32, shape, 2, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "[1, -3]");
    shape[1] = INT64_MIN;
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_FLOAT32, shape, 2, &err), EO_E_BAD_PARAMS);
    shape[0] = INT64_C(1) << 32;
    shape[1] = INT64_C(1) << 31; /* 2^63 elements of one byte */
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_INT8, shape, 2, &err), EO_E_TOO_LARGE);
    shape[1] = (INT64_C(1) << 31) - 1;
    ASSERT_OK(eo_tensor_desc_init(&d, EO_INT8, shape, 2, &err));
    ASSERT_CODE(eo_tensor_desc_init(&before, EO_INT16, shape, 2, &err), EO_E_TOO_LARGE); /* the bytes overflow */
    ck_assert_int_eq(before.dtype, EO_INT8);
    ck_assert_int_eq(before.shape[0], 7);
    shape[2] = 0; /* an empty tensor whose strides would overflow */
    shape[1] = INT64_MAX;
    ASSERT_CODE(eo_tensor_desc_init(&d, EO_INT8, shape, 3, &err), EO_E_TOO_LARGE);
    ck_assert_int_eq(eo_tensor_desc_init(&d, EO_INT8, shape, 3, NULL), EO_E_TOO_LARGE);
    d.n_dims = 200;
    ASSERT_CODE(eo_tensor_desc_check(&d, &err), EO_E_BAD_PARAMS);
}
END_TEST

START_TEST(test_equal)
{
    struct eo_tensor_desc a = DESC(EO_FLOAT32, 2, 3), b = DESC(EO_FLOAT64, 2, 3), c = DESC(EO_FLOAT32, 3, 2),
                          e = DESC(EO_FLOAT32, 2, 3, 1), scalar = desc(EO_FLOAT32, 0, NULL);

    ck_assert(eo_tensor_desc_equal(&a, &a));
    ck_assert(!eo_tensor_desc_equal(&a, &b));
    ck_assert(eo_tensor_desc_same_shape(&a, &b));
    ck_assert(!eo_tensor_desc_same_shape(&a, &c));
    ck_assert(!eo_tensor_desc_same_shape(&a, &e));
    ck_assert(!eo_tensor_desc_same_shape(&a, &scalar));
    ck_assert(eo_tensor_desc_same_shape(&scalar, &scalar));
}
END_TEST

/* ---- wire form ---- */

START_TEST(test_pack)
{
    struct eo_tensor_desc d = DESC(EO_BFLOAT16, 0, INT64_C(1) << 40), back;
    struct eo_bytes b;
    struct eo_doc doc;
    struct eo_error err;

    eo_bytes_init(&b, 4096);
    eo_tensor_desc_pack(&b, &d);
    ck_assert(!b.failed);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    ASSERT_OK(eo_tensor_desc_unpack(doc.root, &back, &err));
    ck_assert(eo_tensor_desc_equal(&d, &back));
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}
END_TEST

/* One descriptor map with a dtype and a shape written by the caller's packers. */
static int unpack(void (*pack)(struct eo_bytes *b), struct eo_error *err)
{
    struct eo_tensor_desc d;
    struct eo_bytes b;
    struct eo_doc doc;
    struct eo_error ignored;
    int rc;

    eo_bytes_init(&b, 4096);
    pack(&b);
    ck_assert(!b.failed);
    ck_assert_int_eq(eo_doc_parse(&doc, b.data, b.size, &ignored), EO_OK);
    rc = eo_tensor_desc_unpack(doc.root, &d, err);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
    return rc;
}

static void pack_unknown_dtype(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "complex64\n");
    eo_pack_str(b, "shape");
    eo_pack_array(b, 0);
}
static void pack_dtype_number(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_i64(b, "dtype", 1);
    eo_pack_str(b, "shape");
    eo_pack_array(b, 0);
}
static void pack_dtype_with_nul(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_str(b, "dtype");
    eo_pack_str_n(b, "float32\0x", 9);
    eo_pack_str(b, "shape");
    eo_pack_array(b, 0);
}
static void pack_no_shape(struct eo_bytes *b)
{
    eo_pack_map(b, 1);
    eo_pack_kv_str(b, "dtype", "bool");
}
static void pack_nine_dims(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "bool");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 9);
}
static void pack_negative(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "bool");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[1]){-1}, 1);
}
static void pack_unsigned_dim(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "bool");
    eo_pack_str(b, "shape");
    eo_pack_array(b, 1);
    eo_pack_u64(b, UINT64_MAX);
}
static void pack_float_dim(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "bool");
    eo_pack_str(b, "shape");
    eo_pack_array(b, 1);
    eo_pack_f64(b, 2);
}
static void pack_huge(struct eo_bytes *b)
{
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "dtype", "float64");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[2]){INT64_C(1) << 40, INT64_C(1) << 40}, 2);
}
static void pack_not_a_map(struct eo_bytes *b)
{
    eo_pack_i64(b, 7);
}

START_TEST(test_hostile_wire)
{
    struct eo_error err;

    ASSERT_CODE(unpack(pack_unknown_dtype, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "complex64");
    ck_assert(strchr(err.message, '\n') == NULL);
    ASSERT_CODE(unpack(pack_dtype_number, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_dtype_with_nul, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_no_shape, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "shape");
    ASSERT_CODE(unpack(pack_nine_dims, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_negative, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_unsigned_dim, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_float_dim, &err), EO_E_BAD_PARAMS);
    ASSERT_CODE(unpack(pack_huge, &err), EO_E_TOO_LARGE);
    ASSERT_CODE(unpack(pack_not_a_map, &err), EO_E_BAD_PARAMS);
}
END_TEST

/* ---- broadcasting: NumPy's own cases (tests/vectors/broadcast-shapes.json) ---- */

static json_t *vectors;

static void load_vectors(void)
{
    const char *root = getenv("EO_SOURCE_DIR");
    char path[1024];
    json_error_t error;

    snprintf(path, sizeof(path), "%s/tests/vectors/broadcast-shapes.json", root == NULL ? "." : root);
    vectors = json_load_file(path, 0, &error);
    ck_assert_msg(vectors != NULL, "%s: %s", path, error.text);
}

static struct eo_tensor_desc json_shape(const json_t *list)
{
    struct eo_tensor_desc d = {.dtype = EO_FLOAT32, .n_dims = (uint8_t)json_array_size(list)};

    ck_assert_uint_le(json_array_size(list), EO_MAX_DIMS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        d.shape[i] = json_integer_value(json_array_get(list, i));
    }
    return d;
}

/* The shapes of one case; returns their number. */
static int json_shapes(const json_t *list, struct eo_tensor_desc *descs, const struct eo_tensor_desc **in)
{
    int n = (int)json_array_size(list);

    for (int i = 0; i < n; i++) {
        descs[i] = json_shape(json_array_get(list, (size_t)i));
        in[i] = &descs[i];
    }
    return n;
}

enum { MAX_SHAPES = 64 };

START_TEST(test_broadcast_vectors)
{
    struct eo_tensor_desc descs[MAX_SHAPES], out = {.dtype = EO_FLOAT32}, wanted;
    const struct eo_tensor_desc *in[MAX_SHAPES];
    const json_t *cases;
    struct eo_error err;
    int n, n_dims;

    load_vectors();
    cases = json_object_get(vectors, "ok");
    ck_assert_uint_eq(json_array_size(cases), 70);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *shapes = json_object_get(c, "in");

        ck_assert_uint_le(json_array_size(shapes), MAX_SHAPES);
        n = json_shapes(shapes, descs, in);
        ASSERT_OK(eo_broadcast_shapes(in, n, out.shape, &n_dims, "test", &err));
        out.n_dims = (uint8_t)n_dims;
        wanted = json_shape(json_object_get(c, "out"));
        ck_assert_msg(eo_tensor_desc_same_shape(&out, &wanted), "case %zu", i);
    }
    cases = json_object_get(vectors, "error");
    ck_assert_uint_eq(json_array_size(cases), 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        n = json_shapes(json_object_get(json_array_get(cases, i), "in"), descs, in);
        ASSERT_CODE(eo_broadcast_shapes(in, n, out.shape, &n_dims, "test", &err), EO_E_SHAPE_MISMATCH);
        ck_assert_str_eq(err.op, "test");
        ck_assert_int_gt(err.n_inputs, 0);
    }
    json_decref(vectors);
}
END_TEST

static int expand(const struct eo_tensor_desc *from, const struct eo_tensor_desc *to, struct eo_tensor_desc *out,
                  struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_EXPAND);
    struct eo_attrs attrs;
    int rc;

    eo_attrs_default(op, &attrs);
    rc = eo_attrs_set_ints(op, &attrs, "shape", to->shape, to->n_dims, err);
    return rc != EO_OK ? rc : eo_op_infer(op, &from, 1, &attrs, out, err);
}

START_TEST(test_broadcast_to_vectors)
{
    struct eo_tensor_desc from, to, out;
    const json_t *cases;
    struct eo_error err;

    load_vectors();
    cases = json_object_get(vectors, "broadcast_to_error");
    ck_assert_uint_eq(json_array_size(cases), 11);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        int rc;

        from = json_shape(json_object_get(c, "in"));
        to = json_shape(json_object_get(c, "to"));
        rc = expand(&from, &to, &out, &err);
        ck_assert_msg(rc == EO_E_SHAPE_MISMATCH || rc == EO_E_BAD_ATTRIBUTE, "case %zu: %d", i, rc);
    }
    cases = json_object_get(vectors, "broadcast_to_ok");
    ck_assert_uint_eq(json_array_size(cases), 15);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);

        from = json_shape(json_object_get(c, "in"));
        to = json_shape(json_object_get(c, "to"));
        ASSERT_OK(expand(&from, &to, &out, &err));
        ck_assert(eo_tensor_desc_same_shape(&out, &to));
    }
    json_decref(vectors);
}
END_TEST

START_TEST(test_broadcast_clash_is_marked)
{
    struct eo_tensor_desc a = DESC(EO_FLOAT32, 2, 1, 4), b = DESC(EO_FLOAT32, 3, 5), c = DESC(EO_FLOAT32, 1);
    const struct eo_tensor_desc *in[] = {&a, &c, &b};
    int64_t shape[EO_MAX_DIMS] = {99};
    struct eo_error err;
    int n_dims = 77;

    ASSERT_CODE(eo_broadcast_shapes(in, 3, shape, &n_dims, "add", &err), EO_E_SHAPE_MISMATCH);
    ASSERT_CONTAINS(err.message, "4 and 5");
    ck_assert_int_eq(err.n_inputs, 3);
    ck_assert_int_eq(err.inputs[0].marked_dim, 2);
    ck_assert_int_eq(err.inputs[1].marked_dim, -1);
    ck_assert_int_eq(err.inputs[2].marked_dim, 1);
    ck_assert_int_eq(n_dims, 77); /* out arguments are untouched */
    ck_assert_int_eq(shape[0], 99);
    ASSERT_OK(eo_broadcast_shapes(in, 0, shape, &n_dims, "add", &err));
    ck_assert_int_eq(n_dims, 0);
}
END_TEST

EO_SUITE("tensor_desc", test_init, test_hostile_sizes, test_equal, test_pack, test_hostile_wire, test_broadcast_vectors,
         test_broadcast_to_vectors, test_broadcast_clash_is_marked)
