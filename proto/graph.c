#include "proto/graph.h"

#include "proto/attrs.h"

#include "proto/base/checked.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct eo_graph *eo_graph_new(void)
{
    struct eo_graph *g = calloc(1, sizeof(*g));

    if (g != NULL) {
        eo_arena_init(&g->arena, EO_GRAPH_MAX_BYTES);
    }
    return g;
}

void eo_graph_free(struct eo_graph *g)
{
    if (g != NULL) {
        eo_arena_fini(&g->arena);
        free(g);
    }
}

/* ---- memory ---- */

/* Tells a full graph from a full host; the arena rounds sizes up to 16. */
static int out_of_room(const struct eo_graph *g, uint64_t bytes, struct eo_error *err)
{
    char limit[32];

    if (g->arena.used + bytes + 15 > g->arena.limit) { /* no overflow: bytes is below 2^63 */
        return EO_RAISE(err, EO_E_TOO_LARGE, "the graph needs more than %s",
                        eo_format_bytes(g->arena.limit, limit, sizeof(limit)));
    }
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a graph of %" PRIu32 " nodes", g->n_nodes);
}

static int take(struct eo_graph *g, uint64_t bytes, void **out, struct eo_error *err)
{
    *out = bytes > g->arena.limit ? NULL : eo_arena_alloc(&g->arena, (size_t)bytes);
    return *out == NULL ? out_of_room(g, bytes, err) : EO_OK;
}

/* Room for one more batch of entries in an array that lives in the arena; the old array stays behind, so the arena
 * holds at most twice what is used. */
static int reserve(struct eo_graph *g, void **array, uint32_t n, uint32_t more, uint32_t *capacity, size_t size,
                   struct eo_error *err)
{
    uint32_t wanted = EO_MAX(*capacity, 32U);
    void *grown;
    int rc;

    if (more <= *capacity - n) {
        return EO_OK;
    }
    while (wanted - n < more) {
        wanted *= 2; /* n and more are far below 2^31 */
    }
    rc = take(g, (uint64_t)wanted * size, &grown, err);
    if (rc != EO_OK) {
        return rc;
    }
    if (n > 0) {
        memcpy(grown, *array, n * size);
    }
    *array = grown;
    *capacity = wanted;
    return EO_OK;
}

static int reserve_node(struct eo_graph *g, uint32_t n_outputs, struct eo_error *err)
{
    void *nodes = g->nodes, *values = g->values;
    int rc;

    if (g->n_nodes >= EO_GRAPH_MAX_NODES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a graph has at most %d nodes", EO_GRAPH_MAX_NODES);
    }
    rc = reserve(g, &nodes, g->n_nodes, 1, &g->cap_nodes, sizeof(*g->nodes), err);
    g->nodes = nodes;
    if (rc != EO_OK) {
        return rc;
    }
    rc = reserve(g, &values, g->n_values, n_outputs, &g->cap_values, sizeof(*g->values), err);
    g->values = values;
    return rc;
}

/* ---- names ---- */

/* what: "name" or "label". */
static int check_text(const char *what, const char *text, struct eo_error *err)
{
    size_t length = text == NULL ? 0 : strnlen(text, EO_GRAPH_MAX_NAME + 1);
    char quoted[96];

    if (length == 0) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "a %s in a graph is empty", what);
    }
    if (length > EO_GRAPH_MAX_NAME) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "a %s in a graph is longer than %d bytes", what, EO_GRAPH_MAX_NAME);
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return EO_RAISE(err, EO_E_BAD_GRAPH, "the %s %s holds a control character", what,
                            eo_quote(text, length, quoted, sizeof(quoted)));
        }
    }
    if (!eo_text_valid_utf8(text, length)) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the %s %s is not UTF-8", what,
                        eo_quote(text, length, quoted, sizeof(quoted)));
    }
    return EO_OK;
}

static int copy_text(struct eo_graph *g, const char *text, const char **out, struct eo_error *err)
{
    size_t size = strlen(text) + 1;
    void *copy;
    int rc = take(g, size, &copy, err);

    if (copy != NULL) {
        memcpy(copy, text, size);
        *out = copy;
    }
    return rc;
}

/* Copies a checked, unused name and enters it for value. */
static int add_name(struct eo_graph *g, const char *name, eo_value value, const char **out, struct eo_error *err)
{
    char quoted[96];
    uint32_t other;
    int rc = check_text("name", name, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (eo_name_index_find(g->names, name, &other)) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the name %s is used twice",
                        eo_quote(name, strlen(name), quoted, sizeof(quoted)));
    }
    rc = copy_text(g, name, out, err);
    if (rc == EO_OK && !eo_name_index_add(&g->names, &g->arena, *out, value)) {
        rc = out_of_room(g, 2 * sizeof(struct eo_name_node), err);
    }
    return rc;
}

eo_value eo_graph_find(const struct eo_graph *g, const char *name)
{
    uint32_t value;

    return eo_name_index_find(g->names, name, &value) ? value : EO_NO_VALUE;
}

/* ---- nodes ---- */

/* Appends a node for which everything is reserved and checked; returns its first value. */
static eo_value append(struct eo_graph *g, const struct eo_graph_node *node, const struct eo_tensor_desc *descs)
{
    eo_value first = g->n_values;

    for (uint32_t i = 0; i < node->n_outputs; i++) {
        g->values[g->n_values++] = (struct eo_graph_value){.desc = descs[i], .node = g->n_nodes, .output = (uint8_t)i};
    }
    g->nodes[g->n_nodes] = *node;
    g->nodes[g->n_nodes].first_output = first;
    g->n_nodes++;
    return first;
}

static int add_named(struct eo_graph *g, enum eo_node_kind kind, const char *name, const struct eo_tensor_desc *desc,
                     eo_value *out, struct eo_error *err)
{
    struct eo_graph_node node = {.kind = kind, .n_outputs = 1};
    struct eo_tensor_desc clean;
    int rc = eo_tensor_desc_init(&clean, (enum eo_dtype)desc->dtype, desc->shape, desc->n_dims, err);

    if (rc == EO_OK) {
        rc = reserve_node(g, 1, err);
    }
    if (rc == EO_OK) {
        rc = add_name(g, name, g->n_values, &node.name, err);
    }
    if (rc == EO_OK) {
        *out = append(g, &node, &clean);
    }
    return rc;
}

int eo_graph_input(struct eo_graph *g, const char *name, const struct eo_tensor_desc *desc, eo_value *out,
                   struct eo_error *err)
{
    return add_named(g, EO_NODE_INPUT, name, desc, out, err);
}

int eo_graph_state(struct eo_graph *g, const char *name, const struct eo_tensor_desc *desc, eo_value *out,
                   struct eo_error *err)
{
    return add_named(g, EO_NODE_STATE, name, desc, out, err);
}

/* Kernels read bool as 0 or 1; another byte would be undefined. */
static int check_bool_bytes(const uint8_t *data, uint64_t size, struct eo_error *err)
{
    for (uint64_t i = 0; i < size; i++) {
        if (data[i] > 1) {
            return EO_RAISE(err, EO_E_BAD_VALUE, "element %" PRIu64 " of a bool constant is %d, must be 0 or 1", i,
                            data[i]);
        }
    }
    return EO_OK;
}

int eo_graph_constant(struct eo_graph *g, const struct eo_tensor_desc *desc, const void *data, eo_value *out,
                      struct eo_error *err)
{
    struct eo_graph_node node = {.kind = EO_NODE_CONSTANT, .n_outputs = 1};
    struct eo_tensor_desc clean;
    uint64_t size;
    void *copy;
    int rc = eo_tensor_desc_init(&clean, (enum eo_dtype)desc->dtype, desc->shape, desc->n_dims, err);

    if (rc != EO_OK) {
        return rc;
    }
    size = eo_tensor_desc_bytes(&clean);
    rc = take(g, size, &copy, err);
    if (rc == EO_OK && clean.dtype == EO_BOOL) {
        rc = check_bool_bytes(data, size, err);
    }
    if (rc == EO_OK) {
        rc = reserve_node(g, 1, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (size > 0) {
        memcpy(copy, data, (size_t)size);
    }
    node.constant = copy;
    *out = append(g, &node, &clean);
    return EO_OK;
}

/* ---- operations ---- */

/* Only what the row uses is taken over, the rest stays 0. */
static void clean_attrs(const struct eo_op_schema *op, const struct eo_attrs *from, struct eo_attrs *out)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_value *v = &from->v[i];

        enum eo_attr_kind kind = op->attrs[i].kind;

        if (kind == EO_ATTR_FLOAT) {
            out->v[i].f = isnan(v->f) ? (double)NAN : v->f;
        } else if (kind == EO_ATTR_INTS || kind == EO_ATTR_TEXT) {
            size_t size;
            const void *data = eo_attr_value_data(kind, v, &size);

            out->v[i].n = v->n;
            memcpy(out->v[i].ints, data, size);
        } else {
            out->v[i].i = v->i;
        }
    }
}

/* Nodes with default attributes share one copy per op. */
static int keep_attrs(struct eo_graph *g, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                      const struct eo_attrs **out, struct eo_error *err)
{
    struct eo_attrs defaults;
    bool is_default;
    void *copy;
    int rc;

    eo_attrs_default(op, &defaults);
    is_default = attrs == NULL || eo_attrs_equal(op, attrs, &defaults);
    if (is_default && g->default_attrs[op->op] != NULL) {
        *out = g->default_attrs[op->op];
        return EO_OK;
    }
    rc = take(g, sizeof(struct eo_attrs), &copy, err);
    if (rc != EO_OK) {
        return rc;
    }
    clean_attrs(op, attrs == NULL ? &defaults : attrs, copy);
    *out = copy;
    if (is_default) {
        g->default_attrs[op->op] = copy;
    }
    return EO_OK;
}

static int keep_label(struct eo_graph *g, const char **out, struct eo_error *err)
{
    int rc = EO_OK;

    if (g->label == NULL) {
        *out = NULL;
        return EO_OK;
    }
    if (g->label_copy == NULL || strcmp(g->label_copy, g->label) != 0) {
        rc = check_text("label", g->label, err);
        if (rc == EO_OK) {
            rc = copy_text(g, g->label, &g->label_copy, err);
        }
    }
    *out = g->label_copy;
    return rc;
}

/* Checks the operands and works out the results of the next node. */
static int infer_next(const struct eo_graph *g, const struct eo_op_schema *op, const eo_value *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *descs[EO_MAX_INPUTS];

    if (n_in < 0 || n_in > EO_MAX_INPUTS) {
        return EO_RAISE(err, EO_E_BAD_ARITY, "an operation takes at most %d inputs, not %d", EO_MAX_INPUTS, n_in);
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] >= g->n_values) {
            int code =
                EO_RAISE(err, EO_E_BAD_GRAPH, "input %d is value %" PRIu32 ", but only %" PRIu32 " are made so far", i,
                         in[i], g->n_values);

            eo_error_detail(err,
                            "Values are numbered in the order in which nodes make them; a node uses earlier ones.");
            return code;
        }
        descs[i] = &g->values[in[i]].desc;
    }
    return eo_op_infer(op, descs, n_in, attrs, out, err);
}

/* Node number and label, as errors show them: 14 "hidden1". */
static void name_node(const struct eo_graph *g, const struct eo_op_schema *op, struct eo_error *err)
{
    char node[128], quoted[96];

    if (g->label == NULL) {
        snprintf(node, sizeof(node), "%" PRIu32, g->n_nodes);
    } else {
        snprintf(node, sizeof(node), "%" PRIu32 " %s", g->n_nodes,
                 eo_quote(g->label, strnlen(g->label, EO_GRAPH_MAX_NAME), quoted, sizeof(quoted)));
    }
    eo_error_at_op(err, op->name, node);
}

static int add_op(struct eo_graph *g, const struct eo_op_schema *op, const eo_value *in, int n_in,
                  const struct eo_attrs *attrs, eo_value *out, struct eo_error *err)
{
    struct eo_graph_node node = {.kind = EO_NODE_OP, .op = op};
    struct eo_tensor_desc descs[EO_MAX_OUTPUTS];
    eo_value first;
    void *inputs;
    int rc = infer_next(g, op, in, n_in, attrs, descs, err);

    if (rc == EO_OK) {
        rc = keep_attrs(g, op, attrs, &node.attrs, err);
    }
    if (rc == EO_OK) {
        rc = keep_label(g, &node.name, err);
    }
    if (rc == EO_OK) {
        rc = take(g, (uint64_t)n_in * sizeof(*in), &inputs, err);
    }
    if (rc == EO_OK) {
        node.n_outputs = (uint32_t)eo_op_n_outputs(op, node.attrs);
        rc = reserve_node(g, node.n_outputs, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (n_in > 0) {
        memcpy(inputs, in, (size_t)n_in * sizeof(*in));
    }
    node.n_inputs = (uint32_t)n_in;
    node.inputs = inputs;
    first = append(g, &node, descs);
    for (uint32_t i = 0; i < node.n_outputs; i++) {
        out[i] = first + i;
    }
    return EO_OK;
}

int eo_graph_add(struct eo_graph *g, enum eo_op op, const eo_value *in, int n_in, const struct eo_attrs *attrs,
                 eo_value *out, struct eo_error *err)
{
    const struct eo_op_schema *schema = eo_op_schema(op);
    int rc;

    if (schema == NULL) {
        return EO_RAISE(err, EO_E_UNKNOWN_OP, "there is no operation of number %d", (int)op);
    }
    rc = add_op(g, schema, in, n_in, attrs, out, err);
    if (rc != EO_OK) {
        name_node(g, schema, err);
    }
    return rc;
}

int eo_graph_output(struct eo_graph *g, const char *name, eo_value value, struct eo_error *err)
{
    void *outputs = g->outputs;
    const char *copy;
    int rc;

    if (value >= g->n_values) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "an output is value %" PRIu32 ", but the graph has %" PRIu32, value,
                        g->n_values);
    }
    if (g->n_outputs >= EO_GRAPH_MAX_NODES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a graph has at most %d outputs", EO_GRAPH_MAX_NODES);
    }
    rc = reserve(g, &outputs, g->n_outputs, 1, &g->cap_outputs, sizeof(*g->outputs), err);
    g->outputs = outputs;
    if (rc == EO_OK) {
        rc = add_name(g, name, value, &copy, err);
    }
    if (rc == EO_OK) {
        g->outputs[g->n_outputs++] = (struct eo_graph_output){.name = copy, .value = value};
    }
    return rc;
}
