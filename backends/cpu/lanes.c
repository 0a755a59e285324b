#include "backends/cpu/lanes.h"

#include "proto/shape_rules.h"

#include <stddef.h>

static inline int64_t place(const struct lane *g, const int64_t *indices, int64_t j)
{
    int64_t at = indices[j];
    return (at < 0 ? at + g->axis : at) * g->stride + j * g->step;
}

/* statement: what happens between p, an element of x, and q, an element of y. */
#define LANE(name, type, statement)                                                                                    \
    static void name(const struct lane *g, int64_t n, void *x, void *y, const int64_t *indices)                        \
    {                                                                                                                  \
        type *const xs = x, *const ys = y;                                                                             \
        for (int64_t j = 0; j < n && indices; j++) {                                                                   \
            type *p = xs + place(g, indices, j), *q = ys + j;                                                          \
            statement;                                                                                                 \
        }                                                                                                              \
        for (int64_t j = 0; j < n && !indices; j++) {                                                                  \
            type *p = xs + j * g->step, *q = ys + j;                                                                   \
            statement;                                                                                                 \
        }                                                                                                              \
    }

#define MOVES(bits)                                                                                                    \
    LANE(gather_##bits, uint##bits##_t, *q = *p)                                                                       \
    LANE(replace_##bits, uint##bits##_t, *p = *q)
MOVES(8)
MOVES(16)
MOVES(32)
MOVES(64)

/* Integers wrap, through the unsigned type of their width; uint16 would be promoted to int, whose product overflows. */
#define INTEGER(name, type, wide)                                                                                      \
    LANE(add_##name, type, *p = (type)((wide)*p + (wide)*q))                                                           \
    LANE(multiply_##name, type, *p = (type)((wide)*p * (wide)*q))                                                      \
    LANE(maximum_##name, type, *p = *p < *q ? *q : *p)                                                                 \
    LANE(minimum_##name, type, *p = *p < *q ? *p : *q)
INTEGER(EO_INT8, int8_t, uint32_t)
INTEGER(EO_INT16, int16_t, uint32_t)
INTEGER(EO_INT32, int32_t, uint32_t)
INTEGER(EO_INT64, int64_t, uint64_t)
INTEGER(EO_UINT8, uint8_t, uint32_t)
INTEGER(EO_UINT16, uint16_t, uint32_t)
INTEGER(EO_UINT32, uint32_t, uint32_t)
INTEGER(EO_UINT64, uint64_t, uint64_t)

/* NaN wins in extremes. */
#define FLOATING(name, type)                                                                                           \
    LANE(add_##name, type, *p = *p + *q)                                                                               \
    LANE(multiply_##name, type, *p = *p * *q)                                                                          \
    LANE(maximum_##name, type, *p = *p > *q || *p != *p ? *p : *q)                                                     \
    LANE(minimum_##name, type, *p = *p < *q || *p != *p ? *p : *q)
FLOATING(EO_FLOAT32, float)
FLOATING(EO_FLOAT64, double)

static int log2_size(enum eo_dtype dtype)
{
    size_t size = eo_dtype_size(dtype);
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

lane_fn lane_gather(enum eo_dtype dtype)
{
    static const lane_fn gathers[] = {gather_8, gather_16, gather_32, gather_64};
    return gathers[log2_size(dtype)];
}

lane_fn lane_scatter(enum eo_dtype dtype, int64_t reduction)
{
#define ROW(dtype)                                                                                                     \
    [dtype] = {                                                                                                        \
        [EO_SCATTER_ADD] = add_##dtype,                                                                                \
        [EO_SCATTER_MULTIPLY] = multiply_##dtype,                                                                      \
        [EO_SCATTER_MAXIMUM] = maximum_##dtype,                                                                        \
        [EO_SCATTER_MINIMUM] = minimum_##dtype                                                                         \
    }
    static const lane_fn combines[EO_DTYPE_LIMIT][EO_SCATTER_MINIMUM + 1] = {
        ROW(EO_INT8),   ROW(EO_INT16),  ROW(EO_INT32),  ROW(EO_INT64),   ROW(EO_UINT8),
        ROW(EO_UINT16), ROW(EO_UINT32), ROW(EO_UINT64), ROW(EO_FLOAT32), ROW(EO_FLOAT64),
    };
#undef ROW
    static const lane_fn replaces[] = {replace_8, replace_16, replace_32, replace_64};
    return reduction == EO_SCATTER_REPLACE ? replaces[log2_size(dtype)] : combines[dtype][reduction];
}
