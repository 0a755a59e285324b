/* Each pass does what it is for, and none changes a result. On the reference backend the passes are exact, so results
 * are compared bit by bit with those of a plan without any pass. */
#include "backends/registry.h"
#include "tests/engine/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;
static struct eo_graph *g;
static struct eo_builder b;

enum { ALL = (1U << PLAN_PASS_COUNT) - 1, MAX_BYTES = 1 << 16 };

static void setup(void)
{
    g = eo_graph_new();
    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
}

static void teardown(void)
{
    eo_graph_free(g);
}

/* Compiles for a device and says what came out. */
static struct plan_stats stats_of(const char *device, const eo_value *outputs, uint32_t n, uint32_t without)
{
    struct eo_device *dev = harness_device(device);
    struct plan_stats stats;
    struct harness h;

    ASSERT_OK(b.status);
    ASSERT_OK(harness_open(&h, dev, g, outputs, n, (struct harness_options){.without = without}, &err));
    stats = *plan_stats(h.plan);
    harness_close(&h);
    registry_close(dev);
    return stats;
}

/* Feeds every float32 input with fixed random numbers in (-1, 1); fetches all outputs behind each other. */
static size_t results_of(const char *device, const eo_value *outputs, uint32_t n, uint32_t without, void *out)
{
    struct eo_device *dev = harness_device(device);
    char *data = calloc(MAX_BYTES, 1);
    size_t size = 0;
    struct harness h;

    ck_assert_ptr_nonnull(data);
    ASSERT_OK(harness_open(&h, dev, g, outputs, n, (struct harness_options){.without = without}, &err));
    for (uint32_t i = 0; i < h.n_inputs; i++) {
        const struct eo_tensor_desc *d = eo_graph_desc(g, h.inputs[i].value);

        for (int64_t e = 0; e < eo_tensor_desc_count(d); e++) {
            double v = harness_random(i, (uint64_t)e);

            harness_set(d->dtype, data, e, d->dtype == EO_INT64 ? (double)e : 2 * v - 1);
        }
        harness_feed(&h, h.inputs[i].value, data);
    }
    ASSERT_OK(harness_run(&h, &err));
    for (uint32_t i = 0; i < n; i++) {
        harness_fetch(&h, i, (char *)out + size);
        size += eo_tensor_desc_bytes(eo_graph_desc(g, outputs[i]));
        ck_assert_uint_lt(size, MAX_BYTES);
    }
    harness_close(&h);
    registry_close(dev);
    free(data);
    return size;
}

static void assert_unchanged(const eo_value *outputs, uint32_t n)
{
    char *plain = calloc(MAX_BYTES, 1), *passed = calloc(MAX_BYTES, 1);
    size_t size = results_of("reference", outputs, n, ALL, plain);

    ck_assert(plain != NULL && passed != NULL);
    for (uint32_t pass = 0; pass <= PLAN_PASS_COUNT; pass++) {
        uint32_t without = pass == PLAN_PASS_COUNT ? 0 : ALL & ~(1U << pass);

        ck_assert_uint_eq(results_of("reference", outputs, n, without, passed), size);
        ck_assert_msg(memcmp(plain, passed, size) == 0, "results change with pass %u", pass);
    }
    free(plain);
    free(passed);
}

static uint32_t steps(const eo_value *outputs, uint32_t n, uint32_t without)
{
    return stats_of("reference", outputs, n, without).n_steps;
}

/* ---- one test per pass ---- */

START_TEST(unused_nodes_do_not_run)
{
    eo_value x, y;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 4);
    y = eo_build_unary(&b, EO_OP_EXP, x);
    (void)eo_build_unary(&b, EO_OP_LOG, y);
    ck_assert_uint_eq(steps(&y, 1, ALL & ~PLAN_WITHOUT(DIRECT)), 1);
    ck_assert_uint_eq(stats_of("reference", &y, 1, 0).n_graph_nodes, 2);
    assert_unchanged(&y, 1);
    teardown();
}
END_TEST

START_TEST(fold_runs_constants_once)
{
    eo_value x, c, y;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 4);
    c = eo_build_scalar(&b, EO_FLOAT32, 2);
    for (int i = 0; i < 5; i++) {
        c = eo_build_unary(&b, EO_OP_TANH, c);
    }
    y = eo_build_binary(&b, EO_OP_ADD, x, c);
    ck_assert_uint_eq(steps(&y, 1, 0), 1);
    ck_assert_uint_eq(steps(&y, 1, PLAN_WITHOUT(FOLD)), 6);
    assert_unchanged(&y, 1);
    teardown();
}
END_TEST

START_TEST(fold_leaves_failing_nodes_to_the_run)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_ONE_HOT);
    struct eo_device *dev = harness_device("reference");
    struct eo_tensor_desc d = harness_desc(EO_INT64, SHAPE(2));
    const int64_t bad[2] = {1, 7};
    struct eo_attrs attrs;
    struct harness h;
    eo_value index, y;

    setup();
    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_int(op, &attrs, "depth", 3, &err));
    ASSERT_OK(eo_graph_constant(g, &d, bad, &index, &err));
    g->label = "codes";
    y = eo_build_op(&b, EO_OP_ONE_HOT, &index, 1, &attrs);
    ASSERT_OK(harness_open(&h, dev, g, &y, 1, (struct harness_options){0}, &err));
    ASSERT_CODE(harness_run(&h, &err), EO_E_BAD_VALUE);
    ck_assert_str_eq(err.op, "one_hot");
    ASSERT_CONTAINS(err.node, "codes");
    harness_close(&h);
    registry_close(dev);
    teardown();
}
END_TEST

START_TEST(simplify_removes_what_does_nothing)
{
    eo_value x, y, one;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 3, 4);
    one = eo_build_scalar(&b, EO_FLOAT32, 1);
    y = eo_build_binary(&b, EO_OP_MULTIPLY, one, x);
    y = eo_build_binary(&b, EO_OP_DIVIDE, y, eo_build_full_like(&b, x, 1));
    y = eo_build_binary(&b, EO_OP_SUBTRACT, y, eo_build_scalar(&b, EO_FLOAT32, 0));
    y = eo_build_reshape(&b, y, (int64_t[]){3, -1}, 2);
    y = eo_build_expand(&b, y, (int64_t[]){3, 4}, 2);
    y = eo_build_unary(&b, EO_OP_EXP, y);
    ck_assert_uint_eq(steps(&y, 1, 0), 1);
    assert_unchanged(&y, 1);
    teardown();
}
END_TEST

/* x + 0 is not x for x = -0, and x * 1 is not x where it broadcasts. */
START_TEST(simplify_keeps_what_does_something)
{
    eo_value x, y[2];

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 1, 4);
    y[0] = eo_build_binary(&b, EO_OP_ADD, x, eo_build_scalar(&b, EO_FLOAT32, 0));
    y[1] = eo_build_binary(&b, EO_OP_MULTIPLY, x, eo_build_full_like(&b, INPUT(g, "like", EO_FLOAT32, 3, 1), 1));
    ck_assert_uint_ge(steps(y, 2, 0), 2);
    assert_unchanged(y, 2);
    teardown();
}
END_TEST

START_TEST(simplify_shrinks_repeated_operands)
{
    eo_value x, s, row, y[3];

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 3, 4);
    s = SCALAR_INPUT(g, "s", EO_FLOAT32);
    row = INPUT(g, "row", EO_FLOAT32, 4);
    /* As the gradient of a sum: scalar, reshaped, expanded, reshaped. */
    y[0] = eo_build_expand(&b, eo_build_reshape(&b, s, (int64_t[]){1}, 1), (int64_t[]){3}, 1);
    y[0] = eo_build_binary(&b, EO_OP_MULTIPLY, x, eo_build_reshape(&b, y[0], (int64_t[]){3, 1}, 2));
    y[1] = eo_build_binary(&b, EO_OP_ADD, x, eo_build_expand(&b, row, (int64_t[]){3, 4}, 2));
    y[2] = eo_build_binary(&b, EO_OP_MAXIMUM, eo_build_full_like(&b, x, 0.25), x);
    ck_assert_uint_eq(steps(y, 3, 0), 3);
    assert_unchanged(y, 3);
    teardown();
}
END_TEST

static eo_value drop(eo_value x, eo_value rng, int64_t stream)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_DROPOUT);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_int(op, &attrs, "stream", stream, &err));
    return eo_build_op(&b, EO_OP_DROPOUT, (eo_value[]){x, rng}, 2, &attrs);
}

START_TEST(merge_finds_equal_work)
{
    eo_value x, y, z;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 8);
    y = INPUT(g, "y", EO_FLOAT32, 8);
    z = eo_build_binary(&b, EO_OP_SUBTRACT, eo_build_unary(&b, EO_OP_EXP, eo_build_binary(&b, EO_OP_ADD, x, y)),
                        eo_build_unary(&b, EO_OP_EXP, eo_build_binary(&b, EO_OP_ADD, y, x)));
    ck_assert_uint_eq(steps(&z, 1, PLAN_WITHOUT(MERGE)), 5);
    ck_assert_uint_eq(steps(&z, 1, 0), 3);
    z = eo_build_binary(&b, EO_OP_SUBTRACT, eo_build_binary(&b, EO_OP_SUBTRACT, x, y),
                        eo_build_binary(&b, EO_OP_SUBTRACT, y, x));
    ck_assert_uint_eq(steps(&z, 1, 0), 3);
    assert_unchanged(&z, 1);
    teardown();
}
END_TEST

START_TEST(merge_tells_streams_apart)
{
    eo_value x, rng, same, other;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 64);
    rng = INPUT(g, "rng", EO_INT64, 3);
    same = eo_build_binary(&b, EO_OP_SUBTRACT, drop(x, rng, 1), drop(x, rng, 1));
    other = eo_build_binary(&b, EO_OP_SUBTRACT, drop(x, rng, 1), drop(x, rng, 2));
    ck_assert_uint_eq(steps(&same, 1, 0), 2);
    ck_assert_uint_eq(steps(&other, 1, 0), 3);
    assert_unchanged((eo_value[]){same, other}, 2);
    teardown();
}
END_TEST

START_TEST(transposes_become_flags)
{
    eo_value x, y, z[2];

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 2, 3, 4);
    y = INPUT(g, "y", EO_FLOAT32, 2, 3, 5);
    z[0] = eo_build_matmul(&b, eo_build_transpose(&b, x, (int64_t[]){0, 2, 1}, 3), y, false, false);
    /* Twice is not at all; a batch dimension that moves stays. */
    z[1] = eo_build_transpose(&b, eo_build_transpose(&b, y, (int64_t[]){0, 2, 1}, 3), (int64_t[]){0, 2, 1}, 3);
    z[1] = eo_build_matmul(&b, x, z[1], true, false);
    ck_assert_uint_eq(steps(z, 2, 0), 2);
    ck_assert_uint_eq(stats_of("reference", z, 2, 0).n_copies, 1); /* both are one product by then */
    ck_assert_uint_eq(steps(z, 2, PLAN_WITHOUT(TRANSPOSE)), 5);
    assert_unchanged(z, 2);
    z[0] = eo_build_matmul(&b, eo_build_transpose(&b, x, (int64_t[]){1, 0, 2}, 3), INPUT(g, "w", EO_FLOAT32, 4, 2),
                           false, false);
    ck_assert_uint_eq(steps(z, 1, 0), 2);
    assert_unchanged(z, 1);
    teardown();
}
END_TEST

START_TEST(views_cost_no_step)
{
    eo_value x, y, z[2];

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 3, 4);
    y = eo_build_unary(&b, EO_OP_EXP, x);
    y = eo_build_reshape(&b, y, (int64_t[]){2, 6}, 2);
    y = eo_build_expand(&b, y, (int64_t[]){1, 2, 6}, 3);
    y = eo_build_transpose(&b, y, (int64_t[]){1, 0, 2}, 3);
    z[0] = eo_build_reduce(&b, EO_OP_SUM, y, (int64_t[]){0}, 1, false);
    z[1] = eo_build_reshape(&b, x, (int64_t[]){12}, 1); /* of an input: needs a copy into its place */
    ck_assert_uint_eq(steps(z, 2, 0), 3);
    ck_assert_uint_eq(stats_of("reference", z, 2, 0).n_copies, 1);
    assert_unchanged(z, 2);
    /* Not a view: the order changes. */
    z[0] = eo_build_unary(&b, EO_OP_EXP, eo_build_transpose(&b, x, NULL, 0));
    ck_assert_uint_eq(steps(z, 1, 0), 2);
    assert_unchanged(z, 1);
    teardown();
}
END_TEST

START_TEST(fusion_joins_chains)
{
    eo_value x, y, row, h, out[2];
    struct plan_stats stats;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 16, 32);
    y = INPUT(g, "y", EO_FLOAT32, 16, 32);
    row = INPUT(g, "row", EO_FLOAT32, 32);
    h = eo_build_unary(&b, EO_OP_RELU, eo_build_binary(&b, EO_OP_ADD, x, row));
    out[0] = h; /* used outside too */
    out[1] = eo_build_where(&b, eo_build_binary(&b, EO_OP_GREATER, h, eo_build_scalar(&b, EO_FLOAT32, 0.5)), h,
                            eo_build_binary(&b, EO_OP_MULTIPLY, y, h));
    stats = stats_of("cpu", out, 2, 0);
    ck_assert_uint_eq(stats.n_steps, 1);
    ck_assert_uint_eq(stats.n_fused, 1);
    ck_assert_uint_eq(stats_of("cpu", out, 2, PLAN_WITHOUT(FUSE)).n_steps, 5);
    ck_assert_uint_eq(stats_of("cpu", out, 2, PLAN_WITHOUT(FUSE)).n_fused, 0);
    teardown();
}
END_TEST

static void assert_close_on_cpu(const eo_value *out, uint32_t n, double tolerance)
{
    float *plain = calloc(MAX_BYTES, 1), *fused = calloc(MAX_BYTES, 1);
    size_t size = results_of("reference", out, n, ALL, plain) / sizeof(float);

    ck_assert_uint_eq(results_of("cpu", out, n, 0, fused) / sizeof(float), size);
    for (size_t i = 0; i < size; i++) {
        ck_assert_msg(fabsf(plain[i] - fused[i]) <= (float)tolerance * (1 + fabsf(plain[i])),
                      "element %zu: %g without fusion, %g with it", i, (double)plain[i], (double)fused[i]);
    }
    free(plain);
    free(fused);
}

/* exp(x) / sum(exp(x)): the division may not join exp, for the sum lies between them. */
START_TEST(fusion_never_waits_for_itself)
{
    eo_value x, e, s, y, v, w;
    struct plan_stats stats;

    setup();
    x = INPUT(g, "x", EO_FLOAT32, 4, 8);
    e = eo_build_unary(&b, EO_OP_EXP, x);
    s = eo_build_reduce(&b, EO_OP_SUM, e, (int64_t[]){1}, 1, true);
    y = eo_build_binary(&b, EO_OP_DIVIDE, e, s);
    stats = stats_of("cpu", &y, 1, 0);
    ck_assert_uint_eq(stats.n_fused, 0);
    ck_assert_uint_eq(stats.n_steps, 3);
    assert_close_on_cpu(&y, 1, 1e-6);

    /* The way round leads through another group, and through a view. */
    v = eo_build_unary(&b, EO_OP_TANH, eo_build_unary(&b, EO_OP_NEGATIVE, s));
    w = eo_build_reshape(&b, eo_build_reduce(&b, EO_OP_MAX, e, (int64_t[]){0}, 1, false), (int64_t[]){1, 8}, 2);
    y = eo_build_binary(&b, EO_OP_ADD, eo_build_binary(&b, EO_OP_MULTIPLY, e, v), w);
    y = eo_build_binary(&b, EO_OP_ADD, y, eo_build_unary(&b, EO_OP_SIGMOID, e));
    assert_close_on_cpu(&y, 1, 1e-6);

    /* A view of a member's result is memory: it may not be read inside the same group. */
    v = eo_build_reshape(&b, eo_build_reshape(&b, e, (int64_t[]){32}, 1), (int64_t[]){1, 4, 8}, 3);
    y = eo_build_binary(&b, EO_OP_ADD, eo_build_unary(&b, EO_OP_NEGATIVE, e), v);
    assert_close_on_cpu(&y, 1, 1e-6);
    teardown();
}
END_TEST

/* Chains that cross each other with softmaxes between them: groups that looked at their own members only would come to
 * wait for each other. */
START_TEST(fusion_of_tangled_chains_ends)
{
    enum { N = 20000 };
    static eo_value all[N + 1];
    struct plan_stats stats;

    for (uint64_t seed = 0; seed < 4; seed++) {
        setup();
        all[0] = INPUT(g, "x", EO_FLOAT32, 8);
        for (int i = 0; i < N; i++) {
            eo_value other = all[(int)(harness_random(seed, (uint64_t)i) * (i + 1))];

            all[i + 1] =
                i % 3 == 2 ? eo_build_unary(&b, EO_OP_SOFTMAX, other) : eo_build_binary(&b, EO_OP_ADD, all[i], other);
        }
        stats = stats_of("cpu", &all[N - 1], 1, 0);
        ck_assert_uint_gt(stats.n_fused, 5);
        assert_close_on_cpu(&all[N - 1], 1, 1e-5);
        teardown();
    }
}
END_TEST

START_TEST(fusion_respects_the_programs_limits)
{
    eo_value x, y, many[12];
    struct plan_stats stats;

    setup();
    x = y = INPUT(g, "x", EO_FLOAT32, 8);
    for (int i = 0; i < 2 * EO_FUSED_MAX_STEPS + 5; i++) {
        y = eo_build_unary(&b, i % 2 == 0 ? EO_OP_TANH : EO_OP_NEGATIVE, y);
    }
    stats = stats_of("cpu", &y, 1, 0);
    ck_assert_uint_eq(stats.n_steps, 3);
    ck_assert_uint_eq(stats.n_fused, 3);
    assert_close_on_cpu(&y, 1, 1e-5);

    /* More operands and more results than one program has. */
    y = x;
    for (int i = 0; i < 12; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "x%d", i);
        many[i] = y = eo_build_binary(&b, EO_OP_MULTIPLY, y, INPUT(g, name, EO_FLOAT32, 8));
    }
    stats = stats_of("cpu", many, 12, 0);
    ck_assert_uint_ge(stats.n_steps, 3);
    assert_close_on_cpu(many, 12, 1e-6);
    teardown();
}
END_TEST

START_TEST(memory_is_used_again)
{
    enum { CHAIN = 50, BYTES = 4096 };
    eo_value y;
    struct plan_stats stats;

    setup();
    y = INPUT(g, "x", EO_FLOAT32, BYTES / 4);
    for (int i = 0; i < CHAIN; i++) {
        y = eo_build_unary(&b, EO_OP_TANH, y);
    }
    y = eo_build_reduce(&b, EO_OP_SUM, y, NULL, 0, false);
    stats = stats_of("reference", &y, 1, 0);
    ck_assert_uint_eq(stats.arena_bytes, BYTES);
    ck_assert_uint_eq(stats.n_in_place, CHAIN - 1);
    stats = stats_of("reference", &y, 1, PLAN_WITHOUT(IN_PLACE));
    ck_assert_uint_eq(stats.arena_bytes, 2UL * BYTES);
    ck_assert_uint_eq(stats.n_in_place, 0);
    assert_unchanged(&y, 1);
    teardown();
}
END_TEST

/* A kernel may write over its first operand, but here the second one is the same memory and is read in another order.
 */
START_TEST(memory_that_is_read_twice_is_not_overwritten)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SLICE_SCATTER);
    struct eo_tensor_desc d = harness_desc(EO_INT64, SHAPE(8));
    eo_value y, index, z[2];
    struct eo_attrs attrs;

    setup();
    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "starts", (int64_t[]){-1}, 1, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "stops", (int64_t[]){INT64_MIN / 2}, 1, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "steps", (int64_t[]){-1}, 1, &err));
    y = eo_build_unary(&b, EO_OP_EXP, INPUT(g, "x", EO_FLOAT32, 8));
    z[0] = eo_build_op(&b, EO_OP_SLICE_SCATTER, (eo_value[]){y, y}, 2, &attrs);
    y = eo_build_unary(&b, EO_OP_TANH, INPUT(g, "z", EO_FLOAT32, 8));
    ASSERT_OK(eo_graph_constant(g, &d, (int64_t[8]){7, 0, 1, 2, 3, 4, 5, 6}, &index, &err));
    z[1] = eo_build_op(&b, EO_OP_SCATTER_ADD, (eo_value[]){y, index, y}, 3, NULL);
    for (int i = 0; i < 2; i++) { /* so that the row's own result lies in the arena */
        z[i] =
            eo_build_reduce(&b, EO_OP_MAX, eo_build_reshape(&b, z[i], (int64_t[]){2, 4}, 2), (int64_t[]){0}, 1, false);
    }
    assert_unchanged(z, 2);
    assert_close_on_cpu(z, 2, 1e-6);
    teardown();
}
END_TEST

/* ---- all of them on a training step ---- */

static void run_mlp(struct mlp *m, const char *device, uint32_t without, double **out, struct plan_stats *stats)
{
    struct eo_device *dev = harness_device(device);
    eo_value outputs[MLP_OUTPUTS];
    struct harness h;

    mlp_outputs(m, outputs);
    ASSERT_OK(harness_open(&h, dev, m->g, outputs, MLP_OUTPUTS, (struct harness_options){.without = without}, &err));
    *stats = *plan_stats(h.plan);
    mlp_feed(m, &h);
    ASSERT_OK(harness_run(&h, &err));
    for (uint32_t i = 0; i < MLP_OUTPUTS; i++) {
        harness_fetch(&h, i, out[i]);
    }
    harness_close(&h);
    registry_close(dev);
}

static void mlp_is_the_same(const char *device, uint32_t without, const double *const *wanted, double tolerance,
                            struct mlp *m)
{
    double *got[MLP_OUTPUTS];
    eo_value outputs[MLP_OUTPUTS];
    struct plan_stats stats;

    mlp_outputs(m, outputs);
    for (int i = 0; i < MLP_OUTPUTS; i++) {
        got[i] = calloc(4096, sizeof(double));
        ck_assert_ptr_nonnull(got[i]);
    }
    run_mlp(m, device, without, got, &stats);
    for (int o = 0; o < MLP_OUTPUTS; o++) {
        for (int64_t i = 0; i < eo_tensor_desc_count(eo_graph_desc(m->g, outputs[o])); i++) {
            ck_assert_msg(fabs(got[o][i] - wanted[o][i]) <= tolerance * (1 + fabs(wanted[o][i])),
                          "%s without %x: output %d, element %lld: %.17g, not %.17g", device, without, o, (long long)i,
                          got[o][i], wanted[o][i]);
        }
        free(got[o]);
    }
}

START_TEST(no_pass_changes_a_training_step)
{
    double *wanted[MLP_OUTPUTS];
    struct plan_stats plain;
    struct mlp m;

    mlp_build(&m, EO_FLOAT64, 6, 5, 7, 4, true);
    for (int i = 0; i < MLP_OUTPUTS; i++) {
        wanted[i] = calloc(4096, sizeof(double));
        ck_assert_ptr_nonnull(wanted[i]);
    }
    run_mlp(&m, "reference", ALL, wanted, &plain);
    for (uint32_t pass = 0; pass < PLAN_PASS_COUNT; pass++) {
        mlp_is_the_same("reference", 1U << pass, (const double *const *)wanted, 0, &m);
        mlp_is_the_same("reference", ALL & ~(1U << pass), (const double *const *)wanted, 0, &m);
        mlp_is_the_same("cpu", 1U << pass, (const double *const *)wanted, 1e-13, &m);
    }
    mlp_is_the_same("reference", 0, (const double *const *)wanted, 0, &m);
    mlp_is_the_same("cpu", 0, (const double *const *)wanted, 1e-13, &m);
    for (int i = 0; i < MLP_OUTPUTS; i++) {
        free(wanted[i]);
    }
    mlp_free(&m);
}
END_TEST

EO_SUITE("passes", unused_nodes_do_not_run, fold_runs_constants_once, fold_leaves_failing_nodes_to_the_run,
         simplify_removes_what_does_nothing, simplify_keeps_what_does_something, simplify_shrinks_repeated_operands,
         merge_finds_equal_work, merge_tells_streams_apart, transposes_become_flags, views_cost_no_step,
         fusion_joins_chains, fusion_never_waits_for_itself, fusion_of_tangled_chains_ends,
         fusion_respects_the_programs_limits, memory_is_used_again, memory_that_is_read_twice_is_not_overwritten,
         no_pass_changes_a_training_step)
