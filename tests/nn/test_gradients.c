/* Every layer and loss on a small model: values and gradients of sum(losses) with respect to parameters and input,
 * against central differences in float64. eps 1e-5: truncation ~ eps^2, rounding ~ 1e-16 / eps, so 1e-7 is what can be
 * asked. */
#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"
#include "tests/nn/models.h"

#include "backends/registry.h"

#include <math.h>

static struct eo_error err;

enum { MAX_VALUES = 12, MAX_BYTES = 4096 };

struct problem {
    struct model m;
    struct eo_graph *g;
    struct harness h;
    int n_params;
    eo_value x, y, rng, params[MAX_VALUES];
    eo_value outputs[MAX_VALUES];                 /* sum of losses, gradients of params, gradient of x */
    double values[MAX_VALUES + 1][MAX_BYTES / 8]; /* of params, then x */
};

static void build(struct problem *p, int64_t n_rows, bool training)
{
    struct model_param params[MAX_VALUES];
    struct eo_tensor_desc x_desc, y_desc, rng_desc = {.dtype = EO_INT64, .n_dims = 1, .shape = {3}};
    struct eo_builder b;
    eo_value output, losses, wrt[MAX_VALUES], ones;

    ASSERT_OK(model_check(&p->m, &err));
    ASSERT_OK(model_params(&p->m, params, MAX_VALUES, &p->n_params, &err));
    ASSERT_OK(model_target_desc(&p->m, &y_desc, &err));
    x_desc = p->m.input;
    x_desc.shape[0] = y_desc.shape[0] = n_rows;
    p->g = eo_graph_new();
    ASSERT_OK(eo_graph_input(p->g, "x", &x_desc, &p->x, &err));
    ASSERT_OK(eo_graph_input(p->g, "y", &y_desc, &p->y, &err));
    ASSERT_OK(eo_graph_input(p->g, "rng", &rng_desc, &p->rng, &err));
    for (int i = 0; i < p->n_params; i++) {
        ASSERT_OK(eo_graph_input(p->g, params[i].name, &params[i].desc, &p->params[i], &err));
        wrt[i] = p->params[i];
    }
    wrt[p->n_params] = p->x;
    eo_build_init(&b, p->g, &err);
    output = model_forward(&p->m, &b, p->x, p->params, training ? p->rng : EO_NO_VALUE);
    losses = model_losses(&p->m, &b, output, p->y);
    ck_assert_int_eq(b.status, EO_OK);
    ck_assert_int_eq(eo_graph_desc(p->g, losses)->n_dims, 1);
    ck_assert_int_eq(eo_graph_desc(p->g, losses)->shape[0], n_rows);
    p->outputs[0] = eo_build_reduce(&b, EO_OP_SUM, losses, NULL, 0, false);
    ones = eo_build_full_like(&b, losses, 1);
    ASSERT_OK(autodiff_gradients(p->g, losses, ones, wrt, p->n_params + 1, p->outputs + 1, &err));
}

static double loss_of(struct problem *p)
{
    double loss;

    for (int i = 0; i < p->n_params; i++) {
        harness_feed(&p->h, p->params[i], p->values[i]);
    }
    harness_feed(&p->h, p->x, p->values[p->n_params]);
    ASSERT_OK(harness_run(&p->h, &err));
    harness_fetch(&p->h, 0, &loss);
    return loss;
}

static void check_gradients(struct problem *p)
{
    static const double eps = 1e-5;

    for (int v = 0; v <= p->n_params; v++) {
        eo_value value = v < p->n_params ? p->params[v] : p->x;
        int64_t count = eo_tensor_desc_count(eo_graph_desc(p->g, value));
        double grads[MAX_BYTES / 8];

        loss_of(p);
        harness_fetch(&p->h, (uint32_t)v + 1, grads);
        for (int64_t i = 0; i < count; i++) {
            double saved = p->values[v][i], up, down, expected;

            p->values[v][i] = saved + eps;
            up = loss_of(p);
            p->values[v][i] = saved - eps;
            down = loss_of(p);
            p->values[v][i] = saved;
            expected = (up - down) / (2 * eps);
            ck_assert_msg(fabs(grads[i] - expected) <= 1e-7 + 1e-6 * fabs(expected),
                          "value %d, element %d: %.12g by autodiff, %.12g by differences", v, (int)i, grads[i],
                          expected);
        }
    }
}

static void run_problem(const struct layer *layers, int n_layers, enum loss_kind loss, const int64_t *row, int n_row,
                        bool training)
{
    struct problem *p = calloc(1, sizeof(*p));
    struct eo_device *dev = harness_device("reference");
    const int64_t rng[3] = {11, 4, 0};
    int64_t classes[5] = {0, 2, 1, 1, 0}, n_rows = 5;
    double targets[MAX_BYTES / 8];

    p->m = model_of(layers, n_layers, loss, EO_FLOAT64, row, n_row);
    build(p, n_rows, training);
    ASSERT_OK(harness_open(&p->h, dev, p->g, p->outputs, (uint32_t)p->n_params + 2, (struct harness_options){0}, &err));
    for (int v = 0; v <= p->n_params; v++) {
        for (int i = 0; i < MAX_BYTES / 8; i++) {
            p->values[v][i] = 2 * harness_random((uint64_t)v + 1, (uint64_t)i) - 1;
        }
    }
    for (int i = 0; i < MAX_BYTES / 8; i++) {
        targets[i] = harness_random(99, (uint64_t)i);
    }
    harness_feed(&p->h, p->rng, rng);
    harness_feed(&p->h, p->y, loss == LOSS_CROSS_ENTROPY ? (const void *)classes : targets);
    check_gradients(p);
    harness_close(&p->h);
    registry_close(dev);
    eo_graph_free(p->g);
    free(p);
}

START_TEST(tanh_and_mse)
{
    const struct layer layers[] = {linear_of(0, 4, 6, true), layer_of(LAYER_TANH, 1), linear_of(2, 6, 2, true)};

    run_problem(layers, 3, LOSS_MSE, (int64_t[]){4}, 1, true);
}
END_TEST

START_TEST(sigmoid_and_bce)
{
    const struct layer layers[] = {linear_of(0, 4, 6, false), layer_of(LAYER_SIGMOID, 1), linear_of(2, 6, 1, true)};

    run_problem(layers, 3, LOSS_BCE_WITH_LOGITS, (int64_t[]){4}, 1, true);
}
END_TEST

START_TEST(relu_and_cross_entropy)
{
    const struct layer layers[] = {linear_of(0, 4, 6, true), layer_of(LAYER_RELU, 1), linear_of(2, 6, 3, true)};

    run_problem(layers, 3, LOSS_CROSS_ENTROPY, (int64_t[]){4}, 1, true);
}
END_TEST

START_TEST(flatten_softmax_and_rows_of_rank_2)
{
    const struct layer layers[] = {linear_of(0, 3, 4, true), layer_of(LAYER_SOFTMAX, 1), layer_of(LAYER_FLATTEN, 2),
                                   linear_of(3, 8, 3, true)};

    run_problem(layers, 4, LOSS_CROSS_ENTROPY, (int64_t[]){2, 3}, 2, true);
}
END_TEST

START_TEST(dropout_in_training)
{
    struct layer layers[] = {linear_of(0, 4, 8, true), layer_of(LAYER_DROPOUT, 1), layer_of(LAYER_TANH, 2),
                             layer_of(LAYER_DROPOUT, 3), linear_of(4, 8, 3, true)};

    layers[1].args[0].number = 0.3;
    run_problem(layers, 5, LOSS_CROSS_ENTROPY, (int64_t[]){4}, 1, true);
    run_problem(layers, 5, LOSS_CROSS_ENTROPY, (int64_t[]){4}, 1, false);
}
END_TEST

START_TEST(nested_sequential)
{
    struct layer inner[] = {linear_of(0, 4, 5, true), layer_of(LAYER_TANH, 1)};
    struct layer layers[] = {layer_of(LAYER_SEQUENTIAL, 0), linear_of(1, 5, 3, true)};

    snprintf(inner[0].path, sizeof(inner[0].path), "0.0");
    snprintf(inner[1].path, sizeof(inner[1].path), "0.1");
    layers[0].children = inner;
    layers[0].n_children = 2;
    run_problem(layers, 2, LOSS_CROSS_ENTROPY, (int64_t[]){4}, 1, true);
}
END_TEST

/* Runs one forward pass of a model without parameters but for an identity linear, on given rows. */
static void losses_of(enum loss_kind loss, int64_t features, int64_t n_rows, const double *x, const void *y,
                      double *out)
{
    const struct layer layers[] = {linear_of(0, features, features, false)};
    struct model m = model_of(layers, 1, loss, EO_FLOAT64, &features, 1);
    struct eo_device *dev = harness_device("reference");
    struct eo_graph *g = eo_graph_new();
    struct eo_tensor_desc x_desc, y_desc, w_desc = {.dtype = EO_FLOAT64, .n_dims = 2, .shape = {features, features}};
    double identity[16] = {0};
    struct harness h;
    struct eo_builder b;
    eo_value in, w, targets, losses;

    for (int64_t i = 0; i < features; i++) {
        identity[i * features + i] = 1;
    }
    ASSERT_OK(model_check(&m, &err));
    ASSERT_OK(model_target_desc(&m, &y_desc, &err));
    x_desc = m.input;
    x_desc.shape[0] = y_desc.shape[0] = n_rows;
    ASSERT_OK(eo_graph_input(g, "x", &x_desc, &in, &err));
    ASSERT_OK(eo_graph_input(g, "y", &y_desc, &targets, &err));
    ASSERT_OK(eo_graph_input(g, "w", &w_desc, &w, &err));
    eo_build_init(&b, g, &err);
    losses = model_losses(&m, &b, model_forward(&m, &b, in, &w, EO_NO_VALUE), targets);
    ASSERT_OK(b.status);
    ASSERT_OK(harness_open(&h, dev, g, &losses, 1, (struct harness_options){0}, &err));
    harness_feed(&h, in, x);
    harness_feed(&h, w, identity);
    harness_feed(&h, targets, y);
    ASSERT_OK(harness_run(&h, &err));
    harness_fetch(&h, 0, out);
    harness_close(&h);
    registry_close(dev);
    eo_graph_free(g);
}

START_TEST(losses_by_hand)
{
    const double x[] = {1, 2, 3, -1, 0, 0.5}, targets[] = {1, 0, 0.5, 1, 1, 0};
    const int64_t classes[] = {2, 0};
    double out[2];

    losses_of(LOSS_MSE, 3, 2, x, targets, out);
    ck_assert_double_eq_tol(out[0], (0 + 4 + 6.25) / 3, 1e-15);
    ck_assert_double_eq_tol(out[1], (4 + 1 + 0.25) / 3, 1e-15);
    losses_of(LOSS_CROSS_ENTROPY, 3, 2, x, classes, out);
    ck_assert_double_eq_tol(out[0], log(exp(1) + exp(2) + exp(3)) - 3, 1e-14);
    ck_assert_double_eq_tol(out[1], log(exp(-1) + 1 + exp(0.5)) + 1, 1e-14);
    losses_of(LOSS_BCE_WITH_LOGITS, 3, 2, x, targets, out);
    ck_assert_double_eq_tol(out[0], (log1p(exp(-1)) + 2 + log1p(exp(-2)) + 0.5 * (2 * log1p(exp(-3)) + 3)) / 3, 1e-14);
}
END_TEST

START_TEST(losses_at_the_extremes)
{
    const double x[] = {800, -800, 0}, targets[] = {0, 1, 1};
    const double large[] = {1e4, -1e4, 0};
    const int64_t classes[] = {1};
    double out[3];

    losses_of(LOSS_BCE_WITH_LOGITS, 1, 3, x, targets, out);
    ck_assert_double_eq(out[0], 800);
    ck_assert_double_eq(out[1], 800);
    ck_assert_double_eq_tol(out[2], log(2), 1e-15);
    losses_of(LOSS_CROSS_ENTROPY, 3, 1, large, classes, out);
    ck_assert_double_eq(out[0], 2e4);
}
END_TEST

EO_SUITE("nn gradients", tanh_and_mse, sigmoid_and_bce, relu_and_cross_entropy, flatten_softmax_and_rows_of_rank_2,
         dropout_in_training, nested_sequential, losses_by_hand, losses_at_the_extremes)
