/* OpenBLAS, opened at run time by absolute path. blas.c is the only file that knows it. */
#ifndef EO_BACKENDS_CPU_BLAS_H
#define EO_BACKENDS_CPU_BLAS_H

#include "backends/backend.h"

/* One matrix product C = op(A) op(B) + beta C on row-major buffers, op by the transposed flags. */
struct blas_product {
    enum eo_dtype dtype; /* EO_FLOAT32 or EO_FLOAT64 */
    bool transpose_a, transpose_b;
    int m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    bool accumulate; /* beta is 1, else 0 */
};

/* Facts about the library: EO_FACT_INSTALLED and EO_FACT_INITIALISED of the cpu backend. Opens it on first use and
 * keeps it open: EVERYO_BLAS_LIBRARY (an absolute path) or the path found when EveryO was built. Returns whether both
 * are yes. */
bool blas_probe(struct eo_backend_facts *facts);
bool blas_is_compiled(void); /* false: this build does not use BLAS and blas_probe says so */
/* After a probe that returned true. */
void blas_set_threads(int threads);
void blas_multiply(const struct blas_product *p);
const char *blas_description(void); /* "OpenBLAS 0.3.21 (Zen)"; "" when it is not open */

/* For tests: forgets the library, so that the next probe looks again. */
void blas_forget(void);

#endif
