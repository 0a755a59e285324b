/* The algebraic properties of the rows (EO_PROP_x in ops.def): each one is a test over every row that claims it, every
 * dtype and every backend. */
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct devices devices;

/* One application of a row to data in memory; results are NULL when the backend declines it. */
static struct results apply(struct eo_device *dev, const struct run *r)
{
    struct eo_error err;
    struct results out;
    int rc = run_on(dev, r, -1, &out, &err);
    if (rc != EO_E_UNSUPPORTED)
        ASSERT_OK(rc);
    return out;
}

/* A run of the row on operands of one shape: the attributes are those of the first case of the row. */
static struct run prepare(enum eo_op op, enum eo_dtype dtype, int64_t n, uint64_t seed)
{
    struct eo_error err;
    struct run r;
    const struct eo_op_schema *schema = eo_op_schema(op);
    struct eo_attrs attrs;
    eo_attrs_default(schema, &attrs);
    if (op == EO_OP_CAST)
        attrs.v[0].i = EO_FLOAT32;
    if (op == EO_OP_CLIP) {
        attrs.v[0].f = 1;
        attrs.v[1].f = 2;
    }
    struct eo_tensor_desc in[3];
    for (int i = 0; i < schema->min_inputs; i++)
        in[i] = (struct eo_tensor_desc){(uint8_t)(op == EO_OP_WHERE && i == 0 ? EO_BOOL : dtype), 1, {n}};
    ASSERT_OK(run_init(&r, schema, &attrs, in, schema->min_inputs, &err));
    case_fill(&r, FILL_ORDINARY, seed);
    return r;
}

static void check_equal(const struct run *r, const void *a, const void *b, const char *kernel, const char *property)
{
    enum eo_dtype dtype = (enum eo_dtype)r->out[0].dtype;
    for (int64_t i = 0; i < eo_tensor_desc_count(&r->out[0]); i++) {
        double x = element_value(dtype, a, i), y = element_value(dtype, b, i);
        CHECK(x == y || (isnan(x) && isnan(y)), "%s of %s is not %s: element %lld is %.17g and %.17g", kernel,
              eo_dtype_name((enum eo_dtype)r->in[0].dtype), property, (long long)i, x, y);
    }
}

typedef void (*property_fn)(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype);

/* Calls check for all rows with the property; at least `rows` of them exist. */
static void for_each(enum eo_property property, property_fn check, int rows)
{
    int n = 0;
    for (int op = 1; op < EO_OP_COUNT; op++) {
        const struct eo_op_schema *schema = eo_op_schema((enum eo_op)op);
        if (!(schema->properties & (uint32_t)property))
            continue;
        n++;
        for (int d = 1; d < EO_DTYPE_LIMIT; d++)
            for (int b = -1; b < devices.n && (schema->dtypes & EO_DTYPE_BIT(d)); b++)
                check(b < 0 ? devices.reference : devices.under_test[b], (enum eo_op)op, (enum eo_dtype)d);
    }
    ck_assert_int_ge(n, rows);
}

static void check_commutative(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    struct run r = prepare(op, dtype, 131, 1);
    struct results ab = apply(dev, &r);
    void *first = r.in_data[0];
    r.in_data[0] = r.in_data[1];
    r.in_data[1] = first;
    struct results ba = apply(dev, &r);
    if (ab.out[0])
        check_equal(&r, ab.out[0], ba.out[0], ab.kernel, "commutative");
    results_fini(&ab);
    results_fini(&ba);
    run_fini(&r);
}

/* Feeds the result back in; the row keeps shape and dtype then (cast: the dtype that it makes). */
static void check_twice(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype, bool involution)
{
    struct run r = prepare(op, op == EO_OP_CAST ? EO_FLOAT32 : dtype, 67, 2);
    struct results once = apply(dev, &r);
    if (once.out[0]) {
        struct run again = prepare(op, (enum eo_dtype)r.out[0].dtype, 67, 2);
        memcpy(again.in_data[0], once.out[0], eo_tensor_desc_bytes(&r.out[0]));
        struct results twice = apply(dev, &again);
        check_equal(&r, involution ? r.in_data[0] : once.out[0], twice.out[0], once.kernel,
                    involution ? "an involution" : "idempotent");
        results_fini(&twice);
        run_fini(&again);
    }
    results_fini(&once);
    run_fini(&r);
}

static void check_idempotent(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    /* Shapes are the subject of the views; their rows are idempotent when the shape is reached already. */
    if (!(eo_op_schema(op)->properties & EO_PROP_VIEW))
        check_twice(dev, op, dtype, false);
}

static void check_involution(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    if (!(eo_op_schema(op)->properties & EO_PROP_VIEW))
        check_twice(dev, op, dtype, true);
}

static void check_parity(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype, double sign)
{
    if (eo_dtype_kind(dtype) == EO_KIND_UNSIGNED)
        return; /* nothing has a negative counterpart */
    struct run r = prepare(op, dtype, 67, 3);
    struct results plus = apply(dev, &r);
    for (int64_t i = 0; i < 67; i++)
        set_element(dtype, r.in_data[0], i, -element_value(dtype, r.in_data[0], i));
    struct results minus = apply(dev, &r);
    for (int64_t i = 0; plus.out[0] && i < 67; i++) {
        enum eo_dtype out = (enum eo_dtype)r.out[0].dtype;
        set_element(out, minus.out[0], i, sign * element_value(out, minus.out[0], i));
    }
    if (plus.out[0])
        check_equal(&r, plus.out[0], minus.out[0], plus.kernel, sign < 0 ? "odd" : "even");
    results_fini(&plus);
    results_fini(&minus);
    run_fini(&r);
}

static void check_odd(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    check_parity(dev, op, dtype, -1);
}

static void check_even(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    check_parity(dev, op, dtype, 1);
}

/* Where the function is defined, up to 20 from there. */
static double lowest_operand(enum eo_op op, enum eo_dtype dtype)
{
    switch (op) {
    case EO_OP_LOG:
    case EO_OP_LOG2:
    case EO_OP_LOG10:
    case EO_OP_SQRT:
        return 0.05;
    case EO_OP_LOG1P:
        return -0.9;
    case EO_OP_ASIN:
    case EO_OP_ATANH:
        return -1;
    case EO_OP_ACOSH:
        return 1;
    default:
        return eo_dtype_kind(dtype) == EO_KIND_UNSIGNED ? 0.05 : -10;
    }
}

/* Rising operands give results that do not fall, beyond the rounding that the row's tolerance admits. */
static void check_monotone(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    enum { N = 400 };
    bool narrow = op == EO_OP_ASIN || op == EO_OP_ATANH; /* -1 to 1 */
    struct run r = prepare(op, dtype, N, 4);
    for (int64_t i = 0; i < N; i++)
        set_element(dtype, r.in_data[0], i, lowest_operand(op, dtype) + (double)i * (narrow ? 0.005 : 0.05));
    struct results y = apply(dev, &r);
    for (int64_t i = 1; y.out[0] && i < N; i++) {
        double before = element_value(dtype, y.out[0], i - 1), after = element_value(dtype, y.out[0], i);
        CHECK(after >= before - case_allowed(&r, 0, before), "%s of %s falls from %.17g to %.17g", y.kernel,
              eo_dtype_name(dtype), before, after);
    }
    results_fini(&y);
    run_fini(&r);
}

/* Element i of the result depends on element i only: a part of the operands gives that part of the result, bit for bit,
 * wherever the vectors end. */
static void check_elementwise(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    enum { N = 67 };
    static const int64_t parts[][2] = {{0, 1}, {1, 5}, {3, 64}, {50, 17}, {66, 1}};
    struct run whole = prepare(op, dtype, N, 5);
    struct results y = apply(dev, &whole);
    for (size_t p = 0; y.out[0] && p < EO_COUNT_OF(parts); p++) {
        struct run part = prepare(op, dtype, parts[p][1], 5);
        for (int i = 0; i < part.n_in; i++) {
            size_t size = eo_dtype_size((enum eo_dtype)part.in[i].dtype);
            memcpy(part.in_data[i], (char *)whole.in_data[i] + (size_t)parts[p][0] * size, (size_t)parts[p][1] * size);
        }
        struct results z = apply(dev, &part);
        size_t size = eo_dtype_size((enum eo_dtype)part.out[0].dtype);
        CHECK(memcmp((char *)y.out[0] + (size_t)parts[p][0] * size, z.out[0], (size_t)parts[p][1] * size) == 0,
              "%s of %s: elements %lld.. differ when they are computed alone", y.kernel, eo_dtype_name(dtype),
              (long long)parts[p][0]);
        results_fini(&z);
        run_fini(&part);
    }
    results_fini(&y);
    run_fini(&whole);
}

/* A view moves bytes: the same bits come out whatever dtype of that size they are called. */
static void check_view(struct eo_device *dev, enum eo_op op, enum eo_dtype dtype)
{
    enum eo_dtype twin = dtype == EO_FLOAT32   ? EO_INT32
                         : dtype == EO_FLOAT64 ? EO_UINT64
                         : dtype == EO_FLOAT16 ? EO_BFLOAT16
                         : dtype == EO_BOOL    ? EO_INT8
                                               : EO_DTYPE_NONE;
    for (int c = 0; c < case_count() && twin != EO_DTYPE_NONE; c++) {
        struct eo_error err;
        struct run r, s;
        if (case_at(c)->op != op)
            continue;
        int rc = case_init(&r, case_at(c), dtype, dtype, &err), rs = case_init(&s, case_at(c), twin, twin, &err);
        if (rc == EO_OK && rs == EO_OK) {
            case_fill(&r, FILL_SPECIAL, 6);
            case_fill(&s, FILL_SPECIAL, 6);
            int operands = r.op->dtype_rule == EO_RULE_INDEX ? 1 : r.n_in; /* indices are no elements */
            for (int i = 0; i < operands; i++)
                memcpy(s.in_data[i], r.in_data[i], eo_tensor_desc_bytes(&r.in[i]));
            struct results a = apply(dev, &r), b = apply(dev, &s);
            CHECK(!a.out[0] || memcmp(a.out[0], b.out[0], eo_tensor_desc_bytes(&r.out[0])) == 0,
                  "%s gives other bits for %s than for %s", a.kernel, eo_dtype_name(dtype), eo_dtype_name(twin));
            results_fini(&a);
            results_fini(&b);
        }
        run_fini(&r);
        run_fini(&s);
    }
}

START_TEST(test_commutative)
{
    for_each(EO_PROP_COMMUTATIVE, check_commutative, 12);
}
END_TEST

START_TEST(test_idempotent)
{
    for_each(EO_PROP_IDEMPOTENT, check_idempotent, 9);
}
END_TEST

START_TEST(test_involution)
{
    for_each(EO_PROP_INVOLUTION, check_involution, 4);
}
END_TEST

START_TEST(test_odd)
{
    for_each(EO_PROP_ODD, check_odd, 16);
}
END_TEST

START_TEST(test_even)
{
    for_each(EO_PROP_EVEN, check_even, 6);
}
END_TEST

START_TEST(test_monotone)
{
    for_each(EO_PROP_MONOTONE, check_monotone, 24);
}
END_TEST

START_TEST(test_elementwise)
{
    for_each(EO_PROP_ELEMENTWISE, check_elementwise, 80);
}
END_TEST

START_TEST(test_view)
{
    for_each(EO_PROP_VIEW, check_view, 6);
}
END_TEST

/* reshape and expand to a shape that is reached already, transpose there and back: the views that claim more. */
START_TEST(test_views_repeated)
{
    static const struct {
        enum eo_op op;
        const char *inputs, *attrs;
        bool changes_once;
    } calls[] = {
        {EO_OP_RESHAPE, "T 4x6", "shape=4,6", false},
        {EO_OP_EXPAND, "T 4x6", "shape=4,6", false},
        {EO_OP_TRANSPOSE, "T 4x6x3", "", true},
        {EO_OP_REVERSE, "T 4x6x3", "axes=0,2", true},
    };
    for (size_t c = 0; c < EO_COUNT_OF(calls); c++)
        for (int b = -1; b < devices.n; b++) {
            struct eo_error err;
            struct run r, again;
            struct eo_device *dev = b < 0 ? devices.reference : devices.under_test[b];
            const struct op_case call = {calls[c].op, calls[c].inputs, calls[c].attrs};
            ASSERT_OK(case_init(&r, &call, EO_INT16, EO_INT16, &err));
            case_fill(&r, FILL_SPECIAL, 7);
            struct results once = apply(dev, &r);
            ASSERT_OK(run_init(&again, r.op, &r.attrs, &r.out[0], 1, &err));
            memcpy(again.in_data[0], once.out[0], eo_tensor_desc_bytes(&r.out[0]));
            struct results twice = apply(dev, &again);
            ck_assert_int_eq(memcmp(twice.out[0], r.in_data[0], eo_tensor_desc_bytes(&r.in[0])), 0);
            ck_assert_int_eq(memcmp(once.out[0], r.in_data[0], eo_tensor_desc_bytes(&r.in[0])) != 0,
                             calls[c].changes_once);
            results_fini(&once);
            results_fini(&twice);
            run_fini(&r);
            run_fini(&again);
        }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_commutative, test_idempotent,  test_involution, test_odd,           test_even,
                                  test_monotone,    test_elementwise, test_view,       test_views_repeated};
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("properties", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
