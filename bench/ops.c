/* Time of single kernels, beside what the memory gives: one JSON line per case with min, median and max of the repeats.
 *
 *   bench_ops [--device NAME] [--threads N] [--repeats N] [FILTER]
 *   bench_ops --list
 *
 * FILTER: only cases whose name contains it. Each repeat runs the kernel for about a millisecond; buffers are reused,
 * as a plan reuses its arena. us_limit is the time to read the operands and to write the results, measured in turn with
 * the kernel (cpu devices). bench/ops.py sets the figures beside those of the peers. */
#include "backends/registry.h"
#include "bench/ops_limit.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prepared {
    struct eo_device *dev;
    const struct bench_case *c;
    struct eo_node_view node;
    struct eo_kernel kernel;
    struct eo_launch launch;
    struct limit limit;
};

static int fill(struct eo_device *dev, const struct eo_tensor_desc *d, void *to, struct eo_error *err)
{
    uint64_t bytes = eo_tensor_desc_bytes(d);
    char *host = calloc(1, bytes + 1);
    if (!host)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory");
    bench_fill(d, host);
    int rc = dev->backend->copy_in(dev, to, host, bytes, err);
    free(host);
    return rc;
}

static int allocate(struct prepared *p, struct eo_error *err)
{
    struct eo_device *dev = p->dev;
    int rc = EO_OK;
    for (int i = 0; i < p->c->n_in && rc == EO_OK; i++) {
        p->limit.in_bytes[i] = eo_tensor_desc_bytes(&p->c->in[i]);
        rc = dev->backend->alloc(dev, p->limit.in_bytes[i], &p->launch.in[i], err);
        p->limit.in[i] = p->launch.in[i];
        if (rc == EO_OK)
            rc = fill(dev, &p->c->in[i], p->launch.in[i], err);
    }
    for (int o = 0; o < p->c->n_out && rc == EO_OK; o++) {
        p->limit.out_bytes[o] = eo_tensor_desc_bytes(&p->c->out[o]);
        rc = dev->backend->alloc(dev, p->limit.out_bytes[o], &p->launch.out[o], err);
        p->limit.out[o] = p->launch.out[o];
    }
    if (rc == EO_OK && p->kernel.workspace_bytes > 0)
        rc = dev->backend->alloc(dev, p->kernel.workspace_bytes, &p->launch.workspace, err);
    return rc;
}

static int prepare(struct prepared *p, const struct bench_case *c, struct eo_device *dev, struct eo_error *err)
{
    memset(p, 0, sizeof *p);
    p->dev = dev;
    p->c = c;
    p->node = (struct eo_node_view){.op = c->op, .attrs = &c->attrs, .n_in = c->n_in, .n_out = c->n_out};
    for (int i = 0; i < c->n_in; i++)
        p->node.in[i] = &c->in[i];
    for (int o = 0; o < c->n_out; o++)
        p->node.out[o] = &c->out[o];
    p->limit.threads = dev->info.threads;
    p->limit.n_in = c->n_in;
    p->limit.n_out = c->n_out;
    int rc = dev->backend->select(dev, &p->node, &p->kernel, err);
    if (rc == EO_OK)
        rc = allocate(p, err);
    p->launch.node = &p->node;
    p->launch.state = p->kernel.state;
    return rc;
}

static void release(struct prepared *p)
{
    struct eo_device *dev = p->dev;
    for (int i = 0; i < p->node.n_in; i++)
        dev->backend->free(dev, p->launch.in[i], p->limit.in_bytes[i]);
    for (int o = 0; o < p->node.n_out; o++)
        dev->backend->free(dev, p->launch.out[o], p->limit.out_bytes[o]);
    dev->backend->free(dev, p->launch.workspace, p->kernel.workspace_bytes);
    if (p->kernel.state_free)
        p->kernel.state_free(p->kernel.state);
}

static int run_many(struct prepared *p, int64_t calls, double *out_ns, struct eo_error *err)
{
    uint64_t start = eo_now_ns();
    int rc = EO_OK;
    for (int64_t i = 0; i < calls && rc == EO_OK; i++)
        rc = p->kernel.run(p->dev, &p->launch, err);
    if (rc == EO_OK && p->dev->backend->sync)
        rc = p->dev->backend->sync(p->dev, err);
    *out_ns = (double)(eo_now_ns() - start) / (double)calls;
    return rc;
}

static double run_limit(const struct prepared *p, int64_t calls, bool streaming)
{
    uint64_t start = eo_now_ns();
    for (int64_t i = 0; i < calls; i++)
        limit_run(&p->limit, streaming);
    return (double)(eo_now_ns() - start) / (double)calls;
}

/* The kernel and both ways of the limit in turn, so that all see the same machine; the faster way is the limit. */
static int run_repeats(struct prepared *p, int repeats, struct bench_times t[3], struct eo_error *err)
{
    double once = 1;
    bool has_limit = p->dev->info.host_memory;
    int rc = run_many(p, 1, &once, err);
    if (rc == EO_OK)
        rc = run_many(p, 3, &once, err);
    int64_t calls = once > BENCH_REPEAT_NS ? 1 : (int64_t)(BENCH_REPEAT_NS / (once > 1 ? once : 1));
    for (int r = 0; r < repeats && rc == EO_OK; r++) {
        rc = run_many(p, calls, &t[0].ns[r], err);
        for (int way = 0; has_limit && way < 2; way++)
            t[way + 1].ns[r] = run_limit(p, calls, way == 1);
    }
    for (int i = 0; i < 3; i++) {
        t[i].n = repeats;
        bench_sort(&t[i]);
    }
    return rc;
}

static int measure(struct eo_device *dev, const struct bench_case *c, int repeats, struct eo_error *err)
{
    struct prepared p;
    struct bench_times t[3] = {{.n = 0}};
    int rc = prepare(&p, c, dev, err);
    if (rc == EO_OK)
        rc = run_repeats(&p, repeats, t, err);
    if (rc == EO_OK)
        bench_print(c, p.kernel.name, dev->info.threads, &t[0],
                    !dev->info.host_memory                      ? NULL
                    : bench_median(&t[1]) < bench_median(&t[2]) ? &t[1]
                                                                : &t[2]);
    release(&p);
    return rc;
}

/* Cases that this build or device does not have are named and left out. */
static int measure_all(struct eo_device *dev, const char *filter, int repeats, struct eo_error *err)
{
    int rc = EO_OK;
    for (int i = 0; i < bench_count() && rc == EO_OK; i++) {
        struct bench_case c;
        if (!strstr(bench_text_at(i)->name, filter))
            continue;
        rc = bench_read(i, &c, err);
        if (rc == EO_OK)
            rc = measure(dev, &c, repeats, err);
        if (rc == EO_E_UNSUPPORTED) {
            fprintf(stderr, "left out: %s: %s\n", bench_text_at(i)->name, err->message);
            rc = EO_OK;
        }
    }
    return rc;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_ops [--device NAME] [--threads N] [--repeats 1..%d] [FILTER]\n       bench_ops --list\n",
            BENCH_MAX_REPEATS);
    return 64;
}

int main(int argc, char **argv)
{
    const char *device = "cpu", *filter = "";
    int64_t threads = 0, repeats = 15;
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--list") == 0) {
            bench_list();
            return EXIT_SUCCESS;
        }
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
    if (repeats < 1 || repeats > BENCH_MAX_REPEATS || threads < 0 || threads > 1024)
        return usage();
    struct eo_error err;
    struct eo_device *dev = NULL;
    struct eo_device_config config = {.threads = (int)threads};
    int rc = registry_open(device, &config, &dev, NULL, 0, &err);
    if (rc == EO_OK)
        rc = measure_all(dev, filter, (int)repeats, &err);
    registry_close(dev);
    if (rc != EO_OK) {
        char text[2048];
        eo_error_text(&err, false, text, sizeof text);
        fprintf(stderr, "%s", text);
        return eo_code_exit(rc);
    }
    return EXIT_SUCCESS;
}
