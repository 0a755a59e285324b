/* Results against expected ones, as ONNX's own runner compares them. */
#ifndef EO_TESTS_CONFORMANCE_ONNX_VECTOR_COMPARE_H
#define EO_TESTS_CONFORMANCE_ONNX_VECTOR_COMPARE_H

#include "daemon/formats/host_tensor.h"

/* One element as double, whatever the dtype; 64-bit integers are rounded. */
double vector_element(const struct host_tensor *t, int64_t i);

/* dtype and shape equal, every element |got - want| <= 1e-7 + 1e-3 |want| (numpy.testing.assert_allclose with the
 * rtol and atol of onnx.backend.test.loader); integers and bools equal. What differs is written to why. */
bool vector_equal(const struct host_tensor *result, const struct host_tensor *want, char *why, size_t size);

/* A Dropout in training: y is x scaled by 1 / (1 - ratio) where mask (NULL: anywhere) says so and 0 elsewhere. */
bool vector_dropout(const struct host_tensor *x, double ratio, const struct host_tensor *y,
                    const struct host_tensor *mask, char *why, size_t size);

#endif
