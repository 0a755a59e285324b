/* The calls that every backend is compared on: for each row of ops.def shapes and attributes, and data that suits the
 * row. */
#ifndef EO_TESTS_CONFORMANCE_CASES_H
#define EO_TESTS_CONFORMANCE_CASES_H

#include "tests/conformance/runner.h"

struct op_case {
    enum eo_op op;
    const char *inputs; /* "T 2x3; I 4": see cases.def */
    const char *attrs;  /* as in tests/proto/op_case.h; "dtype=T" is the dtype under test */
};

int case_count(void);
const struct op_case *case_at(int index);

/* dtypes that the row is tried with: its set, or those that its result can have (creation rows, one_hot), or for cast
 * the dtype of the operand; the result's dtype of a cast is to. */
eo_dtype_set case_dtypes(const struct eo_op_schema *op);
int case_init(struct run *r, const struct op_case *c, enum eo_dtype dtype, enum eo_dtype to, struct eo_error *err);

enum fill {
    FILL_ORDINARY, /* values that the row is made for */
    FILL_SPECIAL   /* NaN, infinities, zeros of both signs, subnormals, the largest and smallest values */
};
void case_fill(struct run *r, enum fill fill, uint64_t seed);

bool case_is_update(enum eo_op op); /* an optimizer row: its last operand are its scalars, its state has a range */
/* Elements that a reduction of the row adds up. */
int64_t case_reduced(const struct run *r);
/* How far element i of output o may be off, given the reference's result: absolute, by the rule of eo_op_tolerance. */
double case_allowed(const struct run *r, int o, double expected);

/* One element as float64; integers lose their low bits above 2^53, so equal bits are compared with memcmp. */
double element_value(enum eo_dtype dtype, const void *data, int64_t i);
void set_element(enum eo_dtype dtype, void *data, int64_t i, double value);
double random_unit(uint64_t seed, uint64_t index); /* [0, 1) */

#endif
