/* Random graphs: the same graph with and without passes, on every device, with results over inputs, gives the same
 * results. On the reference backend and on the fake device, which computes with it, to the bit; on the cpu, for graphs
 * without kinks, within rounding. Seeds are fixed, so a failure repeats; it names the seed. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"
#include "tests/support/fake_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

enum { ALL = (1U << PLAN_PASS_COUNT) - 1, MAX_NODES = 600, N_INPUTS = 4, MAX_OUTPUTS = 16, MAX_ELEMENTS = 4096 };

struct maker {
    struct eo_graph *g;
    struct eo_builder b;
    enum eo_dtype dtype;
    bool smooth; /* no kinks: small errors stay small */
    uint64_t seed, draws;
    eo_value pool[4 * MAX_NODES];
    int n;
    eo_value rng;
    eo_value inputs[N_INPUTS];
    eo_value outputs[MAX_OUTPUTS];
    int over[MAX_OUTPUTS];
    int n_outputs;
};

static int draw(struct maker *m, int below)
{
    return (int)(harness_random(m->seed, m->draws++) * below);
}

static eo_value pick(struct maker *m)
{
    /* Recent values more often: chains rather than stars. */
    return m->pool[EO_MAX(draw(m, m->n), draw(m, m->n))];
}

static struct eo_tensor_desc desc(const struct maker *m, eo_value v)
{
    return *eo_build_desc(&m->b, v);
}

static void keep(struct maker *m, eo_value v)
{
    ASSERT_OK(m->b.status);
    if (desc(m, v).dtype == m->dtype && eo_tensor_desc_count(eo_graph_desc(m->g, v)) <= MAX_ELEMENTS) {
        m->pool[m->n++] = v;
    }
}

static eo_value scalar(struct maker *m, double v)
{
    return eo_build_scalar(&m->b, m->dtype, v);
}

/* Keeps numbers in a range where nothing overflows, whatever comes before. */
static eo_value tame(struct maker *m, eo_value v)
{
    return eo_build_binary(&m->b, EO_OP_MULTIPLY, eo_build_unary(&m->b, EO_OP_TANH, v), scalar(m, 1.5));
}

static eo_value same_shape_partner(struct maker *m, eo_value v)
{
    for (int tries = 0; tries < 8; tries++) {
        eo_value other = pick(m);
        struct eo_tensor_desc a = desc(m, v), b = desc(m, other);
        const struct eo_tensor_desc *both[2] = {&a, &b};
        int64_t shape[EO_MAX_DIMS];
        int n;

        if (eo_broadcast_shapes(both, 2, shape, &n, "test", NULL) == EO_OK) {
            return other;
        }
    }
    return v;
}

static eo_value make_unary(struct maker *m)
{
    static const enum eo_op smooth[] = {EO_OP_TANH, EO_OP_SIGMOID, EO_OP_NEGATIVE, EO_OP_SOFTPLUS, EO_OP_TANH};
    static const enum eo_op kinked[] = {EO_OP_RELU, EO_OP_ABS, EO_OP_TANH, EO_OP_SIGN, EO_OP_NEGATIVE};
    int i = draw(m, (int)EO_COUNT_OF(smooth));

    return eo_build_unary(&m->b, m->smooth ? smooth[i] : kinked[i], pick(m));
}

static eo_value make_binary(struct maker *m)
{
    static const enum eo_op smooth[] = {EO_OP_ADD, EO_OP_SUBTRACT, EO_OP_MULTIPLY};
    static const enum eo_op kinked[] = {EO_OP_ADD, EO_OP_MAXIMUM, EO_OP_MINIMUM};
    int i = draw(m, (int)EO_COUNT_OF(smooth));
    eo_value a = pick(m), b = same_shape_partner(m, a);
    bool swap = draw(m, 2) != 0;

    return tame(m, eo_build_binary(&m->b, m->smooth ? smooth[i] : kinked[i], swap ? b : a, swap ? a : b));
}

/* What passes look for: neutral constants, filled tensors, casts to the same dtype, the same node twice. */
static eo_value make_bait(struct maker *m)
{
    eo_value v = pick(m), w;

    switch (draw(m, 6)) {
    case 0:
        return eo_build_binary(&m->b, EO_OP_MULTIPLY, scalar(m, 1), v);
    case 1:
        return eo_build_binary(&m->b, EO_OP_DIVIDE, v, eo_build_full_like(&m->b, v, 1));
    case 2:
        return eo_build_binary(&m->b, EO_OP_SUBTRACT, v, scalar(m, 0));
    case 3:
        return eo_build_binary(&m->b, EO_OP_MULTIPLY, eo_build_full_like(&m->b, v, 0.5), v);
    case 4:
        w = eo_build_binary(&m->b, EO_OP_MULTIPLY, v, v);
        keep(m, eo_build_binary(&m->b, EO_OP_MULTIPLY, v, v));
        return tame(m, w);
    default:
        return eo_build_binary(&m->b, EO_OP_ADD, v, eo_build_unary(&m->b, EO_OP_TANH, scalar(m, 0.3)));
    }
}

static eo_value make_choice(struct maker *m)
{
    eo_value a = pick(m), b = same_shape_partner(m, a);
    eo_value condition = eo_build_binary(&m->b, draw(m, 2) ? EO_OP_LESS : EO_OP_GREATER_EQUAL, a, scalar(m, 0.1234567));

    return eo_build_where(&m->b, condition, b, draw(m, 2) ? a : scalar(m, 0.25));
}

static eo_value make_reduction(struct maker *m)
{
    static const enum eo_op smooth[] = {EO_OP_SUM, EO_OP_MEAN, EO_OP_VARIANCE};
    static const enum eo_op kinked[] = {EO_OP_SUM, EO_OP_MAX, EO_OP_MIN};
    eo_value v = pick(m);
    struct eo_tensor_desc d = desc(m, v);
    int64_t axis = d.n_dims > 0 ? draw(m, d.n_dims) : 0;
    int i = draw(m, (int)EO_COUNT_OF(smooth));

    if (eo_tensor_desc_count(&d) == 0) { /* max and min of nothing do not exist, a mean of nothing is NaN */
        i = 0;
    }
    return tame(m, eo_build_reduce(&m->b, m->smooth ? smooth[i] : kinked[i], v, &axis, d.n_dims > 0 && draw(m, 4) > 0,
                                   draw(m, 2) != 0));
}

static eo_value make_product(struct maker *m)
{
    eo_value v = pick(m), w;
    struct eo_tensor_desc d = desc(m, v);
    int64_t swap[EO_MAX_DIMS];

    if (d.n_dims < 2) {
        return d.n_dims == 1 ? tame(m, eo_build_matmul(&m->b, v, v, false, false)) : v;
    }
    for (int i = 0; i < d.n_dims; i++) {
        swap[i] = i;
    }
    swap[d.n_dims - 1] = d.n_dims - 2;
    swap[d.n_dims - 2] = d.n_dims - 1;
    w = draw(m, 2) ? eo_build_transpose(&m->b, v, swap, d.n_dims) : v;
    return tame(m, eo_build_matmul(&m->b, v, w, false, w == v));
}

static eo_value slice_of(struct maker *m, eo_value v, int64_t step)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SLICE);
    struct eo_tensor_desc d = desc(m, v);
    int64_t starts[EO_MAX_DIMS], stops[EO_MAX_DIMS], steps[EO_MAX_DIMS];
    struct eo_attrs attrs;

    for (int i = 0; i < d.n_dims; i++) {
        steps[i] = i == 0 ? step : 1;
        starts[i] = steps[i] < 0 ? -1 : 0;
        stops[i] = steps[i] < 0 ? INT64_MIN / 2 : d.shape[i];
    }
    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "starts", starts, d.n_dims, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "stops", stops, d.n_dims, &err));
    ASSERT_OK(eo_attrs_set_ints(op, &attrs, "steps", steps, d.n_dims, &err));
    return eo_build_op(&m->b, EO_OP_SLICE, &v, 1, &attrs);
}

static eo_value make_move(struct maker *m)
{
    eo_value v = pick(m);
    struct eo_tensor_desc d = desc(m, v);
    int64_t flat = eo_tensor_desc_count(&d), wide[EO_MAX_DIMS + 1] = {2};

    switch (draw(m, 6)) {
    case 0:
        return eo_build_reshape(&m->b, v, &flat, 1);
    case 1:
        return eo_build_transpose(&m->b, v, NULL, 0);
    case 2: /* a new dimension of size 1 or 2 in front */
        if (d.n_dims >= 4) {
            return v;
        }
        wide[0] = 1 + draw(m, 2);
        memcpy(wide + 1, d.shape, sizeof(d.shape));
        return eo_build_expand(&m->b, v, wide, d.n_dims + 1);
    case 3:
        return d.n_dims > 0 ? slice_of(m, v, 1 + draw(m, 2)) : v;
    case 4:
        return d.n_dims > 0 ? slice_of(m, v, -1) : v;
    default:
        return d.n_dims > 0 ? eo_build_op(&m->b, EO_OP_CONCATENATE, (eo_value[]){v, v}, 2, NULL) : v;
    }
}

static eo_value make_special(struct maker *m)
{
    eo_value v = pick(m);
    struct eo_tensor_desc d = desc(m, v), i = harness_desc(EO_INT64, SHAPE(2));
    eo_value index;

    switch (draw(m, 3)) {
    case 0:
        return d.n_dims > 0 && d.shape[d.n_dims - 1] > 0 ? eo_build_unary(&m->b, EO_OP_SOFTMAX, v) : v;
    case 1:
        return eo_build_op(&m->b, EO_OP_DROPOUT, (eo_value[]){v, m->rng}, 2, NULL);
    default:
        if (d.n_dims == 0 || d.shape[0] == 0) {
            return v;
        }
        ASSERT_OK(eo_graph_constant(m->g, &i, (int64_t[2]){0, -1}, &index, &err));
        return eo_build_op(&m->b, EO_OP_GATHER, (eo_value[]){v, index}, 2, NULL);
    }
}

static void make_node(struct maker *m)
{
    static eo_value (*const makers[])(struct maker *) = {make_unary,     make_unary,   make_binary, make_binary,
                                                         make_bait,      make_bait,    make_move,   make_move,
                                                         make_reduction, make_product, make_special};
    int kind = draw(m, (int)EO_COUNT_OF(makers) + 1);

    keep(m, kind < (int)EO_COUNT_OF(makers) ? makers[kind](m) : m->smooth ? make_unary(m) : make_choice(m));
}

/* Inputs, a scalar, a constant, values in the middle, gradients; the same value now and then twice. */
static void choose_outputs(struct maker *m)
{
    eo_value grads[N_INPUTS], total = scalar(m, 0);

    for (int i = 0; i < 4; i++) {
        eo_value v = m->pool[m->n - 1 - draw(m, EO_MIN(m->n, 10))];

        total = eo_build_binary(&m->b, EO_OP_ADD, total, eo_build_reduce(&m->b, EO_OP_SUM, v, NULL, 0, false));
        m->outputs[m->n_outputs++] = v;
        m->outputs[m->n_outputs++] = pick(m);
    }
    ASSERT_OK(m->b.status);
    ASSERT_OK(autodiff_gradients(m->g, total, EO_NO_VALUE, m->inputs, N_INPUTS, grads, &err));
    for (int i = 0; i < N_INPUTS; i++) {
        m->outputs[m->n_outputs++] = grads[i];
    }
    m->outputs[m->n_outputs++] = total;
}

/* Lets outputs take the places of inputs of their description, each input at most once. */
static void choose_places(struct maker *m)
{
    bool taken[N_INPUTS] = {false};

    for (int o = 0; o < m->n_outputs; o++) {
        int i = draw(m, N_INPUTS);

        m->over[o] = -1;
        if (!taken[i] && eo_tensor_desc_equal(eo_graph_desc(m->g, m->outputs[o]), eo_graph_desc(m->g, m->inputs[i]))) {
            m->over[o] = i;
            taken[i] = true;
        }
    }
}

static void make_graph(struct maker *m, uint64_t seed, enum eo_dtype dtype, bool smooth)
{
    *m = (struct maker){.g = eo_graph_new(), .dtype = dtype, .smooth = smooth, .seed = seed};
    ck_assert_ptr_nonnull(m->g);
    eo_build_init(&m->b, m->g, &err);
    m->inputs[0] = INPUT(m->g, "a", dtype, 4, 3);
    m->inputs[1] = INPUT(m->g, "b", dtype, 3);
    m->inputs[2] = SCALAR_INPUT(m->g, "c", dtype);
    m->inputs[3] = draw(m, 4) == 0 ? INPUT(m->g, "d", dtype, 0, 3) : INPUT(m->g, "d", dtype, 4, 1);
    m->rng = INPUT(m->g, "rng", EO_INT64, 3);
    for (int i = 0; i < N_INPUTS; i++) {
        keep(m, m->inputs[i]);
    }
    for (int n = seed % 16 == 15 ? MAX_NODES : 10 + draw(m, 50); n > 0; n--) { /* now and then a large one */
        make_node(m);
    }
    choose_outputs(m);
    choose_places(m);
}

/* ---- running ---- */

struct results {
    size_t n;
    double v[MAX_OUTPUTS * MAX_ELEMENTS];
};

static void run(struct maker *m, const char *device, struct harness_options options, struct results *out)
{
    struct eo_device *dev = harness_device(device);
    double *data = calloc(MAX_ELEMENTS, sizeof(double)); /* room for any dtype */
    struct harness h;

    ck_assert_ptr_nonnull(data);
    ASSERT_OK(harness_open(&h, dev, m->g, m->outputs, (uint32_t)m->n_outputs, options, &err));
    for (int i = 0; i < N_INPUTS; i++) {
        for (int64_t e = 0; e < eo_tensor_desc_count(eo_graph_desc(m->g, m->inputs[i])); e++) {
            harness_set(m->dtype, data, e, 2 * harness_random(m->seed + 1000, (uint64_t)((int64_t)i * 100 + e)) - 1);
        }
        harness_feed(&h, m->inputs[i], data);
    }
    harness_feed(&h, m->rng, (int64_t[3]){1, 2, 3});
    ASSERT_OK(harness_run(&h, &err));
    out->n = 0;
    for (int o = 0; o < m->n_outputs; o++) {
        harness_fetch(&h, (uint32_t)o, data);
        for (int64_t e = 0; e < eo_tensor_desc_count(eo_graph_desc(m->g, m->outputs[o])); e++) {
            out->v[out->n++] = harness_get(m->dtype, data, e);
        }
    }
    harness_close(&h);
    registry_close(dev);
    free(data);
}

static struct results wanted, got;

static void compare(const struct maker *m, const char *what, double tolerance)
{
    ck_assert_uint_eq(got.n, wanted.n);
    for (size_t i = 0; i < got.n; i++) {
        double w = wanted.v[i], difference = fabs(got.v[i] - w);
        bool same = isnan(w) ? isnan(got.v[i]) : w == got.v[i] || difference <= tolerance * (1 + fabs(w));

        ck_assert_msg(same, "seed %llu, %s: number %zu is %.17g, not %.17g", (unsigned long long)m->seed, what, i,
                      got.v[i], w);
    }
}

static void on_exact_devices(uint64_t seed, enum eo_dtype dtype)
{
    struct maker m;

    make_graph(&m, seed, dtype, seed % 3 == 0);
    run(&m, "reference", (struct harness_options){.without = ALL}, &wanted);
    run(&m, "reference", (struct harness_options){.over = m.over}, &got);
    compare(&m, "all passes, over inputs", 0);
    run(&m, "reference", (struct harness_options){.without = (uint32_t)draw(&m, ALL), .over = m.over}, &got);
    compare(&m, "some passes", 0);
    run(&m, "reference", (struct harness_options){.without = ALL, .over = m.over}, &got);
    compare(&m, "no passes, over inputs", 0);
    run(&m, "fake", (struct harness_options){.over = m.over}, &got);
    compare(&m, "fake device", 0);
    eo_graph_free(m.g);
}

static void on_the_cpu(uint64_t seed, enum eo_dtype dtype, double tolerance)
{
    struct maker m;

    make_graph(&m, seed, dtype, true);
    run(&m, "reference", (struct harness_options){.without = ALL}, &wanted);
    run(&m, "cpu", (struct harness_options){.over = m.over, .fallback = PLAN_REPORT}, &got);
    compare(&m, "cpu, all passes", tolerance);
    run(&m, "cpu", (struct harness_options){.without = ALL, .fallback = PLAN_REPORT}, &got);
    compare(&m, "cpu, no passes", tolerance);
    eo_graph_free(m.g);
}

enum { N_SEEDS = 150 };

START_TEST(passes_change_no_bit)
{
    fake_device_configure(NULL);
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        on_exact_devices(seed, seed % 2 ? EO_FLOAT32 : EO_FLOAT64);
    }
}
END_TEST

START_TEST(queued_devices_change_no_bit)
{
    fake_device_configure(&(struct fake_device_options){.threaded = true});
    for (uint64_t seed = 0; seed < N_SEEDS / 5; seed++) {
        on_exact_devices(1000000 + seed, EO_FLOAT32);
    }
    fake_device_configure(NULL);
}
END_TEST

/* Gradients through tens of nodes multiply rounding errors; the factors leave room for that. */
START_TEST(the_cpu_agrees_within_rounding)
{
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        on_the_cpu(2000000 + seed, EO_FLOAT64, 1e-10);
        on_the_cpu(3000000 + seed, EO_FLOAT32, 2e-3);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {passes_change_no_bit, queued_devices_change_no_bit, the_cpu_agrees_within_rounding};

    if (registry_add(&fake_backend, &err) != EO_OK) {
        return EXIT_FAILURE;
    }
    return eo_suite_run("graphs", tests, EO_COUNT_OF(tests));
}
