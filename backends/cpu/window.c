/* Windows over spatial axes: unfold copies the cells of each window, fold adds them up where they lie. Channels are
 * last, so that cells side by side are one run of memory. Every dtype. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "proto/shape_rules_window.h"

#include <stdlib.h>
#include <string.h>

enum { LAST = EO_WINDOW_AXES - 1, RUN_COST = 32 /* of starting one run, in the units of parallel.h */ };

/* Always three axes: missing ones come first, of size 1. */
struct window {
    struct cpu_node node;
    struct eo_window_axis axis[EO_WINDOW_AXES];
    int64_t batch, channels;
    size_t size; /* bytes of an element */
    vector_map_fn fill, add;
    uint64_t value; /* unfold: the bytes of what padding holds */
};

static int64_t line_bytes(const struct window *p, int64_t cells)
{
    return cells * p->channels * (int64_t)p->size;
}

/* Item number i of (N, a, b, c) as its indices. */
static void split(int64_t i, const int64_t sizes[EO_WINDOW_AXES], int64_t index[1 + EO_WINDOW_AXES])
{
    for (int d = LAST; d >= 0; d--) {
        index[1 + d] = i % sizes[d];
        i /= sizes[d];
    }
    index[0] = i;
}

static void advance(const int64_t sizes[EO_WINDOW_AXES], int64_t index[1 + EO_WINDOW_AXES])
{
    for (int d = LAST; d >= 0; d--) {
        if (++index[1 + d] < sizes[d])
            return;
        index[1 + d] = 0;
    }
    index[0]++;
}

/* ---- unfold ---- */

static char *put_value(const struct window *p, char *to, int64_t cells)
{
    if (cells > 0)
        p->fill(cells * p->channels, to, (const void *const[]){&p->value}, 1, NULL);
    return to + line_bytes(p, cells);
}

/* The cells first..end-1 of the last axis; `from` is the first element of the image's line. */
static char *put_cells(const struct window *p, char *to, const char *from, int64_t window, int64_t first, int64_t end)
{
    const struct eo_window_axis *a = &p->axis[LAST];
    if (a->dilation == 1 && first < end) {
        memcpy(to, from + line_bytes(p, eo_window_at(a, window, first)), (size_t)line_bytes(p, end - first));
        return to + line_bytes(p, end - first);
    }
    for (int64_t k = first; k < end; k++, to += line_bytes(p, 1))
        memcpy(to, from + line_bytes(p, eo_window_at(a, window, k)), (size_t)line_bytes(p, 1));
    return to;
}

static void unfold_window(const struct window *p, char *to, const char *x, const int64_t index[1 + EO_WINDOW_AXES])
{
    const struct eo_window_axis *a = p->axis;
    int64_t first[EO_WINDOW_AXES], end[EO_WINDOW_AXES];
    for (int d = 0; d < EO_WINDOW_AXES; d++)
        eo_window_inside(&a[d], index[1 + d], &first[d], &end[d]);
    for (int64_t k0 = 0; k0 < a[0].kernel; k0++)
        for (int64_t k1 = 0; k1 < a[1].kernel; k1++) {
            if (k0 < first[0] || k0 >= end[0] || k1 < first[1] || k1 >= end[1]) {
                to = put_value(p, to, a[LAST].kernel);
                continue;
            }
            int64_t line = (index[0] * a[0].size + eo_window_at(&a[0], index[1], k0)) * a[1].size +
                           eo_window_at(&a[1], index[2], k1);
            to = put_value(p, to, first[LAST]);
            to = put_cells(p, to, x + line_bytes(p, line * a[LAST].size), index[1 + LAST], first[LAST], end[LAST]);
            to = put_value(p, to, a[LAST].kernel - end[LAST]);
        }
}

static int64_t kernel_cells(const struct window *p)
{
    return p->axis[0].kernel * p->axis[1].kernel * p->axis[LAST].kernel;
}

static void unfold_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct window *p = l->state;
    const int64_t counts[EO_WINDOW_AXES] = {p->axis[0].count, p->axis[1].count, p->axis[LAST].count};
    int64_t index[1 + EO_WINDOW_AXES], bytes = line_bytes(p, kernel_cells(p));
    split(begin, counts, index);
    for (int64_t i = begin; i < end; i++, advance(counts, index))
        unfold_window(p, (char *)l->out[0] + i * bytes, l->in[0], index);
}

static int unfold_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct window *p = l->state;
    const struct eo_window_axis *a = p->axis;
    int64_t windows = p->batch * a[0].count * a[1].count * a[LAST].count;
    int64_t cost = line_bytes(p, kernel_cells(p)) / 4 + RUN_COST * a[0].kernel * a[1].kernel;
    struct eo_launch copy = *l;
    if (p->channels > 0)
        parallel_for(dev->base.info.threads, windows, parallel_grain(cost), unfold_range, &copy);
    return EO_OK;
}

/* ---- fold ---- */

/* The window whose cell `cell` lies at the position; -1: there is none. */
static int64_t window_at(const struct eo_window_axis *a, int64_t position, int64_t cell)
{
    int64_t distance = position - eo_window_at(a, 0, cell);
    return distance >= 0 && distance % a->stride == 0 && distance / a->stride < a->count ? distance / a->stride : -1;
}

static void add_cells(const struct window *p, char *to, const char *from, int64_t cells)
{
    p->add(cells * p->channels, to, (const void *const[]){to, from}, 0, NULL);
}

/* Adds cells of all windows of one line (count, K0, K1, K2, C) that lie in the line of the result; from is the cell
 * (k0, k1, 0) of the first window. */
static void fold_line(const struct window *p, char *line, const char *from)
{
    const struct eo_window_axis *a = &p->axis[LAST];
    int64_t step = line_bytes(p, kernel_cells(p));
    for (int64_t o = 0; o < a->count; o++, from += step) {
        int64_t first, end;
        eo_window_inside(a, o, &first, &end);
        if (first < end && a->dilation == 1) {
            add_cells(p, line + line_bytes(p, eo_window_at(a, o, first)), from + line_bytes(p, first), end - first);
            continue;
        }
        for (int64_t k = first; k < end; k++)
            add_cells(p, line + line_bytes(p, eo_window_at(a, o, k)), from + line_bytes(p, k), 1);
    }
}

/* Lines (N, S0, S1): a thread owns whole lines, and what lies in one is added in the order of cells and windows. */
static void fold_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct eo_launch *l = context;
    const struct window *p = l->state;
    const struct eo_window_axis *a = p->axis;
    const int64_t sizes[EO_WINDOW_AXES] = {a[0].size, a[1].size, 1};
    int64_t index[1 + EO_WINDOW_AXES], bytes = line_bytes(p, a[LAST].size);
    split(begin, sizes, index);
    for (int64_t i = begin; i < end; i++, advance(sizes, index)) {
        char *line = (char *)l->out[0] + i * bytes;
        memset(line, 0, (size_t)bytes);
        for (int64_t k0 = 0; k0 < a[0].kernel; k0++)
            for (int64_t k1 = 0; k1 < a[1].kernel; k1++) {
                int64_t o0 = window_at(&a[0], index[1], k0), o1 = window_at(&a[1], index[2], k1);
                int64_t window = ((index[0] * a[0].count + o0) * a[1].count + o1) * a[LAST].count;
                int64_t cell = (k0 * a[1].kernel + k1) * a[LAST].kernel;
                if (o0 >= 0 && o1 >= 0)
                    fold_line(p, line, (const char *)l->in[0] + line_bytes(p, window * kernel_cells(p) + cell));
            }
    }
}

static int fold_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct window *p = l->state;
    const struct eo_window_axis *a = p->axis;
    /* Each element of the patches is added once. */
    int64_t lines = p->batch * a[0].size * a[1].size;
    int64_t windows = a[0].count * a[1].count * a[LAST].count, runs = a[0].kernel * a[1].kernel;
    int64_t work = windows * (line_bytes(p, kernel_cells(p)) / 4 + RUN_COST * runs) / (a[0].size * a[1].size + 1);
    struct eo_launch copy = *l;
    if (p->channels > 0 && a[LAST].size > 0)
        parallel_for(dev->base.info.threads, lines, parallel_grain(work), fold_range, &copy);
    return EO_OK;
}

/* ---- selection ---- */

static void take_axes(struct window *p, const struct eo_window_shape *w)
{
    int missing = EO_WINDOW_AXES - w->n_axes;
    for (int d = 0; d < missing; d++)
        p->axis[d] = (struct eo_window_axis){.size = 1, .kernel = 1, .stride = 1, .dilation = 1, .count = 1};
    memcpy(p->axis + missing, w->axis, (size_t)w->n_axes * sizeof w->axis[0]);
    p->batch = w->batch;
    p->channels = w->channels;
}

/* value is a value of the dtype: eo_infer_unfold has seen to it. */
static uint64_t bytes_of(double value, enum eo_dtype dtype)
{
    uint64_t bytes = 0;
    float f = (float)value;
    switch (dtype) {
    case EO_FLOAT32:
        memcpy(&bytes, &f, sizeof f);
        return bytes;
    case EO_FLOAT64:
        memcpy(&bytes, &value, sizeof value);
        return bytes;
    case EO_FLOAT16:
        return eo_half_from_double(value);
    case EO_BFLOAT16:
        return eo_bfloat_from_double(value);
    default: /* integers and bool: little-endian as all memory is */
        return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    }
}

int window_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err)
{
    enum eo_dtype dtype = node->in[0]->dtype;
    bool unfold = node->op->op == EO_OP_UNFOLD;
    struct eo_window_shape w;
    struct window *p = NULL;
    vector_map_fn floats = (*dev->vec->elementwise)[EO_OP_ADD][dtype],
                  add = floats ? floats : (*dev->vec->integer)[EO_OP_ADD][dtype];
    if (!unfold && !add)
        return cpu_decline(why, "fold", "has no loop for %s", eo_dtype_name(dtype));
    int rc = eo_window_resolve(node->op, node->in, node->n_in, node->attrs, &w, err);
    if (rc == EO_OK)
        rc = cpu_node_new(sizeof *p, &p, err);
    if (rc != EO_OK)
        return rc;
    take_axes(p, &w);
    p->size = eo_dtype_size(dtype);
    p->fill = (*dev->vec->elementwise)[EO_OP_EXPAND][dtype];
    p->add = add;
    p->value = unfold ? bytes_of(eo_attr_float(node->op, node->attrs, "value"), dtype) : 0;
    cpu_node_finish(&p->node, unfold ? unfold_run : fold_run, out, "%s.%s", node->op->name, eo_dtype_name(dtype));
    return EO_OK;
}
