/* Models and single nodes by hand, run on the reference backend, and their results compared. */
#ifndef EO_TESTS_FORMATS_ONNX_CHECK_H
#define EO_TESTS_FORMATS_ONNX_CHECK_H

#include "tests/formats/onnx_bytes.h"
#include "tests/support/suite.h"

enum { MAX_GIVEN = 8 };

/* A tensor as text: type, shape, values; shape NULL: not given. */
struct given {
    int type;
    const char *shape, *values;
};
#define GIVEN(...)                                                                                                     \
    (const struct given[]){__VA_ARGS__}, (int)(sizeof((struct given[]){__VA_ARGS__}) / sizeof(struct given))
#define F(shape, values)                                                                                               \
    {                                                                                                                  \
        T_FLOAT, shape, values                                                                                         \
    }
#define I(shape, values)                                                                                               \
    {                                                                                                                  \
        T_INT64, shape, values                                                                                         \
    }
#define NONE                                                                                                           \
    {                                                                                                                  \
        0, NULL, NULL                                                                                                  \
    }

extern struct eo_error err; /* of the last call */

/* Runs the suite with an executor on the reference backend. */
int check_main(const char *name, const TTest *const *tests, size_t n);

/* Runs the model (freed) and returns the code. */
int run(struct model *m, const struct given *given, int n, struct onnx_results *out);
double number(const struct host_tensor *t, int64_t i);
/* Output o is the tensor. */
void expect(const struct onnx_results *r, int o, struct given want);

/* One node with its operands x0, x1, ... as inputs of the model, "-" where given has no shape. */
struct model one_node(int opset, const char *op, const char *attrs, const struct given *given, int n,
                      const char *outputs);
/* Its output y is the tensor / it fails with the returned code. */
void check_node(int opset, const char *op, const char *attrs, const struct given *given, int n, struct given want);
int fail_node(int opset, const char *op, const char *attrs, const struct given *given, int n);

#endif
