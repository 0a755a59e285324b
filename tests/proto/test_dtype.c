#include "proto/dtype.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

START_TEST(test_rows)
{
    struct {
        enum eo_dtype dtype;
        int wire;
        size_t size;
        enum eo_dtype_kind kind;
        const char *name, *safetensors, *npy;
    } cases[] = {
        {EO_FLOAT32, 1, 4, EO_KIND_FLOAT, "float32", "F32", "<f4"},
        {EO_BFLOAT16, 4, 2, EO_KIND_FLOAT, "bfloat16", "BF16", "<V2"},
        {EO_INT8, 5, 1, EO_KIND_SIGNED, "int8", "I8", "|i1"},
        {EO_UINT64, 12, 8, EO_KIND_UNSIGNED, "uint64", "U64", "<u8"},
        {EO_BOOL, 13, 1, EO_KIND_BOOL, "bool", "BOOL", "|b1"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        ck_assert_int_eq(cases[i].dtype, cases[i].wire); /* ids are on the wire: never renumbered */
        ck_assert_uint_eq(eo_dtype_size(cases[i].dtype), cases[i].size);
        ck_assert_int_eq(eo_dtype_kind(cases[i].dtype), cases[i].kind);
        ck_assert_str_eq(eo_dtype_name(cases[i].dtype), cases[i].name);
        ck_assert_str_eq(eo_dtype_safetensors(cases[i].dtype), cases[i].safetensors);
        ck_assert_str_eq(eo_dtype_npy(cases[i].dtype), cases[i].npy);
        ck_assert_int_eq(eo_dtype_by_name(cases[i].name), cases[i].dtype);
        ck_assert_int_eq(eo_dtype_by_safetensors(cases[i].safetensors), cases[i].dtype);
    }
}
END_TEST

START_TEST(test_not_a_dtype)
{
    int hostile[] = {0, -1, 14, 255, INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < EO_COUNT_OF(hostile); i++) {
        enum eo_dtype d = (enum eo_dtype)hostile[i];

        ck_assert(!eo_dtype_valid(hostile[i]));
        ck_assert_uint_eq(eo_dtype_size(d), 0);
        ck_assert_str_eq(eo_dtype_name(d), "?");
        ck_assert_str_eq(eo_dtype_safetensors(d), "?");
        ck_assert_str_eq(eo_dtype_npy(d), "?");
        ck_assert_int_eq(eo_dtype_promote(d, EO_FLOAT32), EO_DTYPE_NONE);
        ck_assert_int_eq(eo_dtype_promote(EO_FLOAT32, d), EO_DTYPE_NONE);
    }
    ck_assert_int_eq(eo_dtype_by_name("Float32"), EO_DTYPE_NONE);
    ck_assert_int_eq(eo_dtype_by_name(""), EO_DTYPE_NONE);
    ck_assert_int_eq(eo_dtype_by_name(NULL), EO_DTYPE_NONE);
    ck_assert_int_eq(eo_dtype_by_safetensors("f32"), EO_DTYPE_NONE);
    ck_assert_int_eq(eo_dtype_by_safetensors(NULL), EO_DTYPE_NONE);
}
END_TEST

START_TEST(test_set_text)
{
    char out[160];

    ck_assert_str_eq(eo_dtype_set_text(EO_DTYPE_BIT(EO_INT64), out, sizeof(out)), "int64");
    ck_assert_str_eq(eo_dtype_set_text(EO_DTYPE_BIT(EO_FLOAT32) | EO_DTYPE_BIT(EO_BOOL), out, sizeof(out)),
                     "float32 or bool");
    ck_assert_str_eq(eo_dtype_set_text(EO_DTYPE_BIT(EO_FLOAT32) | EO_DTYPE_BIT(EO_FLOAT64) | EO_DTYPE_BIT(EO_UINT8),
                                       out, sizeof(out)),
                     "float32, float64 or uint8");
    ck_assert_str_eq(eo_dtype_set_text(0, out, sizeof(out)), "");
    eo_dtype_set_text(UINT32_MAX, out, 12);
    ck_assert_uint_lt(strlen(out), 12);
}
END_TEST

START_TEST(test_holds)
{
    struct {
        enum eo_dtype dtype;
        double v;
        bool held;
    } cases[] = {
        {EO_FLOAT32, NAN, true},      {EO_FLOAT16, 1e300, true}, {EO_BOOL, 0, true},
        {EO_BOOL, 1, true},           {EO_BOOL, 2, false},       {EO_BOOL, 0.5, false},
        {EO_BOOL, NAN, false},        {EO_INT8, -128, true},     {EO_INT8, 127, true},
        {EO_INT8, 128, false},        {EO_INT8, -129, false},    {EO_INT32, 0.5, false},
        {EO_INT64, -0x1p63, true},    {EO_INT64, 0x1p63, false}, {EO_INT64, INFINITY, false},
        {EO_INT64, -INFINITY, false}, {EO_INT64, NAN, false},    {EO_UINT8, -1, false},
        {EO_UINT8, 255, true},        {EO_UINT8, 256, false},    {EO_UINT64, 0x1.fffffffffffffp63, true},
        {EO_UINT64, 0x1p64, false},   {EO_DTYPE_NONE, 2, false},
    };

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        ck_assert_msg(eo_dtype_holds(cases[i].dtype, cases[i].v) == cases[i].held, "case %zu", i);
    }
}
END_TEST

/* NumPy 1.24's result_type, printed with python3 -c 'print(np.result_type(a, b))' over all pairs; the bfloat16 row and
 * column follow float16's. Rows and columns: f4 f8 f2 bf i1 i2 i4 i8 u1 u2 u4 u8 b1. */
START_TEST(test_promotion_table)
{
    static const enum eo_dtype order[] = {EO_FLOAT32, EO_FLOAT64, EO_FLOAT16, EO_BFLOAT16, EO_INT8,
                                          EO_INT16,   EO_INT32,   EO_INT64,   EO_UINT8,    EO_UINT16,
                                          EO_UINT32,  EO_UINT64,  EO_BOOL};
    static const char *const wanted[] = {
        "f4 f8 f4 f4 f4 f4 f8 f8 f4 f4 f8 f8 f4", "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8",
        "f4 f8 f2 f4 f2 f4 f8 f8 f2 f4 f8 f8 f2", "f4 f8 f4 bf bf f4 f8 f8 bf f4 f8 f8 bf",
        "f4 f8 f2 bf i1 i2 i4 i8 i2 i4 i8 f8 i1", "f4 f8 f4 f4 i2 i2 i4 i8 i2 i4 i8 f8 i2",
        "f8 f8 f8 f8 i4 i4 i4 i8 i4 i4 i8 f8 i4", "f8 f8 f8 f8 i8 i8 i8 i8 i8 i8 i8 f8 i8",
        "f4 f8 f2 bf i2 i2 i4 i8 u1 u2 u4 u8 u1", "f4 f8 f4 f4 i4 i4 i4 i8 u2 u2 u4 u8 u2",
        "f8 f8 f8 f8 i8 i8 i8 i8 u4 u4 u4 u8 u4", "f8 f8 f8 f8 f8 f8 f8 f8 u8 u8 u8 u8 u8",
        "f4 f8 f2 bf i1 i2 i4 i8 u1 u2 u4 u8 b1",
    };
    static const char *const short_names[EO_DTYPE_LIMIT] = {"",   "f4", "f8", "f2", "bf", "i1", "i2",
                                                            "i4", "i8", "u1", "u2", "u4", "u8", "b1"};

    for (size_t a = 0; a < EO_COUNT_OF(order); a++) {
        for (size_t b = 0; b < EO_COUNT_OF(order); b++) {
            enum eo_dtype got = eo_dtype_promote(order[a], order[b]);

            ck_assert_msg(strncmp(short_names[got], wanted[a] + 3 * b, 2) == 0, "%s with %s gives %s",
                          eo_dtype_name(order[a]), eo_dtype_name(order[b]), eo_dtype_name(got));
        }
    }
}
END_TEST

/* ---- 16-bit floats ---- */

START_TEST(test_half_known)
{
    struct {
        uint16_t bits;
        float value;
    } cases[] = {
        {0x0000, 0.0F},       {0x3c00, 1.0F},     {0xc000, -2.0F},    {0x7bff, 65504.0F},  {0x0400, 0x1p-14F},
        {0x03ff, 0x3ffp-24F}, {0x0001, 0x1p-24F}, {0x7c00, INFINITY}, {0xfc00, -INFINITY}, {0x3555, 0x1.554p-2F},
    };

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        ck_assert(eo_half_to_float(cases[i].bits) == cases[i].value);
        ck_assert_uint_eq(eo_half_from_float(cases[i].value), cases[i].bits);
        ck_assert_uint_eq(eo_half_from_double((double)cases[i].value), cases[i].bits);
    }
    ck_assert_uint_eq(eo_half_from_float(-0.0F), 0x8000);
    ck_assert(signbit(eo_half_to_float(0x8000)));
    ck_assert(signbit(eo_half_to_float(0x8001)));
    ck_assert_uint_eq(eo_half_from_float(65519.99F), 0x7bff); /* below the midpoint to 65536 */
    ck_assert_uint_eq(eo_half_from_float(65520.0F), 0x7c00);  /* the midpoint: ties to even, which is Inf */
    ck_assert_uint_eq(eo_half_from_float(1e30F), 0x7c00);
    ck_assert_uint_eq(eo_half_from_double(-1e300), 0xfc00);
    ck_assert_uint_eq(eo_half_from_double(0x1p-25), 0);       /* ties to even: 0 */
    ck_assert_uint_eq(eo_half_from_double(0x1.00001p-25), 1); /* just above */
    ck_assert_uint_eq(eo_half_from_double(0x1p-26), 0);
    ck_assert_uint_eq(eo_half_from_double(-0x1p-1074), 0x8000);
    /* one rounding, not two: in float 1 + 2^-11 + 2^-40 is the tie 1 + 2^-11, which would round to 1 */
    ck_assert_uint_eq(eo_half_from_double(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    ck_assert_uint_eq(eo_half_from_double(1 + 0x1p-11), 0x3c00);
}
END_TEST

START_TEST(test_nan_stays_nan)
{
    ck_assert(isnan(eo_half_to_float(eo_half_from_float(NAN))));
    ck_assert(isnan(eo_half_to_float(eo_half_from_double(NAN))));
    ck_assert(isnan(eo_bfloat_to_float(eo_bfloat_from_float(NAN))));
    ck_assert(isnan(eo_bfloat_to_float(eo_bfloat_from_double(-NAN))));
    for (uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) { /* also payloads in the low bits only */
        uint32_t bits = 0x7f800000 | payload;
        float f;

        memcpy(&f, &bits, sizeof(f));
        ck_assert(isnan(eo_half_to_float(eo_half_from_float(f))));
        ck_assert(isnan(eo_bfloat_to_float(eo_bfloat_from_float(f))));
    }
    for (uint32_t h = 0x7c01; h < 0x8000; h++) {
        ck_assert(isnan(eo_half_to_float((uint16_t)h)));
    }
}
END_TEST

/* Every finite 16-bit value comes back with the same bits, through float and through double. */
START_TEST(test_16_bits_round_trip)
{
    for (uint32_t u = 0; u < 0x10000; u++) {
        float half = eo_half_to_float((uint16_t)u), bfloat = eo_bfloat_to_float((uint16_t)u);

        if (!isnan(half)) {
            ck_assert_uint_eq(eo_half_from_float(half), u);
            ck_assert_uint_eq(eo_half_from_double((double)half), u);
        }
        if (!isnan(bfloat)) {
            ck_assert_uint_eq(eo_bfloat_from_float(bfloat), u);
            ck_assert_uint_eq(eo_bfloat_from_double((double)bfloat), u);
        }
    }
}
END_TEST

/* Nearest by search among all non-negative finite values, which are ordered as their bits are; ties to the even one. */
static uint16_t nearest(double d, float (*to_float)(uint16_t), uint16_t infinity)
{
    uint16_t low = 0, high = infinity;
    double below, above,
        top = 2 * (double)to_float((uint16_t)(infinity - 1)) - (double)to_float((uint16_t)(infinity - 2));

    while (high - low > 1) { /* to_float(low) <= d, and d below to_float(high) */
        uint16_t mid = (uint16_t)((low + high) / 2);

        *((double)to_float(mid) <= d ? &low : &high) = mid;
    }
    below = (double)to_float(low);
    above = high == infinity ? top : (double)to_float(high); /* Inf stands for the next power of two */
    if (d - below == above - d) {
        return low % 2 == 0 ? low : high;
    }
    return d - below < above - d ? low : high;
}

START_TEST(test_narrowing_is_nearest)
{
    uint64_t state = 88172645463325252U;

    for (int i = 0; i < 20000; i++) {
        double d;
        float f;

        state ^= state << 13; /* xorshift64, Marsaglia 2003 */
        state ^= state >> 7;
        state ^= state << 17;
        d = ldexp((double)(state >> 11) * 0x1p-53 + 0.5, (int)(state % 44) - 26); /* float16's whole range */
        if (i % 3 == 0) {
            d = (double)(float)d; /* fewer bits: ties become likely */
            d = ldexp(nearbyint(ldexp(d, 12 - ilogb(d))), ilogb(d) - 12);
        }
        ck_assert_msg(eo_half_from_double(d) == nearest(d, eo_half_to_float, 0x7c00), "half of %a", d);
        ck_assert_msg(eo_bfloat_from_double(d) == nearest(d, eo_bfloat_to_float, 0x7f80), "bfloat of %a", d);
        ck_assert_uint_eq(eo_half_from_double(-d), eo_half_from_double(d) | 0x8000);
        f = (float)d;
        ck_assert_uint_eq(eo_half_from_float(f), nearest((double)f, eo_half_to_float, 0x7c00));
        ck_assert_uint_eq(eo_bfloat_from_float(f), nearest((double)f, eo_bfloat_to_float, 0x7f80));
    }
}
END_TEST

START_TEST(test_bfloat_known)
{
    ck_assert_uint_eq(eo_bfloat_from_float(1.0F), 0x3f80);
    ck_assert_uint_eq(eo_bfloat_from_float(-1.0F), 0xbf80);
    ck_assert_uint_eq(eo_bfloat_from_float(0x1.01p0F), 0x3f80); /* tie to even */
    ck_assert_uint_eq(eo_bfloat_from_float(0x1.03p0F), 0x3f82); /* tie to even, upwards */
    ck_assert_uint_eq(eo_bfloat_from_float(3.4e38F), 0x7f80);   /* rounds to Inf */
    ck_assert_uint_eq(eo_bfloat_from_float(INFINITY), 0x7f80);
    ck_assert_uint_eq(eo_bfloat_from_double(1e300), 0x7f80);
    ck_assert_uint_eq(eo_bfloat_from_double(0x1p-133), 0x0001); /* smallest subnormal */
    ck_assert_uint_eq(eo_bfloat_from_double(0x1p-134), 0x0000);
    ck_assert_uint_eq(eo_bfloat_from_double(1 + 0x1p-8 + 0x1p-40), 0x3f81); /* one rounding */
}
END_TEST

EO_SUITE("dtype", test_rows, test_not_a_dtype, test_set_text, test_holds, test_promotion_table, test_half_known,
         test_nan_stays_nan, test_16_bits_round_trip, test_narrowing_is_nearest, test_bfloat_known)
