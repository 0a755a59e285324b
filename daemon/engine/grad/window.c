/* Gradients of windows: unfold and fold are each other's adjoint, so are conv and conv_transpose. */
#include "daemon/engine/grad/rules.h"
#include "proto/shape_rules_window.h"

/* The geometry of the node, with every attribute resolved to numbers. */
static struct eo_window_shape resolved(const struct grad_site *s)
{
    const struct eo_tensor_desc *in[EO_MAX_NAMED_INPUTS];
    struct eo_window_shape w;

    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        in[i] = eo_build_desc(s->b, s->node->inputs[i]);
    }
    if (eo_window_resolve(s->node->op, in, (int)s->node->n_inputs, s->node->attrs, &w, s->b->err) != EO_OK) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    return w;
}

/* What the emitted row says of its windows: the attributes that it has, from the resolved geometry. */
static void describe(const struct grad_site *s, enum eo_op to, const struct eo_window_shape *w, struct eo_attrs *attrs)
{
    static const char *const names[] = {"size", "kernel", "strides", "dilations", "pads"};
    const struct eo_op_schema *op = eo_op_schema(to);
    int64_t lists[EO_COUNT_OF(names)][2 * EO_WINDOW_AXES];

    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];
        const int64_t values[] = {a->size, a->kernel, a->stride, a->dilation, a->pad_begin};

        for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
            lists[i][d] = values[i];
        }
        lists[4][w->n_axes + d] = a->pad_end;
    }
    eo_attrs_default(op, attrs);
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        int n = i == 4 ? 2 * w->n_axes : w->n_axes;

        if (eo_attr_index(op, names[i]) >= 0 &&
            eo_attrs_set_ints(op, attrs, names[i], lists[i], n, s->b->err) != EO_OK) {
            s->b->status = EO_E_BAD_ATTRIBUTE;
        }
    }
}

static eo_value emit(const struct grad_site *s, enum eo_op to, const eo_value *in, int n_in)
{
    struct eo_window_shape w = resolved(s);
    struct eo_attrs attrs;

    describe(s, to, &w, &attrs);
    return eo_build_op(s->b, to, in, n_in, &attrs);
}

void grad_unfold(const struct grad_site *s)
{
    eo_value g = site_g(s);

    s->in_grads[0] = emit(s, EO_OP_FOLD, &g, 1);
}

void grad_fold(const struct grad_site *s)
{
    eo_value g = site_g(s);

    s->in_grads[0] = emit(s, EO_OP_UNFOLD, &g, 1);
}
