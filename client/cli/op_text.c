#include "client/cli/op_text.h"

#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const rule_texts[] = {
    [EO_RULE_SAME] = "all inputs share one dtype, which the outputs have",
    [EO_RULE_COMPARE] = "all inputs share one dtype, outputs are bool",
    [EO_RULE_INDEX] = "input 1 is int64, the others and the outputs share one dtype",
    [EO_RULE_OWN] = "decided by the operation",
};
static const char *const kind_texts[] = {
    [EO_ATTR_INT] = "int",     [EO_ATTR_FLOAT] = "float",   [EO_ATTR_BOOL] = "bool", [EO_ATTR_INTS] = "ints",
    [EO_ATTR_DTYPE] = "dtype", [EO_ATTR_CHOICE] = "choice", [EO_ATTR_TEXT] = "text"};

const char *op_text_kind(enum eo_attr_kind kind)
{
    return kind_texts[kind];
}

const char *op_text_gradient(enum eo_gradient gradient)
{
    static const char *const texts[] = {
        [EO_GRADIENT_NONE] = "no", [EO_GRADIENT_RULE] = "yes", [EO_GRADIENT_LOWERING] = "yes, of its lowering"};
    return texts[gradient];
}

char *op_text_choices(const struct eo_attr_schema *a, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (const char *c = a->choices; c != NULL && *c != '\0' && at + 3 < size; c++) {
        at += (size_t)snprintf(out + at, size - at, *c == '|' ? ", " : "%c", *c);
    }
    return out;
}

const char *op_text_rule(enum eo_dtype_rule rule)
{
    return rule_texts[rule];
}

const char *op_text_stability(enum eo_stability stability)
{
    return stability == EO_STABLE ? "stable" : "experimental";
}

EO_PRINTF(4, 5)
static void add(char *out, size_t size, size_t *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = *at < size ? vsnprintf(out + *at, size - *at, fmt, args) : 0;
    va_end(args);
    *at += n > 0 ? (size_t)n : 0;
}

char *op_text_call(const struct eo_op_schema *op, char *out, size_t size)
{
    size_t at = 0;
    const bool variadic = (op->flags & EO_OPF_VARIADIC) != 0;
    const int n = variadic ? 1 : op->max_inputs;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        const bool optional = i >= op->min_inputs;
        add(out, size, &at, "%s%s%s%s%s", i > 0 ? ", " : "", optional ? "[" : "", op->input_names[i],
            optional ? "]" : "", variadic ? "..." : "");
    }
    for (int i = 0; i < op->n_attrs; i++) {
        add(out, size, &at, "%s%s", i > 0 ? ", " : at > 0 ? "; " : "", op->attrs[i].name);
    }
    return out;
}

char *op_text_fallback(const struct eo_attr_schema *a, char *out, size_t size)
{
    if (a->required) {
        eo_copy_text(out, size, "required");
    } else if (a->kind == EO_ATTR_INTS) {
        eo_copy_text(out, size, "default []");
    } else if (a->kind == EO_ATTR_CHOICE) {
        snprintf(out, size, "default %.*s", (int)strcspn(a->choices, "|"), a->choices);
    } else if (a->kind == EO_ATTR_TEXT) {
        eo_copy_text(out, size, "default \"\"");
    } else if (a->kind == EO_ATTR_BOOL) {
        eo_copy_text(out, size, a->fallback != 0 ? "default true" : "default false");
    } else if (a->kind == EO_ATTR_DTYPE) {
        snprintf(out, size, "default %s", eo_dtype_name((enum eo_dtype)(int)a->fallback));
    } else {
        snprintf(out, size, "default %g", a->fallback);
    }
    return out;
}
