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
    X(dnnl_engine_destroy)                                                                                             \
    X(dnnl_stream_create)                                                                                              \
    X(dnnl_stream_destroy)

/* What convolutions need; without them the library still serves products. */
#define ONEDNN_CONV_FUNCTIONS(X)                                                                                       \
    X(dnnl_memory_desc_init_by_strides)                                                                                \
    X(dnnl_memory_desc_init_by_tag)                                                                                    \
    X(dnnl_memory_desc_equal)                                                                                          \
    X(dnnl_memory_desc_get_size)                                                                                       \
    X(dnnl_dilated_convolution_forward_desc_init)                                                                      \
    X(dnnl_dilated_convolution_backward_data_desc_init)                                                                \
    X(dnnl_dilated_convolution_backward_weights_desc_init)                                                             \
    X(dnnl_primitive_attr_create)                                                                                      \
    X(dnnl_primitive_attr_destroy)                                                                                     \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                                         \
    X(dnnl_primitive_desc_create)                                                                                      \
    X(dnnl_primitive_desc_destroy)                                                                                     \
    X(dnnl_primitive_desc_query)                                                                                       \
    X(dnnl_primitive_desc_query_md)                                                                                    \
    X(dnnl_reorder_primitive_desc_create)                                                                              \
    X(dnnl_primitive_create)                                                                                           \
    X(dnnl_primitive_destroy)                                                                                          \
    X(dnnl_primitive_execute)                                                                                          \
    X(dnnl_memory_create)                                                                                              \
    X(dnnl_memory_destroy)                                                                                             \
    X(dnnl_memory_set_data_handle)

struct onednn_api {
#define ONEDNN_MEMBER(name) __typeof__(name) *name;
    ONEDNN_FUNCTIONS(ONEDNN_MEMBER)
    ONEDNN_CONV_FUNCTIONS(ONEDNN_MEMBER)
#undef ONEDNN_MEMBER
    bool has_conv;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

const struct onednn_api *onednn_api(void); /* NULL: not usable */
/* BACKEND_FAILED with the status in words and what was tried; EO_OK for success. */
int onednn_check(dnnl_status_t status, const char *what, struct eo_error *err);

#endif
