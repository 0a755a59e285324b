#include "backends/cpu/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prototypes and numbers of cblas.h and openblas_config.h, which need not be installed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, PARALLEL_OPENMP = 2 };
typedef void (*sgemm_fn)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                         int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*dgemm_fn)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                         const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef const char *(*text_fn)(void);
typedef int (*number_fn)(void);
typedef void (*set_number_fn)(int);

/* The oldest version whose kernels are trusted: older ones err on some processors that came after them. */
enum { OLDEST_MAJOR = 0, OLDEST_MINOR = 3, OLDEST_PATCH = 21 };

static struct {
    bool looked;
    bool ready;
    struct eo_backend_facts facts; /* the first two are ours */
    void *handle;
    sgemm_fn sgemm;
    dgemm_fn dgemm;
    set_number_fn set_threads;
    char description[64];
} blas;

static const char *configured_path(void)
{
#ifdef EO_OPENBLAS_LIBRARY
    return EO_OPENBLAS_LIBRARY;
#else
    return NULL;
#endif
}

bool blas_is_compiled(void)
{
    return configured_path() != NULL;
}

static bool refuse(enum eo_fact fact, const char *why)
{
    blas.facts.state[fact] = EO_FACT_NO;
    (void)snprintf(blas.facts.why[fact], sizeof blas.facts.why[fact], "%s", why);
    return false;
}

/* ISO C has no conversion from object to function pointers; POSIX says that the bits are the same. */
static bool resolve(void *handle, const char *name, void *function, size_t size, char *why, size_t why_size)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, size);
    if (!symbol)
        (void)snprintf(why, why_size, "the library has no %s: it is not OpenBLAS", name);
    return symbol != NULL;
}
#define RESOLVE(handle, name, function, why) resolve(handle, name, &(function), sizeof(function), why, sizeof(why))

static bool open_library(void)
{
    char why[160];
    const char *path = getenv("EVERYO_BLAS_LIBRARY");
    if (!path || !path[0])
        path = configured_path();
    else if (path[0] != '/')
        return refuse(EO_FACT_INSTALLED, "EVERYO_BLAS_LIBRARY is not an absolute path");
    blas.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!blas.handle) {
        const char *text = dlerror();
        (void)snprintf(why, sizeof why, "%.150s", text ? text : path);
        return refuse(EO_FACT_INSTALLED, why);
    }
    if (!RESOLVE(blas.handle, "cblas_sgemm", blas.sgemm, why) ||
        !RESOLVE(blas.handle, "cblas_dgemm", blas.dgemm, why) ||
        !RESOLVE(blas.handle, "openblas_set_num_threads", blas.set_threads, why))
        return refuse(EO_FACT_INSTALLED, why);
    return true;
}

static bool is_too_old(int major, int minor, int patch)
{
    if (major != OLDEST_MAJOR)
        return major < OLDEST_MAJOR;
    return minor != OLDEST_MINOR ? minor < OLDEST_MINOR : patch < OLDEST_PATCH;
}

/* The configuration starts with "OpenBLAS 0.3.21 ". */
static bool check_version(void)
{
    char why[160], *end = NULL;
    static const char prefix[] = "OpenBLAS ";
    text_fn config = NULL, core = NULL;
    if (!RESOLVE(blas.handle, "openblas_get_config", config, why) ||
        !RESOLVE(blas.handle, "openblas_get_corename", core, why))
        return refuse(EO_FACT_INSTALLED, why);
    const char *text = config();
    if (!text || strncmp(text, prefix, strlen(prefix)) != 0)
        return refuse(EO_FACT_INSTALLED, "the library does not say which version of OpenBLAS it is");
    long part[3] = {0};
    const char *at = text + strlen(prefix);
    for (int i = 0; i < 3; i++) {
        part[i] = strtol(at, &end, 10);
        at = *end == '.' ? end + 1 : end;
    }
    (void)snprintf(blas.description, sizeof blas.description, "OpenBLAS %ld.%ld.%ld (%.24s)", part[0], part[1], part[2],
                   core() && core()[0] ? core() : "unknown core");
    if (is_too_old((int)part[0], (int)part[1], (int)part[2])) {
        (void)snprintf(why, sizeof why, "OpenBLAS %ld.%ld.%ld is too old, %d.%d.%d or newer is needed", part[0],
                       part[1], part[2], OLDEST_MAJOR, OLDEST_MINOR, OLDEST_PATCH);
        return refuse(EO_FACT_INSTALLED, why);
    }
    blas.facts.state[EO_FACT_INSTALLED] = EO_FACT_YES;
    (void)snprintf(blas.facts.why[EO_FACT_INSTALLED], sizeof blas.facts.why[EO_FACT_INSTALLED], "%s", blas.description);
    return true;
}

/* (3,2) (2,2) of small whole numbers, exact in any order of summation. */
static bool known_product_is_right(void)
{
    static const float a[6] = {1, 2, 3, 4, 5, 6}, b[4] = {7, 8, 9, 10}, expected[6] = {25, 28, 57, 64, 89, 100};
    float c[6] = {0};
    blas.sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, 3, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    return memcmp(c, expected, sizeof expected) == 0;
}

static bool initialise(void)
{
    char why[160];
    number_fn parallel = NULL, processors = NULL;
    if (!RESOLVE(blas.handle, "openblas_get_parallel", parallel, why) ||
        !RESOLVE(blas.handle, "openblas_get_num_procs", processors, why))
        return refuse(EO_FACT_INSTALLED, why);
    if (parallel() != PARALLEL_OPENMP) {
        (void)snprintf(why, sizeof why, "this OpenBLAS has %s; the OpenMP build is needed, which shares our threads",
                       parallel() == 0 ? "no threads" : "threads of its own");
        return refuse(EO_FACT_INITIALISED, why);
    }
    if (processors() < 1)
        return refuse(EO_FACT_INITIALISED, "OpenBLAS found no processor to run on");
    if (!known_product_is_right())
        return refuse(EO_FACT_INITIALISED, "OpenBLAS gave a wrong answer to a known product");
    blas.facts.state[EO_FACT_INITIALISED] = EO_FACT_YES;
    (void)snprintf(blas.facts.why[EO_FACT_INITIALISED], sizeof blas.facts.why[EO_FACT_INITIALISED],
                   "%s, OpenMP threads, known product right", blas.description);
    return true;
}

static bool without_library(void)
{
    blas.facts.state[EO_FACT_INSTALLED] = blas.facts.state[EO_FACT_INITIALISED] = EO_FACT_YES;
    (void)snprintf(blas.facts.why[EO_FACT_INSTALLED], sizeof blas.facts.why[EO_FACT_INSTALLED],
                   "needs no library: built without OpenBLAS, products run on own kernels");
    (void)snprintf(blas.facts.why[EO_FACT_INITIALISED], sizeof blas.facts.why[EO_FACT_INITIALISED], "needs no runtime");
    return true;
}

bool blas_probe(struct eo_backend_facts *facts)
{
    if (!blas.looked) {
        blas.looked = true;
        blas.ready = blas_is_compiled() ? open_library() && check_version() && initialise() : without_library();
    }
    for (enum eo_fact f = EO_FACT_INSTALLED; f <= EO_FACT_INITIALISED; f++) {
        facts->state[f] = blas.facts.state[f];
        memcpy(facts->why[f], blas.facts.why[f], sizeof facts->why[f]);
    }
    return blas.ready;
}

void blas_set_threads(int threads)
{
    if (blas.handle)
        blas.set_threads(threads);
}

void blas_multiply(const struct blas_product *p)
{
    int ta = p->transpose_a ? TRANSPOSE : NO_TRANSPOSE, tb = p->transpose_b ? TRANSPOSE : NO_TRANSPOSE;
    if (p->dtype == EO_FLOAT32)
        blas.sgemm(ROW_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, p->accumulate ? 1 : 0, p->c,
                   p->ldc);
    else
        blas.dgemm(ROW_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, p->accumulate ? 1 : 0, p->c,
                   p->ldc);
}

const char *blas_description(void)
{
    return blas.ready ? blas.description : "";
}

void blas_forget(void)
{
    /* Not closed: OpenBLAS keeps memory and thread state that outlive its mapping. */
    memset(&blas, 0, sizeof blas);
}
