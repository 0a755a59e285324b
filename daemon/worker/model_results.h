/* Outputs of an ONNX model: what is said of them, and their npy files, one behind the other in one file. */
#ifndef EO_DAEMON_WORKER_MODEL_RESULTS_H
#define EO_DAEMON_WORKER_MODEL_RESULTS_H

#include "daemon/formats/onnx/onnx.h"
#include "proto/codec.h"

enum {
    MODEL_VALUES_MAX = 64,         /* elements of an output whose values are told */
    MODEL_VALUES_OF_ALL_MAX = 4096 /* and of all of them together */
};

/* Writes path, which must not exist; errors: QUOTA (more than limit_bytes), those of npy_write, CANNOT_CREATE. */
int model_results_write(const struct onnx_results *r, const char *path, uint64_t limit_bytes, struct eo_error *err);
/* The array of model.run's `outputs`; ports name them. */
void model_results_pack(struct eo_bytes *b, const struct onnx_results *r, const struct onnx_port *ports);

#endif
