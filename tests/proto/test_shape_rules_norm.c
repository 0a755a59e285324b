/* Shape rules of normalization: what is accepted, and what hostile calls are told. */
#include "tests/proto/shape_cases.h"

START_TEST(test_per_channel)
{
    static const struct good good[] = {
        {"batch_norm", "", "float32 [2, 3, 4]", {"float32 2x3x4", "float32 4", "float32 4", "float32 4", "float32 4"}},
        {"batch_norm",
         "layout=nchw",
         "float16 [0, 3]",
         {"float16 0x3", "float16 3", "float16 3", "float16 3", "float16 3"}},
        {"batch_norm_train",
         "layout=nchw",
         "float64 [2, 3, 4]; float64 [3]; float64 [3]",
         {"float64 2x3x4", "float64 3", "float64 3"}},
        {"instance_norm", "", "float32 [2, 3, 4]", {"float32 2x3x4", "float32 4", "float32 4"}},
        {"group_norm", "groups=2", "float32 [2, 3, 4]", {"float32 2x3x4", "float32 4", "float32 4"}},
        {"local_response_norm", "size=3", "float32 [2, 3, 4]", {"float32 2x3x4"}},
    };
    static const struct bad bad[] = {
        {"batch_norm_train",
         "",
         EO_E_SHAPE_MISMATCH,
         "x has rank 1",
         {NONE, NONE, NONE, END},
         {"float32 4", "float32 4", "float32 4"}},
        {"batch_norm_train",
         "",
         EO_E_SHAPE_MISMATCH,
         "bias has 3 elements, x has 4 channels",
         {1, NONE, 0, END},
         {"float32 2x4", "float32 4", "float32 3"}},
        {"batch_norm_train",
         "",
         EO_E_SHAPE_MISMATCH,
         "scale has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 2x4", "float32 1x4", "float32 4"}},
        {"batch_norm_train",
         "eps=-1",
         EO_E_BAD_ATTRIBUTE,
         "eps",
         {NONE, NONE, NONE, END},
         {"float32 2x4", "float32 4", "float32 4"}},
        {"batch_norm_train",
         "",
         EO_E_DTYPE_MISMATCH,
         "int32",
         {NONE, NONE, NONE, END},
         {"int32 2x4", "int32 4", "int32 4"}},
        {"instance_norm",
         "",
         EO_E_SHAPE_MISMATCH,
         "x has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 2x4", "float32 4", "float32 4"}},
        {"group_norm",
         "groups=3",
         EO_E_SHAPE_MISMATCH,
         "3 groups do not divide 4",
         {1, NONE, NONE, END},
         {"float32 2x4", "float32 4", "float32 4"}},
        {"group_norm",
         "",
         EO_E_BAD_ATTRIBUTE,
         "attribute groups is 0",
         {NONE, NONE, NONE, END},
         {"float32 2x4", "float32 4", "float32 4"}},
        {"group_norm",
         "groups=1",
         EO_E_TOO_LARGE,
         "rank 8",
         {NONE, NONE, NONE, END},
         {"float32 1x1x1x1x1x1x1x4", "float32 4", "float32 4"}},
        {"local_response_norm", "size=0", EO_E_BAD_ATTRIBUTE, "size", {NONE, END}, {"float32 2x3x4"}},
        {"local_response_norm", "size=3", EO_E_TOO_LARGE, "do not fit", {NONE, END}, {"float32 0x4294967296"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_along_axes)
{
    static const struct good good[] = {
        {"layer_norm", "", "float32 [2, 3]; float32 [2, 1]; float32 [2, 1]", {"float32 2x3", "float32 3"}},
        {"layer_norm",
         "axis=1",
         "float32 [2, 3, 4]; float32 [2, 1, 1]; float32 [2, 1, 1]",
         {"float32 2x3x4", "float32", "float32 3x1"}},
        {"layer_norm", "axis=0", "float32 [0]; float32 [1]; float32 [1]", {"float32 0", "float32 0", "float32 0"}},
        {"rms_norm", "axis=-2", "float32 [2, 3, 4]", {"float32 2x3x4", "float32 3x4"}},
        {"mean_variance_norm", "axes=0,-1", "float32 [2, 3, 4]", {"float32 2x3x4"}},
        {"mean_variance_norm", "", "float32 []", {"float32"}},
        {"hardmax", "axis=0", "float32 [2, 3]", {"float32 2x3"}},
    };
    static const struct bad bad[] = {
        {"layer_norm", "axis=2", EO_E_BAD_ATTRIBUTE, "axis", {NONE, NONE, END}, {"float32 2x3", "float32 3"}},
        {"layer_norm", "", EO_E_BAD_ATTRIBUTE, "axis", {NONE, NONE, END}, {"float32", "float32"}},
        {"layer_norm", "", EO_E_SHAPE_MISMATCH, "scale has 2 where x has 3", {1, 0, END}, {"float32 2x3", "float32 2"}},
        {"layer_norm",
         "",
         EO_E_SHAPE_MISMATCH,
         "bias has rank 3, more than x",
         {NONE, NONE, NONE, END},
         {"float32 2x3", "float32 3", "float32 1x2x3"}},
        {"rms_norm", "", EO_E_SHAPE_MISMATCH, "scale has 2 where x has 1", {1, 0, END}, {"float32 2x1", "float32 2"}},
        {"mean_variance_norm", "axes=3", EO_E_BAD_ATTRIBUTE, "ax", {NONE, END}, {"float32 2x3x4"}},
        {"hardmax", "axis=2", EO_E_BAD_ATTRIBUTE, "axis", {NONE, END}, {"float32 2x3"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

EO_SUITE("shape_rules_norm", test_per_channel, test_along_axes)
