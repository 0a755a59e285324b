#include "backends/cpu/onednn.h"

#include <stdio.h>
#include <string.h>

#ifdef EO_HAVE_ONEDNN
#include "backends/cpu/onednn_api.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The minor version whose kernels were measured and tested; structs of another major version differ. */
enum { OLDEST_MINOR = 6 };

static struct {
    bool looked, ready;
    struct onednn_api api;
    char description[64], why_not[160];
} lib;

bool onednn_is_compiled(void)
{
    return true;
}

const struct onednn_api *onednn_api(void)
{
    return onednn_probe() ? &lib.api : NULL;
}

static const char *status_text(dnnl_status_t status)
{
    static const char *const names[] = {
        [dnnl_success] = "success",
        [dnnl_out_of_memory] = "out of memory",
        [dnnl_invalid_arguments] = "invalid arguments",
        [dnnl_unimplemented] = "unimplemented",
        [dnnl_iterator_ends] = "iterator ends",
        [dnnl_runtime_error] = "runtime error",
        [dnnl_not_required] = "not required",
    };
    return (size_t)status < EO_COUNT_OF(names) ? names[status] : "unknown status";
}

int onednn_check(dnnl_status_t status, const char *what, struct eo_error *err)
{
    if (status == dnnl_success)
        return EO_OK;
    int code = status == dnnl_out_of_memory ? EO_E_NO_MEMORY : EO_E_BACKEND_FAILED;
    return EO_RAISE(err, code, "%s failed: %s (%d)", what, status_text(status), (int)status);
}

static bool refuse(const char *why)
{
    (void)snprintf(lib.why_not, sizeof lib.why_not, "%s", why);
    return false;
}

static bool open_library(void)
{
    char why[160];
    const char *path = getenv("EVERYO_ONEDNN_LIBRARY");
    if (!path || !path[0])
        path = EO_ONEDNN_LIBRARY;
    else if (strcmp(path, "none") == 0)
        return refuse("EVERYO_ONEDNN_LIBRARY is none");
    else if (path[0] != '/')
        return refuse("EVERYO_ONEDNN_LIBRARY is not an absolute path");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    if (!handle) {
        const char *text = dlerror();
        (void)snprintf(why, sizeof why, "%.150s", text ? text : path);
        return refuse(why);
    }
    /* ISO C has no conversion from object to function pointers; POSIX says that the bits are the same. */
#define RESOLVE(name)                                                                                                  \
    symbol = dlsym(handle, #name);                                                                                     \
    memcpy(&lib.api.name, &symbol, sizeof symbol);                                                                     \
    if (!symbol)                                                                                                       \
        return refuse("the library has no " #name ": it is not oneDNN " EO_ONEDNN_MAJOR);
#define EO_TEXT_(x) #x
#define EO_TEXT(x) EO_TEXT_(x)
#define EO_ONEDNN_MAJOR EO_TEXT(DNNL_VERSION_MAJOR)
    ONEDNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
    lib.api.has_conv = true;
#define RESOLVE_CONV(name)                                                                                             \
    symbol = dlsym(handle, #name);                                                                                     \
    memcpy(&lib.api.name, &symbol, sizeof symbol);                                                                     \
    lib.api.has_conv = lib.api.has_conv && symbol != NULL;
    ONEDNN_CONV_FUNCTIONS(RESOLVE_CONV)
#undef RESOLVE_CONV
    return true;
}

static const char *isa_text(void)
{
    int isa = (int)lib.api.dnnl_get_effective_cpu_isa();
    /* Each set of bits contains those of the smaller instruction sets. */
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core)
        return "AVX-512";
    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 ? "AVX2" : "no AVX2";
}

static bool check_version(void)
{
    char why[160];
    const dnnl_version_t *v = lib.api.dnnl_version();
    if (!v || v->major != DNNL_VERSION_MAJOR || v->minor < OLDEST_MINOR) {
        (void)snprintf(why, sizeof why, "oneDNN %d.%d.%d: %d.%d or newer of %d.x is needed", v ? v->major : 0,
                       v ? v->minor : 0, v ? v->patch : 0, DNNL_VERSION_MAJOR, OLDEST_MINOR, DNNL_VERSION_MAJOR);
        return refuse(why);
    }
    if (v->cpu_runtime != DNNL_RUNTIME_OMP)
        return refuse("this oneDNN has threads of its own; the OpenMP build is needed, which shares our threads");
    const char *isa = isa_text();
    if (strcmp(isa, "no AVX2") == 0)
        return refuse("this processor has no AVX2: oneDNN's kernels for it were not measured");
    (void)snprintf(lib.description, sizeof lib.description, "oneDNN %d.%d.%d (%s)", v->major, v->minor, v->patch, isa);
    return true;
}

/* (8,16) (16,8) of small whole numbers, exact in any order of summation: the first code that the library generates. */
static bool known_product_is_right(void)
{
    enum { M = 8, N = 8, K = 16 };
    float a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = b[i] = (float)(i % 7 - 3);
    dnnl_status_t status = lib.api.dnnl_sgemm('N', 'N', M, N, K, 1, a, K, b, N, 0, c, N);
    if (status != dnnl_success) {
        char why[160];
        (void)snprintf(why, sizeof why, "a known product failed: %s", status_text(status));
        return refuse(why);
    }
    for (int i = 0; i < M * N; i++) {
        float expected = 0;
        for (int p = 0; p < K; p++)
            expected += a[i / N * K + p] * b[p * N + i % N];
        if (c[i] != expected)
            return refuse("a known product gave a wrong answer");
    }
    return true;
}

static bool make_engine(void)
{
    dnnl_status_t status = lib.api.dnnl_engine_create(&lib.api.engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = lib.api.dnnl_stream_create(&lib.api.stream, lib.api.engine, dnnl_stream_in_order);
    if (status == dnnl_success)
        return true;
    char why[160];
    (void)snprintf(why, sizeof why, "no engine for the processor: %s", status_text(status));
    return refuse(why);
}

bool onednn_probe(void)
{
    if (!lib.looked) {
        lib.looked = true;
        lib.ready = open_library() && check_version() && known_product_is_right() && make_engine();
    }
    return lib.ready;
}

const char *onednn_description(void)
{
    return lib.ready ? lib.description : "";
}

const char *onednn_why_not(void)
{
    return lib.why_not;
}

int onednn_multiply(const struct onednn_product *p, struct eo_error *err)
{
    return onednn_check(lib.api.dnnl_sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', p->m, p->n, p->k, 1,
                                           p->a, p->lda, p->b, p->ldb, p->accumulate ? 1 : 0, p->c, p->ldc),
                        "oneDNN's product", err);
}

void onednn_forget(void)
{
    /* Not closed: the library keeps thread state that outlives its mapping. */
    if (lib.api.stream)
        (void)lib.api.dnnl_stream_destroy(lib.api.stream);
    if (lib.api.engine)
        (void)lib.api.dnnl_engine_destroy(lib.api.engine);
    memset(&lib, 0, sizeof lib);
}

#else /* a build without oneDNN */

bool onednn_is_compiled(void)
{
    return false;
}

bool onednn_probe(void)
{
    return false;
}

const char *onednn_description(void)
{
    return "";
}

const char *onednn_why_not(void)
{
    return "";
}

int onednn_multiply(const struct onednn_product *p, struct eo_error *err)
{
    (void)p;
    return EO_RAISE(err, EO_E_BACKEND_FAILED, "this build has no oneDNN");
}

void onednn_forget(void) {}

#endif
