/* The backend "fake": a device with an address space of its own and an asynchronous queue, computed by the reference
 * backend. The engine's suites run on it, so that nothing outside a backend ever touches device memory, forgets to
 * wait, or relies on what is not promised. What it is strict about:
 *   - its pointers fault when dereferenced; operands must lie inside one live block, which is checked when they are
 * queued;
 *   - fresh memory holds NaN; freed memory is refused at once;
 *   - work runs late (at sync or copy_out) or on a thread of its own; node views may be gone by then;
 *   - the first error of queued work is reported by the next copy_out and by sync, which forgets it.
 *
 *   fake_device_configure(&(struct fake_device_options){.threaded = true});   // optional, before the device is opened
 *   registry_add(&fake_backend, &err);
 *   registry_open("fake", ...); */
#ifndef EO_TESTS_SUPPORT_FAKE_DEVICE_H
#define EO_TESTS_SUPPORT_FAKE_DEVICE_H

#include "backends/backend.h"

extern const struct eo_backend fake_backend;

struct fake_device_options {
    bool threaded;         /* a thread runs the queue as it comes; default: everything waits for sync */
    uint64_t memory_bytes; /* of the device; 0 = 1 GiB (address space, taken from the host only where it is used) */
    /* true: select declines the node with UNSUPPORTED. NULL: only fused programs are declined. */
    bool (*declines)(const struct eo_node_view *node);
    uint64_t fail_launch; /* the n-th kernel run (from 1) fails with BACKEND_FAILED; 0 = none */
    /* State of a fact in the probe, EO_FACT_UNKNOWN = as usual (yes). */
    enum eo_fact_state facts[EO_FACT_COUNT];
    bool no_devices; /* device_count is 0 */
};

/* For devices opened later, and for the probe; NULL = defaults. */
void fake_device_configure(const struct fake_device_options *options);

struct fake_device_stats {
    uint64_t queued, executed, syncs;
    int live_blocks;
};
struct fake_device_stats fake_device_stats(struct eo_device *dev);

#endif
