/* NumPy's umath vectors: inputs and correctly rounded outputs as bit patterns, with the error in units of the last
 * place that is allowed. Every backend meets NumPy's own bounds. */
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 4096 };

static struct devices devices;

struct vector {
    double input, output, ulps;
};
struct vectors {
    struct vector line[MOST_LINES];
    int n;
};

static double float_of_bits(const char *hex, bool is_double)
{
    uint64_t bits = strtoull(hex, NULL, 16);
    uint32_t low = (uint32_t)bits;
    double d;
    float f;
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &low, sizeof f);
    return is_double ? d : (double)f;
}

/* Lines "np.float32,0x3f800000,0x402df854,3" of one dtype. */
static void read_vectors(const char *function, bool is_double, struct vectors *out)
{
    char path[512], line[256];
    const char *wanted = is_double ? "np.float64," : "np.float32,";
    snprintf(path, sizeof path, "%s/tests/vectors/umath/umath-validation-set-%s.csv", getenv("EO_SOURCE_DIR"),
             function);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL, "%s", path);
    out->n = 0;
    while (fgets(line, sizeof line, f)) {
        char *save = NULL, *input, *output, *ulps;
        if (strncmp(line, wanted, strlen(wanted)) != 0)
            continue;
        (void)strtok_r(line, ",", &save);
        input = strtok_r(NULL, ",", &save);
        output = strtok_r(NULL, ",", &save);
        ulps = strtok_r(NULL, ",\n", &save);
        ck_assert(input && output && ulps && out->n < MOST_LINES);
        out->line[out->n++] =
            (struct vector){float_of_bits(input, is_double), float_of_bits(output, is_double), strtod(ulps, NULL)};
    }
    ck_assert_int_eq(fclose(f), 0);
}

/* Distance in representable numbers. */
static double ulps_between(double a, double b, bool is_double)
{
    int exponent;
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    if (isnan(a) || isnan(b))
        return INFINITY;
    double largest = fmax(fabs(a), fabs(b)), smallest = fmin(fabs(a), fabs(b));
    if (isinf(largest)) /* one step above the largest finite number */
        return isinf(smallest)
                   ? INFINITY
                   : ulps_between(smallest, is_double ? 0x1.fffffffffffffp1023 : 0x1.fffffep127, is_double) + 1;
    (void)frexp(smallest, &exponent);
    int digits = is_double ? 53 : 24, lowest = is_double ? -1074 : -149;
    return fabs(a - b) / ldexp(1, exponent - digits < lowest ? lowest : exponent - digits);
}

static void check_function(const char *function, enum eo_op op, bool is_double, int lines)
{
    static struct vectors v;
    struct eo_error err;
    struct run r;
    enum eo_dtype dtype = is_double ? EO_FLOAT64 : EO_FLOAT32;
    struct eo_attrs attrs;
    read_vectors(function, is_double, &v);
    ck_assert_int_eq(v.n, lines);
    eo_attrs_default(eo_op_schema(op), &attrs);
    struct eo_tensor_desc x = {(uint8_t)dtype, 1, {v.n}};
    ASSERT_OK(run_init(&r, eo_op_schema(op), &attrs, &x, 1, &err));
    for (int i = 0; i < v.n; i++)
        set_element(dtype, r.in_data[0], i, v.line[i].input);
    for (int b = -1; b < devices.n; b++) {
        struct results out;
        ASSERT_OK(run_on(b < 0 ? devices.reference : devices.under_test[b], &r, -1, &out, &err));
        for (int i = 0; i < v.n; i++) {
            double y = element_value(dtype, out.out[0], i), off = ulps_between(y, v.line[i].output, is_double);
            CHECK(off <= v.line[i].ulps, "%s(%a) on %s is %a, should be %a: %g units off, %g allowed", function,
                  v.line[i].input, out.kernel, y, v.line[i].output, off, v.line[i].ulps);
        }
        results_fini(&out);
    }
    run_fini(&r);
}

START_TEST(test_functions_meet_numpys_bounds)
{
    static const struct {
        const char *function;
        enum eo_op op;
        int float32_lines, float64_lines;
    } functions[] = {
        {"exp", EO_OP_EXP, 129, 238},       {"exp2", EO_OP_EXP2, 714, 714},     {"log", EO_OP_LOG, 113, 147},
        {"log2", EO_OP_LOG2, 814, 814},     {"log10", EO_OP_LOG10, 814, 814},   {"log1p", EO_OP_LOG1P, 714, 714},
        {"expm1", EO_OP_EXPM1, 714, 714},   {"cbrt", EO_OP_CBRT, 714, 714},     {"sin", EO_OP_SIN, 655, 710},
        {"cos", EO_OP_COS, 660, 710},       {"tan", EO_OP_TAN, 714, 714},       {"arcsin", EO_OP_ASIN, 714, 714},
        {"arccos", EO_OP_ACOS, 714, 714},   {"arctan", EO_OP_ATAN, 714, 714},   {"sinh", EO_OP_SINH, 714, 714},
        {"cosh", EO_OP_COSH, 714, 714},     {"tanh", EO_OP_TANH, 714, 714},     {"arcsinh", EO_OP_ASINH, 714, 714},
        {"arccosh", EO_OP_ACOSH, 714, 714}, {"arctanh", EO_OP_ATANH, 714, 714},
    };
    for (size_t i = 0; i < EO_COUNT_OF(functions); i++) {
        check_function(functions[i].function, functions[i].op, false, functions[i].float32_lines);
        check_function(functions[i].function, functions[i].op, true, functions[i].float64_lines);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_functions_meet_numpys_bounds};
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("umath vectors", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
