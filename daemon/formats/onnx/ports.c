/* What others ask of a model. */
#include "daemon/formats/onnx/model.h"

#include <string.h>

const struct onnx_port *onnx_model_inputs(const struct onnx_model *m, int *out_n)
{
    *out_n = m->graph.n_inputs;
    return m->inputs;
}

const struct onnx_port *onnx_model_outputs(const struct onnx_model *m, int *out_n)
{
    *out_n = m->graph.n_outputs;
    return m->graph.outputs;
}

int onnx_import_version(const struct onnx_import *imports, int n, const char *domain)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(imports[i].domain, domain) == 0) {
            return imports[i].version;
        }
    }
    return 0;
}

const struct onnx_function *onnx_find_function(const struct onnx_model *m, const char *domain, const char *name)
{
    for (int i = 0; i < m->n_functions; i++) {
        if (strcmp(m->functions[i].name, name) == 0 && strcmp(m->functions[i].domain, domain) == 0) {
            return &m->functions[i];
        }
    }
    return NULL;
}
