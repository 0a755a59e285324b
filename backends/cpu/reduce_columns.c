/* Reductions whose innermost dimension is kept: rows are folded into accumulators, one per column. Work is cut into
 * tiles of columns and strips of rows; the strips' results are combined in a fixed tree. */
#include "backends/cpu/reduce.h"

#include "backends/cpu/parallel.h"

#include <string.h>

static bool is_arg(const struct reduce *r)
{
    return r->op == EO_OP_ARG_MAX || r->op == EO_OP_ARG_MIN;
}

static bool is_extreme(const struct reduce *r)
{
    return r->op == EO_OP_MAX || r->op == EO_OP_MIN;
}

void reduce_plan_columns(struct reduce *r, uint64_t *out_workspace)
{
    int64_t rows = r->folded.count;
    bool contiguous = r->folded.n == 1;
    r->repeat = contiguous && !is_arg(r) && r->inner < REDUCE_WIDE ? REDUCE_WIDE / r->inner : 1;
    r->repeat = r->repeat > rows ? 1 : r->repeat;
    r->strip = REDUCE_STRIP / EO_MIN(r->inner, REDUCE_TILE);
    r->strip = (r->strip + r->repeat - 1) / r->repeat * r->repeat;
    if (is_arg(r))
        r->strip = rows;
    r->n_strips = (rows + r->strip - 1) / r->strip;
    uint64_t cells = r->n_strips > 1 ? (uint64_t)r->n_out * (uint64_t)r->n_strips : 0;
    uint64_t means = r->op == EO_OP_VARIANCE ? (uint64_t)r->n_out : 0;
    *out_workspace = (cells + means) * sizeof(union reduce_cell);
}

struct fold {
    const struct reduce *r;
    const struct eo_launch *l;
    bool squares;
    double *means;            /* variance: of each result */
    union reduce_cell *cells; /* [strip][result], NULL when there is one strip */
};

/* Where a piece of work lies: columns first..first+width of kept number `kept`, rows from..to. */
struct piece {
    int64_t kept, first, width, from, to;
};

static const char *row_at(const struct fold *f, const struct piece *p, int64_t row)
{
    const struct reduce *r = f->r;
    int64_t offset = reduce_offset(&r->kept, p->kept) + reduce_offset(&r->folded, row) + p->first;
    return (const char *)f->l->in[0] + offset * r->size;
}

/* Folds one row of n columns into acc. */
static void fold_row(const struct fold *f, int64_t n, void *acc, const void *x, const double *mean)
{
    const struct reduce *r = f->r;
    if (f->squares)
        r->vec->sum_squares_columns(n, acc, x, mean);
    else if (r->op == EO_OP_MAX)
        r->vec->max_columns(n, acc, x);
    else if (r->op == EO_OP_MIN)
        r->vec->min_columns(n, acc, x);
    else
        r->vec->sum_columns(n, acc, x);
}

/* The columns of the `repeat` rows that were taken as one are folded together, in order. Sums are wide, extremes are
 * not. */
static void fold_repeats(const struct fold *f, void *acc, int64_t n)
{
    const struct reduce *r = f->r;
    for (int64_t j = 1; j < r->repeat; j++)
        for (int64_t i = 0; i < n; i++) {
            if (r->op == EO_OP_MAX)
                r->vec->max_columns(1, (char *)acc + i * r->size, (char *)acc + (j * n + i) * r->size);
            else if (r->op == EO_OP_MIN)
                r->vec->min_columns(1, (char *)acc + i * r->size, (char *)acc + (j * n + i) * r->size);
            else if (r->is_float)
                ((double *)acc)[i] += ((double *)acc)[j * n + i];
            else
                ((uint64_t *)acc)[i] += ((uint64_t *)acc)[j * n + i];
        }
}

/* acc has REDUCE_TILE cells; sums use 8 bytes per column, extremes the dtype's. */
static void fold_piece(const struct fold *f, const struct piece *p, union reduce_cell *acc)
{
    const struct reduce *r = f->r;
    double means[REDUCE_TILE];
    int64_t n = p->width, row = p->from, step = p->to - p->from >= r->repeat ? r->repeat : 1;
    for (int64_t j = 0; f->squares && j < step; j++)
        memcpy(means + j * n, f->means + p->kept * r->inner + p->first, (size_t)n * sizeof *means);
    if (is_extreme(r)) {
        memcpy(acc, row_at(f, p, row), (size_t)(n * step * r->size));
        row += step;
    } else {
        memset(acc, 0, (size_t)(n * step) * sizeof *acc);
    }
    for (; row + step <= p->to; row += step)
        fold_row(f, n * step, acc, row_at(f, p, row), means);
    for (; row < p->to; row++)
        fold_row(f, n, acc, row_at(f, p, row), means);
    if (step > 1)
        fold_repeats(f, acc, n);
}

static union reduce_cell cell_of(const struct reduce *r, const union reduce_cell *acc, int64_t column)
{
    union reduce_cell cell = {.i = 0};
    int64_t size = is_extreme(r) ? r->size : (int64_t)sizeof cell;
    memcpy(cell.bytes, (const char *)acc + column * size, (size_t)size);
    return cell;
}

/* A finished result: the mean for the second pass of variance, or the output. */
static void finish(const struct fold *f, int64_t o, union reduce_cell cell)
{
    if (f->r->op == EO_OP_VARIANCE && !f->squares)
        f->means[o] = cell.f / (double)f->r->n_folded;
    else
        reduce_finish(f->r, f->l->out[0], o, cell);
}

static int64_t tiles_of(const struct reduce *r)
{
    return (r->inner + REDUCE_TILE - 1) / REDUCE_TILE;
}

static struct piece piece_at(const struct reduce *r, int64_t index)
{
    int64_t tiles = tiles_of(r), strip = index % r->n_strips, tile = index / r->n_strips % tiles;
    struct piece p = {.kept = index / r->n_strips / tiles, .first = tile * REDUCE_TILE, .from = strip * r->strip};
    p.width = EO_MIN(r->inner - p.first, REDUCE_TILE);
    p.to = EO_MIN(r->folded.count, p.from + r->strip);
    return p;
}

static void fold_pieces(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct fold *f = context;
    const struct reduce *r = f->r;
    union reduce_cell acc[REDUCE_TILE];
    for (int64_t i = begin; i < end; i++) {
        struct piece p = piece_at(r, i);
        int64_t o = p.kept * r->inner + p.first;
        fold_piece(f, &p, acc);
        for (int64_t c = 0; c < p.width; c++) {
            if (f->cells)
                f->cells[i % r->n_strips * r->n_out + o + c] = cell_of(r, acc, c);
            else
                finish(f, o + c, cell_of(r, acc, c));
        }
    }
}

static void combine_strips(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct fold *f = context;
    const struct reduce *r = f->r;
    for (int64_t o = begin; o < end; o++) {
        union reduce_cell total = f->cells[o];
        struct reduce_cascade c = {.n = 0};
        reduce_push(&c, total.f);
        for (int64_t s = 1; s < r->n_strips; s++) {
            const union reduce_cell *cell = &f->cells[s * r->n_out + o];
            if (is_extreme(r))
                reduce_better(r, &total, cell);
            else if (r->is_float)
                reduce_push(&c, cell->f);
            else
                total.i = (int64_t)((uint64_t)total.i + (uint64_t)cell->i);
        }
        if (r->is_float && !is_extreme(r))
            total.f = reduce_total(&c);
        finish(f, o, total);
    }
}

static void run_pass(struct fold *f, int threads)
{
    const struct reduce *r = f->r;
    int64_t rows = EO_MIN(r->strip, r->folded.count), columns = EO_MIN(r->inner, REDUCE_TILE);
    parallel_for(threads, r->kept.count * tiles_of(r) * r->n_strips, parallel_grain(rows * columns + 64), fold_pieces,
                 f);
    if (f->cells)
        parallel_for(threads, r->n_out, parallel_grain(r->n_strips * 8), combine_strips, f);
}

/* Tiles of columns for arg_max and arg_min: the best so far and its row. */
static void arg_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct fold *f = context;
    const struct reduce *r = f->r;
    union reduce_cell best[REDUCE_TILE];
    for (int64_t i = begin; i < end; i++) {
        struct piece p = piece_at(r, i);
        int64_t *at = (int64_t *)f->l->out[0] + p.kept * r->inner + p.first;
        memcpy(best, row_at(f, &p, 0), (size_t)(p.width * r->size));
        memset(at, 0, (size_t)p.width * sizeof *at);
        for (int64_t row = 1; row < p.to; row++) {
            if (r->op == EO_OP_ARG_MAX)
                r->vec->arg_max_columns(p.width, best, at, row_at(f, &p, row), row);
            else
                r->vec->arg_min_columns(p.width, best, at, row_at(f, &p, row), row);
        }
    }
}

int reduce_run_columns(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct reduce *r = l->state;
    int threads = dev->base.info.threads;
    struct fold f = {.r = r, .l = l};
    if (is_arg(r)) {
        int64_t cost = r->folded.count * EO_MIN(r->inner, REDUCE_TILE) * 2;
        parallel_for(threads, r->kept.count * tiles_of(r), parallel_grain(cost), arg_tiles, &f);
        return EO_OK;
    }
    /* The workspace holds the means, then the cells; either can be missing. */
    bool has_means = r->op == EO_OP_VARIANCE;
    f.means = has_means ? l->workspace : NULL;
    if (r->n_strips > 1)
        f.cells = (union reduce_cell *)l->workspace + (has_means ? r->n_out : 0);
    run_pass(&f, threads);
    if (r->op == EO_OP_VARIANCE) {
        f.squares = true;
        run_pass(&f, threads);
    }
    return EO_OK;
}
