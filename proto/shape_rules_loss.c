/* Shape rules of the losses that are lowered: operands of one shape, or classes along an axis. */
#include "proto/shape_rules.h"

#include <inttypes.h>

/* The elements' losses have the shape in out; unless they stay as they are, the result is a scalar. */
static void reduce(const struct eo_op_schema *op, const struct eo_attrs *attrs, struct eo_tensor_desc *out)
{
    if (eo_attr_int(op, attrs, "reduction") != EO_REDUCTION_NONE) {
        out->n_dims = 0;
    }
}

int eo_infer_pair_loss(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_same(op, in, n_in, 0, 1, err);

    *out = *in[0];
    reduce(op, attrs, out);
    return rc;
}

int eo_infer_kl_div_loss(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_infer_pair_loss(op, in, n_in, attrs, out, err);

    if (rc == EO_OK && in[0]->n_dims == 0 && eo_attr_int(op, attrs, "reduction") == EO_REDUCTION_BATCHMEAN) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "x is a scalar, which has no rows for reduction batchmean");
        eo_shape_mark(op, in, n_in, 0, -1, -1, -1, err);
    }
    return rc;
}

/* Operand i broadcasts to the shape of operand 0. */
static int need_broadcast(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                          struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *w = in[i];
    int lead = x->n_dims - w->n_dims, code;

    if (lead < 0) {
        code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has rank %d, more than x, which has rank %d", op->input_names[i],
                        w->n_dims, x->n_dims);
        eo_shape_mark(op, in, n_in, i, -1, 0, -1, err);
        return code;
    }
    for (int d = 0; d < w->n_dims; d++) {
        if (w->shape[d] != 1 && w->shape[d] != x->shape[lead + d]) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has %" PRId64 " where x has %" PRId64, op->input_names[i],
                            w->shape[d], x->shape[lead + d]);
            eo_shape_mark(op, in, n_in, 0, lead + d, i, d, err);
            return code;
        }
    }
    return EO_OK;
}

int eo_infer_bce_loss(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_infer_pair_loss(op, in, n_in, attrs, out, err);

    for (int i = 2; i < n_in && rc == EO_OK; i++) {
        if (eo_input_given(in, n_in, i)) {
            rc = need_broadcast(op, in, n_in, i, err);
        }
    }
    return rc;
}

/* ---- classes ---- */

/* x without its axis of classes. */
static int need_targets(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int axis,
                        struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *targets = in[1];
    int rc = eo_shape_need_rank(op, in, n_in, 1, x->n_dims - 1, err);

    for (int d = 0; d < x->n_dims && rc == EO_OK; d++) {
        int at = d < axis ? d : d - 1;

        if (d != axis && targets->shape[at] != x->shape[d]) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "targets has %" PRId64 " where %s has %" PRId64, targets->shape[at],
                          op->input_names[0], x->shape[d]);
            eo_shape_mark(op, in, n_in, 0, d, 1, at, err);
        }
    }
    if (rc == EO_OK && x->shape[axis] == 0 && eo_tensor_desc_count(targets) > 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "axis %d of %s has no classes", axis, op->input_names[0]);
        eo_shape_mark(op, in, n_in, 0, axis, -1, -1, err);
    }
    return rc;
}

static int need_class_weight(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int axis,
                             struct eo_error *err)
{
    int rc;

    if (!eo_input_given(in, n_in, 2)) {
        return EO_OK;
    }
    rc = eo_shape_need_rank(op, in, n_in, 2, 1, err);
    if (rc == EO_OK && in[2]->shape[0] != in[0]->shape[axis]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "weight has %" PRId64 " elements, %s has %" PRId64 " classes",
                      in[2]->shape[0], op->input_names[0], in[0]->shape[axis]);
        eo_shape_mark(op, in, n_in, 0, axis, 2, 0, err);
    }
    return rc;
}

int eo_infer_class_loss(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);

    if (rc == EO_OK) {
        rc = need_targets(op, in, n_in, axis, err);
    }
    if (rc == EO_OK) {
        rc = need_class_weight(op, in, n_in, axis, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    *out = *in[1];
    out->dtype = in[0]->dtype;
    reduce(op, attrs, out);
    return EO_OK;
}

int eo_infer_cross_entropy_loss(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                                const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    out[1] = *in[0];
    return eo_infer_class_loss(op, in, n_in, attrs, out, err);
}
