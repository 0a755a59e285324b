/* The reference backend: portable, plain, complete, never tuned. The oracle of every other backend. */
#include "backends/reference/reference.h"

#include "backends/host.h"
#include "backends/reference/index.h"
#include "backends/reference/matmul.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*reference_fn)(const struct eo_launch *l, struct eo_error *err);

static const struct {
    reference_fn run;
    const char *name;
} kernels[EO_OP_COUNT] = {
#define PRIMITIVE(name) reference_##name, "reference." #name
#define LOWERED(name) NULL, NULL
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, dtypes, rule, infer, grad, lower, ...)                    \
    [EO_OP_##NAME] = {lower(name)},
#include "proto/tables/ops.def"
#undef PRIMITIVE
#undef LOWERED
};

static void set_fact(struct eo_backend_facts *facts, enum eo_fact fact, const char *why)
{
    facts->state[fact] = EO_FACT_YES;
    (void)snprintf(facts->why[fact], sizeof facts->why[fact], "%s", why);
}

static void reference_probe(struct eo_backend_facts *out)
{
    memset(out, 0, sizeof *out);
    set_fact(out, EO_FACT_INSTALLED, "needs no library");
    set_fact(out, EO_FACT_INITIALISED, "needs no runtime");
    set_fact(out, EO_FACT_HARDWARE, "any processor");
    set_fact(out, EO_FACT_BUILT, "part of every build");
    set_fact(out, EO_FACT_SUPPORTED, "every primitive operation with every dtype of its row; no fused programs");
}

static int reference_device_count(void)
{
    return 1;
}

static int reference_open(int index, const struct eo_device_config *config, struct eo_device **out,
                          struct eo_error *err)
{
    (void)config;
    if (index != 0)
        return EO_RAISE(err, EO_E_NO_DEVICE, "there is no device reference:%d, only reference", index);
    struct eo_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a device");
    dev->backend = &reference_backend;
    (void)snprintf(dev->info.name, sizeof dev->info.name, "reference");
    (void)snprintf(dev->info.description, sizeof dev->info.description, "plain loops in float64, 1 thread");
    host_memory(&dev->info.memory_total, &dev->info.memory_free);
    dev->info.threads = 1;
    dev->info.host_memory = true;
    *out = dev;
    return EO_OK;
}

static void reference_close(struct eo_device *dev)
{
    free(dev);
}

static int reference_launch(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    dev->n_launches++;
    return kernels[l->node->op->op].run(l, err);
}

/* Element-wise kernels read element i of an operand of the result's shape before they write element i. */
static uint32_t in_place_mask(const struct eo_node_view *node)
{
    uint32_t mask = 0;
    if (node->op->op == EO_OP_RESHAPE)
        return 1;
    if (!(node->op->properties & EO_PROP_ELEMENTWISE))
        return 0;
    for (int i = 0; i < node->n_in; i++) {
        if (eo_tensor_desc_same_shape(node->in[i], node->out[0]) &&
            eo_dtype_size(node->in[i]->dtype) == eo_dtype_size(node->out[0]->dtype))
            mask |= 1u << i;
    }
    return mask;
}

static int reference_select(struct eo_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                            struct eo_error *err)
{
    if (node->fused || !kernels[node->op->op].run) {
        int rc = EO_RAISE(err, EO_E_UNSUPPORTED, "the reference backend runs no %s",
                          node->fused ? "fused programs" : "composite operations");
        eo_error_detail(err, "reference: declines what is fused or composite, so that each operation is checked by "
                             "itself.");
        eo_error_at_device(err, "reference", dev->info.name);
        return rc;
    }
    memset(out, 0, sizeof *out);
    out->run = reference_launch;
    out->name = kernels[node->op->op].name;
    out->in_place = in_place_mask(node);
    if (node->op->op == EO_OP_MATMUL)
        out->workspace_bytes = matmul_workspace(node);
    else if (node->op->op == EO_OP_SCATTER_ELEMENTS || node->op->op == EO_OP_SCATTER_ND)
        out->workspace_bytes = index_workspace(node);
    return EO_OK;
}

/* Runs one row on the device's own memory model: host pointers. */
static int run_row(struct eo_device *dev, enum eo_op op, const struct eo_tensor_desc *in,
                   const struct eo_tensor_desc *y, const void *const *data, void *out, struct eo_error *err)
{
    const struct eo_op_schema *schema = eo_op_schema(op);
    struct eo_attrs attrs;
    eo_attrs_default(schema, &attrs);
    struct eo_node_view node = {.op = schema, .attrs = &attrs, .n_in = schema->min_inputs, .n_out = 1, .out = {y}};
    struct eo_launch l = {.node = &node, .out = {out}};
    union {
        double f[64];
        char bytes[512];
    } workspace;
    for (int i = 0; i < node.n_in; i++) {
        node.in[i] = &in[i];
        /* Operands are not written: no row of the check works in place. */
        memcpy(&l.in[i], &data[i], sizeof(void *));
    }
    struct eo_kernel k;
    int rc = reference_select(dev, &node, &k, err);
    l.workspace = &workspace;
    return rc == EO_OK ? k.run(dev, &l, err) : rc;
}

/* Known answers: a product, a sum and an exponential. */
static int reference_self_check(struct eo_device *dev, char *out_report, size_t size, struct eo_error *err)
{
    static const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {7, 8, 9, 10, 11, 12}, expected[4] = {58, 64, 139, 154};
    static const struct eo_tensor_desc shapes[2] = {{EO_FLOAT32, 2, {2, 3}}, {EO_FLOAT32, 2, {3, 2}}};
    static const struct eo_tensor_desc square = {EO_FLOAT32, 2, {2, 2}}, scalar = {EO_FLOAT32, 0, {0}};
    float product[4], total, e;
    int rc = run_row(dev, EO_OP_MATMUL, shapes, &square, (const void *const[]){a, b}, product, err);
    if (rc == EO_OK)
        rc = run_row(dev, EO_OP_SUM, shapes, &scalar, (const void *const[]){a}, &total, err);
    if (rc == EO_OK)
        rc = run_row(dev, EO_OP_EXP, &scalar, &scalar, (const void *const[]){a}, &e, err);
    if (rc != EO_OK)
        return rc;
    if (memcmp(product, expected, sizeof expected) != 0 || total != 21 || e != (float)M_E)
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "the reference backend gives wrong answers");
    (void)snprintf(out_report, size, "a product, a sum and an exponential equal the known answers");
    return EO_OK;
}

const struct eo_backend reference_backend = {
    .abi = EO_BACKEND_ABI,
    .name = "reference",
    .summary = "plain loops in float64, the oracle of the others",
    .probe = reference_probe,
    .device_count = reference_device_count,
    .device_open = reference_open,
    .device_close = reference_close,
    .alloc = host_alloc,
    .free = host_free,
    .select = reference_select,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .copy = host_copy,
    .self_check = reference_self_check,
};
