/* The loops that element-wise files of this folder are made of: a row is one expression. */
#ifndef EO_BACKENDS_CPU_VECTOR_LOOPS_H
#define EO_BACKENDS_CPU_VECTOR_LOOPS_H

#include "backends/cpu/vector/vector.h"

#define MAP_PARAMETERS int64_t n, void *out, const void *const *in, unsigned scalars, const struct vector_args *args
#define UNUSED_PARAMETERS ((void)args, (void)scalars)

/* One operand: r[i] = expression of x. */
#define UNARY(op, suffix, T, R, expression)                                                                            \
    static void op##_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        R *r = out;                                                                                                    \
        const T *px = in[0];                                                                                           \
        UNUSED_PARAMETERS;                                                                                             \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            const T x = px[i];                                                                                         \
            r[i] = (R)(expression);                                                                                    \
        }                                                                                                              \
    }

/* Two operands, either of which can be a scalar. */
#define BINARY(op, suffix, T, R, expression)                                                                           \
    static void op##_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        R *r = out;                                                                                                    \
        const T *pa = in[0], *pb = in[1];                                                                              \
        UNUSED_PARAMETERS;                                                                                             \
        if (scalars == 1) {                                                                                            \
            const T a = pa[0];                                                                                         \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T b = pb[i];                                                                                     \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        } else if (scalars == 2) {                                                                                     \
            const T b = pb[0];                                                                                         \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T a = pa[i];                                                                                     \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        } else {                                                                                                       \
            VECTOR_FOR(i, n)                                                                                           \
            {                                                                                                          \
                const T a = pa[i], b = pb[i];                                                                          \
                r[i] = (R)(expression);                                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Two operands, where the work on an element is no vector's: one loop for all mixes of scalars. */
#define BINARY_PLAIN(op, suffix, T, R, expression)                                                                     \
    static void op##_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        R *r = out;                                                                                                    \
        const T *pa = in[0], *pb = in[1];                                                                              \
        const int64_t step_a = scalars & 1 ? 0 : 1, step_b = scalars & 2 ? 0 : 1;                                      \
        (void)args;                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T a = pa[i * step_a], b = pb[i * step_b];                                                            \
            r[i] = (R)(expression);                                                                                    \
        }                                                                                                              \
    }

/* NaN is neither below low nor above high. */
#define CLIP(suffix, T, field)                                                                                         \
    static void clip_##suffix(MAP_PARAMETERS)                                                                          \
    {                                                                                                                  \
        T *r = out;                                                                                                    \
        const T *px = in[0];                                                                                           \
        const T low = (T)args->low.field, high = (T)args->high.field;                                                  \
        (void)scalars;                                                                                                 \
        VECTOR_FOR(i, n)                                                                                               \
        {                                                                                                              \
            T x = px[i];                                                                                               \
            x = x < low ? low : x;                                                                                     \
            r[i] = x > high ? high : x;                                                                                \
        }                                                                                                              \
    }

/* A row of the tables: one loop per dtype. */
#define FOR_FLOATS(op)                                                                                                 \
    {                                                                                                                  \
        [EO_FLOAT32] = op##_f32, [EO_FLOAT64] = op##_f64                                                               \
    }

#endif
