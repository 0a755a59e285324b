/* Quantized numbers. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/ops/window.h"

/* Operands from min on that are not given are holes of the first one's dtype, or are left off at the end. */
static int with_holes(struct onnx_site *s, eo_value *out, int min, int max)
{
    int n = min;

    for (int i = 0; i < max; i++) {
        out[i] = i < min ? site_in(s, i) : site_maybe(s, i);
        n = out[i] != EO_NO_VALUE ? EO_MAX(n, i + 1) : n;
    }
    return n;
}

/* The zero point tells the type; without one it is uint8. */
void map_quantize_linear(struct onnx_site *s)
{
    struct row r = row_of(s, "quantize_linear");
    eo_value in[3], x = site_in(s, 0);
    int n = with_holes(s, in, 2, 3);

    in[0] = eo_dtype_kind(site_dtype(s, x)) == EO_KIND_FLOAT ? x : site_cast(s, x, EO_FLOAT32);
    row_int(&r, "axis", site_rank(s, in[1]) > 0 ? site_int(s, "axis", 1) : 0 * site_int(s, "axis", 1));
    row_int(&r, "dtype", n > 2 ? site_dtype(s, in[2]) : EO_UINT8);
    s->out[0] = row_make(&r, in, n);
}

void map_dequantize_linear(struct onnx_site *s)
{
    struct row r = row_of(s, "dequantize_linear");
    eo_value in[3];
    int n = with_holes(s, in, 2, 3);

    row_int(&r, "axis", site_rank(s, in[1]) > 0 ? site_int(s, "axis", 1) : 0 * site_int(s, "axis", 1));
    s->out[0] = row_make(&r, in, n);
}

void map_dynamic_quantize_linear(struct onnx_site *s)
{
    struct row r = row_of(s, "dynamic_quantize_linear");
    eo_value x = site_in(s, 0), out[EO_MAX_OUTPUTS];

    row_make_all(&r, &x, 1, out);
    for (int o = 0; o < s->n_out && o < 3; o++) {
        s->out[o] = out[o];
    }
}

/* MatMulInteger, QLinearMatMul: the row's operands are the operator's. */
void map_quantized(struct onnx_site *s)
{
    struct row r = row_of(s, s->op->row);
    eo_value in[EO_MAX_NAMED_INPUTS];
    int n = r.op != NULL ? with_holes(s, in, r.op->min_inputs, r.op->max_inputs) : 0;

    if (n == 4 && in[2] == EO_NO_VALUE) {
        in[2] = site_hole(s, site_dtype(s, in[0]));
    }
    s->out[0] = row_make(&r, in, n);
}

void map_conv_integer(struct onnx_site *s)
{
    struct row r = row_of(s, "conv_integer");
    eo_value in[4];
    int n = with_holes(s, in, 2, 4);

    if (n == 4 && in[2] == EO_NO_VALUE) {
        in[2] = site_hole(s, site_dtype(s, in[0]));
    }
    window_conv(s, &r, in[1]);
    s->out[0] = row_make(&r, in, n);
}

void map_qlinear_conv(struct onnx_site *s)
{
    struct row r = row_of(s, "qlinear_conv");
    eo_value in[9];
    int n = with_holes(s, in, 8, 9);

    window_conv(s, &r, in[3]);
    s->out[0] = row_make(&r, in, n);
}
