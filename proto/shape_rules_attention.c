/* Shape rule of attention. */
#include "proto/shape_rules.h"

#include <inttypes.h>

enum { Q, K, V, MASK, RNG };

static int attention_dtypes(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            struct eo_error *err)
{
    int rc = eo_shape_need_dtype(op, in, n_in, Q, op->dtypes, err);

    for (int i = K; i <= V && rc == EO_OK; i++) {
        rc = eo_shape_need_same_dtype(op, in, n_in, Q, i, err);
    }
    if (rc == EO_OK && eo_input_given(in, n_in, MASK) && in[MASK]->dtype != EO_BOOL) {
        rc = eo_shape_need_same_dtype(op, in, n_in, Q, MASK, err);
    }
    return rc;
}

static int need_equal_dims(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                           int back_i, int j, int back_j, const char *what, struct eo_error *err)
{
    int di = in[i]->n_dims - back_i, dj = in[j]->n_dims - back_j, rc;

    if (in[i]->shape[di] == in[j]->shape[dj]) {
        return EO_OK;
    }
    rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s of %s is %" PRId64 ", of %s %" PRId64, what, op->input_names[i],
                  in[i]->shape[di], op->input_names[j], in[j]->shape[dj]);
    eo_shape_mark(op, in, n_in, i, di, j, dj, err);
    return rc;
}

/* Batch dimensions of q, k and v broadcast; out gets them, then the sizes of one matrix. */
static int attention_batch(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           int64_t rows, int64_t columns, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc batch[3];
    const struct eo_tensor_desc *batches[3];
    struct eo_broadcast_clash c;
    int n_dims, rc;

    for (int i = Q; i <= V; i++) {
        batch[i] = *in[i];
        batch[i].n_dims = (uint8_t)(batch[i].n_dims - 2);
        batches[i] = &batch[i];
    }
    *out = (struct eo_tensor_desc){.dtype = in[Q]->dtype};
    if (!eo_broadcast_dims(batches, 3, out->shape, &n_dims, &c)) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                      "batch dimensions do not broadcast: %s has %" PRId64 " where %s has %" PRId64,
                      op->input_names[c.a], in[c.a]->shape[c.dim_a], op->input_names[c.b], in[c.b]->shape[c.dim_b]);
        eo_shape_mark(op, in, n_in, c.a, c.dim_a, c.b, c.dim_b, err);
        return rc;
    }
    out->shape[n_dims] = rows;
    out->shape[n_dims + 1] = columns;
    out->n_dims = (uint8_t)(n_dims + 2);
    return EO_OK;
}

/* mask broadcasts to the scores and does not widen them. */
static int check_mask(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_tensor_desc *scores, struct eo_error *err)
{
    const struct eo_tensor_desc *mask = in[MASK];
    int lead = scores->n_dims - mask->n_dims, rc;

    for (int d = 0; d < mask->n_dims; d++) {
        if (lead < 0 || (mask->shape[d] != 1 && mask->shape[d] != scores->shape[lead + d])) {
            char text[192];

            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "mask must broadcast to the scores, %s",
                          eo_tensor_desc_text(scores, text, sizeof(text)));
            eo_shape_mark(op, in, n_in, MASK, d, -1, -1, err);
            return rc;
        }
    }
    return EO_OK;
}

static int check_dropout(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_error *err)
{
    double p = eo_attr_float(op, attrs, "p");
    bool given = eo_input_given(in, n_in, RNG);

    if (p >= 1) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute p is 1, must be below 1");
    }
    if (p > 0 && !given) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute p is %g, which needs operand rng", p);
    }
    return given ? eo_shape_need_rng(op, in, n_in, RNG, err) : EO_OK;
}

int eo_infer_attention(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc scores;
    int rc = attention_dtypes(op, in, n_in, err);

    for (int i = Q; i <= V && rc == EO_OK; i++) {
        if (in[i]->n_dims < 2) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has rank %d, must have rank 2 or more", op->input_names[i],
                          in[i]->n_dims);
            eo_shape_mark(op, in, n_in, i, -1, -1, -1, err);
        }
    }
    if (rc == EO_OK) {
        rc = need_equal_dims(op, in, n_in, Q, 1, K, 1, "the last size", err);
    }
    if (rc == EO_OK) {
        rc = need_equal_dims(op, in, n_in, K, 2, V, 2, "the number of rows", err);
    }
    if (rc == EO_OK) {
        rc = attention_batch(op, in, n_in, in[Q]->shape[in[Q]->n_dims - 2], in[K]->shape[in[K]->n_dims - 2], &scores,
                             err);
    }
    if (rc == EO_OK) {
        rc = eo_tensor_desc_check(&scores, err);
    }
    if (rc == EO_OK && eo_input_given(in, n_in, MASK)) {
        rc = check_mask(op, in, n_in, &scores, err);
    }
    if (rc == EO_OK) {
        rc = check_dropout(op, in, n_in, attrs, err);
    }
    if (rc == EO_OK) {
        *out = scores;
        out->shape[out->n_dims - 1] = in[V]->shape[in[V]->n_dims - 1];
    }
    return rc;
}
