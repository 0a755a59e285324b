/* The matrix products of ops_cases.c on a plain library, without EveryO: what the library alone gives.
 *
 *   bench_library openblas|onednn [--threads N] [--repeats N] [FILTER]
 *
 * oneDNN is tried in both of its forms, dnnl_sgemm and the matmul primitive made once; the faster one counts. A library
 * that this build did not find is said on stderr, exit status 77. */
#include "bench/ops_cases.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef EO_HAVE_ONEDNN
#include <dnnl.h>
#endif

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, SKIPPED = 77, ALIGNMENT = 64 };

/* One product of row-major buffers. */
struct product {
    enum eo_dtype dtype;
    bool ta, tb;
    int m, n, k;
    void *a, *b, *c;
};
typedef void (*multiply_fn)(const struct product *p);

static int (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc);
static int (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                    const double *b, int ldb, double beta, double *c, int ldc);

static void *resolve(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (!symbol)
        fprintf(stderr, "the library has no %s\n", name);
    return symbol;
}

static bool open_openblas(int threads)
{
#ifdef EO_OPENBLAS_LIBRARY
    void (*set_threads)(int) = NULL;
    void *handle = dlopen(EO_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    void *s = resolve(handle, "cblas_sgemm"), *d = resolve(handle, "cblas_dgemm"),
         *t = resolve(handle, "openblas_set_num_threads");
    memcpy(&sgemm, &s, sizeof s);
    memcpy(&dgemm, &d, sizeof d);
    memcpy(&set_threads, &t, sizeof t);
    if (!s || !d || !t)
        return false;
    set_threads(threads);
    return true;
#else
    (void)threads;
    (void)resolve;
    return false;
#endif
}

static void multiply_openblas(const struct product *p)
{
    int ta = p->ta ? TRANSPOSE : NO_TRANSPOSE, tb = p->tb ? TRANSPOSE : NO_TRANSPOSE, lda = p->ta ? p->m : p->k,
        ldb = p->tb ? p->k : p->n;
    if (p->dtype == EO_FLOAT32)
        (void)sgemm(ROW_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, lda, p->b, ldb, 0, p->c, p->n);
    else
        (void)dgemm(ROW_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, lda, p->b, ldb, 0, p->c, p->n);
}

#ifdef EO_HAVE_ONEDNN
static void must(dnnl_status_t status)
{
    if (status != dnnl_success) {
        fprintf(stderr, "oneDNN says %d\n", (int)status);
        exit(EXIT_FAILURE);
    }
}

static void multiply_sgemm(const struct product *p)
{
    must(dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, p->ta ? p->m : p->k, p->b,
                    p->tb ? p->k : p->n, 0, p->c, p->n));
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_t primitive;
static dnnl_exec_arg_t arguments[3];

static void make_primitive(const struct product *p)
{
    const dnnl_dims_t da = {p->m, p->k}, db = {p->k, p->n}, dc = {p->m, p->n};
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t d;
    dnnl_primitive_desc_t pd;
    if (!engine) {
        must(dnnl_engine_create(&engine, dnnl_cpu, 0));
        must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    }
    must(dnnl_memory_desc_init_by_tag(&a, 2, da, dnnl_f32, p->ta ? dnnl_ba : dnnl_ab));
    must(dnnl_memory_desc_init_by_tag(&b, 2, db, dnnl_f32, p->tb ? dnnl_ba : dnnl_ab));
    must(dnnl_memory_desc_init_by_tag(&c, 2, dc, dnnl_f32, dnnl_ab));
    must(dnnl_matmul_desc_init(&d, &a, &b, NULL, &c));
    must(dnnl_primitive_desc_create(&pd, &d, NULL, engine, NULL));
    must(dnnl_primitive_create(&primitive, pd));
    must(dnnl_primitive_desc_destroy(pd));
    arguments[0].arg = DNNL_ARG_SRC;
    arguments[1].arg = DNNL_ARG_WEIGHTS;
    arguments[2].arg = DNNL_ARG_DST;
    must(dnnl_memory_create(&arguments[0].memory, &a, engine, p->a));
    must(dnnl_memory_create(&arguments[1].memory, &b, engine, p->b));
    must(dnnl_memory_create(&arguments[2].memory, &c, engine, p->c));
}

static void drop_primitive(void)
{
    for (int i = 0; i < 3; i++)
        must(dnnl_memory_destroy(arguments[i].memory));
    must(dnnl_primitive_destroy(primitive));
}

static void multiply_primitive(const struct product *p)
{
    (void)p;
    must(dnnl_primitive_execute(primitive, stream, 3, arguments));
}
#endif

static double time_calls(multiply_fn f, const struct product *p, int64_t calls)
{
    uint64_t start = eo_now_ns();
    for (int64_t i = 0; i < calls; i++)
        f(p);
    return (double)(eo_now_ns() - start) / (double)calls;
}

static void time_ways(const struct product *p, const multiply_fn *ways, int n_ways, int repeats, struct bench_times *t)
{
    int64_t calls[2];
    for (int w = 0; w < n_ways; w++) {
        (void)time_calls(ways[w], p, 1);
        double once = time_calls(ways[w], p, 3);
        calls[w] = once > BENCH_REPEAT_NS ? 1 : (int64_t)(BENCH_REPEAT_NS / (once > 1 ? once : 1));
    }
    for (int r = 0; r < repeats; r++)
        for (int w = 0; w < n_ways; w++)
            t[w].ns[r] = time_calls(ways[w], p, calls[w]);
    for (int w = 0; w < n_ways; w++) {
        t[w].n = repeats;
        bench_sort(&t[w]);
    }
}

/* One plain product of two matrices: what both libraries take in one call. */
static bool is_product(const struct bench_case *c)
{
    return strcmp(c->op->name, "matmul") == 0 && c->in[0].n_dims == 2 && c->in[1].n_dims == 2;
}

static void measure(const struct bench_case *c, bool onednn, int threads, int repeats)
{
    struct product p = {.dtype = (enum eo_dtype)c->in[0].dtype,
                        .ta = eo_attr_int(c->op, &c->attrs, "transpose_a") != 0,
                        .tb = eo_attr_int(c->op, &c->attrs, "transpose_b") != 0,
                        .m = (int)c->out[0].shape[0],
                        .n = (int)c->out[0].shape[1]};
    struct bench_times t[2];
    int best = 0;
    p.k = (int)c->in[0].shape[p.ta ? 0 : 1];
    const struct eo_tensor_desc *descs[3] = {&c->in[0], &c->in[1], &c->out[0]};
    void **to[3] = {&p.a, &p.b, &p.c};
    for (int i = 0; i < 3; i++) {
        if (posix_memalign(to[i], ALIGNMENT, eo_tensor_desc_bytes(descs[i])) != 0)
            exit(EXIT_FAILURE);
        bench_fill(descs[i], *to[i]);
    }
    if (onednn) {
#ifdef EO_HAVE_ONEDNN
        make_primitive(&p);
        time_ways(&p, (const multiply_fn[]){multiply_primitive, multiply_sgemm}, 2, repeats, t);
        drop_primitive();
        best = bench_median(&t[1]) < bench_median(&t[0]) ? 1 : 0;
#endif
        bench_print(c, best ? "onednn sgemm" : "onednn matmul", threads, &t[best], NULL);
    } else {
        time_ways(&p, (const multiply_fn[]){multiply_openblas}, 1, repeats, t);
        bench_print(c, "openblas", threads, &t[0], NULL);
    }
    for (int i = 0; i < 3; i++)
        free(*to[i]);
}

static bool is_here(bool onednn, int threads)
{
#ifdef EO_HAVE_ONEDNN
    if (onednn)
        return true; /* threads by OMP_NUM_THREADS, which ops.py sets */
#endif
    return !onednn && open_openblas(threads);
}

int main(int argc, char **argv)
{
    const char *filter = "";
    int64_t threads = 1, repeats = 15;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc && eo_parse_i64(argv[i + 1], &threads))
            i++;
        else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc && eo_parse_i64(argv[i + 1], &repeats))
            i++;
        else
            filter = argv[i];
    }
    if (argc < 2 || repeats < 1 || repeats > BENCH_MAX_REPEATS || threads < 1 || threads > 1024) {
        fprintf(stderr, "usage: bench_library openblas|onednn [--threads N] [--repeats 1..%d] [FILTER]\n",
                BENCH_MAX_REPEATS);
        return 64;
    }
    bool onednn = strcmp(argv[1], "onednn") == 0;
    if (!is_here(onednn, (int)threads)) {
        fprintf(stderr, "skipped: this build has no %s\n", argv[1]);
        return SKIPPED;
    }
    for (int i = 0; i < bench_count(); i++) {
        struct bench_case c;
        struct eo_error err;
        if (!strstr(bench_text_at(i)->name, filter) || bench_read(i, &c, &err) != EO_OK || !is_product(&c))
            continue;
        if (!onednn || c.in[0].dtype == EO_FLOAT32)
            measure(&c, onednn, (int)threads, (int)repeats);
    }
    return EXIT_SUCCESS;
}
