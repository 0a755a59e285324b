#include "proto/op_example.h"

#include "proto/base/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name, *inputs, *attrs;
} examples[] = {
#define EXAMPLE(name, inputs, attrs) {#name, inputs, attrs},
#include "proto/tables/examples.def"
};

static enum eo_dtype dtype_of(char letter, enum eo_dtype asked)
{
    switch (letter) {
    case 'I':
        return EO_INT64;
    case 'B':
        return EO_BOOL;
    case 'F':
        return EO_FLOAT32;
    case 'N':
        return EO_INT32;
    default:
        return asked;
    }
}

/* "T 2x3; I 4" */
static void read_inputs(const char *text, enum eo_dtype asked, struct eo_op_example *out)
{
    while (*text != '\0' && out->n_in < EO_MAX_NAMED_INPUTS) {
        struct eo_tensor_desc *d = &out->in[out->n_in++];

        *d = (struct eo_tensor_desc){.dtype = (uint8_t)dtype_of(*text++, asked)};
        text += strspn(text, " ");
        while (*text >= '0' && *text <= '9' && d->n_dims < EO_MAX_DIMS) {
            char *end;

            d->shape[d->n_dims++] = strtoll(text, &end, 10);
            text = *end == 'x' ? end + 1 : end;
        }
        text += strspn(text, "; ");
    }
}

static int set_ints(const struct eo_op_schema *op, struct eo_attrs *attrs, const char *name, const char *value)
{
    int64_t ints[EO_MAX_INTS];
    int n = 0;

    while (*value != '\0' && n < EO_MAX_INTS) {
        char *end;

        ints[n++] = strtoll(value, &end, 10);
        value = *end == ',' ? end + 1 : end;
    }
    return eo_attrs_set_ints(op, attrs, name, ints, n, NULL);
}

static int set_attr(const struct eo_op_schema *op, struct eo_attrs *attrs, enum eo_dtype asked, const char *name,
                    const char *value)
{
    int index = eo_attr_index(op, name);

    if (index < 0) {
        return EO_E_BAD_ATTRIBUTE;
    }
    switch (op->attrs[index].kind) {
    case EO_ATTR_INTS:
        return set_ints(op, attrs, name, value);
    case EO_ATTR_FLOAT:
        return eo_attrs_set_float(op, attrs, name, strtod(value, NULL), NULL);
    case EO_ATTR_DTYPE:
        return eo_attrs_set_int(op, attrs, name, asked, NULL);
    case EO_ATTR_CHOICE:
    case EO_ATTR_TEXT:
        return eo_attrs_set_text(op, attrs, name, value, NULL);
    case EO_ATTR_INT:
    case EO_ATTR_BOOL:
        break;
    }
    return eo_attrs_set_int(op, attrs, name, strtoll(value, NULL, 10), NULL);
}

/* "axis=1 shape=2,3 dtype=T" */
static bool read_attrs(const struct eo_op_schema *op, const char *text, enum eo_dtype asked, struct eo_attrs *out)
{
    char copy[160], *save = NULL;

    eo_attrs_default(op, out);
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');

        if (equals == NULL) {
            return false;
        }
        *equals = '\0';
        if (set_attr(op, out, asked, word, equals + 1) != EO_OK) {
            return false;
        }
    }
    return true;
}

bool eo_op_example(const struct eo_op_schema *op, enum eo_dtype dtype, struct eo_op_example *out)
{
    const struct eo_tensor_desc *in[EO_MAX_NAMED_INPUTS];

    for (size_t i = 0; i < EO_COUNT_OF(examples); i++) {
        if (strcmp(examples[i].name, op->name) != 0) {
            continue;
        }
        out->n_in = 0;
        read_inputs(examples[i].inputs, dtype, out);
        for (int k = 0; k < out->n_in; k++) {
            in[k] = &out->in[k];
        }
        return read_attrs(op, examples[i].attrs, dtype, &out->attrs) &&
               eo_op_infer(op, in, out->n_in, &out->attrs, out->out, NULL) == EO_OK;
    }
    return false;
}
