/* A small valid call of an operation, to ask a device whether it supports the operation. */
#ifndef EO_DAEMON_WORKER_EXAMPLES_H
#define EO_DAEMON_WORKER_EXAMPLES_H

#include "proto/op_schema.h"

enum { EXAMPLE_MAX_IN = 10 };

struct example {
    int n_in;
    struct eo_tensor_desc in[EXAMPLE_MAX_IN];
    struct eo_attrs attrs;
};

/* A call with dtype wherever the row leaves the choice; out_desc has room for EO_MAX_OUTPUTS. By the row of
 * examples.def when there is one, else by trying a few shapes and dtypes. False: none was found, or the dtype is
 * refused. */
bool example_find(const struct eo_op_schema *op, enum eo_dtype dtype, struct example *out,
                  struct eo_tensor_desc *out_desc);

#endif
