#include "daemon/train/schedule.h"

#include "daemon/train/exact_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- facts of rows ---- */

#define NO_PARAMS [0] = {.name = NULL}
#define PARAMS(...) __VA_ARGS__
#define PARAM(name_, index_, fallback_, min_, max_, range_, help_)                                                     \
    [index_] = {                                                                                                       \
        .name = #name_, .help = (help_), .range = (range_), .fallback = (fallback_), .min = (min_), .max = (max_)},

static const struct {
    const char *name, *summary;
    struct schedule_param params[SCHEDULE_MAX_PARAMS + 1]; /* the last one has no name */
} rows[SCHEDULE_COUNT] = {
#define SCHEDULE(name_, NAME, summary_, params_, ...)                                                                  \
    [SCHEDULE_##NAME] = {.name = #name_, .summary = (summary_), .params = {params_}},
#include "daemon/train/schedules.def"
};

static bool valid(enum schedule_kind kind)
{
    return (int)kind >= 0 && kind < SCHEDULE_COUNT;
}

int schedule_count(void)
{
    return SCHEDULE_COUNT;
}

const char *schedule_name(enum schedule_kind kind)
{
    return valid(kind) ? rows[kind].name : "?";
}

const char *schedule_summary(enum schedule_kind kind)
{
    return valid(kind) ? rows[kind].summary : "";
}

int schedule_n_params(enum schedule_kind kind)
{
    int n = 0;

    while (valid(kind) && rows[kind].params[n].name != NULL) {
        n++;
    }
    return n;
}

const struct schedule_param *schedule_param(enum schedule_kind kind, int i)
{
    return i >= 0 && i < schedule_n_params(kind) ? &rows[kind].params[i] : NULL;
}

void schedule_default(enum schedule_kind kind, struct schedule_config *out)
{
    *out = (struct schedule_config){.kind = kind};
    for (int i = 0; i < schedule_n_params(kind); i++) {
        out->values[i] = rows[kind].params[i].fallback;
    }
}

/* ---- factors ---- */

typedef double (*factor_fn)(const double *v, const struct schedule_time *t, const struct schedule_state *state);

static double epochs_done(const struct schedule_time *t)
{
    return (double)t->step / (double)t->steps_per_epoch;
}

/* Part of a length of so many epochs (0: of the run) that is over, at most 1. */
static double part_over(double epochs, const struct schedule_time *t)
{
    double length = epochs > 0 ? epochs * (double)t->steps_per_epoch : (double)t->steps;

    return length <= 0 || (double)t->step >= length ? 1 : (double)t->step / length;
}

static double schedule_factor_constant(const double *v, const struct schedule_time *t,
                                       const struct schedule_state *state)
{
    (void)v;
    (void)t;
    (void)state;
    return 1;
}

static double schedule_factor_step(const double *v, const struct schedule_time *t, const struct schedule_state *state)
{
    double n = floor(epochs_done(t) / v[0]);

    (void)state;
    return n < 1e6 ? exact_power(v[1], (int64_t)n) : v[1] < 1 ? 0 : 1;
}

static double schedule_factor_exponential(const double *v, const struct schedule_time *t,
                                          const struct schedule_state *state)
{
    (void)state;
    return exact_power(v[0], t->step / t->steps_per_epoch);
}

static double schedule_factor_linear(const double *v, const struct schedule_time *t, const struct schedule_state *state)
{
    (void)state;
    return 1 - (1 - v[1]) * part_over(v[0], t);
}

static double schedule_factor_cosine(const double *v, const struct schedule_time *t, const struct schedule_state *state)
{
    (void)state;
    return v[1] + (1 - v[1]) * 0.5 * (1 + exact_cos_pi(part_over(v[0], t)));
}

/* The first update has already left start_factor: its rate is not 0. */
static double schedule_factor_warmup(const double *v, const struct schedule_time *t, const struct schedule_state *state)
{
    double length = v[1] > 0 ? v[1] : v[0] * (double)t->steps_per_epoch, done = (double)t->step + 1;

    (void)state;
    return length <= 0 || done >= length ? 1 : v[2] + (1 - v[2]) * done / length;
}

/* Half a cosine from `from` to `to` while u goes from 0 to 1. */
static double anneal(double from, double to, double u)
{
    return to + (from - to) * 0.5 * (1 + exact_cos_pi(u < 0 ? 0 : u > 1 ? 1 : u));
}

/* The peak is at step up * steps - 1 and the end at the last step, as PyTorch's OneCycleLR has it. */
static double schedule_factor_one_cycle(const double *v, const struct schedule_time *t,
                                        const struct schedule_state *state)
{
    double peak = v[0] * (double)t->steps - 1, last = (double)t->steps - 1, at = (double)t->step;

    (void)state;
    if (at <= peak && peak > 0) {
        return anneal(1 / v[1], 1, at / peak);
    }
    return last <= peak ? 1 : anneal(1, 1 / v[1] / v[2], (at - peak) / (last - peak));
}

static double schedule_factor_plateau(const double *v, const struct schedule_time *t,
                                      const struct schedule_state *state)
{
    (void)v;
    (void)t;
    return state->factor > 0 ? state->factor : 1;
}

double schedule_factor(const struct schedule_config *list, int n, const struct schedule_time *time,
                       const struct schedule_state *state)
{
    static const factor_fn factors[SCHEDULE_COUNT] = {
#define SCHEDULE(name, NAME, ...) [SCHEDULE_##NAME] = schedule_factor_##name,
#include "daemon/train/schedules.def"
    };
    double product = 1;

    for (int i = 0; i < n; i++) {
        product *= factors[list[i].kind](list[i].values, time, state);
    }
    return product;
}

/* ---- plateau ---- */

/* A factor of 0 would stop learning for good and would look like nothing seen: the smallest one stands for it. */
static double reduced(double factor, double end_factor, double before)
{
    double next = before * factor;

    next = next < end_factor ? end_factor : next;
    return next > 0 ? next : DBL_MIN;
}

void schedule_observe(const struct schedule_config *list, int n, double loss, struct schedule_state *state)
{
    for (int i = 0; i < n; i++) {
        const double *v = list[i].values;

        if (list[i].kind != SCHEDULE_PLATEAU) {
            continue;
        }
        if (state->factor == 0) {
            state->factor = 1;
            state->best = INFINITY;
        }
        if (!isnan(loss) && (isinf(state->best) || loss < state->best - v[2] * fabs(state->best))) {
            state->best = loss;
            state->bad = 0;
        } else {
            state->bad++;
        }
        if (state->cooldown > 0) {
            state->cooldown--;
            state->bad = 0;
        }
        if ((double)state->bad > v[1]) {
            state->factor = reduced(v[0], v[4], state->factor);
            state->cooldown = (int64_t)v[3];
            state->bad = 0;
        }
    }
}
