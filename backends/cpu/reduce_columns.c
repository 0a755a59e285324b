/* Reductions whose innermost dimension is kept: rows are folded into accumulators, one per column. Work is cut into
 * tiles of columns and strips of rows; the strips' results are combined in a fixed tree. */
#include "backends/cpu/reduce.h"

#include "backends/cpu/parallel.h"

#include <math.h>
#include <string.h>

void reduce_plan_columns(struct reduce *r, uint64_t *out_workspace)
{
    int64_t rows = r->folded.count;
    bool contiguous = r->folded.n == 1;
    r->repeat = contiguous && r->kind != REDUCE_ARG && r->inner < REDUCE_WIDE ? REDUCE_WIDE / r->inner : 1;
    r->repeat = r->repeat > rows ? 1 : r->repeat;
    r->strip = REDUCE_STRIP / EO_MIN(r->inner, REDUCE_TILE);
    r->strip = (r->strip + r->repeat - 1) / r->repeat * r->repeat;
    if (r->kind == REDUCE_ARG)
        r->strip = rows;
    r->n_strips = (rows + r->strip - 1) / r->strip;
    uint64_t cells = r->n_strips > 1 ? (uint64_t)r->n_out * (uint64_t)r->n_strips : 0;
    uint64_t means = r->op == EO_OP_VARIANCE ? (uint64_t)r->n_out : 0;
    *out_workspace = (cells + means) * sizeof(union reduce_cell);
}

struct fold {
    const struct reduce *r;
    const struct eo_launch *l;
    bool squares;             /* of the distances from means: second pass of variance, REDUCE_SQUARES */
    double *means;            /* variance: of each result; NULL: 0 */
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

/* Accumulators of a tile. Sums and products use 8 bytes per column, extremes the dtype's; sums of float64 keep what
 * rounding took. */
struct tile {
    union reduce_cell acc[REDUCE_TILE];
    double lost[REDUCE_TILE], means[REDUCE_TILE];
    bool exact;
};

/* Folds one row of n columns into the tile. */
static void fold_row(const struct fold *f, int64_t n, struct tile *t, const void *x)
{
    const struct reduce *r = f->r;
    if (f->squares)
        r->vec->sum_squares_columns(n, &t->acc[0].f, x, t->means);
    else if (t->exact)
        r->vec->sum_columns_exact(n, &t->acc[0].f, t->lost, x);
    else if (r->kind == REDUCE_MAX)
        r->vec->max_columns(n, t->acc, x);
    else if (r->kind == REDUCE_MIN)
        r->vec->min_columns(n, t->acc, x);
    else if (r->kind == REDUCE_PROD)
        r->vec->prod_columns(n, t->acc, x);
    else
        r->vec->sum_columns(n, t->acc, x);
}

/* The columns of the `repeat` rows that were taken as one are folded together. */
static void fold_repeats(const struct fold *f, union reduce_cell *acc, int64_t n)
{
    const struct reduce *r = f->r;
    for (int64_t i = 0; i < n; i++) {
        struct reduce_cascade c = {.n = 0};
        char *best = (char *)acc + i * r->size;
        for (int64_t j = 0; j < r->repeat; j++) {
            if (reduce_cascades(r))
                reduce_push(&c, acc[j * n + i].f);
            else if (j > 0 && reduce_is_extreme(r))
                reduce_better(r, best, best + j * n * r->size);
            else if (j > 0)
                reduce_join(r, &acc[i], &acc[j * n + i]);
        }
        if (reduce_cascades(r))
            acc[i].f = reduce_total(&c);
    }
}

static void start_tile(const struct fold *f, const struct piece *p, int64_t step, struct tile *t)
{
    const struct reduce *r = f->r;
    int64_t n = p->width * step;
    union reduce_cell one = {.i = 1};
    if (r->is_float)
        one.f = 1;
    t->exact = !f->squares && r->kind == REDUCE_SUM && r->vec->sum_columns_exact;
    memset(t->acc, 0, (size_t)n * sizeof *t->acc);
    if (t->exact)
        memset(t->lost, 0, (size_t)n * sizeof *t->lost);
    for (int64_t i = 0; r->kind == REDUCE_PROD && i < n; i++)
        t->acc[i] = one;
    if (f->squares && !f->means)
        memset(t->means, 0, (size_t)n * sizeof *t->means);
    for (int64_t j = 0; f->squares && f->means && j < step; j++)
        memcpy(t->means + j * p->width, f->means + p->kept * r->inner + p->first, (size_t)p->width * sizeof *t->means);
}

static void fold_piece(const struct fold *f, const struct piece *p, struct tile *t)
{
    const struct reduce *r = f->r;
    int64_t n = p->width, row = p->from, step = p->to - p->from >= r->repeat ? r->repeat : 1;
    start_tile(f, p, step, t);
    if (reduce_is_extreme(r)) {
        memcpy(t->acc, row_at(f, p, row), (size_t)(n * step * r->size));
        row += step;
    }
    if (step == 1 && r->folded.n == 1 && !f->squares && r->kind == REDUCE_SUM && r->vec->sum_columns_four)
        for (; row + 4 <= p->to; row += 4)
            r->vec->sum_columns_four(n, &t->acc[0].f, row_at(f, p, row), r->folded.stride[0]);
    for (; row + step <= p->to; row += step)
        fold_row(f, n * step, t, row_at(f, p, row));
    for (; row < p->to; row++)
        fold_row(f, n, t, row_at(f, p, row));
    for (int64_t i = 0; t->exact && i < n * step; i++)
        if (isfinite(t->acc[i].f)) /* behind an infinity the errors are NaN */
            t->acc[i].f += t->lost[i];
    if (step > 1)
        fold_repeats(f, t->acc, n);
}

static union reduce_cell cell_of(const struct reduce *r, const union reduce_cell *acc, int64_t column)
{
    union reduce_cell cell = {.i = 0};
    int64_t size = reduce_is_extreme(r) ? r->size : (int64_t)sizeof cell;
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
    struct tile t;
    for (int64_t i = begin; i < end; i++) {
        struct piece p = piece_at(r, i);
        int64_t o = p.kept * r->inner + p.first;
        fold_piece(f, &p, &t);
        for (int64_t c = 0; c < p.width; c++) {
            if (f->cells)
                f->cells[i % r->n_strips * r->n_out + o + c] = cell_of(r, t.acc, c);
            else
                finish(f, o + c, cell_of(r, t.acc, c));
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
        for (int64_t s = 0; s < r->n_strips; s++) {
            const union reduce_cell *cell = &f->cells[s * r->n_out + o];
            if (reduce_cascades(r))
                reduce_push(&c, cell->f);
            else if (s > 0)
                reduce_join(r, &total, cell);
        }
        if (reduce_cascades(r))
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
                r->vec->arg_max_columns(p.width, best, at, row_at(f, &p, row), row, r->last);
            else
                r->vec->arg_min_columns(p.width, best, at, row_at(f, &p, row), row, r->last);
        }
    }
}

int reduce_run_columns(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct reduce *r = l->state;
    int threads = dev->base.info.threads;
    struct fold f = {.r = r, .l = l, .squares = r->kind == REDUCE_SQUARES};
    if (r->kind == REDUCE_ARG) {
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
