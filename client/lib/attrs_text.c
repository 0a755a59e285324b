#include "client/lib/attrs_text.h"

#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct cursor {
    const char *at;
    const struct eo_op_schema *op;
    struct eo_error *err;
};

static void skip_space(struct cursor *c)
{
    while (isspace((unsigned char)*c->at)) {
        c->at++;
    }
}

static int fail(const struct cursor *c, const char *what)
{
    char quoted[100];
    EO_RAISE(c->err, EO_E_BAD_ATTRIBUTE, "%s at %s", what, eo_quote(c->at, strlen(c->at), quoted, sizeof quoted));
    eo_error_at_op(c->err, c->op->name, "");
    eo_error_hint(c->err, "Write attributes as name=value, separated by commas; lists as [1,2,3], texts as \"...\".");
    return EO_E_BAD_ATTRIBUTE;
}

/* Reads characters of the set into out; false when none or too many. */
static bool read_word(struct cursor *c, const char *extra, char *out, size_t size)
{
    size_t n = 0;
    while (isalnum((unsigned char)*c->at) || (*c->at != '\0' && strchr(extra, *c->at) != NULL)) {
        if (n + 1 >= size) {
            return false;
        }
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    return n > 0;
}

static int read_list(struct cursor *c, const char *name, struct eo_attrs *out)
{
    int64_t values[EO_MAX_INTS];
    int n = 0;
    c->at++; /* the bracket */
    skip_space(c);
    while (*c->at != ']') {
        char word[32];
        if (n == EO_MAX_INTS || !read_word(c, "+-", word, sizeof word) || !eo_parse_i64(word, &values[n])) {
            return fail(c, n == EO_MAX_INTS ? "too many list entries" : "a list entry is no integer");
        }
        n++;
        skip_space(c);
        if (*c->at == ',') {
            c->at++;
            skip_space(c);
            if (*c->at == ']') {
                return fail(c, "a list entry is expected");
            }
        } else if (*c->at != ']') {
            return fail(c, "the list does not end");
        }
    }
    c->at++;
    return eo_attrs_set_ints(c->op, out, name, values, n, c->err);
}

static bool takes_text(const struct eo_op_schema *op, int index)
{
    return index >= 0 && (op->attrs[index].kind == EO_ATTR_CHOICE || op->attrs[index].kind == EO_ATTR_TEXT);
}

static int set_word(struct cursor *c, const char *name, const char *word, struct eo_attrs *out)
{
    int64_t i = 0;
    double f = 0;
    int index = eo_attr_index(c->op, name);
    if (takes_text(c->op, index)) {
        return eo_attrs_set_text(c->op, out, name, word, c->err);
    }
    bool wants_float = index >= 0 && c->op->attrs[index].kind == EO_ATTR_FLOAT;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        return eo_attrs_set_int(c->op, out, name, word[0] == 't', c->err);
    }
    if (eo_dtype_by_name(word) != EO_DTYPE_NONE) {
        return eo_attrs_set_int(c->op, out, name, (int64_t)eo_dtype_by_name(word), c->err);
    }
    if (!wants_float && eo_parse_i64(word, &i)) {
        return eo_attrs_set_int(c->op, out, name, i, c->err);
    }
    if (eo_parse_f64(word, &f)) {
        return eo_attrs_set_float(c->op, out, name, f, c->err);
    }
    return fail(c, "the value is no number, bool, dtype or list");
}

/* "..." without escapes: what a text attribute holds. */
static int read_quoted(struct cursor *c, const char *name, struct eo_attrs *out)
{
    char text[EO_MAX_TEXT + 1];
    size_t length = strcspn(c->at + 1, "\"");
    if (c->at[1 + length] != '"') {
        return fail(c, "the text does not end");
    }
    if (length >= sizeof text) {
        return fail(c, "the text is too long");
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)length, c->at + 1);
    c->at += length + 2;
    return eo_attrs_set_text(c->op, out, name, text, c->err);
}

static int read_pair(struct cursor *c, bool *seen, struct eo_attrs *out)
{
    char name[32];
    char word[40];
    skip_space(c);
    if (!read_word(c, "_", name, sizeof name)) {
        return fail(c, "an attribute name is expected");
    }
    skip_space(c);
    if (*c->at != '=') {
        return fail(c, "'=' is expected");
    }
    c->at++;
    skip_space(c);
    int index = eo_attr_index(c->op, name);
    if (index >= 0) {
        if (seen[index]) {
            return fail(c, "an attribute is given twice");
        }
        seen[index] = true;
    }
    if (*c->at == '[') {
        return read_list(c, name, out);
    }
    if (*c->at == '"') {
        return read_quoted(c, name, out);
    }
    if (!read_word(c, "+-._", word, sizeof word)) {
        return fail(c, "a value is expected");
    }
    return set_word(c, name, word, out);
}

int eo_attrs_text_parse(const char *text, const struct eo_op_schema *op, struct eo_attrs *out, struct eo_error *err)
{
    struct cursor c = {.at = text == NULL ? "" : text, .op = op, .err = err};
    bool seen[EO_MAX_ATTRS] = {false};
    eo_attrs_default(op, out);
    skip_space(&c);
    while (*c.at != '\0') {
        int rc = read_pair(&c, seen, out);
        if (rc != EO_OK) {
            return rc;
        }
        skip_space(&c);
        if (*c.at == ',') {
            c.at++;
            skip_space(&c);
            if (*c.at == '\0') {
                return fail(&c, "an attribute name is expected");
            }
        } else if (*c.at != '\0') {
            return fail(&c, "a comma is expected");
        }
    }
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].required && !seen[i]) {
            EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is required", op->attrs[i].name);
            eo_error_at_op(err, op->name, "");
            return EO_E_BAD_ATTRIBUTE;
        }
    }
    return EO_OK;
}
