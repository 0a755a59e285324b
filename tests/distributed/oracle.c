#include "tests/distributed/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static double special_value(uint64_t bits)
{
    static const double values[] = {NAN,     -NAN,     INFINITY, -INFINITY, 0.0,    -0.0,   1.0,     -1.0,
                                    0x1p-24, -0x1p-24, 0x1p-149, 0x1p-1074, 65504., 65520., 0x1p127, 3.0e38};

    return values[bits % (sizeof(values) / sizeof(values[0]))];
}

static double value_of(enum oracle_input input, uint64_t bits)
{
    switch (input) {
    case ORACLE_EXACT:
        return (double)(bits % 17) - 8;
    case ORACLE_SPECIAL:
        return special_value(bits);
    default:
        return (double)(int64_t)bits * 0x1p-83 * (double)(UINT64_C(1) << bits % 41);
    }
}

static void store(void *data, uint64_t i, enum eo_dtype dtype, double value, int64_t integer)
{
    switch (dtype) {
    case EO_FLOAT32:
        ((float *)data)[i] = (float)value;
        break;
    case EO_FLOAT64:
        ((double *)data)[i] = value;
        break;
    case EO_FLOAT16:
        ((uint16_t *)data)[i] = eo_half_from_double(value);
        break;
    case EO_BFLOAT16:
        ((uint16_t *)data)[i] = eo_bfloat_from_double(value);
        break;
    case EO_INT32:
        ((int32_t *)data)[i] = (int32_t)(uint32_t)(uint64_t)integer;
        break;
    default:
        ((int64_t *)data)[i] = integer;
        break;
    }
}

void oracle_fill(void *data, uint64_t count, enum eo_dtype dtype, enum oracle_input input, uint64_t seed, int rank)
{
    uint64_t start = mix(seed * 64 + (uint64_t)rank);

    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = mix(start + i);

        store(data, i, dtype, value_of(input, bits), input == ORACLE_EXACT ? (int64_t)(bits % 17) - 8 : (int64_t)bits);
    }
}

/* float32 and the 16-bit types are added in float, which rounds once per addition. */
static float pick_float(float a, float x, enum collective_reduce reduce)
{
    if (reduce == COLLECTIVE_SUM) {
        return a + x;
    }
    if (isnan(a) || isnan(x)) {
        return NAN;
    }
    return reduce == COLLECTIVE_MIN ? (x < a ? x : a) : (x > a ? x : a);
}

static double pick_double(double a, double x, enum collective_reduce reduce)
{
    if (reduce == COLLECTIVE_SUM) {
        return a + x;
    }
    if (isnan(a) || isnan(x)) {
        return NAN;
    }
    return reduce == COLLECTIVE_MIN ? (x < a ? x : a) : (x > a ? x : a);
}

static int64_t pick_integer(int64_t a, int64_t x, enum collective_reduce reduce)
{
    if (reduce == COLLECTIVE_SUM) {
        return (int64_t)((uint64_t)a + (uint64_t)x);
    }
    return reduce == COLLECTIVE_MIN ? (x < a ? x : a) : (x > a ? x : a);
}

static float load_float(const void *data, uint64_t i, enum eo_dtype dtype)
{
    return dtype == EO_FLOAT32   ? ((const float *)data)[i]
           : dtype == EO_FLOAT16 ? eo_half_to_float(((const uint16_t *)data)[i])
                                 : eo_bfloat_to_float(((const uint16_t *)data)[i]);
}

/* NaN results are the canonical quiet NaN. */
static void store_float(void *data, uint64_t i, enum eo_dtype dtype, float value)
{
    if (dtype == EO_FLOAT32) {
        ((float *)data)[i] = isnan(value) ? NAN : value;
    } else if (isnan(value)) {
        ((uint16_t *)data)[i] = dtype == EO_FLOAT16 ? 0x7E00 : 0x7FC0;
    } else {
        ((uint16_t *)data)[i] = dtype == EO_FLOAT16 ? eo_half_from_float(value) : eo_bfloat_from_float(value);
    }
}

static bool is_float32_kind(enum eo_dtype dtype)
{
    return dtype == EO_FLOAT32 || dtype == EO_FLOAT16 || dtype == EO_BFLOAT16;
}

static void combine_rank(void *wide, const void *next, uint64_t count, enum eo_dtype dtype,
                         enum collective_reduce reduce)
{
    for (uint64_t i = 0; i < count; i++) {
        if (is_float32_kind(dtype)) {
            ((float *)wide)[i] = pick_float(((float *)wide)[i], load_float(next, i, dtype), reduce);
        } else if (dtype == EO_FLOAT64) {
            ((double *)wide)[i] = pick_double(((double *)wide)[i], ((const double *)next)[i], reduce);
        } else if (dtype == EO_INT32) {
            ((int64_t *)wide)[i] =
                (int32_t)(uint32_t)(uint64_t)pick_integer(((int64_t *)wide)[i], ((const int32_t *)next)[i], reduce);
        } else {
            ((int64_t *)wide)[i] = pick_integer(((int64_t *)wide)[i], ((const int64_t *)next)[i], reduce);
        }
    }
}

static void widen(void *wide, const void *first, uint64_t count, enum eo_dtype dtype)
{
    for (uint64_t i = 0; i < count; i++) {
        if (is_float32_kind(dtype)) {
            ((float *)wide)[i] = load_float(first, i, dtype);
        } else if (dtype == EO_FLOAT64) {
            ((double *)wide)[i] = ((const double *)first)[i];
        } else {
            ((int64_t *)wide)[i] = dtype == EO_INT32 ? ((const int32_t *)first)[i] : ((const int64_t *)first)[i];
        }
    }
}

static void narrow(void *out, const void *wide, uint64_t count, enum eo_dtype dtype)
{
    for (uint64_t i = 0; i < count; i++) {
        if (is_float32_kind(dtype)) {
            store_float(out, i, dtype, ((const float *)wide)[i]);
        } else if (dtype == EO_FLOAT64) {
            double value = ((const double *)wide)[i];
            ((double *)out)[i] = isnan(value) ? NAN : value;
        } else {
            store(out, i, dtype, 0, ((const int64_t *)wide)[i]);
        }
    }
}

void oracle_combine(void *out, void *scratch, uint64_t count, enum eo_dtype dtype, enum collective_reduce reduce,
                    enum oracle_input input, uint64_t seed, int world_size)
{
    void *wide = malloc((size_t)count * sizeof(int64_t) + 1);

    if (wide == NULL) {
        abort();
    }
    oracle_fill(scratch, count, dtype, input, seed, 0);
    if (world_size == 1) {
        memcpy(out, scratch, (size_t)count * eo_dtype_size(dtype));
        free(wide);
        return;
    }
    widen(wide, scratch, count, dtype);
    for (int r = 1; r < world_size; r++) {
        oracle_fill(scratch, count, dtype, input, seed, r);
        combine_rank(wide, scratch, count, dtype, reduce);
    }
    narrow(out, wide, count, dtype);
    free(wide);
}
