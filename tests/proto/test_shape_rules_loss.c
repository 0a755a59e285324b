/* Shape rules of losses: what is accepted, and what hostile calls are told. */
#include "tests/proto/shape_cases.h"

START_TEST(test_pair_losses)
{
    static const struct good good[] = {
        {"mse_loss", "", "float32 []", {"float32 2x3", "float32 2x3"}},
        {"mae_loss", "reduction=sum", "float16 []", {"float16", "float16"}},
        {"huber_loss", "reduction=none", "float64 [0, 3]", {"float64 0x3", "float64 0x3"}},
        {"smooth_l1_loss", "beta=0", "float64 []", {"float64 0x3", "float64 0x3"}},
        {"hinge_loss", "reduction=none", "float64 [3]", {"float64 3", "float64 3"}},
        {"kl_div_loss", "reduction=batchmean", "float64 []", {"float64 3", "float64 3"}},
        {"bce_loss", "reduction=none", "float32 [2, 3]", {"float32 2x3", "float32 2x3", "float32 3"}},
        {"bce_loss", "reduction=none", "float32 [2, 3]", {"float32 2x3", "float32 2x3", "float32"}},
        {"bce_with_logits_loss",
         "reduction=none",
         "float32 [2, 3]",
         {"float32 2x3", "float32 2x3", "float32 0", "float32 2x1"}},
    };
    static const struct bad bad[] = {
        {"mse_loss", "", EO_E_SHAPE_MISMATCH, "same shape", {1, 1, END}, {"float32 2x3", "float32 2x1"}},
        {"mse_loss", "", EO_E_SHAPE_MISMATCH, "same shape", {NONE, NONE, END}, {"float32 2x3", "float32 3"}},
        {"mse_loss", "", EO_E_DTYPE_MISMATCH, "dtypes differ", {NONE, NONE, END}, {"float32 2", "float64 2"}},
        {"mse_loss", "", EO_E_DTYPE_MISMATCH, "x is int64", {NONE, NONE, END}, {"int64 2", "int64 2"}},
        {"huber_loss", "delta=0", EO_E_BAD_ATTRIBUTE, "delta is 0", {NONE, NONE, END}, {"float32 2", "float32 2"}},
        {"smooth_l1_loss", "beta=-1", EO_E_BAD_ATTRIBUTE, "beta is -1", {NONE, NONE, END}, {"float32 2", "float32 2"}},
        {"kl_div_loss",
         "reduction=batchmean",
         EO_E_SHAPE_MISMATCH,
         "has no rows",
         {NONE, NONE, END},
         {"float32", "float32"}},
        {"bce_loss",
         "",
         EO_E_SHAPE_MISMATCH,
         "weight has 2 where x has 3",
         {1, NONE, 0, END},
         {"float32 2x3", "float32 2x3", "float32 2"}},
        {"bce_with_logits_loss",
         "",
         EO_E_SHAPE_MISMATCH,
         "pos_weight has rank 3",
         {NONE, NONE, NONE, NONE},
         {"float32 2x3", "float32 2x3", "float32 0", "float32 1x2x3"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

START_TEST(test_class_losses)
{
    static const struct good good[] = {
        {"nll_loss", "", "float32 []", {"float32 4x3", "int64 4"}},
        {"nll_loss", "reduction=none axis=1", "float32 [4, 5]", {"float32 4x3x5", "int64 4x5", "float32 3"}},
        {"nll_loss", "reduction=none axis=0", "float32 []", {"float32 3", "int64", "float32 0"}},
        {"nll_loss", "reduction=none", "float32 [0]", {"float32 0x0", "int64 0", "float32 0"}},
        {"cross_entropy_loss", "", "float16 []; float16 [4, 3]", {"float16 4x3", "int64 4"}},
        {"cross_entropy_loss", "reduction=none axis=1", "float32 [4]; float32 [4, 3]", {"float32 4x3", "int64 4"}},
        {"multi_margin_loss", "reduction=none", "float64 [4]", {"float64 4x3", "int64 4", "float64 3"}},
    };
    static const struct bad bad[] = {
        {"nll_loss", "", EO_E_DTYPE_MISMATCH, "targets is int32", {NONE, NONE, END}, {"float32 4x3", "int32 4"}},
        {"nll_loss", "", EO_E_SHAPE_MISMATCH, "targets has rank 2", {NONE, NONE, END}, {"float32 4x3", "int64 4x1"}},
        {"nll_loss", "", EO_E_SHAPE_MISMATCH, "targets has 5", {0, 0, END}, {"float32 4x3", "int64 5"}},
        {"nll_loss", "axis=1", EO_E_SHAPE_MISMATCH, "targets has 3", {2, 1, END}, {"float32 4x3x5", "int64 4x3"}},
        {"nll_loss", "axis=2", EO_E_BAD_ATTRIBUTE, "axis 2", {NONE, NONE, END}, {"float32 4x3", "int64 4"}},
        {"nll_loss", "", EO_E_BAD_ATTRIBUTE, "no axes", {NONE, NONE, END}, {"float32", "int64"}},
        {"nll_loss", "", EO_E_SHAPE_MISMATCH, "has no classes", {1, NONE, END}, {"float32 4x0", "int64 4"}},
        {"cross_entropy_loss",
         "",
         EO_E_SHAPE_MISMATCH,
         "weight has 4 elements, logits has 3 classes",
         {1, NONE, 0, END},
         {"float32 4x3", "int64 4", "float32 4"}},
        {"cross_entropy_loss",
         "",
         EO_E_SHAPE_MISMATCH,
         "weight has rank 2",
         {NONE, NONE, NONE, END},
         {"float32 4x3", "int64 4", "float32 1x3"}},
        {"cross_entropy_loss",
         "smoothing=1.5",
         EO_E_BAD_ATTRIBUTE,
         "smoothing is 1.5",
         {NONE, NONE, END},
         {"float32 4x3", "int64 4"}},
        {"multi_margin_loss", "p=3", EO_E_BAD_ATTRIBUTE, "p is 3", {NONE, NONE, END}, {"float32 4x3", "int64 4"}},
    };

    check_good(good, EO_COUNT_OF(good));
    check_bad(bad, EO_COUNT_OF(bad));
}
END_TEST

EO_SUITE("shape_rules_loss", test_pair_losses, test_class_losses)
