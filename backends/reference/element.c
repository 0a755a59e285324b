#include "backends/reference/element.h"

#include <math.h>
#include <string.h>

struct element element_get(const void *data, enum eo_dtype dtype, int64_t index)
{
    switch (dtype) {
    case EO_FLOAT32:
        return element_float(((const float *)data)[index]);
    case EO_FLOAT64:
        return element_float(((const double *)data)[index]);
    case EO_FLOAT16:
        return element_float(eo_half_to_float(((const uint16_t *)data)[index]));
    case EO_BFLOAT16:
        return element_float(eo_bfloat_to_float(((const uint16_t *)data)[index]));
    case EO_INT8:
        return element_signed(((const int8_t *)data)[index]);
    case EO_INT16:
        return element_signed(((const int16_t *)data)[index]);
    case EO_INT32:
        return element_signed(((const int32_t *)data)[index]);
    case EO_INT64:
        return element_signed(((const int64_t *)data)[index]);
    case EO_UINT8:
        return element_unsigned(((const uint8_t *)data)[index]);
    case EO_UINT16:
        return element_unsigned(((const uint16_t *)data)[index]);
    case EO_UINT32:
        return element_unsigned(((const uint32_t *)data)[index]);
    case EO_UINT64:
        return element_unsigned(((const uint64_t *)data)[index]);
    case EO_BOOL:
        return element_bool(((const uint8_t *)data)[index] != 0);
    case EO_DTYPE_NONE:
    case EO_DTYPE_LIMIT:
        break;
    }
    return element_unsigned(0);
}

void element_set(void *data, enum eo_dtype dtype, int64_t index, struct element e)
{
    switch (dtype) {
    case EO_FLOAT32:
        ((float *)data)[index] = (float)e.v.f;
        break;
    case EO_FLOAT64:
        ((double *)data)[index] = e.v.f;
        break;
    case EO_FLOAT16:
        ((uint16_t *)data)[index] = eo_half_from_double(e.v.f);
        break;
    case EO_BFLOAT16:
        ((uint16_t *)data)[index] = eo_bfloat_from_double(e.v.f);
        break;
    case EO_INT8:
        ((int8_t *)data)[index] = (int8_t)e.v.i;
        break;
    case EO_INT16:
        ((int16_t *)data)[index] = (int16_t)e.v.i;
        break;
    case EO_INT32:
        ((int32_t *)data)[index] = (int32_t)e.v.i;
        break;
    case EO_INT64:
        ((int64_t *)data)[index] = e.v.i;
        break;
    case EO_UINT8:
        ((uint8_t *)data)[index] = (uint8_t)e.v.u;
        break;
    case EO_UINT16:
        ((uint16_t *)data)[index] = (uint16_t)e.v.u;
        break;
    case EO_UINT32:
        ((uint32_t *)data)[index] = (uint32_t)e.v.u;
        break;
    case EO_UINT64:
        ((uint64_t *)data)[index] = e.v.u;
        break;
    case EO_BOOL:
        ((uint8_t *)data)[index] = e.v.u != 0;
        break;
    case EO_DTYPE_NONE:
    case EO_DTYPE_LIMIT:
        break;
    }
}

double element_get_float(const void *data, enum eo_dtype dtype, int64_t index)
{
    return element_get(data, dtype, index).v.f;
}

void element_set_float(void *data, enum eo_dtype dtype, int64_t index, double value)
{
    element_set(data, dtype, index, element_float(value));
}

void element_move(void *out, int64_t to, const void *in, int64_t from, size_t size)
{
    memmove((char *)out + to * (int64_t)size, (const char *)in + from * (int64_t)size, size);
}

/* Bounds of an integer dtype, exact as powers of two in float64: the range is [low, high). */
static struct element float_to_integer(double f, enum eo_dtype dtype)
{
    int bits = (int)eo_dtype_size(dtype) * 8;
    if (eo_dtype_kind(dtype) == EO_KIND_UNSIGNED) {
        uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        return element_unsigned(isnan(f) || f <= 0 ? 0 : f >= ldexp(1, bits) ? top : (uint64_t)f);
    }
    int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    double limit = ldexp(1, bits - 1);
    return element_signed(isnan(f) ? 0 : f >= limit ? top : f <= -limit ? -top - 1 : (int64_t)f);
}

static struct element to_kind(uint64_t bits, enum eo_dtype_kind kind)
{
    return kind == EO_KIND_SIGNED ? element_signed((int64_t)bits) : element_unsigned(bits);
}

static struct element integer_to_integer(struct element e, enum eo_dtype dtype)
{
    return to_kind(e.kind == EO_KIND_SIGNED ? (uint64_t)e.v.i : e.v.u, eo_dtype_kind(dtype));
}

/* An integer to float32 is rounded once: going through float64 would round twice. Narrower floats go through float32,
 * which is how ops.def defines their arithmetic. */
static double integer_to_float(struct element e, enum eo_dtype dtype)
{
    bool narrow = dtype != EO_FLOAT64;
    if (e.kind == EO_KIND_SIGNED)
        return narrow ? (double)(float)e.v.i : (double)e.v.i;
    return narrow ? (double)(float)e.v.u : (double)e.v.u;
}

struct element element_cast(struct element e, enum eo_dtype dtype)
{
    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_FLOAT:
        return element_float(e.kind == EO_KIND_FLOAT ? e.v.f : integer_to_float(e, dtype));
    case EO_KIND_BOOL:
        return element_bool(e.kind == EO_KIND_FLOAT ? e.v.f != 0 : e.v.u != 0);
    case EO_KIND_SIGNED:
    case EO_KIND_UNSIGNED:
        break;
    }
    return e.kind == EO_KIND_FLOAT ? float_to_integer(e.v.f, dtype) : integer_to_integer(e, dtype);
}

struct element element_from_double(double value, enum eo_dtype dtype)
{
    return element_cast(element_float(value), dtype);
}
