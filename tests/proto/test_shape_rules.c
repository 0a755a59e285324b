/* Every shape and dtype rule: what is accepted, and what hostile calls are told. */
#include "proto/shape_rules.h"
#include "tests/proto/shape_cases.h"

#include <inttypes.h>

START_TEST(test_creation)
{
    static const struct good good[] = {
        {"full", "shape=2,3 dtype=int8 value=-128", "int8 [2, 3]", {NULL}},
        {"full", "shape=", "float32 []", {NULL}},
        {"full", "shape=0,7 value=nan dtype=float64", "float64 [0, 7]", {NULL}},
        {"full", "shape=1,1,1,1,1,1,1,1 dtype=bool value=1", "bool [1, 1, 1, 1, 1, 1, 1, 1]", {NULL}},
        {"uniform", "shape=4,5 low=-1 high=1 stream=4294967295", "float32 [4, 5]", {"int64 3"}},
        {"uniform", "shape= low=2 high=2 dtype=float64", "float64 []", {"int64 3"}},
        {"normal", "shape=10 std=0 dtype=bfloat16", "bfloat16 [10]", {"int64 3"}},
        {"zeros", "shape=2,0 dtype=bool", "bool [2, 0]", {NULL}},
        {"ones", "shape= dtype=uint64", "uint64 []", {NULL}},
        {"eye", "shape=2,3 k=-9223372036854775808", "float32 [2, 3]", {NULL}},
        {"arange", "count=0", "float32 [0]", {NULL}},
        {"arange", "count=5 dtype=int8 start=1e300", "int8 [5]", {NULL}},
        {"linspace", "count=5 dtype=bfloat16", "bfloat16 [5]", {NULL}},
        {"bernoulli", "shape=3 dtype=bool p=1", "bool [3]", {"int64 3"}},
        {"permutation", "n=7", "int64 [7]", {"int64 3"}},
    };
    static const struct bad bad[] = {
        {"full", "shape=2 dtype=int8 value=128", EO_E_BAD_ATTRIBUTE, "not a value of int8", {END}, {NULL}},
        {"full", "shape=2 dtype=int32 value=0.5", EO_E_BAD_ATTRIBUTE, "not a value of int32", {END}, {NULL}},
        {"full", "shape=2 dtype=bool value=nan", EO_E_BAD_ATTRIBUTE, "not a value of bool", {END}, {NULL}},
        {"full", "shape=-1", EO_E_BAD_ATTRIBUTE, "must be at least 0", {END}, {NULL}},
        {"full", "shape=1,1,1,1,1,1,1,1,1", EO_E_BAD_ATTRIBUTE, "9 entries", {END}, {NULL}},
        {"full", "shape=4611686018427387904,2", EO_E_TOO_LARGE, "does not fit in 64 bits", {END}, {NULL}},
        {"full", "shape=2 dtype=complex", EO_E_BAD_ATTRIBUTE, "dtype is missing", {END}, {NULL}},
        {"full", "shape=2", EO_E_BAD_ARITY, "takes 0 inputs, not 1", {NONE, END}, {"float32 2"}},
        {"uniform", "shape=2 dtype=int32", EO_E_BAD_ATTRIBUTE, "dtype is int32", {NONE, END}, {"int64 3"}},
        {"uniform", "shape=2 low=1 high=0", EO_E_BAD_ATTRIBUTE, "low must not be above", {NONE, END}, {"int64 3"}},
        {"uniform", "shape=2 low=-1e308 high=1e308", EO_E_BAD_ATTRIBUTE, "wider than", {NONE, END}, {"int64 3"}},
        {"uniform", "shape=2 low=-inf", EO_E_BAD_ATTRIBUTE, "low is -inf", {NONE, END}, {"int64 3"}},
        {"uniform", "shape=2 stream=-1", EO_E_BAD_ATTRIBUTE, "stream is -1", {NONE, END}, {"int64 3"}},
        {"uniform", "shape=2", EO_E_SHAPE_MISMATCH, "rng must have shape [3]", {0, END}, {"int64 4"}},
        {"uniform", "shape=2", EO_E_SHAPE_MISMATCH, "rng must have shape [3]", {NONE, END}, {"int64"}},
        {"uniform", "shape=2", EO_E_DTYPE_MISMATCH, "rng is int32", {NONE, END}, {"int32 3"}},
        {"uniform", "shape=2", EO_E_BAD_ARITY, "takes 1 input, not 0", {END}, {NULL}},
        {"normal", "shape=2 std=-1", EO_E_BAD_ATTRIBUTE, "std is -1", {NONE, END}, {"int64 3"}},
        {"normal", "shape=2 mean=nan", EO_E_BAD_ATTRIBUTE, "mean is nan", {NONE, END}, {"int64 3"}},
        {"zeros", "shape=2,-1", EO_E_BAD_ATTRIBUTE, "must be at least 0", {END}, {NULL}},
        {"ones", "shape=4611686018427387904,4611686018427387904", EO_E_TOO_LARGE, "64 bits", {END}, {NULL}},
        {"eye", "shape=3", EO_E_BAD_ATTRIBUTE, "must have 2: rows, columns", {END}, {NULL}},
        {"eye", "shape=3,4,5", EO_E_BAD_ATTRIBUTE, "has 3 entries", {END}, {NULL}},
        {"arange", "", EO_E_BAD_ATTRIBUTE, "count", {END}, {NULL}},
        {"arange", "count=-1", EO_E_BAD_ATTRIBUTE, "count is -1", {END}, {NULL}},
        {"arange", "count=9223372036854775807", EO_E_TOO_LARGE, "64 bits", {END}, {NULL}},
        {"arange", "count=2 dtype=bool", EO_E_BAD_ATTRIBUTE, "dtype is bool", {END}, {NULL}},
        {"arange", "count=2 step=inf", EO_E_BAD_ATTRIBUTE, "step is inf", {END}, {NULL}},
        {"linspace", "count=2 start=-1e308 stop=1e308", EO_E_BAD_ATTRIBUTE, "wider than", {END}, {NULL}},
        {"linspace", "count=2 dtype=bool", EO_E_BAD_ATTRIBUTE, "dtype is bool", {END}, {NULL}},
        {"bernoulli", "shape=2 p=1.5", EO_E_BAD_ATTRIBUTE, "p is 1.5", {NONE, END}, {"int64 3"}},
        {"bernoulli", "shape=2 p=nan", EO_E_BAD_ATTRIBUTE, "p is nan", {NONE, END}, {"int64 3"}},
        {"bernoulli", "shape=2", EO_E_SHAPE_MISMATCH, "rng must have shape [3]", {0, END}, {"int64 2"}},
        {"permutation", "", EO_E_BAD_ATTRIBUTE, "n", {NONE, END}, {"int64 3"}},
        {"permutation", "n=4", EO_E_DTYPE_MISMATCH, "rng is float32", {NONE, END}, {"float32 3"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_elementwise)
{
    static const struct good good[] = {
        {"negative", NULL, "int16 [2, 0]", {"int16 2x0"}},
        {"exp", NULL, "bfloat16 []", {"bfloat16"}},
        {"isfinite", NULL, "bool [3]", {"float16 3"}},
        {"logical_not", NULL, "bool [3]", {"bool 3"}},
        {"add", NULL, "float32 [2, 3]", {"float32 2x3", "float32 3"}},
        {"add", NULL, "uint64 [2, 3]", {"uint64 2x1", "uint64 1x3"}},
        {"add", NULL, "float32 [2, 0]", {"float32 2x1", "float32 1x0"}},
        {"multiply", NULL, "float64 [1, 1, 1, 1, 1, 1, 1, 9]", {"float64 1x1x1x1x1x1x1x9", "float64"}},
        {"equal", NULL, "bool [4]", {"bool 4", "bool 1"}},
        {"less", NULL, "bool [4]", {"uint8 4", "uint8"}},
        {"where", NULL, "int8 [2, 3]", {"bool 3", "int8 2x1", "int8"}},
        {"where", NULL, "bool [1]", {"bool", "bool 1", "bool"}},
        {"clip", "low=-1.5 high=inf", "float16 [3]", {"float16 3"}},
        {"clip", "low=0 high=255", "uint8 [3]", {"uint8 3"}},
        {"clip", "low=2 high=2", "int64 []", {"int64"}},
        {"cast", "dtype=bool", "bool [5, 5]", {"float32 5x5"}},
        {"cast", "dtype=float32", "float32 []", {"float32"}},
    };
    static const struct bad bad[] = {
        {"add", NULL, EO_E_SHAPE_MISMATCH, "a has 3 where b has 4", {1, 0, END}, {"float32 2x3", "float32 4"}},
        {"add", NULL, EO_E_SHAPE_MISMATCH, "a has 0 where b has 2", {0, 0, END}, {"float32 0", "float32 2"}},
        {"add", NULL, EO_E_DTYPE_MISMATCH, "a is float32, b is float64", {NONE, NONE, END}, {"float32 2", "float64 2"}},
        {"add", NULL, EO_E_DTYPE_MISMATCH, "input a is bool", {NONE, NONE, END}, {"bool 2", "bool 2"}},
        {"add", NULL, EO_E_BAD_ARITY, "takes 2 inputs, not 1", {NONE, END}, {"float32 2"}},
        {"add",
         NULL,
         EO_E_BAD_ARITY,
         "takes 2 inputs, not 6",
         {NONE, NONE, NONE, NONE},
         {"int8", "int8", "int8", "int8", "int8", "int8"}},
        {"atan2",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "must be float32, float64, float16 or bfloat16",
         {NONE, NONE, END},
         {"int32 2", "int32 2"}},
        {"maximum", NULL, EO_E_DTYPE_MISMATCH, "input a is bool", {NONE, NONE, END}, {"bool", "bool"}},
        {"logical_and", NULL, EO_E_DTYPE_MISMATCH, "must be bool", {NONE, NONE, END}, {"int8", "int8"}},
        {"tanh", NULL, EO_E_DTYPE_MISMATCH, "input x is int32", {NONE, END}, {"int32 2"}},
        {"negative", NULL, EO_E_DTYPE_MISMATCH, "input x is uint8", {NONE, END}, {"uint8 2"}},
        {"where",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "condition is float32",
         {NONE, NONE, NONE, END},
         {"float32", "float32", "float32"}},
        {"where",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "a is int8, b is int16",
         {NONE, NONE, NONE, END},
         {"bool", "int8", "int16"}},
        {"where",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "condition has 2 where b has 3",
         {0, NONE, 1, END},
         {"bool 2", "int8", "int8 4x3"}},
        {"clip", "low=nan", EO_E_BAD_ATTRIBUTE, "low is nan", {NONE, END}, {"float32"}},
        {"clip", "low=2 high=1", EO_E_BAD_ATTRIBUTE, "above high", {NONE, END}, {"float32"}},
        {"clip", "low=0.5", EO_E_BAD_ATTRIBUTE, "a value of int32", {NONE, END}, {"int32"}},
        {"clip", "high=256", EO_E_BAD_ATTRIBUTE, "a value of uint8", {NONE, END}, {"uint8"}},
        {"clip", NULL, EO_E_DTYPE_MISMATCH, "input x is bool", {NONE, END}, {"bool"}},
        {"cast", NULL, EO_E_BAD_ATTRIBUTE, "attribute dtype is missing", {NONE, END}, {"float32"}},
        /* the result would be larger than its operands: 2^62 elements of 4 bytes */
        {"add",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"float32 2147483648x1", "float32 2147483648"}},
        {"cast", "dtype=float64", EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"int8 4611686018427387904"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_activations)
{
    static const struct good good[] = {
        {"leaky_relu", "alpha=-1e38", "float32 [2, 0]", {"float32 2x0"}},
        {"gelu", "approximate=tanh", "bfloat16 []", {"bfloat16"}},
        {"celu", "alpha=-1e300", "float64 [3]", {"float64 3"}},
        {"prelu", NULL, "float32 [2, 3, 4]", {"float32 2x3x4", "float32 3x1"}},
        {"prelu", NULL, "float16 [0, 4]", {"float16 0x4", "float16"}},
        {"relu", NULL, "int8 [3]", {"int8 3"}},
    };
    static const struct bad bad[] = {
        {"leaky_relu", "alpha=1e39", EO_E_BAD_ATTRIBUTE, "alpha is 1e+39, beyond", {NONE, END}, {"float16 2"}},
        {"leaky_relu", "alpha=nan", EO_E_BAD_ATTRIBUTE, "alpha is nan", {NONE, END}, {"float32 2"}},
        {"hard_sigmoid", "beta=-1e40", EO_E_BAD_ATTRIBUTE, "beta is -1e+40", {NONE, END}, {"float32 2"}},
        {"celu", "alpha=0", EO_E_BAD_ATTRIBUTE, "alpha is 0, must not be 0", {NONE, END}, {"float64 2"}},
        {"celu", "alpha=1e-60", EO_E_BAD_ATTRIBUTE, "alpha is 1e-60, must not", {NONE, END}, {"float32 2"}},
        {"shrink", "lambd=-1", EO_E_BAD_ATTRIBUTE, "lambd is -1", {NONE, END}, {"float32 2"}},
        {"silu", NULL, EO_E_DTYPE_MISMATCH, "input x is int32", {NONE, END}, {"int32 2"}},
        {"prelu", NULL, EO_E_SHAPE_MISMATCH, "slope must broadcast", {NONE, NONE, END}, {"float32 3", "float32 2x3"}},
        {"prelu", NULL, EO_E_SHAPE_MISMATCH, "x has 4 where slope has 3", {1, 0, END}, {"float32 3x4", "float32 3"}},
        {"prelu", NULL, EO_E_DTYPE_MISMATCH, "dtypes differ", {NONE, NONE, END}, {"float32 3", "float64 3"}},
        {"relu", NULL, EO_E_DTYPE_MISMATCH, "input x is uint8", {NONE, END}, {"uint8 2"}},
        {"bitwise_and", NULL, EO_E_DTYPE_MISMATCH, "input a is bool", {NONE, NONE, END}, {"bool 2", "bool 2"}},
        {"shift_left", NULL, EO_E_DTYPE_MISMATCH, "input a is float32", {NONE, NONE, END}, {"float32 2", "float32 2"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_products)
{
    static const struct good good[] = {
        {"matmul", NULL, "float32 [32, 128]", {"float32 32x784", "float32 784x128"}},
        {"matmul", "transpose_b=1", "float32 [32, 128]", {"float32 32x784", "float32 128x784"}},
        {"matmul", "transpose_a=1", "float32 [32, 128]", {"float32 784x32", "float32 784x128"}},
        {"matmul", "transpose_a=1 transpose_b=1", "float32 [5, 7]", {"float32 6x5", "float32 7x6"}},
        {"matmul", NULL, "float32 []", {"float32 4", "float32 4"}},
        {"matmul", NULL, "float32 [3]", {"float32 4", "float32 4x3"}},
        {"matmul", NULL, "float32 [3]", {"float32 3x4", "float32 4"}},
        {"matmul", NULL, "float32 [9, 3]", {"float32 4", "float32 9x4x3"}},
        {"matmul", NULL, "float32 [9, 3]", {"float32 9x3x4", "float32 4"}},
        {"matmul",
         "transpose_a=1 transpose_b=1",
         "float32 [3]",
         {"float32 4", "float32 3x4"}}, /* a vector: no effect */
        {"matmul", NULL, "float64 [8, 5, 2, 3]", {"float64 8x1x2x4", "float64 5x4x3"}},
        {"matmul", NULL, "int32 [2, 3]", {"int32 2x0", "int32 0x3"}},
        {"matmul", NULL, "int64 [0, 2, 3]", {"int64 0x2x4", "int64 1x4x3"}},
        {"matmul", NULL, "float16 [1, 1, 1, 1, 1, 1, 2, 3]", {"float16 1x1x1x1x1x1x2x4", "float16 1x1x1x1x1x1x4x3"}},
        {"linear", NULL, "float32 [32, 10]", {"float32 32x64", "float32 64x10", "float32 10"}},
        {"linear", NULL, "float32 [10]", {"float32 64", "float32 64x10", "float32 10"}},
        {"linear", NULL, "float32 [2, 0, 10]", {"float32 2x0x64", "float32 64x10", "float32 10"}},
    };
    static const struct bad bad[] = {
        {"matmul",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "inner dimensions differ: 784 and 128",
         {1, 0, END},
         {"float32 32x784", "float32 128x784"}},
        {"matmul",
         "transpose_a=1",
         EO_E_SHAPE_MISMATCH,
         "inner dimensions differ: 5 and 6",
         {0, 0, END},
         {"float32 5x6", "float32 6x4"}},
        {"matmul",
         "transpose_b=1",
         EO_E_SHAPE_MISMATCH,
         "inner dimensions differ: 6 and 4",
         {1, 1, END},
         {"float32 5x6", "float32 6x4"}},
        {"matmul", NULL, EO_E_SHAPE_MISMATCH, "a is a scalar", {NONE, NONE, END}, {"float32", "float32 2x2"}},
        {"matmul", NULL, EO_E_SHAPE_MISMATCH, "b is a scalar", {NONE, NONE, END}, {"float32 2x2", "float32"}},
        {"matmul",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "inner dimensions differ: 3 and 4",
         {0, 0, END},
         {"float32 3", "float32 4"}},
        {"matmul",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "batch dimensions do not broadcast: 2 and 3",
         {0, 1, END},
         {"float32 2x4x5", "float32 9x3x5x6"}},
        {"matmul", NULL, EO_E_DTYPE_MISMATCH, "input a is int8", {NONE, NONE, END}, {"int8 2x2", "int8 2x2"}},
        {"matmul", NULL, EO_E_DTYPE_MISMATCH, "dtypes differ", {NONE, NONE, END}, {"float32 2x2", "float64 2x2"}},
        {"matmul",
         "transpose_a=2",
         EO_E_BAD_ATTRIBUTE,
         "must be 0 or 1",
         {NONE, NONE, END},
         {"float32 2x2", "float32 2x2"}},
        {"matmul",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"float32 2147483648x1", "float32 1x2147483648"}},
        {"linear",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "the last dimension of x must be 64",
         {1, 0, NONE, END},
         {"float32 32x63", "float32 64x10", "float32 10"}},
        {"linear",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "the last dimension of x must be 64",
         {NONE, 0, NONE, END},
         {"float32", "float32 64x10", "float32 10"}},
        {"linear",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "bias has 11 elements",
         {NONE, 1, 0, END},
         {"float32 32x64", "float32 64x10", "float32 11"}},
        {"linear",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "weight has rank 1",
         {NONE, NONE, NONE, END},
         {"float32 32x64", "float32 64", "float32 10"}},
        {"linear",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "bias has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 32x64", "float32 64x10", "float32 1x10"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

/* The report of a mismatch, as design section 11 and a terminal show it. */
START_TEST(test_report)
{
    static const char *const in[] = {"float32 32x784", "float32 128x784"};
    struct eo_error err;
    char text[512], report[2048];

    ASSERT_CODE(op_case_infer("matmul", in, 2, NULL, text, sizeof(text), &err), EO_E_SHAPE_MISMATCH);
    eo_error_text(&err, false, report, sizeof(report));
    ASSERT_CONTAINS(report, "EO-2001: inner dimensions differ: 784 and 128\n");
    ASSERT_CONTAINS(report, "matmul");
    ASSERT_CONTAINS(report, "float32 [32, 784]\n");
    ASSERT_CONTAINS(report, "float32 [128, 784]\n");
    ASSERT_CONTAINS(report, "^^^");
    ASSERT_CONTAINS(report, "transpose_b");
}
END_TEST

START_TEST(test_reductions)
{
    static const struct good good[] = {
        {"sum", NULL, "float32 []", {"float32 2x3"}},
        {"sum", "axes=0", "int8 [3]", {"int8 2x3"}},
        {"sum", "axes=-1 keepdims=1", "float32 [2, 1]", {"float32 2x3"}},
        {"sum", "axes=2,0", "float32 [3]", {"float32 2x3x4"}},
        {"sum", "keepdims=1", "float32 [1, 1]", {"float32 2x3"}},
        {"sum", NULL, "float32 []", {"float32"}},
        {"sum", "axes=0", "float32 [4]", {"float32 0x4"}},
        {"mean", "axes=1", "float64 [0]", {"float64 0x4"}},
        {"variance", "axes=0 correction=1", "float32 [3]", {"float32 2x3"}},
        {"max", "axes=1", "uint8 [0]", {"uint8 0x4"}},     /* nothing is missing */
        {"min", "axes=1", "float32 [0]", {"float32 0x0"}}, /* a result without elements */
        {"arg_max", NULL, "int64 [2]", {"float32 2x3"}},
        {"arg_max", "axis=0 keepdims=1", "int64 [1, 3]", {"int8 2x3"}},
        {"arg_min", "axis=-2", "int64 [3]", {"bfloat16 2x3"}},
        {"softmax", NULL, "float32 [2, 3]", {"float32 2x3"}},
        {"softmax", "axis=0", "float32 [0, 3]", {"float32 0x3"}},
        {"log_softmax", "axis=-3", "float64 [2, 3, 4]", {"float64 2x3x4"}},
    };
    static const struct bad bad[] = {
        {"sum", "axes=2", EO_E_BAD_ATTRIBUTE, "axis 2 is out of range for rank 2", {NONE, END}, {"float32 2x3"}},
        {"sum", "axes=-3", EO_E_BAD_ATTRIBUTE, "must be -2 to 1", {NONE, END}, {"float32 2x3"}},
        {"sum", "axes=0,-2", EO_E_BAD_ATTRIBUTE, "axis -2 is given twice", {NONE, END}, {"float32 2x3"}},
        {"sum", "axes=0", EO_E_BAD_ATTRIBUTE, "a 0-dim tensor", {NONE, END}, {"float32"}},
        {"sum", "axes=9223372036854775807", EO_E_BAD_ATTRIBUTE, "must be -8 to 7", {NONE, END}, {"float32 2x3"}},
        {"sum", "axes=0,0,0,0,0,0,0,0,0,0", EO_E_BAD_ATTRIBUTE, "given twice", {NONE, END}, {"float32 2"}},
        {"sum", NULL, EO_E_DTYPE_MISMATCH, "input x is bool", {NONE, END}, {"bool 2"}},
        {"mean", NULL, EO_E_DTYPE_MISMATCH, "input x is int32", {NONE, END}, {"int32 2"}},
        {"variance", "correction=-1", EO_E_BAD_ATTRIBUTE, "correction is -1", {NONE, END}, {"float32 2"}},
        {"max", NULL, EO_E_SHAPE_MISMATCH, "which has no elements", {0, END}, {"float32 0"}},
        {"max", "axes=0", EO_E_SHAPE_MISMATCH, "max over axis 0", {0, END}, {"float32 0x4"}},
        {"min", "axes=1 keepdims=1", EO_E_SHAPE_MISMATCH, "min over axis 1", {1, END}, {"float32 4x0"}},
        {"arg_max", NULL, EO_E_SHAPE_MISMATCH, "no elements", {1, END}, {"float32 4x0"}},
        {"arg_max", "axis=2", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"float32 2x3"}},
        {"arg_max", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, END}, {"float32"}},
        {"arg_max", NULL, EO_E_DTYPE_MISMATCH, "input x is bool", {NONE, END}, {"bool 3"}},
        {"softmax", "axis=1", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"float32 3"}},
        {"softmax", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, END}, {"float32"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_reshape_transpose_expand)
{
    static const struct good good[] = {
        {"reshape", "shape=3,2", "float32 [3, 2]", {"float32 2x3"}},
        {"reshape", "shape=-1", "bool [6]", {"bool 2x3"}},
        {"reshape", "shape=2,-1,3", "float32 [2, 1, 3]", {"float32 2x3"}},
        {"reshape", "shape=", "int8 []", {"int8 1x1"}},
        {"reshape", "shape=1,1", "int8 [1, 1]", {"int8"}},
        {"reshape", "shape=0,5", "float32 [0, 5]", {"float32 2x0"}},
        {"reshape", "shape=-1,5", "float32 [0, 5]", {"float32 2x0"}},
        {"reshape", "shape=1,1,1,1,1,1,1,-1", "float32 [1, 1, 1, 1, 1, 1, 1, 4]", {"float32 2x2"}},
        {"transpose", NULL, "float32 [4, 3, 2]", {"float32 2x3x4"}},
        {"transpose", "perm=1,2,0", "float32 [3, 4, 2]", {"float32 2x3x4"}},
        {"transpose", NULL, "float32 []", {"float32"}},
        {"transpose", NULL, "float32 [7]", {"float32 7"}},
        {"expand", "shape=2,3", "float32 [2, 3]", {"float32 1x3"}},
        {"expand", "shape=4,2,3", "float32 [4, 2, 3]", {"float32 2x1"}},
        {"expand", "shape=", "float32 []", {"float32"}},
        {"expand", "shape=0", "float32 [0]", {"float32 1"}},
    };
    static const struct bad bad[] = {
        {"reshape", "shape=-1,-1", EO_E_BAD_ATTRIBUTE, "-1 in entries 0 and 1", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=-2", EO_E_BAD_ATTRIBUTE, "must be at least -1", {NONE, END}, {"float32 2x3"}},
        {"reshape",
         "shape=4",
         EO_E_SHAPE_MISMATCH,
         "6 elements cannot take a shape of 4",
         {NONE, END},
         {"float32 2x3"}},
        {"reshape", "shape=4,-1", EO_E_SHAPE_MISMATCH, "a multiple of 4", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=", EO_E_SHAPE_MISMATCH, "6 elements", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=0,-1", EO_E_SHAPE_MISMATCH, "cannot be worked out", {NONE, END}, {"float32 0x3"}},
        {"reshape", "shape=0", EO_E_SHAPE_MISMATCH, "6 elements", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=1,1,1,1,1,1,1,1,6", EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=4611686018427387904,4", EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"float32 2x3"}},
        {"reshape", "shape=0,4611686018427387904,4", EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"float32 0"}},
        {"transpose", "perm=0", EO_E_BAD_ATTRIBUTE, "perm has 1 entries", {NONE, END}, {"float32 2x3"}},
        {"transpose", "perm=0,0", EO_E_BAD_ATTRIBUTE, "no permutation", {NONE, END}, {"float32 2x3"}},
        {"transpose", "perm=0,2", EO_E_BAD_ATTRIBUTE, "entry 1 of attribute perm is 2", {NONE, END}, {"float32 2x3"}},
        {"transpose", "perm=0,-1", EO_E_BAD_ATTRIBUTE, "must be 0 to 7", {NONE, END}, {"float32 2x3"}},
        {"transpose", "perm=0,1,2,3,4,5,6,7,0", EO_E_BAD_ATTRIBUTE, "perm has 9", {NONE, END}, {"float32 2x3"}},
        {"expand", "shape=3", EO_E_SHAPE_MISMATCH, "rank 2 and cannot", {NONE, END}, {"float32 1x3"}},
        {"expand", "shape=2,4", EO_E_SHAPE_MISMATCH, "3 cannot expand to 4", {1, END}, {"float32 1x3"}},
        {"expand", "shape=1", EO_E_SHAPE_MISMATCH, "3 cannot expand to 1", {0, END}, {"float32 3"}},
        {"expand", "shape=-1", EO_E_BAD_ATTRIBUTE, "at least 0", {NONE, END}, {"float32 3"}},
        {"expand", "shape=1,1,1,1,1,1,1,1,3", EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"float32 3"}},
        {"expand", "shape=9223372036854775807,3", EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"float32 3"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_concatenate)
{
    static const struct good good[] = {
        {"concatenate", NULL, "float32 [7, 3]", {"float32 2x3", "float32 5x3"}},
        {"concatenate", "axis=-1", "float32 [2, 4]", {"float32 2x3", "float32 2x1", "float32 2x0"}},
        {"concatenate", NULL, "bool [4]", {"bool 4"}},
    };
    static const struct bad bad[] = {
        {"concatenate",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "dimension 1 differs: 3 and 4",
         {1, 1, END},
         {"float32 2x3", "float32 5x4"}},
        {"concatenate",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "ranks differ: 2 and 1",
         {NONE, NONE, END},
         {"float32 2x3", "float32 3"}},
        {"concatenate", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, NONE, END}, {"float32", "float32"}},
        {"concatenate", "axis=2", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"float32 2x3"}},
        {"concatenate",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "inputs[0] is int8, inputs[1] is uint8",
         {NONE, NONE, END},
         {"int8 2", "uint8 2"}},
        {"concatenate", NULL, EO_E_BAD_ARITY, "takes 1 to 64 inputs, not 0", {END}, {NULL}},
        {"concatenate",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"int8 9223372036854775807", "int8 9223372036854775807"}},
        {"concatenate",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"int8 4611686018427387904", "int8 4611686018427387904"}},
    };
    const char *many[EO_MAX_INPUTS + 1];
    struct eo_error err;
    char text[512];

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
    for (int i = 0; i <= EO_MAX_INPUTS; i++) {
        many[i] = i == 40 ? "int8 2x4" : "int8 2x3";
    }
    ASSERT_CODE(op_case_infer("concatenate", many, EO_MAX_INPUTS, NULL, text, sizeof(text), &err), EO_E_SHAPE_MISMATCH);
    ck_assert_int_eq(err.n_inputs, EO_ERROR_INPUTS); /* the culprit is among those listed */
    ck_assert_str_eq(err.inputs[0].name, "inputs[0]");
    ck_assert_str_eq(err.inputs[3].name, "inputs[40]");
    ck_assert_int_eq(err.inputs[3].marked_dim, 1);
    ASSERT_CODE(op_case_infer("concatenate", many, EO_MAX_INPUTS + 1, NULL, text, sizeof(text), &err), EO_E_BAD_ARITY);
    many[40] = many[0];
    ASSERT_OK(op_case_infer("concatenate", many, EO_MAX_INPUTS, NULL, text, sizeof(text), &err));
    ck_assert_str_eq(text, "int8 [128, 3]");
}
END_TEST

START_TEST(test_slices)
{
    static const struct good good[] = {
        {"slice", "starts=1,0 stops=3,2", "float32 [2, 2]", {"float32 4x5"}},
        {"slice", "starts=0 stops=10 steps=3", "float32 [4]", {"float32 10"}},
        {"slice", "starts=-1 stops=-11 steps=-1", "float32 [10]", {"float32 10"}},
        {"slice", "starts=9223372036854775807 stops=-9223372036854775808 steps=-2", "float32 [5]", {"float32 10"}},
        {"slice", "starts=0 stops=9223372036854775807 steps=9223372036854775807", "float32 [1]", {"float32 10"}},
        {"slice", "starts=9 stops=-9223372036854775808 steps=-9223372036854775808", "float32 [1]", {"float32 10"}},
        {"slice", "starts=7 stops=3", "float32 [0]", {"float32 10"}},
        {"slice", "starts=0 stops=5", "float32 [0]", {"float32 0"}},
        {"slice", NULL, "float32 []", {"float32"}},
        {"slice_scatter", "starts=1,0 stops=3,2", "float32 [4, 5]", {"float32 4x5", "float32 2x2"}},
        {"slice_scatter", "starts=3,0 stops=3,5", "float32 [4, 5]", {"float32 4x5", "float32 0x5"}},
    };
    static const struct bad bad[] = {
        {"slice",
         "starts=0 stops=1 steps=0",
         EO_E_BAD_ATTRIBUTE,
         "entry 0 of attribute steps is 0",
         {NONE, END},
         {"float32 10"}},
        {"slice",
         "starts=0 stops=1",
         EO_E_BAD_ATTRIBUTE,
         "starts has 1 entries, x has rank 2",
         {NONE, END},
         {"float32 2x3"}},
        {"slice", "starts=0,0 stops=1", EO_E_BAD_ATTRIBUTE, "stops has 1 entries", {NONE, END}, {"float32 2x3"}},
        {"slice",
         "starts=0,0 stops=1,1 steps=1",
         EO_E_BAD_ATTRIBUTE,
         "steps has 1 entries",
         {NONE, END},
         {"float32 2x3"}},
        {"slice", NULL, EO_E_BAD_ATTRIBUTE, "starts has 0 entries", {NONE, END}, {"float32 2"}},
        {"slice_scatter",
         "starts=1,0 stops=3,2",
         EO_E_SHAPE_MISMATCH,
         "updates must be float32 [2, 2]",
         {NONE, 1, END},
         {"float32 4x5", "float32 2x3"}},
        {"slice_scatter",
         "starts=1,0 stops=3,2",
         EO_E_SHAPE_MISMATCH,
         "updates must be float32 [2, 2]",
         {NONE, NONE, END},
         {"float32 4x5", "float32 4"}},
        {"slice_scatter",
         "starts=0 stops=1",
         EO_E_DTYPE_MISMATCH,
         "x is float32, updates is float64",
         {NONE, NONE, END},
         {"float32 4", "float64 1"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

/* Python's definition, by walking: start and stop are adjusted, then indices are listed one by one. */
static int64_t walk(int64_t start, int64_t stop, int64_t step, int64_t size, int64_t *out_first)
{
    int64_t n = 0, lower = step < 0 ? -1 : 0, upper = step < 0 ? size - 1 : size;

    start = start < 0 ? EO_MAX(start + size, lower) : EO_MIN(start, upper);
    stop = stop < 0 ? EO_MAX(stop + size, lower) : EO_MIN(stop, upper);
    *out_first = start;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        ck_assert(i >= 0 && i < size);
        n++;
    }
    return n;
}

START_TEST(test_every_small_slice)
{
    for (int64_t size = 0; size <= 5; size++) {
        for (int64_t start = -8; start <= 8; start++) {
            for (int64_t stop = -8; stop <= 8; stop++) {
                for (int64_t step = -4; step <= 4; step++) {
                    struct eo_slice_dim d;
                    int64_t first, n;

                    if (step == 0) {
                        continue;
                    }
                    d = eo_slice_resolve(start, stop, step, size);
                    n = walk(start, stop, step, size, &first);
                    ck_assert_int_eq(d.count, n);
                    if (n > 0) {
                        ck_assert_int_eq(d.first, first);
                        ck_assert_int_eq(d.step, step);
                    }
                }
            }
        }
    }
}
END_TEST

START_TEST(test_gather_scatter_one_hot)
{
    static const struct good good[] = {
        {"gather", NULL, "float32 [5, 3]", {"float32 2x3", "int64 5"}},
        {"gather", "axis=1", "float32 [2, 5, 6]", {"float32 2x3", "int64 5x6"}},
        {"gather", "axis=-1", "bool [2]", {"bool 2x3", "int64"}},
        {"gather", NULL, "int8 []", {"int8 3", "int64"}},
        {"gather", NULL, "int8 [0]", {"int8 0", "int64 0"}}, /* no index, so nothing is out of range */
        {"gather", NULL, "int8 [1, 1, 1, 1, 1, 1, 1, 1]", {"int8 3", "int64 1x1x1x1x1x1x1x1"}},
        {"scatter_add", NULL, "float32 [2, 3]", {"float32 2x3", "int64 5", "float32 5x3"}},
        {"scatter_add", "axis=1", "float32 [2, 3]", {"float32 2x3", "int64", "float32 2"}},
        {"one_hot", "depth=10", "float32 [4, 10]", {"int64 4"}},
        {"one_hot", "depth=1 dtype=bool", "bool [1]", {"int64"}},
        {"one_hot", "depth=7 dtype=uint8", "uint8 [0, 7]", {"int64 0"}},
    };
    static const struct bad bad[] = {
        {"gather",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "indices is int32, must be int64",
         {NONE, NONE, END},
         {"float32 2x3", "int32 5"}},
        {"gather", "axis=2", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, NONE, END}, {"float32 2x3", "int64 5"}},
        {"gather", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, NONE, END}, {"float32", "int64 5"}},
        {"gather", NULL, EO_E_TOO_LARGE, "9 dimensions", {NONE, NONE, END}, {"int8 3x3", "int64 1x1x1x1x1x1x1x1"}},
        {"gather",
         "axis=1",
         EO_E_SHAPE_MISMATCH,
         "axis 1 of x has no elements",
         {1, NONE, END},
         {"int8 2x0", "int64 1"}},
        {"gather",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"int8 2x4611686018427387904", "int64 1024x1024"}},
        {"scatter_add",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "updates must be float32 [5, 3]",
         {NONE, NONE, 0, END},
         {"float32 2x3", "int64 5", "float32 4x3"}},
        {"scatter_add",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "x is float32, updates is float64",
         {NONE, NONE, NONE, END},
         {"float32 2x3", "int64 5", "float64 5x3"}},
        {"scatter_add",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "input x is bool",
         {NONE, NONE, NONE, END},
         {"bool 2x3", "int64 5", "bool 5x3"}},
        {"one_hot", "depth=0", EO_E_BAD_ATTRIBUTE, "depth is 0, must be at least 1", {NONE, END}, {"int64 4"}},
        {"one_hot", "depth=-3", EO_E_BAD_ATTRIBUTE, "depth is -3", {NONE, END}, {"int64 4"}},
        {"one_hot", "depth=2", EO_E_DTYPE_MISMATCH, "indices is float32", {NONE, END}, {"float32 4"}},
        {"one_hot", "depth=2", EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"int64 1x1x1x1x1x1x1x1"}},
        {"one_hot", "depth=9223372036854775807", EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"int64 4"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_losses_and_dropout)
{
    static const struct good good[] = {
        {"cross_entropy", NULL, "float32 [32]", {"float32 32x10", "int64 32"}},
        {"cross_entropy", NULL, "float64 [0]", {"float64 0x0", "int64 0"}},
        {"dropout", "p=0 stream=7", "float16 [2, 3]", {"float16 2x3", "int64 3"}},
        {"dropout", "p=0.999", "float32 []", {"float32", "int64 3"}},
    };
    static const struct bad bad[] = {
        {"cross_entropy",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "32 rows of logits, but 31 targets",
         {0, 0, END},
         {"float32 32x10", "int64 31"}},
        {"cross_entropy", NULL, EO_E_SHAPE_MISMATCH, "no classes", {1, NONE, END}, {"float32 3x0", "int64 3"}},
        {"cross_entropy",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "logits has rank 3",
         {NONE, NONE, END},
         {"float32 3x4x5", "int64 3"}},
        {"cross_entropy",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "targets has rank 2",
         {NONE, NONE, END},
         {"float32 3x4", "int64 3x1"}},
        {"cross_entropy",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "targets is float32",
         {NONE, NONE, END},
         {"float32 3x4", "float32 3"}},
        {"cross_entropy", NULL, EO_E_DTYPE_MISMATCH, "logits is int64", {NONE, NONE, END}, {"int64 3x4", "int64 3"}},
        {"dropout", "p=1", EO_E_BAD_ATTRIBUTE, "p is 1, must be below 1", {NONE, NONE, END}, {"float32 3", "int64 3"}},
        {"dropout", "p=nan", EO_E_BAD_ATTRIBUTE, "p is nan", {NONE, NONE, END}, {"float32 3", "int64 3"}},
        {"dropout", "p=0.5", EO_E_SHAPE_MISMATCH, "rng must have shape [3]", {NONE, 0, END}, {"float32 3", "int64 2"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_updates)
{
    static const struct good good[] = {
        {"sum_squares", NULL, "float64 []", {"float16 100"}},
        {"sum_squares", NULL, "float64 []", {"float32 0"}},
        {"sgd_update", "nesterov=1", "float32 [9]; float32 [9]", {"float32 9", "float32 9", "float32 9", "float64 5"}},
        {"sgd_update", NULL, "float32 [9]; float32 [0]", {"float32 9", "float32 9", "float32 0", "float64 8"}},
        {"adam_update",
         "amsgrad=1",
         "float64 [9]; float64 [9]; float64 [9]; float64 [9]",
         {"float64 9", "float64 9", "float64 9", "float64 9", "float64 9", "float64 8"}},
        {"adam_update",
         "decoupled=1",
         "float32 [9]; float32 [9]; float32 [9]; float32 [0]",
         {"float32 9", "float32 9", "float32 9", "float32 9", "float32 0", "float64 8"}},
    };
    static const struct bad bad[] = {
        {"sum_squares", NULL, EO_E_SHAPE_MISMATCH, "x has rank 2", {NONE, END}, {"float32 2x3"}},
        {"sum_squares", NULL, EO_E_DTYPE_MISMATCH, "x is int32", {NONE, END}, {"int32 2"}},
        {"sgd_update",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "param and grad must have the same shape",
         {0, 0, NONE, NONE},
         {"float32 9", "float32 8", "float32 9", "float64 5"}},
        {"sgd_update",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "param and velocity",
         {0, NONE, 0, NONE},
         {"float32 9", "float32 9", "float32 1", "float64 5"}},
        {"sgd_update",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "needs 5 scalars, not 4",
         {NONE, NONE, NONE, 0},
         {"float32 9", "float32 9", "float32 9", "float64 4"}},
        {"sgd_update",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "scalars is float32",
         {NONE, NONE, NONE, NONE},
         {"float32 9", "float32 9", "float32 9", "float32 5"}},
        {"sgd_update",
         NULL,
         EO_E_DTYPE_MISMATCH,
         "param is float32, grad is float16",
         {NONE, NONE, NONE, NONE},
         {"float32 9", "float16 9", "float32 9", "float64 5"}},
        {"sgd_update",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "param has rank 2",
         {NONE, NONE, NONE, NONE},
         {"float32 3x3", "float32 9", "float32 9", "float64 5"}},
        {"adam_update",
         "amsgrad=1",
         EO_E_SHAPE_MISMATCH,
         "param and vmax",
         {0, NONE, NONE, 0},
         {"float32 9", "float32 9", "float32 9", "float32 9", "float32 0", "float64 8"}},
        {"adam_update",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "needs 8 scalars, not 7",
         {NONE, NONE, NONE, 0},
         {"float32 9", "float32 9", "float32 9", "float32 9", "float32 0", "float64 7"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

/* Descriptors that no constructor would have made, as a bug or a hostile caller could pass them. */
START_TEST(test_unchecked_descriptors)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_RELU);
    struct eo_tensor_desc d = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {-4}}, out = {.dtype = EO_INT8, .n_dims = 1};
    const struct eo_tensor_desc *in[] = {&d};
    struct eo_error err;

    ASSERT_CODE(eo_op_infer(op, in, 1, NULL, &out, &err), EO_E_BAD_PARAMS);
    ck_assert_str_eq(err.contexts[0], "while checking input 0");
    d.n_dims = 9;
    ASSERT_CODE(eo_op_infer(op, in, 1, NULL, &out, &err), EO_E_BAD_PARAMS);
    d = (struct eo_tensor_desc){.dtype = 99};
    ASSERT_CODE(eo_op_infer(op, in, 1, NULL, &out, &err), EO_E_BAD_PARAMS);
    d = (struct eo_tensor_desc){.dtype = EO_FLOAT32, .n_dims = 2, .shape = {INT64_MAX, 2}};
    ASSERT_CODE(eo_op_infer(op, in, 1, NULL, &out, &err), EO_E_TOO_LARGE);
    ck_assert_int_eq(out.dtype, EO_INT8); /* untouched on failure */
}
END_TEST

START_TEST(test_normalize_axes)
{
    int axes[EO_MAX_DIMS], n = -1;
    struct eo_error err;

    ASSERT_OK(eo_normalize_axes(NULL, 0, 3, axes, &n, "test", &err));
    ck_assert_int_eq(n, 3);
    ck_assert(axes[0] == 0 && axes[1] == 1 && axes[2] == 2);
    ASSERT_OK(eo_normalize_axes((int64_t[]){-1, 0}, 2, 3, axes, &n, "test", &err));
    ck_assert_int_eq(n, 2);
    ck_assert(axes[0] == 0 && axes[1] == 2); /* ascending */
    ASSERT_OK(eo_normalize_axes(NULL, 0, 0, axes, &n, "test", &err));
    ck_assert_int_eq(n, 0);
    ASSERT_CODE(eo_normalize_axes((int64_t[]){INT64_MIN}, 1, 3, axes, &n, "test", &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_str_eq(err.op, "test");
}
END_TEST

START_TEST(test_matmul_geometry)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_MATMUL);
    struct eo_tensor_desc a = op_case_desc("float32 8x1x4x2"), b = op_case_desc("float32 5x4x3"),
                          v = op_case_desc("float32 4");
    struct eo_matmul_shape s;
    struct eo_error err;

    ASSERT_OK(eo_matmul_shape(op, &a, &b, true, false, &s, &err));
    ck_assert(s.m == 2 && s.k == 4 && s.n == 3 && s.n_batch == 2 && s.batch[0] == 8 && s.batch[1] == 5);
    ASSERT_OK(eo_matmul_shape(op, &v, &b, false, false, &s, &err));
    ck_assert(s.m == 1 && s.k == 4 && s.n == 3 && s.n_batch == 1 && s.batch[0] == 5);
    ASSERT_OK(eo_matmul_shape(op, &v, &v, true, true, &s, &err));
    ck_assert(s.m == 1 && s.k == 4 && s.n == 1 && s.n_batch == 0);
}
END_TEST

EO_SUITE("shape_rules", test_creation, test_elementwise, test_activations, test_products, test_report, test_reductions,
         test_reshape_transpose_expand, test_concatenate, test_slices, test_every_small_slice,
         test_gather_scatter_one_hot, test_losses_and_dropout, test_updates, test_unchecked_descriptors,
         test_normalize_axes, test_matmul_geometry)
