/* Element-wise operators, and those that one row of ops.def is. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include <string.h>

/* An attribute of the node by the row's: same name, same meaning, same default. */
static void copy_attr(struct onnx_site *s, struct row *r, const struct eo_attr_schema *schema)
{
    int64_t ints[EO_MAX_INTS];
    int n;

    if (site_attr(s, schema->name) == NULL) {
        return;
    }
    switch (schema->kind) {
    case EO_ATTR_FLOAT:
        row_float(r, schema->name, site_float(s, schema->name, 0));
        break;
    case EO_ATTR_INTS:
        n = site_ints(s, schema->name, ints, EO_MAX_INTS);
        row_ints(r, schema->name, ints, n);
        break;
    case EO_ATTR_INT:
    case EO_ATTR_BOOL:
        row_int(r, schema->name, site_int(s, schema->name, 0));
        break;
    case EO_ATTR_DTYPE:
    case EO_ATTR_CHOICE:
    case EO_ATTR_TEXT:
        site_fail(s, EO_E_UNSUPPORTED, "attribute %s is not read", schema->name);
        break;
    }
}

void map_same(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value in[EO_MAX_NAMED_INPUTS];
    int n = r.op != NULL ? r.op->max_inputs : 0;

    for (int i = 0; r.op != NULL && i < r.op->n_attrs; i++) {
        copy_attr(s, &r, &r.op->attrs[i]);
    }
    for (int i = 0; i < n && i < EO_MAX_NAMED_INPUTS; i++) {
        in[i] = site_in(s, i);
    }
    if (s->n_in > n) {
        site_fail(s, EO_E_BAD_ARITY, "%s takes %d operands, %d are given", s->node->op_type, n, s->n_in);
    }
    if (s->version < 6) {
        (void)site_attr(s, "consumed_inputs"); /* a hint of the oldest files */
    }
    s->out[0] = row_make(&r, in, n);
}

void map_identity(struct onnx_site *s)
{
    s->out[0] = site_in(s, 0);
}

/* ---- two operands ---- */

/* Before opset 7 b was laid on a from an axis on, and only when broadcast was 1: sizes of 1 behind it do that. */
static eo_value align_to_axis(struct onnx_site *s, eo_value a, eo_value b)
{
    const struct eo_tensor_desc *db = site_desc(s, b);
    int64_t shape[EO_MAX_DIMS], axis = site_int(s, "axis", INT64_MIN);
    int rank = site_rank(s, a), n = db->n_dims;

    if (site_int(s, "broadcast", 0) == 0) {
        if (site_ok(s) && !eo_tensor_desc_same_shape(site_desc(s, a), db)) {
            site_fail(s, EO_E_SHAPE_MISMATCH, "the operands of %s differ in shape and broadcast is 0",
                      s->node->op_type);
        }
        return b;
    }
    if (axis == INT64_MIN) {
        return b;
    }
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis + n > rank) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "axis of %s leaves no room for %d dimensions", s->node->op_type, n);
        return b;
    }
    for (int d = 0; d < rank - axis; d++) {
        shape[d] = d < n ? db->shape[d] : 1;
    }
    return site_reshape(s, b, shape, rank - (int)axis);
}

void map_binary(struct onnx_site *s)
{
    eo_value a = site_in(s, 0), b = site_in(s, 1);

    if (s->version < 7) {
        (void)site_attr(s, "consumed_inputs");
        b = align_to_axis(s, a, b);
    }
    s->out[0] = site_binary(s, s->op->row, a, b);
}

/* Sum, Max, Min: from the left. */
void map_variadic(struct onnx_site *s)
{
    eo_value all = site_in(s, 0);

    for (int i = 1; i < s->n_in; i++) {
        all = site_binary(s, s->op->row, all, site_in(s, i));
    }
    s->out[0] = all;
}

void map_mean(struct onnx_site *s)
{
    eo_value all = site_in(s, 0);

    for (int i = 1; i < s->n_in; i++) {
        all = site_binary(s, "add", all, site_in(s, i));
    }
    s->out[0] = site_binary(s, "divide", all, site_scalar_like(s, all, s->n_in));
}

/* The result has the dtype of the base; mixed ones meet in one that holds both. */
void map_power(struct onnx_site *s)
{
    eo_value a = site_in(s, 0), b = site_in(s, 1);
    enum eo_dtype base = site_dtype(s, a), meet = base;

    if (s->version < 7) {
        b = align_to_axis(s, a, b);
    }
    if (site_dtype(s, b) != base && eo_dtype_kind(base) != EO_KIND_FLOAT) {
        meet = eo_dtype_kind(site_dtype(s, b)) == EO_KIND_FLOAT ? EO_FLOAT64 : EO_INT64;
    }
    s->out[0] = site_cast(s, site_binary(s, "power", site_cast(s, a, meet), site_cast(s, b, meet)), base);
}

void map_mod(struct onnx_site *s)
{
    int64_t fmod = site_int(s, "fmod", 0);
    eo_value a = site_in(s, 0);

    if (site_ok(s) && fmod == 0 && eo_dtype_kind(site_dtype(s, a)) == EO_KIND_FLOAT) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "Mod of floats needs fmod = 1");
    }
    s->out[0] = site_binary(s, fmod != 0 ? "fmod" : "remainder", a, site_in(s, 1));
}

void map_bit_shift(struct onnx_site *s)
{
    const char *direction = site_text(s, "direction", "");
    bool left = strcmp(direction, "LEFT") == 0;

    if (!left && strcmp(direction, "RIGHT") != 0) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "direction of BitShift is neither LEFT nor RIGHT");
    }
    s->out[0] = site_binary(s, left ? "shift_left" : "shift_right", site_in(s, 0), site_in(s, 1));
}

/* ---- limits, slopes ---- */

void map_clip(struct onnx_site *s)
{
    eo_value x = site_in(s, 0), low = site_maybe(s, 1), high = site_maybe(s, 2);

    if (s->version < 11) {
        low = site_attr(s, "min") != NULL ? site_scalar_like(s, x, site_float(s, "min", 0)) : EO_NO_VALUE;
        high = site_attr(s, "max") != NULL ? site_scalar_like(s, x, site_float(s, "max", 0)) : EO_NO_VALUE;
    }
    x = low != EO_NO_VALUE ? site_binary(s, "maximum", x, low) : x;
    s->out[0] = high != EO_NO_VALUE ? site_binary(s, "minimum", x, high) : x;
}

/* Before opset 7 a list of slopes belonged to the channels, axis 1. */
void map_prelu(struct onnx_site *s)
{
    eo_value x = site_in(s, 0), slope = site_in(s, 1);
    const struct eo_tensor_desc *desc = site_desc(s, slope);
    int64_t shape[EO_MAX_DIMS];
    int rank = site_rank(s, x);

    if (s->version < 7 && desc->n_dims == 1 && desc->shape[0] != 1 && rank > 2) {
        for (int d = 1; d < rank; d++) {
            shape[d - 1] = d == 1 ? desc->shape[0] : 1;
        }
        slope = site_reshape(s, slope, shape, rank - 1);
    }
    s->out[0] = site_binary(s, "prelu", x, slope);
}

/* ---- types ---- */

void map_cast(struct onnx_site *s)
{
    if (site_attr(s, "to") == NULL) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "Cast needs attribute to");
    }
    s->out[0] = site_cast(s, site_in(s, 0), site_dtype_attr(s, "to", EO_FLOAT32));
}

void map_cast_like(struct onnx_site *s)
{
    s->out[0] = site_cast(s, site_in(s, 0), site_dtype(s, site_in(s, 1)));
}
