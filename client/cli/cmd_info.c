#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/base/text.h"

#include <string.h>

static void row(const char *name, const char *value)
{
    printf("  %-14s %s\n", name, value[0] != '\0' ? value : "-");
}

static void row_bytes(const char *name, const struct eo_item *map, const char *key)
{
    char text[32];
    int64_t bytes = item_i64(map, key, -1);
    row(name, bytes < 0 ? "unknown" : eo_format_bytes((uint64_t)bytes, text, sizeof text));
}

/* Joins the strings of an array with spaces. */
static void join(const struct eo_item *array, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < eo_item_count(array) && at < size - 1; i++) {
        char text[128];
        int n =
            snprintf(out + at, size - at, "%s%s", at > 0 ? " " : "", item_str(eo_item_at(array, i), text, sizeof text));
        at += n > 0 ? (size_t)n : 0;
    }
}

static void print_host(const struct eo_item *m)
{
    char a[256];
    char b[100];
    char c[64];
    char line[700];
    const struct eo_item *cpu = eo_item_get(m, "cpu");
    const struct eo_item *memory = eo_item_get(m, "memory");
    const struct eo_item *protocol = eo_item_get(m, "protocol");
    int64_t range[2] = {0, 0};
    eo_item_as_i64(eo_item_at(protocol, 0), &range[0]);
    eo_item_as_i64(eo_item_at(protocol, 1), &range[1]);
    printf("%s: everyod %s (%s), protocol %lld-%lld\n", item_text(m, "host", a, sizeof a),
           item_text(m, "version", b, sizeof b), item_text(m, "commit", c, sizeof c), (long long)range[0],
           (long long)range[1]);
    row("node", item_text(m, "node", a, sizeof a));
    snprintf(line, sizeof line, "%s, kernel %s, %s", item_text(m, "os", a, sizeof a),
             item_text(m, "kernel", b, sizeof b), item_text(m, "architecture", c, sizeof c));
    row("system", line);
    snprintf(line, sizeof line, "%s, %lld cores, %lld usable, %lld threads", item_text(cpu, "model", a, sizeof a),
             (long long)item_i64(cpu, "cores", 0), (long long)item_i64(cpu, "cores_usable", 0),
             (long long)item_i64(m, "threads", 0));
    row("cpu", line);
    join(eo_item_get(cpu, "features"), line, sizeof line);
    row("features", line);
    row_bytes("memory", memory, "total");
    row_bytes("  available", memory, "available");
    row_bytes("  limit", memory, "limit");
    join(eo_item_get(m, "listen"), line, sizeof line);
    row("listens on", line);
    row("state", item_text(m, "state_dir", line, sizeof line));
    const struct eo_item *jobs = eo_item_get(m, "jobs");
    snprintf(line, sizeof line, "%lld sessions, %lld connections, jobs: %lld running, %lld queued",
             (long long)item_i64(m, "sessions", 0), (long long)item_i64(m, "connections", 0),
             (long long)item_i64(jobs, "running", 0), (long long)item_i64(jobs, "queued", 0));
    row("load", line);
}

static void print_numeric(const struct eo_item *libraries, const char *name)
{
    const struct eo_item *library = eo_item_get(libraries, name);
    char a[256];
    char b[128];
    char c[64];
    char line[600];
    if (eo_item_kind(library) != EO_ITEM_MAP) {
        row(name, "none");
        return;
    }
    snprintf(line, sizeof line, "%s %s, %s kernels, %lld threads", item_text(library, "implementation", a, sizeof a),
             item_text(library, "version", b, sizeof b), item_text(library, "kernel", c, sizeof c),
             (long long)item_i64(library, "threads", 0));
    row(name, line);
}

static void print_libraries(const struct eo_item *m)
{
    static const char *const names[] = {"libuv", "msgpack", "openssl", "sqlite", "protobuf_c", "compiler"};
    const struct eo_item *libraries = eo_item_get(m, "libraries");
    const struct eo_item *cuda = eo_item_get(m, "cuda");
    char a[256];
    char b[128];
    char c[64];
    char line[600];
    puts("libraries");
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        row(names[i], item_text(libraries, names[i], a, sizeof a));
    }
    print_numeric(libraries, "blas");
    print_numeric(libraries, "onednn");
    snprintf(line, sizeof line, "driver %s, runtime %s, toolkit %s",
             item_text(cuda, "driver", a, 64)[0] != '\0' ? a : "absent",
             item_text(cuda, "runtime", b, 64)[0] != '\0' ? b : "absent",
             item_text(cuda, "toolkit", c, sizeof c)[0] != '\0' ? c : "absent");
    row("cuda", line);
}

static void print_backends(const struct eo_item *m)
{
    const struct eo_item *devices = eo_item_get(m, "devices");
    const struct eo_item *backends = eo_item_get(m, "backends");
    char a[256];
    char b[64];
    char c[256];
    puts("devices");
    for (size_t i = 0; i < eo_item_count(devices); i++) {
        const struct eo_item *d = eo_item_at(devices, i);
        row(item_text(d, "name", a, sizeof a), item_text(d, "description", c, sizeof c));
    }
    for (size_t i = 0; i < eo_item_count(backends); i++) {
        const struct eo_item *be = eo_item_at(backends, i);
        const struct eo_item *facts = eo_item_get(be, "facts");
        printf("backend %s\n", item_text(be, "name", a, sizeof a));
        for (size_t k = 0; k < eo_item_count(facts); k++) {
            const struct eo_item *f = eo_item_at(facts, k);
            printf("  %-30s %-8s %s\n", item_text(f, "fact", a, sizeof a), item_text(f, "state", b, sizeof b),
                   item_text(f, "why", c, sizeof c));
        }
    }
}

static int info_host(const struct cli *cli, const struct hosts *h, struct eo_reply *reply, struct eo_error *err)
{
    struct host_link link;
    int rc = hosts_open(cli, h, cli->given[CLI_OPT_LOCAL] ? HOSTS_PRIVATE_IF_NONE : HOSTS_NEVER_PRIVATE, &link, err);
    if (rc == EO_OK) {
        rc = eo_connection_call(link.connection, "info", NULL, NULL, 0, reply, err);
        hosts_close(&link);
    }
    return rc;
}

int cmd_INFO(const struct cli *cli)
{
    struct eo_error err = {0};
    struct hosts h;
    if (hosts_resolve(cli, &h, &err) != EO_OK) {
        return report_failure(&err);
    }
    int exit_code = 0;
    for (size_t i = 0; i < h.n; i++) {
        struct hosts one = {.endpoints = &h.endpoints[i], .n = 1, .is_explicit = h.is_explicit};
        struct eo_reply reply = {0};
        eo_error_clear(&err);
        if (info_host(cli, &one, &reply, &err) != EO_OK) {
            exit_code = report_failure(&err);
            continue;
        }
        if (cli->given[CLI_OPT_JSON]) {
            item_json_print(reply.result); /* one document a line, in the order of the hosts */
        } else {
            if (i > 0) {
                putchar('\n');
            }
            print_host(reply.result);
            print_libraries(reply.result);
            print_backends(reply.result);
        }
        eo_reply_fini(&reply);
    }
    hosts_fini(&h);
    return exit_code;
}
