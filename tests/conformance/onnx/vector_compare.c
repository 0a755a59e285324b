#include "tests/conformance/onnx/vector_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double rtol = 1e-3, atol = 1e-7;

double vector_element(const struct host_tensor *t, int64_t i)
{
    enum eo_dtype dtype = (enum eo_dtype)t->desc.dtype;
    size_t size = eo_dtype_size(dtype);
    uint64_t bits = 0;
    float f;
    double d;

    memcpy(&bits, (const char *)t->data + (size_t)i * size, size);
    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_FLOAT:
        memcpy(&f, &bits, sizeof(f));
        memcpy(&d, &bits, sizeof(d));
        return dtype == EO_FLOAT64    ? d
               : dtype == EO_FLOAT32  ? (double)f
               : dtype == EO_BFLOAT16 ? (double)eo_bfloat_to_float((uint16_t)bits)
                                      : (double)eo_half_to_float((uint16_t)bits);
    case EO_KIND_SIGNED:
        if (size < 8 && bits >> (8 * size - 1) != 0)
            bits |= UINT64_MAX << (8 * size);
        return (double)(int64_t)bits;
    case EO_KIND_UNSIGNED:
    case EO_KIND_BOOL:
        break;
    }
    return (double)bits;
}

static bool close_enough(double got, double want)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want))
        return isinf(got) && isinf(want) && signbit(got) == signbit(want);
    return fabs(got - want) <= atol + rtol * fabs(want);
}

bool vector_equal(const struct host_tensor *result, const struct host_tensor *want, char *why, size_t size)
{
    struct host_tensor bits = *result;
    const struct host_tensor *got = &bits;
    char a[128], b[128];

    /* the files hold bfloat16 as uint16, and ONNX's runner compares those numbers */
    if (result->desc.dtype == EO_BFLOAT16 && want->desc.dtype == EO_UINT16)
        bits.desc.dtype = EO_UINT16;

    int64_t n = eo_tensor_desc_count(&want->desc);
    bool exact = result->desc.dtype != EO_BFLOAT16 && eo_dtype_kind((enum eo_dtype)want->desc.dtype) != EO_KIND_FLOAT;

    if (!eo_tensor_desc_equal(&got->desc, &want->desc)) {
        snprintf(why, size, "is %s, expected %s", eo_tensor_desc_text(&got->desc, a, sizeof(a)),
                 eo_tensor_desc_text(&want->desc, b, sizeof(b)));
        return false;
    }
    if (exact && memcmp(got->data, want->data, (size_t)eo_tensor_desc_bytes(&want->desc)) == 0)
        return true;
    for (int64_t i = 0; i < n; i++) {
        double x = vector_element(got, i), y = vector_element(want, i);

        if (exact ? x < y || x > y : !close_enough(x, y)) {
            snprintf(why, size, "element %" PRId64 " is %.9g, expected %.9g", i, x, y);
            return false;
        }
    }
    return true;
}

bool vector_dropout(const struct host_tensor *x, double ratio, const struct host_tensor *y,
                    const struct host_tensor *mask, char *why, size_t size)
{
    int64_t n = eo_tensor_desc_count(&x->desc), kept = 0;

    if (!eo_tensor_desc_equal(&x->desc, &y->desc) ||
        (mask != NULL && (!eo_tensor_desc_same_shape(&x->desc, &mask->desc) || mask->desc.dtype != EO_BOOL))) {
        snprintf(why, size, "the result or mask of a dropout has another shape than x");
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        double out = vector_element(y, i), scaled = vector_element(x, i) / (1 - ratio);
        bool keeps = close_enough(out, scaled), says = mask == NULL || (vector_element(mask, i) > 0) == keeps;

        if (!says || (!keeps && (out < 0 || out > 0))) {
            snprintf(why, size, "element %" PRId64 " of the dropout is %.9g, x %.9g", i, out, vector_element(x, i));
            return false;
        }
        kept += keeps;
    }
    if (n >= 30 && (kept == 0 || kept == n)) {
        snprintf(why, size, "%" PRId64 " of %" PRId64 " elements are kept", kept, n);
        return false;
    }
    return true;
}
