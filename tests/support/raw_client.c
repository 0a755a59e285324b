#include "tests/support/raw_client.h"

#include "proto/base/clock.h"
#include "proto/error_codec.h"
#include "proto/message_schema.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

static uint64_t deadline(uint64_t timeout_ms)
{
    return eo_now_ns() + timeout_ms * 1000000;
}

int raw_connect(struct raw_client *c, const struct eo_endpoint *ep, struct eo_error *err)
{
    memset(c, 0, sizeof(*c));
    c->channel.fd = -1;
    eo_bytes_init(&c->out, 8 << 20);
    return eo_channel_connect(&c->channel, ep, deadline(RAW_TIMEOUT_MS), err);
}

void raw_close(struct raw_client *c)
{
    eo_channel_close(&c->channel);
    eo_bytes_fini(&c->out);
}

struct eo_bytes *raw_request(struct raw_client *c, const char *method)
{
    eo_bytes_clear(&c->out);
    eo_pack_request(&c->out, ++c->last_id, method);
    return &c->out;
}

int raw_send_bytes(struct raw_client *c, const void *data, size_t size, struct eo_error *err)
{
    union {
        const void *in;
        void *out;
    } at = {.in = data};
    const struct iovec iov = {.iov_base = at.out, .iov_len = size};
    return eo_channel_write_full(&c->channel, &iov, 1, deadline(RAW_TIMEOUT_MS), err);
}

int raw_send(struct raw_client *c, const void *payload, size_t size, struct eo_error *err)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)c->out.size, .payload_size = size};
    union {
        const void *in;
        void *out;
    } at = {.in = payload};
    eo_frame_encode(&h, header);
    const struct iovec iov[3] = {{.iov_base = header, .iov_len = sizeof(header)},
                                 {.iov_base = c->out.data, .iov_len = c->out.size},
                                 {.iov_base = at.out, .iov_len = size}};
    return eo_channel_write_full(&c->channel, iov, size ? 3 : 2, deadline(RAW_TIMEOUT_MS), err);
}

int raw_receive(struct raw_client *c, struct raw_reply *out, uint64_t timeout_ms, struct eo_error *err)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header h;
    const uint64_t until = deadline(timeout_ms);
    memset(out, 0, sizeof(*out));
    int code = eo_channel_read_full(&c->channel, header, sizeof(header), until, err);
    if (code == EO_OK) {
        code = eo_frame_decode(header, 64 << 20, &h, err);
    }
    if (code != EO_OK) {
        return code;
    }
    out->bytes = malloc(h.envelope_size);
    out->payload_size = h.payload_size;
    out->payload = h.payload_size ? malloc(h.payload_size) : NULL;
    code = eo_channel_read_full(&c->channel, out->bytes, h.envelope_size, until, err);
    if (code == EO_OK && h.payload_size) {
        code = eo_channel_read_full(&c->channel, out->payload, h.payload_size, until, err);
    }
    if (code == EO_OK) {
        code = eo_envelope_parse(&out->doc, &out->envelope, out->bytes, h.envelope_size, err);
    }
    if (code != EO_OK) {
        free(out->bytes);
        free(out->payload);
        memset(out, 0, sizeof(*out));
        return code;
    }
    if (out->envelope.error) {
        eo_error_unpack(out->envelope.error, &out->error);
    }
    out->result = out->envelope.type == 1 ? out->envelope.result : out->envelope.params;
    return EO_OK;
}

void raw_reply_fini(struct raw_reply *r)
{
    if (r->bytes) {
        eo_doc_fini(&r->doc);
    }
    free(r->bytes);
    free(r->payload);
    memset(r, 0, sizeof(*r));
}

int raw_call(struct raw_client *c, const void *payload, size_t size, struct raw_reply *out, struct eo_error *err)
{
    struct raw_reply reply;
    const uint32_t id = c->last_id;
    int code = raw_send(c, payload, size, err);
    while (code == EO_OK) {
        code = raw_receive(c, &reply, RAW_TIMEOUT_MS, err);
        if (code == EO_OK && reply.envelope.type == 1 && reply.envelope.id == id) {
            break;
        }
        if (code == EO_OK) {
            raw_reply_fini(&reply);
        }
    }
    if (code != EO_OK) {
        return code;
    }
    code = reply.error.code;
    if (code != EO_OK && err) {
        *err = reply.error;
    }
    if (out && code == EO_OK) {
        *out = reply;
    } else {
        raw_reply_fini(&reply);
    }
    return code;
}

bool raw_is_closed(struct raw_client *c, uint64_t timeout_ms)
{
    const uint64_t until = deadline(timeout_ms);
    uint8_t bytes[4096];
    for (;;) {
        size_t n = 0;
        bool eof = false;
        if (eo_channel_read(&c->channel, bytes, sizeof(bytes), &n, &eof, NULL) != EO_OK) {
            return true;
        }
        int64_t left = (int64_t)(until - eo_now_ns()) / 1000000;
        if (left <= 0) {
            return false;
        }
        struct pollfd fd = {.fd = c->channel.fd, .events = POLLIN};
        if (n == 0) {
            poll(&fd, 1, (int)left);
        }
    }
}

int raw_hello(struct raw_client *c, const char *session, const char *secret, struct eo_error *err)
{
    const int64_t versions[2] = {EO_PROTOCOL_MIN, EO_PROTOCOL_MAX};
    struct raw_reply reply;
    struct eo_bytes *b = raw_request(c, "hello");
    eo_pack_map(b, session ? 5 : 3);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, versions, 2);
    eo_pack_kv_str(b, "role", "client");
    eo_pack_kv_str(b, "build", "raw test client");
    if (session) {
        eo_pack_kv_str(b, "session", session);
        eo_pack_kv_str(b, "secret", secret);
    }
    int code = raw_call(c, NULL, 0, &reply, err);
    if (code != EO_OK) {
        return code;
    }
    code = eo_need_str(reply.result, "session", c->session, sizeof(c->session), err);
    if (code == EO_OK) {
        code = eo_need_str(reply.result, "secret", c->secret, sizeof(c->secret), err);
    }
    raw_reply_fini(&reply);
    return code;
}

int raw_open(struct raw_client *c, const struct eo_endpoint *ep, struct eo_error *err)
{
    int code = raw_connect(c, ep, err);
    return code == EO_OK ? raw_hello(c, NULL, NULL, err) : code;
}

/* ---- short spellings ---- */

void raw_pack_handle(struct eo_bytes *b, uint32_t slot, uint32_t generation)
{
    eo_pack_array(b, 2);
    eo_pack_u64(b, slot);
    eo_pack_u64(b, generation);
}

int raw_ping(struct raw_client *c, struct eo_error *err)
{
    eo_pack_map(raw_request(c, "ping"), 0);
    return raw_call(c, NULL, 0, NULL, err);
}

int raw_create(struct raw_client *c, uint32_t slot, uint32_t generation, const int64_t *shape, int n_dims,
               const float *data, struct eo_error *err)
{
    struct eo_tensor_desc d;
    int code = eo_tensor_desc_init(&d, EO_FLOAT32, shape, n_dims, err);
    if (code != EO_OK) {
        return code;
    }
    struct eo_bytes *b = raw_request(c, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, generation);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, shape, (size_t)n_dims);
    return raw_call(c, data, data ? eo_tensor_desc_bytes(&d) : 0, NULL, err);
}

int raw_download(struct raw_client *c, uint32_t slot, uint32_t generation, void *out, size_t size, struct eo_error *err)
{
    struct raw_reply reply;
    struct eo_bytes *b = raw_request(c, "tensor.download");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, generation);
    eo_pack_kv_u64(b, "offset", 0);
    eo_pack_kv_u64(b, "size", size);
    int code = raw_call(c, NULL, 0, &reply, err);
    if (code != EO_OK) {
        return code;
    }
    if (reply.payload_size == size) {
        if (size) {
            memcpy(out, reply.payload, size);
        }
    } else {
        code = EO_RAISE(err, EO_E_INTERNAL, "%llu bytes came, not %zu", (unsigned long long)reply.payload_size, size);
    }
    raw_reply_fini(&reply);
    return code;
}

int raw_free(struct raw_client *c, uint32_t slot, uint32_t generation, struct eo_error *err)
{
    struct eo_bytes *b = raw_request(c, "tensor.free");
    eo_pack_map(b, 1);
    eo_pack_str(b, "handles");
    eo_pack_array(b, 1);
    raw_pack_handle(b, slot, generation);
    return raw_call(c, NULL, 0, NULL, err);
}

void raw_pack_op(struct raw_client *c, const char *op, const uint32_t *in_slots, size_t n_in, uint32_t out_slot,
                 uint32_t out_generation)
{
    struct eo_bytes *b = raw_request(c, "op.run");
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "op", op);
    eo_pack_str(b, "inputs");
    eo_pack_array(b, n_in);
    for (size_t i = 0; i < n_in; i++) {
        raw_pack_handle(b, in_slots[i], 1);
    }
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, out_slot, out_generation);
}
