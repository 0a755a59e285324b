/* The importer in a build without protobuf-c: refuses by name. */
#include "daemon/formats/onnx/model.h"

static int refuse(struct eo_error *err)
{
    int code = EO_RAISE(err, EO_E_UNSUPPORTED, "this build reads no ONNX files: it was made without protobuf-c");

    eo_error_hint(err, "Install libprotobuf-c-dev and protobuf-c-compiler and build again.");
    return code;
}

bool onnx_available(void)
{
    return false;
}

const char *onnx_library(void)
{
    return "";
}

int onnx_model_parse(const void *data, size_t size, struct onnx_model **out, struct eo_error *err)
{
    EO_UNUSED(data);
    EO_UNUSED(size);
    EO_UNUSED(out);
    return refuse(err);
}

int onnx_tensor_parse(const void *data, size_t size, struct host_tensor *out, struct eo_error *err)
{
    EO_UNUSED(data);
    EO_UNUSED(size);
    EO_UNUSED(out);
    return refuse(err);
}

void onnx_model_free(struct onnx_model *m)
{
    EO_UNUSED(m);
}
