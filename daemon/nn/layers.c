/* The layers: for each row of layers.def its shape rule, its parameters and its forward pass. */
#include "daemon/nn/layer.h"

#include "proto/base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Arguments in the order of the rows. */
enum { LINEAR_IN, LINEAR_OUT, LINEAR_BIAS, LINEAR_INITIALIZER };
enum { SOFTMAX_AXIS };
enum { FLATTEN_START_DIM };
enum { DROPOUT_P };

static int64_t int_arg(const struct layer *l, int i)
{
    return (int64_t)l->args[i].number;
}

/* -rank..rank-1 -> 1..rank-1; the batch dimension belongs to the trainer. */
static int feature_axis(int64_t axis, const struct eo_tensor_desc *in, const char *what, int *out, struct eo_error *err)
{
    int64_t normal = axis < 0 ? axis + in->n_dims : axis;
    char row[160];

    if (normal < 1 || normal >= in->n_dims) {
        EO_RAISE(err, EO_E_BAD_SPEC, "%s: %" PRId64 " is none of the feature dimensions of rows %s", what, axis,
                 layer_row_text(in, row, sizeof(row)));
        eo_error_hint(err, "Dimension 0 is the batch; the features are 1 to %d.", in->n_dims - 1);
        return EO_E_BAD_SPEC;
    }
    *out = (int)normal;
    return EO_OK;
}

/* ---- linear: (N, ..., in) -> (N, ..., out) ---- */

static int layer_infer_linear(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                              const struct layer **refused, struct eo_error *err)
{
    EO_UNUSED(refused);
    int64_t takes = int_arg(l, LINEAR_IN);
    int64_t gets = in->n_dims > 1 ? in->shape[in->n_dims - 1] : 0;
    char row[160];

    if (in->n_dims < 2 || gets != takes) {
        EO_RAISE(err, EO_E_BAD_SPEC, "takes %" PRId64 " features, but the rows that reach it have shape %s", takes,
                 layer_row_text(in, row, sizeof(row)));
        if (in->n_dims > 2) {
            eo_error_hint(err, "Put `flatten` before it, or write in: %" PRId64 ".", gets);
        } else if (in->n_dims == 2) {
            eo_error_hint(err, "Write in: %" PRId64 ", or change what comes before.", gets);
        }
        return EO_E_BAD_SPEC;
    }
    *out = *in;
    out->shape[in->n_dims - 1] = int_arg(l, LINEAR_OUT);
    return eo_tensor_desc_check(out, err);
}

static int layer_params_linear(const struct layer *l, struct param_list *list, struct eo_error *err)
{
    int64_t shape[2] = {int_arg(l, LINEAR_IN), int_arg(l, LINEAR_OUT)};
    int status = param_list_add(list, l, "weight", shape, 2, l->args[LINEAR_INITIALIZER].text, shape[0], shape[1], err);

    if (status == EO_OK && l->args[LINEAR_BIAS].number != 0) {
        status = param_list_add(list, l, "bias", &shape[1], 1, "zeros", shape[1], shape[1], err);
    }
    return status;
}

static eo_value layer_forward_linear(const struct layer *l, struct forward_pass *f, eo_value x)
{
    eo_value in[3] = {x, f->params[f->next_param++], EO_NO_VALUE};

    if (l->args[LINEAR_BIAS].number == 0) {
        return eo_build_matmul(f->b, x, in[1], false, false);
    }
    in[2] = f->params[f->next_param++];
    return eo_build_op(f->b, EO_OP_LINEAR, in, 3, NULL);
}

/* ---- element-wise: any shape ---- */

static int layer_infer_same(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                            const struct layer **refused, struct eo_error *err)
{
    EO_UNUSED(l);
    EO_UNUSED(refused);
    EO_UNUSED(err);
    *out = *in;
    return EO_OK;
}
#define layer_infer_relu layer_infer_same
#define layer_infer_sigmoid layer_infer_same
#define layer_infer_tanh layer_infer_same
#define layer_infer_dropout layer_infer_same

#define ELEMENTWISE_LAYER(name, NAME)                                                                                  \
    static eo_value layer_forward_##name(const struct layer *l, struct forward_pass *f, eo_value x)                    \
    {                                                                                                                  \
        EO_UNUSED(l);                                                                                                  \
        return eo_build_unary(f->b, EO_OP_##NAME, x);                                                                  \
    }
ELEMENTWISE_LAYER(relu, RELU)
ELEMENTWISE_LAYER(sigmoid, SIGMOID)
ELEMENTWISE_LAYER(tanh, TANH)
#undef ELEMENTWISE_LAYER

/* ---- softmax ---- */

static int layer_infer_softmax(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                               const struct layer **refused, struct eo_error *err)
{
    EO_UNUSED(refused);
    int axis;
    int status = feature_axis(int_arg(l, SOFTMAX_AXIS), in, "axis", &axis, err);

    *out = *in;
    return status;
}

static eo_value layer_forward_softmax(const struct layer *l, struct forward_pass *f, eo_value x)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SOFTMAX);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    if (eo_attrs_set_int(op, &attrs, "axis", int_arg(l, SOFTMAX_AXIS), f->b->err) != EO_OK) {
        f->b->status = EO_E_BAD_ATTRIBUTE;
        return EO_NO_VALUE;
    }
    return eo_build_op(f->b, EO_OP_SOFTMAX, &x, 1, &attrs);
}

/* ---- flatten: (N, a, b, c) -> (N, a, b*c) for start_dim 2 ---- */

static int layer_infer_flatten(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                               const struct layer **refused, struct eo_error *err)
{
    EO_UNUSED(refused);
    int64_t joined = 1;
    int start;
    int status = feature_axis(int_arg(l, FLATTEN_START_DIM), in, "start_dim", &start, err);

    if (status != EO_OK) {
        return status;
    }
    for (int i = start; i < in->n_dims; i++) {
        joined *= in->shape[i]; /* fits: in is a checked descriptor, its batch dimension not 0 */
    }
    *out = *in;
    memset(&out->shape[start], 0, sizeof(out->shape[0]) * (size_t)(EO_MAX_DIMS - start));
    out->shape[start] = joined;
    out->n_dims = (uint8_t)(start + 1);
    return EO_OK;
}

static eo_value layer_forward_flatten(const struct layer *l, struct forward_pass *f, eo_value x)
{
    struct eo_tensor_desc in = *eo_build_desc(f->b, x), out;
    int64_t n_rows = in.shape[0];
    const struct layer *refused;

    if (f->b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    in.shape[0] = 1;
    f->b->status = layer_infer_flatten(l, &in, &out, &refused, f->b->err);
    out.shape[0] = n_rows;
    return f->b->status == EO_OK ? eo_build_reshape(f->b, x, out.shape, out.n_dims) : EO_NO_VALUE;
}

/* ---- dropout ---- */

static eo_value layer_forward_dropout(const struct layer *l, struct forward_pass *f, eo_value x)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_DROPOUT);
    int64_t stream = f->n_random++;
    eo_value in[2] = {x, f->rng};
    struct eo_attrs attrs;

    if (f->rng == EO_NO_VALUE || l->args[DROPOUT_P].number == 0) {
        return x;
    }
    eo_attrs_default(op, &attrs);
    if (eo_attrs_set_float(op, &attrs, "p", l->args[DROPOUT_P].number, f->b->err) != EO_OK ||
        eo_attrs_set_int(op, &attrs, "stream", stream, f->b->err) != EO_OK) {
        f->b->status = EO_E_BAD_ATTRIBUTE;
        return EO_NO_VALUE;
    }
    return eo_build_op(f->b, EO_OP_DROPOUT, in, 2, &attrs);
}

/* ---- sequential ---- */

static int layer_infer_sequential(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                                  const struct layer **refused, struct eo_error *err)
{
    return layers_infer(l->children, l->n_children, in, out, refused, err);
}

static eo_value layer_forward_sequential(const struct layer *l, struct forward_pass *f, eo_value x)
{
    return layers_forward(l->children, l->n_children, f, x);
}

static int layer_params_sequential(const struct layer *l, struct param_list *list, struct eo_error *err)
{
    return layers_params(l->children, l->n_children, list, err);
}

/* ---- the table ---- */

#define PARAMS(name) layer_params_##name
#define NO_PARAMS(name) NULL
static const struct layer_ops ops[LAYER_COUNT] = {
#define LAYER(name, NAME, summary, args, params_, stability, since)                                                    \
    [LAYER_##NAME] = {.infer = layer_infer_##name, .params = params_(name), .forward = layer_forward_##name},
#include "daemon/nn/layers.def"
};
#undef PARAMS
#undef NO_PARAMS

const struct layer_ops *layer_ops(enum layer_kind kind)
{
    return &ops[kind];
}
