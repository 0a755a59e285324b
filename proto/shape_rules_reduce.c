/* Shape rules of the reductions, of cumulative sums and sorting, and of the axes that they name. */
#include "proto/shape_rules.h"

#include <inttypes.h>

/* Drops the reduced axes, or keeps them as 1; out_empty_axis is a reduced axis without elements, or -1. */
static void reduced_shape(const struct eo_tensor_desc *x, const int *axes, int n_axes, bool keepdims,
                          struct eo_tensor_desc *out, int *out_empty_axis)
{
    int next = 0;

    out->n_dims = 0;
    *out_empty_axis = -1;
    for (int d = 0; d < x->n_dims; d++) {
        bool reduced = next < n_axes && axes[next] == d;

        if (!reduced) {
            out->shape[out->n_dims++] = x->shape[d];
            continue;
        }
        next++;
        if (x->shape[d] == 0) {
            *out_empty_axis = d;
        }
        if (keepdims) {
            out->shape[out->n_dims++] = 1;
        }
    }
}

/* An extreme of no elements has no value; a result without elements needs none. */
static int refuse_empty(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int empty_axis,
                        const struct eo_tensor_desc *out, struct eo_error *err)
{
    int code;

    if (empty_axis < 0 || eo_tensor_desc_count(out) == 0) {
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s over axis %d, which has no elements", op->name, empty_axis);
    eo_shape_mark(op, in, 1, 0, empty_axis, -1, -1, err);
    return code;
}

static int reduce_axes(const struct eo_op_schema *op, const struct eo_tensor_desc *x, const struct eo_attrs *attrs,
                       struct eo_tensor_desc *out, int *out_empty_axis, struct eo_error *err)
{
    const int64_t *list;
    int axes[EO_MAX_DIMS], n, n_axes, rc;

    list = eo_attr_ints(op, attrs, "axes", &n);
    rc = eo_normalize_axes(list, n, x->n_dims, axes, &n_axes, op->name, err);
    if (rc == EO_OK) {
        reduced_shape(x, axes, n_axes, eo_attr_int(op, attrs, "keepdims") != 0, out, out_empty_axis);
    }
    return rc;
}

int eo_infer_reduce(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int empty_axis;

    EO_UNUSED(n_in);
    return reduce_axes(op, in[0], attrs, out, &empty_axis, err);
}

int eo_infer_reduce_some(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int empty_axis, rc = reduce_axes(op, in[0], attrs, out, &empty_axis, err);

    EO_UNUSED(n_in);
    return rc != EO_OK ? rc : refuse_empty(op, in, empty_axis, out, err);
}

int eo_infer_arg_reduce(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis, empty_axis, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    out->dtype = EO_INT64;
    reduced_shape(in[0], &axis, 1, eo_attr_int(op, attrs, "keepdims") != 0, out, &empty_axis);
    return refuse_empty(op, in, empty_axis, out, err);
}

int eo_infer_along_axis(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);

    EO_UNUSED(n_in);
    *out = *in[0];
    return rc;
}

int eo_normalize_axis(int64_t axis, int n_dims, int *out_axis, const char *op, struct eo_error *err)
{
    int code;

    if (axis >= -n_dims && axis < n_dims) {
        *out_axis = (int)(axis < 0 ? axis + n_dims : axis);
        return EO_OK;
    }
    if (n_dims == 0) {
        code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "axis %" PRId64 " of a 0-dim tensor, which has no axes", axis);
    } else {
        code = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "axis %" PRId64 " is out of range for rank %d: must be %d to %d", axis,
                        n_dims, -n_dims, n_dims - 1);
    }
    eo_error_at_op(err, op, NULL);
    return code;
}

int eo_normalize_axes(const int64_t *axes, int n, int n_dims, int *out_axes, int *out_n, const char *op,
                      struct eo_error *err)
{
    bool reduced[EO_MAX_DIMS] = {false};
    int count = 0;

    for (int i = 0; i < n; i++) {
        int axis, rc = eo_normalize_axis(axes[i], n_dims, &axis, op, err);

        if (rc != EO_OK) {
            return rc;
        }
        if (reduced[axis]) {
            rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "axis %" PRId64 " is given twice", axes[i]);
            eo_error_at_op(err, op, NULL);
            return rc;
        }
        reduced[axis] = true;
    }
    for (int d = 0; d < n_dims; d++) {
        if (reduced[d] || n == 0) {
            out_axes[count++] = d;
        }
    }
    *out_n = count;
    return EO_OK;
}

/* ---- order ---- */

/* Values of x and int64 indices, `count` along the axis. */
static int ordered_shapes(const struct eo_tensor_desc *x, int axis, int64_t count, struct eo_tensor_desc *out)
{
    for (int i = 0; i < 2; i++) {
        out[i] = *x;
        out[i].shape[axis] = count;
    }
    out[1].dtype = EO_INT64;
    return EO_OK;
}

int eo_infer_top_k(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t k = eo_attr_int(op, attrs, "k");
    int axis, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (k > in[0]->shape[axis]) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute k is %" PRId64 ", but axis %d has %" PRId64 " elements", k,
                      axis, in[0]->shape[axis]);
        eo_shape_mark(op, in, n_in, 0, axis, -1, -1, err);
        return rc;
    }
    return ordered_shapes(in[0], axis, k, out);
}

int eo_infer_sort(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);
    }
    return rc != EO_OK ? rc : ordered_shapes(in[0], axis, in[0]->shape[axis], out);
}
