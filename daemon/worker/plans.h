/* The plans that clients compiled on this worker's device, by number. Ring thread only. */
#ifndef EO_DAEMON_WORKER_PLANS_H
#define EO_DAEMON_WORKER_PLANS_H

#include "daemon/engine/plan.h"
#include "daemon/worker/worker.h"

enum { PLANS_MAX = 65536 };

struct worker_plans;
int plans_new(struct worker_plans **out, struct eo_error *err);
void plans_free(struct worker_plans *p, struct worker *w); /* NULL is fine */
/* "fallback" of a task's params: "strict" (default) or "report". */
int task_fallback(const struct eo_item *params, enum plan_fallback *out, struct eo_error *err);

#endif
