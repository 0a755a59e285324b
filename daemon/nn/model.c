#include "daemon/nn/model.h"

#include "daemon/nn/layer.h"
#include "proto/base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- facts of rows ---- */

#define NO_ARGS
#define ARGS(...) __VA_ARGS__
#define ARG_INT(...) +1
#define ARG_INT_NEEDED(...) +1
#define ARG_FLOAT(...) +1
#define ARG_BOOL(...) +1
#define ARG_NAME(...) +1
enum {
#define LAYER(name, NAME, summary, args, ...) N_ARGS_##NAME = 0 args,
#include "daemon/nn/layers.def"
};
#undef NO_ARGS
#undef ARG_INT
#undef ARG_INT_NEEDED
#undef ARG_FLOAT
#undef ARG_BOOL
#undef ARG_NAME

#define LAYER(name, NAME, ...) _Static_assert((int)N_ARGS_##NAME <= (int)MODEL_MAX_ARGS, "arguments of " #name);
#include "daemon/nn/layers.def"

#define NO_ARGS                                                                                                        \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }
#define ARG_INT(name_, fallback_, min_, max_, help_)                                                                   \
    {.name = #name_, .help = (help_), .kind = ARG_INT, .fallback = (fallback_), .min = (min_), .max = (max_)},
#define ARG_INT_NEEDED(name_, min_, max_, help_)                                                                       \
    {.name = #name_, .help = (help_), .kind = ARG_INT, .required = true, .min = (min_), .max = (max_)},
#define ARG_FLOAT(name_, fallback_, min_, max_, help_)                                                                 \
    {.name = #name_, .help = (help_), .kind = ARG_FLOAT, .fallback = (fallback_), .min = (min_), .max = (max_)},
#define ARG_BOOL(name_, fallback_, help_)                                                                              \
    {.name = #name_, .help = (help_), .kind = ARG_BOOL, .fallback = (fallback_), .max = 1},
#define ARG_NAME(name_, fallback_, help_)                                                                              \
    {.name = #name_, .help = (help_), .kind = ARG_NAME, .fallback_text = (fallback_)},
#define STABLE "stable"
#define EXPERIMENTAL "experimental"

static const struct layer_schema layer_rows[LAYER_COUNT] = {
#define LAYER(name_, NAME, summary_, args_, params, stability_, since_)                                                \
    [LAYER_##NAME] = {.name = #name_,                                                                                  \
                      .summary = (summary_),                                                                           \
                      .n_args = N_ARGS_##NAME,                                                                         \
                      .args = {args_},                                                                                 \
                      .stability = stability_,                                                                         \
                      .since = (since_)},
#include "daemon/nn/layers.def"
};

const struct layer_schema *layer_schema(enum layer_kind kind)
{
    return (int)kind >= 0 && kind < LAYER_COUNT ? &layer_rows[kind] : NULL;
}

int layer_find(const char *name)
{
    for (int i = 0; i < LAYER_COUNT; i++) {
        if (strcmp(layer_rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- shapes ---- */

char *layer_row_text(const struct eo_tensor_desc *d, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");

    for (int i = 1; i < d->n_dims && used < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i > 1 ? ", " : "", d->shape[i]);
    }
    if (used < size) {
        snprintf(out + used, size - used, "]");
    }
    return out;
}

/* Puts which layer it was in front of what it said. */
static void name_layer(const struct layer *l, struct eo_error *err)
{
    const char *name = layer_rows[l->kind].name;
    char said[sizeof(err->message)];

    if (err == NULL) {
        return;
    }
    memcpy(said, err->message, sizeof(said));
    snprintf(err->message, sizeof(err->message), "layer %s (%s): %.*s", l->path, name, (int)(sizeof(said) - 80), said);
    snprintf(err->node, sizeof(err->node), "%s (%s)", l->path, name);
}

int layers_infer(const struct layer *layers, int n, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                 const struct layer **refused, struct eo_error *err)
{
    struct eo_tensor_desc at = *in;

    for (int i = 0; i < n; i++) {
        int status;

        *refused = &layers[i];
        status = layer_ops(layers[i].kind)->infer(&layers[i], &at, out, refused, err);
        if (status != EO_OK) {
            if (*refused == &layers[i]) {
                name_layer(&layers[i], err);
            }
            return status;
        }
        at = *out;
    }
    *out = at;
    *refused = NULL;
    return EO_OK;
}

int model_check(struct model *m, struct eo_error *err)
{
    struct eo_tensor_desc in = m->input, targets;
    int n_params;
    int status;

    m->refused = NULL;
    if (in.n_dims < 1) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "the model's input has no batch dimension");
    }
    /* One row stands for any batch: the sizes of a row must fit, whatever the batch. */
    in.shape[0] = 1;
    status = eo_tensor_desc_check(&in, err);
    if (status == EO_OK) {
        status = layers_infer(m->layers, m->n_layers, &in, &m->output, &m->refused, err);
    }
    if (status != EO_OK) {
        return status;
    }
    m->output.shape[0] = 0;
    status = model_params(m, NULL, INT32_MAX, &n_params, err);
    if (status == EO_OK && n_params == 0) {
        EO_RAISE(err, EO_E_BAD_SPEC, "the model has no parameters: there is nothing to train");
        eo_error_hint(err, "Add a `linear` layer.");
        status = EO_E_BAD_SPEC;
    }
    return status == EO_OK ? model_target_desc(m, &targets, err) : status;
}

/* ---- parameters ---- */

int param_list_add(struct param_list *list, const struct layer *l, const char *name, const int64_t *shape, int n_dims,
                   const char *initializer, int64_t fan_in, int64_t fan_out, struct eo_error *err)
{
    struct model_param p = {.fan_in = fan_in, .fan_out = fan_out, .stream = (uint64_t)list->n};
    int status = eo_tensor_desc_init(&p.desc, list->dtype, shape, n_dims, err);

    if (status != EO_OK) {
        name_layer(l, err);
        return status;
    }
    if (list->n >= list->max) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "the model has more than %d parameters", list->max);
    }
    snprintf(p.name, sizeof(p.name), "%s.%s", l->path, name);
    snprintf(p.initializer, sizeof(p.initializer), "%s", initializer);
    if (list->out != NULL) {
        list->out[list->n] = p;
    }
    list->n++;
    return EO_OK;
}

int layers_params(const struct layer *layers, int n, struct param_list *list, struct eo_error *err)
{
    for (int i = 0; i < n; i++) {
        const struct layer_ops *ops = layer_ops(layers[i].kind);
        int status = ops->params == NULL ? EO_OK : ops->params(&layers[i], list, err);

        if (status != EO_OK) {
            return status;
        }
    }
    return EO_OK;
}

int model_params(const struct model *m, struct model_param *out, int max, int *out_n, struct eo_error *err)
{
    struct param_list list = {.out = out, .max = max, .dtype = m->dtype};
    int status = layers_params(m->layers, m->n_layers, &list, err);

    *out_n = list.n;
    return status;
}

/* ---- forward ---- */

eo_value layers_forward(const struct layer *layers, int n, struct forward_pass *f, eo_value x)
{
    for (int i = 0; i < n; i++) {
        char label[64];
        const char *outer = f->b->graph->label;

        snprintf(label, sizeof(label), "%s (%s)", layers[i].path, layer_rows[layers[i].kind].name);
        f->b->graph->label = label;
        x = layer_ops(layers[i].kind)->forward(&layers[i], f, x);
        f->b->graph->label = outer;
    }
    return x;
}

eo_value model_forward(const struct model *m, struct eo_builder *b, eo_value x, const eo_value *params, eo_value rng)
{
    struct forward_pass f = {.b = b, .params = params, .rng = rng};

    return layers_forward(m->layers, m->n_layers, &f, x);
}
