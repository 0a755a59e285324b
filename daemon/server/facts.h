/* What only a worker can tell: backends with their six facts, the BLAS in use, the device. */
#ifndef EO_DAEMON_SERVER_FACTS_H
#define EO_DAEMON_SERVER_FACTS_H

#include "daemon/server/device.h"

/* result: the map of task.facts, during the call. Exactly one call, now or later. err: no worker could be asked, and
 * why. Without self_check, a worker that computes right now is not waited for when it has answered before. */
typedef void (*facts_fn)(void *ctx, const struct eo_error *err, const struct eo_item *result);
int facts_ask(struct server *s, bool self_check, facts_fn fn, void *ctx, struct eo_error *err);

#endif
