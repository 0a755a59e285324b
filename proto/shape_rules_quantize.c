/* Shape and dtype rules of quantization. */
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <stdio.h>

enum { TO_SMALL = EO_SET_BYTE | EO_DTYPE_BIT(EO_INT16) | EO_DTYPE_BIT(EO_UINT16) };

/* A call, as the helpers pass it on. */
struct call {
    const struct eo_op_schema *op;
    const struct eo_tensor_desc *const *in;
    int n_in;
    struct eo_error *err;
};

/* Operand i is one element (0-dim or [1]) or [size]; what NULL: one element only. */
static int need_per(const struct call *c, int i, int64_t size, const char *what)
{
    const struct eo_tensor_desc *d = c->in[i];
    int code;

    if (d->n_dims == 0 || (d->n_dims == 1 && (d->shape[0] == 1 || d->shape[0] == size))) {
        return EO_OK;
    }
    if (what == NULL) {
        code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "%s must be one element", c->op->input_names[i]);
    } else {
        code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "%s must be one element, or one for each of the %" PRId64 " %s",
                        c->op->input_names[i], size, what);
    }
    eo_shape_mark(c->op, c->in, c->n_in, i, d->n_dims == 1 ? 0 : -1, -1, -1, c->err);
    return code;
}

/* Scale (operand 1) and zero point (operand 2) against x (operand 0) and the attribute axis, which counts only where
 * one of them is a list. */
static int need_scales(const struct call *c, const struct eo_attrs *attrs)
{
    int64_t size = 1;
    int axis, rc = EO_OK;
    bool listed = false;

    for (int i = 1; i < 3 && eo_input_given(c->in, c->n_in, i); i++) {
        listed |= c->in[i]->n_dims == 1 && c->in[i]->shape[0] != 1;
    }
    if (listed) {
        rc = eo_normalize_axis(eo_attr_int(c->op, attrs, "axis"), c->in[0]->n_dims, &axis, c->op->name, c->err);
        size = rc == EO_OK ? c->in[0]->shape[axis] : 0;
    }
    for (int i = 1; rc == EO_OK && i < 3; i++) {
        if (i == 1 || eo_input_given(c->in, c->n_in, i)) {
            rc = need_per(c, i, size, "indices of the axis");
        }
    }
    return rc;
}

int eo_infer_quantize_linear(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                             const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    bool has_zero = eo_input_given(in, n_in, 2);
    enum eo_dtype dtype = (enum eo_dtype)(has_zero ? in[2]->dtype : eo_attr_int(op, attrs, "dtype"));
    int rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_same_dtype(op, in, n_in, 0, 1, err);
    }
    if (rc == EO_OK && has_zero) {
        rc = eo_shape_need_dtype(op, in, n_in, 2, TO_SMALL, err);
    }
    if (rc == EO_OK && (TO_SMALL & EO_DTYPE_BIT(dtype)) == 0) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute dtype is %s, must be int8, uint8, int16 or uint16",
                      eo_dtype_name(dtype));
    }
    if (rc == EO_OK) {
        rc = need_scales(&c, attrs);
    }
    *out = *in[0];
    out->dtype = (uint8_t)dtype;
    return rc;
}

int eo_infer_dequantize_linear(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                               const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    int rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_dtype(op, in, n_in, 1, EO_SET_FLOAT, err);
    }
    if (rc == EO_OK && eo_input_given(in, n_in, 2)) {
        rc = eo_shape_need_same_dtype(op, in, n_in, 0, 2, err);
    }
    if (rc == EO_OK) {
        rc = need_scales(&c, attrs);
    }
    *out = *in[0];
    out->dtype = in[1]->dtype;
    return rc;
}

int eo_infer_dynamic_quantize_linear(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(attrs);
    out[0] = *in[0];
    out[0].dtype = out[2].dtype = EO_UINT8;
    out[1].dtype = EO_FLOAT32;
    return eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);
}

/* ---- products ---- */

/* Where a product's operands stand in the row's list. */
struct places {
    int a, a_zero, b, b_zero;
};

/* Operand i, a scale or zero point of operand `of`: one element, [size], or of the rank of `of` and broadcasting to it.
 */
static int need_spread(const struct call *c, int i, int of, int64_t size, const char *what)
{
    const struct eo_tensor_desc *d = c->in[i], *x = c->in[of];
    bool fits = d->n_dims >= 2 && d->n_dims == x->n_dims;
    int code;

    if (d->n_dims < 2) {
        return need_per(c, i, size, what);
    }
    for (int k = 0; fits && k < d->n_dims; k++) {
        fits = d->shape[k] == 1 || d->shape[k] == x->shape[k];
    }
    if (fits) {
        return EO_OK;
    }
    code = EO_RAISE(c->err, EO_E_SHAPE_MISMATCH, "%s does not broadcast to %s", c->op->input_names[i],
                    c->op->input_names[of]);
    eo_shape_mark(c->op, c->in, c->n_in, i, -1, of, -1, c->err);
    return code;
}

/* Both operands are bytes; their zero points, where given, have their dtypes. */
static int need_bytes(const struct call *c, struct places p)
{
    const int of[2] = {p.a, p.b}, zero[2] = {p.a_zero, p.b_zero};
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < 2; i++) {
        rc = eo_shape_need_dtype(c->op, c->in, c->n_in, of[i], EO_SET_BYTE, c->err);
        if (rc == EO_OK && eo_input_given(c->in, c->n_in, zero[i])) {
            rc = eo_shape_need_same_dtype(c->op, c->in, c->n_in, of[i], zero[i], c->err);
        }
    }
    return rc;
}

static int matmul_shapes(const struct call *c, struct places p, struct eo_tensor_desc *out, struct eo_matmul_shape *s)
{
    const struct eo_op_schema *matmul = eo_op_schema(EO_OP_MATMUL);
    const struct eo_tensor_desc *const operands[2] = {c->in[p.a], c->in[p.b]};
    struct eo_attrs attrs;
    int rc = need_bytes(c, p);

    eo_attrs_default(matmul, &attrs);
    if (rc == EO_OK) {
        rc = eo_matmul_shape(matmul, operands[0], operands[1], false, false, s, c->err);
    }
    if (rc == EO_OK) {
        rc = eo_infer_matmul(matmul, operands, 2, &attrs, out, c->err);
    }
    if (rc == EO_OK && eo_input_given(c->in, c->n_in, p.a_zero)) {
        rc = need_spread(c, p.a_zero, p.a, s->m, "rows");
    }
    if (rc == EO_OK && eo_input_given(c->in, c->n_in, p.b_zero)) {
        rc = need_spread(c, p.b_zero, p.b, s->n, "columns");
    }
    return rc;
}

int eo_infer_matmul_integer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    struct eo_matmul_shape s;

    EO_UNUSED(attrs);
    out->dtype = EO_INT32;
    return matmul_shapes(&c, (struct places){0, 2, 1, 3}, out, &s);
}

/* Convolution of int32 with the attributes of conv, which the rows here repeat in its order. */
static int conv_shapes(const struct call *c, struct places p, const struct eo_attrs *attrs, struct eo_tensor_desc *out,
                       int64_t *out_channels)
{
    struct eo_tensor_desc x = *c->in[p.a], weight = *c->in[p.b];
    const struct eo_tensor_desc *const operands[2] = {&x, &weight};
    int rc = need_bytes(c, p);
    bool first = eo_attr_int(c->op, attrs, "layout") != 0;

    x.dtype = weight.dtype = EO_INT32;
    if (rc == EO_OK) {
        rc = eo_op_infer(eo_op_schema(EO_OP_CONV), operands, 2, attrs, out, c->err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    *out_channels = weight.shape[first ? 0 : weight.n_dims - 1];
    if (eo_input_given(c->in, c->n_in, p.a_zero)) {
        rc = need_per(c, p.a_zero, 1, NULL);
    }
    if (rc == EO_OK && eo_input_given(c->in, c->n_in, p.b_zero)) {
        rc = need_per(c, p.b_zero, *out_channels, "output channels");
    }
    return rc;
}

int eo_infer_conv_integer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                          const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    int64_t channels;

    return conv_shapes(&c, (struct places){0, 2, 1, 3}, attrs, out, &channels);
}

/* ---- quantized again: x, scale, zero, w, scale, zero, scale of y, zero of y ---- */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

static int need_output(const struct call *c, struct eo_tensor_desc *out)
{
    static const int scales[] = {A_SCALE, B_SCALE, Y_SCALE};
    int rc = eo_shape_need_dtype(c->op, c->in, c->n_in, Y_ZERO, EO_SET_BYTE, c->err);

    for (size_t i = 0; rc == EO_OK && i < EO_COUNT_OF(scales); i++) {
        rc = eo_shape_need_dtype(c->op, c->in, c->n_in, scales[i], EO_SET_FLOAT32, c->err);
    }
    if (rc == EO_OK) {
        rc = need_per(c, Y_SCALE, 1, NULL);
    }
    if (rc == EO_OK) {
        rc = need_per(c, Y_ZERO, 1, NULL);
    }
    out->dtype = c->in[Y_ZERO]->dtype;
    return rc;
}

int eo_infer_qlinear_matmul(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    struct eo_matmul_shape s;
    int rc = matmul_shapes(&c, (struct places){A, A_ZERO, B, B_ZERO}, out, &s);

    EO_UNUSED(attrs);
    if (rc == EO_OK) {
        rc = need_per(&c, A_SCALE, s.m, "rows");
    }
    if (rc == EO_OK) {
        rc = need_per(&c, B_SCALE, s.n, "columns");
    }
    return rc == EO_OK ? need_output(&c, out) : rc;
}

int eo_infer_qlinear_conv(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                          const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct call c = {op, in, n_in, err};
    int64_t channels = 0;
    int rc = conv_shapes(&c, (struct places){A, A_ZERO, B, B_ZERO}, attrs, out, &channels);

    if (rc == EO_OK) {
        rc = need_per(&c, A_SCALE, 1, NULL);
    }
    if (rc == EO_OK) {
        rc = need_per(&c, B_SCALE, channels, "output channels");
    }
    if (rc == EO_OK && eo_input_given(in, n_in, BIAS)) {
        rc = eo_shape_need_dtype(op, in, n_in, BIAS, EO_DTYPE_BIT(EO_INT32), err);
        rc = rc == EO_OK ? eo_shape_need_rank(op, in, n_in, BIAS, 1, err) : rc;
        if (rc == EO_OK && in[BIAS]->shape[0] != channels) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                          "bias must have one element for each of the %" PRId64 " output channels", channels);
            eo_shape_mark(op, in, n_in, BIAS, 0, -1, -1, err);
        }
    }
    return rc == EO_OK ? need_output(&c, out) : rc;
}
