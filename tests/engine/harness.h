/* Running graphs in tests: device memory for every place, copies in and out, one plan. All failures are test failures,
 * except those of opening, which are returned. */
#ifndef EO_TESTS_ENGINE_HARNESS_H
#define EO_TESTS_ENGINE_HARNESS_H

#include "daemon/engine/executor.h"
#include "tests/support/suite.h"

struct harness {
    struct eo_device *dev;
    struct executor *executor;
    struct plan *plan;
    struct plan_place *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    const struct eo_graph *graph;
    void *buffers[2]; /* 0: inputs, 1: outputs */
    uint64_t sizes[2];
};

struct harness_options {
    uint32_t without;
    enum plan_fallback fallback;
    const int
        *over; /* per output: number of the input (in node order) whose place it takes, -1 = its own; NULL = all own */
};

/* All inputs and states of the graph get a place, in node order; so do the given values. */
int harness_open(struct harness *h, struct eo_device *dev, const struct eo_graph *g, const eo_value *outputs,
                 uint32_t n_outputs, struct harness_options options, struct eo_error *err);
void harness_close(struct harness *h);
void harness_feed(struct harness *h, eo_value input, const void *data);
int harness_run(struct harness *h, struct eo_error *err);
void harness_fetch(struct harness *h, uint32_t output, void *data);

/* One element as double, whatever the dtype. */
double harness_get(enum eo_dtype dtype, const void *data, int64_t i);
void harness_set(enum eo_dtype dtype, void *data, int64_t i, double v);
/* Numbers for tests: the same on every machine. */
double harness_random(uint64_t seed, uint64_t index); /* [0, 1) */

struct eo_device *harness_device(const char *name); /* fails the test when it cannot be opened */
struct eo_tensor_desc harness_desc(enum eo_dtype dtype, int n_dims, const int64_t *shape);
/* eo_graph_input that must succeed; shape as a braced list: INPUT(g, "x", EO_FLOAT32, 2, 3) */
eo_value harness_input(struct eo_graph *g, const char *name, enum eo_dtype dtype, int n_dims, const int64_t *shape);
#define SHAPE(...)                                                                                                     \
    ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))), (const int64_t[])                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define INPUT(g, name, dtype, ...) harness_input((g), (name), (dtype), SHAPE(__VA_ARGS__))
#define SCALAR_INPUT(g, name, dtype) harness_input((g), (name), (dtype), 0, NULL)

#endif
