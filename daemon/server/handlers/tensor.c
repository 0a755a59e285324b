/* tensor.*: memory, bytes in, bytes out. Payloads of create and upload go straight into the device's pool. */
#include "daemon/server/handlers.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "proto/base/text.h"
#include "proto/op_schema.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

struct creation {
    struct handle handle;
    struct eo_tensor_desc desc;
    char device[16];
    bool filled;
    double fill;
};

static int parse_creation(const struct request *r, struct creation *out, struct eo_error *err)
{
    int code = handle_unpack(r->session, eo_item_get(r->params, "handle"), "handle", &out->handle, err);
    if (code == EO_OK) {
        code = session_check_new(r->session, out->handle, err);
    }
    if (code == EO_OK) {
        code = eo_tensor_desc_unpack(r->params, &out->desc, err);
    }
    if (code == EO_OK) {
        code = eo_get_str(r->params, "device", "", out->device, sizeof(out->device), err);
    }
    if (code == EO_OK) {
        out->filled = eo_item_get(r->params, "fill") != NULL;
        code = eo_get_f64(r->params, "fill", 0, &out->fill, err);
    }
    return code;
}

static void into_tensor(struct request *r, struct tensor *t, uint64_t offset, uint8_t **out_data,
                        enum stream_place *out_place)
{
    tensor_use(t);
    r->private_->sink = tensor_ref(t);
    r->private_->sink_offset = offset;
    *out_data = t->device->pool.shm.data + t->offset + offset;
    *out_place = STREAM_INTO;
}

static int place_create(struct request *r, uint64_t payload_size, waiter_fn waiter, enum stream_place *out_place,
                        uint8_t **out_data, struct eo_error *err)
{
    struct creation c;
    struct device *d = NULL;
    struct tensor *t = NULL;
    int code = parse_creation(r, &c, err);
    if (code == EO_OK && payload_size > eo_tensor_desc_bytes(&c.desc)) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "%" PRIu64 " bytes of payload exceed the tensor's %" PRIu64, payload_size,
                        eo_tensor_desc_bytes(&c.desc));
    }
    if (code == EO_OK && payload_size > 0 && c.filled) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "a tensor is either filled or given bytes, not both");
    }
    if (code == EO_OK) {
        code = device_choose(r->server, c.device, &d, waiter, r->conn, err);
    }
    if (code != EO_OK) {
        return code;
    }
    if (!d) {
        *out_place = STREAM_WAIT;
        return EO_OK;
    }
    code = tensor_new(r->session, d, &c.desc, c.filled ? TENSOR_PENDING : TENSOR_FILLING, &t, err);
    if (code == EO_OK && payload_size > 0) {
        code = pool_commit(&d->pool, t->offset, payload_size, err);
        if (code != EO_OK) {
            tensor_unref(t);
        }
    }
    if (code == EO_OK) {
        code = session_put(r->session, c.handle, t, err);
    }
    if (code == EO_OK) {
        into_tensor(r, t, 0, out_data, out_place);
    }
    return code;
}

/* ---- upload ---- */

static int place_upload(struct request *r, uint64_t payload_size, waiter_fn waiter, enum stream_place *out_place,
                        uint8_t **out_data, struct eo_error *err)
{
    struct handle h;
    struct tensor *t = NULL;
    uint64_t offset = 0;
    int code = handle_unpack(r->session, eo_item_get(r->params, "handle"), "handle", &h, err);
    if (code == EO_OK) {
        code = session_tensor(r->session, h, &t, err);
    }
    if (code == EO_OK) {
        code = eo_need_u64(r->params, "offset", UINT64_MAX, &offset, err);
    }
    if (code == EO_OK && t->state == TENSOR_POISONED) {
        code = tensor_check_readable(t, err);
    }
    if (code == EO_OK && (offset > t->bytes || payload_size > t->bytes - offset)) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "%" PRIu64 " bytes at %" PRIu64 " exceed the tensor's %" PRIu64,
                        payload_size, offset, t->bytes);
    }
    if (code != EO_OK) {
        return code;
    }
    if (t->state == TENSOR_PENDING || (t->state == TENSOR_READY && t->n_users > 0)) {
        tensor_wait(t, waiter(r->conn)); /* somebody writes or reads it now */
        *out_place = STREAM_WAIT;
        return EO_OK;
    }
    code = pool_commit(&t->device->pool, t->offset + offset, payload_size, err);
    if (code == EO_OK) {
        into_tensor(r, t, offset, out_data, out_place);
    }
    return code;
}

int tensor_place(struct request *r, uint64_t payload_size, waiter_fn waiter, enum stream_place *out_place,
                 uint8_t **out_data, struct eo_error *err)
{
    bool creates = r->schema->message == EO_MSG_TENSOR_CREATE;
    return creates ? place_create(r, payload_size, waiter, out_place, out_data, err)
                   : place_upload(r, payload_size, waiter, out_place, out_data, err);
}

/* ---- after the payload ---- */

static void answer_created(struct request *r, const struct tensor *t)
{
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "bytes", t->bytes);
    eo_pack_kv_str(b, "device", t->device->name);
    request_send(r);
}

static void filled(struct device_task *task, const struct eo_error *err, const struct eo_item *result)
{
    EO_UNUSED(result);
    if (err) {
        request_fail(task->request, err);
    } else {
        answer_created(task->request, task->out[0]);
    }
}

/* A fill is the operation `full`, so that every backend writes what it means by the value. */
static int submit_fill(struct request *r, struct tensor *t, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_FULL);
    struct eo_attrs attrs;
    struct device_task *task = NULL;
    double value = 0;
    int code = eo_get_f64(r->params, "fill", 0, &value, err);
    eo_attrs_default(op, &attrs);
    if (code == EO_OK) {
        code = eo_attrs_set_ints(op, &attrs, "shape", t->desc.shape, t->desc.n_dims, err);
    }
    if (code == EO_OK) {
        code = eo_attrs_set_float(op, &attrs, "value", value, err);
    }
    if (code == EO_OK) {
        code = eo_attrs_set_int(op, &attrs, "dtype", t->desc.dtype, err);
    }
    if (code == EO_OK) {
        struct eo_tensor_desc out;
        code = eo_op_infer(op, NULL, 0, &attrs, &out, err);
    }
    if (code == EO_OK) {
        code = device_task_new(t->device, EO_MSG_TASK_OP, r, NULL, 0, &t, 1, &task, err);
    }
    if (code != EO_OK) {
        return code;
    }
    device_task_op(task, op, &attrs, "strict");
    task->done = filled;
    device_submit(task);
    return EO_OK;
}

HANDLER(TENSOR_CREATE)
{
    struct tensor *t = r->private_->sink;
    if (t->state == TENSOR_PENDING) {
        int code = submit_fill(r, t, err);
        if (code != EO_OK) {
            struct poison *p = poison_new(err);
            tensor_settle(t, p);
            poison_unref(p);
        }
        return code;
    }
    int code = tensor_received(t, 0, r->private_->received, err);
    if (code == EO_OK) {
        answer_created(r, t);
    }
    return code;
}

HANDLER(TENSOR_UPLOAD)
{
    struct tensor *t = r->private_->sink;
    int code = tensor_received(t, r->private_->sink_offset, r->private_->received, err);
    if (code != EO_OK) {
        return code;
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "received", tensor_received_bytes(t));
    request_send(r);
    return EO_OK;
}

/* ---- download ---- */

struct download {
    struct tensor_waiter waiter;
    struct request *request;
    struct tensor *tensor;
    uint64_t offset, size;
};

static void sent(void *ctx)
{
    struct tensor *t = ctx;
    tensor_unuse(t);
    tensor_unref(t);
}

static int check_range(const struct tensor *t, uint64_t offset, uint64_t size, struct eo_error *err)
{
    if (offset <= t->bytes && size <= t->bytes - offset) {
        return EO_OK;
    }
    return EO_RAISE(err, EO_E_BAD_PARAMS, "%" PRIu64 " bytes at %" PRIu64 " exceed the tensor's %" PRIu64, size, offset,
                    t->bytes);
}

static int send_chunk(struct request *r, struct tensor *t, uint64_t offset, uint64_t size, struct eo_error *err)
{
    int code = tensor_check_readable(t, err);
    if (code == EO_OK) {
        code = check_range(t, offset, size, err); /* it may have become smaller while it was waited for */
    }
    if (code != EO_OK) {
        return code;
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "dtype", eo_dtype_name((enum eo_dtype)t->desc.dtype));
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, t->desc.shape, t->desc.n_dims);
    eo_pack_kv_u64(b, "size", size);
    tensor_use(tensor_ref(t));
    const struct segment g = {
        .data = t->device->pool.shm.data + t->offset + offset, .size = size, .release = sent, .ctx = t};
    request_send_payload(r, &g, 1);
    return EO_OK;
}

static void download_ready(void *ctx)
{
    struct download *d = ctx;
    struct eo_error err = {0};
    if (d->tensor->state == TENSOR_PENDING) {
        tensor_wait(d->tensor, &d->waiter);
        return;
    }
    if (send_chunk(d->request, d->tensor, d->offset, d->size, &err) != EO_OK) {
        request_fail(d->request, &err);
    }
    tensor_unref(d->tensor);
    request_unref(d->request);
    free(d);
}

HANDLER(TENSOR_DOWNLOAD)
{
    struct handle h;
    struct tensor *t = NULL;
    uint64_t offset = 0, size = 0;
    int code = handle_unpack(r->session, eo_item_get(r->params, "handle"), "handle", &h, err);
    if (code == EO_OK) {
        code = session_tensor(r->session, h, &t, err);
    }
    if (code == EO_OK) {
        code = eo_get_u64(r->params, "offset", 0, UINT64_MAX, &offset, err);
    }
    if (code == EO_OK) {
        code = eo_need_u64(r->params, "size", EO_CHUNK_MAX, &size, err);
    }
    if (code == EO_OK && t->state == TENSOR_POISONED) {
        code = tensor_check_readable(t, err);
    }
    if (code == EO_OK) {
        code = check_range(t, offset, size, err);
    }
    if (code != EO_OK) {
        return code;
    }
    if (t->state != TENSOR_PENDING) {
        return send_chunk(r, t, offset, size, err);
    }
    struct download *d = calloc(1, sizeof(*d));
    if (!d) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a download");
    }
    *d = (struct download){.request = request_ref(r), .tensor = tensor_ref(t), .offset = offset, .size = size};
    d->waiter = (struct tensor_waiter){.fn = download_ready, .ctx = d};
    tensor_wait(t, &d->waiter);
    return EO_OK;
}

/* ---- info and free ---- */

HANDLER(TENSOR_INFO)
{
    struct handle h;
    struct tensor *t = NULL;
    int code = handle_unpack(r->session, eo_item_get(r->params, "handle"), "handle", &h, err);
    if (code == EO_OK) {
        code = session_tensor(r->session, h, &t, err);
    }
    if (code == EO_OK && t->state == TENSOR_POISONED) {
        code = tensor_check_readable(t, err);
    }
    if (code == EO_OK && tensor_shape_is_open(t)) {
        tensor_wait(t, session_waiter(r->session));
        return SESSION_AGAIN;
    }
    if (code != EO_OK) {
        return code;
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 4);
    eo_pack_kv_str(b, "dtype", eo_dtype_name((enum eo_dtype)t->desc.dtype));
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, t->desc.shape, t->desc.n_dims);
    eo_pack_kv_str(b, "device", t->device->name);
    eo_pack_kv_u64(b, "bytes", t->bytes);
    request_send(r);
    return EO_OK;
}

HANDLER(TENSOR_FREE)
{
    const struct eo_item *handles = NULL;
    uint64_t n_freed = 0;
    struct handle h;
    int code = eo_need_array(r->params, "handles", r->server->config->session_handles, &handles, err);
    /* All or nothing: every handle is looked at before any is freed. */
    for (size_t i = 0; code == EO_OK && i < eo_item_count(handles); i++) {
        struct tensor *t = NULL;
        code = handle_unpack(r->session, eo_item_at(handles, i), "handle", &h, err);
        if (code == EO_OK) {
            code = session_tensor(r->session, h, &t, err);
        }
    }
    if (code != EO_OK) {
        return code;
    }
    for (size_t i = 0; i < eo_item_count(handles); i++) {
        if (handle_unpack(r->session, eo_item_at(handles, i), "handle", &h, NULL) == EO_OK) {
            n_freed += session_drop(r->session, h) ? 1 : 0;
        }
    }
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "freed", n_freed);
    request_send(r);
    return EO_OK;
}
