/* Optimizers against their formulas (Sutskever et al. 2013 for momentum, Kingma and Ba 2015 for Adam, Reddi et al. 2018
 * for AMSGrad, Loshchilov and Hutter 2019 for AdamW, Tieleman and Hinton 2012 for RMSprop, Duchi et al. 2011 for
 * Adagrad, Chen et al. 2023 for Lion) worked out here in float64, step by step, on every device. */
#include "daemon/train/optimizer.h"

#include "backends/registry.h"
#include "daemon/engine/executor.h"
#include "tests/support/fake_device.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

enum { N = 37, STEPS = 25 };

/* ---- the table ---- */

START_TEST(rows_are_sane)
{
    ck_assert_int_eq(optimizer_count(), OPTIMIZER_COUNT);
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        enum optimizer_kind kind = (enum optimizer_kind)i;
        struct optimizer_config c;

        ck_assert_int_eq(optimizer_find(optimizer_name(kind)), i);
        ck_assert(optimizer_summary(kind)[0] != '\0');
        optimizer_default(kind, &c);
        ck_assert_int_eq(c.kind, kind);
        ASSERT_OK(optimizer_check(&c, &err));
        ck_assert_double_gt(c.lr, 0);
        ck_assert_int_le(optimizer_slots(&c), OPTIMIZER_MAX_SLOTS);
        for (int k = 0; k < optimizer_n_params(kind); k++) {
            const struct optimizer_param *p = optimizer_param(kind, k);

            ck_assert(p->name[0] != '\0' && p->help[0] != '\0' && p->range[0] != '\0');
            ck_assert(p->fallback >= p->min && p->fallback <= p->max);
            ck_assert(!p->is_pair || (p->fallback2 >= p->min && p->fallback2 <= p->max));
        }
        ck_assert_ptr_null(optimizer_param(kind, optimizer_n_params(kind)));
        for (int s = 0; s < optimizer_slots(&c); s++) {
            ck_assert_ptr_nonnull(optimizer_slot_name(&c, s));
        }
    }
    ck_assert_int_eq(optimizer_find("momentum"), -1);
}
END_TEST

START_TEST(defaults_are_the_documented_ones)
{
    struct optimizer_config c;

    optimizer_default(OPTIMIZER_SGD, &c);
    ck_assert_double_eq(c.lr, 0.01);
    ck_assert_double_eq(c.momentum, 0);
    ck_assert_int_eq(optimizer_slots(&c), 0);
    c.nesterov = true;
    ASSERT_CODE(optimizer_check(&c, &err), EO_E_BAD_SPEC);
    c.momentum = 0.9;
    ASSERT_OK(optimizer_check(&c, &err));
    ck_assert_int_eq(optimizer_slots(&c), 1);
    optimizer_default(OPTIMIZER_ADAM, &c);
    ck_assert_double_eq(c.lr, 0.001);
    ck_assert_double_eq(c.beta1, 0.9);
    ck_assert_double_eq(c.beta2, 0.999);
    ck_assert_double_eq(c.eps, 1e-8);
    ck_assert(!c.amsgrad);
    ck_assert_int_eq(optimizer_slots(&c), 2);
    c.amsgrad = true;
    ck_assert_int_eq(optimizer_slots(&c), 3);
}
END_TEST

START_TEST(bias_corrections)
{
    struct optimizer_config c;
    double s[OPTIMIZER_SCALARS];

    optimizer_default(OPTIMIZER_ADAM, &c);
    optimizer_scalars(&c, 0.5, 0.25, 1, s);
    ck_assert_double_eq_tol(s[5], 0.1, 1e-16);
    ck_assert_double_eq_tol(s[6], 0.001, 1e-16);
    ck_assert_double_eq(s[7], 0.25);
    optimizer_scalars(&c, 0.5, 1, 1000, s);
    ck_assert_double_eq_tol(s[6], 1 - pow(0.999, 1000), 1e-13);
    optimizer_scalars(&c, 0.5, 1, 100000000, s);
    ck_assert_double_eq(s[5], 1);
    c.beta1 = 0;
    optimizer_scalars(&c, 0.5, 1, 1, s);
    ck_assert_double_eq(s[5], 1);
}
END_TEST

/* ---- running an update on a device ---- */

struct updater {
    struct eo_device *dev;
    struct executor *x;
    struct plan *plan;
    void *buffers[3 + OPTIMIZER_MAX_SLOTS]; /* params, grads, scalars, slots */
    uint64_t bytes;
};

static void updater_init(struct updater *u, const char *device, const struct optimizer_config *c, enum eo_dtype dtype)
{
    const struct eo_tensor_desc flat = {.dtype = (uint8_t)dtype, .n_dims = 1, .shape = {N}};
    const struct eo_tensor_desc scalars = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {OPTIMIZER_SCALARS}};
    struct plan_place in[3 + OPTIMIZER_MAX_SLOTS] = {0}, out[1 + OPTIMIZER_MAX_SLOTS] = {0};
    struct plan_spec spec = {.inputs = in, .outputs = out, .fallback = PLAN_STRICT};
    struct eo_graph *g = eo_graph_new();
    const struct eo_device_config config = {.threads = 1};
    eo_value slots[OPTIMIZER_MAX_SLOTS], new_slots[OPTIMIZER_MAX_SLOTS];
    int n = optimizer_slots(c);
    struct eo_builder b;
    char why[200];
    static const char zeros[N * 8 + 64];

    *u = (struct updater){.bytes = N * eo_dtype_size(dtype)};
    ASSERT_OK(registry_open(device, &config, &u->dev, why, sizeof(why), &err));
    ASSERT_OK(executor_new(u->dev, &u->x, &err));
    ASSERT_OK(eo_graph_input(g, "params", &flat, &in[0].value, &err));
    ASSERT_OK(eo_graph_input(g, "grads", &flat, &in[1].value, &err));
    ASSERT_OK(eo_graph_input(g, "scalars", &scalars, &in[2].value, &err));
    for (int i = 0; i < n; i++) {
        ASSERT_OK(eo_graph_input(g, optimizer_slot_name(c, i), &flat, &in[3 + i].value, &err));
        slots[i] = in[3 + i].value;
    }
    eo_build_init(&b, g, &err);
    out[0].value = optimizer_build(c, &b, in[0].value, in[1].value, slots, in[2].value, new_slots);
    ck_assert_int_eq(b.status, EO_OK);
    for (int i = 0; i < 3 + n; i++) {
        in[i].buffer = (uint32_t)i;
        ASSERT_OK(u->dev->backend->alloc(u->dev, N * 8 + 64, &u->buffers[i], &err));
        ASSERT_OK(u->dev->backend->copy_in(u->dev, u->buffers[i], zeros, N * 8, &err));
    }
    for (int i = 0; i < n; i++) {
        out[1 + i] = (struct plan_place){.value = new_slots[i], .buffer = 3 + (uint32_t)i};
    }
    spec.graph = g;
    spec.n_inputs = 3 + (uint32_t)n;
    spec.n_outputs = 1 + (uint32_t)n;
    ASSERT_OK(plan_compile(&spec, u->dev, &u->plan, &err));
    eo_graph_free(g);
}

static void updater_fini(struct updater *u)
{
    plan_free(u->plan);
    for (size_t i = 0; i < EO_COUNT_OF(u->buffers); i++) {
        if (u->buffers[i] != NULL) {
            u->dev->backend->free(u->dev, u->buffers[i], N * 8 + 64);
        }
    }
    executor_free(u->x);
    registry_close(u->dev);
}

static void put(struct updater *u, int buffer, const double *values, enum eo_dtype dtype)
{
    float narrow[N];

    for (int i = 0; i < N; i++) {
        narrow[i] = (float)values[i];
    }
    ASSERT_OK(u->dev->backend->copy_in(
        u->dev, u->buffers[buffer], dtype == EO_FLOAT32 ? (const void *)narrow : (const void *)values, u->bytes, &err));
}

static void get(struct updater *u, int buffer, double *values, enum eo_dtype dtype)
{
    float narrow[N];

    ASSERT_OK(u->dev->backend->copy_out(u->dev, dtype == EO_FLOAT32 ? (void *)narrow : (void *)values,
                                        u->buffers[buffer], u->bytes, &err));
    for (int i = 0; i < N && dtype == EO_FLOAT32; i++) {
        values[i] = narrow[i];
    }
}

static void step(struct updater *u, const struct optimizer_config *c, double lr, double grad_scale, int64_t t)
{
    double s[OPTIMIZER_SCALARS];

    optimizer_scalars(c, lr, grad_scale, t, s);
    ASSERT_OK(u->dev->backend->copy_in(u->dev, u->buffers[2], s, sizeof(s), &err));
    ASSERT_OK(executor_run(u->x, u->plan, u->buffers, NULL, &err));
}

/* ---- the formulas ---- */

/* State of element i: the parameter and up to three slots. The oracles are written per element, from the papers. */
struct oracle {
    double p[N], a[N], b[N], c[N];
};

static void oracle_sgd(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t)
{
    double move;

    g += c->weight_decay * o->p[i];
    move = g;
    if (c->momentum > 0) {
        o->a[i] = t == 1 ? g : c->momentum * o->a[i] + g;
        move = c->nesterov ? g + c->momentum * o->a[i] : o->a[i];
    }
    o->p[i] -= lr * move;
}

static void oracle_adam(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t)
{
    double second;

    if (c->kind == OPTIMIZER_ADAMW) {
        o->p[i] -= lr * c->weight_decay * o->p[i];
    } else {
        g += c->weight_decay * o->p[i];
    }
    o->a[i] = c->beta1 * o->a[i] + (1 - c->beta1) * g;
    o->b[i] = c->beta2 * o->b[i] + (1 - c->beta2) * g * g;
    o->c[i] = fmax(o->c[i], o->b[i]);
    second = (c->amsgrad ? o->c[i] : o->b[i]) / (1 - pow(c->beta2, (double)t));
    o->p[i] -= lr * (o->a[i] / (1 - pow(c->beta1, (double)t))) / (sqrt(second) + c->eps);
}

static void oracle_rmsprop(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t)
{
    double spread, step;

    EO_UNUSED(t);
    g += c->weight_decay * o->p[i];
    o->a[i] = c->alpha * o->a[i] + (1 - c->alpha) * g * g;
    o->b[i] = c->alpha * o->b[i] + (1 - c->alpha) * g;
    spread = c->centered ? o->a[i] - o->b[i] * o->b[i] : o->a[i];
    step = g / (sqrt(spread) + c->eps);
    o->c[i] = c->momentum * o->c[i] + step;
    o->p[i] -= lr * o->c[i];
}

static void oracle_adagrad(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t)
{
    g += c->weight_decay * o->p[i];
    o->a[i] = (t == 1 ? c->initial : o->a[i]) + g * g;
    o->p[i] -= lr / (1 + (double)(t - 1) * c->lr_decay) * g / (sqrt(o->a[i]) + c->eps);
}

static void oracle_lion(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t)
{
    double along = c->beta1 * o->a[i] + (1 - c->beta1) * g;

    EO_UNUSED(t);
    o->p[i] -= lr * c->weight_decay * o->p[i];
    o->p[i] -= lr * (along > 0 ? 1 : along < 0 ? -1 : 0);
    o->a[i] = c->beta2 * o->a[i] + (1 - c->beta2) * g;
}

typedef void (*oracle_fn)(struct oracle *o, int i, const struct optimizer_config *c, double g, double lr, int64_t t);
#define oracle_adamw oracle_adam
static const oracle_fn oracles[OPTIMIZER_COUNT] = {
#define OPTIMIZER(name, NAME, ...) [OPTIMIZER_##NAME] = oracle_##name,
#include "daemon/train/optimizers.def"
};

static double noise(int64_t t, int i)
{
    return sin((double)t * 1.7 + i * 0.9) * (1 + i % 5);
}

static void follow(const char *device, const struct optimizer_config *c, enum eo_dtype dtype, double rtol)
{
    struct oracle o = {0};
    struct updater u;
    double got[N];

    updater_init(&u, device, c, dtype);
    for (int i = 0; i < N; i++) {
        o.p[i] = cos(i) * 2;
    }
    put(&u, 0, o.p, dtype);
    for (int64_t t = 1; t <= STEPS; t++) {
        double grads[N], lr = t < 10 ? c->lr : c->lr / 2, scale = t % 3 == 0 ? 0.5 : 1;

        for (int i = 0; i < N; i++) {
            grads[i] = noise(t, i);
        }
        put(&u, 1, grads, dtype);
        step(&u, c, lr, scale, t);
        for (int i = 0; i < N; i++) {
            oracles[c->kind](&o, i, c, grads[i] * scale, lr, t);
        }
        get(&u, 0, got, dtype);
        for (int i = 0; i < N; i++) {
            ck_assert_msg(fabs(got[i] - o.p[i]) <= rtol * (1 + fabs(o.p[i])), "%s, step %d, element %d: %.17g, %.17g",
                          device, (int)t, i, got[i], o.p[i]);
        }
    }
    updater_fini(&u);
}

/* The defaults of its kind with the fields that are not 0. */
static struct optimizer_config changed(const struct optimizer_config *by)
{
    struct optimizer_config c;

    optimizer_default(by->kind, &c);
#define CHANGE(field) c.field = by->field != 0 ? by->field : c.field
    CHANGE(lr);
    CHANGE(momentum);
    CHANGE(weight_decay);
    CHANGE(beta1);
    CHANGE(beta2);
    CHANGE(eps);
    CHANGE(alpha);
    CHANGE(lr_decay);
    CHANGE(initial);
    CHANGE(nesterov);
    CHANGE(amsgrad);
    CHANGE(centered);
#undef CHANGE
    return c;
}

START_TEST(every_variant_follows_its_formula)
{
    static const char *const devices[] = {"reference", "cpu", "fake"};
    static const struct optimizer_config changes[] = {
        {.kind = OPTIMIZER_SGD, .lr = 0.05},
        {.kind = OPTIMIZER_SGD, .momentum = 0.9},
        {.kind = OPTIMIZER_SGD, .momentum = 0.8, .nesterov = true},
        {.kind = OPTIMIZER_SGD, .momentum = 0.5, .weight_decay = 0.1},
        {.kind = OPTIMIZER_ADAM, .lr = 0.02},
        {.kind = OPTIMIZER_ADAM, .amsgrad = true, .weight_decay = 0.05},
        {.kind = OPTIMIZER_ADAM, .beta1 = 1e-300},
        {.kind = OPTIMIZER_ADAM, .beta2 = 0.9, .eps = 0.1},
        {.kind = OPTIMIZER_ADAMW, .weight_decay = 0.3},
        {.kind = OPTIMIZER_ADAMW, .weight_decay = 0.1, .amsgrad = true},
        {.kind = OPTIMIZER_RMSPROP, .lr = 0.02},
        {.kind = OPTIMIZER_RMSPROP, .centered = true, .eps = 0.01},
        {.kind = OPTIMIZER_RMSPROP, .momentum = 0.9, .weight_decay = 0.1},
        {.kind = OPTIMIZER_RMSPROP, .momentum = 0.5, .centered = true, .eps = 0.01},
        {.kind = OPTIMIZER_ADAGRAD, .lr = 0.1},
        {.kind = OPTIMIZER_ADAGRAD, .lr_decay = 0.1, .initial = 0.5, .weight_decay = 0.1},
        {.kind = OPTIMIZER_LION, .lr = 0.01},
        {.kind = OPTIMIZER_LION, .weight_decay = 0.5, .beta1 = 0.7},
    };
    struct optimizer_config rows[EO_COUNT_OF(changes)];
    int n = (int)EO_COUNT_OF(changes);

    for (int i = 0; i < n; i++) {
        rows[i] = changed(&changes[i]);
    }
    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        for (int i = 0; i < n; i++) {
            follow(devices[d], &rows[i], EO_FLOAT64, 1e-13);
            follow(devices[d], &rows[i], EO_FLOAT32, 3e-6); /* 25 roundings of a float32 state */
        }
    }
}
END_TEST

/* momentum 0.9, lr 0.1, gradient 1 twice, from 1: velocities 1 and 1.9, so 0.9 and 0.71 */
START_TEST(sgd_by_hand)
{
    double ones[N], got[N];
    struct optimizer_config c;
    struct updater u;

    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    optimizer_default(OPTIMIZER_SGD, &c);
    c.momentum = 0.9;
    updater_init(&u, "cpu", &c, EO_FLOAT64);
    put(&u, 0, ones, EO_FLOAT64);
    put(&u, 1, ones, EO_FLOAT64);
    step(&u, &c, 0.1, 1, 1);
    get(&u, 0, got, EO_FLOAT64);
    ck_assert_double_eq_tol(got[0], 0.9, 1e-15);
    step(&u, &c, 0.1, 1, 2);
    get(&u, 0, got, EO_FLOAT64);
    ck_assert_double_eq_tol(got[N - 1], 0.71, 1e-15);
    updater_fini(&u);
}
END_TEST

/* The first step of Adam is lr in the direction of the gradient, whatever its size. */
START_TEST(adam_starts_with_lr)
{
    double zeros[N] = {0}, grads[N], got[N];
    struct optimizer_config c;
    struct updater u;

    for (int i = 0; i < N; i++) {
        grads[i] = (i % 2 ? -1 : 1) * pow(10, i % 7 - 3);
    }
    optimizer_default(OPTIMIZER_ADAM, &c);
    updater_init(&u, "cpu", &c, EO_FLOAT64);
    put(&u, 0, zeros, EO_FLOAT64);
    put(&u, 1, grads, EO_FLOAT64);
    step(&u, &c, 0.01, 1, 1);
    get(&u, 0, got, EO_FLOAT64);
    for (int i = 0; i < N; i++) {
        ck_assert_double_eq_tol(got[i], i % 2 ? 0.01 : -0.01, 1e-6);
    }
    updater_fini(&u);
}
END_TEST

static void setup(void)
{
    registry_reset();
    ASSERT_OK(registry_add(&fake_backend, &err));
}

int main(void)
{
    const TTest *const tests[] = {rows_are_sane,    defaults_are_the_documented_ones,
                                  bias_corrections, every_variant_follows_its_formula,
                                  sgd_by_hand,      adam_starts_with_lr};

    setup();
    return eo_suite_run("optimizer", tests, EO_COUNT_OF(tests));
}
