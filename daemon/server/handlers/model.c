/* model.*: ONNX files run in a process of their own (models.h). Nothing of a file is looked at here. */
#include "daemon/jobs/blobs.h"
#include "daemon/jobs/blobs_trim.h"
#include "daemon/server/chunk.h"
#include "daemon/server/device.h"
#include "daemon/server/handlers.h"
#include "daemon/server/handlers/operation.h"
#include "daemon/server/models.h"
#include "proto/frame.h"

#include <string.h>

enum { MAX_INPUTS = 4096, NAME_SIZE = 1025, FILE_SIZE = 1025 };

/* The blob that a map names by its key, as a path that a worker opens. */
static int blob_of(const struct request *r, const struct eo_item *map, const char *key, struct model_task *task,
                   char path[BLOBS_PATH], struct eo_error *err)
{
    char sha256[65];
    int rc = eo_need_str(map, key, sha256, sizeof sha256, err);
    if (rc == EO_OK && !blobs_path(r->server->state_dir, sha256, path)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "%s is no SHA-256 in lower-case hex", key);
    }
    if (rc == EO_OK) {
        eo_bytes_append(&task->blobs, sha256, BLOBS_NAME);
    }
    return rc;
}

static int take_model(const struct request *r, struct model_task *task, struct eo_error *err)
{
    char path[BLOBS_PATH];
    char name[FILE_SIZE];
    int rc = blob_of(r, r->params, "model", task, path, err);
    if (rc == EO_OK) {
        rc = eo_get_str(r->params, "name", "the model", name, sizeof name, err);
    }
    if (rc == EO_OK) {
        eo_pack_kv_str(&task->body, "model", path);
        eo_pack_kv_str(&task->body, "name", name);
        task->n_keys = 2;
    }
    return rc;
}

static int take_input(const struct request *r, const struct eo_item *input, struct model_task *task,
                      struct eo_error *err)
{
    struct eo_bytes *b = &task->body;
    char path[BLOBS_PATH];
    char name[NAME_SIZE];
    char file[FILE_SIZE];
    char format[8];
    int rc = eo_need_str(input, "name", name, sizeof name, err);
    if (rc == EO_OK) {
        rc = blob_of(r, input, "sha256", task, path, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_str(input, "format", format, sizeof format, err);
    }
    if (rc == EO_OK && strcmp(format, "npy") != 0 && strcmp(format, "pb") != 0) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "format is neither \"npy\" nor \"pb\"");
    }
    if (rc == EO_OK) {
        rc = eo_get_str(input, "file", "its file", file, sizeof file, err);
    }
    if (rc == EO_OK) {
        eo_pack_map(b, 4);
        eo_pack_kv_str(b, "name", name);
        eo_pack_kv_str(b, "path", path);
        eo_pack_kv_str(b, "format", format);
        eo_pack_kv_str(b, "file", file);
    }
    return rc;
}

static int take_run(const struct request *r, struct model_task *task, struct eo_error *err)
{
    const struct eo_item *inputs = NULL;
    char fallback[8];
    int rc = eo_need_array(r->params, "inputs", MAX_INPUTS, &inputs, err);
    if (rc == EO_OK) {
        eo_pack_str(&task->body, "inputs");
        eo_pack_array(&task->body, eo_item_count(inputs));
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(inputs); i++) {
        rc = take_input(r, eo_item_at(inputs, i), task, err);
    }
    if (rc == EO_OK) {
        rc = operation_fallback(r, fallback, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(r->params, "device", "", task->device, sizeof task->device, err);
    }
    if (rc == EO_OK) {
        rc = device_check_name(task->device, err);
    }
    if (rc == EO_OK) {
        eo_pack_kv_str(&task->body, "fallback", fallback);
        task->n_keys += 2;
    }
    return rc;
}

static int submit(struct request *r, bool describe, struct eo_error *err)
{
    struct model_task task = {.describe = describe};
    eo_bytes_init(&task.body, 2 * EO_ENVELOPE_MAX); /* paths are longer than what names a blob */
    eo_bytes_init(&task.blobs, (MAX_INPUTS + 1) * BLOBS_NAME);
    int rc = take_model(r, &task, err);
    if (rc == EO_OK && !describe) {
        rc = take_run(r, &task, err);
    }
    if (rc != EO_OK) {
        eo_bytes_fini(&task.body);
        eo_bytes_fini(&task.blobs);
        return rc;
    }
    return models_submit(r, &task, err);
}

HANDLER(MODEL_DESCRIBE)
{
    return submit(r, true, err);
}

HANDLER(MODEL_RUN)
{
    return submit(r, false, err);
}

static int run_name(const struct request *r, char id[MODELS_ID_SIZE], struct eo_error *err)
{
    return eo_need_str(r->params, "run", id, MODELS_ID_SIZE, err);
}

HANDLER(MODEL_READ)
{
    char id[MODELS_ID_SIZE];
    int fd = -1;
    int rc = run_name(r, id, err);
    if (rc == EO_OK) {
        rc = models_results(r, id, &fd, err);
    }
    return rc == EO_OK ? chunk_answer(r, "results of a model", fd, err) : rc;
}

HANDLER(MODEL_FREE)
{
    char id[MODELS_ID_SIZE];
    int rc = run_name(r, id, err);
    if (rc == EO_OK) {
        rc = models_free(r, id, err);
    }
    if (rc == EO_OK) {
        request_ok(r);
    }
    return rc;
}
