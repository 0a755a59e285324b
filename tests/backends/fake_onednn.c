/* A stand-in for oneDNN with one fault per build of this file (FAKE_x). */
#include <dnnl.h>

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 2
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR 6
#endif
#ifndef FAKE_RUNTIME
#define FAKE_RUNTIME DNNL_RUNTIME_OMP
#endif
#ifndef FAKE_ISA
#define FAKE_ISA dnnl_cpu_isa_avx2
#endif
#ifndef FAKE_PRODUCT
#define FAKE_PRODUCT dnnl_success
#endif
#ifndef FAKE_ENGINE
#define FAKE_ENGINE dnnl_success
#endif
#ifndef FAKE_ADD
#define FAKE_ADD 0
#endif

const dnnl_version_t *dnnl_version(void)
{
    static const dnnl_version_t v = {.major = FAKE_MAJOR, .minor = FAKE_MINOR, .hash = "", .cpu_runtime = FAKE_RUNTIME};
    return &v;
}

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void)
{
    return FAKE_ISA;
}

dnnl_status_t dnnl_sgemm(char ta, char tb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha, const float *a,
                         dnnl_dim_t lda, const float *b, dnnl_dim_t ldb, float beta, float *c, dnnl_dim_t ldc)
{
    (void)ta, (void)tb, (void)alpha, (void)beta;
    for (dnnl_dim_t i = 0; i < m * n; i++) {
        float total = FAKE_ADD;
        for (dnnl_dim_t p = 0; p < k; p++)
            total += a[i / n * lda + p] * b[p * ldb + i % n];
        c[i / n * ldc + i % n] = total;
    }
    return FAKE_PRODUCT;
}

dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index)
{
    (void)kind, (void)index;
    *engine = 0;
    return FAKE_ENGINE;
}

dnnl_status_t dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags)
{
    (void)engine, (void)flags;
    *stream = 0;
    return dnnl_success;
}

dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine)
{
    (void)engine;
    return dnnl_success;
}

dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream)
{
    (void)stream;
    return dnnl_success;
}
