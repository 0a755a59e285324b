/* One call of a row with given numbers: results and gradients on a device, through a plan. */
#ifndef EO_TESTS_ENGINE_CALL_H
#define EO_TESTS_ENGINE_CALL_H

#include "tests/engine/harness.h"

enum { CALL_MAX_INPUTS = 8 };

struct call {
    enum eo_op op;
    const char *attrs; /* as in tests/proto/op_case.h */
    struct {
        const char *desc;   /* "float64 2x3"; NULL ends the list */
        const double *data; /* NULL: zeros */
    } in[CALL_MAX_INPUTS];
};

/* Elements as double; NULL where there is no such output or gradient. */
struct call_result {
    double *out[EO_MAX_OUTPUTS];
    int count[EO_MAX_OUTPUTS];     /* elements of each output */
    double *grad[CALL_MAX_INPUTS]; /* of the sum of all elements of all float outputs, for float inputs */
};

/* with_grads: also gradients, which then are part of the same plan. Errors of running come back; others fail. */
int call_run(struct eo_device *dev, const struct call *c, bool with_grads, struct call_result *r, struct eo_error *err);
void call_free(struct call_result *r);

/* |got - wanted| <= 1e-12 + rtol |wanted| for n elements; NaN equals NaN, infinities themselves. */
void call_compare(const double *got, const double *wanted, int n, double rtol, const char *what);

#endif
