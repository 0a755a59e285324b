/* Normalization. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

/* spatial = 0 of the oldest files: parameters per element, (C, H, W). */
static eo_value per_element(struct onnx_site *s, eo_value x, const eo_value *p, double eps)
{
    eo_value centred = site_binary(s, "subtract", x, p[3]);
    eo_value deviation = site_unary(s, "sqrt", site_binary(s, "add", p[4], site_scalar_like(s, p[4], eps)));
    eo_value scaled = site_binary(s, "multiply", site_binary(s, "divide", centred, deviation), p[1]);

    return site_binary(s, "add", scaled, p[2]);
}

static eo_value mix(struct onnx_site *s, eo_value old, eo_value fresh, double momentum)
{
    eo_value a = site_binary(s, "multiply", old, site_scalar_like(s, old, momentum));
    eo_value b = site_binary(s, "multiply", fresh, site_scalar_like(s, fresh, 1 - momentum));

    return site_binary(s, "add", a, b);
}

/* Of x (N, C, ...) with scale, bias: y, mean and variance (biased) of the batch. */
static void batch_statistics(struct onnx_site *s, const eo_value *p, double eps, double momentum)
{
    struct row r = row_of(s, "batch_norm_train");
    eo_value out[EO_MAX_OUTPUTS];

    row_float(&r, "eps", eps);
    row_word(&r, "layout", "nchw");
    row_make_all(&r, p, 3, out);
    s->out[0] = out[0];
    for (int o = 1; o < 3; o++) {
        if (site_wants(s, o)) {
            enum eo_dtype dtype = site_dtype(s, site_in(s, o + 2));

            s->out[o] = site_cast(s, mix(s, p[o + 2], out[o], momentum), dtype);
        }
    }
}

void map_batch_normalization(struct onnx_site *s)
{
    struct row r = row_of(s, "batch_norm");
    double eps = site_float(s, "epsilon", (double)1e-5f), momentum = site_float(s, "momentum", (double)0.9f);
    bool spatial = s->version >= 9 || site_int(s, "spatial", 1) != 0;
    bool training = s->version >= 14 ? site_int(s, "training_mode", 0) != 0
                                     : s->version < 7 && site_int(s, "is_test", 0) == 0 && s->n_out > 1;
    eo_value p[5];
    enum eo_dtype dtype;

    for (int i = 0; i < 5; i++) {
        p[i] = site_in(s, i);
    }
    dtype = site_dtype(s, p[0]);
    for (int i = 1; i < 5; i++) {
        p[i] = site_cast(s, p[i], dtype);
    }
    if (s->version < 14 && training) {
        site_fail(s, EO_E_UNSUPPORTED, "BatchNormalization with statistics of the batch is supported from opset 14 on");
    }
    if (training) {
        batch_statistics(s, p, eps, momentum);
        return;
    }
    if (!spatial) {
        s->out[0] = per_element(s, p[0], p, eps);
        return;
    }
    row_float(&r, "eps", eps);
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, p, 5);
}

void map_instance_normalization(struct onnx_site *s)
{
    struct row r = row_of(s, "instance_norm");
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_in(s, 2)};

    row_float(&r, "eps", site_float(s, "epsilon", (double)1e-5f));
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, in, 3);
}

/* The statistics are float32 when the operator computes in it (stash_type 1), whatever x is. */
void map_layer_normalization(struct onnx_site *s)
{
    struct row r = row_of(s, "layer_norm");
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_maybe(s, 2)}, out[EO_MAX_OUTPUTS];
    enum eo_dtype stash = site_dtype_attr(s, "stash_type", EO_FLOAT32);

    row_int(&r, "axis", site_int(s, "axis", -1));
    row_float(&r, "eps", site_float(s, "epsilon", (double)1e-5f));
    row_make_all(&r, in, in[2] != EO_NO_VALUE ? 3 : 2, out);
    s->out[0] = out[0];
    for (int o = 1; o < 3; o++) {
        if (site_wants(s, o)) {
            s->out[o] = site_cast(s, out[o], stash);
        }
    }
}

void map_lrn(struct onnx_site *s)
{
    struct row r = row_of(s, "local_response_norm");
    eo_value x = site_in(s, 0);

    row_int(&r, "size", site_need_int(s, "size"));
    row_float(&r, "alpha", site_float(s, "alpha", (double)1e-4f));
    row_float(&r, "beta", site_float(s, "beta", 0.75));
    row_float(&r, "bias", site_float(s, "bias", 1));
    row_word(&r, "layout", "nchw");
    s->out[0] = row_make(&r, &x, 1);
}

void map_mean_variance_normalization(struct onnx_site *s)
{
    struct row r = row_of(s, "mean_variance_norm");
    int64_t axes[EO_MAX_DIMS] = {0, 2, 3};
    int n = site_ints(s, "axes", axes, EO_MAX_DIMS);
    eo_value x = site_in(s, 0);

    row_ints(&r, "axes", axes, n < 0 ? 3 : n);
    s->out[0] = row_make(&r, &x, 1);
}

void map_lp_normalization(struct onnx_site *s)
{
    int64_t axis = site_int(s, "axis", -1), p = site_int(s, "p", 2);
    struct row r = row_of(s, p == 1 ? "l1_norm" : "l2_norm");
    eo_value x = site_in(s, 0);

    if (p != 1 && p != 2) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "p of LpNormalization is neither 1 nor 2");
    }
    row_ints(&r, "axes", &axis, 1);
    row_int(&r, "keepdims", 1);
    s->out[0] = site_binary(s, "divide", x, row_make(&r, &x, 1));
}
