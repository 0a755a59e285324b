#include "daemon/server/session.h"

#include "daemon/server/request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct session_table {
    struct server *server;
    struct session *first;
    uint32_t n;
};

/* ---- the table ---- */

int sessions_init(struct server *s, struct eo_error *err)
{
    s->sessions = calloc(1, sizeof(*s->sessions));
    if (!s->sessions) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for sessions");
    }
    s->sessions->server = s;
    return EO_OK;
}

void sessions_fini(struct server *s)
{
    if (!s->sessions) {
        return;
    }
    while (s->sessions->first) {
        session_close(s->sessions->first);
    }
    free(s->sessions);
    s->sessions = NULL;
}

uint32_t sessions_count(const struct server *s)
{
    return s->sessions->n;
}

/* ---- life ---- */

int random_hex(char *out, size_t n_bytes, struct eo_error *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[32];
    if (n_bytes > sizeof(bytes) || getrandom(bytes, n_bytes, 0) != (ssize_t)n_bytes) {
        return EO_RAISE(err, EO_E_INTERNAL, "the kernel gives no random numbers");
    }
    for (size_t i = 0; i < n_bytes; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n_bytes] = '\0';
    return EO_OK;
}

/* Takes as long whether or not they are equal. */
static bool equal_secret(const char a[SESSION_SECRET_SIZE], const char *b)
{
    if (strlen(b) != SESSION_SECRET_SIZE - 1) {
        return false;
    }
    volatile uint8_t differs = 0;
    for (size_t i = 0; i < SESSION_SECRET_SIZE - 1; i++) {
        differs = (uint8_t)(differs | (uint8_t)(a[i] ^ b[i]));
    }
    return differs == 0;
}

static void on_lease_end(void *ctx)
{
    struct session *x = ctx;
    eo_log(EO_LOG_DEBUG, "session", "%s: its lease ran out", x->id);
    session_close(x);
}

int session_new(struct server *s, struct session **out, struct eo_error *err)
{
    struct session *x = calloc(1, sizeof(*x));
    if (!x) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a session");
    }
    int code = random_hex(x->id, (SESSION_ID_SIZE - 1) / 2, err);
    if (code == EO_OK) {
        code = random_hex(x->secret, (SESSION_SECRET_SIZE - 1) / 2, err);
    }
    if (code == EO_OK && !(x->lease = loop_timer_new(s->loop, on_lease_end, x))) {
        code = EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a session");
    }
    if (code != EO_OK) {
        free(x);
        return code;
    }
    x->n_refs = 1;
    x->server = s;
    x->inbox_last = &x->inbox;
    for (int i = 0; i < DEVICE_MAX; i++) {
        x->queues[i].last = &x->queues[i].first;
    }
    x->next = s->sessions->first;
    x->link = &s->sessions->first;
    if (x->next) {
        x->next->link = &x->next;
    }
    s->sessions->first = x;
    s->sessions->n++;
    *out = x;
    return EO_OK;
}

struct session *session_ref(struct session *x)
{
    x->n_refs++;
    return x;
}

void session_unref(struct session *x)
{
    if (--x->n_refs == 0) {
        for (uint32_t i = 0; i < x->n_pages; i++) {
            free(x->pages[i]);
        }
        free(x->pages);
        free(x);
    }
}

int session_find(struct server *s, const char *id, const char *secret, struct session **out, struct eo_error *err)
{
    for (struct session *x = s->sessions->first; x; x = x->next) {
        if (strcmp(x->id, id) == 0 && equal_secret(x->secret, secret)) {
            *out = x;
            return EO_OK;
        }
    }
    EO_RAISE(err, EO_E_NO_SESSION, "there is no such session, or its secret is another");
    eo_error_hint(err,
                  "A session ends with session.close, or %llu ms after its last connection. Say hello without "
                  "session to begin a new one.",
                  (unsigned long long)s->config->session_lease_ms);
    return EO_E_NO_SESSION;
}

int session_attach(struct session *x, struct eo_error *err)
{
    if (x->n_connections >= x->server->config->session_connections) {
        return EO_RAISE(err, EO_E_QUOTA, "the session has %lu connections, no more may attach",
                        (unsigned long)x->n_connections);
    }
    x->n_connections++;
    loop_timer_stop(x->lease);
    return EO_OK;
}

void session_detach(struct session *x)
{
    x->n_connections--;
    if (x->closed || x->n_connections > 0) {
        return;
    }
    bool empty = x->n_tensors == 0 && x->n_plans == 0;
    if (empty || x->server->config->session_lease_ms == 0) {
        session_close(x);
    } else {
        loop_timer_start(x->lease, x->server->config->session_lease_ms, 0);
    }
}

static const struct slot *find_slot(const struct session *x, uint32_t number)
{
    const uint32_t page = number / SESSION_PAGE_SLOTS;
    return page < x->n_pages && x->pages[page] ? &x->pages[page][number % SESSION_PAGE_SLOTS] : NULL;
}

static void close_inbox(struct session *x)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_NO_SESSION, "the session was closed");
    while (x->inbox) {
        struct request *r = x->inbox;
        x->inbox = r->private_->next_inbox;
        request_fail(r, &err);
        request_unref(r);
    }
    x->inbox_last = &x->inbox;
    waiters_fire(&x->idle_waiters);
}

void session_close(struct session *x)
{
    if (x->closed) {
        return;
    }
    x->closed = true;
    *x->link = x->next;
    if (x->next) {
        x->next->link = x->link;
    }
    x->server->sessions->n--;
    loop_timer_free(x->lease);
    x->lease = NULL;
    close_inbox(x);
    device_forget(x);
    for (size_t i = 0; i < EO_COUNT_OF(x->plans); i++) {
        while (x->plans[i]) {
            session_drop_plan(x, x->plans[i]);
        }
    }
    for (uint32_t i = 0; i < x->n_pages * SESSION_PAGE_SLOTS; i++) {
        const struct slot *s = find_slot(x, i);
        if (s && s->tensor) {
            session_drop(x, (struct handle){.slot = i, .generation = s->generation});
        }
    }
    session_unref(x); /* the table's */
}

/* ---- handles ---- */

int handle_unpack(const struct session *x, const struct eo_item *it, const char *what, struct handle *out,
                  struct eo_error *err)
{
    uint64_t slot = 0, generation = 0;
    if (eo_item_kind(it) != EO_ITEM_ARRAY || eo_item_count(it) != 2 || !eo_item_as_u64(eo_item_at(it, 0), &slot) ||
        !eo_item_as_u64(eo_item_at(it, 1), &generation)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "%s is no handle [slot, generation]", what);
    }
    const uint64_t limit = x->server->config->session_handles;
    if (slot >= limit || generation == 0 || generation > UINT32_MAX) {
        return EO_RAISE(err, EO_E_BAD_HANDLE,
                        "%s [%llu, %llu] is out of range: slots are below %llu, generations "
                        "count from 1",
                        what, (unsigned long long)slot, (unsigned long long)generation, (unsigned long long)limit);
    }
    *out = (struct handle){.slot = (uint32_t)slot, .generation = (uint32_t)generation};
    return EO_OK;
}

int session_tensor(const struct session *x, struct handle h, struct tensor **out, struct eo_error *err)
{
    const struct slot *s = find_slot(x, h.slot);
    if (!s || !s->tensor || s->generation != h.generation) {
        EO_RAISE(err, EO_E_BAD_HANDLE, "handle [%lu, %lu] names no tensor", (unsigned long)h.slot,
                 (unsigned long)h.generation);
        if (s && s->generation >= h.generation) {
            eo_error_hint(err, "It was freed.");
        }
        return EO_E_BAD_HANDLE;
    }
    *out = s->tensor;
    return EO_OK;
}

int session_check_new(const struct session *x, struct handle h, struct eo_error *err)
{
    const struct slot *s = find_slot(x, h.slot);
    if (s && s->tensor) {
        return EO_RAISE(err, EO_E_BAD_HANDLE, "slot %lu is in use as [%lu, %lu]: free it first", (unsigned long)h.slot,
                        (unsigned long)h.slot, (unsigned long)s->generation);
    }
    if (s && s->generation >= h.generation) {
        return EO_RAISE(err, EO_E_BAD_HANDLE, "handle [%lu, %lu] was used before: the next generation is %lu",
                        (unsigned long)h.slot, (unsigned long)h.generation, (unsigned long)s->generation + 1);
    }
    if (x->n_tensors >= x->server->config->session_handles) {
        return EO_RAISE(err, EO_E_QUOTA, "the session has %lu tensors, no more may be made",
                        (unsigned long)x->n_tensors);
    }
    return EO_OK;
}

/* The slot, made when it was never touched. */
static int make_slot(struct session *x, uint32_t number, struct slot **out, struct eo_error *err)
{
    const uint32_t page = number / SESSION_PAGE_SLOTS;
    if (page >= x->n_pages) {
        uint32_t n = (uint32_t)((x->server->config->session_handles + SESSION_PAGE_SLOTS - 1) / SESSION_PAGE_SLOTS);
        n = EO_MAX(n, page + 1);
        struct slot **pages = realloc(x->pages, n * sizeof(*pages));
        if (!pages) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for handles");
        }
        memset(pages + x->n_pages, 0, (n - x->n_pages) * sizeof(*pages));
        x->pages = pages;
        x->n_pages = n;
    }
    if (!x->pages[page] && !(x->pages[page] = calloc(SESSION_PAGE_SLOTS, sizeof(struct slot)))) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for handles");
    }
    *out = &x->pages[page][number % SESSION_PAGE_SLOTS];
    return EO_OK;
}

int session_put(struct session *x, struct handle h, struct tensor *t, struct eo_error *err)
{
    struct slot *s = NULL;
    int code = session_check_new(x, h, err);
    if (code == EO_OK) {
        code = make_slot(x, h.slot, &s, err);
    }
    if (code != EO_OK) {
        tensor_unref(t);
        return code;
    }
    *s = (struct slot){.tensor = t, .generation = h.generation};
    x->n_tensors++;
    return EO_OK;
}

bool session_drop(struct session *x, struct handle h)
{
    struct tensor *t = NULL;
    if (session_tensor(x, h, &t, NULL) != EO_OK) {
        return false;
    }
    struct slot *s = NULL;
    (void)make_slot(x, h.slot, &s, NULL); /* is there: session_tensor found it */
    s->tensor = NULL;
    x->n_tensors--;
    tensor_unref(t);
    return true;
}

static void poison_one(struct session *x, const struct eo_item *it, struct poison *p)
{
    struct handle h;
    if (handle_unpack(x, it, "output", &h, NULL) == EO_OK && session_check_new(x, h, NULL) == EO_OK) {
        struct tensor *t = tensor_new_poisoned(x, p);
        if (t) {
            (void)session_put(x, h, t, NULL);
        }
    }
}

void session_poison_outputs(struct request *r, const struct eo_error *err)
{
    struct session *x = r->session;
    if (x->closed || !r->schema) {
        return;
    }
    enum eo_message m = r->schema->message;
    const char *key = m == EO_MSG_TENSOR_CREATE ? "handle"
                      : m == EO_MSG_OP_RUN      ? "outputs"
                      : m == EO_MSG_PLAN_RUN    ? "fetches"
                                                : NULL;
    struct poison *cause = r->private_->cause;
    struct poison *p = !key ? NULL : cause ? poison_ref(cause) : poison_new(err);
    if (!p) {
        return;
    }
    const struct eo_item *it = eo_item_get(r->params, key);
    if (m == EO_MSG_TENSOR_CREATE) {
        poison_one(x, it, p);
    } else if (m == EO_MSG_OP_RUN) {
        for (size_t i = 0; i < eo_item_count(it); i++) {
            poison_one(x, eo_item_at(it, i), p);
        }
    } else {
        for (size_t i = 0; i < eo_item_count(it); i++) {
            const struct eo_item *name = NULL, *value = NULL;
            eo_item_pair(it, i, &name, &value);
            poison_one(x, value, p);
        }
    }
    poison_unref(p);
}
