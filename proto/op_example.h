/* A call of each operation that can be made up without knowing more than its name (tables/examples.def). */
#ifndef EO_PROTO_OP_EXAMPLE_H
#define EO_PROTO_OP_EXAMPLE_H

#include "proto/op_schema.h"

struct eo_op_example {
    int n_in;
    struct eo_tensor_desc in[EO_MAX_NAMED_INPUTS], out[EO_MAX_OUTPUTS];
    struct eo_attrs attrs;
};

/* False when the table has no call of op, or when eo_op_infer refuses it for this dtype. */
bool eo_op_example(const struct eo_op_schema *op, enum eo_dtype dtype, struct eo_op_example *out);

#endif
