/* Shape and dtype rules: one infer function per kind of row of ops.def, and the geometry that backends share with them,
 * so that each rule about sizes is written once. Pure functions; thread-safe. */
#ifndef EO_PROTO_SHAPE_RULES_H
#define EO_PROTO_SHAPE_RULES_H

#include "proto/op_schema.h"

/* The infer functions, of type eo_infer_fn: one per name in the column `infer`. Rows of one kind share theirs, so that
 * some are declared more than once. */
#define EO_OP(name_, NAME, id_, summary_, inputs_, n_out_, attrs_, dtypes_, rule_, infer_, ...)                        \
    int eo_infer_##infer_(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,             \
                          const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err);
#include "proto/tables/ops.def"

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

/* Operand i of exactly this rank / of the shape of operand `like`; SHAPE_MISMATCH otherwise. */
int eo_shape_need_rank(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i, int rank,
                       struct eo_error *err);
int eo_shape_need_same(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int like, int i,
                       struct eo_error *err);
/* Operand i has the shape `wanted`; SHAPE_MISMATCH otherwise. */
int eo_shape_need_shape(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                        const struct eo_tensor_desc *wanted, struct eo_error *err);
/* Raises TOO_LARGE: `what` would have n dimensions. */
int eo_shape_too_many_dims(const char *what, int n, struct eo_error *err);
/* The rng operand: int64 [3] = seed, step, row offset (philox.h). */
int eo_shape_need_rng(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int i,
                      struct eo_error *err);
/* The attributes shape and dtype of a creating row become the output. */
int eo_shape_created(const struct eo_op_schema *op, const struct eo_attrs *attrs, struct eo_tensor_desc *out,
                     struct eo_error *err);

/* The words of the attribute reduction of losses. */
enum eo_reduction { EO_REDUCTION_MEAN, EO_REDUCTION_SUM, EO_REDUCTION_NONE, EO_REDUCTION_BATCHMEAN };

/* Longest sequence of rnn, lstm and gru: each step is some nodes of a plan. */
enum { EO_RECURRENT_MAX_STEPS = 8192 };

/* Whether optional operand i is there: it was passed and is not the hole, shape [0]. */
static inline bool eo_input_given(const struct eo_tensor_desc *const *in, int n_in, int i)
{
    return i < n_in && !(in[i]->n_dims == 1 && in[i]->shape[0] == 0);
}

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

/* One dimension of pad: what is cut off, then what is added; size is that of the result. */
struct eo_pad_dim {
    int64_t cut_begin, cut_end, begin, end, size;
};
enum eo_pad_mode { EO_PAD_CONSTANT, EO_PAD_REFLECT, EO_PAD_EDGE, EO_PAD_WRAP };
int eo_pad_dims(const struct eo_op_schema *op, const struct eo_attrs *attrs, const struct eo_tensor_desc *x,
                struct eo_pad_dim out[EO_MAX_DIMS], struct eo_error *err);

/* A diagonal of a matrix of `rows` x `columns`: count elements from (row, column). */
struct eo_diagonal {
    int64_t row, column, count;
};
struct eo_diagonal eo_diagonal(int64_t rows, int64_t columns, int64_t offset);

/* Attribute layout of rows over images. */
enum eo_layout { EO_LAYOUT_LAST, EO_LAYOUT_FIRST };

/* The words of attribute `reduction` of the scattering rows. */
enum eo_scatter_reduction {
    EO_SCATTER_REPLACE,
    EO_SCATTER_ADD,
    EO_SCATTER_MULTIPLY,
    EO_SCATTER_MAXIMUM,
    EO_SCATTER_MINIMUM
};

/* gather_nd and scatter_nd: x is (batch, coordinates..., slice), indices (batch, tuples, n_coords), what they select
 * (batch, tuples, slice). Coordinate c has size[c] entries, stride[c] elements apart. */
struct eo_nd_shape {
    int n_coords;
    int64_t batch, tuples, slice;
    int64_t x_batch; /* elements of x per batch */
    int64_t size[EO_MAX_DIMS], stride[EO_MAX_DIMS];
};
struct eo_nd_shape eo_nd_shape(const struct eo_op_schema *op, const struct eo_attrs *attrs,
                               const struct eo_tensor_desc *x, const struct eo_tensor_desc *indices);

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
