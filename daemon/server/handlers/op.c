/* op.run: one operation on the device of its inputs; caps. */
#include "daemon/server/handlers.h"
#include "daemon/server/handlers/operation.h"
#include "daemon/server/items.h"
#include "daemon/server/request.h"
#include "daemon/server/session.h"
#include "proto/base/text.h"
#include "proto/op_schema.h"

#include <stdio.h>
#include <string.h>

struct operation {
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
    struct device *device; /* of the inputs; NULL while there are none */
    uint32_t n_in, n_out;
    struct tensor *in[EO_MAX_INPUTS];
    struct tensor *out[EO_MAX_OUTPUTS];
    struct handle handles[EO_MAX_OUTPUTS];
    struct eo_tensor_desc desc[EO_MAX_OUTPUTS];
    char device_name[16], fallback[8];
};

static const char *op_name_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return eo_op_schema((enum eo_op)(i + 1))->name;
}

static int find_op(const struct request *r, struct operation *o, struct eo_error *err)
{
    char name[48], quoted[64];
    int code = eo_need_str(r->params, "op", name, sizeof(name), err);
    if (code != EO_OK) {
        return code;
    }
    o->op = eo_op_by_name(name, strlen(name));
    if (!o->op || (o->op->flags & EO_OPF_INTERNAL)) {
        EO_RAISE(err, EO_E_UNKNOWN_OP, "there is no operation %s",
                 eo_quote(name, strlen(name), quoted, sizeof(quoted)));
        const char *nearest = eo_nearest(name, op_name_at, NULL, EO_OP_COUNT - 1);
        if (nearest) {
            eo_error_hint(err, "Did you mean %s? `everyo ops` lists them.", nearest);
        }
        return EO_E_UNKNOWN_OP;
    }
    return EO_OK;
}

int operation_input(const struct request *r, const struct eo_item *handle, const char *what, struct tensor **out,
                    struct eo_error *err)
{
    struct handle h;
    int code = handle_unpack(r->session, handle, what, &h, err);
    if (code == EO_OK) {
        code = session_tensor(r->session, h, out, err);
    }
    if (code == EO_OK && tensor_shape_is_open(*out)) {
        tensor_wait(*out, session_waiter(r->session));
        return SESSION_AGAIN;
    }
    if (code != EO_OK || (*out)->state != TENSOR_POISONED) {
        return code == EO_OK ? tensor_check_readable(*out, err) : code;
    }
    const struct eo_error *cause = &(*out)->poison->error;
    poison_unref(r->private_->cause);
    r->private_->cause = poison_ref((*out)->poison);
    EO_RAISE(err, EO_E_POISONED, "%s [%lu, %lu] was to be produced by a call that failed: %s", what,
             (unsigned long)h.slot, (unsigned long)h.generation, cause->message);
    eo_error_cause(err, "call", cause->code, cause->message);
    eo_error_hint(err, "%s", cause->hint);
    return EO_E_POISONED;
}

static int take_inputs(const struct request *r, struct operation *o, struct eo_error *err)
{
    const struct eo_item *inputs = NULL;
    int code = eo_need_array(r->params, "inputs", EO_MAX_INPUTS, &inputs, err);
    for (size_t i = 0; code == EO_OK && i < eo_item_count(inputs); i++) {
        struct tensor *t = NULL;
        char what[32];
        snprintf(what, sizeof(what), "input %zu", i);
        code = operation_input(r, eo_item_at(inputs, i), what, &t, err);
        if (code == EO_OK && o->device && t->device != o->device) {
            code = EO_RAISE(err, EO_E_BAD_PARAMS, "the inputs lie on different devices, %s and %s", o->device->name,
                            t->device->name);
            eo_error_hint(err, "Nothing is moved silently: upload both to one device.");
        }
        if (code == EO_OK) {
            o->device = t->device;
            o->in[o->n_in++] = t;
        }
    }
    return code;
}

static int take_outputs(const struct request *r, struct operation *o, struct eo_error *err)
{
    const struct eo_item *outputs = NULL;
    int code = eo_need_array(r->params, "outputs", EO_MAX_OUTPUTS, &outputs, err);
    if (code == EO_OK && (int)eo_item_count(outputs) != eo_op_n_outputs(o->op, &o->attrs)) {
        code = EO_RAISE(err, EO_E_BAD_ARITY, "%s has %d outputs, %zu handles were given", o->op->name,
                        eo_op_n_outputs(o->op, &o->attrs), eo_item_count(outputs));
    }
    for (size_t i = 0; code == EO_OK && i < eo_item_count(outputs); i++) {
        struct handle *h = &o->handles[i];
        code = handle_unpack(r->session, eo_item_at(outputs, i), "output", h, err);
        if (code == EO_OK) {
            code = session_check_new(r->session, *h, err);
        }
        for (size_t k = 0; code == EO_OK && k < i; k++) {
            if (o->handles[k].slot == h->slot) {
                code = EO_RAISE(err, EO_E_BAD_HANDLE, "slot %lu is named for two outputs", (unsigned long)h->slot);
            }
        }
    }
    return code;
}

static int infer(struct operation *o, struct eo_error *err)
{
    const struct eo_tensor_desc *in[EO_MAX_INPUTS];
    for (uint32_t i = 0; i < o->n_in; i++) {
        in[i] = &o->in[i]->desc;
    }
    o->n_out = (uint32_t)eo_op_n_outputs(o->op, &o->attrs);
    return eo_op_infer(o->op, in, (int)o->n_in, &o->attrs, o->desc, err);
}

int operation_fallback(const struct request *r, char out[8], struct eo_error *err)
{
    int code = eo_get_str(r->params, "fallback", "strict", out, 8, err);
    if (code == EO_OK && strcmp(out, "strict") != 0 && strcmp(out, "report") != 0) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "fallback is neither \"strict\" nor \"report\"");
    }
    return code;
}

static int parse_operation(const struct request *r, struct operation *o, struct eo_error *err)
{
    int code = find_op(r, o, err);
    if (code == EO_OK) {
        code = eo_attrs_unpack(eo_item_get(r->params, "attrs"), o->op, &o->attrs, err);
    }
    if (code == EO_OK) {
        code = take_inputs(r, o, err);
    }
    if (code == EO_OK) {
        code = take_outputs(r, o, err);
    }
    if (code == EO_OK) {
        code = infer(o, err);
    }
    if (code == EO_OK) {
        code = operation_fallback(r, o->fallback, err);
    }
    if (code == EO_OK) {
        code = eo_get_str(r->params, "device", "", o->device_name, sizeof(o->device_name), err);
    }
    const bool named = o->device_name[0] && strcmp(o->device_name, "auto") != 0;
    if (code == EO_OK && o->device && named && strcmp(o->device_name, o->device->name) != 0) {
        code = EO_RAISE(err, EO_E_BAD_PARAMS, "the inputs lie on %s, not on %s", o->device->name, o->device_name);
        eo_error_hint(err, "Nothing is moved silently: upload the inputs to %s.", o->device_name);
    }
    if (code != EO_OK && o->op) {
        eo_error_at_op(err, o->op->name, "");
    }
    return code;
}

static void poison_all(struct tensor *const *tensors, uint32_t n, const struct eo_error *err)
{
    struct poison *p = poison_new(err);
    for (uint32_t i = 0; i < n; i++) {
        tensor_settle(tensors[i], p);
    }
    poison_unref(p);
}

int operation_outputs(struct session *x, struct device *d, const struct eo_tensor_desc *desc,
                      const struct handle *handles, uint32_t n, struct tensor **out, struct eo_error *err)
{
    int code = EO_OK;
    uint32_t n_made = 0;
    while (n_made < n && code == EO_OK) {
        code = tensor_new(x, d, &desc[n_made], TENSOR_PENDING, &out[n_made], err);
        if (code == EO_OK) {
            code = session_put(x, handles[n_made], out[n_made], err);
        }
        n_made += code == EO_OK ? 1 : 0;
    }
    if (code != EO_OK) { /* those made so far must not stay pending for ever */
        poison_all(out, n_made, err);
    }
    return code;
}

int operation_task(struct request *r, struct device *d, enum eo_message m, struct tensor *const *in, uint32_t n_in,
                   struct tensor *const *out, uint32_t n_out, struct device_task **out_task, struct eo_error *err)
{
    int code = device_task_new(d, m, r, in, n_in, out, n_out, out_task, err);
    if (code != EO_OK) {
        poison_all(out, n_out, err);
    }
    return code;
}

static void op_done(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    struct request *r = t->request;
    char fallback[256];
    if (err) {
        request_fail(r, err);
        return;
    }
    (void)eo_get_str(result, "fallback", "", fallback, sizeof(fallback), NULL);
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, fallback[0] ? 2 : 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, t->n_out);
    for (uint32_t i = 0; i < t->n_out; i++) {
        eo_tensor_desc_pack(b, &t->out[i]->desc);
    }
    if (fallback[0]) {
        eo_pack_kv_str(b, "fallback", fallback);
    }
    request_send(r);
}

HANDLER(OP_RUN)
{
    struct operation o = {.n_in = 0};
    struct device_task *t = NULL;
    int code = parse_operation(r, &o, err);
    if (code == EO_OK && !o.device) {
        code = device_choose(r->server, o.device_name, &o.device, session_waiter, r->session, err);
        if (code == EO_OK && !o.device) {
            return SESSION_AGAIN;
        }
    }
    if (code == EO_OK) {
        code = operation_outputs(r->session, o.device, o.desc, o.handles, o.n_out, o.out, err);
    }
    if (code == EO_OK) {
        code = operation_task(r, o.device, EO_MSG_TASK_OP, o.in, o.n_in, o.out, o.n_out, &t, err);
    }
    if (code != EO_OK) {
        return code;
    }
    o.out[0]->sized_by_data = (o.op->flags & EO_OPF_DATA_SHAPE) != 0;
    device_task_op(t, o.op, &o.attrs, o.fallback);
    t->done = op_done;
    device_submit(t);
    return EO_OK;
}

/* ---- caps ---- */

/* Copies the worker's map as it is. */
static void caps_done(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    if (err) {
        request_fail(t->request, err);
        return;
    }
    item_pack(request_result(t->request), result);
    request_send(t->request);
}

static int submit_caps(struct request *r, struct device *d, struct eo_error *err)
{
    struct device_task *t = NULL;
    int code = device_task_new(d, EO_MSG_TASK_CAPS, r, NULL, 0, NULL, 0, &t, err);
    if (code == EO_OK) {
        t->done = caps_done;
        device_submit(t);
    }
    return code;
}

HANDLER(CAPS)
{
    char name[16];
    struct device *d = NULL;
    int code = eo_need_str(r->params, "device", name, sizeof(name), err);
    if (code == EO_OK) {
        code = device_find(r->server, name, &d, err);
    }
    return code == EO_OK ? submit_caps(r, d, err) : code;
}
