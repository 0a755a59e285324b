#include "tests/formats/onnx_bytes.h"

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

struct eo_bytes pb_new(void)
{
    struct eo_bytes b;

    eo_bytes_init(&b, (size_t)64 << 20);
    return b;
}

static void raw_varint(struct eo_bytes *b, uint64_t v)
{
    uint8_t byte;

    do {
        byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        eo_bytes_append(b, &byte, 1);
        v >>= 7;
    } while (v != 0);
}

void pb_varint(struct eo_bytes *b, int field, uint64_t v)
{
    raw_varint(b, (uint64_t)field << 3);
    raw_varint(b, v);
}

void pb_data(struct eo_bytes *b, int field, const void *data, size_t size)
{
    raw_varint(b, (uint64_t)field << 3 | 2);
    raw_varint(b, size);
    eo_bytes_append(b, data, size);
}

void pb_text(struct eo_bytes *b, int field, const char *text)
{
    pb_data(b, field, text, strlen(text));
}

void pb_float(struct eo_bytes *b, int field, float v)
{
    raw_varint(b, (uint64_t)field << 3 | 5);
    eo_bytes_append(b, &v, sizeof(v));
}

void pb_message(struct eo_bytes *b, int field, struct eo_bytes *inner)
{
    ck_assert(!inner->failed);
    pb_data(b, field, inner->data, inner->size);
    eo_bytes_fini(inner);
}

/* ---- short texts ---- */

/* Words of a text, each handed to the callback. */
static void each_word(const char *text, void (*use)(void *ctx, const char *word), void *ctx)
{
    char copy[8192], *rest = copy, *word;

    ck_assert_uint_lt(strlen(text), sizeof(copy));
    memcpy(copy, text, strlen(text) + 1);
    while ((word = strsep(&rest, " ")) != NULL)
        if (word[0] != '\0')
            use(ctx, word);
}

struct target {
    struct eo_bytes *b;
    int field;
};

static void use_name(void *ctx, const char *word)
{
    struct target *t = ctx;

    pb_text(t->b, t->field, strcmp(word, "-") == 0 ? "" : word);
}

static void names(struct eo_bytes *b, int field, const char *text)
{
    struct target t = {b, field};

    each_word(text, use_name, &t);
}

/* [1,2,3] or [0.5,1.0] or [a,b] */
static void list_attr(struct eo_bytes *a, const char *text)
{
    char copy[512], *rest = copy, *item;
    bool floats = strchr(text, '.') != NULL, words = isalpha((unsigned char)text[1]) != 0;

    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(text + 1, "]"), text + 1);
    while ((item = strsep(&rest, ",")) != NULL && item[0] != '\0') {
        if (words)
            pb_text(a, 9, item);
        else if (floats)
            pb_float(a, 7, strtof(item, NULL));
        else
            pb_varint(a, 8, (uint64_t)strtoll(item, NULL, 10));
    }
    pb_varint(a, 20, words ? 8 : floats ? 6 : 7);
}

static void use_attr(void *ctx, const char *word)
{
    struct eo_bytes *node = ctx, a = pb_new();
    const char *value = strchr(word, '=');
    char name[128];

    ck_assert_ptr_nonnull(value);
    snprintf(name, sizeof(name), "%.*s", (int)(value - word), word);
    value++;
    pb_text(&a, 1, name);
    if (value[0] == '@') {
        pb_text(&a, 21, value + 1);
        pb_varint(&a, 20, 1);
    } else if (value[0] == '[') {
        list_attr(&a, value);
    } else if (isalpha((unsigned char)value[0])) {
        pb_text(&a, 4, value);
        pb_varint(&a, 20, 3);
    } else if (strchr(value, '.') != NULL) {
        pb_float(&a, 2, strtof(value, NULL));
        pb_varint(&a, 20, 1);
    } else {
        pb_varint(&a, 3, (uint64_t)strtoll(value, NULL, 10));
        pb_varint(&a, 20, 2);
    }
    pb_message(node, 5, &a);
}

static struct eo_bytes node_bytes(const char *domain, const char *op, const char *in, const char *out,
                                  const char *attrs)
{
    struct eo_bytes n = pb_new();

    names(&n, 1, in);
    names(&n, 2, out);
    pb_text(&n, 4, op);
    if (domain[0] != '\0')
        pb_text(&n, 7, domain);
    each_word(attrs, use_attr, &n);
    return n;
}

/* ---- tensors ---- */

static void dims(struct eo_bytes *b, int field, const char *shape)
{
    for (const char *at = shape; *at != '\0'; at += strcspn(at, "x"), at += *at == 'x')
        pb_varint(b, field, (uint64_t)strtoll(at, NULL, 10));
}

/* The number as raw bytes of the type. */
static void use_value(void *ctx, const char *word)
{
    struct target *t = ctx;
    double d = strtod(word, NULL);
    float f = (float)d;
    int64_t i = strtoll(word, NULL, 10);
    static const size_t sizes[] = {[T_UINT8] = 1, [T_INT32] = 4, [T_INT64] = 8, [T_BOOL] = 1};

    if (t->field == T_FLOAT)
        eo_bytes_append(t->b, &f, sizeof(f));
    else if (t->field == T_DOUBLE)
        eo_bytes_append(t->b, &d, sizeof(d));
    else
        eo_bytes_append(t->b, &i, sizes[t->field]);
}

struct eo_bytes tensor_bytes(const char *name, int type, const char *shape, const char *values)
{
    struct eo_bytes t = pb_new(), raw = pb_new();
    struct target target = {&raw, type};

    each_word(values, use_value, &target);
    dims(&t, 1, shape);
    pb_varint(&t, 2, (uint64_t)type);
    pb_text(&t, 8, name);
    pb_message(&t, 9, &raw);
    return t;
}

/* ---- models ---- */

struct model model_new(int opset)
{
    struct model m = {pb_new(), pb_new()};

    pb_varint(&m.rest, 1, 8);
    model_import(&m, "", opset);
    pb_text(&m.graph, 2, "graph");
    return m;
}

void model_import(struct model *m, const char *domain, int version)
{
    struct eo_bytes import = pb_new();

    pb_text(&import, 1, domain);
    pb_varint(&import, 2, (uint64_t)version);
    pb_message(&m->rest, 8, &import);
}

static void port(struct model *m, int field, const char *name, int type, const char *shape)
{
    struct eo_bytes value = pb_new(), outer = pb_new(), tensor = pb_new(), list = pb_new();

    for (const char *at = shape; at != NULL && *at != '\0'; at += strcspn(at, "x"), at += *at == 'x') {
        struct eo_bytes dim = pb_new();
        char symbol[64];

        snprintf(symbol, sizeof(symbol), "%.*s", (int)strcspn(at, "x"), at);
        if (isalpha((unsigned char)at[0]))
            pb_text(&dim, 2, symbol);
        else
            pb_varint(&dim, 1, (uint64_t)strtoll(at, NULL, 10));
        pb_message(&list, 1, &dim);
    }
    pb_varint(&tensor, 1, (uint64_t)type);
    if (shape != NULL)
        pb_message(&tensor, 2, &list);
    else
        eo_bytes_fini(&list);
    pb_message(&outer, 1, &tensor);
    pb_text(&value, 1, name);
    if (type != 0)
        pb_message(&value, 2, &outer);
    else
        eo_bytes_fini(&outer);
    pb_message(&m->graph, field, &value);
}

void model_input(struct model *m, const char *name, int type, const char *shape)
{
    port(m, 11, name, type, shape);
}

void model_output(struct model *m, const char *name)
{
    port(m, 12, name, 0, NULL);
}

void model_node_of(struct model *m, const char *domain, const char *op, const char *in, const char *out,
                   const char *attrs)
{
    struct eo_bytes n = node_bytes(domain, op, in, out, attrs);

    pb_message(&m->graph, 1, &n);
}

void model_node(struct model *m, const char *op, const char *in, const char *out, const char *attrs)
{
    model_node_of(m, "", op, in, out, attrs);
}

void model_initializer(struct model *m, const char *name, int type, const char *shape, const char *values)
{
    struct eo_bytes t = tensor_bytes(name, type, shape, values);

    pb_message(&m->graph, 5, &t);
}

struct eo_bytes function_new(const char *name, const char *in, const char *out, const char *attrs)
{
    struct eo_bytes f = pb_new(), import = pb_new();

    pb_text(&f, 1, name);
    names(&f, 4, in);
    names(&f, 5, out);
    names(&f, 6, attrs);
    pb_varint(&import, 2, 13);
    pb_message(&f, 9, &import);
    import = pb_new();
    pb_text(&import, 1, "local");
    pb_varint(&import, 2, 1);
    pb_message(&f, 9, &import);
    pb_text(&f, 10, "local");
    return f;
}

void function_node(struct eo_bytes *f, const char *domain, const char *op, const char *in, const char *out,
                   const char *attrs)
{
    struct eo_bytes n = node_bytes(domain, op, in, out, attrs);

    pb_message(f, 7, &n);
}

void model_function(struct model *m, struct eo_bytes *f)
{
    pb_message(&m->rest, 25, f);
}

struct eo_bytes model_bytes(struct model *m)
{
    struct eo_bytes out = m->rest;

    pb_message(&out, 7, &m->graph);
    return out;
}
