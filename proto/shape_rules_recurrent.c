/* Shape rules of recurrent layers. */
#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <string.h>

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES };
enum { BIDIRECTIONAL = 2, BATCH_FIRST = 1 };

/* One call under check. */
struct recurrent {
    const struct eo_op_schema *op;
    const struct eo_tensor_desc *const *in;
    int n_in;
    int64_t steps, batch, features, hidden, directions, gates; /* T, B, I, H, D, G */
    bool batch_first;
};

static int check_dtypes(const struct recurrent *c, struct eo_error *err)
{
    int rc = eo_shape_need_dtype(c->op, c->in, c->n_in, X, c->op->dtypes, err);

    for (int i = 1; i < c->n_in && rc == EO_OK; i++) {
        if (!eo_input_given(c->in, c->n_in, i)) {
            continue;
        }
        rc = i == LENGTHS ? eo_shape_need_dtype(c->op, c->in, c->n_in, i, EO_SET_INT64, err)
                          : eo_shape_need_same_dtype(c->op, c->in, c->n_in, X, i, err);
    }
    return rc;
}

/* Operand i has these sizes; what they are is said by `names`, "(D, G H, I)". */
static int need_sizes(const struct recurrent *c, int i, int rank, const int64_t *sizes, const char *names,
                      struct eo_error *err)
{
    const struct eo_tensor_desc *d = c->in[i];
    int rc = eo_shape_need_rank(c->op, c->in, c->n_in, i, rank, err);

    for (int k = 0; k < rank && rc == EO_OK; k++) {
        if (d->shape[k] != sizes[k]) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "dimension %d of %s is %" PRId64 ", must be %" PRId64, k,
                          c->op->input_names[i], d->shape[k], sizes[k]);
            eo_error_detail(err, "%s must be %s", c->op->input_names[i], names);
            eo_shape_mark(c->op, c->in, c->n_in, i, k, -1, -1, err);
        }
    }
    return rc;
}

/* T, B, I from x; H from the rows of w, which are G H. */
static int read_sizes(struct recurrent *c, struct eo_error *err)
{
    const struct eo_tensor_desc *x = c->in[X], *w = c->in[W];
    int rc = eo_shape_need_rank(c->op, c->in, c->n_in, X, 3, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_rank(c->op, c->in, c->n_in, W, 3, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    c->steps = x->shape[c->batch_first ? 1 : 0];
    c->batch = x->shape[c->batch_first ? 0 : 1];
    c->features = x->shape[2];
    c->hidden = w->shape[1] / c->gates;
    if (w->shape[1] % c->gates != 0) {
        rc =
            EO_RAISE(err, EO_E_SHAPE_MISMATCH,
                     "dimension 1 of w is %" PRId64 ", must be a multiple of %" PRId64 " gates", w->shape[1], c->gates);
        eo_shape_mark(c->op, c->in, c->n_in, W, 1, -1, -1, err);
    } else if (c->steps > EO_RECURRENT_MAX_STEPS) {
        rc = EO_RAISE(err, EO_E_TOO_LARGE, "x has %" PRId64 " steps, at most %d are possible", c->steps,
                      EO_RECURRENT_MAX_STEPS);
        eo_error_hint(err, "Cut the sequence and hand the final states on as initial ones.");
        eo_shape_mark(c->op, c->in, c->n_in, X, c->batch_first ? 1 : 0, -1, -1, err);
    }
    return rc;
}

/* The products of all steps at once, (T B, G H), and the biases, (D, 2 G H), must be possible. */
static int check_largest(const struct recurrent *c, int64_t *out_rows, int64_t *out_bias, struct eo_error *err)
{
    struct eo_tensor_desc largest;
    int64_t all;

    *out_rows = c->gates * c->hidden; /* no more than w has */
    if (!eo_mul_i64(c->steps, c->batch, &all) || !eo_mul_i64(*out_rows, 2, out_bias)) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%" PRId64 " steps of %" PRId64 " rows by %" PRId64 " gates x hidden",
                        c->steps, c->batch, *out_rows);
    }
    return eo_tensor_desc_init(&largest, EO_FLOAT64, (int64_t[]){all, *out_bias}, 2, err);
}

static int check_weights(const struct recurrent *c, struct eo_error *err)
{
    int64_t rows = 0, bias = 0;
    int rc = check_largest(c, &rows, &bias, err);

    if (rc == EO_OK) {
        rc = need_sizes(c, W, 3, (int64_t[]){c->directions, rows, c->features}, "(directions, gates x hidden, input)",
                        err);
    }
    if (rc == EO_OK) {
        rc = need_sizes(c, R, 3, (int64_t[]){c->directions, rows, c->hidden}, "(directions, gates x hidden, hidden)",
                        err);
    }
    if (rc == EO_OK && eo_input_given(c->in, c->n_in, B)) {
        rc = need_sizes(c, B, 2, (int64_t[]){c->directions, bias}, "(directions, 2 x gates x hidden)", err);
    }
    if (rc == EO_OK && eo_input_given(c->in, c->n_in, PEEPHOLES)) {
        rc = need_sizes(c, PEEPHOLES, 2, (int64_t[]){c->directions, 3 * c->hidden}, "(directions, 3 x hidden)", err);
    }
    return rc;
}

static int check_states(const struct recurrent *c, struct eo_error *err)
{
    int64_t time_first[3] = {c->directions, c->batch, c->hidden}, batch_first[3] = {c->batch, c->directions, c->hidden};
    int rc = EO_OK;

    if (eo_input_given(c->in, c->n_in, LENGTHS)) {
        rc = need_sizes(c, LENGTHS, 1, &c->batch, "(batch)", err);
    }
    for (int i = INITIAL_H; i <= INITIAL_C && rc == EO_OK; i++) {
        if (eo_input_given(c->in, c->n_in, i)) {
            rc = need_sizes(c, i, 3, c->batch_first ? batch_first : time_first,
                            c->batch_first ? "(batch, directions, hidden)" : "(directions, batch, hidden)", err);
        }
    }
    return rc;
}

static int infer(struct recurrent *c, const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = check_dtypes(c, err);

    c->batch_first = eo_attr_int(c->op, attrs, "layout") == BATCH_FIRST;
    c->directions = eo_attr_int(c->op, attrs, "direction") == BIDIRECTIONAL ? 2 : 1;
    if (rc == EO_OK) {
        rc = read_sizes(c, err);
    }
    if (rc == EO_OK) {
        rc = check_weights(c, err);
    }
    if (rc == EO_OK) {
        rc = check_states(c, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    for (int o = 0; o < c->op->n_outputs; o++) {
        int64_t y[4] = {c->steps, c->directions, c->batch, c->hidden};
        int64_t y_batch_first[4] = {c->batch, c->steps, c->directions, c->hidden};
        int64_t state[3] = {c->directions, c->batch, c->hidden};
        int64_t state_batch_first[3] = {c->batch, c->directions, c->hidden};

        out[o] = (struct eo_tensor_desc){.dtype = c->in[X]->dtype, .n_dims = o == 0 ? 4 : 3};
        memcpy(out[o].shape,
               o == 0           ? (c->batch_first ? y_batch_first : y)
               : c->batch_first ? state_batch_first
                                : state,
               out[o].n_dims * sizeof(int64_t));
    }
    return EO_OK;
}

int eo_infer_rnn(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct recurrent c = {.op = op, .in = in, .n_in = n_in, .gates = 1};

    return infer(&c, attrs, out, err);
}

int eo_infer_lstm(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct recurrent c = {.op = op, .in = in, .n_in = n_in, .gates = 4};

    return infer(&c, attrs, out, err);
}

int eo_infer_gru(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct recurrent c = {.op = op, .in = in, .n_in = n_in, .gates = 3};

    return infer(&c, attrs, out, err);
}
