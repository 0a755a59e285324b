/* task.facts and task.caps: what this process knows about backends, its device and the libraries in it. */
#include "backends/cpu/blas.h"
#include "backends/cpu/onednn.h"
#include "backends/registry.h"
#include "daemon/engine/plan.h"
#include "daemon/formats/onnx/onnx.h"
#include "daemon/worker/worker_run.h"
#include "proto/base/text.h"
#include "proto/op_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- facts ---- */

static const char *state_name(enum eo_fact_state s)
{
    static const char *const names[] = {[EO_FACT_UNKNOWN] = "unknown", [EO_FACT_NO] = "no", [EO_FACT_YES] = "yes"};
    return names[s];
}

/* Facts 5 and 6 as far as this process can say them for its own device. */
static void complete_facts(const struct worker *w, const struct eo_backend *b, struct eo_backend_facts *f)
{
    if (!w->device || w->device->backend != b) {
        return;
    }
    if (f->state[EO_FACT_SUPPORTED] == EO_FACT_UNKNOWN) {
        snprintf(f->why[EO_FACT_SUPPORTED], sizeof(f->why[0]), "asked per operation: `everyo ops` shows the table");
    }
    /* A worker that had nothing to do yet is no reason to worry. */
    f->state[EO_FACT_USED] = w->device->n_launches > 0 ? EO_FACT_YES : EO_FACT_UNKNOWN;
    if (w->device->n_launches > 0) {
        snprintf(f->why[EO_FACT_USED], sizeof(f->why[0]), "%llu kernels run by this worker",
                 (unsigned long long)w->device->n_launches);
    } else {
        snprintf(f->why[EO_FACT_USED], sizeof(f->why[0]), "this worker has run nothing yet");
    }
}

static void pack_facts(struct eo_bytes *b, const struct eo_backend_facts *f)
{
    eo_pack_str(b, "facts");
    eo_pack_array(b, EO_FACT_COUNT);
    for (int i = 0; i < EO_FACT_COUNT; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "fact", registry_fact_name((enum eo_fact)i));
        eo_pack_kv_str(b, "state", state_name(f->state[i]));
        eo_pack_kv_str(b, "why", f->why[i]);
    }
}

/* Known answers on the own device, or on one opened for the purpose. */
static void pack_self_check(struct eo_bytes *b, struct worker *w, const struct eo_backend *backend)
{
    struct eo_error err = {0};
    struct eo_device *dev = NULL;
    const struct eo_device_config config = {.threads = w->n_threads};
    char report[400] = "", reason[200];
    bool own = w->device && w->device->backend == backend;
    int code = EO_OK;
    if (own) {
        dev = w->device;
    } else {
        code = registry_open(backend->name, &config, &dev, reason, sizeof(reason), &err);
    }
    if (code == EO_OK) {
        code = backend->self_check(dev, report, sizeof(report), &err);
    }
    if (dev && !own) {
        registry_close(dev);
    }
    eo_pack_str(b, "self_check");
    eo_pack_map(b, 2);
    eo_pack_kv_bool(b, "ok", code == EO_OK);
    eo_pack_kv_str(b, "report", code == EO_OK ? report : err.message);
}

static bool usable(const struct eo_backend_facts *f)
{
    for (int i = 0; i < EO_FACT_SUPPORTED; i++) {
        if (f->state[i] != EO_FACT_YES) {
            return false;
        }
    }
    return true;
}

static void pack_backend(struct eo_bytes *b, struct worker *w, const struct eo_backend *backend, bool self_check)
{
    struct eo_backend_facts f;
    memset(&f, 0, sizeof(f));
    backend->probe(&f);
    complete_facts(w, backend, &f);
    bool checks = self_check && backend->self_check && usable(&f);
    uint64_t n_launches = w->device && w->device->backend == backend ? w->device->n_launches : 0;
    eo_pack_map(b, checks ? 4 : 3);
    eo_pack_kv_str(b, "name", backend->name);
    pack_facts(b, &f);
    eo_pack_kv_u64(b, "launches", n_launches);
    if (checks) {
        pack_self_check(b, w, backend);
    }
}

/* ---- libraries ---- */

/* The file that a library was loaded from. */
static void loaded_path(const char *part, char *out, size_t size)
{
    char line[1200];
    out[0] = '\0';
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && out[0] == '\0' && fgets(line, sizeof(line), maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, part)) {
            path[strcspn(path, "\n")] = '\0';
            (void)eo_copy_text(out, size, path);
        }
    }
    if (maps) {
        fclose(maps);
    }
}

/* "OpenBLAS 0.3.21 (Zen)" -> its three parts; part: of the name of its file. */
static void pack_library(struct eo_bytes *b, const struct worker *w, const char *key, const char *text,
                         const char *part)
{
    char name[32] = "", version[32] = "", kernel[64] = "", path[1024];
    eo_pack_str(b, key);
    if (text[0] == '\0') {
        eo_pack_nil(b);
        return;
    }
    const char *at = text;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at);
    at += strcspn(at, " ");
    at += strspn(at, " ");
    snprintf(version, sizeof(version), "%.*s", (int)strcspn(at, " "), at);
    const char *open = strchr(at, '(');
    if (open) {
        snprintf(kernel, sizeof(kernel), "%.*s", (int)strcspn(open + 1, ")"), open + 1);
    }
    loaded_path(part, path, sizeof(path));
    eo_pack_map(b, 5);
    eo_pack_kv_str(b, "implementation", name);
    eo_pack_kv_str(b, "version", version);
    eo_pack_kv_str(b, "kernel", kernel);
    eo_pack_kv_i64(b, "threads", w->device ? w->device->info.threads : w->n_threads);
    eo_pack_kv_str(b, "path", path[0] ? path : NULL);
}

TASK(FACTS)
{
    bool self_check = false;
    int code = eo_get_bool(call->params, "self_check", false, &self_check, err);
    if (code != EO_OK) {
        return code;
    }
    eo_pack_map(result, w->device ? 3 : 2);
    eo_pack_str(result, "backends");
    eo_pack_array(result, (size_t)registry_count());
    for (int i = 0; i < registry_count(); i++) {
        pack_backend(result, w, registry_at(i), self_check);
    }
    eo_pack_str(result, "versions");
    eo_pack_map(result, 3);
    eo_pack_kv_str(result, "protobuf_c", onnx_available() ? onnx_library() : NULL);
    pack_library(result, w, "blas", blas_description(), "blas");
    pack_library(result, w, "onednn", onednn_description(), "libdnnl");
    if (w->device) {
        eo_pack_str(result, "device");
        worker_pack_device(result, w->device);
    }
    return EO_OK;
}

/* ---- caps ---- */

enum { CAPS_MAX_IN = 4 };

/* One way to call an operation: a dtype (0 = the one asked about) and a shape per input. */
struct example {
    int n_in;
    enum eo_dtype dtype[CAPS_MAX_IN];
    const struct eo_tensor_desc *shape[CAPS_MAX_IN];
    struct eo_attrs attrs;
};

/* Shapes that are enough to call every operation once. */
static const struct eo_tensor_desc shapes[] = {{.n_dims = 2, .shape = {2, 2}},
                                               {.n_dims = 1, .shape = {2}},
                                               {.n_dims = 1, .shape = {3}},
                                               {.n_dims = 2, .shape = {1, 1}},
                                               {.n_dims = 0}};

static void example_attrs(const struct eo_op_schema *op, enum eo_dtype dtype, struct eo_attrs *out)
{
    static const int64_t two[2] = {2, 2}, one[2] = {1, 1}, zero[2] = {0, 0};
    eo_attrs_default(op, out);
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_schema *a = &op->attrs[i];
        if (a->kind == EO_ATTR_DTYPE) {
            (void)eo_attrs_set_int(op, out, a->name, dtype, NULL);
        } else if (a->kind == EO_ATTR_INT && a->required) {
            (void)eo_attrs_set_int(op, out, a->name, 2, NULL);
        } else if (strcmp(a->name, "shape") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, two, 2, NULL);
        } else if (strcmp(a->name, "starts") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, zero, 2, NULL);
        } else if (strcmp(a->name, "stops") == 0) {
            (void)eo_attrs_set_ints(op, out, a->name, one, 2, NULL);
        }
    }
}

static bool infers(const struct eo_op_schema *op, const struct example *e, enum eo_dtype dtype,
                   struct eo_tensor_desc *in, struct eo_tensor_desc *out)
{
    const struct eo_tensor_desc *at[CAPS_MAX_IN] = {NULL};
    struct eo_attrs attrs;
    example_attrs(op, dtype, &attrs);
    for (int i = 0; i < e->n_in; i++) {
        in[i] = *e->shape[i];
        in[i].dtype = (uint8_t)(e->dtype[i] ? e->dtype[i] : dtype);
        at[i] = &in[i];
    }
    return eo_op_infer(op, at, e->n_in, &attrs, out, NULL) == EO_OK;
}

/* Tries combinations of dtype and shape per input until the operation accepts one, the plainest first. */
static bool find_example(const struct eo_op_schema *op, enum eo_dtype dtype, struct example *e)
{
    static const enum eo_dtype kinds[] = {EO_DTYPE_NONE, EO_INT64, EO_BOOL};
    const int per_input = (int)(EO_COUNT_OF(kinds) * EO_COUNT_OF(shapes));
    struct eo_tensor_desc in[CAPS_MAX_IN], out[EO_MAX_OUTPUTS];
    e->n_in = op->min_inputs;
    if (e->n_in > CAPS_MAX_IN) {
        return false;
    }
    int total = 1;
    for (int i = 0; i < e->n_in; i++) {
        total *= per_input;
    }
    for (int number = 0; number < total; number++) {
        int rest = number;
        for (int i = e->n_in - 1; i >= 0; i--) {
            int choice = rest % per_input;
            rest /= per_input;
            e->dtype[i] = kinds[choice / (int)EO_COUNT_OF(shapes)];
            e->shape[i] = &shapes[choice % (int)EO_COUNT_OF(shapes)];
        }
        if (infers(op, e, dtype, in, out)) {
            return true;
        }
    }
    return false;
}

/* Whether a graph of this one operation can be compiled for the device. */
static bool compiles(struct worker *w, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                     const struct eo_tensor_desc *in, int n_in)
{
    struct eo_graph *g = eo_graph_new();
    struct plan_place inputs[CAPS_MAX_IN], output = {.buffer = (uint32_t)n_in};
    eo_value values[CAPS_MAX_IN], out[EO_MAX_OUTPUTS];
    struct plan *plan = NULL;
    int code = g ? EO_OK : EO_E_NO_MEMORY;
    for (int i = 0; code == EO_OK && i < n_in; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        code = eo_graph_input(g, name, &in[i], &values[i], NULL);
        inputs[i] = (struct plan_place){.value = values[i], .buffer = (uint32_t)i};
    }
    if (code == EO_OK) {
        code = eo_graph_add(g, op->op, values, n_in, attrs, out, NULL);
    }
    if (code == EO_OK) {
        output.value = out[0];
        const struct plan_spec spec = {
            .graph = g, .inputs = inputs, .n_inputs = (uint32_t)n_in, .outputs = &output, .n_outputs = 1};
        code = plan_compile(&spec, w->device, &plan, NULL);
    }
    plan_free(plan);
    eo_graph_free(g);
    return code == EO_OK;
}

static bool supports(struct worker *w, const struct eo_op_schema *op, enum eo_dtype dtype)
{
    struct example e;
    struct eo_tensor_desc in[CAPS_MAX_IN], out[EO_MAX_OUTPUTS];
    struct eo_node_view view = {.op = op};
    struct eo_kernel kernel = {.run = NULL};
    if (!find_example(op, dtype, &e) || !infers(op, &e, dtype, in, out)) {
        return false;
    }
    example_attrs(op, dtype, &e.attrs);
    view.attrs = &e.attrs;
    view.n_in = e.n_in;
    view.n_out = op->n_outputs;
    for (int i = 0; i < view.n_in; i++) {
        view.in[i] = &in[i];
    }
    for (int i = 0; i < view.n_out; i++) {
        view.out[i] = &out[i];
    }
    if (w->device->backend->select(w->device, &view, &kernel, NULL) != EO_OK) {
        /* The engine computes a composite by its lowering where a backend has no kernel of its own. */
        return (op->flags & EO_OPF_COMPOSITE) != 0 && compiles(w, op, &e.attrs, in, view.n_in);
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
