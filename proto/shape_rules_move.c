/* Shape rules of rows that move elements without computing: reshape, transpose, concatenate, slice. Rows that work by
 * indices are in shape_rules_index.c. */
#include "proto/shape_rules.h"

#include "proto/base/checked.h"

#include <inttypes.h>
#include <string.h>

/* Product of the entries other than -1; false on overflow. */
static bool known_product(const int64_t *shape, int n, int64_t *out)
{
    int64_t product = 1;
    bool zero = false;

    for (int i = 0; i < n; i++) {
        zero |= shape[i] == 0;
        if (shape[i] > 0 && !eo_mul_i64(product, shape[i], &product)) {
            return false;
        }
    }
    *out = zero ? 0 : product;
    return true;
}

int eo_infer_reshape(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t count = eo_tensor_desc_count(in[0]), known;
    const int64_t *shape;
    int n, unknown = -1;

    EO_UNUSED(n_in);
    shape = eo_attr_ints(op, attrs, "shape", &n);
    if (n > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", n, err);
    }
    for (int i = 0; i < n; i++) {
        if (shape[i] == -1 && unknown >= 0) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute shape has -1 in entries %d and %d; one is possible",
                            unknown, i);
        }
        unknown = shape[i] == -1 ? i : unknown;
    }
    if (!known_product(shape, n, &known)) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the product of attribute shape does not fit in 64 bits");
    }
    if (unknown >= 0 && known == 0) {
        return EO_RAISE(err, EO_E_SHAPE_MISMATCH, "-1 in entry %d of shape cannot be worked out beside a size of 0",
                        unknown);
    }
    if (unknown >= 0 ? count % known != 0 : count != known) {
        return EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%" PRId64 " elements cannot take a shape of %s%" PRId64 " elements",
                        count, unknown >= 0 ? "a multiple of " : "", known);
    }
    out->n_dims = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        out->shape[i] = i == unknown ? count / known : shape[i];
    }
    return EO_OK;
}

int eo_infer_transpose(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    bool seen[EO_MAX_DIMS] = {false};
    const int64_t *perm;
    int n;

    EO_UNUSED(n_in);
    perm = eo_attr_ints(op, attrs, "perm", &n);
    if (n != 0 && n != x->n_dims) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute perm has %d entries, x has rank %d", n, x->n_dims);
    }
    for (int i = 0; i < n; i++) {
        if (perm[i] >= x->n_dims) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "entry %d of attribute perm is %" PRId64 ", x has rank %d", i,
                            perm[i], x->n_dims);
        }
        if (seen[perm[i]]) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute perm is no permutation: %" PRId64 " is there twice",
                            perm[i]);
        }
        seen[perm[i]] = true;
    }
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) {
        out->shape[i] = x->shape[n == 0 ? x->n_dims - 1 - i : perm[i]];
    }
    return EO_OK;
}

int eo_infer_expand(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    const int64_t *shape;
    int n, code;

    shape = eo_attr_ints(op, attrs, "shape", &n);
    if (n > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", n, err);
    }
    if (n < x->n_dims) {
        return EO_RAISE(err, EO_E_SHAPE_MISMATCH, "x has rank %d and cannot expand to rank %d", x->n_dims, n);
    }
    for (int i = 0; i < x->n_dims; i++) {
        int64_t wanted = shape[n - x->n_dims + i];

        if (x->shape[i] != 1 && x->shape[i] != wanted) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "a dimension of %" PRId64 " cannot expand to %" PRId64,
                            x->shape[i], wanted);
            eo_shape_mark(op, in, n_in, 0, i, -1, -1, err);
            return code;
        }
    }
    out->n_dims = (uint8_t)n;
    memcpy(out->shape, shape, (size_t)n * sizeof(*shape));
    return EO_OK;
}

int eo_infer_concatenate(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axis, code = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), in[0]->n_dims, &axis, op->name, err);

    if (code != EO_OK) {
        return code;
    }
    memcpy(out->shape, in[0]->shape, sizeof(out->shape));
    out->n_dims = in[0]->n_dims;
    for (int k = 1; k < n_in; k++) {
        if (in[k]->n_dims != in[0]->n_dims) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "ranks differ: %d and %d", in[0]->n_dims, in[k]->n_dims);
            eo_shape_mark(op, in, n_in, 0, -1, k, -1, err);
            return code;
        }
        for (int d = 0; d < in[0]->n_dims; d++) {
            if (d != axis && in[k]->shape[d] != in[0]->shape[d]) {
                code = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                                "dimension %d differs: %" PRId64 " and %" PRId64 "; only axis %d may", d,
                                in[0]->shape[d], in[k]->shape[d], axis);
                eo_shape_mark(op, in, n_in, 0, d, k, d, err);
                return code;
            }
        }
        if (!eo_add_i64(out->shape[axis], in[k]->shape[axis], &out->shape[axis])) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "the joined axis does not fit in 64 bits");
        }
    }
    return EO_OK;
}

/* ---- slices ---- */

/* Python's rule: negative counts from the end, then clamped to what the direction can reach. */
static int64_t clamp_index(int64_t index, int64_t size, int64_t below, int64_t above)
{
    if (index < 0) {
        index += size; /* cannot overflow: the signs differ */
        return index < 0 ? below : EO_MIN(index, above);
    }
    return index >= size ? above : index;
}

struct eo_slice_dim eo_slice_resolve(int64_t start, int64_t stop, int64_t step, int64_t size)
{
    int64_t below = step < 0 ? -1 : 0, above = step < 0 ? size - 1 : size;
    int64_t first = clamp_index(start, size, below, above), end = clamp_index(stop, size, below, above);
    uint64_t distance = 0, stride = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;

    if (step > 0 && end > first) {
        distance = (uint64_t)(end - first);
    } else if (step < 0 && first > end) {
        distance = (uint64_t)(first - end);
    }
    if (distance == 0) {
        return (struct eo_slice_dim){0, 1, 0};
    }
    return (struct eo_slice_dim){first, step, (int64_t)((distance - 1) / stride) + 1};
}

int eo_slice_dims(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                  struct eo_slice_dim out[EO_MAX_DIMS], struct eo_error *err)
{
    static const char *const lists[] = {"starts", "stops", "steps"};
    const int64_t *v[3];
    int n[3];

    for (int i = 0; i < 3; i++) {
        v[i] = eo_attr_ints(op, attrs, lists[i], &n[i]);
        if (n[i] != x->n_dims && !(i == 2 && n[i] == 0)) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s has %d entries, x has rank %d", lists[i], n[i],
                            x->n_dims);
        }
    }
    for (int d = 0; d < x->n_dims; d++) {
        int64_t step = n[2] == 0 ? 1 : v[2][d];

        if (step == 0) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "entry %d of attribute steps is 0", d);
        }
        out[d] = eo_slice_resolve(v[0][d], v[1][d], step, x->shape[d]);
    }
    return EO_OK;
}

static int slice_result(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                        struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_slice_dim dims[EO_MAX_DIMS];
    int rc = eo_slice_dims(op, attrs, x, dims, err);

    out->n_dims = x->n_dims;
    for (int d = 0; d < x->n_dims && rc == EO_OK; d++) {
        out->shape[d] = dims[d].count;
    }
    return rc;
}

int eo_infer_slice(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(n_in);
    return slice_result(op, attrs, in[0], out, err);
}

int eo_infer_slice_scatter(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc slice = {.dtype = in[0]->dtype};
    int rc = slice_result(op, attrs, in[0], &slice, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_shape(op, in, n_in, 1, &slice, err);
    }
    *out = *in[0];
    return rc;
}
