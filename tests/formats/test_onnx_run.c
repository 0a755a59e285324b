/* Models by hand, run on the reference backend: what operators meant in older operator sets, operands that decide
 * shapes wherever they come from, functions, defaults, and errors as a user sees them. */
#include "tests/formats/onnx_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- meanings by version ---- */

START_TEST(test_old_broadcasting_follows_the_axis)
{
    check_node(6, "Add", "broadcast=1 axis=0", GIVEN(F("2x2", "1 2 3 4"), F("2", "10 20")),
               (struct given)F("2x2", "11 12 23 24"));
    check_node(6, "Add", "broadcast=1", GIVEN(F("2x2", "1 2 3 4"), F("2", "10 20")),
               (struct given)F("2x2", "11 22 13 24"));
    check_node(7, "Add", "", GIVEN(F("2x2", "1 2 3 4"), F("2", "10 20")), (struct given)F("2x2", "11 22 13 24"));
    ASSERT_CODE(fail_node(6, "Add", "", GIVEN(F("2x2", "1 2 3 4"), F("2", "10 20"))), EO_E_SHAPE_MISMATCH);
    ASSERT_CODE(fail_node(7, "Add", "broadcast=1", GIVEN(F("2", "1 2"), F("2", "10 20"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "Add of opset 7 has no attribute \"broadcast\"");
}
END_TEST

START_TEST(test_softmax_of_a_matrix_before_13)
{
    check_node(12, "Softmax", "axis=1", GIVEN(F("1x2x2", "0 0 0 0")), (struct given)F("1x2x2", "0.25 0.25 0.25 0.25"));
    check_node(12, "Softmax", "", GIVEN(F("1x2x2", "0 0 0 0")), (struct given)F("1x2x2", "0.25 0.25 0.25 0.25"));
    check_node(13, "Softmax", "axis=1", GIVEN(F("1x2x2", "0 0 0 0")), (struct given)F("1x2x2", "0.5 0.5 0.5 0.5"));
    check_node(12, "LogSoftmax", "axis=0", GIVEN(F("2", "0 0")), (struct given)F("2", "-0.6931472 -0.6931472"));
}
END_TEST

START_TEST(test_limits_move_from_attributes_to_operands)
{
    check_node(6, "Clip", "min=0.5 max=2.0", GIVEN(F("3", "0 1 3")), (struct given)F("3", "0.5 1 2"));
    check_node(6, "Clip", "max=2.0", GIVEN(F("3", "-9 1 3")), (struct given)F("3", "-9 1 2"));
    check_node(11, "Clip", "", GIVEN(F("3", "0 1 3"), F("", "0.5")), (struct given)F("3", "0.5 1 3"));
    check_node(12, "Clip", "", GIVEN(I("3", "0 1 3"), NONE, I("", "2")), (struct given)I("3", "0 1 2"));
    ASSERT_CODE(fail_node(11, "Clip", "min=0.5", GIVEN(F("1", "0"))), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_slice_in_both_forms)
{
    check_node(9, "Slice", "starts=[1] ends=[9] axes=[1]", GIVEN(F("2x3", "1 2 3 4 5 6")),
               (struct given)F("2x2", "2 3 5 6"));
    check_node(10, "Slice", "", GIVEN(F("2x3", "1 2 3 4 5 6"), I("1", "-1"), I("1", "-9"), I("1", "-1"), I("1", "-2")),
               (struct given)F("2x2", "3 1 6 4"));
    check_node(13, "Slice", "", GIVEN(F("3", "1 2 3"), {T_INT32, "1", "2"}, {T_INT32, "1", "2"}),
               (struct given)F("0", ""));
    ASSERT_CODE(fail_node(10, "Slice", "", GIVEN(F("3", "1 2 3"), I("1", "0"), I("2", "1 1"))), EO_E_BAD_ARITY);
}
END_TEST

START_TEST(test_reshape_zeros)
{
    check_node(13, "Reshape", "", GIVEN(F("2x3", "1 2 3 4 5 6"), I("3", "0 -1 1")),
               (struct given)F("2x3x1", "1 2 3 4 5 6"));
    check_node(14, "Reshape", "allowzero=1", GIVEN(F("2x0", ""), I("2", "0 7")), (struct given)F("0x7", ""));
    ASSERT_CODE(fail_node(13, "Reshape", "", GIVEN(F("2", "1 2"), I("2", "2 0"))), EO_E_SHAPE_MISMATCH);
}
END_TEST

START_TEST(test_axes_in_both_forms)
{
    check_node(12, "Squeeze", "axes=[0]", GIVEN(F("1x2x1", "1 2")), (struct given)F("2x1", "1 2"));
    check_node(13, "Squeeze", "", GIVEN(F("1x2x1", "1 2"), I("1", "-1")), (struct given)F("1x2", "1 2"));
    check_node(13, "Squeeze", "", GIVEN(F("1x2x1", "1 2")), (struct given)F("2", "1 2"));
    check_node(11, "Unsqueeze", "axes=[0,-1]", GIVEN(F("2", "1 2")), (struct given)F("1x2x1", "1 2"));
    check_node(13, "Unsqueeze", "", GIVEN(F("2", "1 2"), I("1", "1")), (struct given)F("2x1", "1 2"));
    check_node(12, "ReduceSum", "axes=[1] keepdims=0", GIVEN(F("2x2", "1 2 3 4")), (struct given)F("2", "3 7"));
    check_node(13, "ReduceSum", "", GIVEN(F("2x2", "1 2 3 4"), I("1", "0")), (struct given)F("1x2", "4 6"));
    check_node(13, "ReduceSum", "noop_with_empty_axes=1", GIVEN(F("2", "1 2")), (struct given)F("2", "1 2"));
    ASSERT_CODE(fail_node(13, "Squeeze", "", GIVEN(F("1x2", "1 2"), I("1", "1"))), EO_E_SHAPE_MISMATCH);
    ASSERT_CODE(fail_node(13, "Unsqueeze", "", GIVEN(F("2", "1 2"), I("2", "0 0"))), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_split_in_both_forms)
{
    struct model m = model_new(11);
    struct onnx_results r;

    model_input(&m, "x", T_FLOAT, "3");
    model_node(&m, "Split", "x", "a b", "split=[1,2]");
    model_output(&m, "a");
    model_output(&m, "b");
    ASSERT_OK(run(&m, GIVEN(F("3", "1 2 3")), &r));
    expect(&r, 0, (struct given)F("1", "1"));
    expect(&r, 1, (struct given)F("2", "2 3"));
    onnx_results_free(&r);
    m = model_new(13);
    model_input(&m, "x", T_FLOAT, "4");
    model_node(&m, "Split", "x", "a b", "");
    model_output(&m, "b");
    ASSERT_OK(run(&m, GIVEN(F("4", "1 2 3 4")), &r));
    expect(&r, 0, (struct given)F("2", "3 4"));
    onnx_results_free(&r);
    ASSERT_CODE(fail_node(13, "Split", "", GIVEN(F("3", "1 2 3"), I("1", "2"))), EO_E_SHAPE_MISMATCH);
}
END_TEST

START_TEST(test_powers_of_mixed_types_keep_the_base)
{
    check_node(15, "Pow", "", GIVEN(F("2", "2 3"), I("", "2")), (struct given)F("2", "4 9"));
    check_node(15, "Pow", "", GIVEN(I("2", "4 9"), F("", "0.5")), (struct given)I("2", "2 3"));
}
END_TEST

START_TEST(test_dropout_by_version)
{
    struct onnx_results r;
    struct model m = one_node(9, "Dropout", "ratio=0.5", GIVEN(F("2", "1 2")), "y mask");

    ASSERT_OK(run(&m, GIVEN(F("2", "1 2")), &r));
    expect(&r, 0, (struct given)F("2", "1 2"));
    expect(&r, 1, (struct given)F("2", "1 1"));
    onnx_results_free(&r);
    m = one_node(13, "Dropout", "", GIVEN(F("2", "1 2")), "y mask");
    ASSERT_OK(run(&m, GIVEN(F("2", "1 2")), &r));
    expect(&r, 1, (struct given){T_BOOL, "2", "1 1"});
    onnx_results_free(&r);
    m = one_node(13, "Dropout", "seed=7", GIVEN(F("64", ""), F("", "0.75"), {T_BOOL, "", "1"}), "y mask");
    char ones[256] = "";
    for (int i = 0; i < 64; i++)
        snprintf(ones + 2 * i, sizeof(ones) - 2 * (size_t)i, "1 ");
    ASSERT_OK(run(&m, GIVEN(F("64", ones), F("", "0.75"), {T_BOOL, "", "1"}), &r));
    int kept = 0;
    for (int i = 0; i < 64; i++) {
        double y = number(&r.tensors[0], i), mask = number(&r.tensors[1], i);

        ck_assert(fabs(y - 4 * mask) < 1e-6);
        kept += mask > 0;
    }
    ck_assert(kept > 4 && kept < 32); /* 16 are expected */
    onnx_results_free(&r);
}
END_TEST

/* ---- values that decide shapes ---- */

START_TEST(test_shapes_are_computed_in_the_graph)
{
    struct model m = model_new(13);
    struct onnx_results r;

    /* flatten all but the first dimension, as exporters write it */
    model_input(&m, "x", T_FLOAT, "NxAxB");
    model_initializer(&m, "zero", T_INT64, "1", "0");
    model_initializer(&m, "rest", T_INT64, "1", "-1");
    model_node(&m, "Shape", "x", "shape", "");
    model_node(&m, "Gather", "shape zero", "first", "");
    model_node(&m, "Concat", "first rest", "to", "axis=0");
    model_node(&m, "Reshape", "x to", "y", "");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(F("2x1x3", "1 2 3 4 5 6")), &r));
    expect(&r, 0, (struct given)F("2x3", "1 2 3 4 5 6"));
    onnx_results_free(&r);
}
END_TEST

START_TEST(test_shapes_depend_on_values_of_inputs)
{
    struct model m = model_new(13);
    struct onnx_results r;

    /* as many zeros as the sum of an input says */
    model_input(&m, "x", T_INT64, "2");
    model_node(&m, "ReduceSum", "x", "n", "");
    model_node(&m, "ConstantOfShape", "n", "y", "");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(I("2", "1 2")), &r));
    expect(&r, 0, (struct given)F("3", "0 0 0"));
    onnx_results_free(&r);
}
END_TEST

START_TEST(test_a_large_shape_operand_is_refused)
{
    ASSERT_CODE(fail_node(13, "ConstantOfShape", "", GIVEN(I("2", "4611686018427387904 4"))), EO_E_TOO_LARGE);
    ck_assert_str_eq(err.op, "ConstantOfShape");
    ASSERT_CODE(fail_node(13, "ConstantOfShape", "", GIVEN(I("1", "-1"))), EO_E_BAD_VALUE);
    ASSERT_CODE(fail_node(13, "Reshape", "", GIVEN(F("1", "1"), I("9", "1 1 1 1 1 1 1 1 1"))), EO_E_SHAPE_MISMATCH);
}
END_TEST

START_TEST(test_large_tensors_of_the_file_are_fed)
{
    struct model m = model_new(13);
    struct onnx_results r;
    char values[4096] = "";

    for (int i = 0; i < 512; i++)
        snprintf(values + strlen(values), sizeof(values) - strlen(values), "%d ", i % 7);
    model_input(&m, "x", T_FLOAT, "1");
    model_initializer(&m, "w", T_FLOAT, "512", values);
    model_node(&m, "Mul", "w x", "p", "");
    model_node(&m, "ReduceSum", "p", "y", "keepdims=0");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(F("1", "2")), &r));
    expect(&r, 0, (struct given)F("", "3066")); /* 2 (73 (0 + ... + 6) + 0) */
    onnx_results_free(&r);
}
END_TEST

/* ---- inputs and outputs ---- */

START_TEST(test_defaults_can_be_replaced)
{
    for (int replaced = 0; replaced < 2; replaced++) {
        struct model m = model_new(13);
        struct onnx_results r;

        model_input(&m, "w", T_FLOAT, "1");
        model_input(&m, "x", T_FLOAT, "1");
        model_initializer(&m, "w", T_FLOAT, "1", "10");
        model_node(&m, "Mul", "x w", "y", "");
        model_output(&m, "y");
        ASSERT_OK(run(&m,
                      replaced ? (const struct given[]){F("1", "2"), F("1", "3")} : (const struct given[]){F("1", "2")},
                      replaced ? 2 : 1, &r));
        expect(&r, 0, (struct given)F("1", replaced ? "6" : "20"));
        onnx_results_free(&r);
    }
}
END_TEST

START_TEST(test_outputs_may_be_inputs_or_equal)
{
    struct model m = model_new(13);
    struct onnx_results r;

    model_input(&m, "x", T_FLOAT, "2");
    model_initializer(&m, "c", T_INT64, "1", "7");
    model_node(&m, "Identity", "x", "same", "");
    model_node(&m, "Neg", "x", "n", "");
    model_output(&m, "n");
    model_output(&m, "x");
    model_output(&m, "same");
    model_output(&m, "n");
    model_output(&m, "c");
    ASSERT_OK(run(&m, GIVEN(F("2", "1 2")), &r));
    expect(&r, 0, (struct given)F("2", "-1 -2"));
    expect(&r, 1, (struct given)F("2", "1 2"));
    expect(&r, 2, (struct given)F("2", "1 2"));
    expect(&r, 3, (struct given)F("2", "-1 -2"));
    expect(&r, 4, (struct given)I("1", "7"));
    onnx_results_free(&r);
}
END_TEST

START_TEST(test_wrong_inputs_are_refused)
{
    static const struct {
        struct given given;
        const char *why;
    } rows[] = {{I("2x3", "0 0 0 0 0 0"), "input \"x\" is int64, the model wants float32"},
                {F("3", "0 0 0"), "wants 2 dimensions"},
                {F("2x2", "0 0 0 0"), "wants 3 in dimension 1"},
                {NONE, "input \"x\" of the model is not given"}};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        struct model m = model_new(13);
        struct onnx_results r;

        model_input(&m, "x", T_FLOAT, "Nx3");
        model_node(&m, "Neg", "x", "y", "");
        model_output(&m, "y");
        ASSERT_CODE(run(&m, &rows[i].given, 1, &r), EO_E_BAD_PARAMS);
        ASSERT_CONTAINS(err.message, rows[i].why);
        ck_assert_int_eq(r.n, 0);
    }
}
END_TEST

/* ---- functions ---- */

START_TEST(test_functions_are_their_bodies)
{
    struct model m = model_new(13);
    struct eo_bytes doubled = function_new("Doubled", "x extra", "y", "along unused");
    struct eo_bytes both = function_new("Both", "x", "y", "");
    struct onnx_results r;

    model_import(&m, "local", 1);
    function_node(&doubled, "", "Concat", "x x", "y", "axis=@along");
    function_node(&both, "local", "Doubled", "x -", "h", "along=0");
    function_node(&both, "local", "Doubled", "h", "y", "along=-1");
    model_function(&m, &doubled);
    model_function(&m, &both);
    model_input(&m, "x", T_FLOAT, "1x2");
    model_node_of(&m, "local", "Both", "x", "y", "");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(F("1x2", "1 2")), &r));
    expect(&r, 0, (struct given)F("2x4", "1 2 1 2 1 2 1 2"));
    onnx_results_free(&r);
}
END_TEST

/* A reference to an attribute that the caller leaves out leaves it out too: axis is -1 then. */
START_TEST(test_a_missing_reference_is_the_default)
{
    struct model m = model_new(13);
    struct eo_bytes f = function_new("Soft", "x", "y", "along");
    struct onnx_results r;

    model_import(&m, "local", 1);
    function_node(&f, "", "Softmax", "x", "y", "axis=@along");
    model_function(&m, &f);
    model_input(&m, "x", T_FLOAT, "2x1");
    model_node_of(&m, "local", "Soft", "x", "y", "");
    model_output(&m, "y");
    ASSERT_OK(run(&m, GIVEN(F("2x1", "3 5")), &r));
    expect(&r, 0, (struct given)F("2x1", "1 1"));
    onnx_results_free(&r);
}
END_TEST

START_TEST(test_functions_that_never_end_are_refused)
{
    struct model m = model_new(13);
    struct eo_bytes f = function_new("Again", "x", "y", "");
    struct onnx_results r;

    model_import(&m, "local", 1);
    function_node(&f, "local", "Again", "x", "y", "");
    model_function(&m, &f);
    model_input(&m, "x", T_FLOAT, "1");
    model_node_of(&m, "local", "Again", "x", "y", "");
    model_output(&m, "y");
    ASSERT_CODE(run(&m, GIVEN(F("1", "1")), &r), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "more than 16 deep");
}
END_TEST

START_TEST(test_functions_that_multiply_are_refused)
{
    struct model m = model_new(13);
    struct onnx_results r;
    char name[16], callee[16];

    model_import(&m, "local", 1);
    for (int level = 0; level < 15; level++) { /* each calls the one below 8 times */
        struct eo_bytes f;

        snprintf(name, sizeof(name), "F%d", level);
        snprintf(callee, sizeof(callee), level == 0 ? "Neg" : "F%d", level - 1);
        f = function_new(name, "x", "y7", "");
        for (int i = 0; i < 8; i++) {
            char in[8], out[8];

            snprintf(in, sizeof(in), i == 0 ? "x" : "y%d", i - 1);
            snprintf(out, sizeof(out), "y%d", i);
            function_node(&f, level == 0 ? "" : "local", callee, in, out, "");
        }
        model_function(&m, &f);
    }
    model_input(&m, "x", T_FLOAT, "1");
    model_node_of(&m, "local", "F14", "x", "y", "");
    model_output(&m, "y");
    ASSERT_CODE(run(&m, GIVEN(F("1", "1")), &r), EO_E_TOO_LARGE); /* nodes, or the graph's memory */
}
END_TEST

/* ---- errors as a user sees them ---- */

START_TEST(test_errors_name_node_and_operator)
{
    struct model m = model_new(13);
    struct onnx_results r;

    model_input(&m, "a", T_FLOAT, "2x3");
    model_input(&m, "b", T_FLOAT, "2x3");
    model_node(&m, "Relu", "a", "ra", "");
    model_node(&m, "MatMul", "ra b", "product", "");
    model_output(&m, "product");
    ASSERT_CODE(run(&m, GIVEN(F("2x3", "0 0 0 0 0 0"), F("2x3", "0 0 0 0 0 0")), &r), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.op, "MatMul");
    ck_assert_str_eq(err.node, "1 \"product\"");
    ck_assert_int_eq(err.n_inputs, 2);
    ck_assert_int_eq(err.inputs[0].shape[1], 3);
}
END_TEST

START_TEST(test_errors_while_running_carry_the_label)
{
    struct model m = model_new(13);
    struct onnx_results r;

    model_input(&m, "x", T_FLOAT, "2");
    model_input(&m, "i", T_INT64, "1");
    model_node(&m, "Gather", "x i", "picked", "");
    model_output(&m, "picked");
    ASSERT_CODE(run(&m, GIVEN(F("2", "1 2"), I("1", "5")), &r), EO_E_BAD_VALUE);
    ASSERT_CONTAINS(err.node, "Gather picked");
}
END_TEST

START_TEST(test_missing_operands_and_wrong_attributes)
{
    ASSERT_CODE(fail_node(13, "Add", "", GIVEN(F("1", "1"))), EO_E_BAD_ARITY);
    ASSERT_CONTAINS(err.message, "operand 1");
    ASSERT_CODE(fail_node(13, "Relu", "", GIVEN(F("1", "1"), F("1", "1"))), EO_E_BAD_ARITY);
    ASSERT_CODE(fail_node(13, "Softmax", "axis=0.5", GIVEN(F("1", "1"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "axis of Softmax must be an integer");
    ASSERT_CODE(fail_node(13, "Relu", "colour=red", GIVEN(F("1", "1"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "no attribute \"colour\"");
    ASSERT_CODE(fail_node(13, "Cast", "to=8", GIVEN(F("1", "1"))), EO_E_UNSUPPORTED);
    ASSERT_CODE(fail_node(13, "Cast", "", GIVEN(F("1", "1"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(fail_node(13, "Concat", "", GIVEN(F("1", "1"))), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(fail_node(13, "Mod", "", GIVEN(F("1", "1"), F("1", "1"))), EO_E_BAD_ATTRIBUTE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_old_broadcasting_follows_the_axis,
                                  test_softmax_of_a_matrix_before_13,
                                  test_limits_move_from_attributes_to_operands,
                                  test_slice_in_both_forms,
                                  test_reshape_zeros,
                                  test_axes_in_both_forms,
                                  test_split_in_both_forms,
                                  test_powers_of_mixed_types_keep_the_base,
                                  test_dropout_by_version,
                                  test_shapes_are_computed_in_the_graph,
                                  test_shapes_depend_on_values_of_inputs,
                                  test_a_large_shape_operand_is_refused,
                                  test_large_tensors_of_the_file_are_fed,
                                  test_defaults_can_be_replaced,
                                  test_outputs_may_be_inputs_or_equal,
                                  test_wrong_inputs_are_refused,
                                  test_functions_are_their_bodies,
                                  test_a_missing_reference_is_the_default,
                                  test_functions_that_never_end_are_refused,
                                  test_functions_that_multiply_are_refused,
                                  test_errors_name_node_and_operator,
                                  test_errors_while_running_carry_the_label,
                                  test_missing_operands_and_wrong_attributes};

    return check_main("ONNX models by hand", tests, EO_COUNT_OF(tests));
}
