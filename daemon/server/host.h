/* Facts of this machine: what may be used, and what `info` shows. Reads /proc, /sys and the C library only, so that
 * looking never changes anything. Cheap (under a millisecond), but file reads: not for hot paths. */
#ifndef EO_DAEMON_SERVER_HOST_H
#define EO_DAEMON_SERVER_HOST_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct host_limits {
    int n_cpus;                /* by affinity and cgroup quota, at least 1 */
    int n_cpus_affinity;       /* by affinity alone */
    double cpu_quota;          /* CPUs by cgroup, 0 = no quota */
    uint64_t memory_total;     /* of the host */
    uint64_t memory_available; /* of the host, as the kernel estimates it */
    uint64_t memory_cgroup;    /* limit of the cgroup, 0 = none */
};
void host_limits(struct host_limits *out);
/* Three quarters of the smaller of host memory and cgroup limit, whole mebibytes. */
uint64_t host_default_memory_limit(const struct host_limits *l);

struct host_facts {
    char name[256];   /* node name */
    char os[128];     /* "Debian GNU/Linux 12 (bookworm)" */
    char kernel[128]; /* "Linux 6.1.0-18-amd64" */
    char architecture[32];
    char cpu_model[128];
    int n_cores;                                              /* online */
    char cuda_driver[64], cuda_runtime[64], cuda_toolkit[64]; /* "" = absent */
};
void host_facts(struct host_facts *out);
/* Calls fn for each vector-instruction feature of the CPU that computing cares about: "avx2", "fma", "neon", ... */
void host_cpu_features(void (*fn)(void *ctx, const char *name), void *ctx);

uint64_t host_rss_bytes(void);   /* of this process */
int host_open_descriptors(void); /* of this process */

/* The cgroup and meminfo parsers, exposed for tests: root replaces "/", normally "". */
void host_limits_at(const char *root, struct host_limits *out);

#endif
