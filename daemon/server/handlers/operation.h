/* Shared by op.run and plan.run: outputs of a call and the task that writes them. */
#ifndef EO_DAEMON_SERVER_HANDLERS_OPERATION_H
#define EO_DAEMON_SERVER_HANDLERS_OPERATION_H

#include "daemon/server/session.h"

/* "strict" (default) or "report". */
int operation_fallback(const struct request *r, char out[8], struct eo_error *err);
/* A readable or pending input; POISONED with the first cause when its producer failed; SESSION_AGAIN while its shape is
 * not known (nothing else may have been done for the request by then). what: "input 2". */
int operation_input(const struct request *r, const struct eo_item *handle, const char *what, struct tensor **out,
                    struct eo_error *err);
/* Makes pending tensors under the handles. On failure those made so far are poisoned, so that none waits for ever. */
int operation_outputs(struct session *x, struct device *d, const struct eo_tensor_desc *desc,
                      const struct handle *handles, uint32_t n, struct tensor **out, struct eo_error *err);
/* device_task_new; on failure the outputs are poisoned. */
int operation_task(struct request *r, struct device *d, enum eo_message m, struct tensor *const *in, uint32_t n_in,
                   struct tensor *const *out, uint32_t n_out, struct device_task **out_task, struct eo_error *err);

#endif
