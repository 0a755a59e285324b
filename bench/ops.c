/* Time of single kernels, beside what the memory gives: one JSON line per case with min, median and max of the repeats.
 *
 *   bench_ops [--device NAME] [--threads N] [--repeats N] [FILTER]
 *
 * FILTER: only cases whose name contains it. Each repeat runs the kernel for about a millisecond; buffers are reused,
 * as a plan reuses its arena. gb_s counts every operand and result once; gflop_s is there for products. */
#include "backends/registry.h"
#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_OPERANDS = 8, MAX_REPEATS = 101, REPEAT_NS = 1000000 };

struct bench_case {
    const char *name;
    enum eo_op op;
    int n_in;
    struct eo_tensor_desc in[6];
    const char *attr; /* "name" set to value, NULL = defaults */
    int64_t value;
};

#define F32(...)                                                                                                       \
    {                                                                                                                  \
        EO_FLOAT32, (uint8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define I64(...)                                                                                                       \
    {                                                                                                                  \
        EO_INT64, (uint8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                                       \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define F64(...)                                                                                                       \
    {                                                                                                                  \
        EO_FLOAT64, (uint8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define SCALAR                                                                                                         \
    {                                                                                                                  \
        EO_FLOAT32, 0,                                                                                                 \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

static const struct bench_case cases[] = {
    {"launch", EO_OP_ADD, 2, {SCALAR, SCALAR}, NULL, 0},
    {"add 4Ki", EO_OP_ADD, 2, {F32(4096), F32(4096)}, NULL, 0},
    {"add 4Mi", EO_OP_ADD, 2, {F32(4 << 20), F32(4 << 20)}, NULL, 0},
    {"add row (4096,1024)", EO_OP_ADD, 2, {F32(4096, 1024), F32(1024)}, NULL, 0},
    {"add row (32,10)", EO_OP_ADD, 2, {F32(32, 10), F32(10)}, NULL, 0},
    {"relu 64Ki", EO_OP_RELU, 1, {F32(65536)}, NULL, 0},
    {"exp 64Ki", EO_OP_EXP, 1, {F32(65536)}, NULL, 0},
    {"log 64Ki", EO_OP_LOG, 1, {F32(65536)}, NULL, 0},
    {"tanh 64Ki", EO_OP_TANH, 1, {F32(65536)}, NULL, 0},
    {"sigmoid 64Ki", EO_OP_SIGMOID, 1, {F32(65536)}, NULL, 0},
    {"power 64Ki", EO_OP_POWER, 2, {F32(65536), F32(65536)}, NULL, 0},
    {"divide 64Ki", EO_OP_DIVIDE, 2, {F32(65536), F32(65536)}, NULL, 0},
    {"sum 4Mi", EO_OP_SUM, 1, {F32(4 << 20)}, NULL, 0},
    {"sum 64Ki", EO_OP_SUM, 1, {F32(65536)}, NULL, 0},
    {"variance 4Mi", EO_OP_VARIANCE, 1, {F32(4 << 20)}, NULL, 0},
    {"softmax axis 0 (1024,1024)", EO_OP_SOFTMAX, 1, {F32(1024, 1024)}, "axis", 0},
    {"softmax (4096,1024)", EO_OP_SOFTMAX, 1, {F32(4096, 1024)}, NULL, 0},
    {"softmax (32,10)", EO_OP_SOFTMAX, 1, {F32(32, 10)}, NULL, 0},
    {"log_softmax (32,10)", EO_OP_LOG_SOFTMAX, 1, {F32(32, 10)}, NULL, 0},
    {"cross_entropy (32,10)", EO_OP_CROSS_ENTROPY, 2, {F32(32, 10), I64(32)}, NULL, 0},
    {"arg_max (32,10)", EO_OP_ARG_MAX, 1, {F32(32, 10)}, NULL, 0},
    {"arg_max (4096,1024)", EO_OP_ARG_MAX, 1, {F32(4096, 1024)}, NULL, 0},
    {"transpose (4096,2048)", EO_OP_TRANSPOSE, 1, {F32(4096, 2048)}, NULL, 0},
    {"transpose (4000,2000)", EO_OP_TRANSPOSE, 1, {F32(4000, 2000)}, NULL, 0},
    {"transpose (64,128)", EO_OP_TRANSPOSE, 1, {F32(64, 128)}, NULL, 0},
    {"dropout 64Ki", EO_OP_DROPOUT, 2, {F32(65536), I64(3)}, NULL, 0},
    {"gather (10000,256)[4096]", EO_OP_GATHER, 2, {F32(10000, 256), I64(4096)}, NULL, 0},
    {"matmul 32x64x128", EO_OP_MATMUL, 2, {F32(32, 64), F32(64, 128)}, NULL, 0},
    {"matmul 32x128x10", EO_OP_MATMUL, 2, {F32(32, 128), F32(128, 10)}, NULL, 0},
    {"matmul^T 128x32x10", EO_OP_MATMUL, 2, {F32(32, 128), F32(32, 10)}, "transpose_a", 1},
    {"matmul ^T32x10x128", EO_OP_MATMUL, 2, {F32(32, 10), F32(128, 10)}, "transpose_b", 1},
    {"matmul^T 64x32x128", EO_OP_MATMUL, 2, {F32(32, 64), F32(32, 128)}, "transpose_a", 1},
    {"matmul 64x64x64", EO_OP_MATMUL, 2, {F32(64, 64), F32(64, 64)}, NULL, 0},
    {"matmul 128x784x512", EO_OP_MATMUL, 2, {F32(128, 784), F32(784, 512)}, NULL, 0},
    {"matmul 512x512x512", EO_OP_MATMUL, 2, {F32(512, 512), F32(512, 512)}, NULL, 0},
    {"matmul 1024x1024x1024", EO_OP_MATMUL, 2, {F32(1024, 1024), F32(1024, 1024)}, NULL, 0},
    {"linear 32x64x128", EO_OP_LINEAR, 3, {F32(32, 64), F32(64, 128), F32(128)}, NULL, 0},
    {"sum_squares 1Mi", EO_OP_SUM_SQUARES, 1, {F32(1 << 20)}, NULL, 0},
    {"adam 9610", EO_OP_ADAM_UPDATE, 6, {F32(9610), F32(9610), F32(9610), F32(9610), F32(0), F64(8)}, NULL, 0},
    {"adam 4Mi",
     EO_OP_ADAM_UPDATE,
     6,
     {F32(4 << 20), F32(4 << 20), F32(4 << 20), F32(4 << 20), F32(0), F64(8)},
     NULL,
     0},
    {"sgd 4Mi", EO_OP_SGD_UPDATE, 4, {F32(4 << 20), F32(4 << 20), F32(4 << 20), F64(5)}, NULL, 0},
};

struct prepared {
    struct eo_device *dev;
    struct eo_attrs attrs;
    struct eo_tensor_desc out[EO_MAX_OUTPUTS];
    struct eo_node_view node;
    struct eo_kernel kernel;
    struct eo_launch launch;
    uint64_t bytes;
};

/* Numbers between 0.5 and 1.5 in floats; indices 0 and 1; harmless scalars for the optimizers. */
static int fill(struct eo_device *dev, const struct eo_tensor_desc *d, void *to, struct eo_error *err)
{
    uint64_t bytes = eo_tensor_desc_bytes(d);
    int64_t n = eo_tensor_desc_count(d);
    char *host = calloc(1, bytes + 1);
    if (!host)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory");
    for (int64_t i = 0; i < n; i++) {
        if (d->dtype == EO_FLOAT32)
            ((float *)(void *)host)[i] = 0.5F + (float)(i % 1021) / 1021.0F;
        else if (d->dtype == EO_FLOAT64)
            ((double *)(void *)host)[i] = 0.5;
        else
            ((int64_t *)(void *)host)[i] = i % 2;
    }
    int rc = dev->backend->copy_in(dev, to, host, bytes, err);
    free(host);
    return rc;
}

static int prepare(struct prepared *p, const struct bench_case *c, struct eo_device *dev, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_schema(c->op);
    memset(p, 0, sizeof *p);
    p->dev = dev;
    eo_attrs_default(op, &p->attrs);
    if (c->attr && eo_attrs_set_int(op, &p->attrs, c->attr, c->value, err) != EO_OK)
        return err->code;
    p->node = (struct eo_node_view){.op = op, .attrs = &p->attrs, .n_in = c->n_in, .n_out = op->n_outputs};
    for (int i = 0; i < c->n_in; i++)
        p->node.in[i] = &c->in[i];
    int rc = eo_op_infer(op, p->node.in, c->n_in, &p->attrs, p->out, err);
    for (int o = 0; o < op->n_outputs; o++)
        p->node.out[o] = &p->out[o];
    if (rc == EO_OK)
        rc = dev->backend->select(dev, &p->node, &p->kernel, err);
    for (int i = 0; i < c->n_in && rc == EO_OK; i++) {
        p->bytes += eo_tensor_desc_bytes(&c->in[i]);
        rc = dev->backend->alloc(dev, eo_tensor_desc_bytes(&c->in[i]), &p->launch.in[i], err);
        if (rc == EO_OK)
            rc = fill(dev, &c->in[i], p->launch.in[i], err);
    }
    for (int o = 0; o < op->n_outputs && rc == EO_OK; o++) {
        p->bytes += eo_tensor_desc_bytes(&p->out[o]);
        rc = dev->backend->alloc(dev, eo_tensor_desc_bytes(&p->out[o]), &p->launch.out[o], err);
    }
    if (rc == EO_OK && p->kernel.workspace_bytes > 0)
        rc = dev->backend->alloc(dev, p->kernel.workspace_bytes, &p->launch.workspace, err);
    p->launch.node = &p->node;
    p->launch.state = p->kernel.state;
    return rc;
}

static void release(struct prepared *p)
{
    struct eo_device *dev = p->dev;
    for (int i = 0; i < p->node.n_in; i++)
        dev->backend->free(dev, p->launch.in[i], eo_tensor_desc_bytes(p->node.in[i]));
    for (int o = 0; o < p->node.n_out; o++)
        dev->backend->free(dev, p->launch.out[o], eo_tensor_desc_bytes(&p->out[o]));
    dev->backend->free(dev, p->launch.workspace, p->kernel.workspace_bytes);
    if (p->kernel.state_free)
        p->kernel.state_free(p->kernel.state);
}

static double cpu_ns(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec * 1e9 + (double)t.tv_nsec : 0;
}

static int run_many(struct prepared *p, int64_t calls, double *out_ns, double *out_cpu_ns, struct eo_error *err)
{
    double cpu_start = cpu_ns();
    uint64_t start = eo_now_ns();
    int rc = EO_OK;
    for (int64_t i = 0; i < calls && rc == EO_OK; i++)
        rc = p->kernel.run(p->dev, &p->launch, err);
    if (rc == EO_OK && p->dev->backend->sync)
        rc = p->dev->backend->sync(p->dev, err);
    *out_ns = (double)(eo_now_ns() - start) / (double)calls;
    *out_cpu_ns = (cpu_ns() - cpu_start) / (double)calls;
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_result(const struct prepared *p, const struct bench_case *c, const double *ns, const double *cpu,
                         int n)
{
    struct eo_bytes out;
    struct eo_json j;
    double median = ns[n / 2];
    eo_bytes_init(&out, 4096);
    eo_json_init(&j, &out);
    eo_json_begin_object(&j);
    eo_json_kv_string(&j, "case", c->name);
    eo_json_kv_string(&j, "kernel", p->kernel.name);
    eo_json_kv_i64(&j, "threads", p->dev->info.threads);
    eo_json_kv_f64(&j, "us_min", ns[0] / 1000);
    eo_json_kv_f64(&j, "us_median", median / 1000);
    eo_json_kv_f64(&j, "us_max", ns[n - 1] / 1000);
    eo_json_kv_f64(&j, "us_cpu", cpu[n / 2] / 1000);
    eo_json_kv_f64(&j, "gb_s", (double)p->bytes / median);
    if (c->op == EO_OP_MATMUL || c->op == EO_OP_LINEAR) {
        double flop = 2.0 * (double)eo_tensor_desc_count(&c->in[0]) * (double)p->out[0].shape[1];
        eo_json_kv_f64(&j, "gflop_s", flop / median);
    }
    eo_json_end_object(&j);
    printf("%s\n", eo_bytes_text(&out));
    (void)fflush(stdout);
    eo_bytes_fini(&out);
}

static int measure(struct eo_device *dev, const struct bench_case *c, int repeats, struct eo_error *err)
{
    struct prepared p;
    double ns[MAX_REPEATS], cpu[MAX_REPEATS], once = 1;
    int rc = prepare(&p, c, dev, err);
    if (rc == EO_OK)
        rc = run_many(&p, 1, &once, cpu, err);
    if (rc == EO_OK)
        rc = run_many(&p, 3, &once, cpu, err);
    int64_t calls = once > REPEAT_NS ? 1 : (int64_t)(REPEAT_NS / (once > 1 ? once : 1));
    for (int r = 0; r < repeats && rc == EO_OK; r++)
        rc = run_many(&p, calls, &ns[r], &cpu[r], err);
    if (rc == EO_OK) {
        qsort(ns, (size_t)repeats, sizeof *ns, by_value);
        qsort(cpu, (size_t)repeats, sizeof *cpu, by_value);
        print_result(&p, c, ns, cpu, repeats);
    }
    release(&p);
    return rc;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_ops [--device NAME] [--threads N] [--repeats 1..%d] [FILTER]\n", MAX_REPEATS);
    return 64;
}

int main(int argc, char **argv)
{
    const char *device = "cpu", *filter = "";
    int64_t threads = 0, repeats = 15;
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--device") == 0 && has_value)
            device = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && has_value && eo_parse_i64(argv[i + 1], &threads))
            i++;
        else if (strcmp(argv[i], "--repeats") == 0 && has_value && eo_parse_i64(argv[i + 1], &repeats))
            i++;
        else if (argv[i][0] != '-')
            filter = argv[i];
        else
            return usage();
    }
    if (repeats < 1 || repeats > MAX_REPEATS || threads < 0 || threads > 1024)
        return usage();
    struct eo_error err;
    struct eo_device *dev = NULL;
    struct eo_device_config config = {.threads = (int)threads};
    int rc = registry_open(device, &config, &dev, NULL, 0, &err);
    for (size_t i = 0; i < EO_COUNT_OF(cases) && rc == EO_OK; i++)
        if (strstr(cases[i].name, filter))
            rc = measure(dev, &cases[i], (int)repeats, &err);
    registry_close(dev);
    if (rc != EO_OK) {
        char text[2048];
        eo_error_text(&err, false, text, sizeof text);
        fprintf(stderr, "%s", text);
        return eo_code_exit(rc);
    }
    return EXIT_SUCCESS;
}
