/* The operations of the system, one row each in tables/ops.def; this header is their C projection.
 * All tables are const; all functions are pure and thread-safe. */
#ifndef EO_PROTO_OP_SCHEMA_H
#define EO_PROTO_OP_SCHEMA_H

#include "proto/tensor_desc.h"

enum {
    EO_MAX_ATTRS = 8,
    EO_MAX_INTS = 16,
    EO_MAX_TEXT = 127, /* bytes of a text attribute */
    EO_MAX_OUTPUTS = 16,
    EO_MAX_NAMED_INPUTS = 10,
    EO_MAX_INPUTS = 64 /* variadic ops */
};

enum eo_op {
    EO_OP_NONE = 0,
#define EO_OP(name, NAME, ...) EO_OP_##NAME,
#include "proto/tables/ops.def"
    EO_OP_COUNT
};

enum eo_attr_kind {
    EO_ATTR_INT,
    EO_ATTR_FLOAT,
    EO_ATTR_BOOL,
    EO_ATTR_INTS,
    EO_ATTR_DTYPE,
    EO_ATTR_CHOICE, /* one word of a list, held as its index */
    EO_ATTR_TEXT
};

struct eo_attr_schema {
    const char *name;
    enum eo_attr_kind kind;
    bool required;
    double fallback;     /* INT, FLOAT, BOOL, DTYPE, CHOICE default; of INTS the empty list, of TEXT the empty text */
    double min, max;     /* INT and FLOAT values, each entry of INTS; NaN passes only -inf..inf */
    const char *choices; /* CHOICE: "first|second|third" */
    const char *help;
};

struct eo_attr_value {
    int64_t i; /* INT, BOOL (0/1), DTYPE, CHOICE (index of the word) */
    double f;  /* FLOAT */
    uint8_t n; /* entries of INTS, bytes of TEXT */
    union {
        int64_t ints[EO_MAX_INTS];
        char text[EO_MAX_TEXT + 1]; /* UTF-8 without NUL inside, NUL-terminated */
    };
};

/* Attribute values in the order of the row's schema. Start from eo_attrs_default. */
struct eo_attrs {
    struct eo_attr_value v[EO_MAX_ATTRS];
};

/* The dtype sets that rows name. */
enum {
    EO_SET_FLOAT =
        EO_DTYPE_BIT(EO_FLOAT32) | EO_DTYPE_BIT(EO_FLOAT64) | EO_DTYPE_BIT(EO_FLOAT16) | EO_DTYPE_BIT(EO_BFLOAT16),
    EO_SET_SIGNED = EO_SET_FLOAT | EO_DTYPE_BIT(EO_INT8) | EO_DTYPE_BIT(EO_INT16) | EO_DTYPE_BIT(EO_INT32) |
                    EO_DTYPE_BIT(EO_INT64), /* floats and signed integers */
    EO_SET_INTEGER = EO_DTYPE_BIT(EO_INT8) | EO_DTYPE_BIT(EO_INT16) | EO_DTYPE_BIT(EO_INT32) | EO_DTYPE_BIT(EO_INT64) |
                     EO_DTYPE_BIT(EO_UINT8) | EO_DTYPE_BIT(EO_UINT16) | EO_DTYPE_BIT(EO_UINT32) |
                     EO_DTYPE_BIT(EO_UINT64),
    EO_SET_NUMBER = EO_SET_FLOAT | EO_SET_INTEGER,
    EO_SET_BOOL = EO_DTYPE_BIT(EO_BOOL),
    EO_SET_ANY = EO_SET_NUMBER | EO_SET_BOOL,
    EO_SET_INT64 = EO_DTYPE_BIT(EO_INT64),
    EO_SET_FLOAT32 = EO_DTYPE_BIT(EO_FLOAT32),
    EO_SET_BYTE = EO_DTYPE_BIT(EO_INT8) | EO_DTYPE_BIT(EO_UINT8),
    EO_SET_QUANTIZED = EO_SET_BYTE | EO_DTYPE_BIT(EO_INT16) | EO_DTYPE_BIT(EO_UINT16) | EO_DTYPE_BIT(EO_INT32),
    EO_SET_PRODUCT = EO_SET_FLOAT | EO_DTYPE_BIT(EO_INT32) | EO_DTYPE_BIT(EO_INT64) | EO_DTYPE_BIT(EO_UINT32) |
                     EO_DTYPE_BIT(EO_UINT64) /* what matmul takes */
};

enum eo_dtype_rule {
    EO_RULE_SAME,    /* all inputs share one dtype of the set, which the outputs have */
    EO_RULE_COMPARE, /* all inputs share one dtype of the set; outputs are bool */
    EO_RULE_INDEX, /* input 1 (indices, targets, rng) is int64; the others and the outputs share one dtype of the set */
    EO_RULE_OWN    /* the row's infer function decides everything */
};

enum eo_gradient {
    EO_GRADIENT_NONE,
    EO_GRADIENT_RULE,    /* daemon/engine/grad/ holds it */
    EO_GRADIENT_LOWERING /* the gradient of the row's lowering */
};

enum eo_autocast { EO_CAST_REDUCED, EO_CAST_FLOAT32, EO_CAST_FOLLOWS };
enum eo_stability { EO_STABLE, EO_EXPERIMENTAL };

/* Algebraic properties; each one becomes a property test. */
enum eo_property {
    EO_PROP_NONE = 0,
    EO_PROP_COMMUTATIVE = 1,
    EO_PROP_ELEMENTWISE = 2, /* broadcasts its inputs; element i of the result depends on element i only */
    EO_PROP_IDEMPOTENT = 4,  /* f(f(x)) == f(x) */
    EO_PROP_INVOLUTION = 8,  /* f(f(x)) == x */
    EO_PROP_ODD = 16,        /* f(-x) == -f(x) */
    EO_PROP_EVEN = 32,
    EO_PROP_MONOTONE = 64,
    EO_PROP_VIEW = 128 /* moves or relabels elements, computes nothing */
};

enum eo_op_flags {
    EO_OPF_NONE = 0,
    EO_OPF_COMPOSITE = 1,         /* defined by a lowering to primitives (daemon/engine/lower/) */
    EO_OPF_INTERNAL = 2,          /* made by passes and the trainer only; refused from the wire */
    EO_OPF_RANDOM = 4,            /* reads an rng operand (int64 [3]: seed, step, row offset; philox.h) */
    EO_OPF_VARIADIC = 8,          /* min_inputs..EO_MAX_INPUTS inputs */
    EO_OPF_REDUCTION = 16,        /* tolerance grows with the number of summed elements */
    EO_OPF_OUTPUTS_BY_SIZES = 32, /* one output per entry of the attribute `sizes` (eo_op_n_outputs) */
    EO_OPF_DATA_SHAPE = 64 /* infer gives the largest possible result, the kernel the real shape; never inside a plan */
};

struct eo_op_schema;
/* Fills outputs from inputs and attributes; inputs are checked descriptors, dtype rule already applied unless OWN
 * (then it sets dtypes too). Raises SHAPE_MISMATCH, DTYPE_MISMATCH, BAD_ATTRIBUTE, TOO_LARGE. */
typedef int (*eo_infer_fn)(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                           const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err);

struct eo_op_schema {
    const char *name;
    enum eo_op op;
    uint16_t wire_id;
    const char *summary;
    uint8_t min_inputs, max_inputs, n_outputs, n_attrs;
    const char *input_names[EO_MAX_NAMED_INPUTS]; /* of variadic ops: the first one stands for all */
    struct eo_attr_schema attrs[EO_MAX_ATTRS];
    eo_dtype_set dtypes;
    enum eo_dtype_rule dtype_rule;
    eo_infer_fn infer;
    enum eo_gradient gradient;
    enum eo_autocast autocast;
    uint32_t properties;
    uint32_t flags;
    double rtol;      /* float32 tolerance against reference; other dtypes by eo_op_tolerance */
    const char *onnx; /* "" when ONNX has no such op */
    uint8_t onnx_opset;
    enum eo_stability stability;
    const char *since;
};

const struct eo_op_schema *eo_op_schema(enum eo_op op); /* NULL for EO_OP_NONE and out of range */
const struct eo_op_schema *eo_op_by_name(const char *name, size_t length);
const struct eo_op_schema *eo_op_by_wire_id(uint32_t wire_id); /* NULL when no row has it */
/* Like eo_op_by_name, but raises UNKNOWN_OP with the nearest name as hint; the name is quoted, so it may be hostile. */
int eo_op_need(const char *name, size_t length, const struct eo_op_schema **out, struct eo_error *err);
uint64_t eo_op_table_hash(void); /* of names, ids, inputs, attributes: compared in hello */

/* The one written rule: rtol(dtype) = row rtol scaled by the dtype's epsilon relative to float32's, times
 * sqrt(max(1, n_reduced)) for reductions; atol = rtol * scale of the data. */
double eo_op_tolerance(const struct eo_op_schema *op, enum eo_dtype dtype, int64_t n_reduced);

void eo_attrs_default(const struct eo_op_schema *op, struct eo_attrs *out);
int eo_attr_index(const struct eo_op_schema *op, const char *name); /* -1 when there is none */
/* Number of outputs of a call: n_outputs, or as many as the attribute `sizes` has entries (0 when there are too many).
 */
int eo_op_n_outputs(const struct eo_op_schema *op, const struct eo_attrs *attrs);
/* Setters by name; BAD_ATTRIBUTE for an unknown name, wrong kind or out-of-range value. */
int eo_attrs_set_int(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, int64_t v,
                     struct eo_error *err); /* INT, BOOL, DTYPE */
int eo_attrs_set_float(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, double v,
                       struct eo_error *err);
int eo_attrs_set_ints(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, const int64_t *v, int n,
                      struct eo_error *err);
int eo_attrs_set_text(const struct eo_op_schema *op, struct eo_attrs *a, const char *name, const char *text,
                      struct eo_error *err); /* CHOICE by its word, TEXT */
/* Word number `index` of a CHOICE attribute, in out; false when there is none. */
bool eo_attr_choice(const struct eo_attr_schema *s, int64_t index, char *out, size_t size);
/* All values against the row: ranges, needed dtypes, list lengths. eo_op_infer runs it first. */
int eo_attrs_check(const struct eo_op_schema *op, const struct eo_attrs *a, struct eo_error *err);
bool eo_attrs_equal(const struct eo_op_schema *op, const struct eo_attrs *a, const struct eo_attrs *b); /* by bits */
/* Getters for code that knows its row; a wrong name is a bug and gives 0. */
int64_t eo_attr_int(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name); /* CHOICE: the index */
const char *eo_attr_text(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name);
double eo_attr_float(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name);
const int64_t *eo_attr_ints(const struct eo_op_schema *op, const struct eo_attrs *a, const char *name, int *out_n);

/* Wire form: map name -> value; dtypes and choices by name. Missing ones take the default; unknown or missing required:
 * error. */
void eo_attrs_pack(struct eo_bytes *b, const struct eo_op_schema *op, const struct eo_attrs *a);
int eo_attrs_unpack(const struct eo_item *map, const struct eo_op_schema *op, struct eo_attrs *out,
                    struct eo_error *err);

/* Arity, dtype rule, then the row's infer: the one check both client and daemon run before anything executes. out has
 * room for EO_MAX_OUTPUTS descriptors and receives eo_op_n_outputs. */
int eo_op_infer(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                const struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err);
/* Reduction axes attribute -> normalised ascending axes (empty list = all). */
int eo_normalize_axes(const int64_t *axes, int n, int n_dims, int *out_axes, int *out_n, const char *op,
                      struct eo_error *err);

#endif
