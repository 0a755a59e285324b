#include "proto/graph.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_tensor_desc desc_of(enum eo_dtype dtype, int64_t rows, int64_t columns)
{
    struct eo_tensor_desc d;

    ck_assert_int_eq(eo_tensor_desc_init(&d, dtype, (int64_t[]){rows, columns}, 2, NULL), EO_OK);
    return d;
}

static struct eo_graph *graph_or_fail(void)
{
    struct eo_graph *g = eo_graph_new();

    ck_assert_ptr_nonnull(g);
    return g;
}

START_TEST(test_build)
{
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc x_desc = desc_of(EO_FLOAT32, 32, 64), w_desc = desc_of(EO_FLOAT32, 64, 10);
    eo_value x, w, y, in[2];
    const struct eo_graph_node *node;
    struct eo_error err;

    ASSERT_OK(eo_graph_input(g, "x", &x_desc, &x, &err));
    ASSERT_OK(eo_graph_state(g, "w", &w_desc, &w, &err));
    in[0] = x;
    in[1] = w;
    g->label = "hidden1";
    ASSERT_OK(eo_graph_add(g, EO_OP_MATMUL, in, 2, NULL, &y, &err));
    g->label = NULL;
    ASSERT_OK(eo_graph_output(g, "logits", y, &err));

    ck_assert_uint_eq(g->n_nodes, 3);
    ck_assert_uint_eq(g->n_values, 3);
    ck_assert_int_eq(eo_graph_desc(g, y)->shape[0], 32);
    ck_assert_int_eq(eo_graph_desc(g, y)->shape[1], 10);
    node = &g->nodes[g->values[y].node];
    ck_assert_int_eq(node->kind, EO_NODE_OP);
    ck_assert_str_eq(node->op->name, "matmul");
    ck_assert_str_eq(node->name, "hidden1");
    ck_assert_uint_eq(node->n_inputs, 2);
    ck_assert(node->inputs[0] == x && node->inputs[1] == w);
    ck_assert_uint_eq(node->first_output, y);
    ck_assert_ptr_nonnull(node->attrs);
    ck_assert_int_eq(eo_attr_int(node->op, node->attrs, "transpose_a"), 0);
    ck_assert_uint_eq(eo_graph_find(g, "x"), x);
    ck_assert_uint_eq(eo_graph_find(g, "w"), w);
    ck_assert_uint_eq(eo_graph_find(g, "logits"), y);
    ck_assert_uint_eq(eo_graph_find(g, "hidden1"), EO_NO_VALUE); /* labels are no names */
    ck_assert_uint_eq(eo_graph_find(g, ""), EO_NO_VALUE);
    eo_graph_free(g);
    eo_graph_free(NULL);
}
END_TEST

START_TEST(test_several_outputs)
{
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc flat, scalars;
    eo_value p, s, in[4], out[2];
    struct eo_error err;

    ASSERT_OK(eo_tensor_desc_init(&flat, EO_FLOAT32, (int64_t[]){9}, 1, &err));
    ASSERT_OK(eo_tensor_desc_init(&scalars, EO_FLOAT64, (int64_t[]){5}, 1, &err));
    ASSERT_OK(eo_graph_state(g, "p", &flat, &p, &err));
    ASSERT_OK(eo_graph_input(g, "scalars", &scalars, &s, &err));
    in[0] = in[1] = in[2] = p;
    in[3] = s;
    ASSERT_OK(eo_graph_add(g, EO_OP_SGD_UPDATE, in, 4, NULL, out, &err));
    ck_assert_uint_eq(out[1], out[0] + 1);
    ck_assert_uint_eq(g->values[out[1]].node, g->values[out[0]].node);
    ck_assert_int_eq(g->values[out[1]].output, 1);
    eo_graph_free(g);
}
END_TEST

START_TEST(test_errors_name_the_node)
{
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc d = desc_of(EO_FLOAT32, 2, 3);
    eo_value x, y = 77, in[2];
    struct eo_error err;
    char long_label[400];

    ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
    in[0] = in[1] = x;
    g->label = "hidden\x1b[31m1";
    ASSERT_CODE(eo_graph_add(g, EO_OP_MATMUL, in, 2, NULL, &y, &err), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.op, "matmul");
    ASSERT_CONTAINS(err.node, "1 \"hidden");
    ck_assert_ptr_null(strchr(err.node, 0x1b));
    ck_assert_int_eq(err.inputs[0].marked_dim, 1);
    g->label = NULL;
    ASSERT_CODE(eo_graph_add(g, EO_OP_MATMUL, in, 2, NULL, &y, &err), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.node, "1");
    in[1] = 1; /* its own result */
    ASSERT_CODE(eo_graph_add(g, EO_OP_ADD, in, 2, NULL, &y, &err), EO_E_BAD_GRAPH);
    in[1] = EO_NO_VALUE;
    ASSERT_CODE(eo_graph_add(g, EO_OP_ADD, in, 2, NULL, &y, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_add(g, EO_OP_ADD, in, -1, NULL, &y, &err), EO_E_BAD_ARITY);
    ASSERT_CODE(eo_graph_add(g, EO_OP_CONCATENATE, in, EO_MAX_INPUTS + 1, NULL, &y, &err), EO_E_BAD_ARITY);
    ASSERT_CODE(eo_graph_add(g, EO_OP_NONE, in, 1, NULL, &y, &err), EO_E_UNKNOWN_OP);
    ASSERT_CODE(eo_graph_add(g, EO_OP_COUNT, in, 1, NULL, &y, &err), EO_E_UNKNOWN_OP);
    memset(long_label, 'a', sizeof(long_label));
    long_label[sizeof(long_label) - 1] = '\0';
    g->label = long_label;
    ASSERT_CODE(eo_graph_add(g, EO_OP_RELU, in, 1, NULL, &y, &err), EO_E_BAD_GRAPH);
    g->label = "bad \xff utf-8";
    ASSERT_CODE(eo_graph_add(g, EO_OP_RELU, in, 1, NULL, &y, &err), EO_E_BAD_GRAPH);
    ck_assert_uint_eq(g->n_nodes, 1); /* nothing of all this stayed */
    ck_assert_uint_eq(g->n_values, 1);
    ck_assert_uint_eq(y, 77);
    ck_assert_int_eq(eo_graph_add(g, EO_OP_ADD, in, 1, NULL, &y, NULL), EO_E_BAD_ARITY);
    eo_graph_free(g);
}
END_TEST

START_TEST(test_names)
{
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc d = desc_of(EO_FLOAT32, 2, 3), bad = {.dtype = 77};
    struct eo_error err;
    char name[EO_GRAPH_MAX_NAME + 2];
    eo_value x, v = 77;

    ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
    ASSERT_CODE(eo_graph_input(g, "x", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CONTAINS(err.message, "\"x\" is used twice");
    ASSERT_CODE(eo_graph_state(g, "x", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_output(g, "x", x, &err), EO_E_BAD_GRAPH); /* one name space */
    ASSERT_CODE(eo_graph_input(g, "", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_input(g, NULL, &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_input(g, "a\nb", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_input(g, "a\x7f", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_input(g, "\xc3", &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_input(g, "y", &bad, &v, &err), EO_E_BAD_PARAMS);
    memset(name, 'n', sizeof(name));
    name[EO_GRAPH_MAX_NAME + 1] = '\0';
    ASSERT_CODE(eo_graph_input(g, name, &d, &v, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_output(g, "o", 1, &err), EO_E_BAD_GRAPH);
    ASSERT_CODE(eo_graph_output(g, "o", EO_NO_VALUE, &err), EO_E_BAD_GRAPH);
    ck_assert_uint_eq(g->n_nodes, 1);
    ck_assert_uint_eq(v, 77);
    name[EO_GRAPH_MAX_NAME] = '\0';
    ASSERT_OK(eo_graph_input(g, name, &d, &v, &err));
    ASSERT_OK(eo_graph_input(g,
                             "gr\xc3\xb6\xc3\x9f"
                             "e",
                             &d, &v, &err));
    ASSERT_OK(eo_graph_output(g, "o", x, &err));
    ASSERT_OK(eo_graph_output(g, "p", x, &err)); /* a value may have several names */
    eo_graph_free(g);
}
END_TEST

START_TEST(test_constants)
{
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc d = desc_of(EO_FLOAT32, 2, 2), flags = desc_of(EO_BOOL, 1, 3), empty = desc_of(EO_INT8, 0, 5),
                          huge = desc_of(EO_INT8, INT64_C(1) << 40, 1);
    float data[] = {1, 2, 3, 4};
    uint8_t bools[] = {0, 1, 2};
    struct eo_error err;
    eo_value v;

    ASSERT_OK(eo_graph_constant(g, &d, data, &v, &err));
    data[0] = 9; /* the graph has its own copy */
    ck_assert(((const float *)g->nodes[0].constant)[0] == 1.0F);
    ck_assert_uint_eq((uintptr_t)g->nodes[0].constant % 16, 0);
    ASSERT_CODE(eo_graph_constant(g, &flags, bools, &v, &err), EO_E_BAD_VALUE);
    ASSERT_CONTAINS(err.message, "element 2 of a bool constant is 2");
    bools[2] = 1;
    ASSERT_OK(eo_graph_constant(g, &flags, bools, &v, &err));
    ASSERT_OK(eo_graph_constant(g, &empty, NULL, &v, &err));
    ASSERT_CODE(eo_graph_constant(g, &huge, data, &v, &err), EO_E_TOO_LARGE); /* refused before a byte is read */
    ASSERT_CONTAINS(err.message, "64.0 MiB");
    ck_assert_uint_eq(g->n_nodes, 3);
    eo_graph_free(g);
}
END_TEST

/* Nodes with the row's defaults share them; others keep only what the row uses. */
START_TEST(test_attrs_are_kept_clean)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_CLIP);
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc d = desc_of(EO_FLOAT32, 2, 2);
    struct eo_attrs attrs;
    struct eo_error err;
    eo_value x, y;

    ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_graph_add(g, EO_OP_CLIP, &x, 1, NULL, &y, &err));
    ASSERT_OK(eo_graph_add(g, EO_OP_CLIP, &x, 1, &attrs, &y, &err));
    ck_assert_ptr_eq(g->nodes[1].attrs, g->nodes[2].attrs);
    attrs.v[0].f = -1;
    attrs.v[0].i = 12345;      /* not what a FLOAT uses */
    attrs.v[5].ints[3] = 4711; /* no attribute at all */
    ASSERT_OK(eo_graph_add(g, EO_OP_CLIP, &x, 1, &attrs, &y, &err));
    ck_assert_double_eq(g->nodes[3].attrs->v[0].f, -1);
    ck_assert_int_eq(g->nodes[3].attrs->v[0].i, 0);
    ck_assert_int_eq(g->nodes[3].attrs->v[5].ints[3], 0);
    attrs.v[0].f = NAN;
    ASSERT_CODE(eo_graph_add(g, EO_OP_CLIP, &x, 1, &attrs, &y, &err), EO_E_BAD_ATTRIBUTE);
    eo_graph_free(g);
}
END_TEST

/* Growth moves the arrays; what was built before stays right. The limit is an error, not an end. */
START_TEST(test_many_nodes)
{
    enum { N = 50000 };
    struct eo_graph *g = graph_or_fail();
    struct eo_tensor_desc d = desc_of(EO_FLOAT32, 2, 2);
    struct eo_error err;
    char name[32];
    eo_value v;

    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "input.%u", i);
        ASSERT_OK(eo_graph_input(g, name, &d, &v, &err));
        ck_assert_uint_eq(v, i);
    }
    ck_assert_uint_eq(eo_graph_find(g, "input.0"), 0);
    ck_assert_uint_eq(eo_graph_find(g, "input.49999"), 49999);
    ck_assert_str_eq(g->nodes[31].name, "input.31");
    for (uint32_t i = 0; i < EO_GRAPH_MAX_NODES; i++) {
        int rc = eo_graph_add(g, EO_OP_RELU, &v, 1, NULL, &v, &err);

        if (rc != EO_OK) {
            ck_assert_int_eq(rc, EO_E_TOO_LARGE);
            ck_assert_uint_ge(g->n_nodes, N);
            ck_assert_uint_le(g->arena.used, EO_GRAPH_MAX_BYTES);
            eo_graph_free(g);
            return;
        }
    }
    ck_abort_msg("no limit");
}
END_TEST

/* One of each kind of node, with a label and attributes; stops at the first error. */
static int add_each(struct eo_graph *g, struct eo_error *err)
{
    struct eo_tensor_desc d = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {4}};
    float data[4] = {0};
    struct eo_attrs attrs;
    eo_value x, w, c, y;
    int rc = eo_graph_input(g, "x", &d, &x, err);

    eo_attrs_default(eo_op_schema(EO_OP_CLIP), &attrs);
    attrs.v[0].f = 0;
    rc = rc != EO_OK ? rc : eo_graph_state(g, "w", &d, &w, err);
    rc = rc != EO_OK ? rc : eo_graph_constant(g, &d, data, &c, err);
    rc = rc != EO_OK ? rc : eo_graph_add(g, EO_OP_RELU, &x, 1, NULL, &y, err);
    g->label = "clip";
    rc = rc != EO_OK ? rc : eo_graph_add(g, EO_OP_CLIP, &y, 1, &attrs, &y, err);
    rc = rc != EO_OK ? rc : eo_graph_output(g, "y", y, err);
    rc = rc != EO_OK ? rc : eo_graph_output(g, "z", x, err);
    g->label = NULL;
    return rc;
}

/* With room for k bytes, for every k: TOO_LARGE at some node and a whole graph up to there, or all of it. */
START_TEST(test_every_limit)
{
    int rc = EO_E_TOO_LARGE;

    for (size_t limit = 0; rc != EO_OK; limit += 8) {
        struct eo_graph *g = graph_or_fail();
        struct eo_error err;
        uint32_t n_named = 0, x = 0;

        g->arena.limit = limit;
        rc = add_each(g, &err);
        ck_assert_int_eq(rc == EO_OK ? EO_E_TOO_LARGE : rc, EO_E_TOO_LARGE);
        ck_assert(rc == EO_OK || err.code == EO_E_TOO_LARGE);
        ck_assert_uint_eq(g->n_values, g->n_nodes);
        for (uint32_t i = 0; i < g->n_nodes; i++) {
            ck_assert_uint_eq(g->values[i].node, i);
            n_named += g->nodes[i].kind == EO_NODE_INPUT || g->nodes[i].kind == EO_NODE_STATE ? 1 : 0;
        }
        for (size_t i = 0; i < 4; i++) {
            x += eo_graph_find(g, (const char *const[]){"x", "w", "y", "z"}[i]) != EO_NO_VALUE ? 1 : 0;
        }
        ck_assert_uint_eq(x, n_named + g->n_outputs); /* no name without its node */
        ck_assert_uint_le(g->arena.used, limit);
        ck_assert_uint_lt(limit, 1 << 20);
        eo_graph_free(g);
    }
}
END_TEST

EO_SUITE("graph", test_build, test_several_outputs, test_errors_name_the_node, test_names, test_constants,
         test_attrs_are_kept_clean, test_many_nodes, test_every_limit)
