/* Shape rules of recurrent layers and attention: what is accepted, and what hostile calls are told. */
#include "tests/proto/shape_cases.h"

START_TEST(test_recurrent)
{
    static const struct good good[] = {
        {"rnn", "", "float32 [7, 1, 2, 4]; float32 [1, 2, 4]", {"float32 7x2x3", "float32 1x4x3", "float32 1x4x4"}},
        {"rnn",
         "layout=batch_first direction=bidirectional",
         "float16 [2, 7, 2, 4]; float16 [2, 2, 4]",
         {"float16 2x7x3", "float16 2x4x3", "float16 2x4x4", "float16 2x8", "int64 2", "float16 2x2x4"}},
        {"lstm",
         "direction=reverse",
         "float64 [7, 1, 2, 4]; float64 [1, 2, 4]; float64 [1, 2, 4]",
         {"float64 7x2x3", "float64 1x16x3", "float64 1x16x4", "float64 0", "int64 0", "float64 0", "float64 1x2x4",
          "float64 1x12"}},
        {"gru",
         "linear_before_reset=1",
         "float32 [0, 1, 0, 4]; float32 [1, 0, 4]",
         {"float32 0x0x3", "float32 1x12x3", "float32 1x12x4"}},
        {"gru", "", "float32 [2, 1, 3, 0]; float32 [1, 3, 0]", {"float32 2x3x0", "float32 1x0x0", "float32 1x0x0"}},
    };

    check_good(good, EO_COUNT_OF(good));
}
END_TEST

/* Each operand of another rank or with another size: the error names the operand and marks the dimension. */
START_TEST(test_wrong_operands)
{
#define RIGHT "float32 7x2x3", "float32 1x16x3", "float32 1x16x4"
    static const struct bad bad[] = {
        {"lstm", "", EO_E_BAD_ARITY, "takes 3 to 8 inputs", {NONE, NONE, END}, {"float32 7x2x3", "float32 1x16x3"}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "x has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 7x3", "float32 1x16x3", "float32 1x16x4"}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "w has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 7x2x3", "float32 16x3", "float32 1x16x4"}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "must be a multiple of 4 gates",
         {NONE, 1, NONE, END},
         {"float32 7x2x3", "float32 1x18x3", "float32 1x16x4"}},
        {"lstm",
         "direction=bidirectional",
         EO_E_SHAPE_MISMATCH,
         "dimension 0 of w is 1, must be 2",
         {NONE, 0, NONE, END},
         {RIGHT}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "dimension 2 of w is 5, must be 3",
         {NONE, 2, NONE, END},
         {"float32 7x2x3", "float32 1x16x5", "float32 1x16x4"}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "dimension 2 of r is 5, must be 4",
         {NONE, NONE, 2, END},
         {"float32 7x2x3", "float32 1x16x3", "float32 1x16x5"}},
        {"lstm", "", EO_E_SHAPE_MISMATCH, "b has rank 1", {NONE, NONE, NONE, NONE}, {RIGHT, "float32 32"}},
        {"lstm",
         "",
         EO_E_SHAPE_MISMATCH,
         "dimension 1 of b is 16, must be 32",
         {NONE, NONE, NONE, 1},
         {RIGHT, "float32 1x16"}},
        {"rnn",
         "layout=batch_first",
         EO_E_SHAPE_MISMATCH,
         "dimension 0 of initial_h is 1, must be 7",
         {NONE, NONE, NONE, 0},
         {"float32 7x2x3", "float32 1x4x3", "float32 1x4x4", "float32 0", "float32 0", "float32 1x7x4"}},
        {"rnn",
         "",
         EO_E_TOO_LARGE,
         "x has 8193 steps",
         {0, NONE, NONE, END},
         {"float32 8193x2x3", "float32 1x4x3", "float32 1x4x4"}},
        {"rnn",
         "",
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, NONE, END},
         {"float32 8192x9007199254740992x0", "float32 1x4x0", "float32 1x4x4"}},
        {"gru",
         "",
         EO_E_DTYPE_MISMATCH,
         "x is int64",
         {NONE, NONE, NONE, END},
         {"int64 7x2x3", "int64 1x12x3", "int64 1x12x4"}},
        {"gru",
         "",
         EO_E_DTYPE_MISMATCH,
         "r is float64",
         {NONE, NONE, NONE, END},
         {"float32 7x2x3", "float32 1x12x3", "float64 1x12x4"}},
        {"gru",
         "clip=-1",
         EO_E_BAD_ATTRIBUTE,
         "clip is -1",
         {NONE, NONE, NONE, END},
         {"float32 7x2x3", "float32 1x12x3", "float32 1x12x4"}},
    };

    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

/* Operands beyond the fourth: the error lists four of them, the one that is wrong among them. */
START_TEST(test_wrong_late_operands)
{
    static const struct {
        int operand;
        const char *desc, *message;
    } wrong[] = {
        {4, "int64 3", "dimension 0 of lengths is 3, must be 2"},
        {4, "int32 2", "lengths is int32"},
        {5, "float32 2x1x4", "dimension 0 of initial_h is 2, must be 1"},
        {6, "float32 1x2x5", "dimension 2 of initial_c is 5, must be 4"},
        {7, "float32 1x16", "dimension 1 of peepholes is 16, must be 12"},
        {7, "float64 1x12", "peepholes is float64"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(wrong); i++) {
        const char *in[8] = {RIGHT, "float32 1x32", "int64 2", "float32 1x2x4", "float32 1x2x4", "float32 1x12"};
        struct eo_error err;
        char text[256];

        ASSERT_OK(op_case_infer("lstm", in, 8, "", text, sizeof(text), &err));
        in[wrong[i].operand] = wrong[i].desc;
        ck_assert_int_ne(op_case_infer("lstm", in, 8, "", text, sizeof(text), &err), EO_OK);
        ASSERT_CONTAINS(err.message, wrong[i].message);
    }
}
END_TEST

START_TEST(test_attention)
{
    static const struct good good[] = {
        {"attention", "", "float32 [5, 3]", {"float32 5x4", "float32 6x4", "float32 6x3"}},
        {"attention",
         "causal=1",
         "float16 [2, 3, 5, 3]",
         {"float16 2x3x5x4", "float16 1x6x4", "float16 2x1x6x3", "bool 6"}},
        {"attention", "", "float32 [0, 3]", {"float32 0x4", "float32 6x4", "float32 6x3", "float32"}},
        {"attention", "", "float32 [5, 0]", {"float32 5x0", "float32 0x0", "float32 0x0", "float32 5x0"}},
        {"attention", "p=0.5", "float64 [5, 3]", {"float64 5x4", "float64 6x4", "float64 6x3", "float64 0", "int64 3"}},
    };
    static const struct bad bad[] = {
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "q has rank 1",
         {NONE, NONE, NONE, END},
         {"float32 4", "float32 6x4", "float32 6x3"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "v has rank 1",
         {NONE, NONE, NONE, END},
         {"float32 5x4", "float32 6x4", "float32 6"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "the last size of q is 4, of k 5",
         {1, 1, NONE, END},
         {"float32 5x4", "float32 6x5", "float32 6x3"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "the number of rows of k is 6, of v 7",
         {NONE, 0, 0, END},
         {"float32 5x4", "float32 6x4", "float32 7x3"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "q has 2 where v has 3",
         {0, NONE, 0, END},
         {"float32 2x5x4", "float32 6x4", "float32 3x6x3"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "mask must broadcast to the scores, float32 [5, 6]",
         {NONE, NONE, NONE, 1},
         {"float32 5x4", "float32 6x4", "float32 6x3", "bool 5x5"}},
        {"attention",
         "",
         EO_E_SHAPE_MISMATCH,
         "mask must broadcast",
         {NONE, NONE, NONE, 0},
         {"float32 5x4", "float32 6x4", "float32 6x3", "bool 1x5x6"}},
        {"attention",
         "",
         EO_E_DTYPE_MISMATCH,
         "mask is float64",
         {NONE, NONE, NONE, NONE},
         {"float32 5x4", "float32 6x4", "float32 6x3", "float64 5x6"}},
        {"attention",
         "",
         EO_E_DTYPE_MISMATCH,
         "k is float64",
         {NONE, NONE, NONE, END},
         {"float32 5x4", "float64 6x4", "float32 6x3"}},
        {"attention",
         "p=0.5",
         EO_E_BAD_ATTRIBUTE,
         "needs operand rng",
         {NONE, NONE, NONE, END},
         {"float32 5x4", "float32 6x4", "float32 6x3"}},
        {"attention",
         "p=1",
         EO_E_BAD_ATTRIBUTE,
         "must be below 1",
         {NONE, NONE, NONE, END},
         {"float32 5x4", "float32 6x4", "float32 6x3"}},
        {"attention",
         "",
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, NONE, END},
         {"float32 4294967296x0", "float32 4294967296x0", "float32 4294967296x0"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

EO_SUITE("shape_rules_recurrent", test_recurrent, test_wrong_operands, test_wrong_late_operands, test_attention)
