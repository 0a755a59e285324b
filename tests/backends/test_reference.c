/* The oracle itself against answers worked out by hand or taken from NumPy and PyTorch: one call or more per family of
 * rows, chosen where implementations go wrong. */
#include "backends/registry.h"
#include "proto/philox.h"
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

struct answer {
    enum eo_op op;
    const char *inputs, *attrs;
    enum eo_dtype dtype, to; /* T of the inputs; target of a cast */
    double in[3][MOST];
    double out[MOST]; /* of output 0 */
};

#define NAN_ ((double)NAN)
#define INF_ ((double)INFINITY)

static const struct answer answers[] = {
    /* integers wrap, also where the C language leaves it undefined */
    {EO_OP_ADD, "T 3; T 3", "", EO_INT8, 0, {{127, -128, 100}, {1, -1, 100}}, {-128, 127, -56}},
    {EO_OP_NEGATIVE, "T 2", "", EO_INT32, 0, {{-2147483648.0, 5}}, {-2147483648.0, -5}},
    {EO_OP_ABS, "T 2", "", EO_INT16, 0, {{-32768, -5}}, {-32768, 5}},
    {EO_OP_MULTIPLY, "T 2; T 2", "", EO_UINT8, 0, {{200, 16}, {2, 16}}, {144, 0}},
    {EO_OP_SUM, "T 3", "", EO_INT8, 0, {{100, 100, 100}}, {44}},
    {EO_OP_MATMUL, "T 1x2; T 2x1", "", EO_INT32, 0, {{65536, 3}, {65536, 4}}, {12}},
    /* NaN goes through extremes, comparisons are false */
    {EO_OP_MAXIMUM, "T 4; T 4", "", EO_FLOAT32, 0, {{1, NAN_, 2, NAN_}, {NAN_, 1, 3, NAN_}}, {NAN_, NAN_, 3, NAN_}},
    {EO_OP_MAX, "T 3", "", EO_FLOAT64, 0, {{1, NAN_, 5}}, {NAN_}},
    {EO_OP_MIN, "T 3", "", EO_UINT8, 0, {{7, 3, 5}}, {3}},
    {EO_OP_CLIP, "T 4", "low=1 high=2", EO_FLOAT32, 0, {{NAN_, 0, 1.5, 9}}, {NAN_, 1, 1.5, 2}},
    {EO_OP_RELU, "T 4", "", EO_FLOAT32, 0, {{NAN_, -1, 2, -INF_}}, {NAN_, 0, 2, 0}},
    {EO_OP_SIGN, "T 4", "", EO_FLOAT32, 0, {{NAN_, -3, 0, INF_}}, {NAN_, -1, 0, 1}},
    {EO_OP_LESS, "T 3; T 3", "", EO_FLOAT32, 0, {{NAN_, 1, 2}, {1, NAN_, 3}}, {0, 0, 1}},
    {EO_OP_NOT_EQUAL, "T 2; T 2", "", EO_FLOAT32, 0, {{NAN_, 1}, {NAN_, 1}}, {1, 0}},
    {EO_OP_ISFINITE, "T 4", "", EO_FLOAT32, 0, {{NAN_, INF_, -INF_, 1}}, {0, 0, 0, 1}},
    {EO_OP_ARG_MAX, "T 5", "", EO_FLOAT32, 0, {{1, 9, 9, NAN_, NAN_}}, {3}},
    {EO_OP_ARG_MAX, "T 4", "", EO_INT64, 0, {{1, 9, 9, 2}}, {1}},
    {EO_OP_ARG_MIN, "T 2x2", "axis=0", EO_FLOAT32, 0, {{3, 1, 2, 1}}, {1, 0}},
    /* nothing: the table of docs/semantics.md */
    {EO_OP_SUM, "T 0", "", EO_FLOAT32, 0, {{0}}, {0}},
    {EO_OP_SUM_SQUARE, "T 0", "", EO_FLOAT32, 0, {{0}}, {0}},
    {EO_OP_L1_NORM, "T 0", "", EO_FLOAT32, 0, {{0}}, {0}},
    {EO_OP_L2_NORM, "T 0", "", EO_FLOAT32, 0, {{0}}, {0}},
    {EO_OP_PROD, "T 2x0", "axes=1", EO_FLOAT32, 0, {{0}}, {1, 1}},
    {EO_OP_ANY, "T 0", "", EO_BOOL, 0, {{0}}, {0}},
    {EO_OP_ALL, "T 0", "", EO_BOOL, 0, {{0}}, {1}},
    {EO_OP_MEAN, "T 0", "", EO_FLOAT32, 0, {{0}}, {NAN_}},
    {EO_OP_VARIANCE, "T 2x0", "axes=1", EO_FLOAT32, 0, {{0}}, {NAN_, NAN_}},
    {EO_OP_STD, "T 0", "", EO_FLOAT32, 0, {{0}}, {NAN_}},
    {EO_OP_LOG_SUM_EXP, "T 0", "", EO_FLOAT32, 0, {{0}}, {-INF_}},
    {EO_OP_LOG_SUM, "T 0", "", EO_FLOAT32, 0, {{0}}, {-INF_}},
    {EO_OP_MATMUL, "T 1x0; T 0x2", "", EO_FLOAT32, 0, {{0}}, {0, 0}},
    {EO_OP_MSE_LOSS, "T 0; T 0", "", EO_FLOAT32, 0, {{0}}, {NAN_}},
    {EO_OP_MSE_LOSS, "T 0; T 0", "reduction=sum", EO_FLOAT32, 0, {{0}}, {0}},
    /* division: towards zero and towards minus infinity, by nothing, of the smallest integer by -1; Python's floats */
    {EO_OP_DIVIDE, "T 6; T 6", "", EO_INT8, 0, {{7, -7, 7, 5, -128, 0}, {2, 2, -2, 0, -1, 0}}, {3, -3, -3, 0, -128, 0}},
    {EO_OP_DIVIDE, "T 3; T 3", "", EO_UINT16, 0, {{65535, 7, 7}, {2, 0, 8}}, {32767, 0, 0}},
    {EO_OP_DIVIDE, "T 2; T 2", "", EO_INT64, 0, {{-0x1p63, -9}, {-1, 2}}, {-0x1p63, -4}},
    {EO_OP_FLOOR_DIVIDE, "T 5; T 5", "", EO_INT32, 0, {{7, -7, 7, -7, -6}, {2, 2, -2, -2, 2}}, {3, -4, -4, 3, -3}},
    {EO_OP_FLOOR_DIVIDE, "T 2; T 2", "", EO_INT64, 0, {{-0x1p63, 5}, {-1, 0}}, {-0x1p63, 0}},
    {EO_OP_REMAINDER,
     "T 6; T 6",
     "",
     EO_INT16,
     0,
     {{7, -7, 7, -7, 5, -32768}, {2, 2, -2, -2, 0, -1}},
     {1, 1, -1, -1, 0, 0}},
    {EO_OP_FMOD, "T 6; T 6", "", EO_INT16, 0, {{7, -7, 7, -7, 5, -32768}, {2, 2, -2, -2, 0, -1}}, {1, -1, 1, -1, 0, 0}},
    {EO_OP_FLOOR_DIVIDE,
     "T 9; T 9",
     "",
     EO_FLOAT64,
     0,
     {{7, -7, -1, 1, 5.5, 1, -1, 0, INF_}, {-2, 2, INF_, -INF_, 0.1, 0, 0, 0, 2}},
     {-4, -4, -1, -1, 54, INF_, -INF_, NAN_, NAN_}},
    {EO_OP_REMAINDER,
     "T 8; T 8",
     "",
     EO_FLOAT64,
     0,
     {{7, -7, -1, 1, 5.5, 1, INF_, 0}, {-2, 2, INF_, -INF_, 0.1, 0, 2, -3}},
     {-1, 1, INF_, -INF_, 0.0999999999999997, NAN_, NAN_, -0.0}},
    {EO_OP_FMOD,
     "T 6; T 6",
     "",
     EO_FLOAT64,
     0,
     {{7, -7, -1, 1, 5.5, -4}, {-2, 2, INF_, 0, 0.1, 2}},
     {1, -1, -1, NAN_, 0.0999999999999997, -0.0}},
    /* powers wrap; negative exponents of integers */
    {EO_OP_POWER,
     "T 7; T 7",
     "",
     EO_INT8,
     0,
     {{2, 2, -2, 3, 0, -1, -1}, {6, 7, 7, -1, 0, -3, -4}},
     {64, -128, -128, 0, 1, -1, 1}},
    {EO_OP_POWER, "T 3; T 3", "", EO_UINT32, 0, {{3, 65536, 1}, {20, 2, 4294967295.0}}, {3486784401.0, 0, 1}},
    /* bits: shifts by the width and more, by negative numbers */
    {EO_OP_SHIFT_LEFT, "T 5; T 5", "", EO_INT8, 0, {{1, 1, 1, -1, 3}, {7, 8, -1, 1, 0}}, {-128, 0, 0, -2, 3}},
    {EO_OP_SHIFT_RIGHT, "T 5; T 5", "", EO_INT8, 0, {{-128, -128, 127, -1, 64}, {7, 8, 8, -1, 3}}, {-1, -1, 0, -1, 8}},
    {EO_OP_SHIFT_RIGHT, "T 3; T 3", "", EO_UINT64, 0, {{0x1p63, 0x1p63, 8}, {63, 64, 1}}, {1, 0, 4}},
    {EO_OP_BITWISE_AND, "T 2; T 2", "", EO_INT16, 0, {{-1, 12}, {255, 10}}, {255, 8}},
    {EO_OP_BITWISE_OR, "T 2; T 2", "", EO_UINT8, 0, {{128, 12}, {1, 10}}, {129, 14}},
    {EO_OP_BITWISE_XOR, "T 2; T 2", "", EO_INT32, 0, {{-1, 12}, {1, 10}}, {-2, 6}},
    {EO_OP_BITWISE_NOT, "T 2", "", EO_UINT16, 0, {{0, 65535}}, {65535, 0}},
    {EO_OP_LOGICAL_XOR, "T 4; T 4", "", EO_BOOL, 0, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 1, 0}},
    {EO_OP_LESS, "T 4; T 4", "", EO_BOOL, 0, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 0, 0}},
    {EO_OP_CLIP, "T 4", "low=3 high=250", EO_UINT8, 0, {{0, 3, 251, 255}}, {3, 3, 250, 250}},
    {EO_OP_SIGN, "T 2", "", EO_UINT64, 0, {{0, 0x1p63}}, {0, 1}},
    /* rounding: halves to even, the sign of zero stays (compared below as equal numbers) */
    {EO_OP_ROUND, "T 7", "", EO_FLOAT32, 0, {{0.5, 1.5, 2.5, -0.5, -1.5, NAN_, INF_}}, {0, 2, 2, -0.0, -2, NAN_, INF_}},
    {EO_OP_FLOOR, "T 4", "", EO_FLOAT64, 0, {{-0.5, 1.9, -INF_, 1e300}}, {-1, 1, -INF_, 1e300}},
    {EO_OP_CEIL, "T 3", "", EO_FLOAT64, 0, {{-0.5, 1.1, NAN_}}, {-0.0, 2, NAN_}},
    {EO_OP_TRUNC, "T 3", "", EO_FLOAT64, 0, {{-1.9, 1.9, -0.3}}, {-1, 1, -0.0}},
    {EO_OP_ISNAN, "T 3", "", EO_FLOAT16, 0, {{NAN_, INF_, 1}}, {1, 0, 0}},
    {EO_OP_ISINF, "T 4", "", EO_FLOAT32, 0, {{NAN_, INF_, -INF_, 1}}, {0, 1, 1, 0}},
    {EO_OP_ISINF, "T 4", "detect_negative=0", EO_FLOAT32, 0, {{NAN_, INF_, -INF_, 1}}, {0, 1, 0, 0}},
    {EO_OP_ISINF, "T 4", "detect_positive=0", EO_BFLOAT16, 0, {{NAN_, INF_, -INF_, 1}}, {0, 0, 1, 0}},
    /* functions: far arguments, limits, values from Python's math module */
    {EO_OP_SIN,
     "T 4",
     "",
     EO_FLOAT64,
     0,
     {{1e22, 1e300, INF_, 0}},
     {-0.8522008497671888, -0.8178819121159085, NAN_, 0}},
    {EO_OP_COS, "T 2", "", EO_FLOAT64, 0, {{1e22, -INF_}}, {0.523214785395139, NAN_}},
    {EO_OP_TAN, "T 1", "", EO_FLOAT64, 0, {{1e22}}, {-1.6287782256068988}},
    {EO_OP_ERF,
     "T 4",
     "",
     EO_FLOAT64,
     0,
     {{0.5, -1.5, 3, INF_}},
     {0.5204998778130465, -0.9661051464753108, 0.9999779095030014, 1}},
    {EO_OP_ERFC, "T 3", "", EO_FLOAT64, 0, {{3, -1.5, 1000}}, {2.2090496998585438e-05, 1.9661051464753108, 0}},
    {EO_OP_ATAN2, "T 3; T 3", "", EO_FLOAT64, 0, {{-0.0, 1, -1}, {-1, 0, -INF_}}, {-M_PI, M_PI_2, -M_PI}},
    {EO_OP_ASIN, "T 2", "", EO_FLOAT64, 0, {{1, 1.5}}, {M_PI_2, NAN_}},
    {EO_OP_ACOSH, "T 2", "", EO_FLOAT64, 0, {{1, 0.5}}, {0, NAN_}},
    {EO_OP_ATANH, "T 3", "", EO_FLOAT64, 0, {{1, -1, 2}}, {INF_, -INF_, NAN_}},
    {EO_OP_EXP2, "T 3", "", EO_FLOAT64, 0, {{10, -1074, 1024}}, {1024, 0x1p-1074, INF_}},
    {EO_OP_LOG2, "T 2", "", EO_FLOAT64, 0, {{8, 0}}, {3, -INF_}},
    {EO_OP_LOG10, "T 2", "", EO_FLOAT64, 0, {{1000, -1}}, {3, NAN_}},
    {EO_OP_CBRT, "T 2", "", EO_FLOAT64, 0, {{-27, 0}}, {-3, 0}},
    /* activations: NaN is handed on, nothing overflows at 1000; values from Python's math module */
    {EO_OP_GELU,
     "T 5",
     "",
     EO_FLOAT64,
     0,
     {{-1000, -1, 1, 1000, NAN_}},
     {0, -0.15865525393145707, 0.8413447460685429, 1000, NAN_}},
    {EO_OP_GELU,
     "T 3",
     "approximate=tanh",
     EO_FLOAT64,
     0,
     {{-1, 1, NAN_}},
     {-0.15880800939172326, 0.8411919906082768, NAN_}},
    {EO_OP_SILU, "T 4", "", EO_FLOAT64, 0, {{-1000, -1, 1, NAN_}}, {0, -0.2689414213699951, 0.7310585786300049, NAN_}},
    {EO_OP_MISH,
     "T 4",
     "",
     EO_FLOAT64,
     0,
     {{-1, 1, 1000, NAN_}},
     {-0.30340146137410895, 0.8650983882673103, 1000, NAN_}},
    {EO_OP_LOG_SIGMOID,
     "T 5",
     "",
     EO_FLOAT64,
     0,
     {{-1000, -1, 1, 1000, NAN_}},
     {-1000, -1.3132616875182228, -0.31326168751822286, 0, NAN_}},
    {EO_OP_ELU, "T 5", "alpha=2", EO_FLOAT64, 0, {{-1000, -1, 0, 3, NAN_}}, {-2, -1.2642411176571153, 0, 3, NAN_}},
    {EO_OP_SELU, "T 3", "", EO_FLOAT64, 0, {{-1, 2, NAN_}}, {-1.1113307412864784, 2.1014020442962646, NAN_}},
    {EO_OP_CELU, "T 4", "alpha=2", EO_FLOAT64, 0, {{-2, -1000, 3, NAN_}}, {-1.2642411176571153, -2, 3, NAN_}},
    {EO_OP_LEAKY_RELU, "T 4", "alpha=0.25", EO_FLOAT32, 0, {{-4, 0, 3, NAN_}}, {-1, 0, 3, NAN_}},
    {EO_OP_PRELU, "T 2x2; T 2", "", EO_FLOAT32, 0, {{-4, -4, 3, NAN_}, {0.5, 2}}, {-2, -8, 3, NAN_}},
    {EO_OP_SOFTSIGN, "T 3", "", EO_FLOAT32, 0, {{-3, 1, NAN_}}, {-0.75, 0.5, NAN_}},
    {EO_OP_HARD_SIGMOID, "T 5", "alpha=0.25", EO_FLOAT32, 0, {{-9, -1, 1, 9, NAN_}}, {0, 0.25, 0.75, 1, NAN_}},
    {EO_OP_HARD_SWISH, "T 4", "", EO_FLOAT64, 0, {{-3, 0, 9, NAN_}}, {0, 0, 9, NAN_}},
    {EO_OP_THRESHOLDED_RELU, "T 4", "", EO_FLOAT32, 0, {{0.5, 1, 1.5, NAN_}}, {0, 0, 1.5, NAN_}},
    {EO_OP_SHRINK, "T 5", "lambd=1 bias=0.5", EO_FLOAT32, 0, {{-3, -1, 1, 2, NAN_}}, {-2.5, 0, 0, 1.5, NAN_}},
    /* sequences: in float64, then cast; the last one of linspace is stop */
    {EO_OP_EYE, "", "shape=2,3 k=1 dtype=T", EO_INT8, 0, {{0}}, {0, 1, 0, 0, 0, 1}},
    {EO_OP_EYE, "", "shape=3,2 k=-1 dtype=T", EO_FLOAT16, 0, {{0}}, {0, 0, 1, 0, 0, 1}},
    {EO_OP_ARANGE, "", "start=10 step=-2.5 count=4 dtype=T", EO_INT32, 0, {{0}}, {10, 7, 5, 2}},
    {EO_OP_ARANGE, "", "start=-1 step=100 count=4 dtype=T", EO_UINT8, 0, {{0}}, {0, 99, 199, 255}},
    {EO_OP_LINSPACE, "", "start=1 stop=2 count=5 dtype=T", EO_FLOAT64, 0, {{0}}, {1, 1.25, 1.5, 1.75, 2}},
    {EO_OP_LINSPACE,
     "",
     "start=0 stop=0.7 count=8 dtype=T",
     EO_FLOAT64,
     0,
     {{0}},
     {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}},
    {EO_OP_LINSPACE, "", "start=7 stop=9 count=1 dtype=T", EO_INT64, 0, {{0}}, {7}},
    {EO_OP_ONES, "", "shape=2 dtype=T", EO_BOOL, 0, {{0}}, {1, 1}},
    {EO_OP_ZEROS, "", "shape=2 dtype=T", EO_FLOAT32, 0, {{0}}, {0, 0}},
    /* functions that overflow or cancel when written carelessly */
    {EO_OP_SIGMOID, "T 4", "", EO_FLOAT64, 0, {{-800, 0, 800, -745}}, {0, 0.5, 1, 4.9406564584124654e-324}},
    {EO_OP_SOFTPLUS, "T 4", "", EO_FLOAT64, 0, {{-800, 0, 800, NAN_}}, {0, 0.69314718055994529, 800, NAN_}},
    {EO_OP_LOG1P, "T 2", "", EO_FLOAT64, 0, {{1e-20, -1}}, {1e-20, -INF_}},
    {EO_OP_EXPM1, "T 2", "", EO_FLOAT64, 0, {{1e-20, -INF_}}, {1e-20, -1}},
    {EO_OP_POWER, "T 4; T 4", "", EO_FLOAT64, 0, {{0, -8, -8, NAN_}, {0, 3, 0.5, 0}}, {1, -512, NAN_, 1}},
    {EO_OP_SOFTMAX, "T 3", "axis=0", EO_FLOAT64, 0, {{1000, 1000, -INF_}}, {0.5, 0.5, 0}},
    {EO_OP_LOG_SOFTMAX, "T 2", "axis=0", EO_FLOAT64, 0, {{0, 1000}}, {-1000, 0}},
    {EO_OP_CROSS_ENTROPY, "T 2x3; I 2", "", EO_FLOAT64, 0, {{0, 0, 0, 1000, 0, 0}, {2, 1}}, {1.0986122886681098, 1000}},
    /* casts: truncate, clamp, NaN is 0; bool is x != 0; one rounding, ties to even */
    {EO_OP_CAST,
     "T 6",
     "dtype=T",
     EO_FLOAT32,
     EO_INT8,
     {{-1.9, 1.9, 300, -300, NAN_, INF_}},
     {-1, 1, 127, -128, 0, 127}},
    {EO_OP_CAST, "T 4", "dtype=T", EO_FLOAT64, EO_UINT64, {{-1, 1e30, NAN_, 3.7}}, {0, 18446744073709551615.0, 0, 3}},
    {EO_OP_CAST, "T 3", "dtype=T", EO_INT32, EO_UINT8, {{-1, 256, 257}}, {255, 0, 1}},
    {EO_OP_CAST, "T 4", "dtype=T", EO_FLOAT32, EO_BOOL, {{0, -0.0, 0.1, NAN_}}, {0, 0, 1, 1}},
    {EO_OP_CAST, "T 3", "dtype=T", EO_FLOAT64, EO_FLOAT16, {{2049, 65519.999, 65520}}, {2048, 65504, INF_}},
    {EO_OP_CAST, "T 2", "dtype=T", EO_FLOAT64, EO_BFLOAT16, {{1.00390625, 1.01171875}}, {1, 1.015625}},
    {EO_OP_CAST, "T 2", "dtype=T", EO_INT64, EO_FLOAT32, {{16777217, -16777219}}, {16777216, -16777220}},
    /* reductions of nothing, corrections */
    {EO_OP_SUM, "T 0x2", "axes=0", EO_FLOAT32, 0, {{0}}, {0, 0}},
    {EO_OP_MEAN, "T 0x2", "axes=0", EO_FLOAT32, 0, {{0}}, {NAN_, NAN_}},
    {EO_OP_VARIANCE, "T 4", "", EO_FLOAT64, 0, {{1, 2, 3, 4}}, {1.25}},
    {EO_OP_VARIANCE, "T 4", "correction=1", EO_FLOAT64, 0, {{1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3}}, {1.6666666666666667}},
    {EO_OP_VARIANCE, "T 1", "correction=1", EO_FLOAT64, 0, {{5}}, {NAN_}},
    {EO_OP_MEAN, "T 2x3", "axes=1", EO_FLOAT16, 0, {{65504, 65504, 65504, 1, 2, 6}}, {65504, 3}},
    /* products: transposes, 1-D operands, batches that broadcast */
    {EO_OP_MATMUL,
     "T 2x3; T 2x2",
     "transpose_a=1",
     EO_FLOAT32,
     0,
     {{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1}},
     {1, 4, 2, 5, 3, 6}},
    {EO_OP_MATMUL, "T 3; T 3", "", EO_FLOAT32, 0, {{1, 2, 3}, {4, 5, 6}}, {32}},
    {EO_OP_MATMUL, "T 2x1x2; T 2", "", EO_FLOAT32, 0, {{1, 2, 3, 4}, {1, 10}}, {21, 43}},
    {EO_OP_MATMUL, "T 1x0; T 0x2", "", EO_FLOAT32, 0, {{0}}, {0, 0}},
    {EO_OP_LINEAR, "T 1x2; T 2x2; T 2", "", EO_FLOAT32, 0, {{1, 2}, {1, 2, 3, 4}, {100, 200}}, {107, 210}},
    /* selection: NumPy's rules for negative steps and indices */
    {EO_OP_SLICE, "T 5", "starts=-1 stops=-6 steps=-2", EO_INT32, 0, {{0, 1, 2, 3, 4}}, {4, 2, 0}},
    {EO_OP_SLICE, "T 2x3", "starts=0,1 stops=9,9", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {1, 2, 4, 5}},
    {EO_OP_SLICE_SCATTER, "T 4; T 2", "starts=1 stops=4 steps=2", EO_INT32, 0, {{0, 1, 2, 3}, {8, 9}}, {0, 8, 2, 9}},
    {EO_OP_GATHER, "T 3x2; I 3", "axis=0", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {-1, 0, 2}}, {4, 5, 0, 1, 4, 5}},
    {EO_OP_SCATTER_ADD, "T 3; I 4; T 4", "", EO_FLOAT32, 0, {{1, 1, 1}, {0, 2, -3, 0}, {1, 2, 4, 8}}, {14, 1, 3}},
    /* PyTorch's gather, NumPy's x[i, j]; the last of equal indices wins; reductions in order */
    {EO_OP_GATHER_ELEMENTS, "T 2x2; I 1x2", "axis=0", EO_INT32, 0, {{1, 2, 3, 4}, {-1, 0}}, {3, 2}},
    {EO_OP_GATHER_ELEMENTS,
     "T 2x2; I 2x3",
     "axis=1",
     EO_INT32,
     0,
     {{1, 2, 3, 4}, {1, 1, 0, 0, 1, -2}},
     {2, 2, 1, 3, 4, 3}},
    {EO_OP_GATHER_ND, "T 2x2; I 2x2", "", EO_INT32, 0, {{1, 2, 3, 4}, {0, 1, -1, 0}}, {2, 3}},
    {EO_OP_GATHER_ND, "T 2x2x2; I 2x1", "batch_dims=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0}}, {2, 3, 4, 5}},
    {EO_OP_SCATTER_ELEMENTS, "T 3; I 3; T 3", "", EO_INT32, 0, {{1, 2, 3}, {0, -3, 2}, {7, 8, 9}}, {8, 2, 9}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=multiply",
     EO_INT8,
     0,
     {{3, 5}, {0, 0, 1}, {50, 2, 7}},
     {44, 35}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=maximum",
     EO_FLOAT32,
     0,
     {{3, NAN_}, {0, 0, 1}, {5, 4, 7}},
     {5, NAN_}},
    {EO_OP_SCATTER_ELEMENTS,
     "T 2; I 3; T 3",
     "reduction=minimum",
     EO_FLOAT32,
     0,
     {{3, 1}, {0, 0, 1}, {5, NAN_, 7}},
     {NAN_, 1}},
    /* rounding to float16 between the updates would lose all but the first of them */
    {EO_OP_SCATTER_ELEMENTS, "T 1; I 3; T 3", "reduction=add", EO_FLOAT16, 0, {{2048}, {0, 0, 0}, {1, 1, 1}}, {2052}},
    {EO_OP_SCATTER_ND, "T 2x2; I 2x1; T 2x2", "", EO_INT32, 0, {{1, 2, 3, 4}, {1, 1}, {5, 6, 7, 8}}, {1, 2, 7, 8}},
    {EO_OP_SCATTER_ND,
     "T 2x2; I 2x1; T 2x2",
     "reduction=add",
     EO_INT32,
     0,
     {{1, 2, 3, 4}, {1, -1}, {5, 6, 7, 8}},
     {1, 2, 15, 18}},
    {EO_OP_NONZERO, "T 2x3", "", EO_FLOAT32, 0, {{0, NAN_, -0.0, 2, 0, 3}}, {0, 1, 1, 1, 0, 2}},
    {EO_OP_COMPRESS, "T 2x3; B 3", "axis=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {1, 0, 1}}, {0, 2, 3, 5}},
    {EO_OP_COMPRESS, "T 3x2; B 2", "", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {0, 1}}, {2, 3}},
    {EO_OP_ONE_HOT, "I 2", "depth=3 dtype=T", EO_UINT8, 0, {{2, 0}}, {0, 0, 1, 1, 0, 0}},
    /* NumPy's pad, roll, tile, triu; ONNX's DepthToSpace */
    {EO_OP_PAD, "T 4", "pads=2,3 mode=reflect", EO_INT32, 0, {{1, 2, 3, 4}}, {3, 2, 1, 2, 3, 4, 3, 2, 1}},
    {EO_OP_PAD, "T 3", "pads=2,1 mode=edge", EO_INT32, 0, {{1, 2, 3}}, {1, 1, 1, 2, 3, 3}},
    {EO_OP_PAD, "T 3", "pads=4,4 mode=wrap", EO_INT32, 0, {{1, 2, 3}}, {3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}},
    {EO_OP_PAD, "T 2x2", "pads=0,-1,1,2 value=9", EO_INT32, 0, {{1, 2, 3, 4}}, {2, 9, 9, 4, 9, 9, 9, 9, 9}},
    {EO_OP_ROLL, "T 2x3", "shifts=1,-1 axes=0,1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {4, 5, 3, 1, 2, 0}},
    {EO_OP_ROLL, "T 2x3", "shifts=-2", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {2, 3, 4, 5, 0, 1}},
    {EO_OP_TILE, "T 2", "repeats=2,2", EO_INT32, 0, {{1, 2}}, {1, 2, 1, 2, 1, 2, 1, 2}},
    {EO_OP_TRILU, "T 2x3", "k=1", EO_INT32, 0, {{1, 2, 3, 4, 5, 6}}, {0, 2, 3, 0, 0, 6}},
    {EO_OP_TRILU, "T 2x3", "upper=0", EO_INT32, 0, {{1, 2, 3, 4, 5, 6}}, {1, 0, 0, 4, 5, 0}},
    {EO_OP_STACK, "T 2; T 2", "axis=1", EO_INT32, 0, {{1, 2}, {3, 4}}, {1, 3, 2, 4}},
    {EO_OP_SPLIT, "T 2x3", "sizes=2,1 axis=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 1, 3, 4}},
    {EO_OP_DIAGONAL, "T 2x3", "offset=1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {1, 5}},
    {EO_OP_DIAGONAL, "T 3x2", "offset=-1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {2, 5}},
    {EO_OP_MASKED_FILL, "T 2x2; B 2", "value=9", EO_INT32, 0, {{1, 2, 3, 4}, {1, 0}}, {9, 2, 9, 4}},
    {EO_OP_REVERSE_SEQUENCE, "T 3x2; I 2", "", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}, {2, 3}}, {2, 5, 0, 3, 4, 1}},
    {EO_OP_DEPTH_TO_SPACE,
     "T 1x8x1x1",
     "block=2 layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 2, 4, 6, 1, 3, 5, 7}},
    {EO_OP_DEPTH_TO_SPACE,
     "T 1x8x1x1",
     "block=2 mode=crd layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 1, 2, 3, 4, 5, 6, 7}},
    {EO_OP_SPACE_TO_DEPTH,
     "T 1x2x2x2",
     "block=2 layout=nchw",
     EO_INT32,
     0,
     {{0, 1, 2, 3, 4, 5, 6, 7}},
     {0, 4, 1, 5, 2, 6, 3, 7}},
    {EO_OP_TRANSPOSE, "T 2x3", "", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 3, 1, 4, 2, 5}},
    {EO_OP_TRANSPOSE, "T 1x2x3", "perm=2,0,1", EO_INT32, 0, {{0, 1, 2, 3, 4, 5}}, {0, 3, 1, 4, 2, 5}},
    {EO_OP_CONCATENATE, "T 2x1; T 2x2", "axis=1", EO_INT32, 0, {{0, 1}, {2, 3, 4, 5}}, {0, 2, 3, 1, 4, 5}},
    {EO_OP_EXPAND, "T 2x1", "shape=2,2", EO_INT32, 0, {{1, 2}}, {1, 1, 2, 2}},
    {EO_OP_WHERE, "B 2x1; T; T 2", "", EO_FLOAT32, 0, {{1, 0}, {7}, {8, 9}}, {7, 7, 8, 9}},
    /* updates, worked out by hand */
    {EO_OP_SUM_SQUARES, "T 3", "", EO_FLOAT32, 0, {{3, 4, 12}}, {169}},
    {EO_OP_SGD_UPDATE, "T 2; T 2; T 0; D 5", "", EO_FLOAT64, 0, {{1, 2}, {0.5, 0.5}}, {0.95, 1.95}},
};

static struct eo_device *reference;

static void load(struct run *r, const struct answer *a)
{
    for (int i = 0; i < r->n_in && i < 3; i++)
        for (int64_t k = 0; k < eo_tensor_desc_count(&r->in[i]); k++)
            set_element((enum eo_dtype)r->in[i].dtype, r->in_data[i], k, a->in[i][k]);
    if (r->op->op == EO_OP_SGD_UPDATE) /* lr, momentum, weight_decay, grad_scale, first_step */
        memcpy(r->in_data[3], (const double[5]){0.1, 0, 0, 1, 1}, 5 * sizeof(double));
}

START_TEST(test_known_answers)
{
    for (size_t c = 0; c < EO_COUNT_OF(answers); c++) {
        const struct answer *a = &answers[c];
        struct eo_error err;
        struct run r;
        struct results out;
        ASSERT_OK(case_init(&r, &(struct op_case){a->op, a->inputs, a->attrs}, a->dtype, a->to, &err));
        load(&r, a);
        ASSERT_OK(run_on(reference, &r, -1, &out, &err));
        for (int64_t i = 0; i < eo_tensor_desc_count(&out.desc[0]); i++) {
            double got = element_value((enum eo_dtype)r.out[0].dtype, out.out[0], i), want = a->out[i];
            bool same = got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 4e-16 * fabs(want);
            CHECK(same, "answer %zu (%s %s of %s): element %lld is %.17g, should be %.17g", c, r.op->name, a->inputs,
                  eo_dtype_name(a->dtype), (long long)i, got, want);
        }
        results_fini(&out);
        run_fini(&r);
    }
}
END_TEST

/* One Adam step from zero moments moves each parameter by lr, whatever the gradient's size; two SGD steps with Nesterov
 * momentum follow the written recursion. */
START_TEST(test_optimizer_steps)
{
    struct eo_error err;
    struct run r;
    struct results out;
    const double adam[8] = {0.1, 0.9, 0.999, 0, 0, 0.1, 0.001, 1};
    ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_ADAM_UPDATE, "T 2; T 2; T 2; T 2; T 2; D 8", "amsgrad=1"},
                        EO_FLOAT64, 0, &err));
    memcpy(r.in_data[0], (const double[2]){1, 1}, 16);
    memcpy(r.in_data[1], (const double[2]){4, -0.001}, 16);
    memcpy(r.in_data[4], (const double[2]){0, 100}, 16);
    memcpy(r.in_data[5], adam, sizeof adam);
    ASSERT_OK(run_on(reference, &r, -1, &out, &err));
    ck_assert_double_eq_tol(((double *)out.out[0])[0], 0.9, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[1])[0], 0.4, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[2])[0], 0.016, 1e-12);
    ck_assert_double_eq_tol(((double *)out.out[3])[0], 0.016, 1e-12);
    ck_assert_double_eq(((double *)out.out[3])[1], 100);
    ck_assert_double_eq_tol(((double *)out.out[0])[1], 1 + 0.1 * 0.001 / sqrt(100 / 0.001), 1e-15);
    results_fini(&out);
    run_fini(&r);

    double param = 1, velocity = NAN;
    for (int step = 0; step < 2; step++) {
        const double sgd[5] = {0.1, 0.9, 0.5, 2, step == 0};
        ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_SGD_UPDATE, "T 1; T 1; T 1; D 5", "nesterov=1"}, EO_FLOAT64, 0,
                            &err));
        *(double *)r.in_data[0] = param;
        *(double *)r.in_data[1] = 0.25;
        *(double *)r.in_data[2] = velocity;
        memcpy(r.in_data[3], sgd, sizeof sgd);
        double g = 2 * 0.25 + 0.5 * param, v = step == 0 ? g : 0.9 * velocity + g;
        double expected = param - 0.1 * (g + 0.9 * v);
        ASSERT_OK(run_on(reference, &r, -1, &out, &err));
        ck_assert_double_eq_tol(*(double *)out.out[0], expected, 1e-15);
        ck_assert_double_eq_tol(*(double *)out.out[1], v, 1e-15);
        param = *(double *)out.out[0];
        velocity = *(double *)out.out[1];
        results_fini(&out);
        run_fini(&r);
    }
}
END_TEST

/* Random numbers do not depend on how rows are spread over ranks: one tensor equals its parts at their row offsets. */
START_TEST(test_random_rows_can_be_split)
{
    static const struct {
        enum eo_op op;
        const char *inputs, *attrs, *part_inputs, *part_attrs;
        int rng;
    } calls[] = {
        {EO_OP_UNIFORM, "I 3", "shape=6,5 dtype=T stream=9", "I 3", "shape=2,5 dtype=T stream=9", 0},
        {EO_OP_NORMAL, "I 3", "shape=6,5 dtype=T stream=9", "I 3", "shape=2,5 dtype=T stream=9", 0},
        {EO_OP_BERNOULLI, "I 3", "shape=6,5 dtype=T stream=9 p=0.4", "I 3", "shape=2,5 dtype=T stream=9 p=0.4", 0},
        {EO_OP_DROPOUT, "T 6x5; I 3", "p=0.4", "T 2x5; I 3", "p=0.4", 1},
    };
    for (size_t c = 0; c < EO_COUNT_OF(calls); c++) {
        struct eo_error err;
        struct run whole;
        struct results all;
        ASSERT_OK(
            case_init(&whole, &(struct op_case){calls[c].op, calls[c].inputs, calls[c].attrs}, EO_FLOAT32, 0, &err));
        case_fill(&whole, FILL_ORDINARY, 3);
        ((int64_t *)whole.in_data[calls[c].rng])[2] = 0;
        ASSERT_OK(run_on(reference, &whole, -1, &all, &err));
        for (int64_t row = 0; row < 6; row += 2) {
            struct run part;
            struct results some;
            ASSERT_OK(case_init(&part, &(struct op_case){calls[c].op, calls[c].part_inputs, calls[c].part_attrs},
                                EO_FLOAT32, 0, &err));
            memcpy(part.in_data[calls[c].rng], whole.in_data[calls[c].rng], 24);
            ((int64_t *)part.in_data[calls[c].rng])[2] = row;
            if (calls[c].rng == 1)
                memcpy(part.in_data[0], (float *)whole.in_data[0] + row * 5, 40);
            ASSERT_OK(run_on(reference, &part, -1, &some, &err));
            ck_assert_int_eq(memcmp(some.out[0], (float *)all.out[0] + row * 5, 40), 0);
            results_fini(&some);
            run_fini(&part);
        }
        results_fini(&all);
        run_fini(&whole);
    }
}
END_TEST

/* A bernoulli 1 is where dropout would zero: they draw the same words, and both mean "with probability p". */
START_TEST(test_bernoulli_is_dropout)
{
    struct eo_error err;
    struct run ones, kept;
    struct results a, b;
    int n = 0;
    ASSERT_OK(
        case_init(&ones, &(struct op_case){EO_OP_BERNOULLI, "I 3", "shape=10000 p=0.3 dtype=T"}, EO_INT8, 0, &err));
    ASSERT_OK(case_init(&kept, &(struct op_case){EO_OP_DROPOUT, "T 10000; I 3", "p=0.3"}, EO_FLOAT32, 0, &err));
    case_fill(&ones, FILL_ORDINARY, 4);
    memcpy(kept.in_data[1], ones.in_data[0], 24);
    for (int i = 0; i < 10000; i++)
        ((float *)kept.in_data[0])[i] = 1;
    ASSERT_OK(run_on(reference, &ones, -1, &a, &err));
    ASSERT_OK(run_on(reference, &kept, -1, &b, &err));
    for (int i = 0; i < 10000; i++) {
        bool one = ((const int8_t *)a.out[0])[i] == 1;
        CHECK(one == (((const float *)b.out[0])[i] == 0), "element %d", i);
        n += one;
    }
    ck_assert_int_le(abs(n - 3000), 200); /* more than four standard deviations */
    results_fini(&a);
    results_fini(&b);
    run_fini(&ones);
    run_fini(&kept);
}
END_TEST

/* Each number once; the order that sorting by the keys gives; the row offset changes nothing, the seed all. */
START_TEST(test_permutation)
{
    enum { N = 500 };
    struct eo_error err;
    struct run r;
    struct results a, b;
    bool seen[N] = {false};
    ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_PERMUTATION, "I 3", "n=500 stream=7"}, EO_INT64, 0, &err));
    case_fill(&r, FILL_ORDINARY, 5);
    int64_t *rng = r.in_data[0];
    ASSERT_OK(run_on(reference, &r, -1, &a, &err));
    const int64_t *order = a.out[0];
    for (int i = 0; i < N; i++) {
        CHECK(order[i] >= 0 && order[i] < N && !seen[order[i]], "element %d", i);
        seen[order[i]] = true;
        if (i > 0)
            CHECK(eo_rng_key(rng[0], rng[1], 7, (uint64_t)order[i - 1]) <=
                      eo_rng_key(rng[0], rng[1], 7, (uint64_t)order[i]),
                  "element %d", i);
    }
    rng[EO_RNG_ROW_OFFSET] += 3;
    ASSERT_OK(run_on(reference, &r, -1, &b, &err));
    ck_assert_int_eq(memcmp(a.out[0], b.out[0], sizeof(int64_t) * N), 0);
    results_fini(&b);
    rng[EO_RNG_SEED]++;
    ASSERT_OK(run_on(reference, &r, -1, &b, &err));
    ck_assert_int_ne(memcmp(a.out[0], b.out[0], sizeof(int64_t) * N), 0);
    results_fini(&a);
    results_fini(&b);
    run_fini(&r);
}
END_TEST

START_TEST(test_dropout_keeps_the_mean)
{
    struct eo_error err;
    struct run r;
    struct results out;
    double total = 0;
    int64_t zeros = 0, n = 20000;
    ASSERT_OK(case_init(&r, &(struct op_case){EO_OP_DROPOUT, "T 20000; I 3", "p=0.25"}, EO_FLOAT64, 0, &err));
    case_fill(&r, FILL_ORDINARY, 11);
    for (int64_t i = 0; i < n; i++)
        ((double *)r.in_data[0])[i] = 1;
    ASSERT_OK(run_on(reference, &r, -1, &out, &err));
    for (int64_t i = 0; i < n; i++) {
        double y = ((double *)out.out[0])[i];
        ck_assert(y == 0 || y == 1 / 0.75);
        zeros += y == 0;
        total += y;
    }
    /* five standard deviations of a binomial distribution */
    ck_assert_double_eq_tol((double)zeros / (double)n, 0.25, 5 * sqrt(0.25 * 0.75 / (double)n));
    ck_assert_double_eq_tol(total / (double)n, 1, 0.05);
    results_fini(&out);
    run_fini(&r);
}
END_TEST

START_TEST(test_self_check_and_device)
{
    struct eo_error err;
    char report[128];
    struct eo_device *dev = NULL;
    ASSERT_OK(reference->backend->self_check(reference, report, sizeof report, &err));
    ASSERT_CONTAINS(report, "known answers");
    ck_assert(reference->info.host_memory);
    ck_assert_int_eq(reference->info.threads, 1);
    ASSERT_CODE(reference->backend->device_open(1, &(struct eo_device_config){0}, &dev, &err), EO_E_NO_DEVICE);
}
END_TEST

int main(void)
{
    struct eo_error err;
    const TTest *const tests[] = {test_known_answers,        test_optimizer_steps, test_random_rows_can_be_split,
                                  test_bernoulli_is_dropout, test_permutation,     test_dropout_keeps_the_mean,
                                  test_self_check_and_device};
    (void)setenv("CK_FORK", "no", 1);
    if (registry_open("reference", NULL, &reference, NULL, 0, &err) != EO_OK)
        return EXIT_FAILURE;
    int rc = eo_suite_run("reference", tests, EO_COUNT_OF(tests));
    registry_close(reference);
    return rc;
}
