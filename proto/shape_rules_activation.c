/* Shape rules of activations: element-wise rows whose attributes are numbers of the computation. */
#include "proto/shape_rules.h"

#include <float.h>
#include <math.h>

/* Halves compute in float32: their numbers only have to fit there. */
static bool fits(enum eo_dtype dtype, double v)
{
    return dtype == EO_FLOAT64 || fabs(v) <= (double)FLT_MAX;
}

static bool is_zero(enum eo_dtype dtype, double v)
{
    return dtype == EO_FLOAT64 ? v == 0 : (float)v == 0;
}

int eo_infer_activation(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_schema *attr = &op->attrs[i];

        if (attr->kind == EO_ATTR_FLOAT && !fits((enum eo_dtype)in[0]->dtype, attrs->v[i].f)) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %g, beyond the numbers that %s computes with",
                            attr->name, attrs->v[i].f, eo_dtype_name((enum eo_dtype)in[0]->dtype));
        }
    }
    if (op->op == EO_OP_CELU && is_zero((enum eo_dtype)in[0]->dtype, eo_attr_float(op, attrs, "alpha"))) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute alpha is %g, must not be 0 in the computation of %s",
                        eo_attr_float(op, attrs, "alpha"), eo_dtype_name((enum eo_dtype)in[0]->dtype));
    }
    EO_UNUSED(n_in);
    *out = *in[0];
    return EO_OK;
}

int eo_infer_prelu(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_infer_elementwise(op, in, n_in, attrs, out, err);

    if (rc != EO_OK || eo_tensor_desc_same_shape(out, in[0])) {
        return rc;
    }
    rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "slope must broadcast to the shape of x, not the other way round");
    eo_shape_mark(op, in, n_in, 0, -1, 1, -1, err);
    return rc;
}
