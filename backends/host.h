/* Host memory and what the host grants this process: shared by the backends whose device is the host itself. */
#ifndef EO_BACKENDS_HOST_H
#define EO_BACKENDS_HOST_H

#include "backends/backend.h"

enum { HOST_ALIGNMENT = 64 };

/* The memory slots of struct eo_backend. 0 bytes give NULL. Large blocks ask for huge pages. */
int host_alloc(struct eo_device *dev, uint64_t bytes, void **out, struct eo_error *err);
void host_free(struct eo_device *dev, void *data, uint64_t bytes);
int host_copy_in(struct eo_device *dev, void *dst, const void *src_host, uint64_t bytes, struct eo_error *err);
int host_copy_out(struct eo_device *dev, void *dst_host, const void *src, uint64_t bytes, struct eo_error *err);
int host_copy(struct eo_device *dev, void *dst, const void *src, uint64_t bytes, struct eo_error *err);

/* Processors that this process may use: affinity mask, cut by the quota of its control group; at least 1. */
int host_threads(void);
/* Bytes; the control group's limit counts. 0 = unknown. */
void host_memory(uint64_t *out_total, uint64_t *out_free);
/* The processor's name as the kernel gives it ("AMD EPYC 7763"), else the architecture. */
void host_cpu_name(char *out, size_t size);

#endif
