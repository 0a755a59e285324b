#include "backends/reference/each.h"

#include "backends/reference/walk.h"

int each_unary(const struct eo_launch *l, unary_fn f)
{
    const struct eo_tensor_desc *x = l->node->in[0], *y = l->node->out[0];
    int64_t n = eo_tensor_desc_count(y);
    for (int64_t i = 0; i < n; i++)
        element_set(l->out[0], y->dtype, i, f(element_get(l->in[0], x->dtype, i)));
    return EO_OK;
}

int each_float(const struct eo_launch *l, float_unary_fn f)
{
    int64_t n = eo_tensor_desc_count(l->node->out[0]);
    enum eo_dtype dtype = l->node->out[0]->dtype;
    for (int64_t i = 0; i < n; i++)
        element_set_float(l->out[0], dtype, i, f(element_get_float(l->in[0], dtype, i)));
    return EO_OK;
}

int each_binary(const struct eo_launch *l, binary_fn f)
{
    const struct eo_tensor_desc *a = l->node->in[0], *b = l->node->in[1], *y = l->node->out[0];
    struct walk w;
    walk_init(&w, y->shape, y->n_dims);
    walk_broadcast(&w, a);
    walk_broadcast(&w, b);
    for (; walk_more(&w); walk_next(&w)) {
        struct element ea = element_get(l->in[0], a->dtype, w.offset[0]);
        struct element eb = element_get(l->in[1], b->dtype, w.offset[1]);
        element_set(l->out[0], y->dtype, w.linear, f(ea, eb));
    }
    return EO_OK;
}
