/* Wire form of a graph (docs/protocol.md):
 *   {version: 1, nodes: [node, ...], outputs: [{name: str, value: int}, ...]}
 * where a node is one of
 *   {input: name, dtype, shape}      {state: name, dtype, shape}      {constant: bin, dtype, shape}
 *   {op: name, in: [value, ...], attrs: {...}, label: str}            attrs and label may be left out
 * Values are numbered from 0 in the order in which nodes make them, so a node can only use earlier ones. Encoding is
 * canonical: keys in this order, attributes in the order of the row, defaults left out, integers in their shortest
 * form. Decoding rebuilds the graph through eo_graph_add, which checks and infers every node again. */
#include "proto/codec.h"
#include "proto/graph.h"

#include "proto/base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GRAPH_VERSION = 1 };

/* ---- encoding ---- */

static void pack_op(struct eo_bytes *b, const struct eo_graph_node *node)
{
    struct eo_attrs defaults;
    bool with_attrs = false;

    eo_attrs_default(node->op, &defaults);
    for (int i = 0; i < node->op->n_attrs; i++) {
        with_attrs |= node->op->attrs[i].required;
    }
    with_attrs |= !eo_attrs_equal(node->op, node->attrs, &defaults);
    eo_pack_map(b, 2 + (with_attrs ? 1U : 0U) + (node->name != NULL ? 1U : 0U));
    eo_pack_kv_str(b, "op", node->op->name);
    eo_pack_str(b, "in");
    eo_pack_array(b, node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        eo_pack_u64(b, node->inputs[i]);
    }
    if (with_attrs) {
        eo_pack_str(b, "attrs");
        eo_attrs_pack(b, node->op, node->attrs);
    }
    if (node->name != NULL) {
        eo_pack_kv_str(b, "label", node->name);
    }
}

static void pack_node(struct eo_bytes *b, const struct eo_graph *g, const struct eo_graph_node *node)
{
    const struct eo_tensor_desc *desc = eo_graph_desc(g, node->first_output);

    switch (node->kind) {
    case EO_NODE_OP:
        pack_op(b, node);
        return;
    case EO_NODE_INPUT:
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "input", node->name);
        break;
    case EO_NODE_STATE:
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "state", node->name);
        break;
    case EO_NODE_CONSTANT:
        eo_pack_map(b, 3);
        eo_pack_str(b, "constant");
        eo_pack_bin(b, node->constant, (size_t)eo_tensor_desc_bytes(desc));
        break;
    }
    eo_tensor_desc_pack_fields(b, desc);
}

int eo_graph_encode(const struct eo_graph *g, struct eo_bytes *out, struct eo_error *err)
{
    size_t before = out->size;

    eo_pack_map(out, 3);
    eo_pack_kv_u64(out, "version", GRAPH_VERSION);
    eo_pack_str(out, "nodes");
    eo_pack_array(out, g->n_nodes);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        pack_node(out, g, &g->nodes[i]);
    }
    eo_pack_str(out, "outputs");
    eo_pack_array(out, g->n_outputs);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        eo_pack_map(out, 2);
        eo_pack_kv_str(out, "name", g->outputs[i].name);
        eo_pack_kv_u64(out, "value", g->outputs[i].value);
    }
    if (out->failed) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the graph does not fit in %zu bytes, or memory is out",
                        out->limit - before);
    }
    return EO_OK;
}

int eo_graph_hash(const struct eo_graph *g, char out_hex[65], struct eo_error *err)
{
    struct eo_bytes b;
    int rc;

    eo_bytes_init(&b, 2 * (size_t)EO_GRAPH_MAX_BYTES);
    rc = eo_graph_encode(g, &b, err);
    if (rc == EO_OK && !eo_sha256_of(b.data, b.size, out_hex)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "SHA-256 of the graph could not be computed");
    }
    eo_bytes_fini(&b);
    return rc;
}

/* ---- decoding ---- */

/* A string of 1 to EO_GRAPH_MAX_NAME bytes without NUL, copied to out. */
static int read_name(const struct eo_item *it, const char *what, char out[EO_GRAPH_MAX_NAME + 1], struct eo_error *err)
{
    const char *text;
    size_t length;

    if (!eo_item_as_str(it, &text, &length)) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s is not a string", what);
    }
    if (length == 0 || length > EO_GRAPH_MAX_NAME || memchr(text, '\0', length) != NULL) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "%s must have 1 to %d bytes and no NUL", what, EO_GRAPH_MAX_NAME);
    }
    memcpy(out, text, length);
    out[length] = '\0';
    return EO_OK;
}

static int decode_constant(struct eo_graph *g, const struct eo_item *node, struct eo_error *err)
{
    struct eo_tensor_desc desc;
    const uint8_t *data;
    eo_value ignored;
    size_t size;
    int rc = eo_tensor_desc_unpack(node, &desc, err);

    if (rc != EO_OK) {
        return rc;
    }
    if (!eo_item_as_bin(eo_item_get(node, "constant"), &data, &size)) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the value of a constant is not of kind bin");
    }
    if (size != eo_tensor_desc_bytes(&desc)) {
        char text[192];

        return EO_RAISE(err, EO_E_BAD_GRAPH, "a constant of %s has %zu bytes, must have %" PRIu64,
                        eo_tensor_desc_text(&desc, text, sizeof(text)), size, eo_tensor_desc_bytes(&desc));
    }
    return eo_graph_constant(g, &desc, data, &ignored, err);
}

static int decode_named(struct eo_graph *g, const struct eo_item *node, const struct eo_item *name_item, bool is_state,
                        struct eo_error *err)
{
    char name[EO_GRAPH_MAX_NAME + 1];
    struct eo_tensor_desc desc;
    eo_value ignored;
    int rc = read_name(name_item, is_state ? "the name of a state" : "the name of an input", name, err);

    if (rc == EO_OK) {
        rc = eo_tensor_desc_unpack(node, &desc, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    return is_state ? eo_graph_state(g, name, &desc, &ignored, err) : eo_graph_input(g, name, &desc, &ignored, err);
}

static int decode_inputs(const struct eo_item *node, eo_value in[EO_MAX_INPUTS], int *out_n, struct eo_error *err)
{
    const struct eo_item *list = eo_item_get(node, "in");
    size_t n = eo_item_count(list);

    if (list != NULL && eo_item_kind(list) != EO_ITEM_ARRAY) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the inputs of a node are not an array");
    }
    if (n > EO_MAX_INPUTS) {
        return EO_RAISE(err, EO_E_BAD_ARITY, "an operation takes at most %d inputs, not %zu", EO_MAX_INPUTS, n);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t v;

        if (!eo_item_as_u64(eo_item_at(list, i), &v) || v >= EO_NO_VALUE) {
            return EO_RAISE(err, EO_E_BAD_GRAPH, "input %zu of a node is not the number of a value", i);
        }
        in[i] = (eo_value)v;
    }
    *out_n = (int)n;
    return EO_OK;
}

static int decode_op(struct eo_graph *g, const struct eo_item *node, const struct eo_item *op_item,
                     struct eo_error *err)
{
    const struct eo_item *label_item = eo_item_get(node, "label");
    char label[EO_GRAPH_MAX_NAME + 1];
    eo_value in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
    const char *name;
    size_t length;
    int n_in = 0, rc;

    if (!eo_item_as_str(op_item, &name, &length)) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the operation of a node is not a string");
    }
    rc = eo_op_need(name, length, &op, err);
    if (rc == EO_OK && (op->flags & EO_OPF_INTERNAL) != 0) {
        rc = EO_RAISE(err, EO_E_UNKNOWN_OP, "%s is internal and cannot be sent", op->name);
    }
    if (rc == EO_OK) {
        rc = decode_inputs(node, in, &n_in, err);
    }
    if (rc == EO_OK) {
        rc = eo_attrs_unpack(eo_item_get(node, "attrs"), op, &attrs, err);
    }
    if (rc == EO_OK && eo_item_kind(label_item) != EO_ITEM_NIL) {
        rc = read_name(label_item, "a label", label, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    g->label = eo_item_kind(label_item) != EO_ITEM_NIL ? label : NULL;
    rc = eo_graph_add(g, op->op, in, n_in, &attrs, out, err);
    g->label = NULL;
    return rc;
}

static int decode_node(struct eo_graph *g, const struct eo_item *node, struct eo_error *err)
{
    const struct eo_item *it;

    if (eo_item_kind(node) != EO_ITEM_MAP) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "a node is not a map");
    }
    if ((it = eo_item_get(node, "op")) != NULL) {
        return decode_op(g, node, it, err);
    }
    if ((it = eo_item_get(node, "input")) != NULL) {
        return decode_named(g, node, it, false, err);
    }
    if ((it = eo_item_get(node, "state")) != NULL) {
        return decode_named(g, node, it, true, err);
    }
    if (eo_item_get(node, "constant") != NULL) {
        return decode_constant(g, node, err);
    }
    return EO_RAISE(err, EO_E_BAD_GRAPH, "a node has none of the keys op, input, state, constant");
}

static int decode_output(struct eo_graph *g, const struct eo_item *output, struct eo_error *err)
{
    char name[EO_GRAPH_MAX_NAME + 1];
    uint64_t value;
    int rc;

    if (eo_item_kind(output) != EO_ITEM_MAP) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "an output is not a map");
    }
    rc = read_name(eo_item_get(output, "name"), "the name of an output", name, err);
    if (rc == EO_OK && (!eo_item_as_u64(eo_item_get(output, "value"), &value) || value >= EO_NO_VALUE)) {
        rc = EO_RAISE(err, EO_E_BAD_GRAPH, "the value of an output is not the number of a value");
    }
    return rc != EO_OK ? rc : eo_graph_output(g, name, (eo_value)value, err);
}

static int need_list(const struct eo_item *root, const char *key, const struct eo_item **out, struct eo_error *err)
{
    *out = eo_item_get(root, key);
    if (eo_item_kind(*out) != EO_ITEM_ARRAY) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "a graph needs %s, an array", key);
    }
    if (eo_item_count(*out) > EO_GRAPH_MAX_NODES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a graph has at most %d %s, not %zu", EO_GRAPH_MAX_NODES, key,
                        eo_item_count(*out));
    }
    return EO_OK;
}

static int decode_root(struct eo_graph *g, const struct eo_item *root, struct eo_error *err)
{
    const struct eo_item *nodes, *outputs;
    uint64_t version;
    int rc;

    if (!eo_item_as_u64(eo_item_get(root, "version"), &version) || version != GRAPH_VERSION) {
        return EO_RAISE(err, EO_E_BAD_GRAPH, "the graph is not of version %d", GRAPH_VERSION);
    }
    rc = need_list(root, "nodes", &nodes, err);
    if (rc == EO_OK) {
        rc = need_list(root, "outputs", &outputs, err);
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(nodes); i++) {
        rc = decode_node(g, eo_item_at(nodes, i), err);
        if (rc != EO_OK) {
            eo_error_push(err, "while reading node %zu of the graph", i);
        }
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(outputs); i++) {
        rc = decode_output(g, eo_item_at(outputs, i), err);
        if (rc != EO_OK) {
            eo_error_push(err, "while reading output %zu of the graph", i);
        }
    }
    return rc;
}

int eo_graph_decode(const void *data, size_t size, struct eo_graph **out, struct eo_error *err)
{
    struct eo_graph *g;
    struct eo_doc doc;
    int rc;

    if (size > EO_GRAPH_MAX_BYTES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a graph of %zu bytes, at most %d are possible", size, EO_GRAPH_MAX_BYTES);
    }
    rc = eo_doc_parse(&doc, data, size, err);
    if (rc != EO_OK) {
        eo_error_push(err, "while reading a graph");
        return rc;
    }
    g = eo_graph_new();
    rc = g == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a graph") : decode_root(g, doc.root, err);
    eo_doc_fini(&doc);
    if (rc != EO_OK) {
        eo_graph_free(g);
        return rc;
    }
    *out = g;
    return EO_OK;
}
