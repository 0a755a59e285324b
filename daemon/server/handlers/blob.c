/* blob.* requests: data by content. Files are touched on other threads; chunks of one blob are put one after another.
 */
#include "daemon/jobs/blobs.h"
#include "daemon/server/blob_keeper.h"
#include "daemon/server/chunk.h"
#include "daemon/server/handlers.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ASKED = 64 };

/* ---- have ---- */

struct have_work {
    struct request *request;
    int n;
    char sha256[MAX_ASKED][65];
    bool have[MAX_ASKED];
    uint64_t received[MAX_ASKED];
};

static void have_work(void *ctx)
{
    struct have_work *w = ctx;
    for (int i = 0; i < w->n; i++) {
        uint64_t size = 0;
        w->have[i] = blobs_have(w->request->server->state_dir, w->sha256[i], &size, &w->received[i]);
    }
}

static void have_done(void *ctx)
{
    struct have_work *w = ctx;
    struct eo_bytes *b = request_result(w->request);
    eo_pack_map(b, 2);
    eo_pack_str(b, "have");
    eo_pack_array(b, (size_t)w->n);
    for (int i = 0; i < w->n; i++) {
        eo_pack_bool(b, w->have[i]);
    }
    eo_pack_str(b, "received");
    eo_pack_array(b, (size_t)w->n);
    for (int i = 0; i < w->n; i++) {
        eo_pack_u64(b, w->received[i]);
    }
    request_send(w->request);
    request_unref(w->request);
    free(w);
}

HANDLER(BLOB_HAVE)
{
    const struct eo_item *list = NULL;
    int rc = eo_need_array(r->params, "sha256", MAX_ASKED, &list, err);
    struct have_work *w = rc == EO_OK ? calloc(1, sizeof *w) : NULL;
    if (rc == EO_OK && w == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to look for blobs");
    }
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(list); i++) {
        const char *text = NULL;
        size_t length = 0;
        if (!eo_item_as_str(eo_item_at(list, i), &text, &length) || length != 64) {
            rc = EO_RAISE(err, EO_E_BAD_PARAMS, "entry %zu of sha256 is no SHA-256 in hex", i);
        } else {
            memcpy(w->sha256[w->n++], text, length);
        }
    }
    if (rc == EO_OK) {
        w->request = request_ref(r);
        rc = loop_work(r->server->loop, LOOP_FILES, have_work, have_done, w, err);
        if (rc != EO_OK) {
            request_unref(w->request);
        }
    }
    if (rc != EO_OK) {
        free(w);
    }
    return rc;
}

/* ---- put ---- */

struct put_work {
    struct put_work *next;
    struct request *request;
    char sha256[65];
    uint64_t size, offset;
    uint64_t received;
    bool complete, running;
    struct eo_error error;
};

/* All puts under way, in the order they came: one of each blob runs, later ones of the same blob wait. */
static struct put_work *puts_list;

static void start_puts(struct server *s);

static void put_work(void *ctx)
{
    struct put_work *w = ctx;
    const struct request *r = w->request; /* holds the bytes, so that they count against its connection meanwhile */
    blobs_put(r->server->state_dir, w->sha256, w->size, w->offset, r->payload, r->payload_size, &w->received,
              &w->complete, &w->error);
}

static void put_done(void *ctx)
{
    struct put_work *w = ctx;
    struct server *s = w->request->server;
    struct put_work **at = &puts_list;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    if (w->error.code != 0) {
        request_fail(w->request, &w->error);
    } else {
        struct eo_bytes *b = request_result(w->request);
        eo_pack_map(b, 2);
        eo_pack_kv_u64(b, "received", w->received);
        eo_pack_kv_bool(b, "complete", w->complete);
        request_send(w->request);
        if (w->complete) {
            blob_keeper_wake(s);
        }
    }
    request_unref(w->request);
    free(w);
    start_puts(s);
}

static bool earlier_of_same(const struct put_work *w)
{
    for (const struct put_work *e = puts_list; e != w; e = e->next) {
        if (strcmp(e->sha256, w->sha256) == 0) {
            return true;
        }
    }
    return false;
}

static void start_puts(struct server *s)
{
    for (struct put_work *w = puts_list; w != NULL; w = w->next) {
        if (!w->running && !earlier_of_same(w)) {
            w->running = true;
            struct eo_error err = {0};
            if (loop_work(s->loop, LOOP_FILES, put_work, put_done, w, &err) != EO_OK) {
                w->error = err;
                put_done(w);
                return; /* put_done went on with the rest */
            }
        }
    }
}

HANDLER(BLOB_PUT)
{
    struct put_work *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an upload");
    }
    int rc = eo_need_str(r->params, "sha256", w->sha256, sizeof w->sha256, err);
    if (rc == EO_OK && !blobs_name_valid(w->sha256)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "sha256 is no SHA-256 in lower-case hex");
    }
    if (rc == EO_OK) {
        rc = eo_need_u64(r->params, "size", INT64_MAX, &w->size, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_u64(r->params, "offset", INT64_MAX, &w->offset, err);
    }
    if (rc != EO_OK) {
        free(w);
        return rc;
    }
    w->request = request_ref(r);
    struct put_work **at = &puts_list;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = w;
    start_puts(r->server);
    return EO_OK;
}

/* ---- get ---- */

HANDLER(BLOB_GET)
{
    char sha256[65];
    char path[BLOBS_PATH];
    int rc = eo_need_str(r->params, "sha256", sha256, sizeof sha256, err);
    if (rc == EO_OK && !blobs_path(r->server->state_dir, sha256, path)) {
        rc = EO_RAISE(err, EO_E_BAD_PARAMS, "sha256 is no SHA-256 in lower-case hex");
    }
    return rc == EO_OK ? chunk_answer(r, path, -1, err) : rc;
}
