#include "daemon/server/device.h"

#include "daemon/server/facts.h"
#include "daemon/server/session.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <stdlib.h>
#include <string.h>

enum { TRIM_AFTER_MS = 500, KEEP_MAX_BYTES = 256 << 20 };

static const char *const backend_names[] = {
#define EO_BACKEND(name, ...) name,
#include "backends/backends.def"
};

/* ---- table ---- */

int devices_init(struct server *s, struct eo_error *err)
{
    s->devices = calloc(1, sizeof(*s->devices));
    if (!s->devices) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for devices");
    }
    s->devices->server = s;
    eo_bytes_init(&s->devices->facts, EO_ENVELOPE_MAX);
    return EO_OK;
}

void devices_fini(struct server *s)
{
    for (int i = 0; s->devices && i < s->devices->n; i++) {
        struct device *d = s->devices->devices[i];
        loop_timer_free(d->trim);
        waiters_fire(&d->waiters);
        pool_fini(&d->pool);
        free(d);
    }
    if (s->devices) {
        waiters_fire(&s->devices->waiters);
        eo_bytes_fini(&s->devices->facts);
    }
    free(s->devices);
    s->devices = NULL;
}

uint64_t devices_used_bytes(const struct server *s)
{
    uint64_t n = 0;
    for (int i = 0; i < s->devices->n; i++) {
        n += s->devices->devices[i]->pool.used_bytes;
    }
    return n;
}

static void on_trim(void *ctx)
{
    struct device *d = ctx;
    uint64_t keep = EO_MIN(d->pool.shm.size / 8, (uint64_t)KEEP_MAX_BYTES);
    pool_trim(&d->pool, d->pool.used_bytes == 0 ? 0 : keep);
}

void device_memory_freed(struct device *d)
{
    if (d->trim && !loop_timer_active(d->trim)) {
        loop_timer_start(d->trim, TRIM_AFTER_MS, 0);
    }
}

/* A backend's name, with an index of one digit where it has several devices ("cuda:1"). There are fewer such names than
 * places in the table, so that names nobody has cannot use it up. */
static bool known_name(const char *name)
{
    size_t n = strcspn(name, ":");
    const char *index = name + n;
    if (*index == ':' && (index[1] < '0' || index[1] > '0' + DEVICE_MAX_INDEX || index[2] != '\0')) {
        return false;
    }
    for (size_t i = 0; i < EO_COUNT_OF(backend_names); i++) {
        if (strlen(backend_names[i]) == n && memcmp(backend_names[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

_Static_assert(EO_COUNT_OF(backend_names) * (DEVICE_MAX_INDEX + 2) <= DEVICE_MAX, "every name has a place");

static const char *backend_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return backend_names[i];
}

static int no_device(const char *name, struct eo_error *err)
{
    char quoted[100];
    EO_RAISE(err, EO_E_NO_DEVICE, "there is no device %s", eo_quote(name, strlen(name), quoted, sizeof(quoted)));
    const char *nearest = eo_nearest(name, backend_at, NULL, EO_COUNT_OF(backend_names));
    if (nearest) {
        eo_error_hint(err, "Did you mean %s? `everyo info` lists the devices.", nearest);
    } else {
        eo_error_hint(err, "`everyo info` lists the devices.");
    }
    return EO_E_NO_DEVICE;
}

static bool is_auto(const char *name)
{
    return name[0] == '\0' || strcmp(name, "auto") == 0;
}

int device_check_name(const char *name, struct eo_error *err)
{
    return is_auto(name) || known_name(name) ? EO_OK : no_device(name, err);
}

const char *devices_best(void)
{
    return backend_names[0];
}

int device_find(struct server *s, const char *name, struct device **out, struct eo_error *err)
{
    struct device_table *t = s->devices;
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->devices[i]->name, name) == 0) {
            *out = t->devices[i];
            return EO_OK;
        }
    }
    if (!known_name(name) || t->n == DEVICE_MAX) {
        return no_device(name, err);
    }
    struct device *d = calloc(1, sizeof(*d));
    if (!d || !eo_copy_text(d->name, sizeof(d->name), name)) {
        free(d);
        return no_device(name, err);
    }
    d->server = s;
    d->system.last = &d->system.first;
    d->round_last = &d->round;
    d->epoch = 1;
    d->trim = loop_timer_new(s->loop, on_trim, d);
    int code = d->trim ? pool_init(&d->pool, s->pool_bytes, err)
                       : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for device %s", name);
    if (code != EO_OK) {
        loop_timer_free(d->trim);
        free(d);
        return code;
    }
    d->index = t->n;
    t->devices[t->n++] = d;
    *out = d;
    return EO_OK;
}

/* ---- the worker ---- */

static void take_ready(struct device *d, const struct eo_item *params)
{
    const struct eo_item *error = eo_item_get(params, "error");
    if (eo_item_kind(error) == EO_ITEM_MAP) {
        eo_error_unpack(error, &d->why); /* its exit follows */
        return;
    }
    const struct eo_item *device = eo_item_get(params, "device");
    uint64_t threads = 0;
    (void)eo_get_str(device, "description", "", d->description, sizeof(d->description), NULL);
    (void)eo_get_u64(params, "threads", 0, 4096, &threads, NULL);
    d->n_threads = (int)threads;
    d->state = DEVICE_READY;
    eo_log(EO_LOG_INFO, "device", "%s is ready: %s", d->name, d->description);
    waiters_fire(&d->waiters);
    device_pump(d);
}

static void on_report(void *ctx, enum eo_message m, const struct eo_item *params)
{
    struct device *d = ctx;
    if (m == EO_MSG_REPORT_READY && d->state == DEVICE_STARTING) {
        take_ready(d, params);
    }
}

static void on_exited(void *ctx, const struct eo_error *why)
{
    struct device *d = ctx;
    d->worker = NULL;
    d->epoch++;
    d->n_in_flight = 0;
    if (d->state == DEVICE_STARTING) {
        d->state = DEVICE_FAILED;
        d->failed_ns = eo_now_ns();
        if (d->why.code == EO_OK) {
            d->why = *why;
        }
        eo_log_error("device", &d->why);
    } else {
        d->state = DEVICE_OFF;
        d->why = *why;
    }
    const struct eo_error cause = d->why; /* starting again below would clear it */
    device_fail_queue(d, &cause);         /* what waited for this worker fails with it; the next use starts another */
    waiters_fire(&d->waiters);
    device_pump(d);
}

void device_start(struct device *d)
{
    const char *args[] = {"--device", d->name};
    const struct worker_callbacks callbacks = {.ctx = d, .report = on_report, .exited = on_exited};
    struct eo_error err = {0};
    eo_error_clear(&d->why);
    d->state = DEVICE_STARTING;
    if (worker_process_spawn(d->server, args, 2, d->pool.shm.fd, &callbacks, &d->worker, &err) != EO_OK) {
        d->worker = NULL;
        d->state = DEVICE_FAILED;
        d->failed_ns = eo_now_ns();
        d->why = err;
        eo_log_error("device", &err);
        device_fail_queue(d, &err);
        waiters_fire(&d->waiters);
    }
}

/* True when a failure is too fresh to try again. */
bool device_resting(const struct device *d)
{
    return d->state == DEVICE_FAILED && eo_now_ns() - d->failed_ns < (uint64_t)DEVICE_RETRY_MS * 1000000;
}

/* ---- the default device ---- */

static void try_candidate(struct device_table *t, size_t candidate);

struct resolve {
    struct tensor_waiter waiter;
    struct device_table *table;
    struct device *device;
    size_t candidate;
};

static void facts_kept(void *ctx, const struct eo_error *err, const struct eo_item *result)
{
    EO_UNUSED(ctx);
    EO_UNUSED(err);
    EO_UNUSED(result); /* facts.c has kept it */
}

static void end_resolve(struct device_table *t, struct device *d, const struct eo_error *err)
{
    t->resolving = false;
    t->fallback = d;
    eo_error_clear(&t->resolve_error);
    if (!d) {
        t->resolve_error = *err;
        t->resolve_failed_ns = eo_now_ns();
    } else { /* so that info has something to show while the worker computes */
        (void)facts_ask(t->server, false, facts_kept, NULL, NULL);
    }
    waiters_fire(&t->waiters);
}

static void on_candidate(void *ctx)
{
    struct resolve *r = ctx;
    struct device *d = r->device;
    struct device_table *t = r->table;
    size_t candidate = r->candidate;
    if (d->state == DEVICE_STARTING) {
        waiters_add(&d->waiters, &r->waiter);
        return;
    }
    free(r);
    if (d->state == DEVICE_READY) {
        end_resolve(t, d, NULL);
    } else if (d->why.code == EO_E_NO_DEVICE && candidate + 1 < EO_COUNT_OF(backend_names)) {
        eo_log(EO_LOG_WARN, "device", "%s cannot be used, trying %s", d->name, backend_names[candidate + 1]);
        try_candidate(t, candidate + 1);
    } else {
        end_resolve(t, NULL, &d->why);
    }
}

static void try_candidate(struct device_table *t, size_t candidate)
{
    struct eo_error err = {0};
    struct device *d = NULL;
    struct resolve *r = calloc(1, sizeof(*r));
    if (!r || device_find(t->server, backend_names[candidate], &d, &err) != EO_OK) {
        if (err.code == EO_OK) {
            EO_RAISE(&err, EO_E_NO_MEMORY, "no memory to choose a device");
        }
        free(r);
        end_resolve(t, NULL, &err);
        return;
    }
    if (d->state == DEVICE_OFF || (d->state == DEVICE_FAILED && !device_resting(d))) {
        device_start(d);
    }
    *r = (struct resolve){.table = t, .device = d, .candidate = candidate};
    r->waiter = (struct tensor_waiter){.fn = on_candidate, .ctx = r};
    on_candidate(r);
}

int device_default(struct server *s, struct device **out, waiter_fn waiter, void *owner, struct eo_error *err)
{
    struct device_table *t = s->devices;
    *out = t->fallback;
    if (*out) {
        return EO_OK;
    }
    bool fresh =
        t->resolve_error.code != EO_OK && eo_now_ns() - t->resolve_failed_ns < (uint64_t)DEVICE_RETRY_MS * 1000000;
    if (!t->resolving && !fresh) {
        t->resolving = true;
        try_candidate(t, 0);
    }
    if (t->resolving) {
        waiters_add(&t->waiters, waiter(owner));
        return EO_OK;
    }
    *out = t->fallback;
    if (!*out) {
        if (err) {
            *err = t->resolve_error;
        }
        return t->resolve_error.code;
    }
    return EO_OK;
}

int device_choose(struct server *s, const char *name, struct device **out, waiter_fn waiter, void *owner,
                  struct eo_error *err)
{
    if (is_auto(name)) {
        return device_default(s, out, waiter, owner, err);
    }
    return device_find(s, name, out, err);
}
