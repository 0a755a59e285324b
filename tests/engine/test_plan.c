/* Places, policies and errors of plans, on every device: reference, cpu and the fake device, whose memory nobody else
 * can touch and whose queue runs late. */
#include "backends/registry.h"
#include "tests/engine/models.h"
#include "tests/support/fake_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;
static struct eo_graph *g;
static struct eo_builder b;

static const char *const devices[] = {"reference", "cpu", "fake"};

static void setup(void)
{
    g = eo_graph_new();
    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
}

static void teardown(void)
{
    eo_graph_free(g);
    g = NULL;
}

/* ---- running with places of the test's choice ---- */

enum { N_BUFFERS = 3, BUFFER_FLOATS = 64 };

struct memory_image {
    float f[N_BUFFERS][BUFFER_FLOATS];
};

struct run {
    struct plan_spec spec;
    struct plan_stats stats;
    bool graph_gone; /* free the graph before running */
};

static void run_on(const char *name, struct run *r, struct memory_image *image)
{
    struct eo_device *dev = harness_device(name);
    struct plan *plan;
    void *buffers[N_BUFFERS], *arena;

    ASSERT_OK(b.status);
    r->spec.graph = g;
    ASSERT_OK(plan_compile(&r->spec, dev, &plan, &err));
    if (r->graph_gone) {
        teardown();
    }
    r->stats = *plan_stats(plan);
    for (int i = 0; i < N_BUFFERS; i++) {
        ASSERT_OK(dev->backend->alloc(dev, sizeof(image->f[i]), &buffers[i], &err));
        ASSERT_OK(dev->backend->copy_in(dev, buffers[i], image->f[i], sizeof(image->f[i]), &err));
    }
    ASSERT_OK(dev->backend->alloc(dev, plan_arena_bytes(plan) + 64, &arena, &err));
    ASSERT_OK(plan_run(plan, buffers, arena, NULL, &err));
    for (int i = 0; i < N_BUFFERS; i++) {
        ASSERT_OK(dev->backend->copy_out(dev, image->f[i], buffers[i], sizeof(image->f[i]), &err));
        dev->backend->free(dev, buffers[i], sizeof(image->f[i]));
    }
    plan_free(plan);
    dev->backend->free(dev, arena, r->stats.arena_bytes + 64);
    registry_close(dev);
}

static struct memory_image numbered(void)
{
    struct memory_image image;

    for (int i = 0; i < N_BUFFERS * BUFFER_FLOATS; i++) {
        image.f[i / BUFFER_FLOATS][i % BUFFER_FLOATS] = (float)i;
    }
    return image;
}

#define PLACES(...)                                                                                                    \
    (const struct plan_place[]){__VA_ARGS__}, sizeof((struct plan_place[]){__VA_ARGS__}) / sizeof(struct plan_place)

static struct plan_spec spec_of(const struct plan_place *in, size_t n_in, const struct plan_place *out, size_t n_out)
{
    return (struct plan_spec){.inputs = in, .n_inputs = (uint32_t)n_in, .outputs = out, .n_outputs = (uint32_t)n_out};
}

/* A 4-element input; 4 floats lie at multiples of 16 bytes. */
static eo_value vector4(const char *name)
{
    return INPUT(g, name, EO_FLOAT32, 4);
}

static eo_value plus(eo_value x, double c)
{
    return eo_build_binary(&b, EO_OP_ADD, x, eo_build_scalar(&b, EO_FLOAT32, c));
}

static eo_value times(eo_value x, double c)
{
    return eo_build_binary(&b, EO_OP_MULTIPLY, x, eo_build_scalar(&b, EO_FLOAT32, c));
}

#define ON_EVERY_DEVICE(i) for (size_t i = 0; i < EO_COUNT_OF(devices); i++)

/* ---- places ---- */

START_TEST(update_in_place_needs_no_copy)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        struct run r = {0};
        eo_value x, y;

        setup();
        x = vector4("x");
        y = times(x, 2);
        r.spec = spec_of(PLACES({x, 0, 0}), PLACES({y, 0, 0}));
        run_on(devices[d], &r, &image);
        for (int i = 0; i < 5; i++) {
            ck_assert_float_eq(image.f[0][i], i < 4 ? 2 * (float)i : 4);
        }
        ck_assert_uint_eq(r.stats.n_steps, 1);
        ck_assert_uint_eq(r.stats.n_in_place, 1);
        ck_assert_uint_eq(r.stats.arena_bytes, 0);
        teardown();
    }
}
END_TEST

/* y replaces x, but z still reads x afterwards (or before): the values must be those of the old x. */
START_TEST(inputs_live_until_their_last_reader)
{
    for (int late = 0; late < 2; late++) {
        ON_EVERY_DEVICE(d)
        {
            struct memory_image image = numbered();
            struct run r = {0};
            eo_value x, y, z;

            setup();
            x = vector4("x");
            y = EO_NO_VALUE;
            if (late) {
                y = eo_build_reduce(&b, EO_OP_SUM, x, NULL, 0, true);
                y = eo_build_binary(&b, EO_OP_MULTIPLY, y, x);
            }
            z = eo_build_matmul(&b, x, x, false, false);
            if (!late) {
                y = eo_build_reduce(&b, EO_OP_SUM, x, NULL, 0, true);
                y = eo_build_binary(&b, EO_OP_MULTIPLY, y, x);
            }
            r.spec = spec_of(PLACES({x, 0, 0}), PLACES({y, 0, 0}, {z, 1, 0}));
            run_on(devices[d], &r, &image);
            ck_assert_float_eq(image.f[1][0], 14);
            for (int i = 0; i < 4; i++) {
                ck_assert_float_eq(image.f[0][i], 6 * (float)i);
            }
            teardown();
        }
    }
}
END_TEST

START_TEST(inputs_can_change_places)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        struct run r = {0};
        eo_value x, y;

        setup();
        x = vector4("x");
        y = vector4("y");
        r.spec = spec_of(PLACES({x, 0, 0}, {y, 1, 0}), PLACES({x, 1, 0}, {y, 0, 0}));
        run_on(devices[d], &r, &image);
        for (int i = 0; i < 4; i++) {
            ck_assert_float_eq(image.f[0][i], (float)(BUFFER_FLOATS + i));
            ck_assert_float_eq(image.f[1][i], (float)i);
        }
        teardown();
    }
}
END_TEST

/* An output that lies over the ends of two inputs, both read by other nodes, one of them after it is computed. */
START_TEST(outputs_may_overlap_inputs_partly)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        struct run r = {0};
        eo_value x, y, over, later;

        setup();
        x = vector4("x");
        y = vector4("y");
        over = times(x, 10);
        later = eo_build_matmul(&b, eo_build_unary(&b, EO_OP_NEGATIVE, over), y, false, false);
        r.spec = spec_of(PLACES({x, 0, 0}, {y, 0, 16}), PLACES({over, 0, 8}, {later, 1, 0}));
        run_on(devices[d], &r, &image);
        for (int i = 0; i < 4; i++) {
            ck_assert_float_eq(image.f[0][2 + i], 10 * (float)i);
        }
        ck_assert_float_eq(image.f[1][0], -10 * (0 * 4 + 1 * 5 + 2 * 6 + 3 * 7));
        teardown();
    }
}
END_TEST

/* x stays, x also goes elsewhere; y is wanted twice, as a view too, and is read on; a constant; an empty tensor. */
START_TEST(any_value_can_be_an_output)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        struct run r = {0};
        eo_value x, y, z, view, c, empty, nothing;

        setup();
        x = vector4("x");
        y = eo_build_unary(&b, EO_OP_NEGATIVE, x);
        view = eo_build_reshape(&b, y, (int64_t[]){2, 2}, 2);
        z = eo_build_reduce(&b, EO_OP_SUM, y, NULL, 0, false);
        c = eo_build_scalar(&b, EO_FLOAT32, 42);
        empty = INPUT(g, "empty", EO_FLOAT32, 0, 3);
        nothing = eo_build_reshape(&b, empty, (int64_t[]){3, 0}, 2);
        r.spec =
            spec_of(PLACES({x, 0, 0}, {empty, 0, 0}), PLACES({x, 0, 0}, {x, 1, 0}, {y, 1, 16}, {y, 1, 32},
                                                             {view, 1, 48}, {z, 1, 64}, {c, 1, 68}, {nothing, 1, 128}));
        run_on(devices[d], &r, &image);
        for (int i = 0; i < 4; i++) {
            ck_assert_float_eq(image.f[0][i], (float)i);
            ck_assert_float_eq(image.f[1][i], (float)i);
            for (int k = 1; k < 4; k++) {
                ck_assert_float_eq(image.f[1][4 * k + i], -(float)i);
            }
        }
        ck_assert_float_eq(image.f[1][16], -6);
        ck_assert_float_eq(image.f[1][17], 42);
        teardown();
    }
}
END_TEST

/* The optimizer's update: flat state replaced in place by a row with several results, without a copy or an arena. */
START_TEST(optimizer_state_is_replaced_in_place)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        double scalars[8] = {0.1, 0.9, 0.999, 1e-8, 0, 0.1, 0.001, 1};
        struct run r = {0};
        eo_value in[6], out[4];

        setup();
        in[0] = INPUT(g, "param", EO_FLOAT32, 16);
        in[1] = INPUT(g, "grad", EO_FLOAT32, 16);
        in[2] = INPUT(g, "m", EO_FLOAT32, 16);
        in[3] = INPUT(g, "v", EO_FLOAT32, 16);
        in[4] = INPUT(g, "vmax", EO_FLOAT32, 0);
        in[5] = INPUT(g, "scalars", EO_FLOAT64, 8);
        memset(image.f[0] + 32, 0, 32 * sizeof(float)); /* m, v */
        memcpy(image.f[1], scalars, sizeof(scalars));
        ASSERT_OK(eo_graph_add(g, EO_OP_ADAM_UPDATE, in, 6, NULL, out, &err));
        r.spec = spec_of(
            PLACES({in[0], 0, 0}, {in[1], 0, 64}, {in[2], 0, 128}, {in[3], 0, 192}, {in[4], 2, 0}, {in[5], 1, 0}),
            PLACES({out[0], 0, 0}, {out[1], 0, 128}, {out[2], 0, 192}, {out[3], 2, 0}));
        run_on(devices[d], &r, &image);
        for (int i = 0; i < 16; i++) {
            double grad = 16 + i; /* m = 0.1 g, v = 0.001 g^2; corrected: g and g^2: a step of lr */

            ck_assert_float_eq_tol(image.f[0][i], (float)i - 0.1F, 1e-5F);
            ck_assert_float_eq_tol(image.f[0][32 + i], (float)(0.1 * grad), 1e-4F);
            ck_assert_float_eq_tol(image.f[0][48 + i], (float)(0.001 * grad * grad), 1e-4F);
        }
        ck_assert_uint_eq(r.stats.n_steps, 1);
        ck_assert_uint_eq(r.stats.n_copies, 0);
        ck_assert_uint_eq(r.stats.arena_bytes, 0);
        ck_assert_uint_eq(r.stats.n_in_place, 3);
        teardown();
    }
}
END_TEST

START_TEST(plan_outlives_its_graph)
{
    ON_EVERY_DEVICE(d)
    {
        struct memory_image image = numbered();
        struct run r = {.graph_gone = true};
        eo_value x, y;

        setup();
        x = vector4("x");
        g->label = "labelled";
        y = eo_build_op(&b, EO_OP_CONCATENATE, (eo_value[]){times(x, 2), plus(x, 3)}, 2, NULL);
        r.spec = spec_of(PLACES({x, 0, 0}), PLACES({y, 1, 0}));
        run_on(devices[d], &r, &image);
        ck_assert_float_eq(image.f[1][3], 6);
        ck_assert_float_eq(image.f[1][7], 6);
    }
}
END_TEST

START_TEST(buffers_have_known_sizes)
{
    struct eo_device *dev = harness_device("reference");
    struct plan_spec spec;
    struct plan *plan;
    eo_value x, y;

    setup();
    x = vector4("x");
    y = plus(x, 1);
    spec = spec_of(PLACES({x, 0, 32}), PLACES({y, 2, 16}));
    spec.graph = g;
    ASSERT_OK(plan_compile(&spec, dev, &plan, &err));
    ck_assert_uint_eq(plan_buffer_bytes(plan, 0), 48);
    ck_assert_uint_eq(plan_buffer_bytes(plan, 1), 0);
    ck_assert_uint_eq(plan_buffer_bytes(plan, 2), 32);
    ck_assert_uint_eq(plan_buffer_bytes(plan, 3), 0);
    plan_free(plan);
    registry_close(dev);
    teardown();
}
END_TEST

/* ---- refusals ---- */

static void refused(struct eo_device *dev, struct plan_spec spec, int code, const char *part)
{
    struct plan *plan;

    spec.graph = g;
    ASSERT_CODE(plan_compile(&spec, dev, &plan, &err), code);
    ASSERT_CONTAINS(err.message, part);
}

START_TEST(wrong_places_are_refused)
{
    struct eo_device *dev = harness_device("reference");
    eo_value x, y, big;

    setup();
    x = vector4("x");
    y = plus(x, 1);
    big = INPUT(g, "big", EO_FLOAT32, 16);
    refused(dev, spec_of(NULL, 0, PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "\"x\" is used but has no place");
    refused(dev, spec_of(PLACES({x, 0, 0}, {x, 0, 64}), PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "two places");
    refused(dev, spec_of(PLACES({y, 0, 0}), PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "no input or state");
    refused(dev, spec_of(PLACES({x, 0, 2}), PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "no multiple of 4");
    refused(dev, spec_of(PLACES({big, 0, 32}), PLACES({big, 1, 0})), EO_E_BAD_GRAPH, "no multiple of 64");
    refused(dev, spec_of(PLACES({x, 128, 0}), PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "buffer 128");
    refused(dev, spec_of(PLACES({99, 0, 0}), PLACES({y, 1, 0})), EO_E_BAD_GRAPH, "value 99");
    refused(dev, spec_of(PLACES({x, 0, 0}), PLACES({99, 1, 0})), EO_E_BAD_GRAPH, "value 99");
    refused(dev, spec_of(PLACES({x, 0, 0}), PLACES({y, 1, 0}, {y, 1, 12})), EO_E_BAD_GRAPH, "overlap");
    refused(dev, spec_of(PLACES({x, 0, UINT64_MAX - 15}), PLACES({y, 1, 0})), EO_E_TOO_LARGE, "2^63");
    refused(dev, spec_of(PLACES({x, 0, 0}), PLACES({y, 1, (uint64_t)INT64_MAX - 3})), EO_E_TOO_LARGE, "2^63");
    registry_close(dev);
    teardown();
}
END_TEST

static bool declines_linear(const struct eo_node_view *node)
{
    return node->op != NULL && node->op->op == EO_OP_LINEAR;
}

/* The graph itself is bounded, but lowering may double it. */
START_TEST(endless_plans_are_refused)
{
    struct eo_device *dev;
    struct plan_spec spec;
    eo_value x, y, weight, bias;

    fake_device_configure(&(struct fake_device_options){.declines = declines_linear});
    dev = harness_device("fake");
    setup();
    x = y = INPUT(g, "x", EO_FLOAT32, 1);
    weight = INPUT(g, "weight", EO_FLOAT32, 1, 1);
    bias = INPUT(g, "bias", EO_FLOAT32, 1);
    for (int i = 0; i <= PLAN_MAX_STEPS / 2; i++) {
        y = eo_build_op(&b, EO_OP_LINEAR, (eo_value[]){y, weight, bias}, 3, NULL);
    }
    ASSERT_OK(b.status);
    spec = spec_of(PLACES({x, 0, 0}, {weight, 0, 64}, {bias, 0, 128}), PLACES({y, 1, 0}));
    refused(dev, spec, EO_E_TOO_LARGE, "at most 131072");
    registry_close(dev);
    fake_device_configure(NULL);
    teardown();
}
END_TEST

START_TEST(arena_beyond_all_memory_is_an_error)
{
    struct eo_device *dev = harness_device("fake");
    const int64_t huge = (int64_t)1 << 60;
    struct plan_spec spec;
    struct executor *x;
    struct plan *plan;
    void *buffers[2] = {0};
    eo_value in, y;

    setup();
    in = SCALAR_INPUT(g, "x", EO_FLOAT32);
    y = eo_build_expand(&b, in, &huge, 1);
    y = eo_build_reduce(&b, EO_OP_SUM, eo_build_unary(&b, EO_OP_EXP, y), NULL, 0, false);
    spec = spec_of(PLACES({in, 0, 0}), PLACES({y, 1, 0}));
    spec.graph = g;
    ASSERT_OK(plan_compile(&spec, dev, &plan, &err));
    ck_assert_uint_ge(plan_arena_bytes(plan), (uint64_t)4 * (uint64_t)huge);
    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_CODE(executor_run(x, plan, buffers, NULL, &err), EO_E_DEVICE_MEMORY);
    ASSERT_CONTAINS(err.contexts[0], "intermediate results");
    plan_free(plan);
    /* Two of them do not even fit in 63 bits. */
    y = eo_build_binary(&b, EO_OP_ADD, eo_build_expand(&b, in, &huge, 1), eo_build_expand(&b, plus(in, 1), &huge, 1));
    y = eo_build_reduce(
        &b, EO_OP_SUM,
        eo_build_unary(&b, EO_OP_EXP, eo_build_binary(&b, EO_OP_SUBTRACT, y, eo_build_unary(&b, EO_OP_TANH, y))), NULL,
        0, false);
    spec = spec_of(PLACES({in, 0, 0}), PLACES({y, 1, 0}));
    spec.without = PLAN_WITHOUT(IN_PLACE) | PLAN_WITHOUT(SIMPLIFY);
    refused(dev, spec, EO_E_TOO_LARGE, "2^63");
    executor_free(x);
    registry_close(dev);
    teardown();
}
END_TEST

START_TEST(constants_beyond_device_memory_are_an_error)
{
    struct eo_tensor_desc d = harness_desc(EO_FLOAT32, SHAPE(1 << 18));
    float *data = calloc(1 << 18, sizeof(*data));
    struct eo_device *dev;
    struct plan_spec spec;
    eo_value x, c, y;

    ck_assert_ptr_nonnull(data);
    data[0] = 1; /* not all the same: a filled tensor would shrink to a scalar */
    fake_device_configure(&(struct fake_device_options){.memory_bytes = 1 << 19});
    dev = harness_device("fake");
    setup();
    x = SCALAR_INPUT(g, "x", EO_FLOAT32);
    ASSERT_OK(eo_graph_constant(g, &d, data, &c, &err));
    y = eo_build_reduce(&b, EO_OP_SUM, eo_build_binary(&b, EO_OP_MULTIPLY, x, c), NULL, 0, false);
    spec = spec_of(PLACES({x, 0, 0}), PLACES({y, 1, 0}));
    refused(dev, spec, EO_E_DEVICE_MEMORY, "1048576");
    ck_assert_int_eq(fake_device_stats(dev).live_blocks, 0);
    registry_close(dev);
    fake_device_configure(NULL);
    teardown();
    free(data);
}
END_TEST

/* ---- unsupported operations ---- */

static bool declines_relu(const struct eo_node_view *node)
{
    return node->op != NULL && node->op->op == EO_OP_RELU;
}

static struct plan_spec relu_spec(eo_value *out_x)
{
    static struct plan_place places[2];
    eo_value y;

    *out_x = vector4("x");
    g->label = "hidden1";
    y = eo_build_unary(&b, EO_OP_RELU, times(plus(*out_x, -1.5), -1));
    places[0] = (struct plan_place){*out_x, 0, 0};
    places[1] = (struct plan_place){y, 1, 0};
    return spec_of(&places[0], 1, &places[1], 1);
}

START_TEST(strict_refuses_with_all_reasons)
{
    struct eo_device *dev;
    struct plan *plan;
    struct plan_spec spec;
    eo_value x;

    fake_device_configure(&(struct fake_device_options){.declines = declines_relu});
    dev = harness_device("fake");
    setup();
    spec = relu_spec(&x);
    spec.graph = g;
    ASSERT_CODE(plan_compile(&spec, dev, &plan, &err), EO_E_UNSUPPORTED);
    ck_assert_str_eq(err.op, "relu");
    ASSERT_CONTAINS(err.node, "hidden1");
    ASSERT_CONTAINS(err.detail, "declined by the test's options");
    ASSERT_CONTAINS(err.hint, "report");
    ck_assert_str_eq(err.backend, "fake");
    ck_assert_int_eq(err.n_inputs, 1);
    ck_assert_str_eq(err.inputs[0].name, "x");
    ck_assert_str_eq(err.inputs[0].dtype, "float32");
    registry_close(dev);
    fake_device_configure(NULL);
    teardown();
}
END_TEST

START_TEST(report_runs_elsewhere_and_says_so)
{
    for (int threaded = 0; threaded < 2; threaded++) {
        struct memory_image image = numbered();
        struct run r = {0};
        eo_value x;

        fake_device_configure(&(struct fake_device_options){.declines = declines_relu, .threaded = threaded != 0});
        setup();
        r.spec = relu_spec(&x);
        r.spec.fallback = PLAN_REPORT;
        run_on("fake", &r, &image);
        ck_assert_float_eq(image.f[1][0], 1.5F);
        ck_assert_float_eq(image.f[1][1], 0.5F);
        ck_assert_float_eq(image.f[1][2], 0);
        ck_assert_uint_eq(r.stats.n_fallback, 1);
        ASSERT_CONTAINS(r.stats.fallback_ops, "relu (fake: fake.relu: declined by the test's options");
        fake_device_configure(NULL);
        teardown();
    }
}
END_TEST

/* Composites are kept: lowered ones would round between their primitives. */
static bool declines_primitives(const struct eo_node_view *node)
{
    return node->op == NULL || (node->op->flags & EO_OPF_COMPOSITE) == 0;
}

/* A training step that runs elsewhere has the same bits. */
START_TEST(report_changes_no_result)
{
    double *got[2][MLP_OUTPUTS];
    eo_value outputs[MLP_OUTPUTS];
    struct mlp m;

    mlp_build(&m, EO_FLOAT32, 5, 4, 6, 3, true);
    mlp_outputs(&m, outputs);
    for (int run = 0; run < 2; run++) {
        struct harness_options options = {.fallback = PLAN_REPORT};
        struct eo_device *dev;
        struct harness h;

        fake_device_configure(&(struct fake_device_options){.declines = run == 1 ? declines_primitives : NULL});
        dev = harness_device("fake");
        ASSERT_OK(harness_open(&h, dev, m.g, outputs, MLP_OUTPUTS, options, &err));
        ck_assert(run == 1 ? plan_stats(h.plan)->n_fallback > 5 : plan_stats(h.plan)->n_fallback == 0);
        mlp_feed(&m, &h);
        ASSERT_OK(harness_run(&h, &err));
        ck_assert_uint_eq(executor_counters(h.executor).fallbacks, plan_stats(h.plan)->n_fallback);
        for (uint32_t o = 0; o < MLP_OUTPUTS; o++) {
            got[run][o] = calloc(4096, sizeof(double));
            ck_assert_ptr_nonnull(got[run][o]);
            harness_fetch(&h, o, got[run][o]);
        }
        harness_close(&h);
        registry_close(dev);
    }
    for (int o = 0; o < MLP_OUTPUTS; o++) {
        ck_assert_mem_eq(got[0][o], got[1][o], 4096 * sizeof(double));
        free(got[0][o]);
        free(got[1][o]);
    }
    fake_device_configure(NULL);
    mlp_free(&m);
}
END_TEST

static int decline_additions(struct eo_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                             struct eo_error *error)
{
    if (node->fused == NULL && node->op->op != EO_OP_ADD) {
        return registry_find("cpu")->select(dev, node, out, error);
    }
    (void)EO_RAISE(error, EO_E_UNSUPPORTED, "no additions here");
    eo_error_detail(error, "cpu.add: declined by the test.");
    return EO_E_UNSUPPORTED;
}

/* On a device with host memory operands are used where they are: the cpu backend, made to decline what it has. */
START_TEST(report_works_without_staging)
{
    struct eo_device *dev = harness_device("cpu");
    const struct eo_backend *whole = dev->backend;
    struct eo_backend picky = *whole;
    const int16_t x[3] = {1, -2, 30000};
    int16_t y[3];
    struct harness h;
    eo_value in, out;

    picky.select = decline_additions;
    dev->backend = &picky;
    setup();
    in = INPUT(g, "x", EO_INT16, 3);
    out = eo_build_binary(&b, EO_OP_ADD, in, in);
    ck_assert_int_eq(harness_open(&h, dev, g, &out, 1, (struct harness_options){0}, &err), EO_E_UNSUPPORTED);
    ck_assert_str_ne(err.detail, "");
    ASSERT_OK(harness_open(&h, dev, g, &out, 1, (struct harness_options){.fallback = PLAN_REPORT}, &err));
    harness_feed(&h, in, x);
    ASSERT_OK(harness_run(&h, &err));
    harness_fetch(&h, 0, y);
    ck_assert_int_eq(y[1], -4);
    ck_assert_int_eq(y[2], 60000 - 65536);
    ASSERT_CONTAINS(plan_stats(h.plan)->fallback_ops, "add (cpu: ");
    harness_close(&h);
    dev->backend = whole;
    registry_close(dev);
    teardown();
}
END_TEST

/* ---- failures while running ---- */

START_TEST(run_errors_say_where)
{
    ON_EVERY_DEVICE(d)
    {
        struct eo_device *dev = harness_device(devices[d]);
        const int64_t bad[2] = {0, 5};
        struct harness h;
        eo_value x, i, y;

        setup();
        x = INPUT(g, "x", EO_FLOAT32, 3, 2);
        i = INPUT(g, "i", EO_INT64, 2);
        g->label = "embedding";
        y = eo_build_op(&b, EO_OP_GATHER, (eo_value[]){x, i}, 2, NULL);
        ASSERT_OK(harness_open(&h, dev, g, &y, 1, (struct harness_options){0}, &err));
        harness_feed(&h, x, (float[6]){0});
        harness_feed(&h, i, bad);
        ASSERT_CODE(harness_run(&h, &err), EO_E_BAD_VALUE);
        ASSERT_CONTAINS(err.message, "5");
        if (dev->info.host_memory) { /* queued work reports later, when nobody knows the node */
            ck_assert_str_eq(err.op, "gather");
            ASSERT_CONTAINS(err.node, "2 \"embedding\"");
            ck_assert_int_eq(err.n_inputs, 2);
            ck_assert_str_eq(err.inputs[1].name, "indices");
            ck_assert_str_eq(err.backend, devices[d]);
        }
        harness_close(&h);
        registry_close(dev);
        teardown();
    }
}
END_TEST

START_TEST(queued_failures_are_not_lost)
{
    struct eo_device *dev;
    struct harness h;
    eo_value x, y;

    fake_device_configure(&(struct fake_device_options){.fail_launch = 2});
    dev = harness_device("fake");
    setup();
    x = vector4("x");
    y = plus(eo_build_unary(&b, EO_OP_EXP, x), 1);
    ASSERT_OK(harness_open(&h, dev, g, &y, 1, (struct harness_options){0}, &err));
    harness_feed(&h, x, (float[4]){0});
    ASSERT_CODE(harness_run(&h, &err), EO_E_BACKEND_FAILED);
    ASSERT_OK(harness_run(&h, &err));
    harness_close(&h);
    registry_close(dev);
    fake_device_configure(NULL);
    teardown();
}
END_TEST

/* A queued gather fails; the fallback that waits for it must not be blamed. */
START_TEST(fallbacks_are_not_blamed_for_earlier_work)
{
    struct harness_options options = {.fallback = PLAN_REPORT};
    struct eo_device *dev;
    struct harness h;
    eo_value x, i, y;

    fake_device_configure(&(struct fake_device_options){.declines = declines_relu});
    dev = harness_device("fake");
    setup();
    x = vector4("x");
    i = INPUT(g, "i", EO_INT64, 1);
    y = eo_build_op(&b, EO_OP_GATHER, (eo_value[]){x, i}, 2, NULL);
    y = eo_build_unary(&b, EO_OP_RELU, y);
    ASSERT_OK(harness_open(&h, dev, g, &y, 1, options, &err));
    harness_feed(&h, x, (float[4]){0});
    harness_feed(&h, i, (int64_t[]){99});
    ASSERT_CODE(harness_run(&h, &err), EO_E_BAD_VALUE);
    ck_assert_str_eq(err.op, "queued work");
    ck_assert_str_eq(err.node, "");
    harness_close(&h);
    registry_close(dev);
    fake_device_configure(NULL);
    teardown();
}
END_TEST

START_TEST(profile_times_each_step)
{
    struct eo_device *dev = harness_device("fake");
    struct plan_step_time times[2];
    struct plan_profile profile = {times, 0, 2};
    struct harness h;
    eo_value x, y;
    uint64_t launches = dev->n_launches;

    setup();
    x = vector4("x");
    g->label = "first";
    y = eo_build_unary(&b, EO_OP_EXP, x);
    g->label = NULL;
    y = eo_build_reduce(&b, EO_OP_SUM, y, NULL, 0, false);
    y = eo_build_unary(&b, EO_OP_LOG, y);
    ASSERT_OK(harness_open(&h, dev, g, &y, 1, (struct harness_options){0}, &err));
    harness_feed(&h, x, (float[4]){0});
    ASSERT_OK(executor_run(h.executor, h.plan, h.buffers, &profile, &err));
    ck_assert_uint_eq(profile.n, 2); /* its capacity; all three ran */
    ck_assert_uint_eq(dev->n_launches - launches, 3);
    ck_assert_str_eq(times[0].kernel, "reference.exp");
    ck_assert_str_eq(times[0].label, "first");
    ck_assert_ptr_null(times[1].label);
    ck_assert_str_eq(plan_kernel(h.plan, 2), "reference.log");
    ck_assert_ptr_null(plan_kernel(h.plan, 3));
    harness_close(&h);
    registry_close(dev);
    teardown();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {update_in_place_needs_no_copy,
                                  inputs_live_until_their_last_reader,
                                  inputs_can_change_places,
                                  outputs_may_overlap_inputs_partly,
                                  any_value_can_be_an_output,
                                  optimizer_state_is_replaced_in_place,
                                  plan_outlives_its_graph,
                                  buffers_have_known_sizes,
                                  wrong_places_are_refused,
                                  endless_plans_are_refused,
                                  arena_beyond_all_memory_is_an_error,
                                  constants_beyond_device_memory_are_an_error,
                                  strict_refuses_with_all_reasons,
                                  report_runs_elsewhere_and_says_so,
                                  report_changes_no_result,
                                  report_works_without_staging,
                                  run_errors_say_where,
                                  queued_failures_are_not_lost,
                                  fallbacks_are_not_blamed_for_earlier_work,
                                  profile_times_each_step};

    if (registry_add(&fake_backend, &err) != EO_OK) {
        return EXIT_FAILURE;
    }
    return eo_suite_run("plan", tests, EO_COUNT_OF(tests));
}
