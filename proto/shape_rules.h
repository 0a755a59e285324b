/* Shape and dtype rules: one infer function per kind of row of ops.def, and the geometry that backends share with them,
 * so that each rule about sizes is written once. Pure functions; thread-safe. */
#ifndef EO_PROTO_SHAPE_RULES_H
#define EO_PROTO_SHAPE_RULES_H

#include "proto/op_schema.h"

/* The list of infer functions: eo_infer_<x>, all of type eo_infer_fn. A row that names another one does not compile. */
/* clang-format off */
#define EO_FOR_EACH_INFER(X)                                                                                           \
    X(full) X(uniform) X(normal) X(elementwise) X(clip) X(cast) X(where)                                               \
    X(matmul) X(linear) X(reduce) X(reduce_some) X(arg_reduce) X(along_axis)                                           \
    X(reshape) X(transpose) X(expand) X(concatenate) X(slice) X(slice_scatter) X(gather) X(scatter_add) X(one_hot)     \
    X(cross_entropy) X(dropout) X(sum_squares) X(sgd_update) X(adam_update)
/* clang-format on */
#define EO_DECLARE_INFER(x)                                                                                            \
    int eo_infer_##x(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,                  \
                     const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err);
EO_FOR_EACH_INFER(EO_DECLARE_INFER)
#undef EO_DECLARE_INFER

/* ---- what rules share: errors that show the operands ---- */

/* Lists the operands in err, dimension dim_i of operand i and dim_j of operand j marked (-1 = none). Of more than
 * EO_ERROR_INPUTS operands only i, j and the first ones are listed. */
void eo_shape_mark(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i, int dim_i,
                   int j, int dim_j, struct eo_error *err);
/* Operand i has a dtype of the set / the same dtype as operand `like`; DTYPE_MISMATCH otherwise. */
int eo_shape_need_dtype(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                        eo_dtype_set set, struct eo_error *err);
int eo_shape_need_same_dtype(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int like,
                             int i, struct eo_error *err);

/* ---- geometry for kernels: only for operands that eo_op_infer accepted ---- */

/* axis -rank..rank-1 -> 0..rank-1; BAD_ATTRIBUTE otherwise. */
int eo_normalize_axis(int64_t axis, int n_dims, int *out_axis, const char *op, struct eo_error *err);

/* One dimension of a slice, as Python's slice.indices: element i of the result is element first + i * step. */
struct eo_slice_dim {
    int64_t first, step, count;
};
/* step != 0 */
struct eo_slice_dim eo_slice_resolve(int64_t start, int64_t stop, int64_t step, int64_t size);
/* All dimensions of a slice or slice_scatter row. Errors: BAD_ATTRIBUTE. */
int eo_slice_dims(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                  struct eo_slice_dim out[EO_MAX_DIMS], struct eo_error *err);

/* (batch..., m, k) @ (batch..., k, n): after the transposes and with 1-D operands promoted (a to (1, k), b to (k, 1)).
 */
struct eo_matmul_shape {
    int64_t m, k, n;
    int n_batch;
    int64_t batch[EO_MAX_DIMS]; /* broadcast batch dimensions of the result */
};
int eo_matmul_shape(const struct eo_op_schema *op, const struct eo_tensor_desc *a, const struct eo_tensor_desc *b,
                    bool transpose_a, bool transpose_b, struct eo_matmul_shape *out, struct eo_error *err);

#endif
