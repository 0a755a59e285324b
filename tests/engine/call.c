#include "tests/engine/call.h"

#include "daemon/engine/autodiff.h"
#include "tests/proto/op_case.h"

#include <math.h>

/* A call while it becomes a graph. outputs of the plan: those of the row, then the gradients. */
struct draft {
    const struct call *call;
    struct eo_graph *g;
    struct eo_builder b;
    eo_value in[CALL_MAX_INPUTS], outputs[EO_MAX_OUTPUTS + CALL_MAX_INPUTS], wrt[CALL_MAX_INPUTS];
    int wrt_input[CALL_MAX_INPUTS];
    void *data[CALL_MAX_INPUTS];
    int n_in, n_out, n_wrt;
};

static void add_inputs(struct draft *d)
{
    for (int i = 0; i < CALL_MAX_INPUTS && d->call->in[i].desc != NULL; i++) {
        struct eo_tensor_desc desc = op_case_desc(d->call->in[i].desc);
        int64_t count = eo_tensor_desc_count(&desc);
        char name[8];

        (void)snprintf(name, sizeof(name), "x%d", i);
        d->in[i] = harness_input(d->g, name, (enum eo_dtype)desc.dtype, desc.n_dims, desc.shape);
        d->data[i] = calloc((size_t)count + 1, sizeof(double));
        ck_assert_ptr_nonnull(d->data[i]);
        for (int64_t e = 0; e < count && d->call->in[i].data != NULL; e++) {
            harness_set((enum eo_dtype)desc.dtype, d->data[i], e, d->call->in[i].data[e]);
        }
        if (eo_dtype_kind((enum eo_dtype)desc.dtype) == EO_KIND_FLOAT) {
            d->wrt_input[d->n_wrt] = i;
            d->wrt[d->n_wrt++] = d->in[i];
        }
        d->n_in++;
    }
}

/* The sum of all elements of all float outputs. */
static eo_value total(struct draft *d)
{
    eo_value sum = EO_NO_VALUE;

    for (int o = 0; o < d->n_out; o++) {
        if (eo_dtype_kind((enum eo_dtype)eo_graph_desc(d->g, d->outputs[o])->dtype) == EO_KIND_FLOAT) {
            eo_value part = eo_build_reduce(&d->b, EO_OP_SUM, d->outputs[o], NULL, 0, false);

            sum = sum == EO_NO_VALUE ? part : eo_build_binary(&d->b, EO_OP_ADD, sum, part);
        }
    }
    return sum;
}

static void build(struct draft *d, const struct call *c, bool with_grads)
{
    static struct eo_error err;
    const struct eo_op_schema *op = eo_op_schema(c->op);
    struct eo_attrs attrs = op_case_attrs(op, c->attrs);

    *d = (struct draft){.call = c, .g = eo_graph_new()};
    ck_assert_ptr_nonnull(d->g);
    eo_build_init(&d->b, d->g, &err);
    add_inputs(d);
    d->n_out = eo_op_n_outputs(op, &attrs);
    ASSERT_OK(eo_graph_add(d->g, c->op, d->in, d->n_in, &attrs, d->outputs, &err));
    if (with_grads) {
        eo_value y = total(d);

        ASSERT_OK(d->b.status);
        ASSERT_OK(autodiff_gradients(d->g, y, EO_NO_VALUE, d->wrt, d->n_wrt, d->outputs + d->n_out, &err));
    } else {
        d->n_wrt = 0;
    }
}

static double *fetch(struct harness *h, const struct draft *d, int output)
{
    const struct eo_tensor_desc *desc = eo_graph_desc(d->g, d->outputs[output]);
    int64_t n = eo_tensor_desc_count(desc);
    void *raw = calloc((size_t)n + 1, sizeof(double));
    double *values = calloc((size_t)n + 1, sizeof(double));

    ck_assert(raw != NULL && values != NULL);
    harness_fetch(h, (uint32_t)output, raw);
    for (int64_t e = 0; e < n; e++) {
        values[e] = harness_get((enum eo_dtype)desc->dtype, raw, e);
    }
    free(raw);
    return values;
}

int call_run(struct eo_device *dev, const struct call *c, bool with_grads, struct call_result *r, struct eo_error *err)
{
    struct harness h;
    struct draft d;
    int rc;

    *r = (struct call_result){0};
    build(&d, c, with_grads);
    rc = harness_open(&h, dev, d.g, d.outputs, (uint32_t)(d.n_out + d.n_wrt), (struct harness_options){0}, err);
    ck_assert_msg(rc == EO_OK, "%s", err->message);
    for (int i = 0; i < d.n_in; i++) {
        harness_feed(&h, d.in[i], d.data[i]);
        free(d.data[i]);
    }
    rc = harness_run(&h, err);
    for (int o = 0; rc == EO_OK && o < d.n_out; o++) {
        r->out[o] = fetch(&h, &d, o);
        r->count[o] = (int)eo_tensor_desc_count(eo_graph_desc(d.g, d.outputs[o]));
    }
    for (int w = 0; rc == EO_OK && w < d.n_wrt; w++) {
        r->grad[d.wrt_input[w]] = fetch(&h, &d, d.n_out + w);
    }
    harness_close(&h);
    eo_graph_free(d.g);
    return rc;
}

void call_free(struct call_result *r)
{
    for (int o = 0; o < EO_MAX_OUTPUTS; o++) {
        free(r->out[o]);
    }
    for (int i = 0; i < CALL_MAX_INPUTS; i++) {
        free(r->grad[i]);
    }
    *r = (struct call_result){0};
}

void call_compare(const double *got, const double *wanted, int n, double rtol, const char *what)
{
    ck_assert_msg(got != NULL, "%s is missing", what);
    for (int i = 0; i < n; i++) {
        double w = wanted[i];
        bool equal = isnan(w) ? isnan(got[i]) : isinf(w) ? got[i] == w : fabs(got[i] - w) <= 1e-12 + rtol * fabs(w);

        ck_assert_msg(equal, "%s, element %d: %.17g, wanted %.17g", what, i, got[i], w);
    }
}
