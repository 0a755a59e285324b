#include "daemon/train/step_graph.h"

#include "daemon/engine/autodiff.h"
#include "daemon/train/metrics.h"
#include "proto/philox.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* A graph being written, with the places of what goes in and out. */
struct draft {
    const struct step_shape *shape;
    struct eo_graph *graph;
    struct eo_builder b;
    struct plan_place *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
};

static int draft_init(struct draft *d, const struct step_shape *s, struct eo_error *err)
{
    size_t most = 2 * (size_t)s->n_params + STEP_MAX_SLOTS + STEP_MAX_METRIC_SUMS + 8;

    *d = (struct draft){.shape = s, .graph = eo_graph_new()};
    d->inputs = calloc(most, sizeof(*d->inputs));
    d->outputs = calloc(most, sizeof(*d->outputs));
    if (d->graph == NULL || d->inputs == NULL || d->outputs == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the graph of a training step");
    }
    eo_build_init(&d->b, d->graph, err);
    return EO_OK;
}

static void draft_fini(struct draft *d)
{
    eo_graph_free(d->graph);
    free(d->inputs);
    free(d->outputs);
}

static eo_value put_input(struct draft *d, const char *name, const struct eo_tensor_desc *desc, uint32_t buffer,
                          uint64_t offset)
{
    eo_value v = EO_NO_VALUE;

    if (d->b.status == EO_OK) {
        d->b.status = eo_graph_input(d->graph, name, desc, &v, d->b.err);
    }
    if (d->b.status == EO_OK) {
        d->inputs[d->n_inputs++] = (struct plan_place){.value = v, .buffer = buffer, .offset = offset};
    }
    return v;
}

static void put_output(struct draft *d, eo_value v, uint32_t buffer, uint64_t offset)
{
    if (d->b.status == EO_OK) {
        d->outputs[d->n_outputs++] = (struct plan_place){.value = v, .buffer = buffer, .offset = offset};
    }
}

static int compile(struct draft *d, struct eo_device *dev, struct plan **out, struct eo_error *err)
{
    const struct plan_spec spec = {.graph = d->graph,
                                   .inputs = d->inputs,
                                   .n_inputs = d->n_inputs,
                                   .outputs = d->outputs,
                                   .n_outputs = d->n_outputs,
                                   .fallback = d->shape->fallback};

    return d->b.status != EO_OK ? d->b.status : plan_compile(&spec, dev, out, err);
}

/* ---- forward and backward ---- */

static void put_sums(struct draft *d, eo_value output, eo_value targets, eo_value losses)
{
    const struct step_shape *s = d->shape;
    eo_value wide = eo_build_cast(&d->b, losses, EO_FLOAT64);
    uint64_t offset = offsetof(struct step_results, metric_sums);

    put_output(d, eo_build_reduce(&d->b, EO_OP_SUM, wide, NULL, 0, false), STEP_RESULTS,
               offsetof(struct step_results, loss_sum));
    for (int i = 0; i < s->n_metrics; i++) {
        enum metric_kind kind = (enum metric_kind)s->metrics[i];
        eo_value sums[METRIC_MAX_SUMS];

        d->graph->label = metric_name(kind);
        metric_build(kind, &d->b, output, targets, s->target_shift, sums);
        for (int k = 0; k < metric_n_sums(kind); k++, offset += sizeof(double)) {
            put_output(d, sums[k], STEP_RESULTS, offset);
        }
    }
    d->graph->label = NULL;
}

/* What is there already, for parts of a step that add to it. */
static eo_value add_to_gradient(struct draft *d, int i, eo_value grad)
{
    const struct step_layout_entry *e = &d->shape->layout[i];
    char name[STEP_NAME + 8];

    snprintf(name, sizeof(name), "grad of %s", e->name);
    return eo_build_binary(&d->b, EO_OP_ADD, put_input(d, name, &e->desc, STEP_GRADS, e->offset), grad);
}

/* The gradient of sum(losses) / global batch: each row's loss is seeded with 1 / global batch. */
static int put_gradients(struct draft *d, eo_value losses, const eo_value *params, eo_value *grads, bool accumulate,
                         struct eo_error *err)
{
    const struct step_shape *s = d->shape;
    const struct eo_tensor_desc scalar = {.dtype = (uint8_t)s->model->dtype};
    eo_value inv_count = put_input(d, "inv_count", &scalar, STEP_SCALARS, offsetof(struct step_scalars, inv_count));
    const struct eo_tensor_desc *rows = eo_build_desc(&d->b, losses);
    eo_value seed = eo_build_expand(&d->b, inv_count, rows->shape, rows->n_dims);
    int status = d->b.status;

    if (status == EO_OK) {
        status = autodiff_gradients(d->graph, losses, seed, params, s->n_params, grads, err);
    }
    for (int i = 0; i < s->n_params && status == EO_OK; i++) {
        eo_value grad = accumulate ? add_to_gradient(d, i, grads[i]) : grads[i];

        put_output(d, grad, STEP_GRADS, s->layout[i].offset);
        status = d->b.status;
    }
    return status;
}

static int write_compute(struct draft *d, int64_t n_rows, enum step_pass pass, eo_value *values, struct eo_error *err)
{
    const struct step_shape *s = d->shape;
    struct eo_tensor_desc x_desc = s->model->input, y_desc;
    const struct eo_tensor_desc rng_desc = {.dtype = EO_INT64, .n_dims = 1, .shape = {EO_RNG_WORDS}};
    eo_value *params = values, *grads = values + s->n_params;
    eo_value x, y, output, losses, rng = EO_NO_VALUE;
    int status = model_target_desc(s->model, &y_desc, err);

    if (status != EO_OK) {
        return status;
    }
    x_desc.shape[0] = y_desc.shape[0] = n_rows;
    x = put_input(d, "x", &x_desc, STEP_X, 0);
    y = put_input(d, "y", &y_desc, STEP_Y, 0);
    if (pass != STEP_EVALUATE) {
        rng = put_input(d, "rng", &rng_desc, STEP_SCALARS, offsetof(struct step_scalars, rng));
    }
    for (int i = 0; i < s->n_params; i++) {
        params[i] = put_input(d, s->layout[i].name, &s->layout[i].desc, STEP_PARAMS, s->layout[i].offset);
    }
    output = model_forward(s->model, &d->b, x, params, rng);
    losses = model_losses(s->model, &d->b, output, y);
    put_sums(d, output, y, losses);
    if (pass == STEP_EVALUATE) {
        put_output(d, output, STEP_PRED, 0);
    } else if (d->b.status == EO_OK) {
        return put_gradients(d, losses, params, grads, pass == STEP_ACCUMULATE, err);
    }
    return d->b.status;
}

int step_graph_compute(const struct step_shape *s, int64_t n_rows, enum step_pass pass, struct eo_device *dev,
                       struct plan **out, struct eo_error *err)
{
    eo_value *values = calloc((size_t)s->n_params * 2, sizeof(*values));
    struct draft d;
    int status = draft_init(&d, s, err);

    if (values == NULL && status == EO_OK) {
        status = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the graph of a training step");
    }
    if (status == EO_OK) {
        status = write_compute(&d, n_rows, pass, values, err);
    }
    if (status == EO_OK) {
        status = compile(&d, dev, out, err);
    }
    draft_fini(&d);
    free(values);
    return status;
}

/* ---- commit and update: over flat vectors, padding included ---- */

static struct eo_tensor_desc flat_desc(const struct step_shape *s)
{
    return (struct eo_tensor_desc){.dtype = (uint8_t)s->model->dtype, .n_dims = 1, .shape = {s->flat_elements}};
}

/* Gradients limited to +- clip_value, in place, and their norm. */
static void put_clipped(struct draft *d, eo_value grads)
{
    eo_value clipped = eo_build_clip(&d->b, grads, -d->shape->clip_value, d->shape->clip_value);

    put_output(d, clipped, STEP_GRADS, 0);
    put_output(d, eo_build_unary(&d->b, EO_OP_SUM_SQUARES, clipped), STEP_RESULTS,
               offsetof(struct step_results, clipped_squares));
}

int step_graph_commit(const struct step_shape *s, struct eo_device *dev, struct plan **out, struct eo_error *err)
{
    const struct eo_tensor_desc flat = flat_desc(s);
    struct draft d;
    int status = draft_init(&d, s, err);

    if (status == EO_OK) {
        eo_value grads = put_input(&d, "grads", &flat, STEP_GRADS, 0);

        put_output(&d, eo_build_unary(&d.b, EO_OP_SUM_SQUARES, grads), STEP_RESULTS,
                   offsetof(struct step_results, sum_squares));
        if (s->clip_value > 0) {
            put_clipped(&d, grads);
        }
        status = compile(&d, dev, out, err);
    }
    draft_fini(&d);
    return status;
}

int step_graph_slots(const struct step_shape *s)
{
    return optimizer_slots(s->optimizer) + (s->ema ? 1 : 0);
}

/* average + ema (params - average), ema near 0 */
static void put_average(struct draft *d, eo_value params, const struct eo_tensor_desc *flat)
{
    const struct eo_tensor_desc scalar = {.dtype = flat->dtype};
    uint32_t buffer = STEP_SLOTS + (uint32_t)step_graph_slots(d->shape) - 1;
    eo_value average = put_input(d, "ema", flat, buffer, 0);
    eo_value part = put_input(d, "ema_part", &scalar, STEP_SCALARS, offsetof(struct step_scalars, ema));
    eo_value change = eo_build_binary(&d->b, EO_OP_SUBTRACT, params, average);

    change = eo_build_binary(&d->b, EO_OP_MULTIPLY, change, part);
    put_output(d, eo_build_binary(&d->b, EO_OP_ADD, average, change), buffer, 0);
}

int step_graph_update(const struct step_shape *s, struct eo_device *dev, struct plan **out, struct eo_error *err)
{
    const struct eo_tensor_desc flat = flat_desc(s);
    const struct eo_tensor_desc scalars = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {OPTIMIZER_SCALARS}};
    int n_slots = optimizer_slots(s->optimizer);
    struct draft d;
    int status = draft_init(&d, s, err);

    if (status == EO_OK) {
        eo_value slots[OPTIMIZER_MAX_SLOTS], new_slots[OPTIMIZER_MAX_SLOTS];
        eo_value params = put_input(&d, "params", &flat, STEP_PARAMS, 0);
        eo_value grads = put_input(&d, "grads", &flat, STEP_GRADS, 0);
        eo_value rates = put_input(&d, "scalars", &scalars, STEP_SCALARS, offsetof(struct step_scalars, optimizer));

        for (int i = 0; i < n_slots; i++) {
            slots[i] = put_input(&d, optimizer_slot_name(s->optimizer, i), &flat, STEP_SLOTS + (uint32_t)i, 0);
        }
        params = optimizer_build(s->optimizer, &d.b, params, grads, slots, rates, new_slots);
        put_output(&d, params, STEP_PARAMS, 0);
        for (int i = 0; i < n_slots; i++) {
            put_output(&d, new_slots[i], STEP_SLOTS + (uint32_t)i, 0);
        }
        if (s->ema) {
            put_average(&d, params, &flat);
        }
        status = compile(&d, dev, out, err);
    }
    draft_fini(&d);
    return status;
}
