/* Shape rules of windows: what is accepted, what hostile calls are told, and the geometry by itself. */
#include "proto/shape_rules_window.h"
#include "tests/proto/shape_cases.h"

START_TEST(test_unfold_and_fold)
{
    static const struct good good[] = {
        {"unfold", "kernel=3", "float32 [2, 7, 3, 4]", {"float32 2x9x4"}},
        {"unfold", "kernel=3,2 strides=2,3 dilations=1,2 pads=1,0,2,1", "int8 [0, 5, 2, 3, 2, 4]", {"int8 0x8x6x4"}},
        {"unfold", "kernel=1,2,3", "bool [1, 2, 2, 2, 1, 2, 3, 5]", {"bool 1x2x3x4x5"}},
        {"unfold", "kernel=2 pads=1,1 value=-inf", "float16 [1, 1, 2, 3]", {"float16 1x0x3"}},
        {"unfold", "kernel=2 value=-128", "int8 [1, 1, 2, 0]", {"int8 1x2x0"}},
        {"fold", "size=9 kernel=3", "float32 [2, 9, 4]", {"float32 2x7x3x4"}},
        {"fold",
         "size=8,6 kernel=3,2 strides=2,3 dilations=1,2 pads=1,0,2,1",
         "uint8 [0, 8, 6, 4]",
         {"uint8 0x5x2x3x2x4"}},
        {"fold", "size=0 kernel=2 pads=1,1", "int64 [1, 0, 3]", {"int64 1x1x2x3"}},
    };
    static const struct bad bad[] = {
        {"unfold", "kernel=3", EO_E_SHAPE_MISMATCH, "x has rank 2", {NONE, END}, {"float32 9x4"}},
        {"unfold", "kernel=3", EO_E_SHAPE_MISMATCH, "x has rank 6", {NONE, END}, {"float32 1x1x1x1x1x1"}},
        {"unfold", "kernel=3", EO_E_BAD_ATTRIBUTE, "kernel has 1 entries, must have 2", {NONE, END}, {"int8 2x9x9x4"}},
        {"unfold", "kernel=", EO_E_BAD_ATTRIBUTE, "kernel has 0 entries", {NONE, END}, {"int8 2x9x4"}},
        {"unfold", "kernel=0", EO_E_BAD_ATTRIBUTE, "kernel", {NONE, END}, {"int8 2x9x4"}},
        {"unfold", "kernel=3 strides=0", EO_E_BAD_ATTRIBUTE, "strides", {NONE, END}, {"int8 2x9x4"}},
        {"unfold", "kernel=3 pads=-1,0", EO_E_BAD_ATTRIBUTE, "pads", {NONE, END}, {"int8 2x9x4"}},
        {"unfold",
         "kernel=3 pads=1",
         EO_E_BAD_ATTRIBUTE,
         "pads has 1 entries, must have 2",
         {NONE, END},
         {"int8 2x9x4"}},
        {"unfold", "kernel=3 value=128", EO_E_BAD_ATTRIBUTE, "not a value of int8", {NONE, END}, {"int8 2x9x4"}},
        {"unfold",
         "kernel=3 dilations=5",
         EO_E_SHAPE_MISMATCH,
         "size 9 with pads 0 and 0, kernel 3 with dilation 5 covers 11",
         {NONE, END},
         {"int8 2x9x4"}},
        {"unfold", "kernel=4611686018427387904 dilations=4", EO_E_TOO_LARGE, "extent", {NONE, END}, {"int8 2x9x4"}},
        {"unfold", "kernel=3 pads=9223372036854775807,1", EO_E_TOO_LARGE, "padded size", {NONE, END}, {"int8 2x9x4"}},
        {"unfold",
         "kernel=4611686018427387904 pads=4611686018427387904,0",
         EO_E_TOO_LARGE,
         "cells of all windows",
         {NONE, END},
         {"int8 0x9x4"}},
        {"fold", "size=9 kernel=3", EO_E_SHAPE_MISMATCH, "patches has rank 3", {NONE, END}, {"int8 2x7x3"}},
        {"fold", "size=9 kernel=3", EO_E_SHAPE_MISMATCH, "patches has rank 2", {NONE, END}, {"int8 2x7"}},
        {"fold",
         "size=9 kernel=3",
         EO_E_SHAPE_MISMATCH,
         "dimension 1 of patches is 8, must be 7",
         {1, END},
         {"int8 2x8x3x1"}},
        {"fold",
         "size=9 kernel=3",
         EO_E_SHAPE_MISMATCH,
         "dimension 2 of patches is 4, must be 3",
         {2, END},
         {"int8 2x7x4x1"}},
        {"fold", "size=9,9 kernel=3", EO_E_BAD_ATTRIBUTE, "size has 2 entries", {NONE, END}, {"int8 2x7x3x1"}},
        {"fold", "size=9 kernel=3", EO_E_DTYPE_MISMATCH, "bool", {NONE, END}, {"bool 2x7x3x1"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_convolutions)
{
    static const struct good good[] = {
        {"conv", "", "float32 [2, 7, 5]", {"float32 2x9x4", "float32 3x4x5", "float32 5"}},
        {"conv", "padding=same strides=2,3", "float32 [2, 5, 3, 5]", {"float32 2x9x9x4", "float32 3x3x4x5"}},
        {"conv", "padding=same_lower strides=9,1", "float32 [2, 1, 9, 5]", {"float32 2x9x9x4", "float32 3x3x4x5"}},
        {"conv",
         "padding=valid layout=nchw groups=2",
         "float16 [0, 6, 7, 8]",
         {"float16 0x4x9x9", "float16 6x2x3x2", "float16 0"}},
        {"conv", "pads=1,2,3,4,5,6 layout=nchw", "int32 [1, 3, 8, 9, 11]", {"int32 1x2x3x3x3", "int32 3x2x1x2x2"}},
        {"conv_transpose", "strides=2", "float32 [2, 9, 4]", {"float32 2x4x5", "float32 3x4x5", "float32 4"}},
        {"conv_transpose",
         "strides=2 output_padding=1 pads=1,1",
         "float32 [2, 8, 4]",
         {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_transpose",
         "strides=3,2 padding=same layout=nchw",
         "float32 [2, 4, 12, 10]",
         {"float32 2x5x4x5", "float32 5x4x3x3"}},
        {"conv_transpose", "strides=3 padding=same size=10", "float32 [2, 10, 4]", {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_transpose", "strides=2 size=10", "float32 [2, 10, 2]", {"float32 2x4x5", "float32 3x2x5", "float32 2"}},
        {"conv_weight", "kernel=3", "float32 [3, 4, 5]", {"float32 2x9x4", "float32 2x7x5"}},
        {"conv_weight",
         "kernel=3,2 groups=2 layout=nchw",
         "float32 [6, 2, 3, 2]",
         {"float32 2x4x9x9", "float32 2x6x7x8"}},
    };
    static const struct bad bad[] = {
        {"conv",
         "",
         EO_E_SHAPE_MISMATCH,
         "x has 3 channels, weight takes 4 (1 group)",
         {2, 1, END},
         {"float32 2x9x3", "float32 3x4x5"}},
        {"conv",
         "groups=2",
         EO_E_SHAPE_MISMATCH,
         "x has 4 channels, weight takes 8 (2 groups)",
         {2, 1, END},
         {"float32 2x9x4", "float32 3x4x6"}},
        {"conv",
         "groups=4",
         EO_E_SHAPE_MISMATCH,
         "4 groups do not divide 6",
         {NONE, NONE, END},
         {"float32 2x9x4", "float32 3x1x6"}},
        {"conv", "groups=0", EO_E_BAD_ATTRIBUTE, "groups", {NONE, NONE, END}, {"float32 2x9x4", "float32 3x4x5"}},
        {"conv", "", EO_E_SHAPE_MISMATCH, "weight has rank 4", {NONE, NONE, END}, {"float32 2x9x4", "float32 3x3x4x5"}},
        {"conv", "", EO_E_SHAPE_MISMATCH, "kernel has size 0", {NONE, 0, END}, {"float32 2x9x4", "float32 0x4x5"}},
        {"conv",
         "",
         EO_E_SHAPE_MISMATCH,
         "no window fits on spatial axis 0",
         {NONE, NONE, END},
         {"float32 2x2x4", "float32 3x4x5"}},
        {"conv",
         "padding=same",
         EO_E_SHAPE_MISMATCH,
         "no window fits",
         {NONE, NONE, END},
         {"float32 2x0x4", "float32 3x4x5"}},
        {"conv",
         "padding=same pads=1,1",
         EO_E_BAD_ATTRIBUTE,
         "padding is not explicit",
         {NONE, NONE, END},
         {"float32 2x9x4", "float32 3x4x5"}},
        {"conv",
         "",
         EO_E_SHAPE_MISMATCH,
         "dimension 0 of bias is 4, must be 5",
         {NONE, NONE, 0, END},
         {"float32 2x9x4", "float32 3x4x5", "float32 4"}},
        {"conv",
         "",
         EO_E_SHAPE_MISMATCH,
         "bias has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 2x9x4", "float32 3x4x5", "float32 1x5"}},
        {"conv", "", EO_E_DTYPE_MISMATCH, "dtypes differ", {NONE, NONE, END}, {"float32 2x9x4", "float64 3x4x5"}},
        {"conv_transpose",
         "",
         EO_E_SHAPE_MISMATCH,
         "x has 5 channels, weight takes 4",
         {2, 2, END},
         {"float32 2x4x5", "float32 3x5x4"}},
        {"conv_transpose",
         "output_padding=1",
         EO_E_BAD_ATTRIBUTE,
         "must be below the stride, 1",
         {NONE, NONE, END},
         {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_transpose",
         "pads=3,3",
         EO_E_SHAPE_MISMATCH,
         "leave nothing of a result of 6",
         {NONE, NONE, END},
         {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_transpose",
         "strides=2 size=11",
         EO_E_SHAPE_MISMATCH,
         "size 11 of spatial axis 0 has 5 windows",
         {1, NONE, END},
         {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_transpose",
         "strides=9223372036854775807",
         EO_E_TOO_LARGE,
         "the size",
         {NONE, NONE, END},
         {"float32 2x4x5", "float32 3x4x5"}},
        {"conv_weight",
         "kernel=3",
         EO_E_SHAPE_MISMATCH,
         "dimension 1 of g is 8, must be 7",
         {NONE, 1, END},
         {"float32 2x9x4", "float32 2x8x5"}},
        {"conv_weight",
         "kernel=3",
         EO_E_SHAPE_MISMATCH,
         "dimension 0 of g is 1, must be 2",
         {NONE, 0, END},
         {"float32 2x9x4", "float32 1x7x5"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_pools)
{
    static const struct good good[] = {
        {"max_pool", "kernel=2", "int8 [2, 8, 4]; int64 [2, 8, 4]", {"int8 2x9x4"}},
        {"max_pool", "kernel=3 strides=2 ceil_mode=1", "int8 [0, 5, 4]; int64 [0, 5, 4]", {"int8 0x10x4"}},
        {"average_pool", "kernel=3 strides=2 ceil_mode=1", "float32 [1, 1, 4]", {"float32 1x2x4"}},
        {"average_pool",
         "kernel=1,2 strides=3,2 layout=nchw padding=same",
         "float32 [1, 2, 2, 4]",
         {"float32 1x2x5x7"}},
        {"lp_pool", "kernel=2 strides=3 ceil_mode=1", "float32 [1, 2, 4]", {"float32 1x4x4"}},
        {"global_max_pool", "layout=nchw", "uint8 [2, 3, 1, 1]", {"uint8 2x3x5x7"}},
        {"global_lp_pool", "", "float32 [0, 1, 3]", {"float32 0x5x3"}},
    };
    static const struct bad bad[] = {
        {"max_pool", "kernel=2 pads=2,0", EO_E_BAD_ATTRIBUTE, "must be below 2", {NONE, END}, {"float32 2x9x4"}},
        {"max_pool", "kernel=3", EO_E_SHAPE_MISMATCH, "no window fits", {NONE, END}, {"float32 2x2x4"}},
        {"max_pool",
         "kernel=4 strides=2 ceil_mode=1",
         EO_E_SHAPE_MISMATCH,
         "no window fits",
         {NONE, END},
         {"float32 2x2x4"}},
        {"lp_pool", "kernel=2 p=0", EO_E_BAD_ATTRIBUTE, "p is 0", {NONE, END}, {"float32 2x9x4"}},
        {"average_pool", "kernel=2", EO_E_DTYPE_MISMATCH, "int32", {NONE, END}, {"int32 2x9x4"}},
        {"global_max_pool", "", EO_E_SHAPE_MISMATCH, "dimension 1 of x is empty", {1, END}, {"float32 2x0x4"}},
        {"global_max_pool", "", EO_E_SHAPE_MISMATCH, "x has rank 2", {NONE, END}, {"float32 2x4"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

/* What the geometry says of each cell and each window, against the definition. */
static void check_axis(const struct eo_window_axis *a)
{
    for (int64_t o = 0; o < a->count; o++) {
        int64_t first, end;

        eo_window_inside(a, o, &first, &end);
        for (int64_t k = 0; k < a->kernel; k++) {
            int64_t at = o * a->stride + k * a->dilation - a->pad_begin;

            ck_assert_int_eq(eo_window_at(a, o, k), at);
            ck_assert_int_eq(k >= first && k < end, at >= 0 && at < a->size);
            ck_assert_int_lt(at, a->size + a->pad_end);
        }
    }
}

START_TEST(test_cells_inside)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_UNFOLD);

    for (int64_t i = 0; i < 4000; i++) {
        const struct eo_tensor_desc x = {EO_FLOAT32, 3, {1, i % 9, 1}}, *in[1] = {&x};
        int64_t kernel = 1 + i / 9 % 4, stride = 1 + i / 36 % 3, dilation = 1 + i / 108 % 3;
        int64_t pads[2] = {i / 324 % 5, i / 1620 % 3};
        struct eo_window_shape w;
        struct eo_attrs attrs;

        eo_attrs_default(op, &attrs);
        ck_assert_int_eq(eo_attrs_set_ints(op, &attrs, "kernel", &kernel, 1, NULL), EO_OK);
        ck_assert_int_eq(eo_attrs_set_ints(op, &attrs, "strides", &stride, 1, NULL), EO_OK);
        ck_assert_int_eq(eo_attrs_set_ints(op, &attrs, "dilations", &dilation, 1, NULL), EO_OK);
        ck_assert_int_eq(eo_attrs_set_ints(op, &attrs, "pads", pads, 2, NULL), EO_OK);
        if (eo_window_resolve(op, in, 1, &attrs, &w, NULL) == EO_OK) {
            check_axis(&w.axis[0]);
        }
    }
}
END_TEST

EO_SUITE("shape_rules_window", test_unfold_and_fold, test_convolutions, test_pools, test_cells_inside)
