#include "daemon/engine/windows.h"

struct eo_window_shape windows_of(struct eo_builder *b, const struct eo_graph_node *node)
{
    const struct eo_tensor_desc *in[EO_MAX_NAMED_INPUTS];
    struct eo_window_shape w = {0};
    int rc;

    for (uint32_t i = 0; i < node->n_inputs; i++) {
        in[i] = eo_build_desc(b, node->inputs[i]);
    }
    rc = eo_window_resolve(node->op, in, (int)node->n_inputs, node->attrs, &w, b->err);
    b->status = b->status == EO_OK ? rc : b->status;
    return w;
}

static void set_ints(struct eo_builder *b, const struct eo_op_schema *op, struct eo_attrs *attrs, const char *name,
                     const int64_t *v, int n)
{
    if (eo_attr_index(op, name) >= 0 && b->status == EO_OK) {
        b->status = eo_attrs_set_ints(op, attrs, name, v, n, b->err);
    }
}

void windows_describe(struct eo_builder *b, enum eo_op op_, const struct eo_window_shape *w, struct eo_attrs *out)
{
    const struct eo_op_schema *op = eo_op_schema(op_);
    int64_t size[EO_WINDOW_AXES], kernel[EO_WINDOW_AXES], stride[EO_WINDOW_AXES], dilation[EO_WINDOW_AXES];
    int64_t pads[2 * EO_WINDOW_AXES];

    for (int d = 0; d < w->n_axes; d++) {
        size[d] = w->axis[d].size;
        kernel[d] = w->axis[d].kernel;
        stride[d] = w->axis[d].stride;
        dilation[d] = w->axis[d].dilation;
        pads[d] = w->axis[d].pad_begin;
        pads[w->n_axes + d] = w->axis[d].pad_end;
    }
    eo_attrs_default(op, out);
    set_ints(b, op, out, "size", size, w->n_axes);
    set_ints(b, op, out, "kernel", kernel, w->n_axes);
    set_ints(b, op, out, "strides", stride, w->n_axes);
    set_ints(b, op, out, "dilations", dilation, w->n_axes);
    set_ints(b, op, out, "pads", pads, 2 * w->n_axes);
    if (eo_attr_index(op, "groups") >= 0 && b->status == EO_OK) {
        b->status = eo_attrs_set_int(op, out, "groups", w->groups, b->err);
    }
    if (eo_attr_index(op, "layout") >= 0 && b->status == EO_OK) {
        b->status = eo_attrs_set_text(op, out, "layout", w->channels_first ? "nchw" : "nhwc", b->err);
    }
}

eo_value windows_emit(struct eo_builder *b, enum eo_op op, const struct eo_window_shape *w, const eo_value *in,
                      int n_in)
{
    struct eo_attrs attrs;

    windows_describe(b, op, w, &attrs);
    return eo_build_op(b, op, in, n_in, &attrs);
}

eo_value windows_channels_last(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t perm[EO_MAX_DIMS] = {0};

    if (!w->channels_first) {
        return v;
    }
    for (int d = 0; d < w->n_axes; d++) {
        perm[1 + d] = 2 + d;
    }
    perm[1 + w->n_axes] = 1;
    return eo_build_transpose(b, v, perm, 2 + w->n_axes);
}

eo_value windows_channels_first(struct eo_builder *b, const struct eo_window_shape *w, eo_value v)
{
    int64_t perm[EO_MAX_DIMS] = {0, 1 + w->n_axes};

    if (!w->channels_first) {
        return v;
    }
    for (int d = 0; d < w->n_axes; d++) {
        perm[2 + d] = 1 + d;
    }
    return eo_build_transpose(b, v, perm, 2 + w->n_axes);
}
