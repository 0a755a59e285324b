/* Windows over spatial axes: unfold and fold, one cell at a time, through the geometry of shape_rules_window.h. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"
#include "backends/reference/walk.h"
#include "proto/shape_rules_window.h"

/* All cells of all windows in the order of the patches, (N, O..., K...); the channels are left to the caller. */
static int cells_walk(const struct eo_launch *l, struct eo_window_shape *w, struct walk *walk, struct eo_error *err)
{
    int64_t shape[EO_MAX_DIMS];
    int rc = eo_window_resolve(l->node->op, l->node->in, l->node->n_in, l->node->attrs, w, err);
    if (rc != EO_OK)
        return rc;
    shape[0] = w->batch;
    for (int d = 0; d < w->n_axes; d++) {
        shape[1 + d] = w->axis[d].count;
        shape[1 + w->n_axes + d] = w->axis[d].kernel;
    }
    walk_init(walk, shape, 1 + 2 * w->n_axes);
    return EO_OK;
}

/* Where the current cell lies among the positions of all images, (N, S...); -1 for padding. */
static int64_t position_of(const struct eo_window_shape *w, const struct walk *walk)
{
    int64_t position = walk->index[0];
    for (int d = 0; d < w->n_axes; d++) {
        int64_t at = eo_window_at(&w->axis[d], walk->index[1 + d], walk->index[1 + w->n_axes + d]);
        if (at < 0 || at >= w->axis[d].size)
            return -1;
        position = position * w->axis[d].size + at;
    }
    return position;
}

int reference_unfold(const struct eo_launch *l, struct eo_error *err)
{
    enum eo_dtype dtype = l->node->in[0]->dtype;
    struct element value = element_from_double(eo_attr_float(l->node->op, l->node->attrs, "value"), dtype);
    struct eo_window_shape w;
    struct walk walk;
    int rc = cells_walk(l, &w, &walk, err);
    if (rc != EO_OK)
        return rc;
    for (; walk_more(&walk); walk_next(&walk)) {
        int64_t from = position_of(&w, &walk);
        for (int64_t c = 0; c < w.channels; c++) {
            int64_t to = walk.linear * w.channels + c;
            if (from < 0)
                element_set(l->out[0], dtype, to, value);
            else
                element_move(l->out[0], to, l->in[0], from * w.channels + c, eo_dtype_size(dtype));
        }
    }
    return EO_OK;
}

/* Where among the patches lies the cell `cell` (its indices) that meets the position (n, S...)? -1: no window's does.
 */
static int64_t patch_of(const struct eo_window_shape *w, const int64_t *position, const int64_t *cell)
{
    int64_t patch = position[0];
    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];
        int64_t distance = position[1 + d] - eo_window_at(a, 0, cell[d]);
        if (distance < 0 || distance % a->stride != 0 || distance / a->stride >= a->count)
            return -1;
        patch = patch * a->count + distance / a->stride;
    }
    for (int d = 0; d < w->n_axes; d++)
        patch = patch * w->axis[d].kernel + cell[d];
    return patch;
}

/* Channel c of the result at a position: floats add up in float64 and are rounded once. */
static struct element fold_sum(const struct eo_launch *l, const struct eo_window_shape *w, const int64_t *position,
                               struct walk *cells, int64_t c)
{
    enum eo_dtype dtype = l->node->in[0]->dtype;
    struct element total = element_from_double(0, dtype);
    for (walk_rewind(cells); walk_more(cells); walk_next(cells)) {
        int64_t patch = patch_of(w, position, cells->index);
        if (patch < 0)
            continue;
        struct element e = element_get(l->in[0], dtype, patch * w->channels + c);
        if (e.kind == EO_KIND_FLOAT)
            total.v.f += e.v.f;
        else
            total.v.u += e.v.u; /* of signed ones too: two's complement wraps */
    }
    return total;
}

int reference_fold(const struct eo_launch *l, struct eo_error *err)
{
    int64_t kernel[EO_WINDOW_AXES];
    struct eo_window_shape w;
    struct walk positions, cells;
    int rc = eo_window_resolve(l->node->op, l->node->in, l->node->n_in, l->node->attrs, &w, err);
    if (rc != EO_OK)
        return rc;
    for (int d = 0; d < w.n_axes; d++)
        kernel[d] = w.axis[d].kernel;
    walk_init(&cells, kernel, w.n_axes);
    walk_init(&positions, l->node->out[0]->shape, 1 + w.n_axes);
    for (; walk_more(&positions); walk_next(&positions))
        for (int64_t c = 0; c < w.channels; c++)
            element_set(l->out[0], l->node->out[0]->dtype, positions.linear * w.channels + c,
                        fold_sum(l, &w, positions.index, &cells, c));
    return EO_OK;
}
