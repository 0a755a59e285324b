#include "daemon/server/tensor.h"

#include "daemon/server/session.h"
#include "proto/base/checked.h"

#include <stdlib.h>
#include <string.h>

/* ---- poison ---- */

struct poison *poison_new(const struct eo_error *err)
{
    struct poison *p = malloc(sizeof(*p));
    if (p) {
        p->n_refs = 1;
        p->error = *err;
    }
    return p;
}

struct poison *poison_ref(struct poison *p)
{
    if (p) {
        p->n_refs++;
    }
    return p;
}

void poison_unref(struct poison *p)
{
    if (p && --p->n_refs == 0) {
        free(p);
    }
}

/* ---- waiters ---- */

void waiters_add(struct tensor_waiter **list, struct tensor_waiter *w)
{
    while (*list) { /* in order of arrival */
        list = &(*list)->next;
    }
    w->next = NULL;
    *list = w;
}

void waiters_fire(struct tensor_waiter **list)
{
    struct tensor_waiter *w = *list;
    *list = NULL;
    while (w) {
        struct tensor_waiter *next = w->next; /* fn may wait again with the same waiter */
        w->fn(w->ctx);
        w = next;
    }
}

void tensor_wait(struct tensor *t, struct tensor_waiter *w)
{
    waiters_add(&t->waiters, w);
}

/* ---- life ---- */

static int check_quota(const struct session *x, uint64_t bytes, struct eo_error *err)
{
    const struct server *s = x->server;
    uint64_t limit = s->config->session_memory_bytes ? s->config->session_memory_bytes : s->memory_limit_bytes;
    if (bytes > limit || x->tensor_bytes > limit - bytes) {
        EO_RAISE(err, EO_E_QUOTA, "%llu more bytes of tensors exceed the session's limit: %llu of %llu are in use",
                 (unsigned long long)bytes, (unsigned long long)x->tensor_bytes, (unsigned long long)limit);
        eo_error_hint(err, "Free tensors that are no longer needed, or raise session-memory or --memory-limit.");
        return EO_E_QUOTA;
    }
    uint64_t used = devices_used_bytes(s);
    if (bytes > s->memory_limit_bytes || used > s->memory_limit_bytes - bytes) {
        EO_RAISE(err, EO_E_DEVICE_MEMORY, "%llu bytes do not fit: %llu of %llu bytes of tensor memory are in use",
                 (unsigned long long)bytes, (unsigned long long)used, (unsigned long long)s->memory_limit_bytes);
        eo_error_hint(err, "Free tensors that are no longer needed, or start everyod with a larger --memory-limit.");
        return EO_E_DEVICE_MEMORY;
    }
    return EO_OK;
}

int tensor_new(struct session *session, struct device *device, const struct eo_tensor_desc *desc,
               enum tensor_state state, struct tensor **out, struct eo_error *err)
{
    const uint64_t bytes = eo_tensor_desc_bytes(desc);
    int code = check_quota(session, bytes, err);
    if (code != EO_OK) {
        return code;
    }
    struct tensor *t = calloc(1, sizeof(*t));
    if (!t) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a tensor");
    }
    code = pool_alloc(&device->pool, bytes, &t->offset, &t->extent, err);
    if (code != EO_OK) {
        eo_error_at_device(err, device->name, device->name);
        free(t);
        return code;
    }
    t->n_refs = 1;
    t->state = state == TENSOR_FILLING && bytes == 0 ? TENSOR_READY : state;
    t->device = device;
    t->session = session_ref(session);
    t->desc = *desc;
    t->bytes = bytes;
    session->tensor_bytes += bytes;
    *out = t;
    return EO_OK;
}

struct tensor *tensor_new_poisoned(struct session *session, struct poison *p)
{
    struct tensor *t = calloc(1, sizeof(*t));
    if (t) {
        t->n_refs = 1;
        t->state = TENSOR_POISONED;
        t->session = session_ref(session);
        t->poison = poison_ref(p);
    }
    return t;
}

struct tensor *tensor_ref(struct tensor *t)
{
    t->n_refs++;
    return t;
}

void tensor_unref(struct tensor *t)
{
    if (!t || --t->n_refs > 0) {
        return;
    }
    struct tensor_waiter *waiters = t->waiters;
    if (t->device) {
        t->session->tensor_bytes -= t->bytes;
        pool_free(&t->device->pool, t->extent);
        device_memory_freed(t->device);
    }
    session_unref(t->session);
    poison_unref(t->poison);
    free(t);
    waiters_fire(&waiters);
}

int tensor_shrink(struct tensor *t, const struct eo_tensor_desc *desc, struct eo_error *err)
{
    const uint64_t bytes = eo_tensor_desc_bytes(desc);
    if (desc->dtype != t->desc.dtype || desc->n_dims != t->desc.n_dims || bytes > t->bytes) {
        return EO_RAISE(err, EO_E_INTERNAL, "a result of %llu bytes was announced with %llu",
                        (unsigned long long)t->bytes, (unsigned long long)bytes);
    }
    pool_shrink(&t->device->pool, &t->extent, bytes);
    t->session->tensor_bytes -= t->bytes - bytes;
    t->desc = *desc;
    t->bytes = bytes;
    t->offset = t->extent ? t->offset : 0;
    device_memory_freed(t->device);
    return EO_OK;
}

void tensor_settle(struct tensor *t, struct poison *p)
{
    if (t->state == TENSOR_POISONED) {
        return;
    }
    t->state = p ? TENSOR_POISONED : TENSOR_READY;
    t->poison = poison_ref(p);
    tensor_ref(t);
    waiters_fire(&t->waiters);
    tensor_unref(t);
}

void tensor_use(struct tensor *t)
{
    t->n_users++;
}

void tensor_unuse(struct tensor *t)
{
    if (--t->n_users == 0) {
        waiters_fire(&t->waiters);
    }
}

/* ---- uploads ---- */

int tensor_received(struct tensor *t, uint64_t offset, uint64_t size, struct eo_error *err)
{
    if (t->state != TENSOR_FILLING || size == 0) {
        return EO_OK;
    }
    uint64_t begin = offset, end = offset + size;
    int first = 0;
    while (first < t->n_spans && t->spans[first].end < begin) {
        first++;
    }
    int last = first; /* spans[first..last-1] touch or overlap the new one */
    while (last < t->n_spans && t->spans[last].begin <= end) {
        begin = EO_MIN(begin, t->spans[last].begin);
        end = EO_MAX(end, t->spans[last].end);
        last++;
    }
    if (first == last && t->n_spans == TENSOR_MAX_SPANS) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "the tensor is being uploaded in more than %d pieces at once",
                        TENSOR_MAX_SPANS);
    }
    memmove(&t->spans[first + 1], &t->spans[last], (size_t)(t->n_spans - last) * sizeof(t->spans[0]));
    t->n_spans += 1 - (last - first);
    t->spans[first].begin = begin;
    t->spans[first].end = end;
    if (begin == 0 && end == t->bytes) {
        tensor_settle(t, NULL);
    }
    return EO_OK;
}

uint64_t tensor_received_bytes(const struct tensor *t)
{
    uint64_t n = 0;
    for (int i = 0; i < t->n_spans; i++) {
        n += t->spans[i].end - t->spans[i].begin;
    }
    return t->state == TENSOR_FILLING ? n : t->bytes;
}

int tensor_check_readable(const struct tensor *t, struct eo_error *err)
{
    if (t->state == TENSOR_POISONED) {
        if (err) {
            *err = t->poison->error;
            eo_error_push(err, "this call was to produce the tensor");
        }
        return t->poison->error.code;
    }
    if (t->state == TENSOR_FILLING) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "only %llu of the tensor's %llu bytes were uploaded",
                        (unsigned long long)tensor_received_bytes(t), (unsigned long long)t->bytes);
    }
    return EO_OK;
}
