#include "daemon/worker/examples.h"

#include <stdlib.h>
#include <string.h>

enum { SEARCH_MAX_IN = 4 };

struct row {
    const char *name, *attrs, *inputs;
};

static const struct row rows[] = {
#define EXAMPLE(name_, attrs_, inputs_) {.name = #name_, .attrs = (attrs_), .inputs = (inputs_)},
#include "daemon/worker/examples.def"
};

static bool infers(const struct eo_op_schema *op, const struct example *e, struct eo_tensor_desc *out_desc)
{
    const struct eo_tensor_desc *at[EXAMPLE_MAX_IN];
    for (int i = 0; i < e->n_in; i++) {
        at[i] = &e->in[i];
    }
    return eo_op_infer(op, at, e->n_in, &e->attrs, out_desc, NULL) == EO_OK;
}

/* Attributes of every call: the dtype asked about, and something for what must be given. */
static void plain_attrs(const struct eo_op_schema *op, enum eo_dtype dtype, struct eo_attrs *out)
{
    static const int64_t two[2] = {2, 2}, one[2] = {1, 1}, zero[2] = {0, 0};
    eo_attrs_default(op, out);
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_schema *a = &op->attrs[i];
        if (a->kind == EO_ATTR_DTYPE) {
            (void)eo_attrs_set_int(op, out, a->name, dtype, NULL);
        } else if (a->kind == EO_ATTR_INT && a->required) {
            (void)eo_attrs_set_int(op, out, a->name, 2, NULL);
        } else if (strcmp(a->name, "shape") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, two, 2, NULL);
        } else if (strcmp(a->name, "starts") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, zero, 2, NULL);
        } else if (strcmp(a->name, "stops") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, one, 2, NULL);
        }
    }
}

/* ---- by the table ---- */

/* "1,4,1": up to EO_MAX_DIMS numbers; *text stands behind them then. */
static int take_numbers(const char **text, int64_t out[EO_MAX_DIMS])
{
    int n = 0;
    bool more = true;
    while (more && n < EO_MAX_DIMS) {
        char *end = NULL;
        out[n++] = strtoll(*text, &end, 10);
        more = *end == ',';
        *text = end + (more ? 1 : 0);
    }
    return n;
}

/* Up to a space. */
static void take_word(const char **text, char *out, size_t size)
{
    const size_t length = strcspn(*text, " ");
    memcpy(out, *text, EO_MIN(length, size - 1));
    *text += length;
}

static void take_attrs(const struct eo_op_schema *op, const char *text, struct eo_attrs *out)
{
    while (*text != '\0') {
        char name[32] = "", word[16] = "";
        int64_t v[EO_MAX_DIMS];
        const size_t length = strcspn(text, "=");
        memcpy(name, text, EO_MIN(length, sizeof name - 1));
        text += length + (text[length] == '=');
        if (*text >= 'a' && *text <= 'z') {
            take_word(&text, word, sizeof word);
            (void)eo_attrs_set_int(op, out, name, eo_dtype_by_name(word), NULL);
        } else {
            const int n = take_numbers(&text, v);
            if (eo_attrs_set_ints(op, out, name, v, n, NULL) != EO_OK) {
                (void)eo_attrs_set_int(op, out, name, v[0], NULL);
            }
        }
        text += strspn(text, " ");
    }
}

static void take_inputs(const char *text, enum eo_dtype dtype, struct example *out)
{
    out->n_in = 0;
    while (*text != '\0' && out->n_in < EXAMPLE_MAX_IN) {
        struct eo_tensor_desc *d = &out->in[out->n_in++];
        char name[16] = "";
        *d = (struct eo_tensor_desc){.dtype = (uint8_t)dtype};
        d->n_dims = (uint8_t)take_numbers(&text, d->shape);
        for (int i = d->n_dims; i < EO_MAX_DIMS; i++) {
            d->shape[i] = 0;
        }
        if (*text == ':') {
            text++;
            take_word(&text, name, sizeof name);
            d->dtype = (uint8_t)eo_dtype_by_name(name);
        }
        text += strspn(text, " ");
    }
}

static const struct row *find_row(const struct eo_op_schema *op)
{
    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, op->name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ---- by trying ---- */

/* Shapes that are enough to call most operations once. */
static const struct eo_tensor_desc shapes[] = {{.n_dims = 2, .shape = {2, 2}},
                                               {.n_dims = 1, .shape = {2}},
                                               {.n_dims = 1, .shape = {3}},
                                               {.n_dims = 2, .shape = {1, 1}},
                                               {.n_dims = 0}};

/* Combinations of dtype and shape per input until the operation accepts one, the plainest first. */
static bool search(const struct eo_op_schema *op, enum eo_dtype dtype, struct example *e,
                   struct eo_tensor_desc *out_desc)
{
    const enum eo_dtype kinds[] = {dtype, EO_INT64, EO_BOOL};
    const int per_input = (int)(EO_COUNT_OF(kinds) * EO_COUNT_OF(shapes));
    int total = 1;
    e->n_in = op->min_inputs;
    if (e->n_in > SEARCH_MAX_IN) {
        return false;
    }
    for (int i = 0; i < e->n_in; i++) {
        total *= per_input;
    }
    for (int number = 0; number < total; number++) {
        int rest = number;
        for (int i = e->n_in - 1; i >= 0; i--) {
            const int choice = rest % per_input;
            rest /= per_input;
            e->in[i] = shapes[choice % (int)EO_COUNT_OF(shapes)];
            e->in[i].dtype = (uint8_t)kinds[choice / (int)EO_COUNT_OF(shapes)];
        }
        if (infers(op, e, out_desc)) {
            return true;
        }
    }
    return false;
}

bool example_find(const struct eo_op_schema *op, enum eo_dtype dtype, struct example *out,
                  struct eo_tensor_desc *out_desc)
{
    const struct row *row = find_row(op);
    plain_attrs(op, dtype, &out->attrs);
    if (row == NULL) {
        return search(op, dtype, out, out_desc);
    }
    take_attrs(op, row->attrs, &out->attrs);
    take_inputs(row->inputs, dtype, out);
    return infers(op, out, out_desc);
}
