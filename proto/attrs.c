/* Attribute values: defaults, checks, setters, getters (declared in op_schema.h). */
#include "proto/attrs.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_text[] = {[EO_ATTR_INT] = "an integer",     [EO_ATTR_FLOAT] = "a number",
                                        [EO_ATTR_BOOL] = "true or false", [EO_ATTR_INTS] = "a list of integers",
                                        [EO_ATTR_DTYPE] = "a dtype",      [EO_ATTR_CHOICE] = "a word",
                                        [EO_ATTR_TEXT] = "a text"};

const char *eo_attr_kind_text(enum eo_attr_kind kind)
{
    return kind_text[kind];
}

/* "at least 1", "0 to 1"; ends beyond int64 are not worth saying. */
static const char *range_text(const struct eo_attr_schema *s, char *out, size_t size)
{
    bool low = s->min > (double)INT64_MIN && !isinf(s->min), high = s->max < (double)INT64_MAX && !isinf(s->max);

    if (low && high) {
        snprintf(out, size, "%.17g to %.17g", s->min, s->max);
    } else if (low) {
        snprintf(out, size, "at least %.17g", s->min);
    } else if (high) {
        snprintf(out, size, "at most %.17g", s->max);
    } else {
        snprintf(out, size, "finite");
    }
    return out;
}

static bool int_in_range(const struct eo_attr_schema *s, int64_t v)
{
    return (double)v >= s->min && (double)v <= s->max;
}

static bool float_in_range(const struct eo_attr_schema *s, double v)
{
    return isnan(v) ? isinf(s->min) && isinf(s->max) : v >= s->min && v <= s->max;
}

bool eo_attr_choice(const struct eo_attr_schema *s, int64_t index, char *out, size_t size)
{
    const char *word = s->choices;

    if (index < 0) {
        return false;
    }
    for (int64_t i = 0; i < index && word != NULL; i++) {
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    if (word == NULL) {
        return false;
    }
    (void)snprintf(out, size, "%.*s", (int)strcspn(word, "|"), word);
    return true;
}

static bool choice_index(const struct eo_attr_schema *s, const char *word, size_t length, int64_t *out)
{
    const char *at = s->choices;

    for (int64_t i = 0; length > 0; i++) {
        size_t n = strcspn(at, "|");

        if (n == length && memcmp(at, word, n) == 0) {
            *out = i;
            return true;
        }
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    return false;
}

static int raise_choice(const struct eo_attr_schema *s, const char *given, struct eo_error *err)
{
    char list[128];
    size_t used = 0;

    for (const char *c = s->choices; *c != '\0' && used + 5 < sizeof(list); c++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, *c == '|' ? ", " : "%c", *c);
    }
    return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %s, must be one of %s", s->name, given, list);
}

static int check_choice(const struct eo_attr_schema *s, const struct eo_attr_value *v, struct eo_error *err)
{
    char word[32];

    if (eo_attr_choice(s, v->i, word, sizeof(word))) {
        return EO_OK;
    }
    snprintf(word, sizeof(word), "number %" PRId64, v->i);
    return raise_choice(s, word, err);
}

static int check_text(const struct eo_attr_schema *s, const struct eo_attr_value *v, struct eo_error *err)
{
    if (v->n > EO_MAX_TEXT || v->text[v->n] != '\0' || strlen(v->text) != v->n) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s must be a text of at most %d bytes without NUL", s->name,
                        EO_MAX_TEXT);
    }
    return EO_OK;
}

static int check_one(const struct eo_op_schema *op, const struct eo_attr_schema *s, const struct eo_attr_value *v,
                     struct eo_error *err)
{
    char range[64];
    int code = EO_OK;

    switch (s->kind) {
    case EO_ATTR_INT:
        if (!int_in_range(s, v->i)) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %" PRId64 ", must be %s", s->name, v->i,
                            range_text(s, range, sizeof(range)));
        }
        break;
    case EO_ATTR_BOOL:
        if (v->i != 0 && v->i != 1) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %" PRId64 ", must be 0 or 1", s->name, v->i);
        }
        break;
    case EO_ATTR_DTYPE:
        if (v->i == EO_DTYPE_NONE) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is missing", s->name);
        } else if (v->i < 0 || v->i >= EO_DTYPE_LIMIT || !eo_dtype_valid((int)v->i)) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %" PRId64 ", which is no dtype", s->name, v->i);
        }
        break;
    case EO_ATTR_FLOAT:
        if (!float_in_range(s, v->f)) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %g, must be %s", s->name, v->f,
                            range_text(s, range, sizeof(range)));
        }
        break;
    case EO_ATTR_INTS:
        if (v->n > EO_MAX_INTS) {
            code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s has %d entries, at most %d are possible", s->name,
                            v->n, EO_MAX_INTS);
        }
        for (int i = 0; i < v->n && code == EO_OK; i++) {
            if (!int_in_range(s, v->ints[i])) {
                code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "entry %d of attribute %s is %" PRId64 ", must be %s", i,
                                s->name, v->ints[i], range_text(s, range, sizeof(range)));
            }
        }
        break;
    case EO_ATTR_CHOICE:
        code = check_choice(s, v, err);
        break;
    case EO_ATTR_TEXT:
        code = check_text(s, v, err);
        break;
    }
    if (code != EO_OK) {
        eo_error_at_op(err, op->name, NULL);
    }
    return code;
}

int eo_attrs_check(const struct eo_op_schema *op, const struct eo_attrs *a, struct eo_error *err)
{
    for (int i = 0; i < op->n_attrs; i++) {
        int rc = check_one(op, &op->attrs[i], &a->v[i], err);

        if (rc != EO_OK) {
            return rc;
        }
    }
    return EO_OK;
}

void eo_attrs_default(const struct eo_op_schema *op, struct eo_attrs *out)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].kind == EO_ATTR_FLOAT) {
            out->v[i].f = op->attrs[i].fallback;
        } else if (op->attrs[i].kind != EO_ATTR_INTS && op->attrs[i].kind != EO_ATTR_TEXT) {
            out->v[i].i = (int64_t)op->attrs[i].fallback;
        }
    }
}

const void *eo_attr_value_data(enum eo_attr_kind kind, const struct eo_attr_value *v, size_t *out_size)
{
    switch (kind) {
    case EO_ATTR_FLOAT: /* by bits: -0 and 0 differ, a NaN equals itself */
        *out_size = sizeof(v->f);
        return &v->f;
    case EO_ATTR_INTS:
        *out_size = EO_MIN(v->n, EO_MAX_INTS) * sizeof(v->ints[0]);
        return v->ints;
    case EO_ATTR_TEXT:
        *out_size = EO_MIN(v->n, EO_MAX_TEXT);
        return v->text;
    case EO_ATTR_INT:
    case EO_ATTR_BOOL:
    case EO_ATTR_DTYPE:
    case EO_ATTR_CHOICE:
        break;
    }
    *out_size = sizeof(v->i);
    return &v->i;
}

bool eo_attr_value_equal(const struct eo_attr_schema *s, const struct eo_attr_value *a, const struct eo_attr_value *b)
{
    size_t size_a, size_b;
    const void *data_a = eo_attr_value_data(s->kind, a, &size_a), *data_b = eo_attr_value_data(s->kind, b, &size_b);

    return size_a == size_b && memcmp(data_a, data_b, size_a) == 0;
}

bool eo_attrs_equal(const struct eo_op_schema *op, const struct eo_attrs *a, const struct eo_attrs *b)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (!eo_attr_value_equal(&op->attrs[i], &a->v[i], &b->v[i])) {
            return false;
        }
    }
    return true;
}

int eo_attr_index(const struct eo_op_schema *op, const char *name)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (strcmp(op->attrs[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *attr_name_at(const void *ctx, size_t i)
{
    const struct eo_op_schema *op = ctx;

    return op->attrs[i].name;
}

static int raise_unknown(const struct eo_op_schema *op, const char *name, struct eo_error *err)
{
    char quoted[96];
    const char *nearest = eo_nearest(name, attr_name_at, op, op->n_attrs);
    int code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "%s has no attribute %s", op->name,
                        eo_quote(name, strlen(name), quoted, sizeof(quoted)));

    eo_error_at_op(err, op->name, NULL);
    if (nearest != NULL) {
        eo_error_hint(err, "Did you mean %s?", nearest);
    } else if (op->n_attrs == 0) {
        eo_error_hint(err, "%s takes no attributes.", op->name);
    }
    return code;
}

int eo_attr_need(const struct eo_op_schema *op, const char *name, unsigned kinds, int *out, struct eo_error *err)
{
    int i = eo_attr_index(op, name), code;

    if (i < 0) {
        return raise_unknown(op, name, err);
    }
    if ((kinds & 1U << op->attrs[i].kind) == 0) {
        code =
            EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s takes %s", op->attrs[i].name, kind_text[op->attrs[i].kind]);
        eo_error_at_op(err, op->name, NULL);
        return code;
    }
    *out = i;
    return EO_OK;
}

int eo_attr_read_text(const struct eo_op_schema *op, int index, const char *text, size_t length,
                      struct eo_attr_value *out, struct eo_error *err)
{
    const struct eo_attr_schema *s = &op->attrs[index];
    char quoted[96];
    int rc = EO_OK;

    if (s->kind == EO_ATTR_CHOICE && !choice_index(s, text, length, &out->i)) {
        rc = raise_choice(s, eo_quote(text, length, quoted, sizeof(quoted)), err);
    } else if (s->kind == EO_ATTR_TEXT && (length > EO_MAX_TEXT || memchr(text, '\0', length) != NULL)) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s has %zu bytes; at most %d are possible, none of them NUL",
                      s->name, length, EO_MAX_TEXT);
    } else if (s->kind == EO_ATTR_TEXT) {
        memcpy(out->text, text, length);
        out->text[length] = '\0';
        out->n = (uint8_t)length;
    }
    if (rc != EO_OK) {
        eo_error_at_op(err, op->name, NULL);
    }
    return rc;
}

int eo_attr_store(const struct eo_op_schema *op, struct eo_attrs *a, int index, const struct eo_attr_value *v,
                  struct eo_error *err)
{
    int rc = check_one(op, &op->attrs[index], v, err);

    if (rc == EO_OK) {
        a->v[index] = *v;
    }
    return rc;
}

int eo_attrs_set_int(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, int64_t v,
                     struct eo_error *err)
{
    int i, rc = eo_attr_need(op, name, 1U << EO_ATTR_INT | 1U << EO_ATTR_BOOL | 1U << EO_ATTR_DTYPE, &i, err);

    return rc != EO_OK ? rc : eo_attr_store(op, a, i, &(struct eo_attr_value){.i = v}, err);
}

int eo_attrs_set_float(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, double v,
                       struct eo_error *err)
{
    int i, rc = eo_attr_need(op, name, 1U << EO_ATTR_FLOAT, &i, err);

    return rc != EO_OK ? rc : eo_attr_store(op, a, i, &(struct eo_attr_value){.f = v}, err);
}

int eo_attrs_set_ints(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, const int64_t *v, int n,
                      struct eo_error *err)
{
    struct eo_attr_value value = {0};
    int i, rc = eo_attr_need(op, name, 1U << EO_ATTR_INTS, &i, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (n < 0 || n > EO_MAX_INTS) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s has %d entries, at most %d are possible", name, n,
                      EO_MAX_INTS);
        eo_error_at_op(err, op->name, NULL);
        return rc;
    }
    value.n = (uint8_t)n;
    if (n > 0) {
        memcpy(value.ints, v, (size_t)n * sizeof(*v));
    }
    return eo_attr_store(op, a, i, &value, err);
}

int eo_attrs_set_text(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, const char *text,
                      struct eo_error *err)
{
    struct eo_attr_value value = {0};
    size_t length = strlen(text);
    int i, rc = eo_attr_need(op, name, 1U << EO_ATTR_CHOICE | 1U << EO_ATTR_TEXT, &i, err);

    if (rc == EO_OK) {
        rc = eo_attr_read_text(op, i, text, length, &value, err);
    }
    return rc != EO_OK ? rc : eo_attr_store(op, a, i, &value, err);
}

const char *eo_attr_text(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name)
{
    int i = eo_attr_index(op, name);

    return i < 0 ? "" : a->v[i].text;
}

int64_t eo_attr_int(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name)
{
    int i = eo_attr_index(op, name);

    return i < 0 ? 0 : a->v[i].i;
}

double eo_attr_float(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name)
{
    int i = eo_attr_index(op, name);

    return i < 0 ? 0 : a->v[i].f;
}

const int64_t *eo_attr_ints(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name, int *out_n)
{
    int i = eo_attr_index(op, name);

    *out_n = i < 0 ? 0 : a->v[i].n;
    return i < 0 ? NULL : a->v[i].ints;
}
