/* Gradients of the rows that work by integer indices: gathers and scatters are each other's gradients. */
#include "daemon/engine/grad/rules.h"
#include "daemon/engine/lower/rules.h"
#include "proto/shape_rules.h"

static eo_value along_axis(const struct grad_site *s, enum eo_op to, const eo_value *in, int n_in)
{
    const struct eo_op_schema *op = eo_op_schema(to);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    if (eo_attrs_set_int(op, &attrs, "axis", eo_attr_int(s->node->op, s->node->attrs, "axis"), s->b->err) != 0) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    return eo_build_op(s->b, to, in, n_in, &attrs);
}

void grad_gather(const struct grad_site *s)
{
    eo_value in[3] = {eo_build_full_like(s->b, site_x(s, 0), 0), site_x(s, 1), site_g(s)};

    s->in_grads[0] = along_axis(s, EO_OP_SCATTER_ADD, in, 3);
}

void grad_scatter_add(const struct grad_site *s)
{
    eo_value in[2] = {site_g(s), site_x(s, 1)};

    if (s->needs[0]) {
        s->in_grads[0] = site_g(s);
    }
    if (s->needs[2]) {
        s->in_grads[2] = along_axis(s, EO_OP_GATHER, in, 2);
    }
}

/* ---- gather_elements, gather_nd and their scatters ---- */

/* A pair of rows, and the attribute that both have. */
struct pair {
    enum eo_op gather, scatter;
    const char *where;
};
static const struct pair elements = {EO_OP_GATHER_ELEMENTS, EO_OP_SCATTER_ELEMENTS, "axis"};
static const struct pair nd = {EO_OP_GATHER_ND, EO_OP_SCATTER_ND, "batch_dims"};

static eo_value emit_pair(const struct grad_site *s, const struct pair *p, enum eo_op to, const eo_value *in, int n_in,
                          const char *reduction)
{
    const struct eo_op_schema *op = eo_op_schema(to);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    if (eo_attrs_set_int(op, &attrs, p->where, eo_attr_int(s->node->op, s->node->attrs, p->where), s->b->err) != 0 ||
        (reduction != NULL && eo_attrs_set_text(op, &attrs, "reduction", reduction, s->b->err) != 0)) {
        s->b->status = EO_E_BAD_ATTRIBUTE;
    }
    return eo_build_op(s->b, to, in, n_in, &attrs);
}

static void gather_gradient(const struct grad_site *s, const struct pair *p)
{
    eo_value in[3] = {eo_build_full_like(s->b, site_x(s, 0), 0), site_x(s, 1), site_g(s)};

    s->in_grads[0] = emit_pair(s, p, p->scatter, in, 3, "add");
}

/* Gradient of the updates of a scatter that replaces: where an index comes twice, only the last update is seen, so each
 * one carries its number there and back. */
static eo_value last_writers(const struct grad_site *s, const struct pair *p, eo_value g)
{
    struct eo_tensor_desc x = site_desc(s, site_x(s, 0)), updates = site_desc(s, site_x(s, 2));
    eo_value indices = site_x(s, 1), numbers, winners;

    numbers = eo_build_reshape(s->b, lower_iota(s->b, eo_tensor_desc_count(&updates)), updates.shape, updates.n_dims);
    winners = lower_full(s->b, EO_INT64, x.shape, x.n_dims, -1);
    winners = emit_pair(s, p, p->scatter, (eo_value[]){winners, indices, numbers}, 3, "replace");
    winners = emit_pair(s, p, p->gather, (eo_value[]){winners, indices}, 2, NULL);
    return eo_build_where(s->b, eo_build_binary(s->b, EO_OP_EQUAL, winners, numbers), g, emit_scalar(s, 0));
}

static void scatter_gradient(const struct grad_site *s, const struct pair *p)
{
    int64_t reduction = eo_attr_int(s->node->op, s->node->attrs, "reduction");
    eo_value in[3] = {site_g(s), site_x(s, 1), EO_NO_VALUE};

    if (reduction != EO_SCATTER_REPLACE && reduction != EO_SCATTER_ADD) {
        char word[16] = "";

        (void)eo_attr_choice(&s->node->op->attrs[eo_attr_index(s->node->op, "reduction")], reduction, word,
                             sizeof(word));
        s->b->status = EO_RAISE(s->b->err, EO_E_NO_GRADIENT,
                                "%s with reduction %s has no gradient, replace and add have", s->node->op->name, word);
        return;
    }
    if (s->needs[0] && reduction == EO_SCATTER_ADD) {
        s->in_grads[0] = site_g(s);
    } else if (s->needs[0]) {
        in[2] = eo_build_full_like(s->b, site_x(s, 2), 0);
        s->in_grads[0] = emit_pair(s, p, p->scatter, in, 3, "replace");
    }
    if (s->needs[2]) {
        eo_value g = emit_pair(s, p, p->gather, in, 2, NULL);

        s->in_grads[2] = reduction == EO_SCATTER_ADD ? g : last_writers(s, p, g);
    }
}

void grad_gather_elements(const struct grad_site *s)
{
    gather_gradient(s, &elements);
}

void grad_gather_nd(const struct grad_site *s)
{
    gather_gradient(s, &nd);
}

void grad_scatter_elements(const struct grad_site *s)
{
    scatter_gradient(s, &elements);
}

void grad_scatter_nd(const struct grad_site *s)
{
    scatter_gradient(s, &nd);
}
