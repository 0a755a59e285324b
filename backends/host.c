#include "backends/host.h"

#include "proto/base/text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 8 << 20 };

int host_alloc(struct eo_device *dev, uint64_t bytes, void **out, struct eo_error *err)
{
    void *data = NULL;
    if (bytes > PTRDIFF_MAX)
        return EO_RAISE(err, EO_E_DEVICE_MEMORY, "%llu bytes of memory cannot be had", (unsigned long long)bytes);
    if (bytes > 0) {
        size_t alignment = bytes >= HUGE_FROM ? HUGE_PAGE : HOST_ALIGNMENT;
        if (posix_memalign(&data, alignment, bytes) != 0) {
            int rc =
                EO_RAISE(err, EO_E_DEVICE_MEMORY, "%llu bytes of memory could not be had", (unsigned long long)bytes);
            eo_error_at_device(err, dev->backend->name, dev->info.name);
            return rc;
        }
        /* Advice only: fewer page faults and TLB misses where the kernel grants it. */
        if (bytes >= HUGE_FROM)
            (void)madvise(data, bytes, MADV_HUGEPAGE);
    }
    *out = data;
    return EO_OK;
}

void host_free(struct eo_device *dev, void *data, uint64_t bytes)
{
    (void)dev;
    (void)bytes;
    free(data);
}

int host_copy(struct eo_device *dev, void *dst, const void *src, uint64_t bytes, struct eo_error *err)
{
    (void)dev;
    (void)err;
    if (bytes > 0)
        memmove(dst, src, bytes);
    return EO_OK;
}

int host_copy_in(struct eo_device *dev, void *dst, const void *src_host, uint64_t bytes, struct eo_error *err)
{
    return host_copy(dev, dst, src_host, bytes, err);
}

int host_copy_out(struct eo_device *dev, void *dst_host, const void *src, uint64_t bytes, struct eo_error *err)
{
    return host_copy(dev, dst_host, src, bytes, err);
}

/* First line of a small file; false when there is none. */
static bool first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(out, (int)size, f) != NULL;
    (void)fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

/* Two numbers separated by a blank; "max" or anything else that is no number makes it false. */
static bool two_numbers(const char *text, double *a, double *b)
{
    char *end = NULL;
    *a = strtod(text, &end);
    if (end == text || *end != ' ')
        return false;
    *b = strtod(end, NULL);
    return true;
}

int host_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    char line[64];
    double quota = 0, period = 0;
    if (first_line("/sys/fs/cgroup/cpu.max", line, sizeof line) && two_numbers(line, &quota, &period) && quota > 0 &&
        period > 0 && quota / period < n)
        n = (int)(quota / period);
    return n < 1 ? 1 : n;
}

void host_memory(uint64_t *out_total, uint64_t *out_free)
{
    long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES), idle = sysconf(_SC_AVPHYS_PAGES);
    *out_total = page > 0 && pages > 0 ? (uint64_t)page * (uint64_t)pages : 0;
    *out_free = page > 0 && idle > 0 ? (uint64_t)page * (uint64_t)idle : 0;
    char line[64];
    char *end = NULL;
    if (first_line("/sys/fs/cgroup/memory.max", line, sizeof line)) {
        unsigned long long limit = strtoull(line, &end, 10);
        if (end != line && limit > 0 && limit < *out_total)
            *out_total = limit;
    }
    *out_free = EO_MIN(*out_free, *out_total);
}

void host_cpu_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        eo_copy_text(out, size, colon + 1 + strspn(colon + 1, " "));
        (void)fclose(f);
        return;
    }
    if (f)
        (void)fclose(f);
    struct utsname name;
    eo_copy_text(out, size, uname(&name) == 0 ? name.machine : "unknown processor");
}
