#include "daemon/engine/kernels.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a fallback needs at run time. Staging is host memory for every operand; a device whose memory is host memory
 * needs none. */
struct fallback {
    struct eo_device *reference;
    struct eo_kernel kernel;
    void *workspace;
    unsigned char *staging; /* one block, operands 64-byte aligned inside; NULL: operands are used in place */
    uint64_t offsets[EO_MAX_INPUTS + EO_MAX_OUTPUTS];
};

/* ---- names for messages ---- */

char *kernels_title(const struct eo_node_view *view, char *out, size_t size)
{
    size_t used;

    if (view->fused == NULL) {
        (void)eo_copy_text(out, size, view->op != NULL ? view->op->name : "copy");
        return out;
    }
    used = (size_t)snprintf(out, size, "fused(");
    for (int i = 0; i < view->fused->n_steps && used < size; i++) {
        const char *name = eo_op_schema((enum eo_op)view->fused->steps[i].op)->name;
        bool last = i + 1 == view->fused->n_steps;

        used += (size_t)snprintf(out + used, size - used, "%s%s", name, last ? ")" : ", ");
    }
    return out;
}

static const char *input_name(const struct eo_op_schema *op, int i, char *buffer, size_t size)
{
    if (op != NULL && (op->flags & EO_OPF_VARIADIC) == 0 && i < (int)EO_COUNT_OF(op->input_names)) {
        return op->input_names[i];
    }
    (void)snprintf(buffer, size, "input %d", i);
    return buffer;
}

void kernels_annotate(struct eo_error *err, const struct eo_node_view *view, const char *label, uint32_t origin,
                      const struct eo_device *dev)
{
    char title[sizeof(err->op)], node[sizeof(err->node)] = "", name[24];

    if (err == NULL) {
        return;
    }
    (void)kernels_title(view, title, sizeof(title));
    if (err->op[0] != '\0' && strcmp(err->op, title) != 0) {
        return; /* queued work of an earlier step */
    }
    if (label != NULL) {
        (void)snprintf(node, sizeof(node), "%u \"%s\"", origin, label);
    } else if (origin != IR_NONE) {
        (void)snprintf(node, sizeof(node), "%u", origin);
    }
    eo_error_at_op(err, title, node);
    if (err->backend[0] == '\0') {
        eo_error_at_device(err, dev->backend->name, dev->info.name);
    }
    for (int i = 0; err->n_inputs == i && i < view->n_in && i < EO_ERROR_INPUTS; i++) {
        eo_error_input_desc(err, input_name(view->op, i, name, sizeof(name)), view->in[i], -1);
    }
}

/* ---- copies ---- */

static int run_copy(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    uint64_t bytes = eo_tensor_desc_bytes(l->node->in[0]);

    return bytes == 0 ? EO_OK : dev->backend->copy(dev, l->out[0], l->in[0], bytes, err);
}

/* ---- fallback ---- */

static int copy_to_staging(struct eo_device *dev, const struct fallback *f, const struct eo_launch *l,
                           struct eo_launch *host, struct eo_error *err)
{
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < l->node->n_in; i++) {
        uint64_t bytes = eo_tensor_desc_bytes(l->node->in[i]);

        host->in[i] = f->staging + f->offsets[i];
        rc = bytes == 0 ? EO_OK : dev->backend->copy_out(dev, host->in[i], l->in[i], bytes, err);
    }
    for (int o = 0; o < l->node->n_out; o++) {
        host->out[o] = f->staging + f->offsets[l->node->n_in + o];
    }
    return rc;
}

static int copy_from_staging(struct eo_device *dev, const struct eo_launch *l, const struct eo_launch *host,
                             struct eo_error *err)
{
    int rc = EO_OK;

    for (int o = 0; rc == EO_OK && o < l->node->n_out; o++) {
        uint64_t bytes = eo_tensor_desc_bytes(l->node->out[o]);

        rc = bytes == 0 ? EO_OK : dev->backend->copy_in(dev, l->out[o], host->out[o], bytes, err);
    }
    return rc;
}

static int run_on_reference(const struct fallback *f, struct eo_launch *host, struct eo_error *err)
{
    int rc;

    host->workspace = f->workspace;
    host->state = f->kernel.state;
    rc = f->kernel.run(f->reference, host, err);
    if (rc != EO_OK) {
        eo_error_at_device(err, f->reference->backend->name, f->reference->info.name);
    }
    return rc;
}

/* Waits for what was queued before, so that its errors are not taken for the fallback's. */
static int wait_for_earlier(struct eo_device *dev, struct eo_error *err)
{
    int rc = dev->backend->sync != NULL ? dev->backend->sync(dev, err) : EO_OK;

    if (rc != EO_OK && err != NULL && err->op[0] == '\0') {
        eo_error_at_op(err, "queued work", NULL);
    }
    return rc;
}

static int run_fallback(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct fallback *f = l->state;
    struct eo_launch host = *l;
    int rc = wait_for_earlier(dev, err);

    if (rc == EO_OK && f->staging != NULL) {
        rc = copy_to_staging(dev, f, l, &host, err);
    }
    if (rc == EO_OK) {
        rc = run_on_reference(f, &host, err);
    }
    return rc == EO_OK && f->staging != NULL ? copy_from_staging(dev, l, &host, err) : rc;
}

static void fallback_free(struct fallback *f)
{
    if (f == NULL) {
        return;
    }
    if (f->kernel.state_free != NULL) {
        f->kernel.state_free(f->kernel.state);
    }
    if (f->workspace != NULL) {
        f->reference->backend->free(f->reference, f->workspace, f->kernel.workspace_bytes);
    }
    free(f->staging);
    free(f);
}

static int make_staging(struct fallback *f, const struct eo_node_view *view, struct eo_error *err)
{
    uint64_t total = 0;
    void *memory;

    for (int i = 0; i < view->n_in + view->n_out; i++) {
        uint64_t bytes = eo_tensor_desc_bytes(i < view->n_in ? view->in[i] : view->out[i - view->n_in]);

        f->offsets[i] = total;
        /* Each is below 2^63 and there are 68 at most; what does not fit in memory fails below. */
        if (bytes > (UINT64_MAX >> 8)) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "an operand of %llu bytes", (unsigned long long)bytes);
        }
        total += (bytes + IR_ALIGN - 1) / IR_ALIGN * IR_ALIGN;
    }
    if (posix_memalign(&memory, IR_ALIGN, (size_t)EO_MAX(total, IR_ALIGN)) != 0) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for %llu bytes of staging", (unsigned long long)total);
    }
    f->staging = memory;
    return EO_OK;
}

static int fallback_new(struct ir *ir, const struct eo_node_view *view, struct fallback **out, struct eo_error *err)
{
    struct fallback *f = calloc(1, sizeof(*f));
    int rc =
        f == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a fallback") : ir_reference(ir, &f->reference, err);

    if (rc == EO_OK) {
        rc = f->reference->backend->select(f->reference, view, &f->kernel, err);
    }
    if (rc == EO_OK && f->kernel.workspace_bytes > 0) {
        rc = f->reference->backend->alloc(f->reference, f->kernel.workspace_bytes, &f->workspace, err);
    }
    if (rc == EO_OK && !ir->dev->info.host_memory) {
        rc = make_staging(f, view, err);
    }
    if (rc != EO_OK) {
        fallback_free(f);
        return rc;
    }
    *out = f;
    return EO_OK;
}

/* ---- choosing ---- */

static int refuse(struct ir *ir, const struct ir_node *node, const struct eo_node_view *view,
                  const struct eo_error *refusal, struct eo_error *err)
{
    if (err != NULL) {
        *err = *refusal;
        if (err->hint[0] == '\0') {
            eo_error_hint(err, "Run on a device that supports it, or allow fallback: with the policy \"report\" the "
                               "operation runs on the reference backend.");
        }
        kernels_annotate(err, view, node->label, node->origin, ir->dev);
    }
    return EO_E_UNSUPPORTED;
}

int kernels_choose(struct ir *ir, const struct ir_node *node, const struct eo_node_view *view,
                   struct kernels_choice *choice, char *why, size_t why_size, struct eo_error *err)
{
    struct eo_error refusal;
    int rc;

    if (ir_is_copy(node)) {
        choice->kernel = (struct eo_kernel){.run = run_copy, .name = "engine.copy"};
        return EO_OK;
    }
    rc = ir->dev->backend->select(ir->dev, view, &choice->kernel, &refusal);
    if (rc == EO_OK) {
        return EO_OK;
    }
    if (rc != EO_E_UNSUPPORTED) {
        if (err != NULL) {
            *err = refusal;
            kernels_annotate(err, view, node->label, node->origin, ir->dev);
        }
        return rc;
    }
    if (ir->spec->fallback == PLAN_STRICT) {
        return refuse(ir, node, view, &refusal, err);
    }
    rc = fallback_new(ir, view, &choice->fallback, err);
    if (rc != EO_OK) {
        kernels_annotate(err, view, node->label, node->origin, ir->dev);
        return rc;
    }
    (void)eo_copy_text(why, why_size, refusal.detail[0] != '\0' ? refusal.detail : refusal.message);
    choice->kernel =
        (struct eo_kernel){.run = run_fallback, .name = choice->fallback->kernel.name, .state = choice->fallback};
    return EO_OK;
}

void kernels_release(struct kernels_choice *choice)
{
    fallback_free(choice->fallback);
    if (choice->kernel.state_free != NULL) {
        choice->kernel.state_free(choice->kernel.state);
    }
    *choice = (struct kernels_choice){0};
}
