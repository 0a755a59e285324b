/* Shape rules of rows that create tensors from attributes and random numbers. */
#include "proto/shape_rules.h"

#include <math.h>

/* The attribute dtype is one that the row has. */
static int need_dtype_attribute(const struct eo_op_schema *op, enum eo_dtype dtype, struct eo_error *err)
{
    char text[160];

    if ((op->dtypes & EO_DTYPE_BIT(dtype)) != 0) {
        return EO_OK;
    }
    return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute dtype is %s, must be %s", eo_dtype_name(dtype),
                    eo_dtype_set_text(op->dtypes, text, sizeof(text)));
}

int eo_shape_created(const struct eo_op_schema *op, const struct eo_attrs *attrs, struct eo_tensor_desc *out,
                     struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)eo_attr_int(op, attrs, "dtype");
    const int64_t *shape;
    int n, rc = need_dtype_attribute(op, dtype, err);

    if (rc != EO_OK) {
        return rc;
    }
    shape = eo_attr_ints(op, attrs, "shape", &n);
    if (n > EO_MAX_DIMS) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute shape has %d entries, a tensor has at most %d dimensions",
                        n, EO_MAX_DIMS);
    }
    return eo_tensor_desc_init(out, dtype, shape, n, err);
}

int eo_infer_full(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)eo_attr_int(op, attrs, "dtype");
    double value = eo_attr_float(op, attrs, "value");

    EO_UNUSED(in);
    EO_UNUSED(n_in);
    if (!eo_dtype_holds(dtype, value)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute value is %.17g, which is not a value of %s", value,
                        eo_dtype_name(dtype));
    }
    return eo_shape_created(op, attrs, out, err);
}

int eo_infer_filled(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(in);
    EO_UNUSED(n_in);
    return eo_shape_created(op, attrs, out, err);
}

int eo_infer_eye(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int n;

    EO_UNUSED(in);
    EO_UNUSED(n_in);
    (void)eo_attr_ints(op, attrs, "shape", &n);
    if (n != 2) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute shape has %d entries, must have 2: rows, columns", n);
    }
    return eo_shape_created(op, attrs, out, err);
}

/* ---- sequences: one dimension of `count` elements ---- */

static int sequence(const struct eo_op_schema *op, const struct eo_attrs *attrs, struct eo_tensor_desc *out,
                    struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)eo_attr_int(op, attrs, "dtype");
    int64_t count = eo_attr_int(op, attrs, "count");
    int rc = need_dtype_attribute(op, dtype, err);

    return rc != EO_OK ? rc : eo_tensor_desc_init(out, dtype, &count, 1, err);
}

int eo_infer_arange(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(in);
    EO_UNUSED(n_in);
    return sequence(op, attrs, out, err);
}

int eo_infer_linspace(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    double start = eo_attr_float(op, attrs, "start"), stop = eo_attr_float(op, attrs, "stop");

    EO_UNUSED(in);
    EO_UNUSED(n_in);
    if (!isfinite(stop - start)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE,
                        "attribute start is %g and stop is %g: the range is wider than a float64", start, stop);
    }
    return sequence(op, attrs, out, err);
}

/* ---- random numbers ---- */

int eo_infer_uniform(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    double low = eo_attr_float(op, attrs, "low"), high = eo_attr_float(op, attrs, "high");
    int rc = eo_shape_need_rng(op, in, n_in, 0, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (low > high || !isfinite(high - low)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute low is %g and high is %g: %s", low, high,
                        low > high ? "low must not be above high" : "the range is wider than a float64");
    }
    return eo_shape_created(op, attrs, out, err);
}

int eo_infer_normal(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_rng(op, in, n_in, 0, err);

    return rc != EO_OK ? rc : eo_shape_created(op, attrs, out, err);
}

int eo_infer_bernoulli(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_rng(op, in, n_in, 0, err);

    return rc != EO_OK ? rc : eo_shape_created(op, attrs, out, err);
}

int eo_infer_permutation(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t n = eo_attr_int(op, attrs, "n");
    int rc = eo_shape_need_rng(op, in, n_in, 0, err);

    return rc != EO_OK ? rc : eo_tensor_desc_init(out, EO_INT64, &n, 1, err);
}
