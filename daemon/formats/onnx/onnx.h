/* ONNX models (ai.onnx opset 6 to 17 and ai.onnx.preview.training): read, checked, run.
 *
 * Reading is bounded: no more than ONNX_MAX_BYTES of file, memory in proportion to the file, ONNX_MAX_DEPTH messages in
 * each other. Shapes are static: running builds a graph for the shapes and, where they decide shapes, the values of the
 * given inputs. A build without protobuf-c has these functions too; they raise UNSUPPORTED (onnx_available).
 *
 * A model is read-only once parsed; several threads may run it, each with an executor of its own. */
#ifndef EO_DAEMON_FORMATS_ONNX_ONNX_H
#define EO_DAEMON_FORMATS_ONNX_ONNX_H

#include "daemon/engine/executor.h"
#include "daemon/formats/host_tensor.h"

enum {
    ONNX_MAX_BYTES = 1 << 30,
    ONNX_MAX_DEPTH = 24,
    ONNX_MAX_NAME = 1024,       /* bytes of the name of a value, node or operator */
    ONNX_MAX_NODES = 1 << 17,   /* of all graphs and functions of a model */
    ONNX_MAX_PORTS = 1 << 12,   /* inputs of a model, and outputs */
    ONNX_MAX_EXPANDED = 1 << 18 /* nodes after functions are expanded */
};

/* An input or output of a model. A size that the model leaves open is -1; symbols[i] is its name there, or NULL. */
struct onnx_port {
    const char *name;
    enum eo_dtype dtype;
    int n_dims; /* -1: any rank */
    int64_t dims[EO_MAX_DIMS];
    const char *symbols[EO_MAX_DIMS];
    bool has_default; /* of inputs: an initializer of the same name serves when none is given */
};

struct onnx_model;
bool onnx_available(void);      /* false: this build lacks protobuf-c */
const char *onnx_library(void); /* version of protobuf-c: "1.4.1"; "" in such a build */

/* A parsed, checked model, which owns all its memory; data may go afterwards.
 * Errors: BAD_FILE (not ONNX, or wrong: names graph, node and reason), UNSUPPORTED (operator, opset, type), TOO_LARGE,
 * NO_MEMORY. */
int onnx_model_parse(const void *data, size_t size, struct onnx_model **out, struct eo_error *err);
void onnx_model_free(struct onnx_model *m); /* NULL is fine */

/* Outputs in the model's order; inputs too, those without a default first. They live as long as the model. */
const struct onnx_port *onnx_model_inputs(const struct onnx_model *m, int *out_n);
const struct onnx_port *onnx_model_outputs(const struct onnx_model *m, int *out_n);

struct onnx_results {
    struct host_tensor *tensors; /* one per output, in the model's order */
    int n;
    char fallback[256]; /* "" or what ran on the reference backend and why (policy PLAN_REPORT) */
};

/* Runs m on the executor's device. inputs[i] belongs to port i of onnx_model_inputs; NULL or i >= n_in: not given.
 * A bfloat16 input also takes uint16: the bits, as files made with NumPy hold them.
 * Errors: BAD_PARAMS (an input that is missing, or of the wrong dtype or shape), UNSUPPORTED, those of plan_compile and
 * plan_run; they name node and operator of the model. On failure out holds nothing. */
int onnx_run(const struct onnx_model *m, const struct host_tensor *const *inputs, int n_in, struct executor *x,
             enum plan_fallback fallback, struct onnx_results *out, struct eo_error *err);
void onnx_results_free(struct onnx_results *r); /* zeroed ones are fine */

/* A serialized TensorProto (a .pb file). Errors: BAD_FILE, UNSUPPORTED (strings, complex numbers, data in another
 * file), TOO_LARGE, NO_MEMORY. */
int onnx_tensor_parse(const void *data, size_t size, struct host_tensor *out, struct eo_error *err);

#endif
