#include "proto/graph_build.h"

#include <inttypes.h>
#include <string.h>

void eo_build_init(struct eo_builder *b, struct eo_graph *g, struct eo_error *err)
{
    b->graph = g;
    b->err = err;
    b->status = EO_OK;
}

static eo_value fail(struct eo_builder *b, int code)
{
    b->status = code;
    return EO_NO_VALUE;
}

const struct eo_tensor_desc *eo_build_desc(const struct eo_builder *b, eo_value v)
{
    static const struct eo_tensor_desc empty;

    return v < b->graph->n_values ? eo_graph_desc(b->graph, v) : &empty;
}

eo_value eo_build_op(struct eo_builder *b, enum eo_op op, const eo_value *in, int n_in, const struct eo_attrs *attrs)
{
    eo_value out[EO_MAX_OUTPUTS];
    int rc;

    if (b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    rc = eo_graph_add(b->graph, op, in, n_in, attrs, out, b->err);
    return rc != EO_OK ? fail(b, rc) : out[0];
}

eo_value eo_build_unary(struct eo_builder *b, enum eo_op op, eo_value a)
{
    return eo_build_op(b, op, &a, 1, NULL);
}

eo_value eo_build_binary(struct eo_builder *b, enum eo_op op, eo_value x, eo_value y)
{
    eo_value in[] = {x, y};

    return eo_build_op(b, op, in, 2, NULL);
}

eo_value eo_build_where(struct eo_builder *b, eo_value condition, eo_value x, eo_value y)
{
    eo_value in[] = {condition, x, y};

    return eo_build_op(b, EO_OP_WHERE, in, 3, NULL);
}

/* ---- constants ---- */

/* The bytes of v in a dtype that holds it. */
static void store_scalar(enum eo_dtype dtype, double v, void *out)
{
    size_t size = eo_dtype_size(dtype);
    float f = (float)v;
    uint16_t half;
    int64_t i;
    uint64_t u;

    switch (eo_dtype_kind(dtype)) {
    case EO_KIND_FLOAT:
        half = dtype == EO_FLOAT16 ? eo_half_from_double(v) : eo_bfloat_from_double(v);
        memcpy(out, size == 8 ? (const void *)&v : size == 4 ? (const void *)&f : (const void *)&half, size);
        break;
    case EO_KIND_SIGNED: /* little-endian: the low bytes come first */
        i = (int64_t)v;
        memcpy(out, &i, size);
        break;
    case EO_KIND_UNSIGNED:
    case EO_KIND_BOOL:
        u = (uint64_t)v;
        memcpy(out, &u, size);
        break;
    }
}

eo_value eo_build_scalar(struct eo_builder *b, enum eo_dtype dtype, double v)
{
    struct eo_tensor_desc desc;
    uint8_t bytes[8] = {0};
    eo_value out;
    int rc;

    if (b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    rc = eo_tensor_desc_init(&desc, dtype, NULL, 0, b->err);
    if (rc == EO_OK && !eo_dtype_holds(dtype, v)) {
        rc = EO_RAISE(b->err, EO_E_BAD_VALUE, "%.17g is not a value of %s", v, eo_dtype_name(dtype));
    }
    if (rc == EO_OK) {
        store_scalar(dtype, v, bytes);
        rc = eo_graph_constant(b->graph, &desc, bytes, &out, b->err);
    }
    return rc != EO_OK ? fail(b, rc) : out;
}

eo_value eo_build_scalar_like(struct eo_builder *b, eo_value like, double v)
{
    return b->status != EO_OK ? EO_NO_VALUE : eo_build_scalar(b, (enum eo_dtype)eo_build_desc(b, like)->dtype, v);
}

/* ---- operations with attributes ---- */

/* Attributes of one op on their way to a node: the first error sticks in the builder. */
struct attr_draft {
    struct eo_builder *b;
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
};

static struct attr_draft draft(struct eo_builder *b, enum eo_op op)
{
    struct attr_draft d = {.b = b, .op = eo_op_schema(op)};

    if (d.op == NULL) {
        b->status = b->status != EO_OK
                        ? b->status
                        : EO_RAISE(b->err, EO_E_UNKNOWN_OP, "there is no operation of number %d", (int)op);
    } else {
        eo_attrs_default(d.op, &d.attrs);
    }
    return d;
}

static void set_int(struct attr_draft *d, const char *name, int64_t v)
{
    if (d->b->status == EO_OK) {
        d->b->status = eo_attrs_set_int(d->op, &d->attrs, name, v, d->b->err);
    }
}

static void set_ints(struct attr_draft *d, const char *name, const int64_t *v, int n)
{
    if (d->b->status == EO_OK) {
        d->b->status = eo_attrs_set_ints(d->op, &d->attrs, name, v, n, d->b->err);
    }
}

static void set_float(struct attr_draft *d, const char *name, double v)
{
    if (d->b->status == EO_OK) {
        d->b->status = eo_attrs_set_float(d->op, &d->attrs, name, v, d->b->err);
    }
}

static eo_value finish(const struct attr_draft *d, const eo_value *in, int n_in)
{
    return d->b->status != EO_OK ? EO_NO_VALUE : eo_build_op(d->b, d->op->op, in, n_in, &d->attrs);
}

eo_value eo_build_full(struct eo_builder *b, enum eo_dtype dtype, const int64_t *shape, int n_dims, double v)
{
    struct attr_draft d = draft(b, EO_OP_FULL);

    set_ints(&d, "shape", shape, n_dims);
    set_int(&d, "dtype", dtype);
    set_float(&d, "value", v);
    return finish(&d, NULL, 0);
}

eo_value eo_build_full_like(struct eo_builder *b, eo_value like, double v)
{
    struct eo_tensor_desc desc = *eo_build_desc(b, like);

    return eo_build_full(b, (enum eo_dtype)desc.dtype, desc.shape, desc.n_dims, v);
}

eo_value eo_build_matmul(struct eo_builder *b, eo_value x, eo_value y, bool transpose_x, bool transpose_y)
{
    struct attr_draft d = draft(b, EO_OP_MATMUL);

    set_int(&d, "transpose_a", transpose_x);
    set_int(&d, "transpose_b", transpose_y);
    return finish(&d, (eo_value[]){x, y}, 2);
}

eo_value eo_build_reduce(struct eo_builder *b, enum eo_op op, eo_value x, const int64_t *axes, int n_axes,
                         bool keepdims)
{
    struct attr_draft d = draft(b, op);

    set_ints(&d, "axes", axes, n_axes);
    set_int(&d, "keepdims", keepdims);
    return finish(&d, &x, 1);
}

eo_value eo_build_reshape(struct eo_builder *b, eo_value x, const int64_t *shape, int n_dims)
{
    struct attr_draft d = draft(b, EO_OP_RESHAPE);

    set_ints(&d, "shape", shape, n_dims);
    return finish(&d, &x, 1);
}

eo_value eo_build_transpose(struct eo_builder *b, eo_value x, const int64_t *perm, int n_dims)
{
    struct attr_draft d = draft(b, EO_OP_TRANSPOSE);

    set_ints(&d, "perm", perm, n_dims);
    return finish(&d, &x, 1);
}

eo_value eo_build_expand(struct eo_builder *b, eo_value x, const int64_t *shape, int n_dims)
{
    struct attr_draft d = draft(b, EO_OP_EXPAND);

    set_ints(&d, "shape", shape, n_dims);
    return finish(&d, &x, 1);
}

eo_value eo_build_cast(struct eo_builder *b, eo_value x, enum eo_dtype dtype)
{
    struct attr_draft d;

    if (b->status == EO_OK && eo_build_desc(b, x)->dtype == dtype) {
        return x;
    }
    d = draft(b, EO_OP_CAST);
    set_int(&d, "dtype", dtype);
    return finish(&d, &x, 1);
}

eo_value eo_build_clip(struct eo_builder *b, eo_value x, double low, double high)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_CLIP);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_float(op, &attrs, "low", low, b->err);
    }
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_float(op, &attrs, "high", high, b->err);
    }
    return eo_build_op(b, EO_OP_CLIP, &x, 1, &attrs);
}

eo_value eo_build_sum_to(struct eo_builder *b, eo_value g, eo_value like)
{
    const struct eo_tensor_desc *from = eo_build_desc(b, g);
    struct eo_tensor_desc to = *eo_build_desc(b, like); /* a copy: values move when the graph grows */
    int64_t axes[EO_MAX_DIMS];
    int lead = from->n_dims - to.n_dims, n = 0;
    eo_value summed;

    if (b->status != EO_OK) {
        return EO_NO_VALUE;
    }
    if (g >= b->graph->n_values || like >= b->graph->n_values) {
        return fail(b, EO_RAISE(b->err, EO_E_BAD_GRAPH, "there is no value %" PRIu32, EO_MAX(g, like)));
    }
    for (int i = 0; i < from->n_dims; i++) {
        if (i < lead || (i - lead >= 0 && to.shape[i - lead] == 1 && from->shape[i] != 1)) {
            axes[n++] = i;
        }
    }
    summed = n == 0 ? g : eo_build_reduce(b, EO_OP_SUM, g, axes, n, true);
    if (lead > 0) {
        summed = eo_build_reshape(b, summed, to.shape, to.n_dims);
    }
    if (b->status == EO_OK && !eo_tensor_desc_same_shape(eo_build_desc(b, summed), &to)) {
        char a[192], c[192];

        return fail(b, EO_RAISE(b->err, EO_E_SHAPE_MISMATCH, "%s cannot be summed to the shape of %s",
                                eo_tensor_desc_text(eo_build_desc(b, g), a, sizeof(a)),
                                eo_tensor_desc_text(&to, c, sizeof(c))));
    }
    return summed;
}
