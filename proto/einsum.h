/* The equation of an einsum row, read against the shapes of its operands: "ij,jk->ik", "...ij,...jk", "ii->i". Letters
 * name dimensions, upper and lower case apart; "..." stands for what the letters leave, aligned at the last one; spaces
 * mean nothing. Without "->" the result has the dimensions of "...", then the letters that occur once, in the order of
 * their codes. What the result does not name is summed. A dimension of 1 is repeated where others of its name are
 * larger. Pure; thread-safe. */
#ifndef EO_PROTO_EINSUM_H
#define EO_PROTO_EINSUM_H

#include "proto/op_schema.h"

enum {
    EO_EINSUM_OPERANDS = 8,
    EO_EINSUM_LETTERS = 52,                             /* labels 0..51: A to Z, a to z */
    EO_EINSUM_LABELS = EO_EINSUM_LETTERS + EO_MAX_DIMS, /* 52 + i: dimension i of "...", counted from the last */
    EO_EINSUM_NAME = 20                                 /* bytes of a label as text */
};

struct eo_einsum {
    int n_operands, n_out;
    uint8_t label[EO_EINSUM_OPERANDS][EO_MAX_DIMS]; /* of each dimension */
    uint8_t out[EO_MAX_DIMS];
    int64_t size[EO_EINSUM_LABELS];
    /* Bit l: the operand has label l in its full size; bits of what the result, or an operand behind this one, needs.
     */
    uint64_t has[EO_EINSUM_OPERANDS], needed[EO_EINSUM_OPERANDS];
};

/* Errors name the character of the equation and the operand: BAD_ATTRIBUTE, SHAPE_MISMATCH. Operands are worked on from
 * left to right; what two of them leave must fit in EO_MAX_DIMS dimensions. */
int eo_einsum_read(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_einsum *out, struct eo_error *err);

#endif
