/* One device with its arena and a bounded cache of plans keyed by content. Belongs to one thread. */
#ifndef EO_DAEMON_ENGINE_EXECUTOR_H
#define EO_DAEMON_ENGINE_EXECUTOR_H

#include "daemon/engine/plan.h"

struct executor;
int executor_new(struct eo_device *dev, struct executor **out, struct eo_error *err); /* does not own dev */
void executor_free(struct executor *x);
struct eo_device *executor_device(struct executor *x);
/* Makes the arena large enough for p; plans used in steps are reserved before the first step. */
int executor_reserve(struct executor *x, const struct plan *p, struct eo_error *err);
int executor_run(struct executor *x, const struct plan *p, void *const *buffers, struct plan_profile *profile,
                 struct eo_error *err);

/* Cache for interactive graphs and single ops: compiles on a miss, evicts the least recently used above `capacity`.
 * key: eo_graph_hash plus whatever else decides the plan. The returned plan belongs to the cache and stays valid until
 * the next executor_cached call. */
int executor_cached(struct executor *x, const char *key, const struct plan_spec *spec, const struct plan **out,
                    struct eo_error *err);
struct executor_counters {
    uint64_t hits, misses, evictions, runs, launches, fallbacks;
};
struct executor_counters executor_counters(const struct executor *x);

/* One op on its own: selects, runs, keeps the selection in the same cache. in/out are device pointers. */
int executor_run_op(struct executor *x, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const struct eo_tensor_desc *const *in_desc, void *const *in, int n_in, void *const *out,
                    enum plan_fallback fallback, char *out_fallback, size_t fallback_size, struct eo_error *err);

#endif
