/* Orders and long sums on every backend: sort and top_k against an order that is checked by its definition, on data
 * that is hostile to sorting and on lines long enough for all threads; sums of ten million equal terms. */
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct devices devices;

enum { LONG = 150000, TERMS = 10000000 };

/* ---- order ---- */

enum shape { RANDOM, EQUAL, RISING, FALLING, ORGAN_PIPE, SPECIAL, SHAPES };

static double value_at(enum shape shape, int64_t i, int64_t n)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, -1, 1e-40, -1e-40, NAN};
    switch (shape) {
    case EQUAL:
        return 3;
    case RISING:
        return (double)i;
    case FALLING:
        return (double)(n - i);
    case ORGAN_PIPE:
        return (double)(i < n / 2 ? i : n - i);
    case SPECIAL:
        return special[(i * 7 + i / 13) % (int)EO_COUNT_OF(special)];
    default:
        return floor(random_unit(5, (uint64_t)i) * (double)n / 4);
    }
}

/* -1, 0, 1 as a stands before, with or behind b. */
static int order_of(double a, double b, bool descending)
{
    int order = isnan(a) || isnan(b) ? (int)isnan(a) - (int)isnan(b) : (a > b) - (a < b);
    return descending ? -order : order;
}

/* Neighbours in order, equal ones by index; each value is that of its index. With the whole line taken, that is the one
 * stable order. */
static void check_order(const struct run *r, const struct results *y, bool descending, const char *what)
{
    enum eo_dtype dtype = (enum eo_dtype)r->in[0].dtype;
    const int64_t *indices = y->out[1];
    int64_t n = eo_tensor_desc_count(&r->in[0]), k = eo_tensor_desc_count(&r->out[0]);
    size_t size = eo_dtype_size(dtype);
    for (int64_t i = 0; i < k; i++) {
        CHECK(indices[i] >= 0 && indices[i] < n, "%s, %s: index %lld", y->kernel, what, (long long)indices[i]);
        CHECK(memcmp((const char *)y->out[0] + (size_t)i * size,
                     (const char *)r->in_data[0] + (size_t)indices[i] * size, size) == 0,
              "%s, %s: value %lld is not that of its index", y->kernel, what, (long long)i);
        if (i == 0)
            continue;
        int order = order_of(element_value(dtype, y->out[0], i - 1), element_value(dtype, y->out[0], i), descending);
        CHECK(order < 0 || (order == 0 && indices[i - 1] < indices[i]), "%s, %s: element %lld is out of order",
              y->kernel, what, (long long)i);
    }
    /* Nothing that is left out stands before the last one taken. */
    bool *taken = calloc((size_t)n + 1, sizeof *taken);
    CHECK(taken, "no memory");
    for (int64_t i = 0; i < k; i++)
        taken[indices[i]] = true;
    for (int64_t i = 0; k > 0 && i < n; i++) {
        int order =
            order_of(element_value(dtype, r->in_data[0], i), element_value(dtype, y->out[0], k - 1), descending);
        CHECK(taken[i] || order > 0 || (order == 0 && i > indices[k - 1]), "%s, %s: element %lld was left out",
              y->kernel, what, (long long)i);
    }
    free(taken);
}

static void order_everywhere(enum eo_op op, const char *attrs, bool descending, enum eo_dtype dtype, int64_t n)
{
    char inputs[32], what[96];
    snprintf(inputs, sizeof inputs, "T %lld", (long long)n);
    const struct op_case call = {op, inputs, attrs};
    for (int shape = 0; shape < SHAPES; shape++) {
        struct eo_error err;
        struct run r;
        ASSERT_OK(case_init(&r, &call, dtype, dtype, &err));
        for (int64_t i = 0; i < n; i++)
            set_element(dtype, r.in_data[0], i, value_at((enum shape)shape, i, n));
        snprintf(what, sizeof what, "%s of %lld, data %d", attrs, (long long)n, shape);
        for (int b = -1; b < devices.n; b++) {
            struct eo_device *dev = b < 0 ? devices.reference : devices.under_test[b];
            struct results y;
            if (!dev->info.host_memory)
                continue; /* the fake device has the reference's kernels */
            ASSERT_OK(run_on(dev, &r, -1, &y, &err));
            check_order(&r, &y, descending, what);
            results_fini(&y);
        }
        run_fini(&r);
    }
}

START_TEST(test_orders_of_hostile_data)
{
    static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64, EO_FLOAT16, EO_BFLOAT16};
    for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++) {
        order_everywhere(EO_OP_SORT, "", false, dtypes[d], 3000);
        order_everywhere(EO_OP_SORT, "descending=1", true, dtypes[d], 3000);
        order_everywhere(EO_OP_TOP_K, "k=40", true, dtypes[d], 3000);
        order_everywhere(EO_OP_TOP_K, "k=40 largest=0", false, dtypes[d], 3000);
    }
}
END_TEST

START_TEST(test_long_lines_are_shared)
{
    order_everywhere(EO_OP_SORT, "", false, EO_FLOAT32, LONG);
    order_everywhere(EO_OP_TOP_K, "k=9000", true, EO_FLOAT32, LONG);
    order_everywhere(EO_OP_TOP_K, "k=140000 largest=0", false, EO_FLOAT32, LONG);
}
END_TEST

/* ---- sums ---- */

static void check_sum(struct eo_device *dev, const struct run *r, double term, double tolerance)
{
    struct eo_error err;
    struct results y;
    ASSERT_OK(run_on(dev, r, -1, &y, &err));
    double sum = element_value((enum eo_dtype)r->out[0].dtype, y.out[0], 0), expected = term * TERMS;
    CHECK(fabs(sum - expected) <= tolerance * expected, "%s: ten million times %.17g is %.17g", y.kernel, term, sum);
    results_fini(&y);
}

/* Within 4 units in the last place, for whole rows and for columns. */
START_TEST(test_sums_of_ten_million_equal_terms)
{
    static const char *const shapes[][2] = {{"T 10000000", ""}, {"T 3333333x3", "axes=0"}};
    static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64};
    for (size_t s = 0; s < EO_COUNT_OF(shapes); s++)
        for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++) {
            struct eo_error err;
            struct run r;
            const struct op_case call = {EO_OP_SUM, shapes[s][0], shapes[s][1]};
            ASSERT_OK(case_init(&r, &call, dtypes[d], dtypes[d], &err));
            int64_t n = eo_tensor_desc_count(&r.in[0]), folded = n / eo_tensor_desc_count(&r.out[0]);
            for (int64_t i = 0; i < n; i++)
                set_element(dtypes[d], r.in_data[0], i, 0.1);
            double term = element_value(dtypes[d], r.in_data[0], 0) * (double)folded / TERMS;
            double ulp = dtypes[d] == EO_FLOAT32 ? 0x1p-23 : 0x1p-52;
            check_sum(devices.under_test[0], &r, term, 4 * ulp);
            if (s == 0)
                check_sum(devices.reference, &r, term, 4 * ulp);
            run_fini(&r);
        }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_orders_of_hostile_data, test_long_lines_are_shared,
                                  test_sums_of_ten_million_equal_terms};
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("order and long sums", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
