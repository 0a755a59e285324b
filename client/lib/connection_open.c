/* The beginning and the end of a connection. */
#include "client/lib/connection_internal.h"
#include "proto/base/clock.h"
#include "proto/message_schema.h"
#include "proto/op_schema.h"
#include "proto/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    DEFAULT_TIMEOUT_MS = 5000,
    OUT_LIMIT_BYTES = 16 << 20, /* what may be queued: a full queue (connection_io.c) and one more request */
};

static int read_limits(struct eo_server_facts *f, const struct eo_item *result, struct eo_error *err)
{
    const struct eo_item *limits = NULL;
    int rc = eo_need_map(result, "limits", &limits, err);
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "payload", EO_CHUNK_MAX, UINT64_MAX, &f->payload_limit, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "chunk", EO_CHUNK_MAX, UINT64_MAX, &f->chunk_limit, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "handles", 1024, UINT32_MAX, &f->handle_limit, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_u64(limits, "pending", 64, UINT32_MAX, &f->pending_limit, err);
    }
    if (rc == EO_OK && f->chunk_limit == 0) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "chunks of 0 bytes are offered");
    }
    f->chunk_limit = EO_MIN(f->chunk_limit, (uint64_t)EO_CHUNK_MAX);
    return rc;
}

static int read_facts(struct eo_server_facts *f, const struct eo_item *result, struct eo_error *err)
{
    uint64_t version = 0;
    int rc = eo_need_u64(result, "version", UINT32_MAX, &version, err);
    if (rc == EO_OK && (version < EO_PROTOCOL_MIN || version > EO_PROTOCOL_MAX)) {
        rc = EO_RAISE(err, EO_E_VERSION_MISMATCH, "protocol version %llu was chosen, %d to %d were offered",
                      (unsigned long long)version, EO_PROTOCOL_MIN, EO_PROTOCOL_MAX);
    }
    if (rc == EO_OK) {
        f->version = (int)version;
        rc = eo_get_str(result, "build", "", f->build, sizeof f->build, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(result, "node", "", f->node, sizeof f->node, err);
    }
    if (rc == EO_OK) {
        rc = eo_get_str(result, "session", "", f->session, sizeof f->session, err);
    }
    return rc == EO_OK ? read_limits(f, result, err) : rc;
}

static int send_hello(struct eo_connection *c, uint32_t *out_id, struct eo_error *err)
{
    struct eo_bytes params;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)eo_op_table_hash());
    eo_bytes_init(&params, 4096);
    eo_pack_map(&params, 4);
    eo_pack_str(&params, "versions");
    eo_pack_i64_array(&params, (int64_t[]){EO_PROTOCOL_MIN, EO_PROTOCOL_MAX}, 2);
    eo_pack_kv_str(&params, "role", "client");
    eo_pack_kv_str(&params, "build", eo_build());
    eo_pack_kv_str(&params, "ops_hash", hash);
    int rc = eo_connection_request(c, "hello", &params, NULL, 0, out_id, err);
    eo_bytes_fini(&params);
    return rc;
}

static int say_hello(struct eo_connection *c, uint64_t deadline_ns, struct eo_error *err)
{
    uint32_t id = 0;
    struct eo_reply reply = {0};
    int rc = send_hello(c, &id, err);
    while (rc == EO_OK && !eo_connection_ready(c, id)) {
        rc = eo_connection_step(c, deadline_ns, "hello", err);
    }
    if (rc == EO_OK) {
        rc = eo_connection_wait(c, id, NULL, 0, &reply, err);
    }
    if (rc == EO_OK) {
        rc = read_facts(&c->facts, reply.result, err);
        if (rc != EO_OK) {
            eo_error_push(err, "reading the answer of %s to hello", c->endpoint.text);
        }
        eo_reply_fini(&reply);
    }
    return rc;
}

static struct eo_connection *make(const struct eo_endpoint *ep, const struct eo_connection_options *options)
{
    struct eo_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->pending = calloc(EO_CONNECTION_OPEN_MAX, sizeof *c->pending);
    if (c->pending == NULL) {
        free(c);
        return NULL;
    }
    c->endpoint = *ep;
    c->owner = getpid();
    c->channel.fd = -1;
    if (options != NULL) {
        c->options = *options;
    }
    eo_bytes_init(&c->out, OUT_LIMIT_BYTES);
    eo_bytes_init(&c->envelope, EO_ENVELOPE_MAX);
    eo_bytes_init(&c->payload, EO_CONNECTION_REPLY_MAX);
    return c;
}

int eo_connection_open(const struct eo_endpoint *ep, const struct eo_connection_options *options,
                       struct eo_connection **out, struct eo_error *err)
{
    struct eo_connection *c = make(ep, options);
    if (c == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a connection");
    }
    const uint64_t timeout_ms = c->options.timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : c->options.timeout_ms;
    const uint64_t deadline_ns = eo_now_ns() + timeout_ms * 1000000;
    int rc = eo_channel_connect(&c->channel, ep, deadline_ns, err);
    if (rc == EO_OK) {
        rc = say_hello(c, deadline_ns, err);
        if (rc == EO_E_TIMED_OUT) {
            /* Something listens but does not speak: for the user that is the same as nobody being there. */
            rc = EO_RAISE(err, EO_E_UNREACHABLE, "%s accepted the connection but did not answer hello within %llu ms",
                          ep->text, (unsigned long long)timeout_ms);
            eo_error_hint(err, "Is it an everyod? A stopped process or another service may hold the port.");
        }
    }
    if (rc != EO_OK) {
        eo_error_at_host(err, ep->text, -1);
        eo_connection_close(c);
        return rc;
    }
    *out = c;
    return EO_OK;
}

void eo_connection_close(struct eo_connection *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < EO_CONNECTION_OPEN_MAX; i++) {
        free(c->pending[i].failure);
        eo_reply_fini(&c->pending[i].reply);
    }
    free(c->pending);
    eo_doc_fini(&c->doc);
    eo_bytes_fini(&c->out);
    eo_bytes_fini(&c->envelope);
    eo_bytes_fini(&c->payload);
    eo_channel_close(&c->channel);
    free(c);
}

const struct eo_server_facts *eo_connection_facts(const struct eo_connection *c)
{
    return &c->facts;
}

const char *eo_connection_host(const struct eo_connection *c)
{
    return c->endpoint.text;
}

int eo_connection_fd(const struct eo_connection *c)
{
    return c->channel.fd;
}
