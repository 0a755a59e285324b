#include "daemon/jobs/spec_parse.h"

#include "daemon/train/metrics.h"
#include "proto/base/text.h"
#include "proto/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_ARENA_BYTES = 16 << 20, SPEC_MAX_HOSTS = 8 };

/* ---- keys of the top level ---- */

static int read_name(struct spec_parse *p, const struct yaml_item *v)
{
    int status = spec_text(p, v, "name", p->spec->name, sizeof(p->spec->name));

    for (const char *c = p->spec->name; status == EO_OK && *c != '\0'; c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');

        if (!word && (c == p->spec->name || strchr("._-", *c) == NULL)) {
            char quoted[340];

            return spec_fail(p, v, "`name` takes letters, digits, '.', '_' and '-', not %s",
                             eo_quote(v->text, strlen(v->text), quoted, sizeof(quoted)));
        }
    }
    return status;
}

static int read_precision(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {"float32", "float64", "bfloat16", "float16"};
    static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64};
    int i;
    int status = spec_choice(p, v, "precision", names, (int)EO_COUNT_OF(names), &i);

    if (status != EO_OK) {
        return status;
    }
    if (i >= (int)EO_COUNT_OF(dtypes)) {
        spec_fail(p, v, "training in %s is not available in this version", names[i]);
        eo_error_hint(p->err, "Use float32 or float64.");
        return EO_E_BAD_SPEC;
    }
    p->spec->model->dtype = dtypes[i];
    return EO_OK;
}

static int read_device(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_text(p, v, "device", p->spec->device, sizeof(p->spec->device));
}

static int read_fallback(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {"strict", "report"};
    int i;
    int status = spec_choice(p, v, "fallback", names, (int)EO_COUNT_OF(names), &i);

    if (status == EO_OK) {
        eo_copy_text(p->spec->fallback, sizeof(p->spec->fallback), names[i]);
    }
    return status;
}

static int read_threads(struct spec_parse *p, const struct yaml_item *v)
{
    int64_t n;
    int status = spec_i64(p, v, "threads", 1, 1024, &n);

    if (status == EO_OK) {
        p->spec->threads = (int)n;
    }
    return status;
}

static int read_time_limit(struct spec_parse *p, const struct yaml_item *v)
{
    char text[32], quoted[340];
    int status = spec_text(p, v, "time_limit", text, sizeof(text));

    if (status == EO_OK && (!eo_parse_duration(text, &p->spec->time_limit_ms) || p->spec->time_limit_ms == 0)) {
        return spec_fail(p, v, "`time_limit` takes a duration such as 90s, 30m or 2h, not %s",
                         eo_quote(text, strlen(text), quoted, sizeof(quoted)));
    }
    return status;
}

static int read_on_failure(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {"fail", "restart"};
    int i;
    int status = spec_choice(p, v, "on_failure", names, (int)EO_COUNT_OF(names), &i);

    if (status == EO_OK) {
        p->spec->on_failure = (enum spec_on_failure)i;
    }
    return status;
}

static int read_finite(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {"stop", "skip", "ignore"};
    int i;
    int status = spec_choice(p, v, "finite", names, (int)EO_COUNT_OF(names), &i);

    if (status == EO_OK) {
        p->spec->finite = (enum spec_finite)i;
    }
    return status;
}

static int add_host(struct spec_parse *p, const struct yaml_item *v)
{
    struct job_spec *s = p->spec;
    struct eo_endpoint endpoint;
    struct eo_error why;
    int status = spec_kind(p, v, "hosts", YAML_SCALAR);

    if (status == EO_OK && s->n_hosts >= SPEC_MAX_HOSTS) {
        return spec_fail(p, v, "at most %d hosts", SPEC_MAX_HOSTS);
    }
    if (status == EO_OK && eo_endpoint_parse(v->text, &endpoint, &why) != EO_OK) {
        spec_fail(p, v, "%s", why.message);
        eo_error_hint(p->err, "%s", why.hint);
        return EO_E_BAD_SPEC;
    }
    for (int i = 0; status == EO_OK && i < s->n_hosts; i++) {
        if (strcmp(s->hosts[i], endpoint.text) == 0) {
            return spec_fail(p, v, "host %s stands here a second time", endpoint.text);
        }
    }
    if (status == EO_OK) {
        eo_copy_text(s->hosts[s->n_hosts++], sizeof(s->hosts[0]), endpoint.text);
    }
    return status;
}

static int read_hosts(struct spec_parse *p, const struct yaml_item *v)
{
    int status = spec_kind(p, v, "hosts", YAML_LIST);

    for (int i = 0; status == EO_OK && i < v->n; i++) {
        status = add_host(p, v->items[i]);
    }
    return status;
}

/* ---- train ---- */

static int read_epochs(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "train.epochs", 1, 1000000, &p->spec->epochs);
}

static int read_max_steps(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "train.max_steps", 1, (int64_t)1 << 40, &p->spec->max_steps);
}

static int read_seed(struct spec_parse *p, const struct yaml_item *v)
{
    int64_t seed;
    int status = spec_i64(p, v, "train.seed", 0, INT64_MAX, &seed);

    if (status == EO_OK) {
        p->spec->seed = (uint64_t)seed;
    }
    return status;
}

static int read_clip_norm(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_f64(p, v, "train.clip_norm", DBL_MIN, DBL_MAX, "above 0", &p->spec->clip_norm);
}

static int read_clip_value(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_f64(p, v, "train.clip_value", DBL_MIN, DBL_MAX, "above 0", &p->spec->clip_value);
}

static int read_accumulate(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "train.accumulate", 1, 65536, &p->spec->accumulate);
}

static int read_ema(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_f64(p, v, "train.ema", DBL_MIN, 1 - DBL_EPSILON / 2, "between 0 and 1", &p->spec->ema);
}

static int read_every_epochs(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "checkpoint.every_epochs", 0, 1000000, &p->spec->checkpoint_every_epochs);
}

static int read_keep(struct spec_parse *p, const struct yaml_item *v)
{
    int64_t keep;
    int status = spec_i64(p, v, "checkpoint.keep", 1, 1000, &keep);

    if (status == EO_OK) {
        p->spec->checkpoint_keep = (int)keep;
    }
    return status;
}

static int read_checkpoint(struct spec_parse *p, const struct yaml_item *v)
{
    static const struct spec_key keys[] = {
        {.name = "every_epochs", .read = read_every_epochs},
        {.name = "keep", .read = read_keep},
    };

    return spec_map(p, v, "checkpoint", keys, (int)EO_COUNT_OF(keys));
}

static int read_train(struct spec_parse *p, const struct yaml_item *v)
{
    static const struct spec_key keys[] = {
        {.name = "epochs", .read = read_epochs},
        {.name = "max_steps", .read = read_max_steps},
        {.name = "seed", .read = read_seed},
        {.name = "clip_norm", .read = read_clip_norm},
        {.name = "clip_value", .read = read_clip_value},
        {.name = "accumulate", .read = read_accumulate},
        {.name = "ema", .read = read_ema},
        {.name = "checkpoint", .read = read_checkpoint},
    };
    int status = spec_map(p, v, "train", keys, (int)EO_COUNT_OF(keys));

    if (status == EO_OK && p->spec->epochs == 0 && p->spec->max_steps == 0) {
        return spec_fail(p, v, "train has neither `epochs` nor `max_steps`");
    }
    return status;
}

static const struct spec_key root_keys[] = {
    {.name = "name", .read = read_name},
    {.name = "model", .read = spec_read_model, .required = true},
    {.name = "loss", .read = spec_read_loss, .required = true},
    {.name = "metrics", .read = spec_read_metrics},
    {.name = "optimizer", .read = spec_read_optimizer, .required = true},
    {.name = "schedule", .read = spec_read_schedule},
    {.name = "precision", .read = read_precision},
    {.name = "data", .read = spec_read_data, .required = true},
    {.name = "train", .read = read_train, .required = true},
    {.name = "device", .read = read_device},
    {.name = "fallback", .read = read_fallback},
    {.name = "threads", .read = read_threads},
    {.name = "hosts", .read = read_hosts},
    {.name = "time_limit", .read = read_time_limit},
    {.name = "on_failure", .read = read_on_failure},
    {.name = "finite", .read = read_finite},
    {.name = "early_stopping", .read = spec_read_early_stopping},
};

/* ---- the whole ---- */

/* What a file without a name is called: the file's own, without folder and suffix. */
static void default_name(struct job_spec *s, const char *file_name)
{
    const char *base = strrchr(file_name, '/');
    size_t n = 0;

    base = base == NULL ? file_name : base + 1;
    for (const char *c = base; *c != '\0' && *c != '.' && n + 1 < sizeof(s->name); c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');

        if (word || (n > 0 && (*c == '_' || *c == '-'))) {
            s->name[n++] = *c;
        }
    }
    s->name[n] = '\0';
    if (n == 0) {
        eo_copy_text(s->name, sizeof(s->name), "job");
    }
}

static struct job_spec *new_spec(const char *file_name)
{
    struct job_spec *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    s->model = calloc(1, sizeof(*s->model));
    if (s->model == NULL) {
        free(s);
        return NULL;
    }
    eo_arena_init(&s->model->arena, MODEL_ARENA_BYTES);
    eo_bytes_init(&s->canonical, SPEC_MAX_BYTES);
    s->model->dtype = EO_FLOAT32;
    s->batch = 32;
    s->shuffle = true;
    s->accumulate = 1;
    s->checkpoint_keep = 2;
    eo_copy_text(s->device, sizeof(s->device), "auto");
    default_name(s, file_name);
    return s;
}

static int read_spec(struct spec_parse *p)
{
    const struct yaml_item *root = p->tree->root;
    int status = spec_map(p, root, "the job", root_keys, (int)EO_COUNT_OF(root_keys));

    if (status == EO_OK) {
        status = spec_check_data(p, root);
    }
    if (status == EO_OK) {
        status = spec_check_model(p, root);
    }
    if (status == EO_OK) {
        status = spec_check_early_stopping(p, root);
    }
    if (status != EO_OK) {
        return status;
    }
    if (p->spec->fallback[0] == '\0') {
        /* A named device is meant; what `auto` picks may be helped out, with a report. */
        eo_copy_text(p->spec->fallback, sizeof(p->spec->fallback),
                     strcmp(p->spec->device, "auto") == 0 ? "report" : "strict");
    }
    return spec_write(p->spec, p->err);
}

int spec_parse(const char *text, size_t size, const char *file_name, const char *const *overrides, int n_overrides,
               struct job_spec **out, struct eo_error *err)
{
    struct yaml_tree tree;
    struct spec_parse p = {.tree = &tree, .err = err};
    int status = yaml_tree_parse(file_name, text, size, &tree, err);

    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < n_overrides && status == EO_OK; i++) {
        status = yaml_tree_set(&tree, overrides[i], err);
    }
    if (status == EO_OK) {
        p.spec = new_spec(file_name);
        status = p.spec == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", file_name) : read_spec(&p);
    }
    yaml_tree_fini(&tree);
    if (status != EO_OK) {
        spec_free(p.spec);
        return status;
    }
    *out = p.spec;
    return EO_OK;
}

void spec_free(struct job_spec *s)
{
    if (s != NULL) {
        eo_bytes_fini(&s->canonical);
        eo_arena_fini(&s->model->arena);
        free(s->model);
        free(s);
    }
}
