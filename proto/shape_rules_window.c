/* Shape rules of windows: unfold, fold, convolutions and pools. Their geometry is window_geometry.c. */
#include "proto/shape_rules_window.h"
#include "proto/base/checked.h"
#include "proto/shape_rules.h"

int eo_infer_unfold(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    double value = eo_attr_float(op, attrs, "value");
    struct eo_window_shape w;
    int rc;

    if (!eo_dtype_holds((enum eo_dtype)in[0]->dtype, value)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute value is %.17g, which is not a value of %s", value,
                        eo_dtype_name((enum eo_dtype)in[0]->dtype));
    }
    rc = eo_window_resolve(op, in, n_in, attrs, &w, err);
    out->n_dims = (uint8_t)(2 + 2 * w.n_axes);
    out->shape[0] = w.batch;
    for (int d = 0; d < w.n_axes && rc == EO_OK; d++) {
        out->shape[1 + d] = w.axis[d].count;
        out->shape[1 + w.n_axes + d] = w.axis[d].kernel;
    }
    out->shape[1 + 2 * w.n_axes] = w.channels;
    return rc;
}

/* (N, sizes..., channels) in the layout of the call: of the cells, or of the windows' results. */
static void set_image(const struct eo_window_shape *w, bool cells, struct eo_tensor_desc *out)
{
    out->n_dims = (uint8_t)(2 + w->n_axes);
    out->shape[0] = w->batch;
    out->shape[w->channels_first ? 1 : w->n_axes + 1] = cells ? w->channels : w->out_channels;
    for (int d = 0; d < w->n_axes; d++) {
        out->shape[d + (w->channels_first ? 2 : 1)] = cells ? w->axis[d].size : w->axis[d].count;
    }
}

int eo_infer_fold(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_window_shape w;
    int rc = eo_window_resolve(op, in, n_in, attrs, &w, err);

    set_image(&w, true, out);
    return rc;
}

int eo_infer_conv(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_window_shape w;
    int rc = eo_window_resolve(op, in, n_in, attrs, &w, err);

    set_image(&w, op->op == EO_OP_CONV_TRANSPOSE, out);
    return rc;
}

int eo_infer_conv_weight(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_window_shape w;
    int rc = eo_window_resolve(op, in, n_in, attrs, &w, err), first = w.channels_first ? 2 : 0;

    out->n_dims = (uint8_t)(2 + w.n_axes);
    out->shape[w.channels_first ? 1 : w.n_axes] = rc == EO_OK ? w.channels / w.groups : 0;
    out->shape[w.channels_first ? 0 : w.n_axes + 1] = w.out_channels;
    for (int d = 0; d < w.n_axes; d++) {
        out->shape[first + d] = w.axis[d].kernel;
    }
    return rc;
}

int eo_infer_pool(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_window_shape w;
    int rc = eo_window_resolve(op, in, n_in, attrs, &w, err);

    set_image(&w, false, &out[0]);
    if (op->n_outputs > 1) { /* max_pool: where the values were */
        out[1] = out[0];
        out[1].dtype = EO_INT64;
    }
    return rc;
}

int eo_infer_global_pool(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int code, channels = eo_attr_int(op, attrs, "layout") != 0 ? 1 : x->n_dims - 1;
    int64_t count = 1;

    if (x->n_dims < 3) {
        code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "x has rank %d, must have rank 3 or more", x->n_dims);
        eo_shape_mark(op, in, n_in, 0, -1, -1, -1, err);
        return code;
    }
    *out = *x;
    for (int d = 1; d < x->n_dims; d++) {
        if (d == channels) {
            continue;
        }
        if (x->shape[d] == 0) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "spatial dimension %d of x is empty", d);
            eo_shape_mark(op, in, n_in, 0, d, -1, -1, err);
            return code;
        }
        if (!eo_mul_i64(count, x->shape[d], &count)) { /* beside a size of 0 */
            return EO_RAISE(err, EO_E_TOO_LARGE, "the positions of x do not fit in 64 bits");
        }
        out->shape[d] = 1;
    }
    return EO_OK;
}
