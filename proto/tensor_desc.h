/* What a tensor is, without its bytes: dtype and shape. Always dense, C order. A 0-dim tensor has one element;
 * a dimension of 0 makes an empty tensor, which every op accepts. */
#ifndef EO_PROTO_TENSOR_DESC_H
#define EO_PROTO_TENSOR_DESC_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/dtype.h"

enum { EO_MAX_DIMS = 8 };

struct eo_item;

struct eo_tensor_desc {
    uint8_t dtype; /* enum eo_dtype */
    uint8_t n_dims;
    int64_t shape[EO_MAX_DIMS]; /* unused entries are 0 */
};

/* Checks dtype, rank, signs, and that elements and bytes fit in int64. Errors: BAD_PARAMS, TOO_LARGE. */
int eo_tensor_desc_init(struct eo_tensor_desc *d, enum eo_dtype dtype, const int64_t *shape, int n_dims,
                        struct eo_error *err);
int eo_tensor_desc_check(const struct eo_tensor_desc *d, struct eo_error *err);
/* Only for checked descriptors: these cannot overflow. */
int64_t eo_tensor_desc_count(const struct eo_tensor_desc *d);
uint64_t eo_tensor_desc_bytes(const struct eo_tensor_desc *d);
bool eo_tensor_desc_equal(const struct eo_tensor_desc *a, const struct eo_tensor_desc *b);
bool eo_tensor_desc_same_shape(const struct eo_tensor_desc *a, const struct eo_tensor_desc *b);
char *eo_tensor_desc_text(const struct eo_tensor_desc *d, char *out,
                          size_t size); /* "float32 [32, 784]"; returns out */
void eo_error_input_desc(struct eo_error *err, const char *name, const struct eo_tensor_desc *d, int marked_dim);

/* Wire form: map {dtype: "float32", shape: [..]}. */
void eo_tensor_desc_pack(struct eo_bytes *b, const struct eo_tensor_desc *d);
void eo_tensor_desc_pack_fields(struct eo_bytes *b, const struct eo_tensor_desc *d); /* the two pairs, inside a map */
int eo_tensor_desc_unpack(const struct eo_item *map, struct eo_tensor_desc *out, struct eo_error *err);

/* Where broadcasting failed: dimension dim_a of input a against dimension dim_b of input b. */
struct eo_broadcast_clash {
    int a, b, dim_a, dim_b;
};
/* NumPy broadcasting of n descriptors' shapes (n = 0 gives the 0-dim shape); out_shape has room for EO_MAX_DIMS. The
 * first form only answers, the second raises SHAPE_MISMATCH; op names the error. */
bool eo_broadcast_dims(const struct eo_tensor_desc *const *in, int n, int64_t *out_shape, int *out_n_dims,
                       struct eo_broadcast_clash *clash);
int eo_broadcast_shapes(const struct eo_tensor_desc *const *in, int n, int64_t *out_shape, int *out_n_dims,
                        const char *op, struct eo_error *err);

#endif
