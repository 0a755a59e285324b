/* Inputs of an ONNX model: files that came with task.model, matched with what the model takes. */
#ifndef EO_DAEMON_WORKER_MODEL_INPUTS_H
#define EO_DAEMON_WORKER_MODEL_INPUTS_H

#include "daemon/formats/onnx/onnx.h"

struct eo_item;

enum { MODEL_FILE_SIZE = 1025, MODEL_PATH_SIZE = 1400 };

struct model_inputs {
    int n;                            /* inputs of the model */
    struct host_tensor *tensors;      /* n; data NULL where no file was given */
    const struct host_tensor **given; /* n, for onnx_run; NULL where no file was given */
};

/* files: [{name, path, format, file}]; name "" means the only input. limit_bytes bounds each. On success out is the
 * caller's. Errors: those of npy_read and onnx_tensor_parse; BAD_ARITY (no such input, one named twice, one missing:
 * the detail lists what the model takes), DTYPE_MISMATCH, SHAPE_MISMATCH, which mark the dimension. */
int model_inputs_read(const struct onnx_model *m, const struct eo_item *files, uint64_t limit_bytes,
                      struct model_inputs *out, struct eo_error *err);
void model_inputs_fini(struct model_inputs *in); /* zeroed ones are fine */

/* "float32 [batch, 3]", "[?, 3]" where a size is open, "float32 of any rank"; returns out */
char *model_port_text(const struct onnx_port *port, char *out, size_t size);

#endif
