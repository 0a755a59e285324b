/* One of PyTorch's OpInfo samples (a line of tests/vectors/torch-opinfo-grad.jsonl) while it becomes a graph of ours,
 * and the tables of functions that know how. Failures of the helpers are test failures. */
#ifndef EO_TESTS_ENGINE_OPINFO_SAMPLE_H
#define EO_TESTS_ENGINE_OPINFO_SAMPLE_H

#include "proto/graph_build.h"
#include "tests/engine/harness.h"

#include <jansson.h>

enum { SAMPLE_TENSORS = 16, SAMPLE_RESULTS = 4 };

struct sample {
    json_t *root, *args, *kwargs;
    struct eo_graph *g;
    struct eo_builder b;
    const json_t *json[SAMPLE_TENSORS]; /* of each tensor, in the order of input, args, kwargs */
    eo_value value[SAMPLE_TENSORS];
    void *data[SAMPLE_TENSORS];
    int n_tensors;
    eo_value leaves[SAMPLE_TENSORS];
    int n_leaves;
    eo_value results[SAMPLE_RESULTS]; /* what `emit` returned, then what it handed to sample_also */
    int n_results;
    const char *left_out; /* why, when emit returned sample_leave_out */
};

/* A function of PyTorch and how a sample of it becomes a graph; returns the first result. variant NULL: all. */
struct function {
    const char *name, *variant;
    eo_value (*emit)(struct sample *s, enum eo_op op);
    enum eo_op op; /* what emit is told */
};

/* Families of functions, each table ended by a name NULL. */
extern const struct function opinfo_elementwise[], opinfo_reduce[], opinfo_linalg[], opinfo_shape[], opinfo_window[],
    opinfo_loss[];

void sample_open(struct sample *s, json_t *root);
void sample_close(struct sample *s);

/* A further result, in PyTorch's order. */
void sample_also(struct sample *s, eo_value v);
/* Nothing of ours does what this sample asks for. */
eo_value sample_leave_out(struct sample *s, const char *why);

/* ---- arguments ---- */

double sample_number(const json_t *j);                /* also of true, "nan", "inf", "-inf" */
int sample_shape(const json_t *tensor, int64_t *out); /* returns the rank */
eo_value sample_input(const struct sample *s);
eo_value sample_tensor(const struct sample *s, const json_t *j); /* EO_NO_VALUE: j is no tensor */
const json_t *sample_arg(const struct sample *s, size_t i);
const json_t *sample_kwarg(const struct sample *s, const char *name);
const json_t *sample_either(const struct sample *s, size_t i, const char *name); /* argument i, or by name */
double sample_kwarg_number(const struct sample *s, const char *name, double fallback);
const char *sample_kwarg_text(const struct sample *s, const char *name, const char *fallback);
/* A list of integers or one integer, n times that; returns how many. */
int sample_ints(const json_t *j, int n, int64_t *out);
int sample_result_shape(const struct sample *s, int64_t *out); /* of the first result */

static inline eo_value sample_arg_tensor(const struct sample *s, size_t i)
{
    return sample_tensor(s, sample_arg(s, i));
}

static inline int64_t sample_arg_int(const struct sample *s, size_t i)
{
    return json_integer_value(sample_arg(s, i));
}

/* ---- building ---- */

struct eo_tensor_desc sample_desc(const struct sample *s, eo_value v);
eo_value sample_scalar(struct sample *s, double v);
/* A row with attributes as text (tests/proto/op_case.h), by printf's rules. Returns the first output; others follow. */
eo_value sample_row(struct sample *s, enum eo_op op, const eo_value *in, int n_in, const char *attrs, ...)
    __attribute__((format(printf, 5, 6)));
/* "1,2,3", in text */
const char *sample_list(const int64_t *v, int n, char *text, size_t size);
/* v in the shape of the first result: functions that only regroup, and scalars that a row takes as vectors. */
eo_value sample_like_result(struct sample *s, eo_value v);
/* v with at least one dimension. */
eo_value sample_vector(struct sample *s, eo_value v);

static inline eo_value sample_two(struct sample *s, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(&s->b, op, x, y);
}

static inline eo_value sample_one(struct sample *s, enum eo_op op, eo_value x)
{
    return eo_build_unary(&s->b, op, x);
}

#endif
