#include "tests/engine/models.h"

static struct eo_error err;

static eo_value parameter(struct mlp *m, const char *name, int n_dims, const int64_t *shape)
{
    struct eo_tensor_desc d = harness_desc(m->dtype, n_dims, shape);
    eo_value v;

    ASSERT_OK(eo_graph_state(m->g, name, &d, &v, &err));
    return v;
}

static eo_value layer(struct eo_builder *b, const char *label, eo_value x, const eo_value *weight_and_bias)
{
    b->graph->label = label;
    return eo_build_op(b, EO_OP_LINEAR, (eo_value[]){x, weight_and_bias[0], weight_and_bias[1]}, 3, NULL);
}

static eo_value drop(struct eo_builder *b, eo_value x, eo_value rng)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_DROPOUT);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    ASSERT_OK(eo_attrs_set_float(op, &attrs, "p", 0.25, &err));
    return eo_build_op(b, EO_OP_DROPOUT, (eo_value[]){x, rng}, 2, &attrs);
}

void mlp_build(struct mlp *m, enum eo_dtype dtype, int64_t n_rows, int64_t n_in, int64_t n_hidden, int64_t n_out,
               bool dropout)
{
    struct eo_builder b;
    eo_value h;

    *m = (struct mlp){
        .g = eo_graph_new(), .n_rows = n_rows, .n_in = n_in, .n_hidden = n_hidden, .n_out = n_out, .dtype = dtype};
    ck_assert_ptr_nonnull(m->g);
    m->x = INPUT(m->g, "x", dtype, n_rows, n_in);
    m->targets = INPUT(m->g, "targets", EO_INT64, n_rows);
    m->rng = INPUT(m->g, "rng", EO_INT64, 3);
    m->inv_count = SCALAR_INPUT(m->g, "inv_count", dtype);
    m->params[0] = parameter(m, "0.weight", SHAPE(n_in, n_hidden));
    m->params[1] = parameter(m, "0.bias", SHAPE(n_hidden));
    m->params[2] = parameter(m, "3.weight", SHAPE(n_hidden, n_out));
    m->params[3] = parameter(m, "3.bias", SHAPE(n_out));
    eo_build_init(&b, m->g, &err);
    h = eo_build_unary(&b, EO_OP_RELU, layer(&b, "hidden", m->x, m->params));
    if (dropout) {
        h = drop(&b, h, m->rng);
    }
    h = layer(&b, "output", h, m->params + 2);
    m->g->label = "loss";
    h = eo_build_op(&b, EO_OP_CROSS_ENTROPY, (eo_value[]){h, m->targets}, 2, NULL);
    m->loss = eo_build_binary(&b, EO_OP_MULTIPLY, eo_build_reduce(&b, EO_OP_SUM, h, NULL, 0, false), m->inv_count);
    ASSERT_OK(b.status);
    ASSERT_OK(autodiff_gradients(m->g, m->loss, EO_NO_VALUE, m->params, 4, m->grads, &err));
}

void mlp_free(struct mlp *m)
{
    eo_graph_free(m->g);
}

void mlp_outputs(const struct mlp *m, eo_value out[MLP_OUTPUTS])
{
    out[0] = m->loss;
    for (int i = 0; i < 4; i++) {
        out[1 + i] = m->grads[i];
    }
}

static void feed_random(const struct mlp *m, struct harness *h, eo_value v, uint64_t seed, double scale)
{
    int64_t count = eo_tensor_desc_count(eo_graph_desc(m->g, v));
    void *data = calloc((size_t)count + 1, sizeof(double));

    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < count; i++) {
        harness_set(m->dtype, data, i, scale * (harness_random(seed, (uint64_t)i) - 0.5));
    }
    harness_feed(h, v, data);
    free(data);
}

void mlp_feed(const struct mlp *m, struct harness *h)
{
    const int64_t rng[3] = {11, 5, 64};
    int64_t *targets = calloc((size_t)m->n_rows + 1, sizeof(*targets));
    double inv_count;

    ck_assert_ptr_nonnull(targets);
    for (int64_t i = 0; i < m->n_rows; i++) {
        targets[i] = (int64_t)(harness_random(9, (uint64_t)i) * (double)m->n_out);
    }
    harness_set(m->dtype, &inv_count, 0, m->n_rows > 0 ? 1 / (double)m->n_rows : 0);
    harness_feed(h, m->targets, targets);
    harness_feed(h, m->rng, rng);
    harness_feed(h, m->inv_count, &inv_count);
    feed_random(m, h, m->x, 1, 2);
    for (int i = 0; i < 4; i++) {
        feed_random(m, h, m->params[i], 2 + (uint64_t)i, 1);
    }
    free(targets);
}
