#include "tests/engine/harness.h"

#include "backends/registry.h"

#include <stdio.h>
#include <string.h>

static struct eo_error err;

static uint64_t place(struct plan_place *p, const struct eo_graph *g, eo_value v, uint32_t buffer, uint64_t offset)
{
    *p = (struct plan_place){v, buffer, offset};
    return offset + (eo_tensor_desc_bytes(eo_graph_desc(g, v)) + 63) / 64 * 64;
}

static void place_all(struct harness *h, const eo_value *outputs, const int *over)
{
    const struct eo_graph *g = h->graph;

    h->inputs = calloc((size_t)g->n_nodes + 1, sizeof(*h->inputs));
    h->outputs = calloc((size_t)h->n_outputs + 1, sizeof(*h->outputs));
    ck_assert(h->inputs != NULL && h->outputs != NULL);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        if (g->nodes[n].kind == EO_NODE_INPUT || g->nodes[n].kind == EO_NODE_STATE) {
            h->sizes[0] = place(&h->inputs[h->n_inputs++], g, g->nodes[n].first_output, 0, h->sizes[0]);
        }
    }
    for (uint32_t i = 0; i < h->n_outputs; i++) {
        if (over != NULL && over[i] >= 0) {
            h->outputs[i] = (struct plan_place){outputs[i], 0, h->inputs[over[i]].offset};
        } else {
            h->sizes[1] = place(&h->outputs[i], g, outputs[i], 1, h->sizes[1]);
        }
    }
}

int harness_open(struct harness *h, struct eo_device *dev, const struct eo_graph *g, const eo_value *outputs,
                 uint32_t n_outputs, struct harness_options options, struct eo_error *out_err)
{
    struct plan_spec spec = {.graph = g, .fallback = options.fallback, .without = options.without};
    int rc;

    *h = (struct harness){.dev = dev, .graph = g, .n_outputs = n_outputs};
    place_all(h, outputs, options.over);
    spec.inputs = h->inputs;
    spec.n_inputs = h->n_inputs;
    spec.outputs = h->outputs;
    spec.n_outputs = n_outputs;
    for (int b = 0; b < 2; b++) {
        h->sizes[b] += 64; /* never empty */
        ASSERT_OK(dev->backend->alloc(dev, h->sizes[b], &h->buffers[b], &err));
    }
    ASSERT_OK(executor_new(dev, &h->executor, &err));
    rc = plan_compile(&spec, dev, &h->plan, out_err);
    if (rc != EO_OK) {
        h->plan = NULL;
        harness_close(h);
    }
    return rc;
}

void harness_close(struct harness *h)
{
    plan_free(h->plan);
    executor_free(h->executor);
    for (int b = 0; b < 2; b++) {
        h->dev->backend->free(h->dev, h->buffers[b], h->sizes[b]);
    }
    free(h->inputs);
    free(h->outputs);
    *h = (struct harness){0};
}

static void *device_address(const struct harness *h, const struct plan_place *p)
{
    return (void *)((uintptr_t)h->buffers[p->buffer] + (uintptr_t)p->offset);
}

static uint64_t place_bytes(const struct harness *h, const struct plan_place *p)
{
    return eo_tensor_desc_bytes(eo_graph_desc(h->graph, p->value));
}

void harness_feed(struct harness *h, eo_value input, const void *data)
{
    for (uint32_t i = 0; i < h->n_inputs; i++) {
        const struct plan_place *p = &h->inputs[i];

        if (p->value == input) {
            if (place_bytes(h, p) > 0) {
                ASSERT_OK(h->dev->backend->copy_in(h->dev, device_address(h, p), data, place_bytes(h, p), &err));
            }
            return;
        }
    }
    ck_abort_msg("value %u is no input", input);
}

int harness_run(struct harness *h, struct eo_error *out_err)
{
    int rc = executor_run(h->executor, h->plan, h->buffers, NULL, out_err);

    if (rc == EO_OK && h->dev->backend->sync != NULL) {
        rc = h->dev->backend->sync(h->dev, out_err);
    }
    return rc;
}

void harness_fetch(struct harness *h, uint32_t output, void *data)
{
    const struct plan_place *p = &h->outputs[output];

    if (place_bytes(h, p) > 0) {
        ASSERT_OK(h->dev->backend->copy_out(h->dev, data, device_address(h, p), place_bytes(h, p), &err));
    }
}

double harness_get(enum eo_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case EO_FLOAT32:
        return ((const float *)data)[i];
    case EO_FLOAT64:
        return ((const double *)data)[i];
    case EO_FLOAT16:
        return eo_half_to_float(((const uint16_t *)data)[i]);
    case EO_BFLOAT16:
        return eo_bfloat_to_float(((const uint16_t *)data)[i]);
    case EO_INT64:
        return (double)((const int64_t *)data)[i];
    case EO_INT32:
        return ((const int32_t *)data)[i];
    case EO_INT8:
        return ((const int8_t *)data)[i];
    case EO_UINT8:
    case EO_BOOL:
        return ((const uint8_t *)data)[i];
    default:
        ck_abort_msg("no test reads %s", eo_dtype_name(dtype));
    }
}

void harness_set(enum eo_dtype dtype, void *data, int64_t i, double v)
{
    switch (dtype) {
    case EO_FLOAT32:
        ((float *)data)[i] = (float)v;
        break;
    case EO_FLOAT64:
        ((double *)data)[i] = v;
        break;
    case EO_FLOAT16:
        ((uint16_t *)data)[i] = eo_half_from_double(v);
        break;
    case EO_BFLOAT16:
        ((uint16_t *)data)[i] = eo_bfloat_from_double(v);
        break;
    case EO_INT64:
        ((int64_t *)data)[i] = (int64_t)v;
        break;
    case EO_INT32:
        ((int32_t *)data)[i] = (int32_t)v;
        break;
    case EO_INT8:
        ((int8_t *)data)[i] = (int8_t)v;
        break;
    case EO_UINT8:
        ((uint8_t *)data)[i] = (uint8_t)v;
        break;
    case EO_BOOL:
        ((uint8_t *)data)[i] = v != 0;
        break;
    default:
        ck_abort_msg("no test writes %s", eo_dtype_name(dtype));
    }
}

/* splitmix64 (public domain, S. Vigna) of seed and index. */
double harness_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0xD1342543DE82EF95U + (index + 1) * 0x9E3779B97F4A7C15U;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

struct eo_device *harness_device(const char *name)
{
    struct eo_device *dev;

    ASSERT_OK(registry_open(name, &(struct eo_device_config){.threads = 1}, &dev, NULL, 0, &err));
    return dev;
}

struct eo_tensor_desc harness_desc(enum eo_dtype dtype, int n_dims, const int64_t *shape)
{
    struct eo_tensor_desc d;

    ASSERT_OK(eo_tensor_desc_init(&d, dtype, shape, n_dims, &err));
    return d;
}

eo_value harness_input(struct eo_graph *g, const char *name, enum eo_dtype dtype, int n_dims, const int64_t *shape)
{
    struct eo_tensor_desc d = harness_desc(dtype, n_dims, shape);
    eo_value v;

    ASSERT_OK(eo_graph_input(g, name, &d, &v, &err));
    return v;
}
