/* ModelProto: graphs, nodes, functions. */
#include "daemon/formats/onnx/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct eo_arena *arena;
    uint64_t n_nodes; /* so far, of all graphs and functions */
};

static int read_graph(struct reader *r, const Onnx__GraphProto *p, struct onnx_graph *out, struct eo_error *err);

static void *take(struct reader *r, size_t n, size_t size, struct eo_error *err)
{
    void *memory = eo_arena_alloc_n(r->arena, n + 1, size);

    if (memory == NULL) {
        (void)EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the model: %zu entries of %zu bytes", n, size);
    }
    return memory;
}

/* ---- texts ---- */

int read_name(const char *name, const char *what, const char **out, struct eo_error *err)
{
    size_t length = name == NULL ? 0 : strlen(name);
    char quoted[340];

    if (length > ONNX_MAX_NAME) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s has a name of %zu bytes, at most %d are allowed", what, length,
                        ONNX_MAX_NAME);
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s has a name with a control character: %s", what,
                            eo_quote(name, length, quoted, sizeof(quoted)));
        }
    }
    *out = length == 0 ? "" : name;
    return EO_OK;
}

static int read_names(struct reader *r, char *const *names, size_t n, const char *what, const char *const **out,
                      int *out_n, struct eo_error *err)
{
    const char **list = NULL;
    int rc;

    if (n > ONNX_MAX_INPUTS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: %zu names, at most %d are allowed", what, n, ONNX_MAX_INPUTS);
    }
    list = take(r, n, sizeof(*list), err);
    rc = list == NULL ? EO_E_NO_MEMORY : EO_OK;
    for (size_t i = 0; rc == EO_OK && i < n; i++) {
        rc = read_name(names[i], what, &list[i], err);
    }
    *out = list;
    *out_n = (int)n;
    return rc;
}

/* Bytes of an attribute as a C text. */
static int read_text(struct reader *r, const ProtobufCBinaryData *bytes, const char **out, struct eo_error *err)
{
    if (bytes->len > 0 && memchr(bytes->data, 0, bytes->len) != NULL) {
        return EO_RAISE(err, EO_E_BAD_FILE, "the text has a zero byte");
    }
    *out = bytes->len == 0 ? "" : eo_arena_strndup(r->arena, (const char *)bytes->data, bytes->len);
    return *out != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a text of %zu bytes", bytes->len);
}

static int read_domain(const char *domain, const char **out, struct eo_error *err)
{
    int rc = read_name(domain, "an operator set", out, err);

    if (rc == EO_OK && strcmp(*out, "ai.onnx") == 0) {
        *out = ONNX_DOMAIN;
    }
    return rc;
}

/* ---- attributes ---- */

/* Files before IR version 2 do not say which field counts. */
static int kind_of(const Onnx__AttributeProto *p)
{
    if (p->has_type && p->type != 0) {
        return p->type;
    }
    return p->has_f       ? ONNX_ATTR_FLOAT
           : p->has_i     ? ONNX_ATTR_INT
           : p->has_s     ? ONNX_ATTR_TEXT
           : p->t != NULL ? ONNX_ATTR_TENSOR
           : p->g != NULL ? ONNX_ATTR_GRAPH
           : p->n_floats  ? ONNX_ATTR_FLOATS
           : p->n_strings ? ONNX_ATTR_TEXTS
                          : ONNX_ATTR_INTS;
}

static int read_tensor_attr(struct reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a, struct eo_error *err)
{
    struct onnx_tensor *t = take(r, 1, sizeof(*t), err);

    a->tensor = t;
    if (t == NULL) {
        return EO_E_NO_MEMORY;
    }
    return p->t != NULL ? read_tensor(r->arena, p->t, t, err)
                        : EO_RAISE(err, EO_E_BAD_FILE, "there is no tensor in it");
}

static int read_graph_attr(struct reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a, struct eo_error *err)
{
    struct onnx_graph *g = take(r, 1, sizeof(*g), err);

    a->graph = g;
    if (g == NULL) {
        return EO_E_NO_MEMORY;
    }
    return p->g != NULL ? read_graph(r, p->g, g, err) : EO_RAISE(err, EO_E_BAD_FILE, "there is no graph in it");
}

static int read_texts(struct reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a, struct eo_error *err)
{
    const char **texts = take(r, p->n_strings, sizeof(*texts), err);
    int rc = texts == NULL ? EO_E_NO_MEMORY : EO_OK;

    for (size_t i = 0; rc == EO_OK && i < p->n_strings; i++) {
        rc = read_text(r, &p->strings[i], &texts[i], err);
    }
    a->texts = texts;
    a->n = p->n_strings;
    return rc;
}

static int read_attr_value(struct reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a, struct eo_error *err)
{
    int kind = kind_of(p);

    a->kind = (enum onnx_attr_kind)kind;
    switch (kind) {
    case ONNX_ATTR_FLOAT:
        a->f = p->f;
        return EO_OK;
    case ONNX_ATTR_INT:
        a->i = p->i;
        return EO_OK;
    case ONNX_ATTR_TEXT:
        return read_text(r, &p->s, &a->text, err);
    case ONNX_ATTR_TENSOR:
        return read_tensor_attr(r, p, a, err);
    case ONNX_ATTR_GRAPH:
        return read_graph_attr(r, p, a, err);
    case ONNX_ATTR_FLOATS:
        a->floats = p->floats;
        a->n = p->n_floats;
        return EO_OK;
    case ONNX_ATTR_INTS:
        a->ints = p->ints;
        a->n = p->n_ints;
        return EO_OK;
    case ONNX_ATTR_TEXTS:
        return read_texts(r, p, a, err);
    default:
        return EO_RAISE(err, EO_E_UNSUPPORTED,
                        "attributes of kind %d (sparse tensors, types, lists of tensors or graphs) are not supported",
                        kind);
    }
}

static int read_attr(struct reader *r, const Onnx__AttributeProto *p, struct onnx_attr *a, struct eo_error *err)
{
    char quoted[340];
    int rc = read_name(p->name, "an attribute", &a->name, err);

    if (rc == EO_OK && a->name[0] == '\0') {
        rc = EO_RAISE(err, EO_E_BAD_FILE, "an attribute has no name");
    }
    if (rc != EO_OK) {
        return rc;
    }
    rc = read_name(p->ref_attr_name, "an attribute's reference", &a->ref, err);
    if (rc == EO_OK && a->ref[0] == '\0') {
        a->ref = NULL;
        rc = read_attr_value(r, p, a, err);
    }
    if (rc != EO_OK) {
        eo_error_push(err, "attribute %s", eo_quote(a->name, strlen(a->name), quoted, sizeof(quoted)));
    }
    return rc;
}

static int read_attrs(struct reader *r, const Onnx__NodeProto *p, struct onnx_node *node, struct eo_error *err)
{
    struct onnx_attr *attrs;
    int rc = EO_OK;

    if (p->n_attribute > ONNX_MAX_ATTRS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a node has %zu attributes, at most %d are allowed", p->n_attribute,
                        ONNX_MAX_ATTRS);
    }
    attrs = take(r, p->n_attribute, sizeof(*attrs), err);
    if (attrs == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (size_t i = 0; rc == EO_OK && i < p->n_attribute; i++) {
        rc = read_attr(r, p->attribute[i], &attrs[i], err);
        for (size_t j = 0; rc == EO_OK && j < i; j++) {
            if (strcmp(attrs[i].name, attrs[j].name) == 0) {
                char quoted[340];

                rc = EO_RAISE(err, EO_E_BAD_FILE, "attribute %s is there twice",
                              eo_quote(attrs[i].name, strlen(attrs[i].name), quoted, sizeof(quoted)));
            }
        }
    }
    node->attrs = attrs;
    node->n_attrs = (int)p->n_attribute;
    return rc;
}

/* ---- nodes ---- */

static int read_node(struct reader *r, const Onnx__NodeProto *p, struct onnx_node *node, struct eo_error *err)
{
    int rc = read_name(p->name, "a node", &node->name, err);

    if (rc == EO_OK) {
        rc = read_name(p->op_type, "an operator", &node->op_type, err);
    }
    if (rc == EO_OK) {
        rc = read_domain(p->domain, &node->domain, err);
    }
    if (rc == EO_OK) {
        rc = read_names(r, p->input, p->n_input, "an input of a node", &node->in, &node->n_in, err);
    }
    if (rc == EO_OK) {
        rc = read_names(r, p->output, p->n_output, "an output of a node", &node->out, &node->n_out, err);
    }
    return rc != EO_OK ? rc : read_attrs(r, p, node, err);
}

static int read_nodes(struct reader *r, Onnx__NodeProto *const *p, size_t n, const struct onnx_node **out, int *out_n,
                      struct eo_error *err)
{
    struct onnx_node *nodes;
    int rc = EO_OK;

    r->n_nodes += n;
    if (r->n_nodes > ONNX_MAX_NODES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the model has more than %d nodes", ONNX_MAX_NODES);
    }
    nodes = take(r, n, sizeof(*nodes), err);
    if (nodes == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (size_t i = 0; rc == EO_OK && i < n; i++) {
        rc = read_node(r, p[i], &nodes[i], err);
        if (rc != EO_OK) {
            char name[340], type[340];
            const char *op = nodes[i].op_type == NULL ? "" : nodes[i].op_type;
            const char *called = nodes[i].name == NULL ? "" : nodes[i].name;

            eo_error_push(err, "reading node %zu %s (%s)", i, eo_quote(called, strlen(called), name, sizeof(name)),
                          eo_quote(op, strlen(op), type, sizeof(type)));
        }
    }
    *out = nodes;
    *out_n = (int)n;
    return rc;
}

/* ---- inputs and outputs ---- */

static int read_dims(struct reader *r, const Onnx__TensorShapeProto *shape, struct onnx_port *port,
                     struct eo_error *err)
{
    EO_UNUSED(r);
    if (shape == NULL) {
        port->n_dims = -1;
        return EO_OK;
    }
    if (shape->n_dim > EO_MAX_DIMS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "it has %zu dimensions, at most %d are supported", shape->n_dim,
                        EO_MAX_DIMS);
    }
    port->n_dims = (int)shape->n_dim;
    for (int d = 0; d < port->n_dims; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];

        port->dims[d] = dim->has_dim_value && dim->dim_value >= 0 ? dim->dim_value : -1;
        if (dim->dim_param != NULL && dim->dim_param[0] != '\0') {
            int rc = read_name(dim->dim_param, "a dimension", &port->symbols[d], err);

            if (rc != EO_OK) {
                return rc;
            }
        }
    }
    return EO_OK;
}

static int read_port(struct reader *r, const Onnx__ValueInfoProto *p, bool is_input, struct onnx_port *port,
                     struct eo_error *err)
{
    const Onnx__TypeProto *type = p->type;
    const char *other;
    int rc = read_name(p->name, "an input or output of the graph", &port->name, err);

    if (rc == EO_OK && port->name[0] == '\0') {
        return EO_RAISE(err, EO_E_BAD_FILE, "an %s of the graph has no name", is_input ? "input" : "output");
    }
    if (rc != EO_OK) {
        return rc;
    }
    port->n_dims = -1;
    if (type != NULL && type->tensor_type != NULL) {
        rc = read_dtype(type->tensor_type->elem_type, "it", &port->dtype, err);
        return rc != EO_OK ? rc : read_dims(r, type->tensor_type->shape, port, err);
    }
    other = type == NULL               ? NULL
            : type->sequence_type      ? "a sequence"
            : type->map_type           ? "a map"
            : type->optional_type      ? "an optional value"
            : type->sparse_tensor_type ? "a sparse tensor"
                                       : NULL;
    if (other != NULL) {
        rc = EO_RAISE(err, EO_E_UNSUPPORTED, "it is %s, only tensors are supported", other);
    }
    return rc;
}

/* Ports of the graph. Those of graphs in attributes may have no type. */
static int read_ports(struct reader *r, Onnx__ValueInfoProto *const *p, size_t n, bool is_input,
                      const struct onnx_port **out, int *out_n, struct eo_error *err)
{
    struct onnx_port *ports;
    int rc = EO_OK;

    if (n > ONNX_MAX_PORTS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a graph has %zu %s, at most %d are allowed", n,
                        is_input ? "inputs" : "outputs", ONNX_MAX_PORTS);
    }
    ports = take(r, n, sizeof(*ports), err);
    if (ports == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (size_t i = 0; rc == EO_OK && i < n; i++) {
        rc = read_port(r, p[i], is_input, &ports[i], err);
        if (rc != EO_OK) {
            const char *name = ports[i].name == NULL ? "" : ports[i].name;
            char quoted[340];

            eo_error_push(err, "reading %s %zu %s of the graph", is_input ? "input" : "output", i,
                          eo_quote(name, strlen(name), quoted, sizeof(quoted)));
        }
    }
    *out = ports;
    *out_n = (int)n;
    return rc;
}

/* ---- graphs, functions, the model ---- */

static int read_initializers(struct reader *r, const Onnx__GraphProto *p, struct onnx_graph *out, struct eo_error *err)
{
    struct onnx_tensor *list = take(r, p->n_initializer, sizeof(*list), err);
    int rc = list == NULL ? EO_E_NO_MEMORY : EO_OK;

    for (size_t i = 0; rc == EO_OK && i < p->n_initializer; i++) {
        rc = read_tensor(r->arena, p->initializer[i], &list[i], err);
        if (rc == EO_OK && list[i].name[0] == '\0') {
            rc = EO_RAISE(err, EO_E_BAD_FILE, "initializer %zu has no name", i);
        }
    }
    out->initializers = list;
    out->n_initializers = (int)p->n_initializer;
    return rc;
}

static int read_graph(struct reader *r, const Onnx__GraphProto *p, struct onnx_graph *out, struct eo_error *err)
{
    int rc = read_name(p->name, "a graph", &out->name, err);

    if (rc == EO_OK && p->n_sparse_initializer > 0) {
        rc = EO_RAISE(err, EO_E_UNSUPPORTED, "the graph has sparse initializers, which are not supported");
    }
    if (rc == EO_OK && p->n_initializer > ONNX_MAX_NODES) {
        rc = EO_RAISE(err, EO_E_TOO_LARGE, "the graph has %zu initializers, at most %d are allowed", p->n_initializer,
                      ONNX_MAX_NODES);
    }
    if (rc == EO_OK) {
        rc = read_initializers(r, p, out, err);
    }
    if (rc == EO_OK) {
        rc = read_ports(r, p->input, p->n_input, true, &out->inputs, &out->n_inputs, err);
    }
    if (rc == EO_OK) {
        rc = read_ports(r, p->output, p->n_output, false, &out->outputs, &out->n_outputs, err);
    }
    return rc != EO_OK ? rc : read_nodes(r, p->node, p->n_node, &out->nodes, &out->n_nodes, err);
}

static int read_imports(struct reader *r, Onnx__OperatorSetIdProto *const *p, size_t n, const struct onnx_import **out,
                        int *out_n, struct eo_error *err)
{
    struct onnx_import *list;
    int rc = EO_OK;

    if (n > ONNX_MAX_IMPORTS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%zu operator sets are imported, at most %d are allowed", n,
                        ONNX_MAX_IMPORTS);
    }
    list = take(r, n, sizeof(*list), err);
    if (list == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (size_t i = 0; rc == EO_OK && i < n; i++) {
        rc = read_domain(p[i]->domain, &list[i].domain, err);
        list[i].version = p[i]->version >= 0 && p[i]->version <= INT32_MAX ? (int)p[i]->version : INT32_MAX;
    }
    *out = list;
    *out_n = (int)n;
    return rc;
}

static int read_function(struct reader *r, const Onnx__FunctionProto *p, struct onnx_function *f, struct eo_error *err)
{
    int rc = read_name(p->name, "a function", &f->name, err);

    if (rc == EO_OK) {
        rc = read_domain(p->domain, &f->domain, err);
    }
    if (rc == EO_OK) {
        rc = read_names(r, p->input, p->n_input, "an input of a function", &f->inputs, &f->n_inputs, err);
    }
    if (rc == EO_OK) {
        rc = read_names(r, p->output, p->n_output, "an output of a function", &f->outputs, &f->n_outputs, err);
    }
    if (rc == EO_OK) {
        rc = read_names(r, p->attribute, p->n_attribute, "an attribute of a function", &f->attrs, &f->n_attrs, err);
    }
    if (rc == EO_OK) {
        rc = read_imports(r, p->opset_import, p->n_opset_import, &f->imports, &f->n_imports, err);
    }
    if (rc == EO_OK) {
        rc = read_nodes(r, p->node, p->n_node, &f->nodes, &f->n_nodes, err);
    }
    if (rc != EO_OK && f->name != NULL) {
        char quoted[340];

        eo_error_push(err, "reading function %s", eo_quote(f->name, strlen(f->name), quoted, sizeof(quoted)));
    }
    return rc;
}

static int read_functions(struct reader *r, const Onnx__ModelProto *p, struct onnx_model *out, struct eo_error *err)
{
    struct onnx_function *list;
    int rc = EO_OK;

    if (p->n_functions > ONNX_MAX_FUNCTIONS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the model has %zu functions, at most %d are allowed", p->n_functions,
                        ONNX_MAX_FUNCTIONS);
    }
    list = take(r, p->n_functions, sizeof(*list), err);
    if (list == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (size_t i = 0; rc == EO_OK && i < p->n_functions; i++) {
        rc = read_function(r, p->functions[i], &list[i], err);
    }
    out->functions = list;
    out->n_functions = (int)p->n_functions;
    return rc;
}

/* The order for callers: what must be given, then what has a default. */
static int order_inputs(struct reader *r, struct onnx_model *m, struct eo_error *err)
{
    struct onnx_port *list = take(r, (size_t)m->graph.n_inputs, sizeof(*list), err);
    struct eo_name_node *names = NULL;
    uint32_t number;
    int n = 0;

    if (list == NULL) {
        return EO_E_NO_MEMORY;
    }
    for (int i = 0; i < m->graph.n_initializers; i++) { /* onnx_check finds those that are there twice */
        (void)eo_name_index_add(&names, r->arena, m->graph.initializers[i].name, (uint32_t)i);
    }
    for (int with_default = 0; with_default < 2; with_default++) {
        for (int i = 0; i < m->graph.n_inputs; i++) {
            bool has = eo_name_index_find(names, m->graph.inputs[i].name, &number);

            if (has == (with_default == 1)) {
                list[n] = m->graph.inputs[i];
                list[n++].has_default = has;
            }
        }
    }
    m->inputs = list;
    return EO_OK;
}

int read_model(const Onnx__ModelProto *p, struct onnx_model *out, struct eo_error *err)
{
    struct reader r = {.arena = &out->arena};
    int rc;

    if (p->graph == NULL) {
        return EO_RAISE(err, EO_E_BAD_FILE, "this is not an ONNX model: it has no graph");
    }
    out->ir_version = p->ir_version;
    rc = read_imports(&r, p->opset_import, p->n_opset_import, &out->imports, &out->n_imports, err);
    if (rc == EO_OK) {
        rc = read_functions(&r, p, out, err);
    }
    if (rc == EO_OK) {
        rc = read_graph(&r, p->graph, &out->graph, err);
    }
    return rc != EO_OK ? rc : order_inputs(&r, out, err);
}
