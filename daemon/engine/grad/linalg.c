/* Gradients of products. With C = A B, A = op(a), B = op(b): dA = G B^T and dB = A^T G, each transposed back by
 * swapping operands and flags instead of moving elements. */
#include "daemon/engine/grad/rules.h"

/* One product with both operands of rank 2 or more; 1-D operands come here as a row or a column. */
struct product {
    eo_value a, b, g;
    bool transpose_a, transpose_b;
};

static eo_value product_grad_a(const struct grad_site *s, const struct product *p)
{
    return p->transpose_a ? eo_build_matmul(s->b, p->b, p->g, p->transpose_b, true)
                          : eo_build_matmul(s->b, p->g, p->b, false, !p->transpose_b);
}

/* v (..., r, c), rows > 0, as one matrix (rows, c). The count is written out: -1 cannot be worked out where c is 0. */
static eo_value flatten(const struct grad_site *s, eo_value v)
{
    struct eo_tensor_desc d = site_desc(s, v);
    int64_t shape[2] = {1, 0};

    if (s->b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    shape[1] = d.shape[d.n_dims - 1];
    for (int i = 0; i + 1 < d.n_dims; i++) {
        shape[0] *= d.shape[i];
    }
    return eo_build_reshape(s->b, v, shape, 2);
}

static eo_value product_grad_b(const struct grad_site *s, struct product p)
{
    struct eo_tensor_desc a = site_desc(s, p.a), b = site_desc(s, p.b);

    /* One matrix times a batch, as in a layer applied to (B,T,C): its gradient is a single product over all rows, not a
     * batch of matrices that are summed afterwards. */
    if (a.n_dims > 2 && b.n_dims == 2 && !p.transpose_a && eo_tensor_desc_count(&a) > 0) {
        p.a = flatten(s, p.a);
        p.g = flatten(s, p.g);
    }
    return p.transpose_b ? eo_build_matmul(s->b, p.g, p.a, true, p.transpose_a)
                         : eo_build_matmul(s->b, p.a, p.g, !p.transpose_a, false);
}

/* Inserts a dimension of size 1 before dimension `at`. */
static eo_value insert_dim(const struct grad_site *s, eo_value v, int at)
{
    struct eo_tensor_desc d = site_desc(s, v);
    int64_t shape[EO_MAX_DIMS + 1];

    if (s->b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    for (int i = 0; i <= d.n_dims; i++) {
        shape[i] = i < at ? d.shape[i] : i == at ? 1 : d.shape[i - 1];
    }
    return eo_build_reshape(s->b, v, shape, d.n_dims + 1);
}

/* Sums the batch dimensions away that input i was repeated over, and drops the dimension that promoted gave it. */
static void give_product(const struct grad_site *s, int i, eo_value promoted, eo_value g)
{
    struct eo_tensor_desc x = site_desc(s, site_x(s, i));

    s->in_grads[i] = eo_build_reshape(s->b, eo_build_sum_to(s->b, g, promoted), x.shape, x.n_dims);
}

void grad_matmul(const struct grad_site *s)
{
    struct product p = {site_x(s, 0), site_x(s, 1), site_g(s), false, false};
    bool vector_a = site_desc(s, p.a).n_dims == 1;
    bool vector_b = site_desc(s, p.b).n_dims == 1;

    if (vector_a) {
        p.a = insert_dim(s, p.a, 0);
        p.g = insert_dim(s, p.g, site_desc(s, p.g).n_dims - (vector_b ? 0 : 1));
    } else {
        p.transpose_a = eo_attr_int(s->node->op, s->node->attrs, "transpose_a") != 0;
    }
    if (vector_b) {
        p.b = insert_dim(s, p.b, 1);
        p.g = insert_dim(s, p.g, site_desc(s, p.g).n_dims);
    } else {
        p.transpose_b = eo_attr_int(s->node->op, s->node->attrs, "transpose_b") != 0;
    }
    if (s->needs[0]) {
        give_product(s, 0, p.a, product_grad_a(s, &p));
    }
    if (s->needs[1]) {
        give_product(s, 1, p.b, product_grad_b(s, p));
    }
}

/* x (..., I) @ weight (I, O) + bias (O). */
void grad_linear(const struct grad_site *s)
{
    struct product p = {site_x(s, 0), site_x(s, 1), site_g(s), false, false};

    if (site_desc(s, p.a).n_dims == 1) {
        p.a = insert_dim(s, p.a, 0);
        p.g = insert_dim(s, p.g, 0);
    }
    if (s->needs[0]) {
        give_product(s, 0, p.a, product_grad_a(s, &p));
    }
    if (s->needs[1]) {
        give_product(s, 1, p.b, product_grad_b(s, p));
    }
    if (s->needs[2]) {
        site_give(s, 2, site_g(s));
    }
}
