/* Typed values of the job file. Every refusal says where, what was written and what would be right. */
#include "daemon/jobs/spec_parse.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int spec_fail(const struct spec_parse *p, const struct yaml_item *at, const char *fmt, ...)
{
    char place[400], what[300];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    yaml_tree_place(p->tree, at, place, sizeof(place));
    EO_RAISE(p->err, EO_E_BAD_SPEC, "%s: %s", place, what);
    if (p->err != NULL) {
        eo_copy_text(p->err->node, sizeof(p->err->node), place);
    }
    return EO_E_BAD_SPEC;
}

static const char *name_at(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

void spec_suggest(const struct spec_parse *p, const char *word, const char *const *names, int n)
{
    const char *nearest = eo_nearest(word, name_at, names, (size_t)n);
    char list[300];
    size_t used = 0;

    if (nearest != NULL) {
        eo_error_hint(p->err, "Did you mean `%s`?", nearest);
        return;
    }
    list[0] = '\0';
    for (int i = 0; i < n && used < sizeof(list); i++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    eo_error_hint(p->err, "Known here: %s.", list);
}

static const char *kind_text(enum yaml_kind kind)
{
    return kind == YAML_MAP ? "a map {key: value}" : kind == YAML_LIST ? "a list [...]" : "a single value";
}

int spec_kind(const struct spec_parse *p, const struct yaml_item *v, const char *what, enum yaml_kind kind)
{
    if (v->kind == kind) {
        return EO_OK;
    }
    if (v->kind == YAML_SCALAR && v->text[0] == '\0' && !v->quoted) {
        return spec_fail(p, v, "`%s` has no value; it takes %s", what, kind_text(kind));
    }
    if (v->kind == YAML_SCALAR) {
        char quoted[340];

        return spec_fail(p, v, "`%s` takes %s, not %s", what, kind_text(kind),
                         eo_quote(v->text, strlen(v->text), quoted, sizeof(quoted)));
    }
    return spec_fail(p, v, "`%s` takes %s, not %s", what, kind_text(kind), kind_text(v->kind));
}

/* A scalar that is there; numbers are given as "a number" and the like. */
static int scalar(const struct spec_parse *p, const struct yaml_item *v, const char *what, const char *wanted)
{
    int status = spec_kind(p, v, what, YAML_SCALAR);

    if (status == EO_OK && v->text[0] == '\0') {
        return spec_fail(p, v, "`%s` has no value; it takes %s", what, wanted);
    }
    return status;
}

static int wrong(const struct spec_parse *p, const struct yaml_item *v, const char *what, const char *wanted)
{
    char quoted[340];

    return spec_fail(p, v, "`%s` takes %s, not %s%s", what, wanted, v->quoted ? "the text " : "",
                     eo_quote(v->text, strlen(v->text), quoted, sizeof(quoted)));
}

int spec_text(const struct spec_parse *p, const struct yaml_item *v, const char *what, char *out, size_t size)
{
    int status = scalar(p, v, what, "a text");

    if (status != EO_OK) {
        return status;
    }
    if (!eo_copy_text(out, size, v->text)) {
        return spec_fail(p, v, "`%s` is longer than %zu bytes", what, size - 1);
    }
    return EO_OK;
}

int spec_i64(const struct spec_parse *p, const struct yaml_item *v, const char *what, int64_t min, int64_t max,
             int64_t *out)
{
    char range[96];
    int64_t value;
    int status;

    snprintf(range, sizeof(range),
             max == INT64_MAX ? "a whole number from %" PRId64 : "a whole number from %" PRId64 " to %" PRId64, min,
             max);
    status = scalar(p, v, what, range);
    if (status != EO_OK) {
        return status;
    }
    if (v->quoted || !eo_parse_i64(v->text, &value) || value < min || value > max) {
        return wrong(p, v, what, range);
    }
    *out = value;
    return EO_OK;
}

int spec_f64(const struct spec_parse *p, const struct yaml_item *v, const char *what, double min, double max,
             const char *range, double *out)
{
    char wanted[96];
    double value;
    int status;

    snprintf(wanted, sizeof(wanted), "a number %s", range);
    status = scalar(p, v, what, wanted);
    if (status != EO_OK) {
        return status;
    }
    if (v->quoted || !eo_parse_f64(v->text, &value) || !isfinite(value) || value < min || value > max) {
        return wrong(p, v, what, wanted);
    }
    *out = value;
    return EO_OK;
}

int spec_bool(const struct spec_parse *p, const struct yaml_item *v, const char *what, bool *out)
{
    int status = scalar(p, v, what, "true or false");

    if (status != EO_OK) {
        return status;
    }
    if (v->quoted || (strcmp(v->text, "true") != 0 && strcmp(v->text, "false") != 0)) {
        return wrong(p, v, what, "true or false");
    }
    *out = v->text[0] == 't';
    return EO_OK;
}

int spec_choice(const struct spec_parse *p, const struct yaml_item *v, const char *what, const char *const *names,
                int n, int *out)
{
    char quoted[340];
    int status = scalar(p, v, what, "a name");

    if (status != EO_OK) {
        return status;
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], v->text) == 0) {
            *out = i;
            return EO_OK;
        }
    }
    spec_fail(p, v, "`%s` does not know %s", what, eo_quote(v->text, strlen(v->text), quoted, sizeof(quoted)));
    spec_suggest(p, v->text, names, n);
    return EO_E_BAD_SPEC;
}

/* ---- maps ---- */

static int unknown_key(const struct spec_parse *p, const struct yaml_item *key, const char *what,
                       const struct spec_key *keys, int n)
{
    const char *names[32];
    char quoted[340];
    int n_names = 0;

    for (int i = 0; i < n && n_names < (int)EO_COUNT_OF(names); i++) {
        if (keys[i].later == NULL) {
            names[n_names++] = keys[i].name;
        }
    }
    spec_fail(p, key, "unknown key %s in %s", eo_quote(key->text, strlen(key->text), quoted, sizeof(quoted)), what);
    spec_suggest(p, key->text, names, n_names);
    return EO_E_BAD_SPEC;
}

int spec_map(struct spec_parse *p, const struct yaml_item *v, const char *what, const struct spec_key *keys, int n)
{
    int status = spec_kind(p, v, what, YAML_MAP);

    for (int i = 0; status == EO_OK && i < v->n; i++) {
        int row = 0;

        while (row < n && strcmp(keys[row].name, v->keys[i]->text) != 0) {
            row++;
        }
        if (row == n) {
            return unknown_key(p, v->keys[i], what, keys, n);
        }
        if (keys[row].later != NULL) {
            spec_fail(p, v->keys[i], "`%s` is not available in this version", keys[row].name);
            eo_error_hint(p->err, "%s", keys[row].later);
            return EO_E_BAD_SPEC;
        }
        status = keys[row].read(p, v->items[i]);
    }
    for (int row = 0; status == EO_OK && row < n; row++) {
        if (keys[row].required && yaml_tree_get(v, keys[row].name) == NULL) {
            return spec_fail(p, v, "%s has no `%s`", what, keys[row].name);
        }
    }
    return status;
}
