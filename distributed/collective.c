#include "distributed/collective.h"

#include "distributed/engines/engines.h"
#include "proto/base/compiler.h"

#include <string.h>

static const struct collective_engine engines[] = {
#define COLLECTIVE_ENGINE(name_, version_, stability_, since_, summary_)                                               \
    {                                                                                                                  \
        .abi = COLLECTIVE_ABI,                                                                                         \
        .version = (version_),                                                                                         \
        .name = #name_,                                                                                                \
        .summary = (summary_),                                                                                         \
        .stability = (stability_),                                                                                     \
        .since = (since_),                                                                                             \
        .open = name_##_open,                                                                                          \
        .all_reduce = name_##_all_reduce,                                                                              \
        .broadcast = name_##_broadcast,                                                                                \
        .barrier = name_##_barrier,                                                                                    \
        .abort = name_##_abort,                                                                                        \
        .close = name_##_close,                                                                                        \
        .progress_bytes = name_##_progress_bytes,                                                                      \
    },
#include "distributed/engines.def"
};

int collective_engine_count(void)
{
    return (int)EO_COUNT_OF(engines);
}

const struct collective_engine *collective_engine_at(int i)
{
    return i >= 0 && i < collective_engine_count() ? &engines[i] : NULL;
}

const struct collective_engine *collective_engine_find(const char *name)
{
    for (int i = 0; i < collective_engine_count(); i++) {
        if (strcmp(engines[i].name, name) == 0) {
            return &engines[i];
        }
    }
    return NULL;
}
