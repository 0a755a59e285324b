/* Attribute values one by one: what attrs.c and the wire form in schema_codec.c share. */
#ifndef EO_PROTO_ATTRS_H
#define EO_PROTO_ATTRS_H

#include "proto/op_schema.h"

#include <limits.h>

#define EO_ATTR_ANY_KIND UINT_MAX
const char *eo_attr_kind_text(enum eo_attr_kind kind); /* "an integer" */
/* Index of an attribute whose kind is in `kinds` (bits 1 << EO_ATTR_x); BAD_ATTRIBUTE with a suggestion otherwise. */
int eo_attr_need(const struct eo_op_schema *op, const char *name, unsigned kinds, int *out, struct eo_error *err);
/* The value of attribute `index`, a CHOICE or TEXT, from its text; BAD_ATTRIBUTE. */
int eo_attr_read_text(const struct eo_op_schema *op, int index, const char *text, size_t length,
                      struct eo_attr_value *out, struct eo_error *err);
/* Checks v against the row and stores it; a is untouched on failure. */
int eo_attr_store(const struct eo_op_schema *op, struct eo_attrs *a, int index, const struct eo_attr_value *v,
                  struct eo_error *err);
/* The bytes that are the value: two values of a kind are equal when these are. NaNs as given. */
const void *eo_attr_value_data(enum eo_attr_kind kind, const struct eo_attr_value *v, size_t *out_size);
bool eo_attr_value_equal(const struct eo_attr_schema *s, const struct eo_attr_value *a, const struct eo_attr_value *b);

#endif
