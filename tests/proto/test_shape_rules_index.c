/* Shape and dtype rules of the indexed rows and of composite rows that move elements: what is accepted, and what
 * hostile calls are told. */
#include "tests/proto/shape_cases.h"

START_TEST(test_gathers_and_scatters)
{
    static const struct good good[] = {
        {"gather_elements", NULL, "float32 [5, 3]", {"float32 2x3", "int64 5x3"}},
        {"gather_elements", "axis=-1", "bool [1, 9]", {"bool 2x3", "int64 1x9"}},
        {"gather_elements", NULL, "int8 [0]", {"int8 0", "int64 0"}},
        {"gather_elements",
         "axis=7",
         "int8 [1, 1, 1, 1, 1, 1, 1, 5]",
         {"int8 1x1x1x1x1x1x1x2", "int64 1x1x1x1x1x1x1x5"}},
        {"scatter_elements", "axis=1", "bool [2, 3]", {"bool 2x3", "int64 2x5", "bool 2x5"}},
        {"scatter_elements", "reduction=add", "uint8 [3]", {"uint8 3", "int64 9", "uint8 9"}},
        {"gather_nd", NULL, "float32 []", {"float32 2x3", "int64 2"}},
        {"gather_nd", NULL, "float32 [4, 3]", {"float32 2x3", "int64 4x1"}},
        {"gather_nd", "batch_dims=1", "float32 [2, 5]", {"float32 2x3x5", "int64 2x1"}},
        {"gather_nd", NULL, "float32 [0, 3]", {"float32 0x3", "int64 0x1"}},
        {"gather_nd", NULL, "int8 [3]", {"int8 1x2x1x2x1x2x1x2", "int64 3x8"}},
        {"scatter_nd", NULL, "float32 [2, 3]", {"float32 2x3", "int64 4x1", "float32 4x3"}},
        {"scatter_nd", "batch_dims=1", "float32 [2, 3]", {"float32 2x3", "int64 2x4x1", "float32 2x4"}},
    };
    static const struct bad bad[] = {
        {"gather_elements", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, NONE, END}, {"float32", "int64"}},
        {"gather_elements", "axis=-3", EO_E_BAD_ATTRIBUTE, "axis", {NONE, NONE, END}, {"float32 2x3", "int64 2x3"}},
        {"gather_elements",
         "axis=-9223372036854775808",
         EO_E_BAD_ATTRIBUTE,
         "axis",
         {NONE, NONE, END},
         {"float32 2x3", "int64 2x3"}},
        {"gather_elements", NULL, EO_E_SHAPE_MISMATCH, "rank 1", {NONE, NONE, END}, {"float32 2x3", "int64 2"}},
        {"gather_elements", NULL, EO_E_SHAPE_MISMATCH, "dimension 1", {1, 1, END}, {"float32 2x3", "int64 9x4"}},
        {"gather_elements", NULL, EO_E_SHAPE_MISMATCH, "no elements", {0, NONE, END}, {"float32 0x3", "int64 1x3"}},
        {"gather_elements",
         NULL,
         EO_E_TOO_LARGE,
         "does not fit",
         {NONE, NONE, END},
         {"float64 1x1073741824", "int64 1073741824x1073741824"}},
        {"scatter_elements",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "same shape",
         {NONE, 0, 0, END},
         {"float32 2x3", "int64 5x3", "float32 4x3"}},
        {"scatter_elements",
         "reduction=maximum",
         EO_E_DTYPE_MISMATCH,
         "input x is bool",
         {NONE, NONE, NONE, END},
         {"bool 2x3", "int64 5x3", "bool 5x3"}},
        {"gather_nd", NULL, EO_E_SHAPE_MISMATCH, "indices has rank 0", {NONE, NONE, END}, {"float32 2", "int64"}},
        {"gather_nd", NULL, EO_E_SHAPE_MISMATCH, "x has rank 0", {NONE, NONE, END}, {"float32", "int64 1"}},
        {"gather_nd", NULL, EO_E_SHAPE_MISMATCH, "must be 1 to 2", {NONE, 1, END}, {"float32 2x3", "int64 5x3"}},
        {"gather_nd", NULL, EO_E_SHAPE_MISMATCH, "must be 1 to 2", {NONE, 1, END}, {"float32 2x3", "int64 5x0"}},
        {"gather_nd", "batch_dims=-1", EO_E_BAD_ATTRIBUTE, "batch_dims", {NONE, NONE, END}, {"float32 2", "int64 1"}},
        {"gather_nd",
         "batch_dims=1",
         EO_E_SHAPE_MISMATCH,
         "x has rank 1",
         {NONE, NONE, END},
         {"float32 2", "int64 2x1"}},
        {"gather_nd",
         "batch_dims=1",
         EO_E_SHAPE_MISMATCH,
         "batch dimension 0 differs: 2 in x, 3 in indices",
         {0, 0, END},
         {"float32 2x3", "int64 3x1"}},
        {"gather_nd", NULL, EO_E_SHAPE_MISMATCH, "no elements", {0, NONE, END}, {"float32 0x3", "int64 1x1"}},
        {"gather_nd", NULL, EO_E_TOO_LARGE, "9 dimensions", {NONE, NONE, END}, {"int8 1x1x1x1x1", "int64 1x1x1x1x1x1"}},
        {"scatter_nd",
         NULL,
         EO_E_SHAPE_MISMATCH,
         "updates must be float32 [4, 3]",
         {NONE, NONE, 1, END},
         {"float32 2x3", "int64 4x1", "float32 4x2"}},
        {"scatter_nd",
         "reduction=add",
         EO_E_DTYPE_MISMATCH,
         "input x is bool",
         {NONE, NONE, NONE, END},
         {"bool 2", "int64 1x1", "bool 1"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_other_dimensions)
{
    static const struct good good[] = {
        {"flatten", NULL, "float32 [2, 12]", {"float32 2x3x4"}},
        {"flatten", "axis=0", "float32 [1, 1]", {"float32"}},
        {"flatten", "axis=-3", "float32 [1, 24]", {"float32 2x3x4"}},
        {"squeeze", NULL, "bool [3]", {"bool 1x3x1"}},
        {"squeeze", "axes=-1,0", "bool [3]", {"bool 1x3x1"}},
        {"unsqueeze", "axes=0,-1", "int8 [1, 2, 1]", {"int8 2"}},
        {"unsqueeze", "axes=", "int8 [2]", {"int8 2"}},
        {"stack", "axis=-1", "int8 [2, 3]", {"int8 2", "int8 2", "int8 2"}},
        {"tile", "repeats=3,2", "int8 [3, 4]", {"int8 2"}},
        {"pad", "pads=1,-1,0,2", "int8 [3, 4]", {"int8 2x3"}},
        {"pad", "pads=-1,-1", "int8 [0]", {"int8 2"}},
        {"pad", "pads=1,1 mode=reflect", "int8 [4]", {"int8 2"}},
        {"split", "sizes=0,3 axis=1", "int8 [2, 0]; int8 [2, 3]", {"int8 2x3"}},
        {"diagonal", NULL, "int8 [4, 2]", {"int8 2x3x4"}},
    };
    static const struct bad bad[] = {
        {"flatten", "axis=4", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"int8 2x3x4"}},
        {"squeeze", "axes=1", EO_E_SHAPE_MISMATCH, "dimension 1 is 3", {1, END}, {"int8 1x3"}},
        {"squeeze", "axes=0,-2", EO_E_BAD_ATTRIBUTE, "twice", {NONE, END}, {"int8 1x3"}},
        {"unsqueeze", "axes=0,1", EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"int8 1x1x1x1x1x1x1"}},
        {"unsqueeze", "axes=3", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"int8 1x3"}},
        {"stack", NULL, EO_E_SHAPE_MISMATCH, "same shape", {0, 0, END}, {"int8 2", "int8 3"}},
        {"stack", NULL, EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"int8 1x1x1x1x1x1x1x1"}},
        {"tile", "repeats=4611686018427387904", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 2"}},
        {"tile", "repeats=1,1,1,1,1,1,1,1,1", EO_E_TOO_LARGE, "9 dimensions", {NONE, END}, {"int8 2"}},
        {"tile", "repeats=-1", EO_E_BAD_ATTRIBUTE, "repeats", {NONE, END}, {"int8 2"}},
        {"pad", "pads=1", EO_E_BAD_ATTRIBUTE, "must have 2", {NONE, END}, {"int8 2"}},
        {"pad", "pads=-9223372036854775808,0", EO_E_BAD_ATTRIBUTE, "cut more", {NONE, END}, {"int8 2"}},
        {"pad", "pads=-2,-1", EO_E_BAD_ATTRIBUTE, "cut more", {NONE, END}, {"int8 2"}},
        {"pad", "pads=9223372036854775807,1", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 2"}},
        {"pad", "pads=2,0 mode=reflect", EO_E_BAD_ATTRIBUTE, "cannot reflect", {NONE, END}, {"int8 2"}},
        {"pad", "pads=1,0 mode=edge", EO_E_BAD_ATTRIBUTE, "no cell", {NONE, END}, {"int8 0"}},
        {"pad", "pads=9223372036854775805,0 mode=wrap", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 2"}},
        {"pad", "pads=1,1 value=0.5", EO_E_BAD_ATTRIBUTE, "not a value of int8", {NONE, END}, {"int8 2"}},
        {"split", "sizes=1,2 axis=0", EO_E_SHAPE_MISMATCH, "the parts have 3", {0, END}, {"int8 2x3"}},
        {"split", "sizes=", EO_E_BAD_ATTRIBUTE, "1 to 16 entries", {NONE, END}, {"int8 0"}},
        {"split", "sizes=9223372036854775807,9223372036854775807", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 2"}},
        {"diagonal", "axis2=0", EO_E_BAD_ATTRIBUTE, "both", {NONE, END}, {"int8 2x3"}},
        {"diagonal", NULL, EO_E_BAD_ATTRIBUTE, "axis", {NONE, END}, {"int8 2"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_other_places)
{
    static const struct good good[] = {
        {"trilu", "k=-9223372036854775808", "int8 [2, 3]", {"int8 2x3"}},
        {"reverse", "axes=1", "int8 [2, 3]", {"int8 2x3"}},
        {"roll", "shifts=1,2 axes=0,0", "int8 [2]", {"int8 2"}},
        {"depth_to_space", "block=2", "int8 [1, 4, 6, 5]", {"int8 1x2x3x20"}},
        {"depth_to_space", "block=2 layout=nchw", "int8 [1, 5, 4, 6]", {"int8 1x20x2x3"}},
        {"space_to_depth", "block=2", "int8 [1, 2, 3, 20]", {"int8 1x4x6x5"}},
        {"reverse_sequence", NULL, "int8 [4, 3]", {"int8 4x3", "int64 3"}},
        {"masked_fill", "value=-1", "int8 [4, 3]", {"int8 4x3", "bool 3"}},
    };
    static const struct bad bad[] = {
        {"trilu", NULL, EO_E_SHAPE_MISMATCH, "rank 1", {NONE, END}, {"int8 2"}},
        {"reverse", "axes=-3", EO_E_BAD_ATTRIBUTE, "out of range", {NONE, END}, {"int8 2x3"}},
        {"roll", "shifts=1,2", EO_E_BAD_ATTRIBUTE, "must have 1", {NONE, END}, {"int8 2"}},
        {"roll", "shifts=1 axes=0,0", EO_E_BAD_ATTRIBUTE, "one per axis", {NONE, END}, {"int8 2"}},
        {"depth_to_space", "block=2", EO_E_SHAPE_MISMATCH, "rank 3", {NONE, END}, {"int8 1x2x4"}},
        {"depth_to_space", "block=2", EO_E_SHAPE_MISMATCH, "no multiple of 4", {3, END}, {"int8 1x1x1x6"}},
        {"depth_to_space", "block=3037000500", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 1x1x1x0"}},
        {"space_to_depth", "block=2", EO_E_SHAPE_MISMATCH, "no multiple of 2", {1, END}, {"int8 1x3x2x1"}},
        {"space_to_depth", "block=3037000500", EO_E_TOO_LARGE, "64 bits", {NONE, END}, {"int8 1x0x0x1"}},
        {"reverse_sequence", "time_axis=1", EO_E_BAD_ATTRIBUTE, "both", {NONE, NONE, END}, {"int8 4x3", "int64 3"}},
        {"reverse_sequence", NULL, EO_E_SHAPE_MISMATCH, "lengths must be", {NONE, 0, END}, {"int8 4x3", "int64 4"}},
        {"masked_fill", NULL, EO_E_DTYPE_MISMATCH, "mask is int8", {NONE, NONE, END}, {"int8 4", "int8 4"}},
        {"masked_fill", NULL, EO_E_SHAPE_MISMATCH, "does not broadcast", {NONE, NONE, END}, {"int8 1", "bool 4"}},
        {"masked_fill", "value=300", EO_E_BAD_ATTRIBUTE, "not a value", {NONE, NONE, END}, {"int8 4", "bool 4"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_largest_results)
{
    static const struct good good[] = {
        {"nonzero", NULL, "int64 [2, 6]", {"float32 2x3"}},
        {"nonzero", NULL, "int64 [0, 1]", {"bool"}},
        {"nonzero", NULL, "int64 [8, 0]", {"int8 1x1x0x1x1x1x1x1"}},
        {"compress", "axis=-1", "int8 [2, 2]", {"int8 2x3", "bool 2"}},
    };
    static const struct bad bad[] = {
        {"nonzero", NULL, EO_E_TOO_LARGE, "does not fit", {NONE, END}, {"int8 2147483648x2147483648"}},
        {"compress", NULL, EO_E_SHAPE_MISMATCH, "condition has 3", {0, 0, END}, {"int8 2x3", "bool 3"}},
        {"compress", NULL, EO_E_SHAPE_MISMATCH, "rank 2", {NONE, NONE, END}, {"int8 2", "bool 2x1"}},
        {"compress", NULL, EO_E_DTYPE_MISMATCH, "condition is int8", {NONE, NONE, END}, {"int8 2", "int8 2"}},
        {"compress", NULL, EO_E_BAD_ATTRIBUTE, "0-dim", {NONE, NONE, END}, {"int8", "bool 0"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

EO_SUITE("shape_rules_index", test_largest_results, test_gathers_and_scatters, test_other_dimensions, test_other_places)
