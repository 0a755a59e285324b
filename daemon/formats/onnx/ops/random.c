/* Random numbers: our own generator (proto/philox.h), by the node's seed or 0, and a stream per node; so equal models
 * give equal numbers on every backend. ONNX leaves the generator open. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include "proto/philox.h"

#include <string.h>

/* seed: a float, but an integer of Dropout */
static eo_value generator(struct onnx_site *s)
{
    const struct onnx_attr *a = site_attr(s, "seed");
    double seed = a != NULL && a->kind == ONNX_ATTR_FLOAT ? (double)a->f : 0;
    int64_t words[EO_RNG_WORDS] = {0};

    words[0] = a != NULL && a->kind == ONNX_ATTR_INT ? a->i : seed >= -9e15 && seed <= 9e15 ? (int64_t)seed : 0;
    return site_int64s(s, words, EO_RNG_WORDS);
}

static void set_stream(struct onnx_site *s, struct row *r)
{
    row_int(r, "stream", s->build->n_nodes);
}

/* The shape is an attribute, or that of the operand of the -Like operators. */
static void shaped(struct onnx_site *s, struct row *r)
{
    int64_t shape[EO_MAX_DIMS];
    enum eo_dtype dtype = EO_FLOAT32;
    int n;

    if (s->n_in > 0) {
        const struct eo_tensor_desc *desc = site_desc(s, site_in(s, 0));

        dtype = (enum eo_dtype)desc->dtype;
        memcpy(shape, desc->shape, sizeof(shape));
        n = desc->n_dims;
    } else {
        n = site_ints(s, "shape", shape, EO_MAX_DIMS);
    }
    row_ints(r, "shape", shape, n > 0 ? n : 0);
    row_int(r, "dtype", site_dtype_attr(s, "dtype", dtype));
    set_stream(s, r);
}

void map_random_uniform(struct onnx_site *s)
{
    struct row r = row_of(s, "uniform");
    eo_value rng = generator(s);

    shaped(s, &r);
    row_float(&r, "low", site_float(s, "low", 0));
    row_float(&r, "high", site_float(s, "high", 1));
    s->out[0] = row_make(&r, &rng, 1);
}

void map_random_normal(struct onnx_site *s)
{
    struct row r = row_of(s, "normal");
    eo_value rng = generator(s);

    shaped(s, &r);
    row_float(&r, "mean", site_float(s, "mean", 0));
    row_float(&r, "std", site_float(s, "scale", 1));
    s->out[0] = row_make(&r, &rng, 1);
}

/* 1 with the probability that x holds, element by element. */
void map_bernoulli(struct onnx_site *s)
{
    struct row r = row_of(s, "uniform");
    eo_value x = site_in(s, 0), rng = generator(s);
    const struct eo_tensor_desc *desc = site_desc(s, x);
    enum eo_dtype dtype = site_dtype_attr(s, "dtype", (enum eo_dtype)desc->dtype);

    row_ints(&r, "shape", desc->shape, desc->n_dims);
    row_int(&r, "dtype", desc->dtype);
    set_stream(s, &r);
    s->out[0] = site_cast(s, site_binary(s, "less", row_make(&r, &rng, 1), x), dtype);
}

/* ---- dropout ---- */

/* All kept: the operator as it is outside of training. The mask was of x's type before opset 10. */
static void keep_all(struct onnx_site *s, eo_value x)
{
    struct eo_tensor_desc desc = *site_desc(s, x);
    enum eo_dtype dtype = s->version < 10 ? (enum eo_dtype)desc.dtype : EO_BOOL;

    s->out[0] = x;
    if (site_wants(s, 1)) {
        s->out[1] = eo_build_expand(s->b, site_scalar(s, dtype, 1), desc.shape, desc.n_dims);
    }
}

static void drop_some(struct onnx_site *s, eo_value x, double ratio)
{
    struct row r = row_of(s, "dropout");
    eo_value in[2] = {eo_build_full_like(s->b, x, 1), generator(s)}, factor;

    if (!(ratio >= 0 && ratio < 1)) {
        site_fail(s, EO_E_BAD_VALUE, "ratio of Dropout is %g, must be from 0 to below 1", ratio);
    }
    row_float(&r, "p", ratio);
    set_stream(s, &r);
    factor = row_make(&r, in, 2); /* 0 or 1 / (1 - ratio) */
    s->out[0] = site_binary(s, "multiply", x, factor);
    if (site_wants(s, 1)) {
        eo_value kept = site_binary(s, "not_equal", factor, site_scalar_like(s, factor, 0));

        s->out[1] = s->version < 10 ? site_cast(s, kept, site_dtype(s, x)) : kept;
    }
}

/* ratio: an attribute before opset 12, an operand since. Training: opset 6 says is_test, 7 and 10 never train, 12 has
 * an operand. */
void map_dropout(struct onnx_site *s)
{
    eo_value x = site_in(s, 0);
    double ratio = s->version < 12 ? site_float(s, "ratio", 0.5) : site_has(s, 1) ? site_real(s, 1) : 0.5;
    bool training = s->version < 7    ? site_int(s, "is_test", 0) == 0
                    : s->version < 12 ? false
                                      : site_has(s, 2) && site_flag(s, 2);

    (void)site_attr(s, "seed");
    if (training && ratio > 0) {
        drop_some(s, x, ratio);
    } else {
        keep_all(s, x);
    }
}
