#include "daemon/formats/csv.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static int read_text(const char *text, size_t size, struct csv *out)
{
    struct stream *s;
    int status;

    ASSERT_OK(stream_open_memory("t.csv", text, size, &s, &err));
    eo_error_clear(&err);
    status = csv_read_stream(s, 1 << 20, out, &err);
    stream_close(s);
    return status;
}

static int read_str(const char *text, struct csv *out)
{
    return read_text(text, strlen(text), out);
}

START_TEST(header_and_rows)
{
    struct csv c;
    int64_t column;

    ASSERT_OK(read_str("a,b,label\n1,-2.5,0\n3e2, 4 ,1\n", &c));
    ck_assert_int_eq(c.n_rows, 2);
    ck_assert_int_eq(c.n_columns, 3);
    ck_assert_int_eq(c.first_line, 2);
    ck_assert_str_eq(c.names[2], "label");
    ck_assert_double_eq(c.cells[0], 1);
    ck_assert_double_eq(c.cells[1], -2.5);
    ck_assert_double_eq(c.cells[3], 300);
    ck_assert_double_eq(c.cells[4], 4);
    ASSERT_OK(csv_column(&c, "label", "t.csv", &column, &err));
    ck_assert_int_eq(column, 2);
    ASSERT_OK(csv_column(&c, "", "t.csv", &column, &err));
    ck_assert_int_eq(column, 2);
    ASSERT_OK(csv_column(&c, "0", "t.csv", &column, &err));
    ck_assert_int_eq(column, 0);
    ASSERT_OK(csv_column(&c, "-2", "t.csv", &column, &err));
    ck_assert_int_eq(column, 1);
    ASSERT_CODE(csv_column(&c, "lable", "t.csv", &column, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.hint, "label");
    ASSERT_CODE(csv_column(&c, "3", "t.csv", &column, &err), EO_E_BAD_FILE);
    ASSERT_CODE(csv_column(&c, "-4", "t.csv", &column, &err), EO_E_BAD_FILE);
    csv_fini(&c);
}
END_TEST

START_TEST(what_else_is_a_table)
{
    static const struct {
        const char *text;
        int64_t rows, columns, first_line;
        double last;
    } good[] = {
        {"1,2\n3,4\n", 2, 2, 1, 4},
        {"1,2\n3,4", 2, 2, 1, 4},       /* no line end at the end */
        {"1,2\r\n3,4\r\n", 2, 2, 1, 4}, /* Windows */
        {"\xef\xbb\xbf"
         "1,2\n",
         1, 2, 1, 2}, /* byte order mark */
        {"\xef\xbb\xbfx,y\n1,2\n", 1, 2, 2, 2},
        {"x\n7\n8\n\n \n", 2, 1, 2, 8}, /* empty lines at the end */
        {"\"x, y\",\"a \"\"b\"\"\"\n\"1\",\"2\"\n", 1, 2, 2, 2},
        {"0.1,1e-300\n", 1, 2, 1, 1e-300},
        {"1,123456789012345678\n", 1, 2, 1, 123456789012345678.0},
        {"1,.5\n", 1, 2, 1, 0.5},
        {"1,0.3333333333333333\n", 1, 2, 1, 0.3333333333333333},
        {"1,-0.123456789012345\n", 1, 2, 1, -0.123456789012345},
    };

    for (size_t i = 0; i < EO_COUNT_OF(good); i++) {
        struct csv c;

        ASSERT_OK(read_str(good[i].text, &c));
        ck_assert_int_eq(c.n_rows, good[i].rows);
        ck_assert_int_eq(c.n_columns, good[i].columns);
        ck_assert_int_eq(c.first_line, good[i].first_line);
        ck_assert_double_eq(c.cells[c.n_rows * c.n_columns - 1], good[i].last);
        csv_fini(&c);
    }
}
END_TEST

START_TEST(what_is_no_table_is_told_with_its_place)
{
    static const struct {
        const char *text, *place, *why;
    } bad[] = {
        {"", "t.csv:1", "empty"},
        {"\n1,2\n", "t.csv:1", "empty"},
        {"a,b\n", "t.csv", "no rows"},
        {"a,b\n1,2\n1\n", "t.csv:3", "1 cells where the first row has 2"},
        {"a,b\n1,2\n1,2,3\n", "t.csv:3", "3 cells"},
        {"a,b\n1,2\n\n3,4\n", "t.csv:3", "empty line"},
        {"a,b\n1,\n", "t.csv:2: column 2 (\"b\")", "empty"},
        {"a,b\n1,2\n?,4\n", "t.csv:3: column 1 (\"a\")", "\"?\" is not a number"},
        {"a,b\n1,nan\n", "t.csv:2: column 2", "not finite"},
        {"a,b\n-inf,1\n", "t.csv:2: column 1", "not finite"},
        {"a,b\n1,1e999\n", "t.csv:2: column 2", "not a number"},
        {"a,b\n1,0x10\n", "t.csv:2: column 2", "not a number"},
        {"a,b\n1,1;5\n", "t.csv:2: column 2", "not a number"},
        {"a,b\n1,\"2\n", "t.csv:2: column 2", "quote"},
        {"a,b\n1,\"2\"x\n", "t.csv:2: column 2", "quote"},
        {"a,b\n1,2\"\n", "t.csv:2: column 2", "quote"},
        {"1,?\n1,2\n", "t.csv:1: column 2", "\"?\" is not a number"}, /* no header by accident */
    };

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        struct csv c;

        ASSERT_CODE(read_str(bad[i].text, &c), EO_E_BAD_FILE);
        ASSERT_CONTAINS(err.message, bad[i].place);
        ASSERT_CONTAINS(err.message, bad[i].why);
    }
}
END_TEST

START_TEST(nul_bytes_and_noise_do_no_harm)
{
    struct csv c;
    char noise[4096];
    unsigned state = 1;

    ASSERT_CODE(read_text("a,b\n1,\0002\n", 9, &c), EO_E_BAD_FILE);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof(noise); i++) {
            state = state * 1664525u + 1013904223u;
            noise[i] = "0123456789,,,\n\"-.e \0\xff"[state >> 16 & 15 % 21];
        }
        if (read_text(noise, sizeof(noise), &c) == EO_OK) {
            csv_fini(&c);
        }
    }
}
END_TEST

START_TEST(sizes_are_bounded)
{
    size_t n = 1000000;
    char *wide = malloc(2 * n), *long_line;
    struct csv c;
    struct stream *s;

    for (size_t i = 0; i < n; i++) {
        memcpy(wide + 2 * i, "1,", 2);
    }
    wide[2 * n - 1] = '\n';
    ASSERT_CODE(read_text(wide, 2 * n, &c), EO_E_TOO_LARGE);
    ASSERT_CONTAINS(err.message, "1000000 columns");
    /* 2^16 - 1 columns are fine, but not in 2^16 bytes */
    wide[2 * 65535 - 1] = '\n';
    ASSERT_OK(stream_open_memory("wide.csv", wide, 2 * 65535, &s, &err));
    ASSERT_CODE(csv_read_stream(s, 1 << 16, &c, &err), EO_E_TOO_LARGE);
    stream_close(s);
    ASSERT_OK(read_text(wide, 2 * 65535, &c));
    ck_assert_int_eq(c.n_columns, 65535);
    csv_fini(&c);
    free(wide);
    long_line = malloc(5 << 20);
    memset(long_line, '1', 5 << 20);
    ASSERT_CODE(read_text(long_line, 5 << 20, &c), EO_E_TOO_LARGE);
    free(long_line);
}
END_TEST

/* The fast way through short numbers agrees with strtod. */
START_TEST(numbers_are_correctly_rounded)
{
    uint64_t state = 88172645463325252u;

    for (int i = 0; i < 20000; i++) {
        char text[64];
        struct csv c;
        double expected;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        snprintf(text, sizeof(text), "%.*f,%.*g\n", (int)(state % 12), (double)(int64_t)state / 1e15,
                 1 + (int)(state >> 8 & 15), (double)(int64_t)state / 1e12);
        ASSERT_OK(read_str(text, &c));
        expected = strtod(text, NULL);
        ck_assert_mem_eq(&c.cells[0], &expected, sizeof(expected));
        expected = strtod(strchr(text, ',') + 1, NULL);
        ck_assert_mem_eq(&c.cells[1], &expected, sizeof(expected));
        csv_fini(&c);
    }
}
END_TEST

START_TEST(a_real_file)
{
    char path[512];
    struct csv c;
    double sum = 0;

    snprintf(path, sizeof(path), "%s/deploy/examples/digits.csv", getenv("EO_SOURCE_DIR"));
    ASSERT_OK(csv_read(path, 1 << 30, &c, &err));
    ck_assert_int_eq(c.n_rows, 1797);
    ck_assert_int_eq(c.n_columns, 65);
    for (int64_t i = 0; i < c.n_rows; i++) {
        sum += c.cells[i * 65 + 64];
    }
    ck_assert_double_eq(sum, 8070); /* of the labels */
    csv_fini(&c);
    ASSERT_CODE(csv_read("/nonexistent.csv", 1 << 30, &c, &err), EO_E_NO_FILE);
}
END_TEST

EO_SUITE("csv", header_and_rows, what_else_is_a_table, what_is_no_table_is_told_with_its_place,
         nul_bytes_and_noise_do_no_harm, sizes_are_bounded, numbers_are_correctly_rounded, a_real_file)
