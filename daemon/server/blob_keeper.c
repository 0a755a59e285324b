#include "daemon/server/blob_keeper.h"

#include "daemon/jobs/blobs_trim.h"
#include "daemon/server/jobs.h"
#include "daemon/server/models.h"
#include "daemon/server/server.h"
#include "proto/base/text.h"

#include <stdlib.h>

enum {
    PINNED_MAX = 64 << 20,
    DELAY_MS = 1000,     /* uploads come in groups: one look for all of them */
    AGAIN_MIN_MS = 60000 /* while too much is there that may not go yet */
};

struct blob_keeper {
    struct server *server;
    struct loop_timer *timer;
    bool busy, again;
    struct blobs_trim trim; /* the file thread's while busy */
    struct eo_bytes pinned;
    struct blobs_trimmed result;
    struct eo_error error;
};

static void trim_work(void *ctx)
{
    struct blob_keeper *k = ctx;
    blobs_trim(k->server->state_dir, &k->trim, &k->result, &k->error);
}

static void note(const struct blob_keeper *k)
{
    char removed[32];
    char kept[32];
    if (k->error.code != EO_OK) {
        eo_log_error("blobs", &k->error);
    } else if (k->result.n_removed > 0) {
        eo_log(EO_LOG_INFO, "blobs", "%llu uploads that were not used for the longest time are gone: %s; %s stay",
               (unsigned long long)k->result.n_removed,
               eo_format_bytes(k->result.removed_bytes, removed, sizeof removed),
               eo_format_bytes(k->result.kept_bytes, kept, sizeof kept));
    }
}

static void trim_done(void *ctx)
{
    struct blob_keeper *k = ctx;
    k->busy = false;
    note(k);
    eo_bytes_clear(&k->pinned);
    if (k->again) {
        blob_keeper_wake(k->server);
    } else if (k->error.code != EO_OK || k->result.kept_bytes > k->trim.limit_bytes) {
        loop_timer_start(k->timer, EO_MAX(k->trim.keep_ms, (uint64_t)AGAIN_MIN_MS), 0);
    }
}

static void on_timer(void *ctx)
{
    struct blob_keeper *k = ctx;
    struct server *s = k->server;
    struct jobs *js = jobs_of(s);
    const uint64_t limit_bytes = s->config->blob_limit_bytes;
    if (js == NULL) {
        return; /* the daemon ends: nobody could say what has to stay */
    }
    eo_bytes_clear(&k->pinned);
    jobs_pin_blobs(js, &k->pinned);
    models_pin_blobs(s, &k->pinned);
    k->trim = (struct blobs_trim){.limit_bytes = limit_bytes != 0 ? limit_bytes : UINT64_MAX,
                                  .keep_ms = s->config->blob_keep_ms,
                                  .pinned = &k->pinned};
    k->again = false;
    eo_error_clear(&k->error);
    if (!k->pinned.failed && loop_work(s->loop, LOOP_FILES, trim_work, trim_done, k, &k->error) == EO_OK) {
        k->busy = true;
    } else {
        loop_timer_start(k->timer, AGAIN_MIN_MS, 0);
    }
}

int blob_keeper_init(struct server *s, struct eo_error *err)
{
    struct blob_keeper *k = calloc(1, sizeof *k);
    if (k != NULL) {
        k->server = s;
        eo_bytes_init(&k->pinned, PINNED_MAX);
        k->timer = loop_timer_new(s->loop, on_timer, k);
        s->blob_keeper = k;
    }
    if (k == NULL || k->timer == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to keep uploads in bounds");
    }
    blob_keeper_wake(s);
    return EO_OK;
}

void blob_keeper_fini(struct server *s)
{
    if (s->blob_keeper != NULL) {
        loop_timer_free(s->blob_keeper->timer);
        eo_bytes_fini(&s->blob_keeper->pinned);
        free(s->blob_keeper);
        s->blob_keeper = NULL;
    }
}

void blob_keeper_wake(struct server *s)
{
    struct blob_keeper *k = s->blob_keeper;
    if (k->busy) {
        k->again = true;
    } else {
        loop_timer_start(k->timer, DELAY_MS, 0);
    }
}
