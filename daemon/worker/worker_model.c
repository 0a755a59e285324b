/* task.model: an ONNX file described or run. Runs on the ring thread of a worker that does nothing else; everyod ends a
 * run by ending the process (daemon/server/models.h says why). */
#include "daemon/formats/onnx/summary.h"
#include "daemon/worker/model_inputs.h"
#include "daemon/worker/model_results.h"
#include "daemon/worker/plans.h"
#include "daemon/worker/worker.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MARGIN_BYTES = 256 << 20 /* stacks of threads, buffers of libraries */ };

/* What is wrong with a model should be NO_MEMORY here, not the end of whatever the kernel picks when the host is full.
 * What the process has mapped by now (libraries, a sanitizer's shadow) does not count. */
static void limit_memory(const struct worker *w)
{
    unsigned long size = 0;
    unsigned long data = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    const bool known = f != NULL && fscanf(f, "%lu %*u %*u %*u %*u %lu", &size, &data) == 2;
    if (f != NULL) {
        fclose(f);
    }
    if (known && w->memory_limit_bytes > 0) {
        const rlim_t most = (rlim_t)data * (rlim_t)sysconf(_SC_PAGESIZE) + w->memory_limit_bytes + MARGIN_BYTES;
        const struct rlimit limit = {.rlim_cur = most, .rlim_max = RLIM_INFINITY};
        (void)setrlimit(RLIMIT_DATA, &limit);
    }
}

static int load(const struct eo_item *params, struct onnx_model **out, struct eo_error *err)
{
    char path[MODEL_PATH_SIZE];
    char name[MODEL_FILE_SIZE];
    struct eo_bytes bytes;
    int rc = eo_need_str(params, "model", path, sizeof path, err);
    if (rc == EO_OK) {
        rc = eo_need_str(params, "name", name, sizeof name, err);
    }
    if (rc == EO_OK) {
        rc = eo_file_read(path, ONNX_MAX_BYTES, &bytes, err);
    }
    if (rc == EO_E_NO_FILE) {
        EO_RAISE(err, EO_E_NO_FILE, "the bytes of %s are not here", name);
        eo_error_hint(err, "Upload them with blob.put first.");
        return EO_E_NO_FILE;
    }
    if (rc != EO_OK) {
        return rc;
    }
    rc = onnx_model_parse(bytes.data, bytes.size, out, err);
    eo_bytes_fini(&bytes);
    if (rc != EO_OK) {
        eo_error_push(err, "reading %s", name);
    }
    return rc;
}

/* ---- describing ---- */

static void pack_shape(struct eo_bytes *b, const struct onnx_port *port)
{
    eo_pack_str(b, "shape");
    if (port->n_dims < 0) {
        eo_pack_nil(b);
        return;
    }
    eo_pack_array(b, (size_t)port->n_dims);
    for (int i = 0; i < port->n_dims; i++) {
        if (port->dims[i] >= 0) {
            eo_pack_i64(b, port->dims[i]);
        } else {
            eo_pack_str(b, port->symbols[i]);
        }
    }
}

static void pack_ports(struct eo_bytes *b, const char *key, const struct onnx_port *ports, int n, bool are_inputs)
{
    eo_pack_str(b, key);
    eo_pack_array(b, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_pack_map(b, are_inputs ? 4 : 3);
        eo_pack_kv_str(b, "name", ports[i].name);
        eo_pack_kv_str(b, "dtype", eo_dtype_name(ports[i].dtype));
        pack_shape(b, &ports[i]);
        if (are_inputs) {
            eo_pack_kv_bool(b, "required", !ports[i].has_default);
        }
    }
}

static void pack_summary(struct eo_bytes *b, const struct onnx_summary *s)
{
    eo_pack_kv_i64(b, "ir_version", s->ir_version);
    eo_pack_str(b, "opsets");
    eo_pack_map(b, (size_t)s->n_opsets);
    for (int i = 0; i < s->n_opsets; i++) {
        eo_pack_kv_i64(b, s->opsets[i].domain, s->opsets[i].version);
    }
    eo_pack_kv_u64(b, "nodes", s->n_nodes);
    eo_pack_kv_u64(b, "parameters", s->n_parameters);
    eo_pack_str(b, "operators");
    eo_pack_map(b, s->n_operators);
    for (size_t i = 0; i < s->n_operators; i++) {
        eo_pack_kv_u64(b, s->operators[i].name, s->operators[i].n_nodes);
    }
}

static int describe(const struct onnx_model *m, struct eo_bytes *result, struct eo_error *err)
{
    struct onnx_summary summary;
    int n_inputs = 0;
    int n_outputs = 0;
    const struct onnx_port *inputs = onnx_model_inputs(m, &n_inputs);
    const struct onnx_port *outputs = onnx_model_outputs(m, &n_outputs);
    int rc = onnx_summary_init(m, &summary, err);
    if (rc != EO_OK) {
        return rc;
    }
    eo_pack_map(result, 7);
    pack_summary(result, &summary);
    pack_ports(result, "inputs", inputs, n_inputs, true);
    pack_ports(result, "outputs", outputs, n_outputs, false);
    onnx_summary_fini(&summary);
    return EO_OK;
}

/* ---- running ---- */

struct times {
    uint64_t start_ns, loaded_ns, ran_ns;
};

static void pack_run(const struct worker *w, const struct onnx_model *m, const struct onnx_results *results,
                     const char *reason, const struct times *t, struct eo_bytes *b)
{
    int n = 0;
    const struct onnx_port *ports = onnx_model_outputs(m, &n);
    eo_pack_map(b, 8);
    eo_pack_kv_str(b, "device", w->device->info.name);
    eo_pack_kv_str(b, "backend", w->device->backend->name);
    eo_pack_kv_i64(b, "threads", w->device->info.threads);
    eo_pack_kv_str(b, "reason", reason[0] != '\0' ? reason : NULL);
    eo_pack_kv_str(b, "fallback", results->fallback[0] != '\0' ? results->fallback : NULL);
    eo_pack_kv_f64(b, "load_seconds", (double)(t->loaded_ns - t->start_ns) / 1e9);
    eo_pack_kv_f64(b, "run_seconds", (double)(t->ran_ns - t->loaded_ns) / 1e9);
    eo_pack_str(b, "outputs");
    model_results_pack(b, results, ports);
}

static int write_results(const struct onnx_results *results, const struct eo_item *params, struct eo_error *err)
{
    char path[MODEL_PATH_SIZE];
    uint64_t limit_bytes = 0;
    int rc = eo_need_str(params, "result", path, sizeof path, err);
    if (rc == EO_OK) {
        rc = eo_need_u64(params, "limit_bytes", UINT64_MAX, &limit_bytes, err);
    }
    return rc == EO_OK ? model_results_write(results, path, limit_bytes, err) : rc;
}

/* times: start_ns is set. */
static int run(struct worker *w, const struct onnx_model *m, const struct eo_item *params, struct times *t,
               struct eo_bytes *result, struct eo_error *err)
{
    struct model_inputs in = {0};
    struct onnx_results results = {0};
    enum plan_fallback fallback = PLAN_STRICT;
    char device[16];
    char reason[200] = "";
    int rc = eo_need_str(params, "device", device, sizeof device, err);
    if (rc == EO_OK) {
        rc = task_fallback(params, &fallback, err);
    }
    if (rc == EO_OK) {
        rc = worker_open_device(w, device[0] != '\0' ? device : "auto", w->n_threads, reason, sizeof reason, err);
    }
    if (rc == EO_OK) {
        rc = model_inputs_read(m, eo_item_get(params, "inputs"), w->memory_limit_bytes, &in, err);
    }
    t->loaded_ns = eo_now_ns();
    if (rc == EO_OK) {
        rc = onnx_run(m, in.given, in.n, w->executor, fallback, &results, err);
    }
    model_inputs_fini(&in);
    t->ran_ns = eo_now_ns();
    if (rc == EO_OK) {
        rc = write_results(&results, params, err);
    }
    if (rc == EO_OK) {
        pack_run(w, m, &results, reason, t, result);
    }
    onnx_results_free(&results);
    return rc;
}

TASK(MODEL)
{
    struct times t = {.start_ns = eo_now_ns()};
    struct onnx_model *m = NULL;
    bool is_describe = false;
    if (w->job == NULL || w->device != NULL) {
        return EO_RAISE(err, EO_E_BAD_STATE, "this worker has other things to do than to run a model");
    }
    limit_memory(w);
    int rc = eo_get_bool(call->params, "describe", false, &is_describe, err);
    if (rc == EO_OK) {
        rc = load(call->params, &m, err);
    }
    if (rc == EO_OK) {
        rc = is_describe ? describe(m, result, err) : run(w, m, call->params, &t, result, err);
    }
    onnx_model_free(m);
    return rc;
}
