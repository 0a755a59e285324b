/* How a reduction lies in memory: after merging, dimensions alternate between kept and folded ones, and the innermost
 * one is either. The plan is the same for every number of threads, and so are the bits of the result. */
#ifndef EO_BACKENDS_CPU_REDUCE_H
#define EO_BACKENDS_CPU_REDUCE_H

#include "backends/cpu/cpu.h"

enum {
    REDUCE_CHUNK = 8192, /* elements of a folded row that one call folds */
    REDUCE_TILE = 512,   /* columns that are folded together */
    REDUCE_WIDE = 64,    /* narrower rows are taken several at a time, to about this many columns */
    REDUCE_STRIP = 32768 /* elements of one piece of work when rows are folded into columns */
};

/* Dimensions of one side (kept or folded), outermost first, without the inner one. */
struct reduce_dims {
    int n;
    int64_t shape[EO_MAX_DIMS], stride[EO_MAX_DIMS], count;
};

/* What folding does; rows of one kind differ in how a result is finished. */
enum reduce_kind {
    REDUCE_SUM,     /* sum, mean, variance */
    REDUCE_SQUARES, /* sum_square, l2_norm */
    REDUCE_PROD,
    REDUCE_MAX, /* max, any */
    REDUCE_MIN, /* min, all */
    REDUCE_ARG  /* arg_max, arg_min */
};

/* The result of folding some elements: a sum or product, or the extreme in the dtype's own bytes. */
union reduce_cell {
    double f;
    int64_t i;
    unsigned char bytes[8];
};

struct reduce {
    struct cpu_node node;
    enum eo_op op;
    enum reduce_kind kind;
    enum eo_dtype dtype;
    int64_t size; /* bytes of an element */
    bool is_float, last;
    const struct vector_reduce *vec;
    struct reduce_dims kept, folded;
    bool inner_folded;
    int64_t inner;           /* elements of the innermost dimension: a row to fold, or the columns to keep */
    int64_t n_out, n_folded; /* results; elements that fold into one */
    double divisor;          /* of variance */
    /* Rows (inner_folded): chunks of one result, kept in the workspace when one result is worth several threads. */
    int64_t row_chunks, n_chunks;
    bool split_rows;
    /* Columns: strips of `strip` rows; `repeat` rows are taken as one. */
    int64_t strip, n_strips, repeat;
};

/* Running total of cells in a fixed tree: pairs, pairs of pairs and so on, so that rounding errors stay small. */
struct reduce_cascade {
    double level[48];
    uint64_t n;
};
void reduce_push(struct reduce_cascade *c, double value);
double reduce_total(const struct reduce_cascade *c);

/* Offset in x of number `index` of these dimensions, counted in C order. */
int64_t reduce_offset(const struct reduce_dims *d, int64_t index);
/* Writes result o from its cell: sums become means where the op is one, and are rounded to the dtype. */
void reduce_finish(const struct reduce *r, void *out, int64_t o, union reduce_cell cell);
static inline bool reduce_is_extreme(const struct reduce *r)
{
    return r->kind == REDUCE_MAX || r->kind == REDUCE_MIN;
}
/* The larger or smaller of the two, as the kind says, into *best; size-byte elements. */
void reduce_better(const struct reduce *r, void *best, const void *other);
/* Two folded parts into one, for what is neither a float sum (those go through a cascade) nor arg. */
void reduce_join(const struct reduce *r, union reduce_cell *total, const union reduce_cell *part);
static inline bool reduce_cascades(const struct reduce *r)
{
    return r->is_float && (r->kind == REDUCE_SUM || r->kind == REDUCE_SQUARES);
}

int reduce_run_rows(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err);
int reduce_run_columns(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err);
void reduce_plan_rows(struct reduce *r, uint64_t *out_workspace);
void reduce_plan_columns(struct reduce *r, uint64_t *out_workspace);

#endif
