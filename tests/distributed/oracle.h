/* Inputs of a rank as a function of (seed, index), and the sum in rank order by the plainest possible loop. */
#ifndef EO_TESTS_DISTRIBUTED_ORACLE_H
#define EO_TESTS_DISTRIBUTED_ORACLE_H

#include "distributed/collective.h"

enum oracle_input {
    ORACLE_EXACT,   /* small integers: the sum is exact in any order */
    ORACLE_ORDERED, /* magnitudes from 2^-20 to 2^20: every order of summation gives other bits */
    ORACLE_SPECIAL  /* NaN of both signs, infinities, zeros of both signs, subnormals, largest values */
};

void oracle_fill(void *data, uint64_t count, enum eo_dtype dtype, enum oracle_input input, uint64_t seed, int rank);
/* Combines world_size arrays filled as above; scratch holds count elements. */
void oracle_combine(void *out, void *scratch, uint64_t count, enum eo_dtype dtype, enum collective_reduce reduce,
                    enum oracle_input input, uint64_t seed, int world_size);

#endif
