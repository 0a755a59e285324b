#include "daemon/server/peer_share.h"

#include "daemon/jobs/blobs.h"
#include "daemon/server/connection.h"
#include "daemon/server/link.h"
#include "daemon/server/loop.h"
#include "daemon/server/server.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

enum { CALL_MS = 60000 };

/* Strictly one step at a time: ask, then for each missing file read a chunk, send it, wait for the answer. Memory is
 * one chunk. */
struct peer_share {
    struct server *server;
    struct link *link; /* NULL: given up, only outstanding work is awaited */
    struct job_file_ref files[JOB_MAX_FILES];
    int n_files, at;
    uint64_t offset, sent;
    uint64_t received[JOB_MAX_FILES];
    bool have[JOB_MAX_FILES];
    peer_share_fn done;
    void *ctx;
    int outstanding; /* work, a reply that will call back, or the chunk while the link still has it */
    uint8_t *chunk;
    uint64_t chunk_size;
    struct eo_error read_error;
};

static void release(struct peer_share *p)
{
    if (p->outstanding == 0) {
        free(p->chunk);
        free(p);
    }
}

void peer_share_free(struct peer_share *p)
{
    if (p != NULL) {
        p->link = NULL;
        release(p);
    }
}

static void finish(struct peer_share *p, const struct eo_error *err)
{
    peer_share_fn done = p->done;
    void *ctx = p->ctx;
    const uint64_t sent = p->sent;
    p->link = NULL;
    release(p);
    done(ctx, err, sent);
}

static void next_chunk(struct peer_share *p);

static void on_put(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                   uint64_t payload_size)
{
    struct peer_share *p = ctx;
    bool complete = false;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    p->outstanding--;
    if (p->link == NULL) {
        release(p);
        return;
    }
    if (err != NULL) {
        finish(p, err);
        return;
    }
    eo_item_as_bool(eo_item_get(result, "complete"), &complete);
    p->offset += p->chunk_size;
    p->sent += p->chunk_size;
    if (complete) {
        p->at++;
        p->offset = p->at < p->n_files ? p->received[p->at] : 0;
    }
    next_chunk(p);
}

static void read_chunk(void *ctx)
{
    struct peer_share *p = ctx;
    uint64_t total = 0;
    blobs_get(p->server->state_dir, p->files[p->at].sha256, p->offset, p->chunk, EO_CHUNK_MAX, &p->chunk_size, &total,
              &p->read_error);
    p->files[p->at].size = total;
}

/* The link has let the chunk go: also after its answer timed out, bytes may wait to be sent. */
static void chunk_released(void *ctx)
{
    struct peer_share *p = ctx;
    p->outstanding--;
    if (p->link == NULL) {
        release(p);
    }
}

static void send_chunk(void *ctx)
{
    struct peer_share *p = ctx;
    struct eo_error err = p->read_error;
    p->outstanding--;
    if (p->link == NULL) {
        release(p);
        return;
    }
    if (err.code == 0) {
        const struct segment segment = {.data = p->chunk, .size = p->chunk_size, .release = chunk_released, .ctx = p};
        struct eo_bytes *b = link_request(p->link, EO_MSG_BLOB_PUT);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "sha256", p->files[p->at].sha256);
        eo_pack_kv_u64(b, "size", p->files[p->at].size);
        eo_pack_kv_u64(b, "offset", p->offset);
        p->outstanding += 2;
        if (link_send(p->link, &segment, 1, CALL_MS, on_put, p, &err) == EO_OK) {
            return;
        }
        p->outstanding--; /* the chunk was released */
    }
    finish(p, &err);
}

static void next_chunk(struct peer_share *p)
{
    struct eo_error err = {0};
    while (p->at < p->n_files && (p->have[p->at] || p->files[p->at].sha256[0] == '\0')) {
        p->at++;
        p->offset = p->at < p->n_files ? p->received[p->at] : 0;
    }
    if (p->at == p->n_files) {
        finish(p, NULL);
        return;
    }
    p->outstanding++;
    if (loop_work(p->server->loop, LOOP_FILES, read_chunk, send_chunk, p, &err) != EO_OK) {
        p->outstanding--;
        finish(p, &err);
    }
}

static void on_have(void *ctx, const struct eo_error *err, const struct eo_item *result, const uint8_t *payload,
                    uint64_t payload_size)
{
    struct peer_share *p = ctx;
    EO_UNUSED(payload);
    EO_UNUSED(payload_size);
    p->outstanding--;
    if (p->link == NULL) {
        release(p);
        return;
    }
    if (err != NULL) {
        finish(p, err);
        return;
    }
    for (int i = 0; i < p->n_files; i++) {
        eo_item_as_bool(eo_item_at(eo_item_get(result, "have"), (size_t)i), &p->have[i]);
        eo_item_as_u64(eo_item_at(eo_item_get(result, "received"), (size_t)i), &p->received[i]);
    }
    p->offset = p->received[0];
    next_chunk(p);
}

int peer_share_start(struct server *s, struct link *link, const struct job_file_ref *files, int n_files,
                     peer_share_fn done, void *ctx, struct peer_share **out, struct eo_error *err)
{
    struct peer_share *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->chunk = malloc(EO_CHUNK_MAX);
    }
    if (p == NULL || p->chunk == NULL) {
        free(p);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to share data");
    }
    p->server = s;
    p->link = link;
    p->n_files = n_files;
    memcpy(p->files, files, (size_t)n_files * sizeof *files);
    p->done = done;
    p->ctx = ctx;
    struct eo_bytes *b = link_request(link, EO_MSG_BLOB_HAVE);
    eo_pack_map(b, 1);
    eo_pack_str(b, "sha256");
    eo_pack_array(b, (size_t)n_files);
    for (int i = 0; i < n_files; i++) {
        eo_pack_str(b, files[i].sha256);
    }
    p->outstanding = 1;
    int rc = link_send(link, NULL, 0, CALL_MS, on_have, p, err);
    if (rc != EO_OK) {
        free(p->chunk);
        free(p);
        return rc;
    }
    *out = p;
    return EO_OK;
}
