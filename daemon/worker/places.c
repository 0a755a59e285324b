#include "daemon/worker/places.h"

enum { MAX_COMMITS = 1024, PLACE_ALIGN = 64 };

static int range_unpack(const struct worker *w, const struct eo_item *it, uint64_t *out_offset, uint64_t *out_bytes,
                        struct eo_error *err)
{
    uint64_t offset = 0, bytes = 0;
    if (eo_item_count(it) != 2 || !eo_item_as_u64(eo_item_at(it, 0), &offset) ||
        !eo_item_as_u64(eo_item_at(it, 1), &bytes)) {
        return EO_RAISE(err, EO_E_INTERNAL, "a place in the pool is not [offset, bytes]");
    }
    if (offset > w->pool.size || bytes > w->pool.size - offset || offset % PLACE_ALIGN != 0) {
        return EO_RAISE(err, EO_E_INTERNAL, "%llu bytes at %llu do not lie well in a pool of %llu",
                        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)w->pool.size);
    }
    *out_offset = offset;
    *out_bytes = bytes;
    return EO_OK;
}

int place_unpack(const struct worker *w, const struct eo_item *it, uint64_t bytes, struct place *out,
                 struct eo_error *err)
{
    *out = (struct place){.bytes = 0};
    int code = range_unpack(w, it, &out->offset, &out->bytes, err);
    if (code == EO_OK && out->bytes != bytes) {
        code = EO_RAISE(err, EO_E_INTERNAL, "a tensor of %llu bytes was given %llu", (unsigned long long)bytes,
                        (unsigned long long)out->bytes);
    }
    return code;
}

static bool overlap(const struct place *a, const struct place *b)
{
    return !a->absent && !b->absent && a->bytes > 0 && b->bytes > 0 && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

int places_check_apart(const struct place *in, uint32_t n_in, const struct place *out, uint32_t n_out,
                       struct eo_error *err)
{
    for (uint32_t i = 0; i < n_out; i++) {
        bool bad = false;
        for (uint32_t k = 0; k < n_in; k++) {
            bad |= overlap(&out[i], &in[k]);
        }
        for (uint32_t k = 0; k < i; k++) {
            bad |= overlap(&out[i], &out[k]);
        }
        if (bad) {
            return EO_RAISE(err, EO_E_INTERNAL, "result %lu overlaps another operand", (unsigned long)i);
        }
    }
    return EO_OK;
}

int places_commit(const struct worker *w, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = eo_item_get(params, "commit");
    if (!list) {
        return EO_OK;
    }
    int code = eo_item_count(list) > MAX_COMMITS ? EO_RAISE(err, EO_E_INTERNAL, "too many ranges to commit") : EO_OK;
    for (size_t i = 0; code == EO_OK && i < eo_item_count(list); i++) {
        uint64_t offset = 0, bytes = 0;
        code = range_unpack(w, eo_item_at(list, i), &offset, &bytes, err);
        if (code == EO_OK) {
            code = shm_commit(&w->pool, offset, bytes, err);
        }
    }
    return code;
}

/* ---- devices with memory of their own ---- */

static int to_device(struct worker *w, struct place *p, bool copies, struct eo_error *err)
{
    const struct eo_backend *b = w->device->backend;
    int code = b->alloc(w->device, p->bytes, &p->data, err);
    if (code == EO_OK && copies) {
        code = b->copy_in(w->device, p->data, w->pool.data + p->offset, p->bytes, err);
    }
    return code;
}

int places_enter(struct worker *w, struct place *in, uint32_t n_in, struct place *out, uint32_t n_out,
                 struct eo_error *err)
{
    int code = EO_OK;
    for (uint32_t i = 0; code == EO_OK && i < n_in + n_out; i++) {
        struct place *p = i < n_in ? &in[i] : &out[i - n_in];
        if (p->absent || p->bytes == 0) {
            continue;
        }
        if (w->device->info.host_memory) {
            p->data = w->pool.data + p->offset;
        } else {
            code = to_device(w, p, i < n_in, err);
        }
    }
    return code;
}

int places_leave(struct worker *w, struct place *in, uint32_t n_in, struct place *out, uint32_t n_out, bool ok,
                 struct eo_error *err)
{
    const struct eo_backend *b = w->device->backend;
    int code = b->sync ? b->sync(w->device, ok ? err : NULL) : EO_OK;
    if (w->device->info.host_memory) {
        return ok ? code : EO_OK;
    }
    for (uint32_t i = 0; ok && code == EO_OK && i < n_out; i++) {
        if (!out[i].absent && out[i].data) {
            code = b->copy_out(w->device, w->pool.data + out[i].offset, out[i].data, out[i].bytes, err);
        }
    }
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        struct place *p = i < n_in ? &in[i] : &out[i - n_in];
        if (p->data && !p->absent) {
            b->free(w->device, p->data, p->bytes);
            p->data = NULL;
        }
    }
    return ok ? code : EO_OK;
}
