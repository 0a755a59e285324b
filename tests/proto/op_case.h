/* Calls of an operation written as text, so that tests of shape rules are tables:
 *   inputs  "float32 2x3", "int64" (0-dim), "bool 0x4"
 *   attrs   "axis=1 keepdims=1 shape=2,-1 dtype=int64 p=0.5"; "shape=" is the empty list
 * Values go into the attributes unchecked: what eo_op_infer says about hostile ones is what is tested. */
#ifndef EO_TESTS_PROTO_OP_CASE_H
#define EO_TESTS_PROTO_OP_CASE_H

#include "proto/op_schema.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static inline struct eo_tensor_desc op_case_desc(const char *text)
{
    struct eo_tensor_desc d = {0};
    char copy[128], *save = NULL, *word;

    snprintf(copy, sizeof(copy), "%s", text);
    word = strtok_r(copy, " x", &save);
    d.dtype = (uint8_t)eo_dtype_by_name(word);
    ck_assert_msg(d.dtype != EO_DTYPE_NONE, "%s", text);
    while ((word = strtok_r(NULL, " x", &save)) != NULL) {
        ck_assert_int_lt(d.n_dims, EO_MAX_DIMS);
        d.shape[d.n_dims++] = strtoll(word, NULL, 10);
    }
    return d;
}

static inline void op_case_value(const struct eo_attr_schema *s, const char *text, struct eo_attr_value *v)
{
    char *end;

    *v = (struct eo_attr_value){0};
    switch (s->kind) {
    case EO_ATTR_INT:
    case EO_ATTR_BOOL:
        v->i = strtoll(text, NULL, 10);
        break;
    case EO_ATTR_FLOAT:
        v->f = strtod(text, NULL);
        break;
    case EO_ATTR_DTYPE:
        v->i = eo_dtype_by_name(text);
        break;
    case EO_ATTR_INTS:
        while (*text != '\0') {
            ck_assert_int_lt(v->n, EO_MAX_INTS);
            v->ints[v->n++] = strtoll(text, &end, 10);
            text = *end == ',' ? end + 1 : end;
        }
        break;
    case EO_ATTR_CHOICE:
    case EO_ATTR_TEXT:
        ck_abort_msg("%s is set by eo_attrs_set_text", s->name);
    }
}

static inline struct eo_attrs op_case_attrs(const struct eo_op_schema *op, const char *text)
{
    struct eo_attrs a;
    char copy[256], *save = NULL, *word;

    eo_attrs_default(op, &a);
    snprintf(copy, sizeof(copy), "%s", text == NULL ? "" : text);
    for (word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        int i;

        ck_assert_ptr_nonnull(equals);
        *equals = '\0';
        i = eo_attr_index(op, word);
        ck_assert_msg(i >= 0, "%s has no attribute %s", op->name, word);
        if (op->attrs[i].kind == EO_ATTR_CHOICE || op->attrs[i].kind == EO_ATTR_TEXT) {
            ck_assert_int_eq(eo_attrs_set_text(op, &a, word, equals + 1, NULL), EO_OK);
        } else {
            op_case_value(&op->attrs[i], equals + 1, &a.v[i]);
        }
    }
    return a;
}

/* Runs eo_op_infer; out_text receives "float32 [2, 3]; int64 []". */
static inline int op_case_infer(const char *name, const char *const *inputs, int n_in, const char *attrs,
                                char *out_text, size_t size, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_by_name(name, strlen(name));
    struct eo_tensor_desc descs[EO_MAX_INPUTS + 1], out[EO_MAX_OUTPUTS];
    const struct eo_tensor_desc *in[EO_MAX_INPUTS + 1];
    struct eo_attrs a;
    size_t used = 0;
    int rc;

    ck_assert_msg(op != NULL, "%s", name);
    for (int i = 0; i < n_in; i++) {
        descs[i] = op_case_desc(inputs[i]);
        in[i] = &descs[i];
    }
    a = op_case_attrs(op, attrs);
    rc = eo_op_infer(op, in, n_in, &a, out, err);
    out_text[0] = '\0';
    for (int i = 0; rc == EO_OK && i < eo_op_n_outputs(op, &a); i++) {
        char text[192];

        used += (size_t)snprintf(out_text + used, size - used, "%s%s", i == 0 ? "" : "; ",
                                 eo_tensor_desc_text(&out[i], text, sizeof(text)));
    }
    return rc;
}

#endif
