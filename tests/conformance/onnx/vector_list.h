/* The list of ONNX cases, tests/vectors/onnx_tests.txt: its head explains the columns. */
#ifndef EO_TESTS_CONFORMANCE_ONNX_VECTOR_LIST_H
#define EO_TESTS_CONFORMANCE_ONNX_VECTOR_LIST_H

#include <stdbool.h>

enum vector_tier { TIER_CORE_BASE, TIER_CORE_WIDE, TIER_NEAR, N_TIERS };

struct vector_case {
    char kind[24], name[96], op[64];
    enum vector_tier tier;
    bool rng; /* its result depends on NumPy's generator */
};

/* Number of cases; *out is freed by the caller. Fails the test when the list cannot be read. */
int vector_list_read(struct vector_case **out);

#endif
