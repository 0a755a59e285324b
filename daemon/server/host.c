#include "daemon/server/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT_MAX = 16384 };

/* Reads at most size - 1 bytes of a kernel file, NUL-terminated; "" when there is none. Kernel files are short reads
 * only at their end. */
static const char *read_small(const char *root, const char *path, char *out, size_t size)
{
    char full[1200];
    out[0] = '\0';
    if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full)) {
        return out;
    }
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return out;
    }
    size_t used = 0;
    for (;;) {
        ssize_t n = read(fd, out + used, size - 1 - used);
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    close(fd);
    out[used] = '\0';
    return out;
}

/* The text after `key` at the start of a line, up to its end. */
static bool line_value(const char *text, const char *key, char *out, size_t size)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, key, n) != 0) {
            continue;
        }
        const char *value = line + n;
        value += strspn(value, " \t:=");
        size_t length = strcspn(value, "\n");
        if (length > 0 && value[0] == '"' && value[length - 1] == '"' && length >= 2) {
            value++;
            length -= 2;
        }
        snprintf(out, size, "%.*s", (int)EO_MIN(length, size - 1), value);
        return true;
    }
    return false;
}

static uint64_t number_at(const char *text)
{
    while (*text == ' ' || *text == '\t') {
        text++;
    }
    uint64_t v = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            return UINT64_MAX;
        }
        v = v * 10 + digit;
    }
    return v;
}

/* ---- limits ---- */

static void limits_memory(const char *root, struct host_limits *out)
{
    char text[TEXT_MAX], value[64];
    read_small(root, "/proc/meminfo", text, sizeof(text));
    if (line_value(text, "MemTotal", value, sizeof(value))) {
        out->memory_total = number_at(value) * 1024;
    }
    if (line_value(text, "MemAvailable", value, sizeof(value))) {
        out->memory_available = number_at(value) * 1024;
    }
}

/* Applies the limits of one cgroup directory (version 2 names, then version 1 names). */
static void limits_of_group(const char *root, const char *dir, struct host_limits *out)
{
    char path[1100], text[256];
    snprintf(path, sizeof(path), "%s/memory.max", dir);
    uint64_t limit = number_at(read_small(root, path, text, sizeof(text))); /* "max" reads as 0: none */
    if (limit == 0) {
        snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", dir);
        limit = number_at(read_small(root, path, text, sizeof(text)));
    }
    if (limit > 0 && limit < (UINT64_C(1) << 60) && (out->memory_cgroup == 0 || limit < out->memory_cgroup)) {
        out->memory_cgroup = limit;
    }
    double quota = 0, period = 0;
    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    read_small(root, path, text, sizeof(text));
    const char *space = strchr(text, ' ');
    if (space && text[0] >= '0' && text[0] <= '9') {
        quota = (double)number_at(text);
        period = (double)number_at(space);
    } else {
        snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
        quota = (double)number_at(read_small(root, path, text, sizeof(text))); /* -1 reads as 0: none */
        snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
        period = (double)number_at(read_small(root, path, text, sizeof(text)));
    }
    if (quota > 0 && period > 0 && (out->cpu_quota <= 0 || quota / period < out->cpu_quota)) {
        out->cpu_quota = quota / period;
    }
}

/* A limit of any ancestor counts: walks from our group up to the mount. controller "" = version 2. */
static void limits_of_tree(const char *root, const char *mount, const char *group, struct host_limits *out)
{
    char dir[1024];
    snprintf(dir, sizeof(dir), "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    size_t base = strlen(mount);
    for (;;) {
        limits_of_group(root, dir, out);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < base || strlen(dir) <= base) {
            return;
        }
        *slash = '\0';
    }
}

static void limits_cgroup(const char *root, struct host_limits *out)
{
    char text[TEXT_MAX];
    read_small(root, "/proc/self/cgroup", text, sizeof(text));
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':'); /* "0::/path" or "4:memory:/path" */
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        controllers++;
        *group++ = '\0';
        if (controllers[0] == '\0') {
            limits_of_tree(root, "/sys/fs/cgroup", group, out);
        } else if (strcmp(controllers, "memory") == 0) {
            limits_of_tree(root, "/sys/fs/cgroup/memory", group, out);
        } else if (strstr(controllers, "cpu,") || strcmp(controllers, "cpu") == 0) {
            limits_of_tree(root, "/sys/fs/cgroup/cpu", group, out);
        }
    }
}

void host_limits_at(const char *root, struct host_limits *out)
{
    memset(out, 0, sizeof(*out));
    cpu_set_t set;
    CPU_ZERO(&set);
    out->n_cpus_affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    if (out->n_cpus_affinity < 1) {
        out->n_cpus_affinity = 1;
    }
    limits_memory(root, out);
    limits_cgroup(root, out);
    out->n_cpus = out->n_cpus_affinity;
    if (out->cpu_quota > 0 && out->cpu_quota < out->n_cpus) {
        out->n_cpus = out->cpu_quota < 1 ? 1 : (int)out->cpu_quota;
    }
}

void host_limits(struct host_limits *out)
{
    host_limits_at("", out);
}

uint64_t host_default_memory_limit(const struct host_limits *l)
{
    const uint64_t mebi = UINT64_C(1) << 20;
    uint64_t all = l->memory_total ? l->memory_total : UINT64_C(1) << 30;
    if (l->memory_cgroup && l->memory_cgroup < all) {
        all = l->memory_cgroup;
    }
    return EO_MAX(all / 4 * 3 / mebi, UINT64_C(16)) * mebi;
}

/* ---- facts ---- */

static void facts_cuda(struct host_facts *out)
{
    char text[TEXT_MAX];
    read_small("", "/proc/driver/nvidia/version", text, sizeof(text));
    /* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  ..." */
    const char *at = strstr(text, "Module");
    if (at) {
        at += strcspn(at, "0123456789\n");
        snprintf(out->cuda_driver, sizeof(out->cuda_driver), "%.*s", (int)strcspn(at, " \n"), at);
    }
    read_small("", "/usr/local/cuda/version.json", text, sizeof(text));
    const struct {
        const char *key;
        char *out;
    } parts[] = {{"\"cuda\"", out->cuda_toolkit}, {"\"cuda_cudart\"", out->cuda_runtime}};
    for (size_t i = 0; i < EO_COUNT_OF(parts); i++) {
        const char *part = strstr(text, parts[i].key);
        const char *version = part ? strstr(part, "\"version\"") : NULL;
        version = version ? strchr(version, ':') : NULL;
        version = version ? strchr(version, '"') : NULL;
        if (version) {
            snprintf(parts[i].out, sizeof(out->cuda_toolkit), "%.*s", (int)EO_MIN(strcspn(version + 1, "\"\n"), 60u),
                     version + 1);
        }
    }
}

void host_facts(struct host_facts *out)
{
    memset(out, 0, sizeof(*out));
    struct utsname u;
    if (uname(&u) == 0) {
        snprintf(out->name, sizeof(out->name), "%s", u.nodename);
        snprintf(out->kernel, sizeof(out->kernel), "%.24s %.100s", u.sysname, u.release);
        snprintf(out->architecture, sizeof(out->architecture), "%.31s", u.machine);
    }
    char text[TEXT_MAX];
    read_small("", "/etc/os-release", text, sizeof(text));
    if (!line_value(text, "PRETTY_NAME", out->os, sizeof(out->os))) {
        snprintf(out->os, sizeof(out->os), "Linux");
    }
    read_small("", "/proc/cpuinfo", text, sizeof(text));
    if (!line_value(text, "model name", out->cpu_model, sizeof(out->cpu_model)) &&
        !line_value(text, "Model", out->cpu_model, sizeof(out->cpu_model))) {
        snprintf(out->cpu_model, sizeof(out->cpu_model), "unknown");
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    out->n_cores = n > 0 ? (int)n : 1;
    facts_cuda(out);
}

void host_cpu_features(void (*fn)(void *ctx, const char *name), void *ctx)
{
    static const char *const wanted[] = {
        "sse4_2",      "avx",         "f16c",     "fma",      "avx2",  "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
        "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "asimd", "asimdhp", "bf16",     "sve",      "sve2"};
    char text[TEXT_MAX], flags[8192];
    read_small("", "/proc/cpuinfo", text, sizeof(text));
    if (!line_value(text, "flags", flags, sizeof(flags)) && !line_value(text, "Features", flags, sizeof(flags))) {
        return;
    }
    for (size_t i = 0; i < EO_COUNT_OF(wanted); i++) {
        size_t n = strlen(wanted[i]);
        for (const char *at = flags; (at = strstr(at, wanted[i])) != NULL; at += n) {
            bool starts = at == flags || at[-1] == ' ';
            if (starts && (at[n] == ' ' || at[n] == '\0')) {
                fn(ctx, wanted[i]);
                break;
            }
        }
    }
}

uint64_t host_rss_bytes(void)
{
    char text[256];
    read_small("", "/proc/self/statm", text, sizeof(text));
    const char *second = strchr(text, ' ');
    return second ? number_at(second) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

int host_open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        return -1;
    }
    int n = 0;
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n - 3; /* ".", "..", and the one that reads the directory */
}
