/* Shape rules of rows that work by integer indices. */
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <string.h>

/* ---- gather and scatter ---- */

/* x.shape with the axis replaced by the shape of the indices. */
static int gathered(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *indices = in[1];
    int axis, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), x->n_dims, &axis, op->name, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (x->n_dims - 1 + indices->n_dims > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", x->n_dims - 1 + indices->n_dims, err);
    }
    if (x->shape[axis] == 0 && eo_tensor_desc_count(indices) > 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "axis %d of x has no elements to index", axis);
        eo_shape_mark(op, in, n_in, 0, axis, -1, -1, err);
        return rc;
    }
    out->dtype = x->dtype;
    out->n_dims = 0;
    for (int d = 0; d < x->n_dims; d++) {
        if (d != axis) {
            out->shape[out->n_dims++] = x->shape[d];
            continue;
        }
        for (int i = 0; i < indices->n_dims; i++) {
            out->shape[out->n_dims++] = indices->shape[i];
        }
    }
    return EO_OK;
}

int eo_infer_gather(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    return gathered(op, in, n_in, attrs, out, err);
}

int eo_infer_scatter_add(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc updates = {0};
    int rc = gathered(op, in, n_in, attrs, &updates, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_shape(op, in, n_in, 2, &updates, err);
    }
    *out = *in[0];
    return rc;
}

int eo_infer_one_hot(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (in[0]->n_dims == EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", EO_MAX_DIMS + 1, err);
    }
    *out = *in[0];
    out->dtype = (uint8_t)eo_attr_int(op, attrs, "dtype");
    out->shape[out->n_dims++] = eo_attr_int(op, attrs, "depth");
    return EO_OK;
}

/* ---- one index per element ---- */

/* indices has the rank of x and no more entries than x outside of the axis. */
static int check_elementwise_indices(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                                     const struct eo_attrs *attrs, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *indices = in[1];
    int axis, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), x->n_dims, &axis, op->name, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 1, x->n_dims, err);
    }
    for (int d = 0; rc == EO_OK && d < x->n_dims; d++) {
        if (d == axis && x->shape[d] == 0 && eo_tensor_desc_count(indices) > 0) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "axis %d of x has no elements to index", axis);
            eo_shape_mark(op, in, n_in, 0, d, -1, -1, err);
        } else if (d != axis && indices->shape[d] > x->shape[d]) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                          "dimension %d of indices is %" PRId64 ", above the %" PRId64 " of x; only axis %d may be", d,
                          indices->shape[d], x->shape[d], axis);
            eo_shape_mark(op, in, n_in, 0, d, 1, d, err);
        }
    }
    return rc;
}

int eo_infer_gather_elements(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                             const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = check_elementwise_indices(op, in, n_in, attrs, err);

    *out = *in[1];
    out->dtype = in[0]->dtype;
    return rc;
}

/* Everything can be replaced; the other reductions are arithmetic. */
static int check_reduction(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           const struct eo_attrs *attrs, struct eo_error *err)
{
    return eo_attr_int(op, attrs, "reduction") == EO_SCATTER_REPLACE
               ? EO_OK
               : eo_shape_need_dtype(op, in, n_in, 0, EO_SET_NUMBER, err);
}

int eo_infer_scatter_elements(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                              const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = check_reduction(op, in, n_in, attrs, err);

    if (rc == EO_OK) {
        rc = check_elementwise_indices(op, in, n_in, attrs, err);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_same(op, in, n_in, 1, 2, err);
    }
    *out = *in[0];
    return rc;
}

/* ---- index tuples ---- */

static int check_batch_dims(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            int64_t batch_dims, struct eo_error *err)
{
    int code;

    for (int i = 0; i < 2; i++) {
        if (in[i]->n_dims <= batch_dims) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has rank %d, must be above batch_dims, which is %" PRId64,
                            op->input_names[i], in[i]->n_dims, batch_dims);
            eo_shape_mark(op, in, n_in, i, -1, -1, -1, err);
            return code;
        }
    }
    for (int d = 0; d < batch_dims; d++) {
        if (in[0]->shape[d] != in[1]->shape[d]) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                            "batch dimension %d differs: %" PRId64 " in x, %" PRId64 " in indices", d, in[0]->shape[d],
                            in[1]->shape[d]);
            eo_shape_mark(op, in, n_in, 0, d, 1, d, err);
            return code;
        }
    }
    return EO_OK;
}

/* The shape of what the tuples select: indices without its last dimension, then what they leave of x. */
static int selected(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *indices = in[1];
    int64_t batch_dims = eo_attr_int(op, attrs, "batch_dims"), n_coords;
    int last = indices->n_dims - 1, n_dims, rc = check_batch_dims(op, in, n_in, batch_dims, err);

    if (rc != EO_OK) {
        return rc;
    }
    n_coords = indices->shape[last];
    if (n_coords < 1 || n_coords > x->n_dims - batch_dims) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                      "the last dimension of indices is %" PRId64 ", must be 1 to %" PRId64 ": coordinates of x",
                      n_coords, x->n_dims - batch_dims);
        eo_shape_mark(op, in, n_in, 1, last, -1, -1, err);
        return rc;
    }
    for (int d = (int)batch_dims; d < batch_dims + n_coords; d++) {
        if (x->shape[d] == 0 && eo_tensor_desc_count(indices) > 0) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "dimension %d of x has no elements to index", d);
            eo_shape_mark(op, in, n_in, 0, d, -1, -1, err);
            return rc;
        }
    }
    n_dims = last + x->n_dims - (int)(batch_dims + n_coords);
    if (n_dims > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the selection", n_dims, err);
    }
    *out = (struct eo_tensor_desc){.dtype = x->dtype, .n_dims = (uint8_t)n_dims};
    memcpy(out->shape, indices->shape, (size_t)last * sizeof(out->shape[0]));
    memcpy(out->shape + last, x->shape + batch_dims + n_coords, (size_t)(n_dims - last) * sizeof(out->shape[0]));
    return EO_OK;
}

int eo_infer_gather_nd(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    return selected(op, in, n_in, attrs, out, err);
}

int eo_infer_scatter_nd(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc updates;
    int rc = check_reduction(op, in, n_in, attrs, err);

    if (rc == EO_OK) {
        rc = selected(op, in, n_in, attrs, &updates, err);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_shape(op, in, n_in, 2, &updates, err);
    }
    *out = *in[0];
    return rc;
}

struct eo_nd_shape eo_nd_shape(const struct eo_op_schema *op, const struct eo_attrs *attrs,
                               const struct eo_tensor_desc *x, const struct eo_tensor_desc *indices)
{
    int first = (int)eo_attr_int(op, attrs, "batch_dims"), last = indices->n_dims - 1;
    struct eo_nd_shape s = {.n_coords = (int)indices->shape[last], .tuples = 1, .slice = 1};

    for (int d = first; d < last; d++) {
        s.tuples *= indices->shape[d];
    }
    s.batch = 1;
    for (int d = 0; d < first; d++) {
        s.batch *= x->shape[d];
    }
    for (int d = first + s.n_coords; d < x->n_dims; d++) {
        s.slice *= x->shape[d];
    }
    s.x_batch = s.slice;
    for (int c = s.n_coords - 1; c >= 0; c--) {
        s.size[c] = x->shape[first + c];
        s.stride[c] = s.x_batch;
        s.x_batch *= s.size[c];
    }
    return s;
}

/* ---- results whose shape depends on data: the largest ---- */

int eo_infer_nonzero(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(attrs);
    *out =
        (struct eo_tensor_desc){.dtype = EO_INT64, .n_dims = 2, .shape = {in[0]->n_dims, eo_tensor_desc_count(in[0])}};
    return eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);
}

int eo_infer_compress(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int axis, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_dtype(op, in, n_in, 1, EO_SET_BOOL, err);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 1, 1, err);
    }
    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), x->n_dims, &axis, op->name, err);
    }
    if (rc == EO_OK && in[1]->shape[0] > x->shape[axis]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "condition has %" PRId64 " entries, axis %d of x has %" PRId64,
                      in[1]->shape[0], axis, x->shape[axis]);
        eo_shape_mark(op, in, n_in, 0, axis, 1, 0, err);
    }
    if (rc == EO_OK) {
        *out = *x;
        out->shape[axis] = in[1]->shape[0];
    }
    return rc;
}
