/* Inside of the cpu backend: the device, and how a family of kernels offers itself. */
#ifndef EO_BACKENDS_CPU_CPU_H
#define EO_BACKENDS_CPU_CPU_H

#include "backends/backend.h"
#include "backends/cpu/vector/vector.h"
#include "proto/base/compiler.h"

extern const struct eo_backend cpu_backend;

struct cpu_device {
    struct eo_device base; /* base.info.threads: threads that parallel_for and OpenBLAS may use */
    const struct vector_set *vec;
    bool has_blas, has_onednn;
};

/* What a selected kernel remembers about its node. Families put it first in their own struct, allocated by cpu_node_new
 * and freed with the kernel. */
typedef int (*cpu_run_fn)(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err);
struct cpu_node {
    cpu_run_fn run;
    char name[56];
};

/* Zeroed memory of `size` bytes; NO_MEMORY. */
int cpu_node_new(size_t size, void *out_node, struct eo_error *err);
/* Makes the kernel of a node that is ready: name is "cpu." and the formatted text. */
void cpu_node_finish(struct cpu_node *node, cpu_run_fn run, struct eo_kernel *out, const char *fmt, ...)
    EO_PRINTF(4, 5);

/* Reasons of the candidates that declined a node, for the error's detail. */
struct cpu_refusals {
    char text[480];
    size_t length;
};
/* Adds "kernel: reason." and returns EO_E_UNSUPPORTED. */
int cpu_decline(struct cpu_refusals *r, const char *kernel, const char *fmt, ...) EO_PRINTF(3, 4);

/* Offers the best kernel of the family for the node: EO_OK with *out filled, EO_E_UNSUPPORTED with a reason for each of
 * its candidates, or NO_MEMORY with err filled. */
typedef int (*cpu_select_fn)(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                             struct cpu_refusals *why, struct eo_error *err);
int elementwise_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                       struct cpu_refusals *why, struct eo_error *err); /* single rows and fused programs */
int reduce_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err);
int scan_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err); /* cumulative_sum */
int sort_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err); /* sort, top_k */
int softmax_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                   struct cpu_refusals *why, struct eo_error *err); /* softmax, log_softmax, cross_entropy */
int movement_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err);
int index_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                 struct cpu_refusals *why, struct eo_error *err);
int lookup_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err); /* gathers and scatters of elements and tuples */
int sparse_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err); /* nonzero, compress */
int matmul_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err); /* matmul and linear */
int window_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err); /* unfold, fold */
int convolve_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err); /* conv, conv_transpose, conv_weight */
int random_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err); /* what reads an rng operand */
int creation_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err); /* full, eye, arange, linspace */
int update_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                  struct cpu_refusals *why, struct eo_error *err);

/* float16 and bfloat16 by way of float32 (half.c): offer is the family that has the float32 kernel. */
bool half_applies(const struct eo_node_view *node);
int half_select(struct cpu_device *dev, const struct eo_node_view *node, cpu_select_fn offer, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err);

/* Products of many sizes and transposes against plain loops (self_check.c). */
int cpu_self_check(struct eo_device *dev, char *out_report, size_t size, struct eo_error *err);

#endif
