/* An ONNX model: read, checked, and, when its inputs are small, made into a graph with zeros for inputs, which
 * evaluates the operands that decide shapes. The same bytes as a tensor file. */
#include "daemon/formats/onnx/build.h"

#include <string.h>

enum { MAX_INPUTS = 16, MAX_ELEMENTS = 4096, OPEN_SIZE = 2 };

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

/* false: larger than what is worth feeding */
static bool zeros(const struct onnx_port *port, struct host_tensor *out)
{
    struct eo_tensor_desc desc;
    int64_t shape[EO_MAX_DIMS];
    struct eo_error err = {0};

    for (int d = 0; d < port->n_dims; d++) {
        shape[d] = port->dims[d] < 0 ? OPEN_SIZE : port->dims[d];
    }
    return eo_tensor_desc_init(&desc, port->dtype, shape, port->n_dims < 0 ? 0 : port->n_dims, &err) == EO_OK &&
           eo_tensor_desc_count(&desc) <= MAX_ELEMENTS && host_tensor_init(&desc, out, &err) == EO_OK;
}

static void build(const struct onnx_model *m)
{
    struct host_tensor tensors[MAX_INPUTS] = {{{0}, NULL}};
    const struct host_tensor *inputs[MAX_INPUTS];
    struct eo_error err = {0};
    struct onnx_build b;
    eo_value *values;
    int n;
    const struct onnx_port *ports = onnx_model_inputs(m, &n);
    bool small = n <= MAX_INPUTS;

    for (int i = 0; small && i < n; i++) {
        promise(ports[i].name[0] != '\0' && ports[i].n_dims <= EO_MAX_DIMS);
        small = zeros(&ports[i], &tensors[i]);
        inputs[i] = &tensors[i];
    }
    if (small) {
        int rc = build_model(&b, m, inputs, n, &values, &err);

        promise(rc == EO_OK || err.code == rc);
        for (int i = 0; rc == EO_OK && i < m->graph.n_outputs; i++) {
            promise(values[i] < b.graph->n_values);
        }
        build_fini(&b);
    }
    for (int i = 0; i < MAX_INPUTS; i++) {
        host_tensor_fini(&tensors[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_error err = {0};
    struct onnx_model *m = NULL;
    struct host_tensor t = {{0}, NULL};

    if (onnx_model_parse(data, size, &m, &err) == EO_OK) {
        build(m);
    } else {
        promise(err.code != EO_OK && m == NULL);
    }
    onnx_model_free(m);
    if (onnx_tensor_parse(data, size, &t, &err) == EO_OK) {
        promise(eo_tensor_desc_check(&t.desc, &err) == EO_OK);
    }
    host_tensor_fini(&t);
    return 0;
}
