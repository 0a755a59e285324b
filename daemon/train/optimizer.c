#include "daemon/train/optimizer.h"

#include "daemon/train/exact_math.h"

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

/* ---- what rows share ---- */

/* One update node. slots: one per operand between gradient and scalars; EO_NO_VALUE where the configuration does not
 * need it. out_slots receives the new values of those that are there. */
struct update {
    enum eo_op op;
    const char *flag_names[2];
    bool flags[2];
    int n_slots;
    eo_value slots[OPTIMIZER_MAX_SLOTS];
};

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

static eo_value build_update(const struct update *u, struct eo_builder *b, eo_value param, eo_value grad,
                             eo_value scalars, eo_value *out_slots)
{
    const struct eo_op_schema *op = eo_op_schema(u->op);
    eo_value in[OPTIMIZER_MAX_SLOTS + 3] = {param, grad};
    struct eo_attrs attrs;
    eo_value first;

    eo_attrs_default(op, &attrs);
    for (size_t i = 0; i < EO_COUNT_OF(u->flags) && u->flag_names[i] != NULL && b->status == EO_OK; i++) {
        b->status = eo_attrs_set_int(op, &attrs, u->flag_names[i], u->flags[i], b->err);
    }
    for (int i = 0; i < u->n_slots; i++) {
        in[2 + i] = u->slots[i] != EO_NO_VALUE ? u->slots[i] : no_slot(b, param);
    }
    in[2 + u->n_slots] = scalars;
    first = eo_build_op(b, u->op, in, 3 + u->n_slots, &attrs);
    for (int i = 0; i < u->n_slots && b->status == EO_OK; i++) {
        if (u->slots[i] != EO_NO_VALUE) {
            *out_slots++ = first + 1 + (eo_value)i;
        }
    }
    return first;
}

static int anything_goes(const struct optimizer_config *c, struct eo_error *err)
{
    EO_UNUSED(c);
    EO_UNUSED(err);
    return EO_OK;
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

static void optimizer_slots_sgd(const struct optimizer_config *c, const char **out)
{
    out[0] = c->momentum != 0 ? "velocity" : NULL;
}

static eo_value optimizer_build_sgd(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                    eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct update u = {.op = EO_OP_SGD_UPDATE,
                             .flag_names = {"nesterov"},
                             .flags = {c->nesterov},
                             .n_slots = 1,
                             .slots = {c->momentum != 0 ? slots[0] : EO_NO_VALUE}};

    return build_update(&u, b, param, grad, scalars, out_slots);
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

/* ---- adam and adamw: m, v moments, v's running maximum for amsgrad ---- */

#define optimizer_check_adam anything_goes
#define optimizer_check_adamw anything_goes

static void optimizer_slots_adam(const struct optimizer_config *c, const char **out)
{
    out[0] = "m";
    out[1] = "v";
    out[2] = c->amsgrad ? "vmax" : NULL;
}
#define optimizer_slots_adamw optimizer_slots_adam

static eo_value optimizer_build_adam(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                     eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct update u = {.op = EO_OP_ADAM_UPDATE,
                             .flag_names = {"amsgrad", "decoupled"},
                             .flags = {c->amsgrad, c->kind == OPTIMIZER_ADAMW},
                             .n_slots = 3,
                             .slots = {slots[0], slots[1], c->amsgrad ? slots[2] : EO_NO_VALUE}};

    return build_update(&u, b, param, grad, scalars, out_slots);
}
#define optimizer_build_adamw optimizer_build_adam

static void optimizer_scalars_adam(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                   double *out)
{
    out[0] = lr;
    out[1] = c->beta1;
    out[2] = c->beta2;
    out[3] = c->eps;
    out[4] = c->weight_decay;
    out[5] = 1 - exact_power(c->beta1, t);
    out[6] = 1 - exact_power(c->beta2, t);
    out[7] = grad_scale;
}
#define optimizer_scalars_adamw optimizer_scalars_adam

/* ---- rmsprop: mean square, mean when centered, velocity with momentum ---- */

#define optimizer_check_rmsprop anything_goes

static void optimizer_slots_rmsprop(const struct optimizer_config *c, const char **out)
{
    int n = 0;

    out[n++] = "square";
    if (c->centered) {
        out[n++] = "mean";
    }
    out[n] = c->momentum != 0 ? "velocity" : NULL;
}

static eo_value optimizer_build_rmsprop(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                        eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct update u = {.op = EO_OP_RMSPROP_UPDATE,
                             .n_slots = 3,
                             .slots = {slots[0], c->centered ? slots[1] : EO_NO_VALUE,
                                       c->momentum != 0 ? slots[c->centered ? 2 : 1] : EO_NO_VALUE}};

    return build_update(&u, b, param, grad, scalars, out_slots);
}

static void optimizer_scalars_rmsprop(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                      double *out)
{
    EO_UNUSED(t);
    out[0] = lr;
    out[1] = c->alpha;
    out[2] = c->eps;
    out[3] = c->weight_decay;
    out[4] = c->momentum;
    out[5] = grad_scale;
}

/* ---- adagrad: sum of squares ---- */

#define optimizer_check_adagrad anything_goes

static void optimizer_slots_adagrad(const struct optimizer_config *c, const char **out)
{
    EO_UNUSED(c);
    out[0] = "sum";
}

static eo_value optimizer_build_adagrad(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                        eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct update u = {.op = EO_OP_ADAGRAD_UPDATE, .n_slots = 1, .slots = {slots[0]}};

    EO_UNUSED(c);
    return build_update(&u, b, param, grad, scalars, out_slots);
}

static void optimizer_scalars_adagrad(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                      double *out)
{
    out[0] = lr / (1 + (double)(t - 1) * c->lr_decay);
    out[1] = c->eps;
    out[2] = c->weight_decay;
    out[3] = c->initial;
    out[4] = t <= 1 ? 1 : 0;
    out[5] = grad_scale;
}

/* ---- lion: momentum ---- */

#define optimizer_check_lion anything_goes

static void optimizer_slots_lion(const struct optimizer_config *c, const char **out)
{
    EO_UNUSED(c);
    out[0] = "m";
}

static eo_value optimizer_build_lion(const struct optimizer_config *c, struct eo_builder *b, eo_value param,
                                     eo_value grad, const eo_value *slots, eo_value scalars, eo_value *out_slots)
{
    const struct update u = {.op = EO_OP_LION_UPDATE, .n_slots = 1, .slots = {slots[0]}};

    EO_UNUSED(c);
    return build_update(&u, b, param, grad, scalars, out_slots);
}

static void optimizer_scalars_lion(const struct optimizer_config *c, double lr, double grad_scale, int64_t t,
                                   double *out)
{
    EO_UNUSED(t);
    out[0] = lr;
    out[1] = c->beta1;
    out[2] = c->beta2;
    out[3] = c->weight_decay;
    out[4] = grad_scale;
}

/* ---- dispatch ---- */

static const struct {
    int (*check)(const struct optimizer_config *c, struct eo_error *err);
    void (*slots)(const struct optimizer_config *c, const char **out); /* names; out comes filled with NULL */
    eo_value (*build)(const struct optimizer_config *c, struct eo_builder *b, eo_value param, eo_value grad,
                      const eo_value *slots, eo_value scalars, eo_value *out_slots);
    void (*scalars)(const struct optimizer_config *c, double lr, double grad_scale, int64_t t, double *out);
} ops[OPTIMIZER_COUNT] = {
#define OPTIMIZER(name, NAME, ...)                                                                                     \
    [OPTIMIZER_##NAME] = {.check = optimizer_check_##name,                                                             \
                          .slots = optimizer_slots_##name,                                                             \
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
    int n = 0;

    while (n < OPTIMIZER_MAX_SLOTS && optimizer_slot_name(c, n) != NULL) {
        n++;
    }
    return n;
}

const char *optimizer_slot_name(const struct optimizer_config *c, int slot)
{
    const char *names[OPTIMIZER_MAX_SLOTS] = {NULL};

    if (valid(c->kind)) {
        ops[c->kind].slots(c, names);
    }
    return slot >= 0 && slot < OPTIMIZER_MAX_SLOTS ? names[slot] : NULL;
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
