/* Learning rate schedules: the table, and factors against values that PyTorch 1.13.1 gives (CosineAnnealingLR,
 * OneCycleLR, ReduceLROnPlateau; torch.optim.lr_scheduler, lr 1), or worked out by hand. */
#include "daemon/train/schedule.h"

#include "daemon/train/exact_math.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static double factor_at(const struct schedule_config *list, int n, int64_t step, int64_t steps, int64_t per_epoch)
{
    const struct schedule_time time = {.step = step, .steps = steps, .steps_per_epoch = per_epoch};
    const struct schedule_state state = {0};

    return schedule_factor(list, n, &time, &state);
}

START_TEST(rows_are_sane)
{
    for (int i = 0; i < SCHEDULE_COUNT; i++) {
        enum schedule_kind kind = (enum schedule_kind)i;
        struct schedule_config c;

        ck_assert(schedule_name(kind)[0] != '\0' && schedule_summary(kind)[0] != '\0');
        schedule_default(kind, &c);
        ck_assert_int_eq(c.kind, kind);
        for (int k = 0; k < schedule_n_params(kind); k++) {
            const struct schedule_param *p = schedule_param(kind, k);

            ck_assert(p->fallback >= p->min && p->fallback <= p->max);
            ck_assert(p->name[0] != '\0' && p->help[0] != '\0' && p->range[0] != '\0');
            ck_assert_double_eq(c.values[k], p->fallback);
        }
        ck_assert_ptr_null(schedule_param(kind, schedule_n_params(kind)));
    }
    ck_assert_int_eq(schedule_n_params(SCHEDULE_CONSTANT), 0);
}
END_TEST

START_TEST(cosine_without_libm)
{
    for (int i = 0; i <= 1000; i++) {
        double u = i / 1000.0;

        ck_assert_double_eq_tol(exact_cos_pi(u), cos(acos(-1) * u), 4e-16);
    }
    ck_assert_double_eq(exact_cos_pi(0), 1);
    ck_assert_double_eq(exact_cos_pi(1), -1);
    ck_assert_double_eq_tol(exact_cos_pi(0.5), 0, 1e-16);
}
END_TEST

START_TEST(cosine_as_pytorch)
{
    static const double expected[] = {1,
                                      0.97797543233281914,
                                      0.91405764746872631,
                                      0.8145033635316129,
                                      0.68905764746872633,
                                      0.55000000000000004,
                                      0.41094235253127376,
                                      0.28549663646838719,
                                      0.18594235253127372,
                                      0.12202456766718092};
    struct schedule_config c;

    schedule_default(SCHEDULE_COSINE, &c);
    c.values[1] = 0.1; /* end_factor */
    for (int i = 0; i < 10; i++) {
        ck_assert_double_eq_tol(factor_at(&c, 1, i, 10, 3), expected[i], 1e-15);
    }
    c.values[0] = 5; /* epochs of 2 steps: the same ten steps of a longer run */
    for (int i = 0; i < 10; i++) {
        ck_assert_double_eq_tol(factor_at(&c, 1, i, 1000, 2), expected[i], 1e-15);
    }
    ck_assert_double_eq_tol(factor_at(&c, 1, 10, 1000, 2), 0.1, 1e-16);
    ck_assert_double_eq_tol(factor_at(&c, 1, 999, 1000, 2), 0.1, 1e-16);
}
END_TEST

START_TEST(one_cycle_as_pytorch)
{
    static const double expected[] = {0.040000000000000036, 0.34978965421958308,  0.87928515912212868,
                                      0.99441543545091171,  0.93301296984141169,  0.81174565394976295,
                                      0.64737899769510332,  0.46263710266697505,  0.28306099820869923,
                                      0.1334775301888306,   0.034566987425395219, 3.9999999999999998e-06};
    struct schedule_config c;

    schedule_default(SCHEDULE_ONE_CYCLE, &c);
    for (int i = 0; i < 12; i++) {
        ck_assert_double_eq_tol(factor_at(&c, 1, i, 12, 4), expected[i], 1e-15);
    }
    c.values[0] = 0; /* straight down */
    ck_assert_double_eq_tol(factor_at(&c, 1, 11, 12, 4), 4e-6, 1e-15);
    c.values[0] = 1; /* straight up */
    ck_assert_double_eq_tol(factor_at(&c, 1, 11, 12, 4), 1, 1e-15);
    ck_assert_double_eq(factor_at(&c, 1, 0, 1, 1), 1); /* a run of one step */
}
END_TEST

START_TEST(plateau_as_pytorch)
{
    static const double losses[] = {1,   0.9, 0.895, 0.894, 0.893, 0.892, 0.5, 0.6, 0.6, 0.6,
                                    0.6, 0.6, 0.6,   0.6,   0.6,   NAN,   0.1, 0.2, 0.2, 0.2};
    static const double expected[] = {1,    1,    1,   0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25,
                                      0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2,  0.2};
    const struct schedule_time time = {.step = 3, .steps = 100, .steps_per_epoch = 5};
    struct schedule_state state = {0};
    struct schedule_config c;

    schedule_default(SCHEDULE_PLATEAU, &c);
    memcpy(c.values, (double[]){0.5, 1, 0.01, 2, 0.2},
           sizeof(c.values)); /* factor, patience, threshold, cooldown, end */
    ck_assert_double_eq(schedule_factor(&c, 1, &time, &state), 1);
    for (size_t i = 0; i < EO_COUNT_OF(losses); i++) {
        schedule_observe(&c, 1, losses[i], &state);
        ck_assert_msg(schedule_factor(&c, 1, &time, &state) == expected[i], "after loss %zu", i);
    }
}
END_TEST

/* Losses that are never numbers, and a factor of 0. */
START_TEST(plateau_at_its_edges)
{
    const struct schedule_time time = {.step = 0, .steps = 1, .steps_per_epoch = 1};
    struct schedule_state state = {0};
    struct schedule_config c;

    schedule_default(SCHEDULE_PLATEAU, &c);
    memcpy(c.values, (double[]){0, 0, 0, 0, 0}, sizeof(c.values));
    schedule_observe(&c, 1, NAN, &state);
    ck_assert(schedule_factor(&c, 1, &time, &state) > 0);
    ck_assert(schedule_factor(&c, 1, &time, &state) < 1e-300);
    state = (struct schedule_state){0};
    schedule_observe(&c, 1, -5, &state); /* losses may be negative */
    schedule_observe(&c, 1, -6, &state);
    ck_assert_double_eq(schedule_factor(&c, 1, &time, &state), 1);
}
END_TEST

START_TEST(by_hand)
{
    struct schedule_config c[2];

    schedule_default(SCHEDULE_STEP, &c[0]);
    c[0].values[0] = 2;
    ck_assert_double_eq(factor_at(c, 1, 0, 100, 5), 1);
    ck_assert_double_eq(factor_at(c, 1, 9, 100, 5), 1);
    ck_assert_double_eq_tol(factor_at(c, 1, 10, 100, 5), 0.1, 1e-17);
    ck_assert_double_eq_tol(factor_at(c, 1, 20, 100, 5), 0.01, 1e-17);
    c[0].values[0] = 1e-300; /* steps without number */
    ck_assert_double_eq(factor_at(c, 1, 7, 100, 5), 0);

    schedule_default(SCHEDULE_EXPONENTIAL, &c[0]);
    c[0].values[0] = 0.5;
    ck_assert_double_eq(factor_at(c, 1, 4, 100, 5), 1);
    ck_assert_double_eq(factor_at(c, 1, 14, 100, 5), 0.25);

    schedule_default(SCHEDULE_LINEAR, &c[0]);
    c[0].values[1] = 0.5;
    ck_assert_double_eq(factor_at(c, 1, 0, 10, 5), 1);
    ck_assert_double_eq(factor_at(c, 1, 5, 10, 5), 0.75);
    ck_assert_double_eq(factor_at(c, 1, 10, 10, 5), 0.5);

    schedule_default(SCHEDULE_WARMUP, &c[0]);
    ck_assert_double_eq(factor_at(c, 1, 0, 100, 4), 0.25);
    ck_assert_double_eq(factor_at(c, 1, 2, 100, 4), 0.75);
    ck_assert_double_eq(factor_at(c, 1, 3, 100, 4), 1);
    ck_assert_double_eq(factor_at(c, 1, 99, 100, 4), 1);
    c[0].values[1] = 2; /* steps */
    ck_assert_double_eq(factor_at(c, 1, 0, 100, 4), 0.5);
    c[0].values[2] = 0.2; /* start_factor */
    ck_assert_double_eq_tol(factor_at(c, 1, 0, 100, 4), 0.6, 1e-15);

    schedule_default(SCHEDULE_STEP, &c[1]); /* a list multiplies */
    c[1].values[0] = 0.25;
    ck_assert_double_eq_tol(factor_at(c, 2, 1, 100, 4), 0.1, 1e-17);
    ck_assert_double_eq(factor_at(NULL, 0, 1, 100, 4), 1);
}
END_TEST

EO_SUITE("schedules", rows_are_sane, cosine_without_libm, cosine_as_pytorch, one_cycle_as_pytorch, plateau_as_pytorch,
         plateau_at_its_edges, by_hand)
