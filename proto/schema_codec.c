/* Wire forms of descriptors and attributes (declared in tensor_desc.h and op_schema.h). */
#include "proto/attrs.h"
#include "proto/codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- dtypes and descriptors ---- */

/* A dtype by name; EO_DTYPE_NONE when the item is none. */
static enum eo_dtype item_dtype(const struct eo_item *it)
{
    const char *text;
    char name[16];
    size_t length;

    if (!eo_item_as_str(it, &text, &length) || length >= sizeof(name)) {
        return EO_DTYPE_NONE;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    return strlen(name) == length ? eo_dtype_by_name(name) : EO_DTYPE_NONE;
}

void eo_tensor_desc_pack_fields(struct eo_bytes *b, const struct eo_tensor_desc *d)
{
    eo_pack_kv_str(b, "dtype", eo_dtype_name((enum eo_dtype)d->dtype));
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, d->shape, d->n_dims);
}

void eo_tensor_desc_pack(struct eo_bytes *b, const struct eo_tensor_desc *d)
{
    eo_pack_map(b, 2);
    eo_tensor_desc_pack_fields(b, d);
}

int eo_tensor_desc_unpack(const struct eo_item *map, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum eo_dtype dtype = item_dtype(eo_item_get(map, "dtype"));
    const struct eo_item *shape;
    int64_t dims[EO_MAX_DIMS];
    int rc;

    if (dtype == EO_DTYPE_NONE) {
        char text[160], quoted[96];
        const char *given = "";
        size_t length = 0;

        eo_item_as_str(eo_item_get(map, "dtype"), &given, &length);
        return EO_RAISE(err, EO_E_BAD_PARAMS, "dtype is %s, must be %s",
                        eo_quote(given, length, quoted, sizeof(quoted)),
                        eo_dtype_set_text(EO_SET_ANY, text, sizeof(text)));
    }
    rc = eo_need_array(map, "shape", EO_MAX_DIMS, &shape, err);
    if (rc != EO_OK) {
        return rc;
    }
    for (size_t i = 0; i < eo_item_count(shape); i++) {
        if (!eo_item_as_i64(eo_item_at(shape, i), &dims[i])) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "entry %zu of shape is not a 64-bit integer", i);
        }
    }
    return eo_tensor_desc_init(out, dtype, dims, (int)eo_item_count(shape), err);
}

/* ---- attributes ---- */

static void pack_value(struct eo_bytes *b, const struct eo_attr_schema *s, const struct eo_attr_value *v)
{
    char word[32];

    switch (s->kind) {
    case EO_ATTR_INT:
        eo_pack_i64(b, v->i);
        break;
    case EO_ATTR_BOOL:
        eo_pack_bool(b, v->i != 0);
        break;
    case EO_ATTR_DTYPE:
        eo_pack_str(b, eo_dtype_name((enum eo_dtype)v->i));
        break;
    case EO_ATTR_FLOAT:
        eo_pack_f64(b, isnan(v->f) ? (double)NAN : v->f); /* one NaN, so that equal graphs hash equally */
        break;
    case EO_ATTR_INTS:
        eo_pack_i64_array(b, v->ints, v->n);
        break;
    case EO_ATTR_CHOICE:
        (void)eo_attr_choice(s, v->i, word, sizeof(word));
        eo_pack_str(b, word);
        break;
    case EO_ATTR_TEXT:
        eo_pack_str(b, v->text);
        break;
    }
}

void eo_attrs_pack(struct eo_bytes *b, const struct eo_op_schema *op, const struct eo_attrs *a)
{
    bool send[EO_MAX_ATTRS] = {false};
    struct eo_attrs defaults;
    size_t n = 0;

    eo_attrs_default(op, &defaults);
    for (int i = 0; i < op->n_attrs; i++) {
        send[i] = op->attrs[i].required || !eo_attr_value_equal(&op->attrs[i], &a->v[i], &defaults.v[i]);
        n += send[i] ? 1 : 0;
    }
    eo_pack_map(b, n);
    for (int i = 0; i < op->n_attrs; i++) {
        if (send[i]) {
            eo_pack_str(b, op->attrs[i].name);
            pack_value(b, &op->attrs[i], &a->v[i]);
        }
    }
}

static int wrong_kind(const struct eo_op_schema *op, const struct eo_attr_schema *s, struct eo_error *err)
{
    int code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s takes %s", s->name, eo_attr_kind_text(s->kind));

    eo_error_at_op(err, op->name, NULL);
    return code;
}

static bool read_ints(const struct eo_item *it, struct eo_attr_value *v)
{
    size_t n = eo_item_count(it);

    if (eo_item_kind(it) != EO_ITEM_ARRAY || n > EO_MAX_INTS) {
        return false;
    }
    v->n = (uint8_t)n;
    for (size_t i = 0; i < n; i++) {
        if (!eo_item_as_i64(eo_item_at(it, i), &v->ints[i])) {
            return false;
        }
    }
    return true;
}

/* One value of the kind that the row wants; conversions are exact or refused. */
static bool read_value(const struct eo_item *it, enum eo_attr_kind kind, struct eo_attr_value *v)
{
    bool flag;

    switch (kind) {
    case EO_ATTR_INT:
        return eo_item_kind(it) == EO_ITEM_INT && eo_item_as_i64(it, &v->i);
    case EO_ATTR_BOOL:
        if (!eo_item_as_bool(it, &flag)) {
            return false;
        }
        v->i = flag;
        return true;
    case EO_ATTR_DTYPE:
        v->i = item_dtype(it);
        return v->i != EO_DTYPE_NONE;
    case EO_ATTR_FLOAT:
        return eo_item_as_f64(it, &v->f);
    case EO_ATTR_INTS:
        return read_ints(it, v);
    case EO_ATTR_CHOICE:
    case EO_ATTR_TEXT: /* eo_attr_read_text says more */
        break;
    }
    return false;
}

static bool is_text(enum eo_attr_kind kind)
{
    return kind == EO_ATTR_CHOICE || kind == EO_ATTR_TEXT;
}

/* Stores one key, value pair of the map; seen gets its bit. */
static int unpack_pair(const struct eo_item *key, const struct eo_item *value, const struct eo_op_schema *op,
                       struct eo_attrs *out, unsigned *seen, struct eo_error *err)
{
    struct eo_attr_value v = {0};
    char name[48];
    const char *text;
    size_t length;
    int index, rc;

    if (!eo_item_as_str(key, &text, &length)) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "the name of an attribute is not a string");
        eo_error_at_op(err, op->name, NULL);
        return rc;
    }
    snprintf(name, sizeof(name), "%.*s", (int)EO_MIN(length, sizeof(name) - 1), text);
    rc = eo_attr_need(op, strlen(name) == length ? name : "", EO_ATTR_ANY_KIND, &index, err);
    if (rc != EO_OK) {
        return rc;
    }
    if ((*seen & 1U << index) != 0) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is given twice", name);
        eo_error_at_op(err, op->name, NULL);
        return rc;
    }
    *seen |= 1U << index;
    if (is_text(op->attrs[index].kind) && eo_item_as_str(value, &text, &length)) {
        rc = eo_attr_read_text(op, index, text, length, &v, err);
        return rc != EO_OK ? rc : eo_attr_store(op, out, index, &v, err);
    }
    if (!read_value(value, op->attrs[index].kind, &v)) {
        return wrong_kind(op, &op->attrs[index], err);
    }
    return eo_attr_store(op, out, index, &v, err);
}

int eo_attrs_unpack(const struct eo_item *map, const struct eo_op_schema *op, struct eo_attrs *out,
                    struct eo_error *err)
{
    struct eo_attrs attrs;
    unsigned seen = 0;
    int rc = EO_OK;

    eo_attrs_default(op, &attrs);
    if (eo_item_kind(map) != EO_ITEM_NIL && eo_item_kind(map) != EO_ITEM_MAP) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attributes are not a map");
        eo_error_at_op(err, op->name, NULL);
    }
    for (size_t i = 0; i < eo_item_count(map) && rc == EO_OK; i++) {
        const struct eo_item *key, *value;

        eo_item_pair(map, i, &key, &value);
        rc = unpack_pair(key, value, op, &attrs, &seen, err);
    }
    for (int i = 0; i < op->n_attrs && rc == EO_OK; i++) {
        if (op->attrs[i].required && (seen & 1U << i) == 0) {
            rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is missing", op->attrs[i].name);
            eo_error_at_op(err, op->name, NULL);
        }
    }
    if (rc == EO_OK) {
        *out = attrs;
    }
    return rc;
}
