/* A model with given inputs while it becomes a graph of rows. Lives for one onnx_run; belongs to one thread. */
#ifndef EO_DAEMON_FORMATS_ONNX_BUILD_H
#define EO_DAEMON_FORMATS_ONNX_BUILD_H

#include "daemon/formats/onnx/model.h"
#include "daemon/formats/onnx/table.h"
#include "proto/graph_build.h"

enum {
    BUILD_CONSTANT_BYTES = 1024,  /* larger tensors of the file are fed at the start, smaller ones are constants */
    BUILD_MAX_CALLS = 16,         /* functions that call functions */
    BUILD_MAX_EVALUATED = 1 << 28 /* bytes that evaluating a value while building may take */
};

/* Names of one graph or of one call of a function. */
struct build_scope {
    struct eo_name_node *names; /* -> eo_value; EO_NO_VALUE: an input of a function that the caller left out */
    const struct onnx_import *imports;
    int n_imports;
    const struct onnx_attr *const *attrs; /* of the call, resolved; NULL in the main graph */
    int n_attrs;
    int depth; /* 0 in the main graph */
};

/* What a value is, when that is known while building. */
struct build_known {
    struct eo_tensor_desc desc;
    const void *data; /* NULL: not known (yet) */
    void *owned;      /* data when it was evaluated here: freed with the build */
};

/* A graph input and the bytes that it gets. */
struct build_feed {
    eo_value value;
    const void *data;
};

struct onnx_build {
    const struct onnx_model *model;
    struct eo_graph *graph;
    struct eo_builder b;       /* of the graph; its first error sticks */
    struct eo_arena arena;     /* scopes, resolved attributes */
    struct build_known *known; /* per value of the graph */
    uint32_t cap_known;
    struct build_feed *feeds;
    uint32_t n_feeds, cap_feeds;
    bool placed;                 /* the error names its node already */
    uint32_t n_nodes;            /* mapped so far, functions expanded */
    struct eo_device *reference; /* opened when a value must be known first */
    struct executor *evaluator;
};

/* Maps the whole model; inputs as onnx_run. The results' values are in out_values (of the model's outputs, in the
 * arena). Errors name node and operator. build_fini after success and failure. */
int build_model(struct onnx_build *b, const struct onnx_model *m, const struct host_tensor *const *inputs, int n_in,
                eo_value **out_values, struct eo_error *err);
void build_fini(struct onnx_build *b);

/* Notes what a value is; owned: data to free with the build (also after an error), or NULL. */
int build_know(struct onnx_build *b, eo_value v, const struct eo_tensor_desc *desc, const void *data, void *owned);
/* A tensor that is there before the run: a constant of the graph or, when large, one of its inputs. data must live as
 * long as the build. EO_NO_VALUE after an error, which sticks. */
eo_value build_tensor(struct onnx_build *b, const struct eo_tensor_desc *desc, const void *data);

/* The bytes of a value that shapes or attributes depend on: looked up, or computed on the reference backend from the
 * given inputs and kept. NULL after an error, which sticks. */
const struct build_known *build_evaluate(struct onnx_build *b, eo_value v);
/* One row whose result's shape depends on data, from operands that are evaluated first; a known value. */
eo_value build_data_shape(struct onnx_build *b, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                          const eo_value *in, int n_in);

#endif
