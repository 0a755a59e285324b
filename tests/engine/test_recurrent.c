/* rnn, lstm and gru against PyTorch 1.13: the first three cases are its own layers on packed sequences (gates put into
 * ONNX's order), the others ONNX's formulas written with its autograd. Values and all gradients, in float64. Then what
 * long sequences cost. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/call.h"
#include "tests/proto/op_case.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { MOST = 64 };

struct recurrent_case {
    enum eo_op op;
    const char *attrs;
    const char
        *in[CALL_MAX_INPUTS]; /* operand k holds sin(10 k' + 1.7 i) / 2, k' counted as below; an empty one: a hole */
    double lengths[4];
    double out[3][MOST], grad[CALL_MAX_INPUTS][MOST];
};

static const struct recurrent_case cases[] = {
#include "tests/engine/recurrent_cases.def"
};

/* Numbers of the operands in the formula of the data: lengths have none. */
static const int numbers[CALL_MAX_INPUTS] = {1, 2, 3, 4, 0, 5, 6, 7};

static int count_of(const char *desc)
{
    struct eo_tensor_desc d = op_case_desc(desc);

    return (int)eo_tensor_desc_count(&d);
}

static void check(struct eo_device *dev, const struct recurrent_case *c, int number)
{
    static double data[CALL_MAX_INPUTS][MOST];
    struct call call = {.op = c->op, .attrs = c->attrs};
    struct call_result r;
    struct eo_error err;
    char what[64];

    for (int i = 0; i < CALL_MAX_INPUTS && c->in[i] != NULL; i++) {
        for (int e = 0; e < count_of(c->in[i]); e++) {
            data[i][e] = i == 4 ? c->lengths[e] : sin(10 * numbers[i] + 1.7 * e) * 0.5;
        }
        call.in[i].desc = c->in[i];
        call.in[i].data = data[i];
    }
    ASSERT_OK(call_run(dev, &call, true, &r, &err));
    for (int o = 0; o < eo_op_schema(c->op)->n_outputs; o++) {
        (void)snprintf(what, sizeof(what), "case %d on %s, output %d", number, dev->info.name, o);
        call_compare(r.out[o], c->out[o], r.count[o], 1e-10, what);
    }
    for (int i = 0; i < CALL_MAX_INPUTS && c->in[i] != NULL; i++) {
        (void)snprintf(what, sizeof(what), "case %d on %s, gradient %d", number, dev->info.name, i);
        if (i != 4) {
            call_compare(r.grad[i], c->grad[i], count_of(c->in[i]), 1e-10, what);
        }
    }
    call_free(&r);
}

START_TEST(recurrent_layers_are_pytorchs)
{
    static const char *const devices[] = {"reference", "cpu"};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct eo_device *dev = harness_device(devices[d]);

        for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
            check(dev, &cases[i], (int)i);
        }
        registry_close(dev);
    }
}
END_TEST

/* Beyond its length a sequence is not read: NaN there reaches neither results nor gradients. */
START_TEST(steps_after_the_end_do_not_count)
{
    static const double x[6] = {0.5, 1, -1, NAN, NAN, NAN}, w[8] = {1, -1, 0.5, 0.25, 0.5, 1, -0.5, 2}, length = 3;
    static const enum eo_op ops[] = {EO_OP_RNN, EO_OP_LSTM, EO_OP_GRU};
    static const char *const weights[] = {"float64 1x1x1", "float64 1x4x1", "float64 1x3x1"};
    static const char *const directions[] = {"direction=forward", "direction=reverse"};
    struct eo_device *dev = harness_device("cpu");

    for (size_t o = 0; o < EO_COUNT_OF(ops); o++) {
        for (size_t d = 0; d < EO_COUNT_OF(directions); d++) {
            const struct call call = {
                ops[o],
                directions[d],
                {{"float64 6x1x1", x}, {weights[o], w}, {weights[o], w}, {"float64 0", NULL}, {"int64 1", &length}}};
            const struct call cut = {ops[o], directions[d], {{"float64 3x1x1", x}, {weights[o], w}, {weights[o], w}}};
            struct call_result r, wanted;
            struct eo_error err;

            ASSERT_OK(call_run(dev, &call, false, &r, &err));
            ASSERT_OK(call_run(dev, &cut, false, &wanted, &err));
            call_compare(r.out[0], wanted.out[0], 3, 0, "y");
            call_compare(r.out[0] + 3, (const double[]){0, 0, 0}, 3, 0, "y after the end");
            call_compare(r.out[1], wanted.out[1], 1, 0, "y_h");
            call_free(&r);
            call_free(&wanted);
        }
    }
    registry_close(dev);
}
END_TEST

static double milliseconds(clock_t t)
{
    return (double)t * 1e3 / CLOCKS_PER_SEC;
}

/* What a plan of an LSTM with its gradients costs: steps grow with the sequence, not faster. */
static void measure(struct eo_device *dev, int64_t steps, uint32_t *out_steps)
{
    struct eo_graph *g = eo_graph_new();
    const struct eo_op_schema *op = eo_op_schema(EO_OP_LSTM);
    eo_value in[4], out[3], outputs[4], total;
    struct eo_attrs attrs;
    struct eo_builder b;
    struct eo_error err;
    struct harness h;
    clock_t start = clock(), differentiated;

    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
    eo_attrs_default(op, &attrs);
    in[0] = INPUT(g, "x", EO_FLOAT32, steps, 4, 8);
    in[1] = INPUT(g, "w", EO_FLOAT32, 1, 64, 8);
    in[2] = INPUT(g, "r", EO_FLOAT32, 1, 64, 16);
    in[3] = INPUT(g, "b", EO_FLOAT32, 1, 128);
    ASSERT_OK(eo_graph_add(g, EO_OP_LSTM, in, 4, &attrs, out, &err));
    total = eo_build_reduce(&b, EO_OP_SUM, out[0], NULL, 0, false);
    outputs[0] = total;
    ASSERT_OK(autodiff_gradients(g, total, EO_NO_VALUE, in + 1, 3, outputs + 1, &err));
    differentiated = clock();
    ASSERT_OK(harness_open(&h, dev, g, outputs, 4, (struct harness_options){0}, &err));
    *out_steps = plan_stats(h.plan)->n_steps;
    printf(
        "lstm of %lld steps with gradients: %u nodes, %u steps of a plan; graph %.1f ms, plan %.1f ms of a processor\n",
        (long long)steps, g->n_nodes, *out_steps, milliseconds(differentiated - start),
        milliseconds(clock() - differentiated));
    ASSERT_OK(harness_run(&h, &err));
    harness_close(&h);
    eo_graph_free(g);
}

START_TEST(plans_grow_with_the_sequence)
{
    struct eo_device *dev = harness_device("cpu");
    uint32_t n[3];

    measure(dev, 64, &n[0]);
    measure(dev, 256, &n[1]);
    measure(dev, 1000, &n[2]);
    ck_assert_uint_le(n[1], 5 * n[0]);
    ck_assert_uint_le(n[2], 5 * n[1]);
    registry_close(dev);
}
END_TEST

EO_SUITE("recurrent", recurrent_layers_are_pytorchs, steps_after_the_end_do_not_count, plans_grow_with_the_sequence)
