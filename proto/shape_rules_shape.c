/* Shape rules of the composite rows that move elements: flatten, squeeze, tile, pad, split and the like. */
#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- other dimensions, the same elements ---- */

int eo_infer_flatten(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int64_t axis = eo_attr_int(op, attrs, "axis");

    EO_UNUSED(n_in);
    if (axis < -x->n_dims || axis > x->n_dims) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute axis is %" PRId64 ", out of range: x has rank %d", axis,
                        x->n_dims);
    }
    axis += axis < 0 ? x->n_dims : 0;
    out->n_dims = 2;
    out->shape[0] = out->shape[1] = 1;
    for (int d = 0; d < x->n_dims; d++) { /* a checked descriptor: products of its dimensions fit */
        out->shape[d < axis ? 0 : 1] *= x->shape[d];
    }
    return EO_OK;
}

int eo_infer_squeeze(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int axes[EO_MAX_DIMS], n_axes, n, next = 0;
    const int64_t *given = eo_attr_ints(op, attrs, "axes", &n);
    int rc = eo_normalize_axes(given, n, x->n_dims, axes, &n_axes, op->name, err);

    if (rc != EO_OK) {
        return rc;
    }
    for (int d = 0; d < x->n_dims; d++) {
        bool named = next < n_axes && axes[next] == d;

        next += named;
        if (!named || (n == 0 && x->shape[d] != 1)) {
            out->shape[out->n_dims++] = x->shape[d];
        } else if (x->shape[d] != 1) {
            rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "dimension %d is %" PRId64 ", only a size of 1 can be dropped", d,
                          x->shape[d]);
            eo_shape_mark(op, in, n_in, 0, d, -1, -1, err);
            return rc;
        }
    }
    return EO_OK;
}

int eo_infer_unsqueeze(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                       const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int axes[EO_MAX_DIMS], n_axes, n, next = 0, from = 0;
    const int64_t *given = eo_attr_ints(op, attrs, "axes", &n);
    int rc;

    EO_UNUSED(n_in);
    if (x->n_dims + n > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", x->n_dims + n, err);
    }
    if (n == 0) { /* would mean "all" to eo_normalize_axes */
        *out = *x;
        return EO_OK;
    }
    rc = eo_normalize_axes(given, n, x->n_dims + n, axes, &n_axes, op->name, err);
    if (rc != EO_OK) {
        return rc;
    }
    out->n_dims = (uint8_t)(x->n_dims + n);
    for (int d = 0; d < out->n_dims; d++) {
        bool is_new = next < n_axes && axes[next] == d;

        next += is_new;
        out->shape[d] = is_new ? 1 : x->shape[from++];
    }
    return EO_OK;
}

int eo_infer_stack(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int axis, rc = EO_OK;

    if (x->n_dims == EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", EO_MAX_DIMS + 1, err);
    }
    for (int i = 1; rc == EO_OK && i < n_in; i++) {
        rc = eo_shape_need_same(op, in, n_in, 0, i, err);
    }
    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), x->n_dims + 1, &axis, op->name, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    out->n_dims = (uint8_t)(x->n_dims + 1);
    for (int d = 0; d < out->n_dims; d++) {
        out->shape[d] = d == axis ? n_in : x->shape[d < axis ? d : d - 1];
    }
    return EO_OK;
}

/* ---- more or fewer elements ---- */

int eo_infer_tile(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int n;
    const int64_t *repeats = eo_attr_ints(op, attrs, "repeats", &n);
    int n_dims = EO_MAX(n, x->n_dims);

    EO_UNUSED(n_in);
    if (n_dims > EO_MAX_DIMS) {
        return eo_shape_too_many_dims("the result", n_dims, err);
    }
    out->n_dims = (uint8_t)n_dims;
    for (int d = 0; d < n_dims; d++) {
        int from = d - (n_dims - x->n_dims), r = d - (n_dims - n);

        if (!eo_mul_i64(from < 0 ? 1 : x->shape[from], r < 0 ? 1 : repeats[r], &out->shape[d])) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "dimension %d of the result does not fit in 64 bits", d);
        }
    }
    return EO_OK;
}

/* before, after: one dimension's pads, at least -size. */
static int pad_dim(int d, int64_t size, int64_t before, int64_t after, int64_t mode, struct eo_pad_dim *out,
                   struct eo_error *err)
{
    int64_t kept;

    if (before < -size || after < -size || size - (before < 0 ? -before : 0) < (after < 0 ? -after : 0)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE,
                        "pads %" PRId64 " and %" PRId64 " cut more than dimension %d has, %" PRId64, before, after, d,
                        size);
    }
    *out = (struct eo_pad_dim){before < 0 ? -before : 0, after < 0 ? -after : 0, before > 0 ? before : 0,
                               after > 0 ? after : 0, 0};
    kept = size - out->cut_begin - out->cut_end;
    if (mode == EO_PAD_REFLECT && (out->begin > 0 || out->end > 0) && EO_MAX(out->begin, out->end) >= kept) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE,
                        "pad %" PRId64 " of dimension %d cannot reflect: %" PRId64 " cells allow less than that",
                        EO_MAX(out->begin, out->end), d, kept);
    }
    if (mode != EO_PAD_CONSTANT && kept == 0 && (out->begin > 0 || out->end > 0)) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "dimension %d has no cell to pad with", d);
    }
    if (!eo_add_i64(kept, out->begin, &out->size) || !eo_add_i64(out->size, out->end, &out->size) ||
        (mode == EO_PAD_WRAP && out->size > INT64_MAX / 4)) { /* wrap makes up to two rounds more than it needs */
        return EO_RAISE(err, EO_E_TOO_LARGE, "dimension %d of the result does not fit in 64 bits", d);
    }
    return EO_OK;
}

int eo_pad_dims(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                struct eo_pad_dim out[EO_MAX_DIMS], struct eo_error *err)
{
    int64_t mode = eo_attr_int(op, attrs, "mode");
    int n, rc = EO_OK;
    const int64_t *pads = eo_attr_ints(op, attrs, "pads", &n);

    if (n != 2 * x->n_dims) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute pads has %d entries, must have %d: two per dimension of x",
                        n, 2 * x->n_dims);
    }
    for (int d = 0; rc == EO_OK && d < x->n_dims; d++) {
        rc = pad_dim(d, x->shape[d], pads[d], pads[x->n_dims + d], mode, &out[d], err);
    }
    return rc;
}

/* value is infinite, NaN or whatever else its dtype holds. */
static int need_value(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                      struct eo_error *err)
{
    double value = eo_attr_float(op, attrs, "value");

    return eo_dtype_holds((enum eo_dtype)x->dtype, value)
               ? EO_OK
               : EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute value is %.17g, which is not a value of %s", value,
                          eo_dtype_name((enum eo_dtype)x->dtype));
}

int eo_infer_pad(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_pad_dim dims[EO_MAX_DIMS];
    int rc = eo_pad_dims(op, attrs, in[0], dims, err);

    EO_UNUSED(n_in);
    if (rc == EO_OK && eo_attr_int(op, attrs, "mode") == EO_PAD_CONSTANT) {
        rc = need_value(op, attrs, in[0], err);
    }
    out->n_dims = in[0]->n_dims;
    for (int d = 0; rc == EO_OK && d < in[0]->n_dims; d++) {
        out->shape[d] = dims[d].size;
    }
    return rc;
}

int eo_infer_split(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int64_t total = 0;
    int n, axis, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis"), x->n_dims, &axis, op->name, err);
    const int64_t *sizes = eo_attr_ints(op, attrs, "sizes", &n);

    for (int i = 0; rc == EO_OK && i < n; i++) {
        if (!eo_add_i64(total, sizes[i], &total)) {
            rc = EO_RAISE(err, EO_E_TOO_LARGE, "the sum of attribute sizes does not fit in 64 bits");
        } else {
            out[i] = *x;
            out[i].shape[axis] = sizes[i];
        }
    }
    if (rc == EO_OK && total != x->shape[axis]) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "the parts have %" PRId64 " entries, axis %d has %" PRId64, total, axis,
                      x->shape[axis]);
        eo_shape_mark(op, in, n_in, 0, axis, -1, -1, err);
    }
    return rc;
}

/* ---- elements in other places ---- */

/* The shape of x; the rank is at least `rank`. */
static int same_shape(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int rank,
                      struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = EO_OK;

    if (in[0]->n_dims < rank) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "x has rank %d, must have rank %d or more", in[0]->n_dims, rank);
        eo_shape_mark(op, in, n_in, 0, -1, -1, -1, err);
    }
    *out = *in[0];
    return rc;
}

int eo_infer_trilu(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(attrs);
    return same_shape(op, in, n_in, 2, out, err);
}

int eo_infer_reverse(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int axes[EO_MAX_DIMS], n_axes, n;
    const int64_t *given = eo_attr_ints(op, attrs, "axes", &n);

    EO_UNUSED(n_in);
    *out = *in[0];
    return eo_normalize_axes(given, n, in[0]->n_dims, axes, &n_axes, op->name, err);
}

int eo_infer_roll(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                  const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int n_shifts, n_axes, axis, rc = EO_OK;
    const int64_t *axes = eo_attr_ints(op, attrs, "axes", &n_axes);

    EO_UNUSED(n_in);
    (void)eo_attr_ints(op, attrs, "shifts", &n_shifts);
    if (n_axes == 0 ? n_shifts != 1 : n_shifts != n_axes) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute shifts has %d entries, must have %d: %s", n_shifts,
                      n_axes == 0 ? 1 : n_axes, n_axes == 0 ? "axes is empty" : "one per axis");
    }
    for (int i = 0; rc == EO_OK && i < n_axes; i++) {
        rc = eo_normalize_axis(axes[i], in[0]->n_dims, &axis, op->name, err);
    }
    *out = *in[0];
    return rc;
}

/* x is an image; `across` channels or pixels are there in blocks. */
static int need_blocks(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int dim,
                       int64_t block, struct eo_error *err)
{
    int rc = EO_OK;

    if (in[0]->shape[dim] % block != 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "dimension %d is %" PRId64 ", no multiple of %" PRId64, dim,
                      in[0]->shape[dim], block);
        eo_shape_mark(op, in, n_in, 0, dim, -1, -1, err);
    }
    return rc;
}

/* Dimensions of the channels, rows and columns of an image. */
static void image_dims(const struct eo_op_schema *op, const struct eo_attrs *attrs, int out[3])
{
    bool last = eo_attr_int(op, attrs, "layout") == EO_LAYOUT_LAST;

    out[0] = last ? 3 : 1;
    out[1] = last ? 1 : 2;
    out[2] = out[1] + 1;
}

int eo_infer_depth_to_space(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t block = eo_attr_int(op, attrs, "block"), area;
    int dims[3], rc = eo_shape_need_rank(op, in, n_in, 0, 4, err);

    if (rc == EO_OK && !eo_mul_i64(block, block, &area)) {
        rc = EO_RAISE(err, EO_E_TOO_LARGE, "the area of a block of %" PRId64 " does not fit in 64 bits", block);
    }
    image_dims(op, attrs, dims);
    if (rc == EO_OK) {
        rc = need_blocks(op, in, n_in, dims[0], area, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    *out = *in[0];
    out->shape[dims[0]] /= area;
    for (int i = 1; i < 3; i++) {
        if (!eo_mul_i64(out->shape[dims[i]], block, &out->shape[dims[i]])) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "dimension %d of the result does not fit in 64 bits", dims[i]);
        }
    }
    return EO_OK;
}

int eo_infer_space_to_depth(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                            const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int64_t block = eo_attr_int(op, attrs, "block"), area;
    int dims[3], rc = eo_shape_need_rank(op, in, n_in, 0, 4, err);

    image_dims(op, attrs, dims);
    for (int i = 1; rc == EO_OK && i < 3; i++) {
        rc = need_blocks(op, in, n_in, dims[i], block, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    *out = *in[0];
    out->shape[dims[1]] /= block;
    out->shape[dims[2]] /= block;
    if (!eo_mul_i64(block, block, &area) || !eo_mul_i64(area, out->shape[dims[0]], &out->shape[dims[0]])) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the channels of the result do not fit in 64 bits");
    }
    return EO_OK;
}

int eo_infer_reverse_sequence(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                              const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int batch, time, rc = eo_normalize_axis(eo_attr_int(op, attrs, "batch_axis"), x->n_dims, &batch, op->name, err);

    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "time_axis"), x->n_dims, &time, op->name, err);
    }
    if (rc == EO_OK && batch == time) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attributes batch_axis and time_axis are both dimension %d", batch);
    }
    if (rc == EO_OK) {
        const struct eo_tensor_desc lengths = {.dtype = EO_INT64, .n_dims = 1, .shape = {x->shape[batch]}};

        rc = eo_shape_need_shape(op, in, n_in, 1, &lengths, err);
    }
    *out = *x;
    return rc;
}

int eo_infer_masked_fill(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                         const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_broadcast_clash clash;
    int64_t shape[EO_MAX_DIMS];
    int n_dims, rc = eo_shape_need_dtype(op, in, n_in, 0, op->dtypes, err);

    if (rc == EO_OK) {
        rc = eo_shape_need_dtype(op, in, n_in, 1, EO_SET_BOOL, err);
    }
    if (rc == EO_OK) {
        rc = need_value(op, attrs, in[0], err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    *out = *in[0];
    if (!eo_broadcast_dims(in, n_in, shape, &n_dims, &clash) || n_dims != in[0]->n_dims ||
        memcmp(shape, in[0]->shape, (size_t)n_dims * sizeof(shape[0])) != 0) {
        rc = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "mask does not broadcast to the shape of x");
        eo_shape_mark(op, in, n_in, 1, -1, 0, -1, err);
    }
    return rc;
}

struct eo_diagonal eo_diagonal(int64_t rows, int64_t columns, int64_t offset)
{
    struct eo_diagonal d = {0, 0, 0};

    if (offset >= columns || offset <= -rows) { /* rows <= 2^63 - 1, so -rows exists */
        return d;
    }
    d.row = offset < 0 ? -offset : 0;
    d.column = offset > 0 ? offset : 0;
    d.count = EO_MIN(rows - d.row, columns - d.column);
    return d;
}

int eo_infer_diagonal(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct eo_tensor_desc *x = in[0];
    int rows, columns, rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis1"), x->n_dims, &rows, op->name, err);

    EO_UNUSED(n_in);
    if (rc == EO_OK) {
        rc = eo_normalize_axis(eo_attr_int(op, attrs, "axis2"), x->n_dims, &columns, op->name, err);
    }
    if (rc == EO_OK && rows == columns) {
        rc = EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attributes axis1 and axis2 are both dimension %d", rows);
    }
    if (rc != EO_OK) {
        return rc;
    }
    for (int d = 0; d < x->n_dims; d++) {
        if (d != rows && d != columns) {
            out->shape[out->n_dims++] = x->shape[d];
        }
    }
    out->shape[out->n_dims++] = eo_diagonal(x->shape[rows], x->shape[columns], eo_attr_int(op, attrs, "offset")).count;
    return EO_OK;
}
