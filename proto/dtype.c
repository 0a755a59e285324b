#include "proto/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct dtype_row {
    const char *name, *safetensors, *npy;
    uint8_t size;
    uint8_t kind;
};

static const struct dtype_row rows[EO_DTYPE_LIMIT] = {
#define EO_DTYPE(name_, id, size_, kind_, text, safetensors_, npy_)                                                    \
    [id] = {.name = text, .safetensors = safetensors_, .npy = npy_, .size = size_, .kind = EO_KIND_##kind_},
#include "proto/tables/dtypes.def"
};

bool eo_dtype_valid(int dtype)
{
    return dtype > EO_DTYPE_NONE && dtype < EO_DTYPE_LIMIT && rows[dtype].name != NULL;
}

size_t eo_dtype_size(enum eo_dtype dtype)
{
    return eo_dtype_valid((int)dtype) ? rows[dtype].size : 0;
}

enum eo_dtype_kind eo_dtype_kind(enum eo_dtype dtype)
{
    return eo_dtype_valid((int)dtype) ? (enum eo_dtype_kind)rows[dtype].kind : EO_KIND_BOOL;
}

const char *eo_dtype_name(enum eo_dtype dtype)
{
    return eo_dtype_valid((int)dtype) ? rows[dtype].name : "?";
}

const char *eo_dtype_safetensors(enum eo_dtype dtype)
{
    return eo_dtype_valid((int)dtype) ? rows[dtype].safetensors : "?";
}

const char *eo_dtype_npy(enum eo_dtype dtype)
{
    return eo_dtype_valid((int)dtype) ? rows[dtype].npy : "?";
}

enum eo_dtype eo_dtype_by_name(const char *name)
{
    for (int d = 1; name != NULL && d < EO_DTYPE_LIMIT; d++) {
        if (rows[d].name != NULL && strcmp(rows[d].name, name) == 0) {
            return (enum eo_dtype)d;
        }
    }
    return EO_DTYPE_NONE;
}

enum eo_dtype eo_dtype_by_safetensors(const char *name)
{
    for (int d = 1; name != NULL && d < EO_DTYPE_LIMIT; d++) {
        if (rows[d].name != NULL && strcmp(rows[d].safetensors, name) == 0) {
            return (enum eo_dtype)d;
        }
    }
    return EO_DTYPE_NONE;
}

char *eo_dtype_set_text(eo_dtype_set set, char *out, size_t size)
{
    size_t used = 0;

    if (size == 0) {
        return out;
    }
    out[0] = '\0';
    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        const char *separator = used == 0 ? "" : (set >> (d + 1)) != 0 ? ", " : " or ";
        int n;

        if (rows[d].name == NULL || (set & EO_DTYPE_BIT(d)) == 0) {
            continue;
        }
        n = snprintf(out + used, size - used, "%s%s", separator, rows[d].name);
        if (n < 0 || (size_t)n >= size - used) {
            break;
        }
        used += (size_t)n;
    }
    return out;
}

bool eo_dtype_holds(enum eo_dtype dtype, double v)
{
    int bits = (int)eo_dtype_size(dtype) * 8;

    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_FLOAT:
        return true;
    case EO_KIND_BOOL:
        return v == 0 || v == 1;
    case EO_KIND_SIGNED: /* [-2^(bits-1), 2^(bits-1)): both ends are doubles */
        return v == floor(v) && v >= -ldexp(1, bits - 1) && v < ldexp(1, bits - 1);
    case EO_KIND_UNSIGNED:
        return v == floor(v) && v >= 0 && v < ldexp(1, bits);
    }
    return false;
}

/* The float dtype that NumPy pairs with an integer of this size: exact for 8 and 16 bits, the widest for the others. */
static enum eo_dtype float_for_integer(size_t size, enum eo_dtype smallest)
{
    return size == 1 ? smallest : size == 2 ? EO_FLOAT32 : EO_FLOAT64;
}

static enum eo_dtype promote_floats(enum eo_dtype a, enum eo_dtype b)
{
    if (eo_dtype_size(a) == eo_dtype_size(b)) {
        return a == b ? a : EO_FLOAT32; /* float16 and bfloat16: neither holds the other */
    }
    return eo_dtype_size(a) > eo_dtype_size(b) ? a : b;
}

static enum eo_dtype promote_integers(enum eo_dtype a, enum eo_dtype b)
{
    bool a_signed = eo_dtype_kind(a) == EO_KIND_SIGNED;
    enum eo_dtype s = a_signed ? a : b, u = a_signed ? b : a;

    if (eo_dtype_kind(a) == eo_dtype_kind(b)) {
        return eo_dtype_size(a) >= eo_dtype_size(b) ? a : b;
    }
    if (eo_dtype_size(u) < eo_dtype_size(s)) {
        return s;
    }
    switch (eo_dtype_size(u)) {
    case 1:
        return EO_INT16;
    case 2:
        return EO_INT32;
    case 4:
        return EO_INT64;
    default:
        return EO_FLOAT64; /* no integer holds both uint64 and a negative number */
    }
}

/* NumPy's result_type; bfloat16 (which NumPy lacks) behaves among the integers as float16 does. */
enum eo_dtype eo_dtype_promote(enum eo_dtype a, enum eo_dtype b)
{
    bool a_float = eo_dtype_kind(a) == EO_KIND_FLOAT, b_float = eo_dtype_kind(b) == EO_KIND_FLOAT;

    if (!eo_dtype_valid((int)a) || !eo_dtype_valid((int)b)) {
        return EO_DTYPE_NONE;
    }
    if (a == b || b == EO_BOOL) {
        return a;
    }
    if (a == EO_BOOL) {
        return b;
    }
    if (!a_float && !b_float) {
        return promote_integers(a, b);
    }
    if (!b_float) {
        b = float_for_integer(eo_dtype_size(b), a);
    } else if (!a_float) {
        a = float_for_integer(eo_dtype_size(a), b);
    }
    return promote_floats(a, b);
}

/* q = full / 2^shift rounded to nearest, ties to even; shift 1..63. */
static uint64_t round_shift(uint64_t full, int shift)
{
    uint64_t q = full >> shift, half = (uint64_t)1 << (shift - 1), rest = full & ((half << 1) - 1);

    return q + (rest > half || (rest == half && (q & 1) != 0) ? 1 : 0);
}

/* Narrows to a 16-bit IEEE format with `mantissa` stored bits and smallest normal exponent emin (emax = 1 - emin).
 * A carry out of the mantissa walks into the exponent, and out of the largest one into Inf, as IEEE 754 wants. */
static uint16_t narrow(double d, int mantissa, int emin)
{
    uint64_t bits, fraction;
    int exponent, drop = 52 - mantissa;
    uint16_t sign, infinity = (uint16_t)(0x7fff & ~((1 << mantissa) - 1));

    memcpy(&bits, &d, sizeof(bits));
    sign = (uint16_t)((bits >> 48) & 0x8000);
    fraction = bits & (((uint64_t)1 << 52) - 1);
    exponent = (int)((bits >> 52) & 0x7ff);
    if (exponent == 0x7ff) {
        uint16_t payload = (uint16_t)(fraction >> drop);
        uint16_t quiet = (uint16_t)(1 << (mantissa - 1));

        return (uint16_t)(sign | infinity | (fraction != 0 ? payload | quiet : 0));
    }
    exponent -= 1023;
    if (exponent > 1 - emin) {
        return (uint16_t)(sign | infinity);
    }
    if (exponent >= emin) {
        fraction |= (uint64_t)(exponent - emin + 1) << 52;
        return (uint16_t)(sign | round_shift(fraction, drop));
    }
    drop += emin - exponent;
    if (drop > 53) { /* below half of the smallest subnormal; also every subnormal double */
        return sign;
    }
    return (uint16_t)(sign | round_shift(fraction | (uint64_t)1 << 52, drop));
}

float eo_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 0x1f, fraction = h & 0x3ff, bits;
    float f;

    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in float */
        f = (float)fraction * 0x1p-24F;
        return sign != 0 ? -f : f;
    }
    bits = sign | (exponent == 0x1f ? (uint32_t)0xff << 23 : (exponent + 112) << 23) | fraction << 13;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

uint16_t eo_half_from_double(double d)
{
    return narrow(d, 10, -14);
}

uint16_t eo_half_from_float(float f)
{
    return narrow((double)f, 10, -14);
}

float eo_bfloat_to_float(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

uint16_t eo_bfloat_from_double(double d)
{
    return narrow(d, 7, -126);
}

uint16_t eo_bfloat_from_float(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
