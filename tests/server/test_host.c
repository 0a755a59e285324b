#include "daemon/server/host.h"
#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char root[64];

static void begin(void)
{
    snprintf(root, sizeof(root), "/tmp/everyo-test-host-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void put(const char *path, const char *text)
{
    struct eo_error err = {0};
    char full[400], dir[400];
    snprintf(full, sizeof(full), "%s%s", root, path);
    snprintf(dir, sizeof(dir), "%s", full);
    *strrchr(dir, '/') = '\0';
    ASSERT_OK(eo_dir_ensure(dir, 0700, &err));
    ASSERT_OK(eo_file_write_atomic(full, text, strlen(text), 0600, &err));
}

static void end(void)
{
    eo_dir_remove(root, NULL);
}

START_TEST(no_cgroup)
{
    struct host_limits l;
    begin();
    put("/proc/meminfo", "MemTotal:        8192 kB\nMemFree: 1 kB\nMemAvailable:    4096 kB\n");
    host_limits_at(root, &l);
    ck_assert_uint_eq(l.memory_total, 8192 * 1024);
    ck_assert_uint_eq(l.memory_available, 4096 * 1024);
    ck_assert_uint_eq(l.memory_cgroup, 0);
    ck_assert_int_ge(l.n_cpus, 1);
    ck_assert_int_eq(l.n_cpus, l.n_cpus_affinity);
    end();
}
END_TEST

/* The smallest limit on the way up counts, whatever the group itself says. */
START_TEST(version_2_ancestors)
{
    struct host_limits l;
    begin();
    put("/proc/meminfo", "MemTotal: 67108864 kB\n");
    put("/proc/self/cgroup", "0::/system.slice/everyod.service\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/system.slice/everyod.service/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/everyod.service/cpu.max", "max 100000\n");
    host_limits_at(root, &l);
    ck_assert_uint_eq(l.memory_cgroup, 1 << 30);
    ck_assert(l.cpu_quota > 0.49 && l.cpu_quota < 0.51);
    ck_assert_int_eq(l.n_cpus, 1); /* never none */
    ck_assert_uint_eq(host_default_memory_limit(&l), (UINT64_C(1) << 30) / 4 * 3);
    end();
}
END_TEST

START_TEST(version_1)
{
    struct host_limits l;
    begin();
    put("/proc/meminfo", "MemTotal: 67108864 kB\n");
    put("/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* its way of saying none */
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    host_limits_at(root, &l);
    ck_assert_uint_eq(l.memory_cgroup, 512 << 20);
    ck_assert(l.cpu_quota <= 0);
    end();
}
END_TEST

START_TEST(nothing_readable)
{
    struct host_limits l;
    host_limits_at("/nonexistent", &l);
    ck_assert_uint_eq(l.memory_total, 0);
    ck_assert_int_ge(l.n_cpus, 1);
    ck_assert_uint_ge(host_default_memory_limit(&l), 16 << 20);
}
END_TEST

static void count(void *ctx, const char *name)
{
    ck_assert(name[0] != '\0');
    ++*(int *)ctx;
}

START_TEST(this_host)
{
    struct host_limits l;
    struct host_facts f;
    int n = 0;
    host_limits(&l);
    host_facts(&f);
    host_cpu_features(count, &n);
    ck_assert_uint_gt(l.memory_total, 0);
    ck_assert_uint_ge(l.memory_total, l.memory_available);
    ck_assert(f.name[0] && f.os[0] && f.kernel[0] && f.architecture[0] && f.cpu_model[0]);
    ck_assert_int_ge(f.n_cores, 1);
    ck_assert_int_ge(n, 0);
    ck_assert_uint_gt(host_rss_bytes(), 0);
    int before = host_open_descriptors();
    int fd = dup(0);
    ck_assert_int_eq(host_open_descriptors(), before + 1);
    close(fd);
}
END_TEST

EO_SUITE("host", no_cgroup, version_2_ancestors, version_1, nothing_readable, this_host)
