/* hello, ping, session.close. */
#include "daemon/server/handlers.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/op_schema.h"
#include "proto/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- version ---- */

/* The newest version both speak, or who has to upgrade. */
static int negotiate(const struct request *r, int64_t *out, struct eo_error *err)
{
    const struct eo_item *versions = eo_item_get(r->params, "versions");
    int64_t min = 0, max = 0;
    if (eo_item_kind(versions) != EO_ITEM_ARRAY || eo_item_count(versions) != 2 ||
        !eo_item_as_i64(eo_item_at(versions, 0), &min) || !eo_item_as_i64(eo_item_at(versions, 1), &max) || min > max) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "versions is not [min, max]");
    }
    *out = EO_MIN(max, (int64_t)EO_PROTOCOL_MAX);
    if (*out >= min && *out >= EO_PROTOCOL_MIN) {
        return EO_OK;
    }
    char build[64];
    (void)eo_get_str(r->params, "build", "", build, sizeof(build), NULL);
    EO_RAISE(err, EO_E_VERSION_MISMATCH,
             "this daemon (%s) speaks protocol %d to %d, the other side speaks %" PRId64 " to %" PRId64, eo_build(),
             EO_PROTOCOL_MIN, EO_PROTOCOL_MAX, min, max);
    if (min > EO_PROTOCOL_MAX) {
        eo_error_hint(err, "Upgrade everyod on this host.");
    } else {
        eo_error_hint(err, "Upgrade the client or peer that connects.");
    }
    return EO_E_VERSION_MISMATCH;
}

/* ---- roles ---- */

static int hello_session(struct request *r, struct session **out, struct eo_error *err)
{
    char id[SESSION_ID_SIZE], secret[SESSION_SECRET_SIZE];
    bool resumes = eo_item_get(r->params, "session") != NULL;
    int code = EO_OK;
    if (resumes) {
        code = eo_need_str(r->params, "session", id, sizeof(id), err);
        if (code == EO_OK) {
            code = eo_need_str(r->params, "secret", secret, sizeof(secret), err);
        }
        if (code == EO_OK) {
            code = session_find(r->server, id, secret, out, err);
        }
    } else {
        code = session_new(r->server, out, err);
    }
    if (code == EO_OK) {
        code = session_attach(*out, err);
    }
    return code;
}

static void pack_limits(struct eo_bytes *b, const struct server *s)
{
    const struct config *c = s->config;
    uint64_t tensor_bytes = c->session_memory_bytes ? c->session_memory_bytes : s->memory_limit_bytes;
    eo_pack_map(b, 6);
    eo_pack_kv_u64(b, "envelope", EO_ENVELOPE_MAX);
    eo_pack_kv_u64(b, "payload", dispatch_max_payload());
    eo_pack_kv_u64(b, "chunk", EO_CHUNK_MAX);
    eo_pack_kv_u64(b, "handles", c->session_handles);
    eo_pack_kv_u64(b, "tensor_bytes", tensor_bytes);
    eo_pack_kv_u64(b, "pending", c->session_pending);
}

static void answer(struct request *r, int64_t version, const struct session *x)
{
    char hash[24];
    struct eo_bytes *b = request_result(r);
    snprintf(hash, sizeof(hash), "%016" PRIx64, eo_op_table_hash());
    eo_pack_map(b, x ? 9 : 6);
    eo_pack_kv_i64(b, "version", version);
    eo_pack_str(b, "features");
    eo_pack_array(b, 0);
    eo_pack_kv_str(b, "build", eo_build());
    eo_pack_kv_str(b, "node", r->server->node);
    eo_pack_str(b, "limits");
    pack_limits(b, r->server);
    eo_pack_kv_str(b, "ops_hash", hash);
    if (x) {
        eo_pack_kv_str(b, "session", x->id);
        eo_pack_kv_str(b, "secret", x->secret);
        eo_pack_kv_u64(b, "lease_ms", r->server->config->session_lease_ms);
    }
    request_send(r);
}

static int hello_client(struct request *r, int64_t version, struct eo_error *err)
{
    struct session *x = NULL;
    int code = hello_session(r, &x, err);
    if (code != EO_OK) {
        return code;
    }
    r->conn->session = session_ref(x);
    r->conn->role = ROLE_CLIENT;
    answer(r, version, x);
    return EO_OK;
}

static int hello_peer(struct request *r, int64_t version, struct eo_error *err)
{
    struct connection *c = r->conn;
    int code = eo_need_str(r->params, "node", c->node, sizeof(c->node), err);
    if (code == EO_OK) {
        code = eo_get_str(r->params, "advertise", "", c->advertise, sizeof(c->advertise), err);
    }
    if (code != EO_OK) {
        return code;
    }
    c->role = ROLE_PEER;
    answer(r, version, NULL);
    return EO_OK;
}

static int hello_data(struct request *r, int64_t version, struct eo_error *err)
{
    EO_UNUSED(version);
    if (!jobs_module.data_hello) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "this daemon takes no data connections");
    }
    return jobs_module.data_hello(r->server->jobs, r, err);
}

HANDLER(HELLO)
{
    static const struct {
        const char *name;
        int (*fn)(struct request *r, int64_t version, struct eo_error *err);
    } roles[] = {{"client", hello_client}, {"peer", hello_peer}, {"data", hello_data}};
    int64_t version = 0;
    char role[16], quoted[64];
    if (r->conn->role != ROLE_NONE) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "hello was said already on this connection");
    }
    int code = negotiate(r, &version, err);
    if (code == EO_OK) {
        code = eo_need_str(r->params, "role", role, sizeof(role), err);
    }
    if (code == EO_OK && r->server->draining) {
        code = EO_RAISE(err, EO_E_SHUTTING_DOWN, "this daemon is shutting down");
    }
    if (code != EO_OK) {
        return code;
    }
    for (size_t i = 0; i < EO_COUNT_OF(roles); i++) {
        if (strcmp(roles[i].name, role) == 0) {
            code = roles[i].fn(r, version, err);
            if (code == EO_OK && r->conn) {
                stream_greeted(&r->conn->stream);
            }
            return code;
        }
    }
    return EO_RAISE(err, EO_E_BAD_PARAMS, "role %s is none of client, peer, data",
                    eo_quote(role, strlen(role), quoted, sizeof(quoted)));
}

HANDLER(PING)
{
    EO_UNUSED(err);
    const struct server *s = r->server;
    uint32_t running = 0, queued = 0;
    if (jobs_module.load && s->jobs) {
        jobs_module.load(s->jobs, &running, &queued);
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 3);
    eo_pack_kv_i64(b, "time_ms", eo_wall_ms());
    eo_pack_kv_u64(b, "uptime_ms", (eo_now_ns() - s->start_ns) / 1000000);
    eo_pack_str(b, "load");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "connections", s->n_connections);
    eo_pack_kv_u64(b, "sessions", sessions_count(s));
    eo_pack_kv_u64(b, "jobs_running", running);
    request_send(r);
    return EO_OK;
}

HANDLER(SESSION_CLOSE)
{
    EO_UNUSED(err);
    request_ok(r);
    session_close(r->session);
    return EO_OK;
}
