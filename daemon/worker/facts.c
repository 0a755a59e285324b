/* task.facts: what this process knows about backends, its device and the libraries in it. */
#include "backends/cpu/blas.h"
#include "backends/cpu/onednn.h"
#include "backends/registry.h"
#include "daemon/formats/onnx/onnx.h"
#include "daemon/worker/worker_run.h"
#include "proto/base/text.h"

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
