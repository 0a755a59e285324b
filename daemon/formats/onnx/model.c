/* A model's life: bytes, message, model, checks. */
#include "daemon/formats/onnx/read.h"

#include <stdlib.h>

bool onnx_available(void)
{
    return true;
}

void onnx_model_free(struct onnx_model *m)
{
    if (m != NULL) {
        struct wire_message *message = m->message;

        if (message != NULL) {
            wire_free(message);
            free(message);
        }
        eo_arena_fini(&m->arena);
        free(m);
    }
}

static int parse(struct onnx_model *m, const void *data, size_t size, struct eo_error *err)
{
    struct wire_message *message = calloc(1, sizeof(*message));
    int rc;

    if (message == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a model");
    }
    m->message = message;
    rc = wire_unpack(&onnx__model_proto__descriptor, "ONNX model", data, size, message, err);
    if (rc == EO_OK) {
        eo_arena_init(&m->arena, (size_t)message->limit_bytes * 2);
        rc = read_model((const Onnx__ModelProto *)message->root, m, err);
    }
    return rc != EO_OK ? rc : onnx_check(m, err);
}

int onnx_model_parse(const void *data, size_t size, struct onnx_model **out, struct eo_error *err)
{
    struct onnx_model *m = calloc(1, sizeof(*m));
    int rc = m == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a model") : parse(m, data, size, err);

    if (rc != EO_OK) {
        onnx_model_free(m);
        return rc;
    }
    *out = m;
    return EO_OK;
}
