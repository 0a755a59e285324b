/* What a model is made of, for people. Texts are the model's. */
#ifndef EO_DAEMON_FORMATS_ONNX_SUMMARY_H
#define EO_DAEMON_FORMATS_ONNX_SUMMARY_H

#include "daemon/formats/onnx/onnx.h"

struct onnx_opset {
    const char *domain; /* "ai.onnx" where the file writes "" */
    int version;
};

struct onnx_operator {
    const char *domain; /* "" for ai.onnx */
    const char *name;
    uint64_t n_nodes;
};

struct onnx_summary {
    int64_t ir_version;
    struct onnx_opset *opsets;
    int n_opsets;
    struct onnx_operator *operators; /* by name; functions of the model are among them */
    size_t n_operators;
    uint64_t n_nodes;      /* of the graph and of graphs inside it; functions are not expanded */
    uint64_t n_parameters; /* elements of the weights */
};

/* Errors: NO_MEMORY, and UNSUPPORTED in a build without ONNX. */
int onnx_summary_init(const struct onnx_model *m, struct onnx_summary *out, struct eo_error *err);
void onnx_summary_fini(struct onnx_summary *s);

#endif
