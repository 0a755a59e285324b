/* Shape and dtype rules of reductions, order, products and quantization: what is accepted, and what hostile calls are
 * told. */
#include "tests/proto/shape_cases.h"

START_TEST(test_reductions)
{
    static const struct good good[] = {
        {"prod", "axes=-1 keepdims=1", "int8 [2, 1]", {"int8 2x3"}},
        {"prod", "axes=0", "float16 []", {"float16 0"}},
        {"any", NULL, "bool []", {"bool 2x3"}},
        {"max", "axes=1", "bool [2]", {"bool 2x3"}},
        {"std", "axes=0,1 correction=1", "float64 []", {"float64 2x3"}},
        {"cumulative_sum", "axis=0", "uint8 [0, 3]", {"uint8 0x3"}},
        {"arg_max", "last=1", "int64 [2]", {"float32 2x3"}},
        {"top_k", "k=2", "float32 [4, 2]; int64 [4, 2]", {"float32 4x5"}},
        {"top_k", "k=0 axis=0", "int8 [0, 5]; int64 [0, 5]", {"int8 4x5"}},
        {"sort", "axis=0 descending=1", "bfloat16 [0, 5]; int64 [0, 5]", {"bfloat16 0x5"}},
    };
    static const struct bad bad[] = {
        {"top_k", "k=6", EO_E_BAD_ATTRIBUTE, "k is 6, but axis 1 has 5 elements", {1, END}, {"float32 4x5"}},
        {"top_k", "k=-1", EO_E_BAD_ATTRIBUTE, "k is -1", {NONE, END}, {"float32 4x5"}},
        {"top_k", "", EO_E_BAD_ATTRIBUTE, "k", {NONE, END}, {"float32 4x5"}},
        {"top_k", "k=1 axis=2", EO_E_BAD_ATTRIBUTE, "axis 2 is out of range", {NONE, END}, {"float32 4x5"}},
        {"sort", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, END}, {"float32"}},
        {"sort", NULL, EO_E_DTYPE_MISMATCH, "input x is bool", {NONE, END}, {"bool 3"}},
        {"any", NULL, EO_E_DTYPE_MISMATCH, "must be bool", {NONE, END}, {"int8 3"}},
        {"l2_norm", NULL, EO_E_DTYPE_MISMATCH, "input x is int32", {NONE, END}, {"int32 3"}},
        {"prod", "axes=0,-2", EO_E_BAD_ATTRIBUTE, "given twice", {NONE, END}, {"float32 3x3"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_products)
{
    static const struct good good[] = {
        {"gemm", NULL, "float32 [2, 4]", {"float32 2x3", "float32 3x4"}},
        {"gemm", "transpose_a=1 transpose_b=1", "int32 [2, 4]", {"int32 3x2", "int32 4x3", "int32 2x1"}},
        {"gemm", "alpha=0.5", "float32 [2, 4]", {"float32 2x3", "float32 3x4", "float32 0"}},
        {"dot", NULL, "float32 []", {"float32 3", "float32 3"}},
        {"dot", NULL, "uint64 [2]", {"uint64 2x3", "uint64 3"}},
        {"outer", NULL, "int8 [3, 0]", {"int8 3", "int8 0"}},
    };
    static const struct bad bad[] = {
        {"gemm", NULL, EO_E_SHAPE_MISMATCH, "a has rank 1", {NONE, NONE, END}, {"float32 3", "float32 3x4"}},
        {"gemm", NULL, EO_E_SHAPE_MISMATCH, "inner dimensions differ", {1, 0, END}, {"float32 2x3", "float32 4x4"}},
        {"gemm",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "c does not broadcast to (2, 4)",
         {NONE, NONE, 0, END},
         {"float32 2x3", "float32 3x4", "float32 3"}},
        {"gemm",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "c does not broadcast",
         {NONE, NONE, 0, END},
         {"float32 2x3", "float32 3x4", "float32 1x2x4"}},
        {"gemm",
         "alpha=0.5",
         EO_E_BAD_ATTRIBUTE,
         "not a value of int32",
         {NONE, NONE, END},
         {"int32 2x3", "int32 3x4"}},
        {"dot", NULL, EO_E_SHAPE_MISMATCH, "inner dimensions differ", {0, 0, END}, {"float32 3", "float32 4"}},
        {"outer", NULL, EO_E_SHAPE_MISMATCH, "b has rank 2", {NONE, NONE, END}, {"float32 3", "float32 3x1"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_einsum)
{
    static const struct good good[] = {
        {"einsum", "equation=ij,jk->ik", "float32 [2, 4]", {"float32 2x3", "float32 3x4"}},
        {"einsum", "equation=ba,cb", "float32 [3, 4]", {"float32 2x3", "float32 4x2"}},
        {"einsum", "equation=bA", "float32 [3, 2]", {"float32 2x3"}}, /* upper case stands before lower case */
        {"einsum", "equation=ii", "float32 []", {"float32 3x3"}},
        {"einsum", "equation=...ii->...i", "float32 [7, 3]", {"float32 7x3x3"}},
        {"einsum", "equation=i...->...", "float32 [5, 6]", {"float32 4x5x6"}},
        {"einsum", "equation=...a,...b", "float32 [5, 6, 2, 3]", {"float32 6x2", "float32 5x1x3"}},
        {"einsum", "equation=->", "float32 []", {"float32"}},
        {"einsum",
         "equation=a,a,a,a,a,a,a,a->a",
         "int64 [3]",
         {"int64 3", "int64 3", "int64 1", "int64 3", "int64 3", "int64 3", "int64 3", "int64 3"}},
    };
    static const struct bad bad[] = {
        {"einsum", "equation=i1->i", EO_E_BAD_ATTRIBUTE, "character 2: '1'", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=ij-ji", EO_E_BAD_ATTRIBUTE, "character 3: '-'", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=ij->j->i", EO_E_BAD_ATTRIBUTE, "character 6: '-'", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=ij->j,i", EO_E_BAD_ATTRIBUTE, "character 6: ','", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=..i", EO_E_BAD_ATTRIBUTE, "character 1: '.'", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=...i...", EO_E_BAD_ATTRIBUTE, "character 5: '.'", {NONE, END}, {"float32 2x3"}},
        {"einsum",
         "equation=ij->k",
         EO_E_BAD_ATTRIBUTE,
         "character 5: no operand has index k",
         {NONE, END},
         {"float32 2x3"}},
        {"einsum",
         "equation=ij->ii",
         EO_E_BAD_ATTRIBUTE,
         "character 6: the result has index i twice",
         {NONE, END},
         {"float32 2x3"}},
        {"einsum",
         "equation=abcdefghi",
         EO_E_BAD_ATTRIBUTE,
         "character 9: more than 8 letters",
         {NONE, END},
         {"float32 2x3"}},
        {"einsum", "equation=a,a", EO_E_BAD_ATTRIBUTE, "2 operands, the call 1", {NONE, END}, {"float32 2"}},
        {"einsum",
         "equation=a,a,a,a,a,a,a,a,a",
         EO_E_BAD_ATTRIBUTE,
         "more than 8 operands",
         {NONE, END},
         {"float32 2"}},
        {"einsum", "", EO_E_SHAPE_MISMATCH, "operand 0 has rank 1, the equation names 0", {NONE, END}, {"float32 2"}},
        {"einsum",
         "equation=i",
         EO_E_SHAPE_MISMATCH,
         "operand 0 has rank 2, the equation names 1 dimension",
         {NONE, END},
         {"float32 2x3"}},
        {"einsum", "equation=...ijk", EO_E_SHAPE_MISMATCH, "names 3 dimensions", {NONE, END}, {"float32 2x3"}},
        {"einsum", "equation=ii", EO_E_SHAPE_MISMATCH, "index i is 2 in operand 0 and 3", {0, END}, {"float32 2x3"}},
        {"einsum",
         "equation=ij,jk",
         EO_E_SHAPE_MISMATCH,
         "index j is 3 in operand 0 and 4 in operand 1",
         {1, 0, END},
         {"float32 2x3", "float32 4x5"}},
        {"einsum",
         "equation=...,...",
         EO_E_SHAPE_MISMATCH,
         "index ...[-1] is 2 in operand 0",
         {0, 0, END},
         {"float32 2", "float32 3"}},
        {"einsum",
         "equation=abcde,fghij",
         EO_E_BAD_ATTRIBUTE,
         "the result would have 10 dimensions",
         {NONE, NONE, END},
         {"float32 1x1x1x1x1", "float32 1x1x1x1x1"}},
        {"einsum",
         "equation=abcde,fghij,abcdefgh->ij",
         EO_E_BAD_ATTRIBUTE,
         "operands 0 to 1 would have 10",
         {NONE, NONE, NONE, END},
         {"float32 1x1x1x1x1", "float32 1x1x1x1x1", "float32 1x1x1x1x1x1x1x1"}},
        {"einsum", "equation=i", EO_E_DTYPE_MISMATCH, "int8", {NONE, END}, {"int8 2"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_quantization)
{
    static const struct good good[] = {
        {"quantize_linear", NULL, "uint8 [2, 3]", {"float32 2x3", "float32"}},
        {"quantize_linear",
         "dtype=int16",
         "int8 [2, 3]",
         {"float32 2x3", "float32 3", "int8 3"}}, /* zero_point decides */
        {"quantize_linear", "axis=0", "uint16 [2, 3]", {"float16 2x3", "float16 2", "uint16"}},
        {"quantize_linear", NULL, "uint8 []", {"float32", "float32 1"}}, /* the axis of one element is not asked for */
        {"dequantize_linear", "axis=-1", "float16 [2, 3]", {"int32 2x3", "float16 3"}},
        {"dynamic_quantize_linear", NULL, "uint8 [2, 0]; float32 []; uint8 []", {"float32 2x0"}},
        {"matmul_integer", NULL, "int32 [2, 4]", {"uint8 2x3", "int8 3x4", "uint8 2", "int8 4"}},
        {"conv_integer", "layout=nchw", "int32 [1, 4, 2, 2]", {"uint8 1x2x3x3", "int8 4x2x2x2", "uint8", "int8 4"}},
        {"qlinear_matmul",
         NULL,
         "int8 [2, 4]",
         {"uint8 2x3", "float32", "uint8", "int8 3x4", "float32 4", "int8 4", "float32", "int8"}},
    };
    static const struct bad bad[] = {
        {"quantize_linear",
         "dtype=int32",
         EO_E_BAD_ATTRIBUTE,
         "dtype is int32",
         {NONE, NONE, END},
         {"float32 2", "float32"}},
        {"quantize_linear", NULL, EO_E_SHAPE_MISMATCH, "each of the 3", {NONE, 0, END}, {"float32 2x3", "float32 2"}},
        {"quantize_linear",
         NULL,
         EO_E_BAD_ATTRIBUTE,
         "axis 1 is out of range",
         {NONE, NONE, END},
         {"float32 2", "float32 2"}},
        {"quantize_linear", NULL, EO_E_DTYPE_MISMATCH, "dtypes differ", {NONE, NONE, END}, {"float32 2", "float64"}},
        {"quantize_linear",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "zero_point is int32",
         {NONE, NONE, NONE, END},
         {"float32 2", "float32", "int32"}},
        {"dequantize_linear",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "dtypes differ",
         {NONE, NONE, NONE, END},
         {"int8 2", "float32", "uint8"}},
        {"dynamic_quantize_linear", NULL, EO_E_DTYPE_MISMATCH, "must be float32", {NONE, END}, {"float64 2"}},
        {"matmul_integer", NULL, EO_E_DTYPE_MISMATCH, "input a is int32", {NONE, NONE, END}, {"int32 2x3", "int8 3x4"}},
        {"matmul_integer",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "a_zero must be one element, or one for each of the 2 rows",
         {NONE, NONE, 0, END},
         {"int8 2x3", "int8 3x4", "int8 3"}},
        {"matmul_integer",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "a_zero does not broadcast to a",
         {NONE, NONE, NONE, END},
         {"int8 2x3", "int8 3x4", "int8 4x1"}},
        {"conv_integer",
         "layout=nchw",
         EO_E_SHAPE_MISMATCH,
         "x_zero must be one element",
         {NONE, NONE, 0, END},
         {"uint8 1x2x3x3", "int8 4x2x2x2", "uint8 2"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

EO_SUITE("shape_rules_reduce", test_reductions, test_products, test_einsum, test_quantization)
