#include "daemon/formats/onnx/site.h"

#include "proto/shape_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failing ---- */

bool site_ok(const struct onnx_site *s)
{
    return s->b->status == EO_OK;
}

void site_fail(struct onnx_site *s, int code, const char *fmt, ...)
{
    char text[300];
    va_list args;

    if (!site_ok(s)) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    s->b->status = EO_RAISE(s->b->err, code, "%s", text);
}

/* Code of a called function becomes the site's. */
static bool keep(struct onnx_site *s, int rc)
{
    s->b->status = site_ok(s) ? rc : s->b->status;
    return site_ok(s);
}

/* ---- operands ---- */

bool site_has(const struct onnx_site *s, int i)
{
    return i < s->n_in && s->in[i] != EO_NO_VALUE;
}

bool site_wants(const struct onnx_site *s, int output)
{
    return output < s->n_out && s->node->out[output][0] != '\0';
}

eo_value site_maybe(const struct onnx_site *s, int i)
{
    return site_has(s, i) ? s->in[i] : EO_NO_VALUE;
}

eo_value site_in(struct onnx_site *s, int i)
{
    if (!site_has(s, i)) {
        site_fail(s, EO_E_BAD_ARITY, "%s needs operand %d, which is not given", s->node->op_type, i);
    }
    return site_maybe(s, i);
}

const struct eo_tensor_desc *site_desc(const struct onnx_site *s, eo_value v)
{
    return eo_build_desc(s->b, v);
}

enum eo_dtype site_dtype(const struct onnx_site *s, eo_value v)
{
    return (enum eo_dtype)site_desc(s, v)->dtype;
}

int site_rank(const struct onnx_site *s, eo_value v)
{
    return site_desc(s, v)->n_dims;
}

static int64_t integer_at(const struct build_known *k, int64_t i)
{
    size_t size = eo_dtype_size((enum eo_dtype)k->desc.dtype);
    bool is_signed = eo_dtype_kind((enum eo_dtype)k->desc.dtype) == EO_KIND_SIGNED;
    uint64_t v = 0;

    memcpy(&v, (const char *)k->data + (size_t)i * size, size); /* little-endian */
    if (is_signed && size < 8 && (v >> (8 * size - 1)) != 0) {
        v |= UINT64_MAX << (8 * size);
    }
    return (int64_t)v;
}

static double real_at(const struct build_known *k)
{
    uint16_t half;
    float f;
    double d;

    switch (k->desc.dtype) {
    case EO_FLOAT64:
        memcpy(&d, k->data, sizeof(d));
        return d;
    case EO_FLOAT32:
        memcpy(&f, k->data, sizeof(f));
        return (double)f;
    case EO_FLOAT16:
    case EO_BFLOAT16:
        memcpy(&half, k->data, sizeof(half));
        return (double)(k->desc.dtype == EO_FLOAT16 ? eo_half_to_float(half) : eo_bfloat_to_float(half));
    case EO_UINT64:
        return (double)(uint64_t)integer_at(k, 0);
    default:
        return (double)integer_at(k, 0);
    }
}

int site_numbers(struct onnx_site *s, int i, int64_t *out, int max)
{
    const struct build_known *k = build_evaluate(s->build, site_in(s, i));
    int64_t n = k != NULL ? eo_tensor_desc_count(&k->desc) : 0;

    if (k == NULL) {
        return 0;
    }
    if (eo_dtype_kind((enum eo_dtype)k->desc.dtype) == EO_KIND_FLOAT || k->desc.n_dims > 1) {
        site_fail(s, EO_E_DTYPE_MISMATCH, "operand %d of %s must be a list of integers", i, s->node->op_type);
        return 0;
    }
    if (n > max) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "operand %d of %s has %" PRId64 " entries, at most %d make sense", i,
                  s->node->op_type, n, max);
        return 0;
    }
    for (int64_t e = 0; e < n; e++) {
        out[e] = integer_at(k, e);
    }
    return (int)n;
}

static const struct build_known *one_element(struct onnx_site *s, int i)
{
    const struct build_known *k = build_evaluate(s->build, site_in(s, i));

    if (k != NULL && eo_tensor_desc_count(&k->desc) != 1) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "operand %d of %s must have one element", i, s->node->op_type);
        return NULL;
    }
    return k;
}

int64_t site_number(struct onnx_site *s, int i)
{
    const struct build_known *k = one_element(s, i);

    if (k == NULL) {
        return 0;
    }
    if (eo_dtype_kind((enum eo_dtype)k->desc.dtype) == EO_KIND_FLOAT) {
        double v = real_at(k);

        if (!(v >= -9e15 && v <= 9e15)) {
            site_fail(s, EO_E_BAD_VALUE, "operand %d of %s is %g, which is no whole number", i, s->node->op_type, v);
            return 0;
        }
        return (int64_t)v;
    }
    return integer_at(k, 0);
}

bool site_flag(struct onnx_site *s, int i)
{
    return site_number(s, i) != 0;
}

double site_real(struct onnx_site *s, int i)
{
    const struct build_known *k = one_element(s, i);

    return k != NULL ? real_at(k) : 0;
}

/* ---- attributes ---- */

const struct onnx_attr *site_attr(struct onnx_site *s, const char *name)
{
    for (int i = 0; i < s->n_attrs; i++) {
        if (strcmp(s->attrs[i]->name, name) == 0) {
            s->seen |= UINT64_C(1) << i;
            return s->attrs[i];
        }
    }
    return NULL;
}

static const struct onnx_attr *attr_of(struct onnx_site *s, const char *name, enum onnx_attr_kind kind,
                                       const char *kind_text)
{
    const struct onnx_attr *a = site_attr(s, name);

    if (a != NULL && a->kind != kind) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "attribute %s of %s must be %s", name, s->node->op_type, kind_text);
        return NULL;
    }
    return a;
}

int64_t site_int(struct onnx_site *s, const char *name, int64_t fallback)
{
    const struct onnx_attr *a = attr_of(s, name, ONNX_ATTR_INT, "an integer");

    return a != NULL ? a->i : fallback;
}

double site_float(struct onnx_site *s, const char *name, double fallback)
{
    const struct onnx_attr *a = attr_of(s, name, ONNX_ATTR_FLOAT, "a float");

    return a != NULL ? (double)a->f : fallback;
}

const char *site_text(struct onnx_site *s, const char *name, const char *fallback)
{
    const struct onnx_attr *a = attr_of(s, name, ONNX_ATTR_TEXT, "a text");

    return a != NULL ? a->text : fallback;
}

int site_ints(struct onnx_site *s, const char *name, int64_t *out, int max)
{
    const struct onnx_attr *a = attr_of(s, name, ONNX_ATTR_INTS, "a list of integers");

    if (a == NULL) {
        return -1;
    }
    if (a->n > (size_t)max) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "attribute %s of %s has %zu entries, at most %d make sense", name,
                  s->node->op_type, a->n, max);
        return -1;
    }
    if (a->n > 0) {
        memcpy(out, a->ints, a->n * sizeof(*out));
    }
    return (int)a->n;
}

int64_t site_need_int(struct onnx_site *s, const char *name)
{
    if (site_attr(s, name) == NULL) {
        site_fail(s, EO_E_BAD_ATTRIBUTE, "%s needs attribute %s", s->node->op_type, name);
    }
    return site_int(s, name, 0);
}

/* TensorProto.DataType by number. */
static const enum eo_dtype data_types[] = {EO_DTYPE_NONE, EO_FLOAT32, EO_UINT8,  EO_INT8,       EO_UINT16,
                                           EO_INT16,      EO_INT32,   EO_INT64,  EO_DTYPE_NONE, EO_BOOL,
                                           EO_FLOAT16,    EO_FLOAT64, EO_UINT32, EO_UINT64,     EO_DTYPE_NONE,
                                           EO_DTYPE_NONE, EO_BFLOAT16};

enum eo_dtype site_dtype_attr(struct onnx_site *s, const char *name, enum eo_dtype fallback)
{
    const struct onnx_attr *a = attr_of(s, name, ONNX_ATTR_INT, "an element type");
    enum eo_dtype dtype = fallback;

    if (a != NULL) {
        dtype = a->i >= 0 && a->i < (int64_t)EO_COUNT_OF(data_types) ? data_types[a->i] : EO_DTYPE_NONE;
        if (dtype == EO_DTYPE_NONE) {
            site_fail(s, EO_E_UNSUPPORTED, "attribute %s of %s is element type %" PRId64 ", which is not supported",
                      name, s->node->op_type, a->i);
        }
    }
    return dtype;
}

bool site_word(struct onnx_site *s, const char *name, const char *fallback, const char *word)
{
    return strcmp(site_text(s, name, fallback), word) == 0;
}

int site_ints_or_operand(struct onnx_site *s, const char *name, int i, int64_t *out, int max)
{
    int n = site_ints(s, name, out, max);

    return n < 0 && site_has(s, i) ? site_numbers(s, i, out, max) : n;
}

int site_axis(struct onnx_site *s, int64_t axis, int rank)
{
    int out = 0;

    if (site_ok(s)) {
        (void)keep(s, eo_normalize_axis(axis, rank, &out, s->node->op_type, s->b->err));
    }
    return site_ok(s) ? out : 0;
}

/* ---- rows ---- */

struct row row_of(struct onnx_site *s, const char *name)
{
    struct row r = {.s = s, .op = eo_op_by_name(name, strlen(name))};

    if (r.op == NULL) {
        site_fail(s, EO_E_UNSUPPORTED, "%s needs row %s, which this build does not have", s->node->op_type, name);
    } else {
        eo_attrs_default(r.op, &r.attrs);
    }
    return r;
}

void row_int(struct row *r, const char *name, int64_t v)
{
    if (site_ok(r->s)) {
        (void)keep(r->s, eo_attrs_set_int(r->op, &r->attrs, name, v, r->s->b->err));
    }
}

void row_float(struct row *r, const char *name, double v)
{
    if (site_ok(r->s)) {
        (void)keep(r->s, eo_attrs_set_float(r->op, &r->attrs, name, v, r->s->b->err));
    }
}

void row_ints(struct row *r, const char *name, const int64_t *v, int n)
{
    if (site_ok(r->s)) {
        (void)keep(r->s, eo_attrs_set_ints(r->op, &r->attrs, name, v, n, r->s->b->err));
    }
}

void row_word(struct row *r, const char *name, const char *word)
{
    if (site_ok(r->s)) {
        (void)keep(r->s, eo_attrs_set_text(r->op, &r->attrs, name, word, r->s->b->err));
    }
}

void row_make_all(struct row *r, const eo_value *in, int n_in, eo_value *out)
{
    for (int o = 0; o < EO_MAX_OUTPUTS; o++) {
        out[o] = EO_NO_VALUE;
    }
    if (site_ok(r->s)) {
        (void)keep(r->s, eo_graph_add(r->s->b->graph, r->op->op, in, n_in, &r->attrs, out, r->s->b->err));
    }
}

eo_value row_make(struct row *r, const eo_value *in, int n_in)
{
    eo_value out[EO_MAX_OUTPUTS];

    row_make_all(r, in, n_in, out);
    return site_ok(r->s) ? out[0] : EO_NO_VALUE;
}

eo_value site_unary(struct onnx_site *s, const char *row, eo_value x)
{
    struct row r = row_of(s, row);

    return row_make(&r, &x, 1);
}

eo_value site_binary(struct onnx_site *s, const char *row, eo_value a, eo_value b)
{
    struct row r = row_of(s, row);

    return row_make(&r, (const eo_value[]){a, b}, 2);
}

eo_value site_hole(struct onnx_site *s, enum eo_dtype dtype)
{
    struct eo_tensor_desc desc = {.dtype = (uint8_t)dtype, .n_dims = 1};

    return build_tensor(s->build, &desc, &(const int64_t){0});
}

eo_value site_or_hole(struct onnx_site *s, eo_value v, enum eo_dtype dtype)
{
    return v != EO_NO_VALUE ? v : site_hole(s, dtype);
}

eo_value site_scalar(struct onnx_site *s, enum eo_dtype dtype, double v)
{
    return eo_build_scalar(s->b, dtype, v);
}

eo_value site_scalar_like(struct onnx_site *s, eo_value like, double v)
{
    return eo_build_scalar_like(s->b, like, v);
}

eo_value site_cast(struct onnx_site *s, eo_value x, enum eo_dtype dtype)
{
    return site_dtype(s, x) == dtype ? x : eo_build_cast(s->b, x, dtype);
}

eo_value site_reshape(struct onnx_site *s, eo_value x, const int64_t *shape, int n)
{
    return eo_build_reshape(s->b, x, shape, n);
}

eo_value site_transpose(struct onnx_site *s, eo_value x, const int64_t *perm, int n)
{
    return eo_build_transpose(s->b, x, perm, n);
}

eo_value site_slice(struct onnx_site *s, eo_value x, int axis, int64_t start, int64_t count)
{
    const struct eo_tensor_desc *desc = site_desc(s, x);
    int64_t starts[EO_MAX_DIMS] = {0}, stops[EO_MAX_DIMS];
    struct row r = row_of(s, "slice");

    memcpy(stops, desc->shape, sizeof(stops));
    if (axis < desc->n_dims) {
        starts[axis] = start;
        stops[axis] = start + count;
    }
    row_ints(&r, "starts", starts, desc->n_dims);
    row_ints(&r, "stops", stops, desc->n_dims);
    return row_make(&r, &x, 1);
}

/* A row takes EO_MAX_INPUTS operands: more are joined in groups. */
eo_value site_concatenate(struct onnx_site *s, const eo_value *in, int n, int axis)
{
    eo_value groups[EO_MAX_INPUTS];
    struct row r = row_of(s, "concatenate");
    int n_groups = 0;

    row_int(&r, "axis", axis);
    if (n <= EO_MAX_INPUTS) {
        return row_make(&r, in, n);
    }
    for (int first = 0; first < n && n_groups < EO_MAX_INPUTS; first += EO_MAX_INPUTS) {
        groups[n_groups++] = row_make(&r, in + first, EO_MIN(n - first, EO_MAX_INPUTS));
    }
    return row_make(&r, groups, n_groups);
}

eo_value site_int64s(struct onnx_site *s, const int64_t *v, int n)
{
    struct eo_tensor_desc desc = {.dtype = EO_INT64, .n_dims = 1, .shape = {n}};

    return build_tensor(s->build, &desc, n > 0 ? v : &(const int64_t){0});
}
