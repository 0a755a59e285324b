#include "backends/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

VECTOR_DECLARE(baseline)
#ifdef EO_HAVE_ISA_AVX2
VECTOR_DECLARE(avx2)
#endif
#ifdef EO_HAVE_ISA_AVX512
VECTOR_DECLARE(avx512)
#endif

#define SET(isa, text)                                                                                                 \
    {                                                                                                                  \
        .name = #isa, .description = (text), .elementwise = &vector_elementwise_##isa,                                 \
        .integer = &vector_integer_##isa, .math = &vector_math_##isa, .cast = &vector_cast_##isa,                      \
        .reduce = &vector_reduce_##isa, .update = &vector_update_##isa, .random = &vector_random_##isa,                \
        .block = &vector_block_##isa, .product = {                                                                     \
            [EO_FLOAT32] = product_tile_f32_##isa,                                                                     \
            [EO_FLOAT64] = product_tile_f64_##isa,                                                                     \
            [EO_INT32] = product_tile_i32_##isa,                                                                       \
            [EO_INT64] = product_tile_i64_##isa,                                                                       \
            [EO_UINT32] = product_tile_i32_##isa, /* wrapping products have the same bits */                           \
            [EO_UINT64] = product_tile_i64_##isa                                                                       \
        }                                                                                                              \
    }

#if defined(__x86_64__)
#define BASELINE "SSE2"
#else
#define BASELINE "the compiler's default"
#endif

static const struct vector_set sets[] = {
    SET(baseline, BASELINE),
#ifdef EO_HAVE_ISA_AVX2
    SET(avx2, "AVX2+FMA"),
#endif
#ifdef EO_HAVE_ISA_AVX512
    SET(avx512, "AVX-512"),
#endif
};

int isa_count(void)
{
    return (int)EO_COUNT_OF(sets);
}

const struct vector_set *isa_at(int index)
{
    return &sets[index];
}

bool isa_runs_here(int index)
{
    const char *name = sets[index].name;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx2") == 0)
        return avx2;
    if (strcmp(name, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return strcmp(name, "baseline") == 0;
}

static int choose_named(const char *name, const struct vector_set **out, struct eo_error *err)
{
    char quoted[64];
    for (int i = 0; i < isa_count(); i++) {
        if (strcmp(sets[i].name, name) != 0)
            continue;
        if (!isa_runs_here(i))
            return EO_RAISE(err, EO_E_NO_DEVICE, "EVERYO_CPU_ISA names %s, which this processor does not have", name);
        *out = &sets[i];
        return EO_OK;
    }
    int rc = EO_RAISE(err, EO_E_NO_DEVICE, "EVERYO_CPU_ISA is %s, which is not compiled in",
                      eo_quote(name, strlen(name), quoted, sizeof quoted));
    eo_error_hint(err, "Unset it, or set it to baseline%s%s.", isa_count() > 1 ? " or avx2" : "",
                  isa_count() > 2 ? " or avx512" : "");
    return rc;
}

int isa_choose(const struct vector_set **out, struct eo_error *err)
{
    const char *name = getenv("EVERYO_CPU_ISA");
    if (name && name[0])
        return choose_named(name, out, err);
    for (int i = isa_count() - 1; i > 0; i--) {
        if (isa_runs_here(i)) {
            *out = &sets[i];
            return EO_OK;
        }
    }
    *out = &sets[0];
    return EO_OK;
}
