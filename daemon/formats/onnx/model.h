/* A model as the importer works with it: what stood in the file, checked, free of the library that read it.
 * Everything is owned by the model and read-only once it is parsed. */
#ifndef EO_DAEMON_FORMATS_ONNX_MODEL_H
#define EO_DAEMON_FORMATS_ONNX_MODEL_H

#include "daemon/formats/onnx/onnx.h"
#include "proto/base/arena.h"
#include "proto/name_index.h"

enum {
    ONNX_MAX_ATTRS = 64,    /* of a node */
    ONNX_MAX_INPUTS = 1024, /* of a node, and outputs */
    ONNX_MAX_IMPORTS = 64,  /* operator sets that a model or function names */
    ONNX_MAX_FUNCTIONS = 4096
};

/* Names of operator sets. "ai.onnx" is written as "". */
#define ONNX_DOMAIN ""
#define ONNX_TRAINING "ai.onnx.preview.training"

struct onnx_tensor {
    const char *name;
    struct eo_tensor_desc desc;
    const void *data; /* eo_tensor_desc_bytes(&desc) bytes, 8-byte aligned, bools 0 or 1; never NULL */
};

/* AttributeProto.AttributeType */
enum onnx_attr_kind {
    ONNX_ATTR_FLOAT = 1,
    ONNX_ATTR_INT = 2,
    ONNX_ATTR_TEXT = 3,
    ONNX_ATTR_TENSOR = 4,
    ONNX_ATTR_GRAPH = 5,
    ONNX_ATTR_FLOATS = 6,
    ONNX_ATTR_INTS = 7,
    ONNX_ATTR_TEXTS = 8
};

struct onnx_graph;
struct onnx_attr {
    const char *name;
    const char *ref; /* in a function: the attribute of the caller that stands here; NULL = a value of its own */
    enum onnx_attr_kind kind;
    int64_t i;
    float f;
    const char *text;
    size_t n; /* of floats, ints, texts */
    const float *floats;
    const int64_t *ints;
    const char *const *texts;
    const struct onnx_tensor *tensor;
    const struct onnx_graph *graph;
};

struct onnx_node {
    const char *name, *op_type, *domain; /* "" when absent */
    int n_in, n_out, n_attrs;
    const char *const *in; /* "": an optional operand that is not given */
    const char *const *out;
    const struct onnx_attr *attrs;
};

struct onnx_graph {
    const char *name;
    const struct onnx_node *nodes;
    int n_nodes;
    const struct onnx_tensor *initializers;
    int n_initializers;
    const struct onnx_port *inputs, *outputs; /* inputs: all that the file lists, in its order */
    int n_inputs, n_outputs;
};

struct onnx_import {
    const char *domain;
    int version;
};

struct onnx_function {
    const char *name, *domain;
    const char *const *inputs, *const *outputs, *const *attrs;
    int n_inputs, n_outputs, n_attrs;
    const struct onnx_node *nodes;
    int n_nodes;
    const struct onnx_import *imports;
    int n_imports;
};

struct onnx_model {
    struct eo_arena arena; /* owns what is not the message's */
    void *message;         /* the library's; numbers and raw bytes of tensors live there */
    int64_t ir_version;
    const struct onnx_import *imports;
    int n_imports;
    const struct onnx_function *functions;
    int n_functions;
    struct onnx_graph graph;
    const struct onnx_port *inputs; /* for callers: those without a default first */
};

/* Version of an operator set among imports; 0 when it is not there. */
int onnx_import_version(const struct onnx_import *imports, int n, const char *domain);
/* NULL when the model has no such function. */
const struct onnx_function *onnx_find_function(const struct onnx_model *m, const char *domain, const char *name);

/* Names, single assignment, order of nodes, known operators: what needs no shapes. Errors as onnx_model_parse. */
int onnx_check(const struct onnx_model *m, struct eo_error *err);

#endif
