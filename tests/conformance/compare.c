#include "tests/conformance/compare.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool sign_of_zero_is_free(enum eo_op op)
{
    return op == EO_OP_MAXIMUM || op == EO_OP_MINIMUM || op == EO_OP_MAX || op == EO_OP_MIN;
}

static double largest_of(enum eo_dtype dtype)
{
    return dtype == EO_FLOAT64 ? DBL_MAX : dtype == EO_FLOAT16 ? 65504 : (double)FLT_MAX;
}

/* Lowered, a convolution multiplies its padding's zeros with weights, and 0 times infinity is NaN; kernels may leave
 * the padding out. */
static bool leaves_padding_out(enum eo_op op)
{
    return op == EO_OP_CONV || op == EO_OP_CONV_TRANSPOSE || op == EO_OP_CONV_WEIGHT;
}

static bool element_matches(const struct run *r, int o, const void *expected, const void *actual, int64_t i)
{
    enum eo_dtype dtype = (enum eo_dtype)r->out[o].dtype;
    size_t size = eo_dtype_size(dtype);
    if (memcmp((const char *)expected + (size_t)i * size, (const char *)actual + (size_t)i * size, size) == 0)
        return true;
    if (eo_dtype_kind(dtype) != EO_KIND_FLOAT)
        return false;
    double e = element_value(dtype, expected, i), a = element_value(dtype, actual, i);
    if (isnan(e) && leaves_padding_out(r->op->op))
        return true;
    if (isnan(e) || isnan(a))
        return isnan(e) && isnan(a);
    double allowed = case_allowed(r, o, e);
    if (e == a)
        return allowed > 0 || e != 0 || sign_of_zero_is_free(r->op->op);
    /* A value within the tolerance of the largest one may come out as infinity. */
    if (isinf(a) && allowed > 0)
        return signbit(a) == signbit(e) && fabs(e) / 2 + allowed / 2 >= largest_of(dtype) / 2;
    return fabs(e - a) <= allowed;
}

void compare_describe(const struct run *r, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s(", r->op->name);
    for (int i = 0; i < r->n_in && n < size; i++) {
        char text[128];
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "",
                              eo_tensor_desc_text(&r->in[i], text, sizeof text));
    }
    if (n < size)
        (void)snprintf(out + n, size - n, ")");
}

void compare_results(const struct run *r, const struct results *expected, const struct results *actual,
                     const char *backend, const char *how)
{
    for (int o = 0; o < r->n_out; o++) {
        int64_t n = eo_tensor_desc_count(&expected->desc[o]);
        CHECK(eo_tensor_desc_equal(&expected->desc[o], &actual->desc[o]), "%s, %s, %s: output %d has another shape",
              backend, actual->kernel, how, o);
        for (int64_t i = 0; i < n; i++) {
            char text[512];
            if (element_matches(r, o, expected->out[o], actual->out[o], i))
                continue;
            enum eo_dtype dtype = (enum eo_dtype)r->out[o].dtype;
            double e = element_value(dtype, expected->out[o], i);
            compare_describe(r, text, sizeof text);
            ck_abort_msg("%s, %s, %s: output %d element %lld of %s is %.17g, reference says %.17g (allowed %g)",
                         backend, actual->kernel, how, o, (long long)i, text, element_value(dtype, actual->out[o], i),
                         e, case_allowed(r, o, e));
        }
    }
}
