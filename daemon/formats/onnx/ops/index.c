/* Operators that choose elements by indices or conditions. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include <inttypes.h>
#include <string.h>

/* Gather, GatherElements: an axis; indices of either width. */
void map_gather(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value in[2] = {site_in(s, 0), site_in(s, 1)};

    row_int(&r, "axis", site_int(s, "axis", 0));
    in[1] = site_cast(s, in[1], EO_INT64);
    s->out[0] = row_make(&r, in, 2);
}

void map_gather_nd(struct onnx_site *s)
{
    struct row r = row_of(s, "gather_nd");
    eo_value in[2] = {site_in(s, 0), site_in(s, 1)};

    row_int(&r, "batch_dims", site_int(s, "batch_dims", 0));
    in[1] = site_cast(s, in[1], EO_INT64);
    s->out[0] = row_make(&r, in, 2);
}

/* ONNX's word for what an update does -> the row's. */
static const char *reduction_word(struct onnx_site *s)
{
    static const char *const words[][2] = {
        {"none", "replace"}, {"add", "add"}, {"mul", "multiply"}, {"max", "maximum"}, {"min", "minimum"}};
    const char *given = site_text(s, "reduction", "none");

    for (size_t i = 0; i < EO_COUNT_OF(words); i++) {
        if (strcmp(given, words[i][0]) == 0) {
            return words[i][1];
        }
    }
    site_fail(s, EO_E_BAD_ATTRIBUTE, "reduction of %s is not known", s->node->op_type);
    return words[0][1];
}

/* Scatter, ScatterElements (an axis) and ScatterND. */
void map_scatter(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_in(s, 2)};

    if (strcmp(s->op->row, "scatter_elements") == 0) {
        row_int(&r, "axis", site_int(s, "axis", 0));
    }
    row_word(&r, "reduction", reduction_word(s));
    in[1] = site_cast(s, in[1], EO_INT64);
    s->out[0] = row_make(&r, in, 3);
}

/* values[1] where the index, counted from the end when negative, is the position along a new axis, else values[0]; an
 * index that is out of range is nowhere. */
void map_one_hot(struct onnx_site *s)
{
    eo_value at = site_cast(s, site_in(s, 0), EO_INT64), values = site_in(s, 2);
    struct eo_tensor_desc desc = *site_desc(s, at);
    int64_t depth = site_number(s, 1), shape[EO_MAX_DIMS] = {0}, along[EO_MAX_DIMS] = {0};
    int axis = site_axis(s, site_int(s, "axis", -1), desc.n_dims + 1), rank = desc.n_dims + 1;
    struct row r = row_of(s, "arange");
    eo_value zero = site_scalar_like(s, at, 0), positions, hot;

    if (rank > EO_MAX_DIMS) {
        site_fail(s, EO_E_TOO_LARGE, "the result has %d dimensions, at most %d are supported", rank, EO_MAX_DIMS);
        return;
    }
    if (site_ok(s) && (site_rank(s, values) != 1 || site_desc(s, values)->shape[0] != 2)) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "values of OneHot must be two: off, on");
    }
    for (int d = 0; d < rank; d++) {
        shape[d] = d == axis ? 1 : desc.shape[d < axis ? d : d - 1];
        along[d] = d == axis ? depth : 1;
    }
    at = eo_build_where(s->b, site_binary(s, "less", at, zero),
                        site_binary(s, "add", at, site_scalar_like(s, at, (double)depth)), at);
    row_int(&r, "count", depth);
    row_int(&r, "dtype", EO_INT64);
    positions = site_reshape(s, row_make(&r, NULL, 0), along, rank);
    hot = site_binary(s, "equal", site_reshape(s, at, shape, rank), positions);
    s->out[0] = eo_build_where(s->b, hot, site_reshape(s, site_slice(s, values, 0, 1, 1), NULL, 0),
                               site_reshape(s, site_slice(s, values, 0, 0, 1), NULL, 0));
}

/* ---- results whose shape depends on data: evaluated now ---- */

void map_non_zero(struct onnx_site *s)
{
    struct row r = row_of(s, "nonzero");
    eo_value x = site_in(s, 0);

    s->out[0] = site_ok(s) ? build_data_shape(s->build, r.op, &r.attrs, &x, 1) : EO_NO_VALUE;
}

/* Without an axis of the elements in one row. */
void map_compress(struct onnx_site *s)
{
    struct row r = row_of(s, "compress");
    eo_value in[2] = {site_in(s, 0), site_in(s, 1)};

    if (site_attr(s, "axis") == NULL) {
        in[0] = site_reshape(s, in[0], &(const int64_t){-1}, 1);
    }
    row_int(&r, "axis", site_int(s, "axis", 0));
    s->out[0] = site_ok(s) ? build_data_shape(s->build, r.op, &r.attrs, in, 2) : EO_NO_VALUE;
}
