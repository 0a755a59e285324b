#include "daemon/server/facts.h"

#include "daemon/server/items.h"
#include "daemon/server/server.h"

#include <stdlib.h>

struct inquiry {
    struct tensor_waiter waiter;
    struct server *server;
    bool self_check;
    facts_fn fn;
    void *ctx;
};

static void answered(struct inquiry *q, const struct eo_error *err, const struct eo_item *result)
{
    facts_fn fn = q->fn;
    void *ctx = q->ctx;
    free(q);
    fn(ctx, err, result);
}

static void on_facts(struct device_task *t, const struct eo_error *err, const struct eo_item *result)
{
    struct inquiry *q = t->ctx;
    if (!err && !q->self_check) {
        struct eo_bytes *kept = &q->server->devices->facts;
        eo_bytes_clear(kept);
        item_pack(kept, result);
    }
    answered(q, err, result);
}

/* The last answer, when there is one; true: it was given. */
static bool answer_kept(struct inquiry *q)
{
    const struct eo_bytes *kept = &q->server->devices->facts;
    struct eo_doc doc;
    if (kept->size == 0 || kept->failed || eo_doc_parse(&doc, kept->data, kept->size, NULL) != EO_OK) {
        return false;
    }
    answered(q, NULL, doc.root);
    eo_doc_fini(&doc);
    return true;
}

static void have_device(void *ctx);

static struct tensor_waiter *inquiry_waiter(void *owner)
{
    struct inquiry *q = owner;
    q->waiter = (struct tensor_waiter){.fn = have_device, .ctx = q};
    return &q->waiter;
}

static void have_device(void *ctx)
{
    struct inquiry *q = ctx;
    struct eo_error err = {0};
    struct device *d = NULL;
    struct device_task *t = NULL;
    int code = device_default(q->server, &d, inquiry_waiter, q, &err);
    if (code == EO_OK && !d) {
        return; /* comes again */
    }
    if (code == EO_OK && !q->self_check && d->n_in_flight + d->n_queued > 0 && answer_kept(q)) {
        return;
    }
    if (code == EO_OK) {
        code = device_task_new(d, EO_MSG_TASK_FACTS, NULL, NULL, 0, NULL, 0, &t, &err);
    }
    if (code != EO_OK) {
        answered(q, &err, NULL);
        return;
    }
    eo_pack_kv_bool(&t->body, "self_check", q->self_check);
    t->n_keys = 1;
    t->done = on_facts;
    t->ctx = q;
    device_submit(t);
}

int facts_ask(struct server *s, bool self_check, facts_fn fn, void *ctx, struct eo_error *err)
{
    struct inquiry *q = calloc(1, sizeof(*q));
    if (!q) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to ask a worker");
    }
    *q = (struct inquiry){.server = s, .self_check = self_check, .fn = fn, .ctx = ctx};
    have_device(q);
    return EO_OK;
}
