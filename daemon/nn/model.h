/* A model: a list of layers (rows of layers.def) with arguments, its loss, and how to write both into a graph.
 * Parameter names are "<index>.weight", "<index>.bias" as in the framework EveryO grows out of; index counts the top
 * list. */
#ifndef EO_DAEMON_NN_MODEL_H
#define EO_DAEMON_NN_MODEL_H

#include "proto/graph_build.h"

enum { MODEL_MAX_LAYERS = 1024, MODEL_MAX_ARGS = 8, MODEL_MAX_DEPTH = 8 /* of nested sequentials */ };

enum layer_kind {
#define LAYER(name, NAME, ...) LAYER_##NAME,
#include "daemon/nn/layers.def"
    LAYER_COUNT
};
enum loss_kind {
#define LOSS(name, NAME, ...) LOSS_##NAME,
#include "daemon/nn/losses.def"
    LOSS_COUNT
};

struct layer_arg {
    double number; /* INT, FLOAT, BOOL */
    char text[32]; /* NAME: initializer and the like */
};
struct layer {
    enum layer_kind kind;
    struct layer_arg args[MODEL_MAX_ARGS]; /* in the row's order */
    char path[32];                /* "0", "3", "2.1" inside a nested sequential: prefix of its parameter names */
    int line, column;             /* job file position for errors; 0 = none */
    const struct layer *children; /* sequential */
    int n_children;
};

struct model {
    struct eo_arena arena; /* owns layers */
    const struct layer *layers;
    int n_layers;
    enum loss_kind loss;
    enum eo_dtype dtype;          /* of parameters and activations */
    struct eo_tensor_desc input;  /* shape with leading batch dimension 0 = any */
    struct eo_tensor_desc output; /* of the last layer, batch 0; filled by model_check */
    const struct layer *refused;  /* the layer that model_check refused; NULL: none, or the model as a whole */
};

/* Facts of rows, for validation, help and reference pages. */
enum layer_arg_kind { ARG_INT, ARG_FLOAT, ARG_BOOL, ARG_NAME };
struct layer_arg_schema {
    const char *name, *help;
    enum layer_arg_kind kind;
    bool required;
    double fallback, min, max;
    const char *fallback_text;
};
struct layer_schema {
    const char *name, *summary;
    int n_args;
    struct layer_arg_schema args[MODEL_MAX_ARGS];
    const char *stability, *since;
};
const struct layer_schema *layer_schema(enum layer_kind kind);
int layer_find(const char *name); /* -1 */
/* Initializers (initializers.def); aliases are found, lists show the first names. */
int initializer_count(void);
const char *initializer_name(int i);
const char *initializer_summary(int i);
int initializer_find(const char *name); /* -1 */

const char *loss_name(enum loss_kind kind);
const char *loss_summary(enum loss_kind kind);
int loss_find(const char *name); /* -1 */

/* A parameter as the model declares it. */
struct model_param {
    char name[96]; /* "0.weight" */
    struct eo_tensor_desc desc;
    char initializer[24];
    int64_t fan_in, fan_out;
    uint64_t stream; /* separates the random streams of parameters */
};
/* Walks all layers with shapes: checks every layer against its input (BAD_SPEC with layer, line, both shapes, remedy)
 * and fills output. input must be set. */
int model_check(struct model *m, struct eo_error *err);
/* out may be NULL to count. Errors: BAD_SPEC (more than max), TOO_LARGE. */
int model_params(const struct model *m, struct model_param *out, int max, int *out_n, struct eo_error *err);
/* Initial values of one parameter: deterministic in (seed, stream), equal on every machine. out: bytes of desc. */
int model_init_param(const struct model_param *p, uint64_t seed, void *out, struct eo_error *err);

/* Writes the forward pass: x (N, ...) -> output. params: values in model_params order. rng: int64 [3] (seed, step,
 * row offset) used by dropout; EO_NO_VALUE = evaluation mode. */
eo_value model_forward(const struct model *m, struct eo_builder *b, eo_value x, const eo_value *params, eo_value rng);
/* Per-sample losses (N) from output and targets. Targets: cross_entropy int64 (N); mse and bce_with_logits: output's
 * shape. */
eo_value model_losses(const struct model *m, struct eo_builder *b, eo_value output, eo_value targets);
/* What targets must look like: dtype and row shape for this loss and output. */
int model_target_desc(const struct model *m, struct eo_tensor_desc *out, struct eo_error *err);

#endif
