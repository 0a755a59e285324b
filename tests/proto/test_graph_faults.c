/* Each allocation in turn fails while graphs are built, encoded, hashed and decoded: an error with the right code, no
 * leak (as LeakSanitizer sees), and a graph that still works. */
#include "proto/graph_build.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum { N_LAYERS = 200 }; /* enough that the arena takes several blocks and the arrays grow */

static struct eo_error err;
static struct eo_bytes encoded;

static int build_layers(struct eo_graph *g)
{
    struct eo_tensor_desc d = {.dtype = EO_FLOAT32, .n_dims = 2, .shape = {8, 8}};
    struct eo_builder b;
    char name[32];
    eo_value x, w;
    int rc = eo_graph_input(g, "x", &d, &x, &err);

    eo_build_init(&b, g, &err);
    for (int i = 0; i < N_LAYERS && rc == EO_OK; i++) {
        snprintf(name, sizeof(name), "layer%d", i);
        rc = eo_graph_state(g, name, &d, &w, &err);
        g->label = name;
        x = rc == EO_OK ? eo_build_matmul(&b, x, w, false, i % 2 == 0) : EO_NO_VALUE;
        x = rc == EO_OK ? eo_build_binary(&b, EO_OP_ADD, x, eo_build_scalar(&b, EO_FLOAT32, i)) : EO_NO_VALUE;
        g->label = NULL;
        rc = rc == EO_OK ? b.status : rc;
    }
    return rc == EO_OK ? eo_graph_output(g, "y", x, &err) : rc;
}

/* After the failure, before the first assertion: what is left must be whole, and take another node. */
static void check_survivor(struct eo_graph *g)
{
    struct eo_tensor_desc d = {.dtype = EO_BOOL};
    eo_value v;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        ck_assert_uint_lt(g->nodes[i].first_output, g->n_values);
        ck_assert_uint_eq(g->values[g->nodes[i].first_output].node, i);
    }
    ASSERT_OK(eo_graph_input(g, "afterwards", &d, &v, &err));
    ck_assert_uint_eq(eo_graph_find(g, "afterwards"), v);
}

static bool work_build(void)
{
    struct eo_graph *g = eo_graph_new();
    int rc;

    if (g == NULL) {
        return false;
    }
    rc = build_layers(g);
    if (alloc_disarm()) {
        ck_assert_int_eq(rc, EO_E_NO_MEMORY);
        ck_assert_int_eq(err.code, EO_E_NO_MEMORY);
        check_survivor(g);
    }
    eo_graph_free(g);
    return rc == EO_OK;
}

START_TEST(test_build)
{
    ck_assert_int_ge(alloc_exhaust(work_build), 5);
}
END_TEST

static void encode_sample(void)
{
    struct eo_graph *g = eo_graph_new();

    ck_assert_ptr_nonnull(g);
    ASSERT_OK(build_layers(g));
    eo_bytes_init(&encoded, EO_GRAPH_MAX_BYTES);
    ASSERT_OK(eo_graph_encode(g, &encoded, &err));
    eo_graph_free(g);
}

static bool work_decode(void)
{
    struct eo_graph *g = NULL;
    int rc = eo_graph_decode(encoded.data, encoded.size, &g, &err);

    if (alloc_disarm()) {
        ck_assert_int_eq(rc, EO_E_NO_MEMORY);
        ck_assert_ptr_null(g);
    }
    eo_graph_free(g);
    return rc == EO_OK;
}

START_TEST(test_decode)
{
    encode_sample();
    ck_assert_int_ge(alloc_exhaust(work_decode), 5);
    eo_bytes_fini(&encoded);
}
END_TEST

static struct eo_graph *decoded;

static bool work_hash(void)
{
    char hex[65];
    int rc = eo_graph_hash(decoded, hex, &err);

    if (alloc_disarm()) {
        ck_assert(rc == EO_E_NO_MEMORY || rc == EO_E_TOO_LARGE);
    }
    return rc == EO_OK;
}

START_TEST(test_hash)
{
    encode_sample();
    ASSERT_OK(eo_graph_decode(encoded.data, encoded.size, &decoded, &err));
    ck_assert_int_ge(alloc_exhaust(work_hash), 1);
    eo_graph_free(decoded);
    eo_bytes_fini(&encoded);
}
END_TEST

EO_SUITE("graph_faults", test_build, test_decode, test_hash)
