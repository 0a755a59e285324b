/* oneDNN, opened at run time by absolute path (docs/adr/0010). Only onednn*.c know it; this header does not show it. An
 * optional helper: when it is absent or unfit the backend works without it and says why. Only the executor's thread
 * calls it; it runs on the OpenMP threads that parallel_for uses. */
#ifndef EO_BACKENDS_CPU_ONEDNN_H
#define EO_BACKENDS_CPU_ONEDNN_H

#include "backends/backend.h"
#include "proto/shape_rules_window.h"

bool onednn_is_compiled(void); /* false: this build does not use it */
/* Opens it on first use and keeps it open: EVERYO_ONEDNN_LIBRARY (an absolute path, or "none") or the path found when
 * EveryO was built. Checks its major version, that its threads are OpenMP's, and a known product (the first code that
 * it generates). Returns whether it can be used. */
bool onednn_probe(void);
const char *onednn_description(void); /* "oneDNN 2.6.3 (AVX2)"; "" when it is not used */
const char *onednn_why_not(void);     /* why it is not used; "" when it is */

/* C = op(A) op(B) + beta C in float32 on row-major buffers. */
struct onednn_product {
    bool transpose_a, transpose_b;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    bool accumulate; /* beta is 1, else 0 */
};
/* After a probe that returned true. BACKEND_FAILED when the library fails. */
int onednn_multiply(const struct onednn_product *p, struct eo_error *err);

/* Convolutions in float32 of w's geometry, prepared once and run many times by one thread at a time. */
enum onednn_conv_kind {
    ONEDNN_CONV,        /* results from cells and weight */
    ONEDNN_CONV_CELLS,  /* its adjoint: cells from results and weight */
    ONEDNN_CONV_WEIGHT, /* its adjoint: weight from cells and results */
};
struct onednn_conv;
struct onednn_conv_operands {
    void *cells, *weight, *results, *workspace;
    const void *bias; /* of ONEDNN_CONV that was prepared with one, one number per output channel */
};
/* UNSUPPORTED when the library has no fast kernel (*out_why says so), BACKEND_FAILED, NO_MEMORY. Weights are in the
 * layout of w and are brought into the library's in the workspace, as are cells and results where that pays. */
int onednn_conv_new(const struct eo_window_shape *w, enum onednn_conv_kind kind, bool has_bias,
                    struct onednn_conv **out, uint64_t *out_workspace, const char **out_why, struct eo_error *err);
int onednn_conv_run(const struct onednn_conv *c, const struct onednn_conv_operands *o, struct eo_error *err);
void onednn_conv_free(struct onednn_conv *c); /* NULL is fine */

/* For tests: forgets the library, so that the next probe looks again. */
void onednn_forget(void);

#endif
