/* The executor: arena, plan cache, single operations. */
#include "backends/registry.h"
#include "tests/engine/models.h"
#include "tests/support/fake_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

static void *on_device(struct eo_device *dev, const void *data, uint64_t bytes)
{
    void *p;

    ASSERT_OK(dev->backend->alloc(dev, bytes, &p, &err));
    if (data != NULL) {
        ASSERT_OK(dev->backend->copy_in(dev, p, data, bytes, &err));
    }
    return p;
}

static int run_op(struct executor *x, enum eo_op op, const struct eo_attrs *attrs, const struct eo_tensor_desc *a,
                  void *pa, const struct eo_tensor_desc *c, void *pc, void *out, enum plan_fallback policy, char *what)
{
    const struct eo_tensor_desc *descs[2] = {a, c};
    void *in[2] = {pa, pc};

    return executor_run_op(x, eo_op_schema(op), attrs, descs, in, c != NULL ? 2 : 1, &out, policy, what, 128, &err);
}

START_TEST(single_ops_compute)
{
    static const char *const devices[] = {"reference", "cpu", "fake"};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct eo_device *dev = harness_device(devices[d]);
        struct eo_tensor_desc a = harness_desc(EO_FLOAT32, SHAPE(2, 3)), c = harness_desc(EO_FLOAT32, SHAPE(3, 2));
        void *pa = on_device(dev, (float[]){1, 2, 3, 4, 5, 6}, 24);
        void *pc = on_device(dev, (float[]){1, 0, 0, 1, 1, 1}, 24), *out = on_device(dev, NULL, 16);
        char what[128] = "?";
        struct executor *x;
        float got[4];

        ASSERT_OK(executor_new(dev, &x, &err));
        ck_assert_ptr_eq(executor_device(x), dev);
        for (int again = 0; again < 3; again++) {
            ASSERT_OK(run_op(x, EO_OP_MATMUL, NULL, &a, pa, &c, pc, out, PLAN_STRICT, what));
        }
        ASSERT_OK(dev->backend->copy_out(dev, got, out, 16, &err));
        ck_assert_float_eq(got[0], 4);
        ck_assert_float_eq(got[1], 5);
        ck_assert_float_eq(got[2], 10);
        ck_assert_float_eq(got[3], 11);
        ck_assert_str_eq(what, "");
        ck_assert_uint_eq(executor_counters(x).misses, 1);
        ck_assert_uint_eq(executor_counters(x).hits, 2);
        ck_assert_uint_eq(executor_counters(x).runs, 3);
        ck_assert_uint_eq(executor_counters(x).launches, 3);
        executor_free(x);
        dev->backend->free(dev, pa, 24);
        dev->backend->free(dev, pc, 24);
        dev->backend->free(dev, out, 16);
        registry_close(dev);
    }
}
END_TEST

/* What decides a plan is in its key: op, attributes, shapes, dtypes, policy. */
START_TEST(single_ops_are_told_apart)
{
    struct eo_device *dev = harness_device("reference");
    const struct eo_op_schema *sum = eo_op_schema(EO_OP_SUM), *clip = eo_op_schema(EO_OP_CLIP);
    struct eo_tensor_desc a = harness_desc(EO_FLOAT32, SHAPE(2, 3)), c = harness_desc(EO_FLOAT32, SHAPE(3, 2));
    struct eo_tensor_desc wide = harness_desc(EO_FLOAT64, SHAPE(2, 3));
    double data[6] = {0}, out[6];
    struct eo_attrs attrs;
    struct executor *x;

    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_OK(run_op(x, EO_OP_EXP, NULL, &a, data, NULL, NULL, out, PLAN_STRICT, NULL));
    ASSERT_OK(run_op(x, EO_OP_LOG, NULL, &a, data, NULL, NULL, out, PLAN_STRICT, NULL));
    ASSERT_OK(run_op(x, EO_OP_EXP, NULL, &c, data, NULL, NULL, out, PLAN_STRICT, NULL));
    ASSERT_OK(run_op(x, EO_OP_EXP, NULL, &wide, data, NULL, NULL, out, PLAN_STRICT, NULL));
    ASSERT_OK(run_op(x, EO_OP_EXP, NULL, &a, data, NULL, NULL, out, PLAN_REPORT, NULL));
    ck_assert_uint_eq(executor_counters(x).misses, 5);
    for (int64_t axis = 0; axis < 2; axis++) {
        eo_attrs_default(sum, &attrs);
        ASSERT_OK(eo_attrs_set_ints(sum, &attrs, "axes", &axis, 1, &err));
        ASSERT_OK(run_op(x, EO_OP_SUM, &attrs, &a, data, NULL, NULL, out, PLAN_STRICT, NULL));
    }
    for (int high = 1; high < 3; high++) {
        eo_attrs_default(clip, &attrs);
        ASSERT_OK(eo_attrs_set_float(clip, &attrs, "high", high, &err));
        ASSERT_OK(run_op(x, EO_OP_CLIP, &attrs, &a, data, NULL, NULL, out, PLAN_STRICT, NULL));
    }
    ck_assert_uint_eq(executor_counters(x).misses, 9);
    ck_assert_uint_eq(executor_counters(x).hits, 0);
    executor_free(x);
    registry_close(dev);
}
END_TEST

START_TEST(single_op_errors)
{
    struct eo_device *dev = harness_device("reference");
    struct eo_tensor_desc a = harness_desc(EO_FLOAT32, SHAPE(2, 3)), i = harness_desc(EO_INT64, SHAPE(1));
    const struct eo_tensor_desc *descs[1] = {&a};
    float data[6] = {0}, out[9];
    int64_t bad = 9;
    struct executor *x;

    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_CODE(run_op(x, EO_OP_MATMUL, NULL, &a, data, &a, data, out, PLAN_STRICT, NULL), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.op, "matmul");
    ASSERT_CODE(run_op(x, EO_OP_ADD, NULL, &a, data, &i, &bad, out, PLAN_STRICT, NULL), EO_E_DTYPE_MISMATCH);
    ASSERT_CODE(run_op(x, EO_OP_GATHER, NULL, &a, data, &i, &bad, out, PLAN_STRICT, NULL), EO_E_BAD_VALUE);
    ck_assert_int_eq(err.n_inputs, 2);
    ASSERT_CODE(executor_run_op(x, eo_op_schema(EO_OP_ADD), NULL, descs, NULL, 65, NULL, PLAN_STRICT, NULL, 0, &err),
                EO_E_BAD_ARITY);
    executor_free(x);
    registry_close(dev);
}
END_TEST

static bool declines_exp(const struct eo_node_view *node)
{
    return node->op != NULL && node->op->op == EO_OP_EXP;
}

START_TEST(single_op_falls_back_as_told)
{
    struct eo_tensor_desc a = harness_desc(EO_FLOAT32, SHAPE(1));
    char what[128] = "";
    struct eo_device *dev;
    struct executor *x;
    void *in, *out;
    float got;

    fake_device_configure(&(struct fake_device_options){.declines = declines_exp});
    dev = harness_device("fake");
    in = on_device(dev, (float[]){1}, 4);
    out = on_device(dev, NULL, 4);
    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_CODE(run_op(x, EO_OP_EXP, NULL, &a, in, NULL, NULL, out, PLAN_STRICT, what), EO_E_UNSUPPORTED);
    ASSERT_OK(run_op(x, EO_OP_EXP, NULL, &a, in, NULL, NULL, out, PLAN_REPORT, what));
    ASSERT_CONTAINS(what, "exp (fake: ");
    ASSERT_OK(dev->backend->copy_out(dev, &got, out, 4, &err));
    ck_assert_float_eq_tol(got, expf(1), 1e-6F);
    ck_assert_uint_eq(executor_counters(x).fallbacks, 1);
    executor_free(x);
    dev->backend->free(dev, in, 4);
    dev->backend->free(dev, out, 4);
    registry_close(dev);
    fake_device_configure(NULL);
}
END_TEST

static bool declines_nonzero(const struct eo_node_view *node)
{
    return node->op != NULL && node->op->op == EO_OP_NONZERO;
}

/* Rows whose result's shape depends on data: the real shape comes back, on every device and queue, by fallback too. */
static void check_nonzero(const char *device, enum plan_fallback fallback, const char *said)
{
    static const float values[6] = {0, 2, 0, -0.0F, 3, 4};
    static const int64_t wanted[6] = {0, 1, 1, 1, 1, 2};
    const struct eo_tensor_desc x = harness_desc(EO_FLOAT32, SHAPE(2, 3)), *descs[1] = {&x};
    struct eo_device *dev = harness_device(device);
    struct eo_tensor_desc actual = {0};
    void *in = on_device(dev, values, sizeof(values)), *out = on_device(dev, NULL, 12 * sizeof(int64_t));
    char what[128] = "something";
    int64_t got[6];
    struct executor *e;

    ASSERT_OK(executor_new(dev, &e, &err));
    ASSERT_OK(executor_run_sized_op(e, eo_op_schema(EO_OP_NONZERO), NULL, descs, &in, 1, out, &actual, fallback, what,
                                    sizeof(what), &err));
    ck_assert(eo_tensor_desc_equal(&actual, &(struct eo_tensor_desc){EO_INT64, 2, {2, 3}}));
    ASSERT_OK(dev->backend->copy_out(dev, got, out, sizeof(got), &err));
    ck_assert_mem_eq(got, wanted, sizeof(wanted));
    ASSERT_CONTAINS(what, said);
    ck_assert_uint_eq(executor_counters(e).launches, 1);
    executor_free(e);
    dev->backend->free(dev, in, sizeof(values));
    dev->backend->free(dev, out, 12 * sizeof(int64_t));
    registry_close(dev);
}

START_TEST(shapes_from_data)
{
    const struct eo_tensor_desc x = harness_desc(EO_FLOAT32, SHAPE(2)), *descs[1] = {&x};
    struct eo_device *dev = harness_device("reference");
    struct eo_tensor_desc actual;
    float data[2] = {1, 0};
    void *in = data, *to;
    int64_t out[2];
    struct executor *e;

    to = out;
    check_nonzero("reference", PLAN_STRICT, "");
    check_nonzero("cpu", PLAN_STRICT, "");
    fake_device_configure(NULL);
    check_nonzero("fake", PLAN_STRICT, "");
    fake_device_configure(&(struct fake_device_options){.threaded = true});
    check_nonzero("fake", PLAN_STRICT, "");
    fake_device_configure(&(struct fake_device_options){.declines = declines_nonzero});
    check_nonzero("fake", PLAN_REPORT, "nonzero (fake: ");
    fake_device_configure(NULL);

    ASSERT_OK(executor_new(dev, &e, &err));
    ASSERT_CODE(executor_run_sized_op(e, eo_op_schema(EO_OP_NONZERO), NULL, descs, &in, 0, out, &actual, PLAN_STRICT,
                                      NULL, 0, &err),
                EO_E_BAD_ARITY);
    ASSERT_CODE(executor_run_op(e, eo_op_schema(EO_OP_NONZERO), NULL, descs, &in, 1, &to, PLAN_STRICT, NULL, 0, &err),
                EO_E_UNSUPPORTED);
    ck_assert_str_eq(err.op, "nonzero");
    ASSERT_CONTAINS(err.hint, "op.run");
    executor_free(e);
    registry_close(dev);
}
END_TEST

/* Every operand of the largest row has a buffer of its own. */
START_TEST(single_op_with_all_operands)
{
    struct eo_device *dev = harness_device("cpu");
    struct eo_tensor_desc one = harness_desc(EO_FLOAT32, SHAPE(1));
    const struct eo_tensor_desc *descs[EO_MAX_INPUTS];
    float values[EO_MAX_INPUTS], joined[EO_MAX_INPUTS];
    void *in[EO_MAX_INPUTS], *out = joined;
    struct executor *x;

    for (int i = 0; i < EO_MAX_INPUTS; i++) {
        values[i] = (float)i;
        descs[i] = &one;
        in[i] = &values[i];
    }
    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_OK(executor_run_op(x, eo_op_schema(EO_OP_CONCATENATE), NULL, descs, in, EO_MAX_INPUTS, &out, PLAN_STRICT,
                              NULL, 0, &err));
    ck_assert_mem_eq(values, joined, sizeof(values));
    executor_free(x);
    registry_close(dev);
}
END_TEST

/* ---- the cache ---- */

struct tiny {
    struct eo_graph *g;
    struct plan_place in, out;
    struct plan_spec spec;
};

static void tiny_build(struct tiny *t, double c, int64_t constants)
{
    struct eo_builder b;
    eo_value y;

    t->g = eo_graph_new();
    ck_assert_ptr_nonnull(t->g);
    eo_build_init(&b, t->g, &err);
    t->in = (struct plan_place){INPUT(t->g, "x", EO_FLOAT32, 1), 0, 0};
    y = eo_build_binary(&b, EO_OP_ADD, t->in.value, eo_build_scalar(&b, EO_FLOAT32, c));
    if (constants > 0) {
        struct eo_tensor_desc d = harness_desc(EO_FLOAT32, 1, &constants);
        float *data = malloc((size_t)constants * sizeof(float));
        eo_value all;

        ck_assert_ptr_nonnull(data);
        for (int64_t i = 0; i < constants; i++) {
            data[i] = (float)(i % 5);
        }
        ASSERT_OK(eo_graph_constant(t->g, &d, data, &all, &err));
        y = eo_build_reduce(&b, EO_OP_MAX, eo_build_binary(&b, EO_OP_ADD, all, y), NULL, 0, true);
        free(data);
    }
    ASSERT_OK(b.status);
    t->out = (struct plan_place){y, 1, 0};
    t->spec = (struct plan_spec){.graph = t->g, .inputs = &t->in, .n_inputs = 1, .outputs = &t->out, .n_outputs = 1};
}

static float cached_result(struct executor *x, const char *key, struct tiny *t)
{
    float in = 1, out = 0;
    void *buffers[2] = {&in, &out};
    const struct plan *plan;

    ASSERT_OK(executor_cached(x, key, &t->spec, &plan, &err));
    ASSERT_OK(executor_run(x, plan, buffers, NULL, &err));
    return out;
}

START_TEST(cache_keeps_the_most_used)
{
    struct eo_device *dev = harness_device("cpu");
    struct executor *x;
    char key[32];

    ASSERT_OK(executor_new(dev, &x, &err));
    for (int i = 0; i < EXECUTOR_MAX_PLANS + 10; i++) {
        struct tiny t;

        tiny_build(&t, i, 0);
        (void)snprintf(key, sizeof(key), "plan %d", i);
        ck_assert_float_eq(cached_result(x, key, &t), 1 + (float)i);
        eo_graph_free(t.g);
        tiny_build(&t, 0, 0);
        ck_assert_float_eq(cached_result(x, "plan 0", &t), 1); /* used all the time: stays */
        eo_graph_free(t.g);
    }
    ck_assert_uint_eq(executor_counters(x).misses, EXECUTOR_MAX_PLANS + 10);
    ck_assert_uint_eq(executor_counters(x).hits, EXECUTOR_MAX_PLANS + 10);
    ck_assert_uint_eq(executor_counters(x).evictions, 10);
    executor_free(x);
    registry_close(dev);
}
END_TEST

START_TEST(cache_is_bounded_by_constants_too)
{
    enum { CONSTANTS = 3 << 20 }; /* 12 MiB each: 10 fit into 128 MiB */
    struct eo_device *dev = harness_device("reference");
    struct executor *x;
    struct tiny t;
    char key[32];

    ASSERT_OK(executor_new(dev, &x, &err));
    tiny_build(&t, 1, CONSTANTS);
    for (int i = 0; i < 12; i++) {
        const struct plan *plan;

        (void)snprintf(key, sizeof(key), "plan %d", i);
        ASSERT_OK(executor_cached(x, key, &t.spec, &plan, &err));
    }
    ck_assert_uint_eq(executor_counters(x).evictions, 2);
    eo_graph_free(t.g);
    executor_free(x);
    registry_close(dev);
}
END_TEST

/* Keys of graphs are text of the caller: none can collide with the key of an operation. */
START_TEST(failed_compilations_are_not_kept)
{
    struct eo_device *dev = harness_device("reference");
    const struct plan *plan;
    struct executor *x;
    struct tiny t;

    ASSERT_OK(executor_new(dev, &x, &err));
    tiny_build(&t, 1, 0);
    t.spec.n_inputs = 0;
    ASSERT_CODE(executor_cached(x, "k", &t.spec, &plan, &err), EO_E_BAD_GRAPH);
    t.spec.n_inputs = 1;
    ck_assert_float_eq(cached_result(x, "k", &t), 2);
    ck_assert_uint_eq(executor_counters(x).misses, 1);
    eo_graph_free(t.g);
    executor_free(x);
    registry_close(dev);
}
END_TEST

/* Evicting a plan whose kernels are still queued waits for them and reports what they raise. */
START_TEST(eviction_waits_for_queued_work)
{
    struct eo_tensor_desc d = harness_desc(EO_FLOAT32, SHAPE(4));
    struct eo_device *dev;
    struct executor *x;
    void *in, *out;
    int rc = EO_OK, n = 0;

    fake_device_configure(&(struct fake_device_options){.fail_launch = 3});
    dev = harness_device("fake");
    in = on_device(dev, (float[4]){0}, 16);
    out = on_device(dev, NULL, 4096);
    ASSERT_OK(executor_new(dev, &x, &err));
    for (; rc == EO_OK && n < 2 * EXECUTOR_MAX_PLANS; n++) {
        const struct eo_op_schema *clip = eo_op_schema(EO_OP_CLIP);
        struct eo_attrs attrs;

        eo_attrs_default(clip, &attrs);
        ASSERT_OK(eo_attrs_set_float(clip, &attrs, "high", n, &err));
        rc = run_op(x, EO_OP_CLIP, &attrs, &d, in, NULL, NULL, out, PLAN_STRICT, NULL);
    }
    ck_assert_int_eq(rc, EO_E_BACKEND_FAILED);
    ck_assert_int_eq(n, EXECUTOR_MAX_PLANS + 1);
    executor_free(x);
    dev->backend->free(dev, in, 16);
    dev->backend->free(dev, out, 4096);
    registry_close(dev);
    fake_device_configure(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {single_ops_compute,
                                  single_ops_are_told_apart,
                                  single_op_errors,
                                  single_op_falls_back_as_told,
                                  single_op_with_all_operands,
                                  shapes_from_data,
                                  cache_keeps_the_most_used,
                                  cache_is_bounded_by_constants_too,
                                  failed_compilations_are_not_kept,
                                  eviction_waits_for_queued_work};

    if (registry_add(&fake_backend, &err) != EO_OK) {
        return EXIT_FAILURE;
    }
    return eo_suite_run("executor", tests, EO_COUNT_OF(tests));
}
