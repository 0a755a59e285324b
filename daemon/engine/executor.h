/* One device with its arena and a bounded cache of plans keyed by content. Belongs to one thread. */
#ifndef EO_DAEMON_ENGINE_EXECUTOR_H
#define EO_DAEMON_ENGINE_EXECUTOR_H

#include "daemon/engine/plan.h"

/* Bounds of the cache; what is over them goes, least recently used first. */
enum { EXECUTOR_MAX_PLANS = 256, EXECUTOR_MAX_CONSTANT_BYTES = 128 << 20 };

struct executor;
/* Does not own dev. Errors: NO_MEMORY. */
int executor_new(struct eo_device *dev, struct executor **out, struct eo_error *err);
void executor_free(struct executor *x); /* waits for queued work; NULL is fine */
struct eo_device *executor_device(struct executor *x);

/* Makes the arena large enough for p; plans used in steps are reserved before the first step, so that running allocates
 * nothing. Waits for queued work when the arena must grow. Errors: DEVICE_MEMORY, what was queued. */
int executor_reserve(struct executor *x, const struct plan *p, struct eo_error *err);
/* plan_run in the executor's arena (reserving when that was not done). */
int executor_run(struct executor *x, const struct plan *p, void *const *buffers, struct plan_profile *profile,
                 struct eo_error *err);

/* Cache for interactive graphs and single ops: compiles on a miss. key: eo_graph_hash plus whatever else decides the
 * plan (places, fallback policy). The returned plan belongs to the cache and stays valid until the next executor_cached
 * or executor_run_op. Errors: those of plan_compile; nothing is cached then. */
int executor_cached(struct executor *x, const char *key, const struct plan_spec *spec, const struct plan **out,
                    struct eo_error *err);

struct executor_counters {
    uint64_t hits, misses, evictions; /* of the cache */
    uint64_t runs, launches;          /* plans run, kernels in them */
    uint64_t fallbacks;               /* of the launches: on the reference backend */
};
struct executor_counters executor_counters(const struct executor *x);

/* One op on its own, with its selection kept in the same cache. in/out are device pointers of the descriptors' sizes
 * (out: as eo_op_infer says); results may not overlap operands. out_fallback (NULL allowed) receives "" or what ran
 * elsewhere and why. Errors: those of eo_op_infer, plan_compile and plan_run. */
int executor_run_op(struct executor *x, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const struct eo_tensor_desc *const *in_desc, void *const *in, int n_in, void *const *out,
                    enum plan_fallback fallback, char *out_fallback, size_t fallback_size, struct eo_error *err);

/* The same for rows whose result's shape depends on data (EO_OPF_DATA_SHAPE), which no plan may hold: selects and runs
 * at once, and waits for the result. out has room for what eo_op_infer says; actual receives what it really is, no
 * larger, with its elements at the begin of out. */
int executor_run_sized_op(struct executor *x, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                          const struct eo_tensor_desc *const *in_desc, void *const *in, int n_in, void *out,
                          struct eo_tensor_desc *actual, enum plan_fallback fallback, char *out_fallback,
                          size_t fallback_size, struct eo_error *err);

#endif
