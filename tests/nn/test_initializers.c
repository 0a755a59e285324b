#include "daemon/nn/model.h"

#include "proto/philox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

enum { IN = 300, OUT = 200, COUNT = IN * OUT };

static struct model_param param(const char *initializer, enum eo_dtype dtype, uint64_t stream)
{
    struct model_param p = {.fan_in = IN, .fan_out = OUT, .stream = stream};

    p.desc = (struct eo_tensor_desc){.dtype = (uint8_t)dtype, .n_dims = 2, .shape = {IN, OUT}};
    snprintf(p.name, sizeof(p.name), "w");
    snprintf(p.initializer, sizeof(p.initializer), "%s", initializer);
    return p;
}

/* Mean, standard deviation and range of 60000 draws against the formulas of the names. */
START_TEST(spreads_are_as_named)
{
    static const struct {
        const char *name;
        double deviation; /* of the distribution */
        double bound;     /* of a uniform one; 0: normal */
    } rows[] = {
        {"he_uniform", 0.0816496580927726, 0.141421356237310}, /* sqrt(2/300), sqrt(6/300) */
        {"he_normal", 0.0816496580927726, 0},
        {"xavier_uniform", 0.0632455532033676, 0.109544511501033}, /* sqrt(2/500), sqrt(6/500) */
        {"glorot_normal", 0.0632455532033676, 0},
        {"uniform", 0.0288675134594813, 0.05},
        {"normal", 0.05, 0},
    };
    double *w = malloc(sizeof(double) * COUNT);

    for (size_t r = 0; r < EO_COUNT_OF(rows); r++) {
        struct model_param p = param(rows[r].name, EO_FLOAT64, 0);
        double sum = 0, squares = 0, largest = 0;

        ASSERT_OK(model_init_param(&p, 7, w, &err));
        for (int i = 0; i < COUNT; i++) {
            sum += w[i];
            squares += w[i] * w[i];
            largest = fmax(largest, fabs(w[i]));
        }
        /* 5 sigma of the mean, and of the deviation's estimate */
        ck_assert_double_lt(fabs(sum / COUNT), 5 * rows[r].deviation / sqrt(COUNT));
        ck_assert_double_lt(fabs(sqrt(squares / COUNT) / rows[r].deviation - 1), 5 / sqrt(2.0 * COUNT));
        if (rows[r].bound > 0) {
            ck_assert_double_le(largest, rows[r].bound);
            ck_assert_double_gt(largest, rows[r].bound * 0.999);
        } else {
            ck_assert_double_gt(largest, 3.5 * rows[r].deviation);
        }
    }
    free(w);
}
END_TEST

START_TEST(constants)
{
    struct model_param zeros = param("zeros", EO_FLOAT32, 1), ones = param("ones", EO_FLOAT32, 1);
    float *w = malloc(sizeof(float) * COUNT);

    ASSERT_OK(model_init_param(&zeros, 7, w, &err));
    ck_assert_float_eq(w[0], 0);
    ck_assert_float_eq(w[COUNT - 1], 0);
    ASSERT_OK(model_init_param(&ones, 7, w, &err));
    ck_assert_float_eq(w[COUNT - 1], 1);
    free(w);
}
END_TEST

START_TEST(seeds_and_streams_are_apart)
{
    struct model_param a = param("he_uniform", EO_FLOAT32, 0), b = param("he_uniform", EO_FLOAT32, 1);
    float *x = malloc(sizeof(float) * COUNT), *y = malloc(sizeof(float) * COUNT);
    int equal = 0;

    ASSERT_OK(model_init_param(&a, 7, x, &err));
    ASSERT_OK(model_init_param(&a, 7, y, &err));
    ck_assert_mem_eq(x, y, sizeof(float) * COUNT);
    ASSERT_OK(model_init_param(&b, 7, y, &err));
    for (int i = 0; i < COUNT; i++) {
        equal += x[i] == y[i];
    }
    ck_assert_int_lt(equal, 20);
    equal = 0;
    ASSERT_OK(model_init_param(&a, 8, y, &err));
    for (int i = 0; i < COUNT; i++) {
        equal += x[i] == y[i];
    }
    ck_assert_int_lt(equal, 20);
    free(x);
    free(y);
}
END_TEST

/* The bits themselves: whoever changes them breaks every seed that was ever written down. */
START_TEST(bits_are_pinned)
{
    struct model_param p = param("he_uniform", EO_FLOAT32, 0), q = param("he_normal", EO_FLOAT64, 3);
    float *w = malloc(sizeof(float) * COUNT);
    double *z = malloc(sizeof(double) * COUNT), bound = sqrt(6.0 / IN);

    ASSERT_OK(model_init_param(&p, 0, w, &err));
    for (uint64_t i = 0; i < 8; i++) {
        double unit = (double)(eo_rng_word(0, 0, 0x80000000u, i) >> 8) * 0x1p-24;

        ck_assert_float_eq(w[i], (float)(-bound + 2 * bound * unit));
    }
    ASSERT_OK(model_init_param(&q, 5, z, &err));
    ck_assert_double_eq(z[3], eo_rng_normal(5, 0, 0x80000003u, 3, 0, sqrt(2.0 / IN)));
    free(w);
    free(z);
}
END_TEST

START_TEST(what_has_no_row_is_a_bug)
{
    struct model_param p = param("orthogonal", EO_FLOAT32, 0);
    float w[1];

    ASSERT_CODE(model_init_param(&p, 0, w, &err), EO_E_INTERNAL);
    p = param("zeros", EO_INT32, 0);
    ASSERT_CODE(model_init_param(&p, 0, w, &err), EO_E_INTERNAL);
}
END_TEST

EO_SUITE("initializers", spreads_are_as_named, constants, seeds_and_streams_are_apart, bits_are_pinned,
         what_has_no_row_is_a_bug)
