/* A build without protobuf-c refuses ONNX files by name and says what it lacks. */
#include "daemon/formats/onnx/onnx.h"
#include "tests/support/suite.h"

#include <string.h>

START_TEST(test_reading_is_refused)
{
    struct eo_error err = {0};
    struct onnx_model *m = NULL;
    struct host_tensor t;

    ck_assert(!onnx_available());
    ASSERT_CODE(onnx_model_parse("", 0, &m, &err), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "protobuf-c");
    ASSERT_CONTAINS(err.hint, "libprotobuf-c-dev");
    eo_error_clear(&err);
    ASSERT_CODE(onnx_tensor_parse("", 0, &t, &err), EO_E_UNSUPPORTED);
}
END_TEST

EO_SUITE("ONNX without protobuf-c", test_reading_is_refused)
