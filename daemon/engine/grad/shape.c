/* Gradients of the rows that move elements by position: each moves them back; where one element was read several times,
 * its gradients are added. */
#include "daemon/engine/grad/rules.h"

void grad_reshape(const struct grad_site *s)
{
    struct eo_tensor_desc x = site_desc(s, site_x(s, 0));

    s->in_grads[0] = eo_build_reshape(s->b, site_g(s), x.shape, x.n_dims);
}

void grad_transpose(const struct grad_site *s)
{
    struct eo_tensor_desc x = site_desc(s, site_x(s, 0));
    int64_t inverse[EO_MAX_DIMS] = {0};
    int n;
    const int64_t *perm = eo_attr_ints(s->node->op, s->node->attrs, "perm", &n);

    for (int d = 0; d < n; d++) {
        inverse[perm[d]] = d;
    }
    /* Empty = reversed, which is its own inverse. */
    s->in_grads[0] = eo_build_transpose(s->b, site_g(s), inverse, n == 0 ? 0 : x.n_dims);
}

void grad_expand(const struct grad_site *s)
{
    site_give(s, 0, site_g(s));
}

static void set_slice(const struct grad_site *s, const struct eo_op_schema *op, struct eo_attrs *attrs,
                      const int64_t *starts, const int64_t *stops, const int64_t *steps, int n_steps, int n)
{
    eo_attrs_default(op, attrs);
    if (eo_attrs_set_ints(op, attrs, "starts", starts, n, s->b->err) != 0 ||
        eo_attrs_set_ints(op, attrs, "stops", stops, n, s->b->err) != 0 ||
        eo_attrs_set_ints(op, attrs, "steps", steps, n_steps, s->b->err) != 0) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
}

void grad_concatenate(const struct grad_site *s)
{
    const struct eo_op_schema *slice = eo_op_schema(EO_OP_SLICE);
    struct eo_tensor_desc y = site_desc(s, site_y(s));
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS];
    int64_t axis = eo_attr_int(s->node->op, s->node->attrs, "axis");

    axis += axis < 0 ? y.n_dims : 0;
    for (int d = 0; d < EO_MAX_DIMS; d++) {
        stops[d] = y.shape[d];
    }
    stops[axis] = 0;
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        struct eo_attrs attrs;
        eo_value g = site_g(s);

        starts[axis] = stops[axis];
        stops[axis] += site_desc(s, site_x(s, (int)i)).shape[axis];
        if (s->needs[i]) {
            set_slice(s, slice, &attrs, starts, stops, NULL, 0, y.n_dims);
            s->in_grads[i] = eo_build_op(s->b, EO_OP_SLICE, &g, 1, &attrs);
        }
    }
}

/* The parts' gradients joined again: one pass, where the slices that split is lowered to would each give a whole one.
 */
void grad_split(const struct grad_site *s)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_CONCATENATE);
    eo_value parts[EO_MAX_OUTPUTS];
    struct eo_attrs attrs;

    for (uint32_t o = 0; o < s->node->n_outputs; o++) {
        parts[o] =
            s->out_grads[o] != EO_NO_VALUE ? s->out_grads[o] : eo_build_full_like(s->b, s->node->first_output + o, 0);
    }
    eo_attrs_default(op, &attrs);
    if (eo_attrs_set_int(op, &attrs, "axis", eo_attr_int(s->node->op, s->node->attrs, "axis"), s->b->err) != 0) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    s->in_grads[0] = eo_build_op(s->b, EO_OP_CONCATENATE, parts, (int)s->node->n_outputs, &attrs);
}

/* The attributes of a slice, for the row that undoes it. */
static void copy_slice(const struct grad_site *s, enum eo_op to, struct eo_attrs *attrs)
{
    const struct eo_op_schema *op = s->node->op;
    const struct eo_attrs *from = s->node->attrs;
    int n, n_stops, n_steps;
    const int64_t *starts = eo_attr_ints(op, from, "starts", &n);
    const int64_t *stops = eo_attr_ints(op, from, "stops", &n_stops);
    const int64_t *steps = eo_attr_ints(op, from, "steps", &n_steps);

    set_slice(s, eo_op_schema(to), attrs, starts, stops, steps, n_steps, n);
}

void grad_slice(const struct grad_site *s)
{
    eo_value in[2] = {eo_build_full_like(s->b, site_x(s, 0), 0), site_g(s)};
    struct eo_attrs attrs;

    copy_slice(s, EO_OP_SLICE_SCATTER, &attrs);
    s->in_grads[0] = eo_build_op(s->b, EO_OP_SLICE_SCATTER, in, 2, &attrs);
}

void grad_slice_scatter(const struct grad_site *s)
{
    struct eo_attrs attrs;
    eo_value g = site_g(s);

    if (s->needs[0]) {
        eo_value in[2] = {g, eo_build_full_like(s->b, site_x(s, 1), 0)};

        copy_slice(s, EO_OP_SLICE_SCATTER, &attrs);
        s->in_grads[0] = eo_build_op(s->b, EO_OP_SLICE_SCATTER, in, 2, &attrs);
    }
    if (s->needs[1]) {
        copy_slice(s, EO_OP_SLICE, &attrs);
        s->in_grads[1] = eo_build_op(s->b, EO_OP_SLICE, &g, 1, &attrs);
    }
}
