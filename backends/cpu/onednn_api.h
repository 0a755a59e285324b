/* The functions of oneDNN that onednn*.c call, resolved once. Included by them alone, in builds that have oneDNN. */
#ifndef EO_BACKENDS_CPU_ONEDNN_API_H
#define EO_BACKENDS_CPU_ONEDNN_API_H

#include "backends/cpu/onednn.h"

#include <dnnl.h>

#define ONEDNN_FUNCTIONS(X)                                                                                            \
    X(dnnl_version)                                                                                                    \
    X(dnnl_get_effective_cpu_isa)                                                                                      \
    X(dnnl_sgemm)                                                                                                      \
    X(dnnl_engine_create)                                                                                              \
    X(dnnl_stream_create)

struct onednn_api {
#define ONEDNN_MEMBER(name) __typeof__(name) *name;
    ONEDNN_FUNCTIONS(ONEDNN_MEMBER)
#undef ONEDNN_MEMBER
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

const struct onednn_api *onednn_api(void); /* NULL: not usable */
/* BACKEND_FAILED with the status in words and what was tried; EO_OK for success. */
int onednn_check(dnnl_status_t status, const char *what, struct eo_error *err);

#endif
