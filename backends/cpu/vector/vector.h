/* The inner loops of the cpu backend. Each file of this folder is compiled once per instruction set (macro EO_ISA names
 * it) and chosen as a whole at run time by isa.c; every function therefore exists as <name>_<isa>.
 *
 * The loops are plain C that the compiler vectorises. Two rules keep results the same on every instruction set:
 * reductions and updates use a fixed number of lanes that no instruction set changes, and -ffp-contract=off forbids it
 * to fuse multiplications with additions (product_tile.c alone is compiled with fusing allowed).
 *
 * Pointers may be equal (in place) but must not overlap otherwise. All functions are pure and thread-safe. */
#ifndef EO_BACKENDS_CPU_VECTOR_VECTOR_H
#define EO_BACKENDS_CPU_VECTOR_VECTOR_H

#include "proto/op_schema.h"

#define VECTOR_PASTE_(name, isa) name##_##isa
#define VECTOR_PASTE(name, isa) VECTOR_PASTE_(name, isa)
#ifdef EO_ISA
#define VECTOR_ISA(name) VECTOR_PASTE(name, EO_ISA)
#endif

/* A loop whose iterations do not depend on each other, even where input and output are the same memory. */
#if defined(__clang__)
#define VECTOR_FOR(i, n) _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < (n); i++)
#else
#define VECTOR_FOR(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)
#endif

/* Bounds of clip in the kind of its operand: f for floats, i and u for signed and unsigned integers. isinf: the
 * infinities that it looks for, NaN for one that it does not. */
union vector_number {
    double f;
    int64_t i;
    uint64_t u;
};
struct vector_args {
    union vector_number low, high;
};

/* out[i] = op(in[0][i], in[1][i], ...) for i < n. Bit k of scalars: in[k] is one element, used for every i; at least
 * one operand is no scalar, except for copy, where a scalar fills. args is read by clip and isinf only. */
typedef void (*vector_map_fn)(int64_t n, void *out, const void *const *in, unsigned scalars,
                              const struct vector_args *args);

/* Rows of element-wise ops by op and dtype of the (last) operand; empty where there is no kernel. Rows of integers and
 * rows of a mathematical library have tables of their own. EO_OP_WHERE and EO_OP_EXPAND (copy or fill) have all dtypes.
 */
typedef vector_map_fn vector_map_table[EO_OP_COUNT][EO_DTYPE_LIMIT];
/* Cast by [from][to]. */
typedef vector_map_fn vector_cast_table[EO_DTYPE_LIMIT][EO_DTYPE_LIMIT];

/* Reductions of one dtype; those of bool are bytes that may be any truth. Contiguous ones take n elements of x; the
 * columns ones fold one row x into n accumulators. Sums and products accumulate in float64 or int64 (wide); extremes in
 * the dtype itself, NaN wins. Sums of float64 carry their rounding errors along, so that equal terms do not add up
 * theirs. */
struct vector_reduce {
    double (*sum)(int64_t n, const void *x);                      /* floats */
    double (*sum_squares)(int64_t n, const void *x, double mean); /* of x - mean; floats */
    int64_t (*sum_integer)(int64_t n, const void *x);             /* integers, wrapping */
    double (*prod)(int64_t n, const void *x);                     /* floats */
    int64_t (*prod_integer)(int64_t n, const void *x);            /* integers, wrapping */
    void (*max)(int64_t n, const void *x, void *out);             /* n >= 1 */
    void (*min)(int64_t n, const void *x, void *out);
    int64_t (*arg_max)(int64_t n, const void *x, bool last); /* n >= 1; the first, or last, largest or NaN */
    int64_t (*arg_min)(int64_t n, const void *x, bool last);
    void (*sum_columns)(int64_t n, void *wide, const void *x);
    /* float32: `rows` sums of rows of n elements each; four rows `stride` elements apart folded at once. */
    void (*sum_short)(int64_t rows, int64_t n, const void *x, double *out);
    void (*sum_columns_four)(int64_t n, double *wide, const void *x, int64_t stride);
    void (*sum_columns_exact)(int64_t n, double *wide, double *lost, const void *x); /* float64; what rounding took */
    void (*prod_columns)(int64_t n, void *wide, const void *x);
    void (*sum_squares_columns)(int64_t n, double *wide, const void *x, const double *mean);
    void (*max_columns)(int64_t n, void *best, const void *x);
    void (*min_columns)(int64_t n, void *best, const void *x);
    void (*arg_max_columns)(int64_t n, void *best, int64_t *at, const void *x, int64_t row, bool last);
    void (*arg_min_columns)(int64_t n, void *best, int64_t *at, const void *x, int64_t row, bool last);
    /* Rows of softmax: out = (x - shift) * factor for floats, rounded once to the dtype. */
    void (*shift)(int64_t n, void *out, const void *x, double shift);
    void (*scale)(int64_t n, void *out, const void *x, double divisor);
};
typedef struct vector_reduce vector_reduce_table[EO_DTYPE_LIMIT];

/* Scalars of the optimizers, worked out in float64 once per launch. */
struct vector_sgd {
    double lr, momentum, weight_decay, grad_scale;
    bool first, nesterov;
};
struct vector_adam {
    double beta1, beta2, step_size /* lr / bias_correction1 */, root /* 1 / sqrt(bias_correction2) */, eps;
    double weight_decay /* added to the gradient */, keep /* factor of the parameter, 1 - lr * decay when decoupled */;
    double grad_scale;
};
struct vector_rmsprop {
    double lr, alpha, eps, weight_decay, momentum, grad_scale;
};
struct vector_adagrad {
    double step_size, eps, weight_decay, initial, grad_scale;
    bool first;
};
struct vector_lion {
    double lr, beta1, beta2, keep /* 1 - lr * weight_decay */, grad_scale;
};
struct vector_update {
    /* velocity NULL: no momentum. */
    void (*sgd)(int64_t n, void *param_out, void *velocity_out, const void *param, const void *grad,
                const void *velocity, const struct vector_sgd *s);
    /* in: param, grad, m, v, vmax; out: param, m, v, vmax; vmax NULL without amsgrad. */
    void (*adam)(int64_t n, void *const out[4], const void *const in[5], const struct vector_adam *s);
    /* in: param, grad, square, mean, velocity; out: param, square, mean, velocity; mean NULL unless centered, velocity
     * NULL without momentum. */
    void (*rmsprop)(int64_t n, void *const out[4], const void *const in[5], const struct vector_rmsprop *s);
    /* in: param, grad, slot; out: param, slot */
    void (*adagrad)(int64_t n, void *const out[2], const void *const in[3], const struct vector_adagrad *s);
    void (*lion)(int64_t n, void *const out[2], const void *const in[3], const struct vector_lion *s);
};
typedef struct vector_update vector_update_table[EO_DTYPE_LIMIT];

/* Random rows of one dtype; element i has the global index first + i (proto/philox.h). */
struct vector_rng {
    int64_t seed, step;
    uint32_t stream;
    uint64_t first;
};
struct vector_random {
    void (*dropout[EO_DTYPE_LIMIT])(int64_t n, void *out, const void *x, const struct vector_rng *g, uint32_t threshold,
                                    double divisor);
    void (*words)(int64_t n, uint32_t *out, const struct vector_rng *g); /* word i of element first + i */
    void (*uniform[EO_DTYPE_LIMIT])(int64_t n, void *out, const struct vector_rng *g, double low, double high);
};

/* C (m,n) = or += A (m,k) B (k,n), any strides for A and B (in elements), rows of C contiguous. Sums run over k in
 * order; k >= 1. */
struct vector_product {
    int64_t m, n, k;
    const void *a, *b;
    int64_t a_row, a_col, b_row, b_col;
    void *c;
    int64_t c_row;
    bool accumulate;
};
typedef void (*vector_product_fn)(const struct vector_product *p);

/* Blocks in the first-level cache. */
enum { VECTOR_TILE_ROWS = 64, VECTOR_TILE_COLUMNS = 64 };
struct vector_block {
    /* A copy whose destination goes around the caches: for results that are larger than they are. stream_end comes
     * after the last one, before other threads may read. */
    void (*stream)(int64_t bytes, void *dst, const void *src);
    void (*stream_end)(void);
    /* dst (rows, columns) with row stride dst_row = transpose of src, whose rows are contiguous; strides in elements,
     * at most VECTOR_TILE_ROWS rows and VECTOR_TILE_COLUMNS columns. By the log2 of the element's size.
     * around: as stream. */
    void (*tile[4])(int64_t rows, int64_t columns, void *dst, int64_t dst_row, const void *src, int64_t src_row,
                    bool around);
    /* out = exp(x - shift) for x that is no larger than shift; by dtype, empty where a library serves. */
    void (*exp_row[EO_DTYPE_LIMIT])(int64_t n, void *out, const void *x, double shift);
    void (*exp_columns[EO_DTYPE_LIMIT])(int64_t n, void *out, const void *x, const void *shifts);
};

struct vector_set {
    const char *name;        /* "baseline", "avx2", "avx512" */
    const char *description; /* "AVX2+FMA" */
    const vector_map_table *elementwise, *integer, *math;
    const vector_cast_table *cast;
    const vector_reduce_table *reduce;
    const vector_update_table *update;
    const struct vector_random *random;
    const struct vector_block *block;
    vector_product_fn product[EO_DTYPE_LIMIT];
};

#define VECTOR_DECLARE(isa)                                                                                            \
    extern const vector_map_table VECTOR_PASTE(vector_elementwise, isa), VECTOR_PASTE(vector_integer, isa),            \
        VECTOR_PASTE(vector_math, isa);                                                                                \
    extern const vector_cast_table VECTOR_PASTE(vector_cast, isa);                                                     \
    extern const vector_reduce_table VECTOR_PASTE(vector_reduce, isa);                                                 \
    extern const vector_update_table VECTOR_PASTE(vector_update, isa);                                                 \
    extern const struct vector_random VECTOR_PASTE(vector_random, isa);                                                \
    extern const struct vector_block VECTOR_PASTE(vector_block, isa);                                                  \
    void VECTOR_PASTE(product_tile_f32, isa)(const struct vector_product *p);                                          \
    void VECTOR_PASTE(product_tile_f64, isa)(const struct vector_product *p);                                          \
    void VECTOR_PASTE(product_tile_i32, isa)(const struct vector_product *p);                                          \
    void VECTOR_PASTE(product_tile_i64, isa)(const struct vector_product *p);

#ifdef EO_ISA
VECTOR_DECLARE(EO_ISA)
#endif

#endif
