/* Reductions whose innermost dimension folds: contiguous rows, cut into chunks whose results are combined in a fixed
 * tree. */
#include "backends/cpu/reduce.h"

#include "backends/cpu/parallel.h"

#include <string.h>

/* Results that are fewer than this share their chunks between threads. */
enum { FEW_RESULTS = 16 };
/* Rows shorter than a vector's lanes in vector_reduce.c are added up in order. */
enum { SHORT_ROW = 16 };

void reduce_plan_rows(struct reduce *r, uint64_t *out_workspace)
{
    r->row_chunks = (r->inner + REDUCE_CHUNK - 1) / REDUCE_CHUNK;
    r->n_chunks = r->folded.count * r->row_chunks;
    r->split_rows = r->n_out < FEW_RESULTS && r->n_chunks >= 8 && r->kind != REDUCE_ARG;
    *out_workspace = r->split_rows ? (uint64_t)r->n_chunks * sizeof(union reduce_cell) : 0;
}

/* What one thread needs to fold chunks of one result. */
struct fold {
    const struct reduce *r;
    const struct eo_launch *l;
    int64_t base; /* offset of the result's first element */
    bool squares; /* of the distances from mean: second pass of variance, REDUCE_SQUARES with mean 0 */
    double mean;
    union reduce_cell *cells;
};

static union reduce_cell fold_chunk(const struct fold *f, int64_t chunk)
{
    const struct reduce *r = f->r;
    union reduce_cell cell = {.i = 0};
    int64_t first = chunk % r->row_chunks * REDUCE_CHUNK, n = EO_MIN(r->inner - first, REDUCE_CHUNK);
    int64_t offset = f->base + reduce_offset(&r->folded, chunk / r->row_chunks) + first;
    const void *x = (const char *)f->l->in[0] + offset * r->size;
    if (f->squares)
        cell.f = r->vec->sum_squares(n, x, f->mean);
    else if (r->kind == REDUCE_MAX)
        r->vec->max(n, x, &cell);
    else if (r->kind == REDUCE_MIN)
        r->vec->min(n, x, &cell);
    else if (r->kind == REDUCE_PROD && r->is_float)
        cell.f = r->vec->prod(n, x);
    else if (r->kind == REDUCE_PROD)
        cell.i = r->vec->prod_integer(n, x);
    else if (r->is_float)
        cell.f = r->vec->sum(n, x);
    else
        cell.i = r->vec->sum_integer(n, x);
    return cell;
}

static union reduce_cell combine(const struct fold *f)
{
    const struct reduce *r = f->r;
    union reduce_cell total = {.i = 0};
    struct reduce_cascade c = {.n = 0};
    for (int64_t i = 0; i < r->n_chunks; i++) {
        union reduce_cell cell = f->cells ? f->cells[i] : fold_chunk(f, i);
        if (reduce_cascades(r))
            reduce_push(&c, cell.f);
        else if (i == 0)
            total = cell;
        else
            reduce_join(r, &total, &cell);
    }
    if (reduce_cascades(r))
        total.f = reduce_total(&c);
    return total;
}

static void fold_cells(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct fold *f = context;
    for (int64_t i = begin; i < end; i++)
        f->cells[i] = fold_chunk(f, i);
}

/* All chunks of one result; by all threads when threads > 1. */
static union reduce_cell fold_all(struct fold *f, int threads)
{
    if (f->cells)
        parallel_for(threads, f->r->n_chunks, parallel_grain(REDUCE_CHUNK), fold_cells, f);
    return combine(f);
}

static void fold_result(struct fold *f, int64_t o, int threads)
{
    const struct reduce *r = f->r;
    f->base = reduce_offset(&r->kept, o);
    if (r->kind == REDUCE_ARG) {
        const void *x = (const char *)f->l->in[0] + f->base * r->size;
        ((int64_t *)f->l->out[0])[o] =
            r->op == EO_OP_ARG_MAX ? r->vec->arg_max(r->inner, x, r->last) : r->vec->arg_min(r->inner, x, r->last);
        return;
    }
    f->squares = r->kind == REDUCE_SQUARES;
    f->mean = 0;
    union reduce_cell cell = r->n_chunks == 1 ? fold_chunk(f, 0) : fold_all(f, threads);
    if (r->op == EO_OP_VARIANCE) {
        f->mean = cell.f / (double)r->n_folded;
        f->squares = true;
        cell = r->n_chunks == 1 ? fold_chunk(f, 0) : fold_all(f, threads);
    }
    reduce_finish(r, f->l->out[0], o, cell);
}

/* Sums of rows too short to fill a vector, many at a time. */
static bool takes_short_rows(const struct reduce *r)
{
    return r->vec->sum_short && (r->op == EO_OP_SUM || r->op == EO_OP_MEAN) && r->inner < SHORT_ROW &&
           r->folded.n == 0 && r->kept.n == 1;
}

static void fold_short_rows(void *context, int64_t begin, int64_t end, int thread)
{
    enum { TOGETHER = 64 };
    (void)thread;
    const struct fold *f = context;
    const struct reduce *r = f->r;
    double sums[TOGETHER];
    for (int64_t o = begin; o < end; o += TOGETHER) {
        int64_t n = EO_MIN(end - o, TOGETHER);
        r->vec->sum_short(n, r->inner, (const char *)f->l->in[0] + o * r->inner * r->size, sums);
        for (int64_t i = 0; i < n; i++)
            reduce_finish(r, f->l->out[0], o + i, (union reduce_cell){.f = sums[i]});
    }
}

static void fold_results(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    struct fold f = *(const struct fold *)context;
    for (int64_t o = begin; o < end; o++)
        fold_result(&f, o, 1);
}

int reduce_run_rows(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct reduce *r = l->state;
    struct fold f = {.r = r, .l = l, .cells = r->split_rows ? l->workspace : NULL};
    if (!r->split_rows) {
        bool is_short = takes_short_rows(r);
        parallel_for(dev->base.info.threads, r->n_out, parallel_grain(r->n_folded + (is_short ? 16 : 64)),
                     is_short ? fold_short_rows : fold_results, &f);
        return EO_OK;
    }
    for (int64_t o = 0; o < r->n_out; o++)
        fold_result(&f, o, dev->base.info.threads);
    return EO_OK;
}
