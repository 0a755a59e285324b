/* What a device offers. One const struct eo_backend per backend, listed in backends.def; backends/registry.h finds
 * them.
 *
 * Memory: device pointers are opaque outside the backend; nothing else dereferences them (tests run the whole engine
 * on a fake device with its own address space). Execution: kernels may be queued; copies and sync are ordered with
 * them. One thread (the executor's) uses a device at a time; abort is by ending the process. */
#ifndef EO_BACKENDS_BACKEND_H
#define EO_BACKENDS_BACKEND_H

#include "proto/op_schema.h"

enum { EO_BACKEND_ABI = 1 };

/* The six facts (design section 4), never merged. A fact that is false says why; a later fact that was not reached
 * because an earlier one failed is EO_FACT_UNKNOWN. Facts 5 and 6 are per op and per use: see select() and counters. */
enum eo_fact_state { EO_FACT_UNKNOWN, EO_FACT_NO, EO_FACT_YES };
enum eo_fact {
    EO_FACT_INSTALLED,   /* dependency installed */
    EO_FACT_INITIALISED, /* runtime initialised */
    EO_FACT_HARDWARE,    /* hardware detected */
    EO_FACT_BUILT,       /* supported by this build */
    EO_FACT_SUPPORTED,   /* operation supported: asked per node */
    EO_FACT_USED,        /* acceleration actually used: counters */
    EO_FACT_COUNT
};
struct eo_backend_facts {
    enum eo_fact_state state[EO_FACT_COUNT];
    char why[EO_FACT_COUNT][160]; /* versions when yes ("OpenBLAS 0.3.21, Zen, 2 threads"), cause when no */
};

struct eo_device_info {
    char name[16];                      /* "cpu", "reference", "cuda:0" */
    char description[96];               /* "AMD EPYC, AVX2+FMA, 2 threads, OpenBLAS 0.3.21 (Zen)" */
    uint64_t memory_total, memory_free; /* bytes; 0 = unknown */
    int threads;
    bool host_memory; /* device pointers are host pointers (shared pool memory can be used in place) */
};

struct eo_device_config {
    int threads; /* 0 = by affinity and cgroup */
};

struct eo_backend;
/* Base of every backend's device; backends put it first in their own struct. */
struct eo_device {
    const struct eo_backend *backend;
    struct eo_device_info info;
    uint64_t n_launches; /* fact 6: kernels run */
};

struct eo_operand {
    void *data; /* device pointer; may be NULL for empty tensors */
    const struct eo_tensor_desc *desc;
};

/* A fused chain of element-wise ops over one iteration space (desc of the outputs). Registers 0..n_inputs-1 are the
 * inputs (each the full shape, a scalar, or broadcastable to it), each step writes register n_inputs + step. */
enum { EO_FUSED_MAX_STEPS = 24, EO_FUSED_MAX_INPUTS = 8, EO_FUSED_MAX_OUTPUTS = 4 };
struct eo_fused_step {
    uint16_t op; /* enum eo_op: an op with EO_PROP_ELEMENTWISE */
    uint8_t n_in;
    uint8_t in[3];
    uint8_t dtype; /* of the result */
    const struct eo_attrs *attrs;
};
struct eo_fused_program {
    uint8_t n_inputs, n_steps, n_outputs;
    struct eo_fused_step steps[EO_FUSED_MAX_STEPS];
    uint8_t outputs[EO_FUSED_MAX_OUTPUTS]; /* registers */
};

/* A node as a backend sees it when a plan is made. fused != NULL: op is NULL and the program tells the work. */
struct eo_node_view {
    const struct eo_op_schema *op;
    const struct eo_attrs *attrs;
    const struct eo_fused_program *fused;
    int n_in, n_out;
    const struct eo_tensor_desc *in[EO_MAX_INPUTS];
    const struct eo_tensor_desc *out[EO_MAX_OUTPUTS];
};

struct eo_launch {
    const struct eo_node_view *node;
    void *in[EO_MAX_INPUTS];
    void *out[EO_MAX_OUTPUTS];
    void *workspace;               /* choice.workspace_bytes, 64-byte aligned */
    void *state;                   /* choice.state */
    struct eo_tensor_desc *actual; /* DATA_SHAPE rows: receives the real shape of output 0, else NULL */
};

/* Runs or queues one kernel. Raises BAD_VALUE for data it must refuse (an index out of range), BACKEND_FAILED. */
typedef int (*eo_kernel_fn)(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err);

struct eo_kernel {
    eo_kernel_fn run;
    const char *name;         /* "cpu.matmul.f32.blas" */
    uint64_t workspace_bytes; /* scratch memory, booked by the plan */
    uint32_t in_place;        /* bit i: output 0 may share memory with input i of the same size */
    void *state;              /* prepared once per node; freed by state_free */
    void (*state_free)(void *state);
};

struct eo_backend {
    uint32_t abi; /* EO_BACKEND_ABI */
    const char *name;
    const char *summary;
    /* Looks without changing anything; may be called at any time, in any process. */
    void (*probe)(struct eo_backend_facts *out);
    int (*device_count)(void); /* after a probe with facts 1-4 yes */
    int (*device_open)(int index, const struct eo_device_config *config, struct eo_device **out, struct eo_error *err);
    void (*device_close)(struct eo_device *dev);
    /* Memory, 64-byte aligned, contents undefined. DEVICE_MEMORY when there is none. */
    int (*alloc)(struct eo_device *dev, uint64_t bytes, void **out, struct eo_error *err);
    void (*free)(struct eo_device *dev, void *data, uint64_t bytes);
    /* Chooses the kernel for a node, a pure function of node, threads, instruction set and library version. When none
     * fits: returns UNSUPPORTED with the reason of every candidate kernel in the error's detail. */
    int (*select)(struct eo_device *dev, const struct eo_node_view *node, struct eo_kernel *out, struct eo_error *err);
    int (*copy_in)(struct eo_device *dev, void *dst, const void *src_host, uint64_t bytes, struct eo_error *err);
    int (*copy_out)(struct eo_device *dev, void *dst_host, const void *src, uint64_t bytes, struct eo_error *err);
    int (*copy)(struct eo_device *dev, void *dst, const void *src, uint64_t bytes, struct eo_error *err);
    /* Optional; default: nothing to wait for. Waits for all queued work and reports its first error. */
    int (*sync)(struct eo_device *dev, struct eo_error *err);
    /* Optional; default: no self-check. Known answers; says what was compared. */
    int (*self_check)(struct eo_device *dev, char *out_report, size_t size, struct eo_error *err);
};

#endif
