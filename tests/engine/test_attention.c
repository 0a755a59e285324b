/* Attention where it is hard: rows without anything to attend to, large scores, half types, shared keys. OpInfo's
 * sample of it is in test_opinfo. */
#include "backends/registry.h"
#include "tests/engine/call.h"

#include <math.h>

static const double q[4] = {1, 0, 0, 1}, k[6] = {1, 2, -1, 0.5, 3, -2}, v[6] = {1, 2, 3, 4, 5, 6};
static const char *const devices[] = {"reference", "cpu"};

/* softmax(q k^T / sqrt 2) v of one row that sees the keys in `seen`. */
static void expect_row(const double *query, const bool *seen, int n_keys, double *out)
{
    double sum = 0, weight;

    out[0] = out[1] = 0;
    for (int s = 0; s < n_keys; s++) {
        weight = seen[s] ? exp((query[0] * k[2 * s] + query[1] * k[2 * s + 1]) / sqrt(2)) : 0;
        sum += weight;
        out[0] += weight * v[2 * s];
        out[1] += weight * v[2 * s + 1];
    }
    if (sum > 0) {
        out[0] /= sum;
        out[1] /= sum;
    }
}

/* Row 0 sees keys 0 and 2, row 1 none: 0, and no gradient from there. A bool mask and one of -inf are the same. */
START_TEST(rows_without_keys_give_zero)
{
    static const double allowed[6] = {1, 0, 1, 0, 0, 0};
    static const double added[6] = {0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY};
    static const struct call calls[] = {
        {EO_OP_ATTENTION, "", {{"float64 2x2", q}, {"float64 3x2", k}, {"float64 3x2", v}, {"bool 2x3", allowed}}},
        {EO_OP_ATTENTION, "", {{"float64 2x2", q}, {"float64 3x2", k}, {"float64 3x2", v}, {"float64 2x3", added}}},
    };
    double wanted[4];

    expect_row(q, (const bool[]){true, false, true}, 3, wanted);
    expect_row(q + 2, (const bool[]){false, false, false}, 3, wanted + 2);
    for (size_t i = 0; i < EO_COUNT_OF(devices) * EO_COUNT_OF(calls); i++) {
        struct eo_device *dev = harness_device(devices[i / EO_COUNT_OF(calls)]);
        const struct call *c = &calls[i % EO_COUNT_OF(calls)];
        struct call_result r;
        struct eo_error err;

        ASSERT_OK(call_run(dev, c, true, &r, &err));
        call_compare(r.out[0], wanted, 4, 1e-12, "result");
        call_compare(r.grad[0] + 2, (const double[]){0, 0}, 2, 0, "gradient of the row");
        call_compare(r.grad[1] + 2, (const double[]){0, 0}, 2, 0, "gradient of a key that is not seen");
        for (int e = 0; e < 6; e++) {
            ck_assert(isfinite(r.grad[1][e]) && isfinite(r.grad[2][e]));
        }
        call_free(&r);
        registry_close(dev);
    }
}
END_TEST

/* causal: query t sees keys 0..t, also when there are more keys than queries. */
START_TEST(causal_rows_see_their_past)
{
    const struct call c = {EO_OP_ATTENTION, "causal=1", {{"float64 2x2", q}, {"float64 3x2", k}, {"float64 3x2", v}}};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct eo_device *dev = harness_device(devices[d]);
        struct call_result r;
        struct eo_error err;
        double wanted[4];

        expect_row(q, (const bool[]){true, false, false}, 3, wanted);
        expect_row(q + 2, (const bool[]){true, true, false}, 3, wanted + 2);
        ASSERT_OK(call_run(dev, &c, false, &r, &err));
        call_compare(r.out[0], wanted, 4, 1e-12, "result");
        call_free(&r);
        registry_close(dev);
    }
}
END_TEST

/* Scores of +-1e6, and float16 operands whose scores float16 does not hold. */
START_TEST(large_scores_are_finite)
{
    static const double large[4] = {1e6, -1e6, -1e6, 1e6}, half[4] = {60000, -60000, -60000, 60000};
    static const struct call calls[] = {
        {EO_OP_ATTENTION, "", {{"float32 2x2", large}, {"float32 2x2", q}, {"float32 2x2", v}}},
        {EO_OP_ATTENTION, "", {{"float16 2x2", half}, {"float16 2x2", half}, {"float16 2x2", v}}},
        {EO_OP_ATTENTION, "", {{"bfloat16 2x2", large}, {"bfloat16 2x2", large}, {"bfloat16 2x2", v}}},
    };

    for (size_t i = 0; i < EO_COUNT_OF(devices) * EO_COUNT_OF(calls); i++) {
        struct eo_device *dev = harness_device(devices[i / EO_COUNT_OF(calls)]);
        struct call_result r;
        struct eo_error err;

        ASSERT_OK(call_run(dev, &calls[i % EO_COUNT_OF(calls)], true, &r, &err));
        call_compare(r.out[0], v, 4, 0, "each query finds its key");
        for (int e = 0; e < 4; e++) {
            ck_assert(isfinite(r.grad[0][e]) && isfinite(r.grad[1][e]) && isfinite(r.grad[2][e]));
        }
        call_free(&r);
        registry_close(dev);
    }
}
END_TEST

/* Two heads that share keys and values by broadcasting give what each gives alone. */
START_TEST(heads_share_keys)
{
    const struct call both = {EO_OP_ATTENTION, "", {{"float64 2x1x2", q}, {"float64 1x3x2", k}, {"float64 3x2", v}}};
    struct eo_device *dev = harness_device("cpu");
    struct call_result r;
    struct eo_error err;

    ASSERT_OK(call_run(dev, &both, true, &r, &err));
    for (int head = 0; head < 2; head++) {
        double wanted[2];

        expect_row(q + 2 * (size_t)head, (const bool[]){true, true, true}, 3, wanted);
        call_compare(r.out[0] + 2 * (size_t)head, wanted, 2, 1e-12, "head");
    }
    call_free(&r);
    registry_close(dev);
}
END_TEST

EO_SUITE("attention", rows_without_keys_give_zero, causal_rows_see_their_past, large_scores_are_finite,
         heads_share_keys)
