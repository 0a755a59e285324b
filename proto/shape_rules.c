/* Shape rules of rows that compute: element-wise, losses, updates. What moves elements is in shape_rules_move.c, other
 * families are in shape_rules_<family>.c. */
#include "proto/shape_rules.h"

#include "proto/philox.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- errors that show the operands ---- */

static const char *input_name(const struct eo_op_schema *op, int i, char *out, size_t size)
{
    if ((op->flags & EO_OPF_VARIADIC) != 0) {
        snprintf(out, size, "%s[%d]", op->input_names[0], i);
    } else if (i < (int)EO_COUNT_OF(op->input_names) && op->input_names[i] != NULL) {
        snprintf(out, size, "%s", op->input_names[i]);
    } else {
        snprintf(out, size, "extra");
    }
    return out;
}

void eo_shape_mark(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i, int dim_i,
                   int j, int dim_j, struct eo_error *err)
{
    int spare = EO_ERROR_INPUTS; /* places for operands that are not marked */
    char name[24];

    if (n_in > EO_ERROR_INPUTS) {
        spare -= (i >= 0 ? 1 : 0) + (j >= 0 && j != i ? 1 : 0);
    }
    for (int k = 0; k < n_in; k++) {
        bool marked = k == i || k == j;

        if (!marked && spare-- <= 0) {
            continue;
        }
        eo_error_input_desc(err, input_name(op, k, name, sizeof(name)), in[k], k == i ? dim_i : k == j ? dim_j : -1);
    }
}

int eo_shape_need_dtype(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                        eo_dtype_set set, struct eo_error *err)
{
    char name[24], text[160];
    int code;

    if ((set & EO_DTYPE_BIT(in[i]->dtype)) != 0) {
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_DTYPE_MISMATCH, "input %s is %s, must be %s", input_name(op, i, name, sizeof(name)),
                    eo_dtype_name((enum eo_dtype)in[i]->dtype), eo_dtype_set_text(set, text, sizeof(text)));
    eo_error_hint(err, "Insert a cast: operations are strictly typed.");
    eo_shape_mark(op, in, n_in, i, -1, -1, -1, err);
    return code;
}

int eo_shape_need_same_dtype(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int like,
                             int i, struct eo_error *err)
{
    char a[24], b[24];
    int code;

    if (in[i]->dtype == in[like]->dtype) {
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_DTYPE_MISMATCH, "dtypes differ: %s is %s, %s is %s", input_name(op, like, a, sizeof(a)),
                    eo_dtype_name((enum eo_dtype)in[like]->dtype), input_name(op, i, b, sizeof(b)),
                    eo_dtype_name((enum eo_dtype)in[i]->dtype));
    eo_error_hint(err, "Insert a cast: operations are strictly typed.");
    eo_shape_mark(op, in, n_in, like, -1, i, -1, err);
    return code;
}

int eo_shape_need_rank(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i, int rank,
                       struct eo_error *err)
{
    char name[24];
    int code;

    if (in[i]->n_dims == rank) {
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s has rank %d, must have rank %d",
                    input_name(op, i, name, sizeof(name)), in[i]->n_dims, rank);
    eo_shape_mark(op, in, n_in, i, -1, -1, -1, err);
    return code;
}

int eo_shape_need_same(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int like, int i,
                       struct eo_error *err)
{
    char a[24], b[24];
    int code, dim = -1;

    if (eo_tensor_desc_same_shape(in[like], in[i])) {
        return EO_OK;
    }
    for (int d = 0; in[i]->n_dims == in[like]->n_dims && dim < 0; d++) {
        dim = in[i]->shape[d] != in[like]->shape[d] ? d : -1;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s and %s must have the same shape", input_name(op, like, a, sizeof(a)),
                    input_name(op, i, b, sizeof(b)));
    eo_shape_mark(op, in, n_in, like, dim, i, dim, err);
    return code;
}

int eo_shape_need_shape(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                        const struct eo_tensor_desc *wanted, struct eo_error *err)
{
    char text[192];
    int code, dim = -1;

    if (eo_tensor_desc_same_shape(in[i], wanted)) {
        return EO_OK;
    }
    for (int d = 0; in[i]->n_dims == wanted->n_dims && dim < 0; d++) {
        dim = in[i]->shape[d] != wanted->shape[d] ? d : -1;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s must be %s", op->input_names[i],
                    eo_tensor_desc_text(wanted, text, sizeof(text)));
    eo_shape_mark(op, in, n_in, i, dim, -1, -1, err);
    return code;
}

int eo_shape_too_many_dims(const char *what, int n, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_TOO_LARGE, "%s would have %d dimensions, at most %d are possible", what, n, EO_MAX_DIMS);
}

int eo_shape_need_rng(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                      struct eo_error *err)
{
    int code = eo_shape_need_dtype(op, in, n_in, i, EO_SET_INT64, err);

    if (code != EO_OK || (in[i]->n_dims == 1 && in[i]->shape[0] == EO_RNG_WORDS)) {
        return code;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "rng must have shape [%d]: seed, step, row offset", EO_RNG_WORDS);
    eo_shape_mark(op, in, n_in, i, in[i]->n_dims == 1 ? 0 : -1, -1, -1, err);
    return code;
}

/* ---- element-wise ---- */

int eo_infer_elementwise(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_broadcast_clash c;
    char a[24], b[24];
    int n_dims, code;

    EO_UNUSED(attrs);
    if (eo_broadcast_dims(in, n_in, out->shape, &n_dims, &c)) {
        out->n_dims = (uint8_t)n_dims;
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "shapes do not broadcast: %s has %" PRId64 " where %s has %" PRId64,
                    input_name(op, c.a, a, sizeof(a)), in[c.a]->shape[c.dim_a], input_name(op, c.b, b, sizeof(b)),
                    in[c.b]->shape[c.dim_b]);
    eo_error_detail(err, "Shapes are aligned at their last dimension; aligned sizes must be equal, or one of them 1.");
    eo_shape_mark(op, in, n_in, c.a, c.dim_a, c.b, c.dim_b, err);
    return code;
}

int eo_infer_clip(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    static const char *const bounds[] = {"low", "high"};
    double v[2];

    for (int i = 0; i < 2; i++) {
        v[i] = eo_attr_float(op, attrs, bounds[i]);
        if (isnan(v[i]) || (!isinf(v[i]) && !eo_dtype_holds((enum eo_dtype)in[0]->dtype, v[i]))) {
            return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute %s is %.17g, must be infinite or a value of %s",
                            bounds[i], v[i], eo_dtype_name((enum eo_dtype)in[0]->dtype));
        }
    }
    if (v[0] > v[1]) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute low is %g, above high, which is %g", v[0], v[1]);
    }
    return eo_infer_elementwise(op, in, n_in, attrs, out, err);
}

int eo_infer_cast(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(n_in);
    return eo_tensor_desc_init(out, (enum eo_dtype)eo_attr_int(op, attrs, "dtype"), in[0]->shape, in[0]->n_dims, err);
}

int eo_infer_where(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_dtype(op, in, n_in, 0, EO_SET_BOOL, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_dtype(op, in, n_in, 1, op->dtypes, err);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_same_dtype(op, in, n_in, 1, 2, err);
    }
    out->dtype = in[1]->dtype;
    return rc != EO_OK ? rc : eo_infer_elementwise(op, in, n_in, attrs, out, err);
}

/* ---- losses and random layers ---- */

int eo_infer_cross_entropy(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *logits = in[0], *targets = in[1];
    int rc = eo_shape_need_rank(op, in, n_in, 0, 2, err);

    EO_UNUSED(attrs);
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 1, 1, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (logits->shape[0] != targets->shape[0]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%" PRId64 " rows of logits, but %" PRId64 " targets", logits->shape[0],
                      targets->shape[0]);
        eo_shape_mark(op, in, n_in, 0, 0, 1, 0, err);
        return rc;
    }
    if (logits->shape[0] > 0 && logits->shape[1] == 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "logits have no classes");
        eo_shape_mark(op, in, n_in, 0, 1, -1, -1, err);
        return rc;
    }
    out->n_dims = 1;
    out->shape[0] = logits->shape[0];
    return EO_OK;
}

int eo_infer_dropout(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_rng(op, in, n_in, 1, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (eo_attr_float(op, attrs, "p") >= 1) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute p is 1, must be below 1");
    }
    *out = *in[0];
    return EO_OK;
}

/* ---- updates over flat vectors ---- */

int eo_infer_sum_squares(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    EO_UNUSED(attrs);
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 0, 1, err);
    }
    return rc != EO_OK ? rc : eo_tensor_desc_init(out, EO_FLOAT64, NULL, 0, err);
}

/* Operand 0 is the parameter vector; operands 1..n_slots have its dtype and shape, where those in `optional` (bit i)
 * may be empty; the last operand holds at least n_scalars float64. Output k takes the descriptor of operand outs[k]. */
static int update_shapes(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         unsigned optional, int n_scalars, struct eo_error *err)
{
    int last = n_in - 1, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, 0, 1, err);
    }
    for (int i = 1; i < last && rc == EO_OK; i++) {
        bool empty = in[i]->n_dims == 1 && in[i]->shape[0] == 0;

        rc = eo_shape_need_same_dtype(op, in, n_in, 0, i, err);
        if (rc == EO_OK && !(empty && (optional & 1U << i) != 0)) {
            rc = eo_shape_need_same(op, in, n_in, 0, i, err);
        }
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_dtype(op, in, n_in, last, EO_DTYPE_BIT(EO_FLOAT64), err);
    }
    if (rc == EO_OK) {
        rc = eo_shape_need_rank(op, in, n_in, last, 1, err);
    }
    if (rc == EO_OK && in[last]->shape[0] < n_scalars) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "%s needs %d scalars, not %" PRId64, op->name, n_scalars,
                      in[last]->shape[0]);
        eo_shape_mark(op, in, n_in, last, 0, -1, -1, err);
    }
    return rc;
}

int eo_infer_sgd_update(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                        const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum { PARAM, GRAD_, VELOCITY, N_SCALARS = 5 };
    int rc = update_shapes(op, in, n_in, 1U << VELOCITY, N_SCALARS, err);

    EO_UNUSED(attrs);
    out[0] = *in[PARAM];
    out[1] = *in[VELOCITY];
    return rc;
}

int eo_infer_rmsprop_update(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum { PARAM, GRAD_, SQUARE, MEAN, VELOCITY, N_SCALARS = 6 };
    int rc = update_shapes(op, in, n_in, 1U << MEAN | 1U << VELOCITY, N_SCALARS, err);

    EO_UNUSED(attrs);
    out[0] = *in[PARAM];
    for (int i = SQUARE; i <= VELOCITY; i++) {
        out[i - SQUARE + 1] = *in[i];
    }
    return rc;
}

/* Optimizers with one slot that is always there. */
int eo_infer_slot_update(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum { PARAM, GRAD_, SLOT };
    int rc = update_shapes(op, in, n_in, 0, op->op == EO_OP_ADAGRAD_UPDATE ? 6 : 5, err);

    EO_UNUSED(attrs);
    out[0] = *in[PARAM];
    out[1] = *in[SLOT];
    return rc;
}

int eo_infer_adam_update(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    enum { PARAM, GRAD_, M, V, VMAX, N_SCALARS = 8 };
    bool amsgrad = eo_attr_int(op, attrs, "amsgrad") != 0;
    int rc = update_shapes(op, in, n_in, amsgrad ? 0 : 1U << VMAX, N_SCALARS, err);

    if (rc == EO_OK && !amsgrad && in[VMAX]->shape[0] != 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "vmax must be empty: only amsgrad keeps it");
        eo_shape_mark(op, in, n_in, VMAX, 0, -1, -1, err);
    }
    out[0] = *in[PARAM];
    for (int i = M; i <= VMAX; i++) {
        out[i - M + 1] = *in[i];
    }
    return rc;
}
