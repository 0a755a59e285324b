/* task.caps: which operations the device supports, with which dtypes. Asked with one call of each (proto/op_example.h).
 */
#include "daemon/engine/plan.h"
#include "daemon/worker/worker.h"
#include "proto/op_example.h"

/* Whether a graph of this one operation can be compiled for the device. */
static bool compiles(struct worker *w, const struct eo_op_schema *op, const struct eo_op_example *e)
{
    struct eo_graph *g = eo_graph_new();
    struct plan_place inputs[EO_MAX_NAMED_INPUTS], output = {.buffer = (uint32_t)e->n_in};
    eo_value values[EO_MAX_NAMED_INPUTS], out[EO_MAX_OUTPUTS];
    struct plan *plan = NULL;
    int code = g ? EO_OK : EO_E_NO_MEMORY;
    for (int i = 0; code == EO_OK && i < e->n_in; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        code = eo_graph_input(g, name, &e->in[i], &values[i], NULL);
        inputs[i] = (struct plan_place){.value = values[i], .buffer = (uint32_t)i};
    }
    if (code == EO_OK) {
        code = eo_graph_add(g, op->op, values, e->n_in, &e->attrs, out, NULL);
    }
    if (code == EO_OK) {
        output.value = out[0];
        const struct plan_spec spec = {
            .graph = g, .inputs = inputs, .n_inputs = (uint32_t)e->n_in, .outputs = &output, .n_outputs = 1};
        code = plan_compile(&spec, w->device, &plan, NULL);
    }
    plan_free(plan);
    eo_graph_free(g);
    return code == EO_OK;
}

static bool supports(struct worker *w, const struct eo_op_schema *op, enum eo_dtype dtype)
{
    struct eo_op_example e;
    struct eo_node_view view = {.op = op};
    struct eo_kernel kernel = {.run = NULL};
    if (!eo_op_example(op, dtype, &e)) {
        return false;
    }
    view.attrs = &e.attrs;
    view.n_in = e.n_in;
    view.n_out = eo_op_n_outputs(op, &e.attrs);
    for (int i = 0; i < view.n_in; i++) {
        view.in[i] = &e.in[i];
    }
    for (int i = 0; i < view.n_out; i++) {
        view.out[i] = &e.out[i];
    }
    if (w->device->backend->select(w->device, &view, &kernel, NULL) != EO_OK) {
        /* The engine computes a composite by its lowering where a backend has no kernel of its own. */
        return (op->flags & EO_OPF_COMPOSITE) != 0 && compiles(w, op, &e);
    }
    if (kernel.state_free) {
        kernel.state_free(kernel.state);
    }
    return true;
}

TASK(CAPS)
{
    EO_UNUSED(call);
    if (!w->device) {
        return EO_RAISE(err, EO_E_NO_DEVICE, "this worker has no device");
    }
    size_t n_ops = 0;
    for (int i = EO_OP_NONE + 1; i < EO_OP_COUNT; i++) {
        n_ops += (eo_op_schema((enum eo_op)i)->flags & EO_OPF_INTERNAL) ? 0 : 1;
    }
    eo_pack_map(result, 2);
    eo_pack_kv_str(result, "device", w->device->info.name);
    eo_pack_str(result, "ops");
    eo_pack_map(result, n_ops);
    for (int i = EO_OP_NONE + 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        if (op->flags & EO_OPF_INTERNAL) {
            continue;
        }
        enum eo_dtype found[EO_DTYPE_LIMIT];
        size_t n = 0;
        for (int dtype = 1; dtype < EO_DTYPE_LIMIT; dtype++) {
            if ((op->dtypes & EO_DTYPE_BIT(dtype)) && supports(w, op, (enum eo_dtype)dtype)) {
                found[n++] = (enum eo_dtype)dtype;
            }
        }
        eo_pack_str(result, op->name);
        eo_pack_array(result, n);
        for (size_t k = 0; k < n; k++) {
            eo_pack_str(result, eo_dtype_name(found[k]));
        }
    }
    return EO_OK;
}
