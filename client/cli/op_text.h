/* An operation's row as text, for `everyo ops` and the reference page. */
#ifndef EO_CLIENT_CLI_OP_TEXT_H
#define EO_CLIENT_CLI_OP_TEXT_H

#include "proto/op_schema.h"

/* Both return out, cut to size. */
char *op_text_call(const struct eo_op_schema *op, char *out, size_t size);      /* "a, b; transpose_a, transpose_b" */
char *op_text_fallback(const struct eo_attr_schema *a, char *out, size_t size); /* "required", "default 0.5" */
const char *op_text_kind(enum eo_attr_kind kind);                               /* "int" */
const char *op_text_gradient(enum eo_gradient gradient);                       /* "no", "yes", "yes, of its lowering" */
char *op_text_choices(const struct eo_attr_schema *a, char *out, size_t size); /* "a, b, c"; empty for other kinds */
const char *op_text_rule(enum eo_dtype_rule rule);                             /* how dtypes follow from each other */
const char *op_text_stability(enum eo_stability stability);

#endif
