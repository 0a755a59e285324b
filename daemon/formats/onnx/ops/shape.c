/* Operators that move elements. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <inttypes.h>
#include <string.h>

/* ---- other shapes of the same elements ---- */

void map_reshape(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t shape[EO_MAX_DIMS];
    int n = site_numbers(s, 1, shape, EO_MAX_DIMS);

    if (site_int(s, "allowzero", 0) == 0) {
        for (int d = 0; d < n; d++) {
            if (shape[d] == 0 && d >= desc->n_dims) {
                site_fail(s, EO_E_SHAPE_MISMATCH,
                          "size 0 at %d of Reshape's shape stands for a dimension that is not there", d);
            } else if (shape[d] == 0) {
                shape[d] = desc->shape[d];
            }
        }
    }
    s->out[0] = site_reshape(s, x, shape, n);
}

void map_flatten(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t matrix[2] = {1, 1}, axis = site_int(s, "axis", 1);

    if (axis != desc->n_dims) {
        axis = site_axis(s, axis, desc->n_dims);
    }
    for (int d = 0; d < desc->n_dims; d++) {
        matrix[d < axis ? 0 : 1] *= desc->shape[d];
    }
    s->out[0] = site_reshape(s, x, matrix, 2);
}

/* axes as a set of dimensions of a tensor of this rank */
static unsigned axes_mask(struct onnx_site *s, const int64_t *axes, int n, int rank)
{
    unsigned mask = 0;

    for (int i = 0; i < n; i++) {
        unsigned bit = 1U << site_axis(s, axes[i], rank);

        if ((mask & bit) != 0) {
            site_fail(s, EO_E_BAD_ATTRIBUTE, "axis %" PRId64 " of %s is there twice", axes[i], s->node->op_type);
        }
        mask |= bit;
    }
    return mask;
}

/* axes: an attribute before opset 13, an operand since. */
void map_squeeze(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t axes[EO_MAX_DIMS], shape[EO_MAX_DIMS];
    int n = site_ints_or_operand(s, "axes", 1, axes, EO_MAX_DIMS), rank = 0;
    unsigned mask = n >= 0 ? axes_mask(s, axes, n, desc->n_dims) : 0;

    for (int d = 0; d < desc->n_dims; d++) {
        bool named = (mask & (1U << d)) != 0;

        if (named && desc->shape[d] != 1) {
            site_fail(s, EO_E_SHAPE_MISMATCH, "dimension %d has size %" PRId64 " and cannot be squeezed", d,
                      desc->shape[d]);
        }
        if (n < 0 ? desc->shape[d] != 1 : !named) {
            shape[rank++] = desc->shape[d];
        }
    }
    s->out[0] = site_reshape(s, x, shape, rank);
}

void map_unsqueeze(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t axes[EO_MAX_DIMS], shape[EO_MAX_DIMS];
    int n = site_ints_or_operand(s, "axes", 1, axes, EO_MAX_DIMS), rank, from = 0;
    unsigned mask;

    if (n < 0) {
        site_fail(s, EO_E_BAD_ARITY, "Unsqueeze needs axes");
        return;
    }
    rank = desc->n_dims + n;
    if (rank > EO_MAX_DIMS) {
        site_fail(s, EO_E_TOO_LARGE, "the result has %d dimensions, at most %d are supported", rank, EO_MAX_DIMS);
        return;
    }
    mask = axes_mask(s, axes, n, rank);
    for (int d = 0; site_ok(s) && d < rank; d++) {
        shape[d] = (mask & (1U << d)) != 0 ? 1 : desc->shape[from++];
    }
    s->out[0] = site_reshape(s, x, shape, rank);
}

/* The shape is what x and the operand broadcast to. */
void map_expand(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    struct eo_tensor_desc want = {.dtype = EO_INT64};
    const struct eo_tensor_desc *both[] = {site_desc(s, x), &want};
    int64_t shape[EO_MAX_DIMS];
    int n = site_numbers(s, 1, want.shape, EO_MAX_DIMS), rank = 0;

    want.n_dims = (uint8_t)n;
    for (int d = 0; d < n; d++) {
        if (want.shape[d] < 0) {
            site_fail(s, EO_E_BAD_VALUE, "size %" PRId64 " of Expand's shape is negative", want.shape[d]);
        }
    }
    if (site_ok(s)) {
        s->b->status = eo_broadcast_shapes(both, 2, shape, &rank, "Expand", s->b->err);
    }
    s->out[0] = site_ok(s) ? eo_build_expand(s->b, x, shape, rank) : EO_NO_VALUE;
}

void map_tile(struct onnx_site *s)
{
    struct row r = row_of(s, "tile");
    int64_t repeats[EO_MAX_DIMS];
    int n = site_numbers(s, 1, repeats, EO_MAX_DIMS);
    eo_value x = site_in(s, 0);

    if (site_ok(s) && n != site_rank(s, x)) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "Tile has %d repeats for %d dimensions", n, site_rank(s, x));
    }
    row_ints(&r, "repeats", repeats, n);
    s->out[0] = row_make(&r, &x, 1);
}

/* ---- joining and cutting ---- */

void map_concat(struct onnx_site *s)
{
    for (int i = 0; i < s->n_in; i++) {
        (void)site_in(s, i);
    }
    if (s->n_in == 0) {
        site_fail(s, EO_E_BAD_ARITY, "Concat needs an operand");
        return;
    }
    s->out[0] = site_concatenate(s, s->in, s->n_in, site_axis(s, site_need_int(s, "axis"), site_rank(s, s->in[0])));
}

/* Sizes are an attribute before opset 13, an operand since; without them the parts are equal. */
void map_split(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    int axis = site_axis(s, site_int(s, "axis", 0), site_rank(s, x));
    int64_t sizes[ONNX_MAX_INPUTS], at = 0, whole = site_desc(s, x)->shape[axis];
    int n = site_ints_or_operand(s, "split", 1, sizes, ONNX_MAX_INPUTS);

    if (site_ok(s) && n < 0 && (s->n_out == 0 || whole % s->n_out != 0)) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "%" PRId64 " elements cannot be split into %d equal parts", whole, s->n_out);
    }
    if (site_ok(s) && n >= 0 && n != s->n_out) {
        site_fail(s, EO_E_BAD_ARITY, "Split has %d sizes for %d outputs", n, s->n_out);
    }
    for (int o = 0; site_ok(s) && o < s->n_out; o++) {
        int64_t size = n < 0 ? whole / s->n_out : sizes[o];

        if (size < 0 || size > whole - at) {
            site_fail(s, EO_E_SHAPE_MISMATCH, "part %d of Split has size %" PRId64 ", %" PRId64 " elements are left", o,
                      size, whole - at);
            return;
        }
        s->out[o] = site_slice(s, x, axis, at, size);
        at += size;
    }
    if (site_ok(s) && at != whole) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "the parts of Split have %" PRId64 " elements, not %" PRId64, at, whole);
    }
}

/* Attributes before opset 10, operands since. */
static int slice_list(struct onnx_site *s, const char *name, int i, int64_t *out)
{
    if (s->version < 10) {
        return site_ints(s, name, out, EO_MAX_DIMS);
    }
    return site_has(s, i) ? site_numbers(s, i, out, EO_MAX_DIMS) : -1;
}

void map_slice(struct onnx_site *s)
{
    struct row r = row_of(s, "slice");
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t from[EO_MAX_DIMS], to[EO_MAX_DIMS], axes[EO_MAX_DIMS], by[EO_MAX_DIMS];
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS], steps[EO_MAX_DIMS];
    int n = slice_list(s, "starts", 1, from), n_to = slice_list(s, "ends", 2, to);
    int n_axes = slice_list(s, "axes", 3, axes), n_by = s->version < 10 ? -1 : slice_list(s, "steps", 4, by);

    if (site_ok(s) && (n < 0 || n_to != n || (n_axes >= 0 && n_axes != n) || (n_by >= 0 && n_by != n))) {
        site_fail(s, EO_E_BAD_ARITY, "starts, ends, axes and steps of Slice differ in length");
    }
    for (int d = 0; d < desc->n_dims; d++) {
        stops[d] = desc->shape[d];
        steps[d] = 1;
    }
    for (int i = 0; site_ok(s) && i < n; i++) {
        int d = site_axis(s, n_axes < 0 ? i : axes[i], desc->n_dims);

        starts[d] = from[i];
        stops[d] = to[i];
        steps[d] = n_by < 0 ? 1 : by[i];
    }
    row_ints(&r, "starts", starts, desc->n_dims);
    row_ints(&r, "stops", stops, desc->n_dims);
    row_ints(&r, "steps", steps, desc->n_dims);
    s->out[0] = row_make(&r, &x, 1);
}

/* Attributes before opset 11, operands since. */
void map_pad(struct onnx_site *s)
{
    struct row r = row_of(s, "pad");
    eo_value x = site_in(s, 0);
    int64_t pads[2 * EO_MAX_DIMS];
    int n = s->version < 11 ? site_ints(s, "pads", pads, 2 * EO_MAX_DIMS) : site_numbers(s, 1, pads, 2 * EO_MAX_DIMS);
    double value = 0;

    if (s->version < 11) {
        value = site_float(s, "value", 0);
    } else if (site_has(s, 2)) {
        value = site_real(s, 2);
    }
    if (site_ok(s) && n != 2 * site_rank(s, x)) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "Pad has %d pads for %d dimensions", n, site_rank(s, x));
    }
    row_ints(&r, "pads", pads, n > 0 ? n : 0);
    row_word(&r, "mode", site_text(s, "mode", "constant"));
    row_float(&r, "value", value);
    s->out[0] = row_make(&r, &x, 1);
}

/* ---- other orders ---- */

void map_trilu(struct onnx_site *s)
{
    struct row r = row_of(s, "trilu");
    eo_value x = site_in(s, 0);

    row_int(&r, "upper", site_int(s, "upper", 1) != 0);
    row_int(&r, "k", site_has(s, 1) ? site_number(s, 1) : 0);
    s->out[0] = row_make(&r, &x, 1);
}

void map_depth_to_space(struct onnx_site *s)
{
    struct row r = row_of(s, "depth_to_space");
    eo_value x = site_in(s, 0);

    row_int(&r, "block", site_need_int(s, "blocksize"));
    row_word(&r, "mode", site_word(s, "mode", "DCR", "CRD") ? "crd" : "dcr");
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, &x, 1);
}

void map_space_to_depth(struct onnx_site *s)
{
    struct row r = row_of(s, "space_to_depth");
    eo_value x = site_in(s, 0);

    row_int(&r, "block", site_need_int(s, "blocksize"));
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, &x, 1);
}

void map_reverse_sequence(struct onnx_site *s)
{
    struct row r = row_of(s, "reverse_sequence");
    eo_value in[2] = {site_in(s, 0), site_in(s, 1)};

    row_int(&r, "batch_axis", site_int(s, "batch_axis", 1));
    row_int(&r, "time_axis", site_int(s, "time_axis", 0));
    in[1] = site_cast(s, in[1], EO_INT64);
    s->out[0] = row_make(&r, in, 2);
}
