/* cumulative_sum. Columns along the axis are scanned together, WIDTH at a time; where columns are few and long, they
 * are cut into chunks of fixed length: sums of the chunks first, then each chunk from what stands before it. Sums run
 * in float64 with their rounding errors carried along, or in 64 bits. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "proto/shape_rules.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 32, CHUNK = 16384, FEW_COLUMNS = 16, STEP_COST = 6 };

/* A running sum: float64 and what rounding took from it, or an integer. */
struct cell {
    union {
        double f;
        uint64_t u;
    } total;
    double lost;
};

struct scan;
/* Positions from..to-1 of `width` neighbouring columns, counted in the order of the scan; cells hold what stands before
 * and receive what stands after. out NULL: sums only. */
typedef void (*scan_fn)(const struct scan *s, const char *x, char *out, int64_t from, int64_t to, int64_t width,
                        struct cell *cells);

struct scan {
    struct cpu_node node;
    scan_fn run;
    int64_t outer, axis, inner, size;
    int64_t tiles;    /* of WIDTH columns, per outer index */
    int64_t n_chunks; /* of a column; 1: not cut */
    bool exclusive, reverse, is_float;
};

static double value_of(double total, double lost)
{
    return isfinite(total) ? total + lost : total;
}

/* One element: what stands before it, or with it, goes to y (NULL: nowhere). Terms narrower than the sum need no record
 * of rounding errors. */
#define FLOAT_STEP(suffix, T, exact)                                                                                   \
    static inline void step_##suffix(bool exclusive, const T *x, T *y, struct cell *c)                                 \
    {                                                                                                                  \
        double before = c->total.f, term = (double)*x, sum = before + term, rest = sum - before;                       \
        if (y && exclusive)                                                                                            \
            *y = (T)((exact) ? value_of(before, c->lost) : before);                                                    \
        if (exact)                                                                                                     \
            c->lost += (before - (sum - rest)) + (term - rest);                                                        \
        if (y && !exclusive)                                                                                           \
            *y = (T)((exact) ? value_of(sum, c->lost) : sum);                                                          \
        c->total.f = sum;                                                                                              \
    }

#define INTEGER_STEP(suffix, T)                                                                                        \
    static inline void step_##suffix(bool exclusive, const T *x, T *y, struct cell *c)                                 \
    {                                                                                                                  \
        uint64_t before = c->total.u, sum = before + (uint64_t)*x;                                                     \
        if (y)                                                                                                         \
            *y = (T)(exclusive ? before : sum);                                                                        \
        c->total.u = sum;                                                                                              \
    }

/* A single column keeps its sum in registers. */
#define SCAN(suffix, T)                                                                                                \
    static void scan_##suffix(const struct scan *s, const char *x, char *out, int64_t from, int64_t to, int64_t width, \
                              struct cell *cells)                                                                      \
    {                                                                                                                  \
        const T *x0 = (const T *)(const void *)x;                                                                      \
        T *y0 = (T *)(void *)out;                                                                                      \
        int64_t step = s->reverse ? -s->inner : s->inner, row = (s->reverse ? s->axis - 1 - from : from) * s->inner;   \
        struct cell only = cells[0];                                                                                   \
        for (int64_t p = from; p < to && width == 1; p++, row += step)                                                 \
            step_##suffix(s->exclusive, x0 + row, y0 ? y0 + row : NULL, &only);                                        \
        cells[0] = only;                                                                                               \
        for (int64_t p = from; p < to && width > 1; p++, row += step)                                                  \
            for (int64_t c = 0; c < width; c++)                                                                        \
                step_##suffix(s->exclusive, x0 + row + c, y0 ? y0 + row + c : NULL, &cells[c]);                        \
    }

#define FLOAT_SCAN(suffix, T, exact) FLOAT_STEP(suffix, T, exact) SCAN(suffix, T)
#define INTEGER_SCAN(suffix, T) INTEGER_STEP(suffix, T) SCAN(suffix, T)

FLOAT_SCAN(f32, float, false)
FLOAT_SCAN(f64, double, true)
/* Signed integers have the same bits. */
INTEGER_SCAN(u8, uint8_t)
INTEGER_SCAN(u16, uint16_t)
INTEGER_SCAN(u32, uint32_t)
INTEGER_SCAN(u64, uint64_t)

static const scan_fn loops[EO_DTYPE_LIMIT] = {
    [EO_FLOAT32] = scan_f32, [EO_FLOAT64] = scan_f64, [EO_INT8] = scan_u8,   [EO_UINT8] = scan_u8,
    [EO_INT16] = scan_u16,   [EO_UINT16] = scan_u16,  [EO_INT32] = scan_u32, [EO_UINT32] = scan_u32,
    [EO_INT64] = scan_u64,   [EO_UINT64] = scan_u64,
};

struct job {
    const struct scan *s;
    const struct eo_launch *l;
    struct cell *cells; /* [column tile][chunk][WIDTH]; NULL when columns are not cut */
    bool sums;          /* first pass: the chunks' sums, into their cells */
};

static void scan_pieces(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct scan *s = j->s;
    for (int64_t i = begin; i < end; i++) {
        int64_t chunk = i % s->n_chunks, tile = i / s->n_chunks % s->tiles, o = i / s->n_chunks / s->tiles;
        int64_t width = EO_MIN(s->inner - tile * WIDTH, WIDTH);
        int64_t offset = (o * s->axis * s->inner + tile * WIDTH) * s->size;
        int64_t from = chunk * CHUNK, to = s->n_chunks == 1 ? s->axis : EO_MIN(s->axis, from + CHUNK);
        struct cell local[WIDTH] = {0}, *cells = j->cells ? j->cells + i * WIDTH : local;
        s->run(s, (const char *)j->l->in[0] + offset, j->sums ? NULL : (char *)j->l->out[0] + offset, from, to, width,
               cells);
    }
}

/* Cells that hold the chunks' sums receive what stands before each chunk. */
static void sums_to_starts(const struct scan *s, struct cell *cells)
{
    for (int64_t column = 0; column < s->outer * s->tiles; column++)
        for (int64_t c = 0; c < WIDTH; c++) {
            struct cell before = {.total = {.u = 0}};
            for (int64_t k = 0; k < s->n_chunks; k++) {
                struct cell *cell = &cells[(column * s->n_chunks + k) * WIDTH + c], sum = *cell;
                *cell = before;
                if (s->is_float) {
                    double total = before.total.f + sum.total.f, rest = total - before.total.f;
                    before.lost += sum.lost + (before.total.f - (total - rest)) + (sum.total.f - rest);
                    before.total.f = total;
                } else {
                    before.total.u += sum.total.u;
                }
            }
        }
}

static int scan_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct scan *s = l->state;
    int64_t pieces = s->outer * s->tiles * s->n_chunks;
    int64_t cost = EO_MIN(s->inner, WIDTH) * STEP_COST * (s->n_chunks == 1 ? s->axis : CHUNK);
    struct job j = {.s = s, .l = l, .cells = s->n_chunks > 1 ? l->workspace : NULL};
    if (s->axis == 0)
        return EO_OK;
    if (j.cells) {
        memset(j.cells, 0, (size_t)pieces * WIDTH * sizeof *j.cells);
        j.sums = true;
        parallel_for(dev->base.info.threads, pieces, parallel_grain(cost), scan_pieces, &j);
        sums_to_starts(s, j.cells);
        j.sums = false;
    }
    parallel_for(dev->base.info.threads, pieces, parallel_grain(cost), scan_pieces, &j);
    return EO_OK;
}

int scan_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err)
{
    const struct eo_tensor_desc *x = node->in[0];
    struct scan *s = NULL;
    int axis = 0;
    (void)dev;
    if (!loops[x->dtype])
        return cpu_decline(why, node->op->name, "has no loop for %s", eo_dtype_name((enum eo_dtype)x->dtype));
    int rc = eo_normalize_axis(eo_attr_int(node->op, node->attrs, "axis"), x->n_dims, &axis, node->op->name, err);
    if (rc == EO_OK)
        rc = cpu_node_new(sizeof *s, &s, err);
    if (rc != EO_OK)
        return rc;
    s->outer = s->inner = 1;
    for (int d = 0; d < x->n_dims; d++) {
        if (d != axis)
            *(d < axis ? &s->outer : &s->inner) *= x->shape[d];
    }
    s->axis = x->shape[axis];
    s->run = loops[x->dtype];
    s->size = (int64_t)eo_dtype_size((enum eo_dtype)x->dtype);
    s->is_float = eo_dtype_kind((enum eo_dtype)x->dtype) == EO_KIND_FLOAT;
    s->exclusive = eo_attr_int(node->op, node->attrs, "exclusive") != 0;
    s->reverse = eo_attr_int(node->op, node->attrs, "reverse") != 0;
    s->tiles = (s->inner + WIDTH - 1) / WIDTH;
    bool cut = s->axis > 2 * CHUNK && s->outer * s->tiles < FEW_COLUMNS;
    s->n_chunks = cut ? (s->axis + CHUNK - 1) / CHUNK : 1;
    cpu_node_finish(&s->node, scan_run, out, "%s.%s", node->op->name, eo_dtype_name((enum eo_dtype)x->dtype));
    out->workspace_bytes = cut ? (uint64_t)(s->outer * s->tiles * s->n_chunks) * WIDTH * sizeof(struct cell) : 0;
    out->in_place = 1; /* an element is read for the last time before its place is written */
    return EO_OK;
}
