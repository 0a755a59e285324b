/* A stand-in for OpenBLAS with one fault per build of this file (FAKE_x). Without a fault it is a slow, right OpenBLAS.
 */

#ifndef FAKE_VERSION
#define FAKE_VERSION "OpenBLAS 0.3.99 NO_LAPACKE FAKE"
#endif
#ifndef FAKE_PARALLEL
#define FAKE_PARALLEL 2
#endif
#ifndef FAKE_PROCESSORS
#define FAKE_PROCESSORS 2
#endif
#define EXPORT __attribute__((visibility("default")))
enum { TRANSPOSE = 112 };

EXPORT const char *openblas_get_config(void);
EXPORT const char *openblas_get_corename(void);
EXPORT int openblas_get_parallel(void);
EXPORT int openblas_get_num_procs(void);
EXPORT void openblas_set_num_threads(int n);

const char *openblas_get_config(void)
{
    return FAKE_VERSION;
}

const char *openblas_get_corename(void)
{
    return "Fake";
}

int openblas_get_parallel(void)
{
    return FAKE_PARALLEL;
}

int openblas_get_num_procs(void)
{
    return FAKE_PROCESSORS;
}

void openblas_set_num_threads(int n)
{
    (void)n;
}

#define GEMM(name, T)                                                                                                  \
    EXPORT void name(int order, int ta, int tb, int m, int n, int k, T alpha, const T *a, int lda, const T *b,         \
                     int ldb, T beta, T *c, int ldc);                                                                  \
    void name(int order, int ta, int tb, int m, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb,       \
              T beta, T *c, int ldc)                                                                                   \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        for (int i = 0; i < m; i++)                                                                                    \
            for (int j = 0; j < n; j++) {                                                                              \
                T total = 0;                                                                                           \
                for (int p = 0; p < k; p++)                                                                            \
                    total += a[ta == TRANSPOSE ? p * lda + i : i * lda + p] *                                          \
                             b[tb == TRANSPOSE ? j * ldb + p : p * ldb + j];                                           \
                c[i * ldc + j] = alpha * total + (beta == 0 ? 0 : beta * c[i * ldc + j]);                              \
            }                                                                                                          \
        FAKE_FAULT                                                                                                     \
    }

/* The fault of a product: none, always, or only in large ones (which a known tiny product does not show). */
#if defined(FAKE_WRONG)
#define FAKE_FAULT c[0] += 1;
#elif defined(FAKE_WRONG_WHEN_LARGE)
#define FAKE_FAULT                                                                                                     \
    if (m > 100 && n > 100)                                                                                            \
        c[(m - 1) * ldc + n - 1] += 1;
#else
#define FAKE_FAULT
#endif

#ifndef FAKE_WITHOUT_SGEMM
GEMM(cblas_sgemm, float)
#endif
GEMM(cblas_dgemm, double)
