/* conv, conv_transpose and conv_weight by oneDNN. What it does not take is left to their lowerings. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "proto/shape_rules.h"

#include <stdlib.h>

struct convolve {
    struct cpu_node node;
    struct onednn_conv *conv;
    enum onednn_conv_kind kind;
    bool adds_bias; /* conv_transpose: after the library, which has no bias there */
    bool channels_first;
    int64_t channels, positions, rows; /* of the result: rows are pixels, or planes with channels first */
};

struct job {
    const struct convolve *c;
    float *y;
    const float *bias;
};

static void add_bias(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct convolve *c = j->c;
    int64_t n = c->channels_first ? c->positions : c->channels;
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < n; i++)
            j->y[row * n + i] += j->bias[c->channels_first ? row % c->channels : i];
}

static int convolve_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct convolve *c = l->state;
    int threads = dev->base.info.threads;
    struct onednn_conv_operands o = {.workspace = l->workspace};
    if (c->kind == ONEDNN_CONV)
        o = (struct onednn_conv_operands){l->in[0], l->in[1], l->out[0], l->workspace, l->in[2]};
    else if (c->kind == ONEDNN_CONV_CELLS)
        o = (struct onednn_conv_operands){l->out[0], l->in[1], l->in[0], l->workspace, NULL};
    else
        o = (struct onednn_conv_operands){l->in[0], l->out[0], l->in[1], l->workspace, NULL};
    parallel_set_threads(threads);
    int rc = onednn_conv_run(c->conv, &o, err);
    if (rc == EO_OK && c->adds_bias) {
        struct job j = {c, l->out[0], l->in[2]};
        int64_t n = c->channels_first ? c->positions : c->channels;
        parallel_for(threads, c->rows, parallel_grain(n), add_bias, &j);
    }
    return rc;
}

static void convolve_free(void *state)
{
    struct convolve *c = state;
    onednn_conv_free(c->conv);
    free(c);
}

static void look_at(struct convolve *c, const struct eo_node_view *node, const struct eo_window_shape *w)
{
    bool given = eo_input_given(node->in, node->n_in, 2);
    c->kind = node->op->op == EO_OP_CONV             ? ONEDNN_CONV
              : node->op->op == EO_OP_CONV_TRANSPOSE ? ONEDNN_CONV_CELLS
                                                     : ONEDNN_CONV_WEIGHT;
    c->adds_bias = given && c->kind == ONEDNN_CONV_CELLS;
    c->channels_first = w->channels_first;
    c->channels = w->channels;
    c->positions = eo_window_positions(w);
    c->rows = w->batch * (w->channels_first ? w->channels : c->positions);
}

int convolve_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err)
{
    struct eo_window_shape w;
    struct convolve *c = NULL;
    const char *reason = NULL;
    if (!dev->has_onednn)
        return cpu_decline(why, node->op->name, "oneDNN %s",
                           onednn_is_compiled() ? "cannot be used" : "is not in this build");
    if (node->in[0]->dtype != EO_FLOAT32)
        return cpu_decline(why, node->op->name, "oneDNN takes float32");
    int rc = eo_window_resolve(node->op, node->in, node->n_in, node->attrs, &w, err);
    if (rc == EO_OK)
        rc = cpu_node_new(sizeof *c, &c, err);
    if (rc != EO_OK)
        return rc;
    look_at(c, node, &w);
    bool has_bias = c->kind == ONEDNN_CONV && eo_input_given(node->in, node->n_in, 2);
    parallel_set_threads(dev->base.info.threads); /* the library divides its work when it is prepared */
    rc = onednn_conv_new(&w, c->kind, has_bias, &c->conv, &out->workspace_bytes, &reason, err);
    if (rc != EO_OK) {
        free(c);
        return rc == EO_E_UNSUPPORTED ? cpu_decline(why, node->op->name, "oneDNN %s", reason) : rc;
    }
    cpu_node_finish(&c->node, convolve_run, out, "%s.float32.onednn", node->op->name);
    out->state_free = convolve_free;
    return EO_OK;
}
