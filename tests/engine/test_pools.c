/* Pools and norms where conventions matter: ties, NaN, padding, constant inputs. Numbers are PyTorch 1.13's unless a
 * comment says why not. */
#include "backends/registry.h"
#include "tests/engine/call.h"

#include <math.h>

static struct eo_error err;

struct expected {
    enum eo_op op;
    const char *attrs, *desc;
    double x[8];
    int n_x, n_out;
    double out[4], at[4], grad[8]; /* at: output 1 of max_pool; grad: of the sum of the float outputs, floats only */
};

#define INF_ ((double)INFINITY)
#define NAN_ ((double)NAN)

static const struct expected cases[] = {
    /* the first of equal ones takes the gradient; NaN is larger than all */
    {EO_OP_MAX_POOL, "kernel=3 strides=2", "float64 1x5x1", {2, 2, 1, 3, 3}, 5, 2, {2, 3}, {0, 3}, {1, 0, 0, 1, 0}},
    {EO_OP_MAX_POOL,
     "kernel=2",
     "float32 1x4x1",
     {9, NAN_, 8, NAN_},
     4,
     3,
     {NAN_, NAN_, NAN_},
     {1, 1, 3},
     {0, 2, 0, 1}},
    {EO_OP_GLOBAL_MAX_POOL, "", "float64 1x4x1", {1, 5, 5, 0}, 4, 1, {5}, {0}, {0, 1, 0, 0}},
    /* padding never wins, also where nothing is above it */
    {EO_OP_MAX_POOL, "kernel=2 pads=1,1", "uint8 1x2x1", {0, 0}, 2, 3, {0, 0, 0}, {0, 0, 1}, {0}},
    {EO_OP_MAX_POOL, "kernel=2 pads=1,0", "int8 1x2x1", {-128, -5}, 2, 2, {-128, -5}, {0, 1}, {0}},
    {EO_OP_MAX_POOL, "kernel=2 pads=1,0", "float64 1x2x1", {-INF_, -INF_}, 2, 2, {-INF_, -INF_}, {0, 0}, {2, 0}},
    /* no cell of the one window is inside (PyTorch refuses such padding) */
    {EO_OP_MAX_POOL, "kernel=2 dilations=2 pads=1,1", "float64 1x1x1", {7}, 1, 1, {-INF_}, {-1}, {0}},
    /* means over what is there, or over padding too, but never over what rounding up added */
    {EO_OP_AVERAGE_POOL, "kernel=2 pads=1,0", "float64 1x2x1", {2, 4}, 2, 2, {2, 3}, {0}, {1.5, 0.5}},
    {EO_OP_AVERAGE_POOL, "kernel=2 pads=1,0 count_include_pad=1", "float64 1x2x1", {2, 4}, 2, 2, {1, 3}, {0}, {1, 0.5}},
    {EO_OP_AVERAGE_POOL,
     "kernel=2 strides=2 ceil_mode=1 count_include_pad=1",
     "float64 1x3x1",
     {2, 4, 5},
     3,
     2,
     {3, 5},
     {0},
     {0.5, 0.5, 1}},
    /* the root has no slope at 0: its gradient is 0 (PyTorch's is NaN) */
    {EO_OP_LP_POOL, "kernel=2 strides=2", "float64 1x4x1", {0, 0, 3, 4}, 4, 2, {0, 5}, {0}, {0, 0, 0.6, 0.8}},
    {EO_OP_MEAN_VARIANCE_NORM, "", "float64 3", {5, 5, 5}, 3, 3, {0, 0, 0}, {0}, {0, 0, 0}},
};

START_TEST(test_conventions)
{
    static const char *const devices[] = {"reference", "cpu"};

    for (size_t i = 0; i < 2 * EO_COUNT_OF(cases); i++) {
        const struct expected *c = &cases[i / 2];
        const struct call call = {c->op, c->attrs, {{c->desc, c->x}}};
        bool is_float = c->desc[0] == 'f';
        struct eo_device *dev = harness_device(devices[i % 2]);
        struct call_result r;

        ASSERT_OK(call_run(dev, &call, is_float, &r, &err));
        ck_assert_int_eq(r.count[0], c->n_out);
        call_compare(r.out[0], c->out, c->n_out, 1e-12, c->attrs);
        if (c->op == EO_OP_MAX_POOL) {
            call_compare(r.out[1], c->at, c->n_out, 0, c->attrs);
        }
        if (is_float) {
            call_compare(r.grad[0], c->grad, c->n_x, 1e-12, c->attrs);
        }
        call_free(&r);
        registry_close(dev);
    }
}
END_TEST

EO_SUITE("pools", test_conventions)
