/* Convolution and pooling: ONNX's channels-first layout is the layout "nchw" of the rows. */
#include "daemon/formats/onnx/ops/window.h"
#include "daemon/formats/onnx/maps.h"

#include <inttypes.h>
#include <string.h>

static const char *const auto_pads[][2] = {
    {"NOTSET", "explicit"}, {"VALID", "valid"}, {"SAME_UPPER", "same"}, {"SAME_LOWER", "same_lower"}};

static const char *padding_word(struct onnx_site *s)
{
    const char *given = site_text(s, "auto_pad", "NOTSET");

    for (size_t i = 0; i < EO_COUNT_OF(auto_pads); i++) {
        if (strcmp(given, auto_pads[i][0]) == 0) {
            return auto_pads[i][1];
        }
    }
    site_fail(s, EO_E_BAD_ATTRIBUTE, "auto_pad of %s is not known", s->node->op_type);
    return auto_pads[0][1];
}

static void pass_ints(struct onnx_site *s, struct row *r, const char *name)
{
    int64_t list[2 * EO_MAX_DIMS];
    int n = site_ints(s, name, list, 2 * EO_MAX_DIMS);

    if (n > 0) {
        row_ints(r, name, list, n);
    }
}

void window_geometry(struct onnx_site *s, struct row *r)
{
    const char *padding = padding_word(s);

    pass_ints(s, r, "strides");
    pass_ints(s, r, "dilations");
    row_word(r, "padding", padding);
    if (strcmp(padding, "explicit") == 0) {
        pass_ints(s, r, "pads");
    } else {
        (void)site_attr(s, "pads");
    }
    row_word(r, "layout", "nchw");
}

/* kernel_shape of a convolution says again what the weight's shape says. */
static void check_kernel(struct onnx_site *s, eo_value weight)
{
    const struct eo_tensor_desc *desc = site_desc(s, weight);
    int64_t kernel[EO_MAX_DIMS];
    int n = site_ints(s, "kernel_shape", kernel, EO_MAX_DIMS);

    for (int d = 0; d < n && site_ok(s); d++) {
        if (n != desc->n_dims - 2 || kernel[d] != desc->shape[d + 2]) {
            site_fail(s, EO_E_SHAPE_MISMATCH, "kernel_shape of %s is not that of the weight", s->node->op_type);
        }
    }
}

void window_conv(struct onnx_site *s, struct row *r, eo_value weight)
{
    check_kernel(s, weight);
    window_geometry(s, r);
    row_int(r, "groups", site_int(s, "group", 1));
}

void map_conv(struct onnx_site *s)
{
    struct row r = row_of(s, "conv");
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_maybe(s, 2)};

    window_conv(s, &r, in[1]);
    s->out[0] = row_make(&r, in, in[2] != EO_NO_VALUE ? 3 : 2);
}

/* ---- transposed convolution ---- */

struct transposed {
    int n; /* spatial axes */
    int64_t strides[EO_MAX_DIMS], dilations[EO_MAX_DIMS], pads[2 * EO_MAX_DIMS], extra[EO_MAX_DIMS];
};

static void list_or_ones(struct onnx_site *s, const char *name, int64_t *out, int n, int64_t fallback)
{
    int have = site_ints(s, name, out, 2 * EO_MAX_DIMS);

    if (site_ok(s) && have >= 0 && have != n) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "%s of %s has %d entries, not %d", name, s->node->op_type, have, n);
    }
    for (int i = 0; have < 0 && i < n; i++) {
        out[i] = fallback;
    }
}

/* Where the size of the result is given (or follows from auto_pad), the pads are what is left over:
 * stride (in - 1) + output_padding + (kernel - 1) dilation + 1 - size, the odd one at the end for SAME_UPPER. */
static void solve_pads(struct onnx_site *s, struct transposed *t, const int64_t *x, const int64_t *k,
                       const int64_t *size, bool same_upper)
{
    for (int d = 0; d < t->n; d++) {
        int64_t total = t->strides[d] * (x[d] - 1) + t->extra[d] + (k[d] - 1) * t->dilations[d] + 1 - size[d];

        if (total < 0) { /* nothing to cut off: the rest is beyond the last window */
            t->extra[d] -= total;
            total = 0;
        }
        t->pads[d] = same_upper ? total / 2 : total - total / 2;
        t->pads[t->n + d] = total - t->pads[d];
    }
    EO_UNUSED(s);
}

/* Geometry within which 64-bit products cannot overflow; the row checks the rest. */
static void bound_geometry(struct onnx_site *s, const struct transposed *t)
{
    for (int d = 0; d < t->n; d++) {
        if (t->strides[d] < 1 || t->strides[d] > INT32_MAX || t->dilations[d] < 1 || t->dilations[d] > INT32_MAX) {
            site_fail(s, EO_E_BAD_ATTRIBUTE, "strides and dilations of %s must be from 1 to 2^31 - 1",
                      s->node->op_type);
        }
    }
}

static void read_transposed(struct onnx_site *s, struct transposed *t, const struct eo_tensor_desc *x,
                            const struct eo_tensor_desc *w)
{
    const char *padding = padding_word(s);
    int64_t size[2 * EO_MAX_DIMS];
    int n_size = site_ints(s, "output_shape", size, EO_MAX_DIMS);
    bool same = strncmp(padding, "same", 4) == 0;

    t->n = w->n_dims >= 2 ? w->n_dims - 2 : 0;
    list_or_ones(s, "strides", t->strides, t->n, 1);
    list_or_ones(s, "dilations", t->dilations, t->n, 1);
    list_or_ones(s, "pads", t->pads, 2 * t->n, 0);
    list_or_ones(s, "output_padding", t->extra, t->n, 0);
    bound_geometry(s, t);
    if (!site_ok(s) || x->n_dims != w->n_dims) {
        return; /* the row says what is wrong with the ranks */
    }
    for (int d = 0; same && n_size < 0 && d < t->n; d++) {
        size[d] = x->shape[d + 2] > INT32_MAX ? -1 : x->shape[d + 2] * t->strides[d];
    }
    if (n_size > t->n) { /* with batch and channels in front */
        memmove(size, size + (n_size - t->n), (size_t)t->n * sizeof(*size));
    }
    for (int d = 0; d < t->n; d++) {
        bool wild = x->shape[d + 2] > INT32_MAX || w->shape[d + 2] > INT32_MAX ||
                    ((n_size >= 0 || same) && (size[d] < 0 || size[d] > INT32_MAX));

        if (wild) {
            site_fail(s, EO_E_TOO_LARGE, "a size of %s is not from 0 to 2^31 - 1", s->node->op_type);
            return;
        }
    }
    if (n_size >= 0 || same) {
        solve_pads(s, t, x->shape + 2, w->shape + 2, size, strcmp(padding, "same") == 0);
    }
}

void map_conv_transpose(struct onnx_site *s)
{
    struct row r = row_of(s, "conv_transpose");
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_maybe(s, 2)};
    struct transposed t = {0};

    check_kernel(s, in[1]);
    read_transposed(s, &t, site_desc(s, in[0]), site_desc(s, in[1]));
    row_ints(&r, "strides", t.strides, t.n);
    row_ints(&r, "dilations", t.dilations, t.n);
    row_ints(&r, "pads", t.pads, 2 * t.n);
    row_ints(&r, "output_padding", t.extra, t.n);
    row_int(&r, "groups", site_int(s, "group", 1));
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, in, in[2] != EO_NO_VALUE ? 3 : 2);
}

/* ---- pooling ---- */

static void pool_kernel(struct onnx_site *s, struct row *r)
{
    int64_t kernel[EO_MAX_DIMS];
    int n = site_ints(s, "kernel_shape", kernel, EO_MAX_DIMS);

    if (n < 0) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "%s needs attribute kernel_shape", s->node->op_type);
        return;
    }
    row_ints(r, "kernel", kernel, n);
    window_geometry(s, r);
}

/* Positions within the spatial axes, first axis counting least: the sum of coordinate times the sizes before it. */
static eo_value by_columns(struct onnx_site *s, eo_value index, const struct eo_tensor_desc *x)
{
    eo_value sum = site_scalar(s, EO_INT64, 0);
    int64_t behind = 1, before = 1;

    for (int d = 2; d < x->n_dims; d++) {
        behind *= x->shape[d];
    }
    for (int d = 2; d < x->n_dims; d++) {
        eo_value at;

        behind /= EO_MAX(x->shape[d], 1);
        at = site_binary(s, "floor_divide", index, site_scalar_like(s, index, (double)behind));
        at = site_binary(s, "remainder", at, site_scalar_like(s, index, (double)x->shape[d]));
        sum = site_binary(s, "add", sum, site_binary(s, "multiply", at, site_scalar_like(s, index, (double)before)));
        before *= x->shape[d];
    }
    return sum;
}

/* The row counts within one channel, ONNX through the whole of x (N, C, ...). */
static eo_value whole_index(struct onnx_site *s, eo_value index, const struct eo_tensor_desc *x, bool column_major)
{
    int64_t planes[EO_MAX_DIMS] = {x->shape[0], x->shape[1], 1, 1, 1, 1, 1, 1}, size = 1;
    struct row r = row_of(s, "arange");
    eo_value first;

    for (int d = 2; d < x->n_dims; d++) {
        size *= x->shape[d];
    }
    row_int(&r, "count", planes[0] * planes[1]);
    row_float(&r, "step", (double)size);
    row_int(&r, "dtype", EO_INT64);
    first = site_reshape(s, row_make(&r, NULL, 0), planes, x->n_dims);
    return site_binary(s, "add", column_major ? by_columns(s, index, x) : index, first);
}

/* Small integers are pooled as float32, which holds them. */
void map_max_pool(struct onnx_site *s)
{
    struct row r = row_of(s, "max_pool");
    eo_value x = site_in(s, 0), out[EO_MAX_OUTPUTS];
    enum eo_dtype dtype = site_dtype(s, x);
    struct eo_tensor_desc desc = *site_desc(s, x);
    bool column_major = site_int(s, "storage_order", 0) != 0;

    pool_kernel(s, &r);
    row_int(&r, "ceil_mode", site_int(s, "ceil_mode", 0) != 0);
    x = eo_dtype_kind(dtype) == EO_KIND_FLOAT ? x : site_cast(s, x, EO_FLOAT32);
    row_make_all(&r, &x, 1, out);
    s->out[0] = site_cast(s, out[0], dtype);
    if (site_wants(s, 1)) {
        s->out[1] = whole_index(s, out[1], &desc, column_major);
    }
}

void map_average_pool(struct onnx_site *s)
{
    struct row r = row_of(s, "average_pool");
    eo_value x = site_in(s, 0);

    pool_kernel(s, &r);
    row_int(&r, "ceil_mode", site_int(s, "ceil_mode", 0) != 0);
    row_int(&r, "count_include_pad", site_int(s, "count_include_pad", 0) != 0);
    s->out[0] = row_make(&r, &x, 1);
}

void map_lp_pool(struct onnx_site *s)
{
    struct row r = row_of(s, "lp_pool");
    eo_value x = site_in(s, 0);

    pool_kernel(s, &r);
    row_int(&r, "p", site_int(s, "p", 2));
    s->out[0] = row_make(&r, &x, 1);
}

void map_global_pool(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value x = site_in(s, 0);

    if (strcmp(s->op->row, "global_lp_pool") == 0) {
        row_int(&r, "p", site_int(s, "p", 2));
    }
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, &x, 1);
}
