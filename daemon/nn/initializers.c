/* Initial values of parameters: uniform and normal as the ops of those names draw them (proto/philox.h), so that a seed
 * gives the same bits on every machine. */
#include "daemon/nn/model.h"

#include "daemon/nn/streams.h"
#include "proto/philox.h"

#include <math.h>
#include <string.h>

enum spread_kind { SPREAD_UNIFORM, SPREAD_NORMAL, SPREAD_CONSTANT };

#define INITIALIZER(name, NAME, alias, kind, formula, summary)                                                         \
    static double spread_##name(double fan_in, double fan_out)                                                         \
    {                                                                                                                  \
        EO_UNUSED(fan_in);                                                                                             \
        EO_UNUSED(fan_out);                                                                                            \
        return (formula);                                                                                              \
    }
#include "daemon/nn/initializers.def"

static const struct {
    const char *name, *alias, *summary;
    enum spread_kind kind;
    double (*spread)(double fan_in, double fan_out);
} rows[] = {
#define INITIALIZER(name_, NAME, alias_, kind_, formula, summary_)                                                     \
    {.name = #name_, .alias = (alias_), .summary = (summary_), .kind = SPREAD_##kind_, .spread = spread_##name_},
#include "daemon/nn/initializers.def"
};

int initializer_count(void)
{
    return (int)EO_COUNT_OF(rows);
}

const char *initializer_name(int i)
{
    return i >= 0 && i < initializer_count() ? rows[i].name : NULL;
}

const char *initializer_summary(int i)
{
    return i >= 0 && i < initializer_count() ? rows[i].summary : NULL;
}

int initializer_find(const char *name)
{
    for (int i = 0; i < initializer_count() && name[0] != '\0'; i++) {
        if (strcmp(rows[i].name, name) == 0 || strcmp(rows[i].alias, name) == 0) {
            return i;
        }
    }
    return -1;
}

static double draw(enum spread_kind kind, enum eo_dtype dtype, double spread, int64_t seed, uint32_t stream,
                   uint64_t index)
{
    switch (kind) {
    case SPREAD_UNIFORM:
        return eo_rng_uniform(seed, 0, stream, index, dtype, -spread, spread);
    case SPREAD_NORMAL:
        return eo_rng_normal(seed, 0, stream, index, 0, spread);
    case SPREAD_CONSTANT:
        break;
    }
    return spread;
}

int model_init_param(const struct model_param *p, uint64_t seed, void *out, struct eo_error *err)
{
    int row = initializer_find(p->initializer);
    uint32_t stream = STREAM_INIT + (uint32_t)p->stream;
    uint64_t count = (uint64_t)eo_tensor_desc_count(&p->desc);
    float *f32 = out;
    double *f64 = out;
    double spread;

    if (row < 0 || (p->desc.dtype != EO_FLOAT32 && p->desc.dtype != EO_FLOAT64)) {
        return EO_BUG(err, "parameter %s: initializer %s, dtype %s", p->name, p->initializer,
                      eo_dtype_name((enum eo_dtype)p->desc.dtype));
    }
    spread = rows[row].spread((double)EO_MAX(p->fan_in, 1), (double)EO_MAX(p->fan_out, 1));
    for (uint64_t i = 0; i < count; i++) {
        double v = draw(rows[row].kind, (enum eo_dtype)p->desc.dtype, spread, (int64_t)seed, stream, i);

        if (p->desc.dtype == EO_FLOAT32) {
            f32[i] = (float)v;
        } else {
            f64[i] = v;
        }
    }
    return EO_OK;
}
