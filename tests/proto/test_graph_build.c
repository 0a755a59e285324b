#include "proto/graph_build.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static struct eo_graph *g;
static struct eo_builder b;
static struct eo_error err;

static void start(void)
{
    g = eo_graph_new();
    ck_assert_ptr_nonnull(g);
    eo_error_clear(&err);
    eo_build_init(&b, g, &err);
}

static void end(void)
{
    eo_graph_free(g);
}

static eo_value input(const char *name, enum eo_dtype dtype, int n_dims, const int64_t *shape)
{
    struct eo_tensor_desc d;
    eo_value v;

    ASSERT_OK(eo_tensor_desc_init(&d, dtype, shape, n_dims, &err));
    ASSERT_OK(eo_graph_input(g, name, &d, &v, &err));
    return v;
}
#define INPUT(name, dtype, ...)                                                                                        \
    input((name), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

#define ASSERT_DESC(v, wanted)                                                                                         \
    do {                                                                                                               \
        char desc_[192];                                                                                               \
        char report_[2048];                                                                                            \
                                                                                                                       \
        eo_error_text(&err, false, report_, sizeof(report_));                                                          \
        ck_assert_msg((v) != EO_NO_VALUE, "%s", report_);                                                              \
        ck_assert_str_eq(eo_tensor_desc_text(eo_build_desc(&b, (v)), desc_, sizeof(desc_)), (wanted));                 \
    } while (0)

static const struct eo_graph_node *node_of(eo_value v)
{
    return &g->nodes[g->values[v].node];
}

START_TEST(test_every_spelling)
{
    eo_value x, y, c, v;

    start();
    x = INPUT("x", EO_FLOAT32, 2, 3);
    y = INPUT("y", EO_FLOAT32, 3, 4);
    c = INPUT("c", EO_BOOL, 2, 1);
    ASSERT_DESC(eo_build_unary(&b, EO_OP_EXP, x), "float32 [2, 3]");
    ASSERT_DESC(eo_build_binary(&b, EO_OP_LESS, x, x), "bool [2, 3]");
    ASSERT_DESC(eo_build_where(&b, c, x, x), "float32 [2, 3]");
    ASSERT_DESC(eo_build_matmul(&b, x, y, false, false), "float32 [2, 4]");
    v = eo_build_matmul(&b, y, x, true, true);
    ASSERT_DESC(v, "float32 [4, 2]");
    ck_assert_int_eq(eo_attr_int(node_of(v)->op, node_of(v)->attrs, "transpose_b"), 1);
    ASSERT_DESC(eo_build_reduce(&b, EO_OP_SUM, x, (int64_t[]){1}, 1, true), "float32 [2, 1]");
    ASSERT_DESC(eo_build_reduce(&b, EO_OP_MEAN, x, NULL, 0, false), "float32 []");
    ASSERT_DESC(eo_build_reshape(&b, x, (int64_t[]){-1}, 1), "float32 [6]");
    ASSERT_DESC(eo_build_transpose(&b, x, NULL, 0), "float32 [3, 2]");
    ASSERT_DESC(eo_build_transpose(&b, x, (int64_t[]){1, 0}, 2), "float32 [3, 2]");
    ASSERT_DESC(eo_build_expand(&b, x, (int64_t[]){5, 2, 3}, 3), "float32 [5, 2, 3]");
    ASSERT_DESC(eo_build_cast(&b, x, EO_INT8), "int8 [2, 3]");
    ck_assert_uint_eq(eo_build_cast(&b, x, EO_FLOAT32), x); /* nothing to do */
    v = eo_build_full_like(&b, c, 1);
    ASSERT_DESC(v, "bool [2, 1]");
    ck_assert_double_eq(eo_attr_float(node_of(v)->op, node_of(v)->attrs, "value"), 1);
    ASSERT_DESC(eo_build_scalar_like(&b, x, 0.5), "float32 []");
    ck_assert_int_eq(b.status, EO_OK);
    end();
}
END_TEST

/* The bytes of a scalar in each dtype. */
START_TEST(test_scalars)
{
    struct {
        enum eo_dtype dtype;
        double v;
        size_t size;
        uint8_t bytes[8];
    } cases[] = {
        {EO_FLOAT32, 1, 4, {0, 0, 0x80, 0x3f}},
        {EO_FLOAT64, -2, 8, {0, 0, 0, 0, 0, 0, 0, 0xc0}},
        {EO_FLOAT16, 1, 2, {0, 0x3c}},
        {EO_BFLOAT16, 1, 2, {0x80, 0x3f}},
        {EO_FLOAT16, 1e9, 2, {0, 0x7c}}, /* Inf, as rounding says */
        {EO_INT8, -1, 1, {0xff}},
        {EO_INT16, -2, 2, {0xfe, 0xff}},
        {EO_INT32, 0x01020304, 4, {4, 3, 2, 1}},
        {EO_INT64, -0x1p63, 8, {0, 0, 0, 0, 0, 0, 0, 0x80}},
        {EO_UINT8, 255, 1, {0xff}},
        {EO_UINT16, 258, 2, {2, 1}},
        {EO_UINT32, 4294967295.0, 4, {0xff, 0xff, 0xff, 0xff}},
        {EO_UINT64, 0x1p63, 8, {0, 0, 0, 0, 0, 0, 0, 0x80}},
        {EO_BOOL, 1, 1, {1}},
    };

    start();
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        eo_value v = eo_build_scalar(&b, cases[i].dtype, cases[i].v);

        ck_assert_msg(v != EO_NO_VALUE, "case %zu", i);
        ck_assert_uint_eq(eo_tensor_desc_bytes(eo_build_desc(&b, v)), cases[i].size);
        ck_assert_msg(memcmp(node_of(v)->constant, cases[i].bytes, cases[i].size) == 0, "case %zu", i);
    }
    end();
}
END_TEST

START_TEST(test_scalars_refuse)
{
    struct {
        enum eo_dtype dtype;
        double v;
        int code;
    } cases[] = {
        {EO_INT8, 200, EO_E_BAD_VALUE},      {EO_INT32, 0.5, EO_E_BAD_VALUE}, {EO_BOOL, -1, EO_E_BAD_VALUE},
        {EO_UINT64, -1, EO_E_BAD_VALUE},     {EO_INT64, NAN, EO_E_BAD_VALUE}, {EO_INT64, 0x1p63, EO_E_BAD_VALUE},
        {EO_DTYPE_NONE, 0, EO_E_BAD_PARAMS},
    };

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        start();
        ck_assert_uint_eq(eo_build_scalar(&b, cases[i].dtype, cases[i].v), EO_NO_VALUE);
        ck_assert_int_eq(b.status, cases[i].code);
        ck_assert_int_eq(err.code, cases[i].code);
        ck_assert_uint_eq(g->n_nodes, 0);
        end();
    }
}
END_TEST

/* The first error sticks, whatever is called afterwards. */
START_TEST(test_first_error_sticks)
{
    eo_value x, y, bad;
    uint32_t n;

    start();
    x = INPUT("x", EO_FLOAT32, 2, 3);
    y = INPUT("y", EO_FLOAT32, 4, 5);
    n = g->n_nodes;
    bad = eo_build_binary(&b, EO_OP_ADD, x, y);
    ck_assert_uint_eq(bad, EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_SHAPE_MISMATCH);
    ck_assert_uint_eq(eo_build_unary(&b, EO_OP_EXP, bad), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_unary(&b, EO_OP_EXP, x), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_scalar(&b, EO_FLOAT32, 1), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_scalar_like(&b, bad, 1), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_full_like(&b, bad, 1), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_reduce(&b, EO_OP_SUM, bad, (int64_t[]){99}, 1, true), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_reshape(&b, bad, NULL, 0), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_transpose(&b, bad, NULL, 0), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_expand(&b, bad, NULL, 0), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_cast(&b, bad, EO_FLOAT32), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_matmul(&b, bad, bad, true, false), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_where(&b, bad, x, y), EO_NO_VALUE);
    ck_assert_uint_eq(eo_build_sum_to(&b, bad, x), EO_NO_VALUE);
    ck_assert_int_eq(eo_build_desc(&b, bad)->dtype, EO_DTYPE_NONE);
    ck_assert_int_eq(b.status, EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.op, "add"); /* still the first report */
    ck_assert_uint_eq(g->n_nodes, n);
    end();
}
END_TEST

START_TEST(test_attribute_errors_stick)
{
    eo_value x;

    start();
    x = INPUT("x", EO_FLOAT32, 2, 3);
    ck_assert_uint_eq(eo_build_reduce(&b, EO_OP_SUM, x, (int64_t[]){8}, 1, true), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_BAD_ATTRIBUTE);
    end();
    start();
    x = INPUT("x", EO_FLOAT32, 2, 3);
    ck_assert_uint_eq(eo_build_reduce(&b, EO_OP_ADD, x, NULL, 0, true), EO_NO_VALUE); /* has no axes */
    ck_assert_int_eq(b.status, EO_E_BAD_ATTRIBUTE);
    end();
    start();
    x = INPUT("x", EO_FLOAT32, 2, 3);
    ck_assert_uint_eq(eo_build_reduce(&b, EO_OP_COUNT, x, NULL, 0, true), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_UNKNOWN_OP);
    end();
    start();
    eo_build_init(&b, g, NULL); /* no report wanted */
    x = INPUT("x", EO_INT32, 2, 3);
    ck_assert_uint_eq(eo_build_full_like(&b, x, 0.5), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_BAD_ATTRIBUTE);
    end();
}
END_TEST

START_TEST(test_sum_to)
{
    eo_value gradient, one, row, column, same, scalar, outer, none, one_row;

    start();
    gradient = INPUT("g", EO_FLOAT32, 4, 2, 3);
    one = INPUT("one", EO_FLOAT32, 1, 1, 1);
    row = INPUT("row", EO_FLOAT32, 3);
    column = INPUT("column", EO_FLOAT32, 2, 1);
    same = INPUT("same", EO_FLOAT32, 4, 2, 3);
    scalar = input("scalar", EO_FLOAT32, 0, NULL);
    outer = INPUT("outer", EO_FLOAT32, 4, 1, 3);
    none = INPUT("none", EO_FLOAT32, 0, 2);
    one_row = INPUT("one_row", EO_FLOAT32, 1, 2);
    ASSERT_DESC(eo_build_sum_to(&b, gradient, one), "float32 [1, 1, 1]");
    ASSERT_DESC(eo_build_sum_to(&b, gradient, row), "float32 [3]");
    ASSERT_DESC(eo_build_sum_to(&b, gradient, column), "float32 [2, 1]");
    ck_assert_uint_eq(eo_build_sum_to(&b, gradient, same), gradient);
    ASSERT_DESC(eo_build_sum_to(&b, gradient, scalar), "float32 []");
    ASSERT_DESC(eo_build_sum_to(&b, gradient, outer), "float32 [4, 1, 3]");
    ASSERT_DESC(eo_build_sum_to(&b, none, one_row), "float32 [1, 2]"); /* a sum of nothing */
    end();
}
END_TEST

START_TEST(test_sum_to_refuses)
{
    eo_value gradient, like;

    start();
    gradient = INPUT("g", EO_FLOAT32, 4, 2);
    like = INPUT("like", EO_FLOAT32, 3);
    ck_assert_uint_eq(eo_build_sum_to(&b, gradient, like), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_SHAPE_MISMATCH);
    end();
    start();
    gradient = INPUT("g", EO_FLOAT32, 4);
    like = INPUT("like", EO_FLOAT32, 4, 4);
    ck_assert_uint_eq(eo_build_sum_to(&b, gradient, like), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_SHAPE_MISMATCH);
    ASSERT_CONTAINS(err.message, "float32 [4] cannot be summed to the shape of float32 [4, 4]");
    end();
}
END_TEST

START_TEST(test_sum_to_nothing)
{
    eo_value x;

    start();
    x = INPUT("x", EO_FLOAT32, 4);
    ck_assert_uint_eq(eo_build_sum_to(&b, x, EO_NO_VALUE), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_BAD_GRAPH);
    end();
    start();
    x = INPUT("x", EO_FLOAT32, 4);
    ck_assert_uint_eq(eo_build_sum_to(&b, EO_NO_VALUE, x), EO_NO_VALUE);
    ck_assert_int_eq(b.status, EO_E_BAD_GRAPH);
    end();
}
END_TEST

EO_SUITE("graph_build", test_every_spelling, test_scalars, test_scalars_refuse, test_first_error_sticks,
         test_attribute_errors_stick, test_sum_to, test_sum_to_refuses, test_sum_to_nothing)
