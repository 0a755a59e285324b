/* Applies a function of elements to every element of the operands, broadcast to the result's shape. */
#ifndef EO_BACKENDS_REFERENCE_EACH_H
#define EO_BACKENDS_REFERENCE_EACH_H

#include "backends/backend.h"
#include "backends/reference/element.h"

typedef double (*float_unary_fn)(double x);
typedef struct element (*unary_fn)(struct element x);
typedef struct element (*binary_fn)(struct element a, struct element b);

int each_float(const struct eo_launch *l, float_unary_fn f); /* operand and result share a float dtype */
int each_unary(const struct eo_launch *l, unary_fn f);
int each_binary(const struct eo_launch *l, binary_fn f);

#endif
