/* What every row of engines.def must define: the slots of struct collective_engine as functions NAME_open, ... */
#ifndef EO_DISTRIBUTED_ENGINES_ENGINES_H
#define EO_DISTRIBUTED_ENGINES_ENGINES_H

#include "distributed/collective.h"

#define COLLECTIVE_ENGINE(name, version, stability, since, summary)                                                    \
    int name##_open(const struct collective_config *config, const int *fds, struct collective_comm **out,              \
                    struct eo_error *err);                                                                             \
    int name##_all_reduce(struct collective_comm *c, void *data, uint64_t count, enum eo_dtype dtype,                  \
                          enum collective_reduce reduce, struct eo_error *err);                                        \
    int name##_broadcast(struct collective_comm *c, void *data, uint64_t bytes, int root, struct eo_error *err);       \
    int name##_barrier(struct collective_comm *c, struct eo_error *err);                                               \
    void name##_abort(struct collective_comm *c, const struct eo_error *cause);                                        \
    void name##_close(struct collective_comm *c);                                                                      \
    uint64_t name##_progress_bytes(const struct collective_comm *c);
#include "distributed/engines.def"

#endif
