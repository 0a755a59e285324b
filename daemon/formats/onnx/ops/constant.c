/* Operators that make tensors: constants, shapes, ranges. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include "proto/shape_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static eo_value list_constant(struct onnx_site *s, enum eo_dtype dtype, const void *data, size_t n)
{
    struct eo_tensor_desc desc = {.dtype = (uint8_t)dtype, .n_dims = 1, .shape = {(int64_t)n}};

    return build_tensor(s->build, &desc, n > 0 ? data : &(const int64_t){0});
}

void map_constant(struct onnx_site *s)
{
    const struct onnx_attr *a = s->n_attrs == 1 ? s->attrs[0] : NULL;
    struct eo_tensor_desc scalar = {0};

    if (a == NULL || strncmp(a->name, "value", 5) != 0) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "Constant needs one attribute with its value, it has %d", s->n_attrs);
        return;
    }
    (void)site_attr(s, a->name);
    switch (a->kind) {
    case ONNX_ATTR_TENSOR:
        s->out[0] = build_tensor(s->build, &a->tensor->desc, a->tensor->data);
        break;
    case ONNX_ATTR_FLOAT:
        scalar.dtype = EO_FLOAT32;
        s->out[0] = build_tensor(s->build, &scalar, &a->f);
        break;
    case ONNX_ATTR_INT:
        scalar.dtype = EO_INT64;
        s->out[0] = build_tensor(s->build, &scalar, &a->i);
        break;
    case ONNX_ATTR_FLOATS:
        s->out[0] = list_constant(s, EO_FLOAT32, a->floats, a->n);
        break;
    case ONNX_ATTR_INTS:
        s->out[0] = list_constant(s, EO_INT64, a->ints, a->n);
        break;
    case ONNX_ATTR_TEXT:
    case ONNX_ATTR_TEXTS:
    case ONNX_ATTR_GRAPH:
        site_fail(s, EO_E_UNSUPPORTED, "a Constant of texts is not supported");
        break;
    }
}

void map_constant_of_shape(struct onnx_site *s)
{
    const struct onnx_attr *a = site_attr(s, "value");
    int64_t shape[EO_MAX_DIMS];
    int n = site_numbers(s, 0, shape, EO_MAX_DIMS);
    struct eo_tensor_desc scalar = {.dtype = EO_FLOAT32};
    const void *data = &(const float){0};

    if (a != NULL && (a->kind != ONNX_ATTR_TENSOR || eo_tensor_desc_count(&a->tensor->desc) != 1)) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "value of ConstantOfShape must be a tensor of one element");
        return;
    }
    if (a != NULL) {
        scalar.dtype = a->tensor->desc.dtype;
        data = a->tensor->data;
    }
    for (int d = 0; d < n; d++) {
        if (shape[d] < 0) {
            site_fail(s, EO_E_BAD_VALUE, "size %" PRId64 " of ConstantOfShape's shape is negative", shape[d]);
        }
    }
    s->out[0] = eo_build_expand(s->b, build_tensor(s->build, &scalar, data), shape, n);
}

void map_shape(struct onnx_site *s)
{
    const struct eo_tensor_desc *desc = site_desc(s, site_in(s, 0));
    int64_t start = site_int(s, "start", 0), end = site_int(s, "end", INT64_MAX);
    struct eo_slice_dim part = eo_slice_resolve(start, end, 1, desc->n_dims);

    s->out[0] = site_int64s(s, desc->shape + (part.count > 0 ? part.first : 0), (int)part.count);
}

void map_size(struct onnx_site *s)
{
    const struct eo_tensor_desc *desc = site_desc(s, site_in(s, 0));
    struct eo_tensor_desc scalar = {.dtype = EO_INT64};

    s->out[0] = build_tensor(s->build, &scalar, &(const int64_t){eo_tensor_desc_count(desc)});
}

void map_eye_like(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    struct row r = row_of(s, "eye");

    if (site_ok(s) && desc->n_dims != 2) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "EyeLike needs a matrix, this has %d dimensions", desc->n_dims);
    }
    row_ints(&r, "shape", desc->shape, 2);
    row_int(&r, "k", site_int(s, "k", 0));
    row_int(&r, "dtype", site_dtype_attr(s, "dtype", (enum eo_dtype)desc->dtype));
    s->out[0] = row_make(&r, NULL, 0);
}

/* Number of elements of start, start + step, ... before limit. */
static int64_t range_count(struct onnx_site *s, bool floats)
{
    if (floats) {
        double count = ceil((site_real(s, 1) - site_real(s, 0)) / site_real(s, 2));

        if (site_ok(s) && !(count < 0x1p62)) {
            site_fail(s, EO_E_TOO_LARGE, "Range has %g elements", count);
        }
        return site_ok(s) && count > 0 ? (int64_t)count : 0;
    }
    int64_t start = site_number(s, 0), limit = site_number(s, 1), step = site_number(s, 2);
    uint64_t size = step < 0 ? 0 - (uint64_t)step : (uint64_t)step, gap = 0;

    if (step == 0) {
        site_fail(s, EO_E_BAD_VALUE, "delta of Range is 0");
        return 0;
    }
    if (step > 0 ? limit > start : start > limit) {
        gap = step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    }
    gap = gap / size + (gap % size != 0 ? 1 : 0);
    if (gap > INT64_MAX) {
        site_fail(s, EO_E_TOO_LARGE, "Range has %" PRIu64 " elements", gap);
        return 0;
    }
    return (int64_t)gap;
}

void map_range(struct onnx_site *s)
{
    struct row r = row_of(s, "arange");
    enum eo_dtype dtype = site_dtype(s, site_in(s, 0));
    bool floats = eo_dtype_kind(dtype) == EO_KIND_FLOAT;

    row_float(&r, "start", site_real(s, 0));
    row_float(&r, "step", site_real(s, 2));
    row_int(&r, "count", range_count(s, floats));
    row_int(&r, "dtype", dtype);
    s->out[0] = row_make(&r, NULL, 0);
}

/* ---- windows of signal processing: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N) ---- */

static eo_value cosine(struct onnx_site *s, eo_value n, double factor, double weight)
{
    eo_value angle = site_binary(s, "multiply", n, site_scalar_like(s, n, factor));

    return site_binary(s, "multiply", site_unary(s, "cos", angle), site_scalar_like(s, n, weight));
}

/* periodic: one period of N = size samples; else symmetric, N = size - 1. */
static void window(struct onnx_site *s, double a0, double a1, double a2)
{
    const double two_pi = 6.283185307179586476925286766559;
    enum eo_dtype dtype = site_dtype_attr(s, "output_datatype", EO_FLOAT32);
    bool periodic = site_int(s, "periodic", 1) != 0;
    int64_t size = site_number(s, 0), whole = periodic ? size : size - 1;
    struct row r = row_of(s, "arange");
    eo_value n, sum;

    row_int(&r, "count", size);
    row_int(&r, "dtype", EO_FLOAT64);
    n = row_make(&r, NULL, 0);
    sum =
        site_binary(s, "subtract", site_scalar(s, EO_FLOAT64, a0), cosine(s, n, two_pi / (double)EO_MAX(whole, 1), a1));
    if (a2 > 0) {
        sum = site_binary(s, "add", sum, cosine(s, n, 2 * two_pi / (double)EO_MAX(whole, 1), a2));
    }
    s->out[0] = site_cast(s, sum, dtype);
}

void map_hann_window(struct onnx_site *s)
{
    window(s, 0.5, 0.5, 0);
}

/* ONNX: 25 / 46 and 21 / 46 */
void map_hamming_window(struct onnx_site *s)
{
    window(s, 25.0 / 46, 21.0 / 46, 0);
}

void map_blackman_window(struct onnx_site *s)
{
    window(s, 0.42, 0.5, 0.08);
}
