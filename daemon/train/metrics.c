#include "daemon/train/metrics.h"

#include <math.h>
#include <string.h>

/* ---- facts of rows ---- */

#define HIGHER true
#define LOWER false
#define L1(a) (1u << LOSS_##a)
static const struct {
    const char *name, *summary;
    unsigned losses;
    int n_sums;
    bool higher;
} rows[METRIC_COUNT] = {
#define METRIC(name_, NAME, summary_, losses_, n_sums_, better_, ...)                                                  \
    [METRIC_##NAME] = {                                                                                                \
        .name = #name_, .summary = (summary_), .losses = (losses_), .n_sums = (n_sums_), .higher = (better_)},
#include "daemon/train/metrics.def"
};
#define METRIC(name, NAME, summary, losses, n_sums, ...)                                                               \
    _Static_assert((n_sums) >= 1 && (n_sums) <= METRIC_MAX_SUMS, "sums of " #name);
#include "daemon/train/metrics.def"

static bool valid(enum metric_kind kind)
{
    return (int)kind >= 0 && kind < METRIC_COUNT;
}

const char *metric_name(enum metric_kind kind)
{
    return valid(kind) ? rows[kind].name : "?";
}

const char *metric_summary(enum metric_kind kind)
{
    return valid(kind) ? rows[kind].summary : "";
}

int metric_find(const char *name)
{
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int metric_n_sums(enum metric_kind kind)
{
    return valid(kind) ? rows[kind].n_sums : 0;
}

bool metric_higher_is_better(enum metric_kind kind)
{
    return valid(kind) && rows[kind].higher;
}

bool metric_fits(enum metric_kind kind, enum loss_kind loss)
{
    return valid(kind) && (rows[kind].losses >> loss & 1u) != 0;
}

/* ---- sums of a batch ---- */

/* Sum over everything in float64: a float32 sum of a long epoch would drown single rows. */
static eo_value total(struct eo_builder *b, eo_value x)
{
    return eo_build_reduce(b, EO_OP_SUM, eo_build_cast(b, x, EO_FLOAT64), NULL, 0, false);
}

static eo_value difference(struct eo_builder *b, eo_value output, eo_value targets)
{
    return eo_build_binary(b, EO_OP_SUBTRACT, output, targets);
}

static eo_value square(struct eo_builder *b, eo_value x)
{
    return eo_build_binary(b, EO_OP_MULTIPLY, x, x);
}

static void metric_build_accuracy(struct eo_builder *b, eo_value output, eo_value targets, double shift, eo_value *out)
{
    EO_UNUSED(shift);
    out[0] = total(b, eo_build_binary(b, EO_OP_EQUAL, eo_build_unary(b, EO_OP_ARG_MAX, output), targets));
}

static void metric_build_binary_accuracy(struct eo_builder *b, eo_value output, eo_value targets, double shift,
                                         eo_value *out)
{
    /* A probability above 0.5 is a logit above 0. */
    eo_value says = eo_build_binary(b, EO_OP_GREATER, output, eo_build_scalar_like(b, output, 0));
    eo_value is = eo_build_binary(b, EO_OP_GREATER_EQUAL, targets, eo_build_scalar_like(b, targets, 0.5));

    EO_UNUSED(shift);
    out[0] = total(b, eo_build_binary(b, EO_OP_EQUAL, says, is));
}

static void metric_build_mae(struct eo_builder *b, eo_value output, eo_value targets, double shift, eo_value *out)
{
    EO_UNUSED(shift);
    out[0] = total(b, eo_build_unary(b, EO_OP_ABS, difference(b, output, targets)));
}

static void metric_build_mse(struct eo_builder *b, eo_value output, eo_value targets, double shift, eo_value *out)
{
    EO_UNUSED(shift);
    out[0] = total(b, square(b, difference(b, output, targets)));
}

static void metric_build_rmse(struct eo_builder *b, eo_value output, eo_value targets, double shift, eo_value *out)
{
    metric_build_mse(b, output, targets, shift, out);
}

static void metric_build_r2(struct eo_builder *b, eo_value output, eo_value targets, double shift, eo_value *out)
{
    eo_value wide = eo_build_cast(b, targets, EO_FLOAT64);
    eo_value shifted = eo_build_binary(b, EO_OP_SUBTRACT, wide, eo_build_scalar(b, EO_FLOAT64, shift));

    metric_build_mse(b, output, targets, shift, out);
    out[1] = total(b, shifted);
    out[2] = total(b, square(b, shifted));
}

void metric_build(enum metric_kind kind, struct eo_builder *b, eo_value output, eo_value targets, double target_shift,
                  eo_value *out_sums)
{
    switch (kind) {
#define METRIC(name, NAME, ...)                                                                                        \
    case METRIC_##NAME:                                                                                                \
        metric_build_##name(b, output, targets, target_shift, out_sums);                                               \
        break;
#include "daemon/train/metrics.def"
    case METRIC_COUNT:
        break;
    }
}

/* ---- values ---- */

static double elements(const struct metric_scale *s)
{
    return (double)s->n_rows * (double)s->row_elements;
}

static double metric_value_accuracy(const double *sums, const struct metric_scale *s)
{
    return sums[0] / (double)s->n_rows;
}

static double metric_value_binary_accuracy(const double *sums, const struct metric_scale *s)
{
    return sums[0] / elements(s);
}

static double metric_value_mae(const double *sums, const struct metric_scale *s)
{
    return sums[0] / elements(s) * s->target_unit;
}

static double metric_value_mse(const double *sums, const struct metric_scale *s)
{
    return sums[0] / elements(s) * s->target_unit * s->target_unit;
}

static double metric_value_rmse(const double *sums, const struct metric_scale *s)
{
    return sqrt(metric_value_mse(sums, s));
}

static double metric_value_r2(const double *sums, const struct metric_scale *s)
{
    double n = elements(s);
    double spread = sums[2] - sums[1] * sums[1] / n;

    /* A constant target has no variance to explain; rounding may leave a trace of one. */
    if (n > 0 && spread <= sums[2] * 1e-14) {
        return 0;
    }
    return 1 - sums[0] / spread;
}

double metric_value(enum metric_kind kind, const double *sums, const struct metric_scale *scale)
{
    switch (kind) {
#define METRIC(name, NAME, ...)                                                                                        \
    case METRIC_##NAME:                                                                                                \
        return scale->n_rows == 0 ? (double)NAN : metric_value_##name(sums, scale);
#include "daemon/train/metrics.def"
    case METRIC_COUNT:
        break;
    }
    return (double)NAN;
}
