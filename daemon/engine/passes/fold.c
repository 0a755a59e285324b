/* Constant folding: nodes whose operands are all known run once, on the reference backend, while the plan is made.
 * Sizes are bounded, so that folding never costs more memory than a small part of the graph itself; a node that fails
 * (an index out of range) is left alone and fails when the plan runs, where the error belongs. */
#include "daemon/engine/passes/pass.h"

#include <string.h>

enum {
    FOLD_MAX_IN = 256 * 1024,         /* bytes of a node's operands */
    FOLD_MAX_OUT = 64 * 1024,         /* bytes of a node's results */
    FOLD_MAX_TOTAL = 16 * 1024 * 1024 /* bytes of all results of one plan */
};

struct fold {
    struct ir *ir;
    uint64_t total; /* bytes folded so far */
    uint64_t out_bytes;
};

/* Nodes without operands (full) fold only to scalars: a filled tensor is cheaper made than stored. */
static bool worth_folding(struct fold *f, const struct ir_node *node)
{
    const struct ir *ir = f->ir;
    uint64_t in_bytes = 0;

    if (node->op == NULL || (node->op->flags & (EO_OPF_RANDOM | EO_OPF_INTERNAL)) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        const struct ir_value *v = &ir->values[node->in[i]];

        if (v->kind != IR_CONSTANT) {
            return false;
        }
        in_bytes += eo_tensor_desc_bytes(&v->desc);
        if (in_bytes > FOLD_MAX_IN) {
            return false;
        }
    }
    f->out_bytes = 0;
    for (uint32_t o = 0; o < node->n_out; o++) {
        const struct eo_tensor_desc *d = &ir->values[node->out[o]].desc;

        if (eo_tensor_desc_bytes(d) > FOLD_MAX_OUT || (node->n_in == 0 && eo_tensor_desc_count(d) != 1)) {
            return false;
        }
        f->out_bytes += eo_tensor_desc_bytes(d);
    }
    return f->out_bytes <= FOLD_MAX_OUT && f->total + f->out_bytes <= FOLD_MAX_TOTAL;
}

static int run_selected(struct eo_device *dev, const struct eo_kernel *kernel, struct eo_launch *launch)
{
    const struct eo_backend *backend = dev->backend;
    int rc =
        kernel->workspace_bytes == 0 ? EO_OK : backend->alloc(dev, kernel->workspace_bytes, &launch->workspace, NULL);

    launch->state = kernel->state;
    if (rc == EO_OK) {
        rc = kernel->run(dev, launch, NULL);
    }
    if (rc == EO_OK && backend->sync != NULL) {
        rc = backend->sync(dev, NULL);
    }
    if (launch->workspace != NULL) {
        backend->free(dev, launch->workspace, kernel->workspace_bytes);
    }
    return rc;
}

/* Runs a node on host memory; *out_ran tells whether out[] holds results. */
static int run_view(struct fold *f, const struct eo_node_view *view, const uint32_t *in, void **out, bool *out_ran,
                    struct eo_error *err)
{
    struct eo_launch launch = {.node = view};
    struct eo_kernel kernel = {0};
    struct eo_device *dev;
    int rc = ir_reference(f->ir, &dev, err);

    if (rc != EO_OK) {
        return rc;
    }
    for (int i = 0; i < view->n_in; i++) {
        /* Kernels only read their inputs. */
        memcpy(&launch.in[i], &f->ir->values[in[i]].data, sizeof(launch.in[i]));
    }
    for (int o = 0; o < view->n_out; o++) {
        launch.out[o] = out[o] = ir_alloc(f->ir, eo_tensor_desc_bytes(view->out[o]), err);
        if (out[o] == NULL) {
            return EO_E_NO_MEMORY;
        }
    }
    *out_ran = dev->backend->select(dev, view, &kernel, NULL) == EO_OK;
    if (*out_ran) {
        *out_ran = run_selected(dev, &kernel, &launch) == EO_OK;
        if (kernel.state_free != NULL) {
            kernel.state_free(kernel.state);
        }
    }
    return EO_OK;
}

static int fold_node(struct fold *f, const struct ir_node *node, struct eo_error *err)
{
    struct eo_node_view view;
    void *data[EO_MAX_OUTPUTS] = {NULL};
    bool ran;
    int rc;

    ir_view(f->ir, node, &view);
    rc = run_view(f, &view, node->in, data, &ran, err);
    for (uint32_t o = 0; rc == EO_OK && ran && o < node->n_out; o++) {
        struct ir_value *v = &f->ir->values[node->out[o]];

        v->kind = IR_CONSTANT;
        v->node = IR_NONE;
        v->data = data[o];
    }
    f->total += rc == EO_OK && ran ? f->out_bytes : 0;
    return rc;
}

/* Notes the element that a full node repeats; pass_simplify makes use of it. */
static int learn_fill(struct fold *f, const struct ir_node *node, struct eo_error *err)
{
    struct eo_attrs attrs = *node->attrs;
    struct eo_tensor_desc scalar;
    struct eo_node_view view;
    void *data[EO_MAX_OUTPUTS] = {NULL};
    bool ran = false;
    int rc = eo_attrs_set_ints(node->op, &attrs, "shape", NULL, 0, err);

    if (rc == EO_OK) {
        rc = eo_tensor_desc_init(&scalar, (enum eo_dtype)f->ir->values[node->out[0]].desc.dtype, NULL, 0, err);
    }
    if (rc == EO_OK) {
        ir_view(f->ir, node, &view);
        view.attrs = &attrs;
        view.out[0] = &scalar;
        rc = run_view(f, &view, node->in, data, &ran, err);
    }
    if (rc == EO_OK && ran) {
        f->ir->values[node->out[0]].data = data[0];
    }
    return rc;
}

int pass_fold(struct ir *ir, struct eo_error *err)
{
    struct fold f = {.ir = ir};
    int rc = EO_OK;

    for (uint32_t n = 0; rc == EO_OK && n < ir->n_nodes; n++) {
        const struct ir_node *node = &ir->nodes[n];

        if (worth_folding(&f, node)) {
            rc = fold_node(&f, node, err);
        } else if (node->op != NULL && node->op->op == EO_OP_FULL) {
            rc = learn_fill(&f, node, err);
        }
    }
    return rc == EO_OK ? ir_sweep(ir, err) : rc;
}
