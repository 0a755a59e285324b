#include "proto/tensor_desc.h"

#include "proto/base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Product of all dimensions that are not 0, times `size`. Leaving zeros out also bounds every stride of an empty
 * tensor. */
static bool extent_fits(const int64_t *shape, int n_dims, size_t size)
{
    int64_t total = (int64_t)size;

    for (int i = 0; i < n_dims; i++) {
        if (shape[i] != 0 && !eo_mul_i64(total, shape[i], &total)) {
            return false;
        }
    }
    return true;
}

static char *shape_text(const int64_t *shape, int n_dims, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");

    for (int i = 0; i < n_dims && used < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i == 0 ? "" : ", ", shape[i]);
    }
    if (used < size) {
        snprintf(out + used, size - used, "]");
    }
    return out;
}

static int check(enum eo_dtype dtype, const int64_t *shape, int n_dims, struct eo_error *err)
{
    char text[192];

    if (!eo_dtype_valid((int)dtype)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "%d is not a dtype", (int)dtype);
    }
    if (n_dims < 0 || n_dims > EO_MAX_DIMS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "a tensor has 0 to %d dimensions, not %d", EO_MAX_DIMS, n_dims);
    }
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0) {
            return EO_RAISE(err, EO_E_BAD_PARAMS, "dimension %d of shape %s is negative", i,
                            shape_text(shape, n_dims, text, sizeof(text)));
        }
    }
    if (!extent_fits(shape, n_dims, eo_dtype_size(dtype))) {
        int code = EO_RAISE(err, EO_E_TOO_LARGE, "a %s tensor of shape %s does not fit in 64 bits",
                            eo_dtype_name(dtype), shape_text(shape, n_dims, text, sizeof(text)));

        eo_error_detail(err, "Sizes in bytes are at most 2^63 - 1; dimensions of 0 are left out of the product.");
        return code;
    }
    return EO_OK;
}

int eo_tensor_desc_init(struct eo_tensor_desc *d, enum eo_dtype dtype, const int64_t *shape, int n_dims,
                        struct eo_error *err)
{
    int rc = check(dtype, shape, n_dims, err);

    if (rc != EO_OK) {
        return rc;
    }
    memset(d, 0, sizeof(*d));
    d->dtype = (uint8_t)dtype;
    d->n_dims = (uint8_t)n_dims;
    if (n_dims > 0) {
        memcpy(d->shape, shape, (size_t)n_dims * sizeof(*shape));
    }
    return EO_OK;
}

int eo_tensor_desc_check(const struct eo_tensor_desc *d, struct eo_error *err)
{
    return check((enum eo_dtype)d->dtype, d->shape, d->n_dims, err);
}

int64_t eo_tensor_desc_count(const struct eo_tensor_desc *d)
{
    int64_t count = 1;

    for (int i = 0; i < d->n_dims; i++) {
        if (d->shape[i] == 0) {
            return 0;
        }
        count *= d->shape[i];
    }
    return count;
}

uint64_t eo_tensor_desc_bytes(const struct eo_tensor_desc *d)
{
    return (uint64_t)eo_tensor_desc_count(d) * eo_dtype_size((enum eo_dtype)d->dtype);
}

bool eo_tensor_desc_same_shape(const struct eo_tensor_desc *a, const struct eo_tensor_desc *b)
{
    return a->n_dims == b->n_dims && memcmp(a->shape, b->shape, a->n_dims * sizeof(a->shape[0])) == 0;
}

bool eo_tensor_desc_equal(const struct eo_tensor_desc *a, const struct eo_tensor_desc *b)
{
    return a->dtype == b->dtype && eo_tensor_desc_same_shape(a, b);
}

char *eo_tensor_desc_text(const struct eo_tensor_desc *d, char *out, size_t size)
{
    char shape[192];

    snprintf(out, size, "%s %s", eo_dtype_name((enum eo_dtype)d->dtype),
             shape_text(d->shape, EO_MIN(d->n_dims, EO_MAX_DIMS), shape, sizeof(shape)));
    return out;
}

void eo_error_input_desc(struct eo_error *err, const char *name, const struct eo_tensor_desc *d, int marked_dim)
{
    eo_error_input(err, name, eo_dtype_name((enum eo_dtype)d->dtype), d->shape, EO_MIN(d->n_dims, EO_MAX_DIMS),
                   marked_dim);
}

/* Size of d in dimension `from_right` (0 = the last one); dimensions it lacks are 1. */
static int64_t size_from_right(const struct eo_tensor_desc *d, int from_right)
{
    return from_right < d->n_dims ? d->shape[d->n_dims - 1 - from_right] : 1;
}

bool eo_broadcast_dims(const struct eo_tensor_desc *const *in, int n, int64_t *out_shape, int *out_n_dims,
                       struct eo_broadcast_clash *clash)
{
    int n_dims = 0;

    for (int i = 0; i < n; i++) {
        n_dims = EO_MAX(n_dims, in[i]->n_dims);
    }
    for (int r = 0; r < n_dims; r++) {
        int64_t size = 1;
        int from = -1; /* the input that fixed size */

        for (int i = 0; i < n; i++) {
            int64_t s = size_from_right(in[i], r);

            if (s == 1 || s == size) {
                continue;
            }
            if (from >= 0) {
                *clash = (struct eo_broadcast_clash){
                    .a = from, .b = i, .dim_a = in[from]->n_dims - 1 - r, .dim_b = in[i]->n_dims - 1 - r};
                return false;
            }
            size = s;
            from = i;
        }
        out_shape[n_dims - 1 - r] = size;
    }
    *out_n_dims = n_dims;
    return true;
}

int eo_broadcast_shapes(const struct eo_tensor_desc *const *in, int n, int64_t *out_shape, int *out_n_dims,
                        const char *op, struct eo_error *err)
{
    struct eo_broadcast_clash c;
    int64_t shape[EO_MAX_DIMS];
    int n_dims, code;

    if (eo_broadcast_dims(in, n, shape, &n_dims, &c)) {
        memcpy(out_shape, shape, (size_t)n_dims * sizeof(shape[0]));
        *out_n_dims = n_dims;
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_SHAPE_MISMATCH, "shapes do not broadcast: %" PRId64 " and %" PRId64,
                    in[c.a]->shape[c.dim_a], in[c.b]->shape[c.dim_b]);
    eo_error_at_op(err, op, NULL);
    for (int i = 0; i < n; i++) {
        char name[24];

        if (i != c.a && i != c.b && n > EO_ERROR_INPUTS) {
            continue;
        }
        snprintf(name, sizeof(name), "inputs[%d]", i);
        eo_error_input_desc(err, name, in[i], i == c.a ? c.dim_a : i == c.b ? c.dim_b : -1);
    }
    return code;
}
