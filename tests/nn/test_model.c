#include "tests/nn/models.h"
#include "tests/support/suite.h"

#include <math.h>

static struct eo_error err;

/* ---- the tables ---- */

START_TEST(rows_are_sane)
{
    for (int i = 0; i < LAYER_COUNT; i++) {
        const struct layer_schema *row = layer_schema((enum layer_kind)i);

        ck_assert_int_eq(layer_find(row->name), i);
        ck_assert(row->summary[0] != '\0' && row->stability[0] != '\0' && row->since[0] != '\0');
        for (int k = 0; k < row->n_args; k++) {
            const struct layer_arg_schema *a = &row->args[k];

            ck_assert(a->name[0] != '\0' && a->help[0] != '\0');
            if (a->kind == ARG_NAME) {
                ck_assert_int_ge(initializer_find(a->fallback_text), 0);
            } else {
                ck_assert_double_le(a->min, a->max);
                ck_assert(a->required || (a->fallback >= a->min && a->fallback <= a->max));
            }
            for (int other = 0; other < k; other++) {
                ck_assert_str_ne(row->args[other].name, a->name);
            }
        }
    }
    ck_assert_int_eq(layer_find("conv9d"), -1);
    ck_assert_ptr_null(layer_schema(LAYER_COUNT));
    for (int i = 0; i < LOSS_COUNT; i++) {
        ck_assert_int_eq(loss_find(loss_name((enum loss_kind)i)), i);
        ck_assert(loss_summary((enum loss_kind)i)[0] != '\0');
    }
    ck_assert_int_eq(loss_find("mae"), -1);
    for (int i = 0; i < initializer_count(); i++) {
        ck_assert_int_eq(initializer_find(initializer_name(i)), i);
        ck_assert(initializer_summary(i)[0] != '\0');
    }
    ck_assert_int_eq(initializer_find("kaiming_uniform"), initializer_find("he_uniform"));
    ck_assert_int_eq(initializer_find(""), -1);
    ck_assert_int_eq(initializer_find("orthogonal"), -1);
}
END_TEST

/* ---- shapes ---- */

START_TEST(shapes_flow_through)
{
    struct layer layers[] = {layer_of(LAYER_FLATTEN, 0), linear_of(1, 784, 30, true), layer_of(LAYER_RELU, 2),
                             layer_of(LAYER_DROPOUT, 3), layer_of(LAYER_TANH, 4),     layer_of(LAYER_SIGMOID, 5),
                             layer_of(LAYER_SOFTMAX, 6), linear_of(7, 30, 10, false)};
    struct model m = model_of(layers, 8, LOSS_CROSS_ENTROPY, EO_FLOAT32, (int64_t[]){28, 28}, 2);
    struct model_param params[4];
    struct eo_tensor_desc targets;
    int n;

    ASSERT_OK(model_check(&m, &err));
    ck_assert_ptr_null(m.refused);
    ck_assert_int_eq(m.output.n_dims, 2);
    ck_assert_int_eq(m.output.shape[0], 0);
    ck_assert_int_eq(m.output.shape[1], 10);
    ASSERT_OK(model_params(&m, params, 4, &n, &err));
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(params[0].name, "1.weight");
    ck_assert_str_eq(params[1].name, "1.bias");
    ck_assert_str_eq(params[2].name, "7.weight");
    ck_assert_int_eq(params[0].desc.shape[0], 784);
    ck_assert_int_eq(params[0].desc.shape[1], 30);
    ck_assert_int_eq(params[0].fan_in, 784);
    ck_assert_str_eq(params[0].initializer, "he_uniform");
    ck_assert_str_eq(params[1].initializer, "zeros");
    ck_assert_uint_ne(params[0].stream, params[2].stream);
    ASSERT_CODE(model_params(&m, params, 2, &n, &err), EO_E_BAD_SPEC);
    ASSERT_OK(model_target_desc(&m, &targets, &err));
    ck_assert_int_eq(targets.dtype, EO_INT64);
    ck_assert_int_eq(targets.n_dims, 1);
}
END_TEST

START_TEST(sequentials_nest)
{
    struct layer inner[] = {linear_of(0, 4, 3, true), layer_of(LAYER_RELU, 1)};
    struct layer outer[] = {layer_of(LAYER_SEQUENTIAL, 0), linear_of(1, 3, 2, true)};
    struct model m = model_of(outer, 2, LOSS_CROSS_ENTROPY, EO_FLOAT64, (int64_t[]){4}, 1);
    struct model_param params[4];
    int n;

    snprintf(inner[0].path, sizeof(inner[0].path), "0.0");
    snprintf(inner[1].path, sizeof(inner[1].path), "0.1");
    outer[0].children = inner;
    outer[0].n_children = 2;
    ASSERT_OK(model_check(&m, &err));
    ASSERT_OK(model_params(&m, params, 4, &n, &err));
    ck_assert_int_eq(n, 4);
    ck_assert_str_eq(params[0].name, "0.0.weight");
    ck_assert_str_eq(params[3].name, "1.bias");
    inner[0].args[0].number = 5;
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    ck_assert_ptr_eq(m.refused, &inner[0]);
    ASSERT_CONTAINS(err.message, "layer 0.0 (linear): takes 5 features");
}
END_TEST

START_TEST(misfits_are_named)
{
    struct layer layers[] = {linear_of(0, 64, 8, true), layer_of(LAYER_FLATTEN, 1)};
    struct model m = model_of(layers, 1, LOSS_MSE, EO_FLOAT32, (int64_t[]){28, 28}, 2);

    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    ck_assert_ptr_eq(m.refused, &layers[0]);
    ASSERT_CONTAINS(err.message, "layer 0 (linear): takes 64 features");
    ASSERT_CONTAINS(err.message, "[28, 28]");
    ASSERT_CONTAINS(err.hint, "flatten");
    m = model_of(layers, 1, LOSS_MSE, EO_FLOAT32, (int64_t[]){63}, 1);
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.hint, "in: 63");
    /* rows that are numbers, not vectors */
    m = model_of(layers, 1, LOSS_MSE, EO_FLOAT32, NULL, 0);
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    m.input.n_dims = 0;
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    /* flatten cannot reach the batch, nor beyond the last dimension */
    layers[1].args[0].number = 0;
    m = model_of(&layers[1], 1, LOSS_MSE, EO_FLOAT32, (int64_t[]){4, 4}, 2);
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    layers[1].args[0].number = 3;
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    layers[1].args[0].number = -1;
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC); /* a model without parameters */
    ASSERT_CONTAINS(err.message, "no parameters");
    /* sizes that do not fit in 64 bits */
    layers[0] = linear_of(0, INT32_MAX, INT32_MAX, true);
    m = model_of(layers, 1, LOSS_MSE, EO_FLOAT64, (int64_t[]){INT32_MAX}, 1);
    ASSERT_CODE(model_check(&m, &err), EO_E_TOO_LARGE);
    ASSERT_CONTAINS(err.message, "layer 0 (linear)");
}
END_TEST

START_TEST(flatten_joins_from_its_dimension)
{
    struct layer layers[] = {layer_of(LAYER_FLATTEN, 0), linear_of(1, 12, 2, true), layer_of(LAYER_FLATTEN, 2)};
    struct model m = model_of(layers, 3, LOSS_MSE, EO_FLOAT32, (int64_t[]){2, 3, 4}, 3);

    layers[0].args[0].number = 2;
    ASSERT_OK(model_check(&m, &err));
    ck_assert_int_eq(m.output.n_dims, 2);
    ck_assert_int_eq(m.output.shape[1], 4); /* (N, 2, 3, 4) -> (N, 2, 12) -> (N, 2, 2) -> (N, 4) */
    layers[0].args[0].number = -2;
    ASSERT_OK(model_check(&m, &err));
}
END_TEST

START_TEST(losses_say_what_targets_they_take)
{
    struct layer layers[] = {linear_of(0, 3, 1, true)};
    struct model m = model_of(layers, 1, LOSS_MSE, EO_FLOAT64, (int64_t[]){3}, 1);
    struct eo_tensor_desc targets;

    ASSERT_OK(model_check(&m, &err));
    ASSERT_OK(model_target_desc(&m, &targets, &err));
    ck_assert(eo_tensor_desc_equal(&targets, &m.output));
    m.loss = LOSS_BCE_WITH_LOGITS;
    ASSERT_OK(model_target_desc(&m, &targets, &err));
    ck_assert_int_eq(targets.dtype, EO_FLOAT64);
    m.loss = LOSS_CROSS_ENTROPY;
    ASSERT_CODE(model_check(&m, &err), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "at least 2 logits");
    ASSERT_CONTAINS(err.message, "[1]");
    ck_assert_ptr_null(m.refused);
}
END_TEST

EO_SUITE("nn model", rows_are_sane, shapes_flow_through, sequentials_nest, misfits_are_named,
         flatten_joins_from_its_dimension, losses_say_what_targets_they_take)
