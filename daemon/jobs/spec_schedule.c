/* schedule and early_stopping. */
#include "daemon/jobs/spec_parse.h"
#include "daemon/train/metrics.h"

#include <stdio.h>
#include <string.h>

/* ---- schedule ---- */

static int read_param(struct spec_parse *p, struct schedule_config *c, const struct yaml_item *key,
                      const struct yaml_item *v)
{
    const char *names[SCHEDULE_MAX_PARAMS];
    int n = schedule_n_params(c->kind);
    char quoted[340], what[64];

    for (int i = 0; i < n; i++) {
        const struct schedule_param *param = schedule_param(c->kind, i);

        names[i] = param->name;
        if (strcmp(param->name, key->text) == 0) {
            snprintf(what, sizeof(what), "%s.%s", schedule_name(c->kind), param->name);
            return spec_f64(p, v, what, param->min, param->max, param->range, &c->values[i]);
        }
    }
    spec_fail(p, key, "schedule %s has no parameter %s", schedule_name(c->kind),
              eo_quote(key->text, strlen(key->text), quoted, sizeof(quoted)));
    spec_suggest(p, key->text, names, n);
    return EO_E_BAD_SPEC;
}

static int read_one(struct spec_parse *p, const struct yaml_item *v)
{
    static const char *const names[] = {
#define SCHEDULE(name, ...) #name,
#include "daemon/train/schedules.def"
    };
    struct job_spec *s = p->spec;
    const struct yaml_item *name = v, *args = NULL;
    struct schedule_config *c = &s->schedules[s->n_schedules];
    int kind, status;

    if (v->kind == YAML_MAP && v->n == 1) {
        name = v->keys[0];
        args = v->items[0];
    } else if (v->kind != YAML_SCALAR) {
        spec_fail(p, v, "`schedule` takes one name, alone or with its parameters, or a list of them");
        eo_error_hint(p->err, "For example `schedule: [{warmup: {epochs: 2}}, cosine]`.");
        return EO_E_BAD_SPEC;
    }
    status = spec_choice(p, name, "schedule", names, (int)EO_COUNT_OF(names), &kind);
    if (status == EO_OK && args != NULL) {
        status = spec_kind(p, args, names[kind], YAML_MAP);
    }
    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < s->n_schedules; i++) {
        if ((int)s->schedules[i].kind == kind) {
            return spec_fail(p, name, "`schedule` names %s twice", names[kind]);
        }
    }
    schedule_default((enum schedule_kind)kind, c);
    for (int i = 0; args != NULL && i < args->n && status == EO_OK; i++) {
        status = read_param(p, c, args->keys[i], args->items[i]);
    }
    s->n_schedules++;
    return status;
}

int spec_read_schedule(struct spec_parse *p, const struct yaml_item *v)
{
    int status = EO_OK;

    if (v->kind != YAML_LIST) {
        return read_one(p, v);
    }
    if (v->n > SCHEDULE_MAX) {
        return spec_fail(p, v, "at most %d schedules", SCHEDULE_MAX);
    }
    for (int i = 0; i < v->n && status == EO_OK; i++) {
        status = read_one(p, v->items[i]);
    }
    return status;
}

/* ---- early stopping ---- */

static int read_patience(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_i64(p, v, "early_stopping.patience", 1, 1000000, &p->spec->early.patience);
}

static int read_min_delta(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_f64(p, v, "early_stopping.min_delta", 0, DBL_MAX, "0 or above", &p->spec->early.min_delta);
}

static int read_restore_best(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_bool(p, v, "early_stopping.restore_best", &p->spec->early.restore_best);
}

static int read_metric(struct spec_parse *p, const struct yaml_item *v)
{
    return spec_text(p, v, "early_stopping.metric", p->spec->early.metric, sizeof(p->spec->early.metric));
}

int spec_read_early_stopping(struct spec_parse *p, const struct yaml_item *v)
{
    static const struct spec_key keys[] = {
        {.name = "patience", .read = read_patience, .required = true},
        {.name = "metric", .read = read_metric},
        {.name = "min_delta", .read = read_min_delta},
        {.name = "restore_best", .read = read_restore_best},
    };

    p->spec->early.restore_best = true;
    return spec_map(p, v, "early_stopping", keys, (int)EO_COUNT_OF(keys));
}

/* Names that the metric may have: val_loss, val_accuracy, ..., loss, accuracy, ... */
static int watched_names(const struct job_spec *s, char out[][32])
{
    int n = 0;

    for (int part = s->validation.kind != SOURCE_NONE ? 0 : 1; part < 2; part++) {
        const char *prefix = part == 0 ? "val_" : "";

        snprintf(out[n++], 32, "%sloss", prefix);
        for (int i = 0; i < s->n_metrics; i++) {
            snprintf(out[n++], 32, "%s%s", prefix, metric_name((enum metric_kind)s->metrics[i]));
        }
    }
    return n;
}

int spec_check_early_stopping(struct spec_parse *p, const struct yaml_item *root)
{
    struct job_spec *s = p->spec;
    const struct yaml_item *at = yaml_tree_get(root, "early_stopping");
    char names[2 * (SPEC_MAX_METRICS + 1)][32], quoted[96];
    const char *list[2 * (SPEC_MAX_METRICS + 1)];
    int n;

    if (at == NULL) {
        return EO_OK;
    }
    n = watched_names(s, names);
    if (s->early.metric[0] == '\0') {
        snprintf(s->early.metric, sizeof(s->early.metric), "%s", names[0]);
    }
    for (int i = 0; i < n; i++) {
        list[i] = names[i];
        if (strcmp(names[i], s->early.metric) == 0) {
            s->early.validation = strncmp(names[i], "val_", 4) == 0;
            s->early.value = i % (1 + s->n_metrics);
            return EO_OK;
        }
    }
    at = yaml_tree_get(at, "metric");
    spec_fail(p, at != NULL ? at : root, "early_stopping watches %s, which this job does not report",
              eo_quote(s->early.metric, strlen(s->early.metric), quoted, sizeof(quoted)));
    spec_suggest(p, s->early.metric, list, n);
    return EO_E_BAD_SPEC;
}
