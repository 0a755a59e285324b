/* The working form of a graph while a plan is made: passes rewrite it in place. Same SSA as eo_graph, but mutable, with
 * fused nodes, copies and views. Nodes stay in topological order; sources and constants are values without a node.
 * Lives for one plan_compile; belongs to one thread. What it borrows (graph, spec, device) outlives it. */
#ifndef EO_DAEMON_ENGINE_IR_H
#define EO_DAEMON_ENGINE_IR_H

#include "daemon/engine/plan.h"

enum { IR_MAX_BYTES = 1 << 30, IR_ALIGN = 64 };
#define IR_NONE UINT32_MAX

enum ir_kind {
    IR_SOURCE,   /* an input or state of the graph: the caller's memory */
    IR_CONSTANT, /* known while compiling */
    IR_COMPUTED  /* made by a node */
};

struct ir_value {
    struct eo_tensor_desc desc;
    enum ir_kind kind;
    uint32_t node;    /* IR_COMPUTED: who makes it; IR_NONE for a view, whose root has a maker */
    uint32_t place;   /* IR_SOURCE: index into spec->inputs */
    uint32_t forward; /* itself, or the value that replaced it; always read through ir_resolve */
    uint32_t root;    /* the value whose bytes this one is: itself, unless a view pass found a plain relabelling */
    uint32_t uses;    /* by nodes, plan outputs and views of it, as of the last ir_sweep */
    const void *data; /* IR_CONSTANT: bytes in host memory. IR_COMPUTED: NULL, or the element that fills it */
};

struct ir_node {
    const struct eo_op_schema *op; /* NULL: fused, or a copy of in[0] */
    const struct eo_attrs *attrs;
    const struct eo_fused_program *fused;
    uint32_t n_in, n_out;
    uint32_t *in;
    uint32_t out[EO_MAX_OUTPUTS];
    const char *label; /* of the graph's node, or NULL */
    uint32_t origin;   /* number of the graph's node, for messages */
};

struct ir {
    const struct plan_spec *spec;
    struct eo_device *dev;
    struct eo_device *reference; /* opened when first needed; passes to the plan when it keeps fallbacks */
    struct eo_arena arena;       /* attributes, programs, input lists, folded constants */
    struct ir_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct ir_value *values;
    uint32_t n_values, cap_values;
    uint32_t *outputs; /* value of each spec->outputs entry */
};

void ir_init(struct ir *ir, const struct plan_spec *spec, struct eo_device *dev);
void ir_fini(struct ir *ir);

/* Errors of these: NO_MEMORY. */
int ir_add_value(struct ir *ir, enum ir_kind kind, const struct eo_tensor_desc *desc, uint32_t *out,
                 struct eo_error *err);
/* Appends a node like `like`, whose `in` list is copied; its outputs' values learn their node. */
int ir_add_node(struct ir *ir, const struct ir_node *like, struct eo_error *err);
void *ir_alloc(struct ir *ir, uint64_t size, struct eo_error *err); /* zeroed, 64-byte aligned; freed with the IR */

/* The value that stands for v now. */
uint32_t ir_resolve(struct ir *ir, uint32_t v);
/* From now on everyone who uses `old` uses `with`, which must not depend on it. */
void ir_replace(struct ir *ir, uint32_t old, uint32_t with);
/* Resolves all uses, removes nodes that nobody needs, counts uses. */
int ir_sweep(struct ir *ir, struct eo_error *err);

/* What a backend sees of a node. Descriptors point into the IR: valid until values are added. */
void ir_view(const struct ir *ir, const struct ir_node *node, struct eo_node_view *out);
/* Whether the device has a kernel for the node; UNSUPPORTED is an answer, other errors are returned. */
int ir_device_accepts(struct ir *ir, const struct eo_node_view *view, bool *out, struct eo_error *err);
int ir_reference(struct ir *ir, struct eo_device **out, struct eo_error *err);

/* True when all elements of v are known to have the same bits; *out points to the first (not for empty values). */
bool ir_uniform(const struct ir *ir, uint32_t v, const void **out);

/* The node that v waits for, through views; IR_NONE for what is there from the start. */
static inline uint32_t ir_maker(const struct ir *ir, uint32_t v)
{
    return ir->values[ir->values[v].root].node;
}

static inline bool ir_is_copy(const struct ir_node *node)
{
    return node->op == NULL && node->fused == NULL;
}

#endif
