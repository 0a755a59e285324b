/* Attributes as text: "axis=1, keepdims=true, shape=[2, 3], dtype=float32". */
#ifndef EO_CLIENT_LIB_ATTRS_TEXT_H
#define EO_CLIENT_LIB_ATTRS_TEXT_H

#include "proto/op_schema.h"

/* text NULL or empty gives the defaults; a missing required attribute is BAD_ATTRIBUTE, as is any syntax error. */
int eo_attrs_text_parse(const char *text, const struct eo_op_schema *op, struct eo_attrs *out, struct eo_error *err);

#endif
