/* Results of a backend against those of the reference backend: equal bits, or within the row's tolerance. */
#ifndef EO_TESTS_CONFORMANCE_COMPARE_H
#define EO_TESTS_CONFORMANCE_COMPARE_H

#include "tests/conformance/cases.h"

/* "add(float32 [2, 3], float32 [3])" */
void compare_describe(const struct run *r, char *out, size_t size);
/* Fails the test at the first element that is off; backend and how say which call it was. */
void compare_results(const struct run *r, const struct results *expected, const struct results *actual,
                     const char *backend, const char *how);

#endif
