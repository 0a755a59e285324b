#include "proto/op_schema.h"

#include "proto/base/text.h"
#include "proto/shape_rules.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- projections of the table ---- */

/* Number of attributes of each row: every attribute of the list adds one. */
#define NO_ATTRS
#define ATTRS(...) __VA_ARGS__
#define ATTR_INT(...) +1
#define ATTR_INT_NEEDED(...) +1
#define ATTR_FLOAT(...) +1
#define ATTR_BOOL(...) +1
#define ATTR_INTS(...) +1
#define ATTR_INTS_NEEDED(...) +1
#define ATTR_DTYPE(...) +1
#define ATTR_DTYPE_NEEDED(...) +1
#define ATTR_CHOICE(...) +1
#define ATTR_TEXT(...) +1
enum {
#define EO_OP(name, NAME, id, summary, inputs, n_out, attrs, ...) N_ATTRS_##NAME = 0 attrs,
#include "proto/tables/ops.def"
};
#undef NO_ATTRS
#undef ATTR_INT
#undef ATTR_INT_NEEDED
#undef ATTR_FLOAT
#undef ATTR_BOOL
#undef ATTR_INTS
#undef ATTR_INTS_NEEDED
#undef ATTR_DTYPE
#undef ATTR_DTYPE_NEEDED
#undef ATTR_CHOICE
#undef ATTR_TEXT

#define EO_OP(name, NAME, id, summary, inputs, n_out, ...)                                                             \
    _Static_assert((id) > 0 && (id) <= UINT16_MAX, "wire id of " #name);                                               \
    _Static_assert((n_out) > 0 && (n_out) <= EO_MAX_OUTPUTS, "outputs of " #name);                                     \
    _Static_assert((int)N_ATTRS_##NAME <= (int)EO_MAX_ATTRS, "attributes of " #name);
#include "proto/tables/ops.def"

#define NO_INPUTS .min_inputs = 0, .max_inputs = 0
#define IN(min, max, ...) .min_inputs = (min), .max_inputs = (max), .input_names = {__VA_ARGS__}
#define NO_ATTRS                                                                                                       \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }
#define ATTR(name_, kind_, required_, fallback_, min_, max_, help_)                                                    \
    {.name = #name_,                                                                                                   \
     .kind = (kind_),                                                                                                  \
     .required = (required_),                                                                                          \
     .fallback = (double)(fallback_),                                                                                  \
     .min = (double)(min_),                                                                                            \
     .max = (double)(max_),                                                                                            \
     .help = (help_)},
#define ATTR_INT(name, fallback, min, max, help) ATTR(name, EO_ATTR_INT, false, fallback, min, max, help)
#define ATTR_INT_NEEDED(name, min, max, help) ATTR(name, EO_ATTR_INT, true, (min)-1, min, max, help)
#define ATTR_FLOAT(name, fallback, min, max, help) ATTR(name, EO_ATTR_FLOAT, false, fallback, min, max, help)
#define ATTR_BOOL(name, fallback, help) ATTR(name, EO_ATTR_BOOL, false, fallback, 0, 1, help)
#define ATTR_INTS(name, min, max, help) ATTR(name, EO_ATTR_INTS, false, 0, min, max, help)
#define ATTR_INTS_NEEDED(name, min, max, help) ATTR(name, EO_ATTR_INTS, true, 0, min, max, help)
#define ATTR_DTYPE(name, fallback, help) ATTR(name, EO_ATTR_DTYPE, false, EO_##fallback, 1, EO_DTYPE_LIMIT - 1, help)
#define ATTR_DTYPE_NEEDED(name, help) ATTR(name, EO_ATTR_DTYPE, true, EO_DTYPE_NONE, 1, EO_DTYPE_LIMIT - 1, help)
#define ATTR_CHOICE(name_, choices_, help_)                                                                            \
    {.name = #name_, .kind = EO_ATTR_CHOICE, .max = 255, .choices = (choices_), .help = (help_)},
#define ATTR_TEXT(name, help) ATTR(name, EO_ATTR_TEXT, false, 0, 0, 0, help)
#define GRAD EO_GRADIENT_RULE
#define BY_LOWERING EO_GRADIENT_LOWERING
#define NO_GRAD EO_GRADIENT_NONE
#define LOWERED EO_OPF_COMPOSITE
#define PRIMITIVE EO_OPF_NONE
#define STABLE EO_STABLE
#define EXPERIMENTAL EO_EXPERIMENTAL
#define P0 EO_PROP_NONE
#define P1(a) EO_PROP_##a
#define P2(a, b) (EO_PROP_##a | EO_PROP_##b)
#define P3(a, b, c) (EO_PROP_##a | EO_PROP_##b | EO_PROP_##c)
#define P4(a, b, c, d) (EO_PROP_##a | EO_PROP_##b | EO_PROP_##c | EO_PROP_##d)
#define F0 EO_OPF_NONE
#define F1(a) EO_OPF_##a
#define F2(a, b) (EO_OPF_##a | EO_OPF_##b)

static const struct eo_op_schema rows[EO_OP_COUNT] = {
#define EO_OP(name_, NAME, id, summary_, inputs, n_out, attrs_, dtypes_, rule, infer_, grad, lower, autocast_, props,  \
              flags_, rtol_, onnx_, opset, stability_, since_)                                                         \
    [EO_OP_##NAME] = {.name = #name_,                                                                                  \
                      .op = EO_OP_##NAME,                                                                              \
                      .wire_id = (id),                                                                                 \
                      .summary = (summary_),                                                                           \
                      inputs,                                                                                          \
                      .n_outputs = (n_out),                                                                            \
                      .n_attrs = N_ATTRS_##NAME,                                                                       \
                      .attrs = {attrs_},                                                                               \
                      .dtypes = EO_SET_##dtypes_,                                                                      \
                      .dtype_rule = EO_RULE_##rule,                                                                    \
                      .infer = eo_infer_##infer_,                                                                      \
                      .gradient = (grad),                                                                              \
                      .autocast = EO_CAST_##autocast_,                                                                 \
                      .properties = (props),                                                                           \
                      .flags = (flags_) | (lower),                                                                     \
                      .rtol = (rtol_),                                                                                 \
                      .onnx = (onnx_),                                                                                 \
                      .onnx_opset = (opset),                                                                           \
                      .stability = (stability_),                                                                       \
                      .since = (since_)},
#include "proto/tables/ops.def"
};

/* A switch, so that a wire id used twice does not compile. */
const struct eo_op_schema *eo_op_by_wire_id(uint32_t wire_id)
{
    switch (wire_id) {
#define EO_OP(name, NAME, id, ...)                                                                                     \
    case (id):                                                                                                         \
        return &rows[EO_OP_##NAME];
#include "proto/tables/ops.def"
    }
    return NULL;
}

const struct eo_op_schema *eo_op_schema(enum eo_op op)
{
    return (int)op > EO_OP_NONE && (int)op < EO_OP_COUNT ? &rows[op] : NULL;
}

const struct eo_op_schema *eo_op_by_name(const char *name, size_t length)
{
    for (int i = EO_OP_NONE + 1; i < EO_OP_COUNT; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static const char *op_name_at(const void *ctx, size_t i)
{
    const struct eo_op_schema *table = ctx;

    return table[i + 1].name;
}

int eo_op_need(const char *name, size_t length, const struct eo_op_schema **out, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_by_name(name, length);
    char quoted[96], text[40];
    const char *nearest;
    int code;

    if (op != NULL) {
        *out = op;
        return EO_OK;
    }
    code = EO_RAISE(err, EO_E_UNKNOWN_OP, "there is no operation %s", eo_quote(name, length, quoted, sizeof(quoted)));
    snprintf(text, sizeof(text), "%.*s", (int)EO_MIN(length, sizeof(text) - 1), name);
    nearest = eo_nearest(text, op_name_at, rows, EO_OP_COUNT - 1);
    if (nearest != NULL) {
        eo_error_hint(err, "Did you mean %s?", nearest);
    } else {
        eo_error_hint(err, "`everyo ops` lists the operations.");
    }
    return code;
}

/* ---- facts worked out from rows ---- */

static uint64_t hash_text(uint64_t h, const char *text)
{
    /* FNV-1a; the final NUL is hashed too, so that "ab","c" and "a","bc" differ */
    for (const char *p = text;; p++) {
        h = (h ^ (uint64_t)(unsigned char)*p) * 0x100000001b3U;
        if (*p == '\0') {
            return h;
        }
    }
}

uint64_t eo_op_table_hash(void)
{
    uint64_t h = 0xcbf29ce484222325U;
    char text[160];

    for (int i = EO_OP_NONE + 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = &rows[i];

        snprintf(text, sizeof(text), "%u %u %u %u %" PRIu32, op->wire_id, op->min_inputs, op->max_inputs, op->n_outputs,
                 op->dtypes);
        h = hash_text(hash_text(h, op->name), text);
        for (size_t k = 0; k < EO_COUNT_OF(op->input_names) && op->input_names[k] != NULL; k++) {
            h = hash_text(h, op->input_names[k]);
        }
        for (int k = 0; k < op->n_attrs; k++) {
            const struct eo_attr_schema *a = &op->attrs[k];

            snprintf(text, sizeof(text), "%d %d %.17g %.17g %.17g", (int)a->kind, a->required, a->fallback, a->min,
                     a->max);
            h = hash_text(hash_text(h, a->name), text);
            if (a->choices != NULL) {
                h = hash_text(h, a->choices);
            }
        }
    }
    return h;
}

/* Distance from 1 to the next number of the dtype. */
static double epsilon(enum eo_dtype dtype)
{
    switch (dtype) {
    case EO_FLOAT32:
        return 0x1p-23;
    case EO_FLOAT64:
        return 0x1p-52;
    case EO_FLOAT16:
        return 0x1p-10;
    case EO_BFLOAT16:
        return 0x1p-7;
    default:
        return 0; /* integers and bool are exact */
    }
}

double eo_op_tolerance(const struct eo_op_schema *op, enum eo_dtype dtype, int64_t n_reduced)
{
    double rtol = op->rtol * (epsilon(dtype) / epsilon(EO_FLOAT32));

    if ((op->flags & EO_OPF_REDUCTION) != 0 && n_reduced > 1) {
        rtol *= sqrt((double)n_reduced);
    }
    return rtol;
}

/* ---- the one check of a call ---- */

static int check_arity(const struct eo_op_schema *op, int n_in, struct eo_error *err)
{
    char wanted[32];

    if (n_in >= op->min_inputs && n_in <= op->max_inputs) {
        return EO_OK;
    }
    if (op->min_inputs == op->max_inputs) {
        snprintf(wanted, sizeof(wanted), "%u", op->min_inputs);
    } else {
        snprintf(wanted, sizeof(wanted), "%u to %u", op->min_inputs, op->max_inputs);
    }
    return EO_RAISE(err, EO_E_BAD_ARITY, "%s takes %s input%s, not %d", op->name, wanted,
                    op->max_inputs == 1 ? "" : "s", n_in);
}

int eo_op_n_outputs(const struct eo_op_schema *op, const struct eo_attrs *attrs)
{
    int n = op->n_outputs;

    if ((op->flags & EO_OPF_OUTPUTS_BY_SIZES) != 0) {
        (void)eo_attr_ints(op, attrs, "sizes", &n);
    }
    return n <= EO_MAX_OUTPUTS ? n : 0;
}

static int check_outputs(const struct eo_op_schema *op, const struct eo_attrs *attrs, struct eo_error *err)
{
    if (eo_op_n_outputs(op, attrs) > 0) {
        return EO_OK;
    }
    return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "attribute sizes must have 1 to %d entries: one per output",
                    EO_MAX_OUTPUTS);
}

/* The dtype rules other than OWN. The operand that decides is input 0; the index operand of INDEX is input 1. */
static int apply_dtype_rule(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in, int n_out,
                            struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = EO_OK;

    if (op->dtype_rule == EO_RULE_OWN) {
        return EO_OK;
    }
    for (int i = 0; i < n_in && rc == EO_OK; i++) {
        if (op->dtype_rule == EO_RULE_INDEX && i == 1) {
            rc = eo_shape_need_dtype(op, in, n_in, i, EO_SET_INT64, err);
        } else if (i == 0) {
            rc = eo_shape_need_dtype(op, in, n_in, i, op->dtypes, err);
        } else {
            rc = eo_shape_need_same_dtype(op, in, n_in, 0, i, err);
        }
    }
    for (int i = 0; i < n_out; i++) {
        out[i].dtype = op->dtype_rule == EO_RULE_COMPARE ? EO_BOOL : in[0]->dtype;
    }
    return rc;
}

static int infer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                 const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    int rc = check_arity(op, n_in, err);

    for (int i = 0; i < n_in && rc == EO_OK; i++) {
        rc = eo_tensor_desc_check(in[i], err);
        if (rc != EO_OK) {
            eo_error_push(err, "while checking input %d", i);
        }
    }
    if (rc == EO_OK) {
        rc = eo_attrs_check(op, attrs, err);
    }
    if (rc == EO_OK) {
        rc = check_outputs(op, attrs, err);
    }
    if (rc == EO_OK) {
        rc = apply_dtype_rule(op, in, n_in, eo_op_n_outputs(op, attrs), out, err);
    }
    if (rc == EO_OK) {
        rc = op->infer(op, in, n_in, attrs, out, err);
    }
    for (int i = 0; rc == EO_OK && i < eo_op_n_outputs(op, attrs); i++) {
        rc = eo_tensor_desc_check(&out[i], err);
    }
    return rc;
}

int eo_op_infer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc result[EO_MAX_OUTPUTS] = {0};
    struct eo_attrs defaults;
    int rc;

    if (attrs == NULL) {
        eo_attrs_default(op, &defaults);
        attrs = &defaults;
    }
    rc = infer(op, in, n_in, attrs, result, err);
    if (rc == EO_OK) {
        memcpy(out, result, (size_t)eo_op_n_outputs(op, attrs) * sizeof(*out));
        return EO_OK;
    }
    eo_error_at_op(err, op->name, NULL);
    if (err != NULL && err->n_inputs == 0) {
        eo_shape_mark(op, in, n_in, -1, -1, -1, -1, err);
    }
    return rc;
}
