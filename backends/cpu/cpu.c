/* The cpu backend: vector loops chosen by instruction set, matrix products by oneDNN, OpenBLAS or register tiles, one
 * thread pool. */
#include "backends/cpu/cpu.h"

#include "backends/cpu/blas.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/parallel.h"
#include "backends/host.h"
#include "proto/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which family offers kernels for a row. Rows that are missing have none on this backend. */
static const cpu_select_fn families[EO_OP_COUNT] = {
    [EO_OP_FULL] = creation_select,
    [EO_OP_EYE] = creation_select,
    [EO_OP_ARANGE] = creation_select,
    [EO_OP_LINSPACE] = creation_select,
    [EO_OP_UNIFORM] = random_select,
    [EO_OP_NORMAL] = random_select,
    [EO_OP_BERNOULLI] = random_select,
    [EO_OP_PERMUTATION] = random_select,
    [EO_OP_DROPOUT] = random_select,
    [EO_OP_CONV] = convolve_select,
    [EO_OP_CONV_TRANSPOSE] = convolve_select,
    [EO_OP_CONV_WEIGHT] = convolve_select,
    [EO_OP_MATMUL] = matmul_select,
    [EO_OP_LINEAR] = matmul_select,
    [EO_OP_SUM] = reduce_select,
    [EO_OP_MEAN] = reduce_select,
    [EO_OP_MAX] = reduce_select,
    [EO_OP_MIN] = reduce_select,
    [EO_OP_VARIANCE] = reduce_select,
    [EO_OP_ARG_MAX] = reduce_select,
    [EO_OP_ARG_MIN] = reduce_select,
    [EO_OP_SOFTMAX] = softmax_select,
    [EO_OP_LOG_SOFTMAX] = softmax_select,
    [EO_OP_CROSS_ENTROPY] = softmax_select,
    [EO_OP_RESHAPE] = movement_select,
    [EO_OP_TRANSPOSE] = movement_select,
    [EO_OP_EXPAND] = movement_select,
    [EO_OP_CONCATENATE] = movement_select,
    [EO_OP_SLICE] = movement_select,
    [EO_OP_SLICE_SCATTER] = movement_select,
    [EO_OP_GATHER] = index_select,
    [EO_OP_SCATTER_ADD] = index_select,
    [EO_OP_ONE_HOT] = index_select,
    [EO_OP_SUM_SQUARES] = update_select,
    [EO_OP_SGD_UPDATE] = update_select,
    [EO_OP_ADAM_UPDATE] = update_select,
    [EO_OP_RMSPROP_UPDATE] = update_select,
    [EO_OP_ADAGRAD_UPDATE] = update_select,
    [EO_OP_LION_UPDATE] = update_select,
    [EO_OP_UNFOLD] = window_select,
    [EO_OP_FOLD] = window_select,
    [EO_OP_GATHER_ELEMENTS] = lookup_select,
    [EO_OP_GATHER_ND] = lookup_select,
    [EO_OP_SCATTER_ELEMENTS] = lookup_select,
    [EO_OP_SCATTER_ND] = lookup_select,
    [EO_OP_PROD] = reduce_select,
    [EO_OP_ANY] = reduce_select,
    [EO_OP_ALL] = reduce_select,
    [EO_OP_SUM_SQUARE] = reduce_select,
    [EO_OP_L2_NORM] = reduce_select,
    [EO_OP_CUMULATIVE_SUM] = scan_select,
    [EO_OP_SORT] = sort_select,
    [EO_OP_TOP_K] = sort_select,
    [EO_OP_NONZERO] = sparse_select,
    [EO_OP_COMPRESS] = sparse_select,
};

int cpu_node_new(size_t size, void *out_node, struct eo_error *err)
{
    void *node = calloc(1, size);
    if (!node)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a kernel of %zu bytes", size);
    memcpy(out_node, &node, sizeof node);
    return EO_OK;
}

static int launch(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct cpu_node *node = l->state;
    dev->n_launches++;
    return node->run((struct cpu_device *)dev, l, err);
}

void cpu_node_finish(struct cpu_node *node, cpu_run_fn run, struct eo_kernel *out, const char *fmt, ...)
{
    va_list args;
    size_t prefix = (size_t)snprintf(node->name, sizeof node->name, "cpu.");
    va_start(args, fmt);
    (void)vsnprintf(node->name + prefix, sizeof node->name - prefix, fmt, args);
    va_end(args);
    node->run = run;
    out->run = launch;
    out->name = node->name;
    out->state = node;
    out->state_free = free;
}

int cpu_decline(struct cpu_refusals *r, const char *kernel, const char *fmt, ...)
{
    char reason[160];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    size_t room = sizeof r->text - r->length;
    int n = snprintf(r->text + r->length, room, "%scpu.%s: %s.", r->length ? " " : "", kernel, reason);
    if (n > 0)
        r->length += (size_t)n < room ? (size_t)n : room - 1;
    return EO_E_UNSUPPORTED;
}

static cpu_select_fn family_of(const struct eo_node_view *node)
{
    if (node->fused || (node->op->properties & EO_PROP_ELEMENTWISE))
        return elementwise_select;
    return families[node->op->op];
}

static int unsupported(const struct eo_device *dev, const struct eo_node_view *node, const struct cpu_refusals *why,
                       struct eo_error *err)
{
    const char *name = node->fused ? "fused" : node->op->name;
    int rc = EO_RAISE(err, EO_E_UNSUPPORTED, "the cpu backend has no kernel for %s of %s", name,
                      node->n_in > 0 ? eo_dtype_name(node->in[node->n_in - 1]->dtype) : "no operand");
    eo_error_detail(err, "%s", why->text);
    eo_error_at_op(err, name, NULL);
    eo_error_at_device(err, "cpu", dev->info.name);
    return rc;
}

static int cpu_select(struct eo_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                      struct eo_error *err)
{
    struct cpu_refusals why = {.length = 0};
    cpu_select_fn offer = family_of(node);
    memset(out, 0, sizeof *out);
    int rc = offer ? offer((struct cpu_device *)dev, node, out, &why, err)
                   : cpu_decline(&why, node->op->name, "no family of kernels has this operation");
    if (rc == EO_E_UNSUPPORTED && offer && half_applies(node)) {
        memset(out, 0, sizeof *out);
        rc = half_select((struct cpu_device *)dev, node, offer, out, &why, err);
    }
    return rc == EO_E_UNSUPPORTED ? unsupported(dev, node, &why, err) : rc;
}

static void set_fact(struct eo_backend_facts *facts, enum eo_fact fact, enum eo_fact_state state, const char *why)
{
    facts->state[fact] = state;
    (void)eo_copy_text(facts->why[fact], sizeof facts->why[fact], why);
}

static void describe_build(char *out, size_t size)
{
#ifdef EO_HAVE_SLEEF
    const char *functions = "SLEEF";
#else
    const char *functions = "functions of the C library";
#endif
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < isa_count() && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "loops for ", isa_at(i)->description);
    if (n < size)
        (void)snprintf(out + n, size - n, "; %s; %s%s; %s", parallel_is_compiled() ? "OpenMP" : "one thread",
                       blas_is_compiled() ? "OpenBLAS" : "own products", onednn_is_compiled() ? ", oneDNN" : "",
                       functions);
}

/* oneDNN is named where the dependencies are; without it the backend works all the same. */
static void describe_onednn(struct eo_backend_facts *out)
{
    char *why = out->why[EO_FACT_INSTALLED];
    size_t n = strlen(why), size = sizeof out->why[0];
    if (onednn_probe())
        (void)snprintf(why + n, size - n, "; %s", onednn_description());
    else if (onednn_is_compiled())
        (void)snprintf(why + n, size - n, "; without oneDNN: %s", onednn_why_not());
}

static void cpu_probe(struct eo_backend_facts *out)
{
    const struct vector_set *vec = NULL;
    struct eo_error err;
    char text[160];
    memset(out, 0, sizeof *out);
    if (!blas_probe(out))
        return;
    describe_onednn(out);
    if (isa_choose(&vec, &err) != EO_OK) {
        set_fact(out, EO_FACT_HARDWARE, EO_FACT_NO, err.message);
        return;
    }
    host_cpu_name(text, sizeof text);
    size_t n = strlen(text);
    (void)snprintf(text + n, sizeof text - n, ", %s", vec->description);
    set_fact(out, EO_FACT_HARDWARE, EO_FACT_YES, text);
    describe_build(text, sizeof text);
    set_fact(out, EO_FACT_BUILT, EO_FACT_YES, text);
    set_fact(out, EO_FACT_SUPPORTED, EO_FACT_YES,
             "every operation in every float dtype; integers and bool where the matrix of operations says so");
}

static int cpu_device_count(void)
{
    return 1;
}

static void describe(struct cpu_device *dev)
{
    struct eo_device_info *info = &dev->base.info;
    char cpu[48];
    host_cpu_name(cpu, sizeof cpu);
    (void)snprintf(info->name, sizeof info->name, "cpu");
    (void)snprintf(info->description, sizeof info->description, "%.28s, %s, %d thread%s, %.28s%s%.18s", cpu,
                   dev->vec->description, info->threads, info->threads == 1 ? "" : "s",
                   dev->has_blas ? blas_description() : "own products", dev->has_onednn ? ", " : "",
                   onednn_description());
    host_memory(&info->memory_total, &info->memory_free);
    info->host_memory = true;
}

static int cpu_open(int index, const struct eo_device_config *config, struct eo_device **out, struct eo_error *err)
{
    struct eo_backend_facts facts;
    memset(&facts, 0, sizeof facts);
    if (index != 0)
        return EO_RAISE(err, EO_E_NO_DEVICE, "there is no device cpu:%d, only cpu", index);
    if (!blas_probe(&facts)) {
        int fact = facts.state[EO_FACT_INSTALLED] == EO_FACT_YES ? EO_FACT_INITIALISED : EO_FACT_INSTALLED;
        return EO_RAISE(err, EO_E_NO_DEVICE, "the cpu backend cannot be used: %s", facts.why[fact]);
    }
    const struct vector_set *vec = NULL;
    int rc = isa_choose(&vec, err);
    if (rc != EO_OK)
        return rc;
    struct cpu_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a device");
    dev->base.backend = &cpu_backend;
    dev->vec = vec;
    dev->has_blas = blas_is_compiled();
    /* Without our thread pool OpenBLAS gets one thread too: "threads: 1" must mean what it says. */
    dev->base.info.threads = !parallel_is_compiled() ? 1 : config->threads > 0 ? config->threads : host_threads();
    blas_set_threads(dev->base.info.threads);
    dev->has_onednn = parallel_is_compiled() && onednn_probe();
    describe(dev);
    *out = &dev->base;
    return EO_OK;
}

static void cpu_close(struct eo_device *dev)
{
    free(dev);
}

const struct eo_backend cpu_backend = {
    .abi = EO_BACKEND_ABI,
    .name = "cpu",
    .summary = "vector loops, oneDNN and OpenBLAS on the host's processors",
    .probe = cpu_probe,
    .device_count = cpu_device_count,
    .device_open = cpu_open,
    .device_close = cpu_close,
    .alloc = host_alloc,
    .free = host_free,
    .select = cpu_select,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .copy = host_copy,
    .self_check = cpu_self_check,
};
