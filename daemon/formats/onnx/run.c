/* A model on a device: graph, plan, copies in, run, copies out. */
#include "daemon/formats/onnx/build.h"
#include "proto/base/checked.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PLACE_ALIGN = 64, N_BUFFERS = 2 };

struct run {
    struct onnx_build build;
    struct executor *x;
    struct eo_device *dev;
    eo_value *values; /* of the model's outputs */
    int n_out;
    struct plan_place *inputs, *outputs;
    uint64_t bytes[N_BUFFERS]; /* 0: what is fed, 1: results */
    void *buffers[N_BUFFERS];
    struct eo_error *err;
};

void onnx_results_free(struct onnx_results *r)
{
    for (int i = 0; r != NULL && i < r->n; i++) {
        host_tensor_fini(&r->tensors[i]);
    }
    if (r != NULL) {
        free(r->tensors);
        *r = (struct onnx_results){0};
    }
}

/* ---- places ---- */

static int place(struct run *r, eo_value v, uint32_t buffer, struct plan_place *out)
{
    uint64_t bytes = eo_tensor_desc_bytes(eo_graph_desc(r->build.graph, v));

    *out = (struct plan_place){v, buffer, r->bytes[buffer]};
    if (!eo_add_u64(bytes, PLACE_ALIGN - 1, &bytes) || !eo_add_u64(r->bytes[buffer], bytes, &r->bytes[buffer])) {
        return EO_RAISE(r->err, EO_E_TOO_LARGE, "the tensors of the model do not fit in 2^64 bytes");
    }
    r->bytes[buffer] = r->bytes[buffer] / PLACE_ALIGN * PLACE_ALIGN;
    return EO_OK;
}

static int place_all(struct run *r)
{
    uint32_t n = r->build.n_feeds;
    int rc = EO_OK;

    r->inputs = calloc((size_t)n + 1, sizeof(*r->inputs));
    r->outputs = calloc((size_t)r->n_out + 1, sizeof(*r->outputs));
    if (r->inputs == NULL || r->outputs == NULL) {
        return EO_RAISE(r->err, EO_E_NO_MEMORY, "no memory to run the model");
    }
    for (uint32_t i = 0; rc == EO_OK && i < n; i++) {
        rc = place(r, r->build.feeds[i].value, 0, &r->inputs[i]);
    }
    for (int i = 0; rc == EO_OK && i < r->n_out; i++) {
        rc = place(r, r->values[i], 1, &r->outputs[i]);
    }
    return rc;
}

/* ---- the device's memory ---- */

static int allocate(struct run *r)
{
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < N_BUFFERS; i++) {
        if (r->bytes[i] > 0) {
            rc = r->dev->backend->alloc(r->dev, r->bytes[i], &r->buffers[i], r->err);
        }
    }
    return rc;
}

static void release(struct run *r)
{
    for (int i = 0; i < N_BUFFERS; i++) {
        if (r->buffers[i] != NULL) {
            r->dev->backend->free(r->dev, r->buffers[i], r->bytes[i]);
        }
    }
    free(r->inputs);
    free(r->outputs);
    build_fini(&r->build);
}

static int copy_in(struct run *r)
{
    int rc = EO_OK;

    for (uint32_t i = 0; rc == EO_OK && i < r->build.n_feeds; i++) {
        const struct build_feed *f = &r->build.feeds[i];
        uint64_t bytes = eo_tensor_desc_bytes(eo_graph_desc(r->build.graph, f->value));

        if (bytes > 0) {
            rc = r->dev->backend->copy_in(r->dev, (char *)r->buffers[0] + r->inputs[i].offset, f->data, bytes, r->err);
        }
    }
    return rc;
}

static int copy_out(struct run *r, struct onnx_results *out)
{
    int rc = EO_OK;

    out->tensors = calloc((size_t)r->n_out + 1, sizeof(*out->tensors));
    if (out->tensors == NULL) {
        return EO_RAISE(r->err, EO_E_NO_MEMORY, "no memory for the results of the model");
    }
    for (int i = 0; rc == EO_OK && i < r->n_out; i++) {
        const struct eo_tensor_desc *desc = eo_graph_desc(r->build.graph, r->values[i]);

        rc = host_tensor_init(desc, &out->tensors[i], r->err);
        out->n = rc == EO_OK ? i + 1 : out->n;
        if (rc == EO_OK && eo_tensor_desc_bytes(desc) > 0) {
            rc = r->dev->backend->copy_out(r->dev, out->tensors[i].data, (char *)r->buffers[1] + r->outputs[i].offset,
                                           eo_tensor_desc_bytes(desc), r->err);
        }
    }
    return rc;
}

/* ---- the run ---- */

static int compile(struct run *r, enum plan_fallback fallback, struct plan **out)
{
    struct plan_spec spec = {.graph = r->build.graph,
                             .inputs = r->inputs,
                             .n_inputs = r->build.n_feeds,
                             .outputs = r->outputs,
                             .n_outputs = (uint32_t)r->n_out,
                             .fallback = fallback};

    return plan_compile(&spec, r->dev, out, r->err);
}

static int run(struct run *r, enum plan_fallback fallback, struct onnx_results *out)
{
    struct plan *plan = NULL;
    int rc = place_all(r);

    if (rc == EO_OK) {
        rc = compile(r, fallback, &plan);
    }
    if (rc == EO_OK) {
        rc = allocate(r);
    }
    if (rc == EO_OK) {
        rc = copy_in(r);
    }
    if (rc == EO_OK) {
        rc = executor_run(r->x, plan, r->buffers, NULL, r->err);
    }
    if (rc == EO_OK && r->dev->backend->sync != NULL) {
        rc = r->dev->backend->sync(r->dev, r->err);
    }
    if (rc == EO_OK) {
        (void)eo_copy_text(out->fallback, sizeof(out->fallback), plan_stats(plan)->fallback_ops);
        rc = copy_out(r, out);
    }
    if (plan != NULL) {
        plan_free(plan);
    }
    return rc;
}

int onnx_run(const struct onnx_model *m, const struct host_tensor *const *inputs, int n_in, struct executor *x,
             enum plan_fallback fallback, struct onnx_results *out, struct eo_error *err)
{
    struct run r = {.x = x, .dev = executor_device(x), .n_out = m->graph.n_outputs, .err = err};
    int rc = build_model(&r.build, m, inputs, n_in, &r.values, err);

    *out = (struct onnx_results){0};
    if (rc == EO_OK) {
        rc = run(&r, fallback, out);
    }
    release(&r);
    if (rc != EO_OK) {
        onnx_results_free(out);
    }
    return rc;
}
