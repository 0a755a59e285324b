#include "daemon/train/optimizer.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

/* ---- facts of rows ---- */

enum { MAX_PARAMS = 6 };

#define PARAMS(...) __VA_ARGS__
#define PARAM(...) +1
#define PARAM_FLAG(...) +1
#define PARAM_PAIR(...) +1
enum {
#define OPTIMIZER(name, NAME, summary, params, ...) N_PARAMS_##NAME = 0 params,
#include "daemon/train/optimizers.def"
};
#undef PARAM
#undef PARAM_FLAG
#undef PARAM_PAIR

#define OPTIMIZER(name, NAME, ...) _Static_assert((int)N_PARAMS_##NAME <= (int)MAX_PARAMS, "parameters of " #name);
#include "daemon/train/optimizers.def"

#define POSITIVE .min = DBL_MIN, .max = DBL_MAX, .range = "above 0"
#define NOT_NEGATIVE .min = 0, .max = DBL_MAX, .range = "0 or above"
#define BELOW_ONE .min = 0, .max = 1 - DBL_EPSILON / 2, .range = "from 0 up to but not 1"
#define FIELD(field) .offset = offsetof(struct optimizer_config, field)
#define PARAM(name_, field, fallback_, range_, help_)                                                                  \
    {.name = #name_, .help = (help_), .fallback = (fallback_), range_, FIELD(field)},
#define PARAM_FLAG(name_, field, help_)                                                                                \
    {.name = #name_, .help = (help_), .is_bool = true, .max = 1, .range = "true or false", FIELD(field)},
#define PARAM_PAIR(name_, field, first, second, range_, help_)                                                         \
    {.name = #name_,                                                                                                   \
     .help = (help_),                                                                                                  \
     .is_pair = true,                                                                                                  \
     .fallback = (first),                                                                                              \
     .fallback2 = (second),                                                                                            \
     range_,                                                                                                           \
     FIELD(field)},

static const struct {
    const char *name, *summary;
    int n_params;
    struct optimizer_param params[MAX_PARAMS];
} rows[OPTIMIZER_COUNT] = {
#define OPTIMIZER(name_, NAME, summary_, params_, ...)                                                                 \
    [OPTIMIZER_##NAME] = {.name = #name_, .summary = (summary_), .n_params = N_PARAMS_##NAME, .params = {params_}},
#include "daemon/train/optimizers.def"
};

_Static_assert(offsetof(struct optimizer_config, beta2) == offsetof(struct optimizer_config, beta1) + sizeof(double),
               "a pair's fields are neighbours");

static bool valid(enum optimizer_kind kind)
{
    return (int)kind >= 0 && kind < OPTIMIZER_COUNT;
}

int optimizer_count(void)
{
    return OPTIMIZER_COUNT;
}

const char *optimizer_name(enum optimizer_kind kind)
{
    return valid(kind) ? rows[kind].name : "?";
}

const char *optimizer_summary(enum optimizer_kind kind)
{
    return valid(kind) ? rows[kind].summary : "";
}

int optimizer_find(const char *name)
{
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int optimizer_n_params(enum optimizer_kind kind)
{
    return valid(kind) ? rows[kind].n_params : 0;
}

const struct optimizer_param *optimizer_param(enum optimizer_kind kind, int i)
{
    return i >= 0 && i < optimizer_n_params(kind) ? &rows[kind].params[i] : NULL;
}

void optimizer_set(struct optimizer_config *c, const struct optimizer_param *p, const double values[2])
{
    char *field = (char *)c + p->offset;

    if (p->is_bool) {
        bool flag = values[0] != 0;

        memcpy(field, &flag, sizeof(flag));
    } else {
        memcpy(field, values, sizeof(double) * (p->is_pair ? 2 : 1));
    }
}

void optimizer_default(enum optimizer_kind kind, struct optimizer_config *out)
{
    *out = (struct optimizer_config){.kind = kind};
    for (int i = 0; i < optimizer_n_params(kind); i++) {
        const struct optimizer_param *p = &rows[kind].params[i];
        double values[2] = {p->fallback, p->fallback2};

        optimizer_set(out, p, values);
    }
}

/* ---- sgd: v = mu v + g, p -= lr (g + mu v for Nesterov, else v) ---- */

static int optimizer_check_sgd(const struct optimizer_config *c, struct eo_error *err)
{
    if (c->nesterov && c->momentum == 0) {
        EO_RAISE(err, EO_E_BAD_SPEC, "nesterov without momentum does nothing");
        eo_error_hint(err, "Give momentum a value such as 0.9, or leave nesterov out.");
        return EO_E_BAD_SPEC;
    }
    return EO_OK;
}

static int optimizer_slots_sgd(const struct optimizer_config *c)
{
    return c->momentum != 0 ? 1 : 0;
}

static const char *const optimizer_slot_names_sgd[OPTIMIZER_MAX_SLOTS] = {"velocity"};

/* The vector that stands for a slot that the configuration does not need. */
static eo_value no_slot(struct eo_builder *b, eo_value like)
{
    struct eo_tensor_desc desc = {.dtype = eo_build_desc(b, like)->dtype, .n_dims = 1};
    eo_value out = EO_NO_VALUE;

    if (b->status == EO_OK) {
        b->status = eo_graph_constant(b->graph, &desc, NULL, &out, b->err);
    }
    return out;
}

static void set_flag(struct eo_builder *b, const struct eo_op_schema *op, struct eo_attrs *attrs, const char *name,
                     bool flag)
{
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_int(op, attrs, name, flag, b->err);
    }
}

static eo_value optimizer_build_sgd(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                    eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SGD_UPDATE);
    int n = optimizer_slots_sgd(c);
    eo_value in[4] = {param, grad, n == 0 ? no_slot(b, param) : slots[0], scalars};
    struct eo_attrs attrs;
    eo_value first;

    eo_attrs_default(op, &attrs);
    set_flag(b, op, &attrs, "nesterov", c->nesterov);
    first = eo_build_op(b, EO_OP_SGD_UPDATE, in, 4, &attrs);
    for (int i = 0; i < n && b->status == EO_OK; i++) {
        out_slots[i] = first + 1 + (eo_value)i;
    }
    return first;
}

static void optimizer_scalars_sgd(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                  double *out)
{
    out[0] = lr;
    out[1] = c->momentum;
    out[2] = c->weight_decay;
    out[3] = grad_scale;
    out[4] = t <= 1 ? 1 : 0; /* the first velocity is the gradient itself */
}

/* ---- adam: m, v moments, v's running maximum for amsgrad ---- */

static int optimizer_check_adam(const struct optimizer_config *c, struct eo_error *err)
{
    EO_UNUSED(c);
    EO_UNUSED(err);
    return EO_OK;
}

static int optimizer_slots_adam(const struct optimizer_config *c)
{
    return c->amsgrad ? 3 : 2;
}

static const char *const optimizer_slot_names_adam[OPTIMIZER_MAX_SLOTS] = {"m", "v", "vmax"};

static eo_value optimizer_build_adam(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                     eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_ADAM_UPDATE);
    int n = optimizer_slots_adam(c);
    eo_value in[6] = {param, grad, slots[0], slots[1], n == 3 ? slots[2] : no_slot(b, param), scalars};
    struct eo_attrs attrs;
    eo_value first;

    eo_attrs_default(op, &attrs);
    set_flag(b, op, &attrs, "amsgrad", c->amsgrad);
    first = eo_build_op(b, EO_OP_ADAM_UPDATE, in, 6, &attrs);
    for (int i = 0; i < n && b->status == EO_OK; i++) {
        out_slots[i] = first + 1 + (eo_value)i;
    }
    return first;
}

/* x^n by squaring: multiplications only, so that all ranks get equal bits whatever their libm. */
static double power(double x, int64_t n)
{
    double result = 1;

    for (; n > 0; n >>= 1) {
        if (n & 1) {
            result *= x;
        }
        x *= x;
    }
    return result;
}

static void optimizer_scalars_adam(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                   double *out)
{
    out[0] = lr;
    out[1] = c->beta1;
    out[2] = c->beta2;
    out[3] = c->eps;
    out[4] = c->weight_decay;
    out[5] = 1 - power(c->beta1, t);
    out[6] = 1 - power(c->beta2, t);
    out[7] = grad_scale;
}

/* ---- dispatch ---- */

static const struct {
    int (*check)(const struct optimizer_config *c, struct eo_error *err);
    int (*slots)(const struct optimizer_config *c);
    const char *const *slot_names;
    eo_value (*build)(const struct optimizer_config *c, struct eo_builder *b, eo_value param, eo_value grad,
                      const eo_value *slots, eo_value scalars, eo_value *out_slots);
    void (*scalars)(const struct optimizer_config *c, double lr, double grad_scale, int64_t t, double *out);
} ops[OPTIMIZER_COUNT] = {
#define OPTIMIZER(name, NAME, ...)                                                                                     \
    [OPTIMIZER_##NAME] = {.check = optimizer_check_##name,                                                             \
                          .slots = optimizer_slots_##name,                                                             \
                          .slot_names = optimizer_slot_names_##name,                                                   \
                          .build = optimizer_build_##name,                                                             \
                          .scalars = optimizer_scalars_##name},
#include "daemon/train/optimizers.def"
};

int optimizer_check(const struct optimizer_config *c, struct eo_error *err)
{
    return ops[c->kind].check(c, err);
}

int optimizer_slots(const struct optimizer_config *c)
{
    return ops[c->kind].slots(c);
}

const char *optimizer_slot_name(enum optimizer_kind kind, int slot)
{
    return valid(kind) && slot >= 0 && slot < OPTIMIZER_MAX_SLOTS ? ops[kind].slot_names[slot] : NULL;
}

eo_value optimizer_build(const struct optimizer_config *c, struct eo_builder *b, eo_value param, eo_value grad,
                         const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    return ops[c->kind].build(c, b, param, grad, slots, scalars, out_slots);
}

void optimizer_scalars(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                       double out[OPTIMIZER_SCALARS])
{
    memset(out, 0, sizeof(double) * OPTIMIZER_SCALARS);
    ops[c->kind].scalars(c, lr, grad_scale, t, out);
}
