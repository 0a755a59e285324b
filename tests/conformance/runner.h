/* Runs one operation on any device: operands in and out by copies, guard bytes behind every result. */
#ifndef EO_TESTS_CONFORMANCE_RUNNER_H
#define EO_TESTS_CONFORMANCE_RUNNER_H

#include "backends/registry.h"
#include "tests/support/suite.h"

/* Like ck_assert_msg, for loops: Check writes each of its assertions to a file, also those that hold. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
    } while (0)

/* Operands on the host, results of one run. Everything is owned by the run and freed by run_fini. */
struct run {
    const struct eo_op_schema *op; /* NULL: fused */
    const struct eo_fused_program *fused;
    struct eo_attrs attrs;
    int n_in, n_out;
    struct eo_tensor_desc in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
    void *in_data[EO_MAX_INPUTS];
    double scale; /* magnitude of the terms where they can cancel: case_fill works it out once */
};

/* Inputs are allocated (zeroed) by their descriptors; outputs are inferred, except for fused runs, whose caller sets
 * them. */
int run_init(struct run *r, const struct eo_op_schema *op, const struct eo_attrs *attrs,
             const struct eo_tensor_desc *in, int n_in, struct eo_error *err);
void run_fini(struct run *r);

struct results {
    void *out[EO_MAX_OUTPUTS];                  /* host copies */
    struct eo_tensor_desc desc[EO_MAX_OUTPUTS]; /* the run's, or what the data made of it */
    char kernel[64];
    uint32_t in_place; /* the mask that the kernel offered */
};
void results_fini(struct results *r);

/* A composite row that the device does not claim runs as its lowering; the reference claims none.
 * Selects, copies in, launches, syncs, copies out. share: number of the input whose memory output 0 takes (its kernel
 * must offer that), -1 for none. UNSUPPORTED and BAD_VALUE come back as codes; damage behind a result fails the test.
 */
int run_on(struct eo_device *dev, const struct run *r, int share, struct results *out, struct eo_error *err);

/* The backends under test, opened: cpu with every instruction set that runs here (the best one first, named "cpu";
 * none when the backend cannot be used), the fake device with both queues, and the reference. */
enum { DEVICES = 6 };
struct devices {
    struct eo_device *reference;
    struct eo_device *under_test[DEVICES];
    const char *names[DEVICES];
    int n;
};
void devices_open(struct devices *d);
void devices_close(struct devices *d);

#endif
