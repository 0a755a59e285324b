/* One node of a model while it becomes rows, as the map functions see it: operands, attributes, and short spellings for
 * rows. Everything writes through the builder of the graph: the first error sticks, later calls do nothing and return
 * EO_NO_VALUE, 0 or NULL; so map functions need not look until they decide by a value. */
#ifndef EO_DAEMON_FORMATS_ONNX_SITE_H
#define EO_DAEMON_FORMATS_ONNX_SITE_H

#include "daemon/formats/onnx/build.h"

struct onnx_site {
    struct onnx_build *build;
    struct eo_builder *b;
    const struct build_scope *scope;
    const struct onnx_node *node;
    const struct onnx_operator *op;
    int version;                          /* of the operator set in force */
    const struct onnx_attr *const *attrs; /* with the values of the caller's attributes */
    int n_attrs;
    uint64_t seen; /* bit i: attribute i was asked for; one that nobody asked for is an error */
    eo_value *in;  /* EO_NO_VALUE: not given */
    int n_in;
    eo_value *out; /* to be filled; EO_NO_VALUE on entry */
    int n_out;
};

/* ---- failing ---- */

bool site_ok(const struct onnx_site *s);
void site_fail(struct onnx_site *s, int code, const char *fmt, ...) EO_PRINTF(3, 4);

/* ---- operands ---- */

bool site_has(const struct onnx_site *s, int i);
bool site_wants(const struct onnx_site *s, int output); /* somebody may use it */
eo_value site_in(struct onnx_site *s, int i);           /* BAD_ARITY when it is not given */
eo_value site_maybe(const struct onnx_site *s, int i);  /* EO_NO_VALUE when it is not given */
/* Of any value; an empty one after an error. */
const struct eo_tensor_desc *site_desc(const struct onnx_site *s, eo_value v);
enum eo_dtype site_dtype(const struct onnx_site *s, eo_value v);
int site_rank(const struct onnx_site *s, eo_value v);
/* Operand i, integers of any width, as numbers known now; their count, at most max. */
int site_numbers(struct onnx_site *s, int i, int64_t *out, int max);
int64_t site_number(struct onnx_site *s, int i); /* the one element of operand i */
bool site_flag(struct onnx_site *s, int i);      /* of a bool operand */
double site_real(struct onnx_site *s, int i);    /* the one element of operand i, of any dtype */

/* ---- attributes ---- */

const struct onnx_attr *site_attr(struct onnx_site *s, const char *name); /* NULL when absent */
int64_t site_int(struct onnx_site *s, const char *name, int64_t fallback);
double site_float(struct onnx_site *s, const char *name, double fallback);
const char *site_text(struct onnx_site *s, const char *name, const char *fallback);
int site_ints(struct onnx_site *s, const char *name, int64_t *out, int max); /* -1 when absent */
int64_t site_need_int(struct onnx_site *s, const char *name);                /* BAD_ATTRIBUTE when absent */
enum eo_dtype site_dtype_attr(struct onnx_site *s, const char *name, enum eo_dtype fallback);
bool site_word(struct onnx_site *s, const char *name, const char *fallback, const char *word); /* is it this one? */
/* Integers that are an attribute up to some version and operand i since; -1 when neither is there. */
int site_ints_or_operand(struct onnx_site *s, const char *name, int i, int64_t *out, int max);
/* axis in 0..rank-1; BAD_ATTRIBUTE. */
int site_axis(struct onnx_site *s, int64_t axis, int rank);

/* ---- rows ---- */

/* A call of a row by its name; UNSUPPORTED when this build has no such row. */
struct row {
    struct onnx_site *s;
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
};
struct row row_of(struct onnx_site *s, const char *name);
void row_int(struct row *r, const char *name, int64_t v); /* INT, BOOL, DTYPE */
void row_float(struct row *r, const char *name, double v);
void row_ints(struct row *r, const char *name, const int64_t *v, int n);
void row_word(struct row *r, const char *name, const char *word); /* CHOICE, TEXT */
eo_value row_make(struct row *r, const eo_value *in, int n_in);   /* the first output */
/* All outputs; out has room for EO_MAX_OUTPUTS. */
void row_make_all(struct row *r, const eo_value *in, int n_in, eo_value *out);

/* Rows without attributes. */
eo_value site_unary(struct onnx_site *s, const char *row, eo_value x);
eo_value site_binary(struct onnx_site *s, const char *row, eo_value a, eo_value b);
/* An operand that is not given, for rows with optional ones. */
eo_value site_hole(struct onnx_site *s, enum eo_dtype dtype);
eo_value site_or_hole(struct onnx_site *s, eo_value v, enum eo_dtype dtype);
eo_value site_scalar(struct onnx_site *s, enum eo_dtype dtype, double v);
eo_value site_scalar_like(struct onnx_site *s, eo_value like, double v);
eo_value site_cast(struct onnx_site *s, eo_value x, enum eo_dtype dtype); /* x itself when it has the dtype */
eo_value site_reshape(struct onnx_site *s, eo_value x, const int64_t *shape, int n);
eo_value site_transpose(struct onnx_site *s, eo_value x, const int64_t *perm, int n);
/* Part of x along one axis: elements start, start + step, ... count of them. */
eo_value site_slice(struct onnx_site *s, eo_value x, int axis, int64_t start, int64_t count);
eo_value site_concatenate(struct onnx_site *s, const eo_value *in, int n, int axis);
/* A constant of 64-bit integers in one dimension. */
eo_value site_int64s(struct onnx_site *s, const int64_t *v, int n);

#endif
