/* Shape rules of normalization: the result looks like x, what scales it has one entry per channel or broadcasts. */
#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <inttypes.h>

/* x has `rank` dimensions or more. */
static int need_rank_from(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int rank,
                          struct eo_error *err)
{
    int code;

    if (in[0]->n_dims >= rank) {
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "x has rank %d, must have rank %d or more", in[0]->n_dims, rank);
    eo_shape_mark(op, in, n_in, 0, -1, -1, -1, err);
    return code;
}

static int channel_dim(const struct eo_op_schema *op, const struct eo_tensor_desc *x, const struct eo_attrs *attrs)
{
    return eo_attr_int(op, attrs, "layout") != 0 ? 1 : x->n_dims - 1;
}

/* x has a batch axis, a channel axis and `spatial` more; every other operand has one entry per channel. */
static int need_channels(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, int spatial, struct eo_error *err)
{
    int dim, rc = need_rank_from(op, in, n_in, 2 + spatial, err);

    for (int i = 1; i < n_in && rc == EO_OK; i++) {
        rc = eo_shape_need_rank(op, in, n_in, i, 1, err);
        dim = channel_dim(op, in[0], attrs);
        if (rc == EO_OK && in[i]->shape[0] != in[0]->shape[dim]) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has %" PRId64 " elements, x has %" PRId64 " channels",
                          op->input_names[i], in[i]->shape[0], in[0]->shape[dim]);
            eo_shape_mark(op, in, n_in, 0, dim, i, 0, err);
        }
    }
    return rc;
}

int eo_infer_channel_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                          const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    *out = *in[0];
    return need_channels(op, in, n_in, attrs, 0, err);
}

int eo_infer_batch_norm_train(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                              const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    out[0] = *in[0];
    out[1] = out[2] = *in[1];
    return need_channels(op, in, n_in, attrs, 0, err);
}

int eo_infer_instance_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    *out = *in[0];
    return need_channels(op, in, n_in, attrs, 1, err);
}

int eo_infer_group_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t groups = eo_attr_int(op, attrs, "groups");
    int dim, rc = need_channels(op, in, n_in, attrs, 0, err);

    *out = *in[0];
    if (rc != EO_OK) {
        return rc;
    }
    dim = channel_dim(op, in[0], attrs);
    if (in[0]->shape[dim] % groups != 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%" PRId64 " groups do not divide %" PRId64 " channels", groups,
                      in[0]->shape[dim]);
        eo_shape_mark(op, in, n_in, 0, dim, -1, -1, err);
    } else if (in[0]->n_dims == EO_MAX_DIMS) {
        rc = EO_RAISE(err, EO_E_TOO_LARGE, "x has rank %d, groups need one dimension more than %d", EO_MAX_DIMS,
                      EO_MAX_DIMS);
    }
    return rc;
}

/* Operand i broadcasts to x without making it larger. */
static int need_broadcast_to_x(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                               struct eo_error *err)
{
    int code, ahead = in[0]->n_dims - in[i]->n_dims;

    if (ahead < 0) {
        code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has rank %d, more than x", op->input_names[i], in[i]->n_dims);
        eo_shape_mark(op, in, n_in, i, -1, -1, -1, err);
        return code;
    }
    for (int d = 0; d < in[i]->n_dims; d++) {
        if (in[i]->shape[d] != 1 && in[i]->shape[d] != in[0]->shape[ahead + d]) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has %" PRId64 " where x has %" PRId64, op->input_names[i],
                            in[i]->shape[d], in[0]->shape[ahead + d]);
            eo_shape_mark(op, in, n_in, 0, ahead + d, i, d, err);
            return code;
        }
    }
    return EO_OK;
}

int eo_infer_layer_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis = 0, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);

    for (int i = 1; i < n_in && rc == EO_OK; i++) {
        rc = i > 1 && !eo_input_given(in, n_in, i) ? EO_OK : need_broadcast_to_x(op, in, n_in, i, err);
    }
    for (int o = 0; o < op->n_outputs; o++) {
        out[o] = *in[0];
        for (int d = axis; d < in[0]->n_dims && o > 0; d++) {
            out[o].shape[d] = 1;
        }
    }
    return rc;
}

int eo_infer_local_response_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t cells = 2;
    int rc = need_rank_from(op, in, n_in, 2, err);

    *out = *in[0];
    /* Two windows of all channels each: they can be counted also beside a size of 0. */
    for (int d = 0; d < in[0]->n_dims && rc == EO_OK && cells < INT64_MAX; d++) {
        int64_t size = EO_MAX(in[0]->shape[d], 1);

        if (!eo_mul_i64(cells, size, &cells) ||
            (d == channel_dim(op, in[0], attrs) && !eo_mul_i64(cells, size, &cells))) {
            cells = INT64_MAX;
        }
    }
    return rc == EO_OK && cells > INT64_MAX / 16
               ? EO_RAISE(err, EO_E_TOO_LARGE, "the windows of all channels do not fit in 64 bits")
               : rc;
}

int eo_infer_mean_variance_norm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                                const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axes[EO_MAX_DIMS], n, n_axes;
    const int64_t *list = eo_attr_ints(op, attrs, "axes", &n);

    EO_UNUSED(n_in);
    *out = *in[0];
    return eo_normalize_axes(list, n, in[0]->n_dims, axes, &n_axes, op->name, err);
}
