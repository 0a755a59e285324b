#include "daemon/formats/onnx/summary.h"

#include "daemon/formats/onnx/model.h"

#include <stdlib.h>
#include <string.h>

typedef void (*node_fn)(void *ctx, const struct onnx_node *node);

static void visit(const struct onnx_graph *g, node_fn fn, void *ctx, uint64_t *n_parameters)
{
    for (int i = 0; i < g->n_initializers; i++) {
        *n_parameters += (uint64_t)eo_tensor_desc_count(&g->initializers[i].desc);
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const struct onnx_node *node = &g->nodes[i];

        fn(ctx, node);
        for (int k = 0; k < node->n_attrs; k++) { /* no deeper than ONNX_MAX_DEPTH, as reading has made sure */
            if (node->attrs[k].graph != NULL) {
                visit(node->attrs[k].graph, fn, ctx, n_parameters);
            }
        }
    }
}

static void count_node(void *ctx, const struct onnx_node *node)
{
    struct onnx_summary *s = ctx;

    (void)node;
    s->n_nodes++;
}

static void list_node(void *ctx, const struct onnx_node *node)
{
    struct onnx_summary *s = ctx;

    s->operators[s->n_operators++] =
        (struct onnx_operator){.domain = node->domain, .name = node->op_type, .n_nodes = 1};
}

static int by_name(const void *a, const void *b)
{
    const struct onnx_operator *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : strcmp(x->domain, y->domain);
}

/* One entry per operator instead of one per node. */
static void merge(struct onnx_summary *s)
{
    size_t n = 0;

    qsort(s->operators, s->n_operators, sizeof(*s->operators), by_name);
    for (size_t i = 0; i < s->n_operators; i++) {
        if (n > 0 && by_name(&s->operators[n - 1], &s->operators[i]) == 0) {
            s->operators[n - 1].n_nodes++;
        } else {
            s->operators[n++] = s->operators[i];
        }
    }
    s->n_operators = n;
}

int onnx_summary_init(const struct onnx_model *m, struct onnx_summary *out, struct eo_error *err)
{
    struct onnx_summary s = {.ir_version = m->ir_version, .n_opsets = m->n_imports};
    uint64_t ignored = 0;

    visit(&m->graph, count_node, &s, &s.n_parameters);
    s.opsets = calloc((size_t)m->n_imports + 1, sizeof(*s.opsets));
    s.operators = calloc((size_t)s.n_nodes + 1, sizeof(*s.operators));
    if (s.opsets == NULL || s.operators == NULL) {
        onnx_summary_fini(&s);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to describe a model");
    }
    for (int i = 0; i < m->n_imports; i++) {
        const char *domain = m->imports[i].domain;

        s.opsets[i] = (struct onnx_opset){domain[0] != '\0' ? domain : "ai.onnx", m->imports[i].version};
    }
    visit(&m->graph, list_node, &s, &ignored);
    merge(&s);
    *out = s;
    return EO_OK;
}

void onnx_summary_fini(struct onnx_summary *s)
{
    free(s->opsets);
    free(s->operators);
    *s = (struct onnx_summary){0};
}
