/* Single ONNX nodes by hand: what operators meant in older operator sets and where ONNX's own cases do not reach. */
#include "tests/formats/onnx_check.h"

#include <stdio.h>
#include <string.h>

START_TEST(test_top_k_by_version)
{
    static const struct {
        int opset;
        const char *attrs;
        bool operand;
        const char *values, *indices;
    } rows[] = {{9, "k=2", false, "4 3", "3 1"}, {10, "", true, "4 3", "3 1"}, {11, "largest=0", true, "1 2", "0 2"}};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        const struct given given[] = {F("4", "1 3 2 4"), I("1", "2")};
        int n = rows[i].operand ? 2 : 1;
        struct model m = one_node(rows[i].opset, "TopK", rows[i].attrs, given, n, "values indices");
        struct onnx_results r;

        ASSERT_OK(run(&m, given, n, &r));
        expect(&r, 0, (struct given)F("2", rows[i].values));
        expect(&r, 1, (struct given)I("2", rows[i].indices));
        onnx_results_free(&r);
    }
    ASSERT_CODE(fail_node(9, "TopK", "", GIVEN(F("4", "1 3 2 4"))), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_pad_by_version)
{
    check_node(2, "Pad", "pads=[0,1] value=7.0", GIVEN(F("2", "1 2")), (struct given)F("3", "1 2 7"));
    check_node(11, "Pad", "", GIVEN(F("2", "1 2"), I("2", "1 0"), F("", "7")), (struct given)F("3", "7 1 2"));
    check_node(11, "Pad", "mode=reflect", GIVEN(F("3", "1 2 3"), I("2", "2 0")), (struct given)F("5", "3 2 1 2 3"));
    check_node(13, "Pad", "mode=edge", GIVEN(I("2", "1 2"), I("2", "1 1")), (struct given)I("4", "1 1 2 2"));
    ASSERT_CODE(fail_node(11, "Pad", "", GIVEN(F("2", "1 2"), I("1", "1"))), EO_E_SHAPE_MISMATCH);
    ASSERT_CODE(fail_node(11, "Pad", "mode=strange", GIVEN(F("2", "1 2"), I("2", "1 1"))), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_batch_normalization_by_version)
{
    const struct given spatial[] = {F("1x2x1", "1 5"), F("2", "2 2"), F("2", "1 1"), F("2", "0 4"), F("2", "1 1")};
    const struct given single[] = {F("1x2", "1 5"), F("2", "2 2"), F("2", "1 1"), F("2", "0 4"), F("2", "1 1")};

    check_node(9, "BatchNormalization", "epsilon=0.0", spatial, 5, (struct given)F("1x2x1", "3 3"));
    check_node(7, "BatchNormalization", "epsilon=0.0 spatial=0", single, 5, (struct given)F("1x2", "3 3"));
    ASSERT_CODE(fail_node(9, "BatchNormalization", "spatial=0", single, 5), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_one_hot_counts_from_the_end_and_leaves_out)
{
    check_node(11, "OneHot", "", GIVEN(I("3", "0 -1 9"), I("", "3"), F("2", "5 6")),
               (struct given)F("3x3", "6 5 5 5 5 6 5 5 5"));
    check_node(11, "OneHot", "axis=0", GIVEN(I("2", "1 0"), I("1", "2"), F("2", "0 1")),
               (struct given)F("2x2", "0 1 1 0"));
    ASSERT_CODE(fail_node(11, "OneHot", "", GIVEN(I("1", "0"), I("", "2"), F("3", "1 2 3"))), EO_E_SHAPE_MISMATCH);
}
END_TEST

START_TEST(test_ranges_end_before_their_limit)
{
    check_node(11, "Range", "", GIVEN(I("", "5"), I("", "0"), I("", "-2")), (struct given)I("3", "5 3 1"));
    check_node(11, "Range", "", GIVEN(F("", "1"), F("", "2"), F("", "0.5")), (struct given)F("2", "1 1.5"));
    check_node(11, "Range", "", GIVEN(I("", "5"), I("", "0"), I("", "1")), (struct given)I("0", ""));
    ASSERT_CODE(fail_node(11, "Range", "", GIVEN(I("", "0"), I("", "1"), I("", "0"))), EO_E_BAD_VALUE);
    ASSERT_CODE(
        fail_node(11, "Range", "", GIVEN(I("", "-9223372036854775807"), I("", "9223372036854775807"), I("", "1"))),
        EO_E_TOO_LARGE);
}
END_TEST

START_TEST(test_results_whose_shape_depends_on_data)
{
    struct model m = model_new(13);
    struct onnx_results r;

    check_node(13, "NonZero", "", GIVEN(F("2x2", "0 1 2 0")), (struct given)I("2x2", "0 1 1 0"));
    check_node(13, "NonZero", "", GIVEN(F("2", "0 0")), (struct given)I("1x0", ""));
    check_node(11, "Compress", "", GIVEN(F("2x2", "1 2 3 4"), {T_BOOL, "3", "0 1 1"}), (struct given)F("2", "2 3"));
    check_node(11, "Compress", "axis=-1", GIVEN(F("2x2", "1 2 3 4"), {T_BOOL, "2", "0 1"}),
               (struct given)F("2x1", "2 4"));
    /* the rest of the graph goes on with what was found */
    model_input(&m, "x", T_FLOAT, "4");
    model_node(&m, "NonZero", "x", "where", "");
    model_node(&m, "Transpose", "where", "rows", "perm=[1,0]");
    model_node(&m, "GatherND", "x rows", "found", "");
    model_node(&m, "ReduceSum", "found", "y", "keepdims=0");
    model_output(&m, "found");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(F("4", "0 3 0 4")), &r));
    expect(&r, 0, (struct given)F("2", "3 4"));
    expect(&r, 1, (struct given)F("", "7"));
    onnx_results_free(&r);
}
END_TEST

START_TEST(test_transposed_convolution_of_a_given_size)
{
    const struct given one[] = {F("1x1x2", "1 2"), F("1x1x3", "1 1 1")};

    check_node(11, "ConvTranspose", "strides=[2]", one, 2, (struct given)F("1x1x5", "1 1 3 2 2"));
    check_node(11, "ConvTranspose", "strides=[2] auto_pad=SAME_UPPER", one, 2, (struct given)F("1x1x4", "1 1 3 2"));
    check_node(11, "ConvTranspose", "strides=[2] auto_pad=SAME_LOWER", one, 2, (struct given)F("1x1x4", "1 3 2 2"));
    check_node(11, "ConvTranspose", "strides=[2] output_shape=[5]", one, 2, (struct given)F("1x1x5", "1 1 3 2 2"));
    ASSERT_CODE(fail_node(11, "ConvTranspose", "kernel_shape=[2]", one, 2), EO_E_SHAPE_MISMATCH);
    ASSERT_CODE(fail_node(11, "ConvTranspose", "strides=[9223372036854775807]", one, 2), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_pools_tell_where_in_the_whole)
{
    for (int column_major = 0; column_major < 2; column_major++) {
        const struct given x[] = {F("1x2x2x2", "1 2 3 4 5 9 7 8")};
        char attrs[64];
        struct model m;
        struct onnx_results r;

        snprintf(attrs, sizeof(attrs), "kernel_shape=[2,2] storage_order=%d", column_major);
        m = one_node(12, "MaxPool", attrs, x, 1, "y where");
        ASSERT_OK(run(&m, x, 1, &r));
        expect(&r, 0, (struct given)F("1x2x1x1", "4 9"));
        expect(&r, 1, (struct given)I("1x2x1x1", column_major ? "3 6" : "3 5"));
        onnx_results_free(&r);
    }
    ASSERT_CODE(fail_node(12, "MaxPool", "", GIVEN(F("1x1x2", "1 2"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(fail_node(12, "MaxPool", "kernel_shape=[2] auto_pad=SOMEHOW", GIVEN(F("1x1x2", "1 2"))),
                EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_recurrent_layers_have_their_own_activations)
{
    const struct given x[] = {F("1x1x1", "1"), F("1x1x1", "1"), F("1x1x1", "0")};
    const struct given g[] = {F("1x1x1", "1"), F("1x3x1", "1 1 1"), F("1x3x1", "0 0 0")};
    struct model m = one_node(14, "RNN", "hidden_size=1 activations=[Relu]", x, 3, "y");
    struct onnx_results r;

    ASSERT_OK(run(&m, x, 3, &r));
    expect(&r, 0, (struct given)F("1x1x1x1", "1"));
    onnx_results_free(&r);
    ASSERT_CODE(fail_node(14, "RNN", "activations=[Softsign]", x, 3), EO_E_UNSUPPORTED);
    ASSERT_CODE(fail_node(14, "RNN", "hidden_size=2", x, 3), EO_E_SHAPE_MISMATCH);
    ASSERT_CODE(fail_node(14, "GRU", "activations=[Tanh,Tanh]", g, 3), EO_E_UNSUPPORTED);
    ASSERT_CODE(fail_node(14, "GRU", "activation_alpha=[0.5]", g, 3), EO_E_UNSUPPORTED);
}
END_TEST

START_TEST(test_gradients_of_values_of_the_graph)
{
    struct model m = model_new(13);
    struct onnx_results r;

    model_import(&m, "ai.onnx.preview.training", 1);
    model_input(&m, "a", T_FLOAT, "2");
    model_input(&m, "b", T_FLOAT, "2");
    model_node(&m, "Mul", "a b", "c", "");
    model_node_of(&m, "ai.onnx.preview.training", "Gradient", "a b", "da db", "xs=[a,b] y=c");
    model_output(&m, "da");
    model_output(&m, "db");
    ASSERT_OK(run(&m, GIVEN(F("2", "1 2"), F("2", "3 4")), &r));
    expect(&r, 0, (struct given)F("2", "3 4"));
    expect(&r, 1, (struct given)F("2", "1 2"));
    onnx_results_free(&r);

    m = model_new(13);
    model_import(&m, "ai.onnx.preview.training", 1);
    model_input(&m, "a", T_FLOAT, "2");
    model_input(&m, "b", T_FLOAT, "2");
    model_node(&m, "Neg", "a", "c", "");
    model_node_of(&m, "ai.onnx.preview.training", "Gradient", "b", "da", "xs=[a] y=c");
    model_output(&m, "da");
    ASSERT_CODE(run(&m, GIVEN(F("2", "1 2"), F("2", "3 4")), &r), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "other values");
}
END_TEST

START_TEST(test_optimizers_want_whole_groups)
{
    struct model m = model_new(13);
    struct onnx_results r;

    model_import(&m, "ai.onnx.preview.training", 1);
    model_input(&m, "r", T_FLOAT, "");
    model_input(&m, "t", T_INT64, "");
    model_input(&m, "x", T_FLOAT, "1");
    model_node_of(&m, "ai.onnx.preview.training", "Momentum", "r t x x", "y v", "alpha=0.9 beta=1.0 mode=standard");
    model_output(&m, "y");
    ASSERT_CODE(run(&m, GIVEN(F("", "0.1"), I("", "0"), F("1", "1")), &r), EO_E_BAD_ARITY);
    ck_assert_str_eq(err.op, "Momentum");
}
END_TEST

/* ONNX leaves the generator open: ours gives the same numbers each time, others for another seed. */
START_TEST(test_random_numbers_depend_on_the_seed_alone)
{
    double first[3][8];

    for (int i = 0; i < 3; i++) {
        struct model m = model_new(13);
        struct onnx_results r;

        model_node(&m, "RandomUniform", "", "y",
                   i < 2 ? "shape=[8] seed=3.0 low=2.0 high=4.0" : "shape=[8] seed=4.0 low=2.0 high=4.0");
        model_output(&m, "y");
        ASSERT_OK(run(&m, NULL, 0, &r));
        for (int k = 0; k < 8; k++) {
            first[i][k] = number(&r.tensors[0], k);
            ck_assert(first[i][k] >= 2 && first[i][k] < 4);
        }
        onnx_results_free(&r);
    }
    ck_assert_mem_eq(first[0], first[1], sizeof(first[0]));
    ck_assert_mem_ne(first[0], first[2], sizeof(first[0]));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_top_k_by_version,
                                  test_pad_by_version,
                                  test_batch_normalization_by_version,
                                  test_one_hot_counts_from_the_end_and_leaves_out,
                                  test_ranges_end_before_their_limit,
                                  test_results_whose_shape_depends_on_data,
                                  test_transposed_convolution_of_a_given_size,
                                  test_pools_tell_where_in_the_whole,
                                  test_recurrent_layers_have_their_own_activations,
                                  test_gradients_of_values_of_the_graph,
                                  test_optimizers_want_whole_groups,
                                  test_random_numbers_depend_on_the_seed_alone};

    return check_main("ONNX nodes by hand", tests, EO_COUNT_OF(tests));
}
