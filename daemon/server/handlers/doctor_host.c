/* doctor's checks of the machine. Looks only: nothing is written. Runs on a file thread. */
#include "daemon/server/handlers/doctor.h"
#include "daemon/server/host.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static const uint64_t mebi = UINT64_C(1) << 20;

static void check_disk(const struct server *s, struct doctor *d)
{
    struct check c = {.name = "disk", .status = CHECK_OK};
    struct statvfs v;
    char free_text[32];
    if (statvfs(s->state_dir, &v) != 0) {
        c.status = CHECK_FAIL;
        check_say(c.what, sizeof(c.what), "the disk of %s", s->state_dir);
        check_say(c.why, sizeof(c.why), "it cannot be asked: %s", strerror(errno));
        check_say(c.fix, sizeof(c.fix), "see whether the file system is mounted");
        check_add(d, &c);
        return;
    }
    const uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    eo_format_bytes(free_bytes, free_text, sizeof(free_text));
    check_say(c.what, sizeof(c.what), "%s free for %s", free_text, s->state_dir);
    if (free_bytes < 1024 * mebi || v.f_favail == 0) {
        c.status = free_bytes < 64 * mebi || v.f_favail == 0 ? CHECK_FAIL : CHECK_WARN;
        check_say(c.why, sizeof(c.why), "%s",
                  v.f_favail == 0 ? "the file system has no free inodes" : "checkpoints and uploaded data need room");
        check_say(c.fix, sizeof(c.fix), "remove old jobs (everyo-submit rm ID) or move the state directory");
    }
    check_add(d, &c);
}

static void check_state_dir(const struct server *s, struct doctor *d)
{
    struct check c = {.name = "state-directory", .status = CHECK_OK};
    struct stat st;
    check_say(c.what, sizeof(c.what), "state in %s", s->state_dir);
    if (stat(s->state_dir, &st) != 0 || access(s->state_dir, R_OK | W_OK | X_OK) != 0) {
        c.status = CHECK_FAIL;
        check_say(c.why, sizeof(c.why), "it cannot be used any more: %s", strerror(errno));
        check_say(c.fix, sizeof(c.fix), "make it again with its owner and mode 0700, then restart everyod");
    } else if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        c.status = CHECK_WARN;
        check_say(c.why, sizeof(c.why), "others may write into it (mode %04o)", (unsigned)(st.st_mode & 07777));
        check_say(c.fix, sizeof(c.fix), "chmod 0700 %.200s", s->state_dir);
    }
    check_add(d, &c);
}

static void check_descriptors(struct doctor *d)
{
    struct check c = {.name = "limit-nofile", .status = CHECK_OK};
    struct rlimit r;
    const rlim_t wanted = 4096;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) {
        return;
    }
    check_say(c.what, sizeof(c.what), "%llu descriptors may be open, %d are", (unsigned long long)r.rlim_cur,
              host_open_descriptors());
    if (r.rlim_cur < wanted) {
        c.status = CHECK_WARN;
        check_say(c.why, sizeof(c.why), "each connection takes one, each worker some more");
        check_say(c.fix, sizeof(c.fix), "raise the limit: LimitNOFILE=65536 in the unit, or ulimit -n 65536");
    }
    check_add(d, &c);
}

static void check_locked_memory(struct doctor *d)
{
    struct check c = {.name = "limit-memlock", .status = CHECK_OK};
    struct rlimit r;
    char text[32] = "unlimited";
    if (getrlimit(RLIMIT_MEMLOCK, &r) != 0) {
        return;
    }
    if (r.rlim_cur != RLIM_INFINITY) {
        eo_format_bytes(r.rlim_cur, text, sizeof(text));
    }
    check_say(c.what, sizeof(c.what), "locked memory: %s", text);
    check_say(c.why, sizeof(c.why), "only devices with memory of their own need it; the CPU does not");
    check_add(d, &c);
}

static void check_clock(struct doctor *d)
{
    struct check c = {.name = "clock", .status = CHECK_OK};
    char text[32];
    const int64_t wall_ms = eo_wall_ms();
    const uint64_t before = eo_now_ns();
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);
    check_say(c.what, sizeof(c.what), "the clock says %s", eo_rfc3339(wall_ms, text, sizeof(text)));
    if (wall_ms < INT64_C(1704067200000)) { /* 2024-01-01: before this program existed */
        c.status = CHECK_FAIL;
        check_say(c.why, sizeof(c.why), "that is in the past");
        check_say(c.fix, sizeof(c.fix), "set the clock, best by NTP (timedatectl set-ntp true)");
    } else if (eo_now_ns() < before) {
        c.status = CHECK_FAIL;
        check_say(c.why, sizeof(c.why), "the monotonic clock went backwards");
        check_say(c.fix, sizeof(c.fix), "choose another clock source (see /sys/devices/system/clocksource)");
    } else if (state == TIME_ERROR || (t.status & STA_UNSYNC)) {
        check_say(c.why, sizeof(c.why), "not synchronised by NTP; jobs do not need that, comparing logs of hosts does");
    }
    check_add(d, &c);
}

static void check_threads(const struct server *s, const struct host_limits *l, struct doctor *d)
{
    struct check c = {.name = "threads", .status = CHECK_OK};
    check_say(c.what, sizeof(c.what), "%d threads compute on %d usable CPUs", s->n_threads, l->n_cpus);
    if (s->n_threads > l->n_cpus) {
        c.status = CHECK_WARN;
        check_say(c.why, sizeof(c.why), "more threads than CPUs make them wait for each other (affinity allows %d%s)",
                  l->n_cpus_affinity, l->cpu_quota > 0 ? ", the cgroup fewer" : "");
        check_say(c.fix, sizeof(c.fix), "start everyod with --threads %d, or without --threads", l->n_cpus);
    } else if (s->config->slots > 1 && s->n_threads * (int)s->config->slots > l->n_cpus) {
        c.status = CHECK_WARN;
        check_say(c.why, sizeof(c.why), "%d jobs at a time may start %d threads", (int)s->config->slots,
                  s->n_threads * (int)s->config->slots);
        check_say(c.fix, sizeof(c.fix), "set --threads to the CPUs divided by --slots");
    }
    check_add(d, &c);
}

static void check_memory(const struct server *s, const struct host_limits *l, struct doctor *d)
{
    struct check c = {.name = "memory", .status = CHECK_OK};
    char limit[32], available[32];
    uint64_t most = l->memory_cgroup && l->memory_cgroup < l->memory_total ? l->memory_cgroup : l->memory_total;
    eo_format_bytes(s->memory_limit_bytes, limit, sizeof(limit));
    eo_format_bytes(l->memory_available, available, sizeof(available));
    check_say(c.what, sizeof(c.what), "tensors may take %s; %s of memory are available", limit, available);
    if (most > 0 && s->memory_limit_bytes > most) {
        c.status = CHECK_WARN;
        check_say(c.why, sizeof(c.why), "that is more than this %s has", most == l->memory_cgroup ? "cgroup" : "host");
        check_say(c.fix, sizeof(c.fix), "start everyod with a smaller --memory-limit, or without it");
    }
    check_add(d, &c);
}

void doctor_host(const struct server *s, struct doctor *into)
{
    struct host_limits l;
    host_limits(&l);
    check_disk(s, into);
    check_state_dir(s, into);
    check_descriptors(into);
    check_locked_memory(into);
    check_clock(into);
    check_threads(s, &l, into);
    check_memory(s, &l, into);
}
