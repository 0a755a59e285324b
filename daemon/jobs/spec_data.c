/* The `data` section: which files, what is set aside, how values are scaled. */
#include "daemon/jobs/spec_parse.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

/* ---- files ---- */

/* The index of a file of the job; the same path is one file. */
static int add_file(struct spec_parse *p, const struct yaml_item *v, const char *what, int *out)
{
    struct job_spec *s = p->spec;
    char path[sizeof(s->files[0].path)];
    int status = spec_text(p, v, what, path, sizeof(path));

    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < s->n_files; i++) {
        if (strcmp(s->files[i].path, path) == 0) {
            *out = i;
            return EO_OK;
        }
    }
    if (s->n_files >= SPEC_MAX_FILES) {
        return spec_fail(p, v, "more than %d files", SPEC_MAX_FILES);
    }
    eo_copy_text(s->files[s->n_files].path, sizeof(path), path);
    *out = s->n_files++;
    return EO_OK;
}

/* ---- sources ---- */

static int read_csv_source(struct spec_parse *p, const struct yaml_item *v, const char *what, struct spec_source *out)
{
    const struct yaml_item *target = yaml_tree_get(v, "target");
    char key[32];
    int status;

    out->kind = SOURCE_CSV;
    out->labels = -1;
    snprintf(key, sizeof(key), "%s.csv", what);
    status = add_file(p, yaml_tree_get(v, "csv"), key, &out->file);
    if (status == EO_OK && target != NULL) {
        snprintf(key, sizeof(key), "%s.target", what);
        status = spec_text(p, target, key, out->target, sizeof(out->target));
    }
    return status;
}

static int read_idx_source(struct spec_parse *p, const struct yaml_item *v, const char *what, struct spec_source *out)
{
    const struct yaml_item *labels = yaml_tree_get(v, "labels");
    char key[32];
    int status;

    out->kind = SOURCE_IDX;
    if (labels == NULL) {
        spec_fail(p, v, "`%s` has images and no `labels`", what);
        eo_error_hint(p->err, "For example {idx: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}.");
        return EO_E_BAD_SPEC;
    }
    snprintf(key, sizeof(key), "%s.idx", what);
    status = add_file(p, yaml_tree_get(v, "idx"), key, &out->file);
    if (status == EO_OK) {
        snprintf(key, sizeof(key), "%s.labels", what);
        status = add_file(p, labels, key, &out->labels);
    }
    return status;
}

static int read_split_source(struct spec_parse *p, const struct yaml_item *v, const char *what, struct spec_source *out)
{
    const struct yaml_item *stratified = yaml_tree_get(v, "stratified");
    char key[40];
    int status;

    out->kind = SOURCE_SPLIT;
    snprintf(key, sizeof(key), "%s.split", what);
    status = spec_f64(p, yaml_tree_get(v, "split"), key, DBL_MIN, 1 - DBL_EPSILON, "between 0 and 1", &out->split);
    if (status == EO_OK && stratified != NULL) {
        snprintf(key, sizeof(key), "%s.stratified", what);
        status = spec_bool(p, stratified, key, &out->stratified);
    }
    return status;
}

/* The kinds of source by the key that tells them apart, and the keys that go with each. */
static const struct {
    const char *key;
    const char *others[2];
    int (*read)(struct spec_parse *p, const struct yaml_item *v, const char *what, struct spec_source *out);
} kinds[] = {
    {"csv", {"target"}, read_csv_source},
    {"idx", {"labels"}, read_idx_source},
    {"split", {"stratified"}, read_split_source},
};

static int source_kind(struct spec_parse *p, const struct yaml_item *v, const char *what, bool may_split, int *out)
{
    int n_kinds = may_split ? 3 : 2;
    int status = spec_kind(p, v, what, YAML_MAP);

    *out = -1;
    for (int i = 0; status == EO_OK && i < n_kinds; i++) {
        if (yaml_tree_get(v, kinds[i].key) == NULL) {
            continue;
        }
        if (*out >= 0) {
            return spec_fail(p, v, "`%s` has both `%s` and `%s`", what, kinds[*out].key, kinds[i].key);
        }
        *out = i;
    }
    if (status == EO_OK && *out < 0) {
        spec_fail(p, v, "`%s` names no data", what);
        eo_error_hint(p->err, may_split
                                  ? "It takes {csv: FILE, target: COLUMN}, {idx: FILE, labels: FILE} or {split: 0.2}."
                                  : "It takes {csv: FILE, target: COLUMN} or {idx: FILE, labels: FILE}.");
        return EO_E_BAD_SPEC;
    }
    return status;
}

static int read_source(struct spec_parse *p, const struct yaml_item *v, const char *what, bool may_split,
                       struct spec_source *out)
{
    int kind;
    int status = source_kind(p, v, what, may_split, &kind);

    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < v->n; i++) {
        const char *key = v->keys[i]->text;
        const char *names[] = {kinds[kind].key, kinds[kind].others[0]};

        if (strcmp(key, names[0]) != 0 && strcmp(key, names[1]) != 0) {
            char quoted[340];

            spec_fail(p, v->keys[i], "unknown key %s in %s with `%s`",
                      eo_quote(key, strlen(key), quoted, sizeof(quoted)), what, names[0]);
            spec_suggest(p, key, names, 2);
            return EO_E_BAD_SPEC;
        }
    }
    out->line = v->line;
    out->column = v->column;
    return kinds[kind].read(p, v, what, out);
}

static int read_train(struct spec_parse *p, const struct yaml_item *v)
{
    return read_source(p, v, "data.train", false, &p->spec->train);
}

static int read_validation(struct spec_parse *p, const struct yaml_item *v)
{
    return read_source(p, v, "data.validation", true, &p->spec->validation);
}

static int read_test(struct spec_parse *p, const struct yaml_item *v)
{
    return read_source(p, v, "data.test", true, &p->spec->test);
}

/* ---- scale, batch, shuffle ---- */

static int read_divide(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_f64(p, v, "scale.divide", DBL_MIN, DBL_MAX, "above 0", &p->spec->scale_divide);
}

static int read_standardize(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_bool(p, v, "scale.standardize", &p->spec->standardize);
}

static int read_standardize_target(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_bool(p, v, "scale.standardize_target", &p->spec->standardize_target);
}

static int read_scale(struct spec_parse *p, const struct yaml_item *v)
{
    static const struct spec_key keys[] = {
        {.name = "divide", .read = read_divide},
        {.name = "standardize", .read = read_standardize},
        {.name = "standardize_target", .read = read_standardize_target},
    };
    int status = spec_map(p, v, "scale", keys, (int)EO_COUNT_OF(keys));

    if (status == EO_OK && p->spec->standardize && p->spec->scale_divide != 0) {
        return spec_fail(p, v, "`divide` and `standardize` together: the second undoes the first");
    }
    return status;
}

static int read_batch(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "data.batch", 1, 1 << 20, &p->spec->batch);
}

static int read_shuffle(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_bool(p, v, "data.shuffle", &p->spec->shuffle);
}

int spec_read_data(struct spec_parse *p, const struct yaml_item *v)
{
    static const struct spec_key keys[] = {
        {.name = "train", .read = read_train, .required = true},
        {.name = "validation", .read = read_validation},
        {.name = "test", .read = read_test},
        {.name = "scale", .read = read_scale},
        {.name = "batch", .read = read_batch},
        {.name = "shuffle", .read = read_shuffle},
    };

    return spec_map(p, v, "data", keys, (int)EO_COUNT_OF(keys));
}

/* ---- what must fit together ---- */

static int check_source(struct spec_parse *p, const struct yaml_item *at, const char *what, struct spec_source *s)
{
    if (s->kind == SOURCE_SPLIT) {
        if (s->stratified && p->spec->model->loss == LOSS_MSE) {
            spec_fail(p, at, "`%s` asks for a stratified split, which needs classes; loss mse has none", what);
            eo_error_hint(p->err, "Leave `stratified` out.");
            return EO_E_BAD_SPEC;
        }
        return EO_OK;
    }
    if (s->kind != SOURCE_NONE && s->kind != p->spec->train.kind) {
        return spec_fail(p, at, "`%s` and data.train are files of different formats", what);
    }
    if (s->kind == SOURCE_CSV && s->target[0] == '\0') {
        eo_copy_text(s->target, sizeof(s->target), p->spec->train.target);
    }
    return EO_OK;
}

int spec_check_data(struct spec_parse *p, const struct yaml_item *root)
{
    struct job_spec *s = p->spec;
    const struct yaml_item *data = yaml_tree_get(root, "data");
    const struct yaml_item *validation = yaml_tree_get(data, "validation"), *test = yaml_tree_get(data, "test");
    int status = EO_OK;

    if (validation != NULL) {
        status = check_source(p, validation, "data.validation", &s->validation);
    }
    if (status == EO_OK && test != NULL) {
        status = check_source(p, test, "data.test", &s->test);
    }
    if (status == EO_OK && s->validation.split + s->test.split >= 1) {
        status = spec_fail(p, validation, "validation and test take %g and %g of the rows: nothing is left to train on",
                           s->validation.split, s->test.split);
    }
    if (status == EO_OK && s->standardize_target && s->model->loss != LOSS_MSE) {
        status = spec_fail(p, yaml_tree_get(data, "scale"), "`standardize_target` is for numbers; loss %s has classes",
                           loss_name(s->model->loss));
    }
    return status;
}
