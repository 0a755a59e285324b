/* The public interface over eo_connection: handles, inference before sending, error translation. */
#include "client/include/everyo/everyo.h"

#include "client/lib/attrs_text.h"
#include "client/lib/client_internal.h"
#include "client/lib/local_daemon.h"
#include "proto/base/clock.h"
#include "proto/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int everyo_fail(everyo_error *out, const struct eo_error *err)
{
    if (out != NULL) {
        memset(out, 0, sizeof *out);
        out->code = err->code;
        out->exit_code = eo_code_exit(err->code);
        eo_copy_text(out->message, sizeof out->message, err->message);
        eo_copy_text(out->hint, sizeof out->hint, err->hint);
        eo_error_text(err, false, out->text, sizeof out->text);
    }
    return err->code;
}

const char *everyo_version(void)
{
    return eo_version();
}

size_t everyo_dtype_size(int dtype)
{
    return eo_dtype_valid(dtype) ? eo_dtype_size((enum eo_dtype)dtype) : 0;
}

const char *everyo_dtype_name(int dtype)
{
    return eo_dtype_valid(dtype) ? eo_dtype_name((enum eo_dtype)dtype) : "?";
}

int everyo_desc_of(const everyo_tensor *t, struct eo_tensor_desc *out, struct eo_error *err)
{
    return eo_tensor_desc_init(out, (enum eo_dtype)t->dtype, t->shape, t->n_dims, err);
}

uint64_t everyo_tensor_bytes(const everyo_tensor *t)
{
    struct eo_tensor_desc d;
    return everyo_desc_of(t, &d, NULL) == EO_OK ? eo_tensor_desc_bytes(&d) : 0;
}

/* ---- connection ---- */

int everyo_connect(const char *host, int timeout_ms, everyo_client **out, everyo_error *error)
{
    struct eo_error err = {0};
    struct eo_endpoint ep;
    everyo_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for a client");
        return everyo_fail(error, &err);
    }
    if (host == NULL) {
        host = getenv("EVERYO_HOST");
    }
    if (host == NULL || host[0] == '\0') {
        host = "127.0.0.1";
    }
    int rc;
    if (strcmp(host, "local:") == 0) {
        rc = eo_local_daemon_start(&c->local, &ep, &err);
    } else {
        rc = eo_endpoint_parse(host, &ep, &err);
    }
    const struct eo_connection_options options = {.timeout_ms = timeout_ms > 0 ? (uint64_t)timeout_ms : 0};
    if (rc == EO_OK) {
        rc = eo_connection_open(&ep, &options, &c->connection, &err);
    }
    if (rc == EO_OK) {
        rc = eo_handles_init(&c->handles, eo_connection_facts(c->connection)->handle_limit, &err);
    }
    if (rc != EO_OK) {
        everyo_close(c);
        return everyo_fail(error, &err);
    }
    *out = c;
    return EO_OK;
}

void everyo_close(everyo_client *c)
{
    if (c == NULL) {
        return;
    }
    eo_connection_close(c->connection);
    eo_handles_fini(&c->handles);
    eo_local_daemon_stop(c->local);
    free(c);
}

int everyo_ping(everyo_client *c, double *out_rtt_us, everyo_error *error)
{
    struct eo_error err = {0};
    uint64_t start = eo_now_ns();
    int rc = eo_connection_call(c->connection, "ping", NULL, NULL, 0, NULL, &err);
    if (rc != EO_OK) {
        return everyo_fail(error, &err);
    }
    if (out_rtt_us != NULL) {
        *out_rtt_us = (double)(eo_now_ns() - start) / 1e3;
    }
    return EO_OK;
}

int everyo_sync(everyo_client *c, everyo_error *error)
{
    struct eo_error err = {0};
    int rc = eo_connection_drain(c->connection, &err);
    return rc == EO_OK ? EO_OK : everyo_fail(error, &err);
}

/* ---- tensors ---- */

void everyo_set_tensor(everyo_tensor *t, uint64_t id, const struct eo_tensor_desc *d)
{
    memset(t, 0, sizeof *t);
    t->id = id;
    t->dtype = d->dtype;
    t->n_dims = d->n_dims;
    memcpy(t->shape, d->shape, sizeof(int64_t) * d->n_dims);
}

static void pack_create(struct eo_bytes *p, uint64_t id, const struct eo_tensor_desc *d, const char *device,
                        const double *fill)
{
    eo_pack_map(p, 3u + (device != NULL) + (fill != NULL));
    eo_pack_str(p, "handle");
    eo_handle_pack(p, id);
    eo_pack_kv_str(p, "dtype", eo_dtype_name((enum eo_dtype)d->dtype));
    eo_pack_str(p, "shape");
    eo_pack_i64_array(p, d->shape, d->n_dims);
    if (device != NULL) {
        eo_pack_kv_str(p, "device", device);
    }
    if (fill != NULL) {
        eo_pack_kv_f64(p, "fill", *fill);
    }
}

static int upload_rest(everyo_client *c, uint64_t id, const uint8_t *data, uint64_t done, uint64_t total,
                       struct eo_error *err)
{
    const uint64_t chunk = eo_connection_facts(c->connection)->chunk_limit;
    int rc = EO_OK;
    while (done < total && rc == EO_OK) {
        uint64_t n = EO_MIN(chunk, total - done);
        struct eo_bytes p;
        eo_bytes_init(&p, 256);
        eo_pack_map(&p, 2);
        eo_pack_str(&p, "handle");
        eo_handle_pack(&p, id);
        eo_pack_kv_u64(&p, "offset", done);
        rc = eo_connection_request(c->connection, "tensor.upload", &p, data + done, (size_t)n, NULL, err);
        eo_bytes_fini(&p);
        done += n;
    }
    return rc;
}

static int create_tensor(everyo_client *c, int dtype, const int64_t *shape, int n_dims, const void *data,
                         const double *fill, const char *device, everyo_tensor *out, everyo_error *error)
{
    struct eo_error err = {0};
    struct eo_tensor_desc d;
    uint64_t id = 0;
    int rc = eo_tensor_desc_init(&d, (enum eo_dtype)dtype, shape, n_dims, &err);
    if (rc == EO_OK) {
        rc = eo_handles_take(&c->handles, &id, &err);
    }
    if (rc == EO_OK) {
        const uint64_t total = data != NULL ? eo_tensor_desc_bytes(&d) : 0;
        const uint64_t first = EO_MIN(total, eo_connection_facts(c->connection)->chunk_limit);
        struct eo_bytes p;
        eo_bytes_init(&p, 1024);
        pack_create(&p, id, &d, device, fill);
        rc = eo_connection_request(c->connection, "tensor.create", &p, data, (size_t)first, NULL, &err);
        eo_bytes_fini(&p);
        if (rc == EO_OK) {
            rc = upload_rest(c, id, data, first, total, &err);
        }
    }
    if (rc != EO_OK) {
        eo_handles_give(&c->handles, id);
        return everyo_fail(error, &err);
    }
    everyo_set_tensor(out, id, &d);
    return EO_OK;
}

int everyo_tensor_create(everyo_client *c, int dtype, const int64_t *shape, int n_dims, const void *data,
                         const char *device, everyo_tensor *out, everyo_error *error)
{
    const double zero = 0;
    return create_tensor(c, dtype, shape, n_dims, data, data == NULL ? &zero : NULL, device, out, error);
}

int everyo_tensor_fill(everyo_client *c, int dtype, const int64_t *shape, int n_dims, double value, const char *device,
                       everyo_tensor *out, everyo_error *error)
{
    return create_tensor(c, dtype, shape, n_dims, NULL, &value, device, out, error);
}

static int read_chunk(everyo_client *c, uint64_t id, uint8_t *out, uint64_t offset, uint64_t n, struct eo_error *err)
{
    struct eo_bytes p;
    uint32_t request = 0;
    eo_bytes_init(&p, 256);
    eo_pack_map(&p, 3);
    eo_pack_str(&p, "handle");
    eo_handle_pack(&p, id);
    eo_pack_kv_u64(&p, "offset", offset);
    eo_pack_kv_u64(&p, "size", n);
    int rc = eo_connection_request(c->connection, "tensor.download", &p, NULL, 0, &request, err);
    eo_bytes_fini(&p);
    return rc != EO_OK ? rc : eo_connection_wait(c->connection, request, out + offset, (size_t)n, NULL, err);
}

int everyo_tensor_read(everyo_client *c, const everyo_tensor *t, void *out, size_t size, everyo_error *error)
{
    struct eo_error err = {0};
    const uint64_t total = everyo_tensor_bytes(t);
    int rc = EO_OK;
    if (size != total) {
        rc = EO_RAISE(&err, EO_E_BAD_VALUE, "the buffer has %zu bytes, the tensor %llu", size,
                      (unsigned long long)total);
    }
    const uint64_t chunk = eo_connection_facts(c->connection)->chunk_limit;
    uint64_t done = 0;
    while (rc == EO_OK) { /* at least once: an empty tensor may be poisoned too */
        const uint64_t n = EO_MIN(chunk, total - done);
        rc = read_chunk(c, t->id, out, done, n, &err);
        done += n;
        if (done == total) {
            break;
        }
    }
    return rc == EO_OK ? EO_OK : everyo_fail(error, &err);
}

int everyo_tensor_free(everyo_client *c, const everyo_tensor *t, everyo_error *error)
{
    struct eo_error err = {0};
    if (t == NULL || t->id == 0) {
        return EO_OK;
    }
    struct eo_bytes p;
    eo_bytes_init(&p, 256);
    eo_pack_map(&p, 1);
    eo_pack_str(&p, "handles");
    eo_pack_array(&p, 1);
    eo_handle_pack(&p, t->id);
    int rc = eo_connection_request(c->connection, "tensor.free", &p, NULL, 0, NULL, &err);
    eo_bytes_fini(&p);
    eo_handles_give(&c->handles, t->id);
    return rc == EO_OK ? EO_OK : everyo_fail(error, &err);
}

/* ---- operations ---- */

const struct eo_op_schema *everyo_op_row(const char *name, struct eo_error *err)
{
    const struct eo_op_schema *row = eo_op_by_name(name, strlen(name));
    if (row == NULL || (row->flags & EO_OPF_INTERNAL) != 0) {
        char quoted[100];
        EO_RAISE(err, EO_E_UNKNOWN_OP, "there is no operation %s", eo_quote(name, strlen(name), quoted, sizeof quoted));
        eo_error_hint(err, "`everyo ops` lists them.");
        return NULL;
    }
    return row;
}

static int infer_op(const struct eo_op_schema *row, const char *attrs_text, const everyo_tensor *inputs, int n_inputs,
                    int n_outputs, struct eo_attrs *attrs, struct eo_tensor_desc *out, struct eo_error *err)
{
    struct eo_tensor_desc in[EO_MAX_INPUTS];
    const struct eo_tensor_desc *in_at[EO_MAX_INPUTS];
    int rc = eo_attrs_text_parse(attrs_text, row, attrs, err);
    if (rc == EO_OK && (n_inputs < 0 || n_inputs > EO_MAX_INPUTS || n_outputs != eo_op_n_outputs(row, attrs))) {
        rc = EO_RAISE(err, EO_E_BAD_ARITY, "%s makes %d outputs from at most %d inputs, not %d from %d", row->name,
                      eo_op_n_outputs(row, attrs), row->max_inputs, n_outputs, n_inputs);
    }
    for (int i = 0; rc == EO_OK && i < n_inputs; i++) {
        rc = everyo_desc_of(&inputs[i], &in[i], err);
        in_at[i] = &in[i];
    }
    return rc != EO_OK ? rc : eo_op_infer(row, in_at, n_inputs, attrs, out, err);
}

static void pack_handles(struct eo_bytes *p, const char *key, const uint64_t *ids, int n)
{
    eo_pack_str(p, key);
    eo_pack_array(p, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_handle_pack(p, ids[i]);
    }
}

/* request NULL: nobody waits for the answer. */
static int send_op(everyo_client *c, const struct eo_op_schema *row, const struct eo_attrs *attrs,
                   const uint64_t *inputs, int n_inputs, const uint64_t *outputs, int n_outputs, uint32_t *request,
                   struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, EO_ENVELOPE_MAX);
    eo_pack_map(&p, 4);
    eo_pack_kv_str(&p, "op", row->name);
    eo_pack_str(&p, "attrs");
    eo_attrs_pack(&p, row, attrs);
    pack_handles(&p, "inputs", inputs, n_inputs);
    pack_handles(&p, "outputs", outputs, n_outputs);
    int rc = eo_connection_request(c->connection, "op.run", &p, NULL, 0, request, err);
    eo_bytes_fini(&p);
    return rc;
}

/* The shape that only the daemon knows: waits for the answer. A result that failed is freed, for nobody learns of it.
 */
static int await_shape(everyo_client *c, uint32_t request, uint64_t id, struct eo_tensor_desc *out,
                       struct eo_error *err)
{
    struct eo_reply reply = {0};
    struct eo_tensor_desc most = *out;
    const everyo_tensor lost = {.id = id};
    int rc = eo_connection_wait(c->connection, request, NULL, 0, &reply, err);
    if (rc == EO_OK) {
        const struct eo_item *outputs = eo_item_get(reply.result, "outputs");
        rc = eo_tensor_desc_unpack(eo_item_count(outputs) > 0 ? eo_item_at(outputs, 0) : NULL, out, err);
        if (rc == EO_OK && (out->dtype != most.dtype || out->n_dims != most.n_dims ||
                            eo_tensor_desc_bytes(out) > eo_tensor_desc_bytes(&most))) {
            rc = EO_RAISE(err, EO_E_BAD_ENVELOPE, "the daemon announced a result larger than it can be");
        }
    }
    eo_reply_fini(&reply);
    if (rc != EO_OK) {
        (void)everyo_tensor_free(c, &lost, NULL);
    }
    return rc;
}

int everyo_op(everyo_client *c, const char *op, const char *attrs_text, const everyo_tensor *inputs, int n_inputs,
              everyo_tensor *outputs, int n_outputs, everyo_error *error)
{
    struct eo_error err = {0};
    struct eo_attrs attrs;
    struct eo_tensor_desc out[EO_MAX_OUTPUTS];
    uint64_t in_ids[EO_MAX_INPUTS];
    uint64_t out_ids[EO_MAX_OUTPUTS] = {0};
    uint32_t request = 0;
    bool waits = false;
    const struct eo_op_schema *row = everyo_op_row(op, &err);
    int rc = row == NULL ? err.code : infer_op(row, attrs_text, inputs, n_inputs, n_outputs, &attrs, out, &err);
    for (int i = 0; rc == EO_OK && i < n_inputs; i++) {
        in_ids[i] = inputs[i].id;
    }
    for (int i = 0; rc == EO_OK && i < n_outputs; i++) {
        rc = eo_handles_take(&c->handles, &out_ids[i], &err);
    }
    if (rc == EO_OK) {
        waits = (row->flags & EO_OPF_DATA_SHAPE) != 0;
        rc = send_op(c, row, &attrs, in_ids, n_inputs, out_ids, n_outputs, waits ? &request : NULL, &err);
    }
    if (rc == EO_OK && waits) {
        rc = await_shape(c, request, out_ids[0], &out[0], &err);
        out_ids[0] = rc == EO_OK ? out_ids[0] : 0;
    }
    if (rc != EO_OK) {
        for (int i = 0; i < EO_MAX_OUTPUTS; i++) {
            eo_handles_give(&c->handles, out_ids[i]);
        }
        return everyo_fail(error, &err);
    }
    for (int i = 0; i < n_outputs; i++) {
        everyo_set_tensor(&outputs[i], out_ids[i], &out[i]);
    }
    return EO_OK;
}

int everyo_matmul(everyo_client *c, const everyo_tensor *a, const everyo_tensor *b, everyo_tensor *out,
                  everyo_error *error)
{
    const everyo_tensor in[2] = {*a, *b};
    return everyo_op(c, "matmul", NULL, in, 2, out, 1, error);
}
