/* Shape rules of the products. */
#include "proto/shape_rules.h"

#include "proto/einsum.h"

#include <inttypes.h>
#include <string.h>

/* The dimensions of one operand of a matrix product: positions of rows, columns and the batch part. */
struct product_side {
    int row, column; /* -1 = the promoted dimension of a vector */
    int n_batch;
};

static struct product_side side_of(const struct eo_tensor_desc *d, bool transpose, bool is_left)
{
    int last = d->n_dims - 1;

    if (d->n_dims == 1) {
        return is_left ? (struct product_side){-1, 0, 0} : (struct product_side){0, -1, 0};
    }
    return (struct product_side){transpose ? last : last - 1, transpose ? last - 1 : last, last - 1};
}

static int64_t size_at(const struct eo_tensor_desc *d, int dim)
{
    return dim < 0 ? 1 : d->shape[dim];
}

/* "Set transpose_b" when that makes the product possible, else the shape that would fit. */
static void hint_product(const struct eo_tensor_desc *const *in, struct product_side a, struct product_side b,
                         struct eo_error *err)
{
    int64_t k = size_at(in[0], a.column);

    if (in[1]->n_dims >= 2 && size_at(in[1], b.column) == k) {
        eo_error_hint(err, "Change transpose_b, or pass the second input with %" PRId64 " rows.", k);
    } else if (in[0]->n_dims >= 2 && size_at(in[0], a.row) == size_at(in[1], b.row)) {
        eo_error_hint(err, "Change transpose_a, or pass the second input with %" PRId64 " rows.", k);
    } else {
        eo_error_hint(err, "The second input must have %" PRId64 " rows.", k);
    }
}

int eo_matmul_shape(const struct eo_op_schema *op, const struct eo_tensor_desc *a, const struct eo_tensor_desc *b,
                    bool transpose_a, bool transpose_b, struct eo_matmul_shape *out, struct eo_error *err)
{
    const struct eo_tensor_desc *const in[2] = {a, b};
    const struct eo_tensor_desc *batches[2];
    struct eo_tensor_desc batch[2];
    struct product_side left, right;
    struct eo_broadcast_clash c;
    int code;

    for (int i = 0; i < 2; i++) {
        if (in[i]->n_dims == 0) {
            code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s is a scalar, must have rank 1 or more", op->input_names[i]);
            eo_error_hint(err, "Use multiply for a product with a scalar.");
            eo_shape_mark(op, in, 2, i, -1, -1, -1, err);
            return code;
        }
    }
    left = side_of(a, transpose_a, true);
    right = side_of(b, transpose_b, false);
    if (a->shape[left.column] != b->shape[right.row]) {
        code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "inner dimensions differ: %" PRId64 " and %" PRId64,
                        a->shape[left.column], b->shape[right.row]);
        hint_product(in, left, right, err);
        eo_shape_mark(op, in, 2, 0, left.column, 1, right.row, err);
        return code;
    }
    for (int i = 0; i < 2; i++) {
        batch[i] = *in[i];
        batch[i].n_dims = (uint8_t)(i == 0 ? left.n_batch : right.n_batch);
        batches[i] = &batch[i];
    }
    if (!eo_broadcast_dims(batches, 2, out->batch, &out->n_batch, &c)) {
        code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "batch dimensions do not broadcast: %" PRId64 " and %" PRId64,
                        batch[c.a].shape[c.dim_a], batch[c.b].shape[c.dim_b]);
        eo_shape_mark(op, in, 2, c.a, c.dim_a, c.b, c.dim_b, err);
        return code;
    }
    out->m = size_at(a, left.row);
    out->k = a->shape[left.column];
    out->n = size_at(b, right.column);
    return EO_OK;
}

int eo_infer_matmul(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_matmul_shape s;
    int rc = eo_matmul_shape(op, in[0], in[1], eo_attr_int(op, attrs, "transpose_a") != 0,
                             eo_attr_int(op, attrs, "transpose_b") != 0, &s, err);

    EO_UNUSED(n_in);
    if (rc != EO_OK) {
        return rc;
    }
    memcpy(out->shape, s.batch, (size_t)s.n_batch * sizeof(s.batch[0]));
    out->n_dims = (uint8_t)s.n_batch;
    if (in[0]->n_dims > 1) {
        out->shape[out->n_dims++] = s.m;
    }
    if (in[1]->n_dims > 1) {
        out->shape[out->n_dims++] = s.n;
    }
    return EO_OK;
}

int eo_infer_linear(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0], *weight = in[1], *bias = in[2];
    int rc = eo_shape_need_rank(op, in, n_in, 1, 2, err);

    EO_UNUSED(attrs);
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 2, 1, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (x->n_dims == 0 || x->shape[x->n_dims - 1] != weight->shape[0]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "the last dimension of x must be %" PRId64 ", the rows of weight",
                      weight->shape[0]);
        eo_shape_mark(op, in, n_in, 0, x->n_dims - 1, 1, 0, err);
        return rc;
    }
    if (bias->shape[0] != weight->shape[1]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "bias has %" PRId64 " elements, weight has %" PRId64 " columns",
                      bias->shape[0], weight->shape[1]);
        eo_shape_mark(op, in, n_in, 1, 1, 2, 0, err);
        return rc;
    }
    memcpy(out->shape, x->shape, sizeof(out->shape));
    out->n_dims = x->n_dims;
    out->shape[out->n_dims - 1] = weight->shape[1];
    return EO_OK;
}

/* (M, K) @ (K, N), and c that broadcasts to (M, N). */
int eo_infer_gemm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    static const char *const factors[] = {"alpha", "beta"};
    struct eo_matmul_shape s;
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < 2; i++) {
        double factor = eo_attr_float(op, attrs, factors[i]);

        rc = eo_shape_need_rank(op, in, n_in, i, 2, err);
        if (rc == EO_OK && !eo_dtype_holds((enum eo_dtype)in[0]->dtype, factor)) {
            rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %.17g, which is not a value of %s", factors[i],
                          factor, eo_dtype_name((enum eo_dtype)in[0]->dtype));
        }
    }
    if (rc == EO_OK) {
        rc = eo_matmul_shape(op, in[0], in[1], eo_attr_int(op, attrs, "transpose_a") != 0,
                             eo_attr_int(op, attrs, "transpose_b") != 0, &s, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    out->n_dims = 2;
    out->shape[0] = s.m;
    out->shape[1] = s.n;
    for (int d = 0; eo_input_given(in, n_in, 2) && d < in[2]->n_dims; d++) {
        int64_t size = in[2]->shape[d];
        int to = d + 2 - in[2]->n_dims;

        if (to < 0 || (size != 1 && size != out->shape[to])) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "c does not broadcast to (%" PRId64 ", %" PRId64 ")", s.m, s.n);
            eo_shape_mark(op, in, n_in, 2, d, -1, -1, err);
            return rc;
        }
    }
    return EO_OK;
}

int eo_infer_dot(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    /* The flags that it asks for are not in this row, which reads as 0. */
    return eo_infer_matmul(op, in, n_in, attrs, out, err);
}

int eo_infer_outer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = EO_OK;

    EO_UNUSED(attrs);
    for (int i = 0; rc == EO_OK && i < 2; i++) {
        rc = eo_shape_need_rank(op, in, n_in, i, 1, err);
        out->shape[i] = in[i]->shape[0];
    }
    out->n_dims = 2;
    return rc;
}

int eo_infer_einsum(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                    const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_einsum e;
    int rc = eo_einsum_read(op, in, n_in, attrs, &e, err);

    for (int d = 0; rc == EO_OK && d < e.n_out; d++) {
        out->shape[out->n_dims++] = e.size[e.out[d]];
    }
    return rc;
}
