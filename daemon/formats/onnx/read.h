/* From protocol buffers to the importer's model. Only for the files that read messages (see wire.h). */
#ifndef EO_DAEMON_FORMATS_ONNX_READ_H
#define EO_DAEMON_FORMATS_ONNX_READ_H

#include "daemon/formats/onnx/model.h"
#include "daemon/formats/onnx/wire.h"

/* TensorProto.DataType -> dtype. UNSUPPORTED for strings, complex numbers and unknown ones; what names the owner. */
int read_dtype(int data_type, const char *what, enum eo_dtype *out, struct eo_error *err);
/* Data stays in the message where it can. Errors: BAD_FILE, UNSUPPORTED, TOO_LARGE, NO_MEMORY. */
int read_tensor(struct eo_arena *arena, const Onnx__TensorProto *t, struct onnx_tensor *out, struct eo_error *err);
/* A name of the file: NULL is "", BAD_FILE when it is over ONNX_MAX_NAME bytes or not printable UTF-8. */
int read_name(const char *name, const char *what, const char **out, struct eo_error *err);

int read_model(const Onnx__ModelProto *p, struct onnx_model *out, struct eo_error *err);

#endif
