#include "proto/base/text.h"

#include "tests/support/suite.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static const char *const names[] = {"relu", "sigmoid", "tanh", "softmax", "log_softmax", "matmul", "adam", "sgd"};

static const char *name_at(const void *ctx, size_t i)
{
    const char *const *list = ctx;

    return list[i];
}

static const char *nearest(const char *word)
{
    return eo_nearest(word, name_at, names, EO_COUNT_OF(names));
}

START_TEST(nearest_finds_typos)
{
    ck_assert_str_eq(nearest("rleu"), "relu");
    ck_assert_str_eq(nearest("ReLU"), "relu");
    ck_assert_str_eq(nearest("sigmiod"), "sigmoid");
    ck_assert_str_eq(nearest("soft_max"), "softmax");
    ck_assert_str_eq(nearest("matmull"), "matmul");
    ck_assert_str_eq(nearest("Adma"), "adam");
    ck_assert_str_eq(nearest("logsoftmax"), "log_softmax");
}
END_TEST

START_TEST(nearest_says_nothing_rather_than_nonsense)
{
    char long_word[300];

    memset(long_word, 'a', sizeof(long_word) - 1);
    long_word[sizeof(long_word) - 1] = '\0';
    ck_assert_ptr_null(nearest(""));
    ck_assert_ptr_null(nearest("x"));
    ck_assert_ptr_null(nearest("convolution"));
    ck_assert_ptr_null(nearest(long_word));
    ck_assert_ptr_null(eo_nearest("relu", name_at, names, 0));
}
END_TEST

START_TEST(sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"64KiB", 65536},
        {"64K", 65536},
        {"1.5GiB", 1610612736},
        {"1.5 GiB", 1610612736},
        {"2GB", 2000000000},
        {"2gb", 2000000000},
        {"0.5M", 524288},
        {"1TiB", 1099511627776},
        {"18446744073709551615", UINT64_MAX},
        {"16777215TiB", 16777215ull << 40},
        {"0.001KB", 1},
    };
    static const char *const refused[] = {
        "",
        " 1",
        "-1",
        "1.5",
        "1.",
        ".5",
        "KiB",
        "1 ",
        "1XB",
        "1KiB ",
        "1e3",
        "1KiBB",
        "+1",
        "1.5.5KiB",
        "0x10",
        "18446744073709551616",
        "nan",
        "17000000TiB",
        "1.0000000001KiB",
    };
    uint64_t bytes = 7;

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ck_assert_msg(eo_parse_size(rows[i].text, &bytes), "%s", rows[i].text);
        ck_assert_uint_eq(bytes, rows[i].bytes);
    }
    bytes = 7;
    for (size_t i = 0; i < EO_COUNT_OF(refused); i++) {
        ck_assert_msg(!eo_parse_size(refused[i], &bytes), "%s", refused[i]);
        ck_assert_uint_eq(bytes, 7);
    }
}
END_TEST

START_TEST(durations)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {
        {"250ms", 250}, {"30s", 30000},    {"5m", 300000}, {"2h", 7200000}, {"1d", 86400000},
        {"30", 30000},  {"1.5h", 5400000}, {"0.25", 250},  {"0", 0},
    };
    static const char *const refused[] = {"", "-1", "5 m", "5min", "s", "1e3", "1h30m", "300000000000000000d"};
    uint64_t ms = 7;

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ck_assert_msg(eo_parse_duration(rows[i].text, &ms), "%s", rows[i].text);
        ck_assert_uint_eq(ms, rows[i].ms);
    }
    ms = 7;
    for (size_t i = 0; i < EO_COUNT_OF(refused); i++) {
        ck_assert_msg(!eo_parse_duration(refused[i], &ms), "%s", refused[i]);
        ck_assert_uint_eq(ms, 7);
    }
}
END_TEST

START_TEST(integers)
{
    int64_t v = 7;

    ck_assert(eo_parse_i64("9223372036854775807", &v) && v == INT64_MAX);
    ck_assert(eo_parse_i64("-9223372036854775808", &v) && v == INT64_MIN);
    ck_assert(eo_parse_i64("-0", &v) && v == 0);
    ck_assert(eo_parse_i64("+12", &v) && v == 12);
    ck_assert(eo_parse_i64("0007", &v) && v == 7);
    ck_assert(!eo_parse_i64("9223372036854775808", &v));
    ck_assert(!eo_parse_i64("-9223372036854775809", &v));
    ck_assert(!eo_parse_i64("99999999999999999999999", &v));
    ck_assert(!eo_parse_i64("", &v));
    ck_assert(!eo_parse_i64("-", &v));
    ck_assert(!eo_parse_i64("1 ", &v));
    ck_assert(!eo_parse_i64(" 1", &v));
    ck_assert(!eo_parse_i64("1.0", &v));
    ck_assert(!eo_parse_i64("0x1", &v));
    ck_assert_int_eq(v, 7);
}
END_TEST

START_TEST(numbers)
{
    static const char *const refused[] = {"",      " 1", "1 ",    "1,5",    "0x1p3", "-0x1", "1e",    "--1", "+-1",
                                          "1e999", "e5", "1.2.3", "-1e999", "\t1",   "- 1",  "12abc", "."};
    double v = 7;

    ck_assert(eo_parse_f64("1.5", &v) && v == 1.5);
    ck_assert(eo_parse_f64("-1e-3", &v) && v == -1e-3);
    ck_assert(eo_parse_f64(".5", &v) && v == 0.5);
    ck_assert(eo_parse_f64("+2.", &v) && v == 2);
    ck_assert(eo_parse_f64("1.7976931348623157e308", &v) && v == DBL_MAX);
    ck_assert(eo_parse_f64("4.9406564584124654e-324", &v) && v > 0);
    ck_assert(eo_parse_f64("1e-999", &v) && v == 0);
    ck_assert(eo_parse_f64("nan", &v) && isnan(v));
    ck_assert(eo_parse_f64("-inf", &v) && isinf(v) && v < 0);
    v = 7;
    for (size_t i = 0; i < EO_COUNT_OF(refused); i++) {
        ck_assert_msg(!eo_parse_f64(refused[i], &v), "%s", refused[i]);
    }
    ck_assert(v == 7);
}
END_TEST

START_TEST(numbers_ignore_the_locale)
{
    double v = 0;

    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        (void)setlocale(LC_NUMERIC, "C.UTF-8");
    }
    ck_assert(eo_parse_f64("2.5", &v) && v == 2.5);
    (void)setlocale(LC_NUMERIC, "C");
}
END_TEST

START_TEST(formatted_bytes)
{
    char out[32];

    ck_assert_str_eq(eo_format_bytes(0, out, sizeof(out)), "0 B");
    ck_assert_str_eq(eo_format_bytes(1023, out, sizeof(out)), "1023 B");
    ck_assert_str_eq(eo_format_bytes(1024, out, sizeof(out)), "1.0 KiB");
    ck_assert_str_eq(eo_format_bytes(1536ull << 20, out, sizeof(out)), "1.5 GiB");
    ck_assert_str_eq(eo_format_bytes((1ull << 20) - 1, out, sizeof(out)), "1.0 MiB");
    ck_assert_str_eq(eo_format_bytes(UINT64_MAX, out, sizeof(out)), "16.0 EiB");
    ck_assert_str_eq(eo_format_bytes(1536, out, 4), "1.5");
}
END_TEST

START_TEST(formatted_durations)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {
        {0, "0ms"},       {0.85, "850ms"},     {0.9994, "999ms"}, {0.9996, "1.0s"},   {12.34, "12.3s"},
        {59.94, "59.9s"}, {59.96, "1m00s"},    {245, "4m05s"},    {3599.4, "59m59s"}, {3599.6, "1h00m"},
        {7380, "2h03m"},  {360000, "100h00m"}, {-1, "-"},         {1e300, "-"},
    };
    char out[32];

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ck_assert_str_eq(eo_format_duration(rows[i].seconds, out, sizeof(out)), rows[i].text);
    }
    ck_assert_str_eq(eo_format_duration((double)NAN, out, sizeof(out)), "-");
    ck_assert_str_eq(eo_format_duration((double)INFINITY, out, sizeof(out)), "-");
}
END_TEST

START_TEST(copies)
{
    char out[5];

    ck_assert(eo_copy_text(out, sizeof(out), "abcd"));
    ck_assert_str_eq(out, "abcd");
    ck_assert(!eo_copy_text(out, sizeof(out), "abcde"));
    ck_assert_str_eq(out, "abcd");
    ck_assert(!eo_copy_text(out, 0, "x"));
    ck_assert_str_eq(out, "abcd");
    ck_assert(eo_copy_text(out, 1, ""));
    ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(utf8)
{
    static const char *const good[] = {"",
                                       "ascii",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xEF\xBF\xBF",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF"};
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xC2",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xE2\x82",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "a\xFFz",
                                      "\xE2\x28\xA1"};

    for (size_t i = 0; i < EO_COUNT_OF(good); i++) {
        ck_assert(eo_text_valid_utf8(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ck_assert_msg(!eo_text_valid_utf8(bad[i], strlen(bad[i])), "row %zu", i);
    }
    ck_assert(eo_text_valid_utf8("a\0b", 3));
    ck_assert_uint_eq(eo_utf8_length("\xE2\x82\xACx", 4), 3);
    ck_assert_uint_eq(eo_utf8_length("\xE2\x82\xAC", 2), 0);
    ck_assert_uint_eq(eo_utf8_length("", 0), 0);
}
END_TEST

START_TEST(hash_depends_on_every_bit)
{
    uint8_t data[40] = {0};
    uint64_t plain = eo_hash64(data, sizeof(data), 1);

    ck_assert_uint_ne(plain, eo_hash64(data, sizeof(data), 2));
    ck_assert_uint_ne(plain, eo_hash64(data, sizeof(data) - 1, 1));
    for (size_t bit = 0; bit < 8 * sizeof(data); bit++) {
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        ck_assert_uint_ne(plain, eo_hash64(data, sizeof(data), 1));
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    ck_assert_uint_eq(plain, eo_hash64(data, sizeof(data), 1));
    ck_assert_uint_eq(eo_hash64(NULL, 0, 5), eo_hash64("", 0, 5));
}
END_TEST

EO_SUITE("text", nearest_finds_typos, nearest_says_nothing_rather_than_nonsense, sizes, durations, integers, numbers,
         numbers_ignore_the_locale, formatted_bytes, formatted_durations, copies, utf8, hash_depends_on_every_bit)
