/* The parts of a job file that are rows of tables: layers, loss, metrics, optimizer. */
#include "daemon/jobs/spec_parse.h"
#include "daemon/train/metrics.h"

#include <stdio.h>
#include <string.h>

/* ---- layers ---- */

struct layer_list {
    struct layer *layers;
    int n;
};

static int read_layers(struct spec_parse *p, const struct yaml_item *v, const char *what, const char *path, int depth,
                       int *n_total, struct layer_list *out);

static const char *const *layer_names(void)
{
    static const char *const names[] = {
#define LAYER(name, ...) #name,
#include "daemon/nn/layers.def"
    };
    return names;
}

static int read_initializer(struct spec_parse *p, const struct yaml_item *v, const char *what, struct layer_arg *out)
{
    static const char *const names[] = {
#define INITIALIZER(name, ...) #name,
#include "daemon/nn/initializers.def"
    };
    char text[32];
    int i;
    int status = spec_text(p, v, what, text, sizeof(text));

    if (status == EO_OK && initializer_find(text) < 0) {
        status = spec_choice(p, v, what, names, (int)EO_COUNT_OF(names), &i);
    }
    if (status == EO_OK) {
        snprintf(out->text, sizeof(out->text), "%s", initializer_name(initializer_find(text)));
    }
    return status;
}

static int read_arg(struct spec_parse *p, const struct yaml_item *v, const struct layer_schema *row,
                    const struct layer_arg_schema *schema, struct layer_arg *out)
{
    char what[64], range[64];
    int64_t i = 0;
    bool flag = false;
    int status = EO_OK;

    snprintf(what, sizeof(what), "%s.%s", row->name, schema->name);
    switch (schema->kind) {
    case ARG_INT:
        status = spec_i64(p, v, what, (int64_t)schema->min, (int64_t)schema->max, &i);
        out->number = (double)i;
        break;
    case ARG_FLOAT:
        snprintf(range, sizeof(range), "from %g to %g", schema->min, schema->max);
        status = spec_f64(p, v, what, schema->min, schema->max, range, &out->number);
        break;
    case ARG_BOOL:
        status = spec_bool(p, v, what, &flag);
        out->number = flag;
        break;
    case ARG_NAME:
        status = read_initializer(p, v, what, out);
        break;
    }
    return status;
}

static int unknown_arg(const struct spec_parse *p, const struct yaml_item *key, const struct layer_schema *row)
{
    const char *names[MODEL_MAX_ARGS];
    char quoted[340];

    for (int i = 0; i < row->n_args; i++) {
        names[i] = row->args[i].name;
    }
    eo_quote(key->text, strlen(key->text), quoted, sizeof(quoted));
    if (row->n_args == 0) {
        return spec_fail(p, key, "layer %s takes no arguments, not %s", row->name, quoted);
    }
    spec_fail(p, key, "layer %s has no argument %s", row->name, quoted);
    spec_suggest(p, key->text, names, row->n_args);
    return EO_E_BAD_SPEC;
}

/* args NULL: the layer's name stands alone. at: for what is missing. */
static int read_args(struct spec_parse *p, const struct yaml_item *at, const struct yaml_item *args, struct layer *l)
{
    const struct layer_schema *row = layer_schema(l->kind);

    for (int i = 0; i < row->n_args; i++) {
        l->args[i].number = row->args[i].fallback;
        if (row->args[i].fallback_text != NULL) {
            snprintf(l->args[i].text, sizeof(l->args[i].text), "%s", row->args[i].fallback_text);
        }
    }
    for (int k = 0; args != NULL && k < args->n; k++) {
        int i = 0, status;

        while (i < row->n_args && strcmp(row->args[i].name, args->keys[k]->text) != 0) {
            i++;
        }
        status = i == row->n_args ? unknown_arg(p, args->keys[k], row)
                                  : read_arg(p, args->items[k], row, &row->args[i], &l->args[i]);
        if (status != EO_OK) {
            return status;
        }
    }
    for (int i = 0; i < row->n_args; i++) {
        if (row->args[i].required && (args == NULL || yaml_tree_get(args, row->args[i].name) == NULL)) {
            spec_fail(p, at, "layer %s needs `%s`: %s", row->name, row->args[i].name, row->args[i].help);
            return EO_E_BAD_SPEC;
        }
    }
    return EO_OK;
}

static int read_layer(struct spec_parse *p, const struct yaml_item *v, const char *path, int depth, int *n_total,
                      struct layer *l)
{
    const struct yaml_item *args = NULL, *name = v;
    struct layer_list children;
    int kind, status;

    if (v->kind == YAML_MAP && v->n == 1) {
        name = v->keys[0];
        args = v->items[0];
    } else if (v->kind != YAML_SCALAR) {
        spec_fail(p, v, "a layer is a name, or one name with its arguments");
        eo_error_hint(p->err, "For example `- relu` or `- linear: {in: 64, out: 128}`.");
        return EO_E_BAD_SPEC;
    }
    status = spec_choice(p, name, "model", layer_names(), LAYER_COUNT, &kind);
    if (status != EO_OK) {
        return status;
    }
    l->kind = (enum layer_kind)kind;
    l->line = v->line;
    l->column = v->column;
    if (snprintf(l->path, sizeof(l->path), "%s", path) >= (int)sizeof(l->path)) {
        return spec_fail(p, v, "layers are nested too deep");
    }
    if (l->kind == LAYER_SEQUENTIAL) {
        if (args == NULL) {
            return spec_fail(p, v, "layer sequential takes a list of layers");
        }
        status = read_layers(p, args, "sequential", path, depth + 1, n_total, &children);
        l->children = children.layers;
        l->n_children = children.n;
        return status;
    }
    if (args != NULL && args->kind != YAML_MAP) {
        return spec_kind(p, args, layer_schema(l->kind)->name, YAML_MAP);
    }
    return read_args(p, v, args, l);
}

static int read_layers(struct spec_parse *p, const struct yaml_item *v, const char *what, const char *path, int depth,
                       int *n_total, struct layer_list *out)
{
    int status = spec_kind(p, v, what, YAML_LIST);

    *out = (struct layer_list){0};
    if (status != EO_OK) {
        return status;
    }
    if (v->n == 0) {
        return spec_fail(p, v, "`%s` has no layers", what);
    }
    *n_total += v->n;
    if (depth > MODEL_MAX_DEPTH || *n_total > MODEL_MAX_LAYERS) {
        return spec_fail(p, v, "at most %d layers, nested at most %d deep", MODEL_MAX_LAYERS, MODEL_MAX_DEPTH);
    }
    out->layers = eo_arena_alloc_n(&p->spec->model->arena, (size_t)v->n, sizeof(*out->layers));
    out->n = v->n;
    if (out->layers == NULL) {
        return EO_RAISE(p->err, EO_E_NO_MEMORY, "no memory for the layers of %s", p->tree->name);
    }
    for (int i = 0; i < v->n && status == EO_OK; i++) {
        char child[48];

        snprintf(child, sizeof(child), "%s%s%d", path, path[0] != '\0' ? "." : "", i);
        status = read_layer(p, v->items[i], child, depth, n_total, &out->layers[i]);
    }
    return status;
}

int spec_read_model(struct spec_parse *p, const struct yaml_item *v)
{
    struct layer_list list;
    int n_total = 0;
    int status;

    if (v->kind == YAML_MAP && yaml_tree_get(v, "onnx") != NULL) {
        spec_fail(p, v, "training an ONNX model is not available in this version");
        eo_error_hint(p->err, "Write the layers as a list.");
        return EO_E_BAD_SPEC;
    }
    status = read_layers(p, v, "model", "", 1, &n_total, &list);
    p->spec->model->layers = list.layers;
    p->spec->model->n_layers = list.n;
    return status;
}

/* ---- loss and metrics ---- */

int spec_read_loss(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {
#define LOSS(name, ...) #name,
#include "daemon/nn/losses.def"
    };
    int i;
    int status = spec_choice(p, v, "loss", names, (int)EO_COUNT_OF(names), &i);

    if (status == EO_OK) {
        p->spec->model->loss = (enum loss_kind)i;
    }
    return status;
}

static const char *const metric_names[] = {
#define METRIC(name, ...) #name,
#include "daemon/train/metrics.def"
};

int spec_read_metrics(struct spec_parse *p, const struct yaml_item *v)
{
    struct job_spec *s = p->spec;
    int status = spec_kind(p, v, "metrics", YAML_LIST);

    if (status == EO_OK && v->n > SPEC_MAX_METRICS) {
        return spec_fail(p, v, "at most %d metrics, not %d", SPEC_MAX_METRICS, v->n);
    }
    for (int i = 0; status == EO_OK && i < v->n; i++) {
        status = spec_choice(p, v->items[i], "metrics", metric_names, METRIC_COUNT, &s->metrics[s->n_metrics]);
        for (int k = 0; status == EO_OK && k < s->n_metrics; k++) {
            if (s->metrics[k] == s->metrics[s->n_metrics]) {
                return spec_fail(p, v->items[i], "metric %s stands here a second time", metric_names[s->metrics[k]]);
            }
        }
        s->n_metrics++;
    }
    return status;
}

/* ---- optimizer ---- */

static int read_pair(struct spec_parse *p, const struct yaml_item *v, const char *what,
                     const struct optimizer_param *param, double *out)
{
    int status = spec_kind(p, v, what, YAML_LIST);

    if (status == EO_OK && v->n != 2) {
        return spec_fail(p, v, "`%s` takes two numbers, not %d", what, v->n);
    }
    for (int i = 0; status == EO_OK && i < 2; i++) {
        status = spec_f64(p, v->items[i], what, param->min, param->max, param->range, &out[i]);
    }
    return status;
}

static int read_optimizer_param(struct spec_parse *p, enum optimizer_kind kind, const struct yaml_item *key,
                                const struct yaml_item *v)
{
    const char *names[16];
    char what[64], quoted[340];
    const struct optimizer_param *param = NULL;
    double values[2] = {0};
    bool flag = false;
    int n = optimizer_n_params(kind);
    int status;

    for (int i = 0; i < n && i < (int)EO_COUNT_OF(names); i++) {
        names[i] = optimizer_param(kind, i)->name;
        param = strcmp(names[i], key->text) == 0 ? optimizer_param(kind, i) : param;
    }
    if (param == NULL) {
        spec_fail(p, key, "optimizer %s has no parameter %s", optimizer_name(kind),
                  eo_quote(key->text, strlen(key->text), quoted, sizeof(quoted)));
        spec_suggest(p, key->text, names, n);
        return EO_E_BAD_SPEC;
    }
    snprintf(what, sizeof(what), "%s.%s", optimizer_name(kind), param->name);
    if (param->is_bool) {
        status = spec_bool(p, v, what, &flag);
        values[0] = flag;
    } else if (param->is_pair) {
        status = read_pair(p, v, what, param, values);
    } else {
        status = spec_f64(p, v, what, param->min, param->max, param->range, values);
    }
    if (status == EO_OK) {
        optimizer_set(&p->spec->optimizer, param, values);
    }
    return status;
}

int spec_read_optimizer(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {
#define OPTIMIZER(name, ...) #name,
#include "daemon/train/optimizers.def"
    };
    const struct yaml_item *name = v, *args = NULL;
    struct eo_error why;
    int kind, status;

    if (v->kind == YAML_MAP && v->n == 1) {
        name = v->keys[0];
        args = v->items[0];
    } else if (v->kind != YAML_SCALAR) {
        spec_fail(p, v, "`optimizer` takes one name, alone or with its parameters");
        eo_error_hint(p->err, "For example `optimizer: {adam: {lr: 0.001}}`.");
        return EO_E_BAD_SPEC;
    }
    status = spec_choice(p, name, "optimizer", names, (int)EO_COUNT_OF(names), &kind);
    if (status == EO_OK && args != NULL) {
        status = spec_kind(p, args, names[kind], YAML_MAP);
    }
    if (status != EO_OK) {
        return status;
    }
    optimizer_default((enum optimizer_kind)kind, &p->spec->optimizer);
    for (int i = 0; args != NULL && i < args->n; i++) {
        status = read_optimizer_param(p, (enum optimizer_kind)kind, args->keys[i], args->items[i]);
        if (status != EO_OK) {
            return status;
        }
    }
    status = optimizer_check(&p->spec->optimizer, &why);
    if (status != EO_OK) {
        spec_fail(p, v, "%s", why.message);
        eo_error_hint(p->err, "%s", why.hint);
    }
    return status;
}

/* ---- what must fit together ---- */

/* The features that the first linear layer takes, when everything before it keeps rows of rank 1 as they are. */
static int64_t first_features(const struct layer *layers, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t found = 0;

        if (layers[i].kind == LAYER_LINEAR) {
            return (int64_t)layers[i].args[0].number;
        }
        if (layers[i].kind == LAYER_SEQUENTIAL) {
            found = first_features(layers[i].children, layers[i].n_children);
        }
        if (found > 0) {
            return found;
        }
    }
    return 0;
}

/* Whether rows of images become vectors before anything looks at their shape. */
static bool flattens_first(const struct layer *layers, int n)
{
    const struct layer *l = layers;

    while (n > 0 && l->kind == LAYER_SEQUENTIAL) {
        n = l->n_children;
        l = l->children;
    }
    return n > 0 && l->kind == LAYER_FLATTEN && l->args[0].number == 1;
}

static int check_metrics(struct spec_parse *p, const struct yaml_item *root)
{
    const struct job_spec *s = p->spec;

    for (int i = 0; i < s->n_metrics; i++) {
        const char *fitting[METRIC_COUNT];
        int n = 0;

        if (metric_fits((enum metric_kind)s->metrics[i], s->model->loss)) {
            continue;
        }
        for (int k = 0; k < METRIC_COUNT; k++) {
            if (metric_fits((enum metric_kind)k, s->model->loss)) {
                fitting[n++] = metric_names[k];
            }
        }
        spec_fail(p, yaml_tree_get(root, "metrics")->items[i], "metric %s does not go with loss %s",
                  metric_names[s->metrics[i]], loss_name(s->model->loss));
        spec_suggest(p, "", fitting, n);
        return EO_E_BAD_SPEC;
    }
    return EO_OK;
}

static int check_shapes(struct spec_parse *p, const struct yaml_item *root)
{
    struct model *m = p->spec->model;
    struct yaml_item at = *yaml_tree_get(root, "model");
    struct eo_error why;
    int status = model_check(m, &why);

    if (status == EO_OK && m->loss != LOSS_CROSS_ENTROPY && p->spec->train.kind == SOURCE_CSV &&
        !(m->output.n_dims == 2 && m->output.shape[1] == 1)) {
        spec_fail(p, &at, "loss %s compares one target column with one output, but the last layer gives %d",
                  loss_name(m->loss), (int)m->output.shape[m->output.n_dims - 1]);
        eo_error_hint(p->err, "End the model with `linear: {..., out: 1}`.");
        return EO_E_BAD_SPEC;
    }
    if (status == EO_OK) {
        return EO_OK;
    }
    if (m->refused != NULL) {
        at.line = m->refused->line;
        at.column = m->refused->column;
    }
    spec_fail(p, &at, "%s", why.message);
    eo_error_hint(p->err, "%s", why.hint);
    return EO_E_BAD_SPEC;
}

int spec_check_model(struct spec_parse *p, const struct yaml_item *root)
{
    struct model *m = p->spec->model;
    int64_t features = first_features(m->layers, m->n_layers);
    int status = check_metrics(p, root);

    if (status != EO_OK) {
        return status;
    }
    /* Rows of a CSV file are vectors. The shape of images is known only when their file is opened: then the trainer
     * checks again, and here only what does not depend on it. */
    m->input = (struct eo_tensor_desc){.dtype = (uint8_t)m->dtype, .n_dims = 2, .shape = {0, EO_MAX(features, 1)}};
    if (p->spec->train.kind == SOURCE_IDX && features > 0 && !flattens_first(m->layers, m->n_layers)) {
        m->input = (struct eo_tensor_desc){.dtype = (uint8_t)m->dtype};
        return EO_OK;
    }
    return check_shapes(p, root);
}
