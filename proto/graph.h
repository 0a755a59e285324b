/* A graph as data: SSA values made by nodes in topological order. Built by clients, by the trainer from layers, and by
 * gradient rules; travels as payload; is verified node by node when decoded, whatever the sender claimed.
 *
 * Ownership: everything lives in the graph's arena until eo_graph_free. Not thread-safe while it grows; read-only
 * sharing is safe. */
#ifndef EO_PROTO_GRAPH_H
#define EO_PROTO_GRAPH_H

#include "proto/base/arena.h"
#include "proto/name_index.h"
#include "proto/op_schema.h"

typedef uint32_t eo_value; /* index of a value in its graph */
#define EO_NO_VALUE UINT32_MAX

enum {
    EO_GRAPH_MAX_NODES = 1 << 20,
    EO_GRAPH_MAX_BYTES = 64 << 20, /* of the arena, and of an encoded graph */
    EO_GRAPH_MAX_NAME = 255        /* bytes of a name or label: UTF-8 without control characters */
};

enum eo_node_kind {
    EO_NODE_INPUT,    /* fed at each run */
    EO_NODE_STATE,    /* lives across runs; read here, written by a plan output that is placed on it */
    EO_NODE_CONSTANT, /* bytes in the graph */
    EO_NODE_OP
};

struct eo_graph_node {
    enum eo_node_kind kind;
    const struct eo_op_schema *op; /* EO_NODE_OP */
    uint32_t n_inputs, n_outputs;
    const eo_value *inputs;
    eo_value first_output;        /* outputs are consecutive values */
    const struct eo_attrs *attrs; /* EO_NODE_OP: never NULL; unused fields are 0, every NaN is the same NaN */
    const char *name;             /* inputs, states: unique name; ops: label for messages or NULL */
    const void *constant;         /* EO_NODE_CONSTANT: eo_tensor_desc_bytes(desc) bytes */
};

struct eo_graph_value {
    struct eo_tensor_desc desc;
    uint32_t node;
    uint8_t output; /* which output of the node */
};

struct eo_graph_output {
    const char *name;
    eo_value value;
};

struct eo_graph {
    struct eo_arena arena;
    struct eo_graph_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct eo_graph_value *values;
    uint32_t n_values, cap_values;
    struct eo_graph_output *outputs; /* named results */
    uint32_t n_outputs, cap_outputs;
    const char *label; /* label given to nodes added from now on (copied); NULL = none */
    const char *label_copy;
    struct eo_name_node *names; /* of inputs, states and outputs: one name space */
    const struct eo_attrs *default_attrs[EO_OP_COUNT];
};

/* Functions that fail leave the graph as it was. Errors: BAD_GRAPH (a value that is not there, a name that is used
 * twice or not possible), TOO_LARGE, NO_MEMORY, and those of eo_op_infer with the node's number and label. */
struct eo_graph *eo_graph_new(void); /* NULL when memory is out */
void eo_graph_free(struct eo_graph *g);

int eo_graph_input(struct eo_graph *g, const char *name, const struct eo_tensor_desc *desc, eo_value *out,
                   struct eo_error *err);
int eo_graph_state(struct eo_graph *g, const char *name, const struct eo_tensor_desc *desc, eo_value *out,
                   struct eo_error *err);
int eo_graph_constant(struct eo_graph *g, const struct eo_tensor_desc *desc, const void *data, eo_value *out,
                      struct eo_error *err); /* copies data; BAD_VALUE for a bool byte that is not 0 or 1 */
/* Adds an op node; runs eo_op_infer; out has room for EO_MAX_OUTPUTS values and receives those of the node. attrs NULL
 * = defaults. */
int eo_graph_add(struct eo_graph *g, enum eo_op op, const eo_value *in, int n_in, const struct eo_attrs *attrs,
                 eo_value *out, struct eo_error *err);
int eo_graph_output(struct eo_graph *g, const char *name, eo_value value, struct eo_error *err);

static inline const struct eo_tensor_desc *eo_graph_desc(const struct eo_graph *g, eo_value v)
{
    return &g->values[v].desc;
}
eo_value eo_graph_find(const struct eo_graph *g,
                       const char *name); /* input, state or output; EO_NO_VALUE when absent */

/* Wire form (docs/protocol.md): msgpack map {version: 1, nodes: [...], outputs: [...]}, constants as bin. */
int eo_graph_encode(const struct eo_graph *g, struct eo_bytes *out, struct eo_error *err);
int eo_graph_decode(const void *data, size_t size, struct eo_graph **out, struct eo_error *err);
/* SHA-256 over the canonical encoding: key of the plan cache. */
int eo_graph_hash(const struct eo_graph *g, char out_hex[65], struct eo_error *err);

#endif
