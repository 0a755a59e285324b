/* info: the map of docs/reference/json.md. Host facts come from a file thread, numeric ones from a worker. */
#include "daemon/jobs/journal.h"
#include "daemon/server/facts.h"
#include "daemon/server/handlers.h"
#include "daemon/server/host.h"
#include "daemon/server/items.h"
#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/base/sha256.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FEATURES = 24 };

struct info {
    struct request *request;
    struct host_facts host;
    struct host_limits limits;
    const char *features[MAX_FEATURES];
    size_t n_features;
};

static void pack_str_or_nil(struct eo_bytes *b, const char *key, const char *text)
{
    eo_pack_kv_str(b, key, text[0] ? text : NULL);
}

static void add_feature(void *ctx, const char *name)
{
    struct info *q = ctx;
    if (q->n_features < MAX_FEATURES) {
        q->features[q->n_features++] = name;
    }
}

static void read_host(void *ctx)
{
    struct info *q = ctx;
    host_facts(&q->host);
    host_limits(&q->limits);
    host_cpu_features(add_feature, q);
}

static void pack_host(struct eo_bytes *b, const struct info *q)
{
    const struct server *s = q->request->server;
    eo_pack_kv_str(b, "os", q->host.os);
    eo_pack_kv_str(b, "kernel", q->host.kernel);
    eo_pack_kv_str(b, "architecture", q->host.architecture);
    eo_pack_str(b, "cpu");
    eo_pack_map(b, 4);
    eo_pack_kv_str(b, "model", q->host.cpu_model);
    eo_pack_str(b, "features");
    eo_pack_array(b, q->n_features);
    for (size_t i = 0; i < q->n_features; i++) {
        eo_pack_str(b, q->features[i]);
    }
    eo_pack_kv_i64(b, "cores", q->host.n_cores);
    eo_pack_kv_i64(b, "cores_usable", q->limits.n_cpus);
    eo_pack_str(b, "memory");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "total", q->limits.memory_total);
    eo_pack_kv_u64(b, "available", q->limits.memory_available);
    eo_pack_kv_u64(b, "limit", s->memory_limit_bytes);
    eo_pack_str(b, "cuda");
    eo_pack_map(b, 3);
    pack_str_or_nil(b, "driver", q->host.cuda_driver);
    pack_str_or_nil(b, "runtime", q->host.cuda_runtime);
    pack_str_or_nil(b, "toolkit", q->host.cuda_toolkit);
}

static void pack_libraries(struct eo_bytes *b, const struct eo_item *facts)
{
    const struct eo_item *versions = eo_item_get(facts, "versions");
    eo_pack_str(b, "libraries");
    eo_pack_map(b, 8);
    eo_pack_kv_str(b, "libuv", loop_library());
    eo_pack_kv_str(b, "msgpack", eo_codec_library());
    eo_pack_kv_str(b, "openssl", eo_sha256_library());
    eo_pack_kv_str(b, "sqlite", journal_library());
    eo_pack_str(b, "protobuf_c");
    item_pack(b, eo_item_get(versions, "protobuf_c"));
    eo_pack_str(b, "blas");
    item_pack(b, eo_item_get(versions, "blas"));
    eo_pack_str(b, "onednn");
    item_pack(b, eo_item_get(versions, "onednn"));
    eo_pack_kv_str(b, "compiler", eo_compiler());
}

static void pack_daemon(struct eo_bytes *b, const struct server *s)
{
    const int64_t protocol[2] = {EO_PROTOCOL_MIN, EO_PROTOCOL_MAX};
    uint32_t running = 0, queued = 0;
    if (jobs_module.load && s->jobs) {
        jobs_module.load(s->jobs, &running, &queued);
    }
    eo_pack_kv_i64(b, "schema", 1);
    eo_pack_kv_str(b, "version", eo_version());
    eo_pack_kv_str(b, "commit", eo_commit());
    eo_pack_kv_str(b, "build_type", EO_BUILD_TYPE);
    eo_pack_str(b, "protocol");
    eo_pack_i64_array(b, protocol, 2);
    eo_pack_kv_str(b, "node", s->node);
    eo_pack_kv_f64(b, "uptime_seconds", (double)(eo_now_ns() - s->start_ns) / 1e9);
    eo_pack_kv_i64(b, "pid", getpid());
    eo_pack_kv_i64(b, "threads", s->n_threads);
    eo_pack_kv_str(b, "state_dir", s->state_dir);
    eo_pack_str(b, "listen");
    eo_pack_array(b, (size_t)s->n_listeners);
    for (int i = 0; i < s->n_listeners; i++) {
        eo_pack_str(b, server_listen_text(s, i));
    }
    eo_pack_kv_u64(b, "sessions", sessions_count(s));
    eo_pack_kv_u64(b, "connections", s->n_connections);
    eo_pack_str(b, "jobs");
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "queued", queued);
    eo_pack_kv_u64(b, "running", running);
}

static void pack_devices(struct eo_bytes *b, const struct server *s)
{
    eo_pack_str(b, "devices");
    eo_pack_array(b, (size_t)s->devices->n);
    for (int i = 0; i < s->devices->n; i++) {
        const struct device *d = s->devices->devices[i];
        const uint64_t used = devices_used_bytes(s);
        eo_pack_map(b, 5);
        eo_pack_kv_str(b, "name", d->name);
        eo_pack_kv_str(b, "description", d->description);
        eo_pack_kv_u64(b, "memory_total", s->memory_limit_bytes);
        eo_pack_kv_u64(b, "memory_free", s->memory_limit_bytes - EO_MIN(used, s->memory_limit_bytes));
        eo_pack_kv_i64(b, "threads", d->n_threads);
    }
}

static void pack_backends(struct eo_bytes *b, const struct eo_item *facts)
{
    const struct eo_item *backends = eo_item_get(facts, "backends");
    eo_pack_str(b, "backends");
    if (backends) {
        item_pack(b, backends);
    } else {
        eo_pack_array(b, 0);
    }
}

/* Without a worker the answer lacks what only a worker knows, and the log says why. */
static void have_facts(void *ctx, const struct eo_error *err, const struct eo_item *facts)
{
    struct info *q = ctx;
    const struct server *s = q->request->server;
    if (err) {
        eo_log_error("info", err);
        facts = NULL;
    }
    struct eo_bytes *b = request_result(q->request);
    eo_pack_map(b, 24);
    eo_pack_kv_str(b, "host", q->host.name);
    pack_daemon(b, s);
    pack_host(b, q);
    pack_libraries(b, facts);
    pack_devices(b, s);
    pack_backends(b, facts);
    request_send(q->request);
    request_unref(q->request);
    free(q);
}

static void have_host(void *ctx)
{
    struct info *q = ctx;
    struct eo_error err = {0};
    if (facts_ask(q->request->server, false, have_facts, q, &err) != EO_OK) {
        have_facts(q, &err, NULL);
    }
}

HANDLER(INFO)
{
    struct info *q = calloc(1, sizeof(*q));
    if (!q) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for info");
    }
    q->request = request_ref(r);
    int code = loop_work(r->server->loop, LOOP_FILES, read_host, have_host, q, err);
    if (code != EO_OK) {
        request_unref(q->request);
        free(q);
    }
    return code;
}
